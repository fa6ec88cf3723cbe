"""What a person sees on the terminal. Progress goes to stderr, results to stdout."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress as Bar, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from regard.console.streams import warn as warn
from regard.recipe import checked
from regard.recipe.parts import resume, with_parts

if TYPE_CHECKING:  # `regard data` needs no torch
    from regard.checks.findings import Finding
    from regard.front import Predictor
    from regard.metrics import Comparison, Score
    from regard.metrics.details import Table as Details
    from regard.metrics.paired import Difference
    from regard.runs import Run
    from regard.runs.state import Unfinished
    from regard.train.progress import Progress

    Screen = tuple[Callable[[dict[str, Any]], None], Callable[[Progress], None]]


class _Console(Console):
    """rich's, but that a reader who has gone away is the command line's to deal with."""

    def on_broken_pipe(self) -> None:
        raise


errors = _Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
results = _Console(highlight=False, markup=False, soft_wrap=True)
LIKELIHOOD = ("log_prob", "perplexity", "bits_per_character")


@contextmanager
def waiting(what: str) -> Iterator[Callable[[str, int, int], None]]:
    """Say what takes its time; how long it took, where nobody watches.

    What is given is called with the name of a file, its bytes so far, and all of them (0 if
    unknown).
    """
    start = time.perf_counter()
    if errors.is_terminal:
        with errors.status(Text(f"{what} …")) as status:

            def far(name: str, done: int, total: int) -> None:
                whole = f" of {total / 1e6:,.1f}" if total else ""
                status.update(Text(f"{what} … {name}: {done / 1e6:,.1f}{whole} MB"))

            yield far
    else:
        yield lambda name, done, total: None
        errors.print(f"{what}: {time.perf_counter() - start:.1f} s")


@contextmanager
def training(run: "Run", *, as_json: bool = False) -> Iterator["Screen"]:
    """What is called with each record, and with the progress of each update: they move a bar on a
    terminal, and write lines elsewhere."""
    settings = run.recipe.train
    with updates() as bar:
        task = bar.add_task("training", total=settings.updates)

        def show(record: dict[str, Any]) -> None:
            if as_json:
                print(checked.written(record), flush=True)
            if record["kind"] == "train":
                bar.update(task, description=_short(record))
            if not errors.is_terminal or record["kind"] != "train":
                bar.console.print(line(record))

        yield show, lambda progress: bar.update(task, completed=progress.update)


def updates() -> Bar:
    """A bar of updates, on a terminal alone."""
    columns = (
        TextColumn("[progress.description]{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
        TimeRemainingColumn(),
    )
    return Bar(*columns, console=errors, disable=not errors.is_terminal)


@contextmanager
def epochs(
    words: int, *, as_json: bool = False
) -> Iterator[tuple[Callable[[dict[str, Any]], None], Callable[[int, float], None]]]:
    """The same for word vectors, by words of the text."""
    columns = (
        TextColumn("[progress.description]{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f} %"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=errors, disable=not errors.is_terminal) as bar:
        task = bar.add_task("learning", total=words)

        def show(record: dict[str, Any]) -> None:
            if as_json:
                print(checked.written(record), flush=True)
            if record["kind"] == "warning":
                bar.console.print(line(record))
            else:
                speed, seconds = record["tokens_per_second"], record["seconds"]
                what = f"epoch {record['update']}: {speed:,.0f} words/s, {seconds:.0f} s"
                bar.console.print(what)

        def tick(done: int, speed: float) -> None:
            bar.update(task, completed=done, description=f"{speed:,.0f} words/s")

        yield show, tick


def _short(record: Mapping[str, Any]) -> str:
    # Where every update since the last record was refused there is no loss to tell.
    loss = f"loss {record['nll']:.3f}, " if "nll" in record else ""
    return f"{loss}{record['tokens_per_second']:,.0f} targets/s"


def line(record: Mapping[str, Any]) -> str:
    """A record as a line of text."""
    match record["kind"]:
        case "warning" | "back" | "memory":
            return f"warning: {record['text']}"
        case "start" if "text" in record:
            return f"warning: {record['text']}"
        case "start":
            threads = f"{record['threads']} thread{'s' * (record['threads'] != 1)}"
            where = f"{record['device']}, {record['precision']}, {threads}"
            if record.get("processes", 1) > 1:
                where = f"{record['processes']} processes, each on {where}"
            return f"training on {where}, with at most {record['memory']:g} GB"
        case "pieces":
            return str(record["text"])
        case "refused":
            return f"update {record['update']}: refused, its loss or gradient is not finite"
        case "oversized" | "examples" as kind:
            numbers = ", ".join(map(str, record["ids"]))
            what = "learns from" if kind == "examples" else "too large for the memory, left out:"
            return f"update {record['update']}: {what} {numbers}"
        case "samples":
            return "\n".join(f"  {each}" for each in samples(record))
        case "validation":
            known = ("kind", "update", "tokens")
            figures = (f"{n} {value:.4g}" for n, value in record.items() if n not in known)
            return f"update {record['update']:,}: validation: {', '.join(figures)}"
    return (
        f"update {record['update']:,}: {_short(record)}, rate {record['rate']:.2e}, "
        f"{record['tokens'] / 1e6:.2f} M targets in {record['seconds']:.0f} s"
    )


def samples(record: Mapping[str, Any]) -> list[str]:
    """What a model made of examples, each in a line."""
    found = []
    for n in range(1, len(record)):
        if f"got_{n}" in record:
            given, wanted, got = (record[f"{what}_{n}"] for what in ("input", "wanted", "got"))
            judged = "right" if got == wanted else f"wanted: {wanted}"
            found.append(f"{given} → {got} ({judged})")
    return found


def summary(run: "Run", progress: "Progress") -> None:
    """How training ended, and what can be done next."""
    if progress.finished:
        best = progress.best
        reached = "" if best is None else f", best {run.recipe.train.metric} {best:.4g}"
        errors.print(
            f"trained {progress.update:,} updates on {progress.tokens:,} targets in "
            f"{progress.seconds:.0f} s ({progress.cpu_seconds:.0f} s of processor time){reached}\n"
            f"score it:   {with_parts('evaluate', run.folder)}\n"
            f"use it:     {with_parts('predict', run.folder)} FILE\n"
            f"curves:     {run.folder / 'curves.png'}",
        )
    else:
        errors.print(
            f"stopped and saved at update {progress.update:,}; to go on: {resume(run.folder)}",
        )


def notes(predictor: "Predictor") -> None:
    """What is to be said of a model before it is used."""
    for line in predictor.notes:
        warn(line)
    unfinished(predictor.unfinished)


def unfinished(found: "Unfinished | None") -> None:
    """Say that a run is not at its end."""
    if found is not None:
        warn(str(found))


def statuses(found: Sequence[str]) -> None:
    """Say of how many inputs not all could be read."""
    from regard.decoding.prediction import WARNED

    for status, what in WARNED.items():
        if count := found.count(status):
            warn(f"{count:,} of {len(found):,} inputs: {what}")


def scores(
    run: Path,
    part: str,
    found: "Mapping[str, Score]",
    comparison: "Comparison | None",
    differences: "Sequence[Difference] | None" = None,
    tables: "Sequence[Details]" = (),
    *,
    as_json: bool,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Scores with their signatures, what stands behind them, and how another run differs; in JSON,
    with `more`."""
    if as_json:
        table = {name: _score(score) for name, score in found.items()}
        output: dict[str, Any] = {"run": str(run), "part": part, **(more or {}), "scores": table}
        if comparison is not None:
            output["comparison"] = comparison.as_dict()
        if differences is not None:
            output["differences"] = [each.as_dict() for each in differences]
        output["details"] = [each.as_dict() for each in tables]
        print(checked.written(output))
        return
    width = max(map(len, found), default=0)
    cells = {name: _value(score) for name, score in found.items()}
    wide = max(map(len, cells.values()), default=0)
    for name, score in found.items():
        results.print(f"{name:>{width}} {cells[name]:<{wide}}   {score.signature}")
    if any(score.low is not None for score in found.values()):
        how = (more or {}).get("bootstrap", {"samples": 0, "seed": 0})
        results.print(f"± 95 %: bootstrap, {how['samples']:,} samples, seed {how['seed']}")
    for detail in tables:
        results.print(f"\n{detail.title}")
        columns(detail.header, detail.rows, [detail.note] * bool(detail.note))
    if comparison is not None:
        results.print(f"\n{comparison.table()}")
    for each in differences or ():
        results.print(f"\n{each}")
    if differences:
        first = differences[0]
        how = f"paired bootstrap, {first.samples:,} samples, seed {first.seed}"
        results.print(f"{how}; more than chance where p < 0.05")


def _value(score: "Score") -> str:
    """A score, and half of its interval."""
    digits = 2 if score.value >= 10 else 4
    value = f"{score.value:.{digits}f}".rjust(8)
    if score.low is None or score.high is None:
        return value
    return f"{value} ± {(score.high - score.low) / 2:.{digits}f}"


def _score(score: "Score") -> dict[str, Any]:
    """For JSON: with the ends of its interval, if it has one."""
    ends = {} if score.low is None else {"low": score.low, "high": score.high}
    return {"score": score.value, **ends, "signature": score.signature}


def likelihood(found: Sequence[Mapping[str, Any]]) -> None:
    """All texts' log-probability, perplexity, and bits per character where they are known."""
    import math

    from regard.metrics import perplexity

    total = math.fsum(line["log_prob"] or 0.0 for line in found)
    count = sum(len(line["log_probs"]) for line in found)
    if not count:
        errors.print(f"{len(found):,} texts: there is nothing to score")
        return
    bits = ""
    if all("characters" in line for line in found):
        mean = math.fsum(line["bits"] for line in found) / sum(line["characters"] for line in found)
        bits = f", {mean:.4f} bits per character"
    errors.print(
        f"{len(found):,} texts, {count:,} tokens: log-probability {total:.2f}, "
        f"perplexity {perplexity(-total / count):.4f}{bits}",
    )


def data_sets(found: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    """All data sets, a line each."""
    if as_json:
        print(checked.written(found))
        return
    table = Table("name", "what", "licence", "here", box=None)
    for entry in found:
        here = "yes" if entry["present"] else ""
        table.add_row(entry["name"], entry["what"], entry["licence"], here)
    _Console(highlight=False).print(table)


def data_set(entry: Mapping[str, Any], sample: Any, *, as_json: bool) -> None:
    """One data set, with the first lines of its files."""
    if as_json:
        print(checked.written({**entry, "sample": sample}))
        return
    for key, value in entry.items():
        if key not in ("files", "present") and value:
            results.print(f"{key}: {value}")
    for file in entry["files"]:
        here = "" if file["present"] else "   (not here)"
        size = f"{file['size']:>12,} bytes" if file["size"] else ""  # what is made here has none
        results.print(f"  {file['name']:<34} {size}{here}".rstrip())
    if not entry["present"]:
        errors.print(f"to get it: regard data get {entry['name']}")
    for name, lines in sample.items():
        results.print(f"\n{name}")
        for line in lines:
            results.print(f"  {line}")


def findings(found: "Sequence[Finding]", *, as_json: bool) -> None:
    """What the doctor found, the worst first, and how many of each kind."""
    counts = Counter(each.severity for each in found)
    totals = {f"{name}s": counts[name] for name in ("error", "warning", "note")}
    if as_json:
        table = [each.as_dict() for each in found]
        print(checked.written({**totals, "findings": table}))
        return
    styles = {"error": "bold red", "warning": "yellow", "note": "dim"}
    for each in found:
        head = Text.assemble(
            (f"{each.severity:<8}", styles[each.severity]), f"{each.code:<19}{each.place}"
        )
        results.print(head)
        results.print(f"        {each.what}")
        if each.example:
            results.print(f"        “{each.example}”")
        if each.advice and each.severity != "note":
            results.print(f"        → {each.advice}")
    said = ((count, name.removesuffix("s" * (count == 1))) for name, count in totals.items())
    results.print(", ".join(f"{count} {name}" for count, name in said))


def columns(header: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str]) -> None:
    """A table whose first column says what the others tell, and notes below it."""
    table = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for what, *cells in table:
        padded = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        results.print("  ".join([what.ljust(widths[0]), *padded]))
    results.print(*["", *notes], sep="\n")


def rows(header: Sequence[str], found: Sequence[Sequence[str]]) -> None:
    """A table with a line for each row: as wide as it must be, so that a pipe gets whole cells."""
    table = [header, *found]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        results.print("  ".join(cells).rstrip())
