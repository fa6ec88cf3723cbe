"""Tables of words, from our own rows and from CLDR.

Each function takes from the other language's module the function that inflects its words.
"""

from collections.abc import Callable, Iterable, Mapping

from phrasebook import english, names
from phrasebook.grammar import Forms, Word

Inflect = Callable[..., Forms]
Lexicon = dict[str, list[Word]]

NAMES = {
    "name": {
        "f": "Anna Clara Emma Julia Laura Maria Nina Sarah",
        "m": "Daniel David Leo Martin Oliver Paul Peter Simon",
    },
    "owner": {"f": "Eva Lisa Olivia Sofia", "m": "Adam Ben Robert Victor"},
}
TONGUES = "ar da de el en es fi fr it ja nl pl pt ru sv"
CURRENCIES = "AUD CAD CHF EUR GBP JPY SEK USD"
UNITS = {
    "period": "duration-day duration-month duration-week duration-year",
    "distance": "length-kilometer length-meter",
    "weight": "mass-gram mass-kilogram",
}
NUMBERS = {"number": range(2, 100), "few": range(2, 13), "hour": range(2, 12)}
AMOUNTS = [*range(150, 1000, 50), *range(1500, 10000, 1000)]
YEARS = range(1990, 2020)
DAYS = range(2, 29)


def rows(table: str) -> list[tuple[str, list[str]]]:
    """`English: one two` gives ("English", ["one", "two"])."""
    entries = (row.split(":") for row in table.strip().splitlines())
    return [(lemma.strip(), forms.split()) for lemma, forms in entries]


def nouns(tables: Mapping[str, str], inflect: Inflect) -> Lexicon:
    return {
        kind: [
            Word(lemma, english.noun(lemma, row[0][0]), inflect(*row)) for lemma, row in rows(table)
        ]
        for kind, table in tables.items()
    }


def verbs(tables: Mapping[str, str], inflect: Inflect) -> Lexicon:
    return {
        kind: [Word(lemma, english.verb(lemma), inflect(*row)) for lemma, row in rows(table)]
        for kind, table in tables.items()
    }


def adjectives(tables: Mapping[str, str], inflect: Inflect) -> Lexicon:
    """Words that do not change in English, and so adverbs and pronouns, too."""
    return {
        kind: [Word(lemma, {"": lemma}, inflect(*row)) for lemma, row in rows(table)]
        for kind, table in tables.items()
    }


def people(inflect: Inflect) -> Lexicon:
    """First names; those of owners are others, so that nobody waits for her own brother by name."""
    return {
        kind: [
            Word(name, {"": name, "gender": gender}, inflect(name, gender))
            for gender, row in genders.items()
            for name in row.split()
        ]
        for kind, genders in NAMES.items()
    }


def countries(table: Mapping[str, str], language: str, inflect: Inflect) -> list[Word]:
    """Codes of countries, by the gender that their names have in the other language."""
    return [
        Word(
            code,
            english.country(names.country(code, "en")),
            inflect(names.country(code, language), gender),
        )
        for gender, codes in table.items()
        for code in codes.split()
    ]


def measures(language: str, inflect: Inflect) -> Lexicon:
    """Currencies and units."""
    table = {
        kind: [
            Word(code, {"": names.unit(code, "en")}, inflect(names.unit(code, language)))
            for code in codes.split()
        ]
        for kind, codes in UNITS.items()
    }
    table["currency"] = [
        Word(code, {"": names.currency(code, "en")}, inflect(names.currency(code, language)))
        for code in CURRENCIES.split()
    ]
    return table


def numbers(inflect: Inflect) -> Lexicon:
    """Spelled out."""
    return {
        kind: [Word(f"number {n}", {"": english.cardinal(n)}, inflect(n)) for n in values]
        for kind, values in NUMBERS.items()
    }


def pairs(entries: Iterable[tuple[str, str]]) -> list[Word]:
    """Words that have one form in each language."""
    return [Word(source, {"": source}, {"": target}) for source, target in entries]


def plain(language: str, day: Callable[[int], str], ordinal: Callable[[int], str]) -> Lexicon:
    """Languages, the parts of a date, and amounts of money in digits."""
    return {
        "language": pairs(
            (names.tongue(code, "en"), names.tongue(code, language)) for code in TONGUES.split()
        ),
        "month": pairs((names.month(n, "en"), names.month(n, language)) for n in range(1, 13)),
        "weekday": pairs((names.weekday(n, "en"), names.weekday(n, language)) for n in range(7)),
        "year": pairs((str(n), str(n)) for n in YEARS),
        "day": pairs((str(n), day(n)) for n in DAYS),
        "ordinal": pairs((english.ordinal(n), ordinal(n)) for n in (1, *DAYS)),
        "amount": pairs((names.number(n, "en"), names.number(n, language)) for n in AMOUNTS),
    }
