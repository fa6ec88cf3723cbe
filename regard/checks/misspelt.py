"""Labels that are others, misspelt: in case and punctuation alone, or by a letter or two."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from regard.checks.findings import Finding, finding
from regard.checks.sides import Part

RARE = 20
"""A label is another one misspelt if that has at least so many times its examples."""
CODES = (5, 100)
"""Tags are short codes, which may well be near to each other: a misspelt one has at most so many
words, and the right one at least so many times as many."""
LONG = (4, 8)
"""Characters from which on a label may differ by one edit, and by two."""
COMPARED = 200
"""Frequent labels that others are compared with: there may be thousands."""
SHOWN = 5
"""Findings of one kind."""
BETWEEN = re.compile(r"[\s_\-./]+")
MARK = re.compile(r"[BIESLU][-_]")


def check(train: Part, counts: Counter[str], *, codes: bool) -> Iterator[Finding]:
    """Each with its first line. `codes` says that labels are the tags of words."""
    alike = list(_alike(counts))
    known = {label for group in alike for label in group}
    for group in alike[:SHOWN]:
        usual, *others = sorted(group, key=lambda label: -counts[label])
        what = f"{_shown(others, counts)} and {_shown([usual], counts)} differ in case, "
        what += f"whitespace or punctuation alone: {_of(others, counts, train)}"
        yield _at(train, others, what)
    pairs = [pair for pair in _near(counts, codes) if pair[0] not in known]
    for label, usual in pairs[:SHOWN]:
        what = f"{_shown([label], counts)} may be {_shown([usual], counts)}, misspelt: "
        yield _at(train, [label], what + _of([label], counts, train))


def nearest(label: str, known: Sequence[str]) -> str:
    """The label that is meant by one that nobody knows; nothing where none is near."""
    same = next((each for each in known if _plain(each) == _plain(label)), "")
    return same or next((each for each in known if _misspelt(label, each)), "")


def _shown(labels: Sequence[str], counts: Counter[str]) -> str:
    return ", ".join(f"{label!r} ({counts[label]:,})" for label in labels)


def _of(labels: Sequence[str], counts: Counter[str], train: Part) -> str:
    which = "" if train.whole else "the first "
    count, total = sum(counts[label] for label in labels), sum(counts.values())
    return f"{count:,} of {which}{total:,} labels of {train.key}"


def _at(train: Part, labels: Sequence[str], what: str) -> Finding:
    """Where the first of them stands."""
    rows = train.sides[-1].values
    n = next(n for n, row in enumerate(rows) if not set(labels).isdisjoint(row))
    word = next(w for w, label in enumerate(rows[n]) if label in labels)
    return finding("labels.spelling", train.word_place(n, word), what, train.sides[0].lines[n])


def _alike(counts: Counter[str]) -> Iterator[list[str]]:
    groups: dict[str, list[str]] = {}
    for label in counts:
        groups.setdefault(_plain(label), []).append(label)
    # Where labels are single characters, case may be all that sets them apart.
    return (group for plain, group in groups.items() if len(group) > 1 and len(plain) > 1)


def _plain(label: str) -> str:
    """Without case and what stands between words; numbers as they are."""
    return BETWEEN.sub("", label.casefold()) if any(map(str.isalpha, label)) else label


def _near(counts: Counter[str], codes: bool) -> Iterator[tuple[str, str]]:
    """Rare labels, each with the frequent one that it is near to."""
    most, times = CODES if codes else (max(counts.values()), RARE)
    frequent = [label for label, count in counts.most_common(COMPARED) if count >= times]
    for label, count in counts.items():
        for usual in frequent if count <= most else ():
            if counts[usual] < times * count:
                break  # nor are those that follow more frequent
            if _misspelt(label, usual):
                yield label, usual
                break


def _misspelt(label: str, usual: str) -> bool:
    """Whether a few edits make one of the other: none of digits, or of the mark of a span."""
    least = min(len(label), len(usual))
    most = sum(least >= length for length in LONG)
    if abs(len(label) - len(usual)) > most or _marked(label) != _marked(usual):
        return False
    if [c for c in label if c.isdigit()] != [c for c in usual if c.isdigit()]:
        return False
    return edits(label.casefold(), usual.casefold()) <= most


def _marked(label: str) -> str:
    found = MARK.match(label)
    return found[0][0] if found else ""


def edits(one: str, other: str) -> int:
    """Letters to be inserted, removed or replaced, or neighbours to be exchanged: d(i, j) of the
    first i letters of one and the first j of the other."""
    before: list[int] = []
    row: list[int] = [*range(len(other) + 1)]
    for i, a in enumerate(one, 1):
        earlier, before, row = before, row, [i]
        for j, b in enumerate(other, 1):
            best = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                best = min(best, earlier[j - 2] + 1)
            row.append(best)
    return row[-1]
