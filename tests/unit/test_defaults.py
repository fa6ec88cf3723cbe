"""What a recipe has where it says nothing, and limits other than updates."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from regard.data.batching import first_epoch
from regard.data.held_out import ByContent
from regard.data.sets import known
from regard.errors import RecipeError
from regard.recipe import config, defaults
from regard.recipe.parts import kinds, module
from regard.runs import Run
from regard.train import schedule
from regard.train.job import Config, Job, make
from regard.train.loop import fit
from regard.train.progress import Progress
from regard.types import Batch, Position, Term

pytestmark = pytest.mark.usefixtures("task_defaults")

FILES = {"train": ["a.tsv"]}
DATA: dict[str, dict[str, Any]] = {
    "translate": FILES,
    "classify": FILES,
    "tag": {"train": ["a.conllu"]},
    "language_model": {"train": ["a.txt"]},
    "forecast": {"file": "a.csv"},
}


def read(task: str, *changes: str) -> config.Recipe:
    return config.from_table({"task": task, "data": DATA[task]}, changes)


def of_kinds() -> Iterator[tuple[str, str]]:
    for task in DATA:
        tables = set(defaults.of(module("tasks", task))) & {*kinds("encoders"), *kinds("decoders")}
        yield from ((task, kind) for kind in sorted(tables))


@pytest.mark.parametrize(("task", "kind"), list(of_kinds()))
def test_every_kind_that_has_defaults_is_a_recipe_without_any_other_key(task: str, kind: str):
    part = defaults.main_part(module("tasks", task))
    changes = [f"model.{part}.kind={kind}"]
    if task == "translate":
        changes.append(f"model.decoder.kind={kind}")
    made = read(task, *changes)
    assert getattr(made.model, part).kind == kind
    assert made.train.epochs > 0
    assert 0 <= made.train.schedule.warmup < 1


@pytest.mark.parametrize("task", DATA)
def test_all_defaults_are_keys_of_the_task(task: str):
    names = {"all"} | {
        each for name in defaults.of(module("tasks", task)) for each in name.split("-")
    }
    known = {"all", "character", "dialogue", "finetune", *kinds("encoders"), *kinds("fields")}
    assert names <= known and len(names) > 1
    read(task)


def test_what_a_text_is_decides_too():
    """Answers are the most probable ones, by a Transformer; running text is drawn."""
    plain, answers = read("language_model"), read("language_model", "unit=dialogue")
    assert (plain.task.search.kind, plain.model.decoder.kind) == ("sample", "rnn")
    assert (answers.task.search.kind, answers.model.decoder.kind) == ("greedy", "transformer")
    assert answers.model.dim == read("language_model", "model.decoder.kind=transformer").model.dim


def test_what_does_the_work_decides():
    bag, rnn = read("classify"), read("classify", "model.encoder.kind=rnn")
    assert (bag.model.encoder.kind, bag.model.input.kind) == ("bag", "ngrams")
    assert (rnn.model.encoder.kind, rnn.model.input.kind) == ("rnn", "tokens")
    assert bag.train.optimizer.learning_rate > rnn.train.optimizer.learning_rate
    assert read("forecast").model.encoder.kind == "linear"
    assert read("translate", "model.encoder.kind=rnn").model.decoder.kind == "rnn"


def test_a_recipe_covers_what_it_names_and_a_section_of_another_kind_covers_all():
    made = read("classify", "tokenizer.kind=bpe", "model.dim=5")
    assert (made.task.tokenizer.split, made.task.tokenizer.vocabulary) == ("words", 8000)
    assert made.model.dim == 5
    assert made.task.data.on_too_long == "cut"
    kept = read("classify", "tokenizer.vocabulary=7").task.tokenizer
    assert (kept.kind, kept.split, kept.vocabulary) == ("word", "punctuation", 7)


@pytest.mark.parametrize("name", [name for name, each in known().items() if each.parts])
def test_a_set_has_parts_that_are_among_its_files(name: str):
    assert known()[name].parts["train"]
    files = {file.name for file in known()[name].files}
    assert {file for part in known()[name].parts.values() for file in part} <= files


def test_a_recipe_that_names_a_set_alone_has_its_parts():
    found = config.recipe({"task": "translate", "data": {"set": "multi30k", "max_length": 50}})
    assert found.task.data.train == ("train.en", "train.de")
    assert found.task.data.test == ("test_2016_flickr.en", "test_2016_flickr.de")
    assert found.task.data.max_length == 50
    one = {"set": "spelling-correction", "train": ["train.tsv"]}
    assert config.recipe({"task": "translate", "data": one}).task.data.validation == ()
    with pytest.raises(RecipeError, match=r"data\.train: missing"):
        config.recipe({"task": "translate", "data": {"set": "cmudict"}})
    with pytest.raises(RecipeError, match=r"data\.set"):
        config.recipe({"task": "translate", "data": {"set": ["multi30k"]}})
    with pytest.raises(RecipeError, match=r"data\.set: .* did you mean 'multi30k'"):
        config.recipe({"task": "translate", "data": {"set": "multi30kk"}})
    huge = 16**5000  # no str() can write it
    for wrong in ({"data": {"set": huge}}, {"tokenizer": {"kind": huge}}):
        with pytest.raises(RecipeError):
            config.recipe({"task": "translate", "data": {"train": ["a"]}, **wrong})
    with pytest.raises(RecipeError):
        read("translate", f"model.encoder.kind={huge:#x}")


def test_the_kinds_of_tokenizer_and_encoder_decide_together():
    spelt = read("translate", "tokenizer.kind=character")
    assert spelt.task.search.config.length_penalty == 0
    assert read("translate").task.search.config.length_penalty == 1
    assert read("translate", "tokenizer.kind=character", "search.kind=greedy").task.search
    assert (spelt.model.encoder.kind, spelt.model.decoder.kind) == ("rnn", "rnn")
    assert (spelt.model.encoder.config.layers, spelt.model.encoder.config.dropout) == (2, 0.1)
    assert (spelt.task.batch.tokens, spelt.train.updates) == (1024, 24000)
    words = read("translate", "model.encoder.kind=rnn")
    assert (words.model.encoder.config.layers, words.task.batch.tokens) == (1, 2048)
    other = read("translate", "tokenizer.kind=character", "model.encoder.kind=transformer")
    assert other.model == read("translate").model and other.train == read("translate").train


def test_a_kind_that_is_named_has_its_own_defaults():
    reader = read("classify", "model.encoder.kind=transformer").model.encoder.config
    assert (reader.layers, reader.heads, reader.feedforward, reader.norm) == (2, 4, 256, "pre")
    assert read("classify", "model.encoder.kind=rnn").model.encoder.config.layers == 1
    patches = read("forecast", "model.encoder.kind=transformer").model.encoder.config
    assert (patches.layers, patches.position, patches.limit) == (3, "learned", 64)


def test_a_part_of_another_kind_has_none_of_the_defaults_of_the_usual_one():
    with pytest.raises(RecipeError, match=r"model\.head\.kind: 'tags' is not for the task"):
        read("classify", "model.head.kind=tags")  # not: no such key as model.head.pooling


def test_another_schedule_or_optimizer_keeps_rate_and_warmup():
    made = read("classify", "train.schedule.kind=linear", "train.optimizer.kind=adamw").train
    assert (made.schedule.kind, made.schedule.warmup) == ("linear", 0.05)
    assert (made.optimizer.kind, made.optimizer.learning_rate) == ("adamw", 0.01)


def test_a_limit_that_is_named_is_the_only_one():
    assert read("tag").train.epochs == 20
    assert read("tag", "train.updates=7").train.epochs == 0
    assert read("tag", "train.tokens=7").train.epochs == 0
    by_epochs = read("tag", "train.epochs=3").train
    assert by_epochs.planned(10**7).updates == 3 * 10**7
    assert read("tag", "train.keep=2").train.average == 0
    assert read("tag", "train.validate_every=0").train.patience == 0
    assert not read("tag", "model.input.kind=tokens").task.characters
    assert read("tag").task.characters
    pieces = read("tag", "tokenizer.kind=bpe")
    assert not pieces.task.characters
    assert pieces.model.input.kind == "tokens"
    patches = read(
        "forecast", "model.encoder.kind=transformer", "model.input.patch=3", "window.look_back=96"
    )
    assert (patches.model.input.config.patch, patches.model.input.config.stride) == (3, 0)
    assert read("tag").model.head.config.crf
    assert not read("tag", "labels.kind=real").model.head.config.crf


def test_a_default_goes_only_where_it_would_not_fit():
    words = read("tag", "tokenizer.kind=word", "model.input.dropout=0.1")
    assert words.task.characters
    assert (words.model.input.kind, words.model.input.config.dropout) == ("words", 0.1)
    assert read("tag", "model.input.kind=characters").task.characters
    assert read("classify", "tokenizer.kind=bpe").model.input.kind == "ngrams"
    assert read("classify", "labels.kind=several", "labels.separator=|").train.metric == "accuracy"
    assert read("tag", "labels.kind=tags").train.metric == "accuracy"
    assert read("tag", "labels.kind=real").train.metric == "nll"


@pytest.mark.parametrize("text", ["[all", "[all]\nx = " + "1" * 5000])
def test_a_file_of_defaults_that_is_no_toml_is_named(tmp_path: Path, text: str):
    (tmp_path / "mine.toml").write_text(text)
    task = ModuleType("mine")
    task.__file__ = str(tmp_path / "mine.py")
    with pytest.raises(RecipeError, match=r"mine\.toml: "):
        defaults.under({}, task)


def test_limits_and_intervals_become_updates():
    made = read("tag").train.planned(50)  # 20 epochs
    assert (made.updates, made.validate_every, made.save_every) == (1000, 50, 50)
    assert made.schedule.warmup == 50
    assert made.planned(50) == made
    every = read("tag", "train.accumulate=4", "train.validate_every=30").train.planned(50)
    assert (every.updates, every.validate_every) == (250, 30)
    assert read("tag", "train.epochs=0.001").train.planned(50).updates == 1


def test_a_run_says_how_many_updates_its_epochs_are(tmp_path: Path):
    lines = [
        f"{word}\t{word[::-1]}" for word in ("abc", "bcd", "cde", "def", "efg", "fgh", "ghi", "hij")
    ]
    (tmp_path / "a.tsv").write_text("\n".join(lines * 2))
    made = {"task": "translate", "data": {**FILES, "folder": str(tmp_path)}}
    changes = ["batch.sentences=2", "tokenizer.kind=character", "train.epochs=3"]
    changes.append("train.schedule.warmup=0.1")
    run = Run.create(tmp_path / "run", config.from_table(made, changes))
    epoch = len(list(first_epoch(run.task.batches(1))))
    assert epoch == 8
    assert run.recipe.train.updates == 24
    assert run.recipe.train.schedule.warmup == 3
    assert run.recipe.train.validate_every == run.recipe.train.save_every == 2


def test_pairs_are_held_out_by_their_source(tmp_path: Path):
    lines = [f"source {n % 60}\ttarget {n}" for n in range(300)]
    (tmp_path / "a.tsv").write_text("\n".join(lines))
    made = {"task": "translate", "data": {**FILES, "folder": str(tmp_path)}}
    changes = ["held_out.validation=0.2", "held_out.test=0.2", "tokenizer.kind=character"]
    run = Run.create(tmp_path / "run", config.from_table(made, changes))
    share = ByContent(validation=0.2, test=0.2)
    wanted: dict[str, set[str]] = {"train": set(), "validation": set(), "test": set()}
    sources = [f"source {n}" for n in range(60)]
    for source, part in zip(sources, share.parts(lambda: sources), strict=True):
        wanted[part].add(source)
    for part in ("validation", "test"):
        sources, targets = run.task.references(part)
        assert set(sources) == wanted[part]
        assert len(sources) == len(targets) == 5 * len(wanted[part])
    assert all(wanted.values())
    used = json.loads((run.folder / "data.json").read_text())["used"]
    assert used == 5 * len(wanted["train"])


def test_pairs_have_files_or_a_share(tmp_path: Path):
    with pytest.raises(Exception, match=r"held_out\.test: data\.test names files"):
        read("translate", "held_out.test=0.1", 'data.test=["b.tsv"]')


# Minutes


class Steps:
    """Batches of one number each, without end."""

    def at(self, position: Position, rows: slice = slice(None)) -> Batch:
        return Batch(tensors={"x": torch.ones(1, 1)}, ids=(position.index,), targets=1)

    def after(self, position: Position) -> Position:
        return Position(0, position.index + 1)


class Clock:
    """A second for each time it is asked."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def timed(
    monkeypatch: pytest.MonkeyPatch, *, lasts: float = 0, **settings: Any
) -> tuple[Job, Progress, list[float]]:
    """A training whose validations last so many seconds, and the times at which they begin."""
    clock = Clock()
    monkeypatch.setattr("regard.train.progress.time.perf_counter", clock)
    model = torch.nn.Linear(1, 1)

    def loss(model: torch.nn.Module, batch: Batch, carry: Any) -> Any:
        return {"nll": Term(model(batch["x"]).sum() ** 2, 1)}, None

    train = Config(
        optimizer=read("tag").train.optimizer,
        schedule=schedule.Config(kind="linear", warmup=0),
        device="cpu", precision="float32", threads=1, memory=1.0, **settings,
    )  # fmt: skip
    job = make(model, loss, Steps(), train, seed=1, dim=1)
    validated = list[float]()

    def validate() -> dict[str, float]:
        validated.append(clock.now)
        clock.now += lasts
        return {"nll": 1.0}

    job.validate = validate
    return job, fit(job, Progress()), validated


def test_a_training_ends_with_its_minutes_and_so_does_its_rate(monkeypatch: pytest.MonkeyPatch):
    job, progress, validated = timed(
        monkeypatch, minutes=1.0, updates=10**6, validate_every=2.5e5, log_every=10**6
    )
    assert progress.finished
    assert 60 <= progress.seconds < 70
    assert progress.update < 70
    assert job.reached(progress, progress.update) == 10**6
    assert job.rate(progress, progress.update) == pytest.approx(0)
    assert len(validated) == 4


def test_validations_take_no_more_of_the_minutes_than_training(monkeypatch: pytest.MonkeyPatch):
    """Due every 6 s, they last 30 s each: training goes on for 30 s at least after each."""
    _, progress, validated = timed(
        monkeypatch, lasts=30, minutes=10.0, updates=10**6, validate_every=1e4, log_every=10**6
    )
    between = [later - earlier for earlier, later in pairwise(validated[:-1])]  # the last is due
    assert min(between) >= 60 and max(between) <= 70
    assert progress.update > 120, "half of the time; an update asks for it twice, at most"


def test_without_minutes_the_number_of_the_update_alone_counts(monkeypatch: pytest.MonkeyPatch):
    job, progress, validated = timed(monkeypatch, updates=40, validate_every=10, log_every=10**6)
    assert (progress.update, len(validated)) == (40, 4)
    assert job.reached(progress, 7) == 7
