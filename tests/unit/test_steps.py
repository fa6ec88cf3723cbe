"""A search step by step: its news, and sentences that come into a running batch."""

from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.data.tokenizers import Tokenizer
from regard.decoding.choices import Choices
from regard.decoding.continuation import read
from regard.model import Model
from regard.search import Hypothesis, News, Request, Steps, beam, drain, greedy, sample
from regard.types import DecoderState
from tests.unit.test_continuation import FORBIDDEN, make, prompts
from tests.unit.test_search import (
    END,
    SEARCHES,
    START,
    A,
    B,
    C,
    Chain,
    State,
    ask,
    every_search,
    markov,
    random_tables,
    run,
)


class Joining(State):
    """A table's state that can be joined."""

    def join(self, others: Any) -> State:
        states = [self, *others]
        tables = torch.cat([state.table for state in states])
        return Joining(tables, torch.cat([state.last for state in states]))

    def keep(self, sentences: Tensor) -> State:
        kept = super().keep(sentences)
        return Joining(kept.table, kept.last)


def fresh(table: Tensor) -> Joining:
    return Joining(table, torch.full((len(table),), START))


def begun(module: ModuleType, table: Tensor, request: Request, **options: Any) -> Steps:
    steps: Steps = module.steps(Chain(), fresh(table), request, module.Config(**options))
    return steps


@pytest.fixture(autouse=True)
def inference() -> Iterator[None]:
    with torch.inference_mode():
        yield


CAPS, PREFIXES = [6, 0, 3, 8, 8], ((), (), (A,), (B, C), ())


@every_search
def test_the_news_of_all_steps_is_what_the_search_gives(
    module: ModuleType, options: dict[str, Any]
) -> None:
    table, request = random_tables(5), ask(CAPS, prefixes=PREFIXES)
    expected = run(module, table, request, **options)
    finished: dict[int, list[Hypothesis]] = {}
    for news in begun(module, table, request, **options):
        new = news.finished
        assert not new.keys() & finished.keys(), "a sentence ends once"
        assert set(new) <= {1, *(sentence.number for sentence in news.sentences)}, (
            "the second has no place for a token"
        )
        finished |= new
    assert [finished[n] for n in range(5)] == expected
    assert drain(begun(module, table, request, **options)) == expected


def test_greedy_tokens_come_one_by_one() -> None:
    table, texts = random_tables(4), dict[int, list[int]]()
    for news in begun(greedy, table, ask([7] * 4)):
        for sentence in news.sentences:
            number, (token,) = sentence.number, sentence.tokens
            texts.setdefault(number, []).append(token)
            best = news.best()[number]
            assert (*best.tokens, *[END] * best.finished) == tuple(texts[number])
    for number, (found,) in enumerate(run(greedy, table, ask([7] * 4))):
        assert tuple(texts[number]) == (*found.tokens, *[END] * found.finished)


def test_the_best_of_a_beam_so_far() -> None:
    """By hand: B leads with 0.6, but what follows it has 0.36 at most, A A and A A A have 0.4."""
    table = markov({START: {A: 0.4, B: 0.6}, A: {A: 1.0}, B: {C: 0.6, A: 0.4}, C: {END: 1.0}})
    found = [news.best()[0] for news in begun(beam, table, ask([3]), beams=2)]
    assert [(h.tokens, h.finished) for h in found] == [
        ((B,), False),
        ((A, A), False),
        ((A,) * 3, False),
    ]
    assert [h.score for h in found] == pytest.approx(
        [torch.tensor(p).log().item() / n for p, n in ((0.6, 1), (0.4, 2), (0.4, 3))]
    )


def search_in_pieces(
    steps: Steps, arrivals: dict[int, tuple[DecoderState, Request]]
) -> tuple[list[list[Hypothesis]], list[News]]:
    """Let sentences come after certain steps; also long after all others are done."""
    seen: list[News] = []
    try:
        news = next(steps)
        while True:
            seen.append(news)
            news = steps.send(arrivals.get(len(seen)))
    except StopIteration as stop:
        found: list[list[Hypothesis]] = stop.value
        return found, seen


@every_search
@pytest.mark.parametrize("prefix", [False, True])
def test_a_sentence_that_comes_later_gives_what_it_gives_alone(
    module: ModuleType, options: dict[str, Any], prefix: bool
) -> None:
    """Two at first, two after the first step, of which one has no place, one after the third."""
    table, caps, numbers = random_tables(5), [7, 4, 0, 5, 7], (30, 31, 32, 33, 34)
    prefixes = ((A, B), (B,), (), (C, C, A), ()) if prefix else ((),) * 5
    options = options | {"min_length": 2}

    def part(some: list[int]) -> Request:
        return ask(
            [caps[n] for n in some],
            prefixes=tuple(prefixes[n] for n in some),
            numbers=tuple(numbers[n] for n in some),
        )

    groups = ([0, 1], [2, 3], [4])
    (_, first), *later = ((fresh(table[some]), part(some)) for some in groups)
    steps = begun(module, table[:2], first, **options)
    found, seen = search_in_pieces(steps, {1: later[0], 3: later[1]})
    for n, hypotheses in enumerate(found):
        assert [hypotheses] == run(module, table[n : n + 1], part([n]), **options)
    assert [n for news in seen for n in sorted(news.finished)] == sorted(
        range(5), key=lambda n: next(t for t, news in enumerate(seen) if n in news.finished)
    )


@every_search
def test_choices_hold_for_those_who_come_later(module: ModuleType, options: dict[str, Any]) -> None:
    choices = Choices([(A, B), (A, C, C), (B,)], END, 6)
    table, request = random_tables(2), replace(ask([5]), choices=choices)
    steps = begun(module, table[:1], request, **options)
    found, _ = search_in_pieces(steps, {1: (fresh(table[1:]), request)})
    for n, hypotheses in enumerate(found):
        assert [hypotheses] == run(module, table[n : n + 1], request, **options)


@pytest.mark.parametrize("module", [greedy, beam])
def test_steps_after_the_end_of_a_sentence_are_not_its_own(module: ModuleType) -> None:
    """The first goes on alone after the second has ended, until a third comes."""
    ending = markov({START: {B: 1.0}, B: {END: 1.0}})
    table = torch.cat([markov({START: {A: 1.0}, A: {A: 1.0}}), ending])
    steps = begun(module, table, ask([7, 7]))
    found, _ = search_in_pieces(steps, {5: (fresh(ending), ask([7]))})
    assert [h.tokens for h, *_ in found] == [(A,) * 7, (B,), (B,)]
    assert [len(hypotheses) for hypotheses in found] == [1, 1, 1]


def test_who_comes_must_want_the_same_symbols() -> None:
    steps = begun(greedy, random_tables(1), ask([9]))
    next(steps)
    with pytest.raises(ValueError, match="same end and choices"):
        steps.send((fresh(random_tables(1)), replace(ask([9]), end=A)))


@pytest.mark.parametrize("module", [greedy, beam])
def test_a_search_may_go_on_for_ever(module: ModuleType) -> None:
    """A new sentence after every second step: what is done is forgotten, step by step."""
    table = markov({START: {A: 1.0}, A: {B: 1.0}, B: {C: 1.0}, C: {END: 1.0}})
    steps = begun(module, table, ask([9]))
    done, news = dict[int, list[Hypothesis]](), next(steps)
    for step in range(60):
        done |= news.finished
        news = steps.send((fresh(table), ask([9])) if step % 2 else None)
        assert len(news.sentences) <= 4 and all(s.age <= 4 for s in news.sentences)
    assert len(done) >= 25
    assert all(h.tokens == (A, B, C) for found in done.values() for h in found)


DECODERS = ["lstm", "gru", "sinusoidal", "learned", "rotary", "none"]


def asking(text: list[int], cap: int, number: int) -> Request:
    return Request(
        text[-1], Tokenizer.end, [cap], forbidden=FORBIDDEN, numbers=(number,), written=[()]
    )


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize(("module", "options"), SEARCHES)
def test_a_prompt_joins_a_running_batch(
    name: str, module: ModuleType, options: dict[str, Any]
) -> None:
    """Of any decoder; texts of unlike lengths come at unlike times."""
    model, texts = make(name), prompts(5, 0, 9)
    config = module.Config(min_length=6, **options)

    def arrival(n: int) -> tuple[DecoderState, Request]:
        return read(model, [texts[n]]), asking(texts[n], 12, n)

    steps = module.steps(model.step, *arrival(0), config)
    found, _ = search_in_pieces(steps, {2: arrival(1), 5: arrival(2)})
    for n, hypotheses in enumerate(found):
        ((*alone,),) = module.search(model.step, *arrival(n), config)
        assert [h.tokens for h in hypotheses] == [h.tokens for h in alone]
        for one, other in zip(hypotheses, alone, strict=True):
            assert one.log_probs == pytest.approx(other.log_probs, abs=1e-4)


def following(model: Model, state: DecoderState, tokens: Tensor) -> Tensor:
    """The hidden vector after each of these tokens, read one by one."""
    found = []
    for token in tokens.split(1, 1):
        hidden, state = model.decode(token, state)
        found.append(hidden)
    return torch.cat(found, 1)


@pytest.mark.parametrize("name", DECODERS)
def test_two_ways_from_one_state_do_not_disturb_each_other(name: str) -> None:
    """Both write where the state has free places: the second must find others."""
    model, texts = make(name), prompts(4, 4)
    tokens = torch.randint(Tokenizer.end, 7, (2, 2, 3))
    _, state = model.decode(tokens[0, :, :1], read(model, texts))
    first, here = model.decode(tokens[0, :, 1:2], state)
    second, there = model.decode(tokens[1, :, 1:2], state)
    ahead, _ = model.decode(tokens[0, :, 2:], here)
    torch.testing.assert_close(first, following(model, state, tokens[0, :, 1:])[:, :1])
    torch.testing.assert_close(ahead, following(model, state, tokens[0, :, 1:])[:, 1:])
    torch.testing.assert_close(
        model.decode(tokens[1, :, 2:], there)[0], following(model, state, tokens[1, :, 1:])[:, 1:]
    )
    torch.testing.assert_close(second, following(model, state, tokens[1, :, 1:])[:, :1])


def test_sampling_wants_the_numbers_of_those_who_come() -> None:
    with pytest.raises(ValueError, match="numbers"):
        begun(sample, random_tables(1), ask([3], numbers=None))
