"""One page of HTML about an evaluation: no scripts, nothing from elsewhere, light and dark."""

from collections.abc import Mapping, Sequence
from html import escape

from regard.metrics import SEED, Score
from regard.metrics.details import Table

STYLE = """
:root { color-scheme: light dark; --ink: #1b2430; --ground: #fff; --line: #c9d1da;
  --faint: #566270; --accent: 11, 92, 173; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8edf3; --ground: #12161c; --line: #3a4552;
  --faint: #a9b4c1; --accent: 124, 188, 255; } }
body { margin: 0; padding: 1rem; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.25rem; } h2 { font-size: 1.05rem; margin: 1.5rem 0 .25rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; } th { text-align: left; }
td, th { padding: .2rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
p, .faint { color: var(--faint); } text { fill: var(--ink); font: 13px system-ui, sans-serif; }
rect { fill: rgb(var(--accent)); } line { stroke: var(--ink); stroke-width: 2; }
"""
BAR, ROW, NAMES = 320, 24, 160


def page(
    run: str,
    part: str,
    scores: Mapping[str, Score],
    tables: Sequence[Table],
    verdicts: Sequence[str] = (),
    samples: int = 0,
) -> str:
    """The whole page; `verdicts` are lines about another run, intervals are of so many samples."""
    title = escape(f"{run}: {part}")
    percent = {name: s for name, s in scores.items() if _is_share(s)}
    body = [
        f"<h1>{title}</h1>",
        _table(_scores(scores, samples)),
        _bars(percent) if percent else "",
        *(
            [f"<h2>Beside another run</h2><p>{'<br>'.join(map(escape, verdicts))}</p>"]
            * bool(verdicts)
        ),
        *map(_table, tables),
    ]
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<title>{title}</title>'
        f"<style>{STYLE}</style></head>\n<body>{''.join(body)}</body></html>\n"
    )


def _is_share(score: Score) -> bool:
    """A percentage that is better the higher it is: what bars of one length can show."""
    return score.higher_is_better and 1 < score.value <= 100


def _scores(scores: Mapping[str, Score], samples: int) -> Table:
    rows = tuple(
        (
            name,
            f"{score.value:.4g}",
            "" if score.low is None else f"{score.low:.4g} to {score.high:.4g}",
            score.signature,
        )
        for name, score in scores.items()
    )
    header = ("score", "value", "95 % interval", "signature")
    drawn = samples and any(score.low is not None for score in scores.values())
    note = f"Intervals: bootstrap, {samples:,} samples, seed {SEED}." if drawn else ""
    return Table(title="Scores", header=header, rows=rows, note=note)


def _bars(scores: Mapping[str, Score]) -> str:
    """A bar for each percentage, and a line for its interval."""
    parts = []
    for number, (name, score) in enumerate(scores.items()):
        y, width = number * ROW, BAR * score.value / 100
        parts.append(f'<text x="{NAMES - 8}" y="{y + 16}" text-anchor="end">{escape(name)}</text>')
        parts.append(
            f'<rect x="{NAMES}" y="{y + 5}" width="{width:.1f}" height="14" opacity=".6"/>'
        )
        if score.low is not None and score.high is not None:
            low, high = (NAMES + BAR * end / 100 for end in (score.low, score.high))
            parts.append(f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y + 12}" y2="{y + 12}"/>')
        end = f"{score.value:.1f}"
        parts.append(f'<text x="{NAMES + BAR + 8}" y="{y + 16}">{end}</text>')
    size = f'width="{NAMES + BAR + 60}" height="{ROW * len(scores)}"'
    return f'<svg role="img" aria-label="Scores in per cent" {size}>{"".join(parts)}</svg>'


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.header)
    rows = "".join(_row(row, heat=table.heat) for row in table.rows)
    note = f"<p>{escape(table.note)}</p>" if table.note else ""
    inside = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<h2>{escape(table.title)}</h2>{note}<div class="scroll">{inside}</div>'


def _row(row: Sequence[str], *, heat: bool) -> str:
    first, *cells = row
    if not heat:
        return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
    counts = [int(cell.replace(",", "")) for cell in cells]
    total = max(1, sum(counts))
    shades = (f"background: rgba(var(--accent), {0.6 * n / total:.2f})" for n in counts)
    shaded = "".join(
        f'<td class="number" style="{shade}">{n:,}</td>'
        for n, shade in zip(counts, shades, strict=True)
    )
    return f'<tr><th scope="row">{escape(first)}</th>{shaded}</tr>'
