"""Continue each line of standard input: python run.py [TEMPERATURE] < prompts.txt

At temperature 0 the likeliest token is always taken. It needs this folder, onnxruntime, tokenizers
and numpy.
"""

import json
import sys
from pathlib import Path

import numpy as np
from onnxruntime import InferenceSession
from tokenizers import Tokenizer

folder = Path(__file__).parent
card = json.loads((folder / "regard.json").read_text(encoding="utf-8"))
temperature = float(sys.argv[1]) if len(sys.argv) > 1 else card["temperature"]
tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
writer = InferenceSession(str(folder / "writer.onnx"))
dice = np.random.default_rng(1)


def step(tokens, state):
    """Scores of the token that follows, and the state after the last token, if one is kept."""
    if not state:
        given = {"tokens": np.array([tokens], np.int64), "places": np.array([len(tokens) - 1])}
        return writer.run(["scores"], given)[0][0, 0], state
    scores, *after = writer.run(None, {"tokens": np.array([tokens[-1:]], np.int64), **state})
    return scores[0, 0], dict(zip(state, after, strict=True))


def choose(scores):
    scores[card["never"]] = -np.inf
    if not temperature:
        return int(scores.argmax())
    chances = np.exp((scores - scores.max()).astype(float) / temperature)
    return int(dice.choice(len(chances), p=chances / chances.sum()))


def follow(prompt):
    """The tokens that follow others."""
    window, said = card["window"], []
    tokens = [card["before"], *prompt][-(window // 2 + 1) if window else 0 :]
    state = {name: np.zeros((1, size), np.float32) for name, size in card["state"].items()}
    for n in range(1, len(tokens) if state else 0):
        _, state = step(tokens[:n], state)
    while len(said) < card["length"]:
        scores, state = step(tokens, state)
        token = choose(scores)
        if card["ends"] and token == card["end"]:
            break
        said.append(token)
        tokens.append(token)
        if window and len(tokens) > window:
            tokens = tokens[-(window // 2 + 1) :]
    return said


def text(tokens):
    """Lines end by tokens of their own."""
    lines = [[]]
    for token in tokens:
        lines.append([]) if token == card["end"] else lines[-1].append(token)
    return "\n".join(tokenizer.decode(line) for line in lines)


for stream in (sys.stdin, sys.stdout):
    stream.reconfigure(encoding="utf-8")
for line in sys.stdin:
    given = tokenizer.encode(line.rstrip("\n")).ids if line.rstrip("\n") else []
    print(text([*given, *follow(given)])[len(text(given)) :].replace("\n", " "), flush=True)
