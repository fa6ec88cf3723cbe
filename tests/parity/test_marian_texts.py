"""From text to text, a Marian model with files of sentencepiece and its run say the same."""

import io
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers")
sentencepiece = pytest.importorskip("sentencepiece")

from regard.data.character_table import CharacterTable  # noqa: E402 (as above)
from regard.interop import importing  # noqa: E402
from regard.interop.sentencepiece import read  # noqa: E402
from regard.interop.shipping import ship  # noqa: E402
from regard.recipe.parts import Part, module  # noqa: E402
from regard.runs import Run  # noqa: E402
from tests.parity.huggingface_models import TEXT, drawn, strange  # noqa: E402

TEXTS = {
    "source": [*TEXT, "don't 123 A B C ß İ"] * 3,
    "target": ["der schnelle braune Fuchs springt über den faulen Hund", "größer, 東京!"] * 9,
}
LIMIT = 61
PROMPTS = ["the quick brown fox", "größer 東京", ">>de<< again and again!", "Straße 123"]


class Made(NamedTuple):
    model: Any
    tokenizer: Any
    run: Run
    out: Path
    """The run's export."""


def train(side: str, file: Path) -> list[str]:
    """A unigram model as Marian's are made; gives its pieces."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS[side]), model_writer=written, vocab_size=70, eos_id=0,
        unk_id=1, bos_id=-1, pad_id=-1, hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    file.write_bytes(written.getvalue())
    by = sentencepiece.SentencePieceProcessor(model_file=str(file))
    return [by.id_to_piece(number) for number in range(by.get_piece_size())]


def saved(folder: Path) -> tuple[Any, Any]:
    """A model and its tokenizer; a few pieces have no number, as in some of those on the hub."""
    folder.mkdir()
    pieces = [piece for side in TEXTS for piece in train(side, folder / f"{side}.spm")]
    names = [*[*dict.fromkeys(pieces)][:-3], ">>de<<", "<pad>"]
    pad = len(names) - 1
    (folder / "vocab.json").write_text(json.dumps({name: n for n, name in enumerate(names)}))
    files = [str(folder / name) for name in ("source.spm", "target.spm", "vocab.json")]
    config = transformers.MarianConfig(
        vocab_size=len(names), d_model=36, encoder_layers=2, decoder_layers=2, decoder_ffn_dim=23,
        encoder_attention_heads=6, decoder_attention_heads=6, encoder_ffn_dim=47, num_beams=4,
        max_position_embeddings=LIMIT, pad_token_id=pad, eos_token_id=0, bad_words_ids=[[pad]],
        decoder_start_token_id=pad, forced_eos_token_id=None, scale_embedding=True,
        tie_word_embeddings=False,
    )  # fmt: skip
    model = drawn(transformers.MarianMTModel(config), 0.2)
    with torch.no_grad():
        # After token n it mostly says n + 5; tied, it would repeat itself.
        model.lm_head.weight.copy_(model.model.decoder.embed_tokens.weight.roll(5, 0))
    model.save_pretrained(folder)
    model = transformers.MarianMTModel.from_pretrained(folder).eval()  # with its sinusoids
    return model, transformers.MarianTokenizer(*files)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    base = tmp_path_factory.mktemp("marian")
    torch.manual_seed(5)
    model, tokenizer = saved(base / "theirs")
    run = importing.run(base / "theirs", base / "run")
    ship(run, base / "out", "huggingface")
    return Made(model, tokenizer, run, base / "out")


@pytest.mark.parametrize("side", [*TEXTS])
def test_the_tokenizers_agree(made: Made, side: str) -> None:
    key = {"source": "text", "target": "text_target"}[side]
    by, texts = made.run.task.fields[side].tokenizer, [*strange(1000), ">>de<< a", "a</s>b <unk>"]
    for text, row in zip(texts, by.encode(texts), strict=True):
        theirs = made.tokenizer(**{key: text}, add_special_tokens=False)["input_ids"]
        assert row == theirs, ascii(text[:80])


def test_characters_are_normalised_as_sentencepiece_does(made: Made) -> None:
    model = read((made.out.parent / "theirs" / "source.spm").read_bytes())
    table = CharacterTable(model.characters)
    by = sentencepiece.SentencePieceNormalizer(
        model_file=str(made.out.parent / "theirs" / "source.spm"), escape_whitespaces=False,
        remove_extra_whitespaces=False, add_dummy_prefix=False,
    )  # fmt: skip
    for text in [*strange(300), "½ … ﬁ\u0308 e\u0301\u0302", "plain"]:
        if len(text) < 1000:
            assert table.text(text) == by.normalize(text), ascii(text)


def test_what_stands_where_is_known_behind_a_changed_character(made: Made) -> None:
    by = made.run.task.fields["source"].tokenizer
    assert "".join(by.words("½ … the fox")).replace(" ", "").endswith("thefox")


@pytest.mark.parametrize("beams", [1, 4])
def test_texts_are_translated_alike(made: Made, beams: int) -> None:
    """By the run, by the model that it is made of, and by its export with AutoTokenizer."""
    kind, options = ("greedy", {}) if beams == 1 else ("beam", {"beams": beams})
    search = Part(kind, module("search", kind).Config(**options))
    found = made.run.task.predict(made.run.model(), PROMPTS, search, length=9)
    again = transformers.MarianMTModel.from_pretrained(made.out).eval()
    cut = transformers.AutoTokenizer.from_pretrained(made.out)
    rows = []
    for text, best in zip(PROMPTS, found, strict=True):
        given = made.tokenizer(text, return_tensors="pt")
        theirs = made.model.generate(
            **given, max_new_tokens=9, num_beams=beams, early_stopping=beams > 1
        )
        read = cut(text, return_tensors="pt", return_token_type_ids=False)
        assert read["input_ids"].tolist() == given["input_ids"].tolist()
        row = again.generate(**read, max_new_tokens=9, **({"num_beams": 1} if beams == 1 else {}))
        assert row.tolist() == theirs.tolist(), "what generate needs is in generation_config.json"
        rows.append(row[0].tolist())
        assert best.text == made.tokenizer.decode(rows[-1], skip_special_tokens=True)
        assert best.text == cut.decode(rows[-1], skip_special_tokens=True)
    assert len({*map(tuple, rows)}) == len(PROMPTS) and len({n for row in rows for n in row}) > 5


def test_an_export_says_how_a_run_writes(made: Made) -> None:
    table = json.loads((made.out / "generation_config.json").read_text())
    pad = made.model.config.pad_token_id
    assert table == {
        "decoder_start_token_id": pad, "eos_token_id": 0, "pad_token_id": pad,
        "bad_words_ids": [[pad]], "num_beams": 4, "length_penalty": 1.0, "early_stopping": True,
        "max_length": LIMIT,
    }  # fmt: skip


def test_an_export_comes_in_again_as_it_was(made: Made) -> None:
    again, first = importing.read(made.out), made.run.task.fields
    texts = strange(100)
    assert again.recipe.task.tokenizer == made.run.recipe.task.tokenizer
    for side, field in first.items():
        assert again.tokenizers[f"{side}.tokenizer.json"] == field.tokenizer.json
    cut = transformers.AutoTokenizer.from_pretrained(made.out)
    known = [text for text in texts if text.isascii()]
    for text, row in zip(known, first["source"].tokenizer.encode(known), strict=True):
        assert cut(text)["input_ids"] == [*row, 0]
