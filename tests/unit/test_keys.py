"""The reference of keys is what the Configs say, and the documentation is that reference."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from regard.recipe.parts import kinds
from regard.recipe.values import Count
from regard.verbs import keys

DOCS = Path(__file__).resolve().parents[2] / "docs" / "recipes.md"


@dataclass(frozen=True, kw_only=True)
class Example:
    """A made-up section."""

    size: Count = 3
    """How large."""
    name: str
    """What it is called,
    in two lines."""


def test_docstrings_below_fields_are_their_help():
    assert keys.attribute_docstrings(Example) == {
        "size": "How large.",
        "name": "What it is called,\nin two lines.",
    }


@pytest.mark.parametrize("task", kinds("tasks"))
def test_every_key_has_a_meaning(task):
    found = list(keys.sections(task))
    assert {"", "model", "train", "train.optimizer"} <= {section.header for section in found}
    silent = [f"{s.header}.{k.name}" for s in found for k in s.keys if not k.help]
    assert silent == []


def test_sections_inside_of_a_part_are_told_with_its_kind():
    found = {s.header: s for s in keys.sections("tag") if s.header == "model.input.characters"}
    spelling = found["model.input.characters"]
    assert [key.name for key in spelling.keys][:2] == ["by", "size"]
    text = keys.as_text(iter([spelling])).splitlines()[0]
    assert text == '[model.input.characters]    kind = "words" in [model.input]'
    markdown = '### `[model.input.characters]`, kind = "words" in `[model.input]`'
    assert markdown in keys.as_markdown("tag").splitlines()


def test_types_and_defaults_are_shown():
    sections = {(s.header, s.kind): {k.name: k for k in s.keys} for s in keys.sections("translate")}
    heads = sections["model.encoder", "transformer"]["heads"]
    assert (heads.wanted, heads.default) == ("an integer ≥ 1 and ≤ 1,024", "8")
    train = sections["data", ""]["train"]
    assert (train.wanted, train.default) == ("a list, each item a string", "")


@pytest.mark.usefixtures("task_defaults")
def test_the_documentation_is_current():
    assert DOCS.read_text(encoding="utf-8") == keys.document(), (
        "write it anew: python -m regard.verbs.keys > docs/recipes.md"
    )
