"""Several seeds of a recipe: where they go, what is kept, how far apart they are."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from regard import cli
from regard.compare import Comparison, Entry
from regard.errors import RecipeError
from regard.metrics import Score
from regard.metrics.seeds import apart, tail
from regard.metrics.verdict import Beside, beside_seeds
from regard.recipe.config import Recipe
from regard.runs.seeds import groups
from regard.verbs.seeds import Reached, folders
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
    found = Reached(metric="bleu", values={"a": 1.0, "b": 2.0, "c": 3.0})
    assert found.spread == (2.0, 1.0)
    assert found.lines()[3] == "3 seeds: bleu 2 ± 1 (standard deviation) in validation"


def test_student_by_the_tables():
    """Critical values of 5 %, two-sided."""
    for freedom, t in ((1, 12.7062), (2, 4.30265), (4, 2.77645), (30, 2.04227)):
        assert tail(t, freedom) == pytest.approx(0.05, abs=1e-5)
    assert tail(0, 3) == pytest.approx(1)


def test_how_far_recipes_are_apart_by_hand():
    # Means 2 and 5, both deviations 1: t = 3 / √(2/3), ν = 4.
    assert apart([1, 2, 3], [4, 5, 6]) == pytest.approx(tail(3 / math.sqrt(2 / 3), 4))
    # One run alone: t = 3 / √(4/3), ν = 2.
    assert apart([5], [1, 2, 3]) == pytest.approx(tail(3 / math.sqrt(4 / 3), 2))
    assert apart([1], [2]) is None
    assert apart([1, 1], [2, 2]) == 0.0 and apart([1, 1], [1, 1]) == 1.0


def test_runs_that_differ_in_the_seed_alone_are_one_group():
    def recipe(seed: int, train: int = 1) -> Recipe:
        return Recipe(kind="x", seed=seed, task=1, model=1, train=train)

    found = groups([
        ("r/x-seed1", recipe(1)), ("y", recipe(1, 2)), ("r/x-seed2", recipe(2)),
        ("copy", recipe(2)), ("z", recipe(3, 2)),
    ])  # fmt: skip
    assert found == {"r/x (2 seeds)": ("r/x-seed1", "r/x-seed2"), "y (2 seeds)": ("y", "z")}


def entry(run: str, value: float) -> Entry:
    score = Score(name="x", value=value, signature="s", higher_is_better=True, low=1, high=2)
    return Entry(
        run=run, scores={"x": score}, lengths={}, parameters=5, updates=2, tokens=3, cpu_seconds=1,
        threads=1, fastest=None, median=None, metric="x", curves={},
    )  # fmt: skip


def test_seeds_are_one_column_that_can_be_unfolded():
    runs = entry("a-seed1", 1), entry("b", 7), entry("a-seed2", 3)
    seeds = {"a (2 seeds)": ("a-seed1", "a-seed2")}
    found = Comparison(part="test", quality="x", unit="words", runs=runs, seeds=seeds)
    assert found.header() == ("", "a (2 seeds)", "b")
    assert found.rows()[0] == ("x", "2.0000 ± 1.4142", "7.0000 [1.0000, 2.0000]")
    made = found.as_dict()["seeds"]["a (2 seeds)"]
    assert made["runs"] == ["a-seed1", "a-seed2"] and made["scores"]["x"]["mean"] == 2
    apart_ = replace(found, unfold=True)
    assert apart_.header() == ("", "a-seed1", "b", "a-seed2")
    assert apart_.rows()[0][1].startswith("1.0000 [")


def test_both_kinds_of_noise_must_be_exceeded():
    lines = Beside(run="b", p=0.01, clear=True)
    far = beside_seeds(lines, [1, 1.1, 0.9], [5, 5.1, 4.9])
    assert far.clear and far.seeds is not None and far.seeds < 0.05
    assert str(far).startswith("b: more than noise (lines p = 0.0100, seeds p = 0.0")
    assert beside_seeds(lines, [1, 9, 3], [5, 2, 9]).clear is False
    assert beside_seeds(Beside(run="b", p=0.5, clear=False), [1, 1.1], [5, 5.1]).clear is False
    assert beside_seeds(lines, [1], [5]) == lines
    unknown = beside_seeds(Beside(run="b", p=None, clear=None), [1, 1.1, 0.9], [5, 5.1, 4.9])
    assert unknown.clear and "lines" not in str(unknown)


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
    cli.main(["compare", *map(str, made), "--samples", "5", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert [*found["seeds"]] == [f"{tmp_path / 'x'} (2 seeds)"]
    with pytest.raises(SystemExit):
        cli.main([*words, "train.clip=3"])
    assert "x-seed3 is a run of another recipe" in capsys.readouterr().err
