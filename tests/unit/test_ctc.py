"""CTC beside what its equations say when every path is written out."""

from itertools import product
from math import inf

import numpy as np
import pytest
import torch

from regard.heads import ctc as heads
from regard.search import ctc


def table(frames: int = 5, outputs: int = 4, seed: int = 1) -> ctc.Table:
    logits = torch.randn(frames, outputs, generator=torch.Generator().manual_seed(seed)) * 2
    return logits.log_softmax(-1).numpy()


def texts(chances: ctc.Table) -> dict[tuple[int, ...], float]:
    """p of each text: the sum over all paths that write it."""
    found: dict[tuple[int, ...], float] = {}
    for path in product(range(chances.shape[1]), repeat=len(chances)):
        written = tuple(ctc.merged(path))
        p = float(np.exp(sum(chances[t, output] for t, output in enumerate(path))))
        found[written] = found.get(written, 0.0) + p
    return found


def forward(chances: ctc.Table, tokens: tuple[int, ...]) -> float:
    """Graves et al. 2006, equations 6 to 8: α_t(s) in a table, and their sum at the end."""
    states = [0, *(each for token in tokens for each in (token, 0))]
    alpha = np.zeros((len(chances), len(states)))
    p = np.exp(chances)
    alpha[0, :2] = p[0, states[:2]]
    for t in range(1, len(chances)):
        for s, output in enumerate(states):
            total = alpha[t - 1, s] + (alpha[t - 1, s - 1] if s else 0)
            if s > 1 and output != 0 and output != states[s - 2]:
                total += alpha[t - 1, s - 2]
            alpha[t, s] = total * p[t, output]
    return float(np.log(alpha[-1, -2:].sum())) if tokens else float(np.log(alpha[-1, -1]))


def test_merged():
    assert ctc.merged([0, 3, 3, 0, 3, 1, 1, 2, 0]) == [3, 3, 1, 2]
    assert ctc.merged([0, 0]) == []


def test_the_loss_is_the_sum_over_paths():
    every = texts(table())
    assert sum(every.values()) == pytest.approx(1)
    head = heads.Head(heads.Config(), 4, 4, None)
    with torch.no_grad():
        head.project.weight.copy_(torch.eye(4))
        head.project.bias.zero_()
    for tokens in [(1,), (1, 2), (3, 3), (2, 2, 2), (1, 2, 3, 1)]:
        assert forward(table(), tokens) == pytest.approx(np.log(every[tokens]), abs=1e-5)
        # A second row, with padding on both sides, changes nothing of the first.
        hidden = torch.tensor(np.stack([np.pad(table(), ((0, 2), (0, 0))), table(7)]))
        mask = torch.tensor([[True] * 5 + [False] * 2, [True] * 7])
        targets = torch.tensor([[*tokens, *[0] * (5 - len(tokens))], [1, 2, 3, 2, 1]])
        lengths = torch.tensor([len(tokens), 5])
        found = head.likelihood(hidden, mask, targets, lengths)
        assert found[0].item() == pytest.approx(np.log(every[tokens]), abs=1e-4)
        term = head.loss(hidden, targets, mask)["ctc"]
        assert term.count == len(tokens) + 5
        assert term.sum.item() == pytest.approx(-found.sum().item(), abs=1e-4)


def test_a_text_without_a_path_adds_nothing():
    head = heads.Head(heads.Config(), 3, 4, None)
    hidden = torch.randn(2, 3, 3, requires_grad=True)
    mask = torch.ones(2, 3, dtype=torch.bool)
    targets = torch.tensor([[1, 1, 2, 0], [1, 2, 0, 0]])  # the first needs 4 positions
    found = head.likelihood(hidden, mask, targets, torch.tensor([3, 2]))
    assert found[0] == -inf and torch.isfinite(found[1])
    total = head.loss(hidden, targets, mask)["ctc"].sum
    assert total.item() == pytest.approx(-found[1].item(), abs=1e-5)
    total.backward()
    assert hidden.grad is not None and torch.isfinite(hidden.grad).all()
    assert ctc.needed([1, 1, 2]) == 4 and ctc.needed([1, 2]) == 2 and ctc.needed([]) == 0


@pytest.mark.parametrize("seed", range(4))
def test_a_wide_beam_finds_the_likeliest_texts(seed: int):
    chances = table(seed=seed)
    every = sorted(texts(chances).items(), key=lambda each: -each[1])
    found = ctc.search(chances, ctc.Config(beams=500, nbest=5, prune=0))
    assert [each.tokens for each in found] == [tokens for tokens, _ in every[:5]]
    assert np.exp([each.score for each in found]) == pytest.approx([p for _, p in every[:5]])


def test_the_likeliest_path():
    chances = table(9, 5, 7)
    [found] = ctc.search(chances, ctc.Config())
    assert found.tokens == tuple(ctc.merged(chances.argmax(1).tolist()))
    assert found.score == pytest.approx(chances.max(1).sum())


def test_a_beam_can_beat_the_likeliest_path():
    """Hannun's case: two paths together are likelier than the best of all."""
    chances = np.log(np.array([[0.6, 0.4], [0.6, 0.4]], np.float32))
    assert ctc.search(chances, ctc.Config())[0].tokens == ()  # p = 0.36
    [best] = ctc.search(chances, ctc.Config(beams=4))
    assert best.tokens == (1,) and np.exp(best.score) == pytest.approx(0.64)


def test_a_language_model_is_mixed_in():
    """Scores are log p(y | x) + weight · log p(y END) + bonus · |y|, whatever text is asked for."""
    chances = table(4, 3, 5)
    after = np.log(np.array([[0.2, 0.5, 0.3], [0.3, 0.1, 0.6], [0.5, 0.4, 0.1]]))

    def follow(prefixes):
        return np.stack([after[prefix[-1] if prefix else 0] for prefix in prefixes])

    config = ctc.Config(beams=200, nbest=200, prune=0, weight=0.7, bonus=0.3)
    found = {each.tokens: each.score for each in ctc.search(chances, config, follow)}
    every = texts(chances)
    assert found.keys() == every.keys()
    for tokens, p in every.items():
        said = sum(after[a, b] for a, b in zip((0, *tokens), (*tokens, 0), strict=True))
        assert found[tokens] == pytest.approx(np.log(p) + 0.7 * said + 0.3 * len(tokens), abs=1e-5)


@pytest.mark.parametrize("tokens", [(1,), (2, 2), (1, 2, 3), (3, 1, 1)])
def test_the_alignment_is_the_likeliest_path(tokens: tuple[int, ...]):
    chances = table(6, 4, 11)
    paths = (p for p in product(range(4), repeat=6) if tuple(ctc.merged(p)) == tokens)
    best = max(paths, key=lambda path: sum(chances[t, o] for t, o in enumerate(path)))
    spans = ctc.align(chances, tokens)
    drawn = [0] * 6
    for token, (first, end) in zip(tokens, spans, strict=True):
        drawn[first:end] = [token] * (end - first)
    assert drawn == list(best)
    assert ctc.align(chances, (1, 1, 1, 1)) == []
