"""fastText's classifier on files of its own form; how long it took, how often it is right.

Processor time is that of reading, counting and learning, as fastText does all of it at once.
"""

import json
import time

import fasttext
from protocol import OPTIONS

cpu, start = time.process_time(), time.perf_counter()
model = fasttext.train_supervised(OPTIONS["train"], **OPTIONS["settings"])
seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
count, precision, _ = model.test(OPTIONS["test"])
answer = {"seconds": seconds, "cpu_seconds": cpu, "accuracy": 100 * precision, "count": count}
print(json.dumps(answer))
