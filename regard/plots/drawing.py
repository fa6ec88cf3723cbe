"""How every picture looks, and how it comes onto the disk.

Matplotlib is imported when the first one is drawn; pyplot, which keeps every figure it makes, is
never used.
"""

import math
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from regard.errors import UserError

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.axis
    import matplotlib.figure

# Okabe and Ito's colours, distinct with any kind of colour vision; the yellow, too pale for
# lines on white, is left out.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
HATCHES = ("", "///", "...", "xxx")
STROKES = ("-", "--", ":", "-.")
INK, GRID = "#333333", "#DDDDDD"

STYLE = {
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "figure.dpi": 150,
    "figure.titlesize": 11,
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "savefig.dpi": 150,
    "svg.fonttype": "none",  # text stays text: small files that can be searched
    "svg.hashsalt": "regard",  # equal pictures are equal files
    "text.color": INK,
    "text.parse_math": False,  # a dollar is a dollar
    "xtick.color": INK,
    "xtick.labelsize": 8,
    "ytick.color": INK,
    "ytick.labelsize": 8,
}
# For what the main font lacks, the first of these that are installed.
FALLBACKS = (
    "Noto Sans CJK JP", "Noto Sans CJK SC", "Source Han Sans", "WenQuanYi Micro Hei",
    "Hiragino Sans", "PingFang SC", "Apple SD Gothic Neo", "Yu Gothic", "Microsoft YaHei",
    "Malgun Gothic", "Arial Unicode MS",
)  # fmt: skip

NAMES = {
    "bleu": "BLEU",
    "cer": "character error rate (%)",
    "chrf": "chrF",
    "exact": "exact match (%)",
    "gap": "distance of two readings",
    "line_error_rate": "lines wrong (%)",
    "nll": "negative log-likelihood",
    "norm": "gradient norm",
    "per": "phoneme error rate (%)",
    "rate": "learning rate",
    "smoothed": "smoothed loss",
    "ter": "TER",
    "tokens_per_second": "targets per second",
    "train": "training",
    "wer": "word error rate (%)",
}


@contextmanager
def style() -> Iterator[None]:
    """Our look, whatever the user's matplotlibrc says; all is as before afterwards."""
    import matplotlib
    from matplotlib import font_manager

    installed = {font.name for font in font_manager.fontManager.ttflist}
    fonts = ["DejaVu Sans", *(name for name in FALLBACKS if name in installed), "sans-serif"]
    with matplotlib.rc_context(), warnings.catch_warnings():
        # A character that no font has is drawn as a box.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(cast(Any, STYLE | {"font.family": fonts}))
        yield


def check_picture(path: Path) -> str:
    """What kind of picture a file is by its name: png or svg."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in ("png", "svg"):
        raise UserError(f"{path}: a picture's name must end in .png or .svg")
    return kind


def save(figure: "matplotlib.figure.Figure", path: Path | str) -> None:
    """Whole or not at all: written under another name, then renamed."""
    path = Path(path)
    kind = check_picture(path)
    # Neither date nor version: equal pictures are equal files.
    metadata: dict[str, Any] = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with style():
            figure.savefig(temporary, format=kind, metadata=metadata[kind], bbox_inches="tight")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def figure(wide: float, high: float, title: str = "") -> "matplotlib.figure.Figure":
    """An empty figure of so many inches."""
    from matplotlib.figure import Figure

    made = Figure(figsize=(wide, high), layout="constrained")
    if title:
        made.suptitle(text(title, 120))
    return made


def panels(
    figure: "matplotlib.figure.Figure", count: int, rows: int, columns: int
) -> list["matplotlib.axes.Axes"]:
    """So many axes of a grid; its last places may stay empty."""
    axes = list(figure.subplots(rows, columns, squeeze=False).flatten())
    for ax in axes[count:]:
        ax.remove()
    return axes[:count]


def grid(count: int, high: int, wide: int) -> tuple[int, int]:
    """(rows, columns) of `count` panels, together nearly three by two, with few gaps."""

    def waste(columns: int) -> float:
        rows = math.ceil(count / columns)
        gaps = rows * columns - count
        return abs(math.log(columns * wide / (rows * high) / 1.5)) + gaps / count

    columns = min(range(1, count + 1), key=waste)
    return math.ceil(count / columns), columns


def ticks(axis: "matplotlib.axis.Axis", integer: bool = False) -> None:
    """Few ticks, and short: 1500000 is 1.5M."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10], integer=integer))
    axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))


def label_cells(
    axis: "matplotlib.axis.Axis", labels: Sequence[str] | None, cell: float, name: str, angle: int
) -> None:
    """A label per cell of so many inches; every second, third, … where they are too small for all.
    None: an inner panel's axis, without any."""
    if labels is None:
        axis.set_ticks([])
        return
    if labels:
        places = range(0, len(labels), math.ceil(0.13 / cell))
        axis.set_ticks(places, [labels[place] for place in places], rotation=angle)
    axis.set_label_text(name)


def look(number: int) -> tuple[str, str, str]:
    """Colour, stroke and hatch of one of many lines or bars: hardly two are alike."""
    turn = number // len(COLOURS)
    return (
        COLOURS[number % len(COLOURS)],
        STROKES[turn % len(STROKES)],
        HATCHES[turn % len(HATCHES)],
    )


def line(ax: "matplotlib.axes.Axes", number: int, x: Any, y: Any, **options: Any) -> Any:
    """One of many lines."""
    colour, stroke, _ = look(number)
    [drawn] = ax.plot(x, y, color=colour, linestyle=stroke, linewidth=1.3, **options)
    return drawn


def short(value: float) -> str:
    """1.5k, 20M: what fits beside a tick."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def power(value: float) -> str:
    """10⁻⁵ for a high or low power of ten; any other number as it is."""
    exponent = round(math.log10(value)) if value > 0 else 0
    if abs(exponent) < 3 or not math.isclose(value, 10.0**exponent):
        return f"{value:g}"
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def name(key: str) -> str:
    """What a figure of a record is called in a picture."""
    return NAMES.get(key) or text(key.replace("_", " "))


def text(text: str, limit: int = 40) -> str:
    """Text that any picture can hold: what is invisible is shown, what is too long is cut."""
    shown = "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )
    shown = "␣" * len(shown) if shown.isspace() else shown
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"
