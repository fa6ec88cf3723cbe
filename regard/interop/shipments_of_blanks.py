"""What is shipped of a masked language model: ranked words for each [MASK] of a text."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer as Library, normalizers, processors

from regard.data.tokenizers import Tokenizer
from regard.decoding.filling import SHOWN, word_of
from regard.errors import UserError
from regard.fields import masked
from regard.fields.framed import MASK, SEP
from regard.interop import stand_ins
from regard.interop.alone import BLANK
from regard.interop.assembly import add_names
from regard.interop.graphs import batch_of
from regard.interop.onnx import Graph, far
from regard.interop.shipments import Near, Quality, Reader, Sessions, tokenized
from regard.model import Model
from regard.runs import Run
from regard.types import Sequence

FILLED = 128
"""Texts of the validation part on which int8 is scored, at most."""


class Blanks(Graph):
    """tokens (1, S) ↦ the likeliest tokens at each blank (M, K), their probabilities, and scores of
    all tokens (M, V)."""

    def __init__(self, model: Model, field: Any, top: int) -> None:
        super().__init__()
        self.model, self.name, self.top = model, field.name, top
        self.mask, self.end = field.mask, field.tokenizer.end
        self.never = sorted(field.tokenizer.special)
        tokens = torch.full((1, 7), Tokenizer.unknown)
        tokens[0, [2, 4]], tokens[0, [3, 6]] = self.mask, self.end
        self.inputs = {"tokens": tokens}
        self.axes = {"tokens": {0: "rows", 1: "length"}}
        self.outputs = {each: {0: "blanks"} for each in ("best", "probabilities", "scores")}

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, ...]:
        batch = batch_of(self.name, tokens)
        ends = (tokens == self.end).long()
        segments = ends.cumsum(1) - ends  # how many have ended before
        read = replace(batch, tensors={**batch.tensors, f"{self.name}_segments": segments})
        memory = self.model.encode(read)
        assert memory is not None
        states = memory.states[tokens == self.mask]  # (M, D)
        scores = self.model.head.logits(states).float()
        never = torch.tensor(self.never)
        chances = scores.index_fill(1, never, -1e9).softmax(-1)
        best = chances.topk(self.top)
        return best.indices, best.values, scores


class Filled(Reader):
    """The words for each blank of a text."""

    program = "blanks"

    def __init__(self, run: Run, model: Model) -> None:
        super().__init__(run, model)
        self.field = tokenized(self.task.source, masked.Field, "text with blanks")
        if self.field.tokenizer.imported:
            raise UserError("its tokenizer is somebody else's, which is shipped as it is")

    @property
    def longest(self) -> int:
        return int(self.recipe.task.windows.length)

    def graphs(self) -> dict[str, Graph]:
        by = self.field.tokenizer
        return {"model": Blanks(self.model, self.field, min(SHOWN, len(by) - len(by.special)))}

    def assemble(self, files: Mapping[str, Path], path: Path) -> None:
        pieces = self.field.tokenizer.pieces(range(len(self.field.tokenizer)))
        add_names(files["model"], "words", [*map(word_of, pieces)], "best")

    @property
    def code(self) -> str:
        # The first word of a text is spelt with a blank before it, as any other.
        text = super().code
        return text if self.field.tokenizer.spaced else text.replace('" " + line', "line")

    def save(self, folder: Path) -> None:
        """A tokenizer that knows [MASK] and [SEP]; what stands before them is no token's."""
        by = self.field.tokenizer
        tree = json.loads(by.json)
        spelt = {self.field.mask: MASK, by.end: SEP, by.start: "[CLS]"}
        tree["model"]["vocab"] = _renamed(tree["model"]["vocab"], spelt)
        shared: Any = {"single_word": False, "rstrip": False, "normalized": False, "special": True}
        tree["added_tokens"] = [
            {"id": number, "content": spelt[number], "lstrip": lstrip, **shared}
            for number, lstrip in sorted({by.end: True, self.field.mask: self._strips}.items())
        ]
        library = Library.from_str(json.dumps(tree))
        folds = [library.normalizer] if library.normalizer else []
        library.normalizer = normalizers.Sequence([normalizers.Replace(BLANK, ""), *folds])
        library.post_processor = processors.TemplateProcessing(
            single=["[CLS]", "$A", SEP], special_tokens=[("[CLS]", by.start), (SEP, by.end)]
        )
        library.enable_truncation(self.longest)
        library.save(str(folder / "tokenizer.json"))

    @property
    def _strips(self) -> bool:
        return bool(self.field.tokenizer.spaced or self.recipe.task.tokenizer.kind == "word")

    def stand_in(self, sessions: Sessions) -> Model:
        return stand_ins.StandIn(_Scores(sessions["model"], self.field), None, stand_ins.Given())

    def inputs(self) -> list[str]:
        """Texts with a blank in the place of a word in their middle."""
        made = []
        for line in self.lines(self.field.tokenizer):
            words = " ".join(line.split("\n")).split(" ")[: max(1, self.longest // 4)]
            words[len(words) // 2] = MASK
            made.append(" ".join(words))
        return made

    def near(self, other: Model) -> Near:
        filler, inputs = self.task.filler, self.inputs()
        rows = [filler.field.cut(filler.field.blanks(line), filler.room) for line in inputs]
        sides = [filler.fill(model, rows, SHOWN) for model in (self.model, other)]
        chances = [
            np.exp([[chance for _, chance in place] for row in side for place in row])
            for side in sides
        ]
        return Near(far(*chances), "probabilities")

    def quality(self, other: Model) -> Quality | None:
        filler, rows = self.task.filler, self.stored()[:FILLED]
        windows = filler.windows([row[self.field.name] for row in rows])
        first = [{self.field.name: some[0]} for some in windows if some]
        pairs = [self.field.hidden(row, np.random.default_rng(n)) for n, row in enumerate(first)]
        if not pairs:
            return None
        found = filler.fill(other, [row for row, _ in pairs], 1)
        right = [
            100.0 * sum(place[0][0] == token for place, token in zip(some, true, strict=True))
            for some, (_, true) in zip(found, pairs, strict=True)
        ]
        counts = np.array([float(len(true)) for _, true in pairs])
        return Quality("accuracy", np.array(right), counts, True, unit="blanks")


def _renamed(vocabulary: Any, spelt: Mapping[int, str]) -> Any:
    """A vocabulary in which some tokens are spelt in another way."""
    if isinstance(vocabulary, dict):
        return {spelt.get(number, piece): number for piece, number in vocabulary.items()}
    pairs = enumerate(vocabulary)
    return [[spelt.get(n, piece), score] for n, (piece, score) in pairs]


class _Scores:
    """An input that gives the scores of tokens as the states of blanks."""

    def __init__(self, session: Any, field: Any) -> None:
        self.session, self.field = session, field

    def __call__(self, batch: Any) -> Sequence:
        tokens, mask = batch[self.field.name], batch[f"{self.field.name}_mask"]
        states = torch.zeros(*tokens.shape, len(self.field.tokenizer))
        for row, real, state in zip(tokens, mask, states, strict=True):
            given = {"tokens": row[real][None].numpy()}
            scores = torch.from_numpy(self.session(given)["scores"])
            state[row == self.field.mask] = scores
        return Sequence(states, mask)
