"""Text becomes tokens and back. Made by the `tokenizers` library, trained once, stored, hashed.

    bpe, unigram   pieces of words over bytes: any text is covered and comes back unchanged
    word           what stands between whitespace, or words and punctuation marks by themselves;
                   what was not seen becomes the unknown symbol
    character      Unicode characters; what was not seen becomes the unknown symbol
    bytes          UTF-8 bytes: 256 tokens, no training, any text comes back unchanged

Special tokens have numbers but no spelling that text could match: their names hold a blank,
which no token of any kind does, so the text "<end>" is just five characters.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray
from tokenizers import (
    Regex,
    Tokenizer as Library,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

from regard.data import chunks, whole_file
from regard.errors import RecipeError, UserError
from regard.recipe import checked
from regard.recipe.checked import Table
from regard.recipe.values import Count, Symbols

PAD, START, END, UNKNOWN = range(4)
SPECIAL = [" <pad>", " <start>", " <end>", " <unknown>"]

# A word with the blank before it; digits one by one, so that numbers are spelt alike everywhere.
WORDS = r" ?\p{L}+| ?\p{N}| ?[^\s\p{L}\p{N}]+|\s+"
# Words with their apostrophes (don't), and any other mark as often as it is repeated (!!!).
MARKS = r"[\p{L}\p{M}\p{N}]+(?:['’][\p{L}\p{M}]+)*|([^\s\p{L}\p{M}\p{N}])\1*"


@dataclass(frozen=True, kw_only=True)
class Config:
    """How text is cut into tokens."""

    kind: Literal["bpe", "unigram", "word", "character", "bytes"] = "bpe"
    """What a token is."""
    vocabulary: Symbols = 8000
    """Number of tokens, special ones included, that training aims at (not for bytes)."""
    joint: bool = True
    """One vocabulary for source and target, or one for each."""
    split: Literal["words", "whitespace", "punctuation"] = "words"
    """Pieces never cross the border of a word; for text that is tokenised already, of a blank.
    For whole words: punctuation parts from them, for tasks that only read the text."""
    lowercase: bool = False
    """Fold to lower case first (what comes out is lower case, too)."""
    min_frequency: Count = 1
    """Words and characters seen less often than this are unknown."""

    def __post_init__(self) -> None:
        if self.split == "punctuation" and self.kind != "word":
            raise RecipeError(f"split: 'punctuation' is for kind = 'word', not {self.kind!r}")
        least = {"bpe": len(_BYTE_OF), "unigram": len(_BYTE_OF), "bytes": -len(SPECIAL)}
        if self.vocabulary < len(SPECIAL) + least.get(self.kind, 1):
            raise RecipeError(
                f"vocabulary: {self.vocabulary} is too small for {self.kind}: "
                f"{len(SPECIAL)} special symbols and {least.get(self.kind, 1)} more must have room"
            )


class Tokenizer:
    """Tokens of one vocabulary."""

    def __init__(self, text: str, config: Config | None = None) -> None:
        """From the JSON of the `tokenizers` library, as `save` writes it; with `config`, as that
        makes it. Nothing else is given to the library: its parts can be made to explode."""
        self.json = text
        try:
            tree = checked.parse(text)
            pieces = _checked(tree, config)
            self._library = Library.from_str(text)
        except Exception as error:  # the library raises bare Exceptions
            raise UserError(f"not a tokenizer: {error}") from None
        self._library.no_truncation()
        self._pieces = dict(enumerate(pieces)) | {n: name.strip() for n, name in enumerate(SPECIAL)}
        self._between = " " if tree["decoder"] is None else ""
        self._over_bytes = (tree["decoder"] or {}).get("type") == "ByteLevel"
        # The first word of a text is spelt like any other, with a blank before it.
        self._prefix = " " if tree["pre_tokenizer"]["type"] == "Sequence" else ""
        cut = chunks.cut_of(tree["pre_tokenizer"], WORDS, MARKS)
        self._encoded = chunks.Encoder(cut, self._numbers, len(self))

    @classmethod
    def train(cls, config: Config, lines: Iterable[str]) -> "Tokenizer":
        """A tokenizer for the text in `lines`, which is read once."""
        return cls(_train(config, lines))

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

    def __len__(self) -> int:
        return len(self._pieces)

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

    def _numbers(self, texts: Sequence[str]) -> list[list[int]]:
        found = self._library.encode_batch_fast(texts, add_special_tokens=False)
        return [encoding.ids for encoding in found]

    def words(self, line: str) -> list[str]:
        """The line as it is cut before tokens are looked up: for whole words, the words."""
        return _cut(self._library, self._prefix + line if line else "")

    def decode(self, symbols: Sequence[int]) -> str:
        """The text of `symbols`; special ones but the unknown are left out."""
        said = [s for s in symbols if s > END]
        if not self._over_bytes:
            return self._between.join(self._pieces[s] for s in said)
        return self._library.decode(said, skip_special_tokens=False).removeprefix(self._prefix)

    def pieces(self, symbols: Sequence[int]) -> list[str]:
        """Each token as a person reads it: ▁ for a blank, <E2> for a byte of a character."""
        return [self._piece(symbol) for symbol in symbols]

    def _piece(self, symbol: int) -> str:
        piece = self._pieces[symbol]
        if symbol <= UNKNOWN:
            return piece
        if not self._over_bytes:
            return piece.replace(" ", "▁")
        return _readable(piece)


@lru_cache(maxsize=2**16)
def _readable(piece: str) -> str:
    """What a piece over bytes says; most of any output is made of the same few."""
    data = bytes(_BYTE_OF[glyph] for glyph in piece)
    try:
        return data.decode().replace(" ", "▁")
    except UnicodeDecodeError:
        return "".join(chr(b) if 32 < b < 127 else f"<{b:02X}>" for b in data)


def _train(config: Config, lines: Iterable[str]) -> str:
    # Merges are found by threads whose number must not matter; words are counted in order.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    match config.kind:
        case "bpe" | "unigram":
            return _subword(config, lines).to_str()
        case "bytes":
            model = models.BPE(_specials_first(sorted(_BYTE_OF)), [])
            return _around(model, config).to_str()
        case "word" | "character":
            return _whole(config, lines).to_str()


def _around(model: Any, config: Config) -> Library:
    """All that stands around a model: what folds, cuts and joins again."""
    library = Library(model)
    if config.lowercase:
        library.normalizer = normalizers.Sequence([normalizers.Lowercase()])
    bytewise = pre_tokenizers.ByteLevel(False, use_regex=False)
    match config.kind:
        case "bpe" | "unigram":
            words = pre_tokenizers.Split(Regex(WORDS), "isolated")
            blanks = pre_tokenizers.Split(" ", "merged_with_next")
            cut = words if config.split == "words" else blanks
            library.pre_tokenizer = pre_tokenizers.Sequence([cut, bytewise])
            library.decoder = decoders.ByteLevel()
        case "bytes":
            library.pre_tokenizer = bytewise
            library.decoder = decoders.ByteLevel()
        case "word":
            apart = config.split == "punctuation"
            library.pre_tokenizer = _marks() if apart else pre_tokenizers.WhitespaceSplit()
        case "character":
            library.pre_tokenizer = pre_tokenizers.Split(Regex(r"(?m:.)"), "isolated")
            library.decoder = decoders.Fuse()
    return library


def _marks() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Split(Regex(MARKS), "removed", invert=True)


def _subword(config: Config, lines: Iterable[str]) -> Library:
    """BPE (Sennrich et al. 2016) or a unigram model (Kudo 2018) over bytes.

    BPE learns from counts of pieces alone, so that these are counted here, chunk by chunk, and the
    library reads nothing but them; a unigram model has them in the order of the text.
    """
    options: dict[str, Any] = {
        "vocab_size": config.vocabulary,
        "special_tokens": SPECIAL,
        "initial_alphabet": sorted(pre_tokenizers.ByteLevel.alphabet()),
        "show_progress": False,
    }
    if config.kind == "unigram":
        library = _around(models.Unigram(), config)
        trainer = trainers.UnigramTrainer(unk_token=SPECIAL[UNKNOWN], **options)
        library.train_from_iterator((" " + line for line in lines), trainer)
        return _without_added(library, config.vocabulary)
    whole, counter = _around(models.BPE(), config), Library(models.BPE())
    cut = chunks.RUNS_OF_BLANKS if config.split == "words" else chunks.BLANKS
    text = chunks.repeated(chunks.counted(cut, lines), lambda chunk: _cut(whole, " " + chunk))
    counter.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    counter.train_from_iterator(text, trainers.BpeTrainer(**options))
    return _without_added(_around(counter.model, config), config.vocabulary)


def _cut(library: Library, text: str) -> list[str]:
    """The pieces that tokens do not cross."""
    normal = library.normalizer.normalize_str(text) if library.normalizer else text
    return [piece for piece, _ in library.pre_tokenizer.pre_tokenize_str(normal)]


def _without_added(library: Library, size: int) -> Library:
    """Special tokens keep their numbers and lose their spelling; missing bytes are added."""
    tree = json.loads(library.to_str())
    tree["added_tokens"] = []
    if tree["model"]["type"] == "Unigram":
        tree["model"]["vocab"] = _complete(tree["model"]["vocab"], size)
    return Library.from_str(json.dumps(tree))


def _complete(vocabulary: list[list[Any]], size: int) -> list[list[Any]]:
    """Pieces and their log-probabilities with every byte among them, the least likely left out."""
    known = {piece for piece, _ in vocabulary}
    worst = min(score for _, score in vocabulary)
    whole = vocabulary + [[g, worst - 1.0] for g in sorted(_BYTE_OF) if g not in known]
    longer = [entry for entry in whole[len(SPECIAL) :] if len(entry[0]) > 1]
    longer.sort(key=lambda entry: entry[1])
    gone = {piece for piece, _ in longer[: max(0, len(whole) - size)]}
    return [entry for entry in whole if entry[0] not in gone]


def _whole(config: Config, lines: Iterable[str]) -> Library:
    """Words or characters by falling frequency, then in alphabetical order."""
    lower = normalizers.Lowercase()  # which is not str.lower: a final sigma is like any other
    marks, apart = _marks(), config.split == "punctuation"
    counts: dict[str, int] = {}
    for line in lines:
        folded = lower.normalize_str(line) if config.lowercase else line
        whole = [word for word, _ in marks.pre_tokenize_str(folded)] if apart else folded.split()
        for symbol in whole if config.kind == "word" else folded:
            counts[symbol] = counts.get(symbol, 0) + 1
    ranked = sorted(counts, key=lambda symbol: (-counts[symbol], symbol))
    often = [symbol for symbol in ranked if counts[symbol] >= config.min_frequency]
    vocabulary = _specials_first(often[: max(0, config.vocabulary - len(SPECIAL))])
    return _around(models.WordLevel(vocabulary, unk_token=SPECIAL[UNKNOWN]), config)


# What was saved


def _checked(tree: Table, config: Config | None) -> list[str]:
    """The pieces of a saved tokenizer, by number, if it is such as training makes; ValueError
    otherwise: there is a closed list of all that may stand around a vocabulary."""
    model = checked.table(tree.get("model"), "model")
    bare = tree | {"model": {k: v for k, v in model.items() if k not in ("vocab", "merges")}}
    which = _forms() if config is None else {_form(config): config.kind}
    kind = next((kind for form, kind in which.items() if _agrees(bare, json.loads(form))), None)
    if kind is None:
        raise ValueError("its parts are not those that the recipe's [tokenizer] makes")
    pieces = _unigrams(model) if kind == "unigram" else _numbered(model)
    own, text = pieces[len(SPECIAL) :], "".join(pieces)
    text.encode()  # half a surrogate pair is a ValueError
    single = {piece for piece in own if len(piece) == 1}
    fine = pieces[: len(SPECIAL)] == SPECIAL and len({*pieces}) == len(pieces) and "" not in own
    match kind:
        case "bpe" | "unigram" | "bytes":
            fine = fine and single == _BYTE_OF.keys() >= {*"".join(own)}
        case "character":
            fine = fine and len(single) == len(own)
        case "word":
            fine = fine and {*" \t\n\r\v\f"}.isdisjoint("".join(own))
    if not fine:
        raise ValueError(f"its vocabulary is not one of kind {kind!r}")
    if kind in ("bpe", "bytes") and _merged(model) != {*own} - single:
        raise ValueError("its merges are not those of its vocabulary")
    return pieces


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
    special: Any = _specials_first(())
    match config.kind:
        case "bpe" | "bytes":
            model: Any = models.BPE(special, [])
        case "unigram":
            model = models.Unigram([(name, 0.0) for name in special], UNKNOWN, False)
        case "word" | "character":
            model = models.WordLevel(special, unk_token=SPECIAL[UNKNOWN])
    tree = json.loads(_around(model, config).to_str())
    for key in ("vocab", "merges"):
        tree["model"].pop(key, None)
    return json.dumps(tree)


@cache
def _forms() -> dict[str, str]:
    """All that training can make, each with its kind. (Bytes look like BPE that split nothing.)"""
    every = [
        Config(kind=kind, split=split, lowercase=lowercase)
        for kind in get_args(get_type_hints(Config)["kind"])
        for split in get_args(get_type_hints(Config)["split"])
        for lowercase in (False, True)
        if kind == "word" or split != "punctuation"
    ]
    return {_form(config): config.kind for config in every}


def _specials_first(symbols: Sequence[str]) -> dict[str, int]:
    return {symbol: n for n, symbol in enumerate([*SPECIAL, *symbols])}


def _byte_glyphs() -> dict[str, int]:
    """The library writes byte b as a printable character: itself, or the next free one from 256."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {chr(b): b for b in plain} | {chr(256 + n): b for n, b in enumerate(others)}


_BYTE_OF = _byte_glyphs()
