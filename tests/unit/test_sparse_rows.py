"""Adam of the rows that a batch has seen: the same numbers where it can be, none elsewhere."""

import math
from typing import Any

import pytest
import torch
from torch import nn

from regard.errors import RecipeError
from regard.inputs import ngrams
from regard.layers.embedding import Embedding
from regard.train import job, optimizer, rows, schedule
from regard.train.group import Group
from regard.types import Batch, FieldSize


def steps(which, gradients, **options):
    """A table of 3 rows after Adam with these gradients, some of which are of some rows."""
    table = nn.Parameter(torch.ones(3, 2))
    made = optimizer.make(optimizer.Config(rows=which, **options), [table])
    for gradient in gradients:
        table.grad = gradient
        made.step()
    return table.detach(), made.state[table]


def some(which, values):
    found = torch.tensor([which]), torch.tensor(values)
    return torch.sparse_coo_tensor(*found, (3, 2), check_invariants=True).coalesce()


@pytest.mark.parametrize("kind", ["adam", "adamw"])
@pytest.mark.parametrize("beta1", [0.0, 0.9])
def test_where_all_rows_are_seen_it_is_adam(kind, beta1):
    torch.manual_seed(1)
    dense = [torch.randn(3, 2) for _ in range(4)]
    sparse = [some([0, 1, 2], g.tolist()) for g in dense]
    options = {"kind": kind, "beta1": beta1, "weight_decay": 0.1, "learning_rate": 0.1}
    one, state = steps("all", dense, **options)
    other, mine = steps("seen", sparse, **options)
    torch.testing.assert_close(other, one)
    assert mine.keys() == state.keys()  # so that a checkpoint has the same names
    torch.testing.assert_close(mine["exp_avg_sq"], state["exp_avg_sq"])


def test_rows_that_are_not_seen_stay():
    """First step of row 1: g / √g² · η = 0.1 for any g, whatever its size."""
    table, state = steps(
        "seen", [some([1], [[4.0, -0.01]])], beta1=0.0, learning_rate=0.1, epsilon=1e-12
    )
    assert table[0].tolist() == table[2].tolist() == [1, 1]
    assert table[1].tolist() == pytest.approx([0.9, 1.1], abs=1e-6)
    assert state["exp_avg_sq"][0].tolist() == [0, 0]


def test_a_row_that_comes_later_is_corrected_by_the_number_of_updates():
    """Row 2 at update 2 with β₂ = 0.5: v = ½ g², v̂ = v / (1 − ¼): the step is η √(¾ / ½)."""
    table, _ = steps(
        "seen", [some([0], [[1.0, 1.0]]), some([2], [[3.0, 3.0]])],
        beta1=0.0, beta2=0.5, learning_rate=0.1,
    )  # fmt: skip
    assert table[2, 0].item() == pytest.approx(1 - 0.1 * math.sqrt(0.75 / 0.5))


@pytest.mark.parametrize("size", [7, 7000])
def test_each_row_stands_once(size):
    """Row 5 was looked up twice: its sums are 1 + 3 and 2 + 4. By marks, and by sorting."""
    values = torch.tensor([[1.0, 2.0], [10.0, 20.0], [3.0, 4.0]])
    found = torch.sparse_coo_tensor(
        torch.tensor([[5, 2, 5]]), values, (size, 2), check_invariants=True
    )
    once = rows.coalesced(found)
    assert once.is_coalesced()
    assert once._indices().tolist() == [[2, 5]]
    assert once._values().tolist() == [[10, 20], [4, 6]]


def test_gradients_of_lookups_are_the_same():
    """Sparse or not: of the embedding and of the buckets of n-grams."""
    size = FieldSize(name="source", numbers={"tokens": 11})
    model = ngrams.Input(ngrams.Config(n=3, bits=5), size, 4, shared=None, scale=False)
    source = torch.randint(0, 11, (2, 7))
    mask = torch.ones(2, 7, dtype=torch.bool)
    batch = Batch(tensors={"source": source, "source_mask": mask}, ids=(0, 1), targets=2)
    weights = torch.randn(2, 7, 4)
    found: list[list[Any]] = []
    for sparse in (False, True):
        model.sparse = model.embedding.sparse = sparse
        model.zero_grad()
        (model(batch).states * weights).sum().backward()
        found.append([model.embedding.weight.grad, model.table.grad])
    assert all(gradient.is_sparse for gradient in found[1])
    for dense, sparse in zip(*found, strict=True):
        torch.testing.assert_close(sparse.to_dense(), dense)


def test_it_is_for_one_process_on_a_processor():
    class Two(Group):
        size = 2

    def settings(device: str) -> job.Config:
        return job.Config(device=device, optimizer=optimizer.Config(), schedule=schedule.Config())

    model = Embedding(5, 3)
    for device, group in (("cpu", Two()), ("mps", Group())):
        with pytest.raises(RecipeError, match="'seen' is for one process on a processor"):
            job._look_up(model, settings(device), group)
    assert not model.sparse
    job._look_up(model, settings("cpu"), Group())
    assert model.sparse
