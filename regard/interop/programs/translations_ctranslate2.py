"""Translate each line: python -X utf8 run.py < texts.txt"""

from pathlib import Path

from ctranslate2 import Translator
from tokenizers import Tokenizer

folder = Path(__file__).parent
source, target = (Tokenizer.from_file(f"{folder}/{x}.json") for x in ("source", "target"))
translator = Translator(str(folder))
search = {"beam_size": 5}
for line in open(0, encoding="utf-8"):  # standard input
    tokens = [str(token) for token in source.encode(line.rstrip("\n")).ids]
    search["max_decoding_length"] = int(1.5 * len(tokens)) + 8
    [found] = translator.translate_batch([[*tokens, "2"] if tokens else []], **search)
    print(target.decode([int(token) for token in found.hypotheses[0]]).replace("\n", " "))
