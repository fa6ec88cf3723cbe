"""What a finding is, and every kind that there is: its name, how bad it is, what to do."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

from regard.data.readers import excerpt

Severity = Literal["error", "warning", "note"]
FIRM = (
    "pairs.lines", "data.broken", "data.empty", "data.long", "data.unreadable", "text.encoding",
    "text.control", "labels.", "series.", "checkpoint.", "recipe.",
)  # fmt: skip
"""What training itself refuses: no recipe can let it pass."""
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


class Kind(NamedTuple):
    """What findings of one name have in common; docs/doctor.md says what they mean."""

    severity: Severity
    """The usual one; where the damage is slight, or the recipe allows for it, it is less."""
    advice: str


KINDS = {
    # What is read
    "data.unreadable": Kind(
        "error", "see the message: it names the file and what is wrong with it"
    ),
    "data.broken": Kind("error", "fix the lines, or leave them out with data.on_bad_line = 'skip'"),
    "data.header": Kind(
        "warning",
        "set data.header = true, and data.columns to the names if they are not the task's own",
    ),
    "data.empty": Kind("warning", "remove them, or find out what lost the text"),
    "data.long": Kind(
        "warning",
        "raise data.max_length, cut such lines up, or let them go with data.on_too_long = 'cut'",
    ),
    "data.repeated": Kind("warning", "remove the copies, unless their number means something"),
    "data.leaked": Kind(
        "error", "remove them from the part that is learnt from, or take another test"
    ),
    "data.known": Kind("warning", "keep all answers of one input in one part"),
    "data.swapped": Kind(
        "error", "exchange the names in data.columns, or the columns: the label comes first"
    ),
    "data.parts": Kind(
        "warning", "name files as data.validation and data.test, or take fractions by [held_out]"
    ),
    "data.counts": Kind("note", ""),
    "data.sampled": Kind("note", "`regard doctor` looks at more than the start of a training does"),
    # One side by itself
    "text.encoding": Kind(
        "error", "convert the file: iconv -f LATIN1 -t UTF-8 FILE (if it is Latin-1)"
    ),
    "text.control": Kind(
        "error", "remove them, or leave the lines out with data.on_bad_line = 'skip'"
    ),
    "text.mojibake": Kind(
        "error", "undo it: iconv -f UTF-8 -t CP1252 FILE gives the UTF-8 that it was"
    ),
    "text.replacement": Kind(
        "warning", "go back to the original file, and decode it by its true encoding"
    ),
    "text.mark": Kind("warning", "remove the character"),
    "text.invisible": Kind("warning", "remove them: to a model, they make two words out of one"),
    "text.script": Kind("warning", "remove them, or check the order of the files"),
    "text.case": Kind("warning", "give all parts one form, or set tokenizer.lowercase = true"),
    "text.tokenised": Kind("warning", "give all parts one form"),
    "text.markup": Kind("warning", "unescape them, if they are not part of what is to be learnt"),
    "text.normal": Kind("warning", "normalise the files to NFC: “é” must be one thing, not two"),
    "text.whitespace": Kind(
        "warning", "write one kind of whitespace in all parts: U+0020, or that of the language"
    ),
    "text.cut": Kind("warning", "go back to the whole lines"),
    "text.other": Kind("warning", "check that the recipe names the right files"),
    # Sides that belong together
    "pairs.lines": Kind(
        "error", "find the line that one of them lacks; the place is where they seem to part"
    ),
    "pairs.shifted": Kind(
        "error", "look at the lines around the place, and put the missing line back"
    ),
    "pairs.unrelated": Kind("error", "make the pairs anew from files in their original order"),
    "pairs.swapped": Kind("error", "give the files of all parts in one order: source, then target"),
    "pairs.mixed": Kind(
        "warning", "remove them: a model would learn to copy, or to translate backwards"
    ),
    "pairs.copies": Kind("warning", "remove them, unless copying is right"),
    "pairs.ratio": Kind("warning", "look at some of them: most such pairs are no translations"),
    # Labels
    "labels.single": Kind("error", "check data.columns"),
    "labels.unseen": Kind(
        "error", "fix or merge them; with labels.unseen = 'wrong' they count as wrong"
    ),
    "labels.foreign": Kind(
        "error", "write them as that run's labels are, or train a new model, without --from"
    ),
    "labels.spelling": Kind("warning", "spell each label in one way"),
    "labels.spans": Kind(
        "warning", "begin each span with B-, and give all its words one type and one scheme"
    ),
    "labels.balance": Kind(
        "warning",
        "look at F₁ rather than accuracy; labels.weights = 'balanced' (classify) may help",
    ),
    "labels.drift": Kind(
        "warning", "draw the parts at random from one pool, unless the difference is meant"
    ),
    "labels.conflict": Kind("warning", "decide which one is right"),
    # Pictures
    "image.repeated": Kind("warning", "remove the copies"),
    "image.similar": Kind(
        "warning", "look at some of them: versions of one photograph belong into one part"
    ),
    "image.leaked": Kind(
        "error", "remove them from the part that is learnt from, or take another test"
    ),
    "image.small": Kind("warning", "take a smaller source.size, or larger pictures"),
    # Sounds
    "audio.silent": Kind("warning", "remove them, or record them again"),
    "audio.clipped": Kind("warning", "record them at a lower level, if that is still possible"),
    "audio.short": Kind("warning", "remove them, if they are not what was meant"),
    "audio.long": Kind("warning", "cut them up: a long sound takes much memory"),
    "audio.repeated": Kind("warning", "remove the copies"),
    "audio.leaked": Kind(
        "error", "remove them from the part that is learnt from, or take another test"
    ),
    "audio.rates": Kind(
        "warning", "all are resampled; take one source, if the rate goes with what is learnt"
    ),
    "audio.rate": Kind(
        "warning", "lower source.features.rate, or source.features.high, to what the sounds have"
    ),
    "audio.text": Kind(
        "warning",
        "remove them, or take shorter tokens, a smaller source.features.hop or fewer "
        "model.input.convolutions",
    ),
    # Series
    "series.columns": Kind("error", "fix the rows"),
    "series.number": Kind("error", "fix the values"),
    "series.missing": Kind("error", "data.missing = 'fill' takes the last value that was known"),
    "series.time": Kind(
        "error",
        "say by data.dates how they are written, or write all as ISO dates (2016-07-01 13:00)",
    ),
    "series.back": Kind("error", "data.order = 'sort' sorts the rows by time"),
    "series.repeated": Kind("error", "data.repeated = 'first' takes the first of them"),
    "series.gap": Kind(
        "error",
        "data.gap = 'fill' repeats the row before; 'ignore' is for working days",
    ),
    "series.dates": Kind(
        "warning",
        "name the column by data.time; with data.dates = 'compact' 20241231 is a date",
    ),
    "series.constant": Kind("warning", "leave it out of data.variables"),
    "series.stuck": Kind("warning", "find out whether that was so"),
    "series.outlier": Kind(
        "warning", "find out whether they are real; they rule the mean and the deviation"
    ),
    "series.drift": Kind(
        "warning", "window.normalise = 'last' or 'window' lets a model follow the level"
    ),
    # Tokens
    "tokenizer.unknown": Kind(
        "warning",
        "take tokenizer.kind = 'bpe', a larger tokenizer.vocabulary, or a lower "
        "tokenizer.min_frequency",
    ),
    "tokenizer.pieces": Kind(
        "warning", "train it on text like this, or take a larger tokenizer.vocabulary"
    ),
    "tokenizer.coverage": Kind("note", ""),
    # Going on with a model
    "checkpoint.model": Kind("error", "give the recipe the same [model] and tokenizer as the run"),
    "checkpoint.damaged": Kind("error", "go on from an older one, or start a new run"),
    # Cost
    "cost.time": Kind("note", ""),
    "cost.memory": Kind("note", "take a smaller batch (and train.accumulate), or a smaller model"),
    "cost.disk": Kind(
        "note",
        "make room, name another disk with --to, keep fewer checkpoints (train.keep), or take "
        "a smaller model (model.dim)",
    ),
    "cost.loss": Kind(
        "error", "take a lower train.optimizer.learning_rate, or train.precision = 'float32'"
    ),
    "cost.warmup": Kind(
        "warning", "set train.schedule.warmup to about a tenth of train.updates, or train longer"
    ),
    "recipe.refused": Kind("error", "see the message"),
}


@dataclass(frozen=True)
class Finding:
    """Something that a person should know before training."""

    severity: Severity
    code: str
    place: str
    """file:line, or a key of the recipe."""
    what: str
    example: str = ""
    advice: str = ""
    value: float | None = None
    """The number that it is about, for a program: seconds, bytes."""

    def __str__(self) -> str:
        shown = f" (“{self.example}”)" if self.example else ""
        todo = f". To do: {self.advice}" if self.advice else ""
        return f"{self.place}: {self.what}{shown}{todo} [{self.code}]"

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


def finding(
    code: str, place: object, what: str, example: str = "", severity: Severity | None = None
) -> Finding:
    """A finding of a known kind, with that kind's advice."""
    kind = KINDS[code]
    return Finding(severity or kind.severity, code, str(place), what, excerpt(example), kind.advice)


def counted(count: int, total: int, what: str = "lines", which: str = "") -> str:
    """“12 of 29,000 lines (0.041 %)”; `which` of them are meant where they are not all."""
    share = 100 * count / max(1, total)
    shown = f"{share:.0f}" if share >= 10 else f"{share:.2g}"
    return f"{count:,} of {which}{total:,} {what} ({shown} %)"
