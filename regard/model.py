"""The only place where parts meet: input → encoder → decoder → head, any of the first three absent.

A model that reads or predicts several fields has towers (input → encoder) and heads by the fields'
names. Knows no task. Ties weights: a tied parameter is one object, so it is stored once, under the
name that `named_parameters` gives it first.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.encoders import encoded, encoded_layers, side_by_side, width
from regard.errors import RecipeError
from regard.heads import reads_layers
from regard.inputs import FixedLength, Particular
from regard.layers.embedding import Embedding
from regard.layers.probe import scope
from regard.recipe.parts import ROOMS, Holding, Part, foreign, module, reason, room_of_part
from regard.recipe.values import Width, WidthOrZero
from regard.tuning.rates import set_training
from regard.types import (
    Batch,
    Decoder,
    DecoderState,
    Encoder,
    FieldSize,
    Flattens,
    Head,
    Input,
    Joins,
    NoSize,
    Resizes,
    Sequence,
    Sizes,
)


@dataclass(frozen=True, kw_only=True)
class TowerConfig:
    """One of several readers: it reads the field of its name."""

    input: Part | None = None
    """What turns the field into vectors."""
    encoder: Part | None = None
    """What reads them."""
    dim: WidthOrZero = 0
    """Dimension of its vectors; 0: that of the model."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sizes that all parts share, and the parts."""

    dim: Width = 512
    """Dimension of the vectors that flow between parts."""
    weights: str = ""
    """A run to begin with: each part that it has, too, begins with its weights and has its
    settings, unless the recipe says others, and the tokenizer comes along."""
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
    towers: Mapping[str, TowerConfig] = field(default_factory=dict)
    """Further readers, each of the field of its name."""
    heads: Mapping[str, Part | None] = field(default_factory=dict)
    """Further heads, each of which predicts the field of its name."""

    def parts(self) -> dict[str, Part]:
        """All parts, by their keys: "encoder", "towers.image.input", "heads.tags"."""
        found = {name: getattr(self, name) for name in ROOMS}
        for name, tower in self.towers.items():
            found[f"towers.{name}.input"] = tower.input
            found[f"towers.{name}.encoder"] = tower.encoder
        found |= {f"heads.{name}": part for name, part in self.heads.items()}
        return {key: part for key, part in found.items() if part is not None}

    def widths(self) -> dict[str, int]:
        """How wide the vectors of each tower are."""
        return {name: tower.dim or self.dim for name, tower in self.towers.items()}

    def changed(self, change: Callable[[Part], Part]) -> "Config":
        """The same with all parts changed."""

        def of(part: Part | None) -> Part | None:
            return None if part is None else change(part)

        plain: dict[str, Any] = {name: of(getattr(self, name)) for name in ROOMS}
        towers = {
            name: replace(tower, input=of(tower.input), encoder=of(tower.encoder))
            for name, tower in self.towers.items()
        }
        heads = {name: of(part) for name, part in self.heads.items()}
        return replace(self, **plain, towers=towers, heads=heads)


class Tower(nn.Module):
    """What reads one field: an input and an encoder, which may be None."""

    input: Input
    encoder: Encoder | None

    def __init__(self, input: Input, encoder: Encoder | None) -> None:
        super().__init__()
        self.input, self.encoder = input, encoder


class Model(nn.Module):
    """The parts of one model, each of which may be None.

    `head` is typed as if it were there: a task that uses it has declared that it is.
    """

    input: Input | None
    encoder: Encoder | None
    decoder: Decoder | None
    head: Head
    towers: Any
    """Each a Tower, by the name of the field that it reads."""
    heads: Any
    """Each a Head, by the name of the field that it predicts."""

    def __init__(
        self,
        input: Input | None,
        encoder: Encoder | None,
        decoder: Decoder | None,
        head: Any,
        towers: Mapping[str, Any] | None = None,
        heads: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.input, self.encoder, self.decoder, self.head = input, encoder, decoder, head
        self.towers, self.heads = nn.ModuleDict(towers or {}), nn.ModuleDict(heads or {})
        self.frozen: tuple[str, ...] = ()
        """The keys of the parts that are not trained."""
        self.factors: dict[str, float] = {}
        """What the learning rate of a part, or of a module in it, is multiplied by."""
        self.all_layers = False
        """Whether the memory has the states of all layers side by side."""

    def encode(self, batch: Batch, tower: str = "") -> Sequence | None:
        """The memory of a batch, or None for a model that reads nothing; that of a named tower."""
        if tower:
            named = self.towers[tower]
            with scope(f"towers.{tower}"):
                return encoded(named.input, named.encoder, batch)
        if self.all_layers:
            return side_by_side(self.encode_layers(batch))
        return None if self.input is None else encoded(self.input, self.encoder, batch)

    def encode_layers(self, batch: Batch, tower: str = "") -> list[Sequence]:
        """What the encoder reads and what each of its layers gives; `encode` gives the last, unless
        the head reads all."""
        part = self.towers[tower] if tower else self
        if part.input is None:
            return []
        with scope(f"towers.{tower}") if tower else nullcontext():
            return encoded_layers(part.input, part.encoder, batch)

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

    def train(self, mode: bool = True) -> "Model":
        """A frozen part always computes as in prediction: without dropout, in full precision."""
        super().train(mode)
        for key in self.frozen:
            self.get_submodule(key).eval()
        return self

    def rates(self) -> dict[Tensor, float]:
        """What the learning rate of a parameter is multiplied by, where it is."""
        return {
            parameter: factor
            for key, factor in self.factors.items()
            for parameter in self.get_submodule(key).parameters()
        }

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def size(self) -> int:
        """Number of parameters; a tied one counts once."""
        return sum(p.numel() for p in self.parameters())


def build(config: Config, sizes: Sizes) -> Model:
    """Make the parts and tie them."""
    if config.head is None and not config.heads and not config.towers:
        raise RecipeError("model.head: a model needs a head")
    target = _target(config, sizes)
    encoder = _part("encoder", config.encoder, config.dim)
    memory = config.input is not None
    decoder = _part("decoder", config.decoder, config.dim, target, memory=memory)
    positions = _positions(config, sizes, encoder)
    tied = target.weight if target is not None and config.tie != "none" else None
    made_with: dict[str, Any] = {"positions": positions, "widths": config.widths()}
    others = {name: part.config for name, part in config.heads.items() if part}
    every = reads_layers(config.head and config.head.config, others)
    read = width(encoder, config.dim) if every else config.dim
    head = _head("head", config.head, read, sizes, sizes.writes, tied, **made_with)
    input = _input(config, sizes, target)
    for key in (f"{kind}.{name}" for kind in ("towers", "heads") for name in getattr(config, kind)):
        if hasattr(nn.ModuleDict, key.rpartition(".")[2]):
            raise RecipeError(f"model.{key}: this cannot be the name of a field")
    towers = {name: _tower(name, config, sizes) for name in config.towers}
    heads = {
        name: _head(f"heads.{name}", part, config.dim, sizes, name, None, **made_with)
        for name, part in config.heads.items()
        if part is not None
    }
    model = Model(input, encoder, decoder, head, towers, heads)
    model.frozen, model.factors = set_training(model, config.parts())
    model.all_layers = every
    return model


def check(config: Config, fields: Mapping[str, Collection[str] | None]) -> None:
    """Refuse parts that do not fit together, or not to the task's fields, whose names of sizes are
    given, as far as they are known: no data is needed for that, and no memory."""
    try:
        stand_in(config, fields)
    except (RuntimeError, OverflowError, MemoryError) as error:
        raise RecipeError(f"model: no machine has room for it: {error}") from None


def stand_in(config: Config, fields: Mapping[str, Collection[str] | None] | None = None) -> Model:
    """The model without memory, and with any sizes in place of those that the data will say."""
    with torch.device("meta"):
        return build(config, _any_sizes(config, fields or {}))


class AnyField(dict[str, int]):
    """Stands for the sizes of any field: what is not among its numbers is 8."""

    def __missing__(self, size: str) -> int:
        return 8


def _any_sizes(config: Config, known: Mapping[str, Collection[str] | None]) -> Sizes:
    """Any numbers. `model.input` reads the first of the known fields that no tower reads."""
    reads = next((name for name in known if name not in config.towers), "*read")
    read = {reads: config.input} | {name: t.input for name, t in config.towers.items()}
    fields: dict[str, Any] = {name: AnyField() for name in ("*written", *config.heads)}
    for name, part in read.items():
        settings = part.config if part else None
        dim = config.widths().get(name, config.dim)
        some = AnyField(settings.example(dim) if isinstance(settings, Particular) else {})
        sizes = known.get(name)
        if isinstance(sizes, Mapping):
            fields[name] = sizes
        else:
            fields[name] = some if sizes is None else {size: some[size] for size in sizes}
    # A field that is read and has outputs of its tokens is the one that is predicted.
    same = config.decoder is None and {"tokens", "outputs"} <= {*(known.get(reads) or ())}
    return Sizes(fields, reads=reads, writes=reads if same else "*written", shared=True)


def _target(config: Config, sizes: Sizes) -> Embedding | None:
    """The embedding of the tokens that a decoder writes, or of those that are read and predicted
    again."""
    again = config.input is not None and config.tie != "none" and sizes.read_and_said
    if config.decoder is None and not again:
        return None
    with _named("decoder", config.decoder) if config.decoder else nullcontext():
        tokens = sizes.of(sizes.writes)["tokens"]
    return Embedding(tokens, config.dim, scale=config.scale)


def _head(
    key: str,
    part: Part | None,
    dim: int,
    sizes: Sizes,
    predicted: str,
    tied: nn.Parameter | None,
    *,
    positions: int | None,
    widths: Mapping[str, int],
) -> Any:
    """The head that predicts a field."""
    if part is None:
        return None
    with _named(key, part):
        size = sizes.of(predicted)
        outputs, groups = size["outputs"], size.numbers.get("groups", 1)
        kind = module("heads", part.kind).Head
    fixed: dict[str, Any] = {}
    if isinstance(kind, Flattens):
        fixed = {"positions": positions, "groups": groups}
    if isinstance(kind, Joins):
        if len(widths) != 2:
            raise RecipeError(f"model.{key}.kind: {part.kind!r} joins two towers")
        fixed = {"widths": widths}
    return _part(key, part, dim, outputs, tied, **fixed)


def _positions(config: Config, sizes: Sizes, encoder: Any) -> int | None:
    """How many positions the head reads, where they are as many for every example."""
    if config.input is None or not isinstance(config.input.config, FixedLength):
        return None
    with _named("input", config.input):
        count = config.input.config.fixed_length(sizes.read)
    return encoder.resized(count) if isinstance(encoder, Resizes) else count


def _input(config: Config, sizes: Sizes, target: Embedding | None) -> Any:
    if config.input is None:
        return None
    shared = target if config.tie == "all" or sizes.read_and_said else None
    if shared is not None and not sizes.shared:
        raise RecipeError(
            "model.tie: 'all' needs one vocabulary for both sides: "
            "set tokenizer.joint = true, or model.tie = 'output'"
        )
    with _named("input", config.input):
        size = sizes.read
    options = {"shared": shared, "scale": config.scale, **_held(config.input, size)}
    return _part("input", config.input, size, config.dim, **options)


def _held(part: Part, size: FieldSize) -> dict[str, Any]:
    """The parts of another run that an input reads by, if it does."""
    if not isinstance(settings := part.config, Holding):
        return {}
    options = {"shared": None, "scale": settings.scale}
    return {
        "input": _part("input.input", settings.input, size, settings.dim, **options),
        "encoder": _part("input.encoder", settings.encoder, settings.dim),
    }


def _tower(name: str, config: Config, sizes: Sizes) -> Tower:
    """The reader of one field; it shares its vectors with nobody."""
    key, settings, dim = f"towers.{name}", config.towers[name], config.widths()[name]
    if settings.input is None:
        raise RecipeError(f"model.{key}.input: a tower needs an input")
    with _named(f"{key}.input", settings.input):
        size = sizes.of(name)
    encoder = _part(f"{key}.encoder", settings.encoder, dim)
    options = {"shared": None, "scale": config.scale}
    if isinstance(settings.input.config, Holding):
        raise RecipeError(f"model.{key}.input.kind: {settings.input.kind!r} is for model.input")
    return Tower(_part(f"{key}.input", settings.input, size, dim, **options), encoder)


def _part(key: str, part: Part | None, *args: Any, **options: Any) -> Any:
    """A part, made by the class of its room."""
    if part is None:
        return None
    room = room_of_part(key)
    with _named(key, part):
        made = getattr(module(room, part.kind), room.removesuffix("s").capitalize())
        return made(part.config, *args, **options)


@contextmanager
def _named(key: str, part: Part) -> Iterator[None]:
    """What goes wrong with a part is said of its key."""
    room = room_of_part(key)
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
