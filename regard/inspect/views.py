"""An input as a run reads it, and what a page shows of that: plain values, and arrays that are kept
as blocks."""

import math
import re
from dataclasses import asdict
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import UserError
from regard.inspect import images, sounds
from regard.inspect.ablation import ablation
from regard.inspect.attribution import attribute
from regard.inspect.blocks import Blocks
from regard.inspect.capture import Seen, capture, submodule
from regard.inspect.reading import Reading
from regard.inspect.space import embeddings, positions
from regard.inspect.spelling import spelt
from regard.layers.crf import CRF
from regard.model import Model
from regard.recipe.parts import Part
from regard.runs import Run
from regard.search.ctc import BLANK
from regard.tasks import Looks, Task
from regard.types import Splits

View = dict[str, Any]
LENGTH = 20
"""Tokens that a model goes on for, if nobody says how many."""
ALTERNATIVES, RANKED = 5, 10
"""Tokens that are shown beside one that is said, and for a blank."""
CHANCES = 64
"""With at most so many labels, the probability of each is shown for each place."""
ATTRIBUTED, STEPS = 64, 16
"""Outputs up to this length are attributed; each token costs some passes over the whole text. Of
numbers, of which neighbours are alike, and of what is heard, this many steps are."""
STATES = 2**21
"""Numbers of hidden states that a page shows at most; beyond, only their norms."""


def read(
    run: Run,
    task: Task,
    model: Model,
    text: str,
    search: Part,
    *,
    target: str | None = None,
    length: int = LENGTH,
) -> Reading:
    """Let the model say something about an input, or take `target` for what it says."""
    if not isinstance(task, Looks):
        raise UserError(f"{run.folder}: the task {run.recipe.kind} cannot be looked into")
    if not text.strip() and task.sizes.reads:
        raise UserError("inspect: the text is empty")
    return spelt(task.look(model, text, search, target, length), task)


def views(task: Task, model: Model, reading: Reading, blocks: Blocks) -> View:
    """Everything that there is to see; a view that the model does not have is left out."""
    model = reading.model or model
    with torch.no_grad(), capture(model) as seen:
        measured = reading.measured(model)
    numbers = reading.numbers is not None
    with torch.no_grad():
        found = {
            "numbers": reading.numbers,
            "blanks": blanks(reading, measured) if reading.blanks else None,
            "tokens": None if numbers else tokens(reading, measured, blocks),
            "attention": attention(seen, blocks),
            "alignment": alignment(seen, reading, blocks),
            "pooling": pooling(seen, blocks),
            "beam": [asdict(node) for node in reading.beam] if reading.beam else None,
            "states": states(model, seen, reading, blocks),
            "transitions": transitions(model, reading, blocks),
            "positions": positions(model, blocks),
            "embeddings": embeddings(task, model, reading.batch),
            "lens": forecasts(seen, reading) if numbers else lens(seen, reading),
        }
    found["ablation"] = ablation(model, reading)
    found["gradient"] = gradient(model, reading)
    found["attribution"] = said_of = attributions(model, reading, blocks)
    found["sound"] = sounds.view(reading, blocks)
    found["similarities"] = similarities(reading, blocks)
    found["picture"] = images.view(model, seen, reading, said_of, blocks)
    about = {
        "text": reading.text,
        "output": reading.output,
        "source": reading.source,
        "read": reading.read,
        "said": reading.said,
        "of": reading.of,
        "what": reading.what,
        "given": reading.given,
        "source_words": reading.source_words,
        "said_words": reading.said_words,
        "unknown": reading.unknown,
    }
    return about | {name: view for name, view in found.items() if view}


def tokens(reading: Reading, log_probs: Float[Tensor, "T C"], blocks: Blocks) -> View:
    """Each output's probability, what else was likely, and what each word is worth as a whole."""
    best = log_probs.topk(min(ALTERNATIVES + 1, log_probs.shape[1]))
    entropy = -(log_probs.exp() * log_probs).nan_to_num().sum(-1)
    rows: list[View] = []
    for place, symbol in enumerate(reading.symbols):
        chosen = float(log_probs[place, symbol])
        rank = int((log_probs[place] > log_probs[place, symbol]).sum())
        alternatives = [
            [reading.name([int(other)])[0], math.exp(float(value))]
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
                "alternatives": alternatives[:ALTERNATIVES],
            }
        )
    words = [
        {"from": a, "to": b, "p": math.exp(math.fsum(row["log_prob"] for row in rows[a:b]))}
        for a, b in reading.said_words
    ]
    found = {"rows": rows, "words": words, "total": math.fsum(row["log_prob"] for row in rows)}
    count = log_probs.shape[1]
    if count <= CHANCES and not reading.read:
        found["names"] = reading.name(range(count))
        found["chances"] = blocks.weights(log_probs.exp().cpu().numpy())
    return found


def blanks(reading: Reading, log_probs: Float[Tensor, "T C"]) -> list[View]:
    """The likeliest words for each blank of a text."""
    best = log_probs.topk(min(RANKED, log_probs.shape[1]))
    return [
        {
            "place": place,
            "words": [[w, math.exp(v)] for w, v in zip(reading.name(n), values, strict=True)],
        }
        for place, n, values in zip(
            reading.blanks, best.indices.tolist(), best.values.tolist(), strict=True
        )
    ]


def attention(seen: Seen, blocks: Blocks) -> list[View]:
    """Weights of every kind of attention, a block for each layer."""
    kinds: dict[str, View] = {}
    sides = {"encoder": ("source", "source"), "decoder": ("read", "read")}
    for name, weights in seen.attention().items():
        kind = "cross" if name.endswith("cross") else name.split(".")[0]
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
    # Of an input word all its tokens count together, of an output word their mean.
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


def transitions(model: Model, reading: Reading, blocks: Blocks) -> View | None:
    """How well each tag likes to stand after each other, the two ends included: A, b and z."""
    field = submodule(model, "head.crf")
    if not isinstance(field, CRF):
        return None
    names = reading.name(range(len(field.start)))
    table = torch.zeros(len(names) + 1, len(names) + 1)
    start, between, end = (each.cpu() for each in (field.start, field.transitions, field.end))
    table[0, :-1], table[1:, :-1], table[1:, -1] = start, between, end
    return {
        "before": ["<start>", *names],
        "after": [*names, "<end>"],
        "values": blocks.signed(table.numpy()),
    }


def similarities(reading: Reading, blocks: Blocks) -> View | None:
    """How much alike inputs and outputs are."""
    if reading.matrix is None or not reading.matrix.columns:
        return None
    rows, columns, values = reading.matrix
    return {"rows": rows, "columns": columns, "values": blocks.signed(values)}


def states(model: Model, seen: Seen, reading: Reading, blocks: Blocks) -> list[View]:
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
                "labels": _labels(model, reading, name, value.shape[1]),
                "norms": [round(x, 4) for x in value[0].norm(dim=-1).tolist()],
                "means": [round(x, 4) for x in value[0].mean(-1).tolist()],
                "values": _states(blocks, value[0], quantity) if small else None,
            }
        )
    return found


def _labels(model: Model, reading: Reading, layer: str, count: int) -> list[str]:
    """Names of positions. An encoder that makes several out of each has a name for each kind."""
    labels = reading.source if layer.startswith("encoder") else reading.read
    names: tuple[str, ...] = model.encoder.names if isinstance(model.encoder, Splits) else ()
    if count == len(labels) * len(names):
        return [f"{name} {label}" for name in names for label in labels]
    return labels if count == len(labels) else [str(n) for n in range(count)]


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
    """‖∂ log p / ∂h_t‖ for every layer's state h_t: of all that is said, and of the last alone.

    Where numbers are said, their gradient.
    """
    with torch.enable_grad(), capture(model, graph=True) as seen:
        measured = reading.measured(model)
        chosen = measured[torch.arange(len(reading.symbols)), torch.tensor(reading.symbols)]
    layers = {f"{p}.{k}": [v] for p in ("encoder", "decoder") for k, v in seen.hidden(p).items()}
    recurrent = [name for name in seen.recurrent() if name.endswith(".state")]
    layers |= {name: seen.steps(name) for name in recurrent}
    layers = {n: v for n, v in layers.items() if v and all(x.requires_grad for x in v)}
    if not layers:
        return []
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
    found = []
    for name, values in layers.items():
        whole, last = ([x for _ in values for x in next(curve)] for curve in curves)
        labels = _labels(model, reading, name, len(whole))
        found.append({"layer": name, "labels": labels, "all": whole, "last": last})
    return found


def attributions(model: Model, reading: Reading, blocks: Blocks) -> View | None:
    """How much each token that was read has to do with each that was said."""
    if not (places := attributed(reading)):
        return None
    found = [
        attribute(model, reading.batch, place, reading.symbols[place], reading.measure)
        for place in places
    ]
    values = torch.stack([torch.cat([a.source, a.target]) for a in found])
    return {
        "places": places,
        "values": blocks.signed(values.detach().cpu().numpy(), power=0.5),
        "totals": [a.value for a in found],
        "errors": [a.error for a in found],
    }


def attributed(reading: Reading) -> list[int]:
    """The places that are worth their time: none of an output that is too long."""
    every = list(range(len(reading.said)))
    if reading.heard and not reading.read:  # most positions of a sound say nothing new
        pairs = enumerate(zip([BLANK, *reading.symbols], reading.symbols, strict=False))
        every = [n for n, (before, now) in pairs if now not in (before, BLANK)]
    elif reading.numbers is None:
        return every if len(every) <= ATTRIBUTED else []
    return sorted({every[round(n * (len(every) - 1) / (STEPS - 1))] for n in range(STEPS)})


def lens(seen: Seen, reading: Reading) -> View | None:
    """What would be said if the model ended after each layer."""
    layers = seen.lens()
    if len(layers) < 2:
        return None
    rows = []
    for name, scores in layers.items():
        chances = reading.measure(scores)[0].exp()  # (T, C)
        best = chances.topk(min(3, chances.shape[1]))
        said = chances[torch.arange(len(reading.symbols)), torch.tensor(reading.symbols)]
        rows.append(
            {
                "layer": _layer(name),
                "best": [
                    [[p, round(float(v), 4)] for p, v in zip(reading.name(n), vs, strict=True)]
                    for n, vs in zip(best.indices.tolist(), best.values.tolist(), strict=True)
                ],
                "said": [round(p, 4) for p in said.tolist()],
            }
        )
    return {"layers": rows}


def forecasts(seen: Seen, reading: Reading) -> View | None:
    """The numbers that would be said if the model ended after each layer."""
    places = torch.arange(len(reading.symbols)), torch.tensor(reading.symbols)
    rows = [
        {"layer": _layer(name), "values": reading.measure(scores)[0][places].tolist()}
        for name, scores in seen.lens().items()
    ]
    return {"numbers": rows} if len(rows) > 1 else None


def _layer(name: str) -> str:
    return "embedding" if name == "input" else f"layer {re.sub(r'[^0-9]+', ' ', name).strip()}"
