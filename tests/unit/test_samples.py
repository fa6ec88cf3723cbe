"""Three inputs of the validation part, as a model answers them while it learns."""

from types import SimpleNamespace
from typing import Any

from regard.errors import UserError
from regard.runs.samples import LONGEST, sampler
from regard.verbs.display import line


class Upper:
    """A task whose model writes in capitals."""

    reads_files = False

    def __init__(self, *sides: list[str]) -> None:
        self.sides = sides

    def references(self, part: str) -> tuple[list[str], ...]:
        if not self.sides:
            raise UserError("gone")
        return self.sides

    def predict(self, model: Any, inputs: list[str], search: Any, **options: Any) -> Any:
        return (SimpleNamespace(text=text.upper()) for text in inputs)


def sampled(*sides: list[str], seed: int = 1) -> dict[str, str]:
    made = sampler(Upper(*sides), seed)
    assert made
    return made(None)


def test_three_inputs_with_what_is_wanted_and_got():
    found = sampled([f"a{n}" for n in range(9)], [f"b{n}" for n in range(9)])
    assert len(found) == 9
    for n in (1, 2, 3):
        number = found[f"input_{n}"][1]
        assert (found[f"wanted_{n}"], found[f"got_{n}"]) == (f"b{number}", f"A{number}")


def test_the_seed_chooses_and_fewer_are_enough():
    texts = [f"a{n}" for n in range(99)]
    assert sampled(texts, texts, seed=2) == sampled(texts, texts, seed=2)
    assert sampled(texts, texts, seed=2) != sampled(texts, texts, seed=3)
    assert len(sampled(["a"], ["b"])) == 3


def test_a_text_alone_is_gone_on_with():
    assert sampled(["abcdef"]) == {"input_1": "abc", "wanted_1": "def", "got_1": "ABC"}


def test_without_a_validation_part_there_are_none():
    assert sampler(Upper(), 1) is None and sampler(Upper([], []), 1) is None


def test_they_are_short_and_on_oneline():
    found = sampled(["x\ny" * 100], ["z" * 500])
    assert max(map(len, found.values())) == LONGEST and "\n" not in "".join(found.values())


def test_a_person_sees_them():
    record = {"kind": "samples", "update": 5, "input_1": "a", "wanted_1": "b", "got_1": "c"}
    assert line(record) == "  a → c (wanted: b)"
