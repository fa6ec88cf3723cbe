"""Label each line: python -X utf8 run.py < texts.txt"""

from pathlib import Path

from onnxruntime import InferenceSession
from tokenizers import Tokenizer

folder = Path(__file__).parent
tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
model = InferenceSession(folder / "model.onnx")
for line in open(0, encoding="utf-8"):  # standard input
    given = {"tokens": [tokenizer.encode(line.rstrip("\n")).ids]}
    labels, chosen, probabilities = model.run(["labels", "chosen", "probabilities"], given)
    print(",".join(labels[chosen[0]]), *probabilities[chosen], sep="\t", flush=True)
