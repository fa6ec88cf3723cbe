"""See what a model computes, for any input, without a flag in any model.

    with capture(model) as seen:
        hidden, _ = model.decode(batch["target_in"], model.start(batch))
    seen["decoder.block.0.cross.weights"]      (B, H, T, S)
    seen.attention(), seen.hidden("encoder"), seen.recurrent(), seen.lens()

Stands on the layers' probes; outside the `with` nothing is recorded and nothing costs anything.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from regard.layers.probe import watch
from regard.model import Model
from regard.types import Pools, Sequence

STEP = re.compile(r"\bstep\.\d+\.")
"""Part of the name of what one step of a loop over time probes: all of them come together, too."""
LAST = re.compile(r"(gates\.)?\w+$")
"""The part of a name before which the step stands."""
ADDS_NOTHING = ("none", "rotary")
"""Kinds of positions that add no vector to what is read."""
RECURRENT = re.compile(r".*\.(state|cell|candidate|gates\.\w+)")


def submodule(model: Model, name: str) -> nn.Module | None:
    """What a model has under such a name, if anything."""
    return dict(model.named_modules(remove_duplicate=False)).get(name)


class Seen(Mapping[str, Tensor]):
    """What the probes have shown, by their names, in the order of the computation.

    A name that was seen several times, as in a search that goes step by step, has several values:
    `seen[name]` is the last one, `seen.calls(name)` has all.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self._calls: dict[str, list[Tensor]] = {}

    def add(self, name: str, value: Tensor) -> None:
        self._calls.setdefault(name, []).append(value)

    def __getitem__(self, name: str) -> Tensor:
        return self._calls[name][-1]

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._calls if not STEP.search(name))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def calls(self, name: str) -> list[Tensor]:
        """All values of a name, oldest first."""
        return self._calls[name]

    def attention(self) -> dict[str, Tensor]:
        """Every attention's weights (B, H, T, S): position t of H heads looks at S places."""
        return {
            name.removesuffix(".weights"): self[name] for name in self if name.endswith(".weights")
        }

    def hidden(self, part: str) -> dict[str, Tensor]:
        """The states (B, T, D) of the encoder or decoder: what enters it, then each layer's."""
        pattern = re.compile(rf"{part}\.(input|((block|layer)\.\d+\.)?output)")
        return {
            name.removeprefix(f"{part}."): self[name] for name in self if pattern.fullmatch(name)
        }

    def recurrent(self) -> dict[str, Tensor]:
        """States, cells, candidates and gates (B, T, H) of every recurrent layer over time."""
        return {name: self[name] for name in self if RECURRENT.fullmatch(name)}

    def steps(self, name: str) -> list[Tensor]:
        """What the loop over time had at each step, still part of the graph: t = 0, 1, …"""
        found: list[Tensor] = []
        while (step := LAST.sub(rf"step.{len(found)}.\g<0>", name)) in self._calls:
            found.append(self[step])
        return found

    def lens(self, mask: Bool[Tensor, "B S"] | None = None) -> dict[str, Tensor]:
        """Logits as if the model ended after each layer (the logit lens): the last are its own.

        Each layer's states go through the last normalisation and the head, those of a model
        without decoder also through the head's pooling, which wants the mask of the input. Empty
        for recurrent models, whose layers do not add to one stream that the head could read, and
        where the head reads all layers at once.
        """
        part = "decoder" if self.model.decoder is not None else "encoder"
        norm = submodule(self.model, f"{part}.norm")
        if norm is None or self.model.all_layers:
            return {}
        head = self.model.head
        pool = head.pool if isinstance(head, Pools) else None
        logits = {}
        for name, states in self.hidden(part).items():
            hidden = norm(states)
            if pool is not None:
                real = torch.ones_like(states[..., 0], dtype=torch.bool) if mask is None else mask
                hidden = pool(Sequence(hidden, real))
            logits[name] = head.logits(hidden)
        return logits


@contextmanager
def capture(model: Model, *, graph: bool = False) -> Iterator[Seen]:
    """Record all that the model's probes show inside the `with`.

    The values are detached; with `graph` they stay part of the graph, so that gradients with
    respect to them can be asked for. Interventions are seen if they were entered before.
    """
    seen = Seen(model)

    def note(name: str, value: Tensor) -> Tensor:
        seen.add(name, value if graph else value.detach())
        return value

    with watch(note):
        yield seen
