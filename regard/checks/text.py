"""One side by itself, and against the same side of the training part."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from math import sqrt

from regard.checks.findings import Finding, Severity, finding
from regard.checks.pairs import letters
from regard.checks.sides import Part, Side, training

SAMPLE = 2000
"""Lines of which the form is taken."""
LATER = "".join(bytes([b]).decode("cp1252", "ignore") or chr(b) for b in range(0x80, 0xC0))
"""The later bytes of a UTF-8 character, as CP1252 reads them."""
MOJIBAKE = re.compile(
    f"[ÂÃÅ][{re.escape(LATER)}]|â€[{re.escape(LATER)}]|([ÐÑ][{re.escape(LATER)}]){{2}}"
)
TAGS = "a|b|i|u|p|br|hr|li|ul|ol|td|tr|th|em|h[1-6]|div|sub|sup|pre|img|span|code|font|strong|table"
MARKUP = re.compile(
    rf"&(?:amp|quot|lt|gt|apos|nbsp|#\d+|#x[0-9a-fA-F]+);|</?(?:{TAGS})(?: [^<>]*)?/?>"
)
GLUED = re.compile(r"\w[.,](?: |$)")
APART = re.compile(r"\w [.,](?: |$)")
JOINERS = "\u200c\u200d"
"""Invisible, but part of the spelling of some languages."""
SCRIPTS = {
    "LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "GEORGIAN", "HEBREW", "ARABIC", "DEVANAGARI",
    "BENGALI", "GURMUKHI", "GUJARATI", "TAMIL", "TELUGU", "KANNADA", "MALAYALAM", "SINHALA",
    "THAI", "LAO", "TIBETAN", "MYANMAR", "KHMER", "ETHIOPIC", "HANGUL", "CJK",
}  # fmt: skip
CAPITALS = (0.005, 0.3)
"""Shares of capitals among letters in text that is written with them as usual."""
NO_CAPITALS = 0.0005
ALIKE = 0.75
"""The cosine of two texts' pairs of letters below which they are of different kinds."""
OFTEN = 0.01


def check(part: Part) -> Iterator[Finding]:
    """What can be seen in each side alone."""
    for side in part.sides:
        alphabet = set[str]()
        for line in side.lines:
            alphabet.update(line)
        yield from _characters(part, side, alphabet)
        yield from _mojibake(part, side, alphabet)
        yield from _normal(part, side, alphabet)
        yield from _script(part, side, alphabet)
        yield from _cut(part, side)


def compare(parts: Sequence[Part], *, lowercase: bool) -> Iterator[Finding]:
    """What one part has in another form than the training part."""
    train = training(parts)
    learnt = [Form(side) for side in train.sides] if train else []
    for part in parts if train else ():
        for form, side in zip(learnt, part.sides, strict=True):
            if part is not train:
                yield from _differ(form, Form(side), part, side, lowercase)


def _differ(
    learnt: "Form", held: "Form", part: Part, side: Side, lowercase: bool
) -> Iterator[Finding]:
    where, example = side.place(0), side.lines[0]
    if learnt.script and held.script and learnt.script != held.script:
        what = f"the {side.title} is {learnt.script} in data.train, {held.script} in {part.key}"
        yield finding("text.script", where, what, example, "error")
        return
    if not lowercase and {learnt.case, held.case} == {"usual", "none"}:
        without, rest = ("data.train", part.key)[:: 1 if learnt.case == "none" else -1]
        what = f"the {side.title} has no capitals in {without}, but has in {rest}"
        yield finding("text.case", where, what, example)
    if abs(learnt.apart - held.apart) > 0.5:
        cut, rest = ("data.train", part.key)[:: 1 if learnt.apart > held.apart else -1]
        what = f"punctuation is cut off in the {side.title} of {cut}, but not in that of {rest}"
        yield finding("text.tokenised", where, what, example)
    if (alike := learnt.like(held)) < ALIKE:
        what = f"the letters of the {side.title} of {part.key} are unlike those of data.train"
        yield finding("text.other", where, f"{what} (cosine {alike:.2f})", example)


def sides(train: Part) -> Iterator[Finding]:
    """One side has capitals, the other has none."""
    cases = {Form(side).case: side for side in train.sides}
    if {"usual", "none"} <= cases.keys():
        side = cases["none"]
        what = f"the {side.title} of data.train has no capitals, but the {cases['usual'].title} has"
        yield finding("text.case", side.place(0), what, side.lines[0])


def markup(parts: Sequence[Part]) -> Iterator[Finding]:
    """Entities and tags of HTML: a warning where one part has them and another has not."""
    found = []
    for part in parts:
        for side in part.sides:
            hit = [n for n, line in enumerate(side.lines) if MARKUP.search(line)]
            found.append((part, side, hit, len(hit) / max(1, len(part))))
    for part, side, hit, share in found:
        others = [
            s for p, o, _, s in found if o.name == side.name and p is not part and len(p) > 100
        ]
        uneven = any(max(share, s) > OFTEN and min(share, s) < OFTEN / 10 for s in others)
        if hit and (uneven or (share > OFTEN / 10 and part.name == "train")):
            what = f"HTML in the {side.title}"
            severity: Severity = "warning" if uneven else "note"
            line = side.lines[hit[0]]
            first = next(MARKUP.finditer(line)).start()
            yield part.lines("text.markup", side, hit, what, line[max(0, first - 20) :], severity)


# Characters


def _having(side: Side, characters: Iterable[str]) -> list[int]:
    """The lines that have any of the characters."""
    if not (wanted := "".join(map(re.escape, characters))):
        return []
    pattern = re.compile(f"[{wanted}]")
    return [n for n, line in enumerate(side.lines) if pattern.search(line)]


def _characters(part: Part, side: Side, alphabet: set[str]) -> Iterator[Finding]:
    hidden = {c for c in alphabet if _hidden(c)}
    for code, characters in (
        ("text.replacement", alphabet & {"\ufffd"}),
        ("text.mark", alphabet & {"\ufeff"}),
        ("text.invisible", hidden),
    ):
        if hit := _having(side, characters):
            names = ", ".join(f"U+{ord(c):04X}" for c in sorted(characters)[:5])
            line = side.lines[hit[0]]
            first = min(line.index(c) for c in characters if c in line)
            around = line[max(0, first - 20) :]
            yield part.lines(code, side, hit, f"{names} in the {side.title}", around)


def _hidden(character: str) -> bool:
    if character in JOINERS or character in "\ufeff\t\n":  # a document may have several lines
        return False
    return unicodedata.category(character) in ("Cf", "Co", "Cn", "Cc")


def _mojibake(part: Part, side: Side, alphabet: set[str]) -> Iterator[Finding]:
    if alphabet.isdisjoint("ÂÃÅâÐÑ"):
        return
    hit = [n for n, line in enumerate(side.lines) if MOJIBAKE.search(line)]
    if hit:
        what = f"UTF-8 taken for Latin-1 in the {side.title}"
        severity: Severity = "error" if len(hit) > max(2, OFTEN * len(part)) else "warning"
        yield part.lines("text.mojibake", side, hit, what, severity=severity)


def _normal(part: Part, side: Side, alphabet: set[str]) -> Iterator[Finding]:
    if not any(unicodedata.combining(c) for c in alphabet):
        return
    hit = [n for n, line in enumerate(side.lines) if not unicodedata.is_normalized("NFC", line)]
    if hit:
        yield part.lines("text.normal", side, hit, f"the {side.title} is not NFC")


def _script(part: Part, side: Side, alphabet: set[str]) -> Iterator[Finding]:
    """Lines of which most letters are of a script that is rare on this side."""
    counts = _scripts(side)
    total = sum(counts.values())
    rare = {s for s in map(script, alphabet) if s and counts[s] < total / 10}
    foreign = {c for c in alphabet if script(c) in rare}
    hit = [n for n in _having(side, foreign) if _mostly(side.lines[n], foreign)]
    if total and hit:
        usual = _called(counts.most_common(1)[0][0])
        yield part.lines("text.script", side, hit, f"not in {usual} script in the {side.title}")


def _mostly(line: str, foreign: set[str]) -> bool:
    known = [c in foreign for c in line if script(c)]
    return len(known) > 2 and 2 * sum(known) > len(known)


@cache
def script(character: str) -> str:
    """The script of a letter, as its name tells; nothing for what is no letter."""
    if not character.isalpha():
        return ""
    first = unicodedata.name(character, "").partition(" ")[0]
    return "CJK" if first in ("HIRAGANA", "KATAKANA") else first if first in SCRIPTS else ""


def _called(name: str) -> str:
    return "Chinese or Japanese" if name == "CJK" else name.capitalize()


def _scripts(side: Side) -> Counter[str]:
    counts: Counter[str] = Counter()
    for character, count in Counter("".join(side.sample(SAMPLE))).items():
        if found := script(character):
            counts[found] += count
    return counts


def _cut(part: Part, side: Side) -> Iterator[Finding]:
    """Many lines of exactly the greatest length, which hardly any is near to; no drawn ones."""
    counts = Counter(len(line) for line in side.lines if any(map(str.isalnum, line[-10:])))
    if not counts:
        return
    most = max(counts)
    near = sum(counts[most - n] for n in range(1, 6))
    if most >= 20 and counts[most] > max(20, OFTEN * len(part) / 2, 2 * near):
        hit = [
            n
            for n, line in enumerate(side.lines)
            if len(line) == most and any(map(str.isalnum, line[-10:]))
        ]
        what, end = f"cut at {most} characters in the {side.title}", side.lines[hit[0]][-40:]
        yield part.lines("text.cut", side, hit, what, end)


# Form


class Form:
    """How the text of a side is written."""

    def __init__(self, side: Side) -> None:
        lines = side.sample(SAMPLE)
        counts = Counter("".join(lines))
        self.case = _case(counts)
        scripts = _scripts(side)
        self.script = _called(scripts.most_common(1)[0][0]) if scripts else ""
        apart, glued = (sum(bool(p.search(line)) for line in lines) for p in (APART, GLUED))
        known = apart + glued >= 20
        self.apart = apart / (apart + glued) if known else 0.5
        """The share of lines whose punctuation stands apart from words; ½ if there is none."""
        self.pairs = letters(lines)

    def like(self, other: "Form") -> float:
        """The cosine of the counts of pairs of letters; 1 for too little text to tell."""
        if min(sum(self.pairs.values()), sum(other.pairs.values())) < 2000:
            return 1.0
        dot = sum(count * other.pairs[pair] for pair, count in self.pairs.items())
        norms = (sqrt(sum(c * c for c in form.pairs.values())) for form in (self, other))
        return dot / (next(norms) * next(norms))


def _case(counts: Counter[str]) -> str:
    """usual, none, or something else: all capitals, no letters that have any, too little text."""
    upper = sum(count for c, count in counts.items() if c.isupper())
    both = upper + sum(count for c, count in counts.items() if c.islower())
    if both < 1000:
        return "other"
    if upper <= NO_CAPITALS * both:
        return "none"
    return "usual" if CAPITALS[0] <= upper / both <= CAPITALS[1] else "other"
