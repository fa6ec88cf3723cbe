"""Continue each line: python -X utf8 run.py [TEMPERATURE] < prompts.txt (0: the likeliest token)"""

import sys
from pathlib import Path

from onnxruntime import InferenceSession
from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file(str(Path(__file__).with_name("tokenizer.json")))
model = InferenceSession(Path(__file__).with_name("model.onnx"))
temperature = float(sys.argv[1]) if sys.argv[1:] else 1.0
for line in sys.stdin:
    start, *prompt = tokenizer.encode(line.rstrip("\n")).ids
    [written] = model.run(["written"], {"tokens": [[start, *prompt]], "temperature": [temperature]})
    text = tokenizer.decode([*prompt, *written])
    print(text[len(tokenizer.decode(prompt)) :].replace("\n", " "), flush=True)
