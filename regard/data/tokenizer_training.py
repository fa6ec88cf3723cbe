"""A tokenizer learns from text: which tokens there are, and what stands around them.

bpe, unigram   merges, or pieces and their probabilities, over bytes
word, character   what is seen often enough
bytes          nothing is learnt
"""

import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
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

from regard.data import chunks
from regard.errors import RecipeError
from regard.recipe.values import Count, Symbols

SPECIAL = [" <pad>", " <start>", " <end>", " <unknown>"]
"""Every vocabulary begins with these; others of such a form may follow, as " <mask>"."""
UNKNOWN = " <unknown>"
IMPORTED = ("start", "end", "pad", "unknown", "mask")
"""Keys that name the special tokens of an imported tokenizer."""

# A word with the blank before it; digits one by one, so that numbers are spelt alike everywhere.
WORDS = r" ?\p{L}+| ?\p{N}| ?[^\s\p{L}\p{N}]+|\s+"
# Words with their apostrophes (don't), and any other mark as often as it is repeated (!!!).
MARKS = r"[\p{L}\p{M}\p{N}]+(?:['’][\p{L}\p{M}]+)*|([^\s\p{L}\p{M}\p{N}])\1*"
# As treebanks of English have it: clitics are words (do n't, it 's, can not); what stays whole are
# addresses, abbreviations (U.S., Mr.), numbers (3.5, 9/11, 2nd), smileys and repeated marks.
TREEBANK = "|".join(
    [
        r"(?i:https?://|www\.)\S*[^\s.,;:!?)\]'\"]",
        r"(?>[\p{L}\p{N}._+-]{1,64})@[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)+",
        r"(?:\p{L}\.){2,}|(?:Mr|Mrs|Ms|Dr|St)\.",
        r"\p{N}+(?:[.,:/]\p{N}+)*(?:(?:st|nd|rd|th|s)(?!\p{L}))?",
        r"(?i:n['’]t|['’](?:s|m|d|re|ve|ll))(?!\p{L})",
        r"(?i:can(?=not(?!\p{L}))|[\p{L}\p{M}]{1,64}?(?=n['’]t(?!\p{L})))",
        r"[\p{L}\p{M}\p{N}]+",
        r"[:;]-?[()]+|([^\s\p{L}\p{M}\p{N}])\1*",
    ]
)
APART = {"punctuation": MARKS, "treebank": TREEBANK}
"""Ways to cut whole words off what stands beside them."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """How text is cut into tokens."""

    kind: Literal["bpe", "unigram", "word", "character", "bytes", "huggingface"] = "bpe"
    """What a token is; huggingface: what an imported tokenizer says, which is never trained."""
    vocabulary: Symbols = 8000
    """Number of tokens, special ones included, that training aims at (not for bytes); of an
    imported model, the rows of its embedding."""
    joint: bool = True
    """One vocabulary for source and target, or one for each."""
    split: Literal["words", "whitespace", "punctuation", "treebank"] = "words"
    """Pieces never cross the border of a word; for text that is tokenised already, a space.
    For whole words, in tasks that only read the text: punctuation parts from them (don't stop ...),
    or all that treebanks of English take for words (do n't stop ...)."""
    lowercase: bool = False
    """Fold to lower case first (what comes out is lower case, too)."""
    min_frequency: Count = 1
    """Words and characters seen less often than this are unknown."""
    words_of: str = ""
    """A run of word2vec, or a file of vectors, whose words are known beside those of the training
    part: where model.input.vectors names the same, words that training never sees have vectors."""
    start: str = ""
    """Of an imported tokenizer, and so are the next four: the token that begins a text ([CLS]);
    by default, the one that ends it."""
    end: str = ""
    """The token that ends a text ([SEP])."""
    pad: str = ""
    """The token that fills up; by default, the one that ends a text."""
    unknown: str = ""
    """The token that stands for what the vocabulary lacks, if it lacks anything."""
    mask: str = ""
    """The token that stands for one to be found ([MASK])."""

    def __post_init__(self) -> None:
        if self.kind == "huggingface":
            if not self.end:
                raise RecipeError("end: an imported tokenizer needs a token that ends a text")
            return
        if given := next((name for name in IMPORTED if getattr(self, name)), None):
            raise RecipeError(f"{given}: it is for kind = 'huggingface', not {self.kind!r}")
        if self.words_of and self.kind != "word":
            raise RecipeError(f"words_of: it is for kind = 'word', not {self.kind!r}")
        if self.split in APART and self.kind != "word":
            raise RecipeError(f"split: {self.split!r} is for kind = 'word', not {self.kind!r}")
        least = {"bpe": len(BYTE_OF), "unigram": len(BYTE_OF), "bytes": -len(SPECIAL)}
        if self.vocabulary < len(SPECIAL) + least.get(self.kind, 1):
            raise RecipeError(
                f"vocabulary: {self.vocabulary} is too small for {self.kind}: "
                f"{len(SPECIAL)} special tokens and {least.get(self.kind, 1)} more must have room"
            )


def train(config: Config, lines: Iterable[str], also: Sequence[str] = ()) -> str:
    """A tokenizer, as JSON, with special tokens that are called as `also` says."""
    special = [*SPECIAL, *(f" <{name}>" for name in also)]
    if config.kind == "huggingface":
        raise RecipeError(
            "tokenizer.kind: 'huggingface' is that of an imported model, which --from takes over; "
            "to train one, take another kind"
        )
    # Merges are found by threads whose number must not matter; words are counted in order.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    match config.kind:
        case "bpe" | "unigram":
            return _subword(config, lines, special).to_str()
        case "bytes":
            model = models.BPE(_numbered([*special, *sorted(BYTE_OF)]), [])
            return around(model, config).to_str()
        case _:
            return _whole(config, lines, special).to_str()


def around(model: Any, config: Config) -> Library:
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
            library.pre_tokenizer = words_of(config.split)
        case "character":
            library.pre_tokenizer = pre_tokenizers.Split(Regex(r"(?m:.)"), "isolated")
            library.decoder = decoders.Fuse()
    return library


def words_of(split: str) -> pre_tokenizers.PreTokenizer:
    """Parts words from each other, and where `split` says so from what stands beside them: “don't
    stop...” is don't stop... or don't stop ... or do n't stop ..."""
    if split not in APART:
        return pre_tokenizers.WhitespaceSplit()
    return pre_tokenizers.Split(Regex(APART[split]), "removed", invert=True)


def _subword(config: Config, lines: Iterable[str], special: list[str]) -> Library:
    """BPE (Sennrich et al. 2016) or a unigram model (Kudo 2018) over bytes.

    BPE learns from counts of pieces alone, so that these are counted here, chunk by chunk, and the
    library reads nothing but them; a unigram model has them in the order of the text.
    """
    options: dict[str, Any] = {
        "vocab_size": config.vocabulary,
        "special_tokens": special,
        "initial_alphabet": sorted(pre_tokenizers.ByteLevel.alphabet()),
        "show_progress": False,
    }
    if config.kind == "unigram":
        library = around(models.Unigram(), config)
        trainer = trainers.UnigramTrainer(unk_token=UNKNOWN, **options)
        library.train_from_iterator((" " + line for line in lines), trainer)
        return _without_added(library, config.vocabulary)
    whole, counter = around(models.BPE(), config), Library(models.BPE())
    cut = chunks.cut_of(config.kind, config.split)
    assert cut is not None
    text = chunks.repeated(chunks.counted(cut, lines), lambda chunk: pieces(whole, " " + chunk))
    counter.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    counter.train_from_iterator(text, trainers.BpeTrainer(**options))
    return _without_added(around(counter.model, config), config.vocabulary)


def pieces(library: Library, text: str) -> list[str]:
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
    whole = vocabulary + [[g, worst - 1.0] for g in sorted(BYTE_OF) if g not in known]
    own = whole[len(specials([piece for piece, _ in whole])) :]
    longer = [entry for entry in own if len(entry[0]) > 1]
    longer.sort(key=lambda entry: entry[1])
    gone = {piece for piece, _ in longer[: max(0, len(whole) - size)]}
    return [entry for entry in whole if entry[0] not in gone]


def _whole(config: Config, lines: Iterable[str], special: list[str]) -> Library:
    """Words or characters by falling frequency, then in alphabetical order."""
    lower = normalizers.Lowercase()  # which is not str.lower: a final sigma is like any other
    by, apart = words_of(config.split), config.split in APART
    # No word crosses a blank, so that what stands between two is looked at once.
    texts: Iterable[tuple[str, int]] = ((line, 1) for line in lines)
    if config.kind == "word":
        texts = chunks.counted(chunks.WORDS, lines).items()
    counts: dict[str, int] = {}
    for text, count in texts:
        folded = lower.normalize_str(text) if config.lowercase else text
        words = [word for word, _ in by.pre_tokenize_str(folded)] if apart else folded.split()
        for symbol in words if config.kind == "word" else folded:
            counts[symbol] = counts.get(symbol, 0) + count
    ranked = sorted(counts, key=lambda symbol: (-counts[symbol], symbol))
    often = [symbol for symbol in ranked if counts[symbol] >= config.min_frequency]
    vocabulary = _numbered([*special, *often[: max(0, config.vocabulary - len(special))]])
    return around(models.WordLevel(vocabulary, unk_token=UNKNOWN), config)


def _numbered(tokens: Sequence[str]) -> dict[str, int]:
    return {token: n for n, token in enumerate(tokens)}


def specials(pieces: Sequence[str]) -> list[str]:
    """The special tokens of a vocabulary: those that it begins with, up to one that is none."""
    return list(takewhile(re.compile(r" <[a-z_]+>").fullmatch, pieces))


def _byte_glyphs() -> dict[str, int]:
    """The library writes byte b as a printable character: itself, or the next free one from 256."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {chr(b): b for b in plain} | {chr(256 + n): b for n, b in enumerate(others)}


BYTE_OF = _byte_glyphs()
