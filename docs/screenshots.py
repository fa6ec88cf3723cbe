"""The pictures of looking-inside.md: `python docs/screenshots.py PAGE.html PREFIX VIEW …`.

Those of runs that learnt from plain text, each named by what it is shown as (any of these four):

    python docs/screenshots.py labels=RUN gpt=RUN blanks=RUN vectors=RUN

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

from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).parent / "images"


class Shown(NamedTuple):
    """What a run reads, and which views are kept of it; none: the pictures that inspect draws."""

    words: tuple[str, ...]
    views: tuple[str, ...] = ()


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
    "labels": [Shown((REVIEW,), ("tokens", "attention", "attribution"))],
    "gpt": [Shown(GYM, ("tokens", "attention", "lens"))],
    "blanks": [
        Shown((BLANKS,), ("blanks", "attention")),
        Shown((*SENSES, "--word", "transformers"), ("senses",)),
    ],
    "vectors": [Shown(("man:woman", "actor:actress", "king:queen", "son:daughter"))],
}


def learned(name: str, run: Path) -> None:
    """Look into a run, and keep what is seen of it."""
    if name not in LEARNED:
        sys.exit(f"{name}: there are {', '.join(LEARNED)}")
    for shown in LEARNED[name]:
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder, "page.html")
            command = [sys.executable, "-m", "regard", "inspect", str(run), *shown.words]
            pictures = [] if shown.views else ["--png", folder]
            subprocess.run([*command, "--output", str(page), *pictures], check=True)
            if shown.views:
                main(page, name, [*shown.views])
            for made in sorted(Path(folder).glob("*.png")):
                print(shutil.copy(made, IMAGES / f"{name}-{made.name}"))


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
            learned(shown_as, Path(place))
    else:
        main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
