"""Verbs that show: inspect, data, keys."""

from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, UseAppendAction, arg

from regard.console import streams
from regard.errors import RecipeError, UserError
from regard.verbs import serving, vectors
from regard.verbs.common import (
    Checkpoint,
    Device,
    Flag,
    Folder,
    From,
    Maybe,
    Parts,
    add_parts,
    own_process,
    say,
    unfinished_key,
    whole_file,
)
from regard.verbs.sources import is_there
from regard.verbs.vectors import is_vectors


def inspect(
    run: Positional[Folder],
    texts: Positional[tuple[str, ...]] = (),
    *,
    output: Path = Path("inspect.html"),
    compare: Annotated[UseAppendAction[tuple[Path, ...]], arg(aliases=("--with",))] = (),
    replay: Flag = False,
    without_head: tuple[str, ...] = (),
    heads: Flag = False,
    sentences: int = 200,
    word: str = "",
    target: Maybe[str] = None,
    length: int = 20,
    beams: Maybe[int] = None,
    live: Flag = False,
    port: int = 8000,
    png: Maybe[Path] = None,
    svg: Maybe[Path] = None,
    checkpoint: Checkpoint = "final",
    device: Device = "cpu",
    parts: Parts = None,
    json: Flag = False,
) -> None:
    """Look inside a model while it reads a text: one HTML file that needs no network.

    Attention of every layer and head, alignment, beam search tree, probabilities and
    alternatives of every token, states and gates, gradients, positions, embeddings, attribution,
    logit lens.
    A run that forecasts reads files (CSV) instead of texts. Of word vectors, words are shown on a
    map, with their neighbours, and pairs with a colon between as arrows.

    Examples:
      regard inspect runs/mine "a dog runs ."
      regard inspect runs/mine "a dog runs ." "two men sit ." --output dogs.html --svg figures
      regard inspect runs/mine "a dog runs ." --without-head cross.1.3
      regard inspect runs/mine "a dog runs ." --replay
      regard inspect runs/mine --with runs/other "a dog runs ."
      regard inspect runs/mine --heads
      regard inspect runs/mine "a dog runs ." --live
      regard inspect runs/vectors man:woman actor:actress
      regard inspect runs/bert --word bank "the bank of the river" "the bank lends money"

    Args:
        texts: What the model is to read.
        output: The file to write.
        compare: Another run, shown side by side with the first, with a map of the difference; once
            for each run.
        replay: Every checkpoint of the run, to be moved through by a slider.
        without_head: Heads to switch off: KIND.LAYER.HEAD, KIND being encoder, decoder or cross.
        heads: Survey all attention heads: where they look and what it costs to be without each.
            Without a text, as a table on stdout; with one, as a view of the page.
        sentences: Of the validation part, for that survey.
        word: Show how alike the vectors of this word are in the texts, layer by layer.
        target: Take this for the output, instead of what the model would say.
        length: Tokens that a language model goes on for.
        beams: Hypotheses that beam search keeps.
        live: Serve the page instead of writing it: inputs are changed in it, heads switched off.
        port: Where the live page is served, on this machine alone.
        png: A folder for the views as PNG pictures.
        svg: A folder for the views as SVG pictures.
        json: The names of the files written, as JSON on stdout.
    """
    if is_vectors(run):
        vectors.inspect(run, texts, output, png, svg, as_json=json)
        return
    if live:
        if len(texts) > 1 or compare or replay:
            raise UserError("inspect --live: one run and at most one text; more in the page itself")
        add_parts(parts)
        own_process()
        serving.inside(run, texts[0] if texts else "", checkpoint, device, port)
        return
    from regard.inspect import pictures, report
    from regard.inspect.survey import survey
    from regard.runs import Run, state
    from regard.verbs import display

    add_parts(parts)
    if texts or not heads:
        streams.check_place(output)
    own_process()
    opened = Run(run)
    others = [*map(Run, compare)]
    found = [state.unfinished_at(each, checkpoint) for each in (opened, *others)]
    for each in found:
        display.unfinished(each)
    mark = unfinished_key(found[0])
    if heads and not texts:
        with display.waiting("looking at heads"):
            seen = survey(opened, sentences=sentences, checkpoint=checkpoint, device=device)
        say(seen.as_dict() | mark) if json else display.columns(*seen.table())
        return
    for text in texts:
        if is_there(Path(text) / "manifest.json"):
            raise UserError(f"{text} is a run, not a text: to show it as well, say --with {text}")
    if opened.task.reads_files:
        texts = tuple(whole_file(Path(text)) for text in texts)
        target = whole_file(Path(target)) if target else None
    options = report.Options(
        checkpoint=checkpoint, replay=replay, target=target, length=length,
        without_heads=without_head, beams=beams, device=device, word=word,
        sentences=sentences if heads else 0,
    )  # fmt: skip
    with display.waiting("looking inside"):
        made = report.build([opened, *others], texts, options)
        written = [report.write(output, made)]
        for folder, suffix in ((png, "png"), (svg, "svg")):
            written += pictures.write(folder, suffix, made) if folder else []
    say({"files": [str(path) for path in written], **mark} if json else str(written[0]))


def data(
    action: Positional[Literal["list", "get", "show"]],
    name: Positional[Maybe[str]] = None,
    *,
    source: From = None,
    json: Flag = False,
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
    from regard.data import catalogue
    from regard.verbs import display

    if action == "list":
        display.data_sets([catalogue.describe(n) for n in catalogue.names()], as_json=json)
        return
    if name is None:
        raise RecipeError(f"data {action}: which one? `regard data list` has them all")
    if action == "get":
        local = _expanded(source) if source else None
        with display.waiting(f"getting {name}") as far:
            folder = catalogue.get(name, local, progress=far)
        say({"name": name, "folder": str(folder)} if json else str(folder))
    else:
        entry = catalogue.describe(name)
        sample = catalogue.sample(name, 3) if entry["present"] else {}
        display.data_set(entry, sample, as_json=json)


def _expanded(folder: Path) -> Path:
    """A shell leaves the ~ where it does not know whose home is meant."""
    try:
        return folder.expanduser()
    except RuntimeError as error:
        raise UserError(f"--from {folder}: {error}") from None


def keys(words: Positional[tuple[str, ...]] = (), *, json: Flag = False) -> None:
    """Every key that a recipe may have: its meaning, its type, its default.

    Examples:
      regard keys
      regard keys language_model | less
      regard keys dropout
      regard keys translate warmup

    Args:
        words: A task, and words to search for in the names and meanings of its keys; words alone
            search all tasks. Names of other toolkits (lr, vocab_size) are found, too.
        json: Machine-readable output on stdout.
    """
    from regard.verbs import keys as reference

    found = reference.asked(words)
    if json:
        say([{**s._asdict(), "keys": [k._asdict() for k in s.keys]} for s in found])
    else:
        print(reference.as_text(found))
