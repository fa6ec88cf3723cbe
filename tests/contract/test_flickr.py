"""Real sentences: what is decoded from test_2016_flickr does not depend on the batch."""

from collections.abc import Callable
from pathlib import Path

import pytest

import regard

SENTENCES = 40


@pytest.mark.timeout(300)
def test_real_sentences_do_not_depend_on_the_batch(
    shared_data: Callable[[str], Path], tmp_path: Path
):
    folder = shared_data("multi30k")
    for side in ("en", "de"):
        lines = (folder / f"train.lc.norm.tok.{side}").read_text(encoding="utf-8").split("\n")
        (tmp_path / f"train.{side}").write_text("\n".join(lines[:2000]) + "\n", encoding="utf-8")
    stack = {"layers": 1, "heads": 4, "feedforward": 64, "norm": "pre"}
    recipe = {
        "task": "translate",
        "data": {"folder": str(tmp_path), "train": ["train.en", "train.de"]},
        "tokenizer": {"kind": "bpe", "vocabulary": 1000, "split": "whitespace"},
        "batch": {"tokens": 1024},
        "model": {"dim": 32, "encoder": stack, "decoder": stack},
        "train": {
            "updates": 60,
            "validate_every": 0,
            "save_every": 60,
            "threads": 1,
            "optimizer": {"learning_rate": 0.02},
        },
    }
    regard.train(recipe, to=tmp_path / "run")
    model = regard.load(tmp_path / "run", engine="torch")
    test = (folder / "test_2016_flickr.lc.norm.tok.en").read_text(encoding="utf-8").split("\n")
    one, *others = (
        list(model.predictions(test[:SENTENCES], beams=5, batch=size)) for size in (1, 7, 128)
    )
    assert len({tuple(p.tokens) for p in one}) > SENTENCES / 10, "not all the same"
    for many in others:
        for a, b in zip(one, many, strict=True):
            assert a.tokens == b.tokens
            assert a.log_probs == pytest.approx(b.log_probs, abs=1e-4)
