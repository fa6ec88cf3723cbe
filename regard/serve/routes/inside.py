"""`/v1/inspect`: what happens inside a model while it reads an input, for the page that shows it.

The views are those of `regard inspect`. They cost many times what a prediction costs, so one is
made at a time, of a copy of the model that is dropped afterwards.
"""

import threading
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from regard.inspect import report
from regard.inspect.intervene import attentions
from regard.serve.bodies import Body, check_text, context, json_body
from regard.serve.described import described
from regard.serve.errors import Refusal
from regard.serve.routes.predict import Input, answer, input_of
from regard.serve.service import Service
from regard.serve.shelf import Shelf

CHARACTERS = 2000
"""Of a text that is looked at: maps grow with the square of it."""
HEADS = 256
LONGEST = 64
"""Tokens of an output."""


class Inspect(Body):
    """What is to be looked at."""

    model: str | None = Field(None, description="Its name, as in /v1/models; the first otherwise.")
    input: Input = Field(description="A text, a dialogue, or a file as base64.")
    target: str | None = Field(None, description="Take this for the output.")
    length: int = Field(20, ge=1, le=LONGEST, description="Tokens that a language model adds.")
    beams: int | None = Field(None, ge=1, le=16)
    without_heads: list[Annotated[str, Field(max_length=40)]] = Field(
        default=[], max_length=HEADS, description="Heads to switch off: KIND.LAYER.HEAD."
    )


def router(shelf: Shelf) -> APIRouter:
    made = APIRouter()
    looking = threading.Lock()

    @made.post("/v1/inspect", **described(Inspect, "The views of one input, packed."))
    async def inspect(request: Request) -> Response:
        asked = json_body(request, Inspect)
        service = shelf.get(asked.model)
        text = input_of(service, asked.input)
        _check(service, text, asked)
        if looking.locked():  # also by one whose client has gone away
            raise Refusal(503, "another input is being looked at", code="busy", retry=3)
        about = context(request)
        about.run, about.items = service.name, 1
        given = [text, asked.target or "", *asked.without_heads]
        act = partial(_looked, service, text, asked, looking)
        found = await about.unless_gone(service.beside(1, given, act))
        return answer({"id": about.id, "object": "inspection", "model": service.name, **found})

    return made


def _check(service: Service, text: str, asked: Inspect) -> None:
    service.check_size([text, asked.target or ""])
    check_text(asked.target or "")
    if service.reads in ("text", "dialogue") and len(text) > CHARACTERS:
        most = f"at most {CHARACTERS:,} characters can be looked at"
        raise Refusal(413, most, code="too_long", param="input")
    if not text.strip():
        raise Refusal(400, "input: it is empty", code="no_input", param="input")


def _looked(service: Service, text: str, asked: Inspect, one: threading.Lock) -> dict[str, Any]:
    """The content of the page, the blocks of its arrays, and the heads that there are. One at a
    time, in all runs together."""
    how = dict(service.source.how)
    options = report.Options(
        checkpoint=how.get("checkpoint", "final"),
        target=asked.target,
        length=asked.length,
        beams=asked.beams,
        without_heads=tuple(asked.without_heads),
    )
    with one:
        made = report.build([service.predictor.run], [text], options)
    made.runs[0]["name"] = service.name
    content, blocks = report.packed(made)
    there = attentions(service.engine.outline)
    heads = [{"kind": k, "layer": n, "heads": each.heads} for (k, n), each in there.items()]
    return {
        "content": content,
        "blocks": {str(number): block for number, block in blocks.items()},
        "heads": heads,
        "scripts": list(report.SCRIPTS),
    }
