"""The same request gives the same answer, alone and in any company."""

import asyncio
import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from regard.decoding.prediction import Prediction
from regard.serve.bodies import as_file, as_series
from regard.serve.service import Service, Source
from regard.serve.settings import Settings
from regard.serve.work import Options, Work
from tests import small_runs
from tests.serve.serving import FULL

REQUESTS = {"causal": 5000, "transformer": 4000} if FULL else {}
"""Of each kind of run; more than 10,000 in all."""
WORDS = ["a", "dog", "runs", "two", "dogs", "play", "in", "the", "snow", "man", "sits"]
TIE = 1e-5


def options(**keys: Any) -> Options:
    names = ("search", "length", "stop", "align", "top", "choices")
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


SEEN = [options(), options(nbest=3), options(search="greedy")]
HEARD = [options(), options(search="ctc", beams=3)]
CHOICES = options(choices=("a red square", "a blue circle", "a dog"))
Inputs = Callable[[Path, random.Random], str]
"""One input for a run, by chance."""


def sentence(folder: Path, chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(0, 9)))


def blanks(folder: Path, chance: random.Random) -> str:
    return " ".join(chance.choices([*WORDS, "[MASK]"], k=chance.randint(1, 9)))


def series(folder: Path, chance: random.Random) -> str:
    names, *rows = small_runs.SERIES.splitlines()
    return as_series("\n".join([names, *rows[: chance.randint(12, len(rows))]]).encode(), 0)


def of_files(pattern: str) -> Inputs:
    """One of the files that a run was made with, read as the server does."""

    def drawn(folder: Path, chance: random.Random) -> str:
        found = sorted(folder.with_name(f"{folder.name}-data").glob(pattern))
        return as_file(chance.choice(found).read_bytes(), 0)

    return drawn


async def both(
    folder: Path, draw: Inputs, asked: Sequence[Options], engine: str, count: int
) -> list[tuple[list[Prediction], list[Prediction], Options]]:
    """What a request gives alone, and in company."""
    source = Source("x", folder, (("engine", engine),))
    opened = source.open()
    service = Service(source, opened, Settings(queue=10**6, queue_items=10**6, deadline=3600))
    chance = random.Random(5)
    several = [chance.choice((1, 1, 1, 3)) for _ in range(count)]
    work = [([draw(folder, chance) for _ in range(n)], chance.choice(asked)) for n in several]
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


def near(one: Any, other: Any) -> bool:
    """Whether all numbers of two values are within 1e-4, and all else is equal."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(near(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(near, one, other))
    if isinstance(one, float):
        return math.isclose(one, other, abs_tol=1e-4)
    return bool(one == other)


def compared(found: Prediction, *, table: bool) -> dict[str, Any]:
    """What must be the same; of alternatives, which may change places, the scores; a forecast is a
    table of numbers."""
    made = found.as_dict()
    made["alternatives"] = [each["score"] for each in found.alternatives]
    if table:
        names, *rows = [line.split(",") for line in found.text.splitlines()]
        made["text"] = [names, *[[*map(float, row)] for row in rows]]
    return made


@pytest.mark.timeout(3600 if FULL else 120)
@pytest.mark.parametrize(
    ("kind", "draw", "asked", "engine"),
    [
        ("causal", sentence, CONTINUED, "torch"),
        ("chat", sentence, CONTINUED[:6], "torch"),
        ("transformer", sentence, TRANSLATED, "torch"),
        ("transformer", sentence, TRANSLATED, "auto"),
        ("describer", of_files("scenes/train/*.png"), SEEN, "torch"),
        ("listener", of_files("sounds/train/*.wav"), HEARD, "torch"),
        ("filler", blanks, [options(), options(top=3)], "torch"),
        ("comparer", of_files("scenes/train/*.png"), [options(), CHOICES], "torch"),
        ("forecaster", series, [options(), options(length=2)], "torch"),
        ("classifier", sentence, [options()], "torch"),
        ("tagger", sentence, [options()], "torch"),
    ],
)
def test_company_changes_nothing(
    kind: str, draw: Inputs, asked: list[Options], engine: str, runs: dict[str, Path]
) -> None:
    count = REQUESTS.get(kind, 1000 if FULL else 24 if draw is sentence else 8)
    found = asyncio.run(both(runs[kind], draw, asked, engine, count))
    ties = 0
    for alone, together, how in found:
        for one, other in zip(alone, together, strict=True):
            if one.tokens != other.tokens:
                assert abs(one.score - other.score) < TIE, how
                ties += 1
                continue
            table = kind == "forecaster"
            assert near(compared(one, table=table), compared(other, table=table)), how
    assert ties <= max(1, len(found) / 100)
