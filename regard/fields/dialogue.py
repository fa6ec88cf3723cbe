"""Dialogues: a prompt, which is all that comes before an answer, and the answer.

    x₁ … x_m            the prompt by the template, up to where the answer begins
    y₁ … y_n END        the answer, and the token that ends it

A model reads x₁ … x_m y₁ … y_n and learns to say y₁ … y_n END alone, and the earlier answers that
are a part of the prompt. x₁ is read, and never said.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from regard.data import dialogues
from regard.data.batching import Lengths
from regard.data.dialogues import Dialogue
from regard.data.store import Column, Store, pad
from regard.data.template import Config as Form, Template
from regard.data.tokenizers import Tokenizer
from regard.fields import Array, Draw, Flat, Row
from regard.fields.text import Tokenised, agree, token_column

PROMPT, SAID, ANSWER = "prompt", "prompt_said", "target"
"""The arrays of a row; `SAID` is 1 for tokens of earlier answers."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Dialogues have no settings of their own: the section `template` says how they are written."""


@dataclass(frozen=True)
class Side(Tokenised):
    """What prompts and answers share: one tokenizer, and a template that it has the tokens of."""

    template: Form = Form()  # noqa: RUF009 - it is frozen

    @property
    def file(self) -> str:
        return f"{ANSWER}.tokenizer.json"

    def load(self, folder: Path) -> Tokenised:
        made = replace(self, learnt=Tokenizer.load(folder / self.file, self.config))
        assert made.form  # a template without its tokens is refused now
        return made

    @cached_property
    def form(self) -> Template:
        """The template by the tokens that there are."""
        return Template(self.template, self.tokenizer)


@dataclass(frozen=True)
class Prompt(Side):
    """A dialogue up to the message that is to be answered."""

    def parse(self, text: str) -> Dialogue:
        return dialogues.parse(text)

    def show(self, value: Dialogue) -> str:
        return dialogues.show(value)

    def at_least(self, values: Sequence[Any]) -> list[int]:
        if self.learnt is not None:
            return [len(tokens) for tokens, _ in self.form.prompts(values)]
        return [sum(super(Prompt, self).at_least([m.content for m in each])) for each in values]

    def fit(self, values: Iterable[Dialogue | str]) -> Tokenised:
        """From prompts, and answers, which are texts."""
        texts = chain.from_iterable(
            [each] if isinstance(each, str) else self.template.texts(each) for each in values
        )
        made = replace(self, learnt=Tokenizer.train(self.config, texts, self.template.names))
        assert made.form
        return made

    @property
    def columns(self) -> Mapping[str, Column]:
        return {PROMPT: token_column(len(self.tokenizer)), SAID: Column("u1")}

    def verify(self, store: Store, longest: int) -> None:
        store.check(PROMPT, values=range(len(self.tokenizer)), longest=longest)
        store.check(SAID, values=range(2))
        agree(store, np.array_equal(store.lengths(PROMPT), store.lengths(SAID)))
        agree(store, bool((store.lengths(PROMPT) > 0).all()))

    def encode(self, values: Sequence[Dialogue]) -> list[Row]:
        return [{PROMPT: tokens, SAID: said} for tokens, said in self.form.prompts(values)]

    def sizes(self, flat: Mapping[str, Flat]) -> None:
        return None  # it counts together with the answer

    def lengths(self, store: Store) -> None:
        return None

    def cut(self, row: Row, most: int) -> Row:
        """The end of a prompt, which has half of the room, and what the answer leaves."""
        room = max(most - len(row[ANSWER]), most // 2, 1)
        return {name: row[name][-room:] for name in (PROMPT, SAID)}

    def collate(self, rows: Sequence[Row], ids: Sequence[int], draw: Draw) -> dict[str, Array]:
        return {}  # what is read and what is said are of one piece: see the answer


@dataclass(frozen=True)
class Field(Side):
    """The answer; a row has that of its prompt, too."""

    def parse(self, text: str) -> str:
        return text

    def show(self, value: str) -> str:
        return value

    @property
    def size_names(self) -> Sequence[str]:
        return ("tokens", "outputs")

    @property
    def size(self) -> Mapping[str, int]:
        return {"tokens": len(self.tokenizer), "outputs": len(self.tokenizer)}

    def verify(self, store: Store, longest: int) -> None:
        store.check(ANSWER, values=range(len(self.tokenizer)))
        agree(store, bool((store.lengths(ANSWER) > 0).all()))
        agree(store, bool((self.lengths(store) < longest).all()))

    def encode(self, values: Sequence[str]) -> list[Row]:
        return [{ANSWER: tokens} for tokens in self.form.answers(values)]

    def sizes(self, flat: Mapping[str, Flat]) -> Lengths:
        found: Lengths = flat[PROMPT][1] + flat[ANSWER][1]
        return found

    def lengths(self, store: Store) -> Lengths:
        found: Lengths = store.lengths(PROMPT) + store.lengths(ANSWER) - 1
        return found

    def cut(self, row: Row, most: int) -> Row:
        """How an answer begins; one that is cut has no end."""
        return {ANSWER: row[ANSWER][: most - len(row[PROMPT])]}

    def collate(self, rows: Sequence[Row], ids: Sequence[int], draw: Draw) -> dict[str, Array]:
        whole = [np.concatenate([row[PROMPT], row[ANSWER]]).astype(np.int64) for row in rows]
        said = [np.append(row[SAID], np.ones(len(row[ANSWER]), np.int64)) for row in rows]
        return {
            f"{self.name}_in": pad([each[:-1] for each in whole], self.tokenizer.pad)[0],
            f"{self.name}_out": pad([each[1:] for each in whole], self.tokenizer.pad)[0],
            f"{self.name}_mask": pad([each[1:] for each in said], 0)[0].astype(bool),
        }

    def targets(self, arrays: Mapping[str, Any]) -> int:
        return int(arrays[f"{self.name}_mask"].sum())

    def row(self, tokens: Sequence[int]) -> Row:
        """The row in which all tokens but the first are said."""
        return {PROMPT: tokens[:1], SAID: [0], ANSWER: tokens[1:]}
