"""What follows a prompt: read at once, scored without the prompt, the same in any batch."""

import math
from itertools import product
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.data.tokenizers import Config as Kind, Tokenizer
from regard.decoding.continuation import CHUNK, Continuer, read
from regard.decoding.spans import spans
from regard.inspect.intervene import Position, intervene
from regard.model import Config, Model, build
from regard.recipe.parts import Part, module
from regard.search import Hypothesis, beam, greedy, sample
from regard.types import Batch
from tests.field_sizes import texts

A, B, C = range(4, 7)
PAD, START, END, UNKNOWN = Tokenizer.pad, Tokenizer.start, Tokenizer.end, Tokenizer.unknown
FORBIDDEN = (PAD, START, UNKNOWN)
TRANSFORMER: dict[str, Any] = {"layers": 2, "heads": 2, "feedforward": 11, "limit": 600}
DECODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "lstm": ("rnn", {"cell": "lstm", "layers": 2}),
    "gru": ("rnn", {"cell": "gru", "layers": 1}),
    "sinusoidal": ("transformer", TRANSFORMER),
    "learned": ("transformer", TRANSFORMER | {"position": "learned", "norm": "pre"}),
    "rotary": ("transformer", TRANSFORMER | {"position": "rotary"}),
    "none": ("transformer", TRANSFORMER | {"position": "none"}),
}
EACH = pytest.mark.parametrize("name", DECODERS)
TWO = pytest.mark.parametrize("name", ["lstm", "learned"])
SEARCHES: list[tuple[ModuleType, dict[str, Any]]] = [
    (greedy, {}),
    (beam, {"beams": 3, "nbest": 2}),
    (sample, {"samples": 3, "seed": 5}),
]
every_search = pytest.mark.parametrize(("module_", "options"), SEARCHES)


def make(name: str) -> Model:
    """A language model of seven tokens whose distributions have peaks."""
    kind, settings = DECODERS[name]
    decoder = Part(kind, module("decoders", kind).Config(**settings))
    head = Part("vocabulary", module("heads", "vocabulary").Config(bias=True))
    model = build(Config(dim=8, tie="none", decoder=decoder, head=head), texts(7)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.7 * torch.randn_like(parameter))
    return model


def prompts(*lengths: int) -> list[list[int]]:
    """Texts of so many tokens after the first."""
    chance = torch.Generator().manual_seed(3)
    return [[START, *torch.randint(END, 7, (n,), generator=chance).tolist()] for n in lengths]


def ask(
    model: Model, texts: list[list[int]], module_: ModuleType, length: int, **options: Any
) -> list[list[Hypothesis]]:
    window = options.pop("window", None)
    numbers = options.pop("numbers", range(len(texts)))
    kind = module_.__name__.rpartition(".")[2]
    search = Part(kind, module_.Config(**options))
    by = Tokenizer.__new__(Tokenizer)  # all that is asked of it are its special tokens
    by.unwritten = FORBIDDEN
    continuer = Continuer(model, by, START, window, ends=True)
    assert all(text[0] == START for text in texts)
    return continuer.follow([text[1:] for text in texts], numbers, search, length)


def chances(
    model: Model, text: list[int], said: tuple[int, ...], *, minimum: int = 0
) -> list[float]:
    """log p of each token after a text, of those that may stand there, by one pass over all."""
    tokens = torch.tensor([[*text, *said[:-1]]])
    with torch.inference_mode():
        hidden, _ = model.decode(tokens, model.start(Batch(tensors={}, ids=(0,), targets=0)))
        logits = model.head.logits(hidden[0, len(text) - 1 :]).index_fill(
            -1, torch.tensor(FORBIDDEN), -math.inf
        )
        logits[:minimum, END] = -math.inf
        found: list[float] = logits.log_softmax(-1)[range(len(said)), said].tolist()
    return found


def everything(
    model: Model, text: list[int], cap: int, alpha: float, minimum: int
) -> list[tuple[float, tuple[int, ...]]]:
    """All that may follow a text, with Σ log p / nᵅ over what follows alone; best first."""
    found = []
    for length in range(minimum, cap + 1):
        for tokens in product((A, B, C), repeat=length):
            said = (*tokens, END) if length < cap else tokens
            values = chances(model, text, said, minimum=minimum)
            found.append((math.fsum(values) / len(values) ** alpha, tokens))
    return sorted(found, reverse=True)


@TWO
@pytest.mark.parametrize(("alpha", "minimum"), [(0.0, 0), (0.6, 2), (1.0, 0), (2.0, 1)])
def test_a_wide_beam_finds_the_best_continuation(name: str, alpha: float, minimum: int) -> None:
    """Of three texts in one batch; a longer, less likely prompt favours no length."""
    model, texts = make(name), prompts(9, 0, 4)
    settings = {"beams": 90, "nbest": 7, "length_penalty": alpha, "min_length": minimum}
    for text, found in zip(texts, ask(model, texts, beam, 3, **settings), strict=True):
        best = everything(model, text, 3, alpha, minimum)[:7]
        assert [h.tokens for h in found] == [tokens for _, tokens in best]
        assert [h.score for h in found] == pytest.approx([score for score, _ in best], abs=1e-5)


@EACH
def test_texts_of_any_lengths_are_read_as_each_alone(name: str) -> None:
    model, lengths = make(name), (5, 0, CHUNK + 3, 5, 1, 2 * CHUNK)
    texts, after = prompts(*lengths), torch.randint(END, 7, (len(lengths), 4))
    with torch.inference_mode():
        state, singly = read(model, texts), [read(model, [text]) for text in texts]
        for piece in after.split([1, 2, 1], 1):
            hidden, state = model.decode(piece, state)
            for row, tokens in enumerate(piece):
                alone, singly[row] = model.decode(tokens[None], singly[row])
                torch.testing.assert_close(hidden[row], alone[0], atol=1e-5, rtol=1e-5)
        whole = torch.tensor([[*texts[2][:-1], *after[2].tolist()]])
        fresh = model.start(Batch(tensors={}, ids=(0,), targets=0))
        torch.testing.assert_close(
            hidden[2], model.decode(whole, fresh)[0][0, -1:], atol=1e-4, rtol=1e-4
        )


@EACH
def test_joined_rows_are_chosen_and_repeated_like_others(name: str) -> None:
    model, texts = make(name), prompts(3, 7, 0)
    tokens = torch.tensor([[A], [C], [B], [A]])
    with torch.inference_mode():
        wide = read(model, texts).expand(2).select(torch.tensor([1, 0, 2, 2, 5, 4]))
        hidden, _ = model.decode(tokens, wide.keep(torch.tensor([2, 1])))
        for row, n in enumerate((2, 2, 1, 1)):
            alone, _ = model.decode(tokens[row : row + 1], read(model, texts[n : n + 1]))
            torch.testing.assert_close(hidden[row], alone[0], atol=1e-5, rtol=1e-5)


def test_a_position_that_is_changed_is_that_of_every_row() -> None:
    model, texts, tokens = make("learned"), prompts(3, 7), torch.tensor([[A], [C]])
    with torch.inference_mode(), intervene(model, Position("decoder", 3, 0)):
        hidden, _ = model.decode(tokens, read(model, texts))
        for row, text in enumerate(texts):
            alone, _ = model.decode(tokens[row : row + 1], read(model, [text]))
            torch.testing.assert_close(hidden[row], alone[0], atol=1e-5, rtol=1e-5)


@TWO
@every_search
def test_a_continuation_does_not_depend_on_its_batch(
    name: str, module_: ModuleType, options: dict[str, Any]
) -> None:
    """Not within one window of nine tokens, and not over several of them."""
    model, texts, numbers = make(name), prompts(6, 0, 2, 30, 6), (7, 8, 9, 10, 11)
    options = options | {"min_length": 15, "window": 9 if name == "learned" else None}
    together = ask(model, texts, module_, 20, numbers=numbers, **options)
    for n, found in enumerate(together):
        [alone] = ask(model, texts[n : n + 1], module_, 20, numbers=numbers[n : n + 1], **options)
        assert [h.tokens for h in alone] == [h.tokens for h in found]
        for one, other in zip(alone, found, strict=True):
            assert one.log_probs == pytest.approx(other.log_probs, abs=1e-4)
            assert one.score == pytest.approx(other.score, abs=1e-4)


@TWO
@every_search
def test_a_minimum_counts_from_the_end_of_the_prompt(
    name: str, module_: ModuleType, options: dict[str, Any]
) -> None:
    model, texts = make(name), prompts(12, 0, 5)
    with torch.no_grad():
        model.get_parameter("head.bias")[END] = 4.0
    ends = [h for found in ask(model, texts, module_, 12, **options) for h in found]
    assert any(len(h.tokens) < 8 for h in ends)
    for found in ask(model, texts, module_, 12, min_length=8, **options):
        assert all(8 <= len(h.tokens) <= 12 for h in found)


@pytest.mark.parametrize("minimum", [0, 7])
def test_what_was_written_in_windows_before_counts(minimum: int) -> None:
    """Windows of five: two tokens are read again, three are new, all of them are scored."""
    model, texts = make("learned"), prompts(2, 9)
    settings = {"beams": 4, "nbest": 2, "length_penalty": 0.7, "min_length": minimum, "window": 5}
    for found in ask(model, texts, beam, 17, **settings):
        for tokens, score, log_probs, finished in found:
            assert len(log_probs) == len(tokens) + finished
            assert minimum <= len(tokens) <= 17
            assert score == pytest.approx(math.fsum(log_probs) / len(log_probs) ** 0.7, abs=1e-5)


def test_every_sample_goes_on_by_itself() -> None:
    """What the samples are in the first window they are after several of them, too."""
    model, texts = make("learned"), prompts(3, 1)
    options = {"samples": 5, "window": 8, "min_length": 99}
    for text, short, long in zip(
        texts,
        ask(model, texts, sample, 5, **options),
        ask(model, texts, sample, 25, **options),
        strict=True,
    ):
        room = 8 + 1 - len(text[-5:])
        assert room >= 5
        assert sorted(h.tokens[:5] for h in long) == sorted(h.tokens for h in short)
        assert all(len(h.tokens) == 25 for h in long)
        assert len({h.tokens[5:] for h in long}) == 5
        assert [h.score for h in long] == sorted((h.score for h in long), reverse=True)


@TWO
def test_a_prompt_is_read_in_a_few_passes(name: str) -> None:
    model = make(name)
    passes, decode = [], model.decode

    def counted(tokens: Tensor, state: Any) -> Any:
        passes.append(tuple(tokens.shape))
        return decode(tokens, state)

    model.decode = counted  # type: ignore[method-assign]
    texts = prompts(2 * CHUNK + 1, 1, 2 * CHUNK + 1, 0)
    ask(model, texts, greedy, 3, min_length=3)
    assert passes == [(3, 1), (2, CHUNK), (2, CHUNK), (4, 1), (4, 1), (4, 1)]


SAID = ["the cat sees the dog . 👩‍👩‍👧‍👦 Straße 東京\nnaïve", "a  b\n\n c", "\ufffd x", ""]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "bytes", "word", "character"])
@pytest.mark.parametrize("documents", [False, True])
def test_what_tokens_add_is_the_text(kind: Any, documents: bool) -> None:
    """Also where a character is written in several tokens, or in part."""
    by = Tokenizer.train(Kind(kind=kind, vocabulary=300), ["the cat sees the dog . Straße 東京"])
    model: Any = None  # nothing is asked of it
    continuer = Continuer(model, by, START, None, ends=True, documents=documents)
    chance = torch.Generator().manual_seed(2)
    drawn = torch.randint(UNKNOWN, len(by), (40, 30), generator=chance).tolist()
    whole = [*map(continuer.tokens, SAID), *drawn]
    for tokens in whole:
        for cut in range(0, len(tokens) + 1, 3):
            prompt, written = tokens[:cut], tokens[cut:]
            if continuer.decode(prompt).endswith("\ufffd"):
                continue  # no prompt ends within a character
            added = spans(continuer.decode, [] if continuer.fresh else prompt, written)
            assert len(added) == len(written)
            assert "".join(added) == continuer.text(prompt, written)
