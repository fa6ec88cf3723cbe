"""Tag the words of each line of standard input: as many tags as words, in one line.

It needs this folder, onnxruntime, tokenizers and numpy: python run.py < sentences.txt
"""

import json
import sys
from pathlib import Path

import numpy as np
from onnxruntime import InferenceSession
from tokenizers import Tokenizer

folder = Path(__file__).parent
card = json.loads((folder / "regard.json").read_text(encoding="utf-8"))
tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
session = InferenceSession(str(folder / "model.onnx"))
spelt = "characters" in [each.name for each in session.get_inputs()]
if spelt:
    characters = Tokenizer.from_file(str(folder / "characters.tokenizer.json"))


def spell(words):
    """The numbers of characters, 0 after a word's last; of a long word, its beginning and end."""
    half = card["letters"] // 2
    short = (word if len(word) <= 2 * half else word[:half] + word[-half:] for word in words)
    rows = [characters.encode(word).ids for word in short]
    widest = max(map(len, rows))
    return np.array([[row + [0] * (widest - len(row)) for row in rows]], np.int64)


def scores(words):
    """Of each word and each tag: those of the word's first token."""
    pieces = [tokenizer.encode(word).ids[: 1 if spelt else card["longest"]] for word in words]
    pieces = [piece or [card["unknown"]] for piece in pieces]
    given = {"tokens": np.array([[token for piece in pieces for token in piece]], np.int64)}
    if spelt:
        given["characters"] = spell(words)
    first = np.cumsum([0, *map(len, pieces)])[:-1]
    return session.run(["scores"], given)[0][0][first]


def best(scores):
    """The best sequence of tags (Viterbi); without a table of neighbours, the best of each word."""
    field = {name: np.array(value) for name, value in card["neighbours"].items()}
    if not field:
        return scores.argmax(1)
    value, back = field["start"] + scores[0], []
    for row in scores[1:]:
        table = value[:, None] + field["transitions"]
        back.append(table.argmax(0))
        value = table.max(0) + row
    found = [(value + field["end"]).argmax()]
    for came_from in reversed(back):
        found.append(came_from[found[-1]])
    return found[::-1]


def tags(words):
    if not card["tags"]:  # numbers
        found = card["mean"] + card["deviation"] * scores(words)[:, 0].astype(float)
        return [f"{value:.6g}" for value in found]
    return [card["tags"][n] for n in best(scores(words))]


def parts(words):
    """Runs of words that are short enough to be read at once."""
    part, length = [], 0
    for word in words:
        size = 1 if spelt else max(1, len(tokenizer.encode(word).ids))
        if part and length + size > card["longest"]:
            yield part
            part, length = [], 0
        part, length = [*part, word], length + size
    yield from [part] if part else []


for stream in (sys.stdin, sys.stdout):
    stream.reconfigure(encoding="utf-8")
for line in sys.stdin:
    words = line.split() if card["unit"] == "words" else list("".join(line.split()))
    print(" ".join(tag for part in parts(words) for tag in tags(part)), flush=True)
