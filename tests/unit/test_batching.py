"""Batches: all examples, once an epoch, within the budget, in an order that can be computed."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from regard.data.batching import Batches, Config, Draw, plan
from regard.types import Batch, Position

LENGTHS = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=60)
CONFIGS = st.builds(Config, tokens=st.integers(1, 200), sentences=st.integers(0, 9))


def collate(ids: Sequence[int], draw: Draw) -> Batch:
    return Batch(tensors={"ids": torch.tensor(ids)}, ids=tuple(ids), targets=len(ids))


def batches(count: int = 50, seed: int = 1, config: Config | None = None) -> Batches:
    random = np.random.default_rng(0)
    lengths = random.integers(1, 20, (count, 2))
    return Batches(lengths, collate, config or Config(tokens=60), seed)


@given(LENGTHS, CONFIGS)
@settings(max_examples=150, deadline=None)
def test_each_example_once_and_the_budget_is_kept(rows: list[tuple[int, int]], config: Config):
    lengths = np.array(rows)
    found = plan(lengths, config)
    assert sorted(np.concatenate(found).tolist()) == list(range(len(rows)))
    for ids in found:
        for side in lengths[ids].T:
            assert side.max() * len(ids) <= config.tokens or len(ids) == 1
        assert not config.sentences or len(ids) <= config.sentences


@given(LENGTHS, CONFIGS)
@settings(max_examples=100, deadline=None)
def test_no_batch_could_have_taken_the_next_example(rows: list[tuple[int, int]], config: Config):
    lengths = np.array(rows)
    for ids, following in zip(found := plan(lengths, config), found[1:], strict=False):
        both = np.append(ids, following[0])
        full = config.sentences and len(ids) == config.sentences
        assert full or lengths[both].max() * len(both) > config.tokens


def plainly(lengths: np.ndarray, config: Config, order: np.ndarray) -> list[list[int]]:
    """The same, example by example."""
    found: list[list[int]] = []
    widest = 0
    for n in sorted(order.tolist(), key=lambda n: lengths[n][::-1].tolist()):
        wider = max(widest, lengths[n].max())
        full = found and config.sentences and len(found[-1]) == config.sentences
        if not found or full or wider * (len(found[-1]) + 1) > config.tokens:
            found.append([])
            wider = lengths[n].max()
        found[-1].append(n)
        widest = wider
    return found


@given(LENGTHS, CONFIGS, st.integers(0, 9))
@settings(max_examples=150, deadline=None)
def test_a_plan_is_that_of_one_example_after_the_other(
    rows: list[tuple[int, int]], config: Config, seed: int
):
    lengths = np.array(rows)
    order = np.random.default_rng(seed).permutation(len(rows))
    found = plan(lengths, config, order)
    assert [ids.tolist() for ids in found] == plainly(lengths, config, order)
    assert [ids.tolist() for ids in plan(lengths.astype(np.uint8), config, order)] == [
        ids.tolist() for ids in found
    ]


def test_sentences_of_like_length_stand_together():
    lengths = np.array([[9, 1], [1, 1], [8, 1], [2, 1], [9, 9], [1, 9]])
    found = [ids.tolist() for ids in plan(lengths, Config(tokens=18))]
    assert found == [[1, 3], [2, 0], [5, 4]]


def test_an_epoch_is_a_pure_function_of_seed_and_number():
    first, second = batches(), batches()
    for number in (3, 0, 3, 1):
        a, b = first.epoch(number), second.epoch(number)
        assert [ids.tolist() for ids in a] == [ids.tolist() for ids in b]


def orders(stream: Batches, epochs: int) -> list[list[list[int]]]:
    return [[ids.tolist() for ids in stream.epoch(number)] for number in range(epochs)]


def test_epochs_and_seeds_differ():
    by_epoch = orders(batches(count=400), 5)
    assert len({str(order) for order in by_epoch}) == 5
    assert len({str(sorted(map(sorted, order))) for order in by_epoch}) == 5, "other companions"
    assert len({str(orders(batches(seed=seed), 1)) for seed in range(5)}) == 5


@pytest.mark.parametrize("epochs", [1, 3])
def test_walking_meets_every_batch_of_every_epoch(epochs: int):
    stream = batches()
    position, met = Position(), []
    while position.epoch < epochs:
        met.append(list(stream.at(position).ids))
        position = stream.after(position)
    assert position == Position(epochs, 0)
    assert met == [ids for order in orders(batches(), epochs) for ids in order]
    assert sorted(n for ids in met for n in ids) == sorted(list(range(50)) * epochs)


def test_any_place_can_be_gone_to_at_once():
    stream = batches()
    position = Position()
    for _ in range(2 * len(stream.epoch(0)) + 3):
        position = stream.after(position)
    assert batches().at(position).ids == stream.at(position).ids


def test_batches_come_in_no_order_of_length():
    stream: Any = batches(200)
    longest = [int(stream._lengths[ids].max()) for ids in stream.epoch(0)]
    assert longest != sorted(longest)


def test_one_example_is_an_epoch():
    stream = Batches(np.array([[500, 3]]), collate, Config(tokens=10), 1)
    assert stream.at(Position(7, 0)).ids == (0,)
    assert stream.after(Position(7, 0)) == Position(8, 0)
