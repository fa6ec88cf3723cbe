"""Pictures that are classified: every form of data, every verb, and what is broken."""

import gzip
import itertools
import json
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard import cli, front
from regard.data.batching import Draw
from regard.doctor import examination
from regard.errors import RecipeError, UserError
from regard.inspect import report
from regard.inspect.images import rollout
from regard.recipe import config
from regard.runs import Run
from regard.types import Position

COUNT = {"train": 48, "test": 12}


def pixels(label: int, dice: np.random.Generator) -> Any:
    """12 × 12: bright rows, or bright columns, three by three."""
    found = dice.integers(0, 90, (12, 12), np.uint8)
    bright = np.arange(12) % 6 < 3
    found += np.where(bright[:, None] if label == 0 else bright, 120, 0).astype(np.uint8)
    return found


def png(array: Any) -> bytes:
    with BytesIO() as file:
        Image.fromarray(array).save(file, "PNG")
        return file.getvalue()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """train/across/0.png …"""
    dice = np.random.default_rng(1)
    for part, count in COUNT.items():
        for n in range(count):
            place = tmp_path / part / ("across", "down")[n % 2]
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{n:03}.png").write_bytes(png(pixels(n % 2, dice)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def recipe(**changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "task": "classify",
        "data": {"train": ["train"], "test": ["test"]},
        "held_out": {"validation": 0.2, "stratified": True},
        "source": {"kind": "image", "size": [12], "channels": 1},
        "batch": {"sentences": 16},
        "model": {
            "dim": 16,
            "input": {"kind": "patches", "patch": 6},
            "encoder": {"kind": "transformer", "layers": 1, "heads": 2, "feedforward": 16},
        },
        "train": {"updates": 40, "validate_every": 20, "save_every": 10, "threads": 1},
    }
    made["train"] |= {"optimizer": {"learning_rate": 0.01}, "schedule": {"warmup": 2}}
    for key, value in changes.items():
        made[key] = made.get(key, {}) | value if isinstance(value, dict) else value
    return made


def weights(run: str) -> bytes:
    return Path(run, "model", "model.safetensors").read_bytes()


def test_a_folder_of_classes(folder: Path, capsys: pytest.CaptureFixture[str]):
    made = regard.train(recipe(source={"augment": {"shift": 0.1, "brightness": 0.1}}), to="run")
    assert made.evaluate("test")[0]["accuracy"].value > 90
    places = sorted(str(p) for p in Path("test").rglob("*.png"))
    assert {*made.predict(places)} == {"across", "down"}
    with Image.open(places[0]) as image:
        whole = [places[0], Path(places[0]), image, np.asarray(image)]
        assert len({*made.predict(whole)}) == 1
    with pytest.raises(UserError, match=r"inputs\[0\]: this array is no picture"):
        made.predict([np.zeros((2, 2), np.complex64)])
    assert made.score(places[:1], ["across"])[0]["log_prob"] <= 0
    Path("list.txt").write_text("test/across/000.png\n\ntest/down/001.png\n")
    for words, wanted in {
        "test/across/000.png": "across\n",
        "test/across": "".join(f"test/across/{n:03}.png\tacross\n" for n in range(0, 12, 2)),
        "list.txt": "across\n\ndown\n",
    }.items():
        capsys.readouterr()
        cli.main(["predict", "run", words])
        assert capsys.readouterr().out == wanted
    cli.main(["inspect", "run", "test/across/000.png", "--output", "page.html"])
    reading = looked(made.run)
    assert reading["source"] == ["[CLASS]", "1,1", "1,2", "2,1", "2,2"]
    shown = reading["picture"]
    assert shown["image"].startswith("data:image/png;base64,")
    names = ["attribution of across", "attention rollout", "attention, layer 1"]
    assert [each["name"] for each in shown["maps"]] == names
    assert all(each["values"]["shape"] == [2, 2] for each in shown["maps"])
    assert shown["filters"]["shape"] == [16, 6, 6]


def looked(run: Run) -> dict[str, Any]:
    """All that a page shows of a picture."""
    found: dict[str, Any] = report.build([run], ["test/across/000.png"]).runs[0]
    reading: dict[str, Any] = found["frames"][0]["readings"][0]
    return reading


def test_what_comes_from_where_through_all_layers():
    still = torch.eye(3)
    assert torch.equal(rollout([still, still]), still)
    ahead = torch.tensor([[0.0, 1, 0], [0, 0, 1], [0, 0, 1]])  # each looks at the next
    found = rollout([ahead, ahead])
    assert found[0].tolist() == [0.25, 0.5, 0.25]
    assert found.sum(1).tolist() == [1, 1, 1]


def test_a_table_of_paths_comes_out_with_labels(folder: Path, capsys: pytest.CaptureFixture[str]):
    lines = [f"{p.parent.name}\t{p.relative_to('train')}\n" for p in Path("train").rglob("*.png")]
    Path("train/list.tsv").write_text("".join(lines))
    regard.train(recipe(data={"train": ["train/list.tsv"], "test": []}), to="run")
    Path("in.csv").write_text("label,image\n?,test/across/000.png\n?,test/none.png\n")
    capsys.readouterr()
    cli.main(["predict", "run", "in.csv"])
    said = capsys.readouterr()
    assert said.out.splitlines()[1:] == ["?,test/across/000.png,across", "?,test/none.png,"]
    assert "in.csv:3: test/none.png: there is no such file" in said.err


def idx(path: Path, array: Any) -> None:
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    path.write_bytes(gzip.compress(head + array.tobytes()))


def test_every_form_gives_the_same_model(folder: Path):
    """Of the same pictures in the same order; names of labels are digits in all of them."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    dice = np.random.default_rng(2)
    arrays, labels = [pixels(n % 2, dice) for n in range(40)], [n % 2 for n in range(40)]
    idx(Path("images.gz"), np.stack(arrays))
    idx(Path("labels.gz"), np.array(labels, np.uint8))
    cells = [{"bytes": png(array), "path": None} for array in arrays]
    parquet.write_table(pyarrow.table({"image": cells, "label": labels}), "all.parquet")
    Path("pngs").mkdir()
    with Path("all.jsonl").open("w") as table:
        for n, array in enumerate(arrays):
            Path(f"pngs/{n}.png").write_bytes(png(array))
            table.write(json.dumps({"label": str(labels[n]), "image": f"pngs/{n}.png"}) + "\n")
    short = {"train": {"updates": 3}, "held_out": {"validation": 0.0, "stratified": False}}
    for n, files in enumerate((["labels.gz", "images.gz"], ["all.parquet"], ["all.jsonl"])):
        regard.train(recipe(data={"train": files, "test": []}, **short), to=f"run{n}")
    assert weights("run0") == weights("run1") == weights("run2")


def test_what_is_broken_is_left_out_or_refused(folder: Path):
    across = Path("train/across")
    (across / "text.png").write_text("no picture")
    (across / "cut.png").write_bytes((across / "000.png").read_bytes()[:-30])
    (across / "empty.jpg").touch()
    with pytest.raises(UserError, match=r"not a picture of a form that is known|empty|truncated"):
        front.train(recipe(), to="refused")
    short = recipe(train={"updates": 2}, data={"on_bad_line": "skip"})
    made = front.train(short, to="run")
    report = json.loads(Path("run/data.json").read_text())
    assert sum(report["skipped"].values()) == 3
    assert all(
        f"across/{name}" in json.dumps(report) for name in ("text.png", "cut.png", "empty.jpg")
    )
    found = list(made.predictions([str(across / "cut.png"), str(across / "002.png")]))
    assert [each.status for each in found] == ["broken", "ok"]
    assert found[0].problem == f"{across}/cut.png: the picture is truncated"


def test_a_kill_and_a_resume_change_nothing(folder: Path):
    """Augmentation and mixup are functions of seed, position and example."""
    vary = {"augment": {"shift": 0.2, "rotate": 9, "flip": 0.5, "erase": 0.3, "mixup": 0.4}}
    regard.train(recipe(source=vary, train={"updates": 20}), to="whole")
    regard.train(recipe(source=vary, train={"updates": 20}), to="again")
    assert weights("whole") == weights("again")

    def stop(record: dict[str, Any]) -> None:
        if record.get("kind") == "validation":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        regard.train(
            recipe(source=vary, train={"updates": 20, "validate_every": 10}),
            to="cut",
            callback=stop,
        )
    regard.train(resume="cut")
    kept = Path("cut/checkpoints/00000020/model.safetensors").read_bytes()
    assert kept == Path("whole/checkpoints/00000020/model.safetensors").read_bytes()


def test_mixed_pictures_have_mixed_labels(folder: Path):
    """Each with the next of the whole batch, however the batch is divided."""
    vary = {"shift": 0.2, "mixup": 0.5}
    made = front.train(recipe(source={"augment": vary}, train={"updates": 1}), to="run")
    task: Any = made.task
    stored, batches, place = task._stored("train"), task.batches(1), Position(3, 1)
    whole = batches.at(place)
    ids, count = [*whole.ids], len(whole)
    rows = [stored.store[n] for n in ids]
    plain = task.source.collate(rows, ids, Draw(1, 3, 1, learning=True))["source"]
    share, labels = whole["source_share"], [int(row["labels"][0]) - 1 for row in rows]
    for n in range(count):
        other = (n + 1) % count
        wanted = plain[n] * float(share[n]) + plain[other] * (1 - float(share[n]))
        np.testing.assert_allclose(whole["source"][n], wanted, atol=1e-5)
        truth = torch.zeros(2).index_add_(
            0, torch.tensor([labels[n], labels[other]]), torch.stack([share[n], 1 - share[n]])
        )
        torch.testing.assert_close(task._targets(whole)[n], truth)
    for cuts in ([0, 1, count], [0, 3, 4, count], [*range(count + 1)]):
        parts = [batches.at(place, slice(*ends)) for ends in itertools.pairwise(cuts)]
        for name, tensor in whole.tensors.items():
            assert torch.equal(torch.cat([part[name] for part in parts]), tensor), name


def test_mixup_is_refused_where_texts_are_learnt(folder: Path):
    pairs = {"train": ["train.tsv"], "columns": ["image", "text"]}
    for task in ("caption", "contrast"):
        table = {"task": task, "data": pairs, "source": {"augment": {"mixup": 0.3}}}
        with pytest.raises(RecipeError, match=r"source\.augment\.mixup: .* for classify"):
            config.from_table(table)


def test_the_doctor_sees_copies_leaks_and_small_pictures(folder: Path):
    for n in range(4):
        Path(f"train/across/copy{n}.png").write_bytes(Path("train/across/000.png").read_bytes())
    Path("test/across/known.png").write_bytes(Path("train/across/002.png").read_bytes())
    with Image.open("train/down/001.png") as image:
        image.point(lambda x: x + 2).save("test/down/alike.png")
    whole = {"held_out": {"validation": 0.0, "stratified": False}}
    found = examination.quick_check(config.from_table(recipe(source={"size": [30]}, **whole)))
    codes = {each.code: each for each in found}
    assert {"image.repeated", "image.leaked", "image.similar", "image.small"} <= {*codes}
    assert "train/across/002.png" in codes["image.leaked"].what
    assert codes["image.leaked"].severity == "error"
    assert "train/down/001.png" in codes["image.similar"].what
    calm = examination.quick_check(config.from_table(recipe(data={"test": []})))
    assert "image.similar" not in {each.code for each in calm}


def test_new_writes_a_recipe_for_a_folder(folder: Path, capsys: pytest.CaptureFixture[str]):
    cli.main(["new", str(folder), "--to", "mine.toml", "--quick"])
    said = capsys.readouterr().out
    assert "48 pictures in 2 folders" in said
    loaded = config.load(Path("mine.toml"))
    assert loaded.task.source.config.size == (12, 12)
    assert loaded.task.source.config.channels == 1
    assert loaded.task.data.names("test") == ("test",)


def test_a_cnn_learns_it_too(folder: Path):
    cnn = {"kind": "cnn", "widths": [8, 16], "groups": 4}
    model = {"dim": 16, "input": cnn, "encoder": {"kind": "none"}, "head": {"pooling": "mean"}}
    made = regard.train(recipe(model=model), to="run")
    assert made.evaluate("test")[0]["accuracy"].value > 90
    shown = looked(made.run)["picture"]
    assert [each["name"] for each in shown["maps"]] == ["attribution of across"]
    sizes = {each["name"]: each["values"]["shape"] for each in shown["features"]}
    assert sizes == {"stem": [8, 12, 12], "stage 0": [8, 12, 12], "stage 1": [16, 6, 6]}
    assert shown["filters"]["shape"] == [8, 3, 3]


def test_a_run_goes_on_with_larger_pictures(folder: Path):
    """The places of patches are interpolated; what pictures become is inherited."""
    first = front.train(recipe(source={"normalise": "half"}, train={"updates": 2}), to="first")
    table = {"task": "classify", "data": {"train": ["train"]}, "source": {"size": [24]}}
    made = front.train(
        table | {"train": {"updates": 1, "threads": 1}}, to="next", start_from="first"
    )
    source: Any = made.run.recipe.task.source
    assert (source.kind, source.config.channels, source.config.normalise) == ("image", 1, "half")
    before, after = (dict(each.model.named_parameters()) for each in (first, made))
    assert before["input.position"].shape == (5, 16)
    assert after["input.position"].shape == (17, 16)


def test_what_does_not_fit_is_refused_before_any_data_is_read(folder: Path):
    for changes, what in (
        ({"model": {"input": {"kind": "patches", "patch": 5}}}, "model.input.patch: .*12 × 12"),
        ({"model": {"input": {"kind": "tokens"}}}, "model.input.kind: 'tokens' reads tokens"),
        ({"source": {"normalise": "given"}}, "source.mean: 0 numbers for 1 channels"),
        ({"source": {"channels": 2}}, "source.channels"),
    ):
        with pytest.raises(RecipeError, match=what):
            config.from_table(recipe(**changes))
