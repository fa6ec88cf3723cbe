"""Tag the words of each line: python -X utf8 run.py < sentences.txt"""

from pathlib import Path

from onnxruntime import InferenceSession
from tokenizers import Tokenizer

folder = Path(__file__).parent
tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
model = InferenceSession(folder / "model.onnx")
for line in open(0, encoding="utf-8"):  # standard input
    read = tokenizer.encode(line.split(), is_pretokenized=True)
    given = {"tokens": read.ids, "words": read.word_ids}
    print(*model.run(["tags"], given)[0] if read.ids else [], flush=True)
