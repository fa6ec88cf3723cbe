"""Files that are examples: where they are, and what is said of those that cannot be read."""

import os
from pathlib import Path

import pytest

from regard.data import media
from regard.data.readers import Policy, Report
from regard.errors import UserError

SKIP = Policy(broken="skip")


def folder_of(tmp_path: Path, *names: str) -> Path:
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    return tmp_path


def test_folders_of_classes(tmp_path: Path):
    names = (
        "dog/2.png",
        "cat/b/1.png",
        "cat/a.png",
        "dog/.hidden",
        ".git/x",
        "dog/Thumbs.db",
        "LIST",
    )
    report = Report()
    found = [*media.labelled([folder_of(tmp_path, *names)], ("label", "image"), SKIP, report)]
    places = [(row.line, Path(row.value).relative_to(tmp_path).as_posix()) for row in found]
    assert places == [(1, "cat/a.png"), (2, "cat/b/1.png"), (3, "dog/2.png")]
    assert [row.labels for row in found] == [("cat",), ("cat",), ("dog",)]
    assert report.used == 3


def test_a_folder_without_classes_is_refused(tmp_path: Path):
    with pytest.raises(UserError, match="called by its label"):
        [*media.labelled([folder_of(tmp_path, "a.png")], ("label", "image"), SKIP, Report())]


def test_a_name_that_no_line_can_hold_is_reported(tmp_path: Path):
    folder_of(tmp_path, "a/1\n2.png", "a/3.png")
    report = Report()
    found = [*media.labelled([tmp_path], ("label", "image"), SKIP, report)]
    assert [row.line for row in found] == [2]
    assert [*report.counts] == ["the name has a control character U+000A"]


def test_a_cell_is_found_beside_its_table_or_in_the_folder(tmp_path: Path):
    folder_of(tmp_path, "tables/a.png", "data/b.png", "data/c.parquet")
    table, folder = tmp_path / "tables" / "x.tsv", str(tmp_path / "data")
    assert media.located("a.png", table, folder) == str(tmp_path / "tables/a.png")
    assert media.located(" b.png", table, folder) == str(tmp_path / "data/b.png")
    assert media.located("c.parquet#7", table, folder) == str(tmp_path / "data/c.parquet#7")
    assert media.located("missing", table, folder) == str(tmp_path / "tables/missing")


def test_a_sharp_in_a_name_is_a_sharp(tmp_path: Path):
    path = folder_of(tmp_path, "f#1") / "f#1"
    assert media.split(str(path)) == (path, None)
    assert media.split(str(tmp_path / "f#2")) == (tmp_path / "f", 2)


def test_defects_are_kinds_without_paths(tmp_path: Path):
    folder_of(tmp_path, "whole")
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "pipe")
    assert media.contents(str(tmp_path / "whole"), 5) == b"whole"
    for name, what in {
        "whole": "the file has more than 4 bytes",
        "empty": "the file is empty",
        "missing": "there is no such file",
        "pipe": "is not a regular file",
        ".": "is not a regular file",
        "\0": "there is no such file",
    }.items():
        with pytest.raises(ValueError, match=what):
            media.contents(str(tmp_path) + "/" + name, 4)


def test_a_folder_is_noticed_to_change(tmp_path: Path):
    before = media.stamp(folder_of(tmp_path, "a/1", "a/2"))
    (tmp_path / "a" / "2").write_bytes(b"other")
    assert media.stamp(tmp_path) != before


def test_parquet(tmp_path: Path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    cells = [{"bytes": bytes([n]), "path": None} for n in range(1, 6)]
    table = pyarrow.table({"image": cells, "label": [0, 1, 0, 1, 1]})
    about = '{"info": {"features": {"label": {"names": ["cat", "dog"]}}}}'
    table = table.replace_schema_metadata({"huggingface": about})
    path = tmp_path / "x.parquet"
    parquet.write_table(table, path, row_group_size=2)
    found = [*media.labelled([path], ("label", "image"), SKIP, Report())]
    assert [row.labels[0] for row in found] == ["cat", "dog", "cat", "dog", "dog"]
    assert [media.contents(row.value, 9, "image") for row in found] == [
        bytes([n]) for n in range(1, 6)
    ]
    with pytest.raises(ValueError, match="there is no row 5"):
        media.contents(f"{path}#5", 9, "image")
    with pytest.raises(UserError, match="no column “text”; there are: image, label"):
        [*media.labelled([path], ("label", "text"), SKIP, Report())]
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UserError, match="no whole file of Parquet"):
        [*media.labelled([path], ("label", "image"), SKIP, Report())]
