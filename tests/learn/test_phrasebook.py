"""A small Transformer begins to translate the embedded corpus within seconds."""

from pathlib import Path

import pytest

import phrasebook
import regard


@pytest.mark.timeout(300)
def test_the_phrasebook_is_learnt(tmp_path: Path):
    counts: dict[phrasebook.Part, int] = {"train": 5000, "validation": 50, "test": 100}
    for part, count in counts.items():
        pairs = phrasebook.pairs("en-de", part, count)
        lines = (f"{source}\t{target}\n" for source, target in pairs)
        (tmp_path / f"{part}.tsv").write_text("".join(lines), encoding="utf-8")
    stack = {"layers": 1, "heads": 4, "feedforward": 128, "norm": "pre", "dropout": 0.0}
    recipe = {
        "task": "translate",
        "data": {"folder": str(tmp_path)}
        | {part: [f"{part}.tsv"] for part in ("train", "validation", "test")},
        "tokenizer": {"kind": "bpe", "vocabulary": 1500},
        "batch": {"tokens": 1500},
        "model": {"dim": 64, "encoder": stack, "decoder": stack},
        "train": {
            "updates": 300,
            "validate_every": 150,
            "save_every": 150,
            "threads": 1,
            "optimizer": {"learning_rate": 0.01},
            "schedule": {"kind": "cosine", "warmup": 30},
        },
        "evaluation": {"lines": 20},
    }
    model = regard.train(recipe, to=tmp_path / "run")
    scores, _ = model.evaluate("test")
    assert scores["bleu"].value >= 35
    losses = [r["nll"] for r in model.run.records() if r["kind"] == "validation"]
    assert losses[-1] < losses[0] < 7.3, "a uniform guess among 1,500 tokens costs log 1500 = 7.3"
