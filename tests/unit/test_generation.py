"""What a language model writes: penalties, what is left out, strings that end it, pieces, words.

The model is a table, so that all probabilities are known: p of a token by the one before it."""

import math
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.data import tokenizers
from regard.data.tokenizers import Tokenizer
from regard.decoding.continuation import Continuer
from regard.decoding.next_words import next_words
from regard.decoding.stopping import Stops
from regard.errors import RecipeError
from regard.model import Model
from regard.recipe.parts import Part
from regard.search import Request, beam, greedy, sample
from tests.unit.test_search import START, A, B, C, ask, markov, run


@dataclass(frozen=True)
class State:
    """Of a model that remembers nothing but the last token, which is given to it."""

    rows: int

    def select(self, rows: Tensor) -> "State":
        return State(len(rows))

    def keep(self, sentences: Tensor) -> "State":
        return State(len(sentences))

    def expand(self, beams: int) -> "State":
        return State(self.rows * beams)

    def join(self, others: Any) -> "State":
        return State(self.rows + sum(each.rows for each in others))

    def detach(self) -> "State":
        return self


class Table(Model):
    """A language model: logits[last token]."""

    device = torch.device("cpu")

    def __init__(self, by: Tokenizer, following: dict[str, dict[str, float]]) -> None:
        """p of what follows each token; "" is the end, which also stands before a text. What is
        not said ends."""
        nn.Module.__init__(self)
        self.logits = torch.full((len(by), len(by)), -math.inf)
        self.logits[:, by.end] = 0.0
        for before, chances in following.items():
            row = self.logits[number(by, before)]
            row.fill_(-math.inf)
            for after, chance in chances.items():
                row[number(by, after)] = math.log(chance)

    def start(self, batch: Any) -> State:
        return State(len(batch))

    def decode(self, tokens: Tensor, state: Any) -> tuple[Tensor, State]:
        return self.logits[tokens], state

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, State]:
        return self.logits[tokens[:, -1]].clone(), state


def number(by: Tokenizer, text: str) -> int:
    if not text:
        return by.end
    [token] = by.encode([text])[0]
    return token


def characters(*texts: str) -> Tokenizer:
    return Tokenizer.train(tokenizers.Config(kind="character"), texts)


def continuer(
    following: dict[str, dict[str, float]], by: Tokenizer | None = None, **options: Any
) -> Continuer:
    by = by or characters("".join({*following, *(c for row in following.values() for c in row)}))
    model = Table(by, following)
    settings = {"window": None, "ends": True, "documents": True, **options}
    return Continuer(model, by, by.end, **settings)


def part(module_: Any, **options: Any) -> Part:
    return Part(module_.__name__.rpartition(".")[2], module_.Config(**options))


# What is drawn from


def log_probs(*chances: float) -> Tensor:
    return torch.tensor(chances).log()[None, None]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"min_p": 0.4}, [0.5, 0.25, 0, 0]),
        ({"min_p": 0.29}, [0.5, 0.25, 0.15, 0]),
        ({"min_p": 0.19}, [0.5, 0.25, 0.15, 0.1]),
        # Squares: 0.25, 0.0625, 0.0225, 0.01; the second is a quarter of the first.
        ({"min_p": 0.24, "temperature": 0.5}, [25 / 34.5, 6.25 / 34.5, 0, 0]),
        ({"min_p": 0.26, "temperature": 0.5}, [25 / 34.5, 0, 0, 0]),
        # What top_k leaves is asked for min_p, too.
        ({"min_p": 0.4, "top_k": 3}, [0.5, 0.25, 0, 0]),
        ({"min_p": 0.1, "top_k": 2}, [0.5, 0.25, 0, 0]),
    ],
)
def test_min_p_is_a_fraction_of_the_most_probable(options: dict[str, Any], wanted: list[float]):
    found = sample.distribution(log_probs(0.5, 0.25, 0.15, 0.1), sample.Config(**options))
    assert found[0, 0].tolist() == pytest.approx(wanted)


TWO = markov({START: {A: 0.5, B: 0.3, C: 0.2}, A: {A: 0.6, B: 0.4}, B: {A: 0.5, C: 0.5}})


def test_a_penalty_makes_what_was_written_less_probable():
    """After A, A again has 0.6² = 0.36 < 0.4: B; after B, both A and C are 0.5, and A was there."""
    [[plain]] = run(greedy, TWO, ask([3]))
    [[found]] = run(greedy, TWO, ask([3]), repetition_penalty=2.0)
    assert plain.tokens == (A, A, A)
    assert found.tokens == (A, B, C)
    assert found.log_probs == pytest.approx([math.log(p) for p in (0.5, 0.4, 0.5)])


def test_a_penalty_counts_the_prompt():
    """A first A has 0.5² = 0.25 where the prompt has it: less than B."""
    [[found]] = run(greedy, TWO, ask([1], context=[[A]]), repetition_penalty=2.0)
    assert found.tokens == (B,)


def test_a_penalty_holds_for_samples_each_by_itself():
    """With a penalty without limit nothing is written twice, in any of the samples."""
    [found] = run(sample, TWO, ask([3]), repetition_penalty=1e3, samples=20)
    assert {each.tokens[:2] for each in found} <= {(A, B), (B, A), (B, C), (C,), (B,)}
    assert len({each.tokens for each in found}) > 1


def test_a_penalty_that_is_none_is_refused():
    with pytest.raises(RecipeError, match="repetition_penalty"):
        greedy.Config(repetition_penalty=0.0)
    with pytest.raises(RecipeError, match="min_p"):
        sample.Config(min_p=1.0)


# Strings that end an output

ABC = {"a": {"b": 1.0}, "b": {"c": 1.0}, "c": {"a": 1.0}}


@pytest.mark.parametrize(
    ("stop", "text"),
    [
        (["c"], "b"),
        (["ca"], "b"),
        (["bc"], ""),
        (["cab"], "b"),
        (["x"], "bcabcabc"),
        (["ab", "bca"], ""),
        (["abcab"], "bc"),
    ],
)
@pytest.mark.parametrize("window", [None, 4])
def test_an_output_ends_before_the_string(stop: list[str], text: str, window: int | None):
    """After “a” follows bcabcabc…; a string that begins in the prompt does not count."""
    found = continuer(ABC | {"x": {"": 1.0}}, window=window)
    [made] = found.predict(["a"], part(greedy), 8, 4, 0, stop)
    assert made.text == text
    assert "".join(made.tokens) == text
    assert len(made.log_probs) == len(made.tokens)
    assert made.status == ("capped" if stop == ["x"] else "ok")


def test_the_end_of_a_text_is_its_end_with_strings_too():
    found = continuer({"a": {"b": 1.0}, "b": {"": 1.0}})
    [made] = found.predict(["a"], part(greedy), 8, 4, 0, ["zz"])
    assert (made.text, made.tokens, made.status) == ("b", ["b", "<end>"], "ok")


def test_a_string_may_lie_across_tokens():
    by = Tokenizer.train(
        tokenizers.Config(kind="bpe", vocabulary=270), ["now stop right there"] * 9
    )
    text = "now stop right there"
    tokens = by.encode([text])[0]
    stops = Stops(("p ri",), by.decode)
    assert len(tokens) < len(text)
    over = [stops.over([], tokens[:n]) for n in range(1, len(tokens) + 1)]
    first = over.index(True)
    assert "p ri" in by.decode(tokens[: first + 1])
    assert "p ri" not in by.decode(tokens[:first])
    assert stops.cut(text) == "now sto"


def test_a_string_with_the_blank_before_a_first_word():
    by = Tokenizer.train(tokenizers.Config(kind="bpe", vocabulary=262), ["a b"])
    prompt, said = by.encode(["a"])[0], by.encode(["b"])[0]  # " b" after another word
    assert Stops((" b",), by.decode).over(prompt, said)


def test_what_may_begin_a_string_is_held_back():
    stops = Stops(("\n\n", "END"), str)
    assert [stops.settled(text) for text in ("ab", "abE", "abEN", "abEX", "ab\n", "ab\nc")] == [
        "ab", "ab", "ab", "abEX", "ab", "ab\nc",
    ]  # fmt: skip
    assert stops.settled("ab\ufffd") == "ab"
    assert stops.settled("abENDcd") == "ab"


def test_beams_have_no_strings_and_no_pieces():
    found = continuer(ABC)
    with pytest.raises(RecipeError, match="stop: beam search"):
        found.predict(["a"], part(beam), 8, 4, 0, ["c"])
    with pytest.raises(RecipeError, match="stream: beam search"):
        next(found.pieces("a", part(beam), 8))
    with pytest.raises(RecipeError, match="empty"):
        found.predict(["a"], part(greedy), 8, 4, 0, [""])


# Pieces

RANDOM = {
    a: {b: 1.0 + (3 * n + m) % 5 for m, b in enumerate("abcdé€ ")} for n, a in enumerate("abcdé€ ")
} | {"": {"a": 1.0}}


@pytest.mark.parametrize("window", [None, 6])
@pytest.mark.parametrize("stop", [[], ["ab", "d "]])
def test_pieces_together_are_the_prediction(window: int | None, stop: list[str]):
    found = continuer(RANDOM, window=window)
    for seed in range(5):
        search = part(sample, seed=seed)
        [made] = found.predict(["ab"], search, 30, 4, 0, stop)
        pieces = [*found.pieces("ab", search, 30, stop)]
        assert "".join(pieces) == made.text
        if not stop:
            assert len(pieces) > 20


def test_pieces_are_whole_characters():
    """Bytes come one by one; é has two of them, € three."""
    by = Tokenizer.train(tokenizers.Config(kind="bytes"), [])
    bytes_ = [*"é€a".encode()]
    tokens = by.encode(["é€a"])[0]
    assert len(tokens) == len(bytes_)
    model = Table(by, {})
    for before, after in zip([by.end, *tokens], [*tokens, by.end], strict=True):
        model.logits[before] = -math.inf
        model.logits[before, after] = 0.0
    found = Continuer(model, by, by.end, None, True, True)
    assert [*filter(None, found.pieces("", part(greedy), 20))] == ["é", "€", "a"]


def test_pieces_come_one_by_one_and_leave_no_mode_behind():
    pieces = continuer(ABC).pieces("a", part(greedy), 10**6)
    assert [next(pieces) for _ in range(5)] == ["b", "c", "a", "b", "c"]
    assert not torch.is_inference_mode_enabled()


# Words

WORDS = {
    "I": {" ": 0.8, "t": 0.2},
    " ": {"a": 0.6, "b": 0.25, ".": 0.15},
    "a": {"b": 0.4, " ": 0.35, ".": 0.25},
    "b": {" ": 0.5, "": 0.5},
    ".": {"": 1.0},
    "t": {"": 1.0},
}


def test_words_by_hand():
    """“It” is no word that follows “I”: what is left has 0.8, of which each has its part."""
    found = continuer(WORDS)
    words = next_words(found, "I", 10)
    assert {word.text: word.probability for word in words} == pytest.approx(
        {"a": 0.6 * 0.6, "b": 0.25, "ab": 0.6 * 0.4, ".": 0.15}
    )
    assert words == next_words(found, "I ", 10)
    assert [word.text for word in next_words(found, "I", 3)] == ["a", "b", "ab"]


def test_after_a_mark_a_word_needs_no_blank():
    found = continuer({".": {"a": 0.7, "": 0.2, ".": 0.1}, "a": {" ": 1.0}, " ": {"a": 1.0}})
    words = next_words(found, ".", 9)
    assert dict(words) == pytest.approx({"a": 0.7, "<end>": 0.2, ".": 0.1})


def test_words_of_whole_words():
    by = Tokenizer.train(tokenizers.Config(kind="word"), ["we climb and run"])
    found = continuer({"we": {"climb": 0.7, "run": 0.2, "": 0.1}, "climb": {"and": 1.0}}, by)
    assert dict(next_words(found, "we", 9)) == pytest.approx(
        {"climb": 0.7, "run": 0.2, "<end>": 0.1}
    )


def test_the_best_words_are_those_of_all_that_can_be_spelt():
    """Every spelling of up to five letters, added up, against the search."""
    following = {
        "x": {"x": 0.23, "y": 0.49, " ": 0.28},
        "y": {"x": 0.31, "y": 0.36, " ": 0.33},
        " ": {"x": 0.45, "y": 0.55},
    }
    found = continuer(following)
    chances: dict[str, float] = {}

    def spell(word: str, chance: float) -> None:
        for letter, p in following[word[-1:] or " "].items():
            if letter == " ":
                chances[word] = chance * p
            elif len(word) < 8:
                spell(word + letter, chance * p)

    spell("", 1.0)
    best = sorted(chances.items(), key=lambda each: -each[1])[:6]
    assert [tuple(word) for word in next_words(found, "x ", 6)] == [
        (text, pytest.approx(chance)) for text, chance in best
    ]


def test_a_request_has_a_context_for_each():
    with pytest.raises(ValueError, match="2 caps, but 1 context"):
        Request(START, 2, [3, 3], context=[[A]])
