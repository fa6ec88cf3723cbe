"""Prompts and their answers: how they come from files."""

import sys
from collections.abc import Iterator
from functools import partial

from regard.data import dialogues, files, template, tokenizers
from regard.data.held_out import ByContent, HeldOut
from regard.data.readers import Policy, Report
from regard.errors import RecipeError
from regard.examples.preparation import Plan
from regard.fields import Example
from regard.fields.dialogue import ANSWER, PROMPT, Field, Prompt


def plan(
    data: files.Config,
    held_out: HeldOut,
    tokenizer: tokenizers.Config,
    form: template.Config,
) -> Plan:
    """Both sides, of one vocabulary. What is held out is drawn by the prompts, so that those with
    several answers are in one part."""
    if data.max_length < len(dialogues.SIDES):
        raise RecipeError(f"data.max_length: {data.max_length} has no room for prompt and answer")
    prompt, answer = dialogues.SIDES
    return Plan(
        fields={
            prompt: Prompt(PROMPT, tokenizer, template=form),
            answer: Field(ANSWER, tokenizer, template=form),
        },
        data=data,
        read=partial(read, data),
        held_out=ByContent(validation=held_out.validation, test=held_out.test),
        joint=dialogues.SIDES,
        together=True,
        watched=sys.maxsize,
        validates=False,
    )


def read(data: files.Config, part: files.Part, policy: Policy, report: Report) -> Iterator[Example]:
    """The dialogues of a part's own files."""
    paths = data.paths(part)
    for path, line, values in dialogues.read(paths, data.columns, policy, report, **data.layout):
        yield Example((path,), line, values)
