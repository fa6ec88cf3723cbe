"""What LibreTranslate's clients ask: `/translate`, `/languages`, `/detect` and settings."""

from collections.abc import Iterator
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field

from regard.serve.bodies import (
    Body,
    Many,
    check_text,
    context,
    form_body,
    media_type,
    table,
    validated,
)
from regard.serve.described import described
from regard.serve.errors import Refusal
from regard.serve.languages import name_of
from regard.serve.routes.predict import answer
from regard.serve.service import Service
from regard.serve.shelf import Shelf
from regard.serve.work import Options, Work

DETAILS = Options(details=False)


class Translate(Body):
    """Texts and their languages."""

    q: str | Many[str] = Field(description="A text or a list of them.")
    source: str
    target: str
    format: Literal["text"] = Field("text", description="HTML is not translated.")
    alternatives: int = Field(0, ge=0)
    api_key: str | None = None


class Detect(Body):
    """A text of unknown language."""

    q: str
    api_key: str | None = None


def router(shelf: Shelf) -> APIRouter:
    made = APIRouter()

    @made.post("/translate", **described(Translate, "A translation for each text.", forms=True))
    async def translate(request: Request) -> Response:
        asked = await _asked(request, Translate)
        service = _translator(shelf, asked.source, asked.target)
        texts = [asked.q] if isinstance(asked.q, str) else asked.q
        for each in texts:
            check_text(each)
        options = DETAILS
        if asked.alternatives:
            count, most = asked.alternatives + 1, service.settings.nbest
            if count > most:
                wrong = f"alternatives: at most {most - 1}"
                raise Refusal(400, wrong, code="too_much", param="alternatives")
            how = (("beams", max(5, count)), ("nbest", count))
            options = Options(details=False, search="beam", how=how)
        options = service.check(texts, options)
        about = context(request)
        about.run, about.items = service.name, len(texts)
        found = await about.unless_gone(service.answer(Work(texts, options)))
        said: dict[str, Any] = {"translatedText": [each.text for each in found]}
        if asked.alternatives:
            others = [[one["text"] for one in each.alternatives[1:]] for each in found]
            said["alternatives"] = others
        if isinstance(asked.q, str):
            said = {name: value[0] for name, value in said.items()}
        if asked.source == "auto":
            known = {"confidence": 100.0, "language": service.languages[0]}
            said["detectedLanguage"] = known if isinstance(asked.q, str) else [known] * len(texts)
        return answer(said)

    @made.get("/languages", **described(None, "What is translated into what.", kind=LIST))
    async def languages() -> list[dict[str, Any]]:
        shelf.check_ready()
        pairs: dict[str, list[str]] = {}
        for service in _translators(shelf):
            source, target = service.languages
            pairs.setdefault(source, []).append(target)
        return [
            {"code": code, "name": name_of(code), "targets": sorted({*targets})}
            for code, targets in sorted(pairs.items())
        ]

    @made.post("/detect", **described(Detect, "Languages, likeliest first.", forms=True, kind=LIST))
    async def detect(request: Request) -> Response:
        asked = await _asked(request, Detect)
        shelf.check_ready()
        service = next((each for each in shelf if _detects(each)), None)
        if service is None:
            raise Refusal(400, "no model here detects languages", code="no_detection")
        options, about = service.check([asked.q], Options()), context(request)
        about.run, about.items = service.name, 1
        [found] = await about.unless_gone(service.answer(Work([asked.q], options)))
        ranked = sorted(found.probabilities.items(), key=lambda each: -each[1])
        return answer([{"language": code, "confidence": 100 * p} for code, p in ranked if p > 0.01])

    @made.get("/frontend/settings", **described(None, "What LibreTranslate's own page asks."))
    async def settings() -> dict[str, Any]:
        shelf.check_ready()
        first = next(_translators(shelf), None)
        pair = first.languages if first else ("", "")
        chosen = {
            side: {"code": code, "name": name_of(code)}
            for side, code in zip(("source", "target"), pair, strict=True)
        }
        return {
            "apiKeys": shelf.settings.keys is not None,
            "charLimit": shelf.settings.characters,
            "frontendTimeout": 500,
            "keyRequired": shelf.settings.keys is not None,
            "language": chosen,
            "suggestions": False,
            "supportedFilesFormat": [],
        }

    return made


LIST = {"type": "array", "items": {"type": "object"}}


async def _asked(request: Request, form: type[Any]) -> Any:
    """The body, as JSON or as a form."""
    if media_type(request) == "application/json":
        return validated(form, table(context(request).body))
    if media_type(request) not in ("application/x-www-form-urlencoded", "multipart/form-data"):
        raise Refusal(415, "the body must be JSON or a form", code="media_type")
    fields, files = await form_body(request)
    if files:
        raise Refusal(400, "files are not translated", code="no_files")
    given: dict[str, Any] = {**fields}
    if fields.get("alternatives", "").isascii() and fields.get("alternatives", "").isdigit():
        given["alternatives"] = int(fields["alternatives"][:9])
    return validated(form, given)


def _translators(shelf: Shelf) -> Iterator[Service]:
    return (service for service in shelf if service.kind == "translate")


def _translator(shelf: Shelf, source: str, target: str) -> Service:
    """The first run from one language to another; “auto” is what it reads."""
    shelf.check_ready()
    for service in _translators(shelf):
        known = service.languages
        if target == known[1] and source in (known[0], "auto"):
            return service
    raise Refusal(400, "no model here translates between these languages", code="no_languages")


def _detects(service: Service) -> bool:
    """Whether it is a classifier of texts whose labels are all codes of languages."""
    if service.kind != "classify" or service.reads != "text":
        return False
    return all(name_of(label) != label for label in service.task.names)
