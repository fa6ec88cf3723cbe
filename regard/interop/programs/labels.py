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
session = InferenceSession(str(folder / "model.onnx"))


def probabilities(text):
    tokens = tokenizer.encode(text).ids[: card["longest"]]
    given = {"tokens": np.array([[card["start"], *tokens, card["end"]]], np.int64)}
    return session.run(["probabilities"], given)[0][0]  # one for each of `labels`


for stream in (sys.stdin, sys.stdout):
    stream.reconfigure(encoding="utf-8")
for line in sys.stdin:
    found = probabilities(line.rstrip("\n")) if line.strip() else np.zeros(len(labels))
    chosen = found > 0.5 if card["several"] else (found == found.max()) & (found > 0)
    names = [labels[n] for n in np.flatnonzero(chosen)]
    print(card["separator"].join(names), *map("{:.6f}".format, found[chosen]), sep="\t", flush=True)
