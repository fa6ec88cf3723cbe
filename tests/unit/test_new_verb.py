"""What `regard new` says of time, and names that it cannot write down."""

import os
from pathlib import Path

import numpy as np
import pytest

from regard import cli
from regard.checks.findings import Finding
from regard.errors import UserError
from regard.starting import Asked, Draft, Key, Section, forecast, tag
from regard.verbs.starting import _in_an_hour


def shortened(epochs: int, hours: float) -> tuple[int, str]:
    """The epochs of the recipe, and what is said of its time."""
    draft = Draft("texts", {}, [], [Section("train", (Key("epochs", epochs),))])
    cost = Finding("note", "cost.time", "train", "as it was", value=3600 * hours)
    made, [said] = _in_an_hour(draft, [cost])
    return made.sections[0].keys[0].value, said.what


def test_a_recipe_takes_an_hour_or_says_how_much_longer():
    assert shortened(8, 0.5) == (8, "as it was")
    says = "the 8 epochs that would suit the data take 4.0 hours"
    assert shortened(8, 4.0) == (2, f"about an hour; {says}")
    assert shortened(3, 12.0)[1].startswith("about 4.0 hours; the 3 epochs")
    assert shortened(1, 5.0) == (1, "as it was")


def test_conllu_of_two_columns_is_refused_by_name(tmp_path: Path):
    path = tmp_path / "a.conllu"
    path.write_text("# text\n1\ta\n")
    with pytest.raises(UserError, match=r"a\.conllu: CoNLL-U has 10 columns, not 2"):
        tag.look(Asked((path,)), tmp_path)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_series_without_changes_has_no_season(rows: int):
    assert forecast.season(np.ones((rows, 2)), None) == 0


def test_a_name_that_no_recipe_can_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    name = os.fsdecode(os.fsencode(tmp_path) + b"/a\xff.csv")
    try:
        Path(name).write_text("label,text\ngood,fine day\nbad,no day\n")
    except OSError:
        pytest.skip("files of this system have names in UTF-8")
    with pytest.raises(SystemExit):
        cli.main(["new", "classify", name, "--quick", "--to", str(tmp_path / "x.toml")])
    assert "no recipe can hold this name" in capsys.readouterr().err
    assert not (tmp_path / "x.toml").exists()
