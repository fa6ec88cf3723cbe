"""The conversation with the harness; stands alone, since it runs in other environments, too."""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

OPTIONS: dict[str, Any] = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}


def unable(reason: str) -> None:
    """Tell the harness why this contestant cannot take part, and stop."""
    print(json.dumps({"unable": reason}), flush=True)
    sys.exit(0)


def serve(work: Callable[[], int], **about: Any) -> None:
    """Answer each line from the harness by one round of `work`, which says what it counted."""
    say = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is not an answer
    work()  # warm-up
    print(json.dumps({"ready": about}), file=say, flush=True)
    for _ in sys.stdin:
        cpu, start = time.process_time(), time.perf_counter()
        tokens = work()
        seconds = time.perf_counter() - start
        answer = {
            "tokens": tokens,
            "seconds": seconds,
            "cpu_seconds": time.process_time() - cpu,
            "peak_megabytes": peak(),
        }
        print(json.dumps(answer), file=say, flush=True)


def peak() -> float:
    """The most memory that this process ever held; 0 where the system does not say (Windows)."""
    try:
        import resource
    except ImportError:
        return 0.0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (2**20 if sys.platform == "darwin" else 2**10)


def batches() -> list[dict[str, Any]]:
    """The padded batches that every contestant trains on."""
    import numpy

    loaded = numpy.load(OPTIONS["batches"], allow_pickle=False)
    found: list[dict[str, Any]] = [{} for _ in range(int(loaded["count"]))]
    for name in loaded.files:
        number, _, field = name.partition(".")
        if field:
            found[int(number)][field] = loaded[name]
    return found
