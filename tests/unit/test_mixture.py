"""Several sources: what an epoch has of each, in which order, and how a recipe says so."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

import regard
from regard.data import batching, mixture
from regard.data.mixture import Mixture
from regard.data.store import Store
from regard.errors import RecipeError, UserError
from regard.front import create, prepared
from regard.recipe import config
from regard.runs import Run, encoding
from regard.types import Batch, Position


def test_weights_say_how_much_of_an_epoch_is_of_each_source():
    mixed = Mixture((90, 10), (1, 1))
    assert mixed.quotas == [50, 50]
    assert Mixture((90, 10), (3, 1)).quotas == [75, 25]
    assert Mixture((5, 5, 1), (1, 1, 1)).quotas == [4, 4, 3]  # 11 / 3, the first two rounded up
    order = mixed.order(1, 0)
    assert (order < 90).sum() == 50 and len({*order[order < 90].tolist()}) == 50
    assert Counter(order[order >= 90].tolist()) == dict.fromkeys(range(90, 100), 5)


@pytest.mark.parametrize(
    ("temperature", "wanted"), [(1, [0.9, 0.1]), (2, [0.75, 0.25]), (1e6, [0.5, 0.5])]
)
def test_a_temperature_brings_sizes_nearer(temperature: float, wanted: list[float]):
    """√0.9 : √0.1 is 3 : 1."""
    found = np.array(mixture.shares([90, 10], (), temperature))
    assert found / found.sum() == pytest.approx(wanted, abs=1e-5)


def test_no_example_comes_twice_before_all_of_its_source_came_once():
    mixed = Mixture((7, 3), (1, 4))  # 2 of the first and 8 of the second
    drawn = [mixed.order(5, epoch) for epoch in range(7)]
    first = np.concatenate([each[each < 7] for each in drawn])
    second = np.concatenate([each[each >= 7] for each in drawn])
    for source, size in ((first, 7), (second, 3)):
        for n in range(len(source) // size):
            assert len({*source[n * size : (n + 1) * size].tolist()}) == size
    assert not np.array_equal(drawn[0], mixed.order(6, 0))
    assert np.array_equal(drawn[3], Mixture((7, 3), (1, 4)).order(5, 3))


def test_batches_have_what_the_mixture_draws():
    def collate(ids: Any, draw: Any) -> Batch:
        return Batch(tensors={}, ids=tuple(ids), targets=len(ids))

    lengths = np.random.default_rng(1).integers(1, 20, (100, 2))
    mixed = Mixture((90, 10), (1, 1))
    batches = batching.Batches(lengths, collate, batching.Config(tokens=60), 3, mixed)
    for epoch in (0, 1, 2):
        ids = np.concatenate(batches.epoch(epoch))
        assert sorted(ids) == sorted(mixed.order(3, epoch))
    again = batching.Batches(lengths, collate, batching.Config(tokens=60), 3, mixed)
    place = Position(2, 1)  # at once, without what came before
    assert again.at(place).ids == batches.at(place).ids


# In a recipe


@pytest.fixture
def table(tmp_path: Path) -> dict[str, Any]:
    words = ["ka", "lo", "mi", "nu", "pe", "sol"]
    for name, count in {"a": 300, "b": 40}.items():
        for side in ("en", "de"):
            lines = (f"{name} {words[n % 6]} {words[n % 5]}" for n in range(count))
            (tmp_path / f"{name}.{side}").write_text("\n".join(lines) + "\n")
        pairs = (f"{name} {words[n % 6]}\t{words[n % 5]}" for n in range(count))
        (tmp_path / f"{name}.tsv").write_text("\n".join(pairs) + "\n")
    return {
        "task": "translate",
        "data": {
            "folder": str(tmp_path), "train": ["a.en", "a.de", "b.en", "b.de"], "weights": [1, 3],
            "max_length": 4,
        },
        "tokenizer": {"kind": "word", "vocabulary": 20},
        "batch": {"tokens": 100},
        "model": {"dim": 8, "encoder": {"layers": 1}, "decoder": {"layers": 1}},
        "train": {"updates": 4, "save_every": 2, "threads": 1},
    }  # fmt: skip


def made(table: dict[str, Any], to: Path, *changes: str) -> Run:
    return create(*prepared(table, changes, to), encoding.by_processes(1))[0]


@pytest.mark.parametrize("files", [["a.en", "a.de", "b.en", "b.de"], ["a.tsv", "b.tsv"]])
def test_sources_are_tables_or_pairs_of_files(
    files: list[str], table: dict[str, Any], tmp_path: Path
):
    table["data"]["train"] = files
    run = made(table, tmp_path / "run")
    assert Store(run.folder / "store", "sources")[0]["rows"].tolist() == [300, 40]
    ids = np.concatenate(run.task.batches(1).epoch(0))  # type: ignore[attr-defined]
    assert len(ids) == 340 and (ids >= 300).sum() == 255


def test_both_directions_and_long_lines_are_counted(table: dict[str, Any], tmp_path: Path):
    with (tmp_path / "a.en").open("a") as en, (tmp_path / "a.de").open("a") as de:
        print("ka lo mi nu pe", file=en)
        print("ka", file=de)
    run = made(table, tmp_path / "run", "pairs.both_directions=true")
    assert Store(run.folder / "store", "sources")[0]["rows"].tolist() == [600, 80]


def test_without_weights_every_example_comes_once(table: dict[str, Any], tmp_path: Path):
    del table["data"]["weights"]
    run = made(table, tmp_path / "run")
    ids = np.concatenate(run.task.batches(1).epoch(0))  # type: ignore[attr-defined]
    assert sorted(ids) == [*range(340)]
    assert not (run.folder / "store" / "sources.json").exists()


def test_a_run_that_mixes_resumes_exactly(table: dict[str, Any], tmp_path: Path):
    table["batch"] = {"tokens": 100, "sentences": 50}  # some 8 batches in an epoch
    table["train"] |= {"updates": 12, "log_every": 1}
    whole = regard.train(table, to=tmp_path / "whole")

    def stop(record: dict[str, Any]) -> None:
        if record.get("update") == 9:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        regard.train(table, to=tmp_path / "stopped", callback=stop)
    again = regard.train(resume=tmp_path / "stopped")
    a, b = (dict(each.model.named_parameters()) for each in (whole, again))
    assert all((a[name] == b[name]).all() for name in a)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["data.weights=[1,2,3]"], "data.weights: 3 for 2 sources"),
        (["data.weights=[1,0]"], "data.weights"),
        (["data.temperature=2"], "data.temperature: data.weights say how sources are mixed"),
        (["data.weights=[]", "data.temperature=0.5"], "data.temperature: 0.5 must be 0, or ≥ 1"),
        (['data.train=["a.tsv"]', "data.weights=[1]"], "data.weights: there is one source"),
        (['data.train=["a.tsv","b.en","b.de"]'], "data.train: wanted: tables"),
        (['data.train=["a.en","a.de","b.en"]'], "data.train: wanted: tables"),
    ],
)
def test_what_a_recipe_cannot_mix(changes: list[str], said: str, table: dict[str, Any]):
    with pytest.raises(RecipeError) as error:
        config.from_table(table, changes)
    assert said in str(error.value)


def test_running_text_is_not_mixed(table: dict[str, Any], tmp_path: Path):
    path = tmp_path / "lm.toml"
    path.write_text(
        tomli_w.dumps(
            {"task": "language_model", "data": {"train": ["a.en", "b.en"], "temperature": 5.0}}
        )
    )
    with pytest.raises(RecipeError, match=r"data\.temperature: running text is read as it stands"):
        config.load(path)
    found = config.load(path, ['unit="line"'])
    assert found.task.data.mixed == "temperature"


def test_a_forged_count_is_refused(table: dict[str, Any], tmp_path: Path):
    run = made(table, tmp_path / "run")
    for path in (run.folder / "store").glob("sources*"):
        path.unlink()
    mixture.keep(run.folder / "store", [300, 41])
    with pytest.raises(UserError, match="does not say of which source"):
        run.task.batches(1)
