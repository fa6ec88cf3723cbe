"""Every view of every task on a wide, a middling and a narrow screen: nothing is off the screen,
cut, too small to read, or in a box that scrolls by itself."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import SLOW, Opened

pytestmark = [pytest.mark.timeout(300), SLOW]
WIDTHS = (1400, 800, 390)
SPY = """
window.spied = []; // every text that is drawn on a canvas: how large, and whether a part is outside
const put = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
    const wide = this.measureText(text).width;
    const from = x - wide * ({ right: 1, center: 0.5 }[this.textAlign] ?? 0);
    const ends = [from, from + wide].map((at) => this.getTransform().transformPoint({ x: at, y }));
    const { width, height } = this.canvas;
    spied.push({ canvas: this.canvas, text, size: parseFloat(/([\\d.]+)px/.exec(this.font)[1]),
        cut: ends.some((at) => at.x < -2 || at.y < -2 || at.x > width + 2 || at.y > height + 2) });
    return put.call(this, text, x, y);
};
"""
LOOK = """() => {
    const found = [];
    const say = (what, e) => found.push(`${what}: ${e.tagName}.${e.getAttribute("class") ?? ""} ` +
        (e.textContent ?? "").slice(0, 30));
    for (const e of document.body.querySelectorAll("*")) {
        if (e.closest(".skip, .cards thead, option, script, noscript")) continue;
        const [box, style] = [e.getBoundingClientRect(), getComputedStyle(e)];
        if (box.width && (box.right > innerWidth + 1 || box.left < -1)) say("off the screen", e);
        if (/auto|scroll/.test(style.overflowX + style.overflowY)) say("scrolls by itself", e);
        const text = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
        if (text && parseFloat(style.fontSize) < 11) say("small", e);
        if (e.tagName !== "text") continue;
        const frame = e.closest("svg").getBoundingClientRect();
        const inside = box.left >= frame.left - 1 && box.right <= frame.right + 1 &&
            box.top >= frame.top - 1 && box.bottom <= frame.bottom + 1;
        if (!inside) say("cut", e);
    }
    for (const { canvas, text, size, cut } of spied) {
        if (!canvas.isConnected) continue;
        if (size < 11) found.push(`small: ${text}`);
        if (cut) found.push(`cut: ${text}`);
    }
    return found;
}"""
# All views of a page, one after the other: what is wrong, by view.
EACH = f"""async () => {{
    const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 30)));
    const found = {{}};
    for (const tab of [...document.querySelectorAll("[role=tab]")].map((tab) => tab.id.slice(4))) {{
        spied.length = 0;
        regard.open(tab);
        for (let n = 0; n < 3; n++) await frame();
        const faults = ({LOOK})();
        if (faults.length) found[tab] = faults.slice(0, 5);
    }}
    return found;
}}"""
ONE_OF_EACH_TASK = ["transformer", "causal", "classifier", "tagger", "forecaster"]


def sized(width: int) -> dict[str, Any]:
    return {"viewport": {"width": width, "height": 844}, "script": SPY}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", ONE_OF_EACH_TASK)
def test_every_view_fits(kind: str, width: int, pages: Callable[[str], Path], opened: Opened):
    page = opened(pages(kind), **sized(width))
    page.select_option("header select", "1")  # the long text
    assert page.evaluate(EACH) == {}
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if kind != "forecaster":
        assert page.evaluate("regard.content().texts[1].split(' ').length") == 60


def test_faults_would_be_found(pages: Callable[[str], Path], opened: Opened):
    page = opened(pages("classifier"), "attention", **sized(800))
    page.evaluate(
        """() => {
            const style = { overflow: "auto", width: "900px", fontSize: "9px" };
            const box = regard.make("div", { style, text: "x" });
            const [canvas, pen] = regard.canvas(20, 20);
            document.body.append(box, canvas, regard.svg("svg", { width: 9, height: 9 },
                regard.svg("text", { x: 40, y: 40, text: "y" })));
            pen.fillText("a long text", 0, 9);
        }"""
    )
    found = {fault.split(":")[0] for fault in page.evaluate(LOOK)}
    assert found == {"off the screen", "scrolls by itself", "small", "cut"}


def test_a_new_width_draws_the_pictures_again(pages: Callable[[str], Path], opened: Opened):
    page = opened(pages("transformer"), "attention", **sized(1400))
    canvas = "[data-view=heatmap] canvas.map"
    page.wait_for_selector(canvas)
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_function(
        f"() => parseFloat(document.querySelector('{canvas}')?.style.width) <= 390"
    )
    page.wait_for_function("() => document.documentElement.scrollWidth <= 390")


@pytest.mark.parametrize("width", WIDTHS)
def test_input_and_output_stay_in_sight(width: int, pages: Callable[[str], Path], opened: Opened):
    page = opened(pages("causal"), "attribution", **sized(width))
    page.select_option("header select", "1")
    page.wait_for_selector("[data-view=heatmap] canvas.map")
    page.evaluate("scrollTo({ top: 500, behavior: 'instant' })")
    box = page.evaluate("document.getElementById('pinned').getBoundingClientRect().toJSON()")
    assert box["top"] == 0 and box["height"] <= 0.45 * 844
    words = page.inner_text("#pinned [aria-label='Words of the input']").split()
    assert len(words) == 60
