"""What clients send, read as if somebody had forged it: JSON, forms and files."""

import base64
import binascii
import json
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import Request

from regard.data.files import FileText
from regard.data.media import Inline
from regard.data.readers import excerpt
from regard.serve.errors import Refusal
from regard.serve.guard import Context

DEPTH = 32
"""How deep lists and tables of JSON may stand in each other."""
FIELDS, FILES = 100, 64
"""Of a form."""
STRUCTURE = 32_768
"""Bytes of JSON outside of its strings, and strings: so many values at most are looked at, while
nobody else is."""
Read = TypeVar("Read", bound="Body")
Each = TypeVar("Each")
Many = Annotated[list[Each], Field(fail_fast=True)]
"""A list of which the first that is wrong is enough: nobody reads of thousands."""


class Body(BaseModel):
    """The form of a request: what it does not know is refused."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


def context(request: Request) -> Context:
    found: Context = request.scope["regard"]
    return found


def media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def json_body(request: Request, form: type[Read]) -> Read:
    """The body as a request of this form."""
    kind = media_type(request)
    if kind != "application/json":
        said = f"the body must be application/json, not {excerpt(kind) or 'without a type'}"
        raise Refusal(415, said, code="media_type")
    return validated(form, table(context(request).body))


def table(body: bytes) -> dict[str, Any]:
    """A table of JSON: in UTF-8, of not too many values, not too deep, without NUL."""
    check_structure(body)
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise Refusal(400, "the body is not UTF-8", code="not_utf8") from None
    try:
        found = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise Refusal(400, "the body is not JSON", code="not_json") from None
    if not isinstance(found, dict):
        raise Refusal(400, "the body must be a JSON object", code="not_json")
    odd = any(mark in text for mark in ("\\u0000", "\\ud", "\\uD"))
    _check(found, DEPTH, texts=odd)
    return found


def check_structure(body: bytes) -> None:
    """Refuse JSON of very many values, before any of them is made. A long string is no matter."""
    if len(body) <= STRUCTURE:
        return
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    if plain.count(b'"') <= 2 * STRUCTURE:
        outside = sum(map(len, plain.split(b'"')[::2]))
        if outside <= STRUCTURE:
            return
    raise Refusal(413, "too many values in the JSON of a request", code="too_many_values")


def _no_number(name: str) -> None:
    raise ValueError(name)


def _check(value: Any, depth: int, *, texts: bool) -> None:
    """Refuse what stands too deep, and texts with NUL or with half of a character."""
    if isinstance(value, str):
        if texts:
            check_text(value)
    elif isinstance(value, dict | list):
        if not depth:
            raise Refusal(400, f"JSON deeper than {DEPTH} levels", code="too_deep")
        for inner in (*value, *value.values()) if isinstance(value, dict) else value:
            _check(inner, depth - 1, texts=texts)


def check_text(text: str) -> None:
    """Refuse a text with NUL, or with half of a character."""
    if "\0" in text:
        raise Refusal(400, "a text has the character NUL", code="nul")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise Refusal(400, "a text has half of a character", code="surrogate")


def validated(form: type[Read], given: dict[str, Any]) -> Read:
    """A table as a request; Refusal names the key that is wrong."""
    try:
        return form.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"] if not str(part).endswith("]"))
        known = ", ".join(form.model_fields)
        what = f"unknown; there are {known}" if first["type"] == "extra_forbidden" else first["msg"]
        raise Refusal(
            400, f"{excerpt(place)}: {what}", code="invalid", param=excerpt(place)
        ) from None


async def form_body(request: Request) -> tuple[dict[str, str], list[UploadFile]]:
    """The fields and the files of a form."""
    try:
        form = await request.form(max_files=FILES, max_fields=FIELDS)
    except (MultiPartException, ValueError, KeyError, AttributeError, UnicodeError):
        raise Refusal(400, "the form cannot be read", code="not_form") from None
    except Exception as error:
        if type(error).__name__ != "HTTPException":
            raise
        raise Refusal(400, "the form cannot be read", code="not_form") from None
    fields: dict[str, str] = {}
    files = []
    for name, value in form.multi_items():
        if isinstance(value, UploadFile):
            files.append(value)
        else:
            if "\ufffd" in value and "\ufffd".encode() not in context(request).body:
                raise Refusal(400, "the form is not UTF-8", code="not_utf8")
            check_text(value)
            fields[name] = value
    return fields, files


def unpacked(text: str, number: int) -> bytes:
    """The bytes of base64, with or without “data:…;base64,” before them."""
    if text.startswith("data:"):
        text = text.partition(",")[2]
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Refusal(400, f"inputs.{number}.base64: not base64", code="not_base64") from None


def as_file(data: bytes, number: int) -> Inline:
    """A picture or a sound, by no path of this machine."""
    return Inline(f"input {number + 1}", data)


def as_series(data: bytes, number: int) -> FileText:
    """A file of numbers."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Refusal(400, f"input {number + 1} is not UTF-8", code="not_utf8") from None
    check_text(text)
    return FileText(text, f"input {number + 1}")
