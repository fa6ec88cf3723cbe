"""Label each line, by the characters of its words, too: python -X utf8 run.py < texts.txt"""

from pathlib import Path

from onnxruntime import InferenceSession
from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file(str(Path(__file__).with_name("tokenizer.json")))
characters = Tokenizer.from_file(str(Path(__file__).with_name("characters.json")))
model = InferenceSession(Path(__file__).with_name("model.onnx"))
for line in open(0, encoding="utf-8"):  # standard input
    read = tokenizer.encode(line.rstrip("\n"))
    words = characters.encode_batch([line[start:end] for start, end in read.offsets])
    given = {"tokens": [read.ids], "characters": [[word.ids for word in words]]}
    labels, chosen, probabilities = model.run(["labels", "chosen", "probabilities"], given)
    print(",".join(labels[chosen[0]]), *probabilities[chosen], sep="\t", flush=True)
