"""The settings that the Transformer's encoder and decoder share."""

from dataclasses import dataclass

from torch import nn

from regard.errors import RecipeError
from regard.layers.attention import MultiHeadAttention
from regard.layers.feedforward import Activation, FeedForward
from regard.layers.position import Kind, Layout, Rotary, Scaling, Slowing, turned_numbers
from regard.layers.residual import Norm, Normalisation, Residual, normalisation
from regard.recipe.values import (
    Depth,
    Factor,
    Fraction,
    Heads,
    HeadsOrZero,
    Length,
    Positive,
    Share,
    Width,
)


@dataclass(frozen=True, kw_only=True)
class Config:
    """A stack of blocks; by default the paper's base model (Vaswani et al. 2017, table 3)."""

    layers: Depth = 6
    """How many blocks stand on each other."""
    heads: Heads = 8
    """Attention heads per block; model.dim must be a multiple of it."""
    feedforward: Width = 2048
    """Width of the feed-forward network."""
    activation: Activation = "relu"
    """Of the feed-forward network."""
    norm: Norm = "post"
    """Normalise after each residual sum, as the paper does, or before each sublayer."""
    normalisation: Normalisation = "layer"
    """LayerNorm or RMSNorm."""
    epsilon: Share = 0.0
    """ε of the norms; 0: 10⁻⁵ for LayerNorm, 10⁻⁶ for RMSNorm."""
    embedding_norm: bool = False
    """Normalise what the first block reads, embeddings with their positions, as BERT does."""
    parallel: bool = False
    """Both sublayers of a block read the same states, as in GPT-NeoX; norm must be "pre"."""
    key_value_heads: HeadsOrZero = 0
    """Heads of keys and values in self-attention, each of which serves as many heads of queries
    (grouped queries); 0: as many as heads."""
    bias: bool = True
    """Whether the projections have a bias."""
    query_key_value_bias: bool = False
    """Where projections have none (bias = false): whether those of queries, keys and values in
    self-attention do, as in Qwen2."""
    dropout: Share = 0.1
    """On each sublayer's output and on the sum of embedding and position."""
    feedforward_dropout: Share = 0.0
    """Inside the feed-forward network, after the activation."""
    position: Kind = "sinusoidal"
    """How positions are distinguished."""
    limit: Length = 1024
    """Positions in a learned or one-hot table; sinusoidal and rotary ones go on beyond it."""
    layout: Layout = "interleaved"
    """Sine and cosine in turn, as in the paper, or all sines first."""
    rotary_base: Positive = 10_000.0
    """The slowest rotary pair turns by about 1/base from one position to the next."""
    rotary_fraction: Fraction = 1.0
    """How much of each head rotary positions turn."""
    rotary_layout: Layout = "interleaved"
    """Rotary positions turn pairs of neighbours, or, as in Llama, of both halves of a head."""
    rotary_scaling: Scaling = "none"
    """Whether rotary positions are slower, for texts longer than those that a model first learnt
    from: all of them (linear), or those that turn slowly anyway (llama3)."""
    rotary_factor: Factor = 1.0
    """By how much they are slower."""
    rotary_original: Length = 8192
    """For llama3: positions of these first texts."""

    def check(self, dim: int) -> None:
        """Refuse sizes that do not fit together."""
        if dim % self.heads:
            raise RecipeError(f"heads: {self.heads} does not divide model.dim = {dim}")
        if self.key_value_heads and self.heads % self.key_value_heads:
            raise RecipeError(
                f"key_value_heads: {self.key_value_heads} does not divide heads = {self.heads}"
            )
        if self.parallel and self.norm != "pre":
            raise RecipeError(f'parallel: it needs norm = "pre", not {self.norm!r}')
        turned = turned_numbers(dim // self.heads, self.rotary_fraction)
        if self.position == "rotary" and (turned % 2 or not turned):
            raise RecipeError(f"position: rotary needs an even dimension per head, not {turned}")
        if self.position == "one_hot" and self.limit > dim:
            raise RecipeError(f"limit: one_hot needs limit ≤ model.dim = {dim}, not {self.limit}")

    def around(self, dim: int) -> Residual:
        """What stands around a sublayer."""
        return Residual(dim, self.norm, self.normalisation, self.dropout, self.epsilon)

    def attention(self, dim: int, *, cross: bool = False) -> MultiHeadAttention:
        """Self-attention, or attention to a memory."""
        if cross:
            return MultiHeadAttention(dim, self.heads, bias=self.bias, cross=True)
        return MultiHeadAttention(
            dim,
            self.heads,
            bias=self.bias,
            projected_bias=self.bias or self.query_key_value_bias,
            key_value_heads=self.key_value_heads,
        )

    def network(self, dim: int) -> FeedForward:
        return FeedForward(
            dim,
            self.feedforward,
            self.activation,
            bias=self.bias,
            dropout=self.feedforward_dropout,
        )

    def rotary(self, dim: int) -> Rotary | None:
        """What turns queries and keys, if positions are rotary."""
        if self.position != "rotary":
            return None
        return Rotary(
            dim // self.heads,
            self.limit,
            base=self.rotary_base,
            fraction=self.rotary_fraction,
            layout=self.rotary_layout,
            slowing=self.slowing,
        )

    @property
    def slowing(self) -> Slowing | None:
        """How rotary positions are slowed down."""
        if self.rotary_scaling == "none":
            return None
        return Slowing(self.rotary_scaling, self.rotary_factor, self.rotary_original)

    def before(self, dim: int) -> nn.Module:
        """The norm of what the first block reads."""
        return self._norm(dim) if self.embedding_norm else nn.Identity()

    def last(self, dim: int) -> nn.Module:
        """The norm behind the last block, which pre-norm needs."""
        return self._norm(dim) if self.norm == "pre" else nn.Identity()

    def _norm(self, dim: int) -> nn.Module:
        return normalisation(self.normalisation, dim, self.epsilon)
