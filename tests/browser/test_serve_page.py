"""The page of `regard serve`, in a real browser, against a real server of tiny runs."""

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from regard.serve.continuous import Lane
from tests import small_runs
from tests.browser.conftest import Opened, find
from tests.serve import serving

pytestmark = pytest.mark.timeout(300)  # a browser among other tests may have to wait
WIDE, PHONE = {"width": 1200, "height": 900}, {"width": 390, "height": 844}
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
SPOKEN = "#announce:not(:empty)"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[serving.Running]:
    folder = tmp_path_factory.mktemp("served")
    made = serving.make(folder)
    other = small_runs.make("lstm", folder / "other").folder
    second = small_runs.make("classifier", folder / "second").folder
    with serving.running(*made.values(), other, second, new_tokens=2000, characters=2000) as found:
        yield found


@pytest.fixture
def visit(served: serving.Running, browser: Any) -> Iterator[Opened]:
    """Opens the page; in the end nothing may have gone wrong, and no text has become a script."""
    faults: list[str] = []
    contexts = []

    def open_(fragment: str = "", url: str = served.url, **options: Any) -> Any:
        context = browser.new_context(**{"viewport": WIDE, **options})
        context.set_default_timeout(120_000)  # on a machine that has other work, too
        contexts.append(context)
        page = context.new_page()
        watch(page)
        page.goto(f"{url}#{fragment}" if url.endswith(".html") else f"{url}/#{fragment}")
        return page

    def watch(page: Any) -> None:
        page.on("pageerror", lambda error: faults.append(f"error: {error}"))
        page.on(
            "console",
            lambda message: (
                faults.append(message.text)
                if "the server responded with a status" not in message.text
                else None
            ),
        )

    yield open_
    for context in contexts:
        for page in context.pages:
            assert page.evaluate("globalThis.hacked === undefined")
        context.close()
    assert faults == []


def ready(page: Any) -> Any:
    page.wait_for_selector("html[data-ready]")
    return page


def too_wide(page: Any) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth - innerWidth"))


def check_axe(page: Any) -> None:
    """Nothing for axe to find, and nothing off the screen."""
    found = find("axe_playwright_python.sync_playwright").Axe().run(page, options=RULES)
    assert found.violations_count == 0, found.generate_report()
    assert too_wide(page) <= 0


def check_looks(page: Any) -> None:
    """The same wide and on a phone, light and dark."""
    for size, scheme in ((WIDE, "light"), (PHONE, "dark")):
        page.set_viewport_size(size)
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        check_axe(page)


def tab_to(page: Any, wanted: str, key: str = "Tab") -> None:
    """By the keyboard alone, to what has this selector or this text."""
    for _ in range(40):
        page.keyboard.press(key)
        here = "([wanted]) => document.activeElement.matches(wanted)"
        if wanted[0] not in "#.":
            here = "([wanted]) => document.activeElement.textContent === wanted"
        if page.evaluate(here, [wanted]):
            return
    raise AssertionError(f"the key {key} leads to no {wanted}")


# What each task's page is given, and what must be there then.


def write(text: str) -> Callable[[Any], None]:
    return lambda page: page.fill("#text", text)


def give(task: str) -> Callable[[Any], None]:
    return lambda page: page.set_input_files("#file", small_runs.example(task))


def sent(text: str) -> Callable[[Any], None]:
    def act(page: Any) -> None:
        page.fill("#text", text)
        page.keyboard.press("Control+Enter")

    return act


def series(page: Any) -> None:
    data = {"name": "x.csv", "mimeType": "text/csv", "buffer": small_runs.SERIES.encode()}
    page.set_input_files("#file", data)


TASKS: dict[str, tuple[Callable[[Any], None], str]] = {
    "transformer": (write("two dogs play. A man sits."), ".translation .word"),
    "classifier": (write("two dogs play"), ".chances .figure"),
    "tagger": (write("two dogs, play\nin the snow"), ".tags .word"),
    "filler": (write("two ___ play in the ___"), ".blanks section:nth-child(2) .chances li"),
    "causal": (sent("two dogs"), ".written .token"),
    "chat": (sent("7 dog"), ".turn.assistant .token"),
    "forecaster": (series, ".pictures svg polygon"),
    "describer": (give("caption"), ".others li"),
    "comparer": (give("contrast"), ".chances .figure"),
    # An untrained one may have heard no word at all.
    "listener": (give("transcribe"), ".output .tints"),
}


@pytest.mark.parametrize("model", TASKS)
def test_every_task_shows_its_output(model: str, visit: Opened):
    page = ready(visit(f"model={model}"))
    act, shown = TASKS[model]
    act(page)
    page.wait_for_selector(shown)
    page.wait_for_selector(SPOKEN, state="attached")
    check_looks(page)


def test_it_translates_as_one_writes(visit: Opened, served: serving.Running):
    page = ready(visit())
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.post_data or ""))
    page.focus("#text")
    page.keyboard.type("A man sits. A dog", delay=15)
    page.wait_for_selector(".translation .word")
    asked.clear()
    page.keyboard.type(" runs.", delay=15)
    page.wait_for_function("() => location.hash.includes('runs.')")
    page.wait_for_selector(SPOKEN, state="attached")
    page.wait_for_timeout(300)
    # Only the sentence that changed is asked for, and not once for each key.
    assert "A man sits." not in "".join(asked)
    assert 1 <= len(asked) <= 4
    # A word shows where it comes from.
    for word in page.query_selector_all(".translation .word"):
        word.hover()
        if "from" in word.get_attribute("title"):
            break
    page.wait_for_selector(".behind mark", state="attached")
    marked = page.inner_text(".behind mark") or page.text_content(".behind mark")
    assert f"“{marked}" in page.get_attribute(".word:hover", "title")
    # The link has it all, and nothing of it went to the server.
    page.reload()
    ready(page)
    assert page.input_value("#text") == "A man sits. A dog runs."
    page.wait_for_selector(".translation .word")
    assert served.idle()


def test_another_word_is_chosen_by_the_keyboard_alone(visit: Opened):
    page = ready(visit())
    page.keyboard.type("two dogs play. A man sits.")
    tab_to(page, ".skip", "Shift+Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "text"
    assert page.input_value("#text") == "two dogs play. A man sits."
    page.wait_for_selector(".translation .word")
    words = page.locator(".translation .word")
    before = words.all_inner_texts()
    tab_to(page, ".word")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.textContent") == before[1]
    page.keyboard.press("Enter")
    page.wait_for_selector(".other:focus")
    check_axe(page)
    page.keyboard.press("Escape")
    page.wait_for_selector(".alternatives-box", state="detached")
    assert page.evaluate("document.activeElement.textContent") == before[1]
    page.keyboard.press("Enter")
    page.wait_for_selector(".other:focus")
    chosen = page.inner_text(".other:focus b")
    page.keyboard.press("Enter")
    page.wait_for_selector(".word.own")
    after = words.all_inner_texts()
    assert after[:2] == [before[0], chosen] and chosen != before[1]
    tab_to(page, "Undo my choices")
    page.keyboard.press("Enter")
    page.wait_for_selector(".word.own", state="detached")
    assert words.all_inner_texts() == before


class Typed(NamedTuple):
    """What is typed for a task, how it is sent, what must be there then, and what can be done."""

    text: str
    shown: str
    sent: str = ""
    option: str = ""
    """The first of the options, and the key that changes it."""
    key: str = ""
    stops: tuple[str, ...] = ("Clear", "Look inside")
    """What the tab key must lead to, after the output is there."""


TYPED = {
    "transformer": Typed(
        "two dogs play. A man sits.",
        ".translation .word",
        option="#option-beams",
        key="ArrowDown",
        stops=("Clear", "Copy", "Look inside"),
    ),
    "classifier": Typed("two dogs play", ".chances .figure"),
    "tagger": Typed("two dogs, play", ".tags .word", option="#option-split", key="Space"),
    "filler": Typed(
        "two ___ play",
        ".blanks .chances li",
        option="#option-top",
        key="ArrowDown",
        stops=("Insert a blank", "Clear", "Look inside"),
    ),
    "causal": Typed(
        "two dogs",
        ".tints",
        sent="Control+Enter",
        option="#option-temperature",
        key="ArrowRight",
        stops=("Continue the text", "Clear", "Copy", "Look inside"),
    ),
    "chat": Typed(
        "7 dog",
        ".turn.assistant",
        sent="Enter",
        option="#option-temperature",
        key="ArrowRight",
        stops=("Send",),
    ),
    "forecaster": Typed(
        small_runs.SERIES, ".pictures svg polygon", option="#option-length", key="2"
    ),
}
"""Each task that reads what is typed. An untrained model may write nothing."""
HERE = """() => {
  const here = document.activeElement;
  if (here === document.body || here.dataset.walked) return null;
  here.dataset.walked = "yes";
  const box = here.getBoundingClientRect();
  const drawn = getComputedStyle((here.matches("textarea") && here.closest(".input")) || here);
  const label = here.getAttribute("aria-label") || here.labels?.[0]?.textContent;
  return {
    name: (label || here.textContent).trim(),
    seen: box.width > 0 && box.height > 0 && box.left >= 0 && box.right <= innerWidth,
    marked: here.matches(":focus-visible") && drawn.outlineStyle !== "none",
    word: here.matches("button.word"),
  };
}"""
"""Where the keyboard is, if it was not there yet: what this is called, and whether one sees it and
that the keyboard is there."""


def walk(page: Any) -> list[dict[str, Any]]:
    """Every place that the tab key leads to, from the beginning of the page to its end."""
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    page.locator("h1").click()  # from where the keyboard begins
    found: list[dict[str, Any]] = []
    for _ in range(60):
        page.keyboard.press("Tab")
        here = page.evaluate(HERE)
        if here is None:
            return found
        found.append(here)
    raise AssertionError(f"the tab key does not lead out: {[each['name'] for each in found]}")


@pytest.mark.parametrize("model", TYPED)
def test_every_task_is_done_by_the_keyboard_alone(model: str, visit: Opened):
    typed = TYPED[model]
    page = ready(visit())
    tab_to(page, "#model", "Shift+Tab")
    page.keyboard.type(model)
    page.wait_for_function("name => document.title.startsWith(name)", arg=model)
    tab_to(page, "#text")
    page.keyboard.insert_text(typed.text)
    if typed.sent:
        page.keyboard.press(typed.sent)
    page.wait_for_selector(typed.shown)
    page.wait_for_selector(SPOKEN, state="attached")
    stops = walk(page)
    for each in stops:
        assert each["name"] and each["seen"] and each["marked"], each
    names = [each["name"] for each in stops]
    assert [name for name in typed.stops if name not in names] == [], names
    words = page.locator("button.word")
    if words.count():
        assert sum(each["word"] for each in stops) == 1, "the arrow keys lead to the others"
        tab_to(page, ".word")
        for key, wanted in (("ArrowRight", 1), ("End", words.count() - 1), ("Home", 0)):
            page.keyboard.press(key)
            assert words.nth(wanted).evaluate("word => word === document.activeElement")
    if typed.option:
        tab_to(page, "Options", "Shift+Tab")
        page.keyboard.press("Space")
        tab_to(page, typed.option)
        page.keyboard.press(typed.key)
        name = typed.option.removeprefix("#option-")
        page.wait_for_function("name => location.hash.includes(name)", arg=f"{name}=")
        page.wait_for_selector(typed.shown)
    if "Look inside" in typed.stops:
        tab_to(page, ".look")
        with page.context.expect_page() as found:
            page.keyboard.press("Enter")
        assert "inside.html" in found.value.url
        found.value.close()
    if "Clear" in typed.stops:
        tab_to(page, "Clear", "Shift+Tab")
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "text"
        assert page.input_value("#text") == ""
        if not typed.sent:  # what was written stays until something else is sent
            page.wait_for_selector(typed.shown, state="detached")


def test_two_models_are_compared_by_the_keyboard_alone(visit: Opened):
    page = ready(visit("model=classifier"))
    tab_to(page, "#text")
    page.keyboard.type("two dogs play")
    page.wait_for_selector(".chances .figure")
    tab_to(page, "Compare", "Shift+Tab")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelectorAll('.verdict').length === 2")
    tab_to(page, "One model")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelectorAll('.verdict').length === 1")


def test_another_word_is_tapped_on_a_phone(visit: Opened):
    text = "text=two%20dogs%20play.%20A%20man%20sits."
    page = ready(visit(text, viewport=PHONE, has_touch=True, is_mobile=True))
    page.wait_for_selector(".translation .word")
    page.tap(".translation .word >> nth=1")
    page.wait_for_selector(".other")
    box = page.locator(".alternatives-box").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= PHONE["width"]
    assert box["y"] >= 0 and box["y"] + box["height"] <= PHONE["height"]
    check_axe(page)
    chosen = page.inner_text(".other b >> nth=0")
    page.tap(".other >> nth=0")
    page.wait_for_selector(".word.own")
    assert page.locator(".translation .word").all_inner_texts()[1] == chosen
    page.tap("text=Undo my choices")
    page.wait_for_selector(".word.own", state="detached")


def test_numbers_are_pasted(visit: Opened):
    """As a text, and as a file."""
    allowed = ["clipboard-read", "clipboard-write"]
    page = ready(visit("model=forecaster", permissions=allowed))
    page.evaluate("text => navigator.clipboard.writeText(text)", small_runs.SERIES)
    page.click("#text")
    page.keyboard.press("Control+V")
    page.wait_for_selector(".pictures svg polygon")
    assert page.input_value("#text") == small_runs.SERIES
    page.click("text=Clear")
    page.wait_for_selector(".pictures", state="detached")
    page.evaluate(
        """text => {
          const clipboardData = new DataTransfer();
          clipboardData.items.add(new File([text], "x.csv", { type: "text/csv" }));
          document.dispatchEvent(new ClipboardEvent("paste", { clipboardData }));
        }""",
        small_runs.SERIES,
    )
    page.wait_for_selector(".pictures svg polygon")
    assert page.input_value("#text") == small_runs.SERIES


def test_a_text_is_written_until_it_is_stopped(
    visit: Opened, served: serving.Running, monkeypatch: pytest.MonkeyPatch
):
    step = Lane.step

    def slow(lane: Lane) -> Any:
        time.sleep(0.05)
        return step(lane)

    monkeypatch.setattr(Lane, "step", slow)  # else it may have ended before anybody can stop it
    page = ready(visit("model=causal&text=two%20dogs&length=2000&temperature=0"))
    page.click("text=Continue the text")
    page.wait_for_function("() => document.querySelector('.written')?.textContent.length > 20")
    page.click("text=Stop")
    page.wait_for_selector("text=Continue the text")
    serving.until(served.idle)
    page = ready(visit("model=causal&text=two%20dogs&length=5&temperature=2&seed=3"))
    texts = []
    for _ in range(2):
        page.click("text=Continue the text")
        page.wait_for_selector(".tints")
        texts.append(page.inner_text(".written"))
    assert texts[0] == texts[1]  # of one seed


@pytest.mark.parametrize(
    ("first", "second", "shown"),
    [("transformer", "other", ".translation"), ("classifier", "second", ".verdict")],
)
def test_two_models_stand_side_by_side(first: str, second: str, shown: str, visit: Opened):
    page = ready(visit(f"model={first}&text=two%20dogs"))
    page.click("button:has-text('Compare')")
    for n in range(2):
        page.locator(".output").nth(n).locator(shown).wait_for(state="attached")
    assert f"with={second}" in page.url
    left, right = (page.locator(".output").nth(n).bounding_box() for n in (0, 1))
    assert left["y"] == right["y"] and left["x"] + left["width"] <= right["x"]
    assert page.locator(".of").all_inner_texts() == [first, second]
    check_looks(page)
    left, right = (page.locator(".output").nth(n).bounding_box() for n in (0, 1))
    assert left["x"] == right["x"] and left["y"] < right["y"]
    page.click("text=One model")
    assert page.locator(".output").count() == 1


def test_a_picture_that_is_none_is_refused(visit: Opened):
    page = ready(visit("model=describer"))
    data = {"name": "x.png", "mimeType": "image/png", "buffer": b"no picture"}
    page.set_input_files("#file", data)
    page.wait_for_selector(".problem >> text=The input cannot be read; input 1: not a picture")


def test_pictures_are_searched(visit: Opened):
    page = ready(visit("model=comparer"))
    picture = Path(small_runs.example("contrast")).read_bytes()
    files = [
        {"name": f"{n}.png", "mimeType": "image/png", "buffer": picture if n else b"no picture"}
        for n in range(3)
    ]
    page.set_input_files("#file", files)
    page.fill("#option-choices", "a red square\na circle")
    page.wait_for_selector(".thumbs img")
    page.wait_for_function("() => document.querySelectorAll('.thumbs li').length === 6")
    last = page.locator(".thumbs").first.locator("li").last
    assert last.inner_text() == "unreadable"


def test_a_recording_is_heard(visit: Opened):
    page = ready(visit("model=listener", permissions=["microphone"]))
    page.click("text=Record")
    page.wait_for_selector("text=/Stop \\(1 s\\)/")
    page.click("text=/Stop \\(/")
    page.wait_for_selector(".output .foot .taken:not(:empty)")
    assert page.evaluate("document.querySelector('audio').duration") > 0.5


def test_a_key_is_asked_for(visit: Opened, served: serving.Running, tmp_path: Path):
    keys = tmp_path / "keys.txt"
    keys.write_text("secret-key-of-a-user-1234 me\n")
    run = served.service("classifier").source.folder
    with serving.running(run, keys=keys) as guarded:
        page = visit("text=dogs", url=guarded.url)
        page.wait_for_selector("#key:focus")
        check_looks(page)
        page.fill("#key", "wrong")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=This key is not known here.")
        page.fill("#key", "secret-key-of-a-user-1234")
        page.keyboard.press("Enter")
        page.wait_for_selector(".verdict")
        assert "secret" not in page.url
        page.click("text=Forget key")
        page.wait_for_selector("#key")
        assert page.evaluate("sessionStorage.length") == 0
        page.close()


def refusing(status: int, wait: str) -> Callable[[Any], None]:
    """What answers in the server's place."""
    headers = {"retry-after": wait} if wait else {}
    body = {"error": {"message": "it is so"}}
    return lambda route: route.fulfill(status=status, headers=headers, json=body)


def test_refusals_are_said_in_plain_words(visit: Opened):
    page = ready(visit("model=classifier"))
    page.fill("#text", "dogs " * 500)
    page.wait_for_selector("text=That is too much at once: at most 2,000 characters in all.")
    check_looks(page)
    for status, wait, said in (
        (429, "7", "Too many requests. Try again in 7 seconds."),
        (504, "1", "This took too long and was given up."),
        (503, "", "The server is busy."),
        (500, "", "Something went wrong at the server"),
    ):
        page.route("**/v1/predict", refusing(status, wait))
        page.fill("#text", f"dogs {status}")
        page.wait_for_selector(f".problem >> text={said}")
        page.unroute("**/v1/predict")
    # What was busy is asked for again.
    times = iter((503, 503))

    def busy(route: Any) -> None:
        if status := next(times, None):
            body = {"error": {"message": "busy"}}
            route.fulfill(status=status, headers={"retry-after": "1"}, json=body)
        else:
            route.continue_()

    page.route("**/v1/predict", busy)
    page.fill("#text", "dogs again")
    page.wait_for_selector(".verdict")
    page.wait_for_selector(".problem", state="hidden")


def test_one_click_looks_inside_and_heads_are_switched_off(visit: Opened):
    page = ready(visit("text=two%20dogs%20play.%20A%20man%20sits."))
    page.wait_for_selector(".translation .word")
    with page.context.expect_page() as found:
        page.click("text=Look inside")
    inside = ready(found.value)
    read = inside.inner_text("#pinned [aria-label='Words of the input']").split()
    assert read[:2] == ["two", "dogs"]
    assert inside.query_selector("#tab-attention")
    inside.click("#live summary")
    inside.click("[aria-label='Head cross.1.0']")
    inside.fill("#again", "a man sits")
    inside.click("text=Read again")
    inside.wait_for_selector("#live summary >> text=without cross.1.0")
    ready(inside)
    assert inside.inner_text("#pinned [aria-label='Words of the input']").split() == [
        "a", "man", "sits"]  # fmt: skip
    assert re.search(r"cross\.1\.0", inside.inner_text("#panel .run"))


def test_a_picture_is_looked_into(visit: Opened):
    page = ready(visit("model=describer"))
    give("caption")(page)
    page.wait_for_selector(".others li")
    with page.context.expect_page() as found:
        page.click("text=Look inside")
    ready(found.value).click("#tab-picture")
    found.value.wait_for_selector("canvas[data-view=picture]")


def test_a_run_is_watched_while_it_trains(visit: Opened, tmp_path: Path):
    def record(kind: str, update: int, **figures: Any) -> str:
        return json.dumps({"kind": kind, "update": update, "tokens": update, **figures}) + "\n"

    def trained(updates: int) -> str:
        steps = range(1, updates + 1)
        return "".join(record("train", n, nll=9 / n, norm=1.0 * n, rate=0.1) for n in steps)

    hostile = {"input_1": "a dog", "wanted_1": "ein Hund", "got_1": small_runs.HOSTILE[1]}
    records = tmp_path / "metrics.jsonl"
    records.write_text(trained(10))
    made = serving.Running([], watched={"mine": tmp_path})
    try:
        page = ready(visit(url=f"{made.url}/page/watch.html"))
        assert page.inner_text("#state") == "update 10"
        captions = page.locator("figcaption").all_inner_texts()
        assert captions[0].startswith("Loss") and "Gradient norm" in captions
        text = trained(20) + record("validation", 20, nll=1.0, bleu=30.0)
        records.write_text(
            text + record("samples", 10, **hostile) + record("samples", 20, **hostile)
        )
        page.wait_for_selector("#state >> text=update 20")
        assert page.inner_text(".got b") == small_runs.HOSTILE[1]
        page.click("text=as it learnt")
        assert page.locator(".replay li").count() == 1
        check_looks(page)
        page.close()
    finally:
        made.stop()
