"""The notation of the phrasebook: words, phrases and clauses, and how a language says them.

A sentence is a tree that is written down twice, once in each language. Its nodes are

    Word     an entry of a table, with its forms in both languages
    Phrase   determiner, adjective and noun, perhaps with a relative clause
    Clause   subject, verb and the rest, in a tense, perhaps denied, perhaps with a time
    Text     a line of running text: a whole sentence, or an expression of time

A line of the tables is `English = other language`, and may be broken before the equals sign. Both
sides are text with slots, and a slot is filled by the same node on both sides:

    {country}           the node, in its plain form
    {country2}          another node of the same kind
    {object acc}        the form `acc`, as far as the language knows such a form
    {item was/were}     the one word or the other, by the number of the node
    {number@unit}       the form that agrees with, or is governed by, the node of that other slot

In a clause, what stands before the verb's slot is the subject, with which the verb agrees; and

    @   is where an expression of time goes, if there is one
    ~   is where the negation goes; a clause without it cannot be denied
    |   ends what lies between the German verb's two parts; the end of the clause if missing
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal

Side = Literal["source", "target"]
Forms = Mapping[str, str]

BUCKETS = 5
"""Every word is in one of so many buckets, and so is every sentence: see PARTS."""


@dataclass(frozen=True, slots=True, eq=False)
class Word:
    """An entry of a table. The bucket decides which part of the corpus its sentences are in."""

    name: str
    source: Forms
    target: Forms
    bucket: int = field(init=False)

    def __post_init__(self) -> None:
        digest = sha256(self.name.encode()).digest()
        object.__setattr__(self, "bucket", int.from_bytes(digest[:8], "big") % BUCKETS)


@dataclass(frozen=True, slots=True, eq=False)
class Phrase:
    """A noun with what belongs to it.

    The determiner is "the", "a", "this", "his", "" for a name, a number, or the owner.
    """

    determiner: "str | Word | Phrase"
    adjective: Word | None
    noun: Word
    plural: bool
    relative: "Clause | None"


@dataclass(frozen=True, slots=True, eq=False)
class Clause:
    line: "Line"
    tense: str
    negated: bool
    time: "Text | None"
    fillers: "Mapping[str, Node]"


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    line: "Line"
    fillers: "Mapping[str, Node]"


Node = Word | Phrase | Clause | Text


@dataclass(frozen=True, slots=True)
class Slot:
    name: str
    form: str = ""
    agrees_with: str = ""
    denied: bool = False
    """The negation stands right behind this slot, and may melt into it: not a = no."""


Template = tuple[str | Slot, ...]
MARKS = ("@", "~", "|")


@dataclass(frozen=True, slots=True)
class Wording:
    """One side of a line. A line without a verb has all of its text in `middle`."""

    subject: Template
    verb: Slot | None
    middle: Template
    tail: Template

    @property
    def slots(self) -> list[str]:
        parts = (*self.subject, self.verb, *self.middle, *self.tail)
        return [part.name for part in parts if isinstance(part, Slot)]


@dataclass(frozen=True, slots=True)
class Line:
    source: Wording
    target: Wording
    tenses: tuple[str, ...]
    timed: bool
    deniable: bool

    def begins_with(self, slot: str) -> bool:
        """Whether the subject is in this slot on both sides."""
        return all(
            isinstance(first := (*wording.subject, "")[0], Slot) and first.name == slot
            for wording in (self.source, self.target)
        )


TENSES = {
    "all": ("present", "past", "future", "can", "want", "should"),
    "plain": ("present", "past", "future"),
}


def kind(slot: str) -> str:
    """The kind of node that fills a slot: `country2` is a `country`."""
    return slot.rstrip("23")


def parse(table: str, verbs: frozenset[str] = frozenset()) -> list[Line]:
    """The lines of a table. `[past]` before a line restricts its tenses."""
    rows = re.sub(r"\n\s*= ", " = ", table).splitlines()
    return [parse_line(row.strip(), verbs) for row in rows if row.strip()]


def parse_line(row: str, verbs: frozenset[str]) -> Line:
    match = re.fullmatch(r"(?:\[(?P<tenses>.+?)\] )?(?P<source>.+?) = (?P<target>.+)", row)
    if not match:
        raise ValueError(f"not `English = other language`: {row}")
    tenses, marks = match["tenses"] or "all", re.sub(r"\{.*?\}", "", match["target"])
    line = Line(
        source=parse_wording(match["source"], verbs),
        target=parse_wording(match["target"], verbs),
        tenses=TENSES.get(tenses) or tuple(tenses.split()),
        timed="@" in marks,
        deniable="~" in marks,
    )
    if set(line.source.slots) != set(line.target.slots):
        raise ValueError(f"the two sides have different slots: {row}")
    return line


def parse_wording(text: str, verbs: frozenset[str]) -> Wording:
    parts: list[str | Slot] = []
    for piece in re.findall(r"\{[^}]+\}|[@~|]|[^{@~|]+", text):
        match = re.fullmatch(r"\{(\w+)(?: ([^@}]+))?(?:@(\w+))?\}", piece)
        if match:
            parts.append(Slot(match[1], match[2] or "", match[3] or ""))
            continue
        if piece == "~" and len(parts) > 1 and isinstance(before := parts[-2], Slot):
            parts[-2] = Slot(before.name, before.form, before.agrees_with, denied=True)
        parts.append(piece)
    verb_at = next(
        (i for i, part in enumerate(parts) if isinstance(part, Slot) and part.name in verbs), None
    )
    if verb_at is None:
        return Wording((), None, tuple(parts), ())
    verb = parts[verb_at]
    assert isinstance(verb, Slot)
    end = parts.index("|") if "|" in parts else len(parts)
    return Wording(
        tuple(parts[:verb_at]), verb, tuple(parts[verb_at + 1 : end]), tuple(parts[end + 1 :])
    )


@dataclass(frozen=True, slots=True)
class Scene:
    """What a phrase must know of the clause that it stands in."""

    clause: Clause
    subject: Node | None
    time: str


class Language(ABC):
    """How one language writes the nodes down."""

    side: Side

    def sentence(self, text: Text) -> str:
        written = self.polish(self.text(text))
        return written[0].upper() + written[1:]

    def text(self, text: Text) -> str:
        return self.render(self.wording(text.line).middle, text.fillers)

    def wording(self, line: Line) -> Wording:
        return line.source if self.side == "source" else line.target

    def forms(self, word: Word) -> Forms:
        return word.source if self.side == "source" else word.target

    def render(
        self, template: Template, fillers: Mapping[str, Node], scene: Scene | None = None
    ) -> str:
        written = []
        for part in template:
            if isinstance(part, Slot):
                written.append(self.slot(part, fillers, scene))
            elif part not in MARKS:
                written.append(part)
            elif scene is not None:
                written.append(scene.time if part == "@" else self.negation(scene))
        return "".join(written)

    def slot(self, slot: Slot, fillers: Mapping[str, Node], scene: Scene | None) -> str:
        node, form = fillers[slot.name], slot.form
        if "/" in form:
            return form.split("/")[self.plural(node)]
        if slot.agrees_with:
            form = self.agreement(form, fillers[slot.agrees_with])
        match node:
            case Word():
                forms = self.forms(node)
                if form not in forms:
                    raise ValueError(f"{slot}: {node.name!r} has only {', '.join(forms)}")
                return forms[form]
            case Phrase():
                return self.phrase(node, form, scene, denied=slot.denied)
            case Clause():
                return self.clause(node, form or "main")
            case Text():
                return self.text(node)

    def plural(self, node: Node | None) -> bool:
        if isinstance(node, Phrase):
            return node.plural
        return isinstance(node, Word) and self.forms(node).get("number") == "plural"

    def subject(self, clause: Clause, head: Phrase | None) -> Node | None:
        """What the verb agrees with: the first slot before it, or the head if that is missing."""
        slots = (part for part in self.wording(clause.line).subject if isinstance(part, Slot))
        return next((clause.fillers.get(slot.name, head) for slot in slots), None)

    def verb(self, clause: Clause) -> Word:
        slot = self.wording(clause.line).verb
        assert slot is not None
        verb = clause.fillers[slot.name]
        assert isinstance(verb, Word)
        return verb

    def agreement(self, form: str, other: Node) -> str:
        """The form that a slot `{… form@other}` has."""
        return form

    def negation(self, scene: Scene) -> str:
        return ""

    @abstractmethod
    def phrase(
        self, phrase: Phrase, form: str, scene: Scene | None = None, denied: bool = False
    ) -> str: ...

    @abstractmethod
    def clause(self, clause: Clause, order: str, head: Phrase | None = None) -> str:
        """The clause in an order of its words; with a head, the relative clause of that head."""

    @abstractmethod
    def polish(self, text: str) -> str:
        """What depends on the neighbouring letters only: spaces, elision, contraction."""
