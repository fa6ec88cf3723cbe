"""Verbs of word vectors: word2vec, neighbours, analogy, similarity."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from regard.errors import RecipeError
from regard.verbs.common import INTERRUPTED, Flag, Maybe, given, say

if TYPE_CHECKING:
    from regard.word2vec.folder import Folder
    from regard.word2vec.judging import Agreement, Analogies

Space = Annotated[Path, arg(help="A run of word2vec, or a file of vectors (word2vec's, GloVe's).")]


def word2vec(
    texts: Positional[tuple[Path, ...]] = (),
    *,
    to: Maybe[Path] = None,
    resume: Maybe[Path] = None,
    model: Literal["skip-gram", "cbow"] = "skip-gram",
    loss: Literal["negatives", "hierarchical"] = "negatives",
    dim: int = 100,
    window: int = 5,
    negatives: int = 5,
    subsample: float = 1e-3,
    min_frequency: int = 5,
    max_vocabulary: int = 1_000_000,
    epochs: int = 5,
    learning_rate: Maybe[float] = None,
    lowercase: bool = True,
    split: Literal["punctuation", "treebank", "whitespace"] = "punctuation",
    keep: Literal["inputs", "outputs"] = "inputs",
    threads: Maybe[int] = None,
    seed: int = 1,
    column: Maybe[str] = None,
    header: Flag = False,
    on_bad_line: Literal["skip", "refuse"] = "skip",
    json: Flag = False,
) -> None:
    """Learn vectors of words from plain text, for any recipe, and to be looked at.

    A line is a sentence. A recipe takes them by vectors = "runs/vectors" in [model.input].

    Examples:
      regard word2vec reviews.txt --to runs/vectors
      regard word2vec labelled.tsv.gz unlabelled.txt.gz --to runs/vectors --dim 200 --threads 2
      regard word2vec reviews.txt --to runs/vectors --model cbow --loss hierarchical
      regard word2vec --resume runs/vectors

    Args:
        texts: Files of text, plain or tables (TSV, CSV, JSONL), each gzip or not.
        to: The folder of the new run.
        resume: A run to go on with, after the last epoch that was finished.
        model: Predict each word from each word near it, or from the mean of all near it.
        loss: Against words that are drawn, or along the paths of a Huffman tree.
        dim: Numbers of a vector.
        window: The farthest that a word may be to be near.
        negatives: Words that are drawn for each pair.
        subsample: Words more frequent than this fraction are left out at random; 0: none is.
        min_frequency: Words that are seen less often have no vector.
        max_vocabulary: The most words, the frequent ones first.
        epochs: How often the text is read.
        learning_rate: That of the beginning, which falls to 0.0001; 0.025, for cbow 0.05.
        lowercase: Fold to lower case first, as in a recipe's [tokenizer].
        split: What words are, as in a recipe's [tokenizer] of kind "word".
        keep: Which of a word's two vectors is kept: as an input, near to those of words that mean
            alike; or as an output: means of these tell texts apart that were learnt from.
        threads: Threads that learn at once; by default, a thread for each core. One thread gives
            the same bits each time.
        seed: Of all draws.
        column: Of tables: its number, from 1 (-1: the last, the default), its name where there is a
            header, its key in JSONL ("text" by default).
        header: Tables begin with the names of their columns.
        on_bad_line: What to do with a line that is no text; those that are skipped are counted.
        json: Every record as a line of JSON on stdout.
    """
    if bool(texts) == (resume is not None):
        raise RecipeError("word2vec: give either files of text or --resume RUN")
    if resume is None and to is None:
        raise RecipeError("word2vec: say by --to where the run goes")
    from regard.train.device import cores
    from regard.verbs import display
    from regard.word2vec import folder, training
    from regard.word2vec.corpus import Source
    from regard.word2vec.settings import made

    if resume is not None:
        run = folder.opened(resume)
    else:
        assert to is not None
        settings = made(
            model=model, loss=loss, dim=dim, window=window, negatives=negatives,
            subsample=subsample, min_frequency=min_frequency, max_vocabulary=max_vocabulary,
            epochs=epochs, lowercase=lowercase, split=split, keep=keep, seed=seed,
            threads=cores() if threads is None else threads, **given(learning_rate=learning_rate),
        )  # fmt: skip
        number = column is not None and column.removeprefix("-").isdecimal()
        chosen = int(column) if column is not None and number else column
        source = Source(texts, chosen, header, on_bad_line)
        with display.waiting(f"preparing the text in {to}"):
            run, report = folder.create(to, source, settings)
        for line in report.summary()[1:]:
            display.errors.print(f"left out: {line}")
    _describe(run)
    with display.epochs(run.text["known"] * run.settings.epochs, as_json=json) as (show, tick):
        progress = training.train(run.path, show, tick)
    if not progress.finished:
        display.errors.print(f"stopped; to go on: regard word2vec --resume {run.path}")
        sys.exit(INTERRUPTED)
    if json:
        say({"run": str(run.path), "words": run.text["vocabulary"], "epochs": progress.update,
             "seconds": progress.seconds, "cpu_seconds": progress.cpu_seconds})  # fmt: skip
    else:
        print(f"{run.path}: {run.text['vocabulary']:,} words of dimension {run.settings.dim}")


def _describe(run: "Folder") -> None:
    """What is learnt from, before it is."""
    from regard.verbs import display

    own, text = run.settings, run.text
    threads = f"{own.threads} thread{'s' * (own.threads != 1)}"
    display.errors.print(
        f"{text['words']:,} words, {text['vocabulary']:,} different ones that are seen "
        f"{own.min_frequency:,} times or more; {own.model}, {own.loss}, {threads}"
    )


def neighbours(
    run: Positional[Space],
    words: Positional[tuple[str, ...]],
    *,
    count: int = 10,
    together: Flag = False,
    json: Flag = False,
) -> None:
    """The words nearest to each word, by the cosine of their vectors.

    Examples:
      regard neighbours runs/vectors awful
      regard neighbours glove.txt paris london --together

    Args:
        words: Each word by itself, or with --together the mean of all.
        count: How many neighbours.
        together: The neighbours of the mean of all words.
        json: Machine-readable output on stdout.
    """
    _check_count(count)
    space = _opened(run)
    groups = [words] if together else [(word,) for word in words]
    near = [space.neighbours(*group, count=count) for group in groups]
    found = [
        {"words": [*group], "neighbours": [each._asdict() for each in some]}
        for group, some in zip(groups, near, strict=True)
    ]
    _show(found, json, lambda each: (" + ".join(each["words"]), each["neighbours"]))


def analogy(
    run: Positional[Space],
    a: Positional[str],
    b: Positional[str],
    c: Positional[str],
    *,
    count: int = 5,
    json: Flag = False,
) -> None:
    """a is to b as c is to what? The words nearest to b − a + c.

    Examples:
      regard analogy runs/vectors man woman actor

    Args:
        a: man is to
        b: woman as
        c: actor is to …
        count: How many answers.
        json: Machine-readable output on stdout.
    """
    _check_count(count)
    answers = [each._asdict() for each in _opened(run).analogy(a, b, c, count)]
    found = [{"a": a, "b": b, "c": c, "answers": answers}]
    _show(found, json, lambda each: (f"{a} : {b} = {c} :", each["answers"]))


def similarity(
    run: Positional[Space], files: Positional[tuple[str, ...]], *, json: Flag = False
) -> None:
    """How well vectors agree with people: rank correlation on pairs of words, or analogies.

    A file of pairs (WordSim-353, SimLex-999, …) has lines of two words and a number; a file of
    analogies (questions-words.txt) has sections, each after a line ": name". Two words instead of
    files give their cosine.

    Examples:
      regard similarity runs/vectors wordsim353.tsv simlex999.txt questions-words.txt
      regard similarity runs/vectors good bad

    Args:
        files: Files of pairs or of analogies; or two words.
        json: Machine-readable output on stdout.
    """
    from dataclasses import asdict

    from regard.word2vec.judging import Agreement, judge

    space = _opened(run)
    if len(files) == 2 and all(each in space for each in files):
        cosine = space.similarity(*files)
        say({"words": [*files], "cosine": cosine} if json else f"{cosine:.4f}")
        return
    if not files:
        raise RecipeError("similarity: give files of pairs or analogies, or two words")
    found = [judge(space, Path(each)) for each in files]
    if json:
        say([asdict(f) if isinstance(f, Agreement) else f.as_dict() for f in found])
    else:
        _judged(found)


def _judged(found: "list[Agreement | Analogies]") -> None:
    from regard.verbs import display
    from regard.word2vec.judging import Agreement

    pairs = [each for each in found if isinstance(each, Agreement)]
    if pairs:
        rows = [
            (Path(p.file).name, *_correlation(p), f"{p.used:,} of {p.pairs:,}") for p in pairs
        ]  # fmt: skip
        display.columns(("pairs", "Spearman", "95 % interval", "p", "with vectors"), rows, ())
    for each in found:
        if not isinstance(each, Agreement):
            sections = [
                (s.name, *_percent(s), f"{s.used:,} of {s.questions:,}")
                for s in (*each.sections, each.total)
            ]
            header = (Path(each.file).name, "right (%)", "95 % interval", "with vectors")
            display.columns(header, sections, ())


def _correlation(found: "Agreement") -> tuple[str, str, str]:
    if found.spearman is None or found.low is None or found.high is None or found.p is None:
        return "–", "–", "–"
    p = f"{found.p:.2g}" if found.p >= 1e-10 else "< 1e-10"
    return f"{found.spearman:.4f}", f"{found.low:.3f} to {found.high:.3f}", p


def _percent(section: Any) -> tuple[str, str]:
    low, high = section.interval
    if low is None:
        return "–", "–"
    return f"{section.accuracy:.2f}", f"{low:.1f} to {high:.1f}"


def is_vectors(path: Path) -> bool:
    """Whether a folder is a run of word2vec, and not of a recipe."""
    return (path / "word2vec.json").is_file()


def inspect(
    run: Path,
    words: Sequence[str],
    output: Path,
    png: Path | None,
    svg: Path | None,
    *,
    as_json: bool,
) -> None:
    """What `regard inspect` does with word vectors."""
    from regard.console import streams
    from regard.verbs import display
    from regard.word2vec import page

    streams.check_place(output)
    with display.waiting("looking at words"):
        written = page.write(_opened(run), words, output, png, svg)
    say({"files": [str(path) for path in written]} if as_json else str(written[0]))


def export(run: Path, file: Path, to: str, *, as_json: bool) -> None:
    """What `regard export` does with word vectors."""
    from regard.verbs import display
    from regard.word2vec.space import export as write

    if to not in ("auto", "word2vec"):
        raise RecipeError(f"to: {run} is a run of word2vec, which has no {to}: --to word2vec")
    with display.waiting(f"writing {file}"):
        form, words = write(_opened(run), file)
    said = f"{file}: {words:,} words in word2vec's {form} form"
    say({"file": str(file), "to": f"word2vec, {form}", "words": words} if as_json else said)


def _opened(path: Path) -> Any:
    from regard.word2vec.space import Space

    return Space.load(path)


def _check_count(count: int) -> None:
    from regard.recipe.values import Few, check

    check("count", count, Few)


def _show(found: list[dict[str, Any]], as_json: bool, part: Any) -> None:
    """Words and cosines, in a column each."""
    if as_json:
        say(found)
        return
    for each in found:
        title, near = part(each)
        print(title)
        for entry in near:
            print(f"  {entry['cosine']:.4f}  {entry['word']}")
