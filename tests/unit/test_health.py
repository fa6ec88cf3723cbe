"""Signs that training goes wrong."""

import pytest

from regard.train import health
from tests.unit.test_training import Listed, Told, settings

ANSWERS = [f"answer {n}" for n in range(20)]
INPUTS = [f"input {n}" for n in range(20)]


@pytest.mark.parametrize(
    ("outputs", "found"),
    [
        (ANSWERS, {}),
        (["a"] * 20, {"same": 1.0}),
        (["a"] * 19 + ["b"], {"same": 0.95}),
        (["a"] * 18 + ["b", "c"], {}),
        (INPUTS, {"copied": 1.0}),
        ([""] * 20, {"same": 1.0, "empty": 1.0}),
    ],
)
def test_outputs_that_are_all_alike(outputs: list[str], found: dict[str, float]):
    assert health.shares(outputs, ANSWERS, INPUTS) == pytest.approx(found)


def test_outputs_may_be_alike_where_the_answers_are():
    assert health.shares(["O"] * 20, ["O"] * 19 + ["B"]) == {}
    assert health.shares(["O"] * 20, ["O"] * 16 + ["B"] * 4) == {"same": 1.0}
    assert health.shares(INPUTS, [*INPUTS[:19], "corrected"], INPUTS) == {}
    assert health.shares(["a"] * 7, ANSWERS[:7]) == {}, "too few to tell"


def test_numbers_that_do_not_vary():
    assert health.constant(0.01, 1.0) == {"same": 1.0}
    assert health.constant(0.5, 1.0) == {}


def test_divergence_is_told_from_overfitting():
    """The margin is half a nat, or a quarter of the loss."""
    assert health.signs({"nll": 2.4}, 1.0, 2.0, 1.5) == {}
    assert list(health.signs({"nll": 2.6}, 1.0, 2.0, 1.5)) == ["overfits"]
    assert list(health.signs({"nll": 2.6}, 4.0, 2.0, 1.5)) == ["diverges"]
    assert list(health.signs({"nll": float("nan")}, 4.0, 2.0, 1.5)) == ["diverges"]
    assert health.signs({"nll": 9.0}) == {}, "nothing to compare with"


def test_every_sign_says_what_to_try():
    found = health.signs({"nll": 9.0, "same": 1.0, "copied": 1.0}, 9.0, 2.0, 1.5)
    found |= health.signs({"nll": 9.0, "empty": 1.0}, 1.0, 2.0, 1.5)
    assert found.keys() == {"same", "copied", "empty", "diverges", "overfits"}
    assert all("try" in text.lower() or "see that" in text.lower() for text in found.values())
    assert "100% of the outputs are the same" in found["same"]


def test_the_second_validation_in_a_row_warns_and_no_other():
    """Shares at updates 1 to 7: a sign that comes back warns again."""
    alike = iter([True, True, True, False, True, True, True])

    def validate() -> dict[str, float]:
        return {"nll": 1.0} | ({"same": 1.0} if next(alike) else {})

    told = Told(
        Listed([[1.0, 0.0]]), settings(updates=7, validate_every=1, log_every=100), validate
    )
    progress = told.fit()
    warnings = [r for r in told.records if r["kind"] == "warning"]
    assert [r["update"] for r in warnings] == [2, 6]
    assert "whatever the input" in warnings[0]["text"]
    assert all("same" not in r for r in told.records if r["kind"] == "validation")
    assert progress.signs == {"same": 3}
