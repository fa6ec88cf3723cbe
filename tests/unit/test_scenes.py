"""Scenes of coloured shapes: all that is said of them is true, and parts share no pair."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from bench.attention_in_boxes import inside, named, scenes_of
from regard.data import catalogue, scenes
from regard.data.scenes import Scene, Thing
from regard.errors import UserError
from regard.recipe import config

LOW = Thing("blue", "square", "large", (30, 40, 52, 62))
HIGH = Thing("red", "circle", "small", (33, 5, 47, 19))
ASIDE = Thing("red", "circle", "small", (5, 5, 19, 19))


def test_all_true_captions():
    found = Scene((HIGH, LOW)).captions()
    sizes = [(small, large) for small in ("", "small ") for large in ("", "large ")]
    above = {f"a {small}red circle above a {large}blue square" for small, large in sizes}
    below = {f"a {large}blue square below a {small}red circle" for small, large in sizes}
    assert {*found} == above | below and len(found) == 8
    assert found[0] in (
        "a small red circle above a large blue square",
        "a large blue square below a small red circle",
    )
    both = Scene((ASIDE, LOW)).captions()
    assert len(both) == len({*both}) == 16
    assert {"a red circle above a blue square", "a red circle left of a blue square"} <= {*both}
    assert "a red circle right of a blue square" not in both
    assert Scene((HIGH,)).captions() == ["a small red circle", "a red circle"]


@pytest.mark.parametrize("relation", scenes.RELATIONS)
def test_a_relation_is_seen_from_both_sides(relation: str):
    for n in range(20):
        one, other = scenes.scene("train", np.random.default_rng(n)).things
        there = relation in scenes.relations(one, other)
        assert there == (scenes.RELATIONS[relation] in scenes.relations(other, one))


def test_pairs_are_in_one_part_and_every_kind_is_seen():
    parts = {part: {*map(frozenset, pairs)} for part, pairs in scenes.PAIRS.items()}
    assert sum(map(len, parts.values())) == 30 * 29 // 2
    assert not parts["train"] & parts["test"] and not parts["train"] & parts["validation"]
    assert min(map(len, parts.values())) > 40
    assert {kind for pair in parts["train"] for kind in pair} == {*scenes.KINDS}


def test_drawn_where_the_box_is():
    for shape in scenes.SHAPES:
        thing = Thing("black", shape, "large", (10, 20, 34, 44))
        picture = np.asarray(scenes.drawn(Scene((thing,)), np.random.default_rng(1)), float)
        dark = picture.mean(2) < 120
        rows, columns = np.flatnonzero(dark.any(1)), np.flatnonzero(dark.any(0))
        assert (abs(rows[[0, -1]] - [20, 43]) <= 2).all()
        assert (abs(columns[[0, -1]] - [10, 33]) <= 2).all()


def test_written_files_are_a_function_of_the_seed(tmp_path: Path):
    counts = {"train": 3, "validation": 2, "test": 4}
    for name in ("one", "two"):
        scenes.write(tmp_path / name, counts)
    one, two = (sorted(p for p in (tmp_path / n).rglob("*") if p.is_file()) for n in ("one", "two"))
    assert [p.read_bytes() for p in one] == [p.read_bytes() for p in two]
    assert Image.open(tmp_path / "one" / "test" / "0000.png").size == (64, 64)
    line = (tmp_path / "one" / "test.tsv").read_text().splitlines()[0]
    about = json.loads((tmp_path / "one" / "boxes.jsonl").read_text().splitlines()[0])
    assert about["image"] == "test/0000.png" == line.split("\t")[0]
    for thing in about["things"]:
        assert f"{thing['colour']} {thing['shape']}" in line
    prompts = (tmp_path / "one" / "prompts-colours.tsv").read_text().splitlines()
    assert prompts[0].split("\t")[:2] == ["red", "a red circle"]


def test_no_caption_is_true_of_another():
    found = [(str(n), each) for n, each in enumerate(scenes.examples("test", 60))]
    chosen = [example.scene.captions() for _, example in scenes.apart(found)]
    assert len(chosen) > 20
    for n, own in enumerate(chosen):
        assert all(own[0] not in other for m, other in enumerate(chosen) if m != n)


def test_the_share_inside_a_box():
    """A grid of 2 × 2 over 64 pixels: a box over the left half of the first cell has half of it."""
    weights = np.array([[0.5, 0.1], [0.2, 0.2]])
    assert inside(weights, (0, 0, 16, 32), 64) == pytest.approx(0.25)
    assert inside(weights, (0, 0, 64, 64), 64) == pytest.approx(1.0)
    assert inside(weights, (16, 16, 48, 48), 64) == pytest.approx(0.25)  # a quarter of each


def test_which_words_name_which_thing():
    things = [HIGH._asdict(), LOW._asdict()]
    words = ["a", "small", "red", "circle", "above", "a", "blue", "square"]
    assert [(words[n], thing["shape"]) for n, thing in named(words, things)] == [
        ("red", "circle"),
        ("circle", "circle"),
        ("blue", "square"),
        ("square", "square"),
    ]
    assert not [*named(["a", "green", "star"], things)]


def test_boxes_are_those_of_the_runs_own_scenes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """scenes-vit has learnt from 18,000 scenes; a set of another size need not be there."""
    monkeypatch.setattr(catalogue, "find", tmp_path.joinpath)

    def run(name: str, *changes: str) -> Any:
        return SimpleNamespace(recipe=config.load(Path(name), changes), folder=Path("runs/mine"))

    (tmp_path / "scenes-18000").mkdir()
    (tmp_path / "scenes-18000" / "boxes.jsonl").touch()
    assert scenes_of(run("scenes-vit")) == tmp_path / "scenes-18000"
    with pytest.raises(UserError, match="did not learn from scenes"):
        scenes_of(run("scenes-lstm"))
    own = str(tmp_path / "scenes-18000")
    assert scenes_of(run("scenes-lstm", 'data.set=""', f"data.folder={own}")) == Path(own)
