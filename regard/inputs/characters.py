"""A word's vector made from its characters: what is never seen can still be spelt.

cnn   max over places of convolutions over the characters   (Ma & Hovy 2016, section 2.1)
rnn   an LSTM's last states in both directions               (Lample et al. 2016, section 4.1)
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence

from regard.errors import RecipeError
from regard.layers.convolution import Convolutions
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding
from regard.layers.highway import Highway
from regard.layers.linear import SMALLEST, Linear, glorot
from regard.layers.recurrent import reversed_rows
from regard.recipe.values import FewOrZero, Share, Width, Widths
from regard.types import Batch, FieldSize, Sequence


@dataclass(frozen=True, kw_only=True)
class Config:
    """How characters become the vector of a word."""

    by: Literal["cnn", "rnn"] = "cnn"
    """Convolutions with a maximum over places, or an LSTM that reads both ways."""
    size: Width = 64
    """Dimension of the vector of a word."""
    symbol: Width = 32
    """Dimension of the vector of a character."""
    widths: Widths = (2, 3, 4)
    """How many characters a filter sees (cnn); `size` is shared out among the widths."""
    highway: FewOrZero = 0
    """Layers that the vector of a word goes through: y = g ⊙ relu(W x + b) + (1 − g) ⊙ x with a
    gate g of its own (Kim et al. 2016, section 2.3). Characters' vectors are then as they have
    them, not multiplied by √symbol."""
    dropout: Share = 0.0
    """On the characters' vectors."""
    spelt: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.by == "cnn" and not 0 < len(self.widths) <= self.size:
            raise RecipeError(f"widths: {len(self.widths)} cannot share size = {self.size}")
        if self.by == "rnn" and self.size % 2:
            raise RecipeError(f"size: {self.size} is not even: half of it is for each direction")


class Input(nn.Module):
    """characters (B, S, C) ↦ one vector for each word (B, S, D)."""

    def __init__(
        self, config: Config, size: FieldSize, dim: int, *, shared: Embedding | None, scale: bool
    ) -> None:
        super().__init__()
        no_sharing(shared)
        self.field = size.name
        self.spelling = Spelling(config, size["characters"])
        self.project = glorot(Linear(config.size, dim))

    def forward(self, batch: Batch) -> Sequence:
        spelt = self.spelling(batch[f"{self.field}_characters"])
        return Sequence(self.project(spelt), batch[f"{self.field}_mask"])


def no_sharing(shared: Embedding | None) -> None:
    """Vectors of words that are made here are not those of a target."""
    if shared is not None:
        raise RecipeError("kind: it has vectors of its own; set model.tie = 'output'")


class Spelling(nn.Module):
    """Characters, 0 where a word has ended, become one vector; a word without any, zeros."""

    def __init__(self, config: Config, symbols: int) -> None:
        super().__init__()
        self.size = config.size
        self.embedding = Embedding(symbols, config.symbol, scale=not config.highway)
        self.dropout = Dropout(config.dropout)
        self.convolutions: Convolutions | None = None
        self.lstm: nn.LSTM | None = None
        if config.by == "cnn":
            self.convolutions = Convolutions(config.symbol, config.size, config.widths)
        else:
            half = config.size // 2
            self.lstm = nn.LSTM(config.symbol, half, batch_first=True, bidirectional=True)
        self.highway = nn.Sequential(*(Highway(config.size) for _ in range(config.highway)))

    def forward(self, words: Int[Tensor, "B S C"]) -> Float[Tensor, "B S E"]:
        if not torch.onnx.is_in_onnx_export() and words.shape[2] == 0:  # nothing but blanks
            return self.embedding.weight.new_zeros(*words.shape[:2], self.size)
        # A text says the same words again and again: each is read once.
        different: Tensor  # (N, C)
        different, which = torch.unique(words.flatten(0, 1), dim=0, return_inverse=True)
        mask = different > 0
        real = mask.any(1)
        read: Tensor = self.highway(self._read(different[real], mask[real]))
        vectors = read.new_zeros(different.shape[0], self.size).masked_scatter(real[:, None], read)
        return vectors[which].view(*words.shape[:2], -1)

    def _read(self, words: Int[Tensor, "N C"], mask: Tensor) -> Float[Tensor, "N E"]:
        if self._many():
            assert self.convolutions is not None
            vectors = self.embedding.weight * self.embedding.factor
            found: Tensor = F.relu(self.convolutions.highest(vectors, words, mask))
            return found
        x: Tensor = self.dropout(self.embedding(words))
        if self.convolutions is not None:
            y: Tensor = F.relu(self.convolutions(x, mask))
            return y.masked_fill(~mask[..., None], 0.0).amax(1)  # relu: never below 0
        assert self.lstm is not None
        if torch.onnx.is_in_onnx_export():
            return self._ends(x, mask)
        if not len(words):
            return x.new_zeros(0, self.size)
        packed = pack_padded_sequence(x, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
        _, (last, _) = self.lstm(packed)  # (2, N, E/2)
        both: Tensor = torch.cat([last[0], last[1]], -1)
        return both

    def _many(self) -> bool:
        """Whether there are so many filters that to leave out padding pays."""
        dropped = self.training and self.dropout.p > 0  # of each place by itself
        if self.convolutions is None or dropped or torch.onnx.is_in_onnx_export():
            return False
        return sum(each.numel() for each in self.convolutions.parameters()) >= SMALLEST

    def _ends(self, x: Float[Tensor, "N C I"], mask: Tensor) -> Float[Tensor, "N E"]:
        """The same without packing, which ONNX lacks: the other direction reads reversed words."""
        assert self.lstm is not None
        found, last = [], mask.sum(1) - 1
        for weights, read in zip(self.lstm.all_weights, (x, reversed_rows(x, mask)), strict=True):
            zero = x.new_zeros(1, x.shape[0], self.size // 2)
            y, *_ = torch.lstm(read, (zero, zero), tuple(weights), True, 1, 0.0, False, False, True)
            found.append(y[torch.arange(x.shape[0]), last])
        return torch.cat(found, -1)
