"""What stands behind a score: figures of each label, what is taken for what, the worst outputs."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from regard.metrics.labels import confusion

WORST = 10
"""Outputs that are shown."""
WIDEST = 12
"""Labels of a confusion matrix on a terminal."""
LONGEST = 100
"""Characters of a text that are shown."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows under a header; what is said below it."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    heat: bool = False
    """Whether cells are counts, whose rows are coloured by their share."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def short(text: str) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


def by_label(pairs: Sequence[tuple[Sequence[Hashable], Sequence[Hashable]]]) -> Table:
    """Precision, recall, F₁ and support of each label, from (predicted, true) sets of labels."""
    said, true, both = Counter[Hashable](), Counter[Hashable](), Counter[Hashable]()
    for prediction, reference in pairs:
        said.update({*prediction})
        true.update({*reference})
        both.update({*prediction} & {*reference})
    names = sorted({*said, *true}, key=lambda name: (-true[name], str(name)))
    rows = tuple(
        (
            str(name),
            _share(both[name], said[name]),
            _share(both[name], true[name]),
            _share(2 * both[name], said[name] + true[name]),
            f"{true[name]:,}",
        )
        for name in names
    )
    note = "In per cent. –: never predicted (precision), or not in this part (recall)."
    return Table(
        title="By label",
        header=("label", "precision", "recall", "F1", "support"),
        rows=rows,
        note=note,
    )


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}" if whole else "–"


def confused(pairs: Sequence[tuple[str, str]], most: int | None = WIDEST) -> Table:
    """A row for each true label, a column for each predicted one; of many the most frequent."""
    counts = Counter(true for _, true in pairs) + Counter(said for said, _ in pairs)
    names = sorted(name for name, _ in counts.most_common(most))
    chosen = [pair for pair in pairs if {*pair} <= {*names}]
    table = confusion(chosen, names)
    rows = tuple((name, *(f"{n:,}" for n in row)) for name, row in zip(names, table, strict=True))
    left = len(pairs) - len(chosen)
    note = f"The {len(names)} most frequent labels; {left:,} others are left out." if left else ""
    return Table(
        title="Confusion: true (rows) and predicted (columns)",
        header=("", *names),
        rows=rows,
        note=note,
        heat=True,
    )


def confident_errors(
    texts: Sequence[str], said: Sequence[str], true: Sequence[str], sure: Sequence[float]
) -> Table:
    """The wrong outputs that a model was surest of, with their text."""
    wrong = [n for n in range(len(texts)) if said[n] != true[n]]
    wrong.sort(key=lambda n: -sure[n])
    rows = tuple(
        (f"{100 * sure[n]:.1f}", short(said[n]), short(true[n]), str(n + 1), short(texts[n]))
        for n in wrong[:WORST]
    )
    return Table(
        title="Most confident errors",
        header=("sure (%)", "predicted", "true", "line", "text"),
        rows=rows,
        note=f"{len(wrong):,} of {len(texts):,} are wrong.",
    )


def worst(
    title: str,
    header: tuple[str, ...],
    values: Sequence[float],
    texts: Sequence[tuple[str, ...]],
    *,
    higher: bool,
    note: str = "",
) -> Table:
    """The lines with the worst values."""
    order = sorted(range(len(values)), key=lambda n: values[n] if higher else -values[n])
    rows = tuple((f"{values[n]:.4g}", str(n + 1), *map(short, texts[n])) for n in order[:WORST])
    return Table(title=title, header=header, rows=rows, note=note)
