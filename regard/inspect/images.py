"""A picture as a model reads it: what it looks at, place by place, its filters and its features."""

import base64
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.inputs import Grid
from regard.inspect.blocks import Blocks
from regard.inspect.capture import Seen
from regard.inspect.reading import Reading
from regard.model import Model

View = dict[str, Any]
SHOWN = 32
"""Filters, or maps of features of a stage."""


def view(
    model: Model, seen: Seen, reading: Reading, attributed: View | None, blocks: Blocks
) -> View | None:
    """The picture, numbers for each place of its grid, filters and features."""
    reads: Any = model.input
    if not reading.picture or not isinstance(reads, Grid):
        return None
    rows, columns = reads.grid
    count = rows * columns
    first = len(reading.source) - count  # a class token may stand before them
    maps: list[View] = []
    if attributed is not None:
        values = torch.as_tensor(blocks.array(attributed["values"]))[:, first : first + count]
        for n, name in enumerate(reading.said[: len(values)]):
            signed = blocks.signed(values[n].reshape(rows, columns).numpy())
            maps.append({"name": f"attribution of {name}", "values": signed})
    maps = [*_words(seen, reading, first, (rows, columns), blocks), *maps]
    for name, weights in _looks(seen).items():
        places = _of_whole(weights, first)[first:].reshape(rows, columns)
        share = places / places.max().clamp(min=1e-12)
        maps.append({"name": name, "values": blocks.weights(share.cpu().numpy())})
    png = base64.b64encode(reading.picture).decode("ascii")
    found: View = {"image": f"data:image/png;base64,{png}", "rows": rows, "columns": columns}
    return found | {
        "maps": maps,
        "features": _features(seen, blocks),
        "filters": _filters(model, blocks),
    }


def _words(
    seen: Seen, reading: Reading, first: int, grid: tuple[int, int], blocks: Blocks
) -> list[View]:
    """What the decoder looked at for each word: the mean of all heads and layers."""
    crosses = [w[0].mean(0) for name, w in seen.attention().items() if name.endswith("cross")]
    if not crosses:
        return []
    mean = torch.stack(crosses).mean(0)[:, first:]  # (T, S)
    found = []
    for n, (start, end) in enumerate(reading.said_words, 1):
        weights = mean[start:end].mean(0).reshape(grid)
        share = weights / weights.max().clamp(min=1e-12)
        word = "".join(reading.said[start:end]).removeprefix("▁")
        name = f"word {n}, {word}"
        found.append({"name": name, "values": blocks.weights(share.cpu().numpy())})
    return found


def _looks(seen: Seen) -> dict[str, Float[Tensor, "S S"]]:
    """Attention of each layer, the mean of its heads, and of all layers one after the other."""
    layers = [w[0].mean(0) for name, w in seen.attention().items() if name.startswith("encoder")]
    if not layers:
        return {}
    named = {f"attention, layer {n}": weights for n, weights in enumerate(layers, 1)}
    return {"attention rollout": rollout(layers)} | named


def rollout(layers: list[Float[Tensor, "S S"]]) -> Float[Tensor, "S S"]:
    """R = Π_l ½ (A_l + I): how much of each position comes to each, where half of a state is what
    it was before the layer (Abnar and Zuidema 2020, section 3)."""
    found = torch.eye(len(layers[0]), device=layers[0].device)
    for weights in layers:
        found = (weights + torch.eye(len(weights), device=weights.device)) / 2 @ found
    return found


def _of_whole(weights: Float[Tensor, "S S"], first: int) -> Float[Tensor, "S"]:
    """What the class token looks at, or all positions on average."""
    return weights[0] if first else weights.mean(0)


def _features(seen: Seen, blocks: Blocks) -> list[View]:
    """Maps of the features of a network's stages."""
    names = [name for name in seen if name.startswith("input.st")]
    return [
        {
            "name": name.removeprefix("input.").replace(".", " "),
            "values": blocks.signed(seen[name][0, :SHOWN].cpu().numpy()),
        }
        for name in names
    ]


def _filters(model: Model, blocks: Blocks) -> View | None:
    """The filters that read pixels, the mean of their channels."""
    weights = dict(model.named_parameters())
    if (stem := weights.get("input.stem.weight")) is not None:
        table = stem.detach().mean(1)
    elif (project := weights.get("input.project.weight")) is not None:
        side: int = getattr(model.input, "patch", 0)
        if not side:
            return None
        table = project.detach().reshape(len(project), -1, side, side).mean(1)
    else:
        return None
    return blocks.signed(table[:SHOWN].cpu().numpy())
