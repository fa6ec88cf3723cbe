"""Inputs that are longer than the positions that a model has, in every task and verb."""

from pathlib import Path
from typing import Any

import pytest

from regard import front
from regard.errors import RecipeError, UserError
from regard.inspect.views import read
from regard.recipe.config import from_table
from regard.runs import Run
from tests import small_runs
from tests.small_runs import BLOCKS

LONGEST = 6
# What stands beside a text of LONGEST tokens: START and END, END or START, nothing.
BESIDE = {"classify": 2, "translate": 1, "language_model": 1, "tag": 0}
LINE = "a dog runs"
EXACT, LONG = " ".join(["dogs"] * LONGEST), " ".join(["dogs"] * 40)


def parts(task: str, limit: int) -> dict[str, Any]:
    table = {**BLOCKS, "layers": 1, "position": "learned", "limit": limit}
    names = {"translate": ("encoder", "decoder"), "language_model": ("decoder",)}
    return dict.fromkeys(names.get(task, ("encoder",)), table)


def keys(task: str, folder: Path) -> dict[str, Any]:
    data = small_runs.TASKS[task]["data"] | {"folder": str(folder.with_name(f"{folder.name}-data"))}
    return {"data": data | {"max_length": LONGEST, "on_too_long": "cut"}}


def predictor(task: str, tmp_path: Path) -> front.Predictor:
    """Of a run whose model has not one position to spare."""
    folder = tmp_path / "run"
    model = parts(task, LONGEST + BESIDE[task])
    made = small_runs.create(task, model, folder, **keys(task, folder))
    return front.Predictor(made, engine="torch")


@pytest.mark.parametrize("task", BESIDE)
def test_a_table_of_positions_that_is_one_short_is_refused(task: str, tmp_path: Path):
    limit = LONGEST + BESIDE[task]
    for short in (0, 1):
        folder = tmp_path / "run"
        table = small_runs.table(task, parts(task, limit - short), tmp_path / "run-data")
        if not short:
            assert from_table(table | keys(task, folder)).kind == task
            continue
        with pytest.raises(RecipeError, match=rf"limit: {limit - 1} positions, .* for {limit}"):
            from_table(table | keys(task, folder))


@pytest.mark.parametrize("task", BESIDE)
def test_an_input_of_any_length_is_answered(task: str, tmp_path: Path):
    found = predictor(task, tmp_path)
    short, exact, long = found.predictions([LINE, EXACT, LONG])
    if task != "language_model":  # which goes on from the last that it can hold
        assert [short.status != "cut", exact.status != "cut", long.status] == [True, True, "cut"]
    if task == "tag":
        assert len(long.tokens) == 40
    [alone] = found.predictions([EXACT], first=1)
    assert exact.score == pytest.approx(alone.score, abs=1e-5)


@pytest.mark.parametrize("task", ["classify", "tag", "language_model"])
def test_texts_of_any_length_are_scored(task: str, tmp_path: Path):
    found = predictor(task, tmp_path)
    said = {"classify": ["good"] * 2, "tag": [" ".join(["good"] * n) for n in (LONGEST, 40)]}
    exact, long = found.score([EXACT, LONG], *([said[task]] if task in said else []))
    assert exact["log_prob"] < 0
    assert long["log_prob"] < 0
    if task == "classify":
        assert (exact["status"], long["status"]) == ("ok", "cut")


@pytest.mark.parametrize("task", BESIDE)
def test_a_text_of_any_length_is_looked_into(task: str, tmp_path: Path):
    found = predictor(task, tmp_path)
    text = EXACT if task == "language_model" else LONG  # which reads all of a text, or none
    seen = read(found.run, found.task, found.model, text, found.search())
    assert seen.output or task == "translate"
    if task == "language_model":
        assert len(seen.said) == LONGEST + 1, "one more, and no position is left"
        with pytest.raises(UserError, match=r"^position \d+ is beyond the 7 that the model has"):
            read(found.run, found.task, found.model, LONG, found.search())


def test_a_target_without_positions_is_refused_by_its_line(tmp_path: Path):
    found = predictor("translate", tmp_path)
    [fits] = found.score([LONG], [EXACT])
    assert (fits["status"], len(fits["log_probs"])) == ("cut", LONGEST + 1)
    wrong = r"^line 2: the target has 40 tokens, but the model has positions for 6: shorten it"
    with pytest.raises(UserError, match=wrong):
        found.score([LINE, LINE], [EXACT, LONG])
    with pytest.raises(UserError, match=r"^prefix: it has 40 tokens, but the model has positions"):
        found.predict([LINE], prefixes=[LONG])


def test_a_word_of_more_symbols_than_a_window_is_cut(tmp_path: Path):
    """Its first symbol stands for it, so its tag is the one of the part that is read."""
    folder = tmp_path / "run"
    recipe = small_runs.table("tag", parts("tag", LONGEST), tmp_path / "run-data")
    recipe |= keys("tag", folder) | {"tokenizer": {"kind": "character", "min_frequency": 1}}
    run = Run.create(folder, from_table(recipe))
    task: Any = run.task
    [row] = task.source.encode([["dogs", "a" * 50, "in"]])
    windows = task.source.windows(row, LONGEST)
    assert [list(part["source_pieces"]) for part in windows] == [[4], [LONGEST], [2]]
    assert [len(part["source"]) for part in windows] == [4, LONGEST, 2]
    assert task._stored("train").lengths.max() <= LONGEST
