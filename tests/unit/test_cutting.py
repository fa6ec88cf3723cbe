"""BPE-dropout: what is cut in other ways says the same."""

from pathlib import Path
from random import Random

import pytest

from regard.data.cutting import Cutter
from regard.data.store import Store
from regard.data.tokenizers import Config, Tokenizer
from regard.errors import RecipeError
from regard.recipe import config
from regard.runs import Run
from tests import corpus

LINES = ["the lowest tower is lower", "a low tower — ein Türmchen", "", "the newest towers"] * 5


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(Config(size=320), LINES)


@pytest.mark.parametrize("split", ["words", "blanks"])
@pytest.mark.parametrize("lowercase", [True, False])
def test_without_dropout_it_is_the_tokenizer_itself(split: str, lowercase: bool) -> None:
    made = Tokenizer.train(Config(size=320, split=split, lowercase=lowercase), LINES)  # type: ignore[arg-type]
    assert Cutter(made, 0.0).encode(LINES, Random(1)) == made.encode(LINES)


@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.99])
def test_the_text_comes_back(tokenizer: Tokenizer, dropout: float) -> None:
    for cut in (Cutter(tokenizer, dropout).encode(LINES, Random(n)) for n in range(5)):
        assert [tokenizer.decode(symbols) for symbols in cut] == LINES


def test_the_more_is_left_out_the_smaller_the_pieces(tokenizer: Tokenizer) -> None:
    def pieces(dropout: float) -> int:
        return sum(map(len, Cutter(tokenizer, dropout).encode(LINES, Random(1))))

    counts = [pieces(dropout) for dropout in (0.0, 0.2, 0.5, 1 - 1e-9)]
    assert counts == sorted(set(counts))
    assert counts[-1] == sum(len((" " + line).encode()) for line in LINES if line)


def test_a_merge_is_left_out_as_often_as_it_should() -> None:
    """One merge, a + b: with dropout 0.3 it is not made in 0.3 of all cases."""
    made = Tokenizer.train(Config(size=4 + 256 + 1, split="blanks"), ["abababab"])
    words = ["ab"] * 4000
    alone = sum(len(row) == 3 for row in Cutter(made, 0.3).encode(words, Random(1)))  # ▁ a b
    drawn = Cutter(made, 0.3)._ways("Ġab")
    share = sum(len(way) == 3 for way in drawn) / len(drawn)
    assert alone / len(words) == pytest.approx(share, abs=0.03)
    assert share == pytest.approx(0.3, abs=0.15)


def test_copies_are_stored_and_differ(tmp_path: Path) -> None:
    recipe = corpus.write(tmp_path / "corpus", train=6, validation=6)
    changes = ("tokenizer.kind=bpe", "tokenizer.size=300", "cutting.dropout=0.4", "data.longest=99")
    runs = [
        Run.create(tmp_path / name, config.load(recipe, (*changes, "cutting.copies=3")))
        for name in ("one", "two")
    ]
    stores = [Store(run.folder / "store", "train.source") for run in runs]
    rows = [[store[n].tolist() for n in range(len(store))] for store in stores]
    assert rows[0] == rows[1], "the same recipe, the same symbols"
    assert len(rows[0]) == 3 * 6
    source = runs[0].task.source  # type: ignore[attr-defined]
    texts = [source.decode(row) for row in rows[0]]
    assert texts[:6] == texts[6:12] == texts[12:]
    assert rows[0][:6] != rows[0][6:12]
    plain = Store(runs[0].folder / "store", "validation.source")
    assert plain[0].tolist() == source.encode([source.decode(plain[0].tolist())])[0]


def test_only_bpe_has_merges_to_leave_out(tmp_path: Path) -> None:
    recipe = corpus.write(tmp_path / "corpus")
    with pytest.raises(RecipeError, match=r"cutting\.dropout: it needs tokenizer\.kind = 'bpe'"):
        config.load(recipe, ("tokenizer.kind=word", "cutting.dropout=0.1"))
    with pytest.raises(RecipeError, match=r"cutting\.dropout"):
        Cutter(Tokenizer.train(Config(kind="character"), LINES), 0.1)
