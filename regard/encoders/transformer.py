"""The Transformer's encoder (Vaswani et al. 2017, figure 1, left)."""

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import ClassVar

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.encoders import Stack
from regard.layers import some_places
from regard.layers.attention import attend_to
from regard.layers.dropout import Dropout
from regard.layers.position import PositionalEncoding, Rotary
from regard.layers.probe import probe, scope
from regard.layers.recompute import Recomputing
from regard.layers.transformer import Config
from regard.types import Sequence

__all__ = ["Config", "Encoder"]


class Block(Recomputing):
    """x ↦ x + self-attention(x) ↦ x + feed-forward(x), each with its norm and dropout."""

    def __init__(self, config: Config, dim: int) -> None:
        super().__init__()
        self.attention = config.attention(dim)
        self.feedforward = config.network(dim)
        self.around_attention = config.around(dim)
        self.around_feedforward = config.around(dim)
        self.parallel = config.parallel

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        mask: Bool[Tensor, "B 1 1 S"] | None,
        rotary: Rotary | None,
        *,
        causal: bool = False,
    ) -> Float[Tensor, "B S D"]:
        return self.computed(self._once, x, mask, rotary, causal)

    def _once(
        self,
        x: Float[Tensor, "B S D"],
        mask: Bool[Tensor, "B 1 1 S"] | None,
        rotary: Rotary | None,
        causal: bool,
    ) -> Float[Tensor, "B S D"]:
        with scope("attention"):
            inside = self.around_attention.enter(x)
            y, _ = self.attention(inside, mask, rotary=rotary, causal=causal)
        before, x = x, self.around_attention.leave(x, y)
        with scope("feedforward"):
            y = self.feedforward(self.around_feedforward.enter(before if self.parallel else x))
        return self.around_feedforward.leave(x, y)


class Encoder(Stack):
    """N blocks over embeddings with positions; pre-norm ends with a norm of its own."""

    causal: ClassVar[bool] = False
    """Whether no position sees what follows it: then padding, which does, need not be hidden."""

    def __init__(self, config: Config, dim: int) -> None:
        super().__init__((dim,) * (config.layers + 1))
        config.check(dim)
        self.position = PositionalEncoding(config.position, dim, config.limit, config.layout)
        self.rotary = config.rotary(dim)
        self.embedding_norm = config.before(dim)
        self.dropout = Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config, dim) for _ in range(config.layers))
        self.norm = config.last(dim)

    def units(self) -> list[nn.Module]:
        """Of the last block, `at` may compute a part by itself."""
        *blocks, last = self.blocks
        network: nn.Module = last.feedforward  # type: ignore[assignment]
        return [*blocks, network]

    def _finish(self, x: Tensor) -> Tensor:
        return self.norm(x)  # type: ignore[no-any-return]

    def _states(self, source: Sequence) -> Iterator[Float[Tensor, "B S D"]]:
        x = self.embedding_norm(self.position(source.states))
        x = self.dropout(probe("input", x))
        yield x
        mask = None if self.causal else attend_to(source.mask)
        for number, block in enumerate(self.blocks):
            with scope(f"block.{number}"):
                x = probe("output", block(x, mask, self.rotary, causal=self.causal))
            yield x

    def at(self, source: Sequence, places: Int[Tensor, "B M"]) -> Float[Tensor, "B M D"]:
        """States at some places of each row: the last block computes no others."""
        if self.causal or not some_places.suits(self.blocks[-1]):
            return some_places.chosen(self(source).states, places)
        before = deque(islice(self._states(source), len(self.blocks)), maxlen=1).pop()
        mask = attend_to(source.mask)
        return self._finish(some_places.block(self.blocks[-1], before, mask, places, self.rotary))
