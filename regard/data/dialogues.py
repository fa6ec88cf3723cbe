"""Dialogues: what is said to a model and what it answers, one to a line of JSON.

    {"prompt": "2 + 3", "answer": "5"}
    {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 3"},
                  {"role": "assistant", "content": "5"}]}

A dialogue is a message of the system, if there is one, and then user and assistant in turn. Tables
and plain files of two columns have prompts and answers, too. Line breaks inside JSON are kept.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from regard.data import tables
from regard.data.delimiters import LOOKED
from regard.data.readers import Broken, Policy, Report, Row, check, forbidden, lines, suffix, usable
from regard.errors import RecipeError, UserError

ROLES = ("system", "user", "assistant")
SIDES = ("prompt", "answer")
MESSAGES = "messages"
KNOWN = {
    ("prompt", "completion"): ("prompt", "completion"),
    ("prompt", "response"): ("prompt", "response"),
    ("question", "answer"): ("question", "answer"),
    ("instruction", "output"): ("instruction", "input", "output"),
    ("instruction", "response"): ("instruction", "context", "response"),
    ("input", "output"): ("input", "output"),
}
"""What others call both sides, and the keys that data.columns then names, if they are there."""
BETWEEN = "\n\n"
"""What stands between the columns that make a prompt."""
BEGINS = re.compile(r'\s*\[\s*\{\s*"')
"""How messages begin where they are written as JSON."""


class Message(NamedTuple):
    """What somebody says."""

    role: str
    content: str


Dialogue = tuple[Message, ...]
Answered = tuple[Dialogue, str]
"""All that comes before an answer, and this."""


def dialogue(value: Any, *, answered: bool = False) -> Dialogue:
    """The messages that are to be answered, or with `answered` end with an answer; ValueError says
    what is wrong with them."""
    if not isinstance(value, list | tuple) or not value:
        raise ValueError("it is no list of messages")
    found = [_message(n, each) for n, each in enumerate(value, 1)]
    wanted = "user"
    for n, (role, _) in enumerate(found, 1):
        if role == "system" and n == 1:
            continue
        if role != wanted:
            first = n == 1 or (n == 2 and found[0].role == "system")
            after = "which only stands first" if role == "system" else f"after {found[n - 2].role}"
            raise ValueError(
                f"message {n} is of {role}, " + ("the user begins" if first else after)
            )
        wanted = "assistant" if role == "user" else "user"
    if found[-1].role != ("assistant" if answered else "user"):
        missing = "no answer follows" if answered else "there is nothing to answer"
        raise ValueError(f"the last message is of {found[-1].role}: {missing}")
    # A system that says nothing is none.
    return tuple(found[found[0].role == "system" and not found[0].content.strip() :])


def _message(number: int, value: Any) -> Message:
    what = f"message {number}"
    if not isinstance(value, Mapping):
        raise ValueError(f"{what} is no object")
    if {"from", "value"} <= value.keys():
        raise ValueError(
            f"{what} has “from” and “value”: write “role” (human is user, gpt is assistant) and "
            "“content”"
        )
    for key in ("role", "content"):
        if key not in value:
            raise ValueError(f"{what} has no “{key}”")
        if not isinstance(value[key], str):
            raise ValueError(f"{what}: “{key}” is not text")
    role, content = value["role"], clean(value["content"])
    if role not in ROLES:
        raise ValueError(f"{what}: the role “{role[:40]}” is not one of {', '.join(ROLES)}")
    return Message(role, content)


def clean(text: str) -> str:
    """A text whose lines end in a newline alone; ValueError if no file may hold it."""
    lines = tables.BREAKS.sub("\n", text)
    if defect := forbidden(lines.replace("\n", " ")):
        raise ValueError(defect[0])
    return lines


# As text


def parse(text: str) -> Dialogue:
    """What a user asks: a text, or the messages of a dialogue as JSON."""
    if BEGINS.match(text):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, list) and any(map(_is_message, value)):
            return dialogue(value)
    return (Message("user", text),)


def _is_message(value: Any) -> bool:
    """Whether somebody means a message by it."""
    return isinstance(value, dict) and ("role" in value or {"from", "value"} <= value.keys())


def show(messages: Dialogue) -> str:
    """The same, in the form that `parse` takes."""
    if len(messages) == 1 and messages[0].role == "user" and not BEGINS.match(messages[0].content):
        return messages[0].content
    return json.dumps([each._asdict() for each in messages], ensure_ascii=False)


def turns(prompt: Dialogue, answer: str) -> Iterator[Answered]:
    """Each answer of a dialogue with all that comes before it; the last is `answer`."""
    for n, (role, content) in enumerate(prompt):
        if role == "assistant":
            yield prompt[:n], content
    yield prompt, answer


# In files


def read(
    paths: Sequence[Path],
    columns: tuple[tables.Name, ...],
    policy: Policy,
    report: Report,
    **layout: Any,
) -> Iterator[tuple[Path, int, Answered]]:
    """The dialogues of files, each with its file and line: of JSON, of tables, or of two plain
    files whose lines belong together."""
    for path in paths:
        check(path)
        _refuse_list(path)
    alone = [suffix(path) in tables.TABLES or tables.is_json(path) for path in paths]
    for some in [[path] for path in paths] if any(alone) else [[*paths]]:
        if len(some) == 1 and tables.is_json(some[0]):
            for number, (prompt, answer) in _objects(some[0], columns, policy, report):
                yield some[0], number, (parse(prompt), answer)
            continue
        _check_columns(some[0], columns)
        rows = tables.parallel(some, columns or SIDES, policy, report, **layout)
        for number, (prompt, answer) in rows:
            yield some[0], number, ((Message("user", prompt),), answer)


def _refuse_list(path: Path) -> None:
    """Refuse a file that is one list of objects, with how to cut it."""
    if suffix(path) in (".json", ".jsonl", ".ndjson"):
        start = next((line for line in islice(lines(path, {}), LOOKED) if line.strip()), "")
        if start.lstrip().startswith("["):
            raise UserError(
                f"{path} is a JSON list: write an object on each line: "
                f"jq -c '.[]' {path.name} > {path.stem}-lines.jsonl"
            )


def _check_columns(path: Path, columns: Sequence[tables.Name]) -> None:
    if len(columns) not in (0, 2):
        raise RecipeError(
            f"data.columns: {path} has a column of prompts and one of answers, not {len(columns)}; "
            "messages, and prompts of several columns, are for JSONL"
        )


def _objects(
    path: Path, columns: tuple[tables.Name, ...], policy: Policy, report: Report
) -> Iterator[Row]:
    broken: Broken = {}
    names = tables.keys(path, columns)
    rows = tables.records(path, 2, partial(sides_of, names), broken)
    return usable(rows, broken, [path], SIDES, policy, report)


def sides_of(columns: tuple[str, ...], record: dict[str, Any]) -> tuple[str, ...] | str:
    """Prompt, as `show` writes it, and answer of an object; or what is wrong with it."""
    try:
        if len(columns) == 1 or (not columns and MESSAGES in record):
            return _messages(record, columns[0] if columns else MESSAGES)
        if not columns and not {*SIDES} <= record.keys():
            raise ValueError(_hint(record))
        texts = [clean(tables.text_of(record, name)) for name in columns or SIDES]
    except ValueError as error:
        return str(error)
    prompt = BETWEEN.join(text for text in texts[:-1] if text.strip())
    return show((Message("user", prompt),)) if prompt else "", texts[-1]


def _messages(record: Mapping[str, Any], key: str) -> tuple[str, str]:
    if key not in record:
        raise ValueError(f"no key “{key}”")
    found = dialogue(record[key], answered=True)
    empty = {role for role, content in found if not content.strip()}
    return (
        "" if "user" in empty else show(found[:-1]),
        "" if "assistant" in empty else found[-1].content,
    )


def _hint(record: Mapping[str, Any]) -> str:
    """What an object lacks, and how to name what it has instead."""
    if "conversations" in record:
        return "“conversations”: call it “messages”, each with “role” and “content”"
    lacks = next((name for name in SIDES if name not in record), SIDES[0])
    what = f"no key “{lacks}”, nor “{MESSAGES}”"
    for sides, names in KNOWN.items():
        if {*sides} <= record.keys():
            there = ", ".join(f'"{name}"' for name in names if name in record)
            return f"{what}: set data.columns = [{there}]"
    return f"{what}; it has {', '.join(map(str, [*record][:6])) or 'nothing'}"
