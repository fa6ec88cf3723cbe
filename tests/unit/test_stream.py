"""Running text: streams to learn from, windows to read by, and which line is whose."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from regard.data import files, tokenizers
from regard.data.held_out import ByPlace
from regard.data.readers import Report
from regard.data.stream import Config, Streams, windows
from regard.data.tokenizers import Tokenizer
from regard.decoding.likelihood import spelling
from regard.errors import RecipeError, UserError
from regard.examples.preparation import Plan
from regard.examples.stored import collate
from regard.fields import text
from regard.recipe import config
from regard.tasks import language_model
from regard.types import Batch, Position

BEFORE = 999
PAD, START, END, UNKNOWN = Tokenizer.pad, Tokenizer.start, Tokenizer.end, Tokenizer.unknown
SIZES = [(101, 3, 7), (211, 5, 13), (29, 7, 11), (5, 5, 3), (23, 1, 23), (24, 1, 23)]


def streams(size: int, rows: int, length: int, seed: int = 1) -> Streams:
    """Over the text 100, 101, …, so that a token tells its place."""
    config = Config(streams=rows, length=length)
    return Streams(np.arange(100, 100 + size, dtype=np.uint16), BEFORE, config, seed)


def epoch(batches: Streams, number: int) -> list[Batch]:
    found, position = [], Position(number, 0)
    while position.epoch == number:
        found.append(batches.at(position))
        position = batches.after(position)
    assert position == Position(number + 1, 0)
    return found


@pytest.mark.parametrize(("size", "rows", "length"), SIZES)
def test_each_stream_is_read_in_order_and_no_place_twice(size: int, rows: int, length: int):
    for number in range(4):
        chunks = epoch(streams(size, rows, length), number)
        said = np.concatenate([chunk["target_out"].numpy() for chunk in chunks], 1)
        read = np.concatenate([chunk["target_in"].numpy() for chunk in chunks], 1)
        assert said.shape[0] == rows
        assert (np.diff(said, axis=1) == 1).all()
        assert len(set(said.flatten().tolist())) == said.size
        assert size - said.size < length + rows
        assert (read == np.where(said == 100, BEFORE, said - 1)).all()


@pytest.mark.parametrize(("size", "rows", "length"), SIZES)
def test_chunks_are_of_like_length_and_say_whether_they_continue(size: int, rows: int, length: int):
    chunks = epoch(streams(size, rows, length), 0)
    lengths = [chunk["target_out"].shape[1] for chunk in chunks]
    assert max(lengths) <= length
    assert max(lengths) - min(lengths) <= 1
    assert [chunk.continues for chunk in chunks] == [n > 0 for n in range(len(chunks))]
    for chunk, width in zip(chunks, lengths, strict=True):
        assert chunk.targets == rows * width == int(chunk["target_mask"].sum())
        assert chunk.ids == tuple((chunk["target_out"][:, 0] - 100).tolist())
        assert chunk.to("cpu").continues == chunk.continues


def test_a_batch_is_a_function_of_seed_and_position():
    position = Position(3, 2)
    straight, fresh = streams(211, 5, 13), streams(211, 5, 13)
    for number in range(3):
        epoch(straight, number)
    assert straight.at(position)["target_out"].equal(fresh.at(position)["target_out"])


def test_epochs_and_seeds_cut_the_text_at_other_places():
    one = {epoch(streams(211, 5, 13), number)[0].ids for number in range(20)}
    assert len(one) > 5
    starts = {epoch(streams(211, 5, 13, seed), 0)[0].ids for seed in range(20)}
    assert len(starts) > 5
    assert any(ids[0] == 0 for ids in one | starts), "the beginning of the text is learnt, too"


def test_too_little_text_is_refused():
    assert len(epoch(streams(7, 7, 11), 0)) == 1
    with pytest.raises(UserError, match=r"6 tokens are too few for 7 streams.*stream\.streams"):
        streams(6, 7, 11)


@pytest.mark.parametrize("places", [0, 1, 6, 7, 8, 50])
@pytest.mark.parametrize(("length", "overlap"), [(7, 0), (7, 3), (1, 0), (2, 1)])
def test_windows_count_each_place_once(places: int, length: int, overlap: int):
    found = list(windows(places, length, overlap))
    assert [n for _, new, end in found for n in range(new, end)] == list(range(places))
    assert all(end - first <= length for first, _, end in found)
    for (_, _, end), (first, new, _) in pairwise(found):
        assert (first, new) == (end - overlap, end)


def test_windows_by_hand():
    assert list(windows(10, 4, 2)) == [(0, 0, 4), (2, 4, 6), (4, 6, 8), (6, 8, 10)]


# Which line belongs to which part


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "one.txt").write_text("".join(f"{n:03}\n" for n in range(60)))
    (tmp_path / "two.txt").write_text("\nlast line\n")
    (tmp_path / "own.txt").write_text("own\n")
    return tmp_path


def texts(
    folder: Path,
    *train: str,
    validation: float = 0.0,
    test: float = 0.0,
    running: bool = True,
    own: str = "",
) -> Plan:
    """Of a language model whose test part may have a file of its own."""
    data = {"folder": str(folder), "train": [*(train or ("one.txt",))]}
    table = {
        "task": "language_model",
        "unit": "stream" if running else "line",
        "data": data | ({"test": [own]} if own else {}),
        "held_out": {"validation": validation, "test": test},
    }
    return language_model.plan(config.recipe(table).task)


def lines(found: Plan, part: files.Part) -> list[str]:
    return [example.values[0] for example in found.examples(part, Report())]


def test_the_end_of_the_text_is_held_out(folder: Path):
    found = texts(folder, validation=0.05, test=0.1)  # of 60 lines of 4 characters each
    parts = {part: lines(found, part) for part in files.PARTS}
    assert [len(parts[part]) for part in files.PARTS] == [51, 3, 6]
    assert parts["train"] + parts["validation"] + parts["test"] == lines(texts(folder), "train")


def test_a_part_has_its_own_files_or_a_share_or_nothing(folder: Path):
    found = texts(folder, test=0.1)
    assert [found.has(part) for part in files.PARTS] == [True, False, True]
    assert lines(found, "validation") == []
    named = texts(folder, own="own.txt")
    assert lines(named, "test") == ["own"]
    assert len(lines(named, "train")) == 60


def test_several_files_are_one_text_and_running_text_keeps_empty_lines(folder: Path):
    both = ("one.txt", "two.txt")
    running = list(texts(folder, *both).examples("train", Report()))
    assert [each.values[0] for each in running][-3:] == ["059", "", "last line"]
    path, number = running[-1].where()
    assert (path.name, number) == ("two.txt", 2)
    assert lines(texts(folder, *both, running=False), "train")[-2:] == ["059", "last line"]


def test_shares_that_leave_nothing_are_refused():
    with pytest.raises(RecipeError, match="nothing is left to learn from"):
        ByPlace(validation=0.5, test=0.5)


# Tokens


def test_spelling_costs_a_byte_per_byte_and_one_for_the_end():
    by = Tokenizer.train(tokenizers.Config(kind="bytes"), [])
    assert spelling(by, ["a", "b"], [7, 8]) == 0
    assert spelling(by, ["the", "übel", "b"], [7, UNKNOWN, 8]) == 8 * (5 + 1)
    assert spelling(by, ["a", "b"], [7, UNKNOWN]) == 8 * (1 + 1)
    assert spelling(by, ["€", "b"], [UNKNOWN, UNKNOWN]) == 8 * (3 + 1) + 8 * (1 + 1)


def test_the_decoder_reads_what_it_has_said():
    by = Tokenizer.train(tokenizers.Config(kind="bytes"), [])
    field = text.Field("target", tokenizers.Config(kind="bytes"), "ended", learnt=by)
    rows = [{"target": [5, 6, END]}, {"target": [END]}]
    batch = collate([field], rows, [3, 4])
    assert batch["target_in"].tolist() == [[START, 5, 6], [START, END, PAD]]
    assert batch["target_out"].tolist() == [[5, 6, END], [END, PAD, PAD]]
    assert batch["target_mask"].tolist() == [[True, True, True], [True, False, False]]
    assert (batch.ids, batch.targets, batch.continues) == ((3, 4), 4, False)
    running = collate([replace(field, running=True)], rows, [3, 4])
    assert running["target_in"].tolist() == [[END, 5, 6], [END, END, PAD]]
    assert running["target_out"].tolist() == batch["target_out"].tolist()
