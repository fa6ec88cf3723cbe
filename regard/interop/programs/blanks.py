"""Words for each [MASK] of each line: python -X utf8 run.py < texts.txt"""

from pathlib import Path

from onnxruntime import InferenceSession
from tokenizers import Tokenizer

folder = Path(__file__).parent
tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
model = InferenceSession(folder / "model.onnx")
for line in open(0, encoding="utf-8"):  # standard input
    given = {"tokens": [tokenizer.encode(" " + line.rstrip("\n")).ids]}
    words, chances = model.run(["words", "probabilities"], given)
    blanks = [zip(*each, strict=True) for each in zip(words, chances, strict=True)]
    ranked = [", ".join(f"{word} {chance:.3f}" for word, chance in blank) for blank in blanks]
    print(" | ".join(ranked), flush=True)
