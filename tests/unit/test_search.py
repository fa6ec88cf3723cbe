"""Greedy search, beam search and sampling over tables small enough to enumerate."""

from dataclasses import dataclass, field, replace
from itertools import product
from math import exp, inf, log
from types import ModuleType
from typing import Any

import pytest
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.errors import RecipeError, UserError
from regard.search import Hypothesis, Request, beam, greedy, sample

PAD, START, END, A, B, C = range(6)
FORBIDDEN = (PAD, START)


@dataclass(frozen=True)
class State:
    """Remembers one token of each hypothesis, and each sentence's table (its memory)."""

    table: Float[Tensor, "B V V V"]
    last: Int[Tensor, "R"]

    @property
    def width(self) -> int:
        return len(self.last) // len(self.table)

    def select(self, rows: Int[Tensor, "R2"]) -> "State":
        own = torch.arange(len(self.last)) // self.width
        assert torch.equal(own[rows], own), "a hypothesis crossed over to another sentence"
        return replace(self, last=self.last[rows])

    def keep(self, sentences: Int[Tensor, "B2"]) -> "State":
        last = self.last.view(len(self.table), -1)[sentences].flatten()
        return State(self.table[sentences], last)

    def expand(self, beams: int) -> "State":
        return replace(self, last=self.last.repeat_interleave(beams))

    def join(self, others: Any) -> "State":
        raise AssertionError("no search joins states")

    def detach(self) -> "State":
        return self


@dataclass
class Chain:
    """Step of a Markov chain of order two: logits = table[sentence, yₜ₋₂, yₜ₋₁]."""

    rows: list[int] = field(default_factory=list)
    """How many rows each call had."""

    def __call__(
        self, tokens: Int[Tensor, "R T"], state: Any
    ) -> tuple[Float[Tensor, "R V"], State]:
        assert tokens.shape == (len(state.last), 1)
        self.rows.append(len(tokens))
        sentence = torch.arange(len(tokens)) // state.width
        logits = state.table[sentence, state.last, tokens[:, 0]]
        return logits, replace(state, last=tokens[:, 0])


def markov(following: dict[int, dict[int, float]]) -> Float[Tensor, "1 V V V"]:
    """A table of order one, written as probabilities by hand."""
    table = torch.full((6, 6), -inf)
    table[:, END] = 0.0  # what is never reached still has to be a distribution
    for symbol, chances in following.items():
        table[symbol] = -inf
        for after, chance in chances.items():
            table[symbol, after] = log(chance)
    return table.expand(1, 6, 6, 6)


def random_tables(sentences: int) -> Float[Tensor, "B V V V"]:
    return 1.5 * torch.randn(sentences, 6, 6, 6)


def run(
    module: ModuleType, table: Tensor, request: Request, chain: Chain | None = None, **options: Any
) -> list[list[Hypothesis]]:
    state = State(table, torch.full((len(table),), START))
    with torch.inference_mode():
        results = module.search(chain or Chain(), state, request, module.Config(**options))
    assert isinstance(results, list)
    return results


def ask(caps: list[int], **options: Any) -> Request:
    numbers = tuple(range(len(caps)))
    return Request(START, END, caps, **{"forbidden": FORBIDDEN, "numbers": numbers, **options})


def chances(table: Tensor, symbols: tuple[int, ...], allowed: tuple[int, ...]) -> list[float]:
    """log p of each of the tokens among the allowed ones, from the table alone."""
    path = (START, START, *symbols)
    result = []
    for before, last, symbol in zip(path, path[1:], path[2:], strict=False):
        logits = table[before, last].double()
        result.append(float(logits[symbol] - logits[list(allowed)].logsumexp(0)))
    return result


def everything(table: Tensor, cap: int, alpha: float) -> list[tuple[tuple[int, ...], float, bool]]:
    """All hypotheses of one sentence with their scores, best first."""
    found = []
    for length in range(cap + 1):
        for tokens in product((A, B, C), repeat=length):
            finished = length < cap
            values = chances(table, (*tokens, END) if finished else tokens, (END, A, B, C))
            found.append((tokens, sum(values) / len(values) ** alpha, finished))
    return sorted(found, key=lambda entry: -entry[1])


GARDEN = markov({START: {A: 0.6, B: 0.4}, A: {A: 0.4, B: 0.3, END: 0.3}, B: {END: 1.0}})
LENGTHS = markov({START: {A: 0.4, B: 0.6}, A: {END: 1.0}, B: {C: 0.6, A: 0.4}, C: {END: 1.0}})
ENDLESS = markov({START: {A: 1.0}, A: {A: 0.5, B: 0.5}, B: {A: 0.5, B: 0.5}})


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.0])
def test_wide_beam_is_exhaustive_search(alpha: float) -> None:
    table = random_tables(3)
    caps = [4, 2, 3]
    results = run(beam, table, ask(caps), beams=150, length_penalty=alpha, nbest=12)
    for rows, cap, found in zip(table, caps, results, strict=True):
        best = everything(rows, cap, alpha)[:12]
        assert [(h.tokens, h.finished) for h in found] == [(t, f) for t, _, f in best]
        assert [h.score for h in found] == pytest.approx([s for _, s, _ in best], abs=1e-5)


def test_garden_path() -> None:
    """The first step to A is better, the whole of B is: 0.4 against 0.6 · 0.3 = 0.18."""
    assert run(greedy, GARDEN, ask([1]))[0][0].tokens == (A,)
    ((walked,),) = run(greedy, GARDEN, ask([9]))
    ((found,),) = run(beam, GARDEN, ask([9]), beams=2, length_penalty=0.0)
    assert walked.tokens == (A,) * 9
    assert not walked.finished
    assert walked.score == pytest.approx(log(0.6) + 8 * log(0.4))
    assert found.tokens == (B,)
    assert found.finished
    assert found.score == pytest.approx(log(0.4))
    assert found.log_probs == pytest.approx([log(0.4), 0.0])


def test_greedy_is_the_walk_along_the_largest() -> None:
    table = random_tables(5)
    for rows, (found,) in zip(table, run(greedy, table, ask([7] * 5)), strict=True):
        before, last = START, START
        tokens: list[int] = []
        while len(tokens) < 7:
            symbol = max((END, A, B, C), key=lambda v: float(rows[before, last, v]))
            if symbol == END:
                break
            tokens.append(symbol)
            before, last = last, symbol
        assert found.tokens == tuple(tokens)
        assert found.finished == (len(tokens) < 7)
        symbols = found.tokens + (END,) * found.finished
        assert found.log_probs == pytest.approx(chances(rows, symbols, (END, A, B, C)), abs=1e-5)
        assert found.score == pytest.approx(sum(found.log_probs))


def test_one_beam_without_penalty_is_greedy() -> None:
    table = random_tables(7)
    request = ask([9, 1, 0, 5, 9, 9, 2], prefixes=((), (A,), (), (B, C), (END,), (C,), (A, A, A)))
    expected = run(greedy, table, request)
    found = run(beam, table, request, beams=1, length_penalty=0.0)
    assert [h.tokens for (h,) in found] == [h.tokens for (h,) in expected]
    for (one,), (other,) in zip(found, expected, strict=True):
        assert one.log_probs == other.log_probs
        assert one.finished == other.finished
        assert one.score == pytest.approx(other.score, abs=1e-5)


@pytest.mark.parametrize(
    ("alpha", "tokens", "score"),
    [(0.0, (A,), log(0.4)), (1.0, (B, C), log(0.36) / 3), (2.0, (B, C), log(0.36) / 9)],
)
def test_length_penalty(alpha: float, tokens: tuple[int, ...], score: float) -> None:
    """log 0.4 = −0.92 beats log 0.36 = −1.02, but −0.92 / 2 does not beat −1.02 / 3."""
    ((found,),) = run(beam, LENGTHS, ask([9]), beams=3, length_penalty=alpha)
    assert found.tokens == tokens
    assert found.score == pytest.approx(score)


def test_the_second_best_is_waited_for_without_penalty() -> None:
    """Nothing has 0.6, and A 0.04 as soon as two have ended; A C, one step later, has 0.36."""
    table = markov({START: {END: 0.6, A: 0.4}, A: {C: 0.9, END: 0.1}, C: {END: 1.0}})
    (found,) = run(beam, table, ask([9]), beams=3, length_penalty=0.0, nbest=2)
    assert [h.tokens for h in found] == [(), (A, C)]
    assert [h.score for h in found] == pytest.approx([log(0.6), log(0.36)])


def test_patience() -> None:
    """Two beams: A and AB end first; ABC is better, and comes one step later."""
    table = markov({START: {A: 1.0}, A: {B: 0.9, END: 0.1}, B: {C: 0.8, END: 0.2}, C: {END: 1.0}})
    scores = {(A,): log(0.1) / 2, (A, B): log(0.18) / 3, (A, B, C): log(0.72) / 4}
    ((hasty, second),) = run(beam, table, ask([9]), beams=2, nbest=2)
    ((patient, third),) = run(beam, table, ask([9]), beams=2, nbest=2, patience=1.5)
    assert [hasty.tokens, second.tokens] == [(A, B), (A,)]
    assert [patient.tokens, third.tokens] == [(A, B, C), (A, B)]
    for hypothesis in (hasty, second, patient, third):
        assert hypothesis.score == pytest.approx(scores[hypothesis.tokens])


def test_an_end_outside_the_beam_is_not_taken() -> None:
    """At the first step the end is third of two beams: it waits for a better place, in vain."""
    table = markov({START: {A: 0.5, B: 0.3, END: 0.2}, A: {A: 1.0}, B: {B: 1.0}})
    ((first, second),) = run(beam, table, ask([3]), beams=2, nbest=2)
    assert [(first.tokens, first.finished), (second.tokens, second.finished)] == [
        ((A, A, A), False),
        ((B, B, B), False),
    ]


def test_an_end_makes_room_for_another() -> None:
    """Two beams, and the first ends at once: the third candidate, B, takes its place."""
    table = markov({START: {END: 0.5, A: 0.3, B: 0.2}, A: {A: 1.0}, B: {END: 1.0}})
    ((first, second),) = run(beam, table, ask([9]), beams=2, nbest=2)
    assert (first.tokens, second.tokens) == ((), (B,))
    assert (first.score, second.score) == pytest.approx((log(0.5), log(0.2) / 2))


@pytest.mark.parametrize(("beams", "patience", "enough"), [(5, 1.0, 5), (5, 0.5, 3), (3, 1.4, 4)])
def test_enough_is_rounded(beams: int, patience: float, enough: int) -> None:
    assert beam.Config(beams=beams, patience=patience).enough == enough


def test_nbest_is_sorted_and_distinct() -> None:
    for found in run(beam, random_tables(6), ask([6] * 6), beams=5, nbest=5):
        scores = [hypothesis.score for hypothesis in found]
        assert len(found) == 5
        assert scores == sorted(scores, reverse=True)
        assert len({hypothesis.tokens for hypothesis in found}) == 5
        for tokens, score, log_probs, finished in found:
            assert len(log_probs) == len(tokens) + finished
            assert score == pytest.approx(sum(log_probs) / len(log_probs), abs=1e-5)


SEARCHES: list[tuple[ModuleType, dict[str, Any]]] = [
    (greedy, {}),
    (beam, {"beams": 3, "nbest": 2}),
    (beam, {"beams": 4, "length_penalty": 0.0}),
    (sample, {"samples": 3}),
    (sample, {"top_k": 3, "top_p": 0.8, "temperature": 0.7, "seed": 5}),
]
every_search = pytest.mark.parametrize(("module", "options"), SEARCHES)


@every_search
def test_caps(module: ModuleType, options: dict[str, Any]) -> None:
    caps = [3, 0, 5, 1]
    results = run(module, ENDLESS.expand(4, 6, 6, 6), ask(caps), **options)
    for cap, found in zip(caps, results, strict=True):
        for hypothesis in found:
            assert len(hypothesis.tokens) == len(hypothesis.log_probs) == cap
            assert not hypothesis.finished
            total, alpha = -log(2) * max(cap - 1, 0), options.get("length_penalty", 1.0)
            length = max(cap, 1) ** (alpha if module is beam else 0)
            assert hypothesis.score == pytest.approx(total / length)


@every_search
def test_nothing_to_do(module: ModuleType, options: dict[str, Any]) -> None:
    chain = Chain()
    assert run(module, random_tables(0), ask([]), chain, **options) == []
    for found in run(module, random_tables(2), ask([0, 0]), chain, **options):
        assert set(found) == {Hypothesis((), 0.0, (), False)}
    assert chain.rows == []


@every_search
def test_minimum(module: ModuleType, options: dict[str, Any]) -> None:
    table = random_tables(5)
    table[..., END] += 3
    short = run(module, table, ask([6] * 5), **options)
    long = run(module, table, ask([6] * 5), min_length=4, **options)
    assert min(len(h.tokens) for found in short for h in found) < 4
    assert all(4 <= len(h.tokens) <= 6 for found in long for h in found)
    for rows, found in zip(table, long, strict=True):
        for hypothesis in found:
            early = chances(rows, hypothesis.tokens[:4], (A, B, C))
            assert hypothesis.log_probs[:4] == pytest.approx(early, abs=1e-5)


@every_search
def test_forbidden(module: ModuleType, options: dict[str, Any]) -> None:
    table = random_tables(4)
    table[..., B] += 5
    request = ask([6] * 4, forbidden=(*FORBIDDEN, B))
    for rows, found in zip(table, run(module, table, request, **options), strict=True):
        for hypothesis in found:
            assert set(hypothesis.tokens) <= {A, C}
            symbols = hypothesis.tokens + (END,) * hypothesis.finished
            expected = chances(rows, symbols, (END, A, C))
            assert hypothesis.log_probs == pytest.approx(expected, abs=1e-5)


@every_search
def test_prefixes(module: ModuleType, options: dict[str, Any]) -> None:
    """Forced tokens stand, whatever they are, and count with the model's own probability."""
    table = random_tables(5)
    prefixes = ((A, C, B), (), (PAD, A), (END,), (B, B, B, B))
    caps = [7, 7, 7, 7, 2]
    results = run(module, table, ask(caps, prefixes=prefixes), **options)
    for rows, prefix, cap, found in zip(table, prefixes, caps, results, strict=True):
        for tokens, _, log_probs, finished in found:
            given = prefix[:cap]
            assert tokens[: len(given)] == given
            assert len(tokens) <= cap
            own = chances(rows, given, (PAD, START, END, A, B, C))
            path = tokens + (END,) * finished
            free = chances(rows, path, (END, A, B, C))[len(given) :]
            assert log_probs == pytest.approx(own + free, abs=1e-5)
    assert {(h.tokens, h.finished) for h in results[-1]} == {((B, B), False)}


def test_beam_after_a_prefix_is_exhaustive() -> None:
    """Prefixes of three lengths in one batch: as if the start symbol were the prefix's last."""
    table = random_tables(3)
    prefixes = ((A, C), (), (B,))
    request = ask([5, 5, 5], prefixes=prefixes, forbidden=())
    results = run(beam, table, request, beams=400, length_penalty=0.7, nbest=9)
    for rows, prefix, found in zip(table, prefixes, results, strict=True):
        entries = []
        for length in range(6 - len(prefix)):
            for rest in product((PAD, START, A, B, C), repeat=length):
                tokens = prefix + rest
                path = (*tokens, END) if len(tokens) < 5 else tokens
                values = chances(rows, path, (PAD, START, END, A, B, C))
                entries.append((sum(values) / len(values) ** 0.7, tokens))
        best = sorted(entries, reverse=True)[:9]
        assert [h.tokens for h in found] == [tokens for _, tokens in best]
        assert [h.score for h in found] == pytest.approx([score for score, _ in best], abs=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 0.7, 1.5])
def test_a_prefix_of_the_best_leads_to_the_best(alpha: float) -> None:
    """Who confirms how an output begins gets that output, with the score that it had."""
    table, options = random_tables(4), dict[str, Any](beams=700, length_penalty=alpha)
    free = run(beam, table, ask([4] * 4, forbidden=()), **options)
    for count in (1, 2, 3):
        prefixes = tuple(found[0].tokens[:count] for found in free)
        forced = run(beam, table, ask([4] * 4, prefixes=prefixes, forbidden=()), **options)
        for (one,), (other,) in zip(free, forced, strict=True):
            assert one.tokens == other.tokens
            assert one.score == pytest.approx(other.score, abs=1e-5)


@every_search
def test_what_was_written_before_counts(module: ModuleType, options: dict[str, Any]) -> None:
    """The second half of an output scores as the whole does, and ends no earlier."""
    table, alpha = random_tables(2), options.get("length_penalty", 1.0 if module is beam else 0.0)
    before = ((-0.5, -1.5), ())
    request = ask([9, 9], written=before)
    for rows, values, found in zip(
        table, before, run(module, table, request, min_length=3, **options), strict=True
    ):
        for tokens, score, log_probs, finished in found:
            assert len(log_probs) == len(tokens) + finished
            assert len(values) + len(tokens) >= 3
            whole = [*values, *log_probs]
            assert score == pytest.approx(sum(whole) / len(whole) ** alpha, abs=1e-5)
            early = chances(rows, tokens[: 3 - len(values)], (A, B, C))
            assert log_probs[: len(early)] == pytest.approx(early, abs=1e-5)


def test_each_sentence_may_begin_with_a_symbol_of_its_own() -> None:
    table = random_tables(3)
    starts, caps = [A, START, C], [5, 0, 5]
    together = run(greedy, table, replace(ask(caps), start=starts))
    for n, found in enumerate(together):
        alone = replace(ask(caps[n : n + 1]), start=starts[n])
        assert run(greedy, table[n : n + 1], alone) == [found]


@every_search
def test_a_sentence_does_not_depend_on_its_batch(
    module: ModuleType, options: dict[str, Any]
) -> None:
    table = random_tables(7)
    caps, numbers = [8, 3, 0, 8, 5, 8, 1], (40, 41, 42, 43, 44, 45, 46)
    prefixes = ((), (A,), (), (B, C, A), (), (C,), (B, B))
    together = run(module, table, ask(caps, prefixes=prefixes, numbers=numbers), **options)
    order = [5, 0, 3, 6, 1, 4, 2]
    mixed = ask(
        [caps[i] for i in order],
        prefixes=tuple(prefixes[i] for i in order),
        numbers=tuple(numbers[i] for i in order),
    )
    assert run(module, table[order], mixed, **options) == [together[i] for i in order]
    for i, expected in enumerate(together):
        alone = ask([caps[i]], prefixes=(prefixes[i],), numbers=(numbers[i],))
        assert run(module, table[i : i + 1], alone, **options) == [expected]


def test_nothing_is_computed_for_what_is_done() -> None:
    """Sentence 0 ends after A; sentence 1 has a cap of 4; hypotheses share the prefix's steps."""
    table = torch.cat([markov({START: {A: 1.0}, A: {END: 1.0}}), ENDLESS])
    chain = Chain()
    run(greedy, table, ask([9, 4]), chain)
    assert chain.rows == [2, 2, 1, 1]
    chain = Chain()
    run(beam, table, ask([9, 4]), chain, beams=3)
    assert chain.rows == [2, 6, 3, 3]
    chain = Chain()
    run(sample, ENDLESS.expand(2, 6, 6, 6), ask([4, 4], prefixes=((A, A), (A,))), chain, samples=5)
    assert chain.rows == [2, 2, 10, 10]


def test_log_probs_are_fp32() -> None:
    table = random_tables(3).bfloat16()
    for module, options in SEARCHES:
        for rows, found in zip(table, run(module, table, ask([5] * 3), **options), strict=True):
            symbols = found[0].tokens + (END,) * found[0].finished
            expected = chances(rows, symbols, (END, A, B, C))
            assert found[0].log_probs == pytest.approx(expected, abs=1e-5)


def chi_square(counts: list[int], expected: list[float]) -> float:
    return sum((n - e) ** 2 / e for n, e in zip(counts, expected, strict=True))


CHANCES = {END: 0.1, A: 0.5, B: 0.25, C: 0.15}
BOUND = 16.3  # of the chi-square distribution with 3 degrees of freedom, 0.1 % lie above


def test_samples_follow_the_distribution() -> None:
    table = markov(dict.fromkeys((START, A, B, C), CHANCES))
    expected = [4000 * chance for chance in CHANCES.values()]

    ((*drawn,),) = run(sample, table, ask([1]), samples=4000)
    first = [hypothesis.tokens or (END,) for hypothesis in drawn]
    assert chi_square([first.count((v,)) for v in CHANCES], expected) < BOUND

    many = run(sample, table.expand(4000, 6, 6, 6), ask([1] * 4000))
    first = [found[0].tokens or (END,) for found in many]
    assert chi_square([first.count((v,)) for v in CHANCES], expected) < BOUND

    ((long,),) = run(sample, table, ask([1000], forbidden=(*FORBIDDEN, END)))
    counts = [long.tokens.count(v) for v in (A, B, C)]
    assert chi_square(counts, [1000 * CHANCES[v] / 0.9 for v in (A, B, C)]) < BOUND
    pairs = [x == y for x, y in zip(long.tokens, long.tokens[1:], strict=False)]
    alike = sum((CHANCES[v] / 0.9) ** 2 for v in (A, B, C))
    assert sum(pairs) / len(pairs) == pytest.approx(alike, abs=0.05)


def test_sample_scores_are_the_models_own() -> None:
    table = random_tables(1)
    ((*found,),) = run(sample, table, ask([5]), samples=8, temperature=2.0, top_k=2)
    assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)
    for tokens, score, log_probs, finished in found:
        path = tokens + (END,) * finished
        assert log_probs == pytest.approx(chances(table[0], path, (END, A, B, C)), abs=1e-5)
        assert score == pytest.approx(sum(log_probs))


@pytest.mark.parametrize("options", [{"top_k": 1}, {"temperature": 1e-4}, {"top_p": 1e-6}])
def test_sampling_becomes_greedy(options: dict[str, Any]) -> None:
    table = random_tables(8)
    assert run(sample, table, ask([6] * 8), **options) == run(greedy, table, ask([6] * 8))


def test_a_seed_fixes_the_sample() -> None:
    table = random_tables(6)
    first, again, other = (
        run(sample, table, ask([8] * 6), samples=3, seed=seed) for seed in (7, 7, 8)
    )
    assert first == again
    assert first != other
    few = run(sample, table, ask([8] * 6), samples=2, seed=7)
    for two, three in zip(few, first, strict=True):
        assert set(two) <= set(three)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0.5, 0.25, 0.15, 0.1]),
        ({"temperature": 0.5}, [0.25, 0.0625, 0.0225, 0.01]),
        ({"top_k": 2}, [0.5, 0.25, 0, 0]),
        ({"top_k": 9}, [0.5, 0.25, 0.15, 0.1]),
        ({"top_p": 0.74}, [0.5, 0.25, 0, 0]),
        ({"top_p": 0.76}, [0.5, 0.25, 0.15, 0]),
        ({"top_k": 3, "top_p": 0.8}, [0.5, 0.25, 0, 0]),  # 0.75 is 0.83 of what top_k leaves
    ],
)
def test_distribution(options: dict[str, Any], expected: list[float]) -> None:
    order = [2, 0, 3, 1]  # tokens are not sorted by their probability
    log_probs = torch.tensor([[[0.5, 0.25, 0.15, 0.1]]]).log()[..., order]
    probs = sample.distribution(log_probs, sample.Config(**options))[0, 0]
    wanted = torch.tensor(expected, dtype=torch.float64)[order]
    torch.testing.assert_close(probs / probs.sum(), wanted / wanted.sum(), atol=1e-6, rtol=0)


def test_draw_inverts_the_distribution_function() -> None:
    probs = torch.tensor([0.0, 0.5, 0.0, 0.25, 0.25, 0.0], dtype=torch.float64).expand(1, 6, 6)
    chance = torch.tensor([[0.0, 0.499, 0.5, 0.749, 0.75, 1 - 2**-48]], dtype=torch.float64)
    assert sample.draw(probs, chance).tolist() == [[1, 1, 3, 3, 4, 4]]


def test_uniform_is_splitmix() -> None:
    """The same hash in Python's own whole numbers."""

    def mix(x: int) -> int:
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
        return x ^ x >> 31

    numbers, samples, seed, time = [0, 3, 10**12], [0, 1], 2**63 - 1, 17
    found = sample.uniform(seed, torch.tensor(numbers)[:, None], torch.tensor(samples), time)
    for row, number in zip(found.tolist(), numbers, strict=True):
        for value, draw in zip(row, samples, strict=True):
            hashed = 0
            for key in (seed, number, draw, time):
                hashed = mix((hashed + (key + 1) * 0x9E3779B97F4A7C15) % 2**64)
            assert value == (hashed >> 16) / 2**48


@pytest.mark.parametrize(
    ("module", "options", "key"),
    [
        (greedy, {"min_length": -1}, "min_length"),
        (beam, {"beams": 0}, "beams"),
        (beam, {"length_penalty": float("nan")}, "length_penalty"),
        (beam, {"length_penalty": -0.1}, "length_penalty"),
        (beam, {"patience": 0.0}, "patience"),
        (beam, {"beams": 3, "nbest": 4}, "nbest"),
        (beam, {"beams": 3, "nbest": 4, "patience": 2.0}, "nbest"),
        (beam, {"beams": 4, "nbest": 3, "patience": 0.5}, "nbest"),
        (beam, {"nbest": 0}, "nbest"),
        (sample, {"temperature": 0.0}, "temperature"),
        (sample, {"top_k": -1}, "top_k"),
        (sample, {"top_p": 0.0}, "top_p"),
        (sample, {"top_p": 1.1}, "top_p"),
        (sample, {"seed": -1}, "seed"),
        (sample, {"samples": 0}, "samples"),
    ],
)
def test_a_value_out_of_range_names_its_key(
    module: ModuleType, options: dict[str, Any], key: str
) -> None:
    with pytest.raises(RecipeError, match=f"^{key}: "):
        module.Config(**options)


@every_search
@pytest.mark.parametrize("value", [float("nan"), inf])
def test_a_broken_model_is_reported(
    module: ModuleType, options: dict[str, Any], value: float
) -> None:
    table = random_tables(2)
    table[1] = value
    with pytest.raises(UserError, match="NaN"):
        run(module, table, ask([4, 4]), **options)


def test_a_request_must_fit_together() -> None:
    with pytest.raises(ValueError, match="2 caps, but 1 prefixes"):
        ask([3, 3], prefixes=((A,),))
    with pytest.raises(ValueError, match="numbers"):
        run(sample, random_tables(1), ask([3], numbers=None))


def test_temperature_changes_the_draws() -> None:
    """p^(1/T) normalised, at T = 2: √0.5 : √0.25 : √0.15 : √0.1."""
    table = markov({START: CHANCES})
    weights = [exp(log(chance) / 2) for chance in CHANCES.values()]
    expected = [4000 * weight / sum(weights) for weight in weights]
    ((*drawn,),) = run(sample, table, ask([1]), samples=4000, temperature=2.0)
    first = [hypothesis.tokens or (END,) for hypothesis in drawn]
    assert chi_square([first.count((v,)) for v in CHANCES], expected) < BOUND
