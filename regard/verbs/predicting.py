"""Verbs that say something of each input: predict, score."""

from pathlib import Path
from typing import Any, Literal

from tyro.conf import Positional

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
    load,
    say,
    unfinished_key,
)
from regard.verbs.outputs import Header
from regard.verbs.sources import Format, Source, put, sources


def predict(
    run: Positional[Folder],
    file: Positional[Maybe[str]] = None,
    *,
    to: Maybe[Path] = None,
    ray: Maybe[str] = None,
    column: Maybe[str] = None,
    input_format: Format = "auto",
    delimiter: str = "auto",
    header: Header = "auto",
    split: Flag = False,
    search: Maybe[Search] = None,
    beams: Maybe[int] = None,
    nbest: Maybe[int] = None,
    length_penalty: Maybe[float] = None,
    language_model: Maybe[str] = None,
    weight: Maybe[float] = None,
    bonus: Maybe[float] = None,
    min_length: Maybe[int] = None,
    temperature: Maybe[float] = None,
    top_k: Maybe[int] = None,
    top_p: Maybe[float] = None,
    min_p: Maybe[float] = None,
    repetition_penalty: Maybe[float] = None,
    seed: Maybe[int] = None,
    stop: tuple[str, ...] = (),
    stream: Flag = False,
    next: Maybe[int] = None,
    top: Maybe[int] = None,
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
    """Predict for a text, for each line of a file or of standard input, or for each row of a table.

    One line out for each line in; of a folder of pictures, each with its path. A table (TSV, CSV,
    JSONL) comes out as it came in, with a column added: label, tags, translation, continuation, or
    predicted_label where that is there already. Of a folder of files, a file for each.

    Examples:
      regard predict runs/mine "a dog runs ."
      echo "a dog runs ." | regard predict runs/mine
      regard predict runs/mine reviews.csv --column comment > answers.csv
      cat reviews.jsonl | regard predict runs/mine - --input-format jsonl
      regard predict runs/entities letters.txt --split --format jsonl
      regard predict runs/mine input.txt --beams 10 --nbest 3 --format jsonl
      regard predict runs/mine input.txt --search sample --top-p 0.9 --seed 7
      regard predict runs/spelling words.txt --choices /usr/share/dict/words
      echo "the time" | regard predict runs/language-model --length 300
      regard predict runs/language-model "The film is" --stream --stop . --temperature 0.7
      regard predict runs/language-model "I went to the climbing gym and I" --next 10
      regard predict runs/imdb-mlm "this movie was [MASK] ." --top 10
      regard predict runs/chat "What is 2 + 3?"
      regard predict runs/etth1-linear series.csv > forecast.csv
      regard predict runs/mine shards/ --to predicted/
      regard predict runs/mine shards/ --to predicted/ --ray h1:6379
      regard predict runs/mnist-vit digit.png
      regard predict runs/speech hello.wav --beams 16 --language-model runs/letters --json

    Args:
        file: A text, or a file, UTF-8, plain or gzip; otherwise, and for -, standard input, where a
            run that answers keeps what was said if somebody types it (an empty line begins anew). A
            forecast reads all of a CSV file as one input and writes CSV, or JSON: the rows that
            follow, with their times and the ends of their intervals. Or a folder of such files.
        to: The folder of what is made of a folder: files of the same names, each whole or not
            there; those that are there are not made again. Otherwise all goes to stdout.
        ray: Predict for a folder's files on the Ray cluster at this address: auto, local, or
            HOST:6379. All its machines must see the same folders under the same paths.
        column: The column of a table that is read: its name, or its number, from 1; otherwise that
            of the run's own data, or the only one that holds texts.
        input_format: What is read: text, a line each, or a table (conll: a word a line, for runs
            that tag); auto goes by the file's suffix, or its tabs.
        delimiter: What stands between columns: tab, comma, semicolon, pipe or a character.
        header: Whether a table begins with the names of its columns; auto finds out.
        split: Part punctuation from words before they are tagged (“Paris, 3.5” is Paris , 3 . 5).
            Text shows word/TAG, tables have a column more for the words, JSONL has offsets.
        search: How outputs are found, if not as the recipe says.
        beams: Hypotheses that beam search keeps.
        nbest: How many of them, or how many samples, are given (with --format jsonl).
        length_penalty: Exponent of the length by which a score is divided.
        language_model: A run that a CTC search asks how texts go on (with --beams above 1).
        weight: Of its log-probability.
        bonus: Added for each token that a CTC search writes.
        min_length: Fewest tokens of an output; the prompt of a language model is no part of it.
        temperature: Above 1 samples more freely, below 1 more safely.
        top_k: Sample among this many tokens; 0 for all.
        top_p: Sample among the likeliest tokens that have this probability together.
        min_p: Sample among tokens with at least this fraction of the likeliest one's probability.
        repetition_penalty: Above 1, tokens that the text has already become less probable.
        seed: Another seed, other samples.
        stop: Strings before the first of which the output of a language model ends.
        stream: Show what a language model writes while it writes; the input stands before it.
        next: So many of the likeliest words after each input, with their probabilities, a line
            each, instead of an output (with --format jsonl one line).
        top: How many words are given for each [MASK] of a masked language model's input.
        prefix: What every output must begin with: a part of it, in its score and length, too.
        choices: A file of all that may be written, one text to a line; none: anything may.
        length: Most tokens of an output, if not as the recipe says; where the input's length
            bounds them, only fewer.
        format: Text (a table stays what it is), or one JSON object a line: scores, tokens,
            probabilities, alignment, status; of a table, its columns, too.
        batch: Sentences at a time; the result does not depend on it. With 1, as on a terminal,
            each line is answered before the next is read.
        quantization: Numbers that CTranslate2, or torch with language models, computes with; int8
            is fast and nearly as good.
        shortlist: Let CTranslate2 choose among the likely words of each batch alone: faster, as
            good, but a sentence's output can depend on those beside it.
        json: The same as --format jsonl.
    """
    from regard.verbs import display, outputs, shards, writing

    add_parts(parts)
    options = given(
        search=search, beams=beams, nbest=nbest,
        length_penalty=length_penalty, min_length=min_length, temperature=temperature,
        top_k=top_k, top_p=top_p, min_p=min_p, repetition_penalty=repetition_penalty,
        seed=seed, length=length, top=top,
        language_model=language_model, weight=weight, bonus=bonus,
    )  # fmt: skip
    detailed = json or format == "jsonl"
    if nbest is not None and nbest > 1 and not detailed:
        raise RecipeError("nbest: text has one line for each input: add --format jsonl")
    [source] = sources([file], input_format, run, "predict")
    opened: Any = {"checkpoint": checkpoint, "device": device}
    opened |= {"engine": engine, "quantization": quantization, "shortlist": shortlist}
    opened |= given(choices=None if choices is None else str(choices))
    if not source.is_folder:
        _refuse_without_folder(source, to=to, ray=ray)
    predictor = load(run, **opened)
    display.notes(predictor)
    if stream or next is not None:
        outputs.refuse_layout(source, column=column, delimiter=delimiter, header=header)
        if stream:
            writing.stream(predictor, source, detailed=detailed, stop=stop, **options)
        else:
            writing.next_words(predictor, source, next or 0, detailed=detailed)
        return
    if source.interactive and predictor.template and not detailed:
        writing.converse(predictor, source, stop=stop, **options)
        return
    if source.interactive:
        batch = 1
    if stop:
        options["stop"] = stop
    options |= {"prefix": prefix, "batch": batch, "align": detailed, "split": split}
    how = outputs.How(
        options=options, detailed=detailed, column=column, delimiter=delimiter, header=header,
        mark=unfinished_key(predictor.unfinished),
    )  # fmt: skip
    if source.path is not None and shards.are(source, predictor):
        given_files = shards.Shards(predictor, source.path, input_format, how, to)
        shards.predict(given_files, opened, ray, source.hint)
        return
    _refuse_without_folder(source, to=to, ray=ray)
    for line in outputs.lines(predictor, source, how):
        put(line)


def score(
    run: Positional[Folder],
    files: Positional[tuple[str, ...]] = (),
    *,
    columns: tuple[str, ...] = (),
    input_format: Format = "auto",
    delimiter: str = "auto",
    header: Header = "auto",
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
      regard score runs/mine "a dog runs ." "ein Hund läuft ."
      regard score runs/mine pairs.csv --columns english german > scored.csv
      regard score runs/language-model text.txt

    Args:
        files: A text file of inputs and one of outputs, as many lines, or for a model that
            reads nothing one of texts alone; or texts; or a table (TSV, CSV, JSONL), which comes
            out as it came in, with columns added; without any, a part of the recipe's data.
        columns: The columns of a table that hold input and output: names, or numbers, from 1;
            otherwise those of the run's own data.
        input_format: What is read: text, a line each, or a table; auto goes by the file's suffix,
            or its tabs.
        delimiter: What stands between columns: tab, comma, semicolon, pipe or a character.
        header: Whether a table begins with the names of its columns; auto finds out.
        part: Which part of the recipe's data, if no files are given.
        format: Columns (log-probability, perplexity, and bits per character for a model that
            reads nothing), or one JSON object a line. Where there is nothing to score, such as a
            sentence without a known tag: "-", or null.
        json: The same as --format jsonl.
    """
    from regard.verbs import display, outputs

    add_parts(parts)
    detailed = json or format == "jsonl"
    found = sources(files, input_format, run, "score")
    predictor = load(run, checkpoint=checkpoint, device=device)
    display.notes(predictor)
    task, mark = predictor.task, unfinished_key(predictor.unfinished)
    totals: list[dict[str, Any]] = []
    if len(found) == 1 and found[0].is_table and not task.reads_files:
        how: Any = {"columns": columns, "delimiter": delimiter, "header": header}
        with outputs.table(predictor, found[0], **how) as table:
            from regard import tabular
            from regard.data.extended import encoded

            each: Any = {"details": detailed, "tell": display.warn, "mark": mark}
            for line in tabular.score(predictor, table, each=totals.append, **each):
                put(encoded(line))
        display.likelihood(totals)
        return
    for source in found:
        outputs.refuse_layout(source, columns=columns, delimiter=delimiter, header=header)
    if found and len(found) != len(predictor.sides):
        wanted = " ".join(predictor.sides).upper()
        raise RecipeError(f"score: give the files {wanted}, or none to score the {part} part")
    texts = [list(source.inputs(task)) for source in found] or task.references(part)
    if found and len(set(map(len, texts))) > 1:
        counts = (f"{s.name} has {len(text):,} lines" for s, text in zip(found, texts, strict=True))
        raise UserError(", ".join(counts) + ": as many are wanted of each")
    for number, result in enumerate(predictor.score(*texts), 1):
        status = result.get("status", "ok")
        if found:
            found[0].warn(number, status)
        numbers = [result[name] for name in display.LIKELIHOOD if name in result]
        plain = "\t".join("-" if value is None else f"{value:.4f}" for value in numbers)
        say(result | mark if detailed else plain)
        totals.append(result)
    if not found:
        display.statuses([result.get("status", "ok") for result in totals])
    display.likelihood(totals)


def _refuse_without_folder(source: Source, **given: Any) -> None:
    """Options for folders of shards are for these."""
    for name, value in given.items():
        if value is not None:
            raise RecipeError(f"{name}: {source.name} is no folder of files that hold inputs")
