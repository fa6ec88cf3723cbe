"""Pictures and sounds in the page of `regard inspect`: galleries, letters, a player."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.inspect import report
from regard.runs import Run
from tests import small_runs
from tests.browser.conftest import Opened
from tests.browser.test_page import COLOURS, show

pytestmark = pytest.mark.timeout(300)  # a browser among other tests may have to wait
GALLERY = "#panel .gallery[aria-label^='{}'] canvas"


def gallery(page: Any, title: str, count: int) -> None:
    """So many small pictures under a title, which are not all of one colour."""
    page.wait_for_selector(GALLERY.format(title))
    page.wait_for_timeout(40)
    drawn = page.query_selector_all(GALLERY.format(title))
    assert len(drawn) == count
    assert max(each.evaluate(COLOURS) for each in drawn) > 2


def over(page: Any) -> str:
    return str(page.eval_on_selector("canvas[data-view=picture]", "canvas => canvas.toDataURL()"))


@pytest.fixture(scope="module")
def looker(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A Vision Transformer that classifies."""
    folder = tmp_path_factory.mktemp("looker")
    picture = small_runs.example("caption")
    (folder / "pictures.tsv").write_text(f"red\t{picture}\nblue\t{picture}\n" * 2)
    return small_runs.create(
        "classify",
        {
            "input": {"kind": "patches", "patch": 4, "class_token": True},
            "encoder": small_runs.BLOCKS,
            "head": {"pooling": "class"},
        },
        folder / "run",
        source={"kind": "image", "size": [16]},
        data={"train": [str(folder / "pictures.tsv")]},
    )


def test_a_picture_that_is_classified(looker: Run, opened: Opened, tmp_path: Path):
    """Filters of the patches, and attention rollout where it is chosen."""
    made = report.build([looker], [small_runs.example("caption")])
    page = opened(report.write(tmp_path / "page.html", made))
    show(page, "picture")
    gallery(page, "Filters that read pixels", 16)
    attributed = over(page)
    assert "attribution of" in page.inner_text("#panel figcaption")
    page.select_option("select[data-control=Show]", label="attention rollout")
    page.wait_for_function(
        "() => document.querySelector('#panel figcaption').textContent === 'attention rollout'"
    )
    rollout = over(page)
    assert rollout != attributed
    page.select_option("select[data-control=Show]", label="attention, layer 1")
    page.wait_for_function(
        "() => document.querySelector('#panel figcaption').textContent === 'attention, layer 1'"
    )
    assert over(page) != rollout


def test_filters_and_features_of_a_network(pages: Callable[[str], Path], opened: Opened):
    page = opened(pages("describer"))
    show(page, "picture")
    gallery(page, "Filters that read pixels", 8)
    gallery(page, "Features", 16)


def heard(run: Run, letters: list[dict[str, Any]], path: Path) -> Path:
    """The page of a sound, as if a model had heard these letters in it."""
    made = report.build([run], [small_runs.example("transcribe")])
    made.runs[0]["frames"][0]["readings"][0]["sound"]["letters"] = letters
    return report.write(path, made)


BAND = """canvas => {
    const scale = canvas.width / canvas.clientWidth;
    const [top, high] = [22, 3].map((pixels) => Math.round(pixels * scale));
    const {data} = canvas.getContext("2d").getImageData(0, top, canvas.width, high);
    const columns = [...Array(canvas.width).keys()];
    return columns.map((column) => data[4 * column + 3] > 0);
}"""
"""For each column of pixels, whether anything is drawn just above the spectrogram."""


def test_letters_stand_where_they_were_heard(
    runs: Callable[[str], Run], opened: Opened, tmp_path: Path
):
    seconds = report.build([runs("listener")], [small_runs.example("transcribe")]).runs[0][
        "frames"
    ][0]["readings"][0]["sound"]["seconds"]
    letters = [
        {"text": "k", "first": 0.2 * seconds, "end": 0.3 * seconds},
        {"text": "<b>", "first": 0.6 * seconds, "end": 0.8 * seconds},
    ]
    page = opened(heard(runs("listener"), letters, tmp_path / "page.html"))
    show(page, "sound")
    canvas = "canvas[data-view=sound]"
    assert "heard: k <b>" in page.get_attribute(canvas, "aria-label")
    ends = [(0.22, 0.28), (0.62, 0.78), (0.4, 0.5), (0.85, 0.95)]
    drawn = page.eval_on_selector(canvas, BAND)
    width = len(drawn)
    marked = [any(drawn[int(first * width) : int(end * width)]) for first, end in ends]
    assert marked == [True, True, False, False]
    player = page.query_selector("#panel audio[controls]")
    assert player.get_attribute("src").startswith("data:audio/wav;base64,")
    rows = page.query_selector_all("#panel details tbody tr")
    assert [row.text_content()[:1] for row in rows] == ["k", "<"]
    assert page.evaluate("window.hacked") is None
