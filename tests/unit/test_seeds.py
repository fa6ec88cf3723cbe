"""Several seeds of a recipe: where they go, what is kept, how far apart they are."""

from pathlib import Path

import pytest

from regard import cli
from regard.errors import RecipeError
from regard.verbs.seeds import Spread, folders
from tests import corpus


def test_folders_are_named_by_their_seed():
    found = folders(Path("runs/x"), 4, 2)
    assert found == {4: Path("runs/x-seed4"), 5: Path("runs/x-seed5")}
    for count in (1, 10**9):
        with pytest.raises(RecipeError, match=f"seeds: {count} must be ≥ 2 and ≤ 1,000"):
            folders(Path("runs/x"), 1, count)
    with pytest.raises(RecipeError, match=r"to: \. has no name"):
        folders(Path(), 1, 2)


def test_mean_and_deviation_by_hand():
    found = Spread(metric="bleu", values={"a": 1.0, "b": 2.0, "c": 3.0})
    assert found.mean == 2.0 and found.deviation == 1.0
    assert found.lines()[3] == "3 seeds: bleu 2 ± 1 (standard deviation) in validation"


@pytest.mark.parametrize("limit", ["updates=2", "epochs=0.2"])
def test_seeds_are_trained_once_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], limit: str
):
    recipe = corpus.write(tmp_path / "corpus")
    words = ["train", str(recipe), f"train.{limit}", "--to", str(tmp_path / "x"), "--seeds", "2"]
    cli.main(words)
    assert "2 seeds: " in capsys.readouterr().err
    made = sorted(tmp_path.glob("x-seed*"))
    assert [folder.name for folder in made] == ["x-seed3", "x-seed4"]
    times = [(folder / "model").stat().st_mtime_ns for folder in made]
    cli.main(words)
    assert "2 seeds: " in capsys.readouterr().err
    assert times == [(folder / "model").stat().st_mtime_ns for folder in made]
    with pytest.raises(SystemExit):
        cli.main([*words, "train.clip=3"])
    assert "x-seed3 is a run of another recipe" in capsys.readouterr().err
