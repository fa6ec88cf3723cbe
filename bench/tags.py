"""How much text without tags is worth: parts of speech from 1,000 sentences of ud-ewt.

The tagger of recipes/ud-ewt-1000.toml from nothing (scratch), the same with word vectors
(word2vec), and that of recipes/ud-ewt-elmo.toml, which reads by all layers of a bidirectional
language model (elmo), on three draws of 1,000 sentences, scored on the whole test part.

    python -m bench tags --runs ../runs/tags --from ../runs

A run that is there is not made again. `--from` is the folder with the runs that are begun from:
imdb-elmo, and word vectors of the same text, ud-vectors (`regard word2vec imdb/unsup.txt.gz
ud-ewt/en_ewt-ud-train.conllu --split treebank --dim 100`).
"""

import argparse
from pathlib import Path
from typing import Any

from bench.labels import accuracy, begun, summary
from regard.data import catalogue
from regard.data.derived import DRAWS
from regard.errors import UserError

RECIPES = Path(__file__).parent.parent / "recipes"
WAYS = {"scratch": "ud-ewt-1000", "word2vec": "ud-ewt-1000", "elmo": "ud-ewt-elmo"}
"""The recipe of each way."""
BEGUN = {"word2vec": "ud-vectors", "elmo": "imdb-elmo"}
"""What a way begins with, by the name of its run."""
SET, TESTED = "ud-ewt-1000", 25_094


def tags(options: argparse.Namespace) -> dict[str, Any]:
    """The table; with --quick, one draw."""
    ways = options.only.split(",") if options.only else WAYS
    for way in ways:
        if way not in WAYS:
            raise UserError(f"--only {way}: there are {', '.join(WAYS)}")
    folder = Path(options.runs)
    data = catalogue.get(SET, Path(options.data) if options.data else None, to=folder / "data")
    draws = range(1, 2 if options.quick else DRAWS + 1)
    table = {}
    for way in ways:
        found = [
            accuracy(
                folder / f"{way}-{draw}",
                RECIPES / f"{WAYS[way]}.toml",
                _changes(way, draw, data, options),
            )[0]
            for draw in draws
        ]
        table[way] = summary(found, TESTED)
    print()
    for way, row in table.items():
        each = "  ".join(f"{value:.2f}" for value in row["draws"])
        print(f"{way:>10}  {row['accuracy']:.2f} ± {row['half']:.2f}   {each}")
    return {"tested": TESTED, "rows": table}


def _changes(way: str, draw: int, data: Path, options: argparse.Namespace) -> list[str]:
    """What a run has otherwise than its recipe."""
    files = {"train": f"train-{draw}", "validation": "validation", "test": "test"}
    named = [f'data.{k}=["{(data / f"{name}.conllu").resolve()}"]' for k, name in files.items()]
    changes = ['data.set=""', *named, f"train.threads={options.threads}", f"seed={draw}"]
    if way not in BEGUN:
        return changes
    run = begun(Path(options.base) / BEGUN[way], way)
    if way == "elmo":
        return [*changes, f'model.input.weights="{run}"']
    # Words that the vectors know are known whether the 1,000 sentences have them or not.
    words = [f'tokenizer.words_of="{run}"', "tokenizer.vocabulary=200000"]
    return [*changes, *words, f'model.input.vectors="{run}"', "model.input.frozen_vectors=true"]
