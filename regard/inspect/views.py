"""What a page shows of one reading: plain values, and arrays that are kept as blocks."""

import math
import re
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.data.tokenizers import UNKNOWN
from regard.inspect.attribution import attribute
from regard.inspect.blocks import Blocks
from regard.inspect.capture import Seen, capture
from regard.inspect.reading import Reading, logits
from regard.layers.position import sinusoid
from regard.model import Model
from regard.tasks import Task

View = dict[str, Any]
RIVALS, NEIGHBOURS, POINTS = 5, 8, 160
ATTRIBUTED = 64
"""Outputs up to this length are attributed; each symbol costs some passes over the whole text."""
STATES = 2**21
"""Numbers of hidden states that a page shows at most; beyond, only their norms."""
PICTURES = ((60, 32), (20, 512))
"""Positions × dimensions of the textbook's pictures of the sinusoid."""


def views(task: Task, model: Model, reading: Reading, blocks: Blocks) -> View:
    """Everything that there is to see; a view that the model does not have is left out."""
    with torch.no_grad(), capture(model) as seen:
        scores = logits(model, reading.batch)
    with torch.no_grad():
        found = {
            "tokens": tokens(task, reading, scores),
            "attention": attention(seen, reading, blocks),
            "alignment": alignment(seen, reading, blocks),
            "pooling": pooling(seen, blocks),
            "beam": [node._asdict() for node in reading.beam] if reading.beam else None,
            "states": states(seen, reading, blocks),
            "positions": positions(model, blocks),
            "embeddings": embeddings(task, model, reading),
            "lens": lens(task, seen, reading, blocks),
        }
    found["gradient"] = gradient(model, reading)
    found["attribution"] = attributions(model, reading, blocks)
    about = {
        "text": reading.text,
        "output": reading.output,
        "source": reading.source,
        "read": reading.read,
        "said": reading.said,
        "given": reading.given,
    }
    return about | {name: view for name, view in found.items() if view}


def tokens(task: Task, reading: Reading, scores: Float[Tensor, "T V"]) -> View:
    """Each output's probability, what else was likely, and what each word is worth as a whole."""
    log_probs = scores.float().log_softmax(-1)
    best = log_probs.topk(min(RIVALS + 1, log_probs.shape[1]))
    entropy = -(log_probs.exp() * log_probs).nan_to_num().sum(-1)
    rows: list[View] = []
    for place, symbol in enumerate(reading.symbols):
        chosen = float(log_probs[place, symbol])
        rank = int((log_probs[place] > log_probs[place, symbol]).sum())
        rivals = [
            [_names(task, [int(other)])[0], math.exp(float(value))]
            for value, other in zip(best.values[place], best.indices[place], strict=True)
            if int(other) != symbol
        ]
        rows.append(
            {
                "piece": reading.said[place],
                "p": math.exp(chosen),
                "log_prob": chosen,
                "rank": rank + 1,
                "entropy": float(entropy[place]),
                "rivals": rivals[:RIVALS],
            }
        )
    words = [
        {"from": a, "to": b, "p": math.exp(math.fsum(row["log_prob"] for row in rows[a:b]))}
        for a, b in reading.said_words
    ]
    return {"rows": rows, "words": words, "total": math.fsum(row["log_prob"] for row in rows)}


def _names(task: Any, symbols: list[int]) -> list[str]:
    """Of what the head's numbers stand for: labels, or symbols of the vocabulary."""
    if hasattr(task, "target"):
        pieces: list[str] = task.target.pieces(symbols)
        return pieces
    return [task.labels.names[symbol] for symbol in symbols]


def attention(seen: Seen, reading: Reading, blocks: Blocks) -> list[View]:
    """Weights of every kind of attention, a block for each layer."""
    kinds: dict[str, View] = {}
    for name, weights in seen.attention().items():
        cross = name.endswith("cross")
        kind = "cross" if cross else name.split(".")[0]
        sides = {"encoder": ("source", "source"), "decoder": ("read", "read")}
        rows, columns = sides.get(kind, ("said", "source"))
        view = kinds.setdefault(
            kind, {"kind": kind, "rows": rows, "columns": columns, "layers": []}
        )
        view["layers"].append(blocks.weights(weights[0].cpu().numpy()))
    return list(kinds.values())


def alignment(seen: Seen, reading: Reading, blocks: Blocks) -> View | None:
    """Which words of the input each word of the output looked at: the mean of all heads."""
    crosses = [w[0].mean(0) for name, w in seen.attention().items() if name.endswith("cross")]
    if not crosses:
        return None
    mean = torch.stack(crosses).mean(0)  # (T, S)
    # Of an input word all its symbols count together, of an output word their mean.
    columns = torch.stack([mean[:, a:b].sum(1) for a, b in reading.source_words], 1)
    words = torch.stack([columns[a:b].mean(0) for a, b in reading.said_words])
    return {
        "source": _joined(reading.source, reading.source_words),
        "said": _joined(reading.said, reading.said_words),
        "weights": blocks.weights(words.cpu().numpy()),
    }


def _joined(pieces: list[str], words: list[tuple[int, int]]) -> list[str]:
    return ["".join(pieces[a:b]).removeprefix("▁") or "▁" for a, b in words]


def pooling(seen: Seen, blocks: Blocks) -> View | None:
    """How much each position counts in the vector that stands for the whole."""
    name = next((name for name in seen if name.endswith("pooling")), None)
    return None if name is None else {"weights": blocks.weights(seen[name].cpu().numpy())}


def states(seen: Seen, reading: Reading, blocks: Blocks) -> list[View]:
    """Hidden states, recurrent states and gates over the positions."""
    shown = {f"{p}.{k}": v for p in ("encoder", "decoder") for k, v in seen.hidden(p).items()}
    shown |= seen.recurrent()
    small = sum(value[0].numel() for value in shown.values()) <= STATES
    found = []
    for name, value in shown.items():
        layer, quantity = _split(name)
        found.append(
            {
                "layer": layer,
                "quantity": quantity,
                "side": "source" if name.startswith("encoder") else "read",
                "norms": [round(x, 4) for x in value[0].norm(dim=-1).tolist()],
                "means": [round(x, 4) for x in value[0].mean(-1).tolist()],
                "values": _states(blocks, value[0], quantity) if small else None,
            }
        )
    return found


def _states(blocks: Blocks, value: Float[Tensor, "T D"], quantity: str) -> View:
    array = value.cpu().numpy()
    # Of hidden states a few units are often far larger than the rest.
    return blocks.gates(array) if quantity.endswith("gate") else blocks.signed(array, power=0.5)


def _split(name: str) -> tuple[str, str]:
    """encoder.layer.0.forward.gates.input → (encoder.layer.0.forward, input gate)."""
    layer, _, quantity = name.rpartition(".")
    if layer.endswith(".gates"):
        return layer.removesuffix(".gates"), f"{quantity} gate"
    return layer, quantity


def gradient(model: Model, reading: Reading) -> list[View]:
    """‖∂ log p / ∂h_t‖ for every layer's state h_t: of all that is said, and of the last alone."""
    with torch.enable_grad(), capture(model, graph=True) as seen:
        log_probs = logits(model, reading.batch).float().log_softmax(-1)
        chosen = log_probs[torch.arange(len(reading.symbols)), torch.tensor(reading.symbols)]
    layers = {f"{p}.{k}": [v] for p in ("encoder", "decoder") for k, v in seen.hidden(p).items()}
    recurrent = [name for name in seen.recurrent() if name.endswith(".state")]
    layers |= {name: seen.steps(name) for name in recurrent}
    layers = {n: v for n, v in layers.items() if v and all(x.requires_grad for x in v)}
    flat = [value for values in layers.values() for value in values]
    curves = []
    for target in (chosen.sum(), chosen[-1]):
        slopes = torch.autograd.grad(target, flat, retain_graph=True, allow_unused=True)
        norms = [
            [0.0] * (v.shape[1] if v.ndim == 3 else 1)
            if g is None
            else g[0].reshape(-1, g.shape[-1]).norm(dim=-1).tolist()
            for g, v in zip(slopes, flat, strict=True)
        ]
        curves.append(iter(norms))
    return [
        {
            "layer": name,
            "side": "source" if name.startswith("encoder") else "read",
            "all": [x for _ in values for x in next(curves[0])],
            "last": [x for _ in values for x in next(curves[1])],
        }
        for name, values in layers.items()
    ]


def positions(model: Model, blocks: Blocks) -> list[View]:
    """Position encodings as pictures, and how alike they are."""
    found = []
    for part in ("encoder", "decoder"):
        module: Any = getattr(getattr(model, part), "position", None)
        if module is None or module.kind in ("none", "rotary"):
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
            "similarity": blocks.signed(_cosine(rows, rows).cpu().numpy()),
        }
        for title, rows in found
    ]


def _cosine(a: Float[Tensor, "N D"], b: Float[Tensor, "M D"]) -> Float[Tensor, "N M"]:
    return torch.nn.functional.normalize(a, dim=-1) @ torch.nn.functional.normalize(b, dim=-1).T


def embeddings(task: Any, model: Model, reading: Reading) -> list[View]:
    """The nearest neighbours of what is read and said, and all of them on a map of two axes."""
    found = []
    sides: dict[str, tuple[Any, str]] = {
        "source": (getattr(model.input, "embedding", None), "source"),
        "target": (getattr(model.decoder, "embedding", None), "target_in"),
    }
    for side, (embedding, field) in sides.items():
        names = getattr(task, side, None)
        if embedding is None or names is None or field not in reading.batch.tensors:
            continue
        numbers = sorted({n for n in reading.batch[field][0].tolist() if n > UNKNOWN})
        found.append({"side": side} | _neighbourhood(names.pieces, embedding.weight, numbers))
    return [view for view in found if view["words"]]


def _neighbourhood(pieces: Any, weight: Float[Tensor, "V D"], numbers: list[int]) -> View:
    numbers, weight = numbers[:POINTS], weight.detach()
    likeness = _cosine(weight[numbers], weight)
    likeness[:, : UNKNOWN + 1] = -1  # special symbols are nobody's neighbours
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
    centred = weight[points] - weight[points].mean(0)
    u, s, _ = torch.linalg.svd(centred, full_matrices=False)
    place = (u * s)[:, :2].tolist()
    return {
        "words": words,
        "points": [
            {"piece": pieces([n])[0], "x": x, "y": y, "own": n in own}
            for n, (x, y) in zip(points, place, strict=True)
        ],
        "share": float(s[:2].square().sum() / s.square().sum()),
    }


def attributions(model: Model, reading: Reading, blocks: Blocks) -> View | None:
    """How much each symbol that was read has to do with each that was said."""
    if len(reading.said) > ATTRIBUTED:
        return None
    label = model.decoder is None
    found = [
        attribute(model, reading.batch, place, symbol if label else None)
        for place, symbol in enumerate(reading.symbols)
    ]
    values = torch.stack([torch.cat([a.source, a.target]) for a in found])
    return {
        "values": blocks.signed(values.detach().cpu().numpy(), power=0.5),
        "totals": [a.value for a in found],
        "errors": [a.error for a in found],
    }


def lens(task: Any, seen: Seen, reading: Reading, blocks: Blocks) -> View | None:
    """What would be said if the model ended after each layer."""
    layers = seen.lens()
    if len(layers) < 2:
        return None
    rows = []
    for name, scores in layers.items():
        chances = scores.float().softmax(-1).reshape(-1, scores.shape[-1])  # (T, V)
        best = chances.topk(min(3, chances.shape[1]))
        said = chances[torch.arange(len(reading.symbols)), torch.tensor(reading.symbols)]
        rows.append(
            {
                "layer": "embedding" if name == "input" else re.sub(r"\D+", " ", name).strip(),
                "best": [
                    [[p, round(float(v), 4)] for p, v in zip(_names(task, n), vs, strict=True)]
                    for n, vs in zip(best.indices.tolist(), best.values.tolist(), strict=True)
                ],
                "said": [round(p, 4) for p in said.tolist()],
            }
        )
    return {"layers": rows}
