"""The file that CTranslate2 reads: what may always be written, and for each token of a source."""

from pathlib import Path

import numpy as np
import pytest

from regard.data.store import Column, Store, Writer
from regard.data.tokenizers import Tokenizer
from regard.interop import shortlist

THE, HOUSE, BOOK = 10, 11, 12
DAS, HAUS, BUCH = 20, 21, 22


def test_the_file_has_what_is_always_allowed_and_the_best_of_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shortlist, "ALWAYS", 1)
    monkeypatch.setattr(shortlist, "EACH", 1)
    sources = [np.array(row) for row in ([THE, HOUSE], [THE, BOOK])]
    targets = [np.array(row) for row in ([DAS, HAUS], [DAS, BUCH])]
    shortlist.write(sources, targets, tmp_path)
    lines = (tmp_path / shortlist.NAME).read_text().splitlines()
    assert lines[0] == f"\t{Tokenizer.end} {DAS}", "the end, and the most frequent token"
    assert dict(line.split("\t") for line in lines[1:]) == {
        str(THE): str(DAS), str(HOUSE): str(HAUS), str(BOOK): str(BUCH)
    }  # fmt: skip


def test_a_large_text_is_sampled_and_always_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shortlist, "LINKS", 60)
    with Writer(tmp_path, "train", {"source": Column("u2"), "target": Column("u2")}) as writer:
        writer.add({"source": [10 + n], "target": [10 + n, 11 + n, 12 + n]} for n in range(100))
    store = Store(tmp_path, "train")
    sources, targets = shortlist.sample(store)
    assert len(sources) == 10, "(1 + 1) · 3 pairs of tokens each"
    assert max(int(source[0]) for source in sources) > 60, "not the first alone"
    for source, target in zip(sources, targets, strict=True):
        assert target.tolist() == [source[0], source[0] + 1, source[0] + 2]
    again, _ = shortlist.sample(store)
    assert [row.tolist() for row in again] == [row.tolist() for row in sources]
