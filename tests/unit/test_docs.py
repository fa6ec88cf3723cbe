"""What the documents say can be done: commands parse, keys and files exist, snippets compile, links
lead somewhere, and the same figure is the same figure wherever it stands."""

import ast
import functools
import importlib
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import regard
from regard import cli
from regard.data import catalogue
from regard.recipe import config
from regard.recipe.model_section import SEVERAL
from regard.recipe.parts import kinds
from regard.verbs import keys

PROJECT = Path(__file__).resolve().parents[2]
DOCUMENTS = [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))]
RECIPES = sorted((PROJECT / "recipes").glob("*.toml"))
UNTRAINED = {
    path.stem
    for path in RECIPES
    if re.search(r"Not trained (by us|to its end yet)", path.read_text(encoding="utf-8"))
}
NAMES = {path.stem for path in RECIPES}


def prose(path: Path) -> str:
    """A document, or of a recipe the comment at its top."""
    if path.suffix == ".toml":
        return "\n".join(line.removeprefix("#") for line in header(path).splitlines())
    return path.read_text(encoding="utf-8")


def header(path: Path) -> str:
    lines = path.read_text(encoding="utf-8").splitlines()
    end = next(n for n, line in enumerate(lines) if not line.startswith("#"))
    return "\n".join(lines[:end])


# Commands


class Command(NamedTuple):
    place: str
    words: list[str]


def commands(path: Path, text: str) -> Iterator[Command]:
    """Each `regard …` of the blocks of code, and of the lines of prose if it has arguments."""
    joined = text.replace("\\\n", " ")
    for line in joined.splitlines():
        inline = re.findall(r"`([^`]*regard [^`]*)`", line)
        block = [line] if re.match(r" {2,}|regard |\.venv", line) and not inline else []
        for each in block or inline:
            if re.search(r"(^|[ |/])regard [a-z]", each) and "…" not in each:
                found = (Command(f"{path.name}: {each.strip()}", words) for words in calls(each))
                yield from (c for c in found if block or len(c.words) > 1)


def calls(line: str) -> Iterator[list[str]]:
    """What follows `regard` in each command of a line of shell."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&<>;")
    lexer.commenters = "#"
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if set(word) <= set("|&<>;"):
            if words and words[0].rpartition("/")[2] == "regard":
                yield words[1:]
            words = [] if word not in (">", "<") else ["file"]
        else:
            words.append(word)


FOUND = [
    *(command for path in (*DOCUMENTS, *RECIPES) for command in commands(path, prose(path))),
    *(
        command
        for verb in cli.VERBS.values()
        for command in commands(Path("help"), (verb.__doc__ or "").partition("Args:")[0])
    ),
]


@pytest.fixture
def parse(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], dict[str, Any]]:
    """What the verb of a command would be given; it is not called."""
    given: list[dict[str, Any]] = []

    def stub(verb: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(verb)
        def take(*arguments: Any, **options: Any) -> None:
            assert not arguments
            given.append(options)

        return take

    monkeypatch.setattr(cli, "VERBS", {name: stub(verb) for name, verb in cli.VERBS.items()})

    def run(words: list[str]) -> dict[str, Any]:
        cli._run(list(words))
        return given.pop()

    return run


def test_the_commands_are_found():
    verbs = {command.words[0] for command in FOUND}
    assert verbs >= cli.VERBS.keys()
    assert len(FOUND) > 100
    assert list(calls('echo "a | b" | regard predict runs/mine --beams 10 > out.txt  # so')) == [
        ["predict", "runs/mine", "--beams", "10"]
    ]
    both = "regard train x && regard evaluate runs/x"
    assert list(calls(both)) == [["train", "x"], ["evaluate", "runs/x"]]


def test_every_command_parses(parse: Any, capsys: pytest.CaptureFixture[str]):
    wrong = []
    for command in FOUND:
        try:
            parse(command.words)
        except SystemExit:
            wrong.append(f"{command.place}\n{capsys.readouterr().err}")
    assert not wrong, "\n".join(wrong)


def test_recipes_data_sets_and_keys_of_commands_exist(parse: Any):
    mine = tomllib.loads(blocks(PROJECT / "README.md", "toml")[0])
    for command in FOUND:
        given = parse(command.words)
        verb, recipe = command.words[0], given.get("recipe")
        # A run to read by is nobody's before it is trained.
        changes = list(given.get("overrides", ()))
        changes = [each for each in changes if not each.startswith("model.input.weights=runs/")]
        if verb in ("train", "doctor") and recipe is not None:
            if recipe.suffix == ".toml" or recipe.name == "RECIPE":
                # A forecast's recipe, where its keys are spoken of.
                series = any(change.startswith("window.") for change in changes)
                loaded = config.load(Path("etth1-linear"), changes) if series else None
                assert loaded or config.from_table(mine, changes), command.place
            else:
                assert config.load(recipe, changes), command.place
        if verb == "data" and given["name"] is not None:
            assert given["name"] in catalogue.names(), command.place
        if verb == "keys":
            words = [word for word in given["words"] if word not in ("TASK", "WORD")]
            assert keys.asked(words), command.place


def test_benchmarks_and_targets_of_make_exist():
    from bench.__main__ import BENCHMARKS

    targets = set(re.findall(r"^(\w+):", (PROJECT / "Makefile").read_text("utf-8"), re.M))
    texts = {path.name: prose(path) for path in (*DOCUMENTS, *RECIPES)}
    benches = {(n, b) for n, t in texts.items() for b in re.findall(r"-m bench (\w+)", t)}
    made = {(n, m) for n, t in texts.items() for m in re.findall(r"(?:`| {4})make (\w+)", t)}
    assert benches and {bench for _, bench in benches} <= BENCHMARKS.keys(), benches
    assert made and {target for _, target in made} <= targets, made


# Snippets


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(encoding="utf-8"), re.M | re.S)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_python_of_the_documents(path: Path):
    """It compiles; what it imports is there; of `regard` and of a Predictor it uses what they
    have."""
    for text in blocks(path, "python"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom):
                module = importlib.import_module(node.module or "")
                for name in node.names:
                    assert hasattr(module, name.name), f"{path.name}: {name.name}"
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                owner = {"regard": regard, "predictor": regard.Predictor, "model": None}
                if (known := owner.get(node.value.id)) is not None and node.attr not in OWN:
                    assert hasattr(known, node.attr), f"{path.name}: {ast.unparse(node)}"


OWN = {"model", "run", "task"}
"""What a Predictor has from its constructor."""


def test_toml_of_the_documents():
    recipe, decoder = (
        tomllib.loads(blocks(PROJECT / name, "toml")[0])
        for name in ("README.md", "docs/recurrent.md")
    )
    assert config.from_table(recipe).kind == "translate"
    base = tomllib.loads((PROJECT / "recipes" / "multi30k-en-de-lstm.toml").read_text("utf-8"))
    base["model"]["decoder"] |= decoder["model"]["decoder"]
    assert config.from_table(base).model.decoder.config.attention == "additive"


# Keys and files


def known_keys() -> dict[str, set[str]]:
    """Every dotted key, and its defaults (the same key may be in several kinds and tasks)."""
    found: dict[str, set[str]] = {}
    for task in kinds("tasks"):
        for section in keys.sections(task):
            for key in section.keys:
                name = f"{section.header}.{key.name}".lstrip(".")
                found.setdefault(name, set()).add(key.default)
    return found


KEYS = known_keys()
SECTIONS = {name.rpartition(".")[0] for name in KEYS} | {f"model.{name}" for name in SEVERAL}
HEADS = {section.partition(".")[0] for section in SECTIONS} - {""}
SPOKEN = re.compile(r"\b[a-z_]+(?:\.[a-z_]+)+\b(?!\()")
ENDINGS = {
    "onnx",
    "bin",
    "py",
    "md",
    "toml",
    "json",
    "jsonl",
    "txt",
    "html",
    "png",
    "svg",
    "csv",
    "tsv",
    "en",
    "de",
}
"""What ends so is a file."""
ROOMS = {"train.loop"}


def spoken(text: str) -> set[str]:
    """The dotted keys of a recipe, wherever they stand."""
    found = set(SPOKEN.findall(re.sub(r"^```python\n.*?^```", "", text, flags=re.M | re.S))) - ROOMS
    return {n for n in found if n.split(".")[0] in HEADS and n.split(".")[-1] not in ENDINGS}


def test_every_key_that_is_spoken_of_exists():
    from regard.checks.findings import KINDS
    from regard.recipe import upgrade

    unknown = []
    for path in (*DOCUMENTS, *RECIPES):
        if path.name == "recipes.md":
            continue
        for name in spoken(prose(path)):
            old = path.name == "glossary.md" and upgrade.hint(name)  # it has both names
            if name not in KEYS and name not in SECTIONS and name not in KINDS and not old:
                unknown.append(f"{path.name}: {name}")
    assert not unknown, "\n".join(unknown)


def test_every_key_of_a_shipped_recipe_is_explained():
    for path in RECIPES:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        assert _flat(table) <= KEYS.keys(), path.name


def _flat(table: dict[str, Any], prefix: str = "") -> set[str]:
    found = set()
    for key, value in table.items():
        inner = _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}"}
        found |= inner
    return found


def test_values_in_the_table_of_numbers_are_the_defaults():
    text = (PROJECT / "docs" / "never-lose-a-run.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `(train\.\w+) = ([\w.]+)` \|", text, re.M))
    assert told.keys() == {"train.max_nonfinite", "train.max_rollbacks", "train.rollback_factor"}
    assert {name: KEYS[name] for name in told} == {name: {value} for name, value in told.items()}


FILE = re.compile(r"`((?:[\w-]+/)*[\w-]+\.(?:py|js|css))`")


WRITTEN = {"utils.py", "mine.py", "run.py"}
"""Programs that nobody should write, that a user writes, and that an export has."""


def test_every_program_that_is_named_exists():
    missing = []
    for path in DOCUMENTS:
        for name in FILE.findall(path.read_text(encoding="utf-8")):
            places = [PROJECT / name, PROJECT / "regard" / name]
            if not any(place.is_file() for place in places) and name not in WRITTEN:
                missing.append(f"{path.name}: {name}")
    assert not missing, "\n".join(missing)


def test_every_link_leads_somewhere():
    wrong = []
    for path in (*DOCUMENTS, PROJECT / "CHANGELOG.md"):
        text = path.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if target.startswith("https://"):
                continue
            name, _, anchor = target.partition("#")
            other = path.parent / name if name else path
            titles = anchors(other) if anchor and other.suffix == ".md" else {anchor}
            if not other.is_file() or anchor not in titles:
                wrong.append(f"{path.name}: {target}")
    assert not wrong, "\n".join(wrong)


def anchors(path: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in titles}


# Rooms


def test_the_table_of_rooms_is_the_tree():
    """Every file of the package stands in its room's lines, and no other name does."""
    text = (PROJECT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = re.search(r"^    regard/\n(.*?)^    recipes/", text, re.M | re.S)
    assert table
    rooms: dict[str, str] = {}
    room = ""
    for line in table[1].splitlines():
        if name := re.match(r" {6}(?:(\w+/)|\w+\.py) ", line):
            room = name[1] or ""
        rooms[room] = rooms.get(room, "") + line[22:] + "\n"
        rooms[""] = rooms.get("", "") + line + "\n"
    package = PROJECT / "regard"
    for folder in sorted(path for path in package.iterdir() if (path / "__init__.py").is_file()):
        stems = {f.stem for f in folder.glob("*.py")} - {"__init__"}
        named = set(re.findall(r"\w+", rooms[f"{folder.name}/"]))
        assert stems <= named, folder.name
        assert {name for name in named if "_" in name} <= stems, folder.name
    root = {f.name for f in package.glob("*.py")} - {"__main__.py"}
    assert not {name for name in root if name not in rooms[""]}
    assert set(re.findall(r"\b\w+\.py\b", rooms[""])) <= root


def test_each_hop_of_the_data_is_a_function_of_its_files():
    text = (PROJECT / "docs" / "architecture.md").read_text(encoding="utf-8")
    way = text.partition("## The way of the data")[2].partition("**To add a part**")[0]
    hops = re.findall(r"^\| [^|]+ \| ([^|]+\.py`) \| ([^|]+) \|$", way, re.M)
    assert len(hops) > 15
    for files, functions in hops:
        defined: set[str] = set()
        for name in re.findall(r"`([\w/]+\.py)`", files):
            path = PROJECT / "regard" / name
            source = path.read_text(encoding="utf-8")
            defined |= {path.stem, *re.findall(r"^ *(?:def|class) (\w+)", source, re.M)}
        asked = set(re.findall(r"\w+", functions))
        assert asked <= defined, f"{files}: {asked - defined}"


# Figures


@pytest.mark.parametrize(
    "path", [p for p in RECIPES if p.stem not in UNTRAINED], ids=lambda path: path.stem
)
def test_a_recipe_says_how_its_score_came_about(path: Path):
    text = " ".join(header(path).replace("#", " ").split())
    for what, pattern in {
        "command": r"regard (train|demo)",
        "processor": r"AMD EPYC",
        "its features": r"AVX-512 and bfloat16",
        "cores or threads": r"(one|two) (core|thread)",
        "precision": r"train\.precision",
        "updates": r"[\d,]+ updates",
        "time": r"[\d,]+ s of processor time",
        "signature": r"\w+:[\w.-]+\|\w+:",
        "seed": r"[Ss]eed 1",
    }.items():
        assert re.search(pattern, text), what


def rows(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a document's tables, by the names of their columns."""
    names: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            names = []
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not names:
            names = cells
        elif not set(line) <= set("|-"):
            yield dict(zip(names, cells, strict=True))


def test_results_are_those_of_the_headers():
    """Every figure of a recipe's row is one of those at the top of its file."""
    seen = set()
    for row in rows(PROJECT / "docs" / "results.md"):
        first = next(iter(row.values()))
        name = re.match(r"`([\w-]+)`", first)
        if not name or name[1] not in NAMES:
            continue
        seen.add(name[1])
        text = header(PROJECT / "recipes" / f"{name[1]}.toml")
        for column, cell in row.items():
            if column != "elsewhere":
                for figure in re.findall(r"\d+(?:[.,]\d+)+", cell):
                    assert figure in text, f"{name[1]}, {column}: {figure}"
    assert seen == NAMES - UNTRAINED - {"phrasebook"}
