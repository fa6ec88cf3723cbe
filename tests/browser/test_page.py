"""The page of `regard inspect`, in a real browser."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.inspect import report
from regard.inspect.blocks import Blocks
from regard.runs import Run
from tests import small_runs
from tests.browser.conftest import OF_FILES, Opened, find, texts

pytestmark = pytest.mark.timeout(300)  # a browser among other tests may have to wait
COMMON = {"tokens", "attribution", "states", "gradient", "embeddings"}
VIEWS = {
    "transformer": COMMON
    | {"attention", "alignment", "beam", "heads", "lens", "positions", "senses"},
    "lstm": COMMON | {"attention", "alignment", "beam"},
    "gru": COMMON | {"attention", "alignment", "beam"},
    "causal": COMMON | {"attention", "beam", "lens", "positions"},
    "classifier": COMMON | {"attention", "lens", "positions", "pooling"},
    "filler": COMMON | {"blanks", "attention", "lens", "positions"},
    "both_ways": COMMON - {"embeddings"} | {"blanks"},
    "listener": COMMON - {"embeddings"} | {"attention", "lens", "positions", "sound"},
    "describer": COMMON | {"attention", "alignment", "beam", "picture"},
    "comparer": COMMON - {"embeddings"}
    | {"attention", "lens", "positions", "picture", "similarities"},
    "tagger": COMMON | {"transitions"},
    "forecaster": COMMON - {"tokens", "embeddings"} | {"numbers", "attention", "lens", "positions"},
}
EACH = pytest.mark.parametrize("kind", small_runs.FAMILIES)


def show(page: Any, view: str) -> None:
    """Open a view and wait until it is drawn."""
    page.click(f"#tab-{view}")
    own = f"canvas[data-view={view}]" if view in ("picture", "sound") else "canvas, svg, table"
    page.wait_for_selector(f"#panel :is({own}, .chances li)")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    page.wait_for_timeout(40)


def too_wide(page: Any) -> int:
    """By how many pixels the page is wider than the screen."""
    return int(page.evaluate("document.documentElement.scrollWidth - innerWidth"))


COLOURS = """canvas => {
    const [pen, seen] = [canvas.getContext("2d"), new Set()];
    const {data} = pen.getImageData(0, 0, canvas.width, canvas.height);
    for (let at = 0; at < data.length; at += 4) seen.add(data.slice(at, at + 4).join());
    return seen.size;
}"""


def drawn(page: Any) -> bool:
    """Something is to be seen: pictures of several colours, marks of a drawing, rows of a table."""
    canvases = page.query_selector_all(
        "#panel :is(figure canvas.map, canvas[data-view=picture], canvas[data-view=sound])"
    )
    if any(canvas.evaluate(COLOURS) < 3 for canvas in canvases):
        return False
    marks = page.query_selector_all(
        "#panel :is(svg polyline, svg circle, svg rect, tbody tr, .chances li)"
    )
    return bool(canvases or marks)


@EACH
def test_every_view_draws_and_hostile_texts_are_only_texts(
    kind: str, pages: Callable[[str], Path], opened: Opened
):
    page = opened(pages(kind))
    tabs = [tab.get_attribute("id") for tab in page.query_selector_all("[role=tab]")]
    assert {tab.removeprefix("tab-") for tab in tabs} == VIEWS[kind]
    for view in VIEWS[kind]:
        show(page, view)
        assert drawn(page), view
        assert page.evaluate("window.hacked") is None, view
        assert page.query_selector("#panel img, #panel script") is None, view
        assert too_wide(page) <= 0, view
    if "attention" in VIEWS[kind]:
        show(page, "attention")
        page.click("[data-value=lines]")
        page.wait_for_selector("[data-view=lines] canvas")
        assert drawn(page)
    show(page, "states")
    assert "\u202e" not in page.text_content("#panel")
    assert kind in OF_FILES or "‹202E›" in page.text_content("#panel")


def test_a_head_that_is_chosen_is_shown(pages: Callable[[str], Path], opened: Opened):
    page = opened(pages("transformer"), "attention")
    canvas = "[data-view=heatmap] canvas.map"
    page.wait_for_selector(canvas)
    before = page.eval_on_selector(canvas, "canvas => canvas.toDataURL()")
    page.click("[data-head='1.1']")
    page.wait_for_function(
        "() => document.querySelector('figcaption').textContent.includes('head 1')"
    )
    after = page.eval_on_selector(canvas, "canvas => canvas.toDataURL()")
    assert before != after
    assert page.get_attribute("[data-head='1.1']", "aria-pressed") == "true"
    assert page.get_attribute("[data-head='0.0']", "aria-pressed") == "false"


def test_the_page_shows_what_was_computed(
    pages: Callable[[str], Path], runs: Callable[[str], Run], opened: Opened
):
    """The weight that is read out in the page is the model's own, within a level."""
    run = runs("transformer")
    made = report.build([run], texts("transformer")[:1], report.Options(length=4))
    view = next(
        v for v in made.runs[0]["frames"][0]["readings"][0]["attention"] if v["kind"] == "cross"
    )
    weight = float(made.blocks.array(view["layers"][0])[0][0, 0])
    page = opened(pages("transformer"), "attention")
    page.wait_for_selector("[data-view=heatmap] canvas.map")
    page.focus("[data-view=heatmap] canvas.map")
    page.keyboard.press("ArrowDown")
    shown = float(page.inner_text("[data-view=heatmap] .readout").rsplit(" ", 1)[1])
    assert shown == pytest.approx(weight, abs=0.005)
    first = page.inner_text("[data-view=heatmap] .readout")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("[data-view=heatmap] .readout") != first


def test_only_our_own_scripts_may_run(pages: Callable[[str], Path], opened: Opened):
    text = pages("transformer").read_text()
    assert "default-src 'none'" in text and "unsafe" not in text
    page = opened(pages("transformer"))
    assert page.evaluate("typeof regard.heatmap") == "function"


@pytest.mark.parametrize(
    ("kind", "scheme", "width"),
    [
        ("transformer", "light", 1400), ("transformer", "dark", 390), ("lstm", "light", 800),
        ("causal", "light", 390), ("classifier", "dark", 390), ("tagger", "light", 390),
        ("forecaster", "light", 800),
    ],
)  # fmt: skip
def test_nothing_bars_the_way(
    kind: str, scheme: str, width: int, pages: Callable[[str], Path], opened: Opened
):
    size = {"width": width, "height": 844}
    page = opened(pages(kind), color_scheme=scheme, bypass_csp=True, viewport=size)
    for view in VIEWS[kind]:
        show(page, view)
        found = find("axe_playwright_python.sync_playwright").Axe().run(page).response["violations"]
        told = [(v["id"], [node["html"][:120] for node in v["nodes"]][:3]) for v in found]
        assert told == [], view


def test_the_keyboard_is_enough(pages: Callable[[str], Path], opened: Opened):
    page = opened(pages("transformer"))
    page.focus("[role=tab][aria-selected=true]")
    page.keyboard.press("ArrowRight")
    assert page.get_attribute("#tab-attention", "aria-selected") == "true"
    assert page.evaluate("document.activeElement.id") == "tab-attention"
    page.wait_for_selector("[data-head='1.0']")
    page.focus("[data-head='1.0']")
    page.keyboard.press("Enter")
    page.wait_for_function(
        "() => document.querySelector('figcaption').textContent.includes('layer 1')"
    )


def test_checkpoints_are_replayed_and_runs_stand_side_by_side(
    runs: Callable[[str], Run], opened: Opened, tmp_path: Path
):
    options = report.Options(replay=True, target="a man sits", length=3)
    both = [runs("lstm"), small_runs.make("lstm", tmp_path / "other", (10, 40))]
    page = opened(report.write(tmp_path / "replay.html", report.build(both, ["a dog"], options)))
    sections = [s.get_attribute("aria-label") for s in page.query_selector_all("#panel section")]
    assert sections == ["lstm", "other"]
    assert "update 30" in page.inner_text("#panel section:nth-child(1) .run")
    last = page.inner_text("#panel")
    page.focus("[data-control=replay]")
    page.keyboard.press("ArrowLeft")
    assert "update 20" in page.inner_text("#panel section:nth-child(1) .run")
    assert "update 40" in page.inner_text("#panel section:nth-child(2) .run")
    assert page.inner_text("#panel") != last


def test_a_long_text_stays_usable(opened: Opened, tmp_path: Path):
    """512 tokens, 12 layers, 12 heads: at most 20 MB, and the first view within a second."""
    dice = np.random.default_rng(1)
    blocks = Blocks()
    layers = []
    weights = np.exp(2 * dice.standard_normal((12, 512, 512), np.float32))
    weights /= weights.sum(-1, keepdims=True)
    for layer in range(12):
        layers.append(blocks.weights(np.roll(weights, layer, 1)))
    words = [f"word{n}" for n in range(512)]
    rows = [
        {
            "piece": w,
            "p": 0.5,
            "log_prob": -0.7,
            "rank": 1,
            "entropy": 1.0,
            "alternatives": [["x", 0.1]],
        }
        for w in words
    ]
    view = {"kind": "encoder", "rows": "source", "columns": "source", "layers": layers}
    reading = {
        "text": " ".join(words), "output": "out", "source": words, "read": words, "said": words,
        "of": [], "given": 0, "attention": [view],
        "tokens": {"rows": rows, "words": [{"from": n, "to": n + 1, "p": 0.5} for n in range(512)],
                   "total": -1.0},
    }  # fmt: skip
    frame = {"label": "final", "without": [], "readings": [reading]}
    made = report.Report([{"name": "long", "task": "x", "frames": [frame]}], ["long"], blocks)
    path = report.write(tmp_path / "long.html", made)
    assert path.stat().st_size <= 20e6
    page = opened(path)
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.reload()
    page.wait_for_selector("#panel table")
    first = _busy(session)
    page.click("#tab-attention")
    page.wait_for_selector("[data-view=heatmap] canvas.map")
    attention = _busy(session) - first
    before = _busy(session)
    page.evaluate(SCROLL, 30)
    step = (_busy(session) - before) / 30
    page.click("[data-head='11.11']")
    page.wait_for_function(
        "() => document.querySelector('figcaption').textContent.includes('layer 11')"
    )
    assert first < 1.0 and attention < 2.0 and step < 0.05, (first, attention, step)


SCROLL = """async steps => {
    for (let step = 0; step < steps; step++) {
        scrollBy({top: 40, behavior: "instant"});
        await new Promise(requestAnimationFrame);
    }
}"""


def _busy(session: Any) -> float:
    """Seconds of processor time of the page's main thread: what others do does not count."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(m["value"] for m in metrics if m["name"] == "TaskDuration"))


def test_blanks_show_ranked_words(pages: Callable[[str], Path], opened: Opened):
    page = opened(pages("filler"))
    show(page, "blanks")
    assert len(page.query_selector_all("#panel mark.blank")) == 1
    shown = page.query_selector_all("#panel section.blank .figure")
    chances = [float(each.inner_text().rstrip(" %")) for each in shown]
    assert len(chances) == 10 and chances == sorted(chances, reverse=True)
