"""`/v1/predict`: every task, with all that is known of a prediction."""

import json
import time
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field

from regard.data import dialogues
from regard.decoding.prediction import Prediction
from regard.errors import UserError
from regard.recipe import checked
from regard.serve.bodies import (
    Body,
    Many,
    as_file,
    as_series,
    check_text,
    context,
    form_body,
    json_body,
    media_type,
    table,
    unpacked,
    validated,
)
from regard.serve.described import described
from regard.serve.errors import Refusal, refused
from regard.serve.service import Service
from regard.serve.shelf import Shelf
from regard.serve.streaming import events
from regard.serve.work import Options, Work

SEARCH = (
    "beams", "nbest", "length_penalty", "min_length", "patience", "temperature", "top_k", "top_p",
    "min_p", "repetition_penalty", "seed",
)  # fmt: skip
"""Options of searches that a client may set: none that names a file."""


class Message(Body):
    """Something that was said."""

    role: Literal["system", "user", "assistant"]
    content: str


class File(Body):
    """A picture, a sound or a series, as the bytes of a file."""

    base64: str
    """Also with “data:image/png;base64,” before it."""


Input = str | File | Many[Message]


class Predict(Body):
    """What is asked of a model."""

    model: str | None = Field(None, description="Its name, as in /v1/models; the first otherwise.")
    inputs: Input | Many[Input] = Field(
        description="One input or several: texts, dialogues, or files as base64."
    )
    search: Literal["greedy", "beam", "sample", "ctc"] | None = None
    beams: int | None = Field(None, ge=1)
    nbest: int | None = Field(None, ge=1, description="How many outputs are given for an input.")
    length_penalty: float | None = Field(None, ge=0, le=10)
    min_length: int | None = Field(None, ge=0)
    patience: float | None = Field(None, gt=0, le=10)
    temperature: float | None = Field(None, gt=0, le=1000)
    top_k: int | None = Field(None, ge=0, le=10**7)
    top_p: float | None = Field(None, gt=0, le=1)
    min_p: float | None = Field(None, ge=0, lt=1)
    repetition_penalty: float | None = Field(None, gt=0, le=1000)
    seed: int | None = Field(None, ge=0, lt=2**63)
    length: int | None = Field(None, ge=1, description="The most tokens, or steps, of an output.")
    stop: str | Many[Annotated[str, Field(min_length=1)]] | None = None
    prefix: str | Many[str] | None = Field(
        None, description="What each output must begin with, or one for each input."
    )
    align: bool = Field(False, description="Which input token each output token looked at.")
    split: bool = Field(False, description="Part punctuation from words that are tagged.")
    top: int | None = Field(None, ge=1, le=100, description="Words for each [MASK].")
    choices: Many[Annotated[str, Field(min_length=1)]] | None = Field(
        None, description="Texts to choose from, of a model that compares."
    )
    details: bool = Field(True, description="Tokens with their probabilities.")
    stream: bool = Field(False, description="Server-sent events, of one text that is continued.")


def router(shelf: Shelf) -> APIRouter:
    made = APIRouter()

    @made.post("/v1/predict", **described(Predict, "Predictions, one for each input.", files=True))
    async def predict(request: Request) -> Response:
        began = time.perf_counter()
        asked, files = await _asked(request)
        service = shelf.get(asked.model)
        work = make_work(service, asked, files)
        about = context(request)
        about.run, about.items = service.name, len(work.inputs)
        if asked.stream:
            return await events(about, service, work, _event)
        version = service.version  # of the engine that takes it now; another may follow meanwhile
        found = await about.unless_gone(service.answer(work))
        check_readable(found, work.inputs)
        return answer(
            {
                "id": about.id,
                "object": "predictions",
                "model": service.name,
                "task": service.kind,
                "version": version,
                "seconds": round(time.perf_counter() - began, 4),
                "predictions": [each.as_dict() for each in found],
            }
        )

    return made


def check_readable(found: Sequence[Prediction], given: Sequence[str]) -> None:
    """Refuse a request no input of which can be read; one that can is answered, whatever the
    others are."""
    if any(each.status != "broken" for each in found):
        return
    none = f"none of {len(found):,} inputs can be read"
    said = none if len(found) > 1 else "the input cannot be read"
    raise refused(UserError(f"{said}; {found[0].problem}"), given, code="unreadable")


def answer(value: Any) -> Response:
    """JSON; a number that is not finite is null."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        text = checked.written(value)
    return Response(text.encode(), media_type="application/json")


def _event(piece: str | None, found: Any) -> dict[str, Any]:
    return {"piece": piece} if piece is not None else {"prediction": found.as_dict()}


async def _asked(request: Request) -> tuple[Predict, list[bytes] | None]:
    """The request, and files, if it is a form with such."""
    if media_type(request) != "multipart/form-data":
        return json_body(request, Predict), None
    fields, files = await form_body(request)
    if not files:
        raise Refusal(400, "file: the form has no file", code="no_input", param="file")
    extra = fields.keys() - {"request", "model"}
    if extra:
        said = "a form has the parts file, model and request (JSON of all else)"
        raise Refusal(400, said, code="invalid")
    given = table(fields.get("request", "{}").encode()) | {"inputs": ""}
    if "model" in fields:
        given["model"] = fields["model"]
    return validated(Predict, given), [await each.read() for each in files]


def make_work(service: Service, asked: Predict, files: list[bytes] | None) -> Work:
    """A request as the model takes it."""
    inputs = inputs_of(service, asked.inputs, files)
    how = {name: value for name in SEARCH if (value := getattr(asked, name)) is not None}
    stop = (asked.stop,) if isinstance(asked.stop, str) else tuple(asked.stop or ())
    options = Options(
        search=asked.search,
        how=tuple(sorted(how.items())),
        length=asked.length,
        stop=stop,
        align=asked.align,
        split=asked.split,
        top=asked.top,
        details=asked.details,
        choices=tuple(asked.choices or ()),
    )
    options = service.check(inputs, options, prefix=bool(asked.prefix))
    prefixes = [asked.prefix] * len(inputs) if isinstance(asked.prefix, str) else asked.prefix
    if prefixes is not None and len(prefixes) != len(inputs):
        said = f"prefix: {len(prefixes)} of them for {len(inputs)} inputs"
        raise Refusal(400, said, code="invalid", param="prefix")
    if asked.stream and (len(inputs) != 1 or not service.streams(options)):
        said = "stream: of one input, of a model that continues texts, by greedy search or sampling"
        raise Refusal(400, said, code="no_stream", param="stream")
    return Work(inputs, options, prefixes=prefixes, streams=asked.stream)


def inputs_of(
    service: Service, given: Input | list[Input], files: list[bytes] | None = None
) -> list[str]:
    """What the run reads: texts, or files that are here already. No text is ever a path."""
    if files is not None:
        many: list[Any] = [*files]
    else:
        alone = not isinstance(given, list) or (given and isinstance(given[0], Message))
        many = [given] if alone else [*given]
        if len(many) > service.settings.items:
            most = f"at most {service.settings.items:,} inputs"
            raise Refusal(400, most, code="too_many_items")
        many = [unpacked(x.base64, n) if isinstance(x, File) else x for n, x in enumerate(many)]
    return [_input(service.reads, each, n) for n, each in enumerate(many)]


def input_of(service: Service, given: Input) -> str:
    """The one input of a route that takes no more."""
    found = inputs_of(service, given)
    if len(found) != 1:
        raise Refusal(400, "input: it is empty", code="no_input", param="input")
    return found[0]


def dialogue(turns: list[dict[str, str]]) -> str:
    """Messages as the model takes them."""
    try:
        return dialogues.show(dialogues.dialogue(turns))
    except ValueError as error:
        raise Refusal(400, f"messages: {error}", code="wrong_input", param="messages") from None


def _input(reads: str, given: Any, number: int) -> str:
    match reads, given:
        case (("image" | "audio"), bytes()):
            return as_file(given, number)
        case "series", bytes():
            return as_series(given, number)
        case "series", str():
            return as_series(given.encode(), number)
        case "dialogue", list():
            turns = [{"role": each.role, "content": each.content} for each in given]
            return dialogue(turns)
        case "dialogue", str():
            return dialogue([{"role": "user", "content": given}])
        case "text", str():
            check_text(given)
            return given
    wanted = {
        "image": "a picture: base64, or a file of a form",
        "audio": "a sound: base64, or a file of a form",
        "series": "CSV, as a text, base64 or a file of a form",
        "dialogue": "a text, or a list of messages",
        "text": "a text",
    }
    said = f"inputs.{number}: this model reads {wanted[reads]}"
    raise Refusal(400, said, code="wrong_input", param="inputs")
