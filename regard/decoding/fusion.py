"""A language model that a CTC search asks how a text goes on (shallow fusion)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from regard.data.tokenizers import Tokenizer
from regard.errors import RecipeError
from regard.layers.position import limit
from regard.model import Model
from regard.search.ctc import BLANK, Prefix

SHOWN = 5
"""Tokens that a message names."""


class Following:
    """log p(v | prefix) of a language model, by the tokens of the model that listens.

    Prefixes are read anew each time, all that are asked for in one batch: they are short, and
    any kind of decoder serves.
    """

    def __init__(self, model: Model, field: Any, own: Tokenizer) -> None:
        """`field` is what the language model writes, `own` the tokenizer of the other model."""
        self.model, self._before, by = model.eval(), field.before, field.tokenizer
        self._most = limit(model.decoder)
        numbers = {piece: n for n, piece in enumerate(by.pieces(range(len(by))))}
        pieces = own.pieces(range(len(own)))
        heard = [n for n in range(len(own)) if n not in own.special]
        missing = [pieces[n] for n in heard if pieces[n] not in numbers]
        if missing:
            shown = ", ".join(f"“{piece}”" for piece in missing[:SHOWN])
            raise RecipeError(
                f"search.language_model: it lacks {len(missing):,} of {len(heard):,} tokens, "
                f"{shown}: train it with the same [tokenizer], on texts that have them all"
            )
        self._of = np.full(len(own), by.unknown if by.unknown >= 0 else by.end)
        self._of[heard] = [numbers[pieces[n]] for n in heard]
        self._of[BLANK] = by.end

    def __call__(self, prefixes: Sequence[Prefix]) -> Float[np.ndarray, "N V"]:
        rows = [[self._before, *self._of[list(prefix)].tolist()] for prefix in prefixes]
        rows = [row[-self._most :] for row in rows]
        widest = max(map(len, rows))
        padded = torch.tensor([[*row, *[self._before] * (widest - len(row))] for row in rows])
        last = torch.tensor([len(row) - 1 for row in rows])
        decoder = self.model.decoder
        assert decoder is not None
        with torch.inference_mode():
            device = self.model.device
            start = decoder.start(None, len(rows))
            hidden, _ = self.model.decode(padded.to(device), start)
            ends = hidden[torch.arange(len(rows), device=device), last.to(device)]
            said = self.model.head.logits(ends[:, None])[:, 0].float().log_softmax(-1)
        found: np.ndarray[Any, np.dtype[np.float32]] = said.cpu().numpy()[:, self._of]
        return found
