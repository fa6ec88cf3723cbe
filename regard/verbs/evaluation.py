"""What stands behind the scores of a run, by what its task declares that it can do."""

import math
from collections.abc import Sequence
from typing import Any

from regard.decoding.both_ways import ReadsBothWays
from regard.decoding.filling import Recovers
from regard.decoding.matching import Retrieves
from regard.evaluated import Evaluated
from regard.front import Predictor, answers
from regard.metrics import translation
from regard.metrics.details import (
    Table,
    by_label,
    confident_errors,
    confused,
    short,
    worst,
)
from regard.metrics.labels import UNKNOWN, counted_spans, known, marks_spans
from regard.tasks import Continues, Grades, Prediction, Windowed


def details(found: Evaluated) -> list[Table]:
    """Tables of a part, given what was predicted for it."""
    predictor, part, outputs = found.predictor, found.part, found.predictions
    task = predictor.task
    if isinstance(task, Windowed):
        return _windows(predictor, part)
    if isinstance(task, Continues):
        return [*_likelihood(found), *(_answered(found) if outputs else [])]
    if isinstance(task, Recovers | ReadsBothWays):
        return _recovered(task.references(part)[0], outputs)
    if isinstance(task, Retrieves):
        sides = [[*side] for side in predictor.task.references(part)]
        return _retrieved(sides[0], sides[1], outputs, task.directions)
    if isinstance(task, Grades):
        sources, right = answers(task, part)
        return _written(sources, right, outputs)
    texts, true = task.references(part)
    if outputs and any(output.probabilities for output in outputs):
        return _labelled(texts, true, outputs, [*task.fields.values()][-1])
    if outputs and any(output.log_probs for output in outputs):
        return _tagged(texts, true, outputs)
    return []


def _labelled(
    texts: Sequence[str], true: Sequence[str], outputs: Sequence[Prediction], field: Any
) -> list[Table]:
    """Labels of texts, one or several of each."""
    said = [output.text for output in outputs]
    pairs = [
        (output.tokens, field.parse(label)) for output, label in zip(outputs, true, strict=True)
    ]
    sure = [math.exp(min(0.0, output.score)) if output.tokens else 0.0 for output in outputs]
    tables = [by_label(pairs)]
    if all(len(labels) == 1 for _, labels in pairs):
        there = [(one[0], other[0]) for one, other in pairs if one]  # an empty text has none
        tables.append(confused(there))
    return [*tables, confident_errors(texts, said, true, sure)]


def _tagged(
    texts: Sequence[str], true: Sequence[str], outputs: Sequence[Prediction]
) -> list[Table]:
    """Tags of words; where they mark spans, whole spans by their type."""
    said, right = [output.tokens for output in outputs], [line.split() for line in true]
    pairs = known(said, right)
    names = {name for pair in pairs for name in pair}
    if marks_spans(sorted(names)):
        mine, there = counted_spans(said, right)
        kinds = [([s[1]] * (s in mine), [s[1]] * (s in there)) for s in sorted(mine | there)]
        table = by_label(kinds)
    else:
        table = by_label([([one], [other]) for one, other in pairs])
    words = [
        (word, one, other, chance, short(text))
        for text, output, tags in zip(texts, outputs, right, strict=True)
        for word, one, chance, other in zip(
            output.source, output.tokens, output.log_probs, tags, strict=True
        )
        if other != UNKNOWN
    ]
    columns = list(zip(*words, strict=True)) or [()] * 5
    contexts = [f"{word}: {text}" for word, text in zip(columns[0], columns[4], strict=True)]
    sure = [math.exp(min(0.0, chance)) for chance in columns[3]]
    return [table, confused(pairs), confident_errors(contexts, columns[1], columns[2], sure)]


def _written(
    sources: Sequence[str], right: Sequence[Sequence[str]], outputs: Sequence[Prediction]
) -> list[Table]:
    """The sentences that are farthest from their reference."""
    said = [output.text for output in outputs]
    values = [
        translation([one], [list(texts)], metrics=["chrf"])["chrf"].value
        for one, texts in zip(said, right, strict=True)
    ]
    texts = list(zip(sources, (each[0] for each in right), said, strict=True))
    wrong = [n for n, (one, all_) in enumerate(zip(said, right, strict=True)) if one not in all_]
    header = ("chrF", "line", "source", "reference", "output")
    note = f"{len(wrong):,} of {len(said):,} are not exactly a reference."
    return [worst("Worst outputs by chrF", header, values, texts, higher=True, note=note)]


def _retrieved(
    sources: Sequence[str],
    right: Sequence[str],
    outputs: Sequence[Prediction],
    ways: tuple[str, str],
) -> list[Table]:
    """The examples of which the right answers stand farthest behind."""
    places = [max(max(output.ranks[way]) for way in ways) for output in outputs]
    texts = [
        (source, true, output.text)
        for source, true, output in zip(sources, right, outputs, strict=True)
    ]
    first = sum(place == 1 for place in places)
    header = ("rank", "line", "source", "right", "nearest")
    note = f"Of {first:,} of {len(places):,} all are found first, both ways."
    values = [*map(float, places)]
    return [worst("Worst ranks", header, values, texts, higher=False, note=note)]


def _likelihood(found: Evaluated) -> list[Table]:
    """The texts, or the lines of a running text, that surprise a language model most."""
    sides = found.predictor.task.references(found.part)
    tables = []
    if len(sides[0]) > 1:
        scored = [(n, each) for n, each in enumerate(found.lines) if each["log_probs"]]
        values = [-each["log_prob"] / len(each["log_probs"]) for _, each in scored]
        rows = [tuple(side[n] for side in sides) for n, _ in scored]
        names = found.predictor.sides if len(sides) > 1 else ("text",)
        header = ("nll per token", "line", *names)
        tables.append(worst("Most surprising lines", header, values, rows, higher=False))
    chances, contexts = list[float](), list[tuple[str, ...]]()
    for text in found.lines:
        pieces = text["tokens"]
        for n, (piece, chance) in enumerate(zip(pieces, text["log_probs"], strict=True)):
            chances.append(-chance)
            contexts.append((piece, "".join(pieces[max(0, n - 20) : n])))
    columns = ("nll", "token number", "token", "after")
    tables.append(worst("Most surprising tokens", columns, chances, contexts, higher=False))
    return tables


def _answered(found: Evaluated) -> list[Table]:
    """The answers that are farthest from those of the data."""
    prompts, right = found.predictor.task.references(found.part)
    return _written(prompts, [[answer] for answer in right], found.predictions)


def _recovered(texts: Sequence[str], outputs: Sequence[Prediction]) -> list[Table]:
    """The texts whose hidden tokens surprise a model most, and these tokens."""
    full = [n for n, output in enumerate(outputs) if output.log_probs]
    values = [-math.fsum(outputs[n].log_probs) / len(outputs[n].log_probs) for n in full]
    rows = [(texts[n],) for n in full]
    header = ("nll per token", "line", "text")
    hidden = [
        (-chance, (true, said, texts[n]))
        for n in full
        for true, said, chance in zip(
            outputs[n].source, outputs[n].tokens, outputs[n].log_probs, strict=True
        )
    ]
    columns = ("nll", "token number", "hidden", "predicted", "text")
    return [
        worst("Most surprising texts", header, values, rows, higher=False),
        worst(
            "Most surprising tokens",
            columns,
            [value for value, _ in hidden],
            [row for _, row in hidden],
            higher=False,
        ),
    ]


def _windows(predictor: Predictor, part: str) -> list[Table]:
    """The error at each step of a horizon, and the windows with the largest errors."""
    task: Any = predictor.task
    how = task.config.intervals
    found = task.judge(predictor.model, part, task.window.horizon, paths=how.paths)
    error = (found.future - found.mean).double()
    inside = (found.distance().abs() <= how.reach).double()
    steps = error.shape[1]
    places = sorted({1, *(max(1, steps * n // 8) for n in range(1, 9))})
    rows = tuple(
        (
            str(step),
            f"{float(error[:, step - 1].square().mean()):.4f}",
            f"{float(error[:, step - 1].abs().mean()):.4f}",
            f"{100 * float(inside[:, step - 1].mean()):.1f}",
        )
        for step in places
    )
    covered = f"covered (%), said {100 * how.level:g}"
    note = "In standardised values."
    ahead = Table(title="By step", header=("step", "MSE", "MAE", covered), rows=rows, note=note)
    squares = error.square().mean((1, 2)).tolist()
    starts = task.stored.starts(part, steps)
    texts = [(str(int(start) + 1),) for start in starts]
    header = ("MSE", "window", "first row of its future")
    return [ahead, worst("Worst windows", header, squares, texts, higher=False, note=note)]
