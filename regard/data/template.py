"""How a dialogue becomes tokens: what stands around each message.

    [template]
    user = "<start>{content}<end>"
    assistant = "{content}<end>"

The names in angle brackets are special tokens, which no text spells: what a user writes stays text,
even if it looks like one of them. All else is text of the template's own.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from regard.data.dialogues import ROLES, Dialogue, Message
from regard.data.tokenizer_training import SPECIAL
from regard.data.tokenizers import Tokenizer
from regard.errors import RecipeError

CONTENT = "{content}"
NAME = re.compile(r"<[a-z_]+>")
"""A special token of a tokenizer of our own."""
UNENDED = f"a special token must stand right after {CONTENT} and so end an answer, such as <end>"
Marked = int | str
"""A special token, or a text."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """What stands around each message of a dialogue, which is {content}. <start> and <end> are the
    tokens that begin and end a text; a new tokenizer gets a token for any other such name, as
    <user>. Those of an imported tokenizer are spelt as there (<|im_end|>)."""

    before: str = ""
    """What begins every dialogue."""
    system: str = "<end>{content}<end>"
    """What the system says, before all others."""
    user: str = "<start>{content}<end>"
    """What a user says."""
    assistant: str = "{content}<end>"
    """What is answered. The special token right after it ends an answer."""
    default_system: str = ""
    """What the system says in dialogues that have no such message."""

    def __post_init__(self) -> None:
        for role in ROLES:
            if getattr(self, role).count(CONTENT) != 1:
                raise RecipeError(f"{role}: {CONTENT} must stand in it once, for what is said")
        if self.assistant.endswith(CONTENT):
            raise RecipeError(f"assistant: {UNENDED}")

    @property
    def names(self) -> list[str]:
        """Of the special tokens that a new tokenizer must have beside the usual ones."""
        whole = "".join([self.before, *(getattr(self, role) for role in ROLES)])
        usual = {piece.strip() for piece in SPECIAL}
        return [name[1:-1] for name in dict.fromkeys(NAME.findall(whole)) if name not in usual]

    def texts(self, messages: Dialogue) -> list[str]:
        """What a new tokenizer learns from: messages, and what stands around them."""
        said = [getattr(self, m.role).replace(CONTENT, m.content) for m in self.whole(messages)]
        answered = self.assistant.replace(CONTENT, "<end>")
        return [text for text in NAME.split("".join([self.before, *said, answered])) if text]

    def whole(self, messages: Dialogue) -> Dialogue:
        """A dialogue with what its system says."""
        if not self.default_system or messages[0].role == "system":
            return messages
        return (Message("system", self.default_system), *messages)


class Form(NamedTuple):
    """What stands before and after the messages of a role."""

    before: tuple[Marked, ...]
    after: tuple[Marked, ...]


class Template:
    """A template by the tokens of a tokenizer."""

    def __init__(self, config: Config, by: Tokenizer) -> None:
        self.config, self._by = config, by
        special = {"<start>": by.start, "<end>": by.end}
        special |= {by.spelling_of(number).strip(): number for number in by.special}
        marks = sorted(special, key=len, reverse=True)
        self._special, self._marks = special, re.compile("|".join(map(re.escape, marks)))
        self.before = self._marked("before", config.before)
        self.forms = {role: self._form(role, getattr(config, role)) for role in ROLES}
        first = next(iter(self.forms["assistant"].after), None)
        if not isinstance(first, int):
            raise RecipeError(f"template.assistant: {UNENDED}")
        self.end: int = first
        """The token that ends an answer."""

    def _form(self, role: str, text: str) -> Form:
        before, _, after = text.partition(CONTENT)
        return Form(self._marked(role, before), self._marked(role, after))

    def _marked(self, key: str, text: str) -> tuple[Marked, ...]:
        """A text cut at its special tokens."""
        found, place = list[Marked](), 0
        for mark in self._marks.finditer(text):
            found += [text[place : mark.start()], self._special[mark[0]]]
            place = mark.end()
        found.append(text[place:])
        if not self._by.imported:
            for name in (n for part in found if isinstance(part, str) for n in NAME.findall(part)):
                known = ", ".join(sorted(self._special))
                raise RecipeError(
                    f"template.{key}: the tokenizer has no token {name}, only {known}: take one of "
                    "these, or text without angle brackets"
                )
        return tuple(part for part in found if part != "")

    def prompts(self, dialogues: Iterable[Dialogue]) -> list[tuple[list[int], list[bool]]]:
        """The tokens of dialogues up to where the next answer begins, and which of them are of
        earlier answers, their ends included."""
        pieces = [self._pieces(each) for each in dialogues]
        texts = [text for some in pieces for text, _ in some if isinstance(text, str)]
        encoded = iter(self._by.encode_plain(texts))
        found = []
        for some in pieces:
            rows = [([p] if isinstance(p, int) else next(encoded), said) for p, said in some]
            tokens = [token for row, _ in rows for token in row]
            found.append((tokens, [said for row, said in rows for _ in row]))
        return found

    def answers(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of answers, each with its end."""
        return [[*row, self.end] for row in self._by.encode_plain(texts)]

    def _pieces(self, messages: Dialogue) -> list[tuple[Marked, bool]]:
        """Special tokens, and the texts between them, which are cut where an answer begins: as long
        as it is not there nobody knows how it does. True for what is of an answer."""
        found: list[tuple[Marked, bool]] = [(piece, False) for piece in self.before]
        for role, content in self.config.whole(messages):
            before, after = self.forms[role]
            said = role == "assistant"
            found += [(piece, False) for piece in before] + [(content, said)]
            found += [(piece, said and n == 0) for n, piece in enumerate(after)]
        found += [(piece, False) for piece in self.forms["assistant"].before]
        joined: list[tuple[Marked, bool]] = []
        for (text, said), run in groupby(found, lambda each: (isinstance(each[0], str), each[1])):
            parts = [piece for piece, _ in run]
            joined += [("".join(map(str, parts)), said)] if text else [(n, said) for n in parts]
        return [(piece, said) for piece, said in joined if piece != ""]
