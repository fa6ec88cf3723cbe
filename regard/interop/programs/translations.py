"""Translate each line of standard input, always by the likeliest next token: python run.py < texts

It needs this folder, onnxruntime, tokenizers and numpy.
"""

import json
import sys
from pathlib import Path

import numpy as np
from onnxruntime import InferenceSession
from tokenizers import Tokenizer

folder = Path(__file__).parent
card = json.loads((folder / "regard.json").read_text(encoding="utf-8"))
source = Tokenizer.from_file(str(folder / "source.tokenizer.json"))
target = Tokenizer.from_file(str(folder / "target.tokenizer.json"))
reader = InferenceSession(str(folder / "reader.onnx"))
writer = InferenceSession(str(folder / "writer.onnx"))


def step(tokens, given, state):
    """Scores of the token that follows, and the state after the last token, if one is kept."""
    if not state:
        places = {"tokens": np.array([tokens], np.int64), "places": np.array([len(tokens) - 1])}
        return writer.run(["scores"], {**places, **given})[0][0, 0], state
    last = {"tokens": np.array([tokens[-1:]], np.int64)}
    scores, *after = writer.run(None, {**last, **given, **state})
    return scores[0, 0], dict(zip(state, after, strict=True))


def translate(line):
    read = source.encode(line).ids[: card["longest"]]
    given = {"source": np.array([[*read, card["end"]]], np.int64)}
    memory, *first = reader.run(None, {"tokens": given["source"]})
    given["memory"], state = memory, dict(zip(card["state"], first, strict=True))
    said = [card["start"]]
    for _ in range(max(1, int(card["factor"] * len(read)) + card["extra"])):
        scores, state = step(said, given, state)
        scores[card["never"]] = -np.inf
        said.append(int(scores.argmax()))
        if said[-1] == card["end"]:
            break
    return target.decode([token for token in said[1:] if token != card["end"]])


for stream in (sys.stdin, sys.stdout):
    stream.reconfigure(encoding="utf-8")
for line in sys.stdin:
    said = translate(line.rstrip("\n")) if line.strip() else ""
    print(said.replace("\n", " "), flush=True)
