"""Files of vectors: word2vec's text and binary form, GloVe's text, and hostile ones."""

import gzip
import struct
import tracemalloc

import numpy as np
import pytest

from regard.data import vector_files
from regard.errors import UserError

WORDS = ["the", "café", "日本"]
TABLE = np.array([[1, 2], [0.1, -1e-30], [3.4e38, 16777217]], np.float32)


def binary(newline: bytes) -> bytes:
    """By the documented layout: "words dim\\n", then word, blank, float32s."""
    rows = (
        word.encode() + b" " + struct.pack("<2f", *row) + newline
        for word, row in zip(WORDS, TABLE.tolist(), strict=True)
    )
    return b"3 2\n" + b"".join(rows)


def read(path, **options):
    found = [*vector_files.entries(path, **options)]
    return [word for word, _ in found], np.stack([vector for _, vector in found])


@pytest.mark.parametrize("newline", [b"\n", b""], ids=["word2vec", "gensim"])
def test_the_binary_form_is_read(tmp_path, newline):
    path = tmp_path / "vectors.bin"
    path.write_bytes(binary(newline))
    words, table = read(path)
    assert words == WORDS
    assert table.tobytes() == TABLE.tobytes()
    assert read(path, wanted={"café"})[0] == ["café"]


def test_the_binary_form_is_written_as_documented(tmp_path):
    vector_files.write(tmp_path / "v.bin", WORDS, TABLE, binary=True)
    assert (tmp_path / "v.bin").read_bytes() == binary(b"\n")


def test_the_text_form_comes_back_to_the_last_bit(tmp_path):
    vector_files.write(tmp_path / "v.txt", WORDS, TABLE, binary=False)
    assert (tmp_path / "v.txt").read_text().splitlines()[:2] == ["3 2", "the 1.0 2.0"]
    words, table = read(tmp_path / "v.txt")
    assert words == WORDS
    assert table.tobytes() == TABLE.tobytes()


def test_gzip_and_glove(tmp_path):
    with gzip.open(tmp_path / "v.bin.gz", "wb") as file:
        file.write(binary(b""))
    assert read(tmp_path / "v.bin.gz")[0] == WORDS
    (tmp_path / "glove.txt").write_text("the 1 2\n日本 3 4\n")
    assert read(tmp_path / "glove.txt")[1].tolist() == [[1, 2], [3, 4]]


def test_a_word_that_is_not_utf8_is_left_out_of_a_binary_file(tmp_path):
    path = tmp_path / "v.bin"
    path.write_bytes(b"2 1\nd\xffg " + struct.pack("<f", 1) + b"cat " + struct.pack("<f", 2))
    assert read(path)[0] == ["cat"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (binary(b"\n")[:-3], r"v.bin: word 3 of the 3 .* is cut off"),
        (binary(b"\n")[:5], r"word 1 of the 3 .* is cut off"),
        (binary(b"\n").replace(b"3 2", b"999999999999 2", 1), r"word 4 of the 999,999,999,999"),
        (binary(b"\n").replace(b"3 2", b"2 2", 1), r"goes on after the 2 words of its first line"),
        (b"3 99999999999\na " + bytes(64), r"vectors of dimension 99,999,999,999"),
        (b"3 0\na " + bytes(64), r"vectors of dimension 0"),
        (b"1 2\n" + b"x" * 20_000 + b"\xff", r"no blank after 16,384 bytes"),
        (b"1 1\na " + struct.pack("<f", np.nan), r"word 1 .*not finite: “a”"),
        (b"5 2\nthe 1 2\n", r"says 5 words, but it has 1"),
        (b"1 2\nthe 1 2\ndog 1 2\n", r"says 1 words, but it has 2"),
    ],
)
def test_hostile_files_are_refused_without_their_memory(tmp_path, content, said):
    path = tmp_path / "v.bin"
    path.write_bytes(content)
    tracemalloc.start()
    with pytest.raises(UserError, match=said):
        read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6


def test_nothing_is_left_of_a_file_that_could_not_be_written(tmp_path):
    with pytest.raises(ValueError):
        vector_files.write(tmp_path / "v.bin", [*WORDS, "more"], TABLE, binary=True)
    assert [*tmp_path.iterdir()] == []


def test_a_folder_that_is_no_run_is_named(tmp_path):
    with pytest.raises(UserError, match=r"no run of `regard word2vec`"):
        read(tmp_path)
