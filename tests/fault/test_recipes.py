"""Recipes at random: whatever stands in them, they are taken or refused in one line.

A case is a sound recipe of some task with a few keys changed, to values that are sound for that
key, or hostile, or anything at all. It comes as a file, as changes on the command line, or as a
table from Python. What is taken must come out of its own `recipe.toml` unchanged and have a model
that can be built, without memory, for vocabularies of the size that it asks for; its files and its
device are there, or refused as well.
"""

import datetime
import math
import time
import typing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import tomli_w
import torch
from hypothesis import HealthCheck, given, settings, strategies as st

from regard.data.files import PARTS
from regard.errors import RecipeError, UserError
from regard.model import build
from regard.recipe import config
from regard.recipe.config import Recipe
from regard.recipe.parts import kinds
from regard.recipe.values import Items, Range
from regard.train import device
from regard.types import Sizes
from tests import small_runs
from tests.fault.conftest import FULL, Tally
from tests.recipe_keys import Key, keys

pytestmark = pytest.mark.timeout(3600)
SECONDS = 15.0
"""Of processor time: more is a way to make a machine busy by a recipe."""
CASES = 20_000 if FULL else 200
TASKS = kinds("tasks")
KEYS = {task: list(keys(task)) for task in TASKS}
LONG = 10**5000
"""Python reads and writes no number of so many digits."""
NASTY: list[Any] = [
    0, -1, 1, 2, 255, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**64, 10**30,
    10**400, -(10**400), LONG, 0.0, -0.0, 5e-324, 1e-300, 0.1, 0.5, 1.0, 1e9, 1e300, math.inf,
    -math.inf, math.nan, True, False, "", " ", ".", "..", "/", "~", "~nosuchuser", "~nosuchuser/x",
    "a\0b", "\ud800", "x\udcff", "\x1b[2J", "a\nb", "\u202e", "x" * 300, "x" * 5000, "/" * 5000,
    "../" * 2000, "$(reboot)", "%s%n", "none", "auto", "²", "１２", "-1", "1e999", "cuda:9999999",
    [], [[]], [""], ["a", "a"], ["~nosuchuser"], ["\0"], [1, "a"], [2**70], [1] * 40, ["a"] * 1000,
    {}, {"": {}}, {"kind": "x"}, {"kind": 3}, {"kind": {}}, {"a b": 1}, datetime.date(1, 1, 1),
    datetime.time(0, 0), datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC),
]  # fmt: skip
TABLES_ALONE: list[Any] = [
    None,
    b"x",
    (1, 2),
    {1: 2},
    {None: 0},
    {3.5},
    object(),
    LONG,
    1j,
    range(3),
]
"""What only Python can put into a recipe."""
TEXTS = [
    "9" * 5000, "-" + "9" * 5000, "0x" + "f" * 5000, "[" * 5000, "{a=" * 3000, "[" * 99 + "]" * 99,
    "1e" + "9" * 400, "nan", "+inf", "1_0", "1__0", "0o7", "'''", '"""', "'", "#", "=", "a=b", "\0",
    "1979-05-27T07:32:00Z", "0000-00-00", "24:00:00", "true false", "{a.b.c=1}", "{x=1,x=2}",
    '"\\ud800"', '"\\u0000"', "\ud800", "1\nseed = 9", "1\r", "\t", "[1,]", "[,]", "~nosuchuser/x",
]  # fmt: skip
NAMES = [
    "", ".", "a..b", "1", "seed.x", "model", "data", "train", "task", "model.encoder", "search",
    "task.x", "é", "a b", "a\nb", "\0", "\ud800", "x" * 3000, ".".join("a" * 2000), "data.train[0]",
    "__class__", "model.__class__", "train.optimizer.kind", "model.head.kind", "data.set",
]  # fmt: skip


class Change(NamedTuple):
    """A key and its value; on the command line the value may be a text that is not even TOML."""

    key: str
    value: Any
    text: str | None = None


def sound(key: Key) -> st.SearchStrategy[Any]:
    """Values that the key by itself allows."""
    base, origin = key.base, typing.get_origin(key.base)
    ranges = [limit for limit in key.limits if isinstance(limit, Range)]
    low, high = (ranges[0].low, ranges[0].high) if ranges else (0, 100)
    if base is int:
        near = st.sampled_from([int(low), int(high), min(int(low) + 1, int(high)), 2, 3, 4, 8, 16])
        return near | st.integers(int(low), int(high))
    if base is float:
        return st.floats(low, high, allow_nan=False) | st.sampled_from([0.5, 0, 1])
    if base is bool:
        return st.booleans()
    if origin is typing.Literal:
        return st.sampled_from(typing.get_args(base))
    if origin is tuple:
        most = next((limit.most for limit in key.limits if isinstance(limit, Items)), 4)
        item = typing.get_args(base)[0]
        return st.lists(sound(Key("", item, {})), max_size=most)
    if key.name.endswith(".kind"):
        return st.sampled_from(KINDS)
    return st.sampled_from(WORDS) | st.text(max_size=5)


KINDS = sorted({
    kind
    for room in ("inputs", "encoders", "decoders", "heads", "search")
    for kind in kinds(room)
})  # fmt: skip
WORDS = [
    "text.source", "text.target", "labels.tsv", "tags.txt", "series.csv", "nll", "bleu", "cpu",
    "auto", "multi30k", "|", ",", "\t", "source", "y", "data.leaked",
]  # fmt: skip


@st.composite
def changes(draw: Any, task: str) -> list[Change]:
    found: list[Change] = []
    for _ in range(draw(st.integers(1, 4))):
        key = draw(st.sampled_from(KEYS[task]))
        found += [Change(name, kind) for name, kind in key.kinds.items()]
        how = draw(st.integers(0, 9))
        text = draw(st.sampled_from(TEXTS)) if how == 0 else None
        odd = draw(st.sampled_from(NAMES)) if how == 1 else None
        hostile = st.sampled_from(NASTY) | st.integers() | st.floats() | st.text()
        value = draw(sound(key) if how < 8 else hostile)
        found.append(Change(key.name if odd is None else odd, value, text))
    return found


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("recipes")
    return {task: small_runs.table(task, {}, folder) for task in TASKS}


def put(table: dict[str, Any], change: Change) -> None:
    """As somebody who writes the file or the table does."""
    *sections, last = change.key.split(".")
    inner: Any = table
    for section in sections:
        inner = inner.setdefault(section, {})
        if not isinstance(inner, dict):
            return
    inner[last] = change.value


def copied(table: Any) -> Any:
    return {k: copied(v) for k, v in table.items()} if isinstance(table, dict) else table


def by_table(base: dict[str, Any], found: list[Change], folder: Path) -> Recipe:
    table = copied(base)
    for change in found:
        put(table, change)
    return config.from_table(table)


def by_file(base: dict[str, Any], found: list[Change], folder: Path) -> Recipe:
    table = copied(base)
    for change in found:
        put(table, change)
    try:
        text = tomli_w.dumps(table)
    except (TypeError, ValueError, RecursionError):  # TOML as somebody may write it by hand
        text = "\n".join([*map(written, found), tomli_w.dumps(base)])
    path = folder / "recipe.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return config.load(path)


def by_override(base: dict[str, Any], found: list[Change], folder: Path) -> Recipe:
    return config.from_table(base, [written(change) for change in found])


def written(change: Change) -> str:
    if change.text is not None:
        return f"{change.key}={change.text}"
    try:
        return f"{change.key}={tomli_w.dumps({'x': change.value}).removeprefix('x = ').strip()}"
    except (TypeError, ValueError):  # of a number that is too long for Python
        return f"{change.key}={'9' * 5000}"


def refused_well(error: UserError) -> None:
    """In one line, of a length that can be read, with nothing in it that steers a terminal."""
    text = str(error)
    assert "\n" not in text and len(text) < 2000, text
    assert text.isprintable(), text


def sizes(recipe: Recipe) -> Sizes:
    """As large as the recipe wants its vocabularies."""
    tokens = getattr(recipe.task, "tokenizer", None)
    count = tokens.vocabulary if tokens else 8
    window = getattr(recipe.task, "window", None)
    source = {"tokens": count, "characters": 8, "variables": 8}
    source |= {"length": window.look_back, "steps": window.steps} if window else {}
    target = {"tokens": count, "outputs": 8 * window.steps if window else count}
    fields = {"source": source, "target": target}
    return Sizes(fields, reads="source", writes="target", shared=True)


def tried(load: Any, base: dict[str, Any], found: list[Change], folder: Path) -> str:
    """What became of a case."""
    try:
        recipe = load(base, found, folder)
    except UserError as error:
        refused_well(error)
        return "refused"
    again = folder / "again.toml"
    again.write_text(config.dump(recipe), encoding="utf-8")
    assert config.load(again) == recipe
    for step in (find_files, settle, build_model):
        try:
            with recipe.place.located():
                step(recipe)
        except RecipeError as error:
            refused_well(error)
    return "taken"


def settle(recipe: Recipe) -> None:
    device.check(recipe.train)
    device.settle(recipe.train)


def find_files(recipe: Recipe) -> None:
    data = recipe.task.data
    for part in PARTS:
        assert all(path.is_file() for path in (data.paths(part) if hasattr(data, "paths") else ()))
    if hasattr(data, "path") and hasattr(data, "file"):
        assert data.path.is_file()


def build_model(recipe: Recipe) -> None:
    with torch.device("meta"):
        build(recipe.model, sizes(recipe))


def test_recipes_at_random(bases: dict[str, Any], tmp_path: Path, tally: Tally):
    ends: dict[str, int] = {"taken": 0, "refused": 0}

    @settings(max_examples=CASES, deadline=None, derandomize=True, database=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(st.data())
    def check(data: st.DataObject) -> None:
        task = data.draw(st.sampled_from(TASKS))
        load = data.draw(st.sampled_from([by_file, by_override, by_table]))
        found = data.draw(changes(task))
        if load is by_table and data.draw(st.booleans()):
            found.append(Change(found[-1].key, data.draw(st.sampled_from(TABLES_ALONE))))
        start = time.process_time()
        ends[tried(load, bases[task], found, tmp_path)] += 1
        assert time.process_time() - start < SECONDS, "slow"

    check()
    # Or else the cases would say nothing of what is behind the first check.
    assert min(ends.values()) > 0.1 * CASES, ends
    tally("recipes at random: taken, or refused in one line", sum(ends.values()))


def test_any_text_as_a_recipe(bases: dict[str, Any], tmp_path: Path, tally: Tally):
    """Files and changes that nobody meant to be any."""
    path, count = tmp_path / "recipe.toml", 0
    lines = st.sampled_from(['task = "translate"\n', "[model]\n", "[data]\n", "seed = "])
    texts = st.lists(lines | st.sampled_from(TEXTS) | st.text(max_size=20), max_size=6)

    @settings(max_examples=CASES // 4, deadline=None, derandomize=True, database=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(texts.map("".join), st.lists(st.sampled_from(TEXTS) | st.text(max_size=30), max_size=2))
    def check(text: str, overrides: list[str]) -> None:
        nonlocal count
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        for recipe in (lambda: config.load(path), lambda: config.from_table({}, overrides)):
            with pytest.raises(UserError) as refused:
                recipe()
            refused_well(refused.value)
            count += 1

    check()
    tally("texts at random as recipes and changes: refused in one line", count)


@pytest.mark.parametrize("task", TASKS)
def test_every_number_has_limits(task: str):
    """Or else a slip of the pen, or somebody else's recipe, could ask for anything."""
    count = 0
    for key in KEYS[task]:
        hint, limits = key.base, key.limits
        while typing.get_origin(hint) is tuple:
            inner = Key(key.name, typing.get_args(hint)[0], {})
            hint, limits = inner.base, inner.limits
        if hint in (int, float) and key.name != "seed":
            (limit,) = (each for each in limits if isinstance(each, Range))
            assert limit.high <= 2**63 - 1 and limit.low >= 0, key.name
            count += 1
    assert count > 20
