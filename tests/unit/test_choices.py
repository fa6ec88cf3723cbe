"""Texts to choose among: the tree of their tokens, and every search that is bound to it."""

from itertools import product
from math import log
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.decoding.choices import ROOT, Choices
from regard.search import Hypothesis, beam, greedy, sample
from tests.unit import test_search as tables
from tests.unit.test_search import END, A, B, C, ask, chances, run

TEXTS = [(B, C, C), (A, B), (A,), (A, B), (C, A, B, A)]


def open_after(choices: Choices, *symbols: int) -> set[int]:
    node = torch.full((1, 1), ROOT)
    for symbol in symbols:
        node = choices.follow(node, torch.full_like(node, symbol))
    return set(choices.allowed(node)[0, 0].nonzero().flatten().tolist())


def test_what_may_follow():
    choices = Choices(TEXTS, END, 6)
    assert choices.longest == 4
    assert open_after(choices) == {A, B, C}
    assert open_after(choices, A) == {B, END}
    assert open_after(choices, A, B) == {END}
    assert open_after(choices, B) == open_after(choices, B, C) == {C}
    assert open_after(choices, A, END) == open_after(choices, B, A) == open_after(choices, B, A, C)
    assert open_after(choices, A, END) == set()
    # One edge for each beginning, the whole text with its end being one: A B is there once.
    assert len(choices.edges) == 3 + (1 + 1) + (1 + 1) + (1 + 1 + 1) + (1 + 1) + 1


def test_an_empty_text_may_end_at_once():
    assert open_after(Choices([(), (A,)], END, 6)) == {A, END}


def test_the_tree_has_what_the_texts_have():
    """Against all beginnings, found without a tree."""
    dice = torch.Generator().manual_seed(3)
    texts = [
        tuple(torch.randint(3, 9, (int(length),), generator=dice).tolist())
        for length in torch.randint(1, 6, (60,), generator=dice)
    ]
    choices = Choices(texts, END, 9)
    after: dict[tuple[int, ...], set[int]] = {}
    for text in texts:
        whole = (*text, END)
        for n in range(len(whole)):
            after.setdefault(whole[:n], set()).add(whole[n])
    for beginning in product(range(3, 9), repeat=3):
        for n in range(4):
            assert open_after(choices, *beginning[:n]) == after.get(beginning[:n], set())
            assert choices.begin(beginning[:n]) == (beginning[:n] in after)


def bound(module: ModuleType, table: Tensor, **options: Any) -> list[list[Hypothesis]]:
    choices = Choices(TEXTS, END, 6)
    return run(module, table, ask([5] * len(table), choices=choices), **options)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_a_wide_beam_finds_the_best_choice_by_its_own_probability(alpha: float):
    """What is no choice keeps its probability: no text gains by having few neighbours."""
    table = tables.random_tables(20)
    texts = sorted(set(TEXTS))
    for rows, found in zip(
        table, bound(beam, table, beams=8, nbest=4, length_penalty=alpha), strict=True
    ):
        values = {text: chances(rows, (*text, END), (END, A, B, C)) for text in texts}
        scores = {text: sum(v) / len(v) ** alpha for text, v in values.items()}
        assert [h.tokens for h in found] == sorted(texts, key=lambda text: -scores[text])
        for h in found:
            assert h.finished and h.score == pytest.approx(scores[h.tokens], abs=1e-5)
            assert h.log_probs == pytest.approx(values[h.tokens], abs=1e-5)


@pytest.mark.parametrize(
    ("module", "options"),
    [(greedy, {}), (sample, {"samples": 5}), (sample, {"top_k": 2}), (beam, {"beams": 2})],
)
def test_every_search_writes_choices_alone(module: ModuleType, options: dict[str, Any]):
    table = tables.random_tables(40)
    found = bound(module, table, **options)
    written = {h.tokens for hypotheses in found for h in hypotheses}
    assert written <= set(TEXTS) and len(written) > 2
    assert all(h.finished for hypotheses in found for h in hypotheses)
    for rows, hypotheses in zip(table, found, strict=True):
        for h in hypotheses:
            values = chances(rows, (*h.tokens, END), (END, A, B, C))
            assert h.log_probs == pytest.approx(values, abs=1e-5)


@pytest.mark.parametrize("top_p", [1.0, 0.999])
def test_samples_are_drawn_from_what_may_follow(top_p: float):
    """After the start A has 0.6 and B 0.4, after A the end has 0.3 and A A 0.4, but A A is none:
    A and A B are drawn 0.3 times each, though 0.18 is their probability, and B 0.4."""
    choices = Choices([(A,), (A, B), (B,)], END, 6)
    request = ask([3], choices=choices)
    (found,) = run(sample, tables.GARDEN, request, samples=4000, top_p=top_p)
    shares = {text: sum(h.tokens == text for h in found) / 4000 for text in ((A,), (A, B), (B,))}
    assert shares == pytest.approx({(A,): 0.3, (A, B): 0.3, (B,): 0.4}, abs=0.03)
    scores = {h.tokens: h.score for h in found}
    assert scores == pytest.approx({(A,): log(0.18), (A, B): log(0.18), (B,): log(0.4)})


def test_a_prefix_leads_into_the_tree():
    choices = Choices(TEXTS, END, 6)
    request = ask([5, 5], choices=choices, prefixes=((C,), (A, B)))
    for module in (greedy, sample, beam):
        found = run(module, tables.random_tables(2), request)
        assert [h.tokens for (h, *_) in found] == [(C, A, B, A), (A, B)]
