"""The pictures of looking-inside.md and of serving.md.

    python docs/screenshots.py PAGE.html PREFIX VIEW …

Those of runs that learnt from plain text, from pictures and from sounds, each named by what it is
shown as (any of these):

    python docs/screenshots.py labels=RUN gpt=RUN blanks=RUN vectors=RUN
    python docs/screenshots.py scenes=RUN tones=RUN

The latter may be those of `regard demo --task caption` and `--task transcribe`.

Those of serving.md, of what `regard serve` and `regard watch` show (any of these four):

    python docs/screenshots.py translate=RUN write=RUN compare=RUN,RUN watch=RUN

A view is the name of a tab, with what is clicked there, if anything: `attention:[data-head='0.0']`,
which frame of a replay is shown: `alignment#2`, and how high the picture may be: `states@900`.
Needs playwright, and chromium on the path.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlencode

from PIL import Image
from playwright.sync_api import sync_playwright

from regard.data import catalogue

IMAGES = Path(__file__).parent / "images"
WIDE = 900


class Shown(NamedTuple):
    """What a run reads, and which views are kept of it; none: the pictures that inspect draws, or
    those of them that begin with `drawn`."""

    words: tuple[str, ...]
    views: tuple[str, ...] = ()
    drawn: str = ""


REVIEW = "The plot is thin, but the actors are wonderful."
BLANKS = "Let's make [MASK] chicken! [SEP] It [MASK] great with orange sauce"
SENSES = (
    "The transformers hum in the station, and the current flows.",
    "Two transformers burnt out, and the whole town was dark.",
    "The film is about transformers, robots that become cars.",
    "My son loves transformers, and so he loved the film.",
)
GYM = ("I went to the climbing gym and I", "--length", "12")
LEARNED = {
    "labels": [Shown((REVIEW,), ("attention", "attribution"))],
    "gpt": [Shown(GYM, ("tokens", "attention", "lens"))],
    "blanks": [
        Shown((BLANKS,), ("blanks",)),
        Shown((*SENSES, "--word", "transformers"), ("senses@1000",)),
    ],
    "scenes": [Shown((str(catalogue.home() / "scenes/test/0000.png"),), drawn="picture")],
    "tones": [Shown((str(catalogue.home() / "tones/test/0000.wav"),), drawn="sound")],
    "vectors": [Shown(("man:woman", "actor:actress", "king:queen", "son:daughter"))],
}


class Served(NamedTuple):
    """A page of a server: what stands in its link, what is clicked there, and what then appears."""

    verb: str
    asked: dict[str, str]
    clicked: tuple[str, ...]
    shown: str
    size: tuple[int, int] = (1100, 560)
    dark: bool = False


SERVED = {
    "translate": Served(
        "serve",
        {"text": "The woman has a green apple. Where is the big house?"},
        (".translation .word >> nth=-3",),
        ".alternatives-box .other",
    ),
    "write": Served(
        "serve",
        {"text": "The time traveller ", "length": "60", "seed": "4", "temperature": "0.7"},
        ("text=Continue the text",),
        ".tints",
        (390, 720),
        dark=True,
    ),
    "compare": Served(
        "serve",
        {"text": "The plot is thin, but the actors are wonderful."},
        ("text=Compare",),
        ".output >> nth=1 >> .figure",
        (1100, 480),
    ),
    "watch": Served("watch", {}, (), "figcaption", (1100, 760)),
}


def served(name: str, runs: list[str]) -> None:
    """Serve or watch runs, and keep what is seen of it."""
    page = SERVED[name]
    command = [sys.executable, "-m", "regard", page.verb, *runs, "--port", "0", "--log", "errors"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    address = server.stdout.readline().split()[-1]
    try:
        with sync_playwright() as play:
            browser = play.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
            )
            width, height = page.size
            tab = browser.new_page(
                viewport={"width": width, "height": height},
                color_scheme="dark" if page.dark else "light",
            )
            tab.set_default_timeout(300_000)
            tab.goto(f"{address}/#{urlencode(page.asked, quote_via=quote)}")
            tab.wait_for_selector("html[data-ready]")
            for selector in page.clicked:
                tab.click(selector)
            tab.wait_for_selector(page.shown)
            tab.wait_for_timeout(1500)
            target = IMAGES / f"serve-{name}.png"
            tab.screenshot(path=target)
            print(target)
            browser.close()
    finally:
        server.terminate()
        server.wait()


def learned(name: str, run: Path) -> None:
    """Look into a run, and keep what is seen of it."""
    if name not in LEARNED:
        sys.exit(f"{name}: there are {', '.join((*LEARNED, *SERVED))}")
    for shown in LEARNED[name]:
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder, "page.html")
            command = [sys.executable, "-m", "regard", "inspect", str(run), *shown.words]
            pictures = [] if shown.views else ["--png", folder]
            subprocess.run([*command, "--output", str(page), *pictures], check=True)
            if shown.views:
                main(page, name, [*shown.views])
            for made in sorted(Path(folder).glob(f"{shown.drawn}*.png")):
                target = IMAGES / f"{name}-{made.name}"
                print(shrunk(made, target) if shown.drawn else shutil.copy(made, target))


def shrunk(drawn: Path, target: Path) -> Path:
    """A picture of pictures takes half a megabyte: 900 pixels wide, in 256 colours."""
    with Image.open(drawn) as image:
        size = WIDE, round(image.height * WIDE / image.width)
        image.convert("RGB").resize(size, Image.Resampling.LANCZOS).quantize(
            256, method=Image.Quantize.FASTOCTREE
        ).save(target)
    return target


def main(page: Path, prefix: str, views: list[str]) -> None:
    with sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        tab = browser.new_page(viewport={"width": 1100, "height": 700}, color_scheme="light")
        tab.goto(page.resolve().as_uri())
        tab.wait_for_selector("html[data-ready]")
        for asked in views:
            found = re.fullmatch(r"(\w+)(?::(.+?))?(?:#(\d+))?(?:@(\d+))?", asked)
            view, clicked, frame, height = found.groups()
            tab.click(f"#tab-{view}")
            if frame:
                tab.locator("[data-control=replay]").fill(frame)
            for selector in (clicked or "").split(";;"):
                if selector:
                    tab.click(selector)
            tab.wait_for_timeout(1500)
            box = tab.locator("#panel").bounding_box()
            top = 0 if frame else box["y"] - 8  # the slider stands above the view
            high = box["y"] - top + min(box["height"], float(height or 900)) + 8
            clip = {"x": 0, "y": top, "width": 1100, "height": high}
            name = "-".join(filter(None, [view, *re.findall(r"'([\w.]+)'", clicked or ""), frame]))
            target = IMAGES / f"{prefix}-{name}.png"
            tab.screenshot(path=target, full_page=True, clip=clip)
            print(target)
        browser.close()


if __name__ == "__main__":
    if "=" in sys.argv[1]:
        for each in sys.argv[1:]:
            shown_as, _, place = each.partition("=")
            if shown_as in SERVED:
                served(shown_as, place.split(","))
            else:
                learned(shown_as, Path(place))
    else:
        main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
