"""regard's word2vec beside gensim's: the same text, settings and threads, negatives for each pair.

Speed is that of rounds over a part of imdb's reviews, with the vocabulary of all, on one thread and
on as many as there are; gensim takes part in both ways in which it reads. Quality is that of whole
trainings with three seeds, in turns, whose vectors one program judges (regard/word2vec/judging.py).
"""

import argparse
import itertools
import json
import subprocess
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from bench.batches import folder_of
from bench.peers import HERE, HOME, Contestant, Unavailable, python, race
from bench.table import compare
from regard.data.readers import Report
from regard.data.tokenizers import Config, Tokenizer
from regard.errors import UserError
from regard.metrics.seeds import apart
from regard.word2vec.corpus import Source
from regard.word2vec.judging import Agreement, judge
from regard.word2vec.space import Space

PARTS = ("train.tsv.gz", "test.tsv.gz", "unsup.txt.gz")
TESTS = {
    "WordSim-353": "wordsim353.tsv",
    "SimLex-999": "simlex999.txt",
    "analogies": "questions-words.txt",
}
SETTINGS = {
    "model": "skip-gram", "dim": 100, "window": 5, "negatives": 5, "subsample": 1e-3,
    "min_frequency": 5, "epochs": 5, "learning_rate": 0.025, "split": "whitespace",
    "lowercase": False,
}  # fmt: skip
FORMS = ("corpus_file", "sentences")
HALVES = ("speed", "quality")
SEEDS = (1, 2, 3)
PLACE = HOME / "word2vec"


def word2vec(options: argparse.Namespace) -> dict[str, Any]:
    """Speed on one thread and on all, then quality; `--only` one of them."""
    wanted = options.only.split(",") if options.only else HALVES
    for half in wanted:
        if half not in HALVES:
            raise UserError(f"--only {half}: there are {', '.join(HALVES)}")
    text, part, lines, part_lines = _texts(options)
    common = {
        "settings": SETTINGS, "text": str(text), "part": str(part), "lines": part_lines,
        "all_lines": lines, "seed": 1,
    }  # fmt: skip
    speed, fastest = {}, FORMS[0]
    for threads in dict.fromkeys((1, options.threads)) if "speed" in wanted else ():
        print(f"\n{threads} thread{'s' * (threads > 1)}")
        speed[str(threads)] = found = _speed(options, common | {"threads": threads})
        rates = {form: found["figures"].get(f"gensim, {form}", {}).get("best", 0) for form in FORMS}
        fastest = max(FORMS, key=rates.__getitem__)
    quality: dict[str, Any] = {"complete": True}
    if "quality" in wanted:
        quality = _quality(options, common | {"threads": options.threads, "form": fastest})
    ratios = {
        f"{peer}, {threads} threads": ratio
        for threads, found in speed.items()
        for peer, ratio in found["ratio"].items()
    }
    complete = quality["complete"] and all(found["complete"] for found in speed.values())
    return {"ratio": ratios, "speed": speed, "quality": quality, "complete": complete}


def _texts(options: argparse.Namespace) -> tuple[Path, Path, int, int]:
    """imdb's reviews, words and marks apart, one a line: all (or 20,000) of them, and a part."""
    most = 20_000 if options.quick else None
    PLACE.mkdir(parents=True, exist_ok=True)
    text, part = PLACE / f"text-{most or 'all'}.txt", PLACE / f"part-{most or 'all'}.txt"
    few = 2_000 if options.quick else 10_000
    if not text.exists() or not part.exists():
        folder = folder_of(options, "imdb")
        source = Source([folder / name for name in PARTS])
        words = Tokenizer.train(Config(kind="word", split="punctuation", lowercase=True), ["a"])
        writing = text.with_suffix(".part")
        with writing.open("w", encoding="utf-8", newline="\n") as file:
            for line in itertools.islice(source.lines(Report()), most):
                file.write(" ".join(words.words(line)) + "\n")
        with writing.open(encoding="utf-8") as file:
            part.write_text("".join(itertools.islice(file, few)), encoding="utf-8", newline="\n")
        writing.replace(text)
    with text.open("rb") as raw:
        return text, part, sum(1 for _ in raw), few


def _speed(options: argparse.Namespace, common: dict[str, Any]) -> dict[str, Any]:
    own = common | {"run": str(PLACE / "speed")}
    contestants = [Contestant("regard", "word2vec_regard.py", own)]
    contestants += [
        Contestant(f"gensim, {form}", "word2vec_gensim.py", common | {"form": form}, "gensim")
        for form in FORMS
    ]
    few = options.quick
    return compare(race(contestants, rounds=3 if few else 6, seconds=90 if few else 900), "words/s")


def _quality(options: argparse.Namespace, common: dict[str, Any]) -> dict[str, Any]:
    """Each seed by each, in turns."""
    tests = folder_of(options, "wordsim")
    scores: dict[str, dict[str, list[float]]] = {}
    trained: dict[str, list[dict[str, Any]]] = {}
    scripts = {"regard": "own", "gensim": "gensim"}
    for seed in SEEDS[:1] if options.quick else SEEDS:
        for name, environment in scripts.items():
            save = PLACE / f"{name}-{seed}.bin"
            given = common | {"seed": seed, "save": str(save), "run": str(PLACE / f"run-{seed}")}
            try:
                done = _whole(name, environment, given)
            except Unavailable as reason:
                print(f"{name} did not take part: {reason}")
                return {"complete": False, "absent": {name: str(reason)}}
            trained.setdefault(name, []).append(done)
            for test, value in _scores(save, tests).items():
                scores.setdefault(test, {}).setdefault(name, []).append(value)
            rate = done["tokens"] / done["seconds"]
            print(f"seed {seed}, {name}: {rate:,.0f} words/s, {done['cpu_seconds']:.0f} CPU s")
    return {"complete": True, "trained": trained, "scores": _show(scores)}


def _whole(name: str, environment: str, options: dict[str, Any]) -> dict[str, Any]:
    script = str(HERE / "contestants" / f"word2vec_{name}.py")
    command = [python(environment), script, json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=HERE.parent)
    if done.returncode:
        raise Unavailable(done.stderr.strip().rpartition("\n")[2])
    found: dict[str, Any] = json.loads(done.stdout.strip().rpartition("\n")[2])
    return found


def _scores(vectors: Path, tests: Path) -> dict[str, float]:
    """Spearman's ρ in per cent, and the percentage of right analogies."""
    space, found = Space.load(vectors), {}
    for name, file in TESTS.items():
        judged = judge(space, tests / file)
        value = judged.spearman if isinstance(judged, Agreement) else judged.total.accuracy
        found[name] = (value or 0.0) * (100 if isinstance(judged, Agreement) else 1)
    return found


def _show(scores: dict[str, dict[str, list[float]]]) -> dict[str, Any]:
    """Mean and deviation of each, and the probability of means as far apart by chance."""
    print(f"\n{'':>14}  {'regard':>14}  {'gensim':>14}  {'p':>6}")
    result = {}
    for test, found in scores.items():
        cells = [_spread(found[name]) for name in ("regard", "gensim")]
        p = apart(found["regard"], found["gensim"])
        print(f"{test:>14}  {cells[0]:>14}  {cells[1]:>14}  {'–' if p is None else f'{p:.2f}':>6}")
        result[test] = found | {"p": p}
    return result


def _spread(values: list[float]) -> str:
    return f"{mean(values):.2f}" + (f" ± {stdev(values):.2f}" if len(values) > 1 else "")
