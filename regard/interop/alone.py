"""A tokenizer that needs nothing but its library."""

from pathlib import Path

from tokenizers import Tokenizer as Library, decoders, normalizers

from regard.data.tokenizers import Tokenizer


def alone(tokenizer: Tokenizer, path: Path) -> None:
    """Write a tokenizer whose first blank is a matter of its own, too."""
    tokenizer.save(path)
    library = Library.from_file(str(path))
    if library.encode("a").ids == tokenizer.encode(["a"])[0]:
        return
    before = [library.normalizer] if library.normalizer else []
    library.normalizer = normalizers.Sequence([*before, normalizers.Prepend(" ")])
    library.decoder = decoders.Sequence([library.decoder, decoders.Strip(" ", 1, 0)])
    library.save(str(path))
