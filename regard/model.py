"""The only place where parts meet: input → encoder → decoder → head, any of the first three absent.

Knows no task. Ties weights: a tied parameter is one object, so it is stored once, under the name
that `named_parameters` gives it first.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.errors import RecipeError
from regard.layers.embedding import Embedding
from regard.layers.probe import scope
from regard.recipe.parts import Part, foreign, module, reason
from regard.recipe.values import Width
from regard.types import (
    Batch,
    Decoder,
    DecoderState,
    Encoder,
    FieldSize,
    FixedLength,
    Flattens,
    Head,
    Input,
    NoSize,
    Particular,
    Resizes,
    Sequence,
    Sizes,
)


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
    target = _target(config, sizes)
    encoder = _part("encoders", config.encoder, "Encoder", config.dim)
    memory = config.input is not None
    decoder = _part("decoders", config.decoder, "Decoder", config.dim, target, memory=memory)
    head = _head(config, sizes, encoder, target)
    return Model(_input(config, sizes, target), encoder, decoder, head)


def check(config: Config) -> None:
    """Refuse parts that do not fit together: no data is needed for that, and no memory."""
    try:
        with torch.device("meta"):
            build(config, _any_sizes(config))
    except (RuntimeError, OverflowError, MemoryError) as error:
        raise RecipeError(f"model: no machine has room for it: {error}") from None


class _AnyField(dict[str, int]):
    """Stands for the sizes of any field: what is not among its numbers is 8."""

    def __missing__(self, size: str) -> int:
        return 8


def _any_sizes(config: Config) -> Sizes:
    part = config.input.config if config.input else None
    example = part.example(config.dim) if isinstance(part, Particular) else {}
    fields = {"source": _AnyField(example), "target": _AnyField()}
    return Sizes(fields, reads="source", writes="target", shared=True)


def _target(config: Config, sizes: Sizes) -> Embedding | None:
    """The embedding of the tokens that a decoder writes."""
    if config.decoder is None:
        return None
    with _named("decoder", "decoders", config.decoder):
        tokens = sizes.of(sizes.writes)["tokens"]
    return Embedding(tokens, config.dim, scale=config.scale)


def _head(config: Config, sizes: Sizes, encoder: Any, target: Embedding | None) -> Any:
    assert config.head is not None
    tied = target.weight if target is not None and config.tie != "none" else None
    with _named("head", "heads", config.head):
        outputs = sizes.of(sizes.writes)["outputs"]
        flattens = isinstance(module("heads", config.head.kind).Head, Flattens)
    fixed = {"positions": _positions(config, sizes, encoder)} if flattens else {}
    return _part("heads", config.head, "Head", config.dim, outputs, tied, **fixed)


def _positions(config: Config, sizes: Sizes, encoder: Any) -> int | None:
    """How many positions the head reads, where they are as many for every example."""
    if config.input is None or not isinstance(config.input.config, FixedLength):
        return None
    with _named("input", "inputs", config.input):
        count = config.input.config.fixed_length(_read(sizes))
    return encoder.resized(count) if isinstance(encoder, Resizes) else count


def _read(sizes: Sizes) -> FieldSize:
    if not sizes.reads:
        raise RecipeError("kind: the task has no field that is read")
    return sizes.of(sizes.reads)


def _input(config: Config, sizes: Sizes, target: Embedding | None) -> Any:
    if config.input is None:
        return None
    shared = target if config.tie == "all" else None
    if shared is not None and not sizes.shared:
        raise RecipeError(
            "model.tie: 'all' needs one vocabulary for both sides: "
            "set tokenizer.joint = true, or model.tie = 'output'"
        )
    with _named("input", "inputs", config.input):
        size = _read(sizes)
    return _part(
        "inputs", config.input, "Input", size, config.dim, shared=shared, scale=config.scale
    )


def _part(room: str, part: Part | None, name: str, *args: Any, **options: Any) -> Any:
    if part is None:
        return None
    with _named(name.lower(), room, part):
        return getattr(module(room, part.kind), name)(part.config, *args, **options)


@contextmanager
def _named(key: str, room: str, part: Part) -> Iterator[None]:
    """What goes wrong with a part is said of its key."""
    try:
        yield
    except NoSize as error:
        does = "reads" if room == "inputs" else "needs"
        raise RecipeError(f"model.{key}.kind: {part.kind!r} {does} {error}") from None
    except RecipeError as error:
        raise RecipeError(f"model.{key}.{error}") from None
    except Exception as error:
        if (where := foreign(room, part.kind)) is None:
            raise
        raise RecipeError(f"model.{key}.kind: {reason(error, where)}") from error
