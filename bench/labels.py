"""How much text without labels is worth: film reviews classified from few labels and from all.

Each way of beginning has a recipe in bench/labels: from nothing (scratch), from word vectors
(word2vec), from all layers of a bidirectional language model, which stay as they are (elmo), from a
masked language model (bert), and a bag of hashed n-grams (bag), which needs no beginning. Each is
trained on 100 and 1,000 labels, drawn three times, and on all, and scored on the same 5,000 of the
test's reviews.

    python -m bench labels --runs ../runs/labels --from ../runs

A run that is there is not made again, so that the table can be made in several evenings. Each score
is written into bench/labels/measured.json; with `--recorded`, what stands there is believed as long
as the recipe is the one that it was measured with, and the run that it began from has the same
weights, if it is there. `--whole` also scores the main figures on all 25,000 reviews of the test:
those of all labels, and 1,000 labels of bert. `--from` is the folder with the runs that are
begun from: imdb-vectors (`regard word2vec unsup.txt.gz train.tsv.gz --dim 256`), imdb-elmo and
imdb-mlm.
"""

import argparse
import gzip
import hashlib
import json
import math
import random
import statistics
from pathlib import Path
from typing import Any

import regard
from regard.data import catalogue
from regard.errors import UserError
from regard.plots import drawing
from regard.recipe.parts import resume
from regard.runs import Run
from regard.train import manifest

FOLDER = Path(__file__).parent / "labels"
RECORD = FOLDER / "measured.json"
"""Of each run: accuracy (also on the whole test), processor time of its training, and the hashes of
what it was trained by: its recipe, and the weights that it began with."""
BEGUN = {
    "word2vec": ("imdb-vectors", ("model.input.vectors", "tokenizer.words_of")),
    "elmo": ("imdb-elmo", ("model.input.weights",)),
    "bert": ("imdb-mlm", ("model.weights",)),
}
"""What a way begins with, by the name of its run, and the keys that name it. Words that only the
vectors know are words, too: few labels come with few of them."""
WAYS = ("scratch", "word2vec", "elmo", "bert", "bag")
DRAWS = {100: 3, 1000: 3, 0: 1}
"""Labels, and how often they are drawn; 0: all."""
EPOCHS = {100: 60, 1000: 20, 0: 3}
TUNED = {
    "scratch": {1000: (10, 0.001)},
    "word2vec": {100: (3, 0.0001), 1000: (3, 0.0001), 0: (3, 0.0005)},
    "bert": {100: (3, 0.00003), 1000: (3, 0.00003), 0: (2, 0.0001)},
}
"""Epochs and learning rate of a way where others were better than those above and its recipe's, on
reviews of the training part that no draw has. A way that begins near its end takes few, small
steps."""
TESTED, ALL = 5000, 25_000
WHOLE = (("bert", 1000),)
"""What is scored on the whole test, beside all that learnt from all labels."""
Table = dict[str, dict[int, dict[str, Any]]]


def labels(options: argparse.Namespace) -> dict[str, Any]:
    """The table and its picture; with --quick, 100 labels once."""
    ways = options.only.split(",") if options.only else WAYS
    for way in ways:
        if way not in WAYS:
            raise UserError(f"--only {way}: there are {', '.join(WAYS)}")
    folder = Path(options.runs)
    files = _files(folder / "data", options.data)
    sizes = {100: 1} if options.quick else DRAWS
    rows: dict[str, dict[int, list[float]]] = {}
    for count, draws in sizes.items():
        for way in ways:
            for draw in range(1, draws + 1):
                score = _score(way, count, draw, folder, files, options)
                rows.setdefault(way, {}).setdefault(count, []).append(score)
    table = {
        way: {n: summary(found, TESTED) for n, found in row.items()} for way, row in rows.items()
    }
    _show(table)
    if not options.quick:
        draw_picture(table, Path(options.to) / "labels.svg")
    found = {"tested": TESTED, "rows": {way: _named(row) for way, row in table.items()}}
    if options.whole:
        whole = _on_all(rows, folder, files["whole"], options)
        print(f"\nOn all {ALL:,} reviews of the test:")
        _show(whole)
        found["whole"] = {way: _named(row) for way, row in whole.items()}
    return found


def _on_all(
    rows: dict[str, dict[int, list[float]]], folder: Path, test: Path, options: argparse.Namespace
) -> Table:
    """The main figures on the whole test."""
    table: Table = {}
    for way, row in rows.items():
        for count in (each for each in row if not each or (way, each) in WHOLE):
            places = [folder / _name(way, count, n) for n in range(1, len(row[count]) + 1)]
            found = [_on_whole(place, test, options) for place in places]
            table.setdefault(way, {})[count] = summary(found, ALL)
    return table


def _on_whole(place: Path, test: Path, options: argparse.Namespace) -> float:
    """Accuracy of a run on the whole test; believed if it stands beside that on the 5,000."""
    known = recorded().get(place.name, {})
    if options.recorded and "whole" in known:
        return float(known["whole"])
    scores, _ = regard.load(place, data=[test.resolve()]).evaluate()
    _record(place.name, known | {"whole": scores["accuracy"].value})
    return scores["accuracy"].value


def _name(way: str, count: int, draw: int) -> str:
    """What a run is called."""
    return f"{way}-{count or 'all'}-{draw}"


def _named(row: dict[int, dict[str, Any]]) -> dict[str, Any]:
    return {str(count or "all"): found for count, found in row.items()}


def _files(folder: Path, data: str | None) -> dict[str, Path]:
    """The drawn labels and the reviews that are tested, as tables of label and text."""
    source = Path(data) / "imdb" if data else catalogue.find("imdb")
    train, test = (_rows(source / f"{part}.tsv.gz") for part in ("train", "test"))
    folder.mkdir(parents=True, exist_ok=True)
    found = {"test": folder / "test.tsv", "0-1": source / "train.tsv.gz"}
    found["whole"] = source / "test.tsv.gz"
    wanted = {"test": _balanced(test, TESTED, 0)}
    for count, draws in DRAWS.items():
        for draw in range(1, draws + 1 if count else 0):
            found[f"{count}-{draw}"] = folder / f"{count}-{draw}.tsv"
            wanted[f"{count}-{draw}"] = _balanced(train, count, draw)
    for name, lines in wanted.items():
        found[name].write_text("".join(lines), encoding="utf-8", newline="\n")
    return found


def _rows(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        return list(file)


def _balanced(rows: list[str], count: int, seed: int) -> list[str]:
    """So many rows, as many of each label, drawn by a seed."""
    by_label: dict[str, list[str]] = {}
    for row in rows:
        by_label.setdefault(row.split("\t", 1)[0], []).append(row)
    chance = random.Random(seed)
    found = [row for own in by_label.values() for row in chance.sample(own, count // len(by_label))]
    chance.shuffle(found)
    return found


def _score(
    way: str,
    count: int,
    draw: int,
    folder: Path,
    files: dict[str, Path],
    options: argparse.Namespace,
) -> float:
    """Accuracy of one run, which is trained unless it is there, or recorded."""
    epochs, rate = TUNED.get(way, {}).get(count, (EPOCHS[count], 0.0))
    settings = [f"train.epochs={epochs}", f"seed={draw}"]
    if rate:
        settings.append(f"train.optimizer.learning_rate={rate}")
    recipe, place = FOLDER / f"{way}.toml", folder / _name(way, count, draw)
    made = {"recipe": digest(recipe, settings), "begun": weights(way, Path(options.base))}
    known = recorded().get(place.name, {})
    if options.recorded and is_same(known, made):
        return float(known["accuracy"])
    changes = [
        f'data.train=["{files[f"{count}-{draw}"].resolve()}"]',
        f'data.test=["{files["test"].resolve()}"]',
        f"train.threads={options.threads}",
        *settings,
    ]
    if way in BEGUN and not place.exists():
        name, keys = BEGUN[way]
        run = begun(Path(options.base) / name, way)
        changes += [f'{key}="{run}"' for key in keys]
    value, seconds = accuracy(place, recipe, changes)
    _record(place.name, {"accuracy": value, "cpu_seconds": round(seconds), **made})
    return value


def digest(recipe: Path, settings: list[str]) -> str:
    """Of a recipe and what is set otherwise."""
    return hashlib.sha256("\n".join([recipe.read_text("utf-8"), *settings]).encode()).hexdigest()


def weights(way: str, base: Path) -> str:
    """The hash of the weights that a way begins with, if it begins with any and they are there."""
    path = base / BEGUN[way][0] / "model" / "model.safetensors" if way in BEGUN else None
    return str(manifest.entry(path)["sha256"]) if path is not None and path.is_file() else ""


def is_same(known: dict[str, Any], made: dict[str, str]) -> bool:
    """Whether a record is of what would be made now; a run to begin from that is not there cannot
    have changed."""
    same_weights = made["begun"] in ("", known.get("begun"))
    return known.get("recipe") == made["recipe"] and same_weights


def recorded() -> dict[str, dict[str, Any]]:
    """What was measured so far, by the names of runs."""
    return dict(json.loads(RECORD.read_text("utf-8"))) if RECORD.exists() else {}


def _record(name: str, found: dict[str, Any]) -> None:
    rows = {**recorded(), name: found}
    text = ",\n".join(f'  "{key}": {json.dumps(rows[key])}' for key in sorted(rows))
    RECORD.write_text(f"{{\n{text}\n}}\n", encoding="utf-8", newline="\n")


def accuracy(place: Path, recipe: Path, changes: list[str]) -> tuple[float, float]:
    """Of a run, which is trained unless it is there, and its processor time in seconds."""
    if not place.exists():
        regard.train(str(recipe), *changes, to=place)
    elif not (place / "model").is_dir():
        raise UserError(f"{place} is unfinished; to go on: {resume(place)}")
    scores, _ = regard.load(place).evaluate()
    seconds = [r["cpu_seconds"] for r in Run(place).records() if "cpu_seconds" in r][-1]
    value = scores["accuracy"].value
    print(f"{place.name:18} {value:6.2f}   {seconds:7,.0f} CPU s", flush=True)
    return value, seconds


def begun(run: Path, way: str) -> Path:
    """The run that a way begins with, which must be there."""
    if not run.exists():
        raise UserError(f"{run.resolve()} is not there: make it first, or leave {way} out: --only")
    return run.resolve()


def summary(found: list[float], tested: int) -> dict[str, Any]:
    """Mean and a 95 % interval: over three draws by their spread (Student), of one by how many
    were tested."""
    mean = statistics.fmean(found)
    if len(found) > 1:
        half = 4.303 * statistics.stdev(found) / math.sqrt(len(found))  # t of 2 degrees of freedom
    else:
        half = 1.96 * math.sqrt(mean * (100 - mean) / tested)
    return {"accuracy": mean, "half": half, "draws": found}


def _show(table: Table) -> None:
    counts = [*dict.fromkeys(count for row in table.values() for count in row)]
    print(f"\n{'':>10}" + "".join(f"{count or 'all':>18}" for count in counts))
    for way, row in table.items():
        known = (row.get(count) for count in counts)
        cells = (f"{each['accuracy']:.2f} ± {each['half']:.2f}" if each else "" for each in known)
        print(f"{way:>10}" + "".join(f"{cell:>18}" for cell in cells))


def draw_picture(table: Table, path: Path) -> None:
    """Accuracy over the number of labels, a line for each way."""
    with drawing.style():
        figure = drawing.figure(6, 4, "Film reviews: what text without labels is worth")
        ax = figure.subplots()
        for n, ((way, row), colour) in enumerate(zip(table.items(), drawing.COLOURS, strict=False)):
            places = [(count or ALL) * 1.05**n for count in row]  # intervals beside each other
            means = [found["accuracy"] for found in row.values()]
            halves = [found["half"] for found in row.values()]
            ax.errorbar(places, means, halves, label=way, color=colour, marker="o", capsize=3)
        ax.set_xscale("log")
        ax.set_xticks([100, 1000, 25_000], ["100", "1,000", "all"])
        ax.set(xlabel="labels", ylabel=f"accuracy on {TESTED:,} reviews of the test (%)")
        ax.legend()
    drawing.save(figure, path)
