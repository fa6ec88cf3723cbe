"""A real browser, and pages of every family for it to open."""

import importlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.inspect import report, views
from regard.inspect.attribution import Attribution, embeddings
from regard.inspect.reading import Measure
from regard.model import Model
from regard.runs import Run
from regard.types import Batch
from tests import small_runs

# Where they must run, a browser that is missing is a failure: see .ci/run.
REQUIRED = os.environ.get("REGARD_BROWSER") == "required"
find = importlib.import_module if REQUIRED else pytest.importorskip
CHROMIUM = os.environ.get("REGARD_CHROMIUM") or shutil.which("chromium") or ""
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
    "--use-fake-device-for-media-stream",
]  # fmt: skip
SLOW = pytest.mark.skipif(
    os.environ.get("REGARD_PAGES") != "full", reason="every view of every task: make pages"
)
LONG = " ".join(["two dogs play in the snow and a man sits by an unbelievably old window"] * 4)
"""60 words, some of which no vocabulary has."""
OF_FILES = {"forecaster", "listener", "describer", "comparer"}
"""Families that read no text."""
Opened = Callable[..., Any]


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    made: dict[str, Run] = {}

    def run(kind: str) -> Run:
        if kind not in made:
            folder = tmp_path_factory.mktemp("runs") / kind
            made[kind] = small_runs.make(kind, folder, (10, 20, 30) if kind == "lstm" else ())
        return made[kind]

    return run


@pytest.fixture(scope="session")
def pages(
    runs: Callable[[str], Run], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """The page of each family, written once: a hostile text, and a long one."""
    written: dict[str, Path] = {}

    def page(kind: str) -> Path:
        if kind not in written:
            asked: Any = {"sentences": 2, "word": "dogs"} if kind == "transformer" else {}
            options = report.Options(length=4, **asked)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(views, "attribute", contributions)
                made = report.build([runs(kind)], texts(kind), options)
            written[kind] = report.write(tmp_path_factory.mktemp("pages") / f"{kind}.html", made)
        return written[kind]

    return page


def contributions(
    model: Model, batch: Batch, position: int, symbol: int, measure: Measure
) -> Attribution:
    """Some for each position: a page draws any numbers, and those of 60 outputs take long."""
    source, target = (torch.linspace(-1, 1, len(side)) for side in embeddings(model, batch))
    return Attribution((1 + position) * source, target, 1.0, 0.0)


def texts(kind: str) -> list[str]:
    task = small_runs.FAMILIES[kind][0]
    example = small_runs.example(task)
    return [example, example if kind in OF_FILES else LONG]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright: Any = find("playwright.sync_api")
    if not CHROMIUM:
        reason = "no chromium: install it, or name it in REGARD_CHROMIUM"
        pytest.fail(reason) if REQUIRED else pytest.skip(reason)
    with playwright.sync_playwright() as play:
        launched = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def opened(browser: Any) -> Iterator[Opened]:
    """Opens a file; in the end nothing may have gone wrong or been asked of any network."""
    faults: list[str] = []
    contexts = []

    def open_(path: Path, view: str = "", script: str = "", **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})
        contexts.append(context)
        if script:
            context.add_init_script(script)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(f"error: {error}"))
        page.on("console", lambda message: faults.append(f"console: {message.text}"))
        page.on(
            "request",
            lambda request: None if request.url.startswith("file:") else faults.append(request.url),
        )
        page.goto(f"{path.as_uri()}#{view}")
        page.wait_for_selector("html[data-ready]")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert faults == []
