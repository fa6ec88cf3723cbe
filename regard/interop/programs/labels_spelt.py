"""Label each line of standard input: the label, or several, and how probable each is.

It needs this folder, onnxruntime, tokenizers and numpy: python run.py < texts.txt
"""

import json
import sys
from pathlib import Path

import numpy as np
from onnxruntime import InferenceSession
from tokenizers import Tokenizer

folder = Path(__file__).parent
card = json.loads((folder / "regard.json").read_text(encoding="utf-8"))
labels = json.loads((folder / "labels.json").read_text(encoding="utf-8"))
tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
characters = Tokenizer.from_file(str(folder / "characters.tokenizer.json"))
session = InferenceSession(str(folder / "model.onnx"))


def spell(words):
    """The numbers of characters, 0 after a word's last; of a long word, its beginning and end."""
    half = card["letters"] // 2
    short = (word if len(word) <= 2 * half else word[:half] + word[-half:] for word in words)
    rows = [characters.encode(word).ids for word in short]
    widest = max(map(len, rows))
    return np.array([[row + [0] * (widest - len(row)) for row in rows]], np.int64)


def probabilities(text):
    folded = tokenizer.normalizer.normalize_str(text) if tokenizer.normalizer else text
    words = [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(folded)]
    tokens, words = tokenizer.encode(text).ids[: card["longest"]], words[: card["longest"]]
    given = {"tokens": np.array([[card["start"], *tokens, card["end"]]], np.int64)}
    given["characters"] = spell(["", *words, ""])
    return session.run(["probabilities"], given)[0][0]  # one for each of `labels`


for stream in (sys.stdin, sys.stdout):
    stream.reconfigure(encoding="utf-8")
for line in sys.stdin:
    found = probabilities(line.rstrip("\n")) if line.strip() else np.zeros(len(labels))
    chosen = found > 0.5 if card["several"] else (found == found.max()) & (found > 0)
    names = [labels[n] for n in np.flatnonzero(chosen)]
    print(card["separator"].join(names), *map("{:.6f}".format, found[chosen]), sep="\t", flush=True)
