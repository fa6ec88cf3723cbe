"""What costs nothing on the photographs of flickr8k-captions: scores beside which a model's stand.

python -m bench.photographs [--json]

chance      captions: one of the training part, drawn for each photograph; retrieval: R@k of
            vectors that are drawn
nearest     captions: that of the photograph of the training part whose pixels, made small, are
            nearest by their cosine; retrieval: by how alike a caption is to those of that one
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float
from PIL import Image

from regard.data import catalogue
from regard.metrics import retrieval
from regard.metrics.cider import grams, words
from regard.metrics.text import Evaluation

SIDE = 16
"""Pixels of a photograph that is compared."""
SEED = 1
Table = list[tuple[Path, list[str]]]


def part(name: str) -> Table:
    """Photographs and their captions."""
    folder = catalogue.find("flickr8k-captions")
    found: dict[Path, list[str]] = {}
    for line in (folder / f"{name}.tsv").read_text(encoding="utf-8").splitlines():
        path, texts = line.split("\t")
        found.setdefault(folder / path, []).extend(texts.split(" | "))
    return [*found.items()]


def small(paths: Sequence[Path]) -> Float[np.ndarray, "N E"]:
    """Their pixels, made few, with mean 0 and length 1."""
    rows = [
        np.asarray(Image.open(path).convert("RGB").resize((SIDE, SIDE)), float).ravel()
        for path in paths
    ]
    table = np.stack(rows)
    table -= table.mean(1, keepdims=True)
    found: np.ndarray = table / np.linalg.norm(table, axis=1, keepdims=True)
    return found


def captions(train: Table, test: Table) -> dict[str, dict[str, float]]:
    """BLEU and CIDEr-D of captions of training."""
    how = Evaluation(metrics=("bleu", "cider"), lowercase=True)
    right = [texts for _, texts in test]
    dice = np.random.default_rng(SEED)
    nearest = (small([p for p, _ in test]) @ small([p for p, _ in train]).T).argmax(1)
    said = {
        "chance": [train[int(n)][1][0] for n in dice.integers(len(train), size=len(test))],
        "nearest": [train[int(n)][1][0] for n in nearest],
    }
    return {
        name: {key: score.value for key, score in how.scores([[t] for t in texts], right).items()}
        for name, texts in said.items()
    }


def found_again(train: Table, test: Table) -> dict[str, dict[str, float]]:
    """R@k among all photographs and captions of the test."""
    texts = [text for _, own in test for text in own]
    right = np.array([[text in own for text in texts] for _, own in test])
    nearest = (small([p for p, _ in test]) @ small([p for p, _ in train]).T).argmax(1)
    bags = [{g for text in train[int(n)][1] for g in grams(words(text), 1)} for n in nearest]
    asked = [{*grams(words(text), 1)} for text in texts]
    alike = np.array([[len(bag & one) / len(bag | one) for one in asked] for bag in bags])
    drawn = np.random.default_rng(SEED).random(alike.shape)
    return {name: _recall(table, right) for name, table in (("chance", drawn), ("nearest", alike))}


def _recall(alike: Float[np.ndarray, "N M"], right: np.ndarray) -> dict[str, float]:
    found: dict[str, float] = {}
    for way, table, true in (("image_to_text", alike, right), ("text_to_image", alike.T, right.T)):
        places = retrieval.ranks(table, true)
        found |= {f"{way}_r{k}": 100 * float((places <= k).mean()) for k in retrieval.AT}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    train, test = part("train"), part("test")
    table = {"captions": captions(train, test), "retrieval": found_again(train, test)}
    if options.json:
        print(json.dumps(table))
        return
    for what, rows in table.items():
        for name, scores in rows.items():
            print(what, name, " ".join(f"{key} {value:.2f}" for key, value in scores.items()))


if __name__ == "__main__":
    main()
