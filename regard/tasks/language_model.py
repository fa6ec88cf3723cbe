"""Language model: vec2seq with x = ∅. What text is like: p(y) = Π_t p(y_t | y₁ … y_{t−1}).

A line's end is the token END, with every tokenizer. Either each line is a text of its own, or the
lines are one running text, in which END is what stands between two of them.
"""

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from regard.data import batching, files, stream, tokenizers
from regard.data.readers import Report
from regard.data.store import Store, read_texts, write_texts
from regard.data.texts import HeldOut, Texts, collate, spelling
from regard.data.tokenizers import END, PAD, START, UNKNOWN, Tokenizer
from regard.decoding.continuation import CHUNK, Asked, follow
from regard.errors import RecipeError, UserError
from regard.metrics import VERSION, Direction, Score, perplexity
from regard.model import Model
from regard.recipe.config import Recipe, Room
from regard.recipe.parts import Part, module
from regard.recipe.values import Length
from regard.search import Hypothesis
from regard.tasks import Prediction, check_head, check_positions, check_written
from regard.train import health
from regard.types import Batch, Batches, Carry, Head, Sizes, Terms

PARTS = {"decoder": "rnn", "head": "vocabulary"}
SIDES = ("target",)
BLOCK = 2048
VALIDATION = "validation.text"
"""In the run's store: the lines of the validation part."""
POSITIONS = 1024
"""Positions whose logits are held at once."""
PLACES, PROMPT, LENGTH = 16, 32, 16
"""In validation: where continuations are asked for, after how many tokens, and their length."""


@dataclass(frozen=True, kw_only=True)
class Output:
    """How long a continuation is."""

    length: Length = 200
    """The most tokens; running text, which has no end, gets as many."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sections of a recipe for a language model, beside the model and the trainer."""

    unit: Literal["stream", "line"] = "stream"
    """Running text, cut into parallel streams, or every line a text of its own."""
    data: files.Config
    """The text; of running text, empty and long lines are kept, whatever is said here."""
    held_out: HeldOut
    """What is kept from learning, where no files are named for it."""
    tokenizer: tokenizers.Config
    """How text becomes tokens."""
    stream: stream.Config
    """How running text is read."""
    batch: batching.Config
    """How large a batch of lines is."""
    search: Annotated[Part, Room("search", "sample")]
    """How a continuation is found."""
    output: Output
    """How long a continuation is."""

    @property
    def texts(self) -> Texts:
        return Texts(self.data, self.held_out, self.unit == "stream")


def metrics(config: Config) -> dict[str, Direction]:
    return {"nll": "lower", "perplexity": "lower", "bits_per_character": "lower"}


def check(recipe: Recipe) -> None:
    """Refuse what can be known to be wrong before any data is read."""
    config: Config = recipe.task
    if len(config.data.columns) > 1:
        raise RecipeError(f"data.columns: a text has 1 column, not {len(config.data.columns)}")
    config.held_out.check(config.data)
    check_head(recipe, "tokens")
    check_written(recipe)
    if config.unit == "stream":
        length = config.stream.length
        check_positions(recipe, "decoder", length, f"stream.length = {length} asks")
    else:
        longest = config.data.max_length
        check_positions(recipe, "decoder", longest + 1, f"data.max_length = {longest} asks")
    _check_decoder(recipe)


def _check_decoder(recipe: Recipe) -> None:
    """Refuse settings for a memory: a language model has none."""
    settings = recipe.model.decoder.config
    for name in ("attention", "order", "summary"):
        usual = getattr(type(settings), name, None)
        if getattr(settings, name, None) not in (usual, "none"):
            raise RecipeError(f"model.decoder.{name}: a language model has no memory to look at")


def prepare(config: Config, folder: Path, given: Path | None = None) -> Report:
    """Read the data, train the tokenizer, write the store: all of it into `folder`.

    The tokenizer of the run `given` is taken instead, if it is there.
    """
    texts = config.texts
    for part in files.PARTS:
        if texts.has(part) and next(texts.lines(part, Report()), None) is None:
            raise UserError(f"held_out: no line is left for the {part} part")
    if given is not None:
        tokenizer = Tokenizer.load(given / "target.tokenizer.json", config.tokenizer)
    else:
        lines = texts.lines("train", Report())
        tokenizer = Tokenizer.train(config.tokenizer, (line.text for line in lines))
    tokenizer.save(folder / "target.tokenizer.json")
    report = Report()
    rows = ([symbols] for symbols in _encode(config, tokenizer, report))
    Store.write(folder / "store", ["train.target"], len(tokenizer), rows)
    report.used = len(Store(folder / "store", "train.target"))
    if not report.used:
        raise UserError("data.train: no line is left to learn from")
    if texts.has("validation"):
        checked = Report()
        found = [[line.text] for line in texts.lines("validation", checked)]
        write_texts(folder / "store", [VALIDATION], found)
        if config.data.validation:  # else it was read with the training files
            report.include(checked)
    if config.unit == "stream":
        report.counts.pop("empty text", None)  # met, but not left out
    return report


def _encode(config: Config, by: Tokenizer, report: Report) -> Iterator[list[int]]:
    """Tokens of each line to learn from, its end among them."""
    data, lines = config.data, config.texts.lines("train", report)
    while block := list(islice(lines, BLOCK)):
        encoded = by.encode([line.text for line in block])
        for line, symbols in zip(block, encoded, strict=True):
            if config.unit == "stream":
                yield [*symbols, END]
            elif data.admits(len(symbols), line.path, line.number, line.text, report):
                yield [*symbols[: data.max_length], END]


class Text(NamedTuple):
    """A text as the model says it."""

    symbols: list[int]
    """Its end is the last."""
    characters: int
    """The ends of its lines count as one each."""
    spelling: int
    """Bits on top of those of the tokens, for what is unknown."""


class Task:
    """A language model whose tokenizer and store lie in a run's folder."""

    predict_options = frozenset({"length"})
    evaluate_options = frozenset[str]()
    reads_files = False

    def __init__(self, config: Config, folder: Path) -> None:
        self.config, self.folder = config, folder
        self.target = Tokenizer.load(folder / "target.tokenizer.json", config.tokenizer)
        known = {"target": self.target.hash}
        self.sizes = Sizes({"target": self.target.size()}, writes="target", vocabularies=known)
        self.running = config.unit == "stream"
        self.before = END if self.running else START
        """What is read before the first symbol: in running text, the end of another line."""

    # Learning

    def batches(self, seed: int) -> Batches:
        longest = sys.maxsize if self.running else self.config.data.max_length + 1
        symbols = range(END, len(self.target))
        store = Store(self.folder / "store", "train.target", symbols, longest, END)
        if self.running:
            return stream.Streams(store.tokens, self.before, self.config.stream, seed)

        def make(ids: Sequence[int]) -> Batch:
            return collate([store[n] for n in ids], self.before, ids)

        return batching.Batches(store.lengths[:, None], make, self.config.batch, seed)

    def loss(self, model: Model, batch: Batch, carry: Carry = None) -> tuple[Terms, Carry]:
        """−log p(y), the true beginning of y being given at each place.

        Running text goes on from `carry`; the gradient does not.
        """
        assert model.decoder is not None
        state = model.start(batch)
        if batch.continues and carry:
            state = model.decoder.resume(state, carry)
        hidden, state = model.decode(batch["target_in"], state)
        terms = model.head.loss(hidden, batch["target_out"], batch["target_mask"])
        return terms, model.decoder.carry(state) if self.running else None

    def carried(self, model: Model) -> dict[str, tuple[int, ...]]:
        """The shapes of what a chunk of running text hands on to the next; nothing of lines."""
        if not self.running:
            return {}
        assert model.decoder is not None
        first = collate([[END]], self.before, [0]).to(model.device)
        one = model.decoder.carry(model.start(first))
        return {name: (self.config.stream.streams, *t.shape[1:]) for name, t in one.items()}

    def validate(self, model: Model) -> dict[str, float]:
        if not self.config.texts.has("validation"):
            return {}
        texts = self._encode(self._validation())
        return self._likelihood(model, texts) | self._alike(model, [text.symbols for text in texts])

    def _validation(self) -> list[str]:
        """The validation part as it was when the run was made; an older run reads the files."""
        stored = read_texts(self.folder / "store", [VALIDATION])
        if stored is None:
            return self.references("validation")[0]
        return self._joined([line for (line,) in stored])

    def _alike(self, model: Model, rows: Sequence[list[int]]) -> dict[str, float]:
        """Whether what the model would go on with is the same at many places of these texts."""
        if self.running:
            places = [(rows[0], len(rows[0]) * n // (PLACES + 1)) for n in range(1, PLACES + 1)]
        else:
            places = [(row, len(row) // 2) for row in rows[:: max(1, len(rows) // PLACES)]]
        prompts = [row[max(0, place - PROMPT) : place] for row, place in places]
        right = [row[place : place + LENGTH] for row, place in places]
        greedy = Part("greedy", module("search", "greedy").Config())
        found = self._continue(model, prompts, list(range(len(prompts))), greedy, LENGTH)
        said = [self._decode(best[0].tokens) for best in found]
        return health.shares(said, list(map(self._decode, right)))

    # Likelihood

    def references(self, part: files.Part) -> tuple[list[str]]:
        """The texts of a part: its lines, or all of it as one running text."""
        texts = self.config.texts
        if not texts.has(part):
            raise UserError(f"data.{part}: the recipe names no file for it, nor held_out a share")
        return (self._joined([line.text for line in texts.lines(part, Report())]),)

    def _joined(self, lines: list[str]) -> list[str]:
        """The texts that lines are: each of them one, or all of them together."""
        return ["\n".join(lines)] if self.running else lines

    def symbols(self, part: files.Part) -> list[list[int]]:
        """What a model reads of each text of a part."""
        return [text.symbols for text in self._encode(self.references(part)[0])]

    def _encode(self, texts: Sequence[str]) -> list[Text]:
        found = []
        for text in texts:
            lines = text.split("\n")
            encoded = self.target.encode(lines)
            symbols = [symbol for row in encoded for symbol in (*row, END)]
            pairs = zip(lines, encoded, strict=True)
            extra = sum(spelling(self.target.words(x), row) for x, row in pairs if UNKNOWN in row)
            found.append(Text(symbols, sum(len(self._told(line)) + 1 for line in lines), extra))
        return found

    def _told(self, line: str) -> str:
        """What its tokens tell of a line: those of words, not how many blanks part them."""
        return " ".join(line.split()) if self.config.tokenizer.kind == "word" else line

    def _decode(self, symbols: Sequence[int]) -> str:
        lines: list[list[int]] = [[]]
        for symbol in symbols:
            lines.append([]) if symbol == END else lines[-1].append(symbol)
        return "\n".join(map(self.target.decode, lines))

    def window(self, model: Model) -> int | None:
        """How many tokens a model can hold that hands nothing on; None for one that does."""
        assert model.decoder is not None
        if model.decoder.carry(model.start(collate([[END]], self.before, [0]).to(model.device))):
            return None
        return self.config.stream.length if self.running else self.config.data.max_length + 1

    def _read(
        self, model: Model, rows: Sequence[Sequence[int]], size: int = 64
    ) -> list[NDArray[np.float32]]:
        """log p of each token of each row, given those before it.

        A model that hands on its state knows all of them. Any other reads windows as long as
        those that it has learnt from, and knows at least half a window, but at a row's beginning.
        """
        order = sorted(range(len(rows)), key=lambda n: (len(rows[n]), n))
        window = self.window(model)
        found: dict[int, NDArray[np.float32]] = {}
        for start in range(0, len(order), size):
            ids = order[start : start + size]
            batch = collate([rows[n] for n in ids], self.before, ids).to(model.device)
            table = log_probs(model, batch, window).cpu().numpy()
            found |= {n: line[: len(rows[n])] for n, line in zip(ids, table, strict=True)}
        return [found[n] for n in range(len(rows))]

    def _likelihood(self, model: Model, texts: list[Text], size: int = 64) -> dict[str, float]:
        """Means over all tokens, and over all characters."""
        model.eval()
        found = self._read(model, [text.symbols for text in texts], size)
        nats = -math.fsum(float(row.sum(dtype=np.float64)) for row in found)
        mean = nats / sum(map(len, found))
        bits = nats / math.log(2) + sum(text.spelling for text in texts)
        return {
            "nll": mean,
            "perplexity": perplexity(mean),
            "bits_per_character": bits / sum(text.characters for text in texts),
        }

    def evaluate(
        self, model: Model, part: files.Part, search: Part, *, batch: int = 64
    ) -> tuple[dict[str, Score], list[Prediction]]:
        """Perplexity and bits per character of a part. Nothing is predicted."""
        texts = self._encode(self.references(part)[0])
        figures = self._likelihood(model, texts, batch)
        symbols = [symbol for text in texts for symbol in text.symbols]
        window = self.window(model)
        about = {
            "unit": self.config.unit,
            "context": f"{window // 2}-{window}" if window else "all",
            "case": "lc" if self.config.tokenizer.lowercase else "mixed",
            "symbols": len(symbols),
            "characters": sum(text.characters for text in texts),
            "unknown": f"{symbols.count(UNKNOWN)}-spelt",
            "version": VERSION,
        }
        signature = "|".join(f"{name}:{value}" for name, value in about.items())
        scores = {
            name: Score(name=name, value=figures[name], signature=signature, higher_is_better=False)
            for name in ("perplexity", "bits_per_character")
        }
        return scores, []

    def score(
        self, model: Model, texts: Sequence[str], *, batch: int = 64
    ) -> Iterator[dict[str, Any]]:
        """log-probability, perplexity and bits per character of each text, its end included."""
        model.eval()
        encoded = self._encode(texts)
        found = self._read(model, [text.symbols for text in encoded], batch)
        for text, row in zip(encoded, found, strict=True):
            total = float(row.sum(dtype=np.float64))
            bits = text.spelling - total / math.log(2)
            yield {
                "status": "unknown" if UNKNOWN in text.symbols else "ok",
                "log_prob": total,
                "perplexity": perplexity(-total / len(row)),
                "bits_per_character": bits / text.characters,
                "bits": bits,
                "characters": text.characters,
                "tokens": self.target.pieces(text.symbols),
                "log_probs": row.tolist(),
            }

    # Continuation

    def predict(
        self,
        model: Model,
        inputs: Sequence[str],
        search: Part,
        *,
        batch: int = 64,
        length: int | None = None,
        first: int = 0,
    ) -> Iterator[Prediction]:
        """What follows each input, in order: input and output together are the text.

        An empty input has something follow, too: a text from its beginning. What the vocabulary
        lacks is read as the unknown symbol, and the status says so. The score is that of the
        output alone, given the input.
        """
        most = self.config.output.length if length is None else length
        if most < 1:
            raise RecipeError(f"length: {most} must be ≥ 1")
        model.eval()
        prompts = [text.symbols[:-1] for text in self._encode(inputs)]
        order = sorted(range(len(prompts)), key=lambda n: (len(prompts[n]), n))
        found: dict[int, Prediction] = {}
        for start in range(0, len(order), batch):
            ids = order[start : start + batch]
            chosen, numbers = [prompts[n] for n in ids], [first + n for n in ids]
            best = self._continue(model, chosen, numbers, search, most)
            found |= {n: self._prediction(prompts[n], b) for n, b in zip(ids, best, strict=True)}
        for n in range(len(prompts)):
            yield found[n]

    def _continue(
        self,
        model: Model,
        prompts: list[list[int]],
        numbers: list[int],
        search: Part,
        length: int,
    ) -> list[list[Hypothesis]]:
        """Continuations, best first, without their prompts."""
        asked = Asked(
            length=length,
            end=PAD if self.running else END,  # running text has no end, and PAD is forbidden
            forbidden=(PAD, START, UNKNOWN),
            window=self.window(model),
        )
        texts = [[self.before, *prompt] for prompt in prompts]
        return follow(model, texts, numbers, search, asked)

    def _prediction(self, prompt: list[int], best: list[Hypothesis]) -> Prediction:
        before = self._decode(prompt)
        texts = [self._decode([*prompt, *each.tokens]).removeprefix(before) for each in best]
        first, ended = best[0], best[0].finished
        alternatives = [
            {"text": text, "score": each.score, "log_probs": list(each.log_probs)}
            for text, each in zip(texts, best, strict=True)
        ]
        return Prediction(
            text=texts[0],
            status="unknown" if UNKNOWN in prompt else "ok" if ended or self.running else "capped",
            score=first.score,
            tokens=self.target.pieces([*first.tokens, END] if ended else first.tokens),
            log_probs=list(first.log_probs),
            source=self.target.pieces(prompt),
            alternatives=alternatives if len(best) > 1 else [],
        )


def log_probs(model: Model, batch: Batch, window: int | None) -> Float[Tensor, "B T"]:
    """log p of every token of a batch, read in windows that overlap by half, or with the state
    handed on from chunk to chunk."""
    read, said = batch["target_in"], batch["target_out"]
    length, overlap = (window, window // 2) if window else (CHUNK, 0)
    found = []
    with torch.inference_mode():
        fresh = state = model.start(batch)
        for first, new, end in stream.windows(said.shape[1], length, overlap):
            hidden, after = model.decode(read[:, first:end], state)
            found.append(_chosen(model.head, hidden[:, new - first :], said[:, new:end]))
            state = fresh if window else after
        return torch.cat(found, 1)


def _chosen(
    head: Head, hidden: Float[Tensor, "B T D"], said: Int[Tensor, "B T"]
) -> Float[Tensor, "B T"]:
    """log p(said | hidden), never with the logits of many positions at once."""
    states, symbols = hidden.flatten(0, 1), said.flatten()
    blocks = [slice(n, n + POSITIONS) for n in range(0, len(symbols), POSITIONS)]
    losses = [
        F.cross_entropy(head.logits(states[block]).float(), symbols[block], reduction="none")
        for block in blocks
    ]
    return -torch.cat(losses).view_as(said)
