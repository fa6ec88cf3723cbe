"""The harness of the benchmarks; the benchmarks themselves are not tests."""

import json
import math
from typing import Any

import numpy as np
import pytest

from bench import __main__ as command, machine, peers, scaling
from bench.batches import Corpus
from bench.ngrams import Ngrams
from bench.table import compare


class Replayed(peers.Peer):
    """A contestant whose rounds are given: (tokens, seconds, processor seconds)."""

    def __init__(self, name: str, *rounds: tuple[int, float, float]) -> None:
        keys = ("tokens", "seconds", "cpu_seconds")
        given = [dict(zip(keys, each, strict=True)) | {"peak_megabytes": 7.0} for each in rounds]
        super().__init__(name, None, {}, given)  # type: ignore[arg-type]


def test_best_rounds_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    ours = Replayed("regard", (100, 2.0, 1.0), (100, 1.0, 0.5), (100, 4.0, 4.0))
    theirs = Replayed("other", (100, 5.0, 2.0), (100, 4.0, 3.0), (100, 10.0, 9.0))
    result = compare([ours, theirs], "tokens per second", {"gone": "pip could not install it"})
    assert result["ratio"] == {"other": 4.0, "gone": None}
    assert result["ratio_cpu"] == {"other": 4.0}
    assert result["figures"]["regard"]["best"] == 100
    assert result["figures"]["other"]["median"] == 20
    assert "gone  did not take part: pip could not install it" in capsys.readouterr().out


def test_a_contestant_that_stops_is_absent() -> None:
    broken = peers.Contestant("broken", "no_such_script.py", {})
    assert peers.start([broken]) == ([], {"broken": "it stopped with code 2"})


def test_the_last_line_is_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def given(options: Any) -> dict[str, Any]:
        print("a table")
        return {"ratio": {"other": 2.0 if options.quick else 1.0}}

    monkeypatch.setitem(command.BENCHMARKS, "train", given)
    monkeypatch.setattr("sys.argv", ["bench", "train", "--quick", "--threads", "1"])
    command.main()
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["benchmark"] == "train"
    assert last["ratio"] == {"other": 2.0}
    assert last["machine"]["threads"] == 1


def test_batches_at_random_stay_within_the_budget_and_hold_more_padding() -> None:
    corpus = object.__new__(Corpus)
    corpus.lengths = np.random.default_rng(0).integers(2, 30, (400, 2))
    for plan in (corpus.by_length(200), corpus.at_random(200)):
        assert all(corpus.lengths[ids].max() * len(ids) <= 200 for ids in plan)

    def filled(plan: Any) -> float:
        size = sum(corpus.lengths[ids].max(0).sum() * len(ids) for ids in plan)
        return float(sum(corpus.lengths[ids].sum() for ids in plan) / size)

    assert filled(corpus.by_length(200)) > filled(corpus.at_random(200)) + 0.1
    assert sorted(np.concatenate(list(corpus.by_length(200)))) == list(range(400))


def test_growth() -> None:
    assert scaling.exponent({1: 9.0, 2: 1.0, 4: 4.0}) == pytest.approx(2)


def test_shares_of_the_limits() -> None:
    found = machine.shares(30.0, {"float32 GFLOP/s": 60.0, "memory GB/s": 5.0})
    assert found["share"] == {"float32 GFLOP/s": 0.5}


def test_ngrams_share_between_what_was_seen_and_shorter_ones():
    """Of “aab”: p₁(a) = (2 + 2 · ½) / (3 + 2), p₂(b | a) = (1 + 2 · ⅖) / (2 + 2)."""
    model = Ngrams("aab", order=2, characters=2)
    assert model.probability("a", "") == pytest.approx(3 / 5)
    assert model.probability("b", "a") == pytest.approx(9 / 20)
    assert model.probability("a", "b") == pytest.approx(3 / 5), "nothing was seen after b"
    assert model.bits("ab") == pytest.approx(-(math.log2(3 / 5) + math.log2(9 / 20)) / 2)
    for before in ("", "a", "b"):
        assert sum(model.probability(each, before) for each in "ab") == pytest.approx(1)
