"""What OpenAI's clients ask: `/v1/models`, `/v1/completions`, `/v1/chat/completions`,
`/v1/embeddings`."""

import time
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field

from regard.decoding.prediction import Prediction
from regard.serve.bodies import Body, Many, check_text, context, json_body
from regard.serve.described import described
from regard.serve.embedding import embed
from regard.serve.errors import Refusal
from regard.serve.routes.predict import answer, dialogue
from regard.serve.service import Service
from regard.serve.shelf import Shelf
from regard.serve.streaming import events
from regard.serve.work import Options, Work

Text = Annotated[str, Field(min_length=1)]


class Asked(Body):
    """What both kinds of completions have in common; what no model here has is refused."""

    model: str
    max_tokens: int | None = Field(None, ge=1)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    n: int | None = Field(None, ge=1)
    stream: bool | None = False
    stream_options: dict[str, bool] | None = None
    stop: Text | Many[Text] | None = Field(None, description="Strings that end an output.")
    seed: int | None = Field(None, ge=0, lt=2**63)
    user: str | None = Field(None, description="Ignored.")
    frequency_penalty: Literal[0] | None = Field(None, description="No model here has one.")
    presence_penalty: Literal[0] | None = Field(None, description="No model here has one.")
    logit_bias: dict[str, float] | None = Field(None, max_length=0, description="Empty.")
    top_k: int | None = Field(None, ge=0, le=10**7, description="Not OpenAI's.")
    min_p: float | None = Field(None, ge=0, lt=1, description="Not OpenAI's.")
    repetition_penalty: float | None = Field(None, gt=0, le=1000, description="Not OpenAI's.")

    def options(self, length: int | None) -> Options:
        """As searches know them: a temperature of 0 is greedy search."""
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())
        usual = {"repetition_penalty": self.repetition_penalty}
        if self.temperature == 0:
            search, how = "greedy", usual
        else:
            search = "sample"
            how = usual | {
                "temperature": self.temperature,
                "top_p": self.top_p,
                "top_k": self.top_k,
                "min_p": self.min_p,
                # Without a seed OpenAI's answers differ from call to call.
                "seed": time.time_ns() if self.seed is None else self.seed,
                "samples": self.n,
            }
        given = tuple(sorted((name, value) for name, value in how.items() if value is not None))
        return Options(search=search, how=given, length=length, stop=stop)


class Completion(Asked):
    """A text to go on with."""

    prompt: str | Many[str]
    echo: bool | None = False
    best_of: Literal[1] | None = None
    suffix: Literal[""] | None = None
    logprobs: int | None = Field(None, ge=0, le=1, description="Of the tokens that are written.")


class Part(Body):
    """A text among the parts of a message; pictures are read by none of these models."""

    type: Literal["text"]
    text: str


class ChatMessage(Body):
    """What OpenAI calls “developer” is “system” here."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | Many[Part]
    name: str | None = None

    def turn(self) -> dict[str, str]:
        parts = [self.content] if isinstance(self.content, str) else [p.text for p in self.content]
        role = "system" if self.role == "developer" else self.role
        return {"role": role, "content": "".join(parts)}


class Chat(Asked):
    """A dialogue to be answered."""

    messages: Many[ChatMessage] = Field(min_length=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    tools: Many[dict[str, str]] | None = Field(None, max_length=0, description="None are used.")
    logprobs: bool | None = False


class Embedding(Body):
    """Texts whose vectors are wanted."""

    model: str
    input: str | Many[str]
    encoding_format: Literal["float", "base64"] | None = "float"
    user: str | None = None


def router(shelf: Shelf) -> APIRouter:
    made = APIRouter()

    @made.get("/v1/models", **described(None, "The runs that are served."))
    async def models() -> dict[str, Any]:
        shelf.check_ready()
        return {"object": "list", "data": [_model(service) for service in shelf]}

    @made.get("/v1/models/{name}", **described(None, "One of them."))
    async def model(name: str) -> dict[str, Any]:
        return _model(shelf.get(name))

    @made.post("/v1/completions", **described(Completion, "What follows the prompts."))
    async def completions(request: Request) -> Response:
        asked = json_body(request, Completion)
        service = _writing(shelf, asked.model)
        prompts = [asked.prompt] if isinstance(asked.prompt, str) else asked.prompt
        inputs = prompts
        if service.reads == "dialogue":
            inputs = [dialogue([{"role": "user", "content": each}]) for each in prompts]
        options = asked.options(asked.max_tokens)
        return await _completed(request, service, asked, inputs, options, prompts)

    @made.post("/v1/chat/completions", **described(Chat, "An answer to a dialogue."))
    async def chat(request: Request) -> Response:
        asked = json_body(request, Chat)
        service = _writing(shelf, asked.model)
        if service.reads != "dialogue":
            said = f"{service.name} has no template for dialogues: ask /v1/completions"
            raise Refusal(400, said, code="no_chat", param="model")
        turns = [each.turn() for each in asked.messages]
        length = asked.max_completion_tokens or asked.max_tokens
        return await _completed(request, service, asked, [dialogue(turns)], asked.options(length))

    @made.post("/v1/embeddings", **described(Embedding, "A vector for each text."))
    async def embeddings(request: Request) -> Response:
        asked = json_body(request, Embedding)
        service = shelf.get(asked.model)
        texts = [asked.input] if isinstance(asked.input, str) else asked.input
        return answer(await embed(context(request), service, texts, asked.encoding_format))

    return made


def _model(service: Service) -> dict[str, Any]:
    limits = service.settings
    names = ("characters", "items", "nbest", "new_tokens", "body_bytes")
    return {
        "id": service.name,
        "object": "model",
        "created": service.created,
        "owned_by": "regard",
        "regard": service.about() | {"limits": {name: limits.__dict__[name] for name in names}},
    }


def _writing(shelf: Shelf, name: str) -> Service:
    """A run that continues texts."""
    service = shelf.get(name)
    if not service.continues:
        said = f"{service.name} is a model for the task {service.kind}: ask /v1/predict"
        raise Refusal(400, said, code="no_completion", param="model")
    return service


async def _completed(
    request: Request,
    service: Service,
    asked: Asked,
    prompts: list[str],
    options: Options,
    echoed: Sequence[str] = (),
) -> Response:
    about, chat = context(request), isinstance(asked, Chat)
    for each in prompts:
        check_text(each)
    options = service.check(prompts, options)
    about.run, about.items = service.name, len(prompts)
    shape = _Shape(about.id, service, asked, chat)
    if asked.stream:
        if len(prompts) != 1 or (asked.n or 1) > 1:
            said = "stream: of one prompt and one output"
            raise Refusal(400, said, code="no_stream", param="stream")
        return await events(about, service, Work(prompts, options, streams=True), shape.event)
    found = await about.unless_gone(service.answer(Work(prompts, options)))
    return answer(shape.whole(echoed or prompts, found))


class _Shape:
    """How OpenAI writes answers, whole or in pieces."""

    def __init__(self, number: str, service: Service, asked: Asked, chat: bool) -> None:
        self._asked, self._chat, self._first = asked, chat, True
        self._echo = isinstance(asked, Completion) and bool(asked.echo)
        self._log_probs = isinstance(asked, Completion) and asked.logprobs is not None
        self._log_probs = self._log_probs or (isinstance(asked, Chat) and bool(asked.logprobs))
        kind = "chat.completion" if chat else "text_completion"
        self._base = {
            "id": ("chatcmpl-" if chat else "cmpl-") + number.removeprefix("req-"),
            "object": kind + (".chunk" if chat and asked.stream else ""),
            "created": int(time.time()),
            "model": service.name,
        }

    def whole(self, prompts: Sequence[str], found: list[Prediction]) -> dict[str, Any]:
        choices: list[dict[str, Any]] = []
        for prompt, each in zip(prompts, found, strict=True):
            texts = [one["text"] for one in each.alternatives] or [each.text]
            for k, text in enumerate(texts):
                text = prompt + text if self._echo else text
                log_probs = self._logged(each) if not k else None
                choices.append(self._choice(len(choices), text, _reason(each), log_probs))
        return self._base | {"choices": choices, "usage": _usage(found)}

    def _choice(self, index: int, text: str, reason: str | None, log_probs: Any) -> dict[str, Any]:
        about = {"index": index, "finish_reason": reason, "logprobs": log_probs}
        if self._chat:
            return about | {"message": {"role": "assistant", "content": text, "refusal": None}}
        return about | {"text": text}

    def _logged(self, found: Prediction) -> dict[str, Any] | None:
        if not self._log_probs:
            return None
        pairs = list(zip(found.tokens, found.log_probs, strict=False))
        if self._chat:
            content = [
                {"token": t, "logprob": p, "bytes": [*t.encode()], "top_logprobs": []}
                for t, p in pairs
            ]
            return {"content": content, "refusal": None}
        return {
            "tokens": [token for token, _ in pairs],
            "token_logprobs": [chance for _, chance in pairs],
            "top_logprobs": None,
            "text_offset": [],
        }

    def event(self, piece: str | None, found: Prediction | None) -> list[dict[str, Any]]:
        """The chunks for a piece, or the last ones."""
        made: list[dict[str, Any]] = []
        if self._chat and self._first:
            made.append(self._chunk({"role": "assistant", "content": ""}, None))
        self._first = False
        if piece is not None:
            made.append(self._chunk({"content": piece} if self._chat else piece, None))
        if found is not None:
            made.append(self._chunk({} if self._chat else "", _reason(found)))
            if (self._asked.stream_options or {}).get("include_usage"):
                made.append(self._base | {"choices": [], "usage": _usage([found])})
        return made

    def _chunk(self, delta: Any, reason: str | None) -> dict[str, Any]:
        about = {"index": 0, "finish_reason": reason, "logprobs": None}
        choice = about | ({"delta": delta} if self._chat else {"text": delta})
        return self._base | {"choices": [choice]}


def _reason(found: Prediction) -> str:
    return "length" if found.status == "capped" else "stop"


def _usage(found: list[Prediction]) -> dict[str, int]:
    read = sum(len(each.source) for each in found)
    written = sum(
        sum(len(one["log_probs"]) for one in each.alternatives) or len(each.tokens)
        for each in found
    )
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
