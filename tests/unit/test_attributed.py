"""Of which outputs the viewer asks where they came from."""

from typing import Any

from regard.inspect import views
from regard.inspect.reading import Reading, likely
from regard.types import Batch


def reading(symbols: list[int], **more: Any) -> Reading:
    return Reading(
        text="",
        output="",
        batch=Batch(tensors={}, ids=(), targets=0),
        source=[],
        said=[str(n) for n in symbols],
        symbols=symbols,
        name=lambda numbers: [str(n) for n in numbers],
        measure=likely,
        **more,
    )


def test_of_a_sound_each_token_where_it_begins():
    heard = [("a", 0.0, 0.1)]
    assert views.attributed(reading([0, 3, 3, 0, 3, 4, 0], heard=heard)) == [1, 4, 5]
    assert views.attributed(reading([3, 0], heard=heard)) == [0]
    many = views.attributed(reading([0, 5] * 90, heard=heard))
    assert len(many) == views.STEPS and many[0] == 1 and many[-1] == 179


def test_of_texts_all_unless_they_are_long():
    assert views.attributed(reading([0, 3, 3])) == [0, 1, 2]
    assert views.attributed(reading([1] * (views.ATTRIBUTED + 1))) == []
    assert len(views.attributed(reading([1] * 99, numbers=[]))) == views.STEPS
