"""`/v1/alternatives`: what an output could say next after a beginning, each with all that follows.

    p(t | x, y₁ … yₙ)      of the likeliest tokens t after the beginning y₁ … yₙ of an output for x

Each of them is forced, and the search of the recipe goes on from there. The n best of a beam differ
in their ends more often than where a person points at.
"""

from functools import partial
from typing import Any

import torch
from fastapi import APIRouter, Request, Response
from pydantic import Field

from regard.decoding.inputs import readable
from regard.decoding.translation import check_written_length
from regard.errors import UserError
from regard.serve.bodies import Body, check_text, context, json_body
from regard.serve.described import described
from regard.serve.errors import Refusal
from regard.serve.routes.predict import Input, answer, input_of
from regard.serve.service import Engine, Service
from regard.serve.shelf import Shelf
from regard.serve.work import Options, Work
from regard.tasks._writing import WritingTask

MOST = 16


class Alternatives(Body):
    """Where an output could go another way."""

    model: str | None = Field(None, description="Its name, as in /v1/models; the first otherwise.")
    input: Input = Field(description="A text, or a file as base64.")
    prefix: str = Field("", description="How the output begins.")
    top: int = Field(8, ge=1, le=MOST, description="How many ways to go on.")


def router(shelf: Shelf) -> APIRouter:
    made = APIRouter()

    @made.post("/v1/alternatives", **described(Alternatives, "Outputs, by what comes next."))
    async def alternatives(request: Request) -> Response:
        asked = json_body(request, Alternatives)
        service = shelf.get(asked.model)
        text = input_of(service, asked.input)
        _check(service, text, asked)
        about = context(request)
        about.run, about.items = service.name, asked.top
        act = partial(beginnings, service.engine, text, asked.prefix, asked.top)
        found = await about.unless_gone(service.beside(1, [text, asked.prefix], act))
        outputs = []
        if found:
            work = Work([text] * len(found), Options(), prefixes=[each for each, _ in found])
            outputs = await about.unless_gone(service.answer(work))
        several = [
            {"text": each.text, "p": p, "status": each.status}
            for each, (_, p) in zip(outputs, found, strict=True)
        ]
        return answer(
            {"id": about.id, "object": "alternatives", "model": service.name, "data": several}
        )

    return made


def _check(service: Service, text: str, asked: Alternatives) -> None:
    if not isinstance(service.task, WritingTask) or service.engine.outline.decoder is None:
        said = f"the task {service.kind} has no alternatives"
        raise Refusal(400, said, code="unknown_option", param="model")
    service.check_size([text, asked.prefix])
    check_text(asked.prefix)
    if not text.strip():
        raise Refusal(400, "input: it is empty", code="no_input", param="input")


def beginnings(engine: Engine, text: str, prefix: str, top: int) -> list[tuple[str, float]]:
    """The likeliest beginnings that are one token longer, each with the token's probability."""
    task: Any = engine.task  # a WritingTask, which was checked before
    by, model = task.translator, engine.model
    tokenizer = by.target.tokenizer
    rows, problems = readable(by.source, [text], [0])
    if problems:
        raise UserError(f"input: {problems[0]}")
    [begun] = tokenizer.encode([prefix]) if prefix.strip() else [[]]
    check_written_length("prefix: it", begun, model)
    batch = by.batch([by.cut(rows[0])], [begun]).to(model.device)
    with torch.inference_mode():
        hidden, _ = model.decode(batch["target_in"], model.start(batch))
        chances = model.head.logits(hidden[:, len(begun)])[0].float().softmax(-1)
    unwanted = {tokenizer.end, *tokenizer.unwritten}
    best = chances.topk(min(len(chances), top + len(unwanted)))
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    found = [(tokenizer.decode([*begun, token]), p) for token, p in pairs if token not in unwanted]
    return found[:top]
