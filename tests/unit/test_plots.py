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
    figure = plots.curves(RECORDS)
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
    panels = [ax.get_ylabel() for ax in plots.curves([record]).axes]
    assert panels == [
        "smoothed loss", "negative log-likelihood", "gradient norm", "learning rate",
        "targets per second",
    ]  # fmt: skip


def test_curves_share_their_colours_and_updates():
    figure = plots.curves(RECORDS)
    loss, bleu = figure.axes[:2]
    train, validation = loss.get_lines()
    assert train.get_color() != validation.get_color() == bleu.get_lines()[0].get_color()
    assert len({ax.get_xlim() for ax in figure.axes}) == 1


def test_curves_count_tokens_on_top():
    figure = plots.curves(RECORDS)
    [top] = figure.axes[0].child_axes
    figure.draw_without_rendering()
    low, high = figure.axes[0].get_xlim()
    assert top.get_xlabel() == "targets"
    assert top.get_xlim() == pytest.approx((500 * low, 500 * high))  # 500 tokens per update
    assert "50k" in labels(top.xaxis)
    assert not figure.axes[2].child_axes, "in the top row alone"


def test_curves_without_tokens_have_one_axis():
    bare = [{k: v for k, v in record.items() if k != "tokens"} for record in RECORDS]
    assert not any(ax.child_axes for ax in plots.curves(bare).axes)


def test_curves_of_a_resumed_run_do_not_run_back():
    records = [{"kind": "train", "update": n, "loss": float(n)} for n in (1, 2, 3, 4)]
    records += [{"kind": "train", "update": n, "loss": n + 0.5} for n in (3, 4, 5)]
    [ax] = plots.curves(records).axes
    assert lines(ax) == [([1, 2, 3, 4, 5], [1.0, 2.0, 3.5, 4.5, 5.5])]


def test_curves_leave_gaps_where_a_loss_is_not_finite(tmp_path: Path):
    values = [1.0, math.nan, math.inf, 2.0]
    records = [{"kind": "train", "update": n, "loss": v} for n, v in enumerate(values)]
    [ax] = plots.curves(records).axes
    np.testing.assert_array_equal(lines(ax)[0][1], [1.0, math.nan, math.nan, 2.0])
    assert ax.get_ylim()[1] < 3
    drawing.save(plots.curves(records), tmp_path / "gaps.png")
    assert min(png_size(tmp_path / "gaps.png")) > 200


def test_curves_need_a_number():
    with pytest.raises(UserError, match="no curve"):
        plots.curves([{"kind": "train", "update": 1, "note": "x", "done": True}])


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0"), (500.0, "500"), (1500.0, "1.5k"), (2e6, "2M"), (3e9, "3G"), (5e-5, "5e-05")],
)
def test_short_numbers(value: float, shown: str):
    assert drawing.short(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(1e-5, "10⁻⁵"), (1e6, "10⁶"), (0.01, "0.01"), (2e-5, "2e-05"), (0.0, "0")]
)
def test_powers_of_ten(value: float, shown: str):
    assert drawing.power(value) == shown


def test_attention_shows_the_weights_with_their_tokens():
    weights = np.array([[[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]]])
    figure = plots.attention(weights, ["ein", "Haus", "."], ["a", "house"], "Layer 1")
    ax, bar = figure.axes
    [image] = ax.get_images()
    np.testing.assert_allclose(np.asarray(image.get_array()), weights[0])
    assert image.get_clim() == (0, 1)
    assert bar.get_ylabel() == "attention weight"
    assert labels(ax.xaxis) == ["ein", "Haus", "."] and ax.get_xlabel() == "source"
    assert labels(ax.yaxis) == ["a", "house"] and ax.get_ylabel() == "target"
    assert ax.yaxis_inverted(), "the first target token is on top"
    assert figure.get_suptitle() == "Layer 1"


def test_attention_has_a_panel_per_layer_and_one_scale():
    weights = np.random.default_rng(0).dirichlet(np.ones(7), size=(5, 3))  # (N, T, S)
    figure = plots.attention(weights, list("abcdefg"), list("xyz"), "")
    *panels, bar = figure.axes
    assert bar.get_ylabel() == "attention weight"
    assert len(panels) == 5
    for number, (ax, layer) in enumerate(zip(panels, weights, strict=True), start=1):
        np.testing.assert_allclose(np.asarray(ax.get_images()[0].get_array()), layer)
        assert ax.get_images()[0].get_clim() == (0, 1)
        assert [text.get_text() for text in ax.texts] == [f"layer {number}"]


def test_attention_labels_never_overlap_however_long_the_sentence():
    tokens = [f"token {n}" for n in range(300)]
    figure = plots.attention(np.eye(300)[None], tokens, tokens, "")
    figure.draw_without_rendering()
    ax = figure.axes[0]
    shown = labels(ax.yaxis)
    assert 20 < len(shown) < 300
    assert shown == tokens[:: tokens.index(shown[1])]
    boxes = [label.get_window_extent() for label in ax.yaxis.get_ticklabels()]
    assert all(below.y1 <= above.y0 for above, below in pairwise(boxes))


def test_a_matrix_has_the_share_of_each_row_as_colour_and_the_counts_as_numbers(tmp_path: Path):
    figure = plots.matrix([[9000, 1000], [0, 0]], ["$a", "b"])
    ax = figure.axes[0]
    [image] = ax.get_images()
    shares = image.get_array()
    assert shares is not None
    assert shares.tolist() == [[0.9, 0.1], [0.0, 0.0]]
    assert [text.get_text() for text in ax.texts] == ["9,000", "1,000"]
    assert labels(ax.xaxis) == labels(ax.yaxis) == ["$a", "b"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("predicted", "true")
    drawing.save(plots.matrix([[1, 2], [3, 4]], ["a", "b"]), tmp_path / "m.svg")
    assert {"1", "2", "3", "4", "predicted", "true"} <= texts(tmp_path / "m.svg")


def test_a_matrix_of_many_labels_fits_a_page():
    names = [f"label {n}" for n in range(120)]
    figure = plots.matrix([[1] * 120] * 120, names)
    assert max(figure.get_size_inches()) < 40
    assert not figure.axes[0].texts


def test_every_run_of_many_looks_different():
    assert len({drawing.look(number) for number in range(20)}) == 20


@pytest.mark.parametrize("suffix", ["png", "svg", "SVG"])
def test_hostile_labels_break_nothing(tmp_path: Path, suffix: str, recwarn):
    weights = np.full((2, len(HOSTILE), len(HOSTILE)), 0.1)
    paths = [tmp_path / f"{name}.{suffix}" for name in ("attention", "matrix", "curves")]
    attention = plots.attention(weights, HOSTILE, HOSTILE, "$\\frac{ <title> \x07")
    drawing.save(attention, paths[0])
    drawing.save(plots.matrix(np.eye(len(HOSTILE)), HOSTILE), paths[1])
    drawing.save(plots.curves([{"kind": k, "update": 1, k: 1.0} for k in HOSTILE]), paths[2])
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
            drawing.save(plots.curves(RECORDS), tmp_path / "new" / f"{name}.{suffix}")
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
        drawing.save(plots.curves(RECORDS), path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_other_endings_are_refused_before_anything_is_written(tmp_path: Path):
    with pytest.raises(UserError, match=r"x\.pdf.*\.png or \.svg"):
        drawing.save(plots.curves(RECORDS), tmp_path / "new" / "x.pdf")
    assert not list(tmp_path.iterdir())


def test_the_users_own_settings_neither_count_nor_change(tmp_path: Path):
    drawing.save(plots.curves(RECORDS), tmp_path / "plain.svg")
    with matplotlib.rc_context({"font.size": 30, "text.usetex": True, "axes.facecolor": "red"}):
        before = dict(matplotlib.rcParams)
        drawing.save(plots.curves(RECORDS), tmp_path / "own.svg")
        assert dict(matplotlib.rcParams) == before
    assert (tmp_path / "own.svg").read_bytes() == (tmp_path / "plain.svg").read_bytes()


def test_importing_is_light_and_pyplot_never_comes():
    modules = "regard.plots, regard.metrics, regard.train.events"
    draw = "regard.plots.matrix([[1]], ['a'])"
    heavy = "sorted({'torch', 'matplotlib', 'matplotlib.pyplot'} & sys.modules.keys())"
    code = f"import sys, {modules}; print({heavy}); {draw}; print({heavy})"
    root = Path(plots.__file__).parents[2]
    run = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == ["[]", "['matplotlib']"]
