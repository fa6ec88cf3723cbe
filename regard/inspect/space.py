"""The vectors of a model: of positions, and of tokens among their neighbours."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.data.tokenizers import Tokenizer
from regard.inspect.blocks import Blocks
from regard.inspect.capture import ADDS_NOTHING, submodule
from regard.layers.embedding import Embedding
from regard.layers.position import PositionalEncoding, sinusoid
from regard.model import Model
from regard.types import Batch

View = dict[str, Any]
NEIGHBOURS, POINTS = 8, 160
PICTURES = ((60, 32), (20, 512))
"""Positions × dimensions of the textbook's pictures of the sinusoid."""


def positions(model: Model, blocks: Blocks) -> list[View]:
    """Position encodings as pictures, and how alike they are."""
    found = []
    for part in ("encoder", "decoder"):
        module = submodule(model, f"{part}.position")
        if not isinstance(module, PositionalEncoding) or module.kind in ADDS_NOTHING:
            continue
        rows = module.rows(0, min(60, module.limit))
        found.append((f"{part}: {module.kind.replace('_', '-')}", rows))
    textbook = any("sinusoidal" in title for title, _ in found)
    if len(found) == 2 and torch.equal(found[0][1], found[1][1]):
        found = [(found[0][0].replace("encoder", "encoder and decoder"), found[0][1])]
    if textbook:
        found += [(f"{n} positions × {d} dimensions", sinusoid(n, d)) for n, d in PICTURES]
    return [
        {
            "title": title,
            "values": blocks.signed(rows.cpu().numpy()),
            "similarity": blocks.signed(cosine(rows, rows).cpu().numpy()),
        }
        for title, rows in found
    ]


def cosine(a: Float[Tensor, "N D"], b: Float[Tensor, "M D"]) -> Float[Tensor, "N M"]:
    """Of the angle between each two of them."""
    return torch.nn.functional.normalize(a, dim=-1) @ torch.nn.functional.normalize(b, dim=-1).T


def embeddings(task: Any, model: Model, batch: Batch) -> list[View]:
    """The nearest neighbours of what is read and said, and all of them on a map of two axes."""
    found = []
    known = {field.name: field for field in task.fields.values()}
    sides = (("input", task.sizes.reads, ""), ("decoder", task.sizes.writes, "_in"))
    for part, side, suffix in sides:
        embedding, name = submodule(model, f"{part}.embedding"), f"{side}{suffix}"
        if not isinstance(embedding, Embedding) or name not in batch.tensors or side not in known:
            continue
        by: Tokenizer = known[side].tokenizer
        numbers = sorted({n for n in batch[name][0].tolist() if n not in by.special})
        found.append({"side": side} | _neighbourhood(by, embedding.weight, numbers))
    return [view for view in found if view["words"]]


def _neighbourhood(by: Tokenizer, weight: Float[Tensor, "V D"], numbers: list[int]) -> View:
    numbers, weight, pieces = numbers[:POINTS], weight.detach(), by.pieces
    likeness = cosine(weight[numbers], weight)
    likeness[:, sorted(by.special)] = -1  # they are nobody's neighbours
    likeness[torch.arange(len(numbers)), numbers] = -1
    near = likeness.topk(min(NEIGHBOURS, likeness.shape[1] - 1))
    words = [
        {
            "piece": pieces([number])[0],
            "near": [
                [pieces([int(n)])[0], float(c)]
                for c, n in zip(near.values[row], near.indices[row], strict=True)
            ],
        }
        for row, number in enumerate(numbers)
    ]
    own = set(numbers)
    others = [n for n in dict.fromkeys(near.indices[:, :3].flatten().tolist()) if n not in own]
    points = [*numbers, *others][: 2 * POINTS]
    if len(points) < 3:
        return {"words": words, "points": [], "share": 0.0}
    place, share = two_axes(weight[points])
    return {
        "words": words,
        "points": [
            {"piece": pieces([n])[0], "x": x, "y": y, "own": n in own}
            for n, (x, y) in zip(points, place, strict=True)
        ],
        "share": share,
    }


def two_axes(vectors: Float[Tensor, "N D"]) -> tuple[list[list[float]], float]:
    """Where each vector lies on the two axes along which they differ most (PCA), and how much of
    the variance these have."""
    centred = vectors - vectors.mean(0)
    u, s, _ = torch.linalg.svd(centred, full_matrices=False)
    points: list[list[float]] = (u * s)[:, :2].tolist()
    return points, float(s[:2].square().sum() / s.square().sum().clamp(min=1e-30))
