"""How OpenAI writes completions, whole or in pieces."""

import time
from collections.abc import Sequence
from typing import Any

from regard.decoding.continuation import Continuer
from regard.decoding.prediction import Prediction
from regard.decoding.spans import spans
from regard.search import Hypothesis
from regard.serve.service import Service


class Form:
    """The form of one answer."""

    def __init__(
        self,
        number: str,
        service: Service,
        *,
        echoed: Sequence[str],
        copies: int,
        chat: bool,
        log_probs: bool,
        streams: bool,
        usage: bool,
    ) -> None:
        """`echoed` are prompts that stand before their outputs, if any do; `copies`: how often an
        output is given that no draw could make another."""
        self._echoed, self._copies, self._chat, self._usage = echoed, copies, chat, usage
        self._continuer: Continuer | None = None
        if log_probs:
            self._continuer = service.task.continuer(service.engine.model)
        self._first = True
        kind = "chat.completion" if chat else "text_completion"
        self._base = {
            "id": ("chatcmpl-" if chat else "cmpl-") + number.removeprefix("req-"),
            "object": kind + (".chunk" if chat and streams else ""),
            "created": int(time.time()),
            "model": service.name,
        }

    def whole(self, prompts: Sequence[str], found: Sequence[Prediction]) -> dict[str, Any]:
        choices: list[dict[str, Any]] = []
        for n, (prompt, each) in enumerate(zip(prompts, found, strict=True)):
            texts = [one["text"] for one in each.alternatives] or [each.text]
            before = self._echoed[n] if self._echoed else ""
            for text, made in zip(texts, each.hypotheses, strict=True):
                logged = self._logged(prompt, text, made)
                one = self._choice(before + text, _reason(made), logged)
                choices += [one] * self._copies
        numbered = [{"index": n} | each for n, each in enumerate(choices)]
        return self._base | {"choices": numbered, "usage": self._used(found)}

    def _choice(self, text: str, reason: str, log_probs: Any) -> dict[str, Any]:
        about = {"finish_reason": reason, "logprobs": log_probs}
        if self._chat:
            return about | {"message": {"role": "assistant", "content": text, "refusal": None}}
        return about | {"text": text}

    def _logged(self, prompt: str, text: str, made: Hypothesis) -> dict[str, Any] | None:
        """The tokens of an output, which together are its text, and log p of each."""
        if self._continuer is None:
            return None
        writer = self._continuer
        before = [] if writer.fresh else writer.tokens(prompt)
        tokens, places = list[str](), list[int]()
        place = 0
        for span in spans(writer.decode, before, made.tokens):
            if place == len(text) and span:
                break  # a stop string begins here
            tokens.append(text[place : place + len(span)])
            places.append(place)
            place += len(tokens[-1])
        if not self._chat:
            return {
                "tokens": tokens,
                "token_logprobs": list(made.log_probs[: len(tokens)]),
                "top_logprobs": None,
                "text_offset": places,
            }
        content = [
            {"token": token, "logprob": chance, "bytes": [*token.encode()], "top_logprobs": []}
            for token, chance in zip(tokens, made.log_probs, strict=False)
        ]
        return {"content": content, "refusal": None}

    def event(self, piece: str | None, found: Prediction | None) -> list[dict[str, Any]]:
        """The chunks for a piece, or the last ones."""
        made: list[dict[str, Any]] = []
        if self._first and self._chat:
            made.append(self._chunk({"role": "assistant", "content": ""}, None))
        elif self._first:
            made += [self._chunk(each, None) for each in self._echoed]
        self._first = False
        if piece is not None:
            made.append(self._chunk({"content": piece} if self._chat else piece, None))
        if found is not None:
            made.append(self._chunk({} if self._chat else "", _reason(found.hypotheses[0])))
            if self._usage:
                made.append(self._base | {"choices": [], "usage": self._used([found])})
        return made

    def _chunk(self, delta: Any, reason: str | None) -> dict[str, Any]:
        about = {"index": 0, "finish_reason": reason, "logprobs": None}
        choice = about | ({"delta": delta} if self._chat else {"text": delta})
        return self._base | {"choices": [choice]}

    def _used(self, found: Sequence[Prediction]) -> dict[str, int]:
        read = sum(len(each.source) for each in found)
        every = [len(made.log_probs) for each in found for made in each.hypotheses]
        written = sum(every) * self._copies
        return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _reason(made: Hypothesis) -> str:
    """Why an output is over: its end or a stop string, or that it may not be longer."""
    return "stop" if made.finished else "length"
