"""A Transformer's decoder that reads: no position sees what follows it (Radford et al. 2018).

So the weights of a causal language model serve any task that reads: its embedding is the input, its
blocks are here, and the last position, which has seen all, stands for the text.
"""

from typing import ClassVar

from regard.encoders import transformer
from regard.layers.transformer import Config

__all__ = ["Config", "Encoder"]


class Encoder(transformer.Encoder):
    """N blocks of masked self-attention and feed-forward, by the names of the decoder's own."""

    causal: ClassVar[bool] = True
