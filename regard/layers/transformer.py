"""The settings that the Transformer's encoder and decoder share."""

from dataclasses import dataclass

from regard.errors import RecipeError
from regard.layers.feedforward import Activation
from regard.layers.position import Kind, Layout
from regard.layers.residual import Norm, Normalisation
from regard.recipe.values import Depth, Heads, Length, Share, Width


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
    bias: bool = True
    """Whether the projections have a bias."""
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

    def check(self, dim: int) -> None:
        """Refuse sizes that do not fit together."""
        if dim % self.heads:
            raise RecipeError(f"heads: {self.heads} does not divide model.dim = {dim}")
        if self.position == "rotary" and dim // self.heads % 2:
            raise RecipeError(
                f"position: rotary needs an even dimension per head, not {dim // self.heads}"
            )
        if self.position == "one_hot" and self.limit > dim:
            raise RecipeError(f"limit: one_hot needs limit ≤ model.dim = {dim}, not {self.limit}")
