"""The head that compares two towers, places of right answers, and choices with prompts."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data.readers import Report
from regard.decoding.matching import Choices
from regard.errors import RecipeError, UserError
from regard.heads.contrast import Config, Head
from regard.metrics import retrieval
from regard.types import Sequence

SHAPES = {"source": 5, "target": 7}


def head(**settings: object) -> Head:
    torch.manual_seed(1)
    return Head(Config(size=3, **settings), 11, 1, None, widths=SHAPES)  # type: ignore[arg-type]


def test_the_loss_by_hand():
    """Two pairs, τ = ½: s = 2 u·v. Rows (2, 0), (1.2, 1.6); columns (2, 1.2), (0, 1.6)."""
    made = head(temperature=0.5)
    u = torch.tensor([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0]])
    v = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    torch.testing.assert_close(made.logits(u, v), torch.tensor([[2.0, 0.0], [1.2, 1.6]]))

    def nll(right: float, wrong: float) -> float:
        return math.log(1 + math.exp(wrong - right))

    rows, columns = nll(2, 0) + nll(1.6, 1.2), nll(2, 1.2) + nll(1.6, 0)
    term = made.loss(u, v)["nll"]
    assert term.sum.item() == pytest.approx((rows + columns) / 2, abs=1e-6)
    assert term.count == 2


def test_vectors_have_length_one_and_padding_changes_nothing():
    made = head()
    states, mask = torch.randn(2, 4, 7), torch.tensor([[True] * 4, [True, True, False, False]])
    found = made.vectors("target", Sequence(states, mask))
    assert found.shape == (2, 3)
    torch.testing.assert_close(found.norm(dim=1), torch.ones(2))
    short = made.vectors("target", Sequence(states[1:, :2], mask[1:, :2]))
    torch.testing.assert_close(found[1:], short)


def test_the_temperature_has_an_end():
    made = head(temperature=0.01)
    assert made.scale().item() == pytest.approx(100, rel=1e-5)
    with torch.no_grad():
        made.sharpness.add_(3)
    assert made.scale().item() == 100


def test_the_temperature_comes_back_from_its_end():
    """Where wrong pairs are alike, 1/τ falls from beyond 100; where right ones are, it stays."""
    u = torch.eye(3)[:2]
    for others, moves in ((u.flip(0), True), (u, False)):
        made = head(temperature=0.01)
        with torch.no_grad():
            made.sharpness.add_(0.2)
        start = made.sharpness.item()
        made.loss(u, others)["nll"].sum.backward()
        assert made.sharpness.grad is not None
        with torch.no_grad():
            made.sharpness.sub_(0.002 * made.sharpness.grad)
        assert (made.sharpness.item() < start) == moves
        assert (made.scale().item() < 100) == moves


@pytest.mark.parametrize(
    ("temperature", "more", "by", "gradient"),
    [(0.5, 0, -3, -6), (0.5, 0, 3, 6), (0.01, 1, -3, 0), (0.01, 1, 3, 300)],
)
def test_the_gradient_of_the_temperature(
    temperature: float, more: float, by: float, gradient: float
):
    """d eˣ / dx = eˣ below its end; beyond, that of the end, but never further away."""
    made = head(temperature=temperature)
    with torch.no_grad():
        made.sharpness.add_(more)
    made.scale().mul(by).backward()
    assert made.sharpness.grad is not None
    assert made.sharpness.grad.item() == pytest.approx(gradient)


def test_ranks_and_recall():
    alike = np.array([[3.0, 2.0, 1.0], [3.0, 2.0, 2.0], [5.0, 4.0, 1.0]])
    right = np.eye(3, dtype=bool)
    assert retrieval.ranks(alike, right).tolist() == [1, 3, 3]  # of equals, the right one is last
    right[2, 1] = True  # two are right: the better one counts
    assert retrieval.ranks(alike, right).tolist() == [1, 3, 2]
    found = [{"a_to_b": [rank]} for rank in (1, 3, 7, 20)]
    scores = retrieval.scores(found, {"a_to_b": 50})
    assert {name: score.value for name, score in scores.items()} == {
        "a_to_b_r1": 25.0,
        "a_to_b_r5": 50.0,
        "a_to_b_r10": 75.0,
    }
    assert "among:50" in scores["a_to_b_r1"].signature


def test_queries_of_several_texts_count_each():
    found = [{"b_to_a": [1, 1, 2]}, {"b_to_a": [3]}]
    assert retrieval.hits(found, "b_to_a", 1) == ([2.0, 0.0], [3.0, 1.0])
    assert retrieval.scores(found, {"b_to_a": 4})["b_to_a_r1"].value == 50.0


def test_choices_have_prompts(tmp_path: Path):
    path = tmp_path / "choices.txt"
    path.write_text("red\ta red circle\ta red square\nblue\n\n")
    found = Choices.read(path, Report())
    assert found.names == ("red", "blue")
    assert found.prompts == (("a red circle", "a red square"), ("blue",))
    path.write_text("\n")
    with pytest.raises(UserError, match="no text to choose"):
        Choices.read(path, Report())


def test_every_table_of_labels_has_prompts():
    with pytest.raises(RecipeError, match="prompts: 0 files for 1"):
        retrieval.Evaluation(labelled=("colours.tsv",))
