"""Which words stand for which, by IBM's model 1; and the file that CTranslate2 reads."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.data.store import Store
from regard.data.tokenizers import END
from regard.interop import shortlist

THE, HOUSE, BOOK = 10, 11, 12
DAS, HAUS, BUCH = 20, 21, 22


def pair(source: list[int], target: list[int]) -> Any:
    return np.array(source, np.int64), np.array(target, np.int64)


PAIRS = [pair([THE, HOUSE], [DAS, HAUS]), pair([THE, BOOK], [DAS, BUCH])]


def chances(rounds: int) -> dict[tuple[int, int], float]:
    found = shortlist.lexicon(PAIRS, rounds)
    return {(s, t): p for s, t, p in zip(*(column.tolist() for column in found), strict=True)}


def test_the_first_round_counts_by_hand() -> None:
    """Each place gives 1/3 to each of the, the noun, and the end."""
    found = chances(1)
    assert found[THE, DAS] == pytest.approx(1 / 2)
    assert found[THE, HAUS] == found[THE, BUCH] == pytest.approx(1 / 4)
    assert found[HOUSE, DAS] == found[HOUSE, HAUS] == pytest.approx(1 / 2)
    assert found[END, DAS] == pytest.approx(1 / 2)
    assert (HOUSE, BUCH) not in found


def test_the_second_round_counts_by_hand() -> None:
    """das: 1/3 each again (all have p = 1/2); Haus: ¼, ½, ¼ of it for the, house, the end."""
    found = chances(2)
    assert found[HOUSE, HAUS] == pytest.approx((1 / 2) / (1 / 2 + 1 / 3))
    assert found[THE, DAS] == pytest.approx((2 / 3) / (2 / 3 + 1 / 4 + 1 / 4))


def test_what_explains_best_wins_in_the_end() -> None:
    found = shortlist.lexicon(PAIRS, 50)
    best = dict(reversed(list(zip(found.sources, found.targets, strict=True))))
    assert (best[HOUSE], best[BOOK], best[THE]) == (HAUS, BUCH, DAS)
    totals = np.bincount(found.sources, found.chances)
    assert totals[[THE, HOUSE, BOOK, END]] == pytest.approx(1.0)


def test_the_file_has_what_is_always_allowed_and_the_best_of_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shortlist, "ALWAYS", 1)
    monkeypatch.setattr(shortlist, "EACH", 1)
    shortlist.write(PAIRS, tmp_path)
    lines = (tmp_path / shortlist.NAME).read_text().splitlines()
    assert lines[0] == f"\t{END} {DAS}", "the end, and the most frequent symbol"
    assert dict(line.split("\t") for line in lines[1:]) == {
        str(END): str(DAS), str(THE): str(DAS), str(HOUSE): str(HAUS), str(BOOK): str(BUCH)
    }  # fmt: skip


def test_a_large_text_is_sampled_and_always_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shortlist, "LINKS", 60)
    rows = [([10 + n], [10 + n, 11 + n, 12 + n]) for n in range(100)]
    Store.write(tmp_path, ["source", "target"], 200, rows)
    stores = [Store(tmp_path, name) for name in ("source", "target")]
    found, again = shortlist.sample(*stores), shortlist.sample(*stores)
    assert len(found) == 10, "(1 + 1) · 3 pairs of symbols each"
    assert max(int(source[0]) for source, _ in found) > 60, "not the first alone"
    for (a, b), (c, d) in zip(found, again, strict=True):
        assert a.tolist() == c.tolist() and b.tolist() == d.tolist()
        assert b.tolist() == [a[0], a[0] + 1, a[0] + 2]
