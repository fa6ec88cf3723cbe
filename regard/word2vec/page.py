"""The space as a picture and a page: words on two axes, neighbours, and analogies as arrows."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float

from regard.console import streams
from regard.console.tables import Block, as_html
from regard.plots import drawing
from regard.word2vec.space import Near, Space

if TYPE_CHECKING:
    import matplotlib.figure

NEIGHBOURS, SHOWN = 6, 10
"""Of each word on the map, and in the table."""
NAME = (0.1, 0.03)
"""How much of the map a name takes, across and up."""
FREQUENT = (60, 90)
"""Which words are shown where none is named, by rank: the first ones mean little by themselves."""
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; color: #333 }}
body {{ max-width: 60em; margin: 2em auto; padding: 0 1em }}
figure {{ margin: 0 }} svg {{ max-width: 100%; height: auto }}
table {{ border-collapse: collapse; margin: 0 2em 1.5em 0 }}
table {{ display: inline-table; vertical-align: top }}
caption {{ font-weight: 600 }}
</style></head><body>
<h1>{title}</h1>
{about}
<figure role="img" aria-label="{alt}">{picture}</figure>
<h2>Nearest words</h2>
{tables}
</body></html>
"""


class Asked(NamedTuple):
    """What a user wants to see."""

    words: list[str]
    arrows: list[tuple[str, str]]
    """Pairs, given as man:woman."""


def asked(space: Space, given: Sequence[str]) -> Asked:
    """Words, and pairs of words with a colon between; frequent words if there are none."""
    words: list[str] = []
    arrows: list[tuple[str, str]] = []
    for each in given:
        one, colon, other = each.partition(":")
        if colon and one and other and each not in space:
            arrows.append((one, other))
            words += [one, other]
        else:
            words.append(each)
    if not words:
        some = space.words[FREQUENT[0] : FREQUENT[1]] or space.words[-30:]
        words = [word for word in some if word[:1].isalpha()] or some
    found = [space.words[space.row(word)] for word in words]
    return Asked([*dict.fromkeys(found)], arrows)


def picture(space: Space, wanted: Asked) -> "matplotlib.figure.Figure":
    """The words and some neighbours of each on the main two axes; an arrow for each pair."""
    own = wanted.words
    count = 0 if wanted.arrows or len(own) > 12 else NEIGHBOURS
    groups = [
        [near.word for near in space.neighbours(word, count=count)] if count else [] for word in own
    ]
    every = [*dict.fromkeys([*own, *(word for group in groups for word in group)])]
    places, parts = space.plane(every)
    at = dict(zip(every, places, strict=True))
    with drawing.style():
        figure = drawing.figure(7.5, 5.5)
        ax = figure.subplots()
        drawn: set[str] = set()
        for number, (word, group) in enumerate(zip(own, groups, strict=True)):
            colour = drawing.look(number)[0]
            for each in (word, *(near for near in group if near not in own)):
                if each in drawn:
                    continue
                drawn.add(each)
                x, y = at[each]
                side = -1 if crowded(at[each], places) else 1
                ax.scatter([x], [y], s=26 if each == word else 12, color=colour, zorder=3)
                ax.annotate(
                    drawing.text(each, 20), (x, y), (4 * side, 3), textcoords="offset points",
                    ha="right" if side < 0 else "left", fontsize=8, color=colour,
                    fontweight="bold" if each == word else "normal",
                )  # fmt: skip
        style = {"arrowstyle": "->", "color": drawing.INK, "lw": 0.8, "shrinkA": 4, "shrinkB": 4}
        for one, other in wanted.arrows:
            ends = [at[space.words[space.row(word)]] for word in (one, other)]
            ax.annotate("", ends[1], ends[0], arrowprops=style)
        ax.set(xlabel=f"first axis ({parts[0]:.0%})", ylabel=f"second axis ({parts[1]:.0%})")
        title = f"{space.name}: {len(every)} words by PCA, {sum(parts):.0%} of their variance"
        ax.set_title(drawing.text(title, 120), loc="left")
        ax.margins(0.12)
    return figure


def crowded(place: Float[np.ndarray, "2"], places: Float[np.ndarray, "V 2"]) -> bool:
    """Whether another word stands where this one's name would go, to the right of it."""
    across, up = ((places - place) / np.ptp(places, axis=0).clip(min=1e-9)).T
    return bool(((abs(up) < NAME[1]) & (across > 0) & (across < NAME[0])).any())


def write(
    space: Space, given: Sequence[str], output: Path | None, png: Path | None, svg: Path | None
) -> list[Path]:
    """The page, and the picture by itself where it is wanted; what was written."""
    wanted = asked(space, given)
    figure = picture(space, wanted)
    written: list[Path] = []
    if output is not None:
        streams.put(output, _page(space, wanted, figure).encode())
        written.append(output)
    for folder, suffix in ((png, "png"), (svg, "svg")):
        if folder is not None:
            drawing.save(figure, folder / f"space.{suffix}")
            written.append(folder / f"space.{suffix}")
    return written


def _page(space: Space, wanted: Asked, figure: "matplotlib.figure.Figure") -> str:
    with TemporaryDirectory() as name:
        drawing.save(figure, Path(name) / "space.svg")
        text = (Path(name) / "space.svg").read_text(encoding="utf-8")
    blocks = [_table(word, space.neighbours(word, count=SHOWN)) for word in wanted.words]
    for a, b in wanted.arrows:
        for c in [one for one, _ in wanted.arrows if one != a][:1]:
            blocks.append(_table(f"{a} : {b} = {c} :", space.analogy(a, b, c, SHOWN)))
    return PAGE.format(
        title=escape(f"Words of {space.name}"),
        about="".join(map(as_html, space.blocks())),
        alt=escape(f"A map of {', '.join(wanted.words)} and their neighbours"),
        picture=text[text.index("<svg") :],
        tables="\n".join(map(as_html, blocks)),
    )


def _table(title: str, near: Sequence[Near]) -> Block:
    return Block(("word", "cosine"), [(n.word, f"{n.cosine:.3f}") for n in near], title)
