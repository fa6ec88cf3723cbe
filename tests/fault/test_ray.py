"""A cluster of two nodes, one of which loses a worker: what it makes is what one machine makes.

Ray's own processes take ten seconds to start, so that one cluster serves all tests, and none runs
by default: REGARD_FAULTS=some has 8,000 lines, full 200,000.
"""

import gzip
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from regard.train import lock
from tests.fault.conftest import FULL, Amount, Tally

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'regard[ray]'")
pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.skipif("REGARD_FAULTS" not in os.environ, reason="a cluster takes its time"),
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="finds workers in /proc"),
]
PROJECT = Path(__file__).resolve().parents[2]
RUN = """\
import sys
from regard import cli
from regard.examples import piecework
piecework.BLOCKS = 1
cli.main(sys.argv[1:])
"""
"""The command line, with pieces of 2,048 lines."""
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(PROJECT), "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # 15 otherwise: on a busy machine they would hardly be served
}  # fmt: skip
WORDS = ["ka", "lo", "mi", "nu", "pe", "sol"]
SHARDS = 40


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Of a cluster of two nodes of this machine."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        node = {"num_cpus": 1, "object_store_memory": 200 << 20}
        cluster = Cluster(True, head_node_args={**node, "include_dashboard": False})
        try:
            cluster.add_node(**node)
            yield cluster.address
        finally:
            cluster.shutdown()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe of so many lines, and the same lines as shards: texts, tables, gzip."""
    folder = tmp_path_factory.mktemp("ray")
    count = 200_000 if FULL else 8_000
    lines = [f"{WORDS[n % 6]} {WORDS[n % 5]} {WORDS[n * n % 7 % 6]}" for n in range(count)]
    for side in ("source", "target"):
        (folder / f"train.{side}").write_text("\n".join(lines) + "\n")
    (folder / "shards").mkdir()
    for n in range(SHARDS):
        some = lines[n * count // SHARDS : (n + 1) * count // SHARDS]
        name, text = f"{n:02}.txt", "\n".join(some)
        if n % 4 == 3:
            name, text = f"{n:02}.tsv", "\n".join(["n\tsource", *(f"{n}\t{line}" for line in some)])
        written = gzip.compress(text.encode()) if n % 5 == 4 else text.encode()
        (folder / "shards" / (name + ".gz" * (n % 5 == 4))).write_bytes(written)
    recipe = {
        "task": "translate",
        "data": {"train": ["train.source", "train.target"]},
        "tokenizer": {"kind": "word", "vocabulary": 20},
        "model": {"dim": 8, "encoder": {"layers": 1}, "decoder": {"layers": 1}},
        "search": {"kind": "greedy"},
        "output": {"factor": 1.0, "extra": 1},
        "train": {"updates": 1},
    }
    (folder / "mine.toml").write_text(tomli_w.dumps(recipe))
    return folder


def started(data: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", RUN, *words]
    return subprocess.Popen(command, cwd=data, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> str:
    """What it says on stderr."""
    _, said = process.communicate()
    assert process.returncode == 0, said
    return said


@pytest.fixture(scope="module")
def run(data: Path) -> Path:
    """What one process prepares; the run `alone` is trained, too."""
    ended(started(data, "prepare", "mine.toml", "--to", "alone", "--processes", "1"))
    shutil.copytree(data / "alone", data / "plain")
    ended(started(data, "train", "--resume", "alone"))
    return data / "plain"


def contents(folder: Path) -> dict[str, bytes]:
    hidden = {lock.NAME, ".predicted.json"}
    found = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in hidden)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def workers() -> list[int]:
    """The processes of Ray that do our work now."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            title = (place / "cmdline").read_bytes()
        except OSError:
            continue
        if title.startswith(b"ray::") and b"MapBatches(item_done)" in title:
            found.append(int(place.name))
    return found


def killed(process: subprocess.Popen[str], begun: Callable[[], Any]) -> int:
    """Kill a worker as soon as something is made; how many were killed."""
    while process.poll() is None:
        if begun() and (found := workers()):
            os.kill(found[-1], signal.SIGKILL)
            return 1
        time.sleep(0.002)
    return 0


def test_a_cluster_prepares_the_same(
    address: str, data: Path, run: Path, amount: Amount, tally: Tally
):
    begin = time.perf_counter()
    process = started(data, "prepare", "mine.toml", "--to", "shared", "--ray", address)
    pieces = data / "shared" / "store" / ".train"
    assert killed(process, lambda: [*pieces.glob("0????")])
    said = ended(process)
    assert "what is left" not in said
    assert contents(data / "shared") == contents(run)
    tally("lines prepared by a cluster that lost a worker", amount(8_000, 200_000))
    print(f"prepared in {time.perf_counter() - begin:.0f} s: {said}")


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_cluster_predicts_the_same(
    options: list[str], address: str, data: Path, run: Path, amount: Amount, tally: Tally
):
    name = "texts" if not options else "objects"
    ended(started(data, "predict", "alone", "shards", "--to", f"{name}-plain", *options))
    begin = time.perf_counter()
    process = started(data, "predict", "alone", "shards", "--to", name, "--ray", address, *options)
    assert killed(process, lambda: [*(data / name).glob("0*")])
    said = ended(process)
    made = contents(data / name)
    assert made == contents(data / f"{name}-plain") and len(made) == SHARDS
    tally("lines predicted by a cluster that lost a worker", amount(8_000, 200_000))
    print(f"predicted in {time.perf_counter() - begin:.0f} s: {said}")


def test_without_a_folder_a_cluster_writes_all_in_order(address: str, data: Path, run: Path):
    plain, shared = (
        subprocess.run(
            [sys.executable, "-c", RUN, "predict", "alone", "shards", *more],
            cwd=data, env=ENVIRONMENT, capture_output=True,
        )
        for more in ([], ["--ray", address])
    )  # fmt: skip
    assert plain.returncode == shared.returncode == 0, shared.stderr.decode()
    assert plain.stdout and plain.stdout == shared.stdout
