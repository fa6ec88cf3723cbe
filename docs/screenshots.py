"""The pictures of looking-inside.md: `python docs/screenshots.py PAGE.html PREFIX VIEW …`.

A view is the name of a tab, with what is clicked there, if anything: `attention:[data-head='0.0']`,
which frame of a replay is shown: `alignment#2`, and how high the picture may be: `states@900`.
Needs playwright, and chromium on the path.
"""

import re
import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright


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
            target = Path(__file__).parent / "images" / f"{prefix}-{name}.png"
            tab.screenshot(path=target, full_page=True, clip=clip)
            print(target)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
