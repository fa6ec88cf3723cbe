"""Text becomes tokens and back. Made by the `tokenizers` library, trained once, stored, hashed.

    bpe, unigram   pieces of words over bytes: any text is covered and comes back unchanged
    word           what stands between whitespace, or words and punctuation marks by themselves;
                   what was not seen becomes the unknown token
    character      Unicode characters; what was not seen becomes the unknown token
    bytes          UTF-8 bytes: 256 tokens, no training, any text comes back unchanged

Special tokens have numbers but no spelling that text could match: their names hold a blank,
which no token of any kind does, so the text "<end>" is just five characters.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import cache, cached_property, lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer as Library, models

from regard.data import chunks, foreign, whole_file
from regard.data.tokenizer_training import (
    APART,
    BYTE_OF,
    SPECIAL,
    UNKNOWN,
    Config as Config,
    around,
    pieces as cut_pieces,
    specials,
    train,
)
from regard.errors import UserError
from regard.recipe import checked
from regard.recipe.checked import Table


class Tokenizer:
    """Tokens of one vocabulary."""

    pad, start, end, unknown = range(4)
    """Tokens that stand for no text: what fills up, begins and ends one, and what is not known.
    Those of an imported tokenizer have numbers of their own; −1: it has none."""
    imported = False
    """Whether it is somebody else's."""
    _rows = 0
    opens = True
    """Whether START stands before a prompt."""

    def __init__(self, text: str, config: Config | None = None) -> None:
        """From the JSON of the `tokenizers` library, as `save` writes it; with `config`, as that
        makes it. Nothing else is given to the library: its parts can be made to explode."""
        self.json = text
        if config is not None and config.kind == "huggingface":
            self._import(text, config)
            return
        try:
            config, pieces = _checked(checked.parse(text), config)
            self._library = Library.from_str(text)
        except Exception as error:  # the library raises bare Exceptions
            raise UserError(f"not a tokenizer: {error}") from None
        self._library.no_truncation()
        own = specials(pieces)
        self._pieces = dict(enumerate(pieces)) | {n: name.strip() for n, name in enumerate(own)}
        self._between = " " if config.kind == "word" else ""
        self._over_bytes = config.kind in ("bpe", "unigram", "bytes")
        self.special = frozenset(range(len(own)))
        """Tokens that stand for no text."""
        self.named = {piece[2:-1]: number for number, piece in enumerate(own)}
        """The same by name: pad, start, end, unknown, and others that were asked for, as mask."""
        self.unwritten = tuple(sorted(self.special - {self.end}))
        """Those of them that no output has."""
        self.read = range(self.unknown, len(self._pieces))
        """Tokens that texts become."""
        # The first word of a text is spelt like any other, with a blank before it.
        self._prefix = " " if config.kind in ("bpe", "unigram") else ""
        cut = chunks.cut_of(config.kind, config.split)
        self._encoded = chunks.Encoder(cut, self._numbers, len(self))
        self._cut_once = lru_cache(chunks.MOST)(partial(cut_pieces, self._library))

    def _import(self, text: str, config: Config) -> None:
        """Somebody else's, with the special tokens that the recipe names."""
        try:
            self._library, pieces = foreign.read(text)
        except ValueError as error:
            raise UserError(f"not a tokenizer that can be used: {error}") from None
        if len(pieces) > config.vocabulary and not config.unknown:
            raise UserError(
                f"it has {len(pieces):,} tokens, but tokenizer.vocabulary = {config.vocabulary:,}"
            )
        found = foreign.special(self._library, config)
        self.pad, self.start, self.end = found.pad, found.start, found.end
        self.unknown = found.unknown
        self.special, self.named = found.others, dict(found.named)
        self._pieces = dict(enumerate(pieces[: config.vocabulary]))
        self._rows = config.vocabulary
        self._others = foreign.others(text)
        self._between, self._prefix, self._over_bytes = "", "", True
        # As the library that it comes from, it may write any token but one that pads and starts.
        self.unwritten = (found.pad,) if found.pad == found.start != found.end else ()
        self.read = range(config.vocabulary)
        self.opens = foreign.opens(self._library, self.start)
        self.imported = True
        self._encoded = chunks.Encoder(None, self._numbers, len(self))

    @classmethod
    def train(
        cls, config: Config, lines: Iterable[str], special: Sequence[str] = ()
    ) -> "Tokenizer":
        """A tokenizer for the text in `lines`, which is read once; `special` are names of tokens
        that stand for no text, beside those that every tokenizer has."""
        return cls(train(config, lines, special))

    @classmethod
    def load(cls, path: Path, config: Config | None = None) -> "Tokenizer":
        """A saved one; with `config`, it must be of that kind."""
        try:
            return cls(path.read_text(encoding="utf-8"), config)
        except (OSError, UnicodeDecodeError, UserError) as error:
            raise UserError(f"{path}: {error}") from None

    def save(self, path: Path) -> None:
        whole_file.write(path, self.json)

    @property
    def hash(self) -> str:
        return hashlib.sha256(self.json.encode()).hexdigest()

    def shares(self, other: "Tokenizer") -> bool:
        """Whether both have the same tokens, also where they cut texts in ways of their own."""
        if self.hash == other.hash or not (self.imported and other.imported):
            return self.hash == other.hash
        pairs = zip(self._pieces.values(), other._pieces.values(), strict=False)
        return len(self) == len(other) and all(a.strip(" ") == b.strip(" ") for a, b in pairs)

    def __len__(self) -> int:
        return self._rows or len(self._pieces)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Tokens of each line, without start and end."""
        flat, lengths = self.encode_flat(lines)
        symbols, ends = flat.tolist(), np.cumsum(lengths).tolist()
        return [symbols[first:end] for first, end in pairwise([0, *ends])]

    def encode_flat(self, lines: Sequence[str]) -> tuple[NDArray[np.integer], NDArray[np.int64]]:
        """The same as one array, and how many tokens each line has: much the quickest for many."""
        rows, kind = self._encoded(lines), self._encoded.kind
        lengths = np.fromiter(map(len, rows), np.int64, len(rows)) // kind.itemsize
        return np.frombuffer(b"".join(rows), kind), lengths

    def encode_plain(self, lines: Sequence[str]) -> list[list[int]]:
        """The same where nothing is meant as a special token: also by an imported tokenizer, the
        spelling of one is cut like any other text."""
        if not self.imported:
            return self.encode(lines)
        return self._foreign(self._plain, lines)

    @cached_property
    def _plain(self) -> Library:
        library, _ = foreign.read(self.json)
        library.encode_special_tokens = True
        return library

    @property
    def spaced(self) -> bool:
        """Whether a token takes the blank before a word."""
        return bool(self._prefix)

    def encode_on(self, text: str) -> list[int]:
        """Tokens of a text that goes on after another token: its first word is spelt with a blank
        only where there is one."""
        return self._numbers([text])[0]

    def _numbers(self, texts: Sequence[str]) -> list[list[int]]:
        if self.imported:
            return self._foreign(self._library, texts)
        found = self._library.encode_batch_fast(texts, add_special_tokens=False)
        return [encoding.ids for encoding in found]

    def _foreign(self, library: Library, texts: Sequence[str]) -> list[list[int]]:
        """Those of an imported tokenizer, which may have pieces that the model has no row for."""
        rows = foreign.encode(library, texts, unknown=self.unknown, others=self._others)
        return [[n if n < len(self) else self.unknown for n in row] for row in rows]

    def words(self, line: str) -> list[str]:
        """The line as it is cut before tokens are looked up: for whole words, the words; of an
        imported tokenizer, what each token stands for."""
        if self.imported:
            found = self._library.encode(line, add_special_tokens=False).offsets
            return [line[first:end] for first, end in found]
        if self._between:  # whole words: no word crosses a blank, and most chunks are seen again
            return [word for chunk in line.split(" ") for word in self._cut(chunk)]
        return cut_pieces(self._library, self._prefix + line if line else "")

    def _cut(self, chunk: str) -> list[str]:
        """The words between two blanks."""
        few = len(chunk) <= chunks.LONGEST
        return self._cut_once(chunk) if few else cut_pieces(self._library, chunk)

    def decode(self, symbols: Sequence[int]) -> str:
        """The text of `symbols`; special ones but the unknown are left out."""
        said = [s for s in symbols if s == self.unknown or s not in self.special]
        if not self._over_bytes:
            return self._between.join(self._pieces[s] for s in said)
        return self._library.decode(said, skip_special_tokens=False).removeprefix(self._prefix)

    def spelling_of(self, symbol: int) -> str:
        """A token as the library spells it."""
        return str(self._library.id_to_token(symbol))

    def pieces(self, symbols: Sequence[int]) -> list[str]:
        """Each token as a person reads it: ▁ for a blank, <E2> for a byte of a character."""
        return [self._piece(symbol) for symbol in symbols]

    def groups(self, symbols: Sequence[int]) -> list[tuple[int, int]]:
        """The words that tokens spell, from, up to: each begins after a blank, or is special."""
        starts: list[int] = []
        before, alone = "", self.special - {self.unknown}
        for place, symbol in enumerate(symbols):
            text = self.decode(symbols[: place + 1])
            special = symbol in alone or (place > 0 and symbols[place - 1] in alone)
            if place == 0 or special or text[len(before) :][:1].isspace():
                starts.append(place)
            before = text
        return list(zip(starts, [*starts[1:], len(symbols)], strict=True))

    def _piece(self, symbol: int) -> str:
        piece = self._pieces.get(symbol) or f"<{symbol}>"  # a row that no token has
        if symbol in self.special:
            return piece
        if self.imported and not BYTE_OF.keys() >= {*piece}:
            return piece
        if not self._over_bytes:
            return piece.replace(" ", "▁")
        return _readable(piece)


@lru_cache(maxsize=2**16)
def _readable(piece: str) -> str:
    """What a piece over bytes says; most of any output is made of the same few."""
    data = bytes(BYTE_OF[glyph] for glyph in piece)
    try:
        return data.decode().replace(" ", "▁")
    except UnicodeDecodeError:
        return "".join(chr(b) if 32 < b < 127 else f"<{b:02X}>" for b in data)


# What was saved


def _checked(tree: Table, config: Config | None) -> tuple[Config, list[str]]:
    """How a saved tokenizer cuts, and its pieces, by number, if it is such as training makes;
    ValueError otherwise: there is a closed list of all that may stand around a vocabulary."""
    model = checked.table(tree.get("model"), "model")
    bare = tree | {"model": {k: v for k, v in model.items() if k not in ("vocab", "merges")}}
    which = _every() if config is None else [config]
    found = next((each for each in which if _agrees(bare, json.loads(_form(each)))), None)
    if found is None:
        raise ValueError("its parts are not those that the recipe's [tokenizer] makes")
    kind = found.kind
    pieces = _unigrams(model) if kind == "unigram" else _numbered(model)
    own, text = pieces[len(specials(pieces)) :], "".join(pieces)
    text.encode()  # half a surrogate pair is a ValueError
    single = {piece for piece in own if len(piece) == 1}
    fine = pieces[: len(SPECIAL)] == SPECIAL and len({*pieces}) == len(pieces) and "" not in own
    match kind:
        case "bpe" | "unigram" | "bytes":
            fine = fine and single == BYTE_OF.keys() >= {*"".join(own)}
        case "character":
            fine = fine and len(single) == len(own)
        case "word":
            fine = fine and {*" \t\n\r\v\f"}.isdisjoint("".join(own))
    if not fine:
        raise ValueError(f"its vocabulary is not one of kind {kind!r}")
    if kind in ("bpe", "bytes") and _merged(model) != {*own} - single:
        raise ValueError("its merges are not those of its vocabulary")
    return found, pieces


def _numbered(model: Table) -> list[str]:
    """Pieces whose numbers are 0, 1, 2, …"""
    vocabulary = checked.table(model.get("vocab"), "model.vocab")
    numbers = list(vocabulary.values())
    if {*map(type, numbers)} != {int} or sorted(numbers) != list(range(len(numbers))):
        raise ValueError("model.vocab does not number its pieces 0, 1, 2, …")
    return sorted(vocabulary, key=vocabulary.__getitem__)


def _unigrams(model: Table) -> list[str]:
    """Pieces in order, each with its log-probability."""
    pieces = []
    for entry in checked.items(model.get("vocab"), "model.vocab"):
        piece, score = checked.items(entry, "an entry of model.vocab", 2)
        if not isinstance(piece, str) or checked.number(score, "a log-probability") > 0:
            raise ValueError("model.vocab does not give a log-probability for each piece")
        pieces.append(piece)
    return pieces


def _merged(model: Table) -> set[str]:
    """What the merges of BPE make."""
    merges = checked.items(model.get("merges"), "model.merges")
    for pair in merges:
        if {*map(type, checked.items(pair, "a merge", 2))} != {str}:
            raise ValueError("model.merges are not pairs of pieces")
    return {left + right for left, right in merges}


def _agrees(given: Any, wanted: Any) -> bool:
    """Whether two trees are the same; what is off or empty may be left out, as older versions of
    the library do."""
    if isinstance(wanted, dict) and isinstance(given, dict):
        absent = [wanted[key] for key in wanted.keys() - given.keys()]
        return (
            given.keys() <= wanted.keys()
            and not any(absent)
            and all(_agrees(given[key], wanted[key]) for key in given)
        )
    if isinstance(wanted, list) and isinstance(given, list):
        return len(given) == len(wanted) and all(map(_agrees, given, wanted))
    return type(given) is type(wanted) and bool(given == wanted)


@cache
def _form(config: Config) -> str:
    """What training with these settings makes, without the vocabulary, as JSON."""
    special: Any = {name: number for number, name in enumerate(SPECIAL)}
    match config.kind:
        case "bpe" | "bytes":
            model: Any = models.BPE(special, [])
        case "unigram":
            model = models.Unigram([(name, 0.0) for name in special], Tokenizer.unknown, False)
        case _:
            model = models.WordLevel(special, unk_token=UNKNOWN)
    tree = json.loads(around(model, config).to_str())
    for key in ("vocab", "merges"):
        tree["model"].pop(key, None)
    return json.dumps(tree)


@cache
def _every() -> list[Config]:
    """All ways in which tokenizers can cut."""
    return [
        Config(kind=kind, split=split, lowercase=lowercase)
        for kind in get_args(get_type_hints(Config)["kind"])
        for split in get_args(get_type_hints(Config)["split"])
        for lowercase in (False, True)
        if kind != "huggingface" and (kind == "word" or split not in APART)
    ]
