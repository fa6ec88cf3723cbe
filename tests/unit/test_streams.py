"""Standard input, output and error: closed, full, or with nobody at the other end."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from regard import cli
from regard.console import streams
from regard.errors import UserError
from regard.runs import Run
from regard.verbs import display
from tests import corpus, small_runs
from tests.unit.test_cli import command

FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
POSIX = pytest.mark.skipif(os.name != "posix", reason="the shell's way to close a stream")


def shell(script: str, *arguments: object) -> subprocess.CompletedProcess[bytes]:
    """The command, by which `regard` stands in a script, as a shell runs it."""
    words = ["sh", "-c", f'regard() {{ "{sys.executable}" -m regard "$@"; }}; {script}', "sh"]
    return subprocess.run(
        [*words, *map(str, arguments)],
        capture_output=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


# A line for each line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("one", "one"),
        ("", ""),
        ("a\nb", "a b"),
        ("a\r\nb\rc\n", "a b c "),
        ("\n\n", "  "),
        ("a\x0bb\x85c\u2028d", "a\x0bb\x85c\u2028d"),
    ],
)
def test_an_output_is_one_line(text: str, line: str):
    from regard.verbs.common import one_line

    assert one_line(SimpleNamespace(reads_files=False), text) == line


def test_evaluate_writes_a_line_for_each_input(tmp_path: Path, capsys):
    """Samples of an untrained model over bytes: some of them are newlines."""
    parts = {"encoder": small_runs.BLOCKS, "decoder": small_runs.BLOCKS}
    keys: dict[str, Any] = {
        "tokenizer": {"kind": "bytes"},
        "output": {"factor": 1.0, "extra": 300},
        "search": {"kind": "sample", "temperature": 10.0, "min_length": 250},
        "evaluation": {"metrics": ["exact"]},
    }
    run = small_runs.create("translate", parts, tmp_path / "run", **keys).folder
    output, source = tmp_path / "out.txt", tmp_path / "run-data" / "text.source"
    cli.main(["evaluate", str(run), "--part", "validation", "--output", str(output)])
    capsys.readouterr()
    cli.main(["predict", str(run), str(source), "--json"])
    texts = [json.loads(line)["text"] for line in capsys.readouterr().out.split("\n")[:-1]]
    assert "\n" in "".join(texts) and "\r" in "".join(texts), "or else this shows nothing"
    lines = output.read_bytes().decode().split("\n")
    assert len(small_runs.LINES) == len(texts) == len(lines) - 1
    assert lines == [*(text.replace("\n", " ").replace("\r", " ") for text in texts), ""]


def test_an_output_file_is_whole_or_not_there(tmp_path: Path, monkeypatch):
    place = tmp_path / "out.txt"
    place.write_text("before\n")
    link = tmp_path / "link"
    link.symlink_to(place)
    streams.put(link, b"after\n")
    assert link.is_symlink() and place.read_bytes() == b"after\n"

    def full(path: Path, data: bytes) -> None:
        with path.open("wb") as file:
            file.write(data[:2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(UserError, match=r"out\.txt: No space left on device"):
        streams.put(place, b"never\n")
    monkeypatch.undo()
    assert place.read_bytes() == b"after\n"
    assert {path.name for path in tmp_path.iterdir()} == {"out.txt", "link"}


@FULL
def test_a_file_that_is_a_device(tmp_path: Path):
    with pytest.raises(UserError, match="/dev/full: No space left on device"):
        streams.put(Path("/dev/full"), b"never\n")


@pytest.mark.parametrize("verb", ["evaluate", "inspect"])
def test_where_to_write_is_checked_first(verb: str, tmp_path: Path, capsys):
    """Before the run is even looked at."""
    for place, wanted in (
        (tmp_path / "no" / "x", f"there is no folder {tmp_path / 'no'}"),
        (tmp_path, "is a folder: name a file"),
    ):
        texts = ["a"] if verb == "inspect" else []
        with pytest.raises(SystemExit) as stop:
            cli.main([verb, str(tmp_path / "nowhere"), *texts, "--output", str(place)])
        assert stop.value.code == 1
        assert wanted in capsys.readouterr().err


# Closed streams


@POSIX
def test_messages_never_go_to_stdout():
    """With stderr closed, `print(…, file=sys.stderr)` would print to stdout."""
    ended = shell("regard keys zzzz 2>&-")
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, b"", b"")
    run, lines = corpus.trained(), b"ka lo\\nka zz\\n\\377\\n"
    script = f"printf '{lines.decode()}' | regard predict \"$1\""
    open_, closed = shell(script, run), shell(f"{script} 2>&-", run)
    assert open_.returncode == closed.returncode == 0
    assert b"never seen" in open_.stderr and b"not UTF-8" in open_.stderr
    assert closed.stdout == open_.stdout
    assert len(closed.stdout.splitlines()) == 3


@POSIX
@pytest.mark.parametrize("verb", ["--version", "--help", "data list", "data list --json"])
def test_lost_output_is_an_error(verb: str):
    closed = shell(f"regard {verb} >&-")
    assert (closed.returncode, closed.stderr) == (1, b"regard: standard output: it is closed\n")
    nobody = shell(f"regard {verb} >&- 2>&-")
    assert nobody.returncode == 1


@POSIX
def test_a_closed_stdin():
    ended = shell('regard predict "$1" <&-', corpus.trained())
    assert (ended.returncode, ended.stdout) == (1, b"")
    assert ended.stderr == b"regard: standard input: it is closed\n"


@POSIX
def test_no_file_takes_the_place_of_a_closed_stream(tmp_path: Path):
    """Or else whatever writes to number 1 or 2 would write into it."""
    script = "\n".join([
        "import os, sys",
        "from regard.console import streams",
        "with streams.standard():",
        "    sys.exit(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT) < 3)",
    ])  # fmt: skip
    closed = f'\'{sys.executable}\' -c "$1" "$2" <&- >&- 2>&-'
    assert shell(closed, script, tmp_path / "file").returncode == 0


# Full and broken ones


@FULL
@pytest.mark.parametrize("verb", ["--help", "data list"])
def test_a_full_disk_behind_stdout(verb: str):
    ended = shell(f"regard {verb} >/dev/full")
    assert ended.returncode == 1
    assert ended.stderr == b"regard: standard output: No space left on device\n"


@FULL
def test_a_training_needs_no_terminal(tmp_path: Path):
    """It writes nothing to stdout, and what is trained counts, not what is said about it."""
    recipe, run = corpus.write(tmp_path), tmp_path / "run"
    ended = shell('regard train "$1" train.updates=2 --to "$2" >&- 2>/dev/full', recipe, run)
    assert ended.returncode == 0
    assert Run(run).find("final").progress()["update"] == 2
    assert shell("regard trian 2>/dev/full").returncode == 2


@pytest.mark.parametrize(("name", "line"), [("in.txt", ""), ("in.tsv", "7\tvu\t")])
def test_a_reader_that_has_seen_enough(name: str, line: str, tmp_path: Path):
    """`regard predict … | head -1` ends in peace, and in UTF-8 whatever the terminal speaks."""
    file = tmp_path / name
    file.write_text(f"{line.rstrip() or 'vu'}\n" * 9000, encoding="utf-8")
    options = ("--search", "greedy", "--prefix", "schön groß")
    process = command("predict", corpus.trained(), file, *options, PYTHONIOENCODING="ascii")
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline().decode().startswith(f"{line}schön groß")
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 141, "128 + SIGPIPE, as a shell has it"
    assert errors == b""


@pytest.mark.parametrize("verb", ["--help", "data list"])
def test_a_reader_that_was_never_there(verb: str):
    read, write = os.pipe()
    os.close(read)
    process = command(*verb.split(), stdout=write)
    os.close(write)
    _, errors = process.communicate()
    assert (process.returncode, errors) == (141, b"")


@POSIX
def test_a_reader_of_messages_that_has_gone_away():
    """The last message is dropped, not printed elsewhere."""
    read, write = os.pipe()
    os.close(read)
    words = [sys.executable, "-m", "regard", "trian"]
    ended = subprocess.run(words, stdout=subprocess.PIPE, stderr=write, check=False)
    os.close(write)
    assert (ended.returncode, ended.stdout) == (2, b""), "it had failed before"


def test_a_broken_pipe_elsewhere_is_an_error(monkeypatch, capsys):
    """Such as that of a server: only a reader of our own output is left in peace."""

    def broken(*_: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("regard.data.catalogue.names", broken)
    with pytest.raises(SystemExit) as stop:
        cli.main(["data", "list"])
    assert stop.value.code == 1
    assert capsys.readouterr().err == "regard: Broken pipe\n"


def test_the_streams_are_given_back(capfd):
    before = sys.stdin, sys.stdout, sys.stderr
    with streams.standard() as lost:
        print("ä")
        assert lost() is None
    assert (sys.stdin, sys.stdout, sys.stderr) == before
    assert capfd.readouterr().out == "ä\n"


def test_messages_cannot_steer_a_terminal(capsys):
    display.warn("a\x1b[2Jb\u202ec\ud800d\r é")
    assert capsys.readouterr().err == "regard: a\\x1b[2Jb\\u202ec\\ud800d\\r é\n"


# Ctrl-C while everything is being imported

HOOK = """
import signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == TARGET:
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)

TARGET = sys.argv[1]
sys.argv[:2] = ["regard"]
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Finder())
from regard.__main__ import main
main()
"""


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("tyro", b""),
        ("regard.cli", b""),
        ("regard.verbs.using", b""),
        ("torch", b"regard: interrupted\n"),
        ("tokenizers", b"regard: interrupted\n"),
    ],
)
def test_an_interruption_of_an_import(module: str, said: bytes):
    words = [sys.executable, "-c", HOOK, module, "predict", "nowhere"]
    ended = subprocess.run(words, capture_output=True, check=False)
    # Python ends itself by the signal where the exception went through `exec`: the same to a shell.
    assert ended.returncode in (130, -signal.SIGINT)
    assert (ended.stdout, ended.stderr) == (b"", said)


def test_the_package_is_imported_before_much_else():
    """Whatever it imports is time in which Ctrl-C still leaves a traceback."""
    script = (
        "import sys\nbefore = set(sys.modules)\nimport regard\n"
        "print(*sorted(n for n in set(sys.modules) - before if not n.startswith('regard')))\n"
    )
    ended = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, check=True)
    allowed = {"importlib", "importlib._bootstrap", "importlib._bootstrap_external", "warnings"}
    assert set(ended.stdout.decode().split()) <= allowed | {"_warnings"}
