"""From the tables of a pair of languages to the choice of a sentence."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from phrasebook.choices import Choice, Fixed, OneOf, Together, Words
from phrasebook.grammar import (
    Clause,
    Language,
    Line,
    Node,
    Phrase,
    Text,
    Word,
    kind,
    parse,
)

PHRASES = {
    "subject": "name; the person; the persons; a person | the trait person; the trait persons; "
    "a trait person; this trait person; number persons; owner's fellow; "
    "the person who; the persons who",
    "partner": "the fellow; the fellows; a fellow; his fellow | the trait fellow; a trait fellow; "
    "his trait fellow; owner's fellow",
    "holder": "the fellow; a fellow | the trait fellow; owner's fellow",
    "object": "the thing; the things; a thing; his thing | the look thing; the look things; "
    "a look thing; this look thing; his look thing; the person's thing",
    "objects": "number things | number look things",
    "item": "the thing; the things; this thing | the look thing; the look things; "
    "the person's thing; owner's thing; the thing that; the look thing that; the things that",
    "goods": "the thing; the things | the look thing; the look things; this thing",
    "place": "the room | the style room; this style room",
    "ride": "the vehicle",
}
"""The shapes of each kind of phrase, made of determiner, adjective and noun (with -s: plural).

Those before the bar are the short ones, for sentences of two clauses.
"""

Known = Mapping[str, Choice[Any]]
"""What may fill a slot, by its kind."""


@dataclass(frozen=True, kw_only=True)
class Tables:
    """All that is written about a pair of languages."""

    source: Language
    target: Language
    words: Mapping[str, Sequence[Word]]
    verbs: Mapping[str, Sequence[Word]]
    times: Mapping[str, str]
    """Expressions of time that suit any tense, or one."""
    simple: str
    """Clauses that may stand twice in a sentence, or in a relative clause."""
    rich: str
    """Clauses that stand alone."""
    sentences: str
    """Sentences made of clauses: `clause` is any, `timed` has a time, `untimed` could have one,
    `short`, `present` and `future` are simple ones with short phrases."""


@dataclass(frozen=True, kw_only=True)
class Book:
    source: Language
    target: Language
    sentence: Choice[Text]
    patterns: int


def build(tables: Tables) -> Book:
    verbs = frozenset(tables.verbs)
    simple, rich = parse(tables.simple, verbs), parse(tables.rich, verbs)
    sentences = parse(tables.sentences)
    modest = [line for line in simple if line.begins_with("subject")]
    bought = parse("[past] {name} {transitive} = {name} {transitive}", verbs)

    words: Known = {name: Words(ws) for name, ws in {**tables.words, **tables.verbs}.items()}
    times = {name: [text(line, words) for line in parse(t)] for name, t in tables.times.items()}
    short = {**words, **phrases(words, {})}
    relatives: Known = {
        "who": clauses(modest, short, tenses=("present", "past"), missing="subject"),
        "that": clauses(bought, short),
    }
    within: Known = {
        **words,
        **phrases(words, relatives),
        "short": clauses(simple, short),
    }
    timed = [line for line in simple + rich if line.timed]
    with_time = clauses(timed, within, times=times)
    without = clauses(simple + rich, within)
    top: Known = {
        **within,
        "present": clauses(simple, short, tenses=("present",)),
        "future": clauses(simple, short, tenses=("future",)),
        "clause": OneOf([without, with_time]),
        "timed": with_time,
        "untimed": clauses(timed, within),
    }
    return Book(
        source=tables.source,
        target=tables.target,
        sentence=OneOf([text(line, top) for line in sentences]),
        patterns=len(simple) + len(rich) + len(sentences),
    )


def text(line: Line, known: Known) -> Choice[Text]:
    def put_together(**fillers: Node) -> Text:
        return Text(line, fillers)

    return Together(put_together, {name: known[kind(name)] for name in line.source.slots})


def phrases(words: Known, relatives: Known) -> dict[str, Choice[Phrase]]:
    """The kinds of phrases; without relative clauses to choose from, in their short shapes."""
    kinds: dict[str, Choice[Phrase]] = {}
    for name, shapes in PHRASES.items():
        short, _, long = shapes.partition(" | ")
        chosen = f"{short}; {long}" if long and relatives else short
        kinds[name] = OneOf([phrase(shape, words, relatives) for shape in chosen.split("; ")])
    return kinds


def phrase(shape: str, words: Known, relatives: Known) -> Choice[Phrase]:
    """For example: name; the trait persons; number persons; owner's fellow; the person who."""
    owner, _, rest = shape.rpartition("'s ")
    names = rest.split()
    relative = relatives[names.pop()] if names[-1] in relatives else Fixed(None)
    noun = names.pop()
    plural = noun not in words
    determiner: Choice[Any] = Fixed("")
    if owner:
        determiner = phrase(owner, words, relatives)
    elif names:
        determiner = words.get(names[0]) or Fixed(names[0])
        names.pop(0)
    return Together(
        Phrase,
        {
            "determiner": determiner,
            "adjective": words[names[0]] if names else Fixed(None),
            "noun": words[noun.removesuffix("s") if plural else noun],
            "plural": Fixed(plural),
            "relative": relative,
        },
    )


def clauses(
    lines: Iterable[Line],
    known: Known,
    *,
    tenses: Sequence[str] = (),
    times: Mapping[str, Sequence[Choice[Text]]] | None = None,
    missing: str = "",
) -> Choice[Clause]:
    """Any of the lines, in any of its tenses (those of `tenses` only, if there are any)."""
    choices = []
    for line in lines:
        possible = [tense for tense in line.tenses if not tenses or tense in tenses]
        if possible:
            fillers = {name: known[kind(name)] for name in line.source.slots if name != missing}
            choices.append(OneOf([clause(line, tense, fillers, times) for tense in possible]))
    return OneOf(choices)


def clause(
    line: Line, tense: str, fillers: Known, times: Mapping[str, Sequence[Choice[Text]]] | None
) -> Choice[Clause]:
    def put_together(negated: bool, time: Text | None, **fillers: Node) -> Clause:
        return Clause(line, tense, negated, time, fillers)

    time: Choice[Text | None] = Fixed(None)
    if times is not None:
        own = tense if tense in times else "future"
        time = OneOf([*times["any"], *times[own]])
    negated = OneOf([Fixed(False), Fixed(True)], weight=3) if line.deniable else Fixed(False)
    return Together(put_together, {"negated": negated, "time": time, **fillers})
