"""Examples of the validation part, as a model answers them while it learns."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from regard.decoding.continuation import border
from regard.decoding.prediction import Sample
from regard.recipe.config import Recipe
from regard.runs import samples
from regard.runs.samples import LONGEST, sampler
from regard.train import log
from regard.verbs import display
from tests.own_parts.toy import Toy


class Line:
    """A field of plain text."""

    def show(self, value: str) -> str:
        return value


class Upper(Toy):
    """A task whose model writes in capitals."""

    sizes: Any = None
    fields: dict[str, Any] = {"source": Line(), "target": Line()}  # noqa: RUF012

    def predict(self, model: Any, inputs: Any, search: Any, **options: Any) -> Any:
        return (SimpleNamespace(text=text.upper()) for text in inputs)

    def batches(self, seed: int) -> Any:
        raise NotImplementedError

    def loss(self, model: Any, batch: Any, carry: Any) -> Any:
        raise NotImplementedError


def recipe(count: int = 3, seed: int = 1) -> Recipe:
    train = SimpleNamespace(samples=count)
    return Recipe(kind="upper", seed=seed, task=None, model=None, train=train)


def sampled(monkeypatch: Any, pairs: Any, count: int = 3, seed: int = 1) -> dict[str, str]:
    monkeypatch.setattr(samples, "watched", lambda folder, fields: pairs)
    task: Any = Upper()
    return sampler(recipe(count, seed), task, Path())(None)


def test_inputs_with_what_is_wanted_and_got(monkeypatch: pytest.MonkeyPatch):
    found = sampled(monkeypatch, [(f"a{n}", f"b{n}") for n in range(9)])
    assert [*found][:3] == ["input_1", "wanted_1", "got_1"] and len(found) == 9
    for n in (1, 2, 3):
        number = found[f"input_{n}"][1]
        assert (found[f"wanted_{n}"], found[f"got_{n}"]) == (f"b{number}", f"A{number}")


def test_the_seed_chooses_and_fewer_are_enough(monkeypatch: pytest.MonkeyPatch):
    pairs = [(f"a{n}", f"b{n}") for n in range(99)]
    assert sampled(monkeypatch, pairs, seed=2) == sampled(monkeypatch, pairs, seed=2)
    assert sampled(monkeypatch, pairs, seed=2) != sampled(monkeypatch, pairs, seed=3)
    assert sampled(monkeypatch, [("a", "b")]) == {"input_1": "a", "wanted_1": "b", "got_1": "A"}


@pytest.mark.parametrize(("pairs", "count"), [(None, 3), ([], 3), ([("a", "b")], 0)])
def test_there_are_none(pairs: Any, count: int, monkeypatch: pytest.MonkeyPatch):
    """Of a run that keeps nothing, or whose recipe wants none."""
    assert sampled(monkeypatch, pairs, count) == {}


def test_a_task_may_have_its_own(tmp_path: Path):
    class Own(Upper):
        def samples(self, model: Any, choose: Any) -> list[Sample]:
            return [Sample("in", str(n), "out") for n in choose(2)]

    task: Any = Own()
    found = sampler(recipe(), task, tmp_path)(None)
    assert [found["wanted_1"], found["wanted_2"]] == ["0", "1"]


def test_they_are_short_on_one_line_and_harmless(monkeypatch: pytest.MonkeyPatch):
    found = sampled(monkeypatch, [("x\n \x1b[31my", "z" * 500)])
    assert found["input_1"] == "x �[31my"
    assert found["wanted_1"] == "z" * (LONGEST - 1) + "…"


def test_a_record_of_them_is_one_and_a_person_sees_it(tmp_path: Path):
    given = {"input_1": "a", "wanted_1": "b", "got_1": "c"}
    given |= {"input_2": "d", "wanted_2": "e", "got_2": "e"}
    record = {"kind": "samples", "update": 5, **given}
    log.append(tmp_path / "records", [record])
    assert log.read(tmp_path / "records") == [record]
    assert display.line(record) == "  a → c (wanted: b)\n  d → e (right)"


def test_a_text_is_cut_between_words():
    assert border("one two three", 5) == 7
    assert border("one two three", -3) == border("one two three", 0) == 0
    assert border("onetwothree", 5) == 5
