"""The tokenizer of a Marian model: sentencepiece's file becomes one of the `tokenizers` library.

source.spm and target.spm are Protocol Buffers (sentencepiece_model.proto), of which a few fields
are read here; vocab.json numbers the tokens of both sides. What is no token of a side stands in its
list with a blank before it, which no text has; an unknown text that is such a token becomes it.

    1  pieces      1 piece, 2 score (float), 3 type (1: of texts; others: special)
    2  trainer     3 kind (1: a unigram model)
    3  normalizer  2 a table of characters, 3 a blank before a text, 4 without further blanks
"""

import base64
import json
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from regard.data.foreign import LONGEST, OTHERS
from regard.errors import UserError

LARGEST = 1 << 22
"""Bytes of a file."""
MOST = 1 << 17
"""Pieces."""
UNIGRAM, OF_TEXTS = 1, 1
VARINT, EIGHT, LENGTH, FOUR = 0, 1, 2, 5
"""How a field's value is written."""
BLANK = "▁"


class Model(NamedTuple):
    """What is read of a file."""

    pieces: dict[str, float]
    """Those of texts, with their scores."""
    characters: bytes
    """How texts are normalised."""
    prefix: bool
    squeezed: bool


def read(data: bytes) -> Model:
    """A model of sentencepiece; UserError if it is none, or no unigram model."""
    if len(data) > LARGEST:
        raise UserError(f"it is larger than {LARGEST:,} bytes")
    pieces: dict[str, float] = {}
    trainer: dict[int, Any] = {}
    normalizer: dict[int, Any] = {}
    try:
        for number, value in _fields(data):
            if number == 1:
                entry = dict(_fields(value))
                if entry.get(3, OF_TEXTS) == OF_TEXTS:
                    pieces[entry[1].decode()] = float(entry.get(2, 0.0))
            elif number == 2:
                trainer = dict(_fields(value))
            elif number == 3:
                normalizer = dict(_fields(value))
            if len(pieces) > MOST:
                raise UserError(f"it has more than {MOST:,} pieces")
    except (KeyError, ValueError, AttributeError, TypeError, IndexError, struct.error):
        raise UserError("it is no model of sentencepiece") from None
    if trainer.get(3, UNIGRAM) != UNIGRAM:
        raise UserError("it is no unigram model, which alone is read")
    if not pieces:
        raise UserError("it is no model of sentencepiece: it has no pieces")
    characters = normalizer.get(2, b"")
    return Model(pieces, characters, bool(normalizer.get(3, 1)), bool(normalizer.get(4, 1)))


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message, with their values as they are written."""
    place = 0
    while place < len(data):
        key, place = _number(data, place)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value: Any
            value, place = _number(data, place)
        elif kind == LENGTH:
            size, place = _number(data, place)
            value, place = data[place : place + size], place + size
            if len(value) < size:
                raise ValueError
        elif kind == FOUR:
            (value,) = struct.unpack_from("<f", data, place)
            place += 4
        elif kind == EIGHT:
            (value,) = struct.unpack_from("<d", data, place)
            place += 8
        else:
            raise ValueError
        yield number, value


def _number(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 64:
        byte = data[place]
        value, shift, place = value | (byte & 127) << shift, shift + 7, place + 1
        if byte < 128:
            return value, place
    raise ValueError


def tokenizer(model: Model, numbers: dict[str, int], special: dict[str, str]) -> str:
    """The same as JSON of the `tokenizers` library; tokens are numbered as in vocab.json, pieces
    that it lacks come after those: they are read as unknown."""
    if not {"unknown", "end"} <= special.keys():
        raise UserError("vocab.json numbers no token that is unknown, or none that ends a text")
    unknown = special["unknown"]
    order = sorted(numbers, key=numbers.__getitem__)
    if [numbers[piece] for piece in order] != list(range(len(order))):
        raise UserError("vocab.json does not number its tokens 0, 1, 2, …")
    own = {*model.pieces, *special.values()}
    spelt = [piece if piece in own or _is_code(piece) else f" {piece}" for piece in order]
    listed: list[list[Any]] = [[piece, model.pieces.get(piece.strip(" "), 0.0)] for piece in spelt]
    listed += [[piece, score] for piece, score in model.pieces.items() if piece not in numbers]
    space = {"type": "Metaspace", "replacement": BLANK, "prepend_scheme": "never", "split": False}
    plain = {"type": "Replace", "pattern": {"String": " "}, "content": ""}
    joins = space | {"prepend_scheme": "always" if model.prefix else "never"}
    marks = [*special.values(), *filter(_is_code, order)]
    added = [
        {
            "id": numbers[piece], "content": piece, "single_word": False, "lstrip": False,
            "rstrip": False, "normalized": False, "special": piece in special.values(),
        }
        for piece in dict.fromkeys(marks)
    ]  # fmt: skip
    tree = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": _normalizer(model),
        "pre_tokenizer": space,
        "post_processor": _ended(special["end"], numbers[special["end"]]),
        "decoder": {"type": "Sequence", "decoders": [plain, joins]},
        "model": {
            "type": "Unigram",
            "unk_id": numbers[unknown],
            "vocab": listed,
            "byte_fallback": False,
            OTHERS: True,
        },
    }
    return json.dumps(tree, ensure_ascii=False)


def _normalizer(model: Model) -> dict[str, Any]:
    """Characters by their table, a blank before a text, no others around it, none in a row."""
    normal: list[dict[str, Any]] = []
    if model.characters:
        table = base64.b64encode(model.characters).decode()
        normal.append({"type": "Precompiled", "precompiled_charsmap": table, LONGEST: True})
    first = BLANK if model.prefix else ""
    if model.prefix:
        normal.append({"type": "Prepend", "prepend": BLANK})
    if model.squeezed:
        normal.append(_replaced(" {2,}", " "))
        normal += [_replaced(rf"\A{first} ", first), _replaced(rf"[ {BLANK}]+\z", "")]
    return {"type": "Sequence", "normalizers": normal}


def _ended(end: str, number: int) -> dict[str, Any]:
    """The end token behind a text, or behind two."""
    one, other = ({"Sequence": {"id": side, "type_id": 0}} for side in "AB")
    mark = {"SpecialToken": {"id": end, "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [one, mark],
        "pair": [one, other, mark],
        "special_tokens": {end: {"id": end, "ids": [number], "tokens": [end]}},
    }


def for_both(text: str, rows: int) -> str:
    """The tokenizer of a source, which also decodes what the other side writes, for a model of so
    many tokens; nothing if it is not of this kind."""
    tree = json.loads(text)
    if not tree["model"].get(OTHERS):
        return ""
    tree["model"]["vocab"] = tree["model"]["vocab"][:rows]
    return json.dumps(tree, ensure_ascii=False)


def _replaced(pattern: str, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def _is_code(piece: str) -> bool:
    """Whether it is the code of a language, which is found before a text is cut."""
    return piece.startswith(">>") and piece.endswith("<<")
