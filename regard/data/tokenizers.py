"""Text becomes symbols and back. Made by the `tokenizers` library, trained once, stored, hashed.

    bpe, unigram   pieces of words over bytes: any text is covered and comes back unchanged
    word           what stands between blanks, or words and punctuation marks by themselves; what
                   was not seen becomes the unknown symbol
    character      Unicode characters; what was not seen becomes the unknown symbol
    bytes          UTF-8 bytes: 256 symbols, no training, any text comes back unchanged

Special symbols have numbers but no spelling that text could match: their names hold a blank,
which no symbol of any kind does, so the text "<end>" is just five characters.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from tokenizers import (
    Regex,
    Tokenizer as Library,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

from regard.errors import RecipeError, UserError
from regard.values import Count, Symbols

PAD, START, END, UNKNOWN = range(4)
SPECIAL = [" <pad>", " <start>", " <end>", " <unknown>"]

# A word with the blank before it; digits one by one, so that numbers are spelt alike everywhere.
WORDS = r" ?\p{L}+| ?\p{N}| ?[^\s\p{L}\p{N}]+|\s+"
# Words with their apostrophes (don't), and any other mark as often as it is repeated (!!!).
MARKS = r"[\p{L}\p{M}\p{N}]+(?:['’][\p{L}\p{M}]+)*|([^\s\p{L}\p{M}\p{N}])\1*"


@dataclass(frozen=True, kw_only=True)
class Config:
    """How text is cut into symbols."""

    kind: Literal["bpe", "unigram", "word", "character", "bytes"] = "bpe"
    """What a symbol is."""
    size: Symbols = 8000
    """Number of symbols, special ones included, that training aims at (not for bytes)."""
    joint: bool = True
    """One vocabulary for source and target, or one for each."""
    split: Literal["words", "blanks", "punctuation"] = "words"
    """Pieces never cross the border of a word; for text that is tokenised already, of a blank.
    For whole words: punctuation parts from them, for tasks that only read the text."""
    lowercase: bool = False
    """Fold to lower case first (what comes out is lower case, too)."""
    minimum: Count = 1
    """Words and characters seen less often than this are unknown."""

    def __post_init__(self) -> None:
        if self.split == "punctuation" and self.kind != "word":
            raise RecipeError(f"split: 'punctuation' is for kind = 'word', not {self.kind!r}")
        least = {"bpe": len(_BYTE_OF), "unigram": len(_BYTE_OF), "bytes": -len(SPECIAL)}
        if self.size < len(SPECIAL) + least.get(self.kind, 1):
            raise RecipeError(
                f"size: {self.size} is too small for {self.kind}: {len(SPECIAL)} special symbols "
                f"and {least.get(self.kind, 1)} more must have room"
            )


class Tokenizer:
    """Symbols of one vocabulary."""

    def __init__(self, text: str) -> None:
        """From the JSON of the `tokenizers` library, as `save` writes it."""
        self.json = text
        try:
            self._library = Library.from_str(text)
        except Exception as error:  # the library raises bare Exceptions
            raise UserError(f"not a tokenizer: {error}") from None
        self._library.no_truncation()
        self._pieces: dict[int, str] = {
            n: piece for piece, n in self._library.get_vocab(with_added_tokens=False).items()
        }
        self._pieces |= {n: name.strip() for n, name in enumerate(SPECIAL)}
        tree = json.loads(text)
        self._between = " " if (tree.get("decoder") or {}).get("type") is None else ""
        self._over_bytes = (tree.get("decoder") or {}).get("type") == "ByteLevel"
        # The first word of a text is spelt like any other, with a blank before it.
        self._prefix = " " if (tree.get("pre_tokenizer") or {}).get("type") == "Sequence" else ""

    @classmethod
    def train(cls, config: Config, lines: Iterable[str]) -> "Tokenizer":
        """A tokenizer for the text in `lines`, which is read once."""
        return cls(_train(config, lines))

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        try:
            return cls(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, UserError) as error:
            raise UserError(f"{path}: {error}") from None

    def save(self, path: Path) -> None:
        path.write_text(self.json, encoding="utf-8", newline="\n")

    @property
    def hash(self) -> str:
        return hashlib.sha256(self.json.encode()).hexdigest()

    def __len__(self) -> int:
        return len(self._pieces)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Symbols of each line, without start and end."""
        texts = [self._prefix + line if line else "" for line in lines]
        found = self._library.encode_batch_fast(texts, add_special_tokens=False)
        return [encoding.ids for encoding in found]

    def words(self, line: str) -> list[str]:
        """The line as it is cut before symbols are looked up: for whole words, the words."""
        cut, normal = self._library.pre_tokenizer, self._library.normalizer
        line = self._prefix + line if line else ""
        text = normal.normalize_str(line) if normal else line
        return [word for word, _ in cut.pre_tokenize_str(text)]

    def decode(self, symbols: Sequence[int]) -> str:
        """The text of `symbols`; special ones but the unknown are left out."""
        said = [s for s in symbols if s > END]
        if not self._over_bytes:
            return self._between.join(self._pieces[s] for s in said)
        return self._library.decode(said, skip_special_tokens=False).removeprefix(self._prefix)

    def pieces(self, symbols: Sequence[int]) -> list[str]:
        """Each symbol as a person reads it: ▁ for a blank, <E2> for a byte of a character."""
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
    normal = [normalizers.Lowercase()] if config.lowercase else []
    match config.kind:
        case "bpe" | "unigram":
            library = _subword(config, (" " + line for line in lines))
        case "bytes":
            library = Library(models.BPE(_specials_first(sorted(_BYTE_OF)), []))
            library.pre_tokenizer = pre_tokenizers.ByteLevel(False, use_regex=False)
            library.decoder = decoders.ByteLevel()
        case "word" | "character":
            library = _whole(config, lines)
    if normal:
        library.normalizer = normalizers.Sequence(normal)
    return library.to_str()


def _subword(config: Config, lines: Iterator[str]) -> Library:
    """BPE (Sennrich et al. 2016) or a unigram model (Kudo 2018) over bytes."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pattern, rule = (WORDS, "isolated") if config.split == "words" else (" ", "merged_with_next")
    cut = Regex(pattern) if config.split == "words" else pattern
    library = Library(models.BPE() if config.kind == "bpe" else models.Unigram())
    if config.lowercase:
        library.normalizer = normalizers.Lowercase()
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(cut, rule), pre_tokenizers.ByteLevel(False, use_regex=False)]
    )
    library.decoder = decoders.ByteLevel()
    options: dict[str, Any] = {
        "vocab_size": config.size,
        "special_tokens": SPECIAL,
        "initial_alphabet": alphabet,
        "show_progress": False,
    }
    if config.kind == "bpe":
        library.train_from_iterator(lines, trainers.BpeTrainer(**options))
    else:
        trainer = trainers.UnigramTrainer(unk_token=SPECIAL[UNKNOWN], **options)
        library.train_from_iterator(lines, trainer)
    return _without_added(library, config.size)


def _without_added(library: Library, size: int) -> Library:
    """Special symbols keep their numbers and lose their spelling; missing bytes are added."""
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
    marks = pre_tokenizers.Split(Regex(MARKS), "removed", invert=True)
    apart = config.split == "punctuation"
    counts: dict[str, int] = {}
    for line in lines:
        folded = lower.normalize_str(line) if config.lowercase else line
        whole = [word for word, _ in marks.pre_tokenize_str(folded)] if apart else folded.split()
        for symbol in whole if config.kind == "word" else folded:
            counts[symbol] = counts.get(symbol, 0) + 1
    ranked = sorted(counts, key=lambda symbol: (-counts[symbol], symbol))
    often = [symbol for symbol in ranked if counts[symbol] >= config.minimum]
    vocabulary = _specials_first(often[: max(0, config.size - len(SPECIAL))])
    library = Library(models.WordLevel(vocabulary, unk_token=SPECIAL[UNKNOWN]))
    if config.kind == "word":
        library.pre_tokenizer = marks if apart else pre_tokenizers.WhitespaceSplit()
    else:
        library.pre_tokenizer = pre_tokenizers.Split(Regex(r"(?m:.)"), "isolated")
        library.decoder = decoders.Fuse()
    return library


def _specials_first(symbols: Sequence[str]) -> dict[str, int]:
    return {symbol: n for n, symbol in enumerate([*SPECIAL, *symbols])}


def _byte_glyphs() -> dict[str, int]:
    """The library writes byte b as a printable character: itself, or the next free one from 256."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {chr(b): b for b in plain} | {chr(256 + n): b for n, b in enumerate(others)}


_BYTE_OF = _byte_glyphs()
