"""Tokenizers that need nothing but their library, and do all that a program would have to do."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer as Library, decoders, normalizers, processors

from regard.data.spelling import LONGEST as LETTERS, Spelling
from regard.data.tokenizers import Tokenizer

BLANK = Regex(r"\A[\s\x1c-\x1f]+\z")
"""A text of whitespace alone, as Python has it."""
MIDDLE = Regex(rf"(?m)(?<=\A.{{{LETTERS // 2}}}).+(?=.{{{LETTERS // 2}}}\z)")
"""What is not read of a long word: all but its first and its last characters."""


def alone(
    tokenizer: Tokenizer,
    path: Path,
    *,
    before: Sequence[int] = (),
    after: Sequence[int] = (),
    longest: int | None = None,
    blank: bool = True,
    line: str = "",
) -> None:
    """Write a tokenizer that puts tokens before and after a text, and reads as many of its own as
    `longest` says. Its first blank is a matter of its own, too; unless whitespace alone is a text
    (`blank`), it has no tokens. `line` is what the end of a line is written as."""
    tokenizer.save(path)
    library = Library.from_file(str(path))
    spaced = library.encode("a").ids != tokenizer.encode(["a"])[0]
    first = [] if blank else [normalizers.Replace(BLANK, "")]
    last = [normalizers.Prepend(" ")] if spaced else []
    folds = [library.normalizer] if library.normalizer else []
    library.normalizer = normalizers.Sequence([*first, *folds, *last])
    library.decoder = _decoder(library, spaced, line)
    if before or after:
        names = {n: f"<{name}>" for name, n in tokenizer.named.items()}
        single = [*(names[n] for n in before), "$A", *(names[n] for n in after)]
        special = [(names[n], n) for n in {*before, *after}]
        library.post_processor = processors.TemplateProcessing(
            single=single, special_tokens=special
        )
    if longest is not None:
        library.enable_truncation(longest + len(before) + len(after))
    library.save(str(path))


def _decoder(library: Library, spaced: bool, line: str) -> decoders.Decoder:
    """Lines end by tokens of their own; the first blank of each is no part of the text."""
    end: Any = library.id_to_token(Tokenizer.end)
    joins: Any = library.decoder
    if joins is None:  # words; none begins with what the library takes for a continuation
        steps: list[Any] = [decoders.WordPiece("\0", cleanup=False), decoders.Fuse()]
        steps += [decoders.Replace(f" {end}", line), decoders.Replace(end, line)]
    else:
        steps = [decoders.Replace(end, line), joins]
    if line and (spaced or joins is None):
        steps += [decoders.Replace(f"{line} ", line)]
    if spaced:
        steps += [decoders.Strip(" ", 1, 0)]
    return decoders.Sequence(steps)


def characters(spelling: Spelling, path: Path, *, folded: Tokenizer | None = None) -> None:
    """Write the characters of words: as many for each of some words, 0 after the last; folded as
    the words of a tokenizer are."""
    spelling.characters.save(path)
    library = Library.from_file(str(path))
    cut = normalizers.Replace(MIDDLE, "")
    folds = Library.from_str(folded.json).normalizer if folded else None
    library.normalizer = normalizers.Sequence([*([folds] if folds else []), cut])
    library.enable_padding(pad_id=Tokenizer.pad, length=LETTERS)
    library.save(str(path))
