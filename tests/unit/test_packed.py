"""Packed rows come back as they were, and take less memory than a list of them."""

import tracemalloc

import pytest
from hypothesis import given, settings, strategies as st

from regard.data import packed
from regard.data.packed import Packed
from regard.data.readers import Row

fields = st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=5)


@given(st.lists(st.tuples(st.integers(1, 2**40), st.tuples(fields, fields)), max_size=9))
@settings(max_examples=60, deadline=None)
def test_rows_come_back(rows: list[Row]):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packed, "ROWS", 2)
        kept = Packed(iter(rows))
    assert list(kept) == rows == list(kept) and len(kept) == len(rows)
    assert list(kept.texts()) == [text for _, pair in rows for text in pair]
    blocks = [(n, tuple(f)) for numbers, columns in kept.blocks()
              for n, f in zip(numbers, zip(*columns, strict=True), strict=True)]  # fmt: skip
    assert blocks == rows


def test_they_take_less_memory():
    def rows():
        return ((n, (f"a sentence, {n}", f"ein Satz, {n}")) for n in range(20_000))

    sizes = []
    for keep in (Packed, list):
        tracemalloc.start()
        kept = keep(rows())
        sizes.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        assert len(kept) == 20_000
    assert sizes[0] < sizes[1] / 4
