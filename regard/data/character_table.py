"""The table by which sentencepiece normalises characters, read as sentencepiece reads it.

Where a text has several entries, the longest one counts, from left to right. The `tokenizers`
library asks for whole graphemes instead, and loses marks that no entry has: ﬁ with a diaeresis is
"fi" there.

    4 bytes             the size of the index
    index               a double array (Yata et al. 2007) of 32 bits each: label, leaf, offset
    texts               UTF-8, each ends with a zero; the index says where they begin
"""

import re
from array import array
from collections.abc import Iterator
from typing import Any

PLAIN = re.compile(r"[ -~]*")
ROOT = 0


class CharacterTable:
    """A normalizer of the `tokenizers` library (`Normalizer.custom`)."""

    def __init__(self, raw: bytes) -> None:
        size = min(int.from_bytes(raw[:4], "little"), len(raw) - 4) // 4 * 4
        self._index = array("I", raw[4 : 4 + size])
        self._texts = raw[4 + size :]
        self._keeps_plain = not any(self._changes(code) for code in range(32, 127))

    def normalize(self, given: Any) -> None:
        """Change a text of the library's in place. Replacing keeps what stands where; a text that
        does not come out so is written anew."""
        text: str = given.normalized
        if self._keeps_plain and PLAIN.fullmatch(text):
            return
        steps = [*self._steps(text)]
        changes = {old: new for old, new in steps if old != new}
        for old in sorted(changes, key=len, reverse=True):
            given.replace(old, changes[old])
        if given.normalized != (wanted := "".join(new for _, new in steps)):
            given.clear()
            given.append(wanted)

    def text(self, text: str) -> str:
        """A text as it is normalised."""
        return "".join(new for _, new in self._steps(text))

    def _steps(self, text: str) -> Iterator[tuple[str, str]]:
        """What stands there, and instead of it, from left to right."""
        data, place = text.encode("utf-8", "replace"), 0
        while place < len(data):
            size, new = self._longest(data, place)
            old = data[place : place + size].decode("utf-8", "replace")
            yield old, old if new is None else new
            place += size

    def _longest(self, data: bytes, place: int) -> tuple[int, str | None]:
        """The bytes of the longest entry that stands at a place, and its text; of the character
        there, if no entry does."""
        found: tuple[int, str | None] = (_width(data[place]), None)
        node = self._next(ROOT)
        for end in range(place, len(data)):
            byte = data[end]
            node ^= byte
            if not self._is(node, byte):
                break
            unit = self._index[node]
            node = self._next(node)
            if unit >> 8 & 1 and node < len(self._index):
                start = self._index[node] & 0x7FFFFFFF
                text = self._texts[start : self._texts.find(b"\0", start)]
                found = end + 1 - place, text.decode("utf-8", "replace")
        return found

    def _next(self, node: int) -> int:
        """Where the children of a node begin."""
        if node >= len(self._index):
            return len(self._index)
        unit = self._index[node]
        return node ^ (unit >> 10) << ((unit & 0x200) >> 6)

    def _is(self, node: int, byte: int) -> bool:
        return node < len(self._index) and self._index[node] & 0x800000FF == byte

    def _changes(self, code: int) -> bool:
        """Whether an entry is this character, or begins with it and one more that is plain."""
        node = self._next(ROOT) ^ code
        if not self._is(node, code):
            return False
        after = self._next(node)
        return bool(self._index[node] >> 8 & 1) or any(
            self._is(after ^ other, other) for other in range(32, 127)
        )


def _width(byte: int) -> int:
    """The bytes of a character that begins with this one."""
    return 1 + (byte >= 0xC0) + (byte >= 0xE0) + (byte >= 0xF0)
