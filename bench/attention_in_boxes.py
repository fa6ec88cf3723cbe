"""Where the words of captions look: the share of attention inside the box of the shape they name.

    python -m bench.attention_in_boxes RUN [--json]

RUN has learnt captions of the embedded scenes (recipes scenes-lstm, scenes-vit). Of every scene of
its test part a caption is written; each of its words for a colour or a shape names a shape of the
scene, and attention to the grid, the mean over heads and layers, is compared with the box of that
shape:

    share = Σ_cells weight · (part of the cell that is inside)      area = the box's of the picture
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from regard import front
from regard.data import catalogue, scenes
from regard.decoding.translation import cross_attention
from regard.errors import UserError
from regard.runs import Run

BATCH = 50
BOXES = "boxes.jsonl"
RELATIONS = {relation.split()[0] for relation in scenes.RELATIONS}
"""Their first words: what follows is the other shape."""


class Look(NamedTuple):
    """What one word looked at."""

    word: str
    share: float
    area: float


def inside(
    weights: Float[np.ndarray, "rows columns"], box: tuple[int, int, int, int], side: int
) -> float:
    """The share of the weights of a grid over a picture that lies in a box."""
    rows, columns = weights.shape
    covered = [
        _overlap(np.arange(count + 1) * side / count, first, last)
        for count, first, last in ((rows, box[1], box[3]), (columns, box[0], box[2]))
    ]
    return float((weights * np.outer(*covered)).sum() / weights.sum())


def _overlap(edges: Float[np.ndarray, " N"], first: int, last: int) -> Float[np.ndarray, " M"]:
    """How much of each cell between edges is between `first` and `last`."""
    shared = np.minimum(edges[1:], last) - np.maximum(edges[:-1], first)
    found: np.ndarray = np.clip(shared, 0, None) / np.diff(edges)
    return found


def named(words: list[str], things: list[dict[str, Any]]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The places of words for colours and shapes, each with the thing that is named there; none of
    a thing that the scene does not have."""
    content = {*scenes.COLOURS, *scenes.SHAPES}
    cut = next((n for n, word in enumerate(words) if word in RELATIONS), len(words))
    for places in (range(cut), range(cut, len(words))):
        kind = {words[n] for n in places if words[n] in content}
        for thing in things:
            if kind == {thing["colour"], thing["shape"]}:
                yield from ((n, thing) for n in places if words[n] in content)


def scenes_of(run: Run) -> Path:
    """The folder of the scenes that a run learnt from, with the boxes of the shapes of its test."""
    data = run.recipe.task.data
    folder = catalogue.find(data.set) if data.set else Path(data.folder)
    if not (folder / BOXES).is_file():
        raise UserError(f"{folder} has no {BOXES}: {run.folder} did not learn from scenes")
    return folder


def looks(predictor: front.Predictor) -> list[Look]:
    """Of all captions of the test's scenes."""
    task: Any = predictor.task
    reads: Any = predictor.model.input
    rows, columns = reads.grid
    folder = scenes_of(predictor.run)
    lines = (folder / BOXES).read_text(encoding="utf-8").splitlines()
    about = [json.loads(line) for line in lines]
    found = []
    for start in range(0, len(about), BATCH):
        chosen = about[start : start + BATCH]
        places = [str(folder / each["image"]) for each in chosen]
        texts = predictor.predict(places)
        tokens = task.target.tokenizer.encode(texts)
        batch = task.translator.batch(task.translator.read(places), tokens)
        with torch.inference_mode():
            seen = [w.mean(1) for w in cross_attention(predictor.model, batch).values()]
        mean = torch.stack(seen).mean(0).numpy()[..., -rows * columns :]  # (B, T, S)
        for n, each in enumerate(chosen):
            words = [piece.removeprefix("▁") for piece in task.target.tokenizer.pieces(tokens[n])]
            for place, thing in named(words, each["things"]):
                left, top, right, bottom = box = thing["box"]
                share = inside(mean[n, place].reshape(rows, columns), box, scenes.SIDE)
                area = (right - left) * (bottom - top) / scenes.SIDE**2
                found.append(Look(words[place], share, area))
    return found


def summary(found: list[Look]) -> dict[str, float]:
    """Means over words, and the one by the other."""
    share, area = (float(np.mean([look[n] for look in found])) for n in (1, 2))
    return {"words": len(found), "share": share, "area": area, "times": share / area}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = looks(front.load(options.run))
    kinds = {
        "all": found,
        "colours": [look for look in found if look.word in scenes.COLOURS],
        "shapes": [look for look in found if look.word in scenes.SHAPES],
    }
    table = {name: summary(some) for name, some in kinds.items() if some}
    if options.json:
        print(json.dumps(table))
        return
    for name, each in table.items():
        print(
            f"{name:8} {each['words']:5} words: {each['share']:.1%} of the attention inside, "
            f"area {each['area']:.1%}: {each['times']:.1f} times"
        )


if __name__ == "__main__":
    main()
