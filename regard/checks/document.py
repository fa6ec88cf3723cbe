"""`python -m regard.checks.document` writes docs/doctor.md."""

from regard.checks.findings import KINDS

INTRODUCTION = """\
# Doctor

`regard doctor RECIPE` says what is wrong with a recipe's data before anything is spent, and what
training will cost: time and memory from two measured steps on a copy of the model, and disk.
`regard train` does the cheap part of it by itself: errors stop it before the first step, warnings
are shown and kept in the run's `data.json`.

    regard doctor mine.toml
    regard doctor mine.toml model.dim=512 --json
    regard doctor new-data.toml --from runs/mine     # does the model of a run fit the new data?
    regard doctor --resume runs/mine                 # can this run go on?

Each finding has a severity (error, warning, note), a name, a place, an example and an advice. The
exit code is 1 if there is an error. To train all the same, name what may pass:

    regard train mine.toml 'train.allow=["data.leaked"]'

What training cannot use (lines that are not UTF-8, labels that it has never seen, …) cannot pass:
it refuses that by itself.

Nothing here needs a dictionary or a network. Sides that belong together are compared by the
lengths of their lines and by the words that both have; languages are distinguished by
their pairs of letters. Such statistics need a few hundred lines to be sure, and say nothing where
they are not.
"""


def document() -> str:
    """docs/doctor.md."""
    lines = [INTRODUCTION]
    rooms = dict.fromkeys(code.partition(".")[0] for code in KINDS)
    for room in rooms:
        lines += [
            f"## {room}",
            "",
            "| finding | severity | meaning | what to do |",
            "|---|---|---|---|",
        ]
        for code, kind in KINDS.items():
            if code.partition(".")[0] == room:
                often = f"{kind.severity}; {kind.otherwise}" if kind.otherwise else kind.severity
                lines.append(f"| `{code}` | {often} | {kind.meaning} | {kind.advice or '–'} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    print(document(), end="")
