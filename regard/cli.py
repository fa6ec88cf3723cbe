"""The command line: one verb per function. PyTorch is imported only when a verb needs it."""

import difflib
import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from inspect import cleandoc
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import tyro
from tyro.conf import Positional, arg

from regard import __version__
from regard.errors import RecipeError, UserError

app = tyro.extras.SubcommandApp()
VERBS: dict[str, Callable[..., None]] = {}
STYLE = (
    tyro.conf.OmitArgPrefixes,
    tyro.conf.FlagCreatePairsOff,
    tyro.conf.DisallowNone,
    tyro.conf.PositionalMetavarFromFieldName,
)
INTERRUPTED = 130
Value = TypeVar("Value")
Maybe = Annotated[Value | None, arg(help_behavior_hint="")]
"""What may be left out; its help says what happens then."""
Override = Annotated[tuple[str, ...], arg(metavar="[KEY=VALUE ...]", help_behavior_hint="")]
Device = Annotated[str, arg(metavar="NAME", help="cpu, cuda, cuda:1, mps or auto")]
Checkpoint = Annotated[
    str, arg(metavar="NAME", help="final, best, last, or the number of an update")
]
AsJson = Annotated[bool, arg(help_behavior_hint="")]
Part = Literal["train", "validation", "test"]
Search = Literal["beam", "greedy", "sample"]
Engine = Literal["auto", "torch", "ctranslate2"]
Quantization = Literal["float32", "int8", "int8_float32", "int16", "float16", "bfloat16"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exit codes: 0 done, 1 failed, 2 wrongly called, 130 interrupted."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        try:
            _run(list(sys.argv[1:] if arguments is None else arguments))
        finally:
            print(end="", flush=True)
    except UserError as error:
        print(f"regard: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, RecipeError) else 1)
    except KeyboardInterrupt:
        print("regard: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        _hush()  # the reader of our output (head, less) has seen enough
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"regard: {where}{error.strerror or error}", file=sys.stderr)
        _hush()
        sys.exit(1)


def _hush() -> None:
    """What could not be written to stdout is not tried again when Python ends."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments: list[str]) -> None:
    """Let the verb's own page and parser answer; the overview where there is no verb."""
    name = arguments[0] if arguments else "--help"
    if name in VERBS:
        page = cleandoc(VERBS[name].__doc__ or "").partition("\n\nArgs:")[0]
        tyro.cli(
            VERBS[name], prog=f"regard {name}", description=page, args=arguments[1:], config=STYLE
        )
    elif name == "--version":
        print(__version__)
    elif name.startswith("-"):
        about = "Sequence models that you can train, look into and ship."
        app.cli(prog="regard", description=about, args=arguments or ["--help"], config=STYLE)
    else:
        near = difflib.get_close_matches(name, VERBS, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(VERBS)}"
        raise RecipeError(f"there is no {name!r}; {hint}")


def verb(function: Callable[..., None]) -> Callable[..., None]:
    """A verb: its parameters are its options, its docstring is its page, with examples."""
    VERBS[function.__name__] = function
    return app.command(function)


@verb
def train(
    recipe: Positional[Maybe[Path]] = None,
    overrides: Positional[Override] = (),
    *,
    to: Maybe[Path] = None,
    resume: Maybe[Path] = None,
    start_from: Annotated[Path | None, arg(name="from", help_behavior_hint="")] = None,
    parts: Maybe[Path] = None,
    profile: AsJson = False,
    json: AsJson = False,
) -> None:
    """Train a recipe, or go on with a run.

    Examples:
      regard train multi30k-en-de
      regard train mine.toml train.updates=2000 model.dim=256 --to runs/mine
      regard train --resume runs/mine
      regard train new-data.toml --from runs/mine
      regard train multi30k-en-de --profile

    Args:
        recipe: A recipe's file, or the name of a shipped one.
        overrides: Changes to the recipe: train.updates=100, 'data.train=["a.en", "a.de"]'.
        to: The folder of the new run; runs/NAME otherwise.
        resume: A run to go on with, exactly where it stopped.
        start_from: A run whose whole model (weights and tokenizers) is trained on.
        parts: A folder with parts of your own: DIR/encoders/mine.py is kind = "mine".
        profile: Train nothing: run some updates and say where their time goes.
        json: Every record as a line of JSON on stdout.
    """
    if (recipe is None) == (resume is None):
        raise RecipeError("train: give either a recipe or --resume RUN")
    if resume is not None and (overrides or to or start_from):
        raise RecipeError("train: --resume goes on with a run as it is, without changes")
    if profile and (to or start_from):
        raise RecipeError("train: --profile leaves no run behind, and begins with new weights")
    from regard import display, front, parts as rooms, runs

    if parts is not None:
        rooms.add_folder(parts)
    if profile:
        _profile(recipe, overrides, resume, as_json=json)
        return
    given = runs.Run(start_from) if start_from else None
    warnings: list[dict[str, Any]] = []
    if resume is not None:
        run = runs.Run(resume)
    else:
        assert recipe is not None
        folder, loaded = front.prepared(recipe, overrides, to)
        with display.waiting(f"preparing the data in {folder}"):
            run, warnings = front.create(folder, loaded, given)
    with display.training(run, as_json=json) as screen:
        for warning in warnings:
            screen.show(warning)
        progress = runs.train(run, [screen.show], screen.tick)
    display.summary(run, progress)
    if not progress.finished:
        sys.exit(INTERRUPTED)


@verb
def doctor(
    recipe: Positional[Maybe[Path]] = None,
    overrides: Positional[Override] = (),
    *,
    to: Maybe[Path] = None,
    resume: Maybe[Path] = None,
    start_from: Annotated[Path | None, arg(name="from", help_behavior_hint="")] = None,
    parts: Maybe[Path] = None,
    json: AsJson = False,
) -> None:
    """What is wrong with a recipe's data, and what training would cost: before it is spent.

    Encoding, script, alignment, swapped and shifted sides, copies, leaks, labels, gaps, tokenizer,
    time and memory from two measured steps, disk. With an error the exit code is 1.

    Examples:
      regard doctor mine.toml
      regard doctor mine.toml model.dim=512 --json
      regard doctor new-data.toml --from runs/mine
      regard doctor --resume runs/mine

    Args:
        recipe: A recipe's file, or the name of a shipped one.
        overrides: Changes to the recipe: train.updates=100, 'data.train=["a.en", "a.de"]'.
        to: The folder that the run would be in: is its disk large enough?
        resume: A run that is to go on.
        start_from: A run whose whole model (weights and tokenizers) would be trained on.
        parts: A folder with parts of your own: DIR/encoders/mine.py is kind = "mine".
        json: All findings as JSON on stdout.
    """
    from regard import display, front, parts as rooms

    if parts is not None:
        rooms.add_folder(parts)
    if resume is not None and (overrides or to or start_from):
        raise RecipeError("doctor: --resume looks at a run as it is, without changes")
    with display.waiting(f"looking at {resume or recipe}"):
        found = front.doctor(recipe, *overrides, to=to, resume=resume, start_from=start_from)
    display.findings(found, as_json=json)
    if any(each.severity == "error" for each in found):
        sys.exit(1)


def _profile(
    recipe: Path | None, overrides: Sequence[str], resume: Path | None, *, as_json: bool
) -> None:
    """Where the time of an update goes, of a run that is there or of one that is not kept."""
    import tempfile

    from regard import display, front, profile, runs

    with tempfile.TemporaryDirectory() as name:
        if resume is not None:
            run = runs.Run(resume)
        else:
            assert recipe is not None
            folder, loaded = front.prepared(recipe, overrides, Path(name) / "run")
            with display.waiting("preparing the data"):
                run, _ = front.create(folder, loaded)
        with display.waiting("timing some updates"):
            found = profile.profile(run)
    if as_json:
        _print(found.as_dict())
    else:
        print(found)


@verb
def evaluate(
    run: Positional[Path],
    *,
    part: Part = "test",
    search: Maybe[Search] = None,
    beams: Maybe[int] = None,
    length_penalty: Maybe[float] = None,
    against: Maybe[Path] = None,
    checkpoint: Checkpoint = "final",
    batch: int = 64,
    device: Device = "cpu",
    engine: Engine = "auto",
    quantization: Quantization = "float32",
    output: Maybe[Path] = None,
    json: AsJson = False,
) -> None:
    """Score a run on the part of the data that it has not seen.

    Examples:
      regard evaluate runs/mine
      regard evaluate runs/mine --part validation --beams 10 --output hypotheses.txt
      regard evaluate runs/mine --against runs/other

    Args:
        run: The run's folder.
        part: Which part of the recipe's data.
        search: How outputs are found, if not as the recipe says.
        beams: Hypotheses that beam search keeps.
        length_penalty: Exponent of the length by which a score is divided.
        against: Another run: is the difference more than chance? (paired bootstrap)
        checkpoint: Which checkpoint.
        batch: Sentences at a time; the result does not depend on it.
        device: Where to compute.
        engine: What searches: auto takes CTranslate2 where it does the same as torch.
        quantization: Numbers that CTranslate2 computes with; int8 is fast and nearly as good.
        output: A file for the outputs, one line each.
        json: Scores as JSON on stdout.
    """
    from regard import display, front

    options = _given(search=search, beams=beams, length_penalty=length_penalty)
    opened: Any = {"checkpoint": checkpoint, "device": device}
    opened |= {"engine": engine, "quantization": quantization}
    predictor = front.load(run, **opened)
    with display.waiting(f"predicting the {part} part"):
        scores, predictions = predictor.evaluate(part, batch=batch, **options)
    if cut := sum(prediction.status == "cut" for prediction in predictions):
        display.warn(f"{cut:,} of {len(predictions):,} inputs were too long to be read: cut")
    if output is not None and not predictions:
        display.warn(f"{output} is not written: nothing is predicted to score this task")
    elif output is not None:
        output.write_text("".join(p.text + "\n" for p in predictions), encoding="utf-8")
    comparison = None
    if against is not None:
        other = front.load(against, **opened)
        with display.waiting(f"predicting the {part} part with {against}"):
            comparison = predictor.compare(predictions, other, part, batch=batch, **options)
    display.scores(run, part, scores, comparison, as_json=json)


@verb
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
    json: AsJson = False,
) -> None:
    """Runs side by side: quality with 95 % intervals, by length, size, speed, cost, learning.

    Examples:
      regard compare runs/lstm runs/transformer
      regard compare runs/a runs/b runs/c --part validation --picture compared.svg

    Args:
        runs: The runs' folders, at least two; all of one task and on the same data.
        part: Which part of the data.
        picture: A file for a picture, .png or .svg: learning curves, quality, quality by length.
        samples: How often the part is drawn anew (bootstrap) for the intervals.
        checkpoint: Which checkpoint.
        batch: Sentences at a time; the result does not depend on it.
        device: Where to compute.
        engine: What searches: auto takes CTranslate2 where it does the same as torch.
        json: All of it as JSON on stdout.
    """
    from regard import compare as comparing, display

    opened: Any = {"checkpoint": checkpoint, "device": device, "engine": engine}
    with display.waiting(f"predicting the {part} part with {len(runs)} runs"):
        found = comparing.compare(runs, part, batch=batch, samples=samples, **opened)
    if picture is not None:
        found.picture(picture)
    if json:
        _print(found.as_dict())
    else:
        display.columns(["", *(entry.run for entry in found.runs)], found.rows(), found.notes())


@verb
def predict(
    run: Positional[Path],
    file: Positional[Maybe[Path]] = None,
    *,
    search: Maybe[Search] = None,
    beams: Maybe[int] = None,
    nbest: Maybe[int] = None,
    length_penalty: Maybe[float] = None,
    minimum: Maybe[int] = None,
    temperature: Maybe[float] = None,
    top_k: Maybe[int] = None,
    top_p: Maybe[float] = None,
    seed: Maybe[int] = None,
    prefix: Maybe[str] = None,
    length: Maybe[int] = None,
    format: Literal["text", "jsonl"] = "text",
    checkpoint: Checkpoint = "final",
    batch: int = 64,
    device: Device = "cpu",
    engine: Engine = "auto",
    quantization: Quantization = "float32",
    json: AsJson = False,
) -> None:
    """Predict for each line of a file, or of standard input: one line out for each line in.

    Examples:
      echo "a dog runs ." | regard predict runs/mine
      regard predict runs/mine input.txt --beams 10 --nbest 3 --format jsonl
      regard predict runs/mine input.txt --search sample --top-p 0.9 --seed 7
      echo "the time" | regard predict runs/language-model --length 300
      regard predict runs/etth1-linear series.csv > forecast.csv

    Args:
        run: The run's folder.
        file: A text file, UTF-8; standard input otherwise. A forecast reads all of a CSV file as
            one input and writes CSV: the rows that follow its end.
        search: How outputs are found, if not as the recipe says.
        beams: Hypotheses that beam search keeps.
        nbest: How many of them are given (with --format jsonl).
        length_penalty: Exponent of the length by which a score is divided.
        minimum: Fewest symbols of an output.
        temperature: Above 1 samples more freely, below 1 more safely.
        top_k: Sample among this many symbols; 0 for all.
        top_p: Sample among the likeliest symbols that have this probability together.
        seed: Another seed, other samples.
        prefix: What every output must begin with.
        length: Most symbols of an output, if not as the recipe says; where the input's length
            bounds them, only fewer.
        format: Text alone, or one JSON object a line: scores, tokens, alignment, status.
        checkpoint: Which checkpoint.
        batch: Sentences at a time; the result does not depend on it. With 1, as on a terminal,
            each line is answered before the next is read.
        device: Where to compute.
        engine: What searches: auto takes CTranslate2 where it does the same as torch.
        quantization: Numbers that CTranslate2 computes with; int8 is fast and nearly as good.
        json: The same as --format jsonl.
    """
    from regard import display, front

    options = _given(
        search=search, beams=beams, nbest=nbest, length_penalty=length_penalty, minimum=minimum,
        temperature=temperature, top_k=top_k, top_p=top_p, seed=seed, length=length,
    )  # fmt: skip
    detailed = json or format == "jsonl"
    if nbest is not None and nbest > 1 and not detailed:
        raise RecipeError("nbest: text has one line for each input: add --format jsonl")
    opened: Any = {"checkpoint": checkpoint, "device": device}
    opened |= {"engine": engine, "quantization": quantization}
    predictor = front.load(run, **opened)
    if file is None and sys.stdin.isatty():
        batch = 1
    stream = predictor.stream(
        _inputs(predictor.task, file),
        prefix=prefix, details=detailed, align=detailed, batch=batch, **options,
    )  # fmt: skip
    ends = "\n" if _whole(predictor.task) else " "
    for number, prediction in enumerate(stream, 1):
        if prediction.status == "cut":
            display.warn(f"{file or 'standard input'}:{number}: too long to be read: cut")
        _print(prediction.as_dict() if detailed else prediction.text.replace("\n", ends))


@verb
def score(
    run: Positional[Path],
    files: Positional[tuple[Path, ...]] = (),
    *,
    part: Part = "test",
    format: Literal["text", "jsonl"] = "text",
    checkpoint: Checkpoint = "final",
    device: Device = "cpu",
    json: AsJson = False,
) -> None:
    """How likely the model finds given texts: log-probability and perplexity of each.

    Examples:
      regard score runs/mine
      regard score runs/mine source.txt target.txt --format jsonl
      regard score runs/language-model text.txt

    Args:
        run: The run's folder.
        files: A text file of inputs and one of outputs, as many lines, or for a model that
            reads nothing one of texts alone; without files, a part of the recipe's data.
        part: Which part of the recipe's data, if no files are given.
        format: Columns (log-probability, perplexity, and bits per character for a model that
            reads nothing), or one JSON object a line.
        checkpoint: Which checkpoint.
        device: Where to compute.
        json: The same as --format jsonl.
    """
    from regard import display, front

    predictor = front.load(run, checkpoint=checkpoint, device=device)
    if files and len(files) != len(predictor.sides):
        wanted = " ".join(predictor.sides).upper()
        raise RecipeError(f"score: give the files {wanted}, or none to score the {part} part")
    task = predictor.task
    texts = [list(_inputs(task, file)) for file in files] or task.references(part)
    results = predictor.score(*texts)
    for result in results:
        columns = [result[name] for name in display.LIKELIHOOD if name in result]
        plain = "\t".join(f"{value:.4f}" for value in columns)
        _print(result if json or format == "jsonl" else plain)
    display.likelihood(results)


@verb
def export(
    run: Positional[Path],
    folder: Positional[Path],
    *,
    to: Literal["ctranslate2"] = "ctranslate2",
    quantization: Quantization = "int8",
    checkpoint: Checkpoint = "final",
    json: AsJson = False,
) -> None:
    """Write a model in a form that runs without regard, and check that it says the same.

    Examples:
      regard export runs/mine shipped
      regard export runs/mine shipped --to ctranslate2 --quantization float32

    Args:
        run: The run's folder.
        folder: The new folder; its README.md says how to use it.
        to: The form.
        quantization: The numbers that it computes with.
        checkpoint: Which checkpoint.
        json: Machine-readable output on stdout.
    """
    from dataclasses import asdict

    from regard import display, runs
    from regard.interop.export import export as write

    with display.waiting(f"writing {folder}"):
        parity = write(runs.Run(run), folder, quantization, checkpoint)
    if json:
        _print({"folder": str(folder), "to": to, "parity": asdict(parity)})
    else:
        print(
            f"{folder}: of {parity.sentences} sentences {parity.equal:.0%} come out the same, "
            f"scores differ by at most {parity.difference:.2g}"
        )


@verb
def inspect(
    run: Positional[Path],
    texts: Positional[tuple[str, ...]] = (),
    *,
    output: Path = Path("inspect.html"),
    beside: tuple[Path, ...] = (),
    replay: Annotated[bool, arg(help_behavior_hint="")] = False,
    without_head: tuple[str, ...] = (),
    heads: Annotated[bool, arg(help_behavior_hint="")] = False,
    sentences: int = 200,
    target: Maybe[str] = None,
    length: int = 20,
    beams: Maybe[int] = None,
    png: Maybe[Path] = None,
    svg: Maybe[Path] = None,
    checkpoint: Checkpoint = "final",
    device: Device = "cpu",
    json: AsJson = False,
) -> None:
    """Look inside a model while it reads a text: one HTML file that needs no network.

    Attention of every layer and head, alignment, beam search tree, probabilities and rivals of
    every symbol, states and gates, gradients, positions, embeddings, attribution, logit lens.
    A run that forecasts reads files (CSV) instead of texts.

    Examples:
      regard inspect runs/mine "a dog runs ."
      regard inspect runs/mine "a dog runs ." "two men sit ." --output dogs.html --svg figures
      regard inspect runs/mine "a dog runs ." --without-head cross.1.3
      regard inspect runs/mine "a dog runs ." --replay
      regard inspect runs/mine "a dog runs ." --beside runs/other
      regard inspect runs/mine --heads

    Args:
        run: The run's folder.
        texts: What the model is to read.
        output: The file to write.
        beside: Other runs, shown side by side with the first.
        replay: Every checkpoint of the run, to be moved through by a slider.
        without_head: Heads to switch off: KIND.LAYER.HEAD, KIND being encoder, decoder or cross.
        heads: Survey all attention heads: where they look and what it costs to be without each.
            Without a text, as a table on stdout; with one, as a view of the page.
        sentences: Of the validation part, for that survey.
        target: Take this for the output, instead of what the model would say.
        length: Symbols that a language model goes on for.
        beams: Hypotheses that beam search keeps.
        png: A folder for the views as PNG pictures.
        svg: A folder for the views as SVG pictures.
        checkpoint: Which checkpoint.
        device: Where to compute.
        json: The names of the files written, as JSON on stdout.
    """
    from regard import display
    from regard.inspect import pictures, report
    from regard.inspect.survey import survey
    from regard.runs import Run

    opened = Run(run)
    if heads and not texts:
        with display.waiting("looking at heads"):
            seen = survey(opened, sentences=sentences, checkpoint=checkpoint, device=device)
        _print(seen.as_dict()) if json else display.columns(*seen.table())
        return
    if _whole(opened.task):
        texts = tuple("\n".join(_lines(Path(text))) for text in texts)
        target = "\n".join(_lines(Path(target))) if target else None
    options = report.Options(
        checkpoint=checkpoint, replay=replay, target=target, length=length,
        without_heads=without_head, search={"beams": beams}, device=device,
        sentences=sentences if heads else 0,
    )  # fmt: skip
    with display.waiting("looking inside"):
        made = report.build([opened, *map(Run, beside)], texts, options)
        written = [report.write(output, made)]
        for folder, suffix in ((png, "png"), (svg, "svg")):
            written += pictures.write(folder, suffix, made) if folder else []
    _print({"files": [str(path) for path in written]} if json else str(written[0]))


@verb
def data(
    action: Positional[Literal["list", "get", "show"]],
    name: Positional[Maybe[str]] = None,
    *,
    source: Annotated[Path | None, arg(name="from", help_behavior_hint="")] = None,
    json: AsJson = False,
) -> None:
    """The data sets that recipes use: list them, get one, show one.

    Examples:
      regard data list
      regard data get multi30k
      regard data get multi30k --from ~/corpora
      regard data show multi30k

    Args:
        action: list, get or show.
        name: Which data set.
        source: Take the files from this folder instead of their public address.
        json: Machine-readable output on stdout.
    """
    from regard import display
    from regard.data import catalogue

    if action == "list":
        display.data_sets([catalogue.describe(n) for n in catalogue.names()], as_json=json)
        return
    if name is None:
        raise RecipeError(f"data {action}: which one? `regard data list` has them all")
    if action == "get":
        with display.waiting(f"getting {name}"):
            folder = catalogue.get(name, source.expanduser() if source else None)
        _print({"name": name, "folder": str(folder)} if json else str(folder))
    else:
        entry = catalogue.describe(name)
        sample = catalogue.sample(name, 3) if entry["present"] else {}
        display.data_set(entry, sample, as_json=json)


@verb
def demo(
    *,
    languages: Literal["en-de", "en-fr"] = "en-de",
    to: Maybe[Path] = None,
    json: AsJson = False,
) -> None:
    """Train a small Transformer on the embedded phrasebook, in about three minutes.

    Examples:
      regard demo
      regard demo --languages en-fr --to runs/french

    Args:
        languages: The pair of languages.
        to: The folder of the run; runs/demo-LANGUAGES otherwise.
        json: Scores and samples as JSON on stdout.
    """
    from regard import demo as demonstration

    if not demonstration.demo(languages, to, as_json=json):
        sys.exit(INTERRUPTED)


@verb
def keys(task: Positional[str] = "translate", *, json: AsJson = False) -> None:
    """Every key that a recipe may have: its meaning, its type, its default.

    Examples:
      regard keys
      regard keys language_model | less

    Args:
        task: For which task.
        json: Machine-readable output on stdout.
    """
    from regard import keys as reference

    found = reference.sections(task)
    if json:
        _print([{**s._asdict(), "keys": [k._asdict() for k in s.keys]} for s in found])
    else:
        print(reference.as_text(found))


def _given(**options: Any) -> dict[str, Any]:
    """The options that the user gave."""
    return {name: value for name, value in options.items() if value is not None}


def _whole(task: Any) -> bool:
    """Whether a task reads a file as one input, and not each of its lines as one."""
    return bool(getattr(task, "whole", False))


def _inputs(task: Any, file: Path | None) -> Iterator[str]:
    """The lines of a file, or all of it."""
    return iter(["\n".join(_lines(file))]) if _whole(task) else _lines(file)


def _lines(file: Path | None) -> Iterator[str]:
    """Lines of a file or of standard input; only a newline ends a line. None is ever left out."""
    from regard.data.readers import opened

    source: AbstractContextManager[Any] = opened(file) if file else nullcontext(sys.stdin.buffer)
    with source as stream:
        for number, raw in enumerate(stream, 1):
            if number == 1:
                raw = raw.removeprefix(b"\xef\xbb\xbf")  # some editors mark UTF-8 so
            try:
                yield raw.removesuffix(b"\n").removesuffix(b"\r").decode()
            except UnicodeDecodeError:
                where = f"{file or 'standard input'}:{number}"
                print(f"regard: {where}: not UTF-8: taken as empty", file=sys.stderr)
                yield ""


def _print(value: Any) -> None:
    print(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), flush=True)
