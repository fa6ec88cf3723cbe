"""Other systems than this one, as far as they can be imitated: Windows, macOS, Apple's GPU."""

import ast
import errno
import importlib.util
import io
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import regard
from regard import cli
from regard.console import streams
from regard.errors import UserError
from regard.search import Frontier, Request, Steps, sample
from regard.train import checkpoint, lock, manifest, memory, optimizer, signals
from regard.types import Batch, exact, float64
from tests import corpus

fcntl: Any = pytest.importorskip("fcntl", reason="it is Windows itself")
PROJECT = Path(__file__).resolve().parents[2]
SOURCES = sorted((PROJECT / "regard").rglob("*.py"))
SYSTEM = {"budget.py", "cgroups.py", "cost.py", "device.py"}
"""They read what Linux says of itself in /proc and /sys, which is ASCII."""


# Text files


def text_calls(path: Path) -> Iterator[tuple[int, str, set[str]]]:
    """(line, "read" or "write", names of the options) of each call that opens a text file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = (
            node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        )
        options = {keyword.arg or "" for keyword in node.keywords}
        modes = [
            a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)
        ]
        if name in ("read_text", "write_text"):
            yield node.lineno, name.removesuffix("_text"), options
        elif name in ("open", "fdopen") and "devnull" not in ast.unparse(node):
            mode = next((m for m in modes if set(m) <= set("rwaxbt+")), "r")
            if "b" not in mode and not ast.unparse(node).startswith(
                ("gzip.", "tarfile.", "packed.", "os.", "Image.")
            ):
                yield node.lineno, "read" if mode == "r" else "write", options


def test_text_is_utf_8_and_a_newline_is_one_byte_everywhere():
    """Windows has encodings of its own, and writes a newline as two bytes: the files of a run would
    differ from system to system, and their hashes with them."""
    calls = [(path, *call) for path in SOURCES for call in text_calls(path)]
    assert len(calls) > 20, "the search finds them"
    for path, line, what, options in calls:
        place = f"{path}:{line}"
        assert "encoding" in options or path.name in SYSTEM, place
        assert what == "read" or "newline" in options, place


def test_what_is_printed_is_utf_8_with_plain_newlines(monkeypatch: pytest.MonkeyPatch):
    """As Windows would open a pipe: a code page, and \\r\\n."""
    out, errors = io.BytesIO(), io.BytesIO()
    for name, stream in (("stdout", out), ("stderr", errors)):
        opened = io.TextIOWrapper(stream, encoding="cp1252", newline="\r\n")
        monkeypatch.setattr(sys, name, opened)
    cli.main(["--version"])
    with pytest.raises(SystemExit):
        cli.main(["predict", "→"])
    sys.stdout.flush()
    sys.stderr.flush()
    assert out.getvalue() == f"{regard.__version__}\n".encode()
    assert errors.getvalue() == "regard: → does not exist\n".encode()


@pytest.mark.parametrize(
    ("system", "error", "gone"),
    [
        ("posix", BrokenPipeError(errno.EPIPE, "Broken pipe", streams.OUTPUT), True),
        ("posix", OSError(errno.EINVAL, "Invalid argument", streams.OUTPUT), False),
        ("nt", OSError(errno.EINVAL, "Invalid argument", streams.OUTPUT), True),
        ("nt", OSError(errno.EINVAL, "Invalid argument", "a|b.txt"), False),
        ("nt", OSError(errno.ENOSPC, "No space left on device", streams.OUTPUT), False),
    ],
)
def test_a_reader_that_is_gone(monkeypatch: Any, system: str, error: OSError, gone: bool):
    monkeypatch.setattr(streams, "os", SimpleNamespace(name=system))
    assert streams.reader_gone(error) is gone


# Signals


def load_again(module: ModuleType) -> ModuleType:
    """Another copy of a module, made under what is imitated."""
    assert module.__file__
    spec = importlib.util.spec_from_file_location(f"other_{module.__name__}", module.__file__)
    assert spec and spec.loader
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_signals_of_windows(monkeypatch: pytest.MonkeyPatch):
    """No SIGHUP, but Ctrl-Break, whose number there is 21."""
    monkeypatch.delattr(signal, "SIGHUP")
    monkeypatch.setattr(signal, "SIGBREAK", 21, raising=False)
    assert load_again(signals).STOPS == [signal.SIGINT, signal.SIGTERM, 21]


def test_a_handler_from_outside_python_is_left_alone(monkeypatch: pytest.MonkeyPatch):
    """`getsignal` gives None for it, and `signal` takes no None to put it back."""
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(signal, "getsignal", lambda number: None)
    with signals.interruptible() as asked:
        assert not asked()
    monkeypatch.undo()
    assert signal.getsignal(signal.SIGTERM) == before


# Locks


@pytest.fixture
def windows_lock(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The lock as Windows has it: `msvcrt` locks bytes from where the file stands."""

    def locking(handle: int, mode: int, count: int) -> None:
        assert (os.lseek(handle, 0, os.SEEK_CUR), mode, count) == (0, 2, 1)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)

    monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(locking=locking, LK_NBLCK=2))
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setattr(sys, "platform", "win32")
    return load_again(lock)


def test_the_lock_of_windows(windows_lock: ModuleType, tmp_path: Path):
    for _ in range(2):
        with windows_lock.held(tmp_path):
            text = (tmp_path / lock.NAME).read_bytes()
            assert text.startswith(f" process {os.getpid()} on ".encode()), "the first byte is free"
            with pytest.raises(UserError, match=f"in use by process {os.getpid()} on "):
                windows_lock.held(tmp_path).__enter__()


def test_a_run_that_fails_leaves_nothing_where_open_files_cannot_be_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    recipe = corpus.write(tmp_path / "data", train=20, validation=3, test=3)
    remove = Path.unlink
    held: list[Path] = []
    enter = lock.held

    def watched(folder: Path) -> Any:
        held.append(folder / lock.NAME)
        return enter(folder)

    def unlink(path: Path, missing_ok: bool = False) -> None:
        if path in held and not _free(path):
            raise PermissionError(errno.EACCES, "The process cannot access the file", str(path))
        remove(path, missing_ok)

    def _free(path: Path) -> bool:
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    def fill(folder: Path, *_: Any) -> None:
        (folder / "store").mkdir()
        raise UserError("no room")

    monkeypatch.setattr(lock, "held", watched)
    monkeypatch.setattr(Path, "unlink", unlink)
    monkeypatch.setattr(
        lock, "os", SimpleNamespace(name="nt", getpid=os.getpid, path=os.path, fstat=os.fstat)
    )
    monkeypatch.setattr("regard.runs.creation._fill", fill)
    with pytest.raises(UserError, match=r"^no room$"):
        regard.train(recipe, "train.updates=1", to=tmp_path / "runs" / "new")
    assert not (tmp_path / "runs").exists()


# Files


@pytest.mark.parametrize("name", ["C:x", "x:stream", "C:/x", "/x", "//server/x", "..", "a\\b", ""])
def test_a_name_that_leads_out_of_a_run_on_any_system(name: str, tmp_path: Path):
    found = manifest.fault(tmp_path, {name: {"size": 0, "sha256": ""}})
    assert found == f"{name!r} is not the name of a file in it"


def test_a_junction_is_a_link(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "store").mkdir()
    manifest.check_kinds(tmp_path)
    real = Path.lstat

    def lstat(path: Path) -> Any:
        return SimpleNamespace(st_mode=real(path).st_mode, st_size=0, st_reparse_tag=0xA0000003)

    monkeypatch.setattr(Path, "lstat", lstat)
    with pytest.raises(UserError, match="store is a link"):
        manifest.check_kinds(tmp_path)


def test_what_a_system_leaves_in_a_folder_does_no_harm(tmp_path: Path):
    """A person has looked at the run in Finder or in Explorer."""
    recipe = corpus.write(tmp_path / "data", train=20, validation=3, test=3)
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / ".DS_Store").write_bytes(b"\0\0\0\1Bud1")
    run = regard.train(recipe, "train.updates=2", "train.save_every=1", to=folder).run
    for name in (".DS_Store", "Thumbs.db", "desktop.ini", "._model.safetensors"):
        (folder / "model" / name).write_bytes(b"?")
        (folder / "checkpoints" / "00000002" / name).write_bytes(b"?")
    assert run.find("final").folder == folder / "model"
    assert run.find("last").fault(resumable=True) is None
    (folder / "model" / ".other").touch()
    with pytest.raises(UserError, match=r"\.other is not in the manifest"):
        run.find("final")


def test_macos_is_asked_to_empty_the_memory_of_the_disk(monkeypatch: Any, tmp_path: Path):
    asked: list[str] = []
    fails = False

    def full(handle: int, command: int) -> None:
        asked.append(f"full {command}")
        if fails:
            raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(manifest, "FULL_SYNC", 51)
    monkeypatch.setattr(manifest, "fcntl", SimpleNamespace(fcntl=full))
    monkeypatch.setattr(os, "fsync", lambda handle: asked.append("fsync"))
    manifest.sync(tmp_path)
    assert asked == ["full 51"]
    fails = True
    manifest.sync(tmp_path)
    assert asked[1:] == ["full 51", "fsync"], "a file system without it"


def test_a_folder_that_cannot_be_synced_is_no_error_and_a_file_is(monkeypatch: Any, tmp_path: Path):
    """As on some disks of the network."""

    def fsync(handle: int) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    (tmp_path / "file").touch()
    monkeypatch.setattr(os, "fsync", fsync)
    manifest.sync(tmp_path)
    with pytest.raises(OSError, match="Invalid argument"):
        manifest.sync(tmp_path / "file")


def test_without_fcntl_there_is_no_full_sync(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    assert load_again(manifest).FULL_SYNC is None


def test_a_checkpoint_that_somebody_reads_stays_on_windows(monkeypatch: Any, tmp_path: Path):
    def rename(path: Path, target: Path) -> None:
        raise PermissionError(errno.EACCES, "Access is denied", str(path))

    (tmp_path / "00000001").mkdir()
    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(PermissionError):
        checkpoint.remove(tmp_path / "00000001")
    monkeypatch.setattr(checkpoint, "os", SimpleNamespace(name="nt"))
    checkpoint.remove(tmp_path / "00000001")
    assert (tmp_path / "00000001").is_dir()


# Graphics processors


class Watched(torch.Tensor):
    """Notes how it is asked to move."""

    asked: list[tuple[Any, ...]] = []  # noqa: RUF012

    def to(self, *arguments: Any, **options: Any) -> Any:
        self.asked.append((arguments, options))
        return self


def test_a_batch_waits_until_it_is_copied():
    """`non_blocking` copies to MPS read memory that may be another's by then."""
    tensor = torch.zeros(2).as_subclass(Watched)
    Batch(tensors={"x": tensor}, ids=(0, 1), targets=2).to("cpu")
    assert Watched.asked == [(("cpu",), {})]


def test_float64_is_computed_where_there_is_any():
    assert [exact(name).type for name in ("cpu", "cuda", "mps")] == ["cpu", "cuda", "cpu"]
    assert float64(torch.ones(2)).dtype == torch.float64
    assert float64(torch.ones(2, device="meta")).device.type == "meta"


def test_sampling_asks_its_device_for_no_float64(monkeypatch: pytest.MonkeyPatch):
    """The model's device is `meta` here, which has no values: the draws come from elsewhere."""
    monkeypatch.setattr(sample, "exact", lambda device: torch.device("cpu"))
    monkeypatch.setattr(sample, "float64", lambda tensor: torch.zeros(tensor.shape).double())
    drawn = []

    def walk(step: Any, state: Any, request: Any, choose: Any, *rest: Any) -> Steps:
        frontier: Any = Frontier.__new__(Frontier)
        frontier.working = [SimpleNamespace(draw=number, age=0) for number in range(3)]
        drawn.append(choose(torch.zeros(3, 1, 5, device="meta"), frontier))
        yield from ()
        return []

    monkeypatch.setattr(sample, "walk", walk)
    step: Any = walk
    state: Any = SimpleNamespace(select=len, keep=len, expand=len, join=len, detach=len)
    request = Request(start=0, end=1, caps=(4, 4, 4), numbers=(0, 1, 2), device="meta")
    sample.search(step, state, request, sample.Config())
    assert (drawn[0].device.type, drawn[0].shape) == ("meta", (3, 1))


def test_the_counter_of_a_fused_optimizer_lives_with_its_weights():
    """Or else CUDA refuses the first update after a resume."""
    model = nn.Linear(3, 2, device="meta")
    weights = optimizer.make(optimizer.Config(), nn.Linear(3, 2).parameters())
    state = {
        f"{name}/{entry}": value
        for name, p in nn.Linear(3, 2).named_parameters()
        for entry, value in (
            ("step", torch.tensor(7.0)),
            ("exp_avg", torch.zeros(p.shape)),
            ("exp_avg_sq", torch.zeros(p.shape)),
        )
    }
    for fused, place in ((True, "meta"), (False, "cpu")):
        steps = torch.optim.Adam(model.parameters(), fused=None)
        for group in steps.param_groups:
            group["fused"] = fused
        checkpoint.put_optimizer(steps, model, state)
        found = {entry["step"].device.type for entry in steps.state.values()}
        assert found == {place}
    assert weights.param_groups[0]["fused"], "here, too, one kernel does it all"


@pytest.mark.parametrize(
    ("text", "shortage"),
    [
        ("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes", True),
        ("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes", True),
        ("MPS backend out of memory (MPS allocated: 9 GB, max allowed: 9 GB)", True),
        ("mat1 and mat2 shapes cannot be multiplied", False),
    ],
)
def test_what_a_shortage_of_memory_is_called(text: str, shortage: bool):
    assert memory.is_shortage(RuntimeError(text)) is shortage
