"""Where to compute, and with how many threads."""

import dataclasses
import os
from types import SimpleNamespace

import pytest
import torch

from regard.errors import RecipeError
from regard.train import device, loop, optimizer, schedule


def settings(**changes):
    train = loop.Config(optimizer=optimizer.Config(), schedule=schedule.Config(), **changes)
    return dataclasses.make_dataclass("Recipe", ["train"])(train=train)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system does not bind cores")
def test_no_more_threads_than_cores_that_the_process_may_use():
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert device.resolve(settings(device="cpu")).train.threads == 1
    finally:
        os.sched_setaffinity(0, before)
    assert device.resolve(settings(device="cpu")).train.threads == len(before)
    assert device.resolve(settings(device="cpu", threads=7)).train.threads == 7


def test_a_processor_does_not_compute_in_half_precision():
    with pytest.raises(RecipeError, match=r"^train\.precision: float16"):
        device.resolve(settings(device="cpu", precision="float16"))


def test_elsewhere_all_cores(monkeypatch):
    monkeypatch.setattr(device, "os", SimpleNamespace(cpu_count=lambda: 5))
    assert device.cores() == 5


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "cuda:2", "cpu:1", ""])
def test_a_device_that_is_not_there_is_refused_by_its_key(name, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert device.pick("cuda:1") == "cuda:1"
    with pytest.raises(RecipeError, match=r"^train\.device: "):
        device.pick(name)
