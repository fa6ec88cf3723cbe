"""Tag the words of each line, by their characters, too: python -X utf8 run.py < sentences.txt"""

from pathlib import Path

from onnxruntime import InferenceSession
from tokenizers import Tokenizer

folder = Path(__file__).parent
tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
characters = Tokenizer.from_file(str(folder / "characters.json"))
model = InferenceSession(folder / "model.onnx")
for line in open(0, encoding="utf-8"):  # standard input
    read = tokenizer.encode(line.split(), is_pretokenized=True)
    words = [word.ids for word in characters.encode_batch(line.split())]
    given = {"tokens": read.ids, "words": read.word_ids, "characters": words}
    print(*model.run(["tags"], given)[0] if words else [], flush=True)
