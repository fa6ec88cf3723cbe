"""Verbs that use a model: evaluate, compare."""

from pathlib import Path
from typing import Any

from tyro.conf import Positional

from regard.console import streams
from regard.verbs.common import (
    Checkpoint,
    Data,
    Device,
    Engine,
    Flag,
    Folder,
    Maybe,
    Part,
    Parts,
    Quantization,
    Search,
    add_parts,
    check_data,
    given,
    load,
    one_line,
    own_process,
    say,
    unfinished_key,
)


def evaluate(
    run: Positional[Folder],
    *,
    part: Part = "test",
    data: Data = (),
    search: Maybe[Search] = None,
    beams: Maybe[int] = None,
    length_penalty: Maybe[float] = None,
    language_model: Maybe[str] = None,
    weight: Maybe[float] = None,
    bonus: Maybe[float] = None,
    choices: Maybe[Path] = None,
    baseline: Maybe[Path] = None,
    checkpoint: Checkpoint = "final",
    batch: int = 64,
    device: Device = "cpu",
    engine: Engine = "auto",
    quantization: Quantization = "float32",
    shortlist: Flag = False,
    samples: int = 1000,
    output: Maybe[Path] = None,
    report: Maybe[Path] = None,
    parts: Parts = None,
    json: Flag = False,
) -> None:
    """Score a run on the part of the data that it has not seen.

    Examples:
      regard evaluate runs/mine
      regard evaluate runs/mine --part validation --beams 10 --output hypotheses.txt
      regard evaluate runs/mine --baseline runs/other
      regard evaluate runs/mine --report report.html
      regard evaluate runs/gpt2 --data texts.txt

    Args:
        part: Which part of the recipe's data.
        data: Files that stand for the test part, in the form that the recipe reads: one table, or a
            plain file for each side.
        search: How outputs are found, if not as the recipe says.
        beams: Hypotheses that beam search keeps.
        length_penalty: Exponent of the length by which a score is divided.
        language_model: A run that a CTC search asks how texts go on (with --beams above 1).
        weight: Of its log-probability.
        bonus: Added for each token that a CTC search writes.
        choices: A file of all that may be written, one text to a line; none: anything may.
        baseline: Another run: is the difference more than chance? (paired bootstrap)
        batch: Sentences at a time; the result does not depend on it.
        quantization: Numbers that CTranslate2, or torch with language models, computes with; int8
            is fast and nearly as good.
        shortlist: Let CTranslate2 choose among the likely words of each batch alone: faster, as
            good, but a sentence's output can depend on those beside it.
        samples: How often the part is drawn anew (bootstrap) for the 95 % intervals; 0: none.
        output: A file for the outputs, one line each.
        report: A file for a page of HTML: scores, figures of each label, confusion, worst outputs.
        json: Scores as JSON on stdout.
    """
    from regard import evaluated
    from regard.verbs import display, evaluation, report as reporting

    add_parts(parts)
    for place in (output, report):
        if place is not None:
            streams.check_place(place)
    options = given(
        search=search, beams=beams, length_penalty=length_penalty,
        language_model=language_model, weight=weight, bonus=bonus,
    )  # fmt: skip
    check_data(data, part)
    opened: Any = {"checkpoint": checkpoint, "device": device, "data": data}
    opened |= {"engine": engine, "quantization": quantization, "shortlist": shortlist}
    predictor = load(run, **opened, **given(choices=choices))
    other = baseline and load(baseline, **opened, **given(choices=choices))
    if other:
        evaluated.check_pair(predictor, other, part)
    for each in (predictor, other) if other else (predictor,):
        for line in each.notes:
            display.warn(f"{each.run.folder}: {line}")
        display.unfinished(each.unfinished)
    with display.waiting(f"predicting the {part} part"):
        found = evaluated.evaluate(predictor, part, samples=samples, batch=batch, **options)
    predictions = found.predictions
    display.statuses([prediction.status for prediction in predictions])
    if output is not None and not predictions:
        display.warn(f"{output} is not written: nothing is predicted to score this task")
    elif output is not None:
        texts = (f"{one_line(predictor.task, p.text)}\n" for p in predictions)
        streams.put(output, "".join(texts).encode())
    comparison, differences = None, None
    if other:
        with display.waiting(f"predicting the {part} part with {baseline}"):
            yours = evaluated.evaluate(other, part, batch=batch, **options)
            comparison, differences = evaluated.beside(found, yours)
    tables = evaluation.details(found)
    if report is not None:
        verdicts = [*(comparison.table().split("\n") if comparison else ())]
        verdicts += map(str, differences or ())
        page = reporting.page(str(run), part, found.scores, tables, verdicts, samples)
        streams.put(report, page.encode())
    mark = unfinished_key(predictor.unfinished) | evaluated.bootstrap(samples)
    shown = found.scores, comparison, differences, tables
    display.scores(run, part, *shown, as_json=json, more=mark)


def compare(
    runs: Positional[tuple[Path, ...]],
    *,
    part: Part = "test",
    data: Data = (),
    picture: Maybe[Path] = None,
    samples: int = 1000,
    unfold: Flag = False,
    checkpoint: Checkpoint = "final",
    batch: int = 64,
    device: Device = "cpu",
    engine: Engine = "auto",
    parts: Parts = None,
    json: Flag = False,
) -> None:
    """Runs side by side: quality with 95 % intervals, by length, size, speed, cost, learning.

    Examples:
      regard compare runs/lstm runs/transformer
      regard compare runs/a runs/b runs/c --part validation --picture compared.svg

    Args:
        runs: The runs' folders, at least two; all of one task and on the same data.
        part: Which part of the data.
        data: Files that stand for the test part of all of them.
        picture: A file for a picture, .png or .svg: learning curves, quality, quality by length,
            for language models how far back gradients reach.
        samples: How often the part is drawn anew (bootstrap) for the intervals.
        unfold: Show each seed of a recipe by itself, and not their mean and deviation.
        batch: Sentences at a time; the result does not depend on it.
        json: All of it as JSON on stdout.
    """
    from regard.compare import compare as compare_runs
    from regard.plots.drawing import check_picture
    from regard.verbs import display

    add_parts(parts)
    if picture is not None:
        check_picture(picture)
    own_process()
    check_data(data, part)
    opened: Any = {"checkpoint": checkpoint, "device": device, "engine": engine, "data": data}
    with display.waiting(f"predicting the {part} part with {len(runs)} runs"):
        found = compare_runs(runs, part, batch=batch, samples=samples, unfold=unfold, **opened)
    for entry in found.runs:
        display.unfinished(entry.unfinished)
    if picture is not None:
        found.picture(picture)
    if json:
        say(found.as_dict())
    else:
        best = [*found.verdict.lines(), ""] if found.verdict else []
        display.columns(found.header(), found.rows(), [*best, *found.notes()])
