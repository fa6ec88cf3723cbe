"""Verbs that serve: serve, watch; and `regard inspect --live`."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from regard.errors import UserError
from regard.serve.settings import Settings
from regard.verbs.common import (
    Checkpoint,
    Device,
    Engine,
    Parts,
    Quantization,
    add_parts,
    own_process,
)

if TYPE_CHECKING:
    from regard.serve.service import Source

PAUSE = 1.0
"""Seconds between two looks for a run that is not there yet."""
Runs = Annotated[tuple[str, ...], arg(metavar="[[NAME=]RUN ...]", help_behavior_hint="")]


def serve(
    runs: Positional[Runs] = (),
    *,
    settings: Settings = Settings(),  # noqa: B008 - a frozen value
    checkpoint: Checkpoint = "final",
    device: Device = "cpu",
    engine: Engine = "auto",
    quantization: Quantization = "float32",
    parts: Parts = None,
) -> None:
    """Serve runs: a page for people, an API for programs.

    The page is at /, the API speaks as OpenAI's and LibreTranslate's do, and has /v1/predict for
    every task. SIGTERM finishes what was begun, SIGHUP takes up newer versions of the runs.

    Examples:
      regard serve
      regard serve runs/mine
      regard serve runs/multi30k-en-de chat=runs/dialogues --port 9000
      regard serve runs/mine --host 0.0.0.0 --keys keys.txt --rate 600

    Args:
        runs: Folders of runs; without any, that of `regard demo`, which is trained first if there
            is none.
    """
    from regard.serve import server, shelf

    add_parts(parts)
    own_process()
    chosen = list(runs) or [_demo()]
    how = {"checkpoint": checkpoint, "device": device, "engine": engine}
    sources: list[Source] = shelf.sources(chosen, quantization=quantization, **how)
    server.serve(sources, settings, lambda where: print(f"serving at {where}", flush=True))


def watch(
    runs: Positional[tuple[str, ...]],
    *,
    settings: Settings = Settings(),  # noqa: B008 - a frozen value
) -> None:
    """Watch runs in a browser while they train: curves, gradient norms, samples.

    The page reads what the runs record and is drawn again when there is something new. No model
    is opened. A run that is not there yet is waited for.

    Examples:
      regard watch runs/mine
      regard watch runs/mine runs/other --port 9000

    Args:
        runs: Folders of runs, as FOLDER or NAME=FOLDER.
    """
    from regard.serve import server, shelf

    if not runs:
        raise UserError("watch: which run? Say `regard watch runs/NAME`")
    for _, folder in map(shelf.named, runs):
        _await(folder)
    folders = {each.name: each.folder for each in shelf.sources(runs)}
    own_process()

    def say(where: str) -> None:
        print(f"watching at {where}", flush=True)

    server.serve([], settings, say, folders)


def _await(folder: Path) -> None:
    """Wait until a run is there, if there is nothing yet, or it is being made."""
    if not _is_coming(folder):
        return
    print(f"waiting for {folder}, which is not there yet; Ctrl-C ends this", flush=True)
    while _is_coming(folder):
        time.sleep(PAUSE)


def _is_coming(folder: Path) -> bool:
    from regard.runs import preparing
    from regard.train.manifest import RECIPE

    if (folder / RECIPE).is_file() or folder.is_file():
        return False
    made = folder.is_dir() and any(not each.name.startswith(".") for each in folder.iterdir())
    return not made or (folder / preparing.NAME).is_file()


def inside(run: Path, text: str, checkpoint: str, device: str, port: int) -> None:
    """`regard inspect --live`: the page asks for each input, and heads can be switched off."""
    from urllib.parse import quote, urlencode

    from regard.serve import server, shelf

    sources = shelf.sources([str(run)], checkpoint=checkpoint, device=device)
    asked = urlencode({"model": sources[0].name, "text": text}, quote_via=quote)

    def say(where: str) -> None:
        print(f"looking inside at {where}/page/inside.html#{asked}", flush=True)

    server.serve(sources, Settings(port=port), say)


def _demo() -> str:
    """The demonstration's run, which is made if there is none."""
    import sys

    from regard.verbs import demo
    from regard.verbs.common import INTERRUPTED

    folder = Path("runs", "demo-en-de")
    if not (folder / "model").is_dir() and not demo.demo("en-de", None, as_json=False):
        sys.exit(INTERRUPTED)
    return str(folder)
