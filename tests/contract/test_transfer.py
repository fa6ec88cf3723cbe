"""Parts that begin with the weights of other runs, stay as they are, or learn more slowly."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard.errors import RecipeError, UserError
from regard.inspect import report
from regard.model import build
from regard.recipe import config, parts
from regard.runs import Run, train
from regard.runs.training import new_job
from regard.train import checkpoint
from tests import small_runs

BLOCKS = small_runs.BLOCKS | {"dropout": 0.25}
TRAINING = {"threads": 1, "precision": "float32", "updates": 6, "save_every": 3, "log_every": 1}
TRAINING |= {"validate_every": 0, "schedule": {"kind": "constant", "warmup": 1}}


class Stop(Exception):
    """What ends a training in the middle."""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A classifier whose weights are all drawn anew."""
    folder = tmp_path_factory.mktemp("base") / "run"
    return small_runs.create("classify", {"encoder": BLOCKS}, folder)


def recipe(folder: Path, task: str = "classify", **keys: Any) -> config.Recipe:
    """Of a small run; `keys` are its parts, and what else its model has."""
    model = {"encoder": BLOCKS} | ({"decoder": BLOCKS} if task == "translate" else {}) | keys
    made = small_runs.table(task, model, folder / "data")
    return config.from_table(made | {"train": made["train"] | TRAINING})


def begun(run: Run) -> dict[str, Tensor]:
    """The weights that a training of a run begins with."""
    from regard.runs.training import _initialise

    _, model = new_job(run, run.task, run.settings)
    _initialise(run, run.task, model, ())
    return checkpoint.weights_of(model)


def saved(run: Run) -> dict[str, Tensor]:
    return run.find("final").weights()


def part(weights: dict[str, Tensor], key: str) -> dict[str, Tensor]:
    return {n.removeprefix(f"{key}."): w for n, w in weights.items() if n.startswith(f"{key}.")}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[n], other[n]) for n in one)


# What a part begins with


def test_a_part_begins_with_the_weights_of_another_run(base: Run, tmp_path: Path):
    plain = Run.create(tmp_path / "plain", recipe(tmp_path))
    taken = recipe(tmp_path, encoder=BLOCKS | {"weights": str(base.folder)})
    run = Run.create(tmp_path / "run", taken)
    mine, drawn, given = begun(run), begun(plain), saved(base)
    assert same(part(mine, "encoder"), part(given, "encoder"))
    for key in ("input", "head"):
        assert same(part(mine, key), part(drawn, key)), "all else is drawn as ever"
        assert not same(part(mine, key), part(given, key))


def test_every_part_may_begin_with_them(base: Run, tmp_path: Path):
    weights = {"weights": str(base.folder)}
    taken = recipe(tmp_path, input=weights, encoder=BLOCKS | weights, head=weights)
    assert same(begun(Run.create(tmp_path / "run", taken)), saved(base))


def test_a_part_may_have_another_name_there(base: Run, tmp_path: Path):
    """The encoder of a classifier for that of a translator, which is named."""
    weights = {"weights": f"{base.folder}:encoder"}
    made = Run.create(tmp_path / "run", recipe(tmp_path, "translate", encoder=BLOCKS | weights))
    assert same(part(begun(made), "encoder"), part(saved(base), "encoder"))


def test_a_decoder_takes_the_weights_that_it_shares(tmp_path: Path):
    """There, model.tie = all stores the three tables once, under the input's name; here, none."""
    joint: dict[str, Any] = {"tokenizer": {"kind": "word", "joint": True}}
    model = {"encoder": BLOCKS, "decoder": BLOCKS}
    there = small_runs.create("translate", model | {"tie": "all"}, tmp_path / "there", **joint)
    table = small_runs.table("translate", model | {"tie": "none"}, tmp_path / "there-data") | joint
    table["model"]["decoder"] = BLOCKS | {"weights": str(there.folder)}
    run = Run.create(tmp_path / "run", config.from_table(table))
    mine, given = begun(run), saved(there)
    assert "decoder.embedding.weight" not in given
    shared = given["input.embedding.weight"]
    assert torch.equal(mine["decoder.embedding.weight"], shared)
    assert not torch.equal(mine["head.weight"], shared)


def test_a_path_is_relative_to_the_recipe_or_to_here(
    base: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "recipes").mkdir()
    shutil.copytree(base.folder, tmp_path / "recipes" / "first")
    text = config.dump(recipe(tmp_path)).replace('weights = ""', 'weights = "first:encoder"')
    text = text.replace('weights = "first:encoder"', 'weights = ""', 1)  # that of the whole model
    (tmp_path / "recipes" / "mine.toml").write_text(text, encoding="utf-8")
    wanted = f"{tmp_path / 'recipes' / 'first'}:encoder"
    loaded = config.load(tmp_path / "recipes" / "mine.toml")
    assert {p.training.weights for p in loaded.model.parts().values()} == {wanted}
    monkeypatch.chdir(tmp_path / "recipes")
    changes = ("model.encoder.weights=first:encoder",)
    assert config.from_table({"task": "classify", "data": {"train": ["x"]}}, changes).model.encoder
    again = config.load(tmp_path / "recipes" / "mine.toml", changes)
    assert again.model.encoder.training.weights == wanted


def test_the_run_needs_the_other_one_no_more(base: Run, tmp_path: Path):
    """Neither to begin, nor to resume; and it ends the same."""
    given = {"weights": str(tmp_path / "gone"), "frozen": True}
    made = recipe(tmp_path, encoder=BLOCKS | given, head={"rate": 0.5})
    shutil.copytree(base.folder, tmp_path / "gone")
    runs = [Run.create(tmp_path / name, made) for name in ("straight", "stopped")]
    shutil.rmtree(tmp_path / "gone")
    train(runs[0])

    def stop(record: dict[str, Any]) -> None:
        if record["kind"] == "train" and record["update"] == 5:
            raise Stop

    with pytest.raises(Stop):
        train(runs[1], [stop])
    train(Run(runs[1].folder))
    assert same(*map(saved, runs))


def test_weights_that_are_lost_before_the_beginning_are_missed(base: Run, tmp_path: Path):
    made = recipe(tmp_path, encoder=BLOCKS | {"weights": str(base.folder)})
    run = Run.create(tmp_path / "run", made)
    shutil.rmtree(run.folder / "start")
    with pytest.raises(UserError, match=r"start/manifest\.json is missing\. It was made when"):
        train(run)
    with pytest.raises(UserError, match=r"start is missing: the weights of model\.encoder\."):
        begun(run)


def test_weights_that_are_not_those_of_the_recipe_are_refused(base: Run, tmp_path: Path):
    made = recipe(tmp_path, encoder=BLOCKS | {"weights": str(base.folder)})
    run = Run.create(tmp_path / "run", made)
    checkpoint.save(run.folder / "start", saved(base), {})
    with pytest.raises(UserError, match=r"start/model\.safetensors is damaged"):
        train(run)
    with pytest.raises(UserError, match=r"start is of another model: lacks \[\], has \['head"):
        begun(run)


def test_all_parts_at_once_is_the_same_as_each(base: Run, tmp_path: Path):
    """`--from`: the recipe that the run keeps says where each part comes from."""
    run = Run.create(tmp_path / "run", recipe(tmp_path, weights=str(base.folder.resolve())))
    assert same(begun(run), saved(base))
    places = {key: part.training.weights for key, part in run.recipe.model.parts().items()}
    assert places == dict.fromkeys(("input", "encoder", "head"), str(base.folder.resolve()))


# What does not fit


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"encoder": BLOCKS | {"feedforward": 24}},
            r"model\.encoder\.weights: blocks\.0\.feedforward\.up\.weight is \(32, 16\) in \S+ and "
            r"\(24, 16\) here",
        ),
        (
            {"encoder": BLOCKS | {"layers": 3}},
            r"model\.encoder\.weights: blocks\.2\.\S+ is missing in \S+ and \(\d+, \d+\) here",
        ),
        (
            {"encoder": BLOCKS | {"layers": 1}},
            r"model\.encoder\.weights: blocks\.1\.\S+ is \(\d+, \d+\) in \S+ and missing here",
        ),
        (
            {"encoder": {"kind": "rnn"}},
            r"the encoder is of kind 'transformer' in \S+ and 'rnn'",
        ),
        ({"dim": 32}, r"model\.encoder\.weights: \S+ is \(\d+, 16\) in \S+ and \(\d+, 32\) here"),
    ],
)
def test_shapes_that_differ_are_refused_before_anything_is_made(
    keys: dict[str, Any], message: str, base: Run, tmp_path: Path
):
    keys = {"encoder": BLOCKS} | keys
    keys["encoder"] = keys["encoder"] | {"weights": str(base.folder)}
    with pytest.raises(RecipeError, match=message):
        Run.create(tmp_path / "new" / "run", recipe(tmp_path, **keys))
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("nowhere", r"model\.encoder\.weights: \S+nowhere does not exist"),
        (
            "BASE:decoder",
            r"model\.encoder\.weights: \S+ has no part 'decoder'",
        ),
        (
            "BASE:head",
            r"model\.encoder\.weights: the head is of kind 'labels' in ",
        ),
    ],
)
def test_a_place_without_these_weights(place: str, message: str, base: Run, tmp_path: Path):
    place = place.replace("BASE", str(base.folder))
    made = recipe(tmp_path, encoder=BLOCKS | {"weights": place})
    with pytest.raises(RecipeError, match=message):
        Run.create(tmp_path / "run", made)
    assert not (tmp_path / "run").exists()


def test_a_folder_of_hugging_face_is_to_be_imported_first(tmp_path: Path):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "config.json").write_text("{}")
    made = recipe(tmp_path, encoder=BLOCKS | {"weights": str(tmp_path / "theirs")})
    with pytest.raises(
        RecipeError, match=r"is a folder of Hugging Face; \S.* regard import \S+theirs"
    ):
        Run.create(tmp_path / "run", made)


@pytest.mark.parametrize(("key", "field"), [("input", "source"), ("head", "labels")])
def test_another_vocabulary_is_refused(key: str, field: str, base: Run, tmp_path: Path):
    """As many words and labels, but others: nothing but their hash can tell."""
    part: dict[str, Any] = {key: {"weights": str(base.folder)}}
    made = recipe(tmp_path, **part)
    file = tmp_path / "data" / "labels.tsv"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("dog", "cow").replace("good", "fine"), encoding="utf-8")
    message = rf"model\.{key}\.weights: the vocabulary of '{field}' in \S+ is not that of '{field}'"
    with pytest.raises(RecipeError, match=message):
        Run.create(tmp_path / "run", made)
    assert not (tmp_path / "run").exists()


def test_vectors_and_weights_together_are_refused(base: Run, tmp_path: Path):
    made = recipe(tmp_path, input={"weights": str(base.folder), "vectors": "glove.txt"})
    with pytest.raises(RecipeError, match=r"model\.input\.vectors: model\.input\.weights gives"):
        Run.create(tmp_path / "run", made)


# How a part is trained


def test_a_frozen_part_stays_as_it_began(base: Run, tmp_path: Path):
    """Bit for bit, in every checkpoint and in their mean; no gradient, no optimizer state."""
    given = {"weights": str(base.folder), "frozen": True}
    made = recipe(tmp_path, encoder=BLOCKS | given)
    run = Run.create(tmp_path / "run", made)
    before = begun(run)
    assert train(run).finished
    after = saved(run)
    assert same(part(after, "encoder"), part(before, "encoder"))
    assert not same(part(after, "input"), part(before, "input"))
    kept = checkpoint.checkpoints(run.checkpoints)
    for each in kept:
        assert not any(name.startswith("encoder.") for name in each.optimizer())
        assert same(part(each.weights(), "encoder"), part(before, "encoder"))
    assert same(part(checkpoint.average(kept), "encoder"), part(before, "encoder"))
    model = run.model()
    assert not any(p.requires_grad for p in model.get_submodule("encoder").parameters())


def test_a_frozen_part_computes_as_in_prediction(base: Run, tmp_path: Path):
    """Its dropout is off while the rest learns, in the twin of a second thread, too."""
    import copy

    given = {"weights": str(base.folder), "frozen": True}
    made = recipe(tmp_path, encoder=BLOCKS | given, head={"dropout": 0.5})
    model = build(made.model, base.task.sizes)
    for each in (model, copy.deepcopy(model)):
        each.train()
        assert each.head.training and not each.get_submodule("encoder").training  # type: ignore[attr-defined]
        assert not any(m.training for m in each.get_submodule("encoder").modules())
    assert not model.eval().head.training  # type: ignore[attr-defined]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_part_may_learn_more_slowly(threads: int, base: Run, tmp_path: Path):
    """Adam's first step is learning rate × sign of the gradient: 0.1 of it in the encoder."""
    rate = 1e-3
    made = recipe(tmp_path, encoder=BLOCKS | {"weights": str(base.folder), "rate": 0.1})
    table: dict[str, Any] = {"updates": 1, "save_every": 1, "clip": 0.0, "threads": threads}
    table |= {"optimizer": {"learning_rate": rate}}
    text = config.dump(made)
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    changes = [f"train.{key}={value}" for key, value in table.items() if key != "optimizer"]
    changes += [f"train.optimizer.learning_rate={rate}"]
    run = Run.create(tmp_path / "run", config.load(tmp_path / "mine.toml", changes))
    before = begun(run)
    train(run)
    after = saved(run)
    steps = {name: float((after[name] - before[name]).abs().max()) for name in before}
    assert steps["encoder.blocks.0.feedforward.up.weight"] == pytest.approx(0.1 * rate, rel=0.01)
    assert steps["head.project.weight"] == pytest.approx(rate, rel=0.01)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"input": {"frozen": True}},
            r"model\.decoder\.frozen: its embedding\.weight is also",
        ),
        (
            {"head": {"rate": 0.5}},
            r"model\.head\.rate: its weight is also a weight of",
        ),
    ],
)
def test_parts_that_share_a_weight_must_agree(keys: dict[str, Any], message: str, tmp_path: Path):
    made = small_runs.table(
        "translate", {"encoder": BLOCKS, "decoder": BLOCKS, "tie": "all"} | keys, tmp_path
    )
    made["tokenizer"] = {"kind": "word", "joint": True}
    with pytest.raises(RecipeError, match=message):
        config.from_table(made)


def test_what_is_frozen_needs_something_to_keep(base: Run, tmp_path: Path):
    made = recipe(tmp_path, encoder=BLOCKS | {"frozen": True})
    with pytest.raises(RecipeError, match=r"model\.encoder\.frozen: .*name a run in model\.encod"):
        Run.create(tmp_path / "run", made)
    given = recipe(tmp_path, encoder=BLOCKS | {"frozen": True}, weights=str(base.folder))
    Run.create(tmp_path / "run", given)  # model.weights gives it
    words = {"kind": "words", "features": "words", "frozen": True, "vectors": "some.txt", "size": 3}
    (tmp_path / "some.txt").write_text("dog 1 2 3\n", encoding="utf-8")
    words["vectors"] = str(tmp_path / "some.txt")
    with pytest.raises(RecipeError, match=r"model\.input\.frozen_vectors = true keeps the vectors"):
        Run.create(tmp_path / "other", recipe(tmp_path, input=words))


def test_a_model_of_which_nothing_learns_is_refused(tmp_path: Path):
    frozen = {"frozen": True}
    with pytest.raises(RecipeError, match="every part is frozen: there is nothing to train"):
        recipe(tmp_path, input=frozen, encoder=BLOCKS | frozen, head=frozen)


def test_a_run_with_frozen_parts_can_be_looked_into(base: Run, tmp_path: Path):
    given = {"weights": str(base.folder), "frozen": True}
    made = recipe(tmp_path, input=given, encoder=BLOCKS | given)
    run = Run.create(tmp_path / "run", made)
    train(run)
    [reading] = report.build([run], ["a dog runs"]).runs[0]["frames"][0]["readings"]
    assert reading["text"] == "a dog runs"
    assert reading["attribution"], "gradients reach the input"


def test_the_doctor_refuses_what_training_would(base: Run, tmp_path: Path):
    place, rows = {"weights": str(base.folder)}, []
    made = small_runs.table("classify", {"encoder": BLOCKS | {"layers": 1} | place}, tmp_path)
    for n in range(60):
        rows.append(f"{('bad', 'good')[n % 2]}\tdog {n} {('sits', 'runs')[n % 2]} there\n")
    (tmp_path / "labels.tsv").write_text("".join(rows), encoding="utf-8")
    [error] = [each for each in regard.doctor(made) if each.severity == "error"]
    assert "model.encoder.weights: blocks.1." in str(error) and "missing here" in str(error)
    made["model"]["encoder"] = BLOCKS | place | {"frozen": True}
    found = regard.doctor(made)
    assert not [each for each in found if each.severity == "error"]
    assert any(each.code == "cost.time" for each in found), "its steps were measured"


# Named parts


def test_towers_and_heads_give_and_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(parts, "_folders", [])
    parts.add_folder(Path(__file__).resolve().parents[1] / "own_parts")
    encoder = {"kind": "rnn", "layers": 1}
    training = {"updates": 1, "threads": 1, "precision": "float32", "validate_every": 0}
    towers = {"left": {"encoder": encoder}}
    table = {"task": "contrast", "model": {"dim": 12, "towers": towers}, "train": training}
    first = Run.create(tmp_path / "first", config.from_table(table))
    train(first)
    place = f"{first.folder}:towers.left.encoder"
    model = {"dim": 12, "encoder": encoder | {"weights": place}, "heads": {"parity": {}}}
    second = Run.create(
        tmp_path / "second", config.from_table(table | {"task": "two_heads", "model": model})
    )
    assert same(part(begun(second), "encoder"), part(saved(first), "towers.left.encoder"))
    towers = {"left": {"encoder": encoder | {"weights": str(first.folder), "frozen": True}}}
    third = Run.create(
        tmp_path / "third",
        config.from_table(table | {"model": {"dim": 12, "towers": towers}, "seed": 2}),
    )
    train(third)
    key = "towers.left.encoder"
    assert same(part(saved(third), key), part(saved(first), key))


def test_an_older_run_keeps_its_frozen_vectors(tmp_path: Path):
    """`frozen` of an input meant the vectors alone, before every part had `frozen` and `rate`."""
    made = recipe(tmp_path, input={"kind": "words", "features": "words"})
    text = re.sub(r"(?m)^(weights = .*|rate = .*|frozen = .*)\n", "", config.dump(made))
    file = tmp_path / "recipe.toml"
    file.write_text(text.replace("frozen_vectors = false", "frozen = true"), encoding="utf-8")
    reads = config.load(file, of_run=True).model.input
    assert reads.config.frozen_vectors and not reads.training.frozen
    assert config.load(file).model.input.training.frozen, "a recipe means all of it"
