"""Pretrained vectors: those of the vocabulary arrive, all others are told."""

import pytest
import torch

from regard.data import vectors
from regard.data.tokenizers import Config, Tokenizer
from regard.errors import UserError
from regard.recipe import config

GLOVE = "the 1 2 3\ndog 4 5 6\n. . 7 8 9\nparis 0.5 0.5 0.5\n"


@pytest.fixture
def tokenizer() -> Tokenizer:
    return Tokenizer.train(Config(kind="word"), ["the the the dog dog Paris zebra"])


def put(path, tokenizer, dim=3, factor=1.0):
    weight = torch.zeros(len(tokenizer), dim)
    text = vectors.put(weight, factor, path, tokenizer)
    return weight, text


@pytest.mark.parametrize("header", ["", "4 3\n"])
def test_words_get_their_vectors(tmp_path, tokenizer, header):
    path = tmp_path / "vectors.txt"
    path.write_text(header + GLOVE)
    weight, text = put(path, tokenizer)
    names = tokenizer.pieces(range(len(tokenizer)))
    rows = {name: weight[n].tolist() for n, name in enumerate(names)}
    assert rows["the"] == [1, 2, 3]
    assert rows["dog"] == [4, 5, 6]
    assert rows["Paris"] == [0.5, 0.5, 0.5]  # by its lower case
    assert rows["zebra"] != [0, 0, 0]  # drawn
    assert text.endswith("3 of 4 words have a vector; 1 are drawn at random: zebra")


def test_a_scaled_embedding_gives_the_vectors_of_the_file(tmp_path, tokenizer):
    path = tmp_path / "vectors.txt"
    path.write_text(GLOVE)
    weight, _ = put(path, tokenizer, factor=4.0)
    assert (4 * weight[4]).tolist() == [1, 2, 3]


def test_vectors_that_are_scaled_have_a_deviation_of_one_and_the_same_directions(
    tmp_path, tokenizer
):
    path = tmp_path / "vectors.txt"
    path.write_text(GLOVE)
    weight = torch.zeros(len(tokenizer), 3)
    vectors.put(weight, 4.0, path, tokenizer, scaled=True)
    read = 4 * weight[[4, 5, 6]]  # the, dog, Paris
    torch.testing.assert_close(read.std(correction=0), torch.tensor(1.0))
    raw = torch.tensor([[1.0, 2, 3], [4, 5, 6], [0.5, 0.5, 0.5]])
    torch.testing.assert_close(read, raw / raw.std(correction=0))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("2 5\nthe 1 2 3 4 5\ndog 1 2 3 4 5\n", r"its vectors have dimension 5.*model.dim = 5"),
        ("the 1 2 3 4\n", r"have dimension 4, those of model.input 3.*input.size = 4"),
        ("the 1 2\n", r"have dimension 2"),
        ("the 1 2 3\ndog 1 2\n", r"v.txt:2: not a word and 3 numbers: “dog 1 2”"),
        ("the 1 2 x\n", r"v.txt:1: not a word and 3 numbers"),
        ("the 1 2 nan\n", r"v.txt:1: a number that is not finite"),
        ("cat 1 2 3\n", r"not one of the 4 words of the vocabulary is in it"),
        (b"the 1 2 3\nd\xffg 1 2 3\n", r"v.txt:2: not UTF-8"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, tokenizer, content, said):
    path = tmp_path / "v.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=said):
        put(path, tokenizer)


def test_the_path_is_relative_to_the_recipe_or_to_the_working_folder(tmp_path, monkeypatch):
    recipe = tmp_path / "recipes" / "x.toml"
    recipe.parent.mkdir()
    recipe.write_text(
        'task = "classify"\n[data]\ntrain = ["x.tsv"]\n[model]\ndim = 16\n'
        '[model.input]\nvectors = "v.txt"\n[model.encoder]\nkind = "bag"\n'
    )
    assert config.load(recipe).model.input.config.vectors == str(recipe.parent / "v.txt")
    monkeypatch.chdir(tmp_path)
    changed = config.load(recipe, ["model.input.vectors=w.txt"])
    assert changed.model.input.config.vectors == str(tmp_path / "w.txt")


def test_a_missing_file_is_named(tmp_path, tokenizer):
    with pytest.raises(UserError, match=r"glove.txt: no such file"):
        put(tmp_path / "glove.txt", tokenizer)


def test_a_copy_of_what_is_wanted_gives_the_same(tmp_path, tokenizer):
    """Numbers to the last bit, words with blanks, the case that stands in for another."""
    path, kept = tmp_path / "vectors.txt", tmp_path / "kept.txt"
    path.write_text("4 3\n. . 7 8 9\nthe 0.1 -1e-30 3.14159274\nparis 1 2 16777217\ncat 0 0 0\n")
    vectors.keep(path, tokenizer, 3, kept)
    assert [line.split()[0] for line in kept.read_text().splitlines()] == ["the", "paris"]
    torch.manual_seed(1)
    one, told = put(path, tokenizer)
    torch.manual_seed(1)
    other, again = put(kept, tokenizer)
    assert torch.equal(one, other)
    assert again == told.replace(str(path), str(kept))
