"""One word in several sentences: its occurrences are found, and alike where they must be."""

from typing import Any

import pytest
import torch

from regard.errors import UserError
from regard.inspect.blocks import Blocks
from regard.inspect.reading import Reading, likely
from regard.inspect.senses import senses
from regard.types import Batch
from tests.unit.test_inspect import make

WORDS = ["<end>", "the", "bank", "of", "river", "lends", "money", "▁trans", "formers", "hum"]


def reading(*pieces: str, decoder: bool = False) -> Reading:
    """A text of such tokens as an encoder reads it, or as a decoder says it."""
    numbers = [WORDS.index(piece) for piece in pieces]
    groups = [(n, n + 1 + (pieces[n] == "▁trans")) for n in range(len(pieces))]
    groups = [group for group in groups if pieces[group[0]] != "formers"]
    named: dict[str, Any] = {"text": "", "output": "", "symbols": [], "name": list, "said": []}
    if decoder:
        tokens = torch.tensor([[0, *numbers[:-1]]])
        named |= {"said": [*pieces], "said_words": groups, "read": ["<start>", *pieces[:-1]]}
        named |= {"source": [], "symbols": numbers}
        batch = Batch(tensors={"target_in": tokens}, ids=(0,), targets=len(numbers))
    else:
        tokens = torch.tensor([numbers])
        batch = Batch(
            tensors={"source": tokens, "source_mask": torch.ones_like(tokens, dtype=torch.bool)},
            ids=(0,),
            targets=1,
        )
        named |= {"source": [*pieces], "source_words": groups}
    measure = likely if decoder else (lambda scores: scores[:, None])
    return Reading(batch=batch, measure=measure, **named)


def view(model: Any, *readings: Reading, word: str) -> tuple[dict[str, Any], dict[str, Any]]:
    blocks = Blocks()
    found = senses(model, readings, word, blocks)
    alike = {each["layer"]: blocks.array(each["similarity"]) for each in found["layers"]}
    return found, alike


def test_occurrences_begin_alike_and_part_where_what_stands_around_them_differs():
    model = make("classifier", position="none")
    same = reading("the", "bank", "of", "the", "river", "<end>")
    other = reading("the", "bank", "lends", "money", "<end>")
    found, alike = view(model, same, same, other, word="Bank")
    assert [each["text"] for each in found["occurrences"]] == [0, 1, 2]
    assert found["occurrences"][2]["context"] == "the [bank] lends money"
    assert list(alike) == ["input", "layer 1", "layer 2"]
    assert alike["input"] == pytest.approx(1.0, abs=1e-5)  # one word, one vector
    assert alike["layer 2"][0, 1] == pytest.approx(1.0, abs=1e-5)  # one sentence, one vector
    assert alike["layer 2"][0, 2] < 0.9999
    assert len(found["layers"][0]["points"]) == 3


def test_a_word_of_two_tokens_has_their_mean():
    model = make("classifier", position="none")
    one = reading("▁trans", "formers", "hum", "<end>")
    _, alike = view(model, one, one, word="transformers")
    assert alike["layer 1"][0, 1] == pytest.approx(1.0, abs=1e-5)


def test_a_decoder_knows_only_what_stands_before():
    model = make("causal")
    first = reading("the", "bank", "of", "river", decoder=True)
    second = reading("the", "bank", "lends", "money", decoder=True)
    third = reading("money", "bank", "lends", "money", decoder=True)
    _, alike = view(model, first, second, third, word="bank")
    assert alike["layer 2"][0, 1] == pytest.approx(1.0, abs=1e-5)
    assert alike["layer 2"][0, 2] < 0.9999


def test_a_word_that_stands_once_or_not_at_all_is_refused():
    model = make("classifier")
    text = reading("the", "bank", "of", "the", "river", "<end>")
    with pytest.raises(UserError, match="--word bank: it stands once"):
        view(model, text, word="bank")
    with pytest.raises(UserError, match="--word cloud: it stands nowhere"):
        view(model, text, word="cloud")
