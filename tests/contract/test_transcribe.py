"""Transcription by CTC, by a decoder, by both; labels of sounds; a language model mixed in."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

import regard
from regard import front
from regard.data import tones
from regard.data.batching import Draw
from regard.decoding.transcription import seconds_of
from regard.doctor import examination
from regard.errors import RecipeError, UserError
from regard.inspect import sounds as sounds_view
from regard.inspect.blocks import Blocks
from regard.inspect.views import attributed
from regard.recipe import config
from regard.recipe.parts import module
from regard.search import ctc
from tests import small_runs

COUNTS = {"train": 24, "validation": 4, "test": 4}
SMALL: dict[str, Any] = {
    "task": "transcribe",
    "data": {part: [f"{part}.tsv"] for part in COUNTS},
    "source": {"features": {"rate": 8000, "mels": 16}},
    "tokenizer": {"kind": "character"},
    "evaluation": {"lines": 2, "metrics": ["wer", "cer", "exact"]},
    "model": {"dim": 16, "input": {"channels": 4}, "encoder": {"kind": "rnn", "layers": 1}},
    "train": {"updates": 4, "validate_every": 2, "save_every": 2, "threads": 1},
}
RNN = {"kind": "rnn", "layers": 1}
DECODER: dict[str, Any] = {"decoder": RNN, "head": {"kind": "vocabulary"}, "tie": "output"}
CTC = {"heads": {"target": {"kind": "ctc"}}}
BEAM: dict[str, Any] = {"search": {"kind": "beam", "beams": 2}}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tones")
    tones.write(folder, COUNTS)
    return folder


def recipe(folder: Path, **sections: dict[str, Any]) -> dict[str, Any]:
    merged = {
        name: {**SMALL.get(name, {}), **sections.get(name, {})}
        for name in {**SMALL, **sections}
        if name != "task"
    }
    return {"task": "transcribe", **merged, "data": {**merged["data"], "folder": str(folder)}}


def trained(folder: Path, to: Path, **sections: dict[str, Any]) -> front.Predictor:
    made = front.train(recipe(folder, **sections), to=to)
    assert isinstance(made, front.Predictor)
    return made


def test_it_learns_a_few_sounds(data: Path, tmp_path: Path):
    """Twelve sounds by heart: letters come out, in their order, each at its time."""
    rows = (data / "train.tsv").read_text().splitlines()[:12]
    (data / "few.tsv").write_text("\n".join(rows) + "\n")
    sections: dict[str, Any] = {
        "data": {"train": ["few.tsv"], "validation": ["few.tsv"], "test": ["few.tsv"]},
        "model": {**SMALL["model"], "dim": 32},
        "train": {
            "updates": 250, "validate_every": 125, "save_every": 125, "threads": 1,
            "allow": ["data.leaked", "audio.leaked"],
            "optimizer": {"learning_rate": 0.01}, "schedule": {"kind": "constant", "warmup": 10},
        },
    }  # fmt: skip
    made = trained(data, tmp_path / "run", **sections)
    assert made.evaluate("test")[0]["cer"].value < 10
    [found] = made.predictions([str(data / rows[0].split("\t")[0])], beams=4, nbest=2)
    starts = [first for first, _ in found.times]
    assert len(found.times) == len(found.tokens) == len(found.log_probs)
    assert starts == sorted(starts) and all(first < end for first, end in found.times)
    assert len(found.alternatives) == 2 and found.alternatives[0]["text"] == found.text
    [scored] = made.score([str(data / rows[0].split("\t")[0])], [rows[0].split("\t")[1]])
    assert -5 < scored["log_prob"] <= 0


@pytest.mark.parametrize(
    ("model", "search"),
    [({}, "ctc"), (DECODER, "greedy"), ({**DECODER, **CTC}, "ctc"), ({**DECODER, **CTC}, "beam")],
)
def test_every_way(data: Path, tmp_path: Path, model: dict[str, Any], search: str):
    parts = {**SMALL["model"], **model}
    made = trained(data, tmp_path / "run", model=parts, search={"kind": search})
    records = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").open()]
    last = next(each for each in reversed(records) if each["kind"] == "train")
    assert np.isfinite(last["nll"])
    assert ("ctc" in last) == (not model or "heads" in model)
    sounds = [str(data / "test" / f"{n:04}.wav") for n in range(4)]
    alone = [made.predict([each], length=None)[0] for each in sounds]
    assert made.predict([sounds[2], "", *sounds]) == [alone[2], "", *alone]
    scores = made.evaluate("test")[0]
    assert {"wer", "cer", "exact"} <= scores.keys()
    assert all(row["log_prob"] < 0 for row in made.score(sounds, ["ab"] * 4))


def test_a_decoders_tokens_have_the_times_of_ctc(tmp_path: Path):
    """With both heads CTC says when what the decoder writes was heard, also to the viewer."""
    both = {"input": {"channels": 3}, "encoder": RNN, **DECODER, **CTC}
    made = front.load(small_runs.create("transcribe", both, tmp_path / "both", **BEAM).folder)
    sounds = [str(tmp_path / "both-data" / "sounds" / "train" / f"{n:04}.wav") for n in range(2)]
    task: Any = made.task
    tables = task.transcriber.tables(made.model, task.translator.read(sounds))
    found = [*made.predictions(sounds, prefixes=["ld"] * 2, length=4)]
    for one, table in zip(found, tables, strict=True):
        tokens = task.target.tokenizer.encode([one.text])[0]
        spans = np.array(ctc.align(table, tokens)) * seconds_of(made.model)
        assert one.text.startswith("ld") and one.times == [pytest.approx(each) for each in spans]
    reading = task.look(made.model, sounds[0], task.config.search, "ld", 5)
    assert [token for token, *_ in reading.heard] == ["l", "d"]
    view = sounds_view.view(reading, Blocks())
    assert view and [each["text"] for each in view["letters"]] == ["l", "d"]
    assert attributed(reading) == [0, 1, 2]  # the end is written, too
    attends = {name: part for name, part in both.items() if name != "heads"}
    alone = front.load(small_runs.create("transcribe", attends, tmp_path / "one", **BEAM).folder)
    assert not next(iter(alone.predictions(sounds[:1], prefixes=["ld"], length=4))).times


def test_what_does_not_fit_is_refused(data: Path):
    for sections, said in [
        ({"search": {"kind": "beam"}}, "search.kind: 'beam' needs a decoder"),
        ({"model": {**SMALL["model"], "head": {"kind": "vocabulary"}}}, "without a decoder it is"),
        ({"model": {**SMALL["model"], "decoder": RNN}}, "model.head.kind: 'ctc' does not fit"),
        ({"model": {**SMALL["model"], **CTC}}, "model.heads.target: model.head is the only one"),
        ({"model": {**SMALL["model"], **DECODER}}, "search.kind: 'ctc' needs a CTC head"),
        (
            {"model": {**SMALL["model"], **DECODER, "tie": "all"}, "search": {"kind": "beam"}},
            "model.tie: 'all'",
        ),
    ]:
        with pytest.raises(RecipeError) as error:
            config.from_table(recipe(data, **sections))
        assert said in str(error.value)


def test_a_broken_sound_is_reported(data: Path, tmp_path: Path):
    (data / "broken.wav").write_bytes(b"RIFF nonsense")
    rows = (data / "train.tsv").read_text()
    (data / "some.tsv").write_text(rows + "broken.wav\tab\nnowhere.wav\tcd\n")
    sections = {"data": {**SMALL["data"], "train": ["some.tsv"]}}
    with pytest.raises(UserError, match=r"some\.tsv:25: no sound that can be read.*broken\.wav"):
        trained(data, tmp_path / "refused", **sections)
    said: list[str] = []
    sections["data"]["on_bad_line"] = "skip"
    made = front.train(
        recipe(data, **sections), to=tmp_path / "kept", callback=lambda each: said.append(str(each))
    )
    assert any("no sound that can be read" in each for each in said)
    assert any("there is no such file" in each for each in said)
    [whole, broken] = made.predictions([str(data / "test" / "0000.wav"), str(data / "broken.wav")])
    assert (whole.status, broken.status) == ("ok", "broken")
    assert broken.problem and "broken.wav: no sound" in broken.problem


def test_a_text_without_room_is_found(data: Path):
    rows = (data / "train.tsv").read_text()
    (data / "long.tsv").write_text(rows + f"train/0002.wav\t{'ab' * 150}\n")
    table = recipe(data, data={**SMALL["data"], "train": ["long.tsv"]})
    found = examination.quick_check(config.from_table(table))
    assert [each.place for each in found if each.code == "audio.text"] == [f"{data}/long.tsv:25"]


def test_the_doctor_listens(data: Path):
    loud, quiet = np.sign(np.sin(np.arange(8000) / 9)), np.zeros(8000)
    soundfile.write(data / "loud.wav", loud, 8000)
    soundfile.write(data / "quiet.wav", quiet, 8000)
    soundfile.write(data / "again.wav", quiet, 8000)
    soundfile.write(data / "other.wav", loud * 0.3, 11025)
    rows = (data / "train.tsv").read_text()
    first = (data / "test.tsv").read_text().splitlines()[0]
    (data / "odd.tsv").write_text(
        f"{rows}loud.wav\tab\nquiet.wav\tcd\nother.wav\tef\nagain.wav\tgh\n{first}\n"
    )
    table = recipe(data, data={**SMALL["data"], "train": ["odd.tsv"]})
    found = {each.code: each for each in examination.quick_check(config.from_table(table))}
    places = {code: each.place.rpartition(":")[2] for code, each in found.items()}
    assert places["audio.clipped"] == "25" and places["audio.silent"] == "26"
    assert places["audio.rates"] == "27" and places["audio.repeated"] == "28"
    assert found["audio.leaked"].severity == "error"


def in_parquet(path: Path, **columns: list[Any]) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(columns), path)


def test_sounds_in_parquet(data: Path, tmp_path: Path):
    """Beside a text or a label, in columns of any name: what a table of paths would give."""
    rows = [line.split("\t") for line in (data / "train.tsv").read_text().splitlines()]
    sounds = [(data / name).read_bytes() for name, _ in rows]
    said = [text for _, text in rows]
    in_parquet(tmp_path / "train.parquet", said=said, clip=[{"bytes": x} for x in sounds])
    short = {"updates": 1, "validate_every": 1, "save_every": 1, "threads": 1}
    packed = trained(
        tmp_path,
        tmp_path / "packed",
        data={
            "train": ["train.parquet"],
            "validation": [],
            "test": [],
            "columns": ["clip", "said"],
        },
        train=short,
        held_out={"validation": 0.1, "test": 0.0},
    )
    inputs = [f"{tmp_path}/train.parquet#3", str(data / rows[3][0])]
    one, other = packed.predictions(inputs)
    assert one.status == other.status == "ok" and one.score == other.score
    names = ["ab"[n % 2] for n in range(len(sounds))]
    in_parquet(tmp_path / "labelled.parquet", kind=names, clip=sounds)
    table: dict[str, Any] = {
        "task": "classify",
        "data": {
            "folder": str(tmp_path),
            "train": ["labelled.parquet"],
            "columns": ["kind", "clip"],
        },
        "source": {"kind": "audio", "features": {"rate": 8000, "mels": 8}},
        "model": {"dim": 8, "input": {"kind": "mel", "channels": 3}, "encoder": {"kind": "bag"}},
        "train": {"updates": 1, "threads": 1},
    }
    made = front.train(table, to=tmp_path / "classified")
    [found] = made.predictions([f"{tmp_path}/labelled.parquet#0"])
    assert found.text in "ab"
    with pytest.raises(UserError, match="no column “none”"):
        front.train({**table, "data": {**table["data"], "columns": ["none", "clip"]}}, to=None)


def test_classify_hears(data: Path, tmp_path: Path):
    """High or low: a label for each sound."""
    random = np.random.default_rng(1)
    time = np.arange(2400) / 8000
    for part, count in {"train": 40, "test": 20}.items():
        lines = []
        for n in range(count):
            label = "high" if n % 2 else "low"
            pitch = random.uniform(*((1500, 2500) if n % 2 else (200, 500)))
            wave = 0.4 * np.sin(2 * np.pi * pitch * time) + random.normal(0, 0.02, len(time))
            soundfile.write(tmp_path / f"{part}{n}.wav", wave, 8000)
            lines.append(f"{label}\t{part}{n}.wav\n")
        (tmp_path / f"{part}.tsv").write_text("".join(lines))
    made = front.train(
        {
            "task": "classify",
            "data": {"folder": str(tmp_path), "train": ["train.tsv"], "test": ["test.tsv"]},
            "source": {
                "kind": "audio",
                "normalise": "training",
                "features": {"rate": 8000, "mels": 8},
            },
            "model": {
                "dim": 8,
                "input": {"kind": "mel", "channels": 3},
                "encoder": RNN,
            },
            "train": {
                "updates": 100,
                "threads": 1,
                "optimizer": {"learning_rate": 0.02},
                "schedule": {"kind": "constant", "warmup": 5},
            },
        },
        to=tmp_path / "run",
    )
    assert made.evaluate("test")[0]["accuracy"].value > 95
    assert made.predict([str(tmp_path / "test1.wav")]) == ["high"]


def test_augmentation_is_a_function_of_seed_position_and_example(data: Path):
    augment = {"speed": 0.2, "noise": 0.3, "shift": 0.1, "time_masks": 2, "frequency_masks": 1}
    table = recipe(data, source={**SMALL["source"], "augment": augment})
    task = config.from_table(table).task
    field = module("tasks", "transcribe").plan(task).fields["audio"]
    rows = field.encode([str(data / "test" / f"{n:04}.wav") for n in range(2)])
    learning = Draw(1, 2, 3, learning=True)
    both = field.collate(rows, [7, 8], learning)
    alone = field.collate(rows[1:], [8], learning)
    count = int(alone["source_mask"].sum())
    assert int(both["source_mask"][1].sum()) == count
    assert np.array_equal(both["source"][1, :count], alone["source"][0])
    other = field.collate(rows[1:], [8], Draw(1, 2, 4, learning=True))
    assert not np.array_equal(other["source"][0][:9], alone["source"][0][:9])
    plain = field.collate(rows[1:], [8], Draw(1, 2, 3))
    assert np.array_equal(plain["source"][0], field.frames(rows[1]))


def test_a_language_model_is_asked(data: Path, tmp_path: Path):
    """One that has read a single word alone makes the search write it, whatever is heard."""
    listens = trained(data, tmp_path / "listens")
    letters = tmp_path / "text.txt"
    letters.write_text(f"{tones.LETTERS} \n" + "ab ab ab\n" * 30)
    made = front.train(
        {
            "task": "language_model",
            "unit": "line",
            "data": {"train": [str(letters)], "validation": [str(letters)]},
            "tokenizer": {"kind": "character"},
            "model": {"dim": 16, "decoder": RNN},
            "train": {
                "updates": 60,
                "threads": 1,
                "optimizer": {"learning_rate": 0.02},
                "schedule": {"kind": "constant", "warmup": 5},
            },
        },
        to=tmp_path / "writes",
    )
    sound = [str(data / "test" / "0000.wav")]
    asked = {"language_model": str(tmp_path / "writes"), "beams": 8, "prune": 0.0}
    said = listens.predict(sound, **asked, weight=100.0, bonus=5.0)[0]
    assert said and said in "ab ab ab"
    assert listens.predict(sound, beams=8, prune=0.0) == listens.predict(sound, **asked, weight=0.0)
    follow = listens.task.transcriber.follow  # type: ignore[attr-defined]
    own = listens.task.target.tokenizer  # type: ignore[attr-defined]
    table = follow([(), tuple(own.encode(["a"])[0])])
    with torch.inference_mode():
        scores = made.score(["a"])[0]["log_probs"]
    a = own.encode(["a"])[0][0]
    assert table[0][a] == pytest.approx(scores[0], abs=1e-4)
    assert table[1][0] == pytest.approx(scores[1], abs=1e-4)
    with pytest.raises(RecipeError, match="is a run of transcribe"):
        listens.predict(sound, beams=2, language_model=str(tmp_path / "listens"))


def test_the_door(data: Path, tmp_path: Path):
    trained(data, tmp_path / "run")
    loaded = regard.load(tmp_path / "run")
    [said] = loaded.predict([str(data / "test" / "0000.wav")])
    assert isinstance(said, str)
