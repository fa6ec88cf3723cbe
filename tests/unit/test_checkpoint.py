"""Checkpoints and records that somebody may have forged: only what a run writes is used."""

import json
import math
import struct
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from regard.errors import UserError
from regard.train import checkpoint, log, manifest
from regard.train.checkpoint import Checkpoint
from regard.train.progress import CHECKS, Progress
from regard.types import Position

GOOD = Progress(
    update=7, position=Position(1, 2), tokens=99, seconds=1.5, best=0.5, best_update=4,
    scores={"4": 0.5, "7": float("nan")}, sums={"nll": 3.0}, signs={"same": 1}, loss=None,
).as_dict()  # fmt: skip


class Scaled(nn.Module):
    positive = ("deviation",)

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2, 3))
        self.deviation = nn.Parameter(torch.ones(2), requires_grad=False)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = Scaled()


def saved(folder: Path, model: nn.Module) -> Checkpoint:
    return checkpoint.save(folder / "00000007", checkpoint.weights_of(model), GOOD)


def agree(found: Checkpoint) -> None:
    files = {f.name: manifest.entry(f) for f in found.folder.iterdir() if f.name != manifest.NAME}
    table = {"format": 2, "files": files, "run": {}, "records": {}}
    (found.folder / manifest.NAME).write_text(json.dumps(manifest.signed(table)))


# Where a run stands


def test_progress_comes_back():
    again = Progress.from_dict(json.loads(json.dumps(GOOD)))
    assert again.position == Position(1, 2)
    assert again.scores["4"] == 0.5
    assert json.dumps(again.as_dict()) == json.dumps(GOOD), "a score need not be finite"
    older = {"update": 3, "position": {"epoch": 0, "index": 1}, "scores": {}}
    assert Progress.from_dict(older).recorded == 3


def test_every_field_is_checked():
    assert {field.name for field in fields(Progress)} <= CHECKS.keys()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"update": True}, "update is no whole number"),
        ({"update": -1}, "update is no whole number"),
        ({"update": 2**63}, "update is no whole number"),
        ({"update": 7.0}, "update is no whole number"),
        ({"tokens": "many"}, "tokens is no whole number"),
        ({"seconds": float("nan")}, "seconds is no finite number"),
        ({"seconds": -1.0}, "seconds is no finite number of at least 0"),
        ({"memory": float("inf")}, "memory is no finite number"),
        ({"best": float("nan")}, "best is no finite number"),
        ({"best": "x"}, "best is no number"),
        ({"best_update": 8}, "updates after its own"),
        ({"best_update": "../../x"}, "best_update is no whole number"),
        ({"validated": 8}, "updates after its own"),
        ({"recorded": -2}, "recorded is no whole number from -1"),
        ({"finished": 1}, "finished is neither true nor false"),
        ({"position": {"epoch": 0}}, "position has no 'index'"),
        ({"position": {"epoch": 0, "index": -1}}, "position.index is no whole number"),
        ({"position": [0, 1]}, "position is no object"),
        ({"scores": {"x": 1.0}}, "scores does not give a number for each update"),
        ({"scores": {"4": None}}, "scores does not give a number"),
        ({"scores": {"4": True}}, "scores does not give a number"),
        ({"scores": {"9": 1.0}}, "updates after its own"),
        ({"scores": []}, "scores is no object"),
        ({"sums": {"nll": "x"}}, "sums is no number"),
        ({"signs": {"same": 0.5}}, "signs is no whole number"),
        ({"__class__": "os.system"}, "unknown key, '__class__'"),
    ],
)
def test_forged_progress_is_refused(change: dict[str, Any], said: str):
    with pytest.raises(UserError, match=rf"progress\.json does not tell .*{said}"):
        Progress.from_dict({**GOOD, **change})


@pytest.mark.parametrize("text", ["{", "[]", "{}x", '{"update": ' + "9" * 5000 + "}", "[" * 9999])
def test_a_checkpoint_whose_progress_is_forged_is_damaged(text: str, tmp_path: Path):
    found = saved(tmp_path, Model())
    assert found.fault() is None
    (found.folder / "progress.json").write_text(text)
    agree(found)
    assert "progress.json" in str(found.fault())


# Tensors


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (torch.full((2, 3), float("nan")), "head.weight has numbers that are not finite"),
        (torch.full((2, 3), -float("inf")), "head.weight has numbers that are not finite"),
        (torch.ones(3, 2), r"head.weight has shape \(3, 2\)"),
    ],
)
def test_weights_that_no_run_saves_are_refused(value: torch.Tensor, said: str, tmp_path: Path):
    weights = checkpoint.weights_of(Model()) | {"head.weight": value}
    with pytest.raises(UserError, match=f"here: {said}"):
        checkpoint.put_weights(Model(), weights, "here")


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_a_deviation_that_divides_by_nothing_is_refused(value: float):
    weights = checkpoint.weights_of(Model()) | {"head.deviation": torch.tensor([1.0, value])}
    with pytest.raises(UserError, match=r"here: head\.deviation is not above 0"):
        checkpoint.put_weights(Model(), weights, "here")


@pytest.mark.parametrize(
    "dtype", [torch.int8, torch.bool, torch.bfloat16, torch.float64, torch.complex64]
)
def test_tensors_of_another_type_are_damage(dtype: torch.dtype, tmp_path: Path):
    found = saved(tmp_path, Model())
    weights = {n: w.to(dtype) for n, w in checkpoint.weights_of(Model()).items()}
    save_file(weights, found.folder / "model.safetensors")
    agree(found)
    assert "not float32" in str(found.fault())


@pytest.mark.parametrize(
    "about",
    [
        {"dtype": "F32", "shape": [0, 2**62], "data_offsets": [0, 0]},
        {"dtype": "F32", "shape": [0, 2**64 - 1], "data_offsets": [0, 0]},
        {"dtype": "F32", "shape": [10**12], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [1] * 5000, "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [1], "data_offsets": [0, 2**63]},
        {"dtype": "F32", "shape": [2**63, 2], "data_offsets": [0, 0]},
    ],
)
def test_headers_that_lie_are_damage(about: dict[str, Any], tmp_path: Path):
    found = saved(tmp_path, Model())
    header = json.dumps({"head.weight": about}).encode()
    data = b"1234" if about["data_offsets"][1] else b""
    path = found.folder / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)
    agree(found)
    assert "model.safetensors is damaged: " in str(found.fault())


def test_a_file_that_is_all_holes_is_not_read(tmp_path: Path):
    found = saved(tmp_path, Model())
    path, size = found.folder / "model.safetensors", 1 << 40
    about = {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}
    header = json.dumps({"head.weight": about}).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        try:
            file.truncate(8 + len(header) + size)
        except OSError:
            pytest.skip("no file can be so large here")
    table = manifest.signed({
        "format": 2,
        "files": {
            path.name: {"size": path.stat().st_size, "sha256": "0" * 64},
            "progress.json": manifest.entry(found.folder / "progress.json"),
        },
        "run": {},
        "records": {},
    })  # fmt: skip
    (found.folder / manifest.NAME).write_text(json.dumps(table))
    assert "nearly all holes" in str(found.fault())


def stepped() -> tuple[Model, torch.optim.Optimizer]:
    model = Model()
    optimizer = torch.optim.Adam([model.head.weight])
    model.head.weight.sum().backward()
    optimizer.step()
    return model, optimizer


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("head.weight/step", None),
        ("head.weight/exp_avg", None),
        ("head.weight/more", torch.ones(2, 3)),
        ("head.weight/step", torch.tensor([1.0])),
        ("head.weight/step", torch.tensor(0.0)),
        ("head.weight/step", torch.tensor(float("nan"))),
        ("head.weight/exp_avg", torch.ones(())),
        ("head.weight/exp_avg", torch.full((2, 3), float("inf"))),
        ("head.weight/exp_avg_sq", torch.full((2, 3), -1.0)),
        ("head.deviation/exp_avg", torch.ones(2)),
        ("nothing/exp_avg", torch.ones(2)),
    ],
)
def test_a_forged_state_of_the_optimizer_is_refused(entry: str, value: torch.Tensor | None):
    model, optimizer = stepped()
    state = checkpoint.optimizer_of(optimizer, model)
    checkpoint.put_optimizer(torch.optim.Adam([model.head.weight]), model, state, "here")
    state = {n: t for n, t in state.items() if n != entry}
    state |= {} if value is None else {entry: value}
    with pytest.raises(UserError, match=r"^here: "):
        checkpoint.put_optimizer(torch.optim.Adam([model.head.weight]), model, state, "here")


# Manifests


@pytest.mark.parametrize(
    "name", ["x\0y", "C:x", "a\nb", "x" * 300, "../x", "/x", "a\\b", "", ".", "..", "\ud800"]
)
def test_names_that_lead_elsewhere(name: str, tmp_path: Path):
    assert "is not the name of a file in it" in str(manifest.fault(tmp_path, {name: {}}))


@pytest.mark.parametrize(
    "entry",
    [
        {"size": -1, "sha256": "0" * 64},
        {"size": True, "sha256": "0" * 64},
        {"size": 2**63, "sha256": "0" * 64},
        {"size": 1.0, "sha256": "0" * 64},
        {"size": 1, "sha256": "0" * 63},
        {"size": 1, "sha256": "x" * 64},
        {"size": 1, "sha256": "0" * 64, "more": 1},
        {"size": 1},
        None,
    ],
)
@pytest.mark.parametrize("section", ["files", "run", "records"])
def test_a_manifest_gives_sizes_and_hashes(entry: Any, section: str, tmp_path: Path):
    table = {"format": 2, "files": {}, "run": {}, "records": {}, section: {"x": entry}}
    (tmp_path / manifest.NAME).write_text(json.dumps(manifest.signed(table)))
    with pytest.raises(ValueError, match=f"{section!r} does not give|more|digits"):
        manifest.read(tmp_path)


@pytest.mark.parametrize("number", [True, 0, 3, "2", None, 2.0])
def test_a_manifest_is_of_a_known_format(number: Any, tmp_path: Path):
    table = {"format": number, "files": {}, "run": {}, "records": {}}
    (tmp_path / manifest.NAME).write_text(json.dumps(manifest.signed(table)))
    with pytest.raises(ValueError, match="this version of regard reads"):
        manifest.read(tmp_path)


def test_a_manifest_that_is_nested_as_deeply_as_can_be_parsed(tmp_path: Path):
    """To write it again, in order to hash it, takes more of the stack than to read it."""
    for depth in (100, 300, 500, 700, 900, 950, 990):
        text = '{"format": 2, "files": {}, "run": {}, "records": {}, "x": '
        (tmp_path / manifest.NAME).write_text(text + "[" * depth + "]" * depth + "}")
        with pytest.raises(ValueError, match=r"unknown key|nested too deeply"):
            manifest.read(tmp_path)


# Records


@pytest.mark.parametrize(
    "line",
    [
        '{"kind": "train", "update": "x", "tokens": 1}',
        '{"kind": "train", "update": null, "tokens": 1}',
        '{"kind": "train", "update": true, "tokens": 1}',
        '{"kind": "train", "update": -1, "tokens": 1}',
        '{"kind": "train", "update": 1}',
        '{"kind": ["train"], "update": 1}',
        '{"update": 1, "tokens": 1}',
        '{"kind": "train", "update": 1, "tokens": 1, "nll": "x"}',
        '{"kind": "train", "update": 1, "tokens": 1, "nll": [1]}',
        '{"kind": "train", "update": 1, "tokens": 1, "$x$ ": 1}',
        '{"kind": "refused", "update": 1, "ids": ["x"]}',
        '{"kind": "refused", "update": 1, "ids": 3}',
        '{"kind": "back", "update": 1, "lowered": "x"}',
        '{"kind": "warning", "text": 3}',
        '{"kind": "train", "update": 1, "tokens": 1, "nll": ' + "9" * 4000 + "}",
        '{"kind": "train", "update": 1, "tokens": 1, "nll": ' + "9" * 5000 + "}",
        "[" * 9999,
        "7",
        '{"kind": "train", "update": 1, "tokens": 1, '
        + ", ".join(f'"n{n}": 1' for n in range(200))
        + "}",
    ],
)
def test_records_that_were_never_written_are_left_out(line: str, tmp_path: Path):
    good = [
        '{"kind": "train", "update": 1, "tokens": 1, "nll": NaN}',
        '{"kind": "start", "update": 0, "device": "cpu", "threads": 2}',
        '{"kind": "refused", "update": 1, "ids": [1, 2]}',
    ]
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(f"{each}\n" for each in (good[0], line, *good[1:])))
    assert [record["kind"] for record in log.read(path)] == ["train", "start", "refused"]


def test_records_that_are_not_finite_are_null_in_the_file_and_nan_when_read(tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    record = {"kind": "validation", "update": 3, "tokens": 9, "nll": math.nan, "accuracy": 2.5}
    log.append(path, [record, record | {"nll": math.inf}])
    line = '{"kind": "validation", "update": 3, "tokens": 9, "nll": null, "accuracy": 2.5}\n'
    assert path.read_text() == 2 * line
    found = log.read(path)
    assert [math.isnan(each["nll"]) for each in found] == [True, True]
    assert [{**each, "nll": 0} for each in found] == [{**record, "nll": 0}] * 2
    log.append(path, found)  # as a run does that goes back
    assert path.read_text() == 4 * line
    path.write_text(line.replace("null", "NaN") + line.replace("2.5", "NaN"))  # of an older run
    assert len(log.read(path)) == 2
    for wrong in ('"kind": null', '"update": null', '"text": null, "kind": "train"'):
        path.write_text('{"tokens": 1, ' + wrong + "}\n")
        assert log.read(path) == []
