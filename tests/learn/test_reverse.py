"""A small Transformer learns to reverse words that it has never seen, from data made here."""

import random

import pytest

import regard

LETTERS = "abcdefghij"


def corpus(folder, counts, seed=1):
    """Words of 3 to 7 letters, blank between letters, and the same from right to left."""
    dice = random.Random(seed)
    seen: set[str] = set()
    for part, count in counts.items():
        words: set[str] = set()
        while len(words) < count:
            word = " ".join(dice.choices(LETTERS, k=dice.randint(3, 7)))
            if word not in seen:
                words.add(word)
                seen.add(word)
        lines = sorted(words)
        (folder / f"{part}.source").write_text("".join(f"{w}\n" for w in lines))
        (folder / f"{part}.target").write_text("".join(f"{w[::-1]}\n" for w in lines))


def recipe(folder):
    stack = {"layers": 1, "heads": 2, "feedforward": 128, "norm": "pre", "dropout": 0.0}
    parts = ("train", "validation", "test")
    return {
        "task": "translate",
        "data": {"folder": str(folder)} | {p: [f"{p}.source", f"{p}.target"] for p in parts},
        "tokenizer": {"kind": "word"},
        "batch": {"tokens": 1024},
        "model": {"dim": 64, "encoder": stack, "decoder": stack, "head": {"smoothing": 0.0}},
        "train": {
            "updates": 400,
            "validate_every": 200,
            "save_every": 200,
            "threads": 1,
            "optimizer": {"learning_rate": 0.005},
            "schedule": {"kind": "cosine", "warmup": 50},
        },
        "evaluation": {"tokenize": "none", "lines": 10},
    }


@pytest.mark.timeout(300)
def test_reversal_of_unseen_words_is_learnt(tmp_path):
    corpus(tmp_path, {"train": 4000, "validation": 50, "test": 200})
    model = regard.train(recipe(tmp_path), to=tmp_path / "run")
    scores, predictions = model.evaluate("test")
    assert len(predictions) == 200
    assert scores["exact"].value >= 90
    assert model.predict(["a b c d"], search="greedy") == ["d c b a"]
