"""Labels of texts and tags of words: are there enough, and the same in every part?"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from regard.checks import misspelt, schemes
from regard.checks.findings import Finding, Severity, counted, finding
from regard.checks.sides import Part, training
from regard.data.labels import BASE, TRAINING, UNKNOWN

MOST = 0.95
FEWEST = 5
DRIFT = 0.15
"""Half of Σ |p − q| over all labels, from which two parts differ."""
CONFLICT = 0.005
SWAPPED = (0.5, 0.1)
"""At least so many labels, and at most so many texts, for each example: they are swapped."""
ENOUGH = 20
"""Examples from which on that is judged."""


def check(
    parts: Sequence[Part], *, unseen: str, single: bool, known: Sequence[str] = ()
) -> Iterator[Finding]:
    """The last side has the labels. `unseen` is the recipe's rule; `single` says that a text has
    one label, not one a word; `known` are the labels of a model that is trained on."""
    counts = {part.name: _count(part) for part in parts}
    train = training(parts)
    if train is None or not counts["train"]:
        return
    learnt = counts["train"]
    if single and (swapped := _swapped(train)):
        yield swapped
        return
    yield from misspelt.check(train, learnt, codes=not single)
    if not single:
        yield from schemes.check(parts, learnt)
    # The beginning of a file that is sorted by label says nothing of the labels of all.
    if not all(part.whole for part in parts):
        return
    if len({*learnt, *known}) < 2:
        what = f"there is one label only, {next(iter(learnt))!r}"
        yield finding("labels.single", train.sides[0].place(0), what)
        return
    yield from _balance(train, learnt)
    if single:
        yield from _conflict(train)
    for part in parts:
        yield from _unseen(part, known or learnt, unseen, base=bool(known))
        if part is not train:
            yield from _drift(part.key, learnt, counts[part.name])


def _swapped(train: Part) -> Finding | None:
    """The texts are few and come again and again, as labels do; the labels hardly ever."""
    texts, labels = ({*side.lines} for side in (train.sides[0], train.sides[-1]))
    most, few = (share * len(train) for share in SWAPPED)
    if len(train) < ENOUGH or len(labels) < most or len(texts) > few:
        return None
    side = train.sides[0]
    what = (
        f"text and label seem to be swapped: data.train has {len(labels):,} labels and "
        f"{len(texts):,} texts among {train.counted(len(train), 'examples')}"
    )
    return finding(
        "data.swapped", side.place(0), what, f"{train.sides[-1].lines[0]} | {side.lines[0]}"
    )


def _count(part: Part) -> Counter[str]:
    return Counter(label for row in part.sides[-1].values for label in row if label != UNKNOWN)


def _balance(train: Part, learnt: Counter[str]) -> Iterator[Finding]:
    total = sum(learnt.values())
    [(name, count)] = learnt.most_common(1)
    if count > MOST * total:
        what = f"{name!r} has {counted(count, total, 'labels')} of data.train"
        yield finding("labels.balance", "data.train", what)
    few = {label: n for label, n in learnt.items() if n < FEWEST}
    if few:
        shown = ", ".join(f"{label!r} ({n})" for label, n in list(few.items())[:5])
        what = f"{len(few):,} of {len(learnt):,} labels have fewer than {FEWEST} examples"
        rows = train.sides[-1].values
        n = next(n for n, row in enumerate(rows) if not few.keys().isdisjoint(row))
        word = next(w for w, label in enumerate(rows[n]) if label in few)
        yield finding("labels.balance", train.word_place(n, word), what, shown)


def _conflict(train: Part) -> Iterator[Finding]:
    first: dict[str, int] = {}
    side, labels = train.sides[0], train.sides[-1].values
    odd = []
    for n, line in enumerate(side.lines):
        before = first.setdefault(line, n)
        if labels[before] != labels[n]:
            odd.append(n)
    if len(odd) > max(2, CONFLICT * len(train)):
        n = odd[0]
        here, there = (", ".join(labels[k]) for k in (n, first[side.lines[n]]))
        what = (
            f"{here!r} here, {there!r} at {side.place(first[side.lines[n]])}: the same text with "
            f"another label, {train.counted(len(odd))}"
        )
        yield finding("labels.conflict", side.place(n), what, side.lines[n])


def _unseen(part: Part, learnt: Iterable[str], rule: str, *, base: bool) -> Iterator[Finding]:
    """`base` says that the labels are those of another run."""
    new = _count(part).keys() - set(learnt)
    if new:
        n = next(n for n, row in enumerate(part.sides[-1].values) if not new.isdisjoint(row))
        shown, more = ", ".join(map(repr, sorted(new)[:5])), "…" * (len(new) > 5)
        one = f"the label {shown} was" if len(new) == 1 else f"the labels {shown}{more} were"
        what = f"{one} never seen {BASE if base else TRAINING}"
        near = misspelt.nearest(sorted(new)[0], [*learnt]) if len(new) == 1 else ""
        what += f"; is {near!r} meant?" * bool(near)
        word = next(w for w, label in enumerate(part.sides[-1].values[n]) if label in new)
        place, line = part.word_place(n, word), part.sides[0].lines[n]
        if base and part.name == "train":
            yield finding("labels.foreign", place, what, line)  # whatever the rule is
        else:
            severity: Severity = "error" if rule == "refuse" else "warning"
            yield finding("labels.unseen", place, what, line, severity)


def _drift(key: str, learnt: Counter[str], held: Counter[str]) -> Iterator[Finding]:
    totals = [sum(counts.values()) for counts in (learnt, held)]
    if min(totals) < 200:
        return
    gaps = {name: held[name] / totals[1] - learnt[name] / totals[0] for name in learnt | held}
    if sum(map(abs, gaps.values())) / 2 > DRIFT:
        name = max(gaps, key=lambda name: abs(gaps[name]))
        what = (
            f"{name!r} has {held[name] / totals[1]:.0%} of the labels of {key}, but "
            f"{learnt[name] / totals[0]:.0%} of those of data.train"
        )
        yield finding("labels.drift", key, what)
