"""The only place where parts meet: input → encoder → decoder → head, any of the first three absent.

Knows no task. Ties weights: a tied parameter is one object, so it is stored once, under the name
that `named_parameters` gives it first.
"""

from dataclasses import dataclass
from inspect import signature
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.errors import RecipeError
from regard.layers.embedding import Embedding
from regard.layers.probe import scope
from regard.recipe.parts import Part, foreign, module, reason
from regard.recipe.values import Width
from regard.types import Batch, Decoder, DecoderState, Encoder, Head, Input, Sequence, Sizes


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sizes that all parts share, and the parts."""

    dim: Width = 512
    """Dimension of the vectors that flow between parts."""
    tie: Literal["none", "output", "all"] = "all"
    """Share the embedding with the output projection; `all`: with the source's, too."""
    scale: bool = True
    """Multiply embeddings by √dim, as the paper does."""
    input: Part | None = None
    """What turns a field of the batch into vectors."""
    encoder: Part | None = None
    """What reads the input."""
    decoder: Part | None = None
    """What writes tokens one after the other."""
    head: Part | None = None
    """What turns hidden vectors into a distribution and a loss."""


class Model(nn.Module):
    """The parts of one model, each of which may be None but the head."""

    input: Input | None
    encoder: Encoder | None
    decoder: Decoder | None
    head: Head

    def __init__(
        self,
        input: Input | None,
        encoder: Encoder | None,
        decoder: Decoder | None,
        head: Head,
    ) -> None:
        super().__init__()
        self.input, self.encoder, self.decoder, self.head = input, encoder, decoder, head

    def encode(self, batch: Batch) -> Sequence | None:
        """The memory of a batch, or None for a model that reads nothing."""
        if self.input is None:
            return None
        sequence = self.input(batch)
        if self.encoder is None:
            return sequence
        with scope("encoder"):
            return self.encoder(sequence)

    def start(self, batch: Batch) -> DecoderState:
        """A decoder state that has read the batch's input and no target yet."""
        assert self.decoder is not None
        return self.decoder.start(self.encode(batch), len(batch))

    def decode(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Hidden vectors (R, T, D) after each of `tokens` (R, T), and the state that read them."""
        assert self.decoder is not None
        with scope("decoder"):
            return self.decoder(tokens, state)

    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Logits of the token after the last of `tokens` (R, T): all that a search needs."""
        hidden, state = self.decode(tokens, state)
        return self.head.logits(hidden[:, -1]), state

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def size(self) -> int:
        """Number of parameters; a tied one counts once."""
        return sum(p.numel() for p in self.parameters())


def build(config: Config, sizes: Sizes) -> Model:
    """Make the parts and tie them."""
    if config.head is None:
        raise RecipeError("model.head: a model needs a head")
    target = Embedding(sizes.target, config.dim, scale=config.scale) if config.decoder else None
    encoder = _part("encoders", config.encoder, "Encoder", config.dim)
    memory = config.input is not None
    decoder = _part("decoders", config.decoder, "Decoder", config.dim, target, memory=memory)
    tied = target.weight if target is not None and config.tie != "none" else None
    outputs = sizes.target or sizes.labels or sizes.values * sizes.steps
    fixed = _positions(config, sizes, encoder)
    if fixed and "positions" not in signature(module("heads", config.head.kind).Head).parameters:
        raise RecipeError(
            f"model.input.kind: {getattr(config.input, 'kind', '')!r} reads a series of numbers, "
            f"model.head.kind = {config.head.kind!r} says none"
        )
    head = _part("heads", config.head, "Head", config.dim, outputs, tied, **fixed)
    return Model(_input(config, sizes, target), encoder, decoder, head)


def check(config: Config) -> None:
    """Refuse parts that do not fit together: no data is needed for that, and no memory."""
    series = {"values": config.dim, "length": 1024, "steps": 8}
    try:
        with torch.device("meta"):
            build(config, Sizes(source=8, target=8, labels=8, characters=8, shared=True, **series))
    except (RuntimeError, OverflowError, MemoryError) as error:
        raise RecipeError(f"model: no machine has room for it: {error}") from None


def _positions(config: Config, sizes: Sizes, encoder: Any) -> dict[str, int]:
    """How many positions the head sees, where the input always gives the same number."""
    count = getattr(config.input.config, "positions", None) if config.input else None
    if count is None:
        return {}
    return {"positions": count(sizes.length) * getattr(encoder, "factor", 1)}


def _input(config: Config, sizes: Sizes, target: Embedding | None) -> Any:
    if config.input is None:
        return None
    shared = target if config.tie == "all" else None
    if shared is not None and not sizes.shared:
        raise RecipeError(
            "model.tie: 'all' needs one vocabulary for both sides: "
            "set tokenizer.joint = true, or model.tie = 'output'"
        )
    return _part(
        "inputs", config.input, "Input", sizes, config.dim, shared=shared, scale=config.scale
    )


def _part(room: str, part: Part | None, name: str, *args: Any, **options: Any) -> Any:
    if part is None:
        return None
    try:
        return getattr(module(room, part.kind), name)(part.config, *args, **options)
    except RecipeError as error:
        raise RecipeError(f"model.{name.lower()}.{error}") from None
    except Exception as error:
        if (where := foreign(room, part.kind)) is None:
            raise
        raise RecipeError(f"model.{name.lower()}.kind: {reason(error, where)}") from error
