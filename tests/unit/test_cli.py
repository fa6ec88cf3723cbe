"""The command line, as a person and a pipe meet it."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import regard
from regard import cli
from regard.recipe import config
from regard.train.progress import Progress
from tests import corpus

VERBS = sorted(cli.VERBS)


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """What came out, split at newlines alone."""
        return self.out.split("\n")[:-1]

    @property
    def objects(self) -> list[dict]:
        return [json.loads(line) for line in self.lines]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """`call("predict", run, data=b"…")`: the command in this process."""

    def run(*arguments: object, data: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        code: object = 0
        try:
            cli.main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = stop.code or 0
        assert isinstance(code, int)
        result = Result(code, *capsys.readouterr())
        assert "Traceback" not in result.err
        return result

    return run


def command(
    *arguments: object, stdout: int = subprocess.PIPE, **variables: str
) -> subprocess.Popen[bytes]:
    """The command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "regard", *map(str, arguments)],
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | variables,
    )


# Help


def test_help_is_quick_and_needs_no_torch():
    """Processor time, as the clock on the wall measures what else the machine does."""
    resource = pytest.importorskip("resource", reason="Windows tells no child's time")
    spent = []
    for _ in range(4):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        output, errors = command("--help").communicate()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert b"train" in output
        assert not errors
    assert min(spent) < 0.5
    script = (
        "import sys\nfrom regard import cli\n"
        "try: cli.main(['train', '--help'])\nexcept SystemExit: pass\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_a_page_with_examples(verb: str, call, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "100")
    page = call(verb, "--help")
    assert page.code == 0
    assert f"usage: regard {verb}" in page.out
    _, _, examples = page.out.partition("\nExamples:\n")
    first = examples.split("\n\n")[0].splitlines()
    assert first, "no examples"
    assert all(line.startswith("  ") and f"regard {verb}" in line for line in first)
    assert "None" not in page.out


def test_the_overview_has_every_verb(call):
    for arguments in ((), ("--help",), ("-h",)):
        page = call(*arguments)
        assert page.code == 0
        assert all(f"\n  {verb} " in page.out for verb in VERBS)
    assert call("--version").out == f"{regard.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("trian",), "did you mean 'train'?"),
        (("predcit", "x"), "did you mean 'predict'?"),
        (("nonsense",), "there are new, "),
        (("--hlep",), "did you mean '--help'?"),
        (("train", "--resum", "x"), "--resume"),
        (("predict", "x", "--beam", "3"), "--beams"),
        (("predict", "x", "--lenght-penalty", "3"), "--length-penalty"),
        (("evaluate", "x", "--prat", "test"), "--part"),
        (("predict",), "RUN"),
        (("predict", "x", "--beams", "many"), "many"),
        (("predict", "x", "--search", "bean"), "beam"),
        (("evaluate", "x", "--part", "tset"), "test"),
        (("train",), "either a recipe or --resume"),
        (("train", "x.toml", "--resume", "y"), "either a recipe or --resume"),
        (("train", "--resume", "x", "--to", "y"), "without changes"),
        (("train", "no-such-recipe"), "there is no such recipe"),
        (("train", "multi30k-en-de", "--parts", "nowhere"), "--parts nowhere"),
        (("data", "get"), "which one?"),
    ],
)
def test_a_wrong_call_is_told_what_is_right(arguments: tuple[str, ...], hint: str, call):
    result = call(*arguments)
    assert result.code == 2
    assert hint in result.err
    assert not result.out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("predict", "nowhere"), 1, "nowhere does not exist"),
        (("predict", "FOLDER"), 1, "is not a run: it has no recipe.toml"),
        (("predict", "RUN", "nowhere.txt"), 1, "nowhere.txt"),
        (("predict", "RUN", "FOLDER"), 1, "is a folder"),
        (("predict", "RUN", "--checkpoint", "7"), 1, "no checkpoint '7'; there are 50, 100, 150"),
        (("predict", "RUN", "--checkpoint", "newest"), 1, "no checkpoint 'newest'"),
        (("predict", "RUN", "--device", "gpu"), 2, "device: 'gpu' is not one of"),
        (("predict", "RUN", "--batch", "0"), 2, "batch: 0 must be ≥ 1"),
        (("predict", "RUN", "--batch", "-3"), 2, "batch: -3 must be ≥ 1"),
        (("predict", "RUN", "--beams", "0"), 2, "beams: 0"),
        (("predict", "RUN", "--nbest", "4", "--json"), 2, "nbest: 4 is more than the 3"),
        (("predict", "RUN", "--temperature", "2"), 2, "temperature: beam search has only"),
        (("predict", "RUN", "--search", "sample", "--top-p", "1.5"), 2, "top_p: 1.5"),
        (("predict", "RUN", "--search", "greedy", "--beams", "2"), 2, "try search = beam"),
        (("evaluate", "RUN", "--batch", "0"), 2, "batch: 0"),
        (("evaluate", "RUN", "--output", "nowhere/x"), 1, "nowhere/x: there is no folder nowhere"),
        (("train", "RECIPE", "--to", "RECIPE"), 1, "is a file"),
        (("train", "RECIPE", "--to", "RUN"), 1, "to go on with it: regard train --resume"),
        (("train", "RECIPE", "--from", "nowhere"), 1, "nowhere does not exist"),
        (("data", "get", "nothing"), 1, "nothing"),
        (("data", "show", "multi3k"), 1, "multi30k"),
        (("data", "get", "multi30k", "--from", "~nosuchuser"), 1, "--from ~nosuchuser: Could not"),
        (("predict", "RUN", "--checkpoint", "²"), 1, "no checkpoint '²'; there are 50, 100, 150"),
        (("predict", "RUN", "--length", "10" * 30), 2, "≤ 10,000,000"),
        (("predict", "RUN", "--batch", "9" * 30), 2, "must be ≥ 1 and ≤ 1,000,000,000"),
        (("compare", "RUN", "FOLDER", "--samples", "9" * 30), 2, "must be ≥ 1 and ≤ 1,000,000"),
        (("predict", "RUN", "--prefix", "\udcff"), 1, r"prefixes[0]: '\udcff' has '\udcff'"),
        (("inspect", "RUN", "\udcff"), 1, r"texts[0]: '\udcff' has '\udcff'"),
        (("inspect", "RUN", "中" * 100, "--length", "0"), 2, "length: 0 must be ≥ 1"),
        (("inspect", "RUN", "ka", "--length", "9" * 30), 2, "must be ≥ 1 and ≤ 10,000,000"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    arguments: tuple[str, ...], code: int, message: str, call, tmp_path: Path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    names = {"RUN": corpus.trained(), "FOLDER": tmp_path}
    names["RECIPE"] = names["RUN"].parent / "corpus" / "recipe.toml"
    result = call(*(names.get(argument, argument) for argument in arguments), data=b"ka\n")
    assert result.code == code
    assert message in result.err
    assert [line for line in result.err.splitlines() if line.startswith("regard: ")]
    assert not result.out
    assert not list(tmp_path.iterdir()), "something is left behind"


# Train, evaluate, predict, score


def test_train_writes_json_alone_to_stdout(call, tmp_path: Path):
    recipe = corpus.write(tmp_path)
    folder = tmp_path / "runs" / "mine"
    result = call("train", recipe, "train.updates=4", "train.log_every=2", "--to", folder, "--json")
    assert result.code == 0
    kinds = [(r["kind"], r["update"]) for r in result.objects]
    assert kinds == [("start", 0), ("train", 2), ("train", 4), ("validation", 4), ("samples", 4)]
    assert f"{result.objects[-1]['input_1']} → " in result.err
    assert "preparing the data" in result.err
    assert f"regard evaluate {folder}" in result.err, "what to do next"
    result = call("train", recipe, "train.updates=2", "--to", tmp_path / "plain")
    assert not result.out
    assert "update 2: loss" in result.err


def test_changes_may_stand_anywhere(call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    recipe = corpus.write(tmp_path / "corpus")
    monkeypatch.chdir(tmp_path)
    result = call(
        "train", recipe, "train.updates=2", "--to", "rate=1", "train.save_every=1", "--json",
        "train.validate_every=1", "seed=4", f"--from={corpus.trained()}", "train.log_every=1",
    )  # fmt: skip
    assert result.code == 0, result.err
    chosen = config.load(tmp_path / "rate=1" / "recipe.toml")
    assert chosen.seed == 4
    assert (chosen.train.updates, chosen.train.save_every, chosen.train.validate_every) == (2, 1, 1)


@pytest.mark.parametrize("verb", ["train", "doctor"])
def test_a_change_without_a_recipe(verb: str, call):
    for before in ((), ("--resume", corpus.trained())):
        result = call(verb, *before, "train.updates=4")
        assert result.code == 2 and "a change needs a recipe" in result.err


def test_choices_are_all_that_is_written(call, tmp_path: Path):
    words = tmp_path / "words.txt"
    words.write_text("Haus\nrot\nzz\n", encoding="utf-8")
    lines = b"ka lo\n\nmi\n"
    found = call("predict", corpus.trained(), "--choices", words, data=lines)
    assert found.code == 0 and {*found.out.splitlines()} <= {"Haus", "rot", ""}
    assert found.out.splitlines()[1] == ""
    assert f"{words}:3: “zz”" in found.err
    free = call("predict", corpus.trained(), data=lines)
    assert call("predict", corpus.trained(), "--choices", "none", data=lines).out == free.out
    scored = call("evaluate", corpus.trained(), "--choices", words, "--output", tmp_path / "out")
    assert scored.code == 0 and f"{words}:3: “zz”" in scored.err
    assert {*(tmp_path / "out").read_text(encoding="utf-8").split()} <= {"Haus", "rot"}
    refused = call("predict", corpus.trained(), "--choices", tmp_path / "word.txt", data=lines)
    assert refused.code == 1 and "did you mean words.txt?" in refused.err


def test_evaluate(call, tmp_path: Path):
    plain = call("evaluate", corpus.trained(), "--output", tmp_path / "out.txt")
    assert plain.code == 0
    assert "nrefs:1|case:mixed" in plain.out
    assert len((tmp_path / "out.txt").read_text().splitlines()) == 10
    result = call("evaluate", corpus.trained(), "--part", "validation", "--json")
    (scores,) = result.objects
    assert scores["part"] == "validation"
    assert {"bleu", "chrf"} <= scores["scores"].keys()
    assert scores["scores"]["chrf"]["signature"].startswith("nrefs:1")
    other = call("evaluate", corpus.trained(), "--baseline", corpus.trained(), "--json")
    assert other.objects[0]["comparison"]["scores"]["bleu"][0]["p"] is None


def test_evaluate_against_another_run(call, tmp_path: Path):
    other = tmp_path / "other"
    regard.train(corpus.write(tmp_path / "corpus"), "train.updates=2", to=other)
    arguments = ("evaluate", corpus.trained(), "--baseline", other)
    mine, theirs = call(*arguments, "--json").objects[0]["comparison"]["scores"]["chrf"]
    assert (mine["system"], theirs["system"]) == (str(corpus.trained()), str(other))
    assert mine["p"] is None and 0 < theirs["p"] < 0.05
    assert mine["score"]["value"] > theirs["score"]["value"]
    table = call(*arguments).out
    assert f"paired bootstrap against {corpus.trained()}" in table
    assert "p = " in next(line for line in table.splitlines() if line.startswith(str(other)))


def test_predict_gives_a_line_for_each_line(call):
    """Empty, blank, with \\r\\n, bad UTF-8, a control character, the last without a newline."""
    data = b"ka lo\n\n   \nmi\r\n\xff\xfe ka\nka\x00\xc2\x85\x0b\xe2\x80\xa8lo\nso"
    result = call("predict", corpus.trained(), data=data)
    assert result.code == 0
    first, empty, blank, third, broken, _control, last = result.lines
    assert (empty, blank, broken) == ("", "", "")
    assert result.err.splitlines() == [
        "regard: standard input:5: not UTF-8: taken as empty",
        "regard: standard input:6: has what the model has never seen: read as unknown",
    ]
    alone = [call("predict", corpus.trained(), data=d).out for d in (b"ka lo\n", b"mi\n", b"so")]
    assert [f"{line}\n" for line in (first, third, last)] == alone
    assert "".join(alone).strip()
    assert not call("predict", corpus.trained(), data=b"").out


def test_predict_takes_nothing_for_an_empty_text_and_not_for_this_folder(
    call, tmp_path: Path, monkeypatch
):
    (tmp_path / "a.txt").write_text("ka\nna\n")
    monkeypatch.chdir(tmp_path)
    empty = call("predict", corpus.trained(), "")
    assert empty.code == 0
    assert empty.out == call("predict", corpus.trained(), data=b"\n").out


def test_predict_reads_a_file(call, tmp_path: Path):
    (tmp_path / "in.txt").write_bytes(b"ka lo\n\nmi nu")
    from_file = call("predict", corpus.trained(), tmp_path / "in.txt")
    assert from_file.out == call("predict", corpus.trained(), data=b"ka lo\n\nmi nu").out


def test_what_the_model_has_never_seen_is_told(call, tmp_path: Path):
    (tmp_path / "in.txt").write_bytes(b"ka lo\nka zz\n")
    result = call("predict", corpus.trained(), tmp_path / "in.txt", "--json")
    assert [found["status"] for found in result.objects] == ["ok", "unknown"]
    never = "has what the model has never seen: read as unknown"
    assert result.err == f"regard: {tmp_path / 'in.txt'}:2: {never}\n"


def test_predict_in_detail(call):
    long = b"ka " * 30
    data = b"ka lo\n\n" + long
    result = call("predict", corpus.trained(), "--format", "jsonl", data=data)
    short, empty, cut = result.objects
    assert short["status"] == "ok"
    assert empty == {"text": "", "status": "empty", "score": 0.0}
    assert cut["status"] == "cut"
    assert result.err == "regard: standard input:3: too long to be read: cut\n"
    assert len(cut["source"]) == 21, "data.max_length and the end"
    for found in (short, cut):
        count = len(found["tokens"])
        assert count == len(found["log_probs"]) == len(found["alignment"])
        assert all(0 <= place < len(found["source"]) for place in found["alignment"])
        assert found["score"] == pytest.approx(sum(found["log_probs"]) / count, abs=1e-5)
    assert short["tokens"][-1] == short["source"][-1] == "<end>"
    assert " ".join(short["tokens"][:-1]) == short["text"]
    assert call("predict", corpus.trained(), "--json", data=data) == result


def test_predict_within_a_length(call):
    data = b"ka lo mi nu pe\nka\n"
    shared = ("predict", corpus.trained(), "--json", "--length")
    first, second = call(*shared, 2, data=data).objects
    assert (first["status"], len(first["tokens"])) == ("capped", 2)
    assert len(second["tokens"]) <= 2
    assert call(*shared, 1000, data=data) == call(*shared[:3], data=data)
    assert "length: 0 must be" in call(*shared, 0, data=data).err


def test_predict_without_a_mark_at_the_beginning(call):
    marked = call("predict", corpus.trained(), data=b"\xef\xbb\xbfka lo\n")
    assert marked.out == call("predict", corpus.trained(), data=b"ka lo\n").out


def test_the_n_best(call):
    options = ("--beams", 4, "--nbest", 3, "--json")
    (found,) = call("predict", corpus.trained(), *options, data=b"ka lo mi").objects
    scores = [each["score"] for each in found["alternatives"]]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    assert found["alternatives"][0]["text"] == found["text"]
    assert len({each["text"] for each in found["alternatives"]}) == 3
    assert "--format jsonl" in call("predict", corpus.trained(), *options[:-1], data=b"ka").err


def test_samples_follow_the_seed_not_the_batch(call):
    data = b"ka lo mi\nka lo mi\nnu pe\n" * 4

    def sample(seed: int, *options: object) -> str:
        shared = ("--search", "sample", "--temperature", 1.5, "--seed", seed)
        return str(call("predict", corpus.trained(), *shared, *options, data=data).out)

    assert sample(1) == sample(1, "--batch", 1) == sample(1, "--batch", 5)
    assert sample(1) != sample(2)
    assert len(set(sample(1).splitlines())) > 2, "equal lines are drawn for anew"


def test_outputs_begin_with_the_prefix(call):
    data = b"ka lo\nmi nu pe\n"
    result = call("predict", corpus.trained(), "--prefix", "schön der", data=data)
    assert all(line.startswith("schön der") for line in result.lines)
    nothing = call("predict", corpus.trained(), "--prefix", "", data=data)
    assert nothing.out == call("predict", corpus.trained(), data=data).out


def test_score(call, tmp_path: Path):
    run = corpus.trained()
    (tmp_path / "source").write_text("ka\nlo mi\n\n", encoding="utf-8")
    (tmp_path / "target").write_text("Haus\nHund Baum\n\n", encoding="utf-8")
    files = (tmp_path / "source", tmp_path / "target")
    detailed = call("score", run, *files, "--json").objects
    assert [len(each["log_probs"]) for each in detailed] == [2, 3, 1], "the end counts"
    assert detailed[0]["log_prob"] == pytest.approx(sum(detailed[0]["log_probs"]))
    plain = call("score", run, *files)
    columns = [line.split("\t") for line in plain.lines]
    assert [float(column[0]) for column in columns] == pytest.approx(
        [each["log_prob"] for each in detailed], abs=1e-4
    )
    assert "3 texts, 6 tokens" in plain.err
    assert len(call("score", run).lines) == 10, "the test part"
    assert call("score", run, files[0]).code == 2
    (tmp_path / "target").write_text("Haus\n", encoding="utf-8")
    said = " ".join(call("score", run, *files).err.split())
    assert f"{files[0]} has 3 lines, {files[1]} has 1 lines: as many are wanted of each" in said


def test_a_data_set_that_is_not_here_is_described(call, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    plain = call("data", "show", "multi30k")
    assert plain.code == 0
    assert "licence: " in plain.out and "(not here)" in plain.out
    assert "regard data get multi30k" in plain.err
    (entry,) = call("data", "show", "multi30k", "--json").objects
    assert (entry["present"], entry["sample"]) == (False, {})


def test_an_interrupted_demo_is_told_by_its_exit_code(call, tmp_path: Path, monkeypatch):
    recipe = config.load(corpus.write(tmp_path))
    monkeypatch.setattr("regard.verbs.demo.catalogue.get", lambda name: None)
    monkeypatch.setattr("regard.verbs.demo.front.prepared", lambda *_: (None, recipe))
    monkeypatch.setattr("regard.verbs.demo.runs.train", lambda *_, **__: Progress(update=5))
    result = call("demo", "--to", tmp_path / "run", "--json")
    assert (result.code, result.out) == (130, "")
    assert f"regard train --resume {tmp_path / 'run'}" in result.err
