"""What the OpenAPI description says of bodies and answers."""

from typing import Any

from pydantic import BaseModel

ERRORS = {
    400: "Something in the request is wrong; the message says what.",
    401: "A key is needed, or it is not known.",
    403: "The header Host or Origin is another server's.",
    404: "There is no such model.",
    408: "The body came too slowly.",
    413: "Too many bytes or characters.",
    415: "The body is of another type.",
    429: "Too many requests; Retry-After says when to come again.",
    503: "No place is free, or the models are being loaded; Retry-After says when to come again.",
    504: "The deadline has passed.",
}


def described(
    form: type[BaseModel] | None,
    answer: str,
    *,
    files: bool = False,
    forms: bool = False,
    media: str = "application/json",
    kind: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Arguments for a route: its body, its answer and what it may refuse."""
    good = {"description": answer, "content": {media: {"schema": kind or {"type": "object"}}}}
    refused = {
        code: {
            "description": text,
            "content": {"application/json": {"schema": {"type": "object", "required": ["error"]}}},
        }
        for code, text in ERRORS.items()
    }
    made: dict[str, Any] = {"responses": {200: good, **refused}}
    if form is not None:
        content: dict[str, Any] = {"application/json": {"schema": schema(form)}}
        if forms:
            content["application/x-www-form-urlencoded"] = {"schema": schema(form)}
        if files:
            part = {"type": "string", "format": "binary"}
            properties = {"file": part, "model": {"type": "string"}, "request": {"type": "string"}}
            content["multipart/form-data"] = {
                "schema": {"type": "object", "properties": properties, "required": ["file"]}
            }
        made["openapi_extra"] = {"requestBody": {"required": True, "content": content}}
    return made


def schema(form: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a body, all of it in one place."""
    found = form.model_json_schema()
    known = found.pop("$defs", {})
    inlined: dict[str, Any] = _inlined(found, known)
    return inlined


def _inlined(value: Any, known: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        if "$ref" in value:
            return _inlined(known[value["$ref"].rpartition("/")[2]], known)
        return {key: _inlined(inner, known) for key, inner in value.items()}
    if isinstance(value, list):
        return [_inlined(inner, known) for inner in value]
    return value
