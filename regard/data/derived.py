"""Data sets that are made from the files of another.

    pronunciation          letters → phonemes, from cmudict
    spelling_correction    misspelling → word, from spelling; also which words there are
    few_sentences          1,000 sentences to learn from, drawn three times, from ud-ewt

Which part a line goes to is decided by a hash of what must not be in two of them, and noise is a
pure function of its seed: the files are the same wherever they are made.
"""

import hashlib
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from regard.data import readers
from regard.data.misspelling import Misspeller, Pair
from regard.errors import UserError

SEED = 1
ALTERNATIVES = " | "
"""Between the right answers of one line."""
ENTRY = re.compile(r"([^\s()]+)(?:\(\d+\))?((?:\s+[A-Z]+[012]?)+)\s*")
WORD = re.compile("[a-z]+('[a-z]+)?")
"""Letters alone, or with an apostrophe among them."""
COPIES = 24
"""Made-up misspellings of each word."""
FEW, DRAWS = 1000, 3
"""Sentences that are few to learn from, and how often they are drawn."""

Fetch = Callable[[str], Path]
"""The name of a file of the set that this one is made from → the file."""


def part(text: str, test: float, validation: float) -> str:
    """Where a text belongs: test and validation are given shares of all texts."""
    place = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64
    return "test" if place < test else "validation" if place < test + validation else "train"


def pronunciation(folder: Path, fetch: Fetch) -> None:
    """A tenth of the words for the test, a twentieth for validation: all that is listed for one
    on one line. To learn from, each pronunciation has its line."""
    parts: dict[str, list[Pair]] = {"train": [], "validation": [], "test": []}
    for word, spoken in pronunciations(fetch("cmudict.dict")).items():
        name = part(word, test=0.1, validation=0.05)
        targets = spoken if name == "train" else [ALTERNATIVES.join(spoken)]
        parts[name] += [(" ".join(word), target) for target in targets]
    _write(folder, parts)


def pronunciations(path: Path) -> dict[str, list[str]]:
    """Every word's pronunciations without stress, each once, in the order of the file."""
    found: dict[str, list[str]] = {}
    for number, line in readers.sound(path):
        if entry := line.partition("#")[0].rstrip():
            if not (match := ENTRY.fullmatch(entry)):
                raise UserError(
                    f"{path}:{number}: wanted: a word and its phonemes; there is "
                    f"“{readers.excerpt(line)}”"
                )
            spoken = " ".join(phoneme.rstrip("012") for phoneme in match[2].split())
            known = found.setdefault(match[1], [])
            if spoken not in known:
                known.append(spoken)
    return found


def spelling_correction(folder: Path, fetch: Fetch) -> None:
    """Birkbeck's and Wikipedia's misspellings, and made-up ones like them of the same words, to
    learn from; Aspell's for the test. No pair of the test is in another part, whatever its case.

    The words that may be answered, “words.txt”: those to learn from, and those of cmudict that have
    only letters, with an apostrophe among them or without."""
    test = misspellings(fetch("aspell.dat"))
    real = misspellings(fetch("missp.dat")) + misspellings(fetch("wikipedia.dat"))
    secret = {_folded(pair) for pair in test}
    pairs = [pair for pair in dict.fromkeys(real) if _folded(pair) not in secret]
    parts: dict[str, list[Pair]] = {"train": [], "validation": [], "test": test}
    for pair in pairs:
        parts[part("\t".join(pair), test=0, validation=0.03)].append(pair)
    words = dict.fromkeys(word for _, word in real)
    held = secret.union(map(_folded, parts["validation"]))
    misspell = Misspeller(parts["train"])
    noisy = ((noise, word) for word in words for noise in misspell(word, COPIES, SEED))
    # A word that is right must stay as it is.
    new = dict.fromkeys([*parts["train"], *((word, word) for word in words), *noisy])
    parts["train"] = [pair for pair in new if _folded(pair) not in held]
    _write(folder, parts)
    spoken = filter(WORD.fullmatch, pronunciations(fetch("cmudict.dict")))
    _save(folder / "words.txt", sorted({*words, *spoken}))


def few_sentences(folder: Path, fetch: Fetch) -> None:
    """The sentences of ud-ewt with the smallest hashes, by another hash for each draw, in the order
    of the file; validation and test are whole."""
    text = fetch("en_ewt-ud-train.conllu").read_text(encoding="utf-8")
    sentences = [f"{each}\n\n" for each in text.strip("\n").split("\n\n")]
    for draw in range(1, DRAWS + 1):
        hashes = [hashlib.sha256(f"{draw}\n{n}".encode()).digest() for n in range(len(sentences))]
        chosen = sorted(range(len(sentences)), key=hashes.__getitem__)[:FEW]
        found = "".join(sentences[n] for n in sorted(chosen))
        (folder / f"train-{draw}.conllu").write_text(found, encoding="utf-8", newline="\n")
    for name, part in (("dev", "validation"), ("test", "test")):
        shutil.copyfile(fetch(f"en_ewt-ud-{name}.conllu"), folder / f"{part}.conllu")


def misspellings(path: Path) -> list[Pair]:
    """(misspelling, word) of a file that has “$word”, then a line for each of its misspellings.

    What equals its word is no misspelling.
    """
    found: list[Pair] = []
    word = ""
    for number, line in readers.sound(path):
        heading, text = line.startswith("$"), line.removeprefix("$")
        if len(text.split()) != 1 or not (word or heading):
            wanted = "one word, with _ for a blank" if word or heading else "$ and a word first"
            shown = readers.excerpt(line)
            raise UserError(f"{path}:{number}: wanted: {wanted}; there is “{shown}”")
        text = text.strip().replace("_", " ")
        if heading:
            word = text
        elif text != word:
            found.append((text, word))
    return found


def _folded(pair: Pair) -> Pair:
    return pair[0].lower(), pair[1].lower()


def _write(folder: Path, parts: dict[str, list[Pair]]) -> None:
    for name, pairs in parts.items():
        _save(folder / f"{name}.tsv", map("\t".join, pairs))


def _save(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
