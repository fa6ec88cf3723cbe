"""The field against its definition: every sequence of tags is enumerated and scored."""

from itertools import pairwise, product

import pytest
import torch
from torch import Tensor

from regard.layers.crf import CRF

B, T, C = 3, 5, 4
LENGTHS = (5, 1, 3)


@pytest.fixture
def crf() -> CRF:
    made = CRF(C).double()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)
    return made


@pytest.fixture
def emissions() -> Tensor:
    return torch.randn(B, T, C, dtype=torch.double)


@pytest.fixture
def mask() -> Tensor:
    return torch.arange(T) < torch.tensor(LENGTHS)[:, None]


def score(crf: CRF, emissions: Tensor, tags: tuple[int, ...]) -> Tensor:
    """s(y), as the equation has it."""
    total = crf.start[tags[0]] + crf.end[tags[-1]]
    for t, tag in enumerate(tags):
        total = total + emissions[t, tag]
    for before, tag in pairwise(tags):
        total = total + crf.transitions[before, tag]
    return total


def everything(crf: CRF, emissions: Tensor, length: int) -> dict[tuple[int, ...], Tensor]:
    """s(y) of all sequences of tags."""
    return {tags: score(crf, emissions, tags) for tags in product(range(C), repeat=length)}


def log_sum(scores: list[Tensor]) -> Tensor:
    return torch.stack(scores).logsumexp(0)


def test_log_partition_is_the_sum_over_all_sequences(crf, emissions, mask):
    found = crf.log_partition(emissions, mask)
    for n, length in enumerate(LENGTHS):
        expected = log_sum(list(everything(crf, emissions[n], length).values()))
        torch.testing.assert_close(found[n], expected)


@pytest.mark.parametrize("hidden", [(), (0,), (1, 2), (0, 2, 4)])
def test_likelihood_of_tags_of_which_some_are_not_known(crf, emissions, mask, hidden):
    tags = torch.randint(C, (B, T))
    tags[:, list(hidden)] = -1
    found = crf.log_likelihood(emissions, tags, mask)
    for n, length in enumerate(LENGTHS):
        scores = everything(crf, emissions[n], length)
        known = tags[n, :length].tolist()
        agree = [
            value
            for sequence, value in scores.items()
            if all(k in (-1, tag) for k, tag in zip(known, sequence, strict=True))
        ]
        torch.testing.assert_close(found[n], log_sum(agree) - log_sum(list(scores.values())))


def test_the_chain_sums_to_the_likelihood_and_its_steps_are_conditional(crf, emissions, mask):
    tags = torch.randint(C, (B, T))
    steps = crf.chain(emissions, tags, mask)
    torch.testing.assert_close(steps.sum(1), crf.log_likelihood(emissions, tags, mask))
    assert (steps[~mask] == 0).all()
    scores = everything(crf, emissions[0], T)
    first = int(tags[0, 0])
    beginning = [value for sequence, value in scores.items() if sequence[0] == first]
    torch.testing.assert_close(steps[0, 0], log_sum(beginning) - log_sum(list(scores.values())))


def test_the_chain_passes_over_what_is_not_known(crf, emissions, mask):
    tags = torch.randint(C, (B, T))
    tags[0, 2] = tags[2, 0] = -1
    steps = crf.chain(emissions, tags, mask)
    assert steps[0, 2] == steps[2, 0] == 0
    torch.testing.assert_close(steps.sum(1), crf.log_likelihood(emissions, tags, mask))


def test_decode_finds_the_best_of_all_sequences(crf, emissions, mask):
    found = crf.decode(emissions, mask)
    for n, length in enumerate(LENGTHS):
        scores = everything(crf, emissions[n], length)
        best = max(scores, key=lambda sequence: float(scores[sequence].detach()))
        assert tuple(found[n, :length].tolist()) == best
    assert (found[~mask] == 0).all()


def test_marginals_are_sums_of_probabilities_and_the_gradient_of_log_z(crf, emissions, mask):
    found = crf.marginals(emissions, mask)
    for n, length in enumerate(LENGTHS):
        scores = everything(crf, emissions[n], length)
        chances = torch.stack(list(scores.values())).softmax(0)
        for t, k in product(range(length), range(C)):
            chosen = torch.tensor([sequence[t] == k for sequence in scores])
            torch.testing.assert_close(found[n, t, k], chances[chosen].sum())
    emissions.requires_grad_()
    crf.log_partition(emissions, mask).sum().backward()
    torch.testing.assert_close(emissions.grad[mask], found[mask])
    assert (emissions.grad[~mask] == 0).all()


def test_padding_changes_nothing(crf, emissions, mask):
    n, length = 2, LENGTHS[2]
    short, whole = emissions[n : n + 1, :length], torch.ones(1, length, dtype=torch.bool)
    tags = torch.randint(C, (B, T))
    args = (tags[n : n + 1, :length], whole)
    assert crf.log_likelihood(emissions, tags, mask)[n] == crf.log_likelihood(short, *args)[0]
    assert torch.equal(crf.decode(emissions, mask)[n, :length], crf.decode(short, whole)[0])
    torch.testing.assert_close(
        crf.marginals(emissions, mask)[n, :length], crf.marginals(short, whole)[0]
    )


def test_gradients_stay_finite_where_tags_are_certain():
    crf = CRF(3)
    emissions = (torch.eye(3)[None] * 1e4).requires_grad_()
    mask = torch.ones(1, 3, dtype=torch.bool)
    loss = -crf.log_likelihood(emissions, torch.tensor([[0, 1, 2]]), mask).sum()
    loss.backward()
    assert loss.item() == pytest.approx(0.0, abs=1e-3)
    for each in (*crf.parameters(), emissions):
        assert each.grad is not None
        assert each.grad.isfinite().all()
