"""Every view of a report as a picture for a paper: PNG or SVG, one file for each."""

import base64
import re
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from regard.inspect import figures
from regard.inspect.report import Report
from regard.plots import drawing, pictured, series as series_plots, sound

if TYPE_CHECKING:
    import matplotlib.figure

Picture = tuple[str, "matplotlib.figure.Figure"]
"""Its name, and what is drawn."""
Reading = dict[str, Any]


def write(folder: Path, suffix: str, report: Report) -> list[Path]:
    """All pictures of a report; each run, checkpoint and text has a folder if there are several."""
    written = []
    for first, run in enumerate(report.runs):
        for second, frame in enumerate(run["frames"]):
            for third, reading in enumerate(frame["readings"]):
                place = folder
                for name, count in (
                    (f"run-{first}", len(report.runs)),
                    (f"checkpoint-{second}", len(run["frames"])),
                    (f"text-{third}", len(report.texts)),
                ):
                    place = place / name if count > 1 else place
                for name, figure in pictures(report, reading):
                    drawing.save(figure, path := place / f"{name}.{suffix}")
                    written.append(path)
    return written


def pictures(report: Report, reading: Reading) -> Iterator[Picture]:
    """Those of one reading, view by view."""
    for view, draw in DRAWN.items():
        if found := reading.get(view):
            yield from draw(report.blocks.array, reading, found)


def _tokens(array: Any, reading: Reading, view: Any) -> Iterator[Picture]:
    rows = view["rows"]
    said = [row["piece"] for row in rows]
    names = [f"{of}: {tag}" for of, tag in zip(reading["of"], said, strict=False)] or said
    alternatives = [
        ", ".join(f"{piece} {p:.1%}" for piece, p in row["alternatives"]) for row in rows
    ]
    values = [row["p"] for row in rows]
    title = "Probability of what was said, and its alternatives"
    yield "tokens", figures.chances(names, values, alternatives, title)
    if "chances" in view and len(view["names"]) > 1:
        panels = {"": array(view["chances"])}
        about = ("Probability of every label", "label", "said of")
        sides = (view["names"], reading["of"] or said)
        drawn = figures.maps(panels, *sides, *about, weight=True, value="probability")
        yield "chances", drawn


def _numbers(array: Any, reading: Reading, view: Any) -> Iterator[Picture]:
    if "low" not in view[0]:
        lines = {panel["name"]: panel["mean"] for panel in view}
        about = ("What was said of each word", "word", "value")
        yield "numbers", figures.curves(lines, reading["of"], *about)
        return
    keys = ("past", "came", "mean", "low", "high")
    values: list[Any] = [  # None: not known
        np.array([panel[key] for panel in view]).T if key in view[0] else None for key in keys
    ]
    names = [panel["name"] for panel in view]
    title = "Forecast and its interval"
    yield "forecast", series_plots.forecast(names, *values, title=title)


def _attention(array: Any, reading: Reading, view: Any) -> Iterator[Picture]:
    for each in view:
        kind, columns, rows = each["kind"], reading[each["columns"]], reading[each["rows"]]
        asks = "to say" if each["rows"] == "said" else "looks"
        for layer, reference in enumerate(each["layers"]):
            weights = array(reference)
            title, name = f"{kind} attention, layer {layer}", f"attention-{kind}-layer-{layer}"
            panels = {f"head {n}": head for n, head in enumerate(weights)}
            about = (title, "is looked at", asks)
            yield name, figures.maps(panels, columns, rows, *about, weight=True)
            lines = figures.links(panels, rows, columns, title, (asks, "is looked at"))
            yield f"lines-{kind}-layer-{layer}", lines


def _alignment(array: Any, reading: Reading, view: Any) -> Iterator[Picture]:
    weights, title = array(view["weights"]), "Mean of all cross-attention"
    about = (title, "input", "output")
    sides = (view["source"], view["said"])
    yield "alignment", figures.maps({"": weights}, *sides, *about, weight=True)
    names = (view["said"], view["source"], title, ("output", "input"))
    yield "alignment-lines", figures.links({"": weights}, *names)


def _beam(array: Any, reading: Reading, view: Any) -> Iterator[Picture]:
    yield "beam", figures.tree(view, "Beam search: token and score of each candidate")


def _attribution(array: Any, reading: Reading, view: Any) -> Iterator[Picture]:
    said = [reading["said"][place] for place in view["places"]]
    what = "the forecast" if "numbers" in reading else "the log-probability"
    about = (f"Contribution to {what}", "read", "said")
    sides = ([*reading["source"], *reading["read"]], said)
    yield "attribution", figures.maps({"": array(view["values"])}, *sides, *about)


def _lens(array: Any, reading: Reading, view: Any) -> Iterator[Picture]:
    if "numbers" in view:
        lines = {row["layer"]: row["values"] for row in view["numbers"]}
        title = "The forecast, if the model ended after each layer"
        yield "lens", figures.curves(lines, reading["said"], title, "step", "value")
        return
    layers, said = view["layers"], reading["said"]
    best = [[layer["best"][place][0] for layer in layers] for place in range(len(said))]
    texts = [[f"{piece} {p:.2f}" for piece, p in row] for row in best]
    shares = np.array([[p for _, p in row] for row in best])
    names = [layer["layer"] for layer in layers]
    about = ("The best guess after each layer", "", "to say", "its probability")
    yield "lens", figures.cells(texts, shares, names, said, *about)


def _states(array: Any, reading: Reading, view: Any) -> Iterator[Picture]:
    gates: dict[str, list[dict[str, Any]]] = {}
    for each in view:
        gate = each["quantity"].endswith("gate")
        if gate:
            gates.setdefault(each["layer"], []).append(each)
        if each["values"] is not None:
            title = f"{each['layer']}: {each['quantity']}"
            panels = {"": array(each["values"]).T}
            about = (title, "position", "unit")
            look: dict[str, Any] = {"weight": gate, "value": "open" if gate else "value"}
            drawn = figures.maps(panels, each["labels"], [], *about, **look)
            yield f"states-{_file(title)}", drawn
    for layer, found in gates.items():
        lines = {each["quantity"]: each["means"] for each in found}
        about = (f"{layer}: how far each gate is open", "position", "mean of all units")
        yield f"gates-{_file(layer)}", figures.curves(lines, found[0]["labels"], *about)


def _gradient(array: Any, reading: Reading, view: Any) -> Iterator[Picture]:
    for part in ("encoder", "decoder"):
        layers = [each for each in view if each["layer"].startswith(part)]
        for which, of in (("all", "everything said"), ("last", "the last token alone")):
            if layers:
                longest = max((each["labels"] for each in layers), key=len)
                lines = {each["layer"]: each[which] for each in layers}
                about = (f"{part}: gradient of {of}", "position", "norm of the gradient")
                yield f"gradient-{part}-{which}", figures.curves(lines, longest, *about, log=True)


def _pooling(array: Any, reading: Reading, view: Any) -> Iterator[Picture]:
    lines = {"weight": array(view["weights"])[0].tolist()}
    about = ("Weights of the pooling", "position", "weight")
    yield "pooling", figures.curves(lines, reading["source"], *about)


def _transitions(array: Any, reading: Reading, view: Any) -> Iterator[Picture]:
    about = ("How well a tag likes to follow another", "tag", "the tag before")
    panels = {"": array(view["values"])}
    sides = (view["after"], view["before"])
    yield "transitions", figures.maps(panels, *sides, *about, value="score")


def _positions(array: Any, reading: Reading, view: Any) -> Iterator[Picture]:
    for number, each in enumerate(view):
        values, alike = ({"": array(each[key])} for key in ("values", "similarity"))
        about = (each["title"], "dimension", "position")
        yield f"positions-{number}", figures.maps(values, [], [], *about)
        about = (f"Similarity of positions: {each['title']}", "position", "position")
        yield f"similarity-{number}", figures.maps(alike, [], [], *about, value="cosine")


def _embeddings(array: Any, reading: Reading, view: Any) -> Iterator[Picture]:
    for each in view:
        side = "input" if each["side"] == "source" else "output"
        if each["points"]:
            title = f"Map of the {side} vectors"
            yield f"embeddings-{side}", figures.scatter(each["points"], title, each["share"])
        near = [word["near"][:5] for word in each["words"]]
        texts = [[f"{piece} {c:.2f}" for piece, c in row] for row in near]
        shares = np.array([[max(0.0, c) for _, c in row] for row in near])
        ranks = [str(n + 1) for n in range(shares.shape[1])]
        words = [word["piece"] for word in each["words"]]
        about = (f"Nearest neighbours of the {side} vectors", "rank", "symbol", "cosine")
        yield f"neighbours-{side}", figures.cells(texts, shares, ranks, words, *about)


def _senses(array: Any, reading: Reading, view: Any) -> Iterator[Picture]:
    panels = {each["layer"]: array(each["similarity"]) for each in view["layers"]}
    names = [f"{_near(each['context'])} {n + 1}" for n, each in enumerate(view["occurrences"])]
    about = (f"“{view['word']}” in {len(names)} places", "occurrence", "occurrence")
    numbers = [str(n + 1) for n in range(len(names))]
    yield "senses", figures.maps(panels, numbers, names, *about, value="cosine")


def _near(context: str) -> str:
    """A context, as long as an axis has room for."""
    before, _, rest = context.partition("[")
    word, _, after = rest.partition("]")
    return f"{before[-8:]}{word}{after[:8]}"


def _heads(array: Any, reading: Reading, view: Any) -> Iterator[Picture]:
    most = max(max(head["cost"] for head in view["heads"]), 1e-9)
    for kind in dict.fromkeys(head["kind"] for head in view["heads"]):
        heads = [head for head in view["heads"] if head["kind"] == kind]
        asked = ("says", "reads") if kind == "cross" else ()
        shares = [head["weights"] | {name: head[name] for name in asked} for head in heads]
        names = [*shares[0], "cost"]
        costs = [head["cost"] for head in heads]
        rows = list(zip(shares, costs, strict=True))
        texts = [[*(f"{v:.1%}" for v in share.values()), f"{cost:+.4f}"] for share, cost in rows]
        values = np.array([[*share.values(), max(0, cost) / most] for share, cost in rows])
        which = [f"{head['layer']}.{head['head']}" for head in heads]
        about = (f"Heads of {kind} attention", "share of the weight on; cost", "head", "share")
        yield f"heads-{kind}", figures.cells(texts, values, names, which, *about)


def _file(name: str) -> str:
    return re.sub(r"\W+", "-", name)


def _similarities(array: Any, reading: Reading, view: Any) -> Iterator[Picture]:
    about = ("How much alike what is read and what may belong to it are", "target", "source")
    panels = {"": array(view["values"])}
    yield (
        "similarities",
        figures.maps(panels, view["columns"], view["rows"], *about, value="cosine"),
    )


def _picture(array: Any, reading: Reading, view: Any) -> Iterator[Picture]:
    if not view["maps"]:
        return
    image = Image.open(BytesIO(base64.b64decode(view["image"].partition(",")[2])))
    weights = np.stack([np.abs(array(each["values"])) for each in view["maps"]])
    names = [each["name"] for each in view["maps"]]
    pixels = np.asarray(image.convert("RGB"))
    yield "picture", pictured.attended(pixels, names, weights, drawing.text(reading["output"]))


def _sound(array: Any, reading: Reading, view: Any) -> Iterator[Picture]:
    frames, heard = array(view["frames"])[::-1].T, view["letters"]  # (T, M)
    tokens, times = [each["text"] for each in heard], [(e["first"], e["end"]) for e in heard]
    title = drawing.text(reading["output"])
    yield "sound", sound.spectrogram(frames, view["seconds"] / len(frames), tokens, times, title)


DRAWN: dict[str, Callable[[Any, Reading, Any], Iterator[Picture]]] = {
    "tokens": _tokens,
    "numbers": _numbers,
    "attention": _attention,
    "alignment": _alignment,
    "beam": _beam,
    "heads": _heads,
    "attribution": _attribution,
    "lens": _lens,
    "states": _states,
    "gradient": _gradient,
    "pooling": _pooling,
    "transitions": _transitions,
    "positions": _positions,
    "embeddings": _embeddings,
    "senses": _senses,
    "picture": _picture,
    "sound": _sound,
    "similarities": _similarities,
}
"""What draws each view."""
