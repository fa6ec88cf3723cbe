"""The embedded corpus: right, the same everywhere, large, and not to be had by looking it up."""

import hashlib
import json
import lzma
import re
import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import replace
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rapidfuzz.distance import Levenshtein

from phrasebook import (
    LANGUAGES,
    PARTS,
    Languages,
    english_french,
    english_german,
    pairs,
    patterns,
    size,
)
from phrasebook.__main__ import COUNTS
from phrasebook.book import Tables, phrase
from phrasebook.choices import Dice, Together, Words
from phrasebook.english import English
from phrasebook.grammar import BUCKETS, Clause, Node, Phrase, Text, Word, kind, parse
from regard.errors import UserError

Float32 = np.ndarray[Any, np.dtype[np.float32]]
both = pytest.mark.parametrize("languages", LANGUAGES)
PROJECT = Path(__file__).resolve().parents[2]

# Large samples come from a process of their own, without the check of types that slows the tests.
SAMPLE = """
import itertools, json, sys, time
import phrasebook

sample = {"babel": "babel" in sys.modules}
for languages in phrasebook.LANGUAGES:
    book = phrasebook.book(languages)
    begin = time.process_time()
    train = phrasebook.pairs(languages, "train", 20_000)
    seconds = time.process_time() - begin
    words = {}
    for part in phrasebook.PARTS:
        stream = itertools.islice(phrasebook.derivations(languages, part, seed=1), 2000)
        words[part] = [sorted(word.name for word in drawn) for _, drawn in stream]
    stream = itertools.islice(phrasebook.derivations(languages, "train", seed=3), 10_000)
    drawn = [(book.source.sentence(tree), book.target.sentence(tree)) for tree, _ in stream]
    sample[languages] = {
        "seconds": seconds, "words": words, "drawn": drawn, "train": train,
        "validation": phrasebook.pairs(languages, "validation", 2000),
        "test": phrasebook.pairs(languages, "test", 2000),
    }
for asked in (("en-xx", "test", 1), ("en-de", "dev", 1)):
    try:
        phrasebook.pairs(*asked)
    except phrasebook.UserError as error:
        sample[asked[0] + asked[1]] = str(error)
json.dump(sample, sys.stdout)
"""


@pytest.fixture(scope="module")
def sample() -> dict[str, Any]:
    program = [sys.executable, "-c", SAMPLE]
    done = subprocess.run(program, capture_output=True, text=True, cwd=PROJECT)
    assert done.returncode == 0, done.stderr
    read: dict[str, Any] = json.loads(done.stdout)
    return read


def words(text: str) -> list[str]:
    return re.findall(r"\w[\w-]*'?|[^\w\s]", text)


# The corpus as a whole.


@pytest.mark.parametrize(
    ("languages", "digest"),
    [("en-de", "d79b5df5b90ff44b"), ("en-fr", "2d9bc33b33ba9bf7")],
)
def test_the_first_hundred_pairs_are_the_same_everywhere(languages, digest):
    written = "\n".join("\t".join(pair) for pair in pairs(languages, "train", 100))
    assert hashlib.sha256(written.encode()).hexdigest()[:16] == digest


@both
def test_fewer_pairs_are_the_beginning_of_more_and_seeds_differ(languages, sample):
    first = pairs(languages, "test", 50)
    assert first == [tuple(pair) for pair in sample[languages]["test"][:50]]
    assert pairs(languages, "test", 50, seed=2) != first


@both
def test_sources_are_distinct_and_parts_disjoint(languages, sample):
    sources = [source for part in PARTS for source, _ in sample[languages][part]]
    assert len(set(sources)) == len(sources) == 24_000


@both
def test_no_combination_of_words_is_in_two_parts(languages, sample):
    train, validation, test = (set(map(tuple, sample[languages]["words"][p])) for p in PARTS)
    assert len(test) > 1500
    assert not train & test
    assert not train & validation
    assert not validation & test


@both
def test_a_sentence_has_one_translation(languages, sample):
    translations: dict[str, str] = {}
    for source, target in sample[languages]["drawn"]:
        assert translations.setdefault(source, target) == target


@both
def test_english_tells_the_tenses_apart(languages):
    """A verb such as "cost" or "put" would have two translations."""
    book = tables(languages)
    for line in parse(book.simple + book.rich, frozenset(book.verbs)):
        assert line.source.verb is not None
        slot = line.source.verb.name
        for verb, plural in product(book.verbs[slot], (False, True)):
            clauses = [Clause(line, tense, False, None, {slot: verb}) for tense in line.tenses]
            groups = {English().verb_group(clause, plural, False) for clause in clauses}
            assert len(groups) == len(line.tenses), (verb.name, groups)


@both
def test_there_are_many_patterns_and_sentences(languages):
    assert patterns(languages) >= 40
    assert size(languages) >= 1_000_000
    assert size(languages) == sum(size(languages, part) for part in PARTS)
    assert min(size(languages, part) for part in PARTS) > size(languages) / 10


@both
def test_test_words_are_training_words(languages, sample):
    known = {word for pair in sample[languages]["train"] for text in pair for word in words(text)}
    tokens = [word for pair in sample[languages]["test"] for text in pair for word in words(text)]
    assert sum(word in known for word in tokens) / len(tokens) > 0.999
    assert len(known) < 4000


@both
def test_sentences_are_of_ordinary_length_and_form(languages, sample):
    lengths = [len(source.split()) for source, _ in sample[languages]["train"]]
    assert sum(5 <= length <= 18 for length in lengths) / len(lengths) > 0.9
    for pair in sample[languages]["train"]:
        for text in pair:
            assert re.fullmatch(r"[A-ZÄÖÜÉÀ][^{}@~|+<]*[^ ][.?]|[A-ZÉ][^{}@~|+<]* \?", text), text
            assert "  " not in text
            assert ",," not in text
            assert text.count(".") - len(re.findall(r"\d\.", text)) <= 1


@both
def test_twenty_thousand_pairs_take_less_than_three_seconds(languages, sample):
    assert sample[languages]["seconds"] < 3


def test_babel_is_imported_only_when_needed(sample):
    assert sample["babel"] is False


def test_asking_for_what_is_not_there(sample):
    with pytest.raises(UserError, match=r"has [\d,]+ sentences in its part test"):
        pairs("en-de", "test", size("en-de", "test") + 1)
    assert "en-de, en-fr" in sample["en-xxtest"]
    assert "train, validation, test" in sample["en-dedev"]


# Counting.


def test_counts_are_those_of_an_enumeration():
    table = [Word(name, {}, {}) for name in ("a", "b", "c", "d", "e", "f", "g")]
    two = Together(lambda **made: made, {"x": Words(table), "x2": Words(table), "y": Words(table)})
    expected = Counter(
        (x.bucket + x2.bucket + y.bucket) % BUCKETS
        for x in table
        for x2 in table
        for y in table
        if x is not x2
    )
    assert two.counts == tuple(expected[k] for k in range(BUCKETS))


def test_a_line_that_is_wrong_is_refused():
    with pytest.raises(ValueError, match="not `English = other language`"):
        parse("{country} is big")
    with pytest.raises(ValueError, match="different slots"):
        parse("{country} = {country2}")


# Grammar, sentence by sentence.


@cache
def tables(languages: Languages) -> Tables:
    return english_german.tables() if languages == "en-de" else english_french.tables()


def row(table: str, english: str) -> str:
    """The line of a table that has this English side."""
    lines = re.sub(r"\n\s*= ", " = ", table).splitlines()
    return next(x for x in lines if re.sub(r"^\s*(\[.*?\] )?", "", x).startswith(f"{english} = "))


def filler(book: Tables, slot: str, spec: str) -> Node:
    """A word by its name, or a phrase by its shape and its words: `the trait persons: old man`."""
    lexicon = {**book.words, **book.verbs}
    if ": " not in spec:
        return next(word for word in lexicon[kind(slot)] if word.name == spec)
    shape, names = spec.split(": ")
    kinds = re.findall("name|owner|number|trait|look|style|person|fellow|thing|room|vehicle", shape)
    only = {
        k: Words([word for word in lexicon[k] if word.name == name.replace("_", " ")])
        for k, name in zip(kinds, names.split(), strict=True)
    }
    return phrase(shape, only, {}).draw(Dice(""), [])


def clause(languages, english, tense, *, negated=False, time=None, **specs) -> Clause:
    book = tables(languages)
    line = parse(row(book.simple + book.rich, english), frozenset(book.verbs))[0]
    fillers = {n: s if not isinstance(s, str) else filler(book, n, s) for n, s in specs.items()}
    return Clause(line, tense, negated, time, fillers)


def when(languages, tense, english, **specs) -> Text:
    book = tables(languages)
    fillers = {name: filler(book, name, spec) for name, spec in specs.items()}
    return Text(parse(row(book.times[tense], english))[0], fillers)


def say(languages, frame, **clauses) -> tuple[str, str]:
    book = tables(languages)
    text = Text(parse(row(book.sentences, frame))[0], clauses)
    return book.source.sentence(text), book.target.sentence(text)


TRANSITIVE = "{subject} {transitive} {object} @"
MEET = "{subject} {meet} {him} @"
TRAVEL = "{subject} {travel} to {country} @"


@pytest.mark.parametrize(
    ("tense", "negated", "specs", "expected"),
    [
        ("present", False, ("the trait person: old man", "pick up", "a look thing: expensive car"),
         ("The old man picks up an expensive car.", "Der alte Mann holt ein teures Auto ab.")),
        ("past", True, ("the persons: student", "lose", "his look thing: new umbrella"),
         ("The students did not lose their new umbrella.",
          "Die Studenten haben ihren neuen Regenschirm nicht verloren.")),
        ("can", True, ("a trait person: tired girl", "sell", "a look thing: red lamp"),
         ("A tired girl cannot sell a red lamp.",
          "Ein müdes Mädchen kann keine rote Lampe verkaufen.")),
        ("want", False, ("owner's fellow: Eva neighbor", "steal", "the person's thing: boy hat"),
         ("Eva's neighbor wants to steal the boy's hat.",
          "Evas Nachbar will den Hut des Jungen stehlen.")),
        ("future", False,
         ("number persons: number_21 doctor", "look at", "this look thing: ugly hat"),
         ("Twenty-one doctors will look at this ugly hat.",
          "Einundzwanzig Ärzte werden diesen hässlichen Hut ansehen.")),
    ],
)  # fmt: skip
def test_german_articles_adjectives_and_the_verb_in_two_parts(tense, negated, specs, expected):
    subject, verb, thing = specs
    said = clause("en-de", TRANSITIVE, tense, negated=negated,
                  subject=subject, transitive=verb, object=thing)  # fmt: skip
    assert say("en-de", "{clause}.", clause=said) == expected


def test_german_order_of_words():
    time = when("en-de", "any", "on {month} {day}", month="March", day="3")
    calls = clause("en-de", MEET, "present", subject="the person: boy", meet="call", him="her",
                   time=time)  # fmt: skip
    assert say("en-de", "{clause}.", clause=calls) == (
        "The boy calls her on March 3.", "Der Junge ruft sie am 3. März an.")  # fmt: skip
    assert say("en-de", "{timed front}.", timed=calls) == (
        "On March 3, the boy calls her.", "Am 3. März ruft der Junge sie an.")  # fmt: skip
    assert say("en-de", "Why {clause question}?", clause=calls) == (
        "Why does the boy call her on March 3?", "Warum ruft der Junge sie am 3. März an?"
    )  # fmt: skip
    assert say("en-de", "I think that {clause}.", clause=calls) == (
        "I think that the boy calls her on March 3.",
        "Ich glaube, dass der Junge sie am 3. März anruft.",
    )
    helps = clause("en-de", MEET, "past", subject="the persons: nurse", meet="help", him="him")
    leaves = clause("en-de", TRAVEL, "future", subject="name: Paul", travel="move", country="NL")
    assert say("en-de", "Because {short}, {short2}.", short=helps, short2=leaves) == (
        "Because the nurses helped him, Paul will move to the Netherlands.",
        "Weil die Krankenschwestern ihm geholfen haben, wird Paul in die Niederlande umziehen.",
    )


@pytest.mark.parametrize(
    ("code", "english", "german", "french"),
    [
        ("CH", "Switzerland", "in die Schweiz", "en Suisse"),
        ("US", "the United States", "in die Vereinigten Staaten", "aux États-Unis"),
        ("IR", "Iran", "in den Iran", "en Iran"),
        ("GB", "the United Kingdom", "ins Vereinigte Königreich", "au Royaume-Uni"),
        ("FR", "France", "nach Frankreich", "en France"),
        ("JP", "Japan", "nach Japan", "au Japon"),
    ],
)
def test_countries(code, english, german, french):
    for languages, verb, target in (
        ("en-de", "return", f"Anna kehrt {german} zurück."),
        ("en-fr", "return", f"Anna retourne {french}."),
    ):
        goes = clause(languages, TRAVEL, "present", subject="name: Anna", travel=verb, country=code)
        assert say(languages, "{clause}.", clause=goes) == (f"Anna returns to {english}.", target)


def test_countries_compared_agree_in_number_and_gender():
    line = "{country} {be} {comparative} than {country2}"
    specs = {"be": "be", "comparative": "bigger", "country": "US", "country2": "CH"}
    assert say("en-de", "{clause}.", clause=clause("en-de", line, "present", **specs)) == (
        "The United States is bigger than Switzerland.",
        "Die Vereinigten Staaten sind größer als die Schweiz.",
    )
    assert (
        say("en-de", "I think that {clause}.", clause=clause("en-de", line, "future", **specs))[1]
        == "Ich glaube, dass die Vereinigten Staaten größer sein werden als die Schweiz."
    )
    assert say("en-fr", "{clause}.", clause=clause("en-fr", line, "present", **specs)) == (
        "The United States is bigger than Switzerland.",
        "Les États-Unis sont plus grands que la Suisse.",
    )
    lived = "{subject} {live} in {country}"
    lives = clause("en-de", lived, "present", subject="name: Leo", live="live", country="LB")
    assert say("en-de", "{clause}.", clause=lives)[1] == "Leo wohnt im Libanon."


def test_subject_far_from_its_verb():
    for languages, verb, target in (
        ("en-de", "need", "Niemand weiß, ob die Kinder, die in der alten Schule singen, "
         "einen Mantel brauchen."),
        ("en-fr", "find", "Personne ne sait si les enfants qui chantent dans la vieille école "
         "trouvent un manteau."),
    ):  # fmt: skip
        sing = clause(languages, "{subject} {live} in {place} @", "present", live="sing",
                      place="the style room: old school")  # fmt: skip
        children = filler(tables(languages), "subject", "the persons: child")
        assert isinstance(children, Phrase)
        whole = clause(languages, TRANSITIVE, "present", transitive=verb, object="a thing: coat",
                       subject=replace(children, relative=sing))  # fmt: skip
        assert say(languages, "Nobody knows whether {clause}.", clause=whole) == (
            f"Nobody knows whether the children who sing in the old school {verb} a coat.",
            target,
        )


def test_pronoun_of_a_thing_far_before_it():
    line = "{subject} {transitive} {goods} because {goods it} {goods was/were} too {look}"
    specs = {"subject": "name: Nina", "transitive": "sell", "look": "expensive"}
    sold = clause("en-de", line, "past", goods="the thing: lamp", **specs)
    assert say("en-de", "Did you know that {clause}?", clause=sold) == (
        "Did you know that Nina sold the lamp because it was too expensive?",
        "Wussten Sie, dass Nina die Lampe verkauft hat, weil sie zu teuer war?",
    )
    sold = clause("en-fr", line, "past", goods="the things: lamp", **specs)
    assert say("en-fr", "{clause question}?", clause=sold) == (
        "Did Nina sell the lamps because they were too expensive?",
        "Est-ce que Nina a vendu les lampes parce qu'elles étaient trop chères ?",
    )


def test_a_verb_that_turns_the_clause_round():
    line = "{subject} {like} {goods}"
    specs = {"subject": "the trait person: young man", "like": "like", "goods": "the things: ring"}
    assert say("en-de", "{clause}.", clause=clause("en-de", line, "past", **specs)) == (
        "The young man liked the rings.", "Die Ringe haben dem jungen Mann gefallen."
    )  # fmt: skip
    assert say("en-fr", "{clause}.", clause=clause("en-fr", line, "present", **specs)) == (
        "The young man likes the rings.", "Les bagues plaisent au jeune homme."
    )  # fmt: skip


def test_german_infinitive_with_zu_inside():
    line = "{subject} {travel} to {country} to {meet base} {partner}"
    goes = clause("en-de", line, "past", subject="name: Emma", travel="fly", country="UA",
                  meet="invite", partner="his fellow: colleague")  # fmt: skip
    assert say("en-de", "{opening}, {clause}.", clause=goes, opening=filler(
        tables("en-de"), "opening", "unfortunately")) == (
        "Unfortunately, Emma flew to Ukraine to invite her colleague.",
        "Leider ist Emma in die Ukraine geflogen, um ihren Kollegen einzuladen.",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("tense", "negated", "specs", "expected"),
    [
        ("past", False, ("the trait person: old man", "buy", "a look thing: red table"),
         ("The old man bought a red table.", "Le vieil homme a acheté une table rouge.")),
        ("present", True, ("the trait persons: old man", "see", "a look thing: beautiful umbrella"),
         ("The old men do not see a beautiful umbrella.",
          "Les vieux hommes ne voient pas de beau parapluie.")),
        ("future", True, ("this trait person: curious child", "throw away", "his thing: hat"),
         ("This curious child will not throw away its hat.",
          "Cet enfant curieux ne jettera pas son chapeau.")),
        ("should", False,
         ("owner's fellow: Olivia sister", "forget", "the person's thing: doctor key"),
         ("Olivia's sister should forget the doctor's key.",
          "La sœur d'Olivia devrait oublier la clé du médecin.")),
        ("past", False, ("number persons: number_91 woman", "take", "his look thing: new coat"),
         ("Ninety-one women took their new coat.",
          "Quatre-vingt-onze femmes ont pris leur nouveau manteau.")),
        ("past", False, ("number persons: number_21 actress", "lose", "the look things: big hat"),
         ("Twenty-one actresses lost the big hats.",
          "Vingt et une actrices ont perdu les grands chapeaux.")),
    ],
)  # fmt: skip
def test_french_articles_adjectives_and_negation(tense, negated, specs, expected):
    subject, verb, thing = specs
    said = clause("en-fr", TRANSITIVE, tense, negated=negated,
                  subject=subject, transitive=verb, object=thing)  # fmt: skip
    assert say("en-fr", "{clause}.", clause=said) == expected


@pytest.mark.parametrize(
    ("tense", "negated", "verb", "him", "french"),
    [
        ("present", True, "invite", "him", "Anna ne l'invite pas."),
        ("past", False, "meet", "her", "Anna l'a rencontrée."),
        ("past", True, "follow", "them", "Anna ne les a pas suivis."),
        ("past", False, "answer", "her", "Anna lui a répondu."),
        ("want", True, "obey", "them", "Anna ne veut pas leur obéir."),
        ("future", False, "help", "her", "Anna l'aidera."),
    ],
)
def test_french_pronouns_stand_before_their_verb(tense, negated, verb, him, french):
    said = clause("en-fr", MEET, tense, negated=negated, subject="name: Anna", meet=verb, him=him)
    assert say("en-fr", "{clause}.", clause=said)[1] == french


def test_french_participles_agree():
    march = when("en-fr", "any", "on the {ordinal} of {month}", ordinal="first", month="March")
    came = clause("en-fr", TRAVEL, "past", subject="the persons: nurse", travel="come",
                  country="PH", time=march)  # fmt: skip
    assert say("en-fr", "{timed front}.", timed=came) == (
        "On the first of March, the nurses came to the Philippines.",
        "Le premier mars, les infirmières sont venues aux Philippines.",
    )
    verbs = frozenset(tables("en-fr").verbs)
    bought = Clause(
        parse("[past] {name} {transitive} = {name} {transitive}", verbs)[0], "past", False, None,
        {n: filler(tables("en-fr"), n, s) for n, s in (("name", "Oliver"), ("transitive", "buy"))},
    )  # fmt: skip
    keys = filler(tables("en-fr"), "item", "the things: key")
    assert isinstance(keys, Phrase)
    cost = clause("en-fr", "{item} {cost} {number} {currency}", "present",
                  item=replace(keys, relative=bought),
                  cost="cost", number="number 81", currency="GBP")  # fmt: skip
    assert say("en-fr", "I think that {clause}.", clause=cost) == (
        "I think that the keys that Oliver bought cost eighty-one British pounds.",
        "Je pense que les clés qu'Oliver a achetées coûtent quatre-vingt-une livres sterling.",
    )


# What can be had without learning.


Corpus = list[tuple[list[str], list[str]]]


class Lookup:
    """The best that can be done with the corpus, a distance and a dictionary of single words."""

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        vocabulary = sorted({word for source, _ in corpus for word in source})
        self.index = {word: i for i, word in enumerate(vocabulary)}
        self.bags = np.stack([self.bag(source) for source, _ in corpus])
        self.forms = dictionary(corpus)
        self.bigrams = Counter(pair for _, target in corpus for pair in pairwise(target))

    def bag(self, source: list[str]) -> Float32:
        bag = np.zeros(len(self.index), dtype=np.float32)
        bag[[self.index[word] for word in source if word in self.index]] = 1
        return bag

    def nearest(self, query: list[str]) -> Corpus:
        """The two hundred sentences with most words in common, by their edit distance."""
        few = np.argsort(-(self.bags @ self.bag(query)), kind="stable")[:200]
        chosen = [self.corpus[i] for i in few]
        return sorted(chosen, key=lambda pair: Levenshtein.distance(pair[0], query))

    def substitute(self, near: Corpus, query: list[str]) -> list[str]:
        """The nearest sentence of the same length, with the words changed that differ.

        Of a word's forms, the one most often seen between its new neighbours is taken.
        """
        old, target = next((pair for pair in near if len(pair[0]) == len(query)), near[0])
        words = list(target)
        for before, after in zip(old, query, strict=False):
            places = [i for i, word in enumerate(words) if word in self.forms[before]]
            if before != after and places and self.forms[after]:
                i = places[0]
                left, right = ["", *words][i], [*words, ""][i + 1]
                fits = {
                    f: self.bigrams[left, f] + self.bigrams[f, right] for f in self.forms[after]
                }
                words[i] = max(sorted(fits), key=fits.__getitem__)
        return words


def dictionary(corpus: Corpus) -> dict[str, list[str]]:
    """The forms of a source word: words of the target that hardly ever come without it."""
    single: Counter[str] = Counter()
    joint: Counter[tuple[str, str]] = Counter()
    for source, target in corpus:
        single.update(set(target))
        joint.update((s, t) for s in set(source) for t in set(target))
    forms = defaultdict(list)
    for (s, t), count in joint.items():
        if count >= 5 and count > 0.8 * single[t]:
            forms[s].append(t)
    return forms


@both
def test_looking_up_is_not_enough(languages, sample):
    lookup = Lookup([(words(s), words(t)) for s, t in sample[languages]["train"]])
    test = [(words(s), words(t)) for s, t in sample[languages]["test"][:300]]
    copied = changed = 0
    for source, target in test:
        near = lookup.nearest(source)
        copied += near[0][1] == target
        changed += lookup.substitute(near, source) == target
    assert copied / len(test) < 0.4
    assert changed / len(test) < 0.4
    assert changed > copied, "not an honest attempt"


@both
def test_the_package_ships_what_the_grammar_writes(languages, sample):
    packed = PROJECT / "regard" / "data" / f"phrasebook-{languages}.tsv.xz"
    lines = lzma.decompress(packed.read_bytes()).decode().split("\n")
    assert lines.pop() == ""
    parts = {part: sample[languages][part][:count] for part, count in COUNTS.items()}
    assert lines == [f"{part}\t{s}\t{t}" for part, pairs in parts.items() for s, t in pairs]
