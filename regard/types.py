"""The few types that flow between the rooms.

Shape letters, used in every signature:

    B  sentences in a batch              T  target positions
    R  rows: B, or B × beams in search   S  source positions
    D  model dimension                   H  attention heads
    V  vocabulary                        K  keys' or queries' dimension of one head
    N  anything flattened

A mask is boolean and True where a position is real (may be attended to, counts in the loss).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor, nn

from regard.errors import RecipeError


def exact(device: torch.device | str) -> torch.device:
    """Where float64 is computed for tensors of a device: Apple's GPUs have none."""
    kind = torch.device(device)
    return torch.device("cpu") if kind.type == "mps" else kind


def float64(tensor: Tensor) -> Float64[Tensor, "*shape"]:
    """The tensor in float64, and where that is computed."""
    return tensor.to(exact(tensor.device)).double()


class Sequence(NamedTuple):
    """What flows between parts: one vector per position, and which positions are real."""

    states: Float[Tensor, "B S D"]
    mask: Bool[Tensor, "B S"]


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Named tensors of one batch. `ids` are the examples' numbers in their store."""

    tensors: Mapping[str, Tensor]
    ids: tuple[int, ...]
    targets: int
    """How many targets it has, known before the forward pass: what is reported, and what a term of
    the loss is divided by that has no count of its own."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """The counts of those terms of the loss that have another one, by name; known before, too."""
    continues: bool = False
    """Whether its texts go on where those of the batch before it stopped."""
    divisible: bool = True
    """Whether its loss is the sum of its parts' losses: not where examples are compared with each
    other, as contrastive negatives are. What is not divisible is never split."""

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def __len__(self) -> int:
        return len(self.ids)

    def count(self, term: str) -> int:
        """How many targets a term of the loss has."""
        return self.counts.get(term, self.targets)

    def to(self, device: torch.device | str) -> "Batch":
        """The same elsewhere. (Not `non_blocking`: a copy to Apple's GPU would then read what may
        be gone by that time, and give other numbers without a word.)"""
        return replace(self, tensors={name: t.to(device) for name, t in self.tensors.items()})


@dataclass(frozen=True)
class Term:
    """One term of the loss, which is L = Σ_terms weight · Σ sum / Σ count; the inner sums are over
    all batches of an update, so that each term is divided by its own count."""

    sum: Float[Tensor, ""]
    count: int
    """Targets of the sum. The batch knows them beforehand (`Batch.count`)."""
    weight: float = 1.0
    """0 for a term that is reported, but not trained."""


Terms = dict[str, Term]
Carry = Mapping[str, Tensor] | None
"""What a model hands from one chunk of running text to the next, by name and without history."""


@runtime_checkable
class DecoderState(Protocol):
    """All that a decoder remembers of the tokens it has read.

    A key–value cache and the hidden state of an LSTM are both just states. What belongs to a
    hypothesis (R rows) is apart from what belongs to a sentence (B rows: the encoder's output),
    so that choosing hypotheses copies nothing of the memory. R is a multiple of B, and the rows
    of one sentence stand together. Each row has read a number of tokens of its own.

    A state is a value: reading gives another, and the same state may be read on from twice.
    """

    def select(self, rows: Int[Tensor, "R2"]) -> "DecoderState":
        """The hypotheses at `rows`, in that order; each must stay with its sentence."""
        ...

    def keep(self, sentences: Int[Tensor, "B2"]) -> "DecoderState":
        """The sentences at `sentences` alone, with all of their hypotheses."""
        ...

    def expand(self, beams: int) -> "DecoderState":
        """Each row repeated `beams` times, side by side; the memory is shared, not copied."""
        ...

    def join(self, others: Any) -> "DecoderState":
        """The sentences of this state and of `others`, with as many hypotheses of each; they need
        not have read as many tokens, nor have memories of one length."""
        ...

    def detach(self) -> "DecoderState":
        """The same values without their history: truncated back-propagation through time."""
        ...


@runtime_checkable
class Bounded(Protocol):
    """The state of a decoder that reads rows of several documents, each as if it were alone."""

    def bounded(self, first: int) -> DecoderState:
        """The same for rows in which every document begins with the token `first`."""
        ...


class NoSize(RecipeError):
    """A part asks for a size that its field does not have."""


@dataclass(frozen=True)
class FieldSize:
    """What only the data can say of one field: numbers, by the field's own words.

    The batch's tensors of the field are called by its name: NAME, NAME_mask, NAME_characters, …
    """

    name: str
    numbers: Mapping[str, int]

    def __getitem__(self, size: str) -> int:
        try:
            return self.numbers[size]
        except KeyError:
            known = ", ".join(self.numbers) or "no size"
            raise NoSize(f"{size}, but the field {self.name!r} has {known}") from None


@dataclass(frozen=True)
class Sizes:
    """What only the data can say about a model: the sizes of its fields, by the fields' names."""

    fields: Mapping[str, Mapping[str, int]]
    """{"source": {"tokens": 8000, "characters": 60}, "labels": {"outputs": 17}}: what an input asks
    for is decided by its kind; a decoder asks for tokens, a head for outputs."""
    reads: str = ""
    """The field that model.input reads, if there is one."""
    writes: str = ""
    """The field that the decoder writes and the head predicts."""
    shared: bool = False
    """Both use one vocabulary, so that their embeddings may be one."""
    vocabularies: Mapping[str, str] = field(default_factory=dict)
    """A hash of what the numbers of a field stand for (tokens, labels), where they stand for
    anything: weights of another run fit only where it is the same."""

    def of(self, field: str) -> FieldSize:
        """The sizes of one field."""
        if field not in self.fields:
            known = ", ".join(self.fields)
            raise RecipeError(f"kind: the task has no field {field!r}, only {known}")
        return FieldSize(field, self.fields[field])

    @property
    def read(self) -> FieldSize:
        """The sizes of the field that is read."""
        if not self.reads:
            raise RecipeError("kind: the task has no field that is read")
        return self.of(self.reads)

    @property
    def read_and_said(self) -> bool:
        """Whether the tokens that are read are those that are predicted, as in a masked text."""
        return self.reads == self.writes != "" and "tokens" in self.fields[self.reads]


@dataclass(frozen=True)
class Position:
    """A place in the endless stream of batches."""

    epoch: int = 0
    index: int = 0


ALL = slice(None)
"""Every example of a batch."""


@runtime_checkable
class Input(Protocol):
    """Turns a field of the batch into vectors."""

    def __call__(self, batch: Batch) -> Sequence: ...


@runtime_checkable
class SparseRows(Protocol):
    """A module with a table of vectors, of which a batch looks up a few."""

    sparse: bool
    """Whether the table's gradient has the rows that were looked up, and no others."""


@runtime_checkable
class Spells(Protocol):
    """The Config of an input that may read the characters of words."""

    spelt: bool
    """Whether it does."""


@runtime_checkable
class Positioned(Protocol):
    """The Config of a part whose positions may be a table."""

    position: str
    limit: int
    """How long a table is."""


@runtime_checkable
class Samples(Protocol):
    """The Config of a search that draws by chance."""

    samples: int
    """How many hypotheses it draws for each sentence, each by itself."""


@runtime_checkable
class Encoder(Protocol):
    """Reads a sequence and gives one as long, unless it `Resizes`."""

    def __call__(self, source: Sequence) -> Sequence: ...


@runtime_checkable
class Layered(Protocol):
    """An encoder of several layers that gives the states of all of them, as fast as the last."""

    def widths(self) -> tuple[int, ...]:
        """How many numbers each of them has for a position."""
        ...

    def all_layers(self, source: Sequence) -> list[Sequence]:
        """What its first layer reads, then what each layer gives; the last is what the encoder
        gives. Before the last they are as wide as the layers are, and not normalised where the
        encoder has a norm at its end alone."""
        ...


@runtime_checkable
class Selective(Protocol):
    """An encoder that gives the states of some places alone, with less work than those of all."""

    def at(self, source: Sequence, places: Int[Tensor, "B M"]) -> Float[Tensor, "B M D"]: ...


@runtime_checkable
class Resizes(Protocol):
    """An encoder that gives another number of positions than it reads."""

    def resized(self, positions: int) -> int:
        """How many it gives for so many."""
        ...


@runtime_checkable
class Splits(Protocol):
    """An encoder that makes several positions out of each."""

    names: tuple[str, ...]
    """Of the kinds of positions, in their order."""


@runtime_checkable
class Decoder(Protocol):
    """Reads tokens. One form serves teacher forcing, prefill and single steps."""

    def start(self, memory: Sequence | None, rows: int) -> DecoderState:
        """The state that has read nothing of `rows` targets, only the memory."""
        ...

    def __call__(
        self, tokens: Int[Tensor, "R T"], state: Any
    ) -> tuple[Float[Tensor, "R T D"], DecoderState]: ...

    def carry(self, state: Any) -> dict[str, Tensor]:
        """What the text that follows may know of this one, detached; empty if it knows nothing."""
        ...

    def resume(self, state: Any, carry: Mapping[str, Tensor]) -> DecoderState:
        """A state that has read nothing goes on from what `carry` gave."""
        ...


@runtime_checkable
class Head(Protocol):
    """Turns hidden vectors into logits when somebody wants them, or into loss terms."""

    predicts: ClassVar[str]
    """tokens, labels, tags, numbers, pairs or paths (of tokens and blanks): a task takes a head
    that predicts what the task does."""

    def logits(self, hidden: Float[Tensor, "*N D"]) -> Float[Tensor, "*N V"]: ...

    def loss(
        self, hidden: Float[Tensor, "B T D"], targets: Tensor, mask: Bool[Tensor, "B T"]
    ) -> Terms: ...


@runtime_checkable
class Neighbours(Protocol):
    """A head that says what stands at a position by the states of those beside it."""

    def beside(self, states: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        """What it reads for each position."""
        ...


@runtime_checkable
class Pools(Protocol):
    """A head that reads one vector for each example: that of the whole sequence."""

    def pool(self, sequence: Sequence) -> Float[Tensor, "B E"]: ...


@runtime_checkable
class Flattens(Protocol):
    """A head whose weights may depend on how many positions it reads. It is made with `positions`:
    this number, or None where examples are of unlike lengths; and with `groups`: how many rows of
    a batch belong to one example, where each is calibrated by itself."""

    flattens: ClassVar[bool]


@runtime_checkable
class Joins(Protocol):
    """A head that compares what two towers read. It is made with `widths`: those of their vectors,
    by the towers' names."""

    joins: ClassVar[bool]


@runtime_checkable
class Positive(Protocol):
    """A module with parameters that validation decides after training; they are above 0."""

    positive: ClassVar[tuple[str, ...]]
    """Their names."""


@runtime_checkable
class Rounded(Protocol):
    """A layer whose large products may be in another precision while it learns."""

    precision: torch.dtype


@runtime_checkable
class Units(Protocol):
    """A module with parts whose weights need to be whole only while they compute: they are called
    as modules, and nobody else reads their weights while learning."""

    def units(self) -> Iterable[nn.Module]: ...


@runtime_checkable
class Rated(Protocol):
    """A model that multiplies the learning rate of some parameters, each by a factor of its own."""

    def rates(self) -> Mapping[Tensor, float]: ...


@runtime_checkable
class Batches(Protocol):
    """The endless stream of training batches: a pure function of the seed and the position."""

    def at(self, position: Position, rows: slice = ALL) -> Batch:
        """The batch at a position, or those of its examples that `rows` selects."""
        ...

    def after(self, position: Position) -> Position: ...
