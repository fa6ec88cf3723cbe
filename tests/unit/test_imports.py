"""Imports point one way, and the front door stays light."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "regard"

# Each room (a file or folder of the package; "regard" is its __init__) and what it stands on.
# A room may import these, itself, and whatever these stand on in turn. A module that serves rooms
# below its own stands by itself.
FOUNDATIONS = {
    "errors": "",
    "console": "errors",
    "recipe.values": "errors",
    "recipe.checked": "",
    "recipe": "console recipe.values recipe.checked",
    "types": "errors recipe.values",
    "layers.allocator": "",
    "layers.draws": "",
    "layers.recompute": "layers.draws",
    "layers.native": "layers",
    "layers": "types layers.allocator layers.draws layers.recompute",
    "inputs": "layers recipe",
    "encoders": "layers",
    "decoders": "layers",
    "heads": "layers",
    "starting": "data recipe",
    "tuning": "recipe layers",
    "model": "recipe inputs encoders decoders heads tuning",
    "data": "types recipe.checked",
    "decoding.choices": "errors",
    "search": "types decoding.choices",
    "checks": "data",
    "fields": "checks recipe",
    "examples": "fields",
    "decoding": "model search examples metrics inspect.reading",
    "metrics": "types",
    "plots": "metrics",
    "train.health": "",
    "inspect.beam": "search",
    "inspect.reading": "model data search inspect.beam",
    "tasks": "decoding plots train.health inspect.reading",
    "train": "types recipe.checked train.health layers.allocator layers.draws layers.native "
    "layers.recompute",
    "runs": "tasks train",
    "inspect": "runs",
    "word2vec": "console data plots train",
    "interop": "runs",
    "serve": "front inspect",
    "doctor": "runs",
    "plan": "runs plots",
    "front": "doctor interop",
    "sweep": "front plots",
    "tabular": "front",
    "evaluated": "front",
    "compare": "evaluated inspect",
    "verbs": "compare tabular serve starting word2vec plan sweep",
    "door": "verbs",
    "regard": "door",
    "cli": "verbs",
    "__main__": "cli",
}
# Names of the package itself that anybody may ask for.
PUBLIC = {"regard.__version__"}
# Imports inside a function run when it is called; these rooms may look up that way only.
DEFERRED = {"recipe": "model data tasks train layers"}

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Import(NamedTuple):
    name: str
    line: int
    deferred: bool


def room(name: str) -> str:
    """`regard.layers.attention` → `layers`; a name of the package itself → `regard`."""
    if (module := ".".join(name.split(".")[1:3])) in FOUNDATIONS:
        return module
    first = name.split(".")[1] if "." in name else "regard"
    return first if first in FOUNDATIONS or exists(first) else "regard"


def exists(first: str) -> bool:
    return (PACKAGE / first).is_dir() or (PACKAGE / f"{first}.py").is_file()


def below(name: str) -> set[str]:
    """The rooms that `name` stands on, directly or not; what a single module does is its own."""
    direct = set(FOUNDATIONS.get(name, "").split())
    return direct.union(*(below(other) for other in direct if "." not in other))


def imports(source: str, package: str) -> Iterator[Import]:
    """Every import of regard in a module of `package`, at its top and inside its functions."""
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, FUNCTIONS)]
    inner = {id(node) for function in functions for node in ast.walk(function)}
    for node in ast.walk(tree):
        for name in imported(node, package):
            if name.split(".")[0] == "regard":
                yield Import(name, getattr(node, "lineno", 0), id(node) in inner)


def imported(node: ast.AST, package: str) -> list[str]:
    """The dotted names that one statement imports; relative ones are made absolute."""
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=module, names=names, level=level):
            parts = package.split(".")
            base = parts[: len(parts) - level + 1] if level else []
            stem = ".".join([*base, *([module] if module else [])])
            return [f"{stem}.{alias.name}" for alias in names]
    return []


def violations(source: str, module: str, package: str) -> list[str]:
    """What in the source of `module` points the wrong way, one sentence each."""
    home = room(module)
    allowed = below(home) | {home}
    later = set(DEFERRED.get(home, "").split())
    return [
        f"{module}, line {found.line}: {home} must not import {found.name}"
        + (" (not even inside a function)" if found.deferred else "")
        for found in imports(source, package)
        if room(found.name) not in (allowed | later if found.deferred else allowed)
        and found.name not in PUBLIC
    ]


def modules() -> Iterator[tuple[str, str, str]]:
    """(source, dotted name, package for relative imports) of each file of regard."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = ["regard", *path.relative_to(PACKAGE).with_suffix("").parts]
        package = ".".join(parts[:-1])
        name = package if parts[-1] == "__init__" else ".".join(parts)
        yield path.read_text(encoding="utf-8"), name, package


def test_every_room_is_in_the_table():
    rooms = {room(name) for _, name, _ in modules()}
    assert rooms, "no module found"
    assert rooms <= FOUNDATIONS.keys(), "say in FOUNDATIONS what the new room stands on"


def test_the_root_stays_small():
    assert len(list(PACKAGE.glob("*.py"))) <= 10, "a module belongs into a room"


def test_the_table_has_no_cycle():
    order = TopologicalSorter({name: under.split() for name, under in FOUNDATIONS.items()})
    assert set(order.static_order()) == FOUNDATIONS.keys()


def test_imports_point_one_way():
    wrong = [sentence for module in modules() for sentence in violations(*module)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("module", "source", "count"),
    [
        ("regard.search.beam", "from regard.types import DecoderState", 0),
        ("regard.search.beam", "from regard.decoders.rnn import RNN", 1),
        ("regard.search.beam", "from regard import decoders, types", 1),
        ("regard.search.beam", "from ..decoders import rnn", 1),
        ("regard.search.beam", "from .greedy import best", 0),
        ("regard.search.beam", "import torch, regard.model", 1),
        ("regard.search.beam", "def f():\n    import regard.model", 1),
        ("regard.search.beam", "from regard import __version__", 0),
        ("regard.search.beam", "from regard import load", 1),
        ("regard.train.loop", "from regard.layers.allocator import keep", 0),
        ("regard.train.loop", "from regard.layers.attention import attend", 1),
        ("regard.encoders.rnn", "from regard.recipe.config import Recipe", 1),
        ("regard.encoders.rnn", "from regard.decoders.rnn import Config", 1),
        ("regard.recipe.config", "def f():\n    from regard.model import Config", 0),
        ("regard.recipe.config", "from regard.model import Config", 1),
        ("regard.runs", "from regard.layers.probe import probe", 0),
        ("regard.cli", "import regard.interop.ctranslate2", 0),
    ],
)
def test_the_reader_of_imports_sees_what_it_should(module: str, source: str, count: int):
    assert len(violations(source, module, module.rpartition(".")[0])) == count


@pytest.mark.parametrize("module", ["regard", "regard.cli"])
def test_the_front_door_does_not_import_torch(module: str):
    heavy = "{'torch', 'matplotlib', 'tokenizers'} & sys.modules.keys()"
    command = [sys.executable, "-c", f"import sys, {module}; print(sorted({heavy}))"]
    run = subprocess.run(command, cwd=PACKAGE.parent, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "[]"
