"""Names out of CLDR, by their codes. Babel carries the data; it is loaded when first asked."""

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from babel import Locale


@cache
def locale(language: str) -> "Locale":
    from babel import Locale

    return Locale(language)


def country(code: str, language: str) -> str:
    return str(locale(language).territories[code])


def tongue(code: str, language: str) -> str:
    return str(locale(language).languages[code])


def currency(code: str, language: str) -> str:
    """The plural, as it stands after a number: "euros"."""
    from babel.numbers import get_currency_name

    return get_currency_name(code, count=5, locale=locale(language))


def unit(code: str, language: str) -> str:
    """The plural, as it stands after a number: "kilometers"."""
    from babel.units import format_unit

    return plain(format_unit(5, code, locale=locale(language))).removeprefix("5 ")


def number(value: int, language: str) -> str:
    """Digits in the language's own grouping: 1,500 or 1.500 or 1 500."""
    from babel.numbers import format_decimal

    return plain(format_decimal(value, locale=locale(language)))


def month(index: int, language: str) -> str:
    return str(locale(language).months["format"]["wide"][index])


def weekday(index: int, language: str) -> str:
    return str(locale(language).days["format"]["wide"][index])


def plain(text: str) -> str:
    """With ordinary spaces in the place of those that do not break."""
    return text.replace("\u00a0", " ").replace("\u202f", " ")
