"""Where to compute, and with how many threads."""

import math
import os
import platform
from types import SimpleNamespace

import pytest
import torch

from regard.errors import RecipeError
from regard.layers import native
from regard.train import budget, device, optimizer, schedule
from regard.train.job import Config


def settings(**changes):
    return Config(optimizer=optimizer.Config(), schedule=schedule.Config(), **changes)


def pretend(monkeypatch, *, bfloat16: bool, cuda: int = 0) -> None:
    """A machine whose processor multiplies bfloat16 or not, with so many GPUs."""
    monkeypatch.setattr(native, "bfloat16", lambda: bfloat16)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: True)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(budget, "default", lambda device, processes=1: 3.0)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system does not bind cores")
def test_no_more_threads_than_cores_that_the_process_may_use():
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert device.settle(settings(device="cpu")).threads == 1
    finally:
        os.sched_setaffinity(0, before)
    assert device.settle(settings(device="cpu")).threads == len(before)
    assert device.settle(settings(device="cpu", threads=7)).threads == 7


@pytest.mark.parametrize(
    ("machine", "asked", "precision"),
    [
        ({"bfloat16": True}, {}, "bfloat16"),
        ({"bfloat16": False}, {}, "float32"),
        ({"bfloat16": True, "cuda": 1}, {}, "bfloat16"),
        ({"bfloat16": False, "cuda": 1}, {}, "bfloat16"),
        ({"bfloat16": True}, {"precision": "float32"}, "float32"),
        ({"bfloat16": False}, {"precision": "float32"}, "float32"),
    ],
)
def test_auto_takes_bfloat16_where_it_is_native(machine, asked, precision, monkeypatch):
    pretend(monkeypatch, **machine)
    device.check(settings(**asked))
    settled = device.settle(settings(**asked))
    assert settled.precision == precision
    assert settled.device == ("cuda" if machine.get("cuda") else "cpu")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"precision": "bfloat16"},
            r"^train\.precision: 'bfloat16' is not native to this processor",
        ),
        ({"precision": "float16"}, r"^train\.precision: float16 is for a GPU"),
        ({"device": "cuda"}, r"^train\.device: 'cuda' is not there .* 'auto' would take 'cpu'"),
        ({"device": "mps"}, r"^train\.device: 'mps' is not there"),
    ],
)
def test_a_new_run_is_refused_what_it_names_and_the_machine_lacks(asked, message, monkeypatch):
    pretend(monkeypatch, bfloat16=False)
    with pytest.raises(RecipeError, match=message):
        device.check(settings(**asked))


@pytest.mark.parametrize(
    ("asked", "bfloat16", "cuda", "taken"),
    [
        ({"precision": "bfloat16"}, False, 0, ("cpu", "float32")),
        ({"precision": "float16"}, True, 0, ("cpu", "bfloat16")),
        ({"precision": "float16"}, False, 0, ("cpu", "float32")),
        ({"device": "cuda", "precision": "float16"}, True, 0, ("cpu", "bfloat16")),
        ({"device": "cuda:1", "precision": "bfloat16"}, False, 1, ("cuda", "bfloat16")),
        ({"device": "mps", "precision": "float32"}, True, 0, ("cpu", "float32")),
    ],
)
def test_a_run_that_continues_takes_the_nearest(asked, bfloat16, cuda, taken, monkeypatch):
    pretend(monkeypatch, bfloat16=bfloat16, cuda=cuda)
    settled = device.settle(settings(**asked))
    assert (settled.device, settled.precision) == taken
    said = "; ".join(device.changes(device.named(settings(**asked)), device.describe(settled)))
    if "device" in asked:
        assert f"device is {taken[0]} on this machine, and was {asked['device']} before" in said
    if asked["precision"] != taken[1]:
        assert f"precision is {taken[1]} on this machine, and was {asked['precision']}" in said


def test_memory_stays_as_it_was_on_the_same_kind_of_machine(monkeypatch):
    """Whether a batch is split must not depend on what is free at the moment."""
    pretend(monkeypatch, bfloat16=True)
    first = device.describe(device.settle(settings()))
    assert first["memory"] == 3.0
    monkeypatch.setattr(budget, "default", lambda device, processes=1: 5.0)
    assert device.settle(settings(), first).memory == 3.0
    assert device.settle(settings(), first | {"processor": "another"}).memory == 5.0
    assert device.settle(settings(memory=2.0), first).memory == 2.0
    for forged in ("3", math.inf, math.nan, -1.0, None, True):
        assert device.settle(settings(), first | {"memory": forged}).memory == 5.0


def test_emulated_bfloat16_is_recognised_by_its_time(monkeypatch):
    """The same products, of which those in bfloat16 take thirty times as long, or a half."""
    for factor, gain in ((30, 1 / 30), (0.5, 2)):
        clock, multiply = [0.0], torch.mm

        def mm(a, b, clock=clock, factor=factor, multiply=multiply):
            clock[0] += factor if a.dtype == torch.bfloat16 else 1
            return multiply(a.float(), b.float())

        monkeypatch.setattr(torch, "mm", mm)
        monkeypatch.setattr("time.perf_counter", lambda clock=clock: clock[0])
        assert native.gain.__wrapped__(size=4) == pytest.approx(gain)
        monkeypatch.undo()


def test_without_an_lstm_in_bfloat16_it_is_not_used(monkeypatch):
    def missing():
        raise RuntimeError("could not create a primitive descriptor")

    monkeypatch.setattr(native, "gain", lambda: 2.0)
    assert native.bfloat16.__wrapped__() is native._has_lstm()
    monkeypatch.setattr(native, "_lstm", missing)
    assert not native.bfloat16.__wrapped__()
    monkeypatch.undo()
    monkeypatch.setattr(native, "gain", lambda: 0.5)
    assert not native.bfloat16.__wrapped__(), "slower than float32"


def test_elsewhere_all_cores(monkeypatch, tmp_path):
    monkeypatch.setattr(device, "os", SimpleNamespace(cpu_count=lambda: 5))
    assert device.cores(tmp_path) == 5


@pytest.mark.parametrize(
    ("group", "files", "cores"),
    [
        ("0::/", {"cpu.max": "250000 100000"}, 3),
        ("0::/", {"cpu.max": "50000 100000"}, 1),
        ("0::/", {"cpu.max": "max 100000"}, 5),
        ("0::/", {"cpu.max": "900000 100000"}, 5),
        ("0::/", {}, 5),
        ("0::/", {"cpu.max": "broken"}, 5),
        # the inner group has no quota of its own, the one around it has
        (
            "0::/outer/inner",
            {"outer/cpu.max": "200000 100000", "outer/inner/cpu.max": "max 100000"},
            2,
        ),
        (
            "4:cpu,cpuacct:/box",
            {
                "cpu,cpuacct/box/cpu.cfs_quota_us": "150000",
                "cpu,cpuacct/box/cpu.cfs_period_us": "100000",
            },
            2,
        ),
        # a container sees its own group as the root, but the name that it has outside
        ("4:cpu,cpuacct:/box", {"cpu/cpu.cfs_quota_us": "400000", "cpu/cpu.cfs_period_us": "1"}, 5),
        (
            "4:cpu,cpuacct:/box",
            {"cpu/cpu.cfs_quota_us": "400000", "cpu/cpu.cfs_period_us": "100000"},
            4,
        ),
        ("4:cpu:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 5),
        ("4:memory:/", {"cpu/cpu.cfs_quota_us": "100000", "cpu/cpu.cfs_period_us": "100000"}, 5),
    ],
)
def test_no_more_cores_than_the_quota_of_the_container(group, files, cores, monkeypatch, tmp_path):
    """Five cores in all; a quota is rounded up to whole ones."""
    monkeypatch.setattr(device, "os", SimpleNamespace(sched_getaffinity=lambda _: range(5)))
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(f"{group}\n")
    for name, text in files.items():
        path = tmp_path / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    assert device.cores(tmp_path) == cores


@pytest.mark.parametrize(("chosen", "taken"), [(None, [2]), ("3", [])])
def test_threads_of_torch_are_bounded_by_the_quota_too(chosen, taken, monkeypatch):
    """PyTorch would start three; who sets OMP_NUM_THREADS has chosen."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if chosen:
        monkeypatch.setenv("OMP_NUM_THREADS", chosen)
    found: list[int] = []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    monkeypatch.setattr(torch, "set_num_threads", found.append)
    for cores in (2, 3, 4):
        monkeypatch.setattr(device, "cores", lambda cores=cores: cores)
        device.bound_threads()
    assert found == taken


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("processor\t: 0\nmodel name\t: AMD EPYC\nmodel name\t: other\n", "AMD EPYC"),
        ("processor\t: 0\ncpu\t\t: POWER9, altivec supported\n", "POWER9, altivec supported"),
        (
            "CPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd0c\n\n" * 2,
            "aarch64 (implementer 0x41, part 0xd0c)",
        ),
        (
            "".join(f"CPU implementer : 0x41\nCPU part : {n}\n" for n in ("0xd0b", "0xd05")),
            "aarch64 (implementer 0x41, part 0xd05; implementer 0x41, part 0xd0b)",
        ),
        ("model name\t:\n", "aarch64"),
        ("", "aarch64"),
        (None, "aarch64"),
    ],
)
def test_every_processor_has_a_name(text, name, monkeypatch, tmp_path):
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    info = tmp_path / "cpuinfo"
    if text is not None:
        info.write_text(text)
    assert device.processor(info) == name


def test_a_processor_that_nobody_knows(monkeypatch, tmp_path):
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(platform, "machine", lambda: "")
    assert device.processor(tmp_path / "none") == "unknown processor"


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "cuda:2", "cpu:1", ""])
def test_a_device_that_is_not_there_is_refused_by_its_key(name, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert device.pick("cuda:1") == "cuda:1"
    with pytest.raises(RecipeError, match=r"^train\.device: "):
        device.pick(name)
