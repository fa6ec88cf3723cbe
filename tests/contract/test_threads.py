"""A Predictor may be used by several threads at once: each gets what it would get alone."""

from concurrent.futures import ThreadPoolExecutor

import pytest

import regard
from tests import corpus


@pytest.mark.parametrize(
    "options",
    [
        {"engine": "torch", "beams": 3},
        {"engine": "torch", "search": "greedy"},
        {"engine": "torch", "search": "sample", "seed": 3},
        {"engine": "auto"},
    ],
    ids=["beam", "greedy", "sample", "auto"],
)
def test_threads_do_not_disturb_each_other(options):
    options = dict(options)
    model = regard.load(corpus.trained(), engine=options.pop("engine"))
    sources, targets = model.task.references("test")
    inputs = [sources[n:] + sources[:n] for n in range(6)]
    alone = [model.predict(lines, **options) for lines in inputs]
    scores = model.score(sources, targets)
    fresh = regard.load(corpus.trained())
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda lines: model.predict(lines, **options), inputs))
        first = list(pool.map(lambda lines: fresh.predict(lines, **options), inputs))
        scored = list(pool.map(lambda _: model.score(sources, targets), range(3)))
    assert together == alone == first
    assert scored == [scores] * 3
