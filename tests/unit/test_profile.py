"""Where a step's time goes."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from regard.doctor import profile
from regard.doctor.profile import BATCHES, HEAD, OPTIMIZER, PREFIX, REST, Profile, Share, advice
from tests import small_runs

EXPECTED = {
    "transformer": {"embedding", "attention", "feed-forward", "normalisation and dropout"},
    "lstm": {"embedding", "attention", "recurrent"},
    "tagger": {"recurrent"},
    "forecaster": {"attention", "feed-forward"},
}


@pytest.fixture(autouse=True)
def few_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile, "UPDATES", 2)


@pytest.mark.parametrize("kind", EXPECTED)
def test_shares_of_all_parts_are_one(kind: str, tmp_path: Path) -> None:
    run = small_runs.make(kind, tmp_path / "run")
    found = profile.profile(run)
    assert sum(share.total for share in found.parts.values()) == pytest.approx(1)
    assert all(share.forward >= 0 and share.backward >= 0 for share in found.parts.values())
    assert EXPECTED[kind] | {HEAD, OPTIMIZER, BATCHES, REST} <= set(found.parts)
    for name in EXPECTED[kind]:
        assert found.parts[name].backward > 0
    assert found.gflops > 0
    assert not list((tmp_path / "run").glob("checkpoints/*"))
    table = found.as_dict()
    assert table["targets_per_second"] == pytest.approx(found.targets / found.seconds)
    assert all(name in str(found) for name in found.parts)


def test_flops_are_counted(tmp_path: Path) -> None:
    """Of a recurrent layer: two for each weight, row and step."""
    run = small_runs.create(
        "language_model", {"decoder": {"kind": "rnn", "cell": "lstm"}}, tmp_path / "run"
    )
    assert profile._recurrent((5, 3, 2), (28, 2), (28, 7)) == 2 * 15 * (56 + 196)
    assert profile.profile(run).gflops > 0


def event(name: str, start: float, end: float, number: int = -1) -> Any:
    return SimpleNamespace(
        name=name, time_range=SimpleNamespace(start=start, end=end), sequence_nr=number
    )


def test_a_backward_node_belongs_to_the_part_that_made_it() -> None:
    events = [
        event(PREFIX + "outer", 0, 10),
        event("view", 0, 1, 7),
        event(PREFIX + "inner", 2, 5),
        event("product", 3, 4, 7),  # bears the number last: it made node 7
        event("sum", 6, 7, 8),
        event("autograd::engine::evaluate_function: A", 20, 26, 7),
        event("product", 21, 25),
        event("autograd::engine::evaluate_function: B", 30, 32, 8),
        event("autograd::engine::evaluate_function: AccumulateGrad", 40, 41, 99),
    ]
    forward, backward = profile._attributed(events)
    assert forward == {"outer": 7, "inner": 3}
    assert backward == {"inner": 6, "outer": 2, REST: 1}


def found_with(**changes: Any) -> Profile:
    usual: dict[str, Any] = {
        "updates": 2,
        "seconds": 0.5,
        "targets": 100.0,
        "padding": 0.0,
        "length": 10.0,
        "dim": 16,
        "threads": 2,
        "busy": 2.0,
        "precision": "float32",
        "parts": {"attention": Share(0.1, 0.2), REST: Share(0.7)},
        "gflops": 10.0,
        "limit": 50.0,
    }
    return Profile(**usual | changes)


def test_advice_names_what_stands_out() -> None:
    assert advice(found_with()) == ["Nothing stands out."]
    long = {"attention": Share(0.3, 0.2)}
    assert advice(found_with(parts=long)) == ["Nothing stands out."]
    assert "square" in advice(found_with(parts=long, length=17.0))[0]
    assert "train.threads=1" in advice(found_with(busy=0.9))[0]
    assert "25% of the positions" in advice(found_with(padding=0.25))[0]
    assert "train.workers=1" in advice(found_with(parts={BATCHES: Share(0.03)}))[0]
    assert "tokenizer.vocabulary" in advice(found_with(parts={HEAD: Share(0.2, 0.3)}))[0]
    assert "20% of the 50" in str(found_with())
