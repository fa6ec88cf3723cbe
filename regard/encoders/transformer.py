"""The Transformer's encoder (Vaswani et al. 2017, figure 1, left)."""

from collections.abc import Iterator
from typing import ClassVar

from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.encoders import Stack
from regard.layers.attention import MultiHeadAttention, attend_to
from regard.layers.dropout import Dropout
from regard.layers.feedforward import FeedForward
from regard.layers.position import PositionalEncoding, Rotary
from regard.layers.probe import probe, scope
from regard.layers.residual import Residual, normalisation
from regard.layers.transformer import Config
from regard.types import Sequence

__all__ = ["Config", "Encoder"]


class Block(nn.Module):
    """x ↦ x + self-attention(x) ↦ x + feed-forward(x), each with its norm and dropout."""

    def __init__(self, config: Config, dim: int) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(dim, config.heads, bias=config.bias)
        self.feedforward = FeedForward(
            dim,
            config.feedforward,
            config.activation,
            bias=config.bias,
            dropout=config.feedforward_dropout,
        )
        self.around_attention = Residual(dim, config.norm, config.normalisation, config.dropout)
        self.around_feedforward = Residual(dim, config.norm, config.normalisation, config.dropout)

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        mask: Bool[Tensor, "B 1 1 S"] | None,
        rotary: Rotary | None,
        *,
        causal: bool = False,
    ) -> Float[Tensor, "B S D"]:
        with scope("attention"):
            inside = self.around_attention.enter(x)
            y, _ = self.attention(inside, mask, rotary=rotary, causal=causal)
        x = self.around_attention.leave(x, y)
        with scope("feedforward"):
            y = self.feedforward(self.around_feedforward.enter(x))
        return self.around_feedforward.leave(x, y)


class Encoder(Stack):
    """N blocks over embeddings with positions; pre-norm ends with a norm of its own."""

    causal: ClassVar[bool] = False
    """Whether no position sees what follows it: then padding, which does, need not be hidden."""

    def __init__(self, config: Config, dim: int) -> None:
        super().__init__()
        config.check(dim)
        self.position = PositionalEncoding(config.position, dim, config.limit, config.layout)
        rotary = config.position == "rotary"
        self.rotary = Rotary(dim // config.heads, config.limit) if rotary else None
        self.dropout = Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config, dim) for _ in range(config.layers))
        pre = config.norm == "pre"
        self.norm = normalisation(config.normalisation, dim) if pre else nn.Identity()

    def _finish(self, x: Tensor) -> Tensor:
        return self.norm(x)  # type: ignore[no-any-return]

    def _states(self, source: Sequence) -> Iterator[Float[Tensor, "B S D"]]:
        x: Tensor = self.dropout(probe("input", self.position(source.states)))
        yield x
        mask = None if self.causal else attend_to(source.mask)
        for number, block in enumerate(self.blocks):
            with scope(f"block.{number}"):
                x = probe("output", block(x, mask, self.rotary, causal=self.causal))
            yield x
