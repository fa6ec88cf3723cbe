"""The language model, from text to continuation: learns, adds up, goes on exactly after a stop."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from regard import cli, front
from regard.data.store import Store
from regard.data.tokenizers import Tokenizer
from regard.decoding.likelihood import log_probs
from regard.errors import RecipeError, UserError
from regard.front import Predictor
from regard.model import Model, build
from regard.recipe.config import recipe
from regard.recipe.parts import Part
from regard.runs import Run
from regard.search import beam, greedy, sample
from regard.tasks.language_model import Task
from regard.train import loop, optimizer, schedule
from regard.train.checkpoint import Checkpoint
from regard.train.job import Config, Job
from regard.train.progress import Progress
from regard.types import ALL, Batch, Position, Term
from tests.fault import forger

LINES = ["abc de", "fg hij", "k lmno"]
"""Read over and over, they leave no doubt about what follows."""
TRANSFORMER = {"kind": "transformer", "layers": 1, "heads": 2, "feedforward": 32, "norm": "pre"}
LSTM = {"kind": "rnn", "cell": "lstm", "layers": 2}
GRU = {"kind": "rnn", "cell": "gru", "layers": 1}
GREEDY = Part("greedy", greedy.Config())

Write = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("language_model")


@pytest.fixture(scope="module")
def table(folder: Path) -> Write:
    (folder / "text.txt").write_text("".join(line + "\n" for line in LINES * 40))

    def make(decoder: dict[str, Any], **sections: Any) -> dict[str, Any]:
        """A recipe; `sections` add to its own, or replace a plain value."""
        made: dict[str, Any] = {
            "task": "language_model",
            "data": {"folder": str(folder), "train": ["text.txt"]},
            "held_out": {"validation": 0.1, "test": 0.1},
            "tokenizer": {"kind": "character"},
            "stream": {"streams": 4, "length": 20},
            "model": {
                "dim": 16,
                "decoder": {"dropout": 0.1, **decoder},
                "head": {"smoothing": 0.0},
            },
            "train": {
                "updates": 120,
                "log_every": 1000,
                "validate_every": 60,
                "save_every": 60,
                "metric": "bits_per_character",
                "threads": 1,
                "precision": "float32",
                "optimizer": {"learning_rate": 0.02},
                "schedule": {"kind": "cosine", "warmup": 5},
            },
        }
        for name, value in sections.items():
            made[name] = made.get(name, {}) | value if isinstance(value, dict) else value
        return made

    return make


@pytest.fixture(scope="module", params=[TRANSFORMER, LSTM], ids=["transformer", "lstm"])
def trained(request: pytest.FixtureRequest, table: Write, folder: Path) -> Predictor:
    """A model of running text that has learnt it by heart."""
    to = folder / f"trained-{request.param['kind']}"
    return front.train(table(request.param), to=to)


def untrained(table: dict[str, Any], to: Path) -> tuple[Task, Model]:
    """A task with its data prepared, and the model that training would start from."""
    run = Run.create(to, recipe(table))
    task: Any = run.task
    return task, build(run.recipe.model, task.sizes)


def uniform(model: Model) -> Model:
    """All weights 0: every token has probability 1 / V."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    return model


# Learning


def test_it_learns_the_text_and_goes_on_with_it(trained: Predictor):
    scores, outputs = trained.evaluate("test")
    assert scores["bits_per_character"].value < 0.25
    assert outputs == []
    whole = "\n".join(LINES * 6)
    prompt = "abc de\nfg h"
    [text] = trained.predict([prompt], search="greedy", length=70)  # more than the windows hold
    assert prompt + text == whole[: len(prompt) + 70]
    long = "\n".join(LINES * 3)  # longer than the windows
    [text] = trained.predict([long[:-2]], search="greedy", length=20)
    assert long[:-2] + text == whole[: len(long) - 2 + 20]
    [text] = trained.predict([prompt], search="beam", beams=3, length=9)
    assert prompt + text == whole[: len(prompt) + 9]


def test_validation_is_recorded_and_the_best_update_is_kept(trained: Predictor):
    records = [r for r in trained.run.records() if r["kind"] == "validation"]
    assert [r["update"] for r in records] == [60, 120]
    for record in records:
        assert record["perplexity"] == pytest.approx(math.exp(record["nll"]))
        # Of characters, one token is one character.
        assert record["bits_per_character"] == pytest.approx(record["nll"] / math.log(2))
    best = min(records, key=lambda r: r["bits_per_character"])["update"]
    assert trained.run.find("final").progress()["best_update"] == best


def test_lines_can_be_texts_of_their_own(table: Write, folder: Path):
    made = table(LSTM, unit="line", batch={"tokens": 60})
    model = front.train(made, to=folder / "lines")
    assert all(line in LINES for line in model.predict([""] * 20, search="sample", temperature=0.3))
    found = list(model.predictions(["abc", "fg hij", "k"], search="greedy"))
    assert [(p.text, p.status) for p in found] == [(" de", "ok"), ("", "ok"), (" lmno", "ok")]
    assert found[0].tokens == ["▁", "d", "e", "<end>"]
    [short] = model.predictions(["k"], search="greedy", length=2)
    assert (short.text, short.status) == (" l", "capped")


def test_what_is_held_out_is_not_learnt_from(table: Write, folder: Path, tmp_path: Path):
    (folder / "ends.txt").write_text("aaaa\n" * 17 + "bbbb\n" + "cccc\n" * 2)
    made = table(LSTM, data={"folder": str(folder), "train": ["ends.txt"]})
    task, _ = untrained(made | {"held_out": {"validation": 0.05, "test": 0.1}}, tmp_path / "run")
    assert task.references("validation") == (["bbbb"],)
    assert task.references("test") == (["cccc\ncccc"],)
    store = Store(task.folder / "store", "train")
    assert task.by.pieces(store.flat("target")[:5].tolist()) == ["a", "a", "a", "a", "<end>"]
    assert len(store) == 17
    assert set(task.by.encode(["abc"])[0][1:]) == {task.by.unknown}


@pytest.mark.parametrize("unit", ["line", "stream"])
def test_stored_lines_that_end_elsewhere_are_refused(unit: str, table: Write, tmp_path: Path):
    task, _ = untrained(table(LSTM, unit=unit), tmp_path / "run")
    path = task.folder / "store" / "train.target.00000.lengths"
    lengths = np.fromfile(path, "<u4")
    lengths[0] -= 1
    lengths[1] += 1
    lengths.tofile(path)
    forger.agree(task.folder)
    with pytest.raises(UserError, match=r"train\.target: its lines do not end where"):
        task.batches(1)


@pytest.mark.parametrize("unit", ["line", "stream"])
def test_a_broken_line_to_validate_by_is_refused_before_training(
    unit: str, table: Write, tmp_path: Path
):
    (tmp_path / "text.txt").write_text("abc de\n" * 40)
    (tmp_path / "validation.txt").write_bytes(b"abc\nd\xffe\nfg\n")
    data = {"folder": str(tmp_path), "train": ["text.txt"], "validation": ["validation.txt"]}
    made = table(LSTM, unit=unit, data=data) | {"held_out": {}}
    with pytest.raises(UserError, match=r"validation\.txt:2: not UTF-8.*data\.on_bad_line"):
        Run.create(tmp_path / "run", recipe(made))
    assert not (tmp_path / "run").exists()
    made["data"] |= {"on_bad_line": "skip"}
    run = Run.create(tmp_path / "run", recipe(made))
    assert json.loads((run.folder / "data.json").read_text())["skipped"] == {"not UTF-8": 1}
    task: Any = run.task
    assert task._validation() == ((["abc", "fg"] if unit == "line" else ["abc\nfg"]),)


# The carry


@pytest.mark.parametrize("decoder", [LSTM, GRU], ids=["lstm", "gru"])
def test_chunks_with_their_carry_are_one_long_text(
    decoder: dict[str, Any], table: Write, tmp_path: Path
):
    task, model = untrained(table(decoder, stream={"streams": 3, "length": 7}), tmp_path / "run")
    model.eval()
    batches, position, carry, total = task.batches(1), Position(0, 0), None, 0.0
    chunks = []
    while position.epoch == 0:
        chunks.append(batches.at(position))
        terms, carry = task.loss(model, chunks[-1], carry)
        assert carry
        assert not any(tensor.requires_grad for tensor in carry.values())
        total += float(terms["nll"].sum)
        position = batches.after(position)
    names = chunks[0].tensors
    whole = Batch(
        tensors={name: torch.cat([chunk[name] for chunk in chunks], 1) for name in names},
        ids=chunks[0].ids,
        targets=sum(chunk.targets for chunk in chunks),
    )
    terms, _ = task.loss(model, whole)
    assert len(chunks) > 10
    assert total == pytest.approx(float(terms["nll"].sum), rel=1e-5)


def test_an_epoch_begins_without_a_carry(table: Write, tmp_path: Path):
    task, model = untrained(table(LSTM), tmp_path / "run")
    batches = task.batches(1)
    first, second = (batches.at(Position(0, index)) for index in (0, 1))
    _, carry = task.loss(model.eval(), first, None)

    def nll(batch: Batch, given: Any) -> float:
        return float(task.loss(model, batch, given)[0]["nll"].sum)

    assert nll(first, carry) == nll(first, None)
    assert nll(second, carry) != nll(second, None)


def test_a_transformer_hands_nothing_on(table: Write, tmp_path: Path):
    task, model = untrained(table(TRANSFORMER), tmp_path / "run")
    batches = task.batches(1)
    _, carry = task.loss(model, batches.at(Position(0, 0)))
    assert not carry
    _, carry = task.loss(model, batches.at(Position(0, 1)), carry)
    assert not carry


class Stopped(Exception):
    """An error, which saves."""


@pytest.mark.parametrize("decoder", [LSTM, TRANSFORMER], ids=["lstm", "transformer"])
def test_resume_is_exact(decoder: dict[str, Any], table: Write, tmp_path: Path):
    made = table(decoder)
    made["train"] |= {"updates": 14, "log_every": 1, "save_every": 3, "validate_every": 4}
    front.train(made, to=tmp_path / "straight")

    def stop(record: dict[str, Any]) -> None:
        if record["kind"] == "train" and record["update"] == 8:
            raise Stopped

    with pytest.raises(Stopped):
        front.train(made, to=tmp_path / "stopped", callback=stop)
    left, _ = Run(tmp_path / "stopped").find("last"), None
    assert left.update == 8
    assert left.progress()["position"]["index"] > 0, "the carry matters in mid-epoch alone"
    assert (left.folder / "carry.safetensors").exists() == (decoder is LSTM)
    front.train(resume=tmp_path / "stopped")
    for update in (9, 12, 14):
        straight, resumed = (
            Checkpoint(tmp_path / name / "checkpoints" / f"{update:08d}")
            for name in ("straight", "stopped")
        )
        assert equal(straight.weights(), resumed.weights())
        assert equal(straight.optimizer(), resumed.optimizer())
        assert equal(straight.carry(), resumed.carry())
    records = [Run(tmp_path / name).records() for name in ("straight", "stopped")]
    losses, again = ([(r["update"], r["nll"]) for r in found if "nll" in r] for found in records)
    assert losses == again


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[n], other[n]) for n in one)


class Sick(nn.Module):
    """Its loss is not a number for batch 1; its carry is the number of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.given: list[float | None] = []

    def forward(self, batch: Batch, carry: Any = None) -> Any:
        self.given.append(None if carry is None else float(carry["number"]))
        number = float(batch.ids[0])
        total = self.weight * (math.nan if number == 1 else 1.0)
        return {"nll": Term(total, 1)}, {"number": torch.tensor(number)}


class Numbers:
    """Batch n is the number n."""

    def at(self, position: Position, rows: slice = ALL) -> Batch:
        return Batch(tensors={}, ids=(position.index,), targets=1, continues=True)

    def after(self, position: Position) -> Position:
        return Position(0, position.index + 1)


def test_a_refused_update_hands_nothing_on():
    objective = Sick()
    settings = Config(updates=4, optimizer=optimizer.Config(), schedule=schedule.Config())
    job = Job(
        objective=objective,
        batches=Numbers(),
        optimizer=torch.optim.SGD(objective.parameters(), lr=0.1),
        config=settings,
        seed=1,
        dim=1,
        device=torch.device("cpu"),
    )
    loop.fit(job, Progress())
    assert objective.given == [None, 0.0, None, 2.0]


# Likelihood


def test_scores_add_up_to_the_evaluation(trained: Predictor):
    scores, _ = trained.evaluate("test")
    [found] = trained.score(*trained.task.references("test"))
    symbols = len(found["log_probs"])
    assert found["log_prob"] == pytest.approx(math.fsum(found["log_probs"]), rel=1e-5)
    assert math.exp(-found["log_prob"] / symbols) == pytest.approx(scores["perplexity"].value)
    assert found["bits_per_character"] == pytest.approx(scores["bits_per_character"].value)
    assert f"symbols:{symbols}|characters:{symbols}|unknown:0" in scores["perplexity"].signature
    by_line = trained.score(LINES)
    assert all(line["characters"] == len(line["tokens"]) for line in by_line)


def test_no_context_is_lost_at_a_chunks_border(table: Write, tmp_path: Path):
    """A text that is longer than a chunk, against one pass over all of it."""
    task, model = untrained(table(LSTM), tmp_path / "run")
    model.eval()
    text = "\n".join(LINES * 30)
    symbols = task.texts.measured([text])[0].tokens
    tokens = torch.tensor([[Tokenizer.end, *symbols[:-1]]])
    batch = Batch(tensors={"target_in": tokens}, ids=(0,), targets=0)
    with torch.inference_mode():
        hidden, _ = model.decode(tokens, model.start(batch))
        whole = model.head.logits(hidden).log_softmax(-1)[0]
    expected = whole.gather(-1, torch.tensor(symbols)[:, None]).sum()
    [found] = task.score(model, [text])
    assert len(symbols) > 2 * 256
    assert found["log_prob"] == pytest.approx(float(expected), rel=1e-5)


def test_windows_give_what_their_symbols_alone_would(table: Write, tmp_path: Path):
    """A model that hands nothing on: each window is a text that is read by itself."""
    task, model = untrained(table(TRANSFORMER), tmp_path / "run")
    model.eval()
    symbols = torch.tensor([task.texts.measured(["\n".join(LINES)])[0].tokens])[:, :12]
    read = torch.cat([torch.tensor([[Tokenizer.end]]), symbols[:, :-1]], 1)
    tensors = {"target_in": read, "target_out": symbols}
    batch = Batch(tensors=tensors, ids=(0,), targets=12)
    found = log_probs(model, batch, 8)[0]

    def alone(first: int, end: int) -> torch.Tensor:
        hidden, _ = model.decode(read[:, first:end], model.start(batch))
        chances = model.head.logits(hidden).log_softmax(-1)
        return chances.gather(-1, symbols[:, first:end, None])[0, :, 0]

    with torch.inference_mode():
        expected = torch.cat([alone(0, 8), alone(4, 12)[4:]])
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_bits_of_pieces_are_shared_by_all_their_characters(kind: str, table: Write, tmp_path: Path):
    made = table(LSTM, tokenizer={"kind": kind, "vocabulary": 300})
    task, model = untrained(made, tmp_path / "run")
    [found] = task.score(uniform(model), ["abc de"])
    pieces = len(task.by.encode(["abc de"])[0]) + 1
    assert len(found["tokens"]) == pieces and found["status"] == "ok"
    bits = pieces * math.log2(len(task.by))
    assert found["bits_per_character"] == pytest.approx(bits / 7, rel=1e-5)


@pytest.mark.parametrize("kind", ["character", "word", "bytes"])
@pytest.mark.parametrize("unit", ["stream", "line"])
def test_bits_per_character_of_a_uniform_model(kind: str, unit: str, table: Write, tmp_path: Path):
    made = table(LSTM, unit=unit, tokenizer={"kind": kind})
    task, model = untrained(made, tmp_path / "run")
    text, lines = "abc de\nfg hij", ["abc de", "fg hij"]
    symbols = {"character": 14, "bytes": 14, "word": 6}[kind]  # with the ends of two lines
    bits = symbols * math.log2(len(task.by))
    found = list(task.score(uniform(model), [text] if unit == "stream" else lines))
    assert sum(len(each["tokens"]) for each in found) == symbols
    assert sum(each["bits"] for each in found) == pytest.approx(bits, rel=1e-5)
    assert sum(each["characters"] for each in found) == 14
    assert found[0]["perplexity"] == pytest.approx(len(task.by), rel=1e-5)
    if unit == "stream":
        assert found[0]["bits_per_character"] == pytest.approx(bits / 14, rel=1e-5)


def test_what_is_unknown_must_be_spelt(table: Write, tmp_path: Path):
    made = table(LSTM, tokenizer={"kind": "word"})
    task, model = untrained(made, tmp_path / "run")
    known, unknown = task.score(uniform(model), ["abc de", "abc dez"])
    assert unknown["log_prob"] == known["log_prob"]
    assert unknown["bits"] == pytest.approx(known["bits"] + 8 * (3 + 1))
    assert unknown["bits_per_character"] == pytest.approx(unknown["bits"] / 8)
    assert (known["status"], unknown["status"]) == ("ok", "unknown")


def test_blanks_that_no_symbol_tells_do_not_count(table: Write, tmp_path: Path):
    """Two words and an end are a code for “abc de”, whatever stands between: 7 characters."""
    task, model = untrained(table(LSTM, tokenizer={"kind": "word"}), tmp_path / "run")
    one, many = task.score(uniform(model), ["abc de", " abc    de "])
    assert many["characters"] == one["characters"] == 7
    assert many["bits_per_character"] == one["bits_per_character"]


# Continuation


def test_one_output_per_input_in_order_whatever_the_batch(trained: Predictor):
    prompts = ["k lm", "", "abc de\nfg", "a§c", "fg h", ""]
    options: dict[str, Any] = {"search": "sample", "seed": 3, "length": 30}
    found = list(trained.predictions(prompts, batch=6, **options))
    assert [p.status for p in found] == ["ok", "ok", "ok", "unknown", "ok", "ok"]
    assert [len(p.tokens) for p in found] == [30] * 6
    assert [len(p.log_probs) for p in found] == [30] * 6
    assert found[1].text, "an empty prompt is the beginning of a text"
    assert found[2].source[:4] == ["a", "b", "c", "▁"]
    singly = [
        next(iter(trained.predictions([p], first=n, **options))) for n, p in enumerate(prompts)
    ]
    assert [p.text for p in singly] == [p.text for p in found]


def test_the_score_of_a_continuation_is_its_probability(trained: Predictor):
    [found] = trained.predictions(["abc"], search="greedy", length=8)
    [whole] = trained.score(["abc" + found.text])
    # Forbidden tokens take no probability in a search, which the model gives next to none.
    assert found.score == pytest.approx(sum(whole["log_probs"][3:11]), abs=0.05)
    assert found.log_probs == pytest.approx(whole["log_probs"][3:11], abs=0.02)


LONG = "k lmno abc de fg hij" * 20
"""A prompt that no window of these models holds."""


@pytest.fixture(scope="module", params=["lstm", "learned", "rotary"])
def fresh(request: pytest.FixtureRequest, table: Write, folder: Path) -> tuple[Task, Model]:
    """Lines as texts of their own, by a model that has learnt nothing and is sure of little."""
    kinds = {name: TRANSFORMER | {"position": name, "limit": 13} for name in ("learned", "rotary")}
    made = table(kinds.get(request.param, LSTM), unit="line")
    made["data"] |= {"max_length": 12}
    task, model = untrained(made, folder / f"fresh-{request.param}")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return task, model.eval()


@pytest.mark.parametrize("kind", ["greedy", "beam", "sample"])
def test_a_minimum_is_of_the_continuation(kind: str, fresh: tuple[Task, Model]):
    """However long the prompt is, and over several windows."""
    task, model = fresh
    config = {"greedy": greedy, "beam": beam, "sample": sample}[kind].Config(min_length=30)
    prompts = ["", "abc", LONG]
    for prompt, found in zip(
        prompts, task.predict(model, prompts, Part(kind, config)), strict=True
    ):
        assert len(found.tokens) - (found.tokens[-1] == "<end>") >= 30
        assert len(found.log_probs) == len(found.tokens)
        assert found.source == task.by.pieces(task.by.encode([prompt])[0])


def test_the_score_is_by_length_as_the_search_says(fresh: tuple[Task, Model]):
    task, model = fresh
    search = Part("beam", beam.Config(beams=4, nbest=3, length_penalty=0.6))
    for found in task.predict(model, ["", "abc", LONG], search, length=9):
        assert found.score == found.alternatives[0]["score"]
        for each in found.alternatives:
            expected = math.fsum(each["log_probs"]) / len(each["log_probs"]) ** 0.6
            assert each["score"] == pytest.approx(expected, abs=1e-5)


def test_log_probs_are_those_of_score(fresh: tuple[Task, Model]):
    """But for the tokens that are never written, which take no probability in a search."""
    task, model = fresh
    for prompt in ("", "ab", "a§c"):
        [found] = task.predict(model, [prompt], GREEDY, length=6)
        [symbols] = [text.tokens for text in task.texts.measured([prompt])]
        pieces = task.by.pieces(range(len(task.by)))
        said = symbols[:-1] + [pieces.index(piece) for piece in found.tokens]
        batch = task._batch([said])
        with torch.inference_mode():
            hidden, _ = model.decode(batch["target_in"], model.start(batch))
            chances = model.head.logits(hidden)[0].double().softmax(-1)
        never = chances[:, [Tokenizer.pad, Tokenizer.start, Tokenizer.unknown]].sum(-1)
        after = len(symbols) - 1
        expected = (chances[range(len(said)), said] / (1 - never)).log()[after:]
        assert found.log_probs == pytest.approx(expected.tolist(), abs=1e-4)
        if prompt != "a§c" and found.tokens[-1] == "<end>":
            [score] = task.score(model, [prompt + found.text])
            own = chances[range(len(said)), said].log()
            assert score["log_probs"] == pytest.approx(own.tolist(), abs=1e-4)


def test_a_line_that_ends_inside_a_prompt_does_not_end_what_follows(fresh: tuple[Task, Model]):
    task, model = fresh
    search = Part("greedy", greedy.Config(min_length=4))
    [found] = task.predict(model, ["abc\nfg\n"], search, length=7)
    assert found.source == ["a", "b", "c", "<end>", "f", "g", "<end>"]
    assert len(found.tokens) >= 4
    assert found.text == "".join(found.tokens).replace("▁", " ").removesuffix("<end>")


def test_what_is_unknown_is_read_as_such_and_never_written(fresh: tuple[Task, Model]):
    task, model = fresh
    search = Part("sample", sample.Config(min_length=40, temperature=5.0))
    for found in task.predict(model, ["§§", "a§" * 40], search, length=40):
        assert found.status == "unknown"
        assert set(found.source) >= {"<unknown>"}
        assert len(found.tokens) == 40 and "<" not in "".join(found.tokens)


@pytest.mark.parametrize("kind", ["character", "word", "bytes", "bpe", "unigram"])
def test_input_and_output_together_are_the_text(kind: str, table: Write, tmp_path: Path):
    made = table(LSTM, tokenizer={"kind": kind, "vocabulary": 300})
    task, model = untrained(made, tmp_path / "run")
    search = Part("sample", sample.Config(temperature=4.0, samples=3))
    for prompt in ("", "abc de", "abc de\n", "\nfg", "k lmno\nabc"):
        [found] = task.predict(model, [prompt], search, length=30)
        before = task.texts.measured([prompt])[0].tokens[:-1]
        for each in found.alternatives:
            assert len(each["log_probs"]) == 30
        pieces = task.by.pieces(range(len(task.by)))
        said = [pieces.index(piece) for piece in found.tokens]
        assert prompt + found.text == task.continuer(model).decode([*before, *said])


def test_alternatives_are_given_when_asked_for(trained: Predictor):
    [found] = trained.predictions(["abc"], search="beam", beams=3, nbest=2, length=6)
    assert [len(each["log_probs"]) for each in found.alternatives] == [6, 6]
    assert found.alternatives[0]["text"] == found.text
    drawn = Part("sample", sample.Config(samples=3))
    [found] = trained.task.predict(trained.model, ["abc"], drawn, length=6)
    assert len(found.alternatives) == 3


# Use


def test_the_command_line_takes_one_file_of_texts(
    trained: Predictor, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "texts").write_text("abc de\n\nfg hij\n")
    run = str(trained.run.folder)
    cli.main(["score", run, str(tmp_path / "texts")])
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    expected = trained.score(["abc de", "", "fg hij"])
    assert [float(row[2]) for row in rows] == pytest.approx(
        [line["bits_per_character"] for line in expected], abs=1e-4
    )
    (tmp_path / "odd").write_text("abc de\na§c\n")
    cli.main(["score", run, str(tmp_path / "odd")])
    assert f"{tmp_path / 'odd'}:2: " in capsys.readouterr().err.replace("\n", "")
    cli.main(["score", run, "--json"])
    [line] = capsys.readouterr().out.splitlines()
    assert json.loads(line)["characters"] == len(trained.task.references("test")[0][0]) + 1
    with pytest.raises(SystemExit) as stopped:
        cli.main(["score", run, str(tmp_path / "texts"), str(tmp_path / "texts")])
    assert stopped.value.code == 2
    assert "TARGET" in capsys.readouterr().err
    cli.main(["predict", run, str(tmp_path / "texts"), "--length", "5", "--json"])
    assert [len(json.loads(line)["tokens"]) for line in capsys.readouterr().out.splitlines()] == [
        5, 5, 5,
    ]  # fmt: skip


def test_options_that_a_language_model_lacks_are_refused(trained: Predictor):
    with pytest.raises(UserError, match="language_model takes no prefixes"):
        trained.predictions(["abc"], prefixes=["d"])
    with pytest.raises(UserError, match="do not both write"):
        trained.check_comparable(trained)
    with pytest.raises(UserError, match="score takes a list for each of target"):
        trained.score(["a"], ["b"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train": {"metric": "bleu"}}, "train.metric: 'bleu' is not one of nll, perplexity"),
        ({"data": {"train": ["t"], "test": ["t"]}}, "held_out.test: data.test names files"),
        ({"data": {"train": ["t"], "columns": ["a", "b"]}}, "data.columns: a text has 1 column"),
        ({"held_out": {"test": 0.9, "validation": 0.2}}, "held_out.validation: with test it"),
        ({"unit": "word"}, "unit: 'word' is not one of 'stream', 'line'"),
        ({"model": {"encoder": {}}}, "model.encoder: no such key"),
        ({"model": {"head": {"kind": "tags"}}}, "model.head.kind: 'tags' is not for the task"),
        (
            {"tokenizer": {"kind": "word", "split": "punctuation"}},
            "tokenizer.split: 'punctuation' is for tasks that only read; language_model writes",
        ),
        (
            {"model": {"dim": 16, "decoder": TRANSFORMER | {"position": "learned", "limit": 10}}},
            "model.decoder.limit: 10 positions, but stream.length = 20 asks for 20",
        ),
        (
            {"model": {"dim": 16, "decoder": LSTM | {"attention": "additive"}}},
            "model.decoder.attention: a language model has no memory to look at",
        ),
        (
            {"model": {"dim": 16, "decoder": LSTM | {"attention": "none", "order": "before"}}},
            "order: nothing is looked at if attention = 'none'",
        ),
    ],
)
def test_what_cannot_be_right_is_refused(changes: dict[str, Any], message: str, table: Write):
    with pytest.raises(RecipeError) as refused:
        recipe(table(TRANSFORMER, **changes))
    assert message in str(refused.value)
