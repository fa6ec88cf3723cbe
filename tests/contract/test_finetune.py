"""A run of one task begins with the model of another: `model.weights`."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard.errors import RecipeError
from regard.inspect import report
from regard.recipe import config
from regard.runs import Run, train
from regard.runs.training import _initialise, new_job
from regard.train import checkpoint
from tests import small_runs

BLOCKS = small_runs.BLOCKS | {"norm": "pre", "position": "learned", "limit": 40}
TRAINING = {"threads": 1, "precision": "float32", "updates": 4, "save_every": 2, "log_every": 1}
TRAINING |= {"validate_every": 0}


class Stop(Exception):
    """What ends a training in the middle."""


@pytest.fixture(scope="module")
def gpt(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("gpt") / "run"
    model = {"decoder": BLOCKS, "scale": False, "tie": "output"}
    return small_runs.create("language_model", model, folder, data={"max_length": 30})


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("tagger") / "run"
    model = {"encoder": BLOCKS, "scale": False}
    return small_runs.create("tag", model, folder, data={"max_length": 30})


def table(task: str, base: Run, folder: Path, **model: Any) -> dict[str, Any]:
    """Six lines: the task, its data and the run to begin with."""
    made = small_runs.table(task, {}, folder / "data")
    del made["tokenizer"]
    made["model"] = {"weights": str(base.folder)} | model
    return made | {"train": made["train"] | TRAINING}


def begun(run: Run) -> dict[str, Tensor]:
    """The weights that a training of a run begins with."""
    _, model = new_job(run, run.task, run.settings)
    _initialise(run, run.task, model, ())
    return checkpoint.weights_of(model)


def saved(run: Run) -> dict[str, Tensor]:
    return run.find("final").weights()


def under(weights: dict[str, Tensor], key: str) -> dict[str, Tensor]:
    return {n.removeprefix(f"{key}."): w for n, w in weights.items() if n.startswith(f"{key}.")}


def test_six_lines_classify_with_the_encoder_of_a_tagger(tagger: Run, tmp_path: Path):
    """Settings, weights and words are the tagger's; the head is new."""
    run = Run.create(tmp_path / "run", config.from_table(table("classify", tagger, tmp_path)))
    here, there = run.recipe.model, tagger.recipe.model
    assert (here.dim, here.scale, here.encoder.config) == (16, False, there.encoder.config)
    assert here.head.kind == "labels" and not here.head.training.weights
    assert run.recipe.task.tokenizer == tagger.recipe.task.tokenizer
    name = "source.tokenizer.json"
    assert (run.folder / name).read_bytes() == (tagger.folder / name).read_bytes()
    mine, given = begun(run), saved(tagger)
    for key in ("input", "encoder"):
        assert under(mine, key).keys() == under(given, key).keys()
        assert all(torch.equal(w, under(given, key)[n]) for n, w in under(mine, key).items())
    assert train(run).finished
    assert len(regard.load(run.folder).predict(["two dogs"])) == 1


@pytest.mark.usefixtures("task_defaults")
def test_the_defaults_suit_fine_tuning(gpt: Run, tmp_path: Path):
    """A low rate for few epochs; of a causal reader the last position stands for the text."""
    made = table("classify", gpt, tmp_path)
    del made["train"]
    found = config.from_table(made)
    assert (found.train.epochs, found.train.optimizer.learning_rate) == (4, 0.0002)
    assert found.model.head.config.pooling == "last"
    assert config.from_table(made | {"model": {}}).train.epochs == 7


def test_a_language_model_reads(gpt: Run, tmp_path: Path):
    """Its embedding is the input, its blocks are a causal encoder."""
    run = Run.create(tmp_path / "run", config.from_table(table("classify", gpt, tmp_path)))
    model = run.recipe.model
    assert model.encoder.kind == "decoder"
    assert run.recipe.task.data.max_length == 38, "40 positions, two for the ends"
    mine, given = begun(run), saved(gpt)
    assert torch.equal(mine["input.embedding.weight"], given["decoder.embedding.weight"])
    for name, tensor in under(mine, "encoder").items():
        assert torch.equal(tensor, given[f"decoder.{name}"])
    train(run)
    [reading] = report.build([run], ["a dog runs"]).runs[0]["frames"][0]["readings"]
    assert reading["attribution"], "gradients reach the input"


def test_what_a_causal_encoder_gives_is_what_the_decoder_says(gpt: Run, tmp_path: Path):
    """The same hidden vectors for the same tokens, padding or not."""
    run = Run.create(tmp_path / "run", config.from_table(table("classify", gpt, tmp_path)))
    job, model = new_job(run, run.task, run.settings)
    _initialise(run, run.task, model, ())
    decoder = gpt.model()
    batch = job.batches.at(job_position())
    with torch.no_grad():
        read = model.eval().encode(batch)
        hidden, _ = decoder.decode(batch["source"], decoder.decoder.start(None, len(batch)))  # type: ignore[union-attr]
    assert read is not None and not bool(batch["source_mask"].all())
    mask = batch["source_mask"]
    assert torch.allclose(read.states[mask], hidden[mask], atol=1e-5)


def job_position() -> Any:
    from regard.types import Position

    return Position()


# LoRA


def test_adapters_alone_are_trained_and_resumed_exactly(gpt: Run, tmp_path: Path):
    made = config.from_table(
        table("classify", gpt, tmp_path, encoder={"lora": {"rank": 2, "dropout": 0.2}})
    )
    assert made.model.input.training.frozen, "only the adapters and the new head learn"
    runs = [Run.create(tmp_path / name, made) for name in ("straight", "stopped")]
    before = begun(runs[0])
    train(runs[0])

    def stop(record: dict[str, Any]) -> None:
        if record["kind"] == "train" and record["update"] == 3:
            raise Stop

    with pytest.raises(Stop):
        train(runs[1], [stop])
    train(Run(runs[1].folder))
    one, other = map(saved, runs)
    assert one.keys() == other.keys() and all(torch.equal(one[n], other[n]) for n in one)
    changed = {name for name in one if not torch.equal(one[name], before[name])}
    assert changed and all(".adapter." in n or n.startswith("head.") for n in changed)
    state = {name.rpartition("/")[0] for name in runs[0].find("last").optimizer()}
    assert state and all(".adapter." in n or n.startswith("head.") for n in state)


def test_an_adapted_run_gives_merged_weights(gpt: Run, tmp_path: Path):
    """To prediction, and to a run that begins with it."""
    lora = {"encoder": {"lora": {"rank": 2}}}
    first = Run.create(
        tmp_path / "first", config.from_table(table("classify", gpt, tmp_path, **lora))
    )
    train(first)
    names = {name for name, _ in first.model().named_parameters()}
    assert not any("adapter" in name for name in names)
    second = Run.create(tmp_path / "second", config.from_table(table("classify", first, tmp_path)))
    name = "encoder.blocks.1.feedforward.up"
    weights = saved(first)
    change = 8 * weights[f"{name}.adapter.up"] @ weights[f"{name}.adapter.down"]
    assert torch.allclose(begun(second)[f"{name}.weight"], weights[f"{name}.weight"] + change)


def test_an_adapted_language_model_keeps_its_vocabulary(gpt: Run, tmp_path: Path):
    """The tied embedding stays for decoder and head alike; single steps see the adapters."""
    made = config.from_table(
        table("language_model", gpt, tmp_path, decoder={"lora": {"rank": 2}})
        | {"search": {"kind": "greedy"}}
    )
    assert made.model.head.training.frozen and made.model.tie == "output"
    run = Run.create(tmp_path / "run", made)
    _, model = new_job(run, run.task, run.settings)
    for name, parameter in model.named_parameters():
        if name.endswith("adapter.up"):
            torch.nn.init.normal_(parameter, std=0.5)
    model.eval()
    tokens = torch.tensor([[1, 5, 6]])
    with torch.no_grad():
        whole, _ = model.decode(tokens, model.decoder.start(None, 1))  # type: ignore[union-attr]
        state = model.decoder.start(None, 1)  # type: ignore[union-attr]
        for place in range(3):
            step, state = model.decode(tokens[:, place : place + 1], state)
    assert torch.allclose(step[:, 0], whole[:, -1], atol=1e-5)


# What does not fit


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokenizer": {"kind": "bpe"}}, r"tokenizer\.kind: 'bpe' here and 'word' in \S+gpt"),
        ({"data": {"max_length": 100}}, r"model\.encoder\.limit: 40 positions, but .* for 102"),
        ({"model": {"dim": 32}}, r"model: dim is 32 here and 16 in "),
    ],
)
def test_what_does_not_fit_is_refused_with_both_values(
    changes: dict[str, dict[str, Any]], message: str, gpt: Run, tmp_path: Path
):
    made = table("classify", gpt, tmp_path)
    for section, values in changes.items():
        made[section] = made.get(section, {}) | values
    with pytest.raises(RecipeError, match=message):
        Run.create(tmp_path / "run", config.from_table(made))
    assert not (tmp_path / "run").exists()


def test_a_recurrent_language_model_cannot_read(tmp_path: Path):
    rnn = {"decoder": {"kind": "rnn", "layers": 1}}
    base = small_runs.create("language_model", rnn, tmp_path / "base")
    message = (
        r"has decoder \(rnn\), head \(vocabulary\); the task classify has input, encoder, head"
    )
    with pytest.raises(RecipeError, match=message):
        config.from_table(table("classify", base, tmp_path))


def test_an_encoder_cannot_write(tagger: Run, tmp_path: Path):
    with pytest.raises(RecipeError, match=r"no weights of the one fit the other"):
        config.from_table(table("language_model", tagger, tmp_path))


def test_a_place_without_a_run(tmp_path: Path):
    made = small_runs.table("classify", {"weights": str(tmp_path / "nowhere")}, tmp_path)
    with pytest.raises(RecipeError, match=r"model\.weights: \S+nowhere does not exist"):
        config.from_table(made)


def test_a_part_may_stay_new(tagger: Run, tmp_path: Path):
    made = config.from_table(table("tag", tagger, tmp_path, head={"weights": "none"}))
    run = Run.create(tmp_path / "run", made)
    mine, given = begun(run), saved(tagger)
    assert torch.equal(mine["input.embedding.weight"], given["input.embedding.weight"])
    assert not torch.equal(mine["head.project.weight"], given["head.project.weight"])
