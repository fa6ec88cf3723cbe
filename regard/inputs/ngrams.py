"""Words and the n-grams that end with them, the n-grams hashed (Joulin et al. 2017, §2.2)."""

from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.inputs import tokens
from regard.layers.embedding import Embedding
from regard.recipe.values import Range, Weight
from regard.types import Batch, FieldSize, Sequence

NONE = 0
"""The bucket of no n-gram."""


@dataclass(frozen=True, kw_only=True)
class Config(tokens.Config):
    """Which n-grams, and how many vectors they share."""

    n: Annotated[int, Range(1, 32)] = 2
    """The longest n-gram; 1 for words alone."""
    bits: Annotated[int, Range(1, 26)] = 18
    """n-grams fall into 2^bits buckets, each with a vector."""
    naive_bayes: Weight = 0.0
    """Begin with what each word and each n-gram says of the labels, by counting in the training
    part, with so many occurrences added for each label (10 is a good beginning): as naive Bayes
    has it (Wang & Manning 2012). For classify, with a bag and the mean. 0: begin without."""


class Input(nn.Module):
    """x_t = E[w_t] + Σ_{n≥2} H[hash(w_{t−n+1} … w_t)], as long as the source."""

    def __init__(
        self, config: Config, size: FieldSize, dim: int, *, shared: Embedding | None, scale: bool
    ) -> None:
        super().__init__()
        self.field = size.name
        self.embedding = tokens.embedding(config, size, dim, shared=shared, scale=scale)
        self.n, self.bits, self.sparse = config.n, config.bits, False
        if config.n > 1:
            self.table = nn.Parameter(torch.zeros(1 << config.bits, dim))

    def forward(self, batch: Batch) -> Sequence:
        source, mask = batch[self.field], batch[f"{self.field}_mask"]
        x = self.embedding(source)
        if self.n > 1:
            buckets = ngrams(source, self.n, self.bits).flatten(0, 1)  # (B·S, n−1)
            found = self._sums(buckets)
            x = x + found.view_as(x) * self.embedding.factor
        return Sequence(x, mask)

    @property
    def rows(self) -> int:
        """How many vectors there are: those of the words, and behind them those of the buckets."""
        return len(self.embedding.weight) + (len(self.table) if self.n > 1 else 0)

    def looked_up(self, batch: Batch) -> tuple[Int[Tensor, "N"], Int[Tensor, "N"]]:
        """The row of each word and of each n-gram of a batch, and the text that has it."""
        source, mask = batch[self.field], batch[f"{self.field}_mask"]
        found, real = source[..., None], mask[..., None]
        if self.n > 1:
            buckets = ngrams(source, self.n, self.bits)
            found = torch.cat([found, buckets + len(self.embedding.weight)], -1)  # (B, S, n)
            real = torch.cat([real, real & (buckets != NONE)], -1)
        texts = torch.arange(len(source), device=source.device)[:, None, None].expand_as(found)
        return found[real], texts[real]

    @torch.no_grad()
    def begin(self, values: Float[Tensor, "R C"]) -> None:
        """Give all rows their first entries; the others stay as they are."""
        words, count = self.embedding.weight, values.shape[1]
        values = values.to(words) / self.embedding.factor
        words[:, :count] = values[: len(words)]
        if self.n > 1:
            self.table[:, :count] = values[len(words) :]

    def _sums(self, buckets: Int[Tensor, "N M"]) -> Float[Tensor, "N D"]:
        if torch.onnx.is_in_onnx_export():  # which has no bags
            return (F.embedding(buckets, self.table) * (buckets != NONE)[..., None]).sum(1)
        if self.sparse:  # whose bags are slow; the row of no n-gram is 0, and stays so
            return F.embedding(buckets, self.table, padding_idx=NONE, sparse=True).sum(1)
        return F.embedding_bag(buckets, self.table, mode="sum", padding_idx=NONE)


def ngrams(source: Int[Tensor, "B S"], n: int, bits: int) -> Int[Tensor, "B S M"]:
    """The buckets of the 2-gram … n-gram that end at each position; NONE where the text is shorter.

    h ← mix(h · prime + w), with the arithmetic of 64 bits that wrap, then the upper bits.
    """
    found, value = [], _mix(source + 1)
    for k in range(1, n):
        before = F.pad(source, (k, 0))[:, : source.shape[1]]
        value = _mix(value * 0x100000001B3 + before + 1)
        # Arithmetic shifts keep the sign; the mask takes it away.
        bucket = _shifted(value, 33) & ((1 << bits) - 1)
        bucket = bucket + (bucket == NONE)  # that one is taken
        bucket[:, :k] = NONE
        found.append(bucket)
    return torch.stack(found, -1)


def _mix(x: Int[Tensor, "B S"]) -> Int[Tensor, "B S"]:
    x = _unlike(x, _shifted(x, 31)) * -0x40A7B892E31B1A47
    return _unlike(x, _shifted(x, 29)) * -0x6B2FB644ECCEEE15


def _unlike(x: Int[Tensor, "B S"], y: Int[Tensor, "B S"]) -> Int[Tensor, "B S"]:
    """x xor y, which the tracer for ONNX knows of truth values alone."""
    return x + y - 2 * (x & y) if torch.onnx.is_in_onnx_export() else x ^ y


def _shifted(x: Int[Tensor, "B S"], bits: int) -> Int[Tensor, "B S"]:
    """⌊x / 2ᵇ⌋. ONNX shifts no numbers that may be below 0."""
    if torch.onnx.is_in_onnx_export():
        return torch.div(x, 1 << bits, rounding_mode="floor")
    return x >> bits
