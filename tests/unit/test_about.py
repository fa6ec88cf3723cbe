"""`regard runs`, `regard info`, `regard completion`: what is here, without reading weights."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import regard
from regard import cli
from regard.errors import UserError
from regard.train import lock
from regard.verbs import completing, listing, machine
from tests import small_runs


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one run that has two checkpoints and a final model."""
    folder = tmp_path_factory.mktemp("made")
    small_runs.make("classifier", folder / "run", (10, 20))
    return folder / "run"


@pytest.fixture
def runs(made: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    shutil.copytree(made, folder / "a")
    return folder


def put_progress(folder: Path, **values: object) -> None:
    """Change what a checkpoint says, and its manifest with it."""
    from regard.train import manifest

    path = folder / "progress.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))
    table = manifest.read(folder)
    files = {name: manifest.entry(folder / name) for name in table["files"]}
    manifest._put(folder, files, table["run"], table["records"])


def only(folder: Path) -> listing.Row:
    [row] = listing.rows(folder)
    return row


def test_a_finished_run(runs: Path):
    put_progress(runs / "a" / "model", update=30, best=0.25, best_update=20)
    row = only(runs)
    assert (row.state, row.update, row.best, row.metric) == ("finished", 30, 0.25, "nll")
    assert row.cells()[:5] == (
        str(runs / "a"), "classify", "labels.tsv", "finished, update 30", "nll 0.25",
    )  # fmt: skip
    assert only(runs / "a") == row  # the folder may be a run itself


def test_an_unfinished_run_and_one_that_trains(runs: Path):
    shutil.rmtree(runs / "a" / "model")
    row = only(runs)
    assert (row.state, row.update, row.updates) == ("unfinished", 20, 100_000)
    assert row.cells()[3] == "unfinished, update 20 of 100,000"
    record = json.dumps({"kind": "train", "update": 27})
    (runs / "a" / "metrics.jsonl").write_text(f"{record}\n" + '{"kind": "tr')
    with lock.held(runs / "a"):
        assert only(runs).cells()[3] == "trains now, update 27 of 100,000"
    assert only(runs).update == 20


def test_no_number_of_updates_where_minutes_end_a_run(runs: Path):
    assert listing._of_recipe({"train": {"updates": 50, "epochs": 2.0}})["updates"] == 50
    assert listing._of_recipe({"train": {"updates": 50, "minutes": 3}})["updates"] is None
    assert listing._of_recipe({"train": {"updates": 10**9}})["updates"] is None
    assert listing._of_recipe({"train": {"updates": 50}})["updates"] == 50


def test_a_damaged_run_is_a_row_with_its_reason(runs: Path):
    for name in "bcde":
        shutil.copytree(runs / "a", runs / name)
    (runs / "b" / "recipe.toml").write_text("task = ")
    (runs / "c" / "labels.json").unlink()
    (runs / "d" / "model" / "model.safetensors").write_bytes(b"")
    (runs / "e" / "recipe.toml").unlink()
    found = {Path(row.run).name: row for row in listing.rows(runs)}
    assert {name: row.state for name, row in found.items()} == {
        "a": "finished", "b": "damaged", "c": "damaged", "d": "damaged", "e": "damaged",
    }  # fmt: skip
    assert found["b"].why.startswith("recipe.toml is no recipe")
    assert found["c"].cells()[3] == "damaged: labels.json is missing"
    assert found["d"].why == "model.safetensors is damaged"
    assert found["e"].why == "recipe.toml is missing"


def test_an_older_checkpoint_stands_in_for_a_damaged_one(runs: Path):
    shutil.rmtree(runs / "a" / "model")
    (runs / "a" / "checkpoints" / "00000020" / "progress.json").write_text("{")
    assert only(runs).cells()[3] == "unfinished, update 10 of 100,000"
    (runs / "a" / "checkpoints" / "00000010" / "progress.json").write_text("{")
    assert only(runs).why == "checkpoint 20: progress.json is damaged"


def test_a_run_that_was_never_made(tmp_path: Path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".preparing.json").write_text("{}")
    assert only(tmp_path).cells()[3] == "stopped while its data was prepared"
    with lock.held(tmp_path / "a"):
        assert only(tmp_path).cells()[3] == "is being prepared now"


def test_the_newest_comes_first_and_hidden_text_is_shown(runs: Path):
    for n, name in enumerate(("b", "group/c")):
        shutil.copytree(runs / "a", runs / name)
        for path in (runs / name).iterdir():
            os.utime(path, (1e9 + n, 1e9 + n))
    assert [Path(row.run).name for row in listing.rows(runs)] == ["a", "c", "b"]
    assert listing._of_recipe({"task": "x\x1b[2J"})["task"] == "x�[2J"


def test_runs_as_json_and_where_there_are_none(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    cli.main(["runs", str(runs), "--json"])
    [row] = json.loads(capsys.readouterr().out)
    assert (row["run"], row["state"], row["why"]) == (str(runs / "a"), "finished", "")
    assert row["changed"][:2] == "20"
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    cli.main(["runs"])
    assert "there is no run in runs" in capsys.readouterr().err
    with pytest.raises(UserError, match="nowhere does not exist"):
        listing.rows(Path("nowhere"))


def test_listing_runs_needs_no_torch(runs: Path):
    script = (
        "import sys\nfrom regard import cli\n"
        f"cli.main(['runs', {str(runs)!r}])\n"
        "assert not {'torch', 'numpy'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL)


# The machine


def test_info(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "sets"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    found = machine.info()
    assert found["regard"] == regard.__version__
    assert found["python"].startswith(".".join(map(str, sys.version_info[:3])))
    assert found["cores"]["allowed"] <= found["cores"]["machine"]
    assert found["auto"]["threads"] == found["cores"]["allowed"]
    assert found["auto"]["device"] in ("cpu", "cuda", "mps")
    assert found["variables"]["OMP_NUM_THREADS"] == "1"
    text = machine.as_text(found)
    assert str(tmp_path) not in text
    assert any(line.split() == ["data", str(Path("~", "sets"))] for line in text.splitlines())


def test_info_says_what_is_not_installed():
    found = machine.info() | {"engines": {"ctranslate2": "4.8", "onnxruntime": None}}
    lines = {line[:13].strip(): line[15:] for line in machine.as_text(found).splitlines()}
    assert lines["not installed"] == "onnxruntime"
    assert "ctranslate2 4.8" in lines["libraries"]


# Completion


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory):
    """What bash offers for the last of some words."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")
    folder = tmp_path_factory.mktemp("shell")
    for name in ("runs/one", "runs/two words", "other"):
        (folder / name).mkdir(parents=True)
    (folder / "mine.toml").write_text("")
    script = completing.script("bash", cli.VERBS)

    def ask(*words: str) -> set[str]:
        given = " ".join(f"'{word}'" for word in ("regard", *words))
        asked = f"{script}\nCOMP_WORDS=({given}); COMP_CWORD={len(words)}; _regard\n"
        asked += 'printf "%s\\n" "${COMPREPLY[@]}"'
        run = subprocess.run(
            [bash, "-c", asked], cwd=folder, capture_output=True, text=True, check=True
        )
        assert not run.stderr
        return {line for line in run.stdout.splitlines() if line}

    return ask


def test_bash_completes_verbs_options_and_values(complete):
    assert complete("") == {*cli.VERBS, "--help", "--version"}
    assert complete("pre") == {"predict", "prepare"}
    assert complete("train", "--re") == {"--resume"}
    assert complete("train", "--fr") == {"--from"}
    assert complete("evaluate", "runs/one", "--length-") == {"--length-penalty"}
    assert complete("evaluate", "runs/one", "--part", "") == {"train", "validation", "test"}
    assert complete("predict", "runs/one", "--beams", "") == set()
    assert complete("data", "g") == {"get"}
    assert complete("keys", "trans") == {"transcribe", "translate"}


def test_bash_completes_recipes_and_runs(complete):
    assert complete("train", "mi") == {"mine.toml"}
    assert complete("train", "multi30k-en-de-l") == {"multi30k-en-de-lstm"}
    assert complete("evaluate", "") == {"runs", "other", "runs/one", "runs/two words"}
    assert complete("evaluate", "runs/t") == {"runs/two words"}
    assert complete("train", "--resume", "o") == {"other", "runs/one"}


def test_fish_and_zsh_have_every_verb_and_option():
    fish, zsh = (completing.script(shell, cli.VERBS) for shell in ("fish", "zsh"))
    assert "bashcompinit" in zsh
    for verb in cli.VERBS:
        assert f"-a {verb} -d '" in fish
        assert f"\n    {verb}) flags='--help" in zsh
    assert "'__fish_seen_subcommand_from train' -l resume -x" in fish
    assert fish.count("'") % 2 == fish.count("\\'") % 2


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish")
def test_fish_completes(tmp_path: Path):
    (tmp_path / "regard.fish").write_text(completing.script("fish", cli.VERBS))
    (tmp_path / "runs" / "one").mkdir(parents=True)

    def complete(line: str) -> set[str]:
        asked = f"source regard.fish; complete -C '{line}'"
        run = subprocess.run(
            ["fish", "--no-config", "-c", asked],
            cwd=tmp_path, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert not run.stderr
        return {found.split("\t")[0] for found in run.stdout.splitlines()}

    assert complete("regard pre") == {"predict"}
    assert complete("regard compare runs/one --unf") == {"--unfold"}
    assert complete("regard evaluate runs/one --part ") == {"train", "validation", "test"}
    assert "runs/one/" in complete("regard evaluate ru")


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh")
def test_zsh_completes():
    """As its `bashcompinit` calls the function: words are counted from 0 in there, and zsh itself
    drops what does not begin like the word."""
    script = completing.script("zsh", cli.VERBS).replace("|| compinit", "|| compinit -D")
    asked = f"{script}\nemulate -L ksh\nCOMP_WORDS=(regard compare --unf); COMP_CWORD=2; _regard\n"
    asked += 'print -rl -- "${COMPREPLY[@]}"'
    run = subprocess.run(["zsh", "-f", "-c", asked], capture_output=True, text=True, check=True)
    assert {"--help", "--unfold", "--json"} <= {*run.stdout.split()} and not run.stderr
