"""Tokens that are left out of what is read, in training alone."""

import torch

from regard.inputs import tokens
from regard.types import Batch
from tests.field_sizes import labelled


def reader(share: float) -> tokens.Input:
    torch.manual_seed(1)
    size = labelled(11, 2).of("source")
    return tokens.Input(tokens.Config(word_dropout=share), size, 5, shared=None, scale=False)


def batch() -> Batch:
    source = torch.randint(4, 11, (40, 50), generator=torch.Generator().manual_seed(1))
    tensors = {"source": source, "source_mask": torch.ones_like(source, dtype=torch.bool)}
    return Batch(tensors=tensors, ids=tuple(range(40)), targets=40)


def test_a_fraction_of_the_tokens_has_no_vector_and_the_others_are_as_they_were():
    reads, whole = reader(0.3), reader(0.0)(batch()).states
    found = reads.train()(batch()).states
    gone = (found == 0).all(-1)
    assert abs(gone.double().mean().item() - 0.3) < 0.05  # 2,000 draws: five deviations
    torch.testing.assert_close(found[~gone], whole[~gone])


def test_nothing_is_left_out_in_prediction():
    reads = reader(0.3).eval()
    torch.testing.assert_close(reads(batch()).states, reader(0.0)(batch()).states)
