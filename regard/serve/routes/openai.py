"""What OpenAI's clients ask: `/v1/models`, `/v1/completions`, `/v1/chat/completions`,
`/v1/embeddings`."""

import asyncio
import time
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field

from regard.serve.bodies import Body, Many, check_text, context, json_body
from regard.serve.completions import Form
from regard.serve.described import described
from regard.serve.embedding import embed
from regard.serve.errors import Refusal
from regard.serve.routes.predict import answer, dialogue
from regard.serve.service import Service
from regard.serve.shelf import Shelf
from regard.serve.streaming import events
from regard.serve.work import Options, Work

Text = Annotated[str, Field(min_length=1)]


class StreamOptions(Body):
    """What a stream has beside its pieces."""

    include_usage: bool | None = False


class Asked(Body):
    """What both kinds of completions have in common; what no model here has is refused."""

    model: str
    max_tokens: int | None = Field(None, ge=1)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    n: int | None = Field(None, ge=1)
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    stop: Text | Many[Text] | None = Field(None, description="Strings that end an output.")
    seed: int | None = Field(None, ge=0, lt=2**63)
    user: str | None = Field(None, description="Ignored.")
    frequency_penalty: Literal[0] | None = Field(None, description="No model here has one.")
    presence_penalty: Literal[0] | None = Field(None, description="No model here has one.")
    logit_bias: dict[str, float] | None = Field(None, max_length=0, description="Empty.")
    top_k: int | None = Field(None, ge=0, le=10**7, description="Not OpenAI's.")
    min_p: float | None = Field(None, ge=0, lt=1, description="Not OpenAI's.")
    repetition_penalty: float | None = Field(None, gt=0, le=1000, description="Not OpenAI's.")

    @property
    def logged(self) -> bool:
        """Whether tokens are wanted with their log-probabilities."""
        raise NotImplementedError

    @property
    def names(self) -> dict[str, str]:
        """Our names of options, and those that the client knows."""
        return {"length": "max_tokens"}

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
    best_of: int | None = Field(None, ge=1, description="As n.")
    suffix: Literal[""] | None = None
    logprobs: int | None = Field(None, ge=0, le=1, description="Of the tokens that are written.")

    @property
    def logged(self) -> bool:
        return self.logprobs is not None


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


class TextFormat(Body):
    """What an answer is; no model here is held to JSON."""

    type: Literal["text"]


class Chat(Asked):
    """A dialogue to be answered."""

    messages: Many[ChatMessage] = Field(min_length=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    tools: Many[dict[str, str]] | None = Field(None, max_length=0, description="None are used.")
    tool_choice: Literal["none", "auto"] | None = Field(None, description="There are no tools.")
    parallel_tool_calls: bool | None = Field(None, description="There are no tools.")
    response_format: TextFormat | None = None
    modalities: Many[Literal["text"]] | None = None
    metadata: dict[str, str] | None = Field(None, max_length=16, description="Ignored.")
    store: Literal[False] | None = Field(None, description="Nothing is kept.")
    logprobs: bool | None = False
    top_logprobs: Literal[0] | None = Field(None, description="Of the tokens that are written.")

    @property
    def logged(self) -> bool:
        return bool(self.logprobs)

    @property
    def names(self) -> dict[str, str]:
        return {"length": "max_completion_tokens" if self.max_completion_tokens else "max_tokens"}


class Embedding(Body):
    """Texts whose vectors are wanted."""

    model: str
    input: str | Many[str]
    encoding_format: Literal["float", "base64"] | None = "float"
    dimensions: int | None = Field(None, ge=1, description="Those that the model has.")
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
        echoed = prompts if asked.echo else ()
        return await _completed(request, service, asked, inputs, options, echoed)

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
        form, dimensions = asked.encoding_format, asked.dimensions
        about = context(request)
        return answer(await embed(about, service, texts, form=form, dimensions=dimensions))

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
    about = context(request)
    for each in prompts:
        check_text(each)
    _check_outputs(service, asked, len(prompts))
    try:
        options = service.check(prompts, options)
    except Refusal as refusal:
        raise refusal.renamed(asked.names) from None
    about.run, about.items = service.name, len(prompts)
    form = Form(
        about.id,
        service,
        echoed=echoed,
        copies=(asked.n or 1) if options.search == "greedy" else 1,
        chat=isinstance(asked, Chat),
        log_probs=asked.logged,
        streams=bool(asked.stream),
        usage=bool(asked.stream_options and asked.stream_options.include_usage),
    )
    if asked.stream:
        return await events(about, service, Work(prompts, options, streams=True), form.event)
    found = await about.unless_gone(service.answer(Work(prompts, options)))
    if not asked.logged:
        return answer(form.whole(prompts, found))
    return answer(await asyncio.to_thread(form.whole, prompts, found))  # tokens become texts


def _check_outputs(service: Service, asked: Asked, prompts: int) -> None:
    """Refuse by name what would otherwise be left out of an answer."""
    count, most = asked.n or 1, service.settings.nbest
    if count > most:
        raise Refusal(400, f"n: at most {most}", code="too_much", param="n")
    if asked.stream and (prompts != 1 or count > 1):
        said = "stream: of one prompt and one output"
        raise Refusal(400, said, code="no_stream", param="stream")
    if asked.logged and asked.stream:
        said = "logprobs: not of a stream"
        raise Refusal(400, said, code="unknown_option", param="logprobs")
    if not isinstance(asked, Completion):
        return
    if asked.logged and asked.echo:
        said = "logprobs: not with echo: those of the prompt are not computed"
        raise Refusal(400, said, code="unknown_option", param="logprobs")
    if asked.best_of not in (None, count):
        said = "best_of: all outputs are given, so it can only be n"
        raise Refusal(400, said, code="unknown_option", param="best_of")
