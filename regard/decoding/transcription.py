"""What a CTC model writes for sounds: texts, and when each token was heard."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from regard.data.batching import by_length
from regard.decoding.inputs import parsed, readable
from regard.decoding.parallel_batches import parallel_batches, threads_for
from regard.decoding.prediction import Prediction, nothing
from regard.decoding.translation import Times
from regard.examples import stored
from regard.fields import Row, text
from regard.heads import ctc as heads
from regard.inputs import Timed
from regard.inspect.reading import Reading, likely
from regard.metrics import perplexity
from regard.model import Model
from regard.recipe.parts import Part
from regard.search import ctc
from regard.types import Batch

Table = ctc.Table


def head_of(model: Model) -> heads.Head:
    """The head that places tokens: the model's only one, or one beside that of a decoder."""
    found = dict(model.heads.items()).get("target", model.head)
    assert isinstance(found, heads.Head)
    return found


def listens(model: Model) -> bool:
    """Whether it has such a head."""
    return isinstance(dict(model.heads.items()).get("target", model.head), heads.Head)


def seconds_of(model: Model) -> float:
    """From one position to the next; of an input that does not say, 1."""
    return model.input.seconds if isinstance(model.input, Timed) else 1.0


def in_seconds(spans: Sequence[tuple[int, int]], step: float) -> Times:
    return [(round(first * step, 3), round(end * step, 3)) for first, end in spans]


@dataclass(frozen=True)
class Transcriber:
    """What is read, and the vocabulary of what is written."""

    source: Any
    """A field of any kind whose rows are long enough for their texts: sound."""
    target: text.Field
    follow: ctc.Follow | None = None
    """A language model, if one is asked."""

    def predict(
        self,
        model: Model,
        inputs: Sequence[str],
        search: Part,
        *,
        batch: int = 64,
        first: int = 0,
    ) -> Iterator[Prediction]:
        """Exactly one output per input, in order, whatever the batch size; empty for empty."""
        model.eval()
        config = search.config if search.kind == "ctc" else ctc.Config()
        full = [n for n, line in enumerate(inputs) if line.strip()]
        rows, problems = readable(self.source, inputs, full, first)
        order = sorted(rows, key=lambda n: (self.source.length(rows[n]), n))
        batches = [order[start : start + batch] for start in range(0, len(order), batch)]

        def predicted(ids: list[int]) -> list[Prediction]:
            with threads_for(model, len(ids)):
                tables = self.tables(model, [rows[n] for n in ids])
            return [
                self._prediction(inputs[n], table, config, seconds_of(model))
                for n, table in zip(ids, tables, strict=True)
            ]

        done = parallel_batches(predicted, batches, model.device)
        found = dict(zip(order, (each for some in done for each in some), strict=True))
        for n in range(len(inputs)):
            yield found[n] if n in found else nothing(problems.get(n))

    def tables(self, model: Model, rows: Sequence[Row]) -> list[Table]:
        """log p (T, V) of all outputs at the positions of each row; never of what no text has."""
        batch = stored.collate([self.source], rows, range(len(rows))).to(model.device)
        with torch.inference_mode():
            memory = model.encode(batch)
            assert memory is not None
            logits = head_of(model).logits(memory.states).float()
            by = self.target.tokenizer
            never = sorted({*by.unwritten, by.end} - {ctc.BLANK})
            logits[..., never] = -torch.inf
            found = logits.log_softmax(-1).cpu().numpy()
        lengths = memory.mask.sum(1).tolist()
        return [table[:length] for table, length in zip(found, lengths, strict=True)]

    def times(
        self, model: Model, rows: Sequence[Row], targets: Sequence[Sequence[int]]
    ) -> list[Times]:
        """When the tokens of texts were heard, whoever wrote them: those of the likeliest path that
        writes each; none of a text that has no path, or without a CTC head."""
        if not listens(model):
            return [[] for _ in rows]
        with threads_for(model, len(rows)):
            tables = self.tables(model, rows)
        step = seconds_of(model)
        pairs = zip(tables, targets, strict=True)
        return [in_seconds(ctc.align(table, tokens), step) for table, tokens in pairs]

    def _prediction(self, place: str, table: Table, config: ctc.Config, step: float) -> Prediction:
        best = ctc.search(table, config, self.follow)
        by, tokens = self.target.tokenizer, best[0].tokens
        texts = [by.decode(each.tokens) for each in best]
        spans = ctc.align(table, tokens)
        several = [
            {"text": text, "score": each.score} for text, each in zip(texts, best, strict=True)
        ]
        return Prediction(
            text=texts[0],
            score=best[0].score,
            tokens=by.pieces(tokens),
            source=[place],
            log_probs=[
                float(table[first:end, token].max())
                for token, (first, end) in zip(tokens, spans, strict=False)
            ],
            times=in_seconds(spans, step),
            alternatives=several if len(best) > 1 else [],
        )

    def score(
        self, model: Model, inputs: Sequence[str], outputs: Sequence[str], size: int
    ) -> Iterator[dict[str, Any]]:
        """log p(y | x) over all paths, None of a text that is too long for its sound."""
        model.eval()
        rows = self.source.encode(parsed(self.source, inputs))
        targets = self.target.tokenizer.encode(outputs)

        def likelihoods(ids: list[int]) -> list[float]:
            batch = stored.collate([self.source], [rows[n] for n in ids], ids).to(model.device)
            widest = max(1, *(len(targets[n]) for n in ids))
            padded = [[*targets[n], *[ctc.BLANK] * (widest - len(targets[n]))] for n in ids]
            with torch.inference_mode():
                memory = model.encode(batch)
                assert memory is not None
                lengths = torch.tensor([len(targets[n]) for n in ids], device=model.device)
                found = head_of(model).likelihood(
                    memory.states,
                    memory.mask,
                    torch.tensor(padded, device=model.device),
                    lengths,
                )
            return [float(each) for each in found.cpu()]

        lengths = [self.source.length(row) for row in rows]
        for n, total in enumerate(by_length(lengths, size, likelihoods)):
            known = bool(np.isfinite(total))
            count = max(1, len(targets[n]))
            unknown = self.target.tokenizer.unknown in targets[n]
            yield {
                "log_prob": total if known else None,
                "perplexity": perplexity(-total / count) if known else None,
                "status": "unknown" if unknown else "ok" if known else "no room",
                "tokens": self.target.tokenizer.pieces(targets[n]),
                "log_probs": [total] if known else [],
            }

    def look(self, model: Model, text: str, search: Part, target: str | None) -> Reading:
        """What is written for a sound, or a given text, at each position: a token or a blank."""
        row = self.source.encode(parsed(self.source, [text]))[0]
        [table] = self.tables(model, [row])
        by, step = self.target.tokenizer, seconds_of(model)
        if target is None:
            config = search.config if search.kind == "ctc" else ctc.Config()
            tokens = ctc.search(table, config, self.follow)[0].tokens
        else:
            tokens = tuple(by.encode([target])[0])
        path = [ctc.BLANK] * len(table)
        spans = ctc.align(table, tokens)
        for token, (first, end) in zip(tokens, spans, strict=False):
            path[first:end] = [token] * (end - first)

        def names(numbers: Sequence[int]) -> list[str]:
            pieces = by.pieces(list(numbers))
            return ["·" if n == ctc.BLANK else p for n, p in zip(numbers, pieces, strict=True)]

        times = [f"{n * step:.2f}" for n in range(len(table))]
        batch: Batch = stored.collate([self.source], [row], [0]).to(model.device)
        return Reading(
            text=text,
            output=by.decode(tokens),
            batch=batch,
            source=times,
            said=names(path),
            of=times,
            symbols=path,
            name=names,
            measure=likely,
            given=0 if target is None else len(path),
            source_words=[(n, n + 1) for n in range(len(path))],
            said_words=[(n, n + 1) for n in range(len(path))],
            sound=self.source.played(row),
            heard=[
                (piece, first * step, end * step)
                for piece, (first, end) in zip(by.pieces(tokens), spans, strict=False)
            ],
        )
