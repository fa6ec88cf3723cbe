"""A few shapes to which batches of many shapes can be padded."""

import itertools

Shape = tuple[int, ...]
"""Rows, source positions, target positions."""


def positions(shape: Shape) -> int:
    rows, sources, targets = shape
    return rows * (sources + targets)


def around(shapes: list[Shape]) -> Shape:
    """The smallest shape that has room for each of these."""
    return tuple(map(max, zip(*shapes, strict=True)))


def common(shapes: list[Shape], count: int) -> dict[Shape, Shape]:
    """For each shape the one to pad it to; of those there are at most `count`.

    The two groups are joined that by that get the least more positions, until they are few enough.
    """
    groups = [[shape] * shapes.count(shape) for shape in sorted(set(shapes))]

    def cost(group: list[Shape]) -> int:
        return len(group) * positions(around(group))

    while len(groups) > count:
        a, b = min(
            itertools.combinations(groups, 2),
            key=lambda pair: cost(pair[0] + pair[1]) - cost(pair[0]) - cost(pair[1]),
        )
        groups = [group for group in groups if group is not a and group is not b] + [a + b]
    return {shape: around(group) for group in groups for shape in group}
