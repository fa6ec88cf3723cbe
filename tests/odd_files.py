"""Files of odd shape, as people have them: each with the task that it is for."""

import csv
import gzip
import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from random import Random

COLOURS = ["red", "green", "blue", "yellow", "black", "white"]
THINGS = ["dog", "cat", "house", "tree", "river", "boat", "bird", "road", "garden", "window"]
GOOD, BAD = ["lovely", "great", "bright", "fine"], ["awful", "dull", "broken", "poor"]
GERMAN = {
    "the": "das", "is": "ist", "and": "und", "red": "rote", "green": "grüne", "blue": "blaue",
    "yellow": "gelbe", "black": "schwarze", "white": "weiße", "dog": "Tier", "cat": "Kätzchen",
    "house": "Haus", "tree": "Holz", "river": "Wasser", "boat": "Boot", "bird": "Huhn",
    "road": "Gleis", "garden": "Beet", "window": "Fenster", "lovely": "schön", "great": "groß",
    "bright": "hell", "fine": "fein", "awful": "übel", "dull": "matt", "broken": "kaputt",
    "poor": "arm",
}  # fmt: skip
SIZE = 240


def sentence(random: Random) -> tuple[str, str]:
    """A text and its label."""
    good = random.random() < 0.5
    words = ["the", random.choice(COLOURS), random.choice(THINGS), "is"]
    words += [random.choice(GOOD if good else BAD), "and", random.choice(GOOD if good else BAD)]
    return " ".join(
        [*words, *random.sample(THINGS, random.randint(1, 3))]
    ), "pos" if good else "neg"


def texts() -> list[tuple[str, str]]:
    random = Random(7)
    return [sentence(random) for _ in range(SIZE)]


def german(text: str) -> str:
    return " ".join(GERMAN[word] for word in text.split())


def tag(word: str) -> str:
    return "NOUN" if word in THINGS else "ADJ" if word in (*COLOURS, *GOOD, *BAD) else "FUNC"


def table(rows: list[list[str]], delimiter: str, end: str = "\n") -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator=end).writerows(rows)
    return text.getvalue()


def semicolons(folder: Path) -> list[Path]:
    """CSV with semicolons, a BOM and a header."""
    rows = [["id", "text", "label"], *([str(n), *each] for n, each in enumerate(texts()))]
    return [put(folder, "semicolons.csv", "\ufeff" + table(rows, ";"))]


def quoted(folder: Path) -> list[Path]:
    """CSV whose quoted cells have commas, quotes and line breaks."""
    rows = [["label", "text"]]
    rows += [[label, text.replace(" is ", ' is,\nas they say, "').replace(" and", '" and')]
             for text, label in texts()]  # fmt: skip
    return [put(folder, "quoted.csv", table(rows, ","))]


def label_last(folder: Path) -> list[Path]:
    return [put(folder, "last.tsv", "".join(f"{a}\t{b}\n" for a, b in texts()))]


def label_first(folder: Path) -> list[Path]:
    return [put(folder, "first.tsv", "".join(f"{b}\t{a}\n" for a, b in texts()))]


def three_columns(folder: Path) -> list[Path]:
    """As Tatoeba's downloads are."""
    rows = (f"{a}\t{german(a)}\tCC-BY 2.0 (France) Attribution: tatoeba.org #{n} (CK) & #{n + 7}\n"
            for n, (a, _) in enumerate(texts()))  # fmt: skip
    return [put(folder, "three.txt", "".join(rows))]


def tabs_in_txt(folder: Path) -> list[Path]:
    return [put(folder, "pairs.txt", "".join(f"{a}\t{german(a)}\n" for a, _ in texts()))]


def parallel(folder: Path) -> list[Path]:
    """Two plain files."""
    sides = {"en": [a for a, _ in texts()], "de": [german(a) for a, _ in texts()]}
    return [put(folder, f"corpus.{name}", "\n".join(side) + "\n") for name, side in sides.items()]


def jsonl(folder: Path) -> list[Path]:
    rows = (json.dumps({"stars": 5 if b == "pos" else 1, "body": f"{a}\nend"}) for a, b in texts())
    return [put(folder, "reviews.jsonl", "\n".join(rows) + "\n")]


def conll(folder: Path) -> list[Path]:
    """Four columns between blanks, with lines that begin documents."""
    found = []
    for n, (a, _) in enumerate(texts()):
        if n % 40 == 0:
            found.append("-DOCSTART- -X- -X- O\n")
        found.append("\n".join(f"{word} {tag(word)} I-NP O" if tag(word) != "NOUN" else
                               f"{word} NN I-NP B-THING" for word in a.split()) + "\n")  # fmt: skip
    return [put(folder, "ner.conll", "\n".join(found))]


def word_and_tag(folder: Path) -> list[Path]:
    """One word, a tab and its tag on each line, without any empty line."""
    rows = (f"{word}\t{tag(word)}" for a, _ in texts() for word in a.split())
    return [put(folder, "words.txt", "\n".join(rows) + "\n")]


def series(folder: Path) -> list[Path]:
    """Dates as 31.12.2024, decimal commas."""
    rows = [["Datum", "Temperatur", "Last", "Wetter"]]
    for n in range(400):
        day, month = n % 28 + 1, n // 28 % 12 + 1
        value = f"{10 + 5 * math.sin(n * 2 * math.pi / 7) + n % 3:.2f}".replace(".", ",")
        rows.append([f"{day:02}.{month:02}.{2023 + n // 336}", value, f"{n % 7},5", "sonnig"])
    return [put(folder, "wetter.csv", table(rows, ";", "\r\n"))]


def packed(folder: Path) -> list[Path]:
    path = folder / "packed.csv.gz"
    path.write_bytes(gzip.compress(table([["text", "label"], *map(list, texts())], ",").encode()))
    return [path]


def one_line(folder: Path) -> list[Path]:
    """One long text without line breaks."""
    return [put(folder, "novel.txt", ". ".join(a for _ in range(3) for a, _ in texts()))]


def crlf(folder: Path) -> list[Path]:
    """A running text as Windows writes it."""
    return [put(folder, "windows.txt", "\r\n".join(a for a, _ in texts()) + "\r\n")]


def chinese(folder: Path) -> list[Path]:
    """Texts without blanks between words."""
    signs = {word: chr(0x4E00 + 7 * n) + chr(0x5000 + 11 * n) for n, word in enumerate(GERMAN)}
    rows = ("".join(signs[word] for word in a.split()) + f",{b}\n" for a, b in texts())
    return [put(folder, "chinese.csv", "".join(rows))]


def put(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


FILES: dict[str, tuple[str, Callable[[Path], list[Path]]]] = {
    "semicolons": ("classify", semicolons),
    "quoted": ("classify", quoted),
    "label_last": ("classify", label_last),
    "label_first": ("classify", label_first),
    "three_columns": ("translate", three_columns),
    "tabs_in_txt": ("translate", tabs_in_txt),
    "parallel": ("translate", parallel),
    "jsonl": ("classify", jsonl),
    "conll": ("tag", conll),
    "word_and_tag": ("tag", word_and_tag),
    "series": ("forecast", series),
    "packed": ("classify", packed),
    "one_line": ("language_model", one_line),
    "crlf": ("language_model", crlf),
    "chinese": ("classify", chinese),
}
