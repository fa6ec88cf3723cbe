"""The same request gives the same answer, alone and in any company."""

import asyncio
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from regard.decoding.prediction import Prediction
from regard.serve.service import Service, Source
from regard.serve.settings import Settings
from regard.serve.work import Options, Work
from tests.serve.serving import FULL

REQUESTS = {"causal": 5000, "transformer": 4000} if FULL else {}
"""Of each kind of run; more than 10,000 in all."""
WORDS = ["a", "dog", "runs", "two", "dogs", "play", "in", "the", "snow", "man", "sits"]
TIE = 1e-5


def options(**keys: Any) -> Options:
    names = ("search", "length", "stop", "align")
    how = tuple(sorted((k, v) for k, v in keys.items() if k not in names))
    return Options(how=how, **{k: v for k, v in keys.items() if k in names})


DRAWS = [
    options(search="sample", seed=seed, temperature=0.7 + seed / 9, length=40) for seed in range(4)
]
CONTINUED = [
    *DRAWS,
    options(search="greedy", length=45),
    options(search="greedy", length=30, repetition_penalty=1.4),
    options(search="sample", seed=9, top_k=5, top_p=0.9, length=25),
    options(search="sample", seed=3, length=60, stop=("snow", "do")),
    options(search="sample", seed=3, samples=2, length=20),
    options(nbest=2, length=20),
    options(search="beam", length=8),
]
TRANSLATED = [
    options(),
    options(nbest=3),
    options(search="greedy"),
    options(search="sample", seed=4),
    options(search="sample", samples=2),
    options(align=True),
]


def texts(chance: random.Random) -> list[str]:
    counts = chance.choice((1, 1, 1, 3))
    return [" ".join(chance.choices(WORDS, k=chance.randint(0, 9))) for _ in range(counts)]


async def both(
    folder: Path, asked: Sequence[Options], engine: str, count: int
) -> list[tuple[list[Prediction], list[Prediction], Options]]:
    """What a request gives alone, and in company."""
    source = Source("x", folder, (("engine", engine),))
    opened = source.open()
    service = Service(source, opened, Settings(queue=10**6, queue_items=10**6, deadline=3600))
    chance = random.Random(5)
    work = [(texts(chance), chance.choice(asked)) for _ in range(count)]
    checked = [(given, service.check(given, how)) for given, how in work]

    async def later(given: list[str], how: Options, seconds: float) -> list[Prediction]:
        await asyncio.sleep(seconds)
        return await service.answer(Work(given, how))

    spread = count / 400 if FULL else 0.0
    crowd = [later(*each, chance.random() * spread) for each in checked]
    together = await asyncio.gather(*crowd)
    alone = [await service.answer(Work(*each)) for each in checked]
    opened.close()
    opened.join()
    assert (service.queue.requests, service.queue.items) == (0, 0)
    return [(a, b, how) for a, b, (_, how) in zip(alone, together, checked, strict=True)]


@pytest.mark.timeout(3600 if FULL else 120)
@pytest.mark.parametrize(
    ("kind", "asked", "engine"),
    [
        ("causal", CONTINUED, "torch"),
        ("chat", CONTINUED[:6], "torch"),
        ("transformer", TRANSLATED, "torch"),
        ("transformer", TRANSLATED, "auto"),
        ("classifier", [options()], "torch"),
        ("tagger", [options()], "torch"),
    ],
)
def test_company_changes_nothing(
    kind: str, asked: list[Options], engine: str, runs: dict[str, Path]
) -> None:
    count = REQUESTS.get(kind, 1000 if FULL else 24)
    found = asyncio.run(both(runs[kind], asked, engine, count))
    ties = 0
    for alone, together, how in found:
        for one, other in zip(alone, together, strict=True):
            if one.tokens != other.tokens:
                assert abs(one.score - other.score) < TIE, how
                ties += 1
                continue
            assert (one.text, one.status, one.alignment) == (
                other.text,
                other.status,
                other.alignment,
            )
            assert one.log_probs == pytest.approx(other.log_probs, abs=1e-4)
            assert math.isclose(one.score, other.score, abs_tol=1e-4)
            assert len(one.alternatives) == len(other.alternatives)
    assert ties <= max(1, len(found) / 100)
