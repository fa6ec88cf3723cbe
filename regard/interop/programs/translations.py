"""Translate each line, always by the likeliest next token: python -X utf8 run.py < texts.txt"""

from pathlib import Path

from onnxruntime import InferenceSession
from tokenizers import Tokenizer

folder = Path(__file__).parent
source = Tokenizer.from_file(str(folder / "source.json"))
target = Tokenizer.from_file(str(folder / "target.json"))
model = InferenceSession(folder / "model.onnx")
for line in open(0, encoding="utf-8"):  # standard input
    tokens = source.encode(line.rstrip("\n")).ids
    [written] = model.run(["written"], {"tokens": [tokens]})
    print(target.decode([*written]).replace("\n", " "), flush=True)
