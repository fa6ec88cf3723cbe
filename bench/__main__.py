"""python -m bench NAME [--quick]: regard beside its peers, in one run.

Rounds are interleaved; a table gives best and median of each; the last line is JSON.
"""

import argparse
import json
import os
from collections.abc import Callable
from typing import Any

from bench import decoding, machine, ngrams, preparing, recurrent, scaling, training

Result = dict[str, Any]
BENCHMARKS: dict[str, Callable[[argparse.Namespace], Result]] = {
    "train": training.tiny,
    "base": training.base,
    "memory": training.memory,
    "measures": training.measures,
    "lstm": recurrent.lstm,
    "ngrams": ngrams.ngrams,
    "scaling": scaling.scaling,
    "decode": decoding.decode,
    "latency": decoding.latency,
    "start": preparing.start,
    "prepare": preparing.prepare,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("name", choices=sorted(BENCHMARKS))
    parser.add_argument("--quick", action="store_true", help="an answer within 5 minutes")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument(
        "--data", help="a folder with multi30k (lstm: and imdb) in it; the catalogue's otherwise"
    )
    parser.add_argument("--run", help="decode, latency: a run of the multi30k recipe")
    parser.add_argument("--to", default="docs/images", help="scaling: where the picture goes")
    options = parser.parse_args()
    about = machine.describe(options.threads)
    for name, value in about.items():
        print(f"{name:>14}  {value}")
    result = BENCHMARKS[options.name](options)
    print(json.dumps({"benchmark": options.name, "machine": about, **result}))


if __name__ == "__main__":
    main()
