"""The reference of keys is what the Configs say, and the documentation is that reference."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from regard.errors import RecipeError
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


def named(found: list[keys.Section]) -> list[str]:
    return [f"{section.header}.{key.name}" for section in found for key in section.keys]


def test_a_kinds_section_says_what_the_kind_is():
    encoders = [s for s in keys.sections("tag") if s.header == "model.encoder" and s.kind]
    about = {section.kind: section.keys[0].help for section in encoders}
    assert about.keys() == {*kinds("encoders")}
    assert about["rnn"].startswith("rnn: recurrent layers (LSTM, GRU")
    assert about["bag"].startswith("bag: positions know nothing of each other")
    assert not [text for text in about.values() if "describes" in text]


def test_further_lines_are_indented():
    key = keys.Key("size", "an integer", "3", "How large it is,\nin all directions.")
    text = keys.as_text([keys.Section("data", "", "", [key])], width=40)
    assert text.splitlines() == [
        "[data]",
        "  size           How large it is, in all",
        "                 directions.",
        "                 (an integer, default 3)",
    ]


def test_words_are_searched_for_in_names_before_meanings():
    found = keys.asked(["warm-up"])
    assert named(found) == ["train.schedule.warmup"]
    assert found[0].tasks == ()  # all of them have it
    assert named(keys.asked(["tag", "lr"])) == ["train.optimizer.learning_rate"]
    assert named(keys.asked(["translate", "hypotheses", "followed"])) == ["search.beams"]
    beams, paths = keys.asked(["beams"])
    writing = ("caption", "language_model", "transcribe", "translate")
    assert (beams.kind, beams.tasks, paths.kind) == ("beam", writing, "ctc")
    assert keys.as_text([beams]).startswith(
        '[search]    kind = "beam"    (caption, language_model, transcribe, translate)'
    )
    assert {section.header for section in keys.asked(["classify"])} >= {"data", "train"}


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["wamup"], "did you mean 'warmup'?"),
        (["translat"], "did you mean 'translate'?"),
        (["tag", "quantum"], "no key of tag has 'quantum' in its name or meaning"),
    ],
)
def test_a_search_in_vain(words: list[str], hint: str):
    with pytest.raises(RecipeError, match=hint.replace("?", r"\?")):
        keys.asked(words)


@pytest.mark.usefixtures("task_defaults")
def test_defaults_are_those_of_the_task_and_of_the_kind(monkeypatch: pytest.MonkeyPatch):
    table = {
        "all": {"train": {"clip": 2.0}, "model": {"encoder": {"kind": "bag", "dropout": 0.2}}},
        "rnn": {"train": {"clip": 3.0}, "model": {"encoder": {"layers": 7}}},
    }
    monkeypatch.setattr("regard.recipe.defaults.of", lambda task: table)
    found = {(s.header, s.kind): {k.name: k for k in s.keys} for s in keys.of_task("tag")}
    assert found["train", ""]["clip"].default == "2 (rnn: 3)"
    assert found["model.encoder", "bag"]["dropout"].default == "0.2"
    assert found["model.encoder", "bag"]["kind"].default == '"bag"'
    assert found["model.encoder", "rnn"]["layers"].default == "7"
    assert found["model.encoder", "rnn"]["dropout"].default == "0.1"


@pytest.mark.usefixtures("task_defaults")
def test_the_documentation_is_current():
    assert DOCS.read_text(encoding="utf-8") == keys.document(), (
        "write it anew: python -m regard.verbs.keys > docs/recipes.md"
    )
