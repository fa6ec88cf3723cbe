"""One HTML file that shows what happens inside models; it needs no network and no server.

    regard.inspect.report.write("report.html", build([Run(folder)], ["a dog runs ."]))

The page's own files lie in page/: plain HTML, CSS and JavaScript. Texts and numbers travel as
JSON, arrays as blocks; a content security policy lets only our own scripts run and forbids every
request. Whatever comes from data is put into the page as text, never as HTML.
"""

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from regard.console import streams
from regard.errors import UserError
from regard.inspect.blocks import Blocks
from regard.inspect.intervene import attentions, head, intervene
from regard.inspect.senses import senses
from regard.inspect.survey import survey
from regard.inspect.views import LENGTH, read, views
from regard.model import Model
from regard.recipe import checked
from regard.recipe.parts import Part, module
from regard.recipe.values import Length, check
from regard.runs.run import TRIES, Run
from regard.tasks import Searches, check_texts
from regard.train import checkpoint

SCRIPTS = (
    "data.js", "colour.js", "draw.js", "marks.js", "axes.js", "heatmap.js", "lines.js", "words.js",
    "attention.js", "findings.js", "blanks.js", "output.js", "numbers.js", "beam.js", "heads.js",
    "layers.js", "vectors.js", "senses.js", "picture.js", "sound.js", "main.js",
)  # fmt: skip
"""In the order in which they stand in the page."""
STYLES = ("base.css", "style.css")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is looked at, and how."""

    checkpoint: str = "final"
    replay: bool = False
    """Every checkpoint of a run, instead of one."""
    target: str | None = None
    """What is said, instead of what the model would say."""
    length: int = LENGTH
    without_heads: tuple[str, ...] = ()
    beams: int | None = None
    """Of the search, if not as the recipe says."""
    word: str = ""
    """One whose vectors in all the texts are shown beside each other."""
    sentences: int = 0
    """Of the validation part, over which heads are surveyed; 0: they are not."""
    device: str = "cpu"


@dataclass(frozen=True)
class Report:
    """All that a page shows."""

    runs: list[dict[str, Any]]
    texts: list[str]
    blocks: Blocks


def build(
    runs: Sequence[Run],
    texts: Sequence[str],
    options: Options = Options(),  # noqa: B008 (frozen)
) -> Report:
    """Let each run read each text."""
    if not texts:
        raise UserError("inspect: give a text to read")
    check_texts("texts", texts)
    check_texts("target", [options.target or ""])
    check("length", options.length, Length)
    blocks = Blocks()
    found: list[dict[str, Any]] = []
    for name, run in zip(_names(runs), runs, strict=True):
        frames = [
            _frame(run, which, model, texts, options, blocks)
            for which, model in _models(run, options)
        ]
        found.append({"name": name, "task": run.recipe.kind, "frames": frames})
    shown = [reading["text"] for reading in found[0]["frames"][0]["readings"]]
    return Report(found, shown, blocks)


def _names(runs: Sequence[Run]) -> list[str]:
    """The folders' names, whole where two are alike."""
    short = [run.folder.resolve().name for run in runs]
    return short if len(set(short)) == len(short) else [str(run.folder) for run in runs]


def _models(run: Run, options: Options) -> Iterator[tuple[str, Model]]:
    """The checkpoint that is asked for, or all. If the run trains, those to replay may be gone
    before they are read: they are left out, and if all of them are, there are others by now, or
    at least a newest one."""
    if not options.replay:
        yield options.checkpoint, run.model(options.checkpoint, options.device)
        return
    seen = 0
    for _ in range(TRIES):
        for which in _whole(run):
            try:
                model = run.model(which, options.device)
            except UserError:
                if (run.checkpoints / f"{int(which):08d}").is_dir():
                    raise
                continue
            seen += 1
            yield which, model
        if seen:
            return
    newest = run.loaded("last", options.device)  # which is looked for until it is there
    yield str(newest.progress.update), newest.model


def _whole(run: Run) -> list[str]:
    found = [str(c.update) for c in checkpoint.checkpoints(run.checkpoints) if not c.fault()]
    if not found and not checkpoint.checkpoints(run.checkpoints):
        raise UserError(f"{run.folder} has no checkpoint to replay")
    return found


def _frame(
    run: Run, which: str, model: Model, texts: Sequence[str], options: Options, blocks: Blocks
) -> dict[str, Any]:
    """One checkpoint: what it makes of each text."""
    task, found = run.task, search(run, options)
    changes = [head(text, model) for text in options.without_heads]
    asked: Any = {"target": options.target, "length": options.length}
    with intervene(model, *changes):
        looked = [read(run, task, model, text, found, **asked) for text in texts]
        readings = [views(task, model, reading, blocks) for reading in looked]
        if options.word:
            alike = senses(model, looked, options.word, blocks)
            readings = [reading | {"senses": alike} for reading in readings]
    if options.sentences and attentions(model):
        seen = survey(run, sentences=options.sentences, model=model)
        readings = [reading | {"heads": seen.as_dict()} for reading in readings]
    label = f"update {int(which):,}" if which.isdigit() else which
    return {"label": label, "without": [str(change) for change in changes], "readings": readings}


def search(run: Run, options: Options) -> Part:
    """Beam search, which has a tree to show, if the recipe does not say how it is done."""
    config = run.recipe.task
    chosen = config.search if isinstance(config, Searches) else None
    if chosen is None or chosen.kind != "beam":
        chosen = Part("beam", module("search", "beam").Config())
    known = {} if options.beams is None else {"beams": options.beams}
    return Part("beam", replace(chosen.config, **known))


def packed(report: Report) -> tuple[dict[str, Any], dict[int, str]]:
    """What the page reads: a tree of plain values, and the blocks of its arrays by number."""
    texts, levels = report.blocks.packed()
    return {"runs": report.runs, "texts": report.texts, "levels": levels}, texts


def page(report: Report) -> str:
    """The whole page."""
    content, texts = packed(report)
    style = "".join(map(_file, STYLES))
    scripts = [_file(name) for name in SCRIPTS]
    policy = (
        f"default-src 'none'; img-src data:; media-src data:; base-uri 'none'; form-action 'none'; "
        f"style-src {_hash(style)}; script-src {' '.join(map(_hash, scripts))}"
    )
    blocks = (
        f'<script type="text/plain" id="block-{number}">{text}</script>'
        for number, text in texts.items()
    )
    parts = {
        "policy": policy,
        "style": f"<style>{style}</style>",
        "data": f'<script type="application/json" id="data">{_json(content)}</script>',
        "scripts": "\n".join(f"<script>{script}</script>" for script in scripts),
        "blocks": "\n".join(blocks),
    }
    # In one go: what is put in is not looked at again.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _file("page.html"))


def _file(name: str) -> str:
    return (resources.files("regard.inspect") / "page" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _json(value: Any) -> str:
    """JSON that can stand inside a script element: no `<` may begin a tag or a comment."""
    text = checked.written(value, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def write(path: Path | str, report: Report) -> Path:
    """Write the page; lone surrogates, which UTF-8 cannot hold, become question marks."""
    path = Path(path)
    streams.put(path, page(report).encode("utf-8", "replace"))
    return path
