"""The harness of the benchmarks; the benchmarks themselves are not tests."""

import argparse
import json
import math
import runpy
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from bench import (
    __main__ as command,
    busy,
    decoding,
    features,
    machine,
    peers,
    plan as planning,
    processes,
    scaling,
    training,
)
from bench.batches import Corpus
from bench.ngrams import Ngrams
from bench.table import compare
from regard.errors import UserError
from regard.layers import native
from regard.train.group import Group
from regard.types import Position


class Replayed(peers.Peer):
    """A contestant whose rounds are given: (tokens, seconds, processor seconds)."""

    def __init__(self, name: str, *rounds: tuple[int, float, float]) -> None:
        keys = ("tokens", "seconds", "cpu_seconds")
        given = [dict(zip(keys, each, strict=True)) | {"peak_megabytes": 7.0} for each in rounds]
        super().__init__(name, None, {}, given)  # type: ignore[arg-type]


def test_best_rounds_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    ours = Replayed("regard", (100, 2.0, 1.0), (100, 1.0, 0.5), (100, 4.0, 4.0))
    theirs = Replayed("other", (100, 5.0, 2.0), (100, 4.0, 3.0), (100, 10.0, 9.0))
    race = peers.Race([ours, theirs], {"gone": "pip could not install it"}, complete=False)
    result = compare(race, "tokens per second")
    assert result["ratio"] == {"other": 4.0, "gone": None}
    assert result["ratio_cpu"] == {"other": 4.0}
    assert result["figures"]["regard"]["best"] == 100
    assert result["figures"]["other"]["median"] == 20
    assert "gone  did not take part: pip could not install it" in capsys.readouterr().out


ANSWERS = """
import json, sys
rounds = int(json.loads(sys.argv[1])["rounds"])
print(json.dumps({"ready": {}}), flush=True)
for number, _ in enumerate(sys.stdin):
    if number == rounds:
        raise SystemExit("no more")
    answer = {"tokens": 10, "seconds": 1, "cpu_seconds": 1, "peak_megabytes": 1}
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder where contestants are looked for: one that gives up after some rounds."""
    (tmp_path / "contestants").mkdir()
    (tmp_path / "contestants" / "answers.py").write_text(ANSWERS)
    monkeypatch.setattr(peers, "HERE", tmp_path)
    monkeypatch.setattr(peers, "HOME", tmp_path / ".bench")
    return tmp_path


def test_a_race_goes_on_without_those_who_cannot(place: Path) -> None:
    given = [
        peers.Contestant("regard", "answers.py", {"rounds": 9}),
        peers.Contestant("broken", "no_such_script.py", {}),
        peers.Contestant("tired", "answers.py", {"rounds": 1}),
    ]
    seen: list[tuple[int, list[str]]] = []
    race = peers.race(
        given, 3, 60, after=lambda number, who: seen.append((number, [p.name for p in who]))
    )
    assert [(peer.name, peer.rates()) for peer in race.peers] == [("regard", [10.0] * 3)]
    assert race.absent["broken"].startswith("it stopped with code 2: ")
    log = place / ".bench" / "logs" / "tired.txt"
    assert race.absent["tired"] == f"it stopped with code 1: no more ({log} has all that it said)"
    assert not race.complete
    assert seen == [(1, ["regard", "tired"]), (2, ["regard"]), (3, ["regard"])]


def test_one_that_need_not_be_there_is_not_missed(place: Path) -> None:
    unneeded = peers.Contestant("broken", "no_such_script.py", {}, needed=False)
    race = peers.race([peers.Contestant("regard", "answers.py", {"rounds": 1}), unneeded], 1, 60)
    assert list(race.absent) == ["broken"]
    assert race.complete


def test_without_regard_there_is_no_race(place: Path) -> None:
    with pytest.raises(
        UserError, match=r"^regard cannot take part: it stopped with code 1: no more"
    ):
        peers.race([peers.Contestant("regard", "answers.py", {"rounds": 0})], 1, 60)


PIP = """#!/bin/sh
echo "WARNING: Location '/opt' is ignored"
echo "ERROR: Could not find a version that satisfies the requirement other==1 (from versions: none)"
echo "ERROR: No matching distribution found for other==1" >&2
exit 1
"""


def test_an_environment_that_cannot_be_made_is_said_in_one_line(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip says much; only its last error is of interest, and nothing is taken for installed."""

    def create(folder: Path, **options: bool) -> None:
        interpreter = folder / "bin" / "python"
        interpreter.parent.mkdir(parents=True)
        interpreter.write_text(PIP)
        interpreter.chmod(0o755)

    monkeypatch.setattr("venv.create", create)
    monkeypatch.setattr(peers, "ENVIRONMENTS", {"other": ["other==1"]})
    with pytest.raises(peers.Unavailable) as said:
        peers.python("other")
    why = "No matching distribution found for other==1"
    assert str(said.value) == f"pip could not install it: {why}"
    assert not (place / ".bench" / "venvs" / "other" / "done.txt").exists()
    with pytest.raises(peers.Unavailable, match=r"no virtual environment in .*: .*File exists"):
        peers.python("other")


def test_the_last_line_is_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def given(options: Any) -> dict[str, Any]:
        print("a table")
        return {"ratio": {"other": 2.0 if options.quick else 1.0}}

    monkeypatch.setitem(command.BENCHMARKS, "train", given)
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    command.main(["train", "--quick", "--threads", "1"])
    said = capsys.readouterr().out.splitlines()
    last = json.loads(said[-1])
    assert last["benchmark"] == "train"
    assert last["ratio"] == {"other": 2.0}
    about = last["machine"]
    assert about["threads"] == 1
    assert about["features"]["torch"] in ("DEFAULT", "NO AVX"), "asked of a process as those are"
    assert about["features"]["ATEN_CPU_CAPABILITY"] == "default"
    assert about["regard trains in"] in ("float32", "bfloat16")
    for name in ("processor", "threads", "regard trains in"):
        assert any(line.strip() == f"{name}  {about[name]}" for line in said), "at the top, too"


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["trian"], 2, "there is no benchmark 'trian'; did you mean train?"),
        (["train", "--fast"], 2, "unrecognized arguments: --fast; "),
        (["train", "--threads", "two"], 2, "argument --threads: invalid int value: 'two'; "),
        (["train", "--threads", "0"], 2, "--threads 0: at least 1 is needed"),
        ([], 2, "the following arguments are required: NAME; "),
        (["train", "--data", "nowhere"], 1, "--data nowhere: there is no folder multi30k in it"),
        (["measures"], 1, "the data set multi30k is not there in "),
        (["busy"], 1, "the data set multi30k is not there in "),
        (["prepare"], 1, "the data set multi30k is not there in "),
        (["lstm"], 1, "the data set multi30k is not there in "),
        (["decode"], 1, "the data set multi30k is not there in "),
        (["ngrams"], 2, "the data set timemachine is not there in "),
        (["decode", "--run", "nowhere"], 1, "nowhere does not exist"),
    ],
)
def test_what_is_missing_or_wrong_is_said_in_one_line(
    arguments: list[str],
    code: int,
    reason: str,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("REGARD_DATA", str(place / "data"))
    monkeypatch.setattr(machine, "describe", lambda threads: {})
    monkeypatch.setattr(decoding, "HOME", place / ".bench")
    with pytest.raises(SystemExit) as stopped:
        command.main(arguments)
    assert stopped.value.code == code
    said = capsys.readouterr().err
    assert said.startswith("bench: ")
    assert reason in said
    assert said.count("\n") == 1


def test_a_run_of_another_task_cannot_be_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    other = SimpleNamespace(folder="runs/lines", recipe=SimpleNamespace(kind="language_model"))
    monkeypatch.setattr("regard.runs.Run", lambda folder: other)
    with pytest.raises(UserError, match="--run runs/lines: its task is language_model"):
        decoding.decode(argparse.Namespace(run="runs/lines", quick=True))


def test_the_exit_code_says_that_a_peer_was_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(command.BENCHMARKS, "train", lambda options: {"complete": False})
    monkeypatch.setattr(machine, "describe", lambda threads: {})
    with pytest.raises(SystemExit) as stopped:
        command.main(["train"])
    assert stopped.value.code == 1


def test_ratios_of_decoding_leave_out_who_was_not_there() -> None:
    best = {"regard ctranslate2": 6.0, "regard ctranslate2 int8": 8.0, "regard torch": 4.0}
    assert decoding.ratios(best) == {}
    found = decoding.ratios(best | {"huggingface": 2.0})
    assert found == {
        "huggingface": 4.0,
        "huggingface, ours in int8": 4.0,
        "huggingface, ours in float32": 3.0,
        "huggingface, by the torch engine": 2.0,
    }
    found = decoding.ratios(best | {"ctranslate2": 3.0, "ctranslate2 int8": 16.0})
    assert found == {
        "ctranslate2": 0.5,
        "ctranslate2, both in int8": 0.5,
        "ctranslate2, both in float32": 2.0,
    }


LOG = """\
torch: AVX512
onednn_verbose,v1,info,cpu,runtime:OpenMP,nthr:2
onednn_verbose,v1,info,cpu,isa:Intel AVX-512 with Intel DL Boost and bfloat16 support
onednn_verbose,v1,info,gpu,runtime:none
[ctranslate2] [thread 5593] [info] CPU: AuthenticAMD (SSE4.1=true, AVX=true, AVX2=true)
[ctranslate2] [thread 5593] [info]  - Selected ISA: AVX2
[ctranslate2] [thread 5593] [info]  - SGEMM backend: DNNL (packed: false)
[ctranslate2] [thread 5593] [info]  - GEMM_S16 backend: none (packed: false)
[ctranslate2] [thread 5593] [info]  - GEMM_S8 backend: MKL (packed: false, u8s8 preferred: true)
RuntimeError: Unable to open file 'model.bin' in model 'nowhere'
"""


def test_features_are_what_the_libraries_say() -> None:
    assert features.said(LOG) == {
        "torch": "AVX512",
        "oneDNN": "AVX-512 with VNNI and bfloat16 support",
        "CTranslate2": "AVX2, float32 products by oneDNN, int8 products by MKL",
    }
    assert features.said("torch: AVX2\nModuleNotFoundError") == {
        "torch": "AVX2",
        "oneDNN": "unknown",
        "CTranslate2": "unknown",
    }


def test_features_of_the_processor(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("model name\t: X\nflags\t\t: sse avx2 avx512f avx512_vnni\nbugs\t: none\n")
    assert features.of_processor(info) == "AVX2, AVX-512, VNNI"
    info.write_text("processor\t: 0\nFeatures\t: fp asimd i8mm bf16\nCPU part\t: 0xd0c\n")
    assert features.of_processor(info) == "NEON, int8 products, bfloat16"


@pytest.mark.parametrize(
    ("gain", "lstm", "said"),
    [
        (2.0, True, "native: 2.00 times"),
        (0.4, True, "emulated: 0.40 times"),
        (0.0, False, "emulated: 0.00 times"),
        (1.5, False, "without an LSTM: 1.50 times"),
    ],
)
def test_the_benchmarks_report_what_regard_decided_by(
    gain: float, lstm: bool, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One trial serves both: what training uses, and what is reported of the machine."""
    monkeypatch.setattr(native, "gain", lambda: gain)
    monkeypatch.setattr(native, "_has_lstm", lambda: lstm)
    monkeypatch.setattr(native, "bfloat16", native.bfloat16.__wrapped__)
    assert features.is_native() is native.bfloat16() is (gain > 1 and lstm)
    assert features.bfloat16() == f"{said} as fast as float32 in a product"


def test_variables_that_bound_the_features_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "in_use", lambda: {"torch": "AVX2"})
    monkeypatch.setattr(native, "gain", lambda: 0.01)
    monkeypatch.setattr(native, "bfloat16", lambda: False)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    monkeypatch.delenv("CT2_FORCE_CPU_ISA", raising=False)
    found = features.describe()
    assert found["torch"] == "AVX2"
    assert found["bfloat16"] == "emulated: 0.01 times as fast as float32 in a product"
    assert found["ONEDNN_MAX_CPU_ISA"] == "AVX2"
    assert "CT2_FORCE_CPU_ISA" not in found


def test_emulated_products_are_not_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(native, "gain", lambda: 0.01)
    monkeypatch.setattr(native, "bfloat16", lambda: False)
    monkeypatch.setattr(machine, "product", lambda m, k, n, dtype: float(m))
    found = machine.limits([(2, 3, 5), (7, 3, 5)], threads=torch.get_num_threads())
    assert found["float32 GFLOP/s"] == 7
    assert "bfloat16 GFLOP/s" not in found
    assert "emulated here, not measured" in capsys.readouterr().out


def test_fractions_of_the_limits_are_said_of_each_round(
    capsys: pytest.CaptureFixture[str],
) -> None:
    limits = {"float32 GFLOP/s": 50.0, "bfloat16 GFLOP/s": 100.0, "memory GB/s": 5.0}
    training._report(0.01, limits)(3, [Replayed("regard", (9, 9.0, 9.0), (6000, 2.0, 1.0))])
    assert capsys.readouterr().out == (
        "round 3: regard 3,000 target tokens per second, 30 GFLOP/s, "
        "60% of the float32 limit, 30% of the bfloat16 limit\n"
    )


@pytest.mark.parametrize("own", [True, False])
def test_the_gain_of_each_measure(
    own: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(native, "bfloat16", lambda: own)
    monkeypatch.setattr(features, "in_use", lambda: {"torch": "AVX2", "oneDNN": "AVX2"})
    given: list[peers.Peer] = [Replayed("regard", (10, 9.0, 1.0))]
    given += [Replayed("no kept pages", (10, 9.0, 1.5))]
    given += [Replayed("no bfloat16", (10, 9.0, 2.0))] if own else []
    assert training.gains(given) == {"kept pages": 1.5, "bfloat16": 2.0 if own else None}
    said = capsys.readouterr().out
    assert "torch at AVX2 and oneDNN at AVX2" in said
    assert ("emulated here: not used, and not measured" in said) is not own


def test_batches_are_padded_to_few_shapes() -> None:
    """(4, 8, 8) and (4, 9, 8) share a shape at the cost of 4 positions, the others at more."""
    shapes = runpy.run_path("bench/contestants/shapes.py")
    given = [(4, 8, 8), (9, 3, 3), (4, 9, 8), (4, 8, 8)]
    assert shapes["common"](given, 4) == {shape: shape for shape in given}
    assert shapes["common"](given, 2) == {
        (4, 8, 8): (4, 9, 8),
        (4, 9, 8): (4, 9, 8),
        (9, 3, 3): (9, 3, 3),
    }
    assert set(shapes["common"](given, 1).values()) == {(9, 9, 8)}


def test_each_way_of_sharing_has_its_contestant() -> None:
    options = argparse.Namespace(threads=2)
    found = {c.name: c for c in busy.contestants(options, "batches", seconds=3)}
    assert list(found) == [
        "1 thread",
        "2 threads, half a batch each",
        "2 threads, inside each operation",
        "2 threads, inside, OMP_WAIT_POLICY=passive",
    ]
    assert [c.options["threads"] for c in found.values()] == [1, 2, 2, 2]
    assert [c.options["without"] for c in found.values()] == ["", "", "halves", "halves"]
    passive = found["2 threads, inside, OMP_WAIT_POLICY=passive"]
    assert passive.variables == {"OMP_WAIT_POLICY": "passive"}


def test_rates_under_load(capsys: pytest.CaptureFixture[str]) -> None:
    result = busy.show({"1 thread": {0: [100.0, 300.0, 200.0], 2: [50.0, 40.0, 90.0]}}, [0, 2])
    assert result["figures"] == {
        "1 thread": {"alone": {"median": 200, "best": 300}, "2 busy": {"median": 50, "best": 90}}
    }
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.split() == ["1", "thread", "200", "(100%)", "50", "(", "25%)"]


def test_cores_are_kept_busy_and_let_go() -> None:
    with busy.spinning(2) as processes:
        assert [process.poll() for process in processes] == [None, None]
    assert [process.poll() for process in processes] == [-signal.SIGKILL] * 2


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


@pytest.mark.parametrize("size", [training.TINY, training.BASE], ids=["tiny", "base"])
def test_two_processes_train_the_models_of_the_other_benchmarks(size: dict[str, Any]) -> None:
    """Encoder and decoder of the size that `train` and `base` have; the shapes are theirs."""
    job = processes.job_of(size, 53, 3, Group(), 1, length=5)
    model: Any = job.objective.model
    assert model.encoder is not None and model.decoder is not None
    dim, inner, layers = (int(size[key]) for key in ("dim", "feedforward", "layers"))
    widths = [p.shape for n, p in model.named_parameters() if n.endswith("weight") and p.ndim == 2]
    assert sum(shape == (dim, inner) for shape in widths) == 2 * layers
    batch = job.batches.at(Position())
    assert batch.targets == 15 and {"source", "target_in", "target_out"} <= batch.tensors.keys()
    terms, _ = job.objective(batch)
    assert next(iter(terms.values())).sum > 0


@pytest.mark.parametrize(("wall", "kept"), [(0.9, True), (0.89, False)])
def test_two_processes_are_held_to_a_bound(
    wall: float, kept: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    turns = {"speed": [90.0, 100.0, 110.0], "cpu": [1.0] * 3}
    found = {"one": turns, "two": turns, "cpu": 1.0}
    result = processes.report({"tiny": found | {"wall": wall}, "base": found | {"wall": 0.97}})
    assert result["complete"] is kept
    assert result["ratio"]["tiny, wall"] == wall
    said = capsys.readouterr().out
    assert f"{'yes' if kept else 'NO':>4}  tiny: {wall:.2f} of" in said and " yes  base: " in said


@pytest.mark.parametrize(
    ("changed", "kept"),
    [
        ({}, True),
        ({"time_ratio": 0.75, "memory_ratio": 1.25, "parameters_ratio": 1.009}, True),
        ({"parameters_ratio": 0.98}, False),
        ({"time_ratio": 1.26}, False),
        ({"memory_ratio": 0.74}, False),
    ],
)
def test_plans_are_held_to_bounds(
    changed: dict[str, float], kept: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    exact = {"time_ratio": 1.0, "memory_ratio": 1.0, "parameters_ratio": 1.0}
    assert planning.judged({"one": exact, "other": exact | changed}) is kept
    said = capsys.readouterr().out
    assert said.count(" yes  ") == (6 if kept else 5) and said.count("  NO  ") == (not kept)
