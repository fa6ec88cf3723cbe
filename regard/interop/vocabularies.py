"""The tokenizers of a folder of Hugging Face, and which of their tokens are special.

tokenizer.json is used as it is. A Marian model often has source.spm, target.spm and vocab.json in
its place, of which the same is made (sentencepiece.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer as Library

from regard.data import foreign
from regard.errors import UserError
from regard.interop import sentencepiece
from regard.interop.families import Settings, Table
from regard.interop.folders import Folder

SIDES = ("source", "target")


@dataclass(frozen=True)
class Cut:
    """How texts are cut."""

    section: Table
    """The recipe's section `tokenizer`."""
    texts: dict[str, str]
    """A tokenizer for each side, or one, called "", for all."""
    special: frozenset[str] = frozenset()
    """How its special tokens are spelt."""

    def of(self, side: str) -> str:
        return self.texts.get(side) or self.texts[""]


def read(folder: Folder, settings: Settings, usual: Mapping[str, str]) -> Cut:
    """The tokenizer of a folder, checked; `usual` are special tokens that a family has, where a
    folder does not say so."""
    rows = settings.number("vocab_size")
    said = dict(usual) | folder.table("special_tokens_map.json", needed=False)
    said |= folder.table("tokenizer_config.json", needed=False)
    marian = settings.table.get("model_type") == "marian"
    path = folder.path / "tokenizer.json"
    if marian and (folder.path / f"source.{path.name}").exists():  # of an export
        texts = {side: folder.text(f"{side}.{path.name}", foreign.LARGEST) for side in SIDES}
    elif path.exists():
        texts = {"": folder.text(path.name, foreign.LARGEST)}
    elif marian and (folder.path / "source.spm").exists():
        texts = _pieces(folder, said)
    else:
        raise UserError(
            f"{path}: there is no such file: have the transformers library write it, with "
            "AutoTokenizer.from_pretrained(…).save_pretrained(…)"
        )
    for name, text in texts.items():
        where = folder.path / name if name else path
        try:
            library, pieces = foreign.read(text)
        except ValueError as error:
            raise UserError(f"{where}: {error}") from None
    if len(pieces) > rows and not (marian and len(texts) > 1):
        raise UserError(
            f"{path} has {len(pieces):,} tokens, but vocab_size in config.json is {rows:,}"
        )
    chosen = folder.table("generation_config.json", needed=False)
    section = _special(library, pieces[:rows], said, dict(settings.table) | chosen, marian=marian)
    if not section.get("end"):
        raise UserError(
            f"{folder.path}: neither config.json nor tokenizer_config.json says which token ends a "
            "text (eos_token)"
        )
    added = library.get_added_tokens_decoder().values()
    marks = frozenset(token.content for token in added if token.special)
    return Cut({"kind": "huggingface", "vocabulary": rows, **section}, texts, marks)


def _special(
    library: Library, pieces: list[str], said: Table, numbers: Table, *, marian: bool
) -> dict[str, str]:
    """The spelling of each special token, by our names."""

    def named(key: str) -> str:
        value = said.get(key)
        value = value.get("content") if isinstance(value, dict) else value
        return value if isinstance(value, str) and library.token_to_id(value) is not None else ""

    def numbered(key: str) -> str:
        value: Any = numbers.get(key)
        value = value[0] if isinstance(value, list) and value else value
        fine = type(value) is int and 0 <= value < len(pieces)
        return pieces[value] if fine and library.token_to_id(pieces[value]) == value else ""

    start = "decoder_start_token_id" if marian else "bos_token_id"
    found = {
        "start": ("" if marian else named("cls_token")) or numbered(start) or named("bos_token"),
        "end": ("" if marian else named("sep_token"))
        or numbered("eos_token_id")
        or named("eos_token"),
        "pad": numbered("pad_token_id") or named("pad_token"),
        "unknown": named("unk_token"),
        "mask": named("mask_token"),
    }
    if found["unknown"] in (found["end"], found["start"]):
        found["unknown"] = ""  # GPT-2 names one, but has bytes for all
    return {name: piece for name, piece in found.items() if piece}


def _pieces(folder: Folder, said: Table) -> dict[str, str]:
    """What source.spm and target.spm say, with the numbers of vocab.json."""
    numbers = folder.table("vocab.json")
    if not all(type(number) is int for number in numbers.values()):
        raise UserError(f"{folder.path / 'vocab.json'} does not number its tokens")
    usual = {"end": "</s>", "unknown": "<unk>", "pad": "<pad>"}
    keys = {"end": "eos_token", "unknown": "unk_token", "pad": "pad_token"}
    special = {n: said[k] if isinstance(said.get(k), str) else usual[n] for n, k in keys.items()}
    said |= {keys[name]: piece for name, piece in special.items()}
    found = {}
    for side in SIDES:
        path = folder.path / f"{side}.spm"
        data = folder.data(path.name, sentencepiece.LARGEST)
        try:
            model = sentencepiece.read(data)
            there = {name: piece for name, piece in special.items() if piece in numbers}
            found[side] = sentencepiece.tokenizer(model, numbers, there)
        except (UserError, KeyError) as error:
            raise UserError(f"{path}: {error}") from None
    return found
