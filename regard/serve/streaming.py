"""Server-sent events: an output while it is written."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.responses import StreamingResponse

from regard.decoding.prediction import Prediction
from regard.serve import log
from regard.serve.errors import Gone, Refusal, broken
from regard.serve.guard import Context
from regard.serve.service import Service
from regard.serve.work import Work

Event = Callable[[str | None, Prediction | None], dict[str, Any] | list[dict[str, Any]]]
"""What a piece becomes, or the whole at the end."""


async def events(about: Context, service: Service, work: Work, event: Event) -> StreamingResponse:
    """An answer in pieces. What is wrong before the first piece is an ordinary refusal."""
    pieces = service.stream(work)

    async def begin() -> str | None:
        return await anext(pieces, None)

    try:
        first = await about.unless_gone(begin())
    except BaseException:
        await pieces.aclose()
        raise

    async def written() -> AsyncIterator[bytes]:
        try:
            if first is not None:
                yield _line(event(first, None))
            async for piece in pieces:
                yield _line(event(piece, None))
            yield _line(event(None, work.done.result()[0]))
            yield b"data: [DONE]\n\n"
        except Refusal as refusal:
            yield _line(refusal.body("/v1"))
        except (Gone, GeneratorExit):
            raise
        except Exception as error:
            log.failure("stream failed", error, request=about.id)
            yield _line(broken(about.id).body("/v1"))
        finally:
            await pieces.aclose()

    headers = {"x-accel-buffering": "no"}  # a proxy is to hand on each piece
    return StreamingResponse(written(), media_type="text/event-stream", headers=headers)


def _line(events: dict[str, Any] | list[dict[str, Any]]) -> bytes:
    each = events if isinstance(events, list) else [events]
    texts = (json.dumps(one, ensure_ascii=False) for one in each)
    return b"".join(b"data: " + text.encode() + b"\n\n" for text in texts)
