"""Recurrent networks learn in miniature what the recipes ask of them, from data made here."""

import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.data.misspelling import Misspeller

PARTS = {"train": 2000, "validation": 50, "test": 200}


def table(tokenizer: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """An LSTM that attends to what another has read in both directions."""
    part = {"kind": "rnn", "cell": "lstm", "layers": 1, "dropout": 0.0}
    return {
        "task": "translate",
        "data": {p: [f"{p}.tsv"] for p in PARTS},
        "tokenizer": tokenizer,
        "batch": {"tokens": 1024},
        "model": {
            "dim": 48,
            "tie": "output",
            "encoder": part,
            "decoder": part | {"attention": changes.pop("attention", "multiplicative")},
            "head": {"smoothing": 0.0},
        },
        "train": {
            "updates": 240,
            "validate_every": 120,
            "save_every": 120,
            "threads": 1,
            "optimizer": {"learning_rate": 0.01},
            "schedule": {"kind": "cosine", "warmup": 20},
        },
    } | changes


def train(folder: Path, pairs: Callable[[str], Iterable[tuple[str, str]]], recipe: dict[str, Any]):
    for part in PARTS:
        lines = (f"{source}\t{target}\n" for source, target in pairs(part))
        (folder / f"{part}.tsv").write_text("".join(lines))
    recipe["data"]["folder"] = str(folder)
    return regard.train(recipe, to=folder / f"run-{recipe['model']['decoder']['attention']}")


def words(part: str, letters: str, shortest: int, longest: int) -> list[str]:
    """No word is in two parts: each part has those whose letters' sum says so."""
    dice = random.Random(part)
    found: list[str] = []
    rest = {"train": (0, 1, 2), "validation": (3,), "test": (4,)}[part]
    while len(found) < PARTS[part]:
        word = "".join(dice.choices(letters, k=dice.randint(shortest, longest)))
        if sum(map(ord, word)) % 5 in rest:
            found.append(word)
    return found


def spoken(word: str) -> str:
    """c is soft before e and i, sh is one sound, and an e at the end is silent."""
    sounds, place = [], 0
    while place < len(word):
        letter, after = word[place], word[place + 1 : place + 2]
        if letter == "s" and after == "h":
            sounds.append("SH")
            place += 1
        elif letter == "c":
            sounds.append("S" if after in tuple("ei") else "K")
        elif letter != "e" or after:
            sounds.append(letter.upper())
        place += 1
    return " ".join(sounds)


def test_the_rules_of_the_made_up_language():
    assert spoken("cashe") == "K A SH" and spoken("ceci") == "S E S I"


@pytest.mark.timeout(300)
def test_letters_become_phonemes_by_their_neighbours(tmp_path: Path):
    recipe = table(
        {"kind": "word", "joint": False},
        evaluation={
            "metrics": ["line_error_rate", "per"],
            "multiple_references": " | ",
            "lines": 10,
        },
    )
    model = train(
        tmp_path,
        lambda part: [(" ".join(w), spoken(w)) for w in words(part, "aceishtp", 3, 7)],
        recipe,
    )
    scores, _ = model.evaluate("test")
    assert scores["line_error_rate"].value <= 10
    assert scores["per"].value <= 2
    assert model.predict(["c e c a s h e"]) == ["S E K A SH"]


@pytest.mark.timeout(300)
def test_misspelt_words_are_found_in_what_was_learnt(tmp_path: Path):
    dice = random.Random(1)
    syllables = ["ka", "lo", "min", "nu", "pers", "ra", "soh", "ti", "vun", "eck"]
    lexicon = sorted({"".join(dice.choices(syllables, k=3)) for _ in range(60)})
    gaps = [(word, word[:n], word[n], word[n + 1 :]) for word in lexicon for n in range(len(word))]
    missing = [(left + right, word) for word, left, _, right in gaps]
    doubled = [(left + 2 * letter + right, word) for word, left, letter, right in gaps]
    misspell = Misspeller(missing + doubled)
    seen: set[tuple[str, str]] = set()

    def pairs(part: str) -> list[tuple[str, str]]:
        """No misspelling is in two parts; they are asked for in order."""
        copies = PARTS[part] // len(lexicon) + 1
        seed = list(PARTS).index(part)
        made = {(bad, word) for word in lexicon for bad in misspell(word, copies, seed)} - seen
        seen.update(made)
        return sorted(made)

    recipe = table(
        {"kind": "character"},
        search={"kind": "beam", "beams": 5, "nbest": 5},
        evaluation={"metrics": ["exact", "nbest", "cer"], "unseen": True, "lines": 10},
    )
    scores, _ = train(tmp_path, pairs, recipe).evaluate("test")
    assert scores["exact"].value >= 75
    assert scores["nbest"].value >= scores["exact"].value
    assert scores["cer"].value <= 15


@pytest.mark.timeout(300)
def test_attention_is_ahead_of_one_vector_for_all(tmp_path: Path):
    """Twelve tokens, each replaced by the next of the alphabet: one vector holds too little."""
    letters = "abcdefgh"
    after = dict(zip(letters, letters[1:] + letters[:1], strict=True))
    exact = {}
    for attention in ("multiplicative", "none"):
        model = train(
            tmp_path,
            lambda part: [
                (" ".join(w), " ".join(after[c] for c in w)) for w in words(part, letters, 12, 12)
            ],
            table({"kind": "word"}, attention=attention),
        )
        exact[attention] = model.evaluate("test")[0]["exact"].value
    assert exact["multiplicative"] >= 90
    assert exact["none"] <= exact["multiplicative"] - 40
