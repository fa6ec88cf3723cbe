"""Times of a series: in which order rows are learnt, what is filled in, and what follows."""

import random
from collections import Counter
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from regard.data import clock, series
from regard.data.clock import Step
from regard.data.readers import Report
from regard.errors import RecipeError, UserError

HOUR = Step("seconds", Decimal(3600))


def parse(times, values=None, step: Step | None = None, **keys: Any) -> series.Series:
    """A series of one variable; its values are 0, 1, … unless they are given."""
    values = range(len(times)) if values is None else values
    rows = [f"{time},{value}" for time, value in zip(times, values, strict=True)]
    config = series.Config(**{"file": "x.csv", "time": "t", **keys})
    return series.parse(["t,a", *rows], config, Path("x.csv"), Report(), step)


def column(found: series.Series) -> list[float]:
    return [float(value) for value in found.values[:, 0]]


DAYS = ["2020-01-01", "2020-01-02", "2020-01-03", "2020-01-04"]


# Order


@pytest.mark.parametrize(
    ("times", "line", "example"),
    [
        (DAYS[::-1], 3, "2020-01-03 after 2020-01-04"),
        (["4", "3", "2", "1"], 3, "3 after 4"),
        (["2", "1"], 3, "1 after 2"),
        (["1", "2", "3", "2.5"], 5, "2.5 after 3"),
        (["1", "2", "4", "3", "5"], 5, "3 after 4"),
        (["3", "3", "2", "2"], 4, "2 after 3"),
        (["1", "2", "3", "1", "2", "3"], 5, "1 after 3"),  # a second series below the first
    ],
)
def test_times_that_go_back_are_refused(times, line, example):
    with pytest.raises(UserError, match=rf"x\.csv:{line}: the time goes back: “{example}”") as no:
        parse(times)
    assert "data.order = 'sort'" in str(no.value)


def test_the_newest_first_are_sorted_if_the_recipe_says_so():
    found = parse(DAYS[::-1], order="sort")
    assert column(found) == [3, 2, 1, 0]
    assert (found.first, found.last, found.after(1)) == (DAYS[0], DAYS[-1], ["2020-01-05"])
    assert found.lines.tolist() == [5, 4, 3, 2]
    assert column(parse(["2", "1"], order="sort")) == [1, 0]
    assert column(parse(["1", "3", "2"], order="sort")) == [0, 2, 1]
    # What is filled in is what was known at the time, not what stands in the line above.
    assert column(parse(["3", "2", "1"], [30, "", 10], order="sort", missing="fill")) == [
        10, 10, 30,
    ]  # fmt: skip


def test_what_is_sorted_is_reported():
    report = Report()
    config = series.Config(file="x.csv", time="t", order="sort")
    series.parse(["t,a", "3,1", "1,1", "2,1"], config, Path("x.csv"), report)
    assert report.counts == {"the time goes back": 1} and report.used == 3
    with pytest.raises(RecipeError, match=r"order: .*data\.time"):
        series.Config(file="x.csv", time="", order="sort")


def test_times_that_are_all_equal_are_repeated():
    with pytest.raises(UserError, match=r"x\.csv:3: a repeated time.*data\.repeated"):
        parse(["7", "7", "7"])
    alone = parse(["7", "7", "7"], repeated="first")
    assert column(alone) == [0] and alone.step is None
    with pytest.raises(UserError, match="what follows 7 is not known"):
        alone.after(1)


# What is filled in


def test_a_gap_is_filled_from_the_row_that_was_kept():
    gap = parse([1, 2, 2, 5], [1, 2, 99, 5], gap="fill", repeated="first")
    assert column(gap) == [1, 2, 2, 2, 5]
    missing = parse([1, 2, 2, 3], [1, 2, 99, ""], missing="fill", repeated="first")
    assert column(missing) == [1, 2, 2]


def test_a_row_that_nearly_repeats_a_time_takes_nothing_away():
    times = ["1", "2", "2.0005", "3", "4"]
    with pytest.raises(UserError, match=r"x\.csv:4: no whole number of steps"):
        parse(times, gap="fill", repeated="first")
    assert column(parse(times, gap="ignore")) == [0, 1, 2, 3, 4]


def expected(rows: list[tuple[int, int | None]], keys: dict[str, str]) -> list[int] | None:
    """The series by the words of the documentation, on a grid of times; None: refused."""
    if any(b < a for (a, _), (b, _) in pairwise(rows)):
        if keys["order"] == "refuse":
            return None
        rows = sorted(rows, key=lambda row: row[0])
    kept: dict[int, int | None] = {}
    for time, value in rows:
        if time in kept and keys["repeated"] == "refuse":
            return None
        kept.setdefault(time, value)
    known: dict[int, int] = {}
    for time, value in kept.items():
        if value is None and (keys["missing"] == "refuse" or not known):
            return None
        known[time] = list(known.values())[-1] if value is None else value
    steps = Counter(b - a for a, b in pairwise(known))
    step = min(steps, key=lambda each: (-steps[each], each), default=1)
    if keys["gap"] == "ignore" or set(steps) <= {step}:
        return list(known.values())
    if keys["gap"] == "refuse" or any(each % step for each in steps):
        return None
    grid = range(min(known), max(known) + 1, step)
    if len(grid) > 2 * len(rows):
        return None
    return [known[max(t for t in known if t <= now)] for now in grid]


RULES = {
    "order": ["refuse", "sort"],
    "repeated": ["refuse", "first"],
    "missing": ["refuse", "fill"],
    "gap": ["refuse", "fill", "ignore"],
}


def test_all_rules_together_do_what_they_say():
    """Rows in any order, with any values absent, under any combination of the rules."""
    dice, refused = random.Random(1), 0
    for _ in range(1500):
        keys: dict[str, Any] = {name: dice.choice(rules) for name, rules in RULES.items()}
        times = dice.choices((0, 1, 2, 5), k=dice.randint(2, 5))
        times = sorted(times) if dice.random() < 0.5 else times
        values = [dice.choice([None, 10 + n, 10 + n, 10 + n]) for n in range(len(times))]
        right = expected(list(zip(times, values, strict=True)), keys)
        cells = ["" if value is None else str(value) for value in values]
        refused += right is None
        try:
            found = column(parse(times, cells, **keys))
        except UserError:
            assert right is None, (times, values, keys)
        else:
            assert found == right, (times, values, keys)
    assert 900 < refused < 1300


# Steps


@pytest.mark.parametrize(
    ("times", "step", "after"),
    [
        # Moments, whatever the clock on the wall shows: summer time begins, and ends.
        (["2020-03-29 01:00+01:00", "2020-03-29 03:00+02:00", "2020-03-29 04:00+02:00"],
         "1:00:00", "2020-03-29 05:00+02:00"),
        (["2020-10-25 02:00+02:00", "2020-10-25 02:00+01:00", "2020-10-25 03:00+01:00"],
         "1:00:00", "2020-10-25 04:00+01:00"),
        (["2020-01-01T00:00Z", "2020-01-01T00:15Z"], "0:15:00", "2020-01-01T00:30Z"),
        (["2020-01-01 00:00:00.000", "2020-01-01 00:00:00.250"], "0:00:00.250000",
         "2020-01-01 00:00:00.500"),
        # Months and years are not equally long.
        (["2020-01-01", "2020-02-01", "2020-03-01"], "1 month", "2020-04-01"),
        (["2020-01-31", "2020-02-29", "2020-03-31"], "1 month", "2020-04-30"),
        (["2021-01-28", "2021-02-28"], "1 month", "2021-03-28"),
        (["2019-09-30", "2019-12-31", "2020-03-31"], "3 months", "2020-06-30"),
        (["2019-01-01", "2020-01-01", "2021-01-01"], "12 months", "2022-01-01"),
        (["2020-02-28", "2020-02-29"], "1 day", "2020-03-01"),
        # Numbers of any size, as they are written.
        (["1600000000000000123", "1600000000000000223"], "100", "1600000000000000323"),
        (["1600003600123", "1600003600124"], "1", "1600003600125"),
        (["0.0000001", "0.0000002", "0.0000003"], "0.0000001", "0.0000004"),
        (["0.1", "0.2", "0.30000000000000004", "0.4"], "0.1", "0.5"),
        (["1e3", "2e3"], "1000", "3000"),
        (["-2", "-1"], "1", "0"),
        (["2019", "2020"], "1", "2021"),
    ],
)  # fmt: skip
def test_what_comes_next(times, step, after):
    found = parse(times)
    assert (str(found.step), found.after(1)) == (step, [after])


def test_months_have_gaps_too():
    times = ["2020-01-01", "2020-02-01", "2020-03-01", "2020-05-01"]
    with pytest.raises(UserError, match=r"x\.csv:5: steps are left out \(one is 1 month\)"):
        parse(times)
    assert column(parse(times, gap="fill")) == [0, 1, 2, 2, 3]


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (["1", "2", "3", "1e25"], "more rows would be filled in than there are"),
        (["0001-01-01", "0001-01-02", "9999-12-31"], "more rows would be filled in"),
        (["1", "nan"], r"x\.csv:3: not a time"),
        (["1", "sNaN"], r"x\.csv:3: not a time"),
        (["1", "1e999"], r"x\.csv:3: not a time"),
        (["1", "1_0"], r"x\.csv:3: not a time"),
        (["2020-01-01", "2020-01-02T00:00Z"], r"x\.csv:3: not a time"),
        (["2020-01-01", "02/01/2020"], r"x\.csv:3: not a time"),
        (["2020-01-01", ""], r"x\.csv:3: not a time"),
    ],
)
def test_times_that_cannot_be(times, message):
    with pytest.raises(UserError, match=message):
        parse(times, gap="fill")


def test_there_is_no_date_after_the_last():
    with pytest.raises(UserError, match="there is no date"):
        parse(["9999-12-30", "9999-12-31"]).after(1)
    with pytest.raises(UserError, match="there is no date"):
        parse(["9999-11-01", "9999-12-01"]).after(1)


def test_the_step_that_was_learnt_is_that_of_an_input():
    one = parse(["2020-01-01 05:00"], step=HOUR)
    assert one.after(2) == ["2020-01-01 06:00", "2020-01-01 07:00"]
    with pytest.raises(UserError, match=r"x\.csv:3: steps are left out \(one is 1:00:00\)"):
        parse(DAYS, step=HOUR)
    with pytest.raises(UserError, match=r"x\.csv:3: no whole number of steps \(of 1:00:00\)"):
        parse(["2020-01-01 05:00", "2020-01-01 05:30"], step=HOUR)
    with pytest.raises(UserError, match="of another kind than those that were learnt"):
        parse(["1", "2"], step=HOUR)
    with pytest.raises(UserError, match=r"of another kind .* a step is 1 month"):
        parse(["2020-01-01", "2020-02-02"], step=Step("months", Decimal(1)))
    assert parse(["2020-02-28"], step=Step("months", Decimal(1))).after(1) == ["2020-03-28"]
    assert parse(["2020-02-29"], step=Step("month_ends", Decimal(1))).after(1) == ["2020-03-31"]


def test_a_step_is_kept_as_it_is():
    for step in (HOUR, Step("number", Decimal("0.1")), Step("months", Decimal(3))):
        assert Step.from_dict(step.as_dict()) == step
    for table in ({"unit": "weeks", "length": "1"}, {"unit": "number", "length": "0"}):
        with pytest.raises(ValueError):
            Step.from_dict(table)
    assert clock.distance("2020-01-01 00:00", "2020-01-01 03:00", HOUR) == 3
