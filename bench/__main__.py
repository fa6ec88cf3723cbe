"""python -m bench NAME [--quick]: regard beside its peers, in one run.

Rounds are interleaved; a table gives best and median of each; the last line is JSON. The exit code
is 0 if all took part, 1 if something was missing, 2 if the command was wrong.
"""

import argparse
import difflib
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from bench import (
    bag,
    bert,
    busy,
    byte_ngrams,
    ctc,
    decoding,
    defaults,
    gpt,
    labels,
    large,
    machine,
    ngrams,
    plan,
    preparing,
    processes,
    recurrent,
    scaling,
    serving,
    tags,
    training,
    vit,
    word2vec,
)
from regard.errors import RecipeError, UserError
from regard.recipe import checked
from regard.train.device import cores

Result = dict[str, Any]
BENCHMARKS: dict[str, Callable[[argparse.Namespace], Result]] = {
    "train": training.tiny,
    "base": training.base,
    "memory": training.memory,
    "measures": training.measures,
    "lstm": recurrent.lstm,
    "ctc": ctc.train,
    "gpt": gpt.train,
    "bert": bert.train,
    "vit": vit.train,
    "generate": gpt.generate,
    "ngrams": ngrams.ngrams,
    "byte_ngrams": byte_ngrams.byte_ngrams,
    "scaling": scaling.scaling,
    "busy": busy.busy,
    "decode": decoding.decode,
    "latency": decoding.latency,
    "serve": serving.serve,
    "start": preparing.start,
    "prepare": preparing.prepare,
    "defaults": defaults.defaults,
    "word2vec": word2vec.word2vec,
    "labels": labels.labels,
    "tags": tags.tags,
    "bag": bag.bag,
    "plan": plan.plan,
    "large": large.large,
    "processes": processes.processes,
}


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"bench: {message}; `python -m bench --help` shows what there is\n")


def main(arguments: Sequence[str] | None = None) -> None:
    options = read(arguments)
    try:
        about = machine.describe(options.threads)
        machine.show(about)
        result = BENCHMARKS[options.name](options)
    except UserError as error:
        _stop(str(error), 2 if isinstance(error, RecipeError) else 1)
    except KeyboardInterrupt:
        _stop("interrupted", 130)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _stop(f"{where}{error.strerror or error}", 1)
    print(checked.written({"benchmark": options.name, "machine": about, **result}))
    if not result.get("complete", True):
        sys.exit(1)


def read(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line, checked."""
    about = argparse.RawDescriptionHelpFormatter
    parser = Parser(prog="python -m bench", description=__doc__, formatter_class=about)
    parser.add_argument("name", metavar="NAME", help=", ".join(sorted(BENCHMARKS)))
    parser.add_argument("--quick", action="store_true", help="an answer within 5 minutes")
    parser.add_argument("--threads", type=int, default=cores(), help="for all alike")
    parser.add_argument(
        "--data",
        help="a folder with multi30k in it (lstm: and imdb; word2vec: imdb, wordsim); "
        "the catalogue's otherwise",
    )
    parser.add_argument("--recipe", help="byte_ngrams: of a language model, if not imdb-gpt")
    parser.add_argument("--run", help="decode, latency, serve: a run of the multi30k recipe")
    parser.add_argument("--old", help="prepare: a checkout of an earlier version to compare with")
    parser.add_argument(
        "--only",
        help="defaults: names of data sets, labels, tags: ways to begin, plan: recipes, word2vec: "
        "speed, quality; with commas between",
    )
    parser.add_argument(
        "--runs", help="defaults, labels, tags: where the runs go; runs/NAME otherwise"
    )
    parser.add_argument(
        "--from", dest="base", default="runs", help="labels, tags: the runs begun from"
    )
    parser.add_argument(
        "--to", default="docs/images", help="scaling, labels: where the picture goes"
    )
    parser.add_argument(
        "--recorded", action="store_true", help="labels: believe what was measured and recorded"
    )
    parser.add_argument(
        "--whole", action="store_true", help="labels: the main figures on the whole test, too"
    )
    options = parser.parse_args(arguments)
    options.runs = options.runs or f"runs/{options.name}"
    if options.name not in BENCHMARKS:
        near = difflib.get_close_matches(options.name, BENCHMARKS, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(BENCHMARKS))}"
        parser.exit(2, f"bench: there is no benchmark {options.name!r}; {hint}\n")
    if options.threads < 1:
        parser.exit(2, f"bench: --threads {options.threads}: at least 1 is needed\n")
    return options


def _stop(reason: str, code: int) -> NoReturn:
    print(f"bench: {reason}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
