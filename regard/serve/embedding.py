"""Vectors of texts: what a run's encoder makes of them.

Of two towers, the vector that is compared; of any other encoder the mean of its states,

    v = Σ_t h_t / n      over the n positions of a text.
"""

import base64
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from regard.decoding.inputs import parsed
from regard.decoding.matching import SIDES, Retrieves
from regard.examples.stored import collate
from regard.fields.framed import Field as Framed
from regard.layers.position import limit
from regard.serve.errors import Refusal
from regard.serve.guard import Context
from regard.serve.service import Engine, Service

TOGETHER = 32
"""Texts of a batch."""


async def embed(
    about: Context,
    service: Service,
    texts: Sequence[str],
    *,
    form: str | None = None,
    dimensions: int | None = None,
) -> dict[str, Any]:
    """A vector for each text, in OpenAI's shape; none is made shorter."""
    if not has_vectors(service):
        raise Refusal(400, f"{service.name} has no encoder of texts", code="no_embedding")
    if not texts or not all(text.strip() for text in texts):
        raise Refusal(
            400, "input: a text is empty, or there is none", code="no_input", param="input"
        )
    service.check_size(texts)
    about.run, about.items = service.name, len(texts)
    act = partial(_vectors, service.engine, texts)
    found, used = await about.unless_gone(service.beside(len(texts), texts, act))
    if dimensions not in (None, found.shape[1]):
        said = f"dimensions: this model has {found.shape[1]}"
        raise Refusal(400, said, code="unknown_option", param="dimensions")
    vectors = [_packed(row) if form == "base64" else row.tolist() for row in found]
    return {
        "object": "list",
        "model": service.name,
        "data": [
            {"object": "embedding", "index": n, "embedding": vector}
            for n, vector in enumerate(vectors)
        ],
        "usage": {"prompt_tokens": used, "total_tokens": used},
    }


def has_vectors(service: Service) -> bool:
    """Whether texts have vectors: an encoder reads them."""
    task, model = service.task, service.engine.outline
    if isinstance(task, Retrieves):
        return _side(task) is not None
    return (service.reads == "text" and model.decoder is None) or service.kind == "translate"


def _side(task: Any) -> int | None:
    """Which tower reads texts; of two such, the second, which reads what is looked for."""
    found = [n for n, field in enumerate(task.matcher.fields) if not field.on_disk]
    return found[-1] if found else None


def _packed(row: NDArray[np.float32]) -> str:
    return base64.b64encode(row.astype("<f4").tobytes()).decode()


def _vectors(engine: Engine, texts: Sequence[str]) -> tuple[NDArray[np.float32], int]:
    """A row for each text, and how many tokens were read."""
    compares, task = isinstance(engine.task, Retrieves), cast(Any, engine.task)
    model = engine.model
    if compares:
        side = _side(task)
        assert side is not None
        found: NDArray[np.float32] = task.matcher.of_texts(model, side, texts).numpy()
        own = task.matcher.fields[side]
        return found, sum(map(own.length, own.encode(parsed(own, texts))))
    field = next(iter(task.fields.values()))
    framed = isinstance(field, Framed)
    most = task.filler.room if framed else task.config.data.max_length
    longest = min(most, limit(model.encoder) - len(SIDES))
    rows = [field.cut(row, longest) for row in field.encode(parsed(field, texts))]
    with torch.inference_mode():
        parts = []
        for start in range(0, len(rows), TOGETHER):
            some = rows[start : start + TOGETHER]
            # To collate would hide words, as in learning.
            make = task.filler.batch if framed else partial(collate, [field])
            memory = model.encode(make(some, range(len(some))).to(model.device))
            assert memory is not None
            real = memory.mask[..., None].to(memory.states)
            parts.append((memory.states * real).sum(1) / real.sum(1).clamp(min=1))
    return torch.cat(parts).float().cpu().numpy(), sum(map(field.length, rows))
