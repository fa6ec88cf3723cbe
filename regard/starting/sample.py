"""The beginning of a file that nobody has described: its encoding, its lines, how much there is."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from regard.console.shell import quoted
from regard.data.readers import FORBIDDEN, MAGIC, opened
from regard.errors import UserError

BYTES = 32 << 20
"""So much of a file is looked at."""
BLOCK = 1 << 20
BOM = b"\xef\xbb\xbf"
FEW = 0.01
"""The share of lines that may be no text in a file that is."""


@dataclass(frozen=True)
class Sample:
    """Lines of a file, from its beginning on."""

    path: Path
    lines: list[str]
    """As text; what is not UTF-8 comes as an empty line."""
    whole: bool
    """Whether these are all lines."""
    size: int
    """Bytes of the file on the disk."""
    share: float
    """Of the file that was looked at, as far as that is known."""
    bom: bool
    """Whether it begins with the mark that some editors put before UTF-8."""
    crlf: bool
    """Whether lines end as on Windows."""
    broken: int
    """Lines that are not UTF-8, or hold control characters."""

    @property
    def count(self) -> int:
        """Lines of the whole file, estimated where it is large."""
        return len(self.lines) if self.whole else round(len(self.lines) / self.share)


def take(path: Path) -> Sample:
    """The beginning of a file. What is no UTF-8 is refused, with the command that converts it."""
    size, raw = path.stat().st_size if path.is_file() else 0, b""
    with opened(path) as stream:
        while len(raw) <= BYTES and (block := stream.read(BLOCK)):
            raw += block
    whole = len(raw) <= BYTES
    _check(path, raw)
    bom, body = raw.startswith(BOM), raw.removeprefix(BOM)
    share = 1.0 if whole else min(1.0, len(raw) / _unpacked(path, size))
    if not whole:
        body = body[: body.rfind(b"\n") + 1] or body
    lines = body.replace(b"\r\n", b"\n").removesuffix(b"\n").split(b"\n")
    texts = [_text(line) for line in lines]
    broken = texts.count(None)
    if broken > max(1, FEW * len(lines)):
        raise UserError(_other(path, body, next(n for n, t in enumerate(texts, 1) if t is None)))
    return Sample(
        path, [text or "" for text in texts], whole, size, share, bom, b"\r\n" in raw, broken
    )


def first_of(paths: Sequence[Path]) -> Sample:
    """The beginning of the first file, as a part of all of them."""
    found = take(paths[0])
    if len(paths) == 1:
        return found
    share = found.share * found.size / sum(path.stat().st_size for path in paths)
    return replace(found, whole=False, share=share)


def _unpacked(path: Path, size: int) -> float:
    """Bytes of the text; of a packed file a guess."""
    return size * 3.0 if path.suffix.lower() == ".gz" else float(size)


def _text(line: bytes) -> str | None:
    try:
        text = line.decode()
    except UnicodeDecodeError:
        return None
    return None if FORBIDDEN.search(text) else text


def _check(path: Path, raw: bytes) -> None:
    """Refuse what is no text, or no UTF-8, by how it begins."""
    if not raw.strip():
        raise UserError(f"{path} is empty")
    for magic, what in MAGIC.items():
        if raw.startswith(magic) and "UTF-16" not in what:
            raise UserError(f"{path} {what}")
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UserError(f"{path} is UTF-16. {_convert(path, 'UTF-16')}")
    start = raw[:4096]
    for encoding, zeros in (("UTF-16LE", start[1::2]), ("UTF-16BE", start[::2])):
        if zeros and zeros.count(0) > 0.4 * len(zeros):
            raise UserError(f"{path} is {encoding}. {_convert(path, encoding)}")
    if b"\0" in start:
        raise UserError(f"{path} is no text: it holds zero bytes")


def _other(path: Path, raw: bytes, line: int) -> str:
    """Which encoding it may be: of languages with few letters beyond ASCII, that of Windows."""
    letters = sum(byte > 64 for byte in raw[: 1 << 20])
    high = sum(byte > 127 for byte in raw[: 1 << 20])
    if high > 0.3 * max(1, letters):
        return f"{path}:{line}: not UTF-8. Convert it: iconv -f ENCODING -t UTF-8"
    return f"{path}:{line}: not UTF-8, perhaps WINDOWS-1252. {_convert(path, 'WINDOWS-1252')}"


def _convert(path: Path, encoding: str) -> str:
    """The command that makes UTF-8 of a file."""
    packed = path.suffix.lower() == ".gz"
    name = path.with_suffix("") if packed else path
    new = name.with_name(f"{name.stem}-utf8{name.suffix}")
    if packed:
        return f"Convert it: gzip -dc {quoted(path)} | iconv -f {encoding} -t UTF-8 > {quoted(new)}"
    return f"Convert it: iconv -f {encoding} -t UTF-8 {quoted(path)} > {quoted(new)}"
