"""Verbs that use a model: evaluate, compare, predict, score."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from tyro.conf import Positional

from regard.console import streams
from regard.errors import RecipeError, UserError
from regard.verbs.common import (
    Checkpoint,
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
    given,
    inputs,
    load,
    one_line,
    own_process,
    say,
)

WARNED = {
    "cut": "too long to be read: cut",
    "unknown": "has what the model has never seen: read as unknown",
}
"""What is reported of an input, by its prediction's status."""


def evaluate(
    run: Positional[Folder],
    *,
    part: Part = "test",
    search: Maybe[Search] = None,
    beams: Maybe[int] = None,
    length_penalty: Maybe[float] = None,
    choices: Maybe[Path] = None,
    baseline: Maybe[Path] = None,
    checkpoint: Checkpoint = "final",
    batch: int = 64,
    device: Device = "cpu",
    engine: Engine = "auto",
    quantization: Quantization = "float32",
    shortlist: Flag = False,
    output: Maybe[Path] = None,
    parts: Parts = None,
    json: Flag = False,
) -> None:
    """Score a run on the part of the data that it has not seen.

    Examples:
      regard evaluate runs/mine
      regard evaluate runs/mine --part validation --beams 10 --output hypotheses.txt
      regard evaluate runs/mine --baseline runs/other

    Args:
        part: Which part of the recipe's data.
        search: How outputs are found, if not as the recipe says.
        beams: Hypotheses that beam search keeps.
        length_penalty: Exponent of the length by which a score is divided.
        choices: A file of all that may be written, one text to a line; none: anything may.
        baseline: Another run: is the difference more than chance? (paired bootstrap)
        batch: Sentences at a time; the result does not depend on it.
        quantization: Numbers that CTranslate2 computes with; int8 is fast and nearly as good.
        shortlist: Let CTranslate2 choose among the likely words of each batch alone: faster, as
            good, but a sentence's output can depend on those beside it.
        output: A file for the outputs, one line each.
        json: Scores as JSON on stdout.
    """
    from regard.verbs import display

    add_parts(parts)
    if output is not None:
        streams.check_place(output)
    options = given(search=search, beams=beams, length_penalty=length_penalty)
    opened: Any = {"checkpoint": checkpoint, "device": device}
    opened |= {"engine": engine, "quantization": quantization, "shortlist": shortlist}
    predictor = load(run, **opened, **given(choices=choices))
    other = baseline and load(baseline, **opened, **given(choices=choices))
    if other:
        predictor.check_comparable(other)
    for each in (predictor, other) if other else (predictor,):
        for line in each.notes:
            display.warn(f"{each.run.folder}: {line}")
    with display.waiting(f"predicting the {part} part"):
        scores, predictions = predictor.evaluate(part, batch=batch, **options)
    _tell([prediction.status for prediction in predictions])
    if output is not None and not predictions:
        display.warn(f"{output} is not written: nothing is predicted to score this task")
    elif output is not None:
        texts = (f"{one_line(predictor.task, p.text)}\n" for p in predictions)
        streams.put(output, "".join(texts).encode())
    comparison = None
    if other:
        with display.waiting(f"predicting the {part} part with {baseline}"):
            comparison = predictor.compare(predictions, other, part, batch=batch, **options)
    display.scores(run, part, scores, comparison, as_json=json)


def compare(
    runs: Positional[tuple[Path, ...]],
    *,
    part: Part = "test",
    picture: Maybe[Path] = None,
    samples: int = 1000,
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
        picture: A file for a picture, .png or .svg: learning curves, quality, quality by length,
            for language models how far back gradients reach.
        samples: How often the part is drawn anew (bootstrap) for the intervals.
        batch: Sentences at a time; the result does not depend on it.
        json: All of it as JSON on stdout.
    """
    from regard import compare as comparing
    from regard.plots.drawing import check_picture
    from regard.verbs import display

    add_parts(parts)
    if picture is not None:
        check_picture(picture)
    own_process()
    opened: Any = {"checkpoint": checkpoint, "device": device, "engine": engine}
    with display.waiting(f"predicting the {part} part with {len(runs)} runs"):
        found = comparing.compare(runs, part, batch=batch, samples=samples, **opened)
    if picture is not None:
        found.picture(picture)
    if json:
        say(found.as_dict())
    else:
        display.columns(["", *(entry.run for entry in found.runs)], found.rows(), found.notes())


def predict(
    run: Positional[Folder],
    file: Positional[Maybe[Path]] = None,
    *,
    search: Maybe[Search] = None,
    beams: Maybe[int] = None,
    nbest: Maybe[int] = None,
    length_penalty: Maybe[float] = None,
    min_length: Maybe[int] = None,
    temperature: Maybe[float] = None,
    top_k: Maybe[int] = None,
    top_p: Maybe[float] = None,
    seed: Maybe[int] = None,
    prefix: Maybe[str] = None,
    choices: Maybe[Path] = None,
    length: Maybe[int] = None,
    format: Literal["text", "jsonl"] = "text",
    checkpoint: Checkpoint = "final",
    batch: int = 64,
    device: Device = "cpu",
    engine: Engine = "auto",
    quantization: Quantization = "float32",
    shortlist: Flag = False,
    parts: Parts = None,
    json: Flag = False,
) -> None:
    """Predict for each line of a file, or of standard input: one line out for each line in.

    Examples:
      echo "a dog runs ." | regard predict runs/mine
      regard predict runs/mine input.txt --beams 10 --nbest 3 --format jsonl
      regard predict runs/mine input.txt --search sample --top-p 0.9 --seed 7
      regard predict runs/spelling words.txt --choices /usr/share/dict/words
      echo "the time" | regard predict runs/language-model --length 300
      regard predict runs/etth1-linear series.csv > forecast.csv

    Args:
        file: A text file, UTF-8; standard input otherwise. A forecast reads all of a CSV file as
            one input and writes CSV: the rows that follow its end.
        search: How outputs are found, if not as the recipe says.
        beams: Hypotheses that beam search keeps.
        nbest: How many of them, or how many samples, are given (with --format jsonl).
        length_penalty: Exponent of the length by which a score is divided.
        min_length: Fewest tokens of an output; the prompt of a language model is no part of it.
        temperature: Above 1 samples more freely, below 1 more safely.
        top_k: Sample among this many tokens; 0 for all.
        top_p: Sample among the likeliest tokens that have this probability together.
        seed: Another seed, other samples.
        prefix: What every output must begin with: a part of it, in its score and length, too.
        choices: A file of all that may be written, one text to a line; none: anything may.
        length: Most tokens of an output, if not as the recipe says; where the input's length
            bounds them, only fewer.
        format: Text alone, or one JSON object a line: scores, tokens, alignment, status.
        batch: Sentences at a time; the result does not depend on it. With 1, as on a terminal,
            each line is answered before the next is read.
        quantization: Numbers that CTranslate2 computes with; int8 is fast and nearly as good.
        shortlist: Let CTranslate2 choose among the likely words of each batch alone: faster, as
            good, but a sentence's output can depend on those beside it.
        json: The same as --format jsonl.
    """
    from regard.verbs import display

    add_parts(parts)
    options = given(
        search=search, beams=beams, nbest=nbest,
        length_penalty=length_penalty, min_length=min_length, temperature=temperature,
        top_k=top_k, top_p=top_p, seed=seed, length=length,
    )  # fmt: skip
    detailed = json or format == "jsonl"
    if nbest is not None and nbest > 1 and not detailed:
        raise RecipeError("nbest: text has one line for each input: add --format jsonl")
    opened: Any = {"checkpoint": checkpoint, "device": device}
    opened |= {"engine": engine, "quantization": quantization, "shortlist": shortlist}
    predictor = load(run, **opened, **given(choices=choices))
    for line in predictor.notes:
        display.warn(line)
    if file is None and sys.stdin.isatty():
        batch = 1
    stream = predictor.stream(
        inputs(predictor.task, file),
        prefix=prefix, details=detailed, align=detailed, batch=batch, **options,
    )  # fmt: skip
    for number, prediction in enumerate(stream, 1):
        if prediction.status in WARNED:
            display.warn(f"{file or streams.INPUT}:{number}: {WARNED[prediction.status]}")
        say(prediction.as_dict() if detailed else one_line(predictor.task, prediction.text))


def score(
    run: Positional[Folder],
    files: Positional[tuple[Path, ...]] = (),
    *,
    part: Part = "test",
    format: Literal["text", "jsonl"] = "text",
    checkpoint: Checkpoint = "final",
    device: Device = "cpu",
    parts: Parts = None,
    json: Flag = False,
) -> None:
    """How likely the model finds given texts: log-probability and perplexity of each.

    Examples:
      regard score runs/mine
      regard score runs/mine source.txt target.txt --format jsonl
      regard score runs/language-model text.txt

    Args:
        files: A text file of inputs and one of outputs, as many lines, or for a model that
            reads nothing one of texts alone; without files, a part of the recipe's data.
        part: Which part of the recipe's data, if no files are given.
        format: Columns (log-probability, perplexity, and bits per character for a model that
            reads nothing), or one JSON object a line. Where there is nothing to score, such as a
            sentence without a known tag: "-", or null.
        json: The same as --format jsonl.
    """
    from regard.verbs import display

    add_parts(parts)
    predictor = load(run, checkpoint=checkpoint, device=device)
    if files and len(files) != len(predictor.sides):
        wanted = " ".join(predictor.sides).upper()
        raise RecipeError(f"score: give the files {wanted}, or none to score the {part} part")
    task = predictor.task
    texts = [list(inputs(task, file)) for file in files] or task.references(part)
    if files and len(set(map(len, texts))) > 1:
        counts = (
            f"{file} has {len(text):,} lines" for file, text in zip(files, texts, strict=True)
        )
        raise UserError(", ".join(counts) + ": as many are wanted of each")
    results = predictor.score(*texts)
    for number, result in enumerate(results, 1):
        status = result.get("status", "ok")
        if files and status in WARNED:
            display.warn(f"{files[0]}:{number}: {WARNED[status]}")
        columns = [result[name] for name in display.LIKELIHOOD if name in result]
        plain = "\t".join("-" if value is None else f"{value:.4f}" for value in columns)
        say(result if json or format == "jsonl" else plain)
    if not files:
        _tell([result.get("status", "ok") for result in results])
    display.likelihood(results)


def _tell(statuses: Sequence[str]) -> None:
    """Say of how many inputs not all could be read."""
    from regard.verbs import display

    for status, what in WARNED.items():
        if count := statuses.count(status):
            display.warn(f"{count:,} of {len(statuses):,} inputs: {what}")
