"""Pictures: the numbers in the figure, the labels in the file, and files that are whole."""

import math
import struct
import subprocess
import sys
import zlib
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest

from regard import plots
from regard.errors import UserError
from regard.plots import drawing

RECORDS: list[dict[str, Any]] = [
    {"kind": "train", "update": 100, "tokens": 50_000, "loss": 5.0, "learning_rate": 1e-4},
    {"kind": "train", "update": 200, "tokens": 100_000, "loss": 4.0, "learning_rate": 2e-4},
    {"kind": "validation", "update": 200, "tokens": 100_000, "loss": 4.5, "bleu": 10.0},
    {"kind": "train", "update": 300, "tokens": 150_000, "loss": 3.0, "tokens_per_second": 7000},
    {"kind": "validation", "update": 300, "tokens": 150_000, "loss": 4.2, "bleu": 20.0, "epoch": 1},
]
HOSTILE = [
    "$x_$",
    "</svg>",
    "a & b",
    r"\frac{$",
    "\x00\x1b",
    "line\nbreak",
    "中文",
    "\ud800",
    "_",
    "%s",
]
SHOWN = [
    "$x_$",
    "</svg>",
    "a & b",
    r"\frac{$",
    r"\x00\x1b",
    r"line\nbreak",
    "中文",
    r"\ud800",
    "_",
    "%s",
]


def lines(ax) -> list[tuple[list[float], list[float]]]:
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in ax.get_lines()]


def labels(axis) -> list[str]:
    return [label.get_text() for label in axis.get_ticklabels()]


def texts(path: Path) -> set[str]:
    """All that is written in an SVG; it must be XML."""
    root = ElementTree.fromstring(path.read_bytes())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    return {"".join(node.itertext()).strip() for node in root.iter() if node.tag.endswith("}text")}


def png_size(path: Path) -> tuple[int, int]:
    """(width, height), once every chunk's checksum is right and the last one is the end."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, kinds = 8, []
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        body = data[at + 4 : at + 8 + length]
        assert struct.unpack_from(">I", data, at + 8 + length) == (zlib.crc32(body),)
        kinds.append(body[:4])
        at += 12 + length
    assert kinds[-1] == b"IEND"
    width, height = struct.unpack_from(">II", data, 16)
    return width, height


def test_curves_have_a_panel_per_quantity():
    figure = plots.curves_figure(RECORDS)
    panels = {ax.get_ylabel(): ax for ax in figure.axes}
    assert list(panels) == ["loss", "BLEU", "learning rate", "targets per second"]
    assert lines(panels["loss"]) == [
        ([100, 200, 300], [5.0, 4.0, 3.0]),
        ([200, 300], [4.5, 4.2]),
    ]
    assert lines(panels["BLEU"]) == [([200, 300], [10.0, 20.0])]
    assert lines(panels["targets per second"]) == [([300], [7000.0])]
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["training", "validation"]
    assert [ax.get_xlabel() for ax in figure.axes] == ["", "", "updates", "updates"]


def test_curves_of_what_training_records():
    """What says where and when is no curve; the others have names that a reader knows."""
    record = {"kind": "train", "update": 1, "tokens": 9, "seconds": 2.0, "cpu_seconds": 1.5}
    record |= {"smoothed": 3.0, "nll": 2.0, "norm": 1.0, "rate": 0.1, "tokens_per_second": 4.5}
    panels = [ax.get_ylabel() for ax in plots.curves_figure([record]).axes]
    assert panels == [
        "smoothed loss", "negative log-likelihood", "gradient norm", "learning rate",
        "targets per second",
    ]  # fmt: skip


def test_curves_share_their_colours_and_updates():
    figure = plots.curves_figure(RECORDS)
    loss, bleu = figure.axes[:2]
    train, validation = loss.get_lines()
    assert train.get_color() != validation.get_color() == bleu.get_lines()[0].get_color()
    assert len({ax.get_xlim() for ax in figure.axes}) == 1


def test_curves_count_tokens_on_top():
    figure = plots.curves_figure(RECORDS)
    [top] = figure.axes[0].child_axes
    figure.draw_without_rendering()
    low, high = figure.axes[0].get_xlim()
    assert top.get_xlabel() == "targets"
    assert top.get_xlim() == pytest.approx((500 * low, 500 * high))  # 500 tokens per update
    assert "50k" in labels(top.xaxis)
    assert not figure.axes[2].child_axes, "in the top row alone"


def test_curves_without_tokens_have_one_axis():
    bare = [{k: v for k, v in record.items() if k != "tokens"} for record in RECORDS]
    assert not any(ax.child_axes for ax in plots.curves_figure(bare).axes)


def test_curves_of_a_resumed_run_do_not_run_back():
    records = [{"kind": "train", "update": n, "loss": float(n)} for n in (1, 2, 3, 4)]
    records += [{"kind": "train", "update": n, "loss": n + 0.5} for n in (3, 4, 5)]
    [ax] = plots.curves_figure(records).axes
    assert lines(ax) == [([1, 2, 3, 4, 5], [1.0, 2.0, 3.5, 4.5, 5.5])]


def test_curves_leave_gaps_where_a_loss_is_not_finite(tmp_path: Path):
    values = [1.0, math.nan, math.inf, 2.0]
    records = [{"kind": "train", "update": n, "loss": v} for n, v in enumerate(values)]
    [ax] = plots.curves_figure(records).axes
    np.testing.assert_array_equal(lines(ax)[0][1], [1.0, math.nan, math.nan, 2.0])
    assert ax.get_ylim()[1] < 3
    plots.curves(records, tmp_path / "gaps.png")
    assert min(png_size(tmp_path / "gaps.png")) > 200


def test_curves_need_a_number():
    with pytest.raises(UserError, match="no curve"):
        plots.curves_figure([{"kind": "train", "update": 1, "note": "x", "done": True}])


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0"), (500.0, "500"), (1500.0, "1.5k"), (2e6, "2M"), (3e9, "3G"), (5e-5, "5e-05")],
)
def test_short_numbers(value: float, shown: str):
    assert drawing.short(value) == shown


def test_attention_shows_the_weights_with_their_tokens():
    weights = np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]])
    figure = plots.attention_figure(weights, ["ein", "Haus", "."], ["a", "house"], "Layer 1")
    ax, bar = figure.axes
    [image] = ax.get_images()
    np.testing.assert_allclose(np.asarray(image.get_array()), weights)
    assert image.get_clim() == (0, 1)
    assert bar.get_ylabel() == "attention weight"
    assert labels(ax.xaxis) == ["ein", "Haus", "."] and ax.get_xlabel() == "source"
    assert labels(ax.yaxis) == ["a", "house"] and ax.get_ylabel() == "target"
    assert ax.yaxis_inverted(), "the first target token is on top"
    assert figure.get_suptitle() == "Layer 1"


def test_attention_has_a_panel_per_head_and_one_scale():
    weights = np.random.default_rng(0).dirichlet(np.ones(7), size=(5, 3))  # (H, T, S)
    figure = plots.attention_figure(weights, list("abcdefg"), list("xyz"))
    *panels, bar = figure.axes
    assert bar.get_ylabel() == "attention weight"
    assert len(panels) == 5
    for number, (ax, head) in enumerate(zip(panels, weights, strict=True), start=1):
        np.testing.assert_allclose(np.asarray(ax.get_images()[0].get_array()), head)
        assert ax.get_images()[0].get_clim() == (0, 1)
        assert [text.get_text() for text in ax.texts] == [f"head {number}"]


def test_attention_labels_never_overlap_however_long_the_sentence():
    tokens = [f"token {n}" for n in range(300)]
    figure = plots.attention_figure(np.eye(300), tokens, tokens)
    figure.draw_without_rendering()
    ax = figure.axes[0]
    shown = labels(ax.yaxis)
    assert 20 < len(shown) < 300
    assert shown == tokens[:: tokens.index(shown[1])]
    boxes = [label.get_window_extent() for label in ax.yaxis.get_ticklabels()]
    assert all(below.y1 <= above.y0 for above, below in pairwise(boxes))


def test_attention_refuses_labels_that_do_not_fit():
    for shape in (2, 3), (1, 2, 3), (3,), (0, 3, 2):
        with pytest.raises(ValueError, match="labels"):
            plots.attention_figure(np.zeros(shape), ["a", "b"], ["x", "y", "z"])


def test_a_matrix_has_the_share_of_each_row_as_colour_and_the_counts_as_numbers(tmp_path: Path):
    figure = plots.matrix_figure([[9000, 1000], [0, 0]], ["$a", "b"], title="who is who")
    ax = figure.axes[0]
    [image] = ax.get_images()
    shares = image.get_array()
    assert shares is not None
    assert shares.tolist() == [[0.9, 0.1], [0.0, 0.0]]
    assert [text.get_text() for text in ax.texts] == ["9,000", "1,000"]
    assert labels(ax.xaxis) == labels(ax.yaxis) == ["$a", "b"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("predicted", "true")
    plots.matrix([[1, 2], [3, 4]], ["a", "b"], tmp_path / "m.svg")
    assert {"1", "2", "3", "4", "predicted", "true"} <= texts(tmp_path / "m.svg")
    with pytest.raises(ValueError, match="2 labels"):
        plots.matrix_figure([[1]], ["a", "b"])


def test_a_matrix_of_many_labels_fits_a_page():
    names = [f"label {n}" for n in range(120)]
    figure = plots.matrix_figure([[1] * 120] * 120, names)
    assert max(figure.get_size_inches()) < 40
    assert not figure.axes[0].texts


def test_bars_are_as_high_as_their_values():
    groups = {"rnn": {"1–5": 30.0, "6–10": 20.0}, "transformer": {"6–10": 25.0, "11–15": 15.0}}
    errors = {"rnn": {"1–5": 2.0}}
    figure = plots.bars_figure(groups, "By length", "source words", "BLEU", errors)
    ax: Any = figure.axes[0]
    assert labels(ax.xaxis) == ["1–5", "6–10", "11–15"]
    heights = [
        [bar.get_height() for bar in c.patches] for c in ax.containers if hasattr(c, "patches")
    ]
    np.testing.assert_array_equal(heights, [[30, 20, math.nan], [math.nan, 25, 15]])
    centres = [bar.get_x() + bar.get_width() / 2 for bar in ax.patches]
    assert centres == pytest.approx([-0.21, 0.79, 1.79, 0.21, 1.21, 2.21])
    assert {text.get_text() for text in ax.texts} - {""} == {"30.0", "20.0", "25.0", "15.0"}
    assert ax.get_ylim()[0] == 0
    assert (ax.get_title(loc="left"), ax.get_xlabel(), ax.get_ylabel()) == (
        "By length", "source words", "BLEU",
    )  # fmt: skip
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["rnn", "transformer"]
    [whiskers] = [c for c in ax.containers if hasattr(c, "has_yerr")]
    (_, low), (_, high) = whiskers.lines[2][0].get_segments()[0]
    assert (low, high) == (28, 32)


def test_bars_of_one_run_need_no_legend_and_none_need_values():
    assert not plots.bars_figure({"only": {"a": 1}}, "t", "x", "y").legends
    with pytest.raises(UserError, match="no values"):
        plots.bars_figure({"empty": {}}, "t", "x", "y")


def test_every_run_of_many_looks_different():
    groups = {f"run {n}": {"a": n} for n in range(20)}
    figure = plots.bars_figure(groups, "t", "x", "y")
    looks = {(bar.get_facecolor(), bar.get_hatch()) for bar in figure.axes[0].patches}
    assert len(looks) == 20


@pytest.mark.parametrize("suffix", ["png", "svg", "SVG"])
def test_hostile_labels_break_nothing(tmp_path: Path, suffix: str, recwarn):
    weights = np.full((2, len(HOSTILE), len(HOSTILE)), 0.1)
    paths = [tmp_path / f"{name}.{suffix}" for name in ("attention", "bars", "curves")]
    plots.attention(weights, HOSTILE, HOSTILE, paths[0], "$\\frac{ <title> \x07")
    groups = {name: dict.fromkeys(HOSTILE, 1.0) for name in HOSTILE}
    plots.bars(groups, paths[1], HOSTILE[0], HOSTILE[1], HOSTILE[2])
    plots.curves([{"kind": k, "update": 1, k: 1.0} for k in HOSTILE], paths[2])
    assert not recwarn.list
    if suffix == "png":
        assert all(min(png_size(path)) > 200 for path in paths)
    else:
        assert set(SHOWN) | {"$\\frac{ <title> \\x07"} <= texts(paths[0])
        assert set(SHOWN) <= texts(paths[1])


@pytest.mark.parametrize(
    ("text", "shown"), [(" ", "␣"), ("", ""), ("a b", "a b"), ("x" * 41, "x" * 39 + "…")]
)
def test_spaces_are_seen_and_long_labels_cut(text: str, shown: str):
    assert drawing.text(text) == shown


def test_equal_pictures_are_equal_files_and_nothing_else_is_left(tmp_path: Path):
    for suffix in "png", "svg":
        for name in "one", "two":
            plots.curves(RECORDS, tmp_path / "new" / f"{name}.{suffix}")
        one, two = (tmp_path / "new" / f"{name}.{suffix}" for name in ("one", "two"))
        assert one.read_bytes() == two.read_bytes()
    assert len(list((tmp_path / "new").iterdir())) == 4
    assert {"loss", "BLEU", "updates", "training"} <= texts(tmp_path / "new" / "one.svg")


def test_a_failed_picture_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "curves.png"
    path.write_bytes(b"old")

    def full(figure, file, **_):
        Path(file).write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", full)
    with pytest.raises(OSError, match="disk full"):
        plots.curves(RECORDS, path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_other_endings_are_refused_before_anything_is_drawn(tmp_path: Path):
    with pytest.raises(UserError, match=r"x\.pdf.*\.png or \.svg"):
        plots.curves([], tmp_path / "x.pdf")


def test_the_users_own_settings_neither_count_nor_change(tmp_path: Path):
    plots.curves(RECORDS, tmp_path / "plain.svg")
    with matplotlib.rc_context({"font.size": 30, "text.usetex": True, "axes.facecolor": "red"}):
        before = dict(matplotlib.rcParams)
        plots.curves(RECORDS, tmp_path / "own.svg")
        assert dict(matplotlib.rcParams) == before
    assert (tmp_path / "own.svg").read_bytes() == (tmp_path / "plain.svg").read_bytes()


def test_importing_is_light_and_pyplot_never_comes():
    modules = "regard.plots, regard.metrics, regard.train.events"
    draw = "regard.plots.bars_figure({'a': {'b': 1.0}}, 't', 'x', 'y')"
    heavy = "sorted({'torch', 'matplotlib', 'matplotlib.pyplot'} & sys.modules.keys())"
    code = f"import sys, {modules}; print({heavy}); {draw}; print({heavy})"
    root = Path(plots.__file__).parents[2]
    run = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == ["[]", "['matplotlib']"]
