"""Which languages a translator knows: as its data is called, or its folder."""

import re

from regard.runs import Run

NAMES = {
    "cs": "Czech", "de": "German", "en": "English", "es": "Spanish", "fr": "French",
    "it": "Italian", "ja": "Japanese", "nl": "Dutch", "pl": "Polish", "pt": "Portuguese",
    "ro": "Romanian", "ru": "Russian", "sv": "Swedish", "tr": "Turkish", "uk": "Ukrainian",
    "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip
CODE = re.compile(r"[a-z]{2,3}")
PAIR = re.compile(r"(?:^|[-_.])([a-z]{2})[-_]([a-z]{2})(?:$|[-_.])")


def name_of(code: str) -> str:
    """English for de; the code itself of a language that is not known."""
    return NAMES.get(code, code)


def languages_of(run: Run) -> tuple[str, ...]:
    """(from, to), by the endings of the files that the run learnt from (train.en, train.de), or by
    the name of its data set (phrasebook-en-de), or its own; else “source” and “target”."""
    data = run.recipe.task.data
    endings = [str(name).removesuffix(".gz").rpartition(".")[2] for name in data.train]
    if len(endings) == 2 and all(ending in NAMES for ending in endings):
        return endings[0], endings[1]
    for name in (str(data.set), run.folder.resolve().name):
        if (found := PAIR.search(name)) and all(code in NAMES for code in found.groups()):
            return found[1], found[2]
    return "source", "target"
