"""Somebody else's tokenizer (tokenizer.json of Hugging Face), used as it is, if it is harmless.

The `tokenizers` library runs whatever stands in such a file: patterns that take for ever on some
texts, replacements that double a text again and again, merges that are left out at random. So only
parts from a closed list are given to it, and of these only such as take a time that grows with the
text's length, or with its square at worst.
"""

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer as Library, normalizers

from regard.data.character_table import CharacterTable
from regard.data.tokenizer_training import Config
from regard.errors import UserError
from regard.recipe import checked
from regard.recipe.checked import Table

LARGEST = 1 << 25
"""Bytes of a file."""
PARTS = 16
"""Normalizers, or pre-tokenizers, or decoders, one after the other."""
GROWTH = 64
"""How many times as long normalizing may make a text."""
WORD = 10_000
"""Characters of a word that WordPiece looks up, at most: it takes their square."""
ADDED = 1 << 14
"""Tokens beside the model's own."""
PATTERN = 500
"""Characters of a pattern."""

KNOWN: Mapping[str, frozenset[str]] = {
    room: frozenset(names.split())
    for room, names in {
        "normalizer": "Sequence NFC NFD NFKC NFKD Nmt Lowercase StripAccents Strip BertNormalizer "
        "Replace Prepend Precompiled",
        "pre_tokenizer": "Sequence ByteLevel BertPreTokenizer Whitespace WhitespaceSplit "
        "Punctuation Digits Metaspace Split",
        "model": "BPE WordPiece Unigram WordLevel",
        "post_processor": "Sequence TemplateProcessing BertProcessing RobertaProcessing ByteLevel",
        "decoder": "Sequence ByteLevel WordPiece Metaspace ByteFallback Fuse Strip Replace "
        "BPEDecoder",
    }.items()
}
"""The kinds of parts that are used."""
INSIDE = {
    "normalizer": "normalizers",
    "pre_tokenizer": "pretokenizers",
    "post_processor": "processors",
    "decoder": "decoders",
}
"""Where a Sequence of parts has them."""
QUANTIFIED_GROUP = re.compile(r"\)(?:[*+]|\{)")
UNBOUNDED = re.compile(r"[*+]|\{\d*,\}")
REPEATED = re.compile(r"\{(\d+)(?:,(\d*))?\}")
OPTIONAL = re.compile(r"(?<!\()\?")
GROUP, GROUPS = re.compile(r"\("), 3
LONGEST = "longest"
"""A key of our own beside a table of characters, which the library does not look at."""
OTHERS = "others"
"""Another, beside a vocabulary: tokens with a blank before them are those of another side."""
CLASS = re.compile(r"\[(?:\\.|[^\]\\])*\]")


@dataclass(frozen=True)
class Special:
    """The numbers of the tokens that stand for no text."""

    pad: int
    start: int
    end: int
    unknown: int
    named: Mapping[str, int]
    """By name: those, as far as the tokenizer has them, and mask."""
    others: frozenset[int]
    """All of them, also such as have no name here."""


def read(text: str) -> tuple[Library, list[str]]:
    """The library's tokenizer and its tokens by number; ValueError if it is not harmless."""
    if len(text) > LARGEST:
        raise ValueError(f"it is larger than {LARGEST:,} bytes")
    tree = checked.parse(text)
    check(tree)
    try:
        library = Library.from_str(text)
    except BaseException as error:  # a panic of the library is no Exception
        if isinstance(error, KeyboardInterrupt | SystemExit | MemoryError):
            raise
        raise ValueError(str(error)) from None
    library.no_truncation()
    library.no_padding()
    _normalise_exactly(library, tree)
    found = library.get_vocab(with_added_tokens=True)
    most = max(found.values(), default=-1)
    if most >= 4 * len(found) + ADDED:
        raise ValueError(f"it numbers {len(found):,} tokens up to {most:,}")
    pieces = [f"<{n}>" for n in range(most + 1)]
    for piece, number in found.items():
        pieces[number] = piece
    return library, pieces


def _normalise_exactly(library: Library, tree: Table) -> None:
    """Where a table of characters asks for it, its longest entries count, as in sentencepiece."""
    if not isinstance(made := library.normalizer, normalizers.Sequence):
        return
    for number, part in enumerate(tree["normalizer"]["normalizers"]):
        if part.get(LONGEST):
            raw = base64.b64decode(part["precompiled_charsmap"])
            made[number] = normalizers.Normalizer.custom(CharacterTable(raw))


def special(library: Library, config: Config) -> Special:
    """The special tokens that a recipe names; what it does not, another one stands for."""
    spelt = {
        name: getattr(config, name)
        for name in ("pad", "start", "end", "unknown", "mask")
        if getattr(config, name)
    }
    named: dict[str, int] = {}
    for name, piece in spelt.items():
        if (number := library.token_to_id(piece)) is None:
            raise UserError(f"tokenizer.{name}: it has no token {piece!r}")
        named[name] = number
    added = library.get_added_tokens_decoder()
    marked = frozenset(number for number, token in added.items() if token.special)
    end = named.get("end", 0)
    return Special(
        pad=named.get("pad", end),
        start=named.get("start", end),
        end=end,
        unknown=named.get("unknown", -1),
        named=named,
        others=marked | frozenset(named.values()),
    )


def opens(library: Library, start: int) -> bool:
    """Whether it puts the start before a text."""
    return encode(library, ["a"], framed=True)[0][:1] == [start]


def others(text: str) -> dict[str, int]:
    """The tokens of another side, which an unknown text may be."""
    model = checked.parse(text)["model"]
    if not model.get(OTHERS):
        return {}
    pieces = (entry[0] for entry in model["vocab"])
    return {piece[1:]: n for n, piece in enumerate(pieces) if piece.startswith(" ")}


def encode(
    library: Library,
    texts: Sequence[str],
    *,
    framed: bool = False,
    unknown: int = -1,
    others: Mapping[str, int] | None = None,
) -> list[list[int]]:
    """Tokens of texts, with what stands around them if they are framed. An unknown text that is a
    token of another side becomes that one, as where pieces are written out and read again."""
    try:
        found = library.encode_batch_fast(texts, add_special_tokens=framed)
    except BaseException as error:  # it has no token for what its vocabulary lacks, say
        if isinstance(error, KeyboardInterrupt | SystemExit | MemoryError):
            raise
        raise UserError(f"the imported tokenizer cannot read this text: {error}") from None
    rows: list[list[int]] = [each.ids for each in found]
    if others:
        for number, row in enumerate(rows):
            if unknown in row:  # the fast way does not say what was not known
                pieces = library.encode(texts[number], add_special_tokens=framed).tokens
                both = zip(row, pieces, strict=True)
                rows[number] = [others.get(p, n) if n == unknown else n for n, p in both]
    return rows


# What is harmless


def check(tree: Table) -> None:
    """Refuse what the library could be kept busy with for ever, or made to fill the memory with."""
    model = checked.table(tree.get("model"), "model")
    kind = model.get("type")
    if kind is None:  # older files leave it out
        kind = "BPE" if "merges" in model else "WordPiece"
    if kind not in KNOWN["model"]:
        raise ValueError(f"model.type: {kind!r} is not one of {_listed('model')}")
    if model.get("dropout"):
        raise ValueError("model.dropout: a tokenizer that cuts at random is not used")
    for key in ("continuing_subword_prefix", "end_of_word_suffix"):
        if len(checked.text(model.get(key) or "", f"model.{key}")) > PARTS:
            raise ValueError(f"model.{key}: more than {PARTS} characters")
    longest = model.get("max_input_chars_per_word", 100)
    checked.whole(longest, "model.max_input_chars_per_word", 1, WORD)
    added = checked.items(tree.get("added_tokens") or [], "added_tokens")
    if len(added) > ADDED:
        raise ValueError(f"it has {len(added):,} added tokens, more than {ADDED:,}")
    for room in INSIDE:
        parts = [*_parts(tree.get(room), room)]
        if len(parts) > PARTS:
            raise ValueError(f"{room}: {len(parts)} parts, more than {PARTS}")
        growth = 1.0
        for part in parts:
            growth *= _checked(part, room)
        if growth > GROWTH:
            raise ValueError(f"{room}: it makes texts {growth:.0f} times as long")


def _parts(value: Any, room: str, depth: int = 0) -> Iterator[Table]:
    """All parts of a room, those of a Sequence one by one."""
    if value is None:
        return
    part = checked.table(value, room)
    if (kind := part.get("type")) not in KNOWN[room]:
        raise ValueError(f"{room}.type: {str(kind)[:60]!r} is not one of {_listed(room)}")
    if kind != "Sequence":
        yield part
        return
    if depth > 2:
        raise ValueError(f"{room}: sequences in sequences")
    for each in checked.items(part.get(INSIDE[room]), f"{room}.{INSIDE[room]}"):
        yield from _parts(each, room, depth + 1)


def _checked(part: Table, room: str) -> float:
    """How many times as long a text becomes by a part, which is refused if it is not harmless."""
    growth = 1.0
    if part["type"] == "Precompiled":
        return _table_growth(checked.text(part.get("precompiled_charsmap"), f"{room}.charsmap"))
    if isinstance(pattern := part.get("pattern"), dict):
        given = pattern.get("Regex")
        if given is not None:
            check_pattern(checked.text(given, f"{room}.pattern"), room)
        elif not checked.text(pattern.get("String"), f"{room}.pattern"):
            raise ValueError(f"{room}.pattern: an empty one stands everywhere")
        said = given or pattern["String"]
        if "content" in part:
            least = 1 if given is not None else len(said)
            growth = max(1.0, len(checked.text(part["content"], f"{room}.content")) / least)
    if "prepend" in part and len(checked.text(part["prepend"], f"{room}.prepend")) > PARTS:
        raise ValueError(f"{room}.prepend: more than {PARTS} characters")
    return growth


def _table_growth(text: str) -> float:
    """The most characters that a table of sentencepiece has for one: behind its index, of as many
    bytes as its first four say, strings stand that end with a zero."""
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        raise ValueError("normalizer.charsmap: it is not base64") from None
    strings = raw[4 + int.from_bytes(raw[:4], "little") :].split(b"\0")
    return max(1.0, max(map(len, strings), default=0) / 2)


def check_pattern(pattern: str, where: str) -> None:
    """Refuse a regular expression that can take more than the square of a text's length.

    Time explodes where a group that repeats can match in several ways, or where many repetitions
    that match the same stand side by side. So no group may repeat, few may be there at all, nothing
    may refer back or look behind, and each alternative has at most two repetitions without end.
    """
    plain = CLASS.sub("x", pattern.replace("\\\\", "x"))
    plain = re.sub(r"\\[pP]\{\^?\w+\}", "x", plain)  # \p{L} is a class, too
    if re.search(r"\\[1-9gk]|\(\?<?[=!<&RP]|\(\?\(|\(\*", plain.replace("(?!\\S)", "x")):
        raise _refused(where, "refers back or looks around", pattern)
    plain = re.sub(r"\\.", "x", plain)
    if len(pattern) > PATTERN or QUANTIFIED_GROUP.search(plain):
        raise _refused(where, "repeats a group", pattern)
    if any(int(high or low) > 10 for low, high in REPEATED.findall(plain)):
        raise _refused(where, "repeats often", pattern)
    if len(GROUP.findall(plain)) > GROUPS:
        raise _refused(where, "has many groups", pattern)
    for alternative in _alternatives(plain):
        counts = [len(each.findall(alternative)) for each in (UNBOUNDED, REPEATED, OPTIONAL)]
        if any(count > most for count, most in zip(counts, (2, 2, 4), strict=True)):
            raise _refused(where, "has many repetitions", pattern)


def _alternatives(pattern: str) -> list[str]:
    """What stands between the bars outside of all groups."""
    found, depth = [""], 0
    for sign in pattern:
        depth += (sign == "(") - (sign == ")")
        if sign == "|" and not depth:
            found.append("")
        else:
            found[-1] += sign
    return found


def _refused(where: str, what: str, pattern: str) -> ValueError:
    return ValueError(f"{where}: the pattern {pattern[:60]!a} {what}, which can take for ever")


def _listed(room: str) -> str:
    return ", ".join(sorted(KNOWN[room]))
