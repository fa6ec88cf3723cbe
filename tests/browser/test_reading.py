"""What a reader of the page is told and shown: findings, words that light up, tags, labels, dates,
and two runs under one set of controls."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.inspect import report
from regard.inspect.blocks import Blocks
from regard.runs import Run
from tests import small_runs
from tests.browser.conftest import SLOW, Opened

pytestmark = [pytest.mark.timeout(300), SLOW]
MAP = "[data-view=heatmap] canvas.map"
PIXELS = "canvas => canvas.toDataURL()"


def reading(**given: Any) -> dict[str, Any]:
    """What a page needs to know of a text."""
    empty = {"text": "", "output": "", "source": [], "read": [], "said": [], "of": [], "given": 0}
    return empty | given


def rows(said: list[str], *others: tuple[str, float]) -> list[dict[str, Any]]:
    about = {"p": 0.5, "log_prob": -0.7, "rank": 1, "entropy": 1.0, "alternatives": [*others]}
    return [{"piece": piece} | about for piece in said]


def tagged(words: list[str], tags: list[str]) -> dict[str, Any]:
    each = [{"from": n, "to": n + 1, "p": 0.5} for n in range(len(words))]
    groups = [[n, n + 1] for n in range(len(words))]
    view = {"rows": rows(tags), "words": each, "total": -1.0}
    about = {"source_words": groups, "said_words": groups, "tokens": view}
    return reading(source=words, of=words, said=tags, **about)


def written(path: Path, *readings: dict[str, Any], blocks: Blocks | None = None) -> Path:
    frame = {"label": "final", "without": [], "readings": list(readings)}
    run = {"name": "mine", "task": "x", "frames": [frame]}
    texts = [f"text {n}" for n in range(len(readings))]
    return report.write(path, report.Report([run], texts, blocks or Blocks()))


def test_the_head_that_costs_most_is_named_and_linked(
    runs: Callable[[str], Run], opened: Opened, tmp_path: Path
):
    made = report.build([runs("transformer")], ["a dog runs"], report.Options())
    heads = made.runs[0]["frames"][0]["readings"][0]["ablation"]["heads"]
    worst = max(heads, key=lambda head: head["cost"])
    name = f"{worst['kind']}.{worst['layer']}.{worst['head']}"
    page = opened(report.write(tmp_path / "page.html", made))
    sentence = page.inner_text(".findings li:first-child")
    assert f"head {name} costs most when switched off: {worst['cost']:.2f} nats" in sentence
    page.click(f"text=head {name}")
    page.wait_for_selector(f"[data-head='{worst['layer']}.{worst['head']}'][aria-pressed=true]")
    assert page.inner_text("#panel h2") == "Attention"
    assert page.evaluate("document.activeElement.textContent") == "Attention"
    chosen = page.inner_text("[role=group][aria-label=Attention] [aria-pressed=true]")
    assert chosen == worst["kind"]


def test_a_word_lights_up_wherever_it_stands(
    runs: Callable[[str], Run], opened: Opened, tmp_path: Path
):
    made = report.build([runs("transformer")], ["a dog runs"], report.Options(target="a man"))
    page = opened(report.write(tmp_path / "page.html", made), "attention")
    page.wait_for_selector(MAP)
    plain = page.eval_on_selector(MAP, PIXELS)
    page.hover("#pinned [data-marks=s1]")  # dog
    assert page.inner_text("#pinned .lit") == "dog"
    assert page.eval_on_selector(MAP, PIXELS) != plain
    page.hover("#panel h2")
    assert page.query_selector(".lit") is None
    assert page.eval_on_selector(MAP, PIXELS) == plain
    # A cell of a map lights the words of its row and column.
    page.focus(MAP)
    page.keyboard.press("ArrowDown")
    assert [each.inner_text() for each in page.query_selector_all("#pinned .lit")] == ["a", "a"]
    # A word that is held stays lit in all views; Escape lets it go.
    page.click("#pinned [data-marks='o0.1']")  # man
    for view, what in (("tokens", "tbody tr.lit"), ("states", "svg text.lit")):
        page.click(f"#tab-{view}")
        page.mouse.move(5, 5)
        if view == "states":
            page.select_option(".bar select", "decoder.block.1")
        assert "man" in page.inner_text(f"#panel {what}" if view == "tokens" else "#pinned .lit")
        page.wait_for_selector(f"#panel {what}")
    page.keyboard.press("Escape")
    assert page.query_selector(".lit") is None


def test_words_are_reached_by_the_keyboard(pages: Callable[[str], Path], opened: Opened):
    page = opened(pages("classifier"))
    page.focus("#pinned .word")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.textContent") == "play"
    assert page.inner_text("#pinned .lit") == "play"
    page.keyboard.press("Enter")
    assert page.get_attribute("#pinned .lit", "aria-pressed") == "true"
    stops = "#pinned [aria-label='Words of the input'] [tabindex='0']"
    assert len(page.query_selector_all(stops)) == 1


def test_entities_are_spans(opened: Opened, tmp_path: Path):
    words = ["Ada", "Lovelace", "met", "Bob", "in", "New", "York"]
    tags = ["B-PER", "I-PER", "O", "B-PER", "O", "B-LOC", "I-LOC"]
    page = opened(written(tmp_path / "page.html", tagged(words, tags)))
    spans = [span.inner_text() for span in page.query_selector_all("#pinned .entity")]
    assert [" ".join(span.split()) for span in spans] == [
        "Ada Lovelace PER", "Bob PER", "New York LOC"]  # fmt: skip
    colours = page.eval_on_selector_all(
        "#pinned .entity", "all => all.map((each) => getComputedStyle(each).backgroundColor)"
    )
    assert colours[0] == colours[1] != colours[2]


def test_other_tags_stand_below_their_words(opened: Opened, tmp_path: Path):
    page = opened(written(tmp_path / "page.html", tagged(["I", "run"], ["PRON", "VERB"])))
    assert page.query_selector(".entity") is None
    below = page.eval_on_selector_all(
        "#pinned .word",
        """all => all.map((each) => each.querySelector("small").getBoundingClientRect().top >=
            each.querySelector("bdi").getBoundingClientRect().bottom - 4)""",
    )
    assert below == [True, True]
    assert page.inner_text("#pinned .word >> nth=1").split() == ["run", "VERB"]


def test_labels_are_bars(opened: Opened, tmp_path: Path):
    blocks = Blocks()
    chances = blocks.weights(np.array([[0.25, 0.6, 0.15]]))
    view: dict[str, Any] = {"names": ["bad", "good", "odd"], "chances": chances, "total": -0.5}
    view |= {"rows": rows(["good"], ("bad", 0.25), ("odd", 0.15)), "words": []}
    view["rows"][0]["p"] = 0.6
    made = reading(source=["a", "dog"], said=["good"], tokens=view)
    page = opened(written(tmp_path / "page.html", made, blocks=blocks))
    page.wait_for_selector(".chances li")
    bars = page.eval_on_selector_all(
        ".chances li",
        """all => all.map((each) => {
            const bar = each.querySelector(".chance");
            return [each.textContent, bar.firstChild.offsetWidth / bar.offsetWidth];
        })""",
    )
    assert [text for text, _ in bars] == ["good60.0 %", "bad25.0 %", "odd15.0 %"]
    assert [share for _, share in bars] == pytest.approx([0.6, 0.25, 0.15], abs=0.01)


def test_where_words_start_is_a_thin_mark(opened: Opened, tmp_path: Path):
    pieces = ["▁un", "like", "ly", "▁dog"]
    groups = [[0, 3], [3, 4]]
    each = [{"from": a, "to": b, "p": 0.5} for a, b in groups]
    view = {"rows": rows(pieces, ("▁cat", 0.2)), "words": each, "total": -1.0}
    made = reading(read=["<start>", *pieces[:-1]], said=pieces, said_words=groups, tokens=view)
    page = opened(written(tmp_path / "page.html", made))
    assert "▁" not in page.inner_text("body")
    assert page.inner_text("#pinned [aria-label='Words of the output']").split() == [
        "unlikely", "dog"]  # fmt: skip
    edges = page.eval_on_selector_all(
        "tbody th .piece", "all => all.map((each) => getComputedStyle(each).borderLeftWidth)"
    )
    assert edges == ["1px", "0px", "0px", "1px"]


def test_ticks_are_round(pages: Callable[[str], Path], opened: Opened):
    page = opened(pages("classifier"))
    for low, high, ticks in (
        (0.013, 0.97, ["0.2", "0.4", "0.6", "0.8"]),
        (-71, 24, ["-60", "-40", "-20", "0", "20"]),
        (3.1, 4.05, ["3.2", "3.4", "3.6", "3.8", "4.0"]),
        (0, 12345, ["0", "5,000", "10,000"]),
    ):
        assert page.evaluate(f"regard.ticks({low}, {high}).map((tick) => tick.text)") == ticks


def test_a_forecast_has_dates(opened: Opened, tmp_path: Path):
    hours = [f"2024-02-{28 + hour // 24} {hour % 24:02}:00:00" for hour in range(48)]
    hours += [f"2024-03-01 {hour:02}:00:00" for hour in range(24)]
    lines = {"past": [1.0] * 48, "mean": [2.0] * 24, "low": [1.0] * 24, "high": [3.0] * 24}
    came = {"came": [2.5] * 20 + [9.0] * 4}
    dated = {"name": "load", "times": hours} | lines | came
    plain = {"name": "load", "times": None} | lines
    page = opened(
        written(tmp_path / "page.html", reading(numbers=[dated]), reading(numbers=[plain]))
    )
    assert "20 of 24 values that came lie in the interval" in page.inner_text(".findings")
    ticks = page.eval_on_selector_all(
        "[data-view=numbers] text", "all => all.map(t => t.textContent)"
    )
    assert {"29 Feb", "1 Mar", "28 Feb 2024 to 1 Mar 2024"} <= {*ticks}
    page.select_option("header select", "1")
    ticks = page.eval_on_selector_all(
        "[data-view=numbers] text", "all => all.map(t => t.textContent)"
    )
    assert {"−40", "−20", "0", "+20", "steps from the last known value"} <= {*ticks}


def test_two_runs_have_one_set_of_controls_and_a_map_of_the_difference(
    runs: Callable[[str], Run], opened: Opened, tmp_path: Path
):
    both = [runs("transformer"), small_runs.make("transformer", tmp_path / "other", (10,))]
    options = report.Options(target="a man sits")
    made = report.build(both, ["a dog runs"], options)
    weights = [
        made.blocks.array(view["layers"][1])[1]
        for run in made.runs
        for view in run["frames"][0]["readings"][0]["attention"]
        if view["kind"] == "cross"
    ]
    page = opened(report.write(tmp_path / "page.html", made), "attention")
    assert len(page.query_selector_all("#panel .bar")) == 1
    page.focus(".bar [data-control=Layer]")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.control") == "Layer"
    assert page.input_value(".bar [data-control=Layer]") == "1"
    page.select_option(".bar [data-control=Head]", "1")
    page.wait_for_function(
        """() => [...document.querySelectorAll("figcaption")].filter((each) =>
            each.textContent.includes("layer 1, head 1")).length === 3"""
    )
    maps = page.query_selector_all(MAP)
    assert len(maps) == 3
    maps[2].focus()
    page.keyboard.press("ArrowDown")
    shown = page.inner_text("[data-view=heatmap] .readout >> nth=2").rsplit(" ", 1)[1]
    assert float(shown) == pytest.approx(float((weights[0] - weights[1])[0, 0]), abs=0.01)
    assert len(page.query_selector_all("#pinned .line")) == 3
    page.click("#tab-tokens")
    assert page.inner_text("#panel .compared") == "transformer and other say the same."
    page.hover("#pinned [data-marks=s1]")
    assert page.inner_text("#pinned .lit") == "dog"


def test_maps_of_unlike_shapes_stand_side_by_side(
    runs: Callable[[str], Run], opened: Opened, tmp_path: Path
):
    made = report.build([runs("transformer")], ["a dog"], report.Options(target="a man sits"))
    other = report.build([runs("transformer")], ["a dog"], report.Options(target="a man"))
    for view in other.runs[0]["frames"][0]["readings"][0]["attention"]:
        view["layers"] = [
            made.blocks.weights(other.blocks.array(layer)) for layer in view["layers"]
        ]
    made.runs.append(other.runs[0] | {"name": "other"})
    for key in ("alignment", "attribution", "states", "positions"):
        other.runs[0]["frames"][0]["readings"][0].pop(key, None)
    page = opened(report.write(tmp_path / "page.html", made), "attention")
    page.wait_for_selector("text=There is no map of the difference")
    assert len(page.query_selector_all(MAP)) == 2
    page.click("[data-value=encoder]")
    page.wait_for_function(f"() => document.querySelectorAll('{MAP}').length === 3")
