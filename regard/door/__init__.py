"""What the command line does, as functions: `regard.train`, `regard.evaluate`, …

Arguments are those of the verbs; see docs/python.md. PyTorch is imported when one is called.
"""

from collections.abc import Callable, Sequence
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from regard.door.planning import plan as plan
from regard.door.sweeping import sweep as sweep
from regard.door.words import word2vec as word2vec
from regard.interop import Engine, Form, Quantization

if TYPE_CHECKING:
    from regard.compare import Comparison
    from regard.door.results import Evaluation, Exported, Findings, Page, Predictions
    from regard.front import Predictor

Place = str | Path
Recipe = str | Path | dict[str, Any]
Part = Literal["train", "validation", "test"]


def load(
    run: Place,
    *,
    checkpoint: str = "final",
    device: str = "cpu",
    engine: Engine = "auto",
    quantization: Quantization = "float32",
    shortlist: bool = False,
    choices: str | Path | Sequence[str] | None = None,
    data: Sequence[Place] = (),
    parts: Place | None = None,
) -> "Predictor":
    """Open a run for use. One of word2vec, or a file of vectors, becomes a space of words, with
    `neighbours`, `analogy`, `similarity` and `vector`.

    >>> model = regard.load("runs/mine")
    >>> model.predict(["a dog runs"], beams=2)
    [...]
    >>> print(model)
    run         runs/mine
    task        translate
    ...

    Args:
        run: The run's folder.
        checkpoint: final, best, last, or the number of an update.
        device: cpu, cuda, cuda:1, mps or auto.
        engine: What searches: auto takes CTranslate2 where it does the same as torch.
        quantization: Numbers that CTranslate2 computes with.
        shortlist: Let CTranslate2 choose among the likely words of each batch alone.
        choices: All texts that may be written, or a file of them; "none": anything may.
        data: Files that stand for the recipe's test part, which an imported run has not.
        parts: A folder with parts of your own.
    """
    if (found := _space(run)) is not None:
        return cast("Predictor", found)  # words and their vectors, which have methods of their own
    from regard import front

    _add(parts)
    return front.load(
        run, checkpoint=checkpoint, device=device, engine=engine, quantization=quantization,
        shortlist=shortlist, choices=choices, data=data,
    )  # fmt: skip


def train(
    recipe: Recipe | None = None,
    *overrides: str,
    to: Place | None = None,
    resume: Place | None = None,
    start_from: Place | None = None,
    callback: Callable[[dict[str, Any]], None] | None = None,
    progress: bool | None = None,
    parts: Place | None = None,
) -> "Predictor":
    """Train a recipe, or go on with a run, and open the result.

    >>> model = regard.train("mine.toml", "train.updates=4", to="runs/mine")
    >>> model.predict(["a dog runs", "two cats play"])
    [...]

    Ctrl-C (in a notebook: interrupt) saves, and raises KeyboardInterrupt: nobody goes on with half
    a model unawares. `regard.train(resume="runs/mine")` then goes on.

    Args:
        recipe: A recipe's file, the name of a shipped one, or a table (dict).
        overrides: Changes to the recipe: "train.updates=100".
        to: The folder of the new run; runs/NAME otherwise.
        resume: A run to go on with, exactly where it stopped.
        start_from: A run whose whole model (weights and tokenizers) is trained on.
        callback: Gets each record as it is written: training and validation figures, warnings.
        progress: Show it; by default in a notebook alone.
        parts: A folder with parts of your own.
    """
    from regard import front
    from regard.door.progress import shown

    _add(parts)
    with shown(progress, recipe, overrides, resume) as show:
        callbacks = [each for each in (callback, show) if each]

        def record(entry: dict[str, Any]) -> None:
            for each in callbacks:
                each(entry)

        return front.train(
            recipe, *overrides, to=to, resume=resume, start_from=start_from, callback=record
        )


def doctor(
    recipe: Recipe | None = None,
    *overrides: str,
    to: Place | None = None,
    resume: Place | None = None,
    start_from: Place | None = None,
    parts: Place | None = None,
) -> "Findings":
    """What is wrong with a recipe's data, and what its training would cost; the worst first.

    >>> found = regard.doctor("mine.toml")
    >>> [each.code for each in found if each.severity == "error"]
    []

    Args:
        recipe, overrides, to, resume, start_from, parts: As for `regard.train`: what is reported is
            about that training.
    """
    from regard import front
    from regard.door.results import Findings

    _add(parts)
    return Findings(front.doctor(recipe, *overrides, to=to, resume=resume, start_from=start_from))


def evaluate(
    run: "Place | Predictor",
    *,
    part: Part = "test",
    search: Literal["beam", "ctc", "greedy", "sample"] | None = None,
    beams: int | None = None,
    length_penalty: float | None = None,
    language_model: str | None = None,
    weight: float | None = None,
    bonus: float | None = None,
    baseline: "Place | Predictor | None" = None,
    batch: int = 64,
    samples: int = 1000,
    report: Place | None = None,
    **options: Any,
) -> "Evaluation":
    """Score a run on the part of the data that it has not seen.

    >>> found = regard.evaluate("runs/mine")
    >>> found["bleu"].value >= 0
    True
    >>> print(found)
    runs/mine: test
    score  ...
    >>> found = regard.evaluate("runs/mine", part="validation", report="report.html")

    What comes back is a mapping of names to scores, with the predictions and the tables of labels,
    confusions and worst outputs.

    Args:
        run: The run's folder, or what `regard.load` gave.
        part: Which part of the recipe's data.
        search, beams, length_penalty: How outputs are found, if not as the recipe says.
        language_model, weight, bonus: A run that a CTC search asks, too, and what it counts.
        baseline: Another run: is the difference more than chance?
        batch: Sentences at a time; the result does not depend on it.
        samples: How often the part is drawn anew for the 95 % intervals; 0: none.
        report: A file for a page of HTML.
        options: Those of `regard.load`, for a run that is a folder.
    """
    from regard.door import results

    given: dict[str, Any] = {"search": search, "beams": beams, "length_penalty": length_penalty}
    given |= {"language_model": language_model, "weight": weight, "bonus": bonus}
    chosen = {name: value for name, value in given.items() if value is not None}
    predictor = _opened(run, options)
    other = None if baseline is None else _opened(baseline, options)
    return results.evaluation(
        predictor, part, other, report, batch=batch, samples=samples, **chosen
    )


def predict(
    run: "Place | Predictor",
    inputs: str | Path | Sequence[str],
    **options: Any,
) -> "Predictions":
    """Predict for a text, for each of some texts, or for each line of a file (a `Path`).

    >>> found = regard.predict("runs/mine", ["a dog runs", "two cats play"])
    >>> found.texts
    [...]
    >>> found[0].score < 0
    True

    To use a run more than once, load it once: `regard.load("runs/mine").predict(…)`.

    Args:
        run: The run's folder, or what `regard.load` gave.
        inputs: A text, texts, or a file; of a run that forecasts, CSV or a file of it.
        options: search, beams, nbest, length_penalty, min_length, temperature, top_k, top_p, min_p,
            repetition_penalty, stop, seed, prefixes, length, top (of words for a blank), batch,
            language_model, weight and bonus (of a CTC search); and
            those of `regard.load`, for a run that is a folder. What a language model writes comes
            as a stream from its `generate`, the words that may be next from its `next_words`.
    """
    from regard.door import results

    opening = {name: options.pop(name) for name in signature(load).parameters if name in options}
    return results.predictions(_opened(run, opening), inputs, **options)


def compare(
    *runs: Place,
    part: Part = "test",
    picture: Place | None = None,
    samples: int = 1000,
    unfold: bool = False,
    batch: int = 64,
    parts: Place | None = None,
    **options: Any,
) -> "Comparison":
    """Runs side by side: quality with 95 % intervals, size, speed, cost, learning.

    >>> found = regard.compare("runs/mine", "runs/other", samples=20)
    >>> [entry.run for entry in found.runs]
    ['runs/mine', 'runs/other']

    Args:
        runs: The runs' folders, at least two; all of one task and on the same data.
        part: Which part of the data.
        picture: A file for a picture, .png or .svg.
        samples: How often the part is drawn anew (bootstrap) for the intervals.
        unfold: Show each seed of a recipe by itself, and not their mean and deviation.
        batch: Sentences at a time; the result does not depend on it.
        parts: A folder with parts of your own.
        options: checkpoint, device, engine, data, as for `regard.load`.
    """
    from regard.compare import compare as compare_runs
    from regard.plots.drawing import check_picture

    _add(parts)
    if picture is not None:
        check_picture(Path(picture))
    found = compare_runs(
        [*map(Path, runs)], part, batch=batch, samples=samples, unfold=unfold, **options
    )
    if picture is not None:
        found.picture(Path(picture))
    return found


def export(
    run: Place,
    folder: Place,
    *,
    to: Form = "auto",
    quantization: Quantization = "float32",
    shortlist: bool = False,
    checkpoint: str = "final",
    parts: Place | None = None,
) -> "Exported":
    """Write a model as a folder that runs without regard, and check that it says the same.

    >>> found = regard.export("runs/mine", "shipped")
    >>> (found.folder / "README.md").is_file()
    True

    Args:
        run: The run's folder.
        folder: The new folder; its README.md says how to use it.
        to: The form: onnx for every task, ctranslate2 for Transformers that translate; auto takes
            ctranslate2 where it fits.
        quantization: The numbers that it computes with; what others than float32 cost is measured.
        shortlist: Add a list of the likely words for each word (ctranslate2).
        checkpoint, parts: As for `regard.load`.
    """
    from regard.door.results import Exported
    from regard.interop.shipping import ship
    from regard.runs import Run

    _add(parts)
    found = ship(Run(Path(run)), Path(folder), to, quantization, checkpoint, shortlist=shortlist)
    cost = str(found.cost) if found.cost else ""
    warnings = tuple(found.warnings)
    return Exported(Path(folder), found.to, quantization, found.said, cost, warnings)


def inspect(
    run: Place,
    *texts: str,
    output: Place = "inspect.html",
    compare: Sequence[Place] = (),
    replay: bool = False,
    without_head: Sequence[str] = (),
    heads: bool = False,
    sentences: int = 200,
    word: str = "",
    target: str | None = None,
    length: int = 20,
    beams: int | None = None,
    checkpoint: str = "final",
    device: str = "cpu",
    parts: Place | None = None,
) -> "Page":
    """Look inside a model while it reads a text: one HTML file, which a notebook shows.

    >>> page = regard.inspect("runs/mine", "a dog runs", output="page.html")
    >>> page.file.name
    'page.html'

    Args:
        run: The run's folder.
        texts: What the model is to read; of a run that forecasts, CSV.
        output: The file to write.
        compare: Other runs, shown side by side with the first.
        replay: Every checkpoint of the run, to be moved through by a slider.
        without_head: Heads to switch off: KIND.LAYER.HEAD.
        heads: Survey all attention heads, over so many `sentences` of the validation part.
        sentences: For that survey.
        word: Show how alike the vectors of this word are in the texts, layer by layer.
        target: Take this for the output, instead of what the model would say.
        length: Tokens that a language model goes on for.
        beams: Hypotheses that beam search keeps.
        checkpoint, device, parts: As for `regard.load`.
    """
    from regard.console import streams
    from regard.door.results import Page
    from regard.inspect import report
    from regard.runs import Run

    _add(parts)
    streams.check_place(Path(output))
    options = report.Options(
        checkpoint=checkpoint, replay=replay, target=target, length=length,
        without_heads=tuple(without_head), beams=beams, device=device, word=word,
        sentences=sentences if heads else 0,
    )  # fmt: skip
    opened = [Run(Path(each)) for each in (run, *compare)]
    return Page(report.write(Path(output), report.build(opened, texts, options)))


def _opened(run: "Place | Predictor", options: dict[str, Any]) -> "Predictor":
    """A run that is open, or is opened."""
    from regard.errors import RecipeError

    if isinstance(run, str | Path):
        if _space(run) is not None:
            raise RecipeError(f"{run} has vectors of words, and no model: regard.load opens it")
        return load(run, **options)
    if options:
        raise RecipeError(f"{', '.join(options)}: the model is loaded; give it to regard.load")
    return run


def _space(run: Place) -> Any:
    """The vectors of a run of word2vec or of a file, which are no Predictor; None of other runs."""
    path = Path(run)
    if not (path / "word2vec.json").is_file() and not path.is_file():
        return None
    from regard.word2vec.space import Space

    return Space.load(path)


def _add(parts: Place | None) -> None:
    from regard.recipe.parts import add_folder

    if parts is not None:
        add_folder(Path(parts))
