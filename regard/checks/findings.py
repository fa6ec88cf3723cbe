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
    """What findings of one name have in common."""

    severity: Severity
    """The usual one; where the damage is slight, or the recipe allows for it, it is less."""
    meaning: str
    advice: str
    otherwise: str = ""
    """When it has another severity, and which."""


SKIPPED = "warning with data.on_bad_line = 'skip'"
KINDS = {
    # What is read
    "data.unreadable": Kind(
        "error",
        "A part cannot be read at all: no such file, packed, in UTF-16, without a usable line.",
        "see the message: it names the file and what is wrong with it",
    ),
    "data.broken": Kind(
        "error",
        "Lines that are no examples: bad JSON or CSV, a wrong number of columns, a missing key.",
        "fix the lines, or leave them out with data.on_bad_line = 'skip'",
        SKIPPED,
    ),
    "data.header": Kind(
        "warning",
        "The first line of a table has names of columns, and is taken for an example.",
        "set data.header = true, and data.columns to the names if they are not the task's own",
    ),
    "data.empty": Kind(
        "warning",
        "Examples of which a side is empty. They are left out of training; in a test, they count.",
        "remove them, or find out what lost the text",
        "error with data.on_empty = 'refuse'",
    ),
    "data.long": Kind(
        "warning",
        "Examples of the training or the validation part of more tokens than data.max_length: left "
        "out, cut or refused, as data.on_too_long says.",
        "raise data.max_length, cut such lines up, or let them go with data.on_too_long = 'cut'",
        "note with data.on_too_long = 'cut', error with 'refuse'",
    ),
    "data.repeated": Kind(
        "warning",
        "Examples that stand in the training part more than once, and so count more than once: "
        "more than 5 % of those of 20 characters or more.",
        "remove the copies, unless their number means something",
    ),
    "data.leaked": Kind(
        "error",
        "Examples of the test that are also learnt: more than 10 % of those of 20 characters or "
        "more, or half of all, and more than 20. Scores would be too good. Blanks and case do not "
        "count.",
        "remove them from the part that is learnt from, or take another test",
        "warning from 1 % on, and wherever the validation part is one of the two",
    ),
    "data.known": Kind(
        "warning",
        "Inputs of the test or the validation part that training has with another output: more "
        "than 1 % of those of 20 characters or more.",
        "keep all answers of one input in one part",
    ),
    "data.counts": Kind("note", "How many examples each part has.", ""),
    "data.sampled": Kind(
        "note",
        "A part is large: what is said of it is said of its first examples, 1,000,000 at most, and "
        "30,000 before a training.",
        "`regard doctor` looks at more than the start of a training does",
    ),
    # One side by itself
    "text.encoding": Kind(
        "error",
        "Lines that are not UTF-8.",
        "convert the file: iconv -f LATIN1 -t UTF-8 FILE (if it is Latin-1)",
        SKIPPED,
    ),
    "text.control": Kind(
        "error",
        "Control characters, or halves of surrogate pairs.",
        "remove them, or leave the lines out with data.on_bad_line = 'skip'",
        SKIPPED,
    ),
    "text.mojibake": Kind(
        "error",
        "UTF-8 that was taken for Latin-1 and encoded once more, “Ã¼” for “ü”: more than 2 lines, "
        "and more than 1 %.",
        "undo it: iconv -f UTF-8 -t CP1252 FILE gives the UTF-8 that it was",
        "warning for fewer",
    ),
    "text.replacement": Kind(
        "warning",
        "The character U+FFFD: something was decoded wrongly, and is lost.",
        "go back to the original file, and decode it by its true encoding",
    ),
    "text.mark": Kind(
        "warning",
        "Byte-order marks (U+FEFF) inside the text: files were joined as they were.",
        "remove the character",
    ),
    "text.invisible": Kind(
        "warning",
        "Characters that nobody sees: soft hyphens, directions, zero-width spaces, private use.",
        "remove them: to a model, they make two words out of one",
    ),
    "text.script": Kind(
        "warning",
        "Lines in another script than their side.",
        "remove them, or check the order of the files",
        "error where a part is in another script than that of training",
    ),
    "text.case": Kind(
        "warning",
        "Capitals in one part or side, none in another.",
        "give all parts one form, or set tokenizer.lowercase = true",
    ),
    "text.tokenised": Kind(
        "warning",
        "Punctuation is cut off from words in one part, and not in another.",
        "give all parts one form",
    ),
    "text.markup": Kind(
        "warning",
        "Entities (`&quot;`) and tags (`<br />`) of HTML in more than 1 % of one part, and hardly "
        "any in another.",
        "unescape them, if they are not part of what is to be learnt",
        "note where all parts have them",
    ),
    "text.normal": Kind(
        "warning",
        "Letters and their accents as two characters where one would do (not NFC).",
        "normalise the files to NFC: “é” must be one thing, not two",
    ),
    "text.cut": Kind(
        "warning",
        "Very many lines have exactly the greatest length: something cut them.",
        "go back to the whole lines",
    ),
    "text.other": Kind(
        "warning",
        "A part's letters are unlike those of the training part: another language, another form.",
        "check that the recipe names the right files",
    ),
    # Sides that belong together
    "pairs.lines": Kind(
        "error",
        "Files that belong together have unequal numbers of lines.",
        "find the line that one of them lacks; the place is where they seem to part",
    ),
    "pairs.shifted": Kind(
        "error",
        "From one line on, the lengths (and names, numbers) of one side follow other lines of "
        "the other side: a line is missing, or one too many.",
        "look at the lines around the place, and put the missing line back",
    ),
    "pairs.unrelated": Kind(
        "error",
        "Lines whose lengths have nothing to do with each other: a side was sorted or shuffled.",
        "make the pairs anew from files in their original order",
        "warning for a stretch of at most half of the lines",
    ),
    "pairs.swapped": Kind(
        "error",
        "The sides of one part stand in the other order than those of another part.",
        "give the files of all parts in one order: source, then target",
    ),
    "pairs.mixed": Kind(
        "warning",
        "Pairs of which a side is in the other side's language: more than 2 %.",
        "remove them: a model would learn to copy, or to translate backwards",
    ),
    "pairs.copies": Kind(
        "warning",
        "Pairs whose target is the source itself: more than 5 %.",
        "remove them, unless copying is right",
    ),
    "pairs.ratio": Kind(
        "warning",
        "Pairs of which one side is far longer, for this data, than the other: more than 0.5 %.",
        "look at some of them: most such pairs are no translations",
    ),
    # Labels
    "labels.single": Kind(
        "error", "There is one label only, so there is nothing to learn.", "check data.columns"
    ),
    "labels.unseen": Kind(
        "error",
        "Labels of the test or the validation part that training never saw.",
        "fix or merge them; with labels.unseen = 'wrong' they count as wrong",
        "warning with labels.unseen = 'wrong'",
    ),
    "labels.foreign": Kind(
        "error",
        "Labels of the training part that the run whose model is trained on (`--from`) does not "
        "have: a model has an output for each label that its first training saw, and no other.",
        "write them as that run's labels are, or train a new model, without --from",
    ),
    "labels.spelling": Kind(
        "warning",
        "Labels that differ in case or whitespace alone.",
        "spell each label in one way",
    ),
    "labels.balance": Kind(
        "warning",
        "One label has more than 95 % of all, or a label has fewer than 5.",
        "look at F₁ rather than accuracy; labels.weights = 'balanced' (classify) may help",
    ),
    "labels.drift": Kind(
        "warning",
        "A part has its labels in other shares than training: half of Σ |p − q| is more than 0.15.",
        "draw the parts at random from one pool, unless the difference is meant",
    ),
    "labels.conflict": Kind(
        "warning",
        "The same text with different labels: more than 0.5 % of the lines.",
        "decide which one is right",
    ),
    # Series
    "series.columns": Kind(
        "error", "Rows with more or fewer columns than the header.", "fix the rows"
    ),
    "series.number": Kind("error", "Values that are no numbers.", "fix the values"),
    "series.missing": Kind(
        "error",
        "Values that are not there.",
        "data.missing = 'fill' takes the last value that was known",
        "note with data.missing = 'fill'",
    ),
    "series.time": Kind(
        "error",
        "Times that are none, or of another kind than the first.",
        "write all of them as ISO dates (2016-07-01 13:00), or all as numbers",
    ),
    "series.back": Kind(
        "error",
        "Times that go back, as in a file whose newest row comes first.",
        "data.order = 'sort' sorts the rows by time",
    ),
    "series.repeated": Kind(
        "error",
        "Rows of the same time.",
        "data.repeated = 'first' takes the first of them",
        "note with data.repeated = 'first'",
    ),
    "series.gap": Kind(
        "error",
        "Times that leave out steps.",
        "data.gap = 'fill' repeats the row before",
        "note with data.gap = 'fill' or 'ignore'",
    ),
    "series.constant": Kind(
        "warning",
        "A variable that never changes while it is learnt.",
        "leave it out of data.variables",
    ),
    "series.stuck": Kind(
        "warning",
        "A variable keeps one value for a long time, as when a sensor fails: more than 50 rows, "
        "and more than 2 % of all.",
        "find out whether that was so",
    ),
    "series.outlier": Kind(
        "warning",
        "Values more than 20 deviations away from the mean.",
        "find out whether they are real; they rule the mean and the deviation",
    ),
    "series.drift": Kind(
        "warning",
        "A part lies far from what was learnt: its mean is more than 2 deviations away.",
        "window.normalise = 'last' or 'window' lets a model follow the level",
    ),
    # Tokens
    "tokenizer.unknown": Kind(
        "warning",
        "Tokens that the vocabulary lacks: more than 15 %, of characters 0.5 %.",
        "take tokenizer.kind = 'bpe', a larger tokenizer.vocabulary, or a lower "
        "tokenizer.min_frequency",
    ),
    "tokenizer.pieces": Kind(
        "warning",
        "Words come apart into very many pieces, more than one for each character, or twice as "
        "many as in training: the tokenizer was made for other text.",
        "train it on text like this, or take a larger tokenizer.vocabulary",
    ),
    "tokenizer.coverage": Kind(
        "note", "Tokens for each word, and the share of unknown ones.", ""
    ),
    # Going on with a model
    "checkpoint.model": Kind(
        "error",
        "The weights of the given run do not fit the model of the recipe.",
        "give the recipe the same [model] and tokenizer as the run",
    ),
    "checkpoint.damaged": Kind(
        "error",
        "A checkpoint is damaged.",
        "go on from an older one, or start a new run",
        "warning where an older one is whole",
    ),
    # Cost
    "cost.time": Kind("note", "How long training will take, from measured steps.", ""),
    "cost.memory": Kind(
        "note",
        "The most memory that training will need.",
        "take a smaller batch (and train.accumulate), or a smaller model",
        "error where the model, its gradient and the optimizer take more than train.memory",
    ),
    "cost.disk": Kind(
        "note",
        "What the run will need on the disk.",
        "make room, name another disk with --to, keep fewer checkpoints (train.keep), or take a "
        "smaller model (model.dim)",
        "warning from 90 % of what is free on, error where there is less",
    ),
    "cost.loss": Kind(
        "error",
        "The loss of the first steps is not finite.",
        "take a lower train.optimizer.learning_rate, or train.precision = 'float32'",
    ),
    "cost.warmup": Kind(
        "warning",
        "The learning rate rises for more than half of the training, of 50 updates or more: little "
        "is learnt.",
        "set train.schedule.warmup to about a tenth of train.updates, or train longer",
    ),
    "recipe.refused": Kind(
        "error", "Training would refuse the recipe or its data.", "see the message"
    ),
}  # fmt: skip


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

    def __str__(self) -> str:
        shown = f" (“{self.example}”)" if self.example else ""
        todo = f". To do: {self.advice}" if self.advice else ""
        return f"{self.place}: {self.what}{shown}{todo} [{self.code}]"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def finding(
    code: str, place: object, what: str, example: str = "", severity: Severity | None = None
) -> Finding:
    """A finding of a known kind, with that kind's advice."""
    kind = KINDS[code]
    return Finding(severity or kind.severity, code, str(place), what, excerpt(example), kind.advice)


def counted(count: int, total: int, what: str = "lines") -> str:
    """“12 of 29,000 lines (0.041 %)”."""
    share = 100 * count / max(1, total)
    shown = f"{share:.0f}" if share >= 10 else f"{share:.2g}"
    return f"{count:,} of {total:,} {what} ({shown} %)"
