"""Tokenizers of others: what is read of them, and what is refused."""

import json
from typing import Any

import pytest
from tokenizers import Tokenizer as Library, decoders, models, pre_tokenizers, processors

from regard.data.foreign import check, check_pattern
from regard.data.tokenizers import Config, Tokenizer
from regard.errors import RecipeError, UserError

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)
WORDS = {"[PAD]": 0, "cat": 1, "[UNK]": 2, "dog": 3, "[CLS]": 4, "[SEP]": 5, "[MASK]": 6, "##s": 7}
SPECIAL = {"pad": "[PAD]", "start": "[CLS]", "end": "[SEP]", "unknown": "[UNK]", "mask": "[MASK]"}


def pieces(*, framed: bool = True) -> str:
    """WordPiece, whose special tokens have any numbers."""
    made = Library(models.WordPiece(WORDS, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.decoder = decoders.WordPiece()
    made.add_special_tokens([name for name in WORDS if name.startswith("[")])
    if framed:
        made.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 4), ("[SEP]", 5)]
        )
    made.enable_truncation(3)
    made.enable_padding(length=9)
    return made.to_str()


def config(**changes: Any) -> Config:
    return Config(**{"kind": "huggingface", "vocabulary": 10, **SPECIAL, **changes})


def test_special_tokens_have_numbers_of_their_own() -> None:
    by = Tokenizer(pieces(), config())
    assert (by.pad, by.start, by.end, by.unknown) == (0, 4, 5, 2)
    assert by.named["mask"] == 6 and by.special == {0, 2, 4, 5, 6}
    assert len(by) == 10 and by.pieces([1, 7, 5, 9]) == ["cat", "##s", "[SEP]", "<9>"]
    assert by.unwritten == () and by.opens and by.imported
    assert (Tokenizer.pad, Tokenizer.start, Tokenizer.end, Tokenizer.unknown) == (0, 1, 2, 3)


def test_texts_are_neither_cut_nor_filled_up() -> None:
    by = Tokenizer(pieces(), config())
    assert by.encode(["cats dog bird [MASK]", "", "dog dog dog dog dog"]) == [
        [1, 7, 3, 2, 6], [], [3] * 5,
    ]  # fmt: skip
    assert by.decode([4, 1, 7, 3, 5, 0]) == "cats dog"
    assert by.words("cats bird") == ["cat", "s", "bird"]


def test_what_is_not_named_another_token_stands_for() -> None:
    bare = config(pad="", start="", unknown="", mask="")
    by = Tokenizer(pieces(framed=False), bare)
    assert (by.pad, by.start, by.end, by.unknown) == (5, 5, 5, -1)
    assert not by.opens
    marian = Tokenizer(pieces(), config(start="[PAD]"))
    assert marian.unwritten == (0,), "what pads and starts is never written"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"end": "</s>"}, r"tokenizer\.end: it has no token '</s>'"),
        ({"vocabulary": 7, "unknown": ""}, r"it has 8 tokens, but tokenizer\.vocabulary = 7"),
    ],
)
def test_a_recipe_that_does_not_fit_is_refused(changes: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Tokenizer(pieces(), config(**changes))


def test_keys_of_imported_tokenizers_are_for_these_alone() -> None:
    with pytest.raises(RecipeError, match="end: an imported tokenizer needs"):
        Config(kind="huggingface")
    with pytest.raises(RecipeError, match="mask: it is for kind = 'huggingface', not 'bpe'"):
        Config(mask="[MASK]")
    with pytest.raises(RecipeError, match=r"tokenizer\.kind: 'huggingface' is that of an imported"):
        Tokenizer.train(config(), ["cat"])


@pytest.mark.parametrize("pattern", [GPT2, LLAMA3, " {2,}", r"\d{1,3}", r"[^\(\)]+|\(|\)+"])
def test_patterns_that_are_in_use_are_fine(pattern: str) -> None:
    check_pattern(pattern, "here")


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+b",
        "(a|aa)*b",
        "(?:a{1,5}){50}b",
        r"(a)\1",
        "(?<=a+)b",
        "a*a*a*b",
        "a{1000}",
        "a?" * 30 + "b",
        "a{0,9}" * 3 + "b",
        "(a|a)" * 20 + "b",
        "a*(?:|)a*(?:|)a*b",
        "a" * 501,
    ],
)
def test_patterns_that_can_take_for_ever_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"here: the pattern .* can take for ever"):
        check_pattern(pattern, "here")


def replaced(pattern: str, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": pattern}, "content": content}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"normalizer": replaced("", "a")}, "an empty one stands everywhere"),
        ({"normalizer": replaced("a", "b" * 100)}, "texts 100 times as long"),
        ({"normalizer": {"type": "Prepend", "prepend": "a" * 17}}, "more than 16 characters"),
        ({"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}] * 17}}, "17 parts"),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "*"}}, "not base64"),
        ({"pre_tokenizer": {"type": "Python"}}, "'Python' is not one of"),
        ({"decoder": []}, "decoder is no object"),
        ({"model": {"type": "BPE", "dropout": 0.1}}, "cuts at random"),
        ({"model": {"type": "WordPiece", "max_input_chars_per_word": 10**6}}, "from 1 to 10000"),
        ({"model": {"type": "WordPiece", "continuing_subword_prefix": "#" * 99}}, "more than 16"),
        ({"model": {"type": "Lisp"}}, "'Lisp' is not one of"),
    ],
)
def test_parts_that_could_be_made_to_explode_are_refused(changes: Any, message: str) -> None:
    tree = json.loads(pieces())
    check(tree)
    with pytest.raises(ValueError, match=message):
        check(tree | changes)
