"""What belongs together, by the vectors of two towers: the best of given texts, and vectors out."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.data import batching
from regard.data.readers import Report, sound
from regard.decoding.inputs import readable
from regard.decoding.prediction import Prediction, nothing, scored
from regard.decoding.shared_work import shared_batches
from regard.errors import UserError
from regard.examples.stored import collate
from regard.fields import Row
from regard.model import Model
from regard.types import Batch, Sequence as States

SIDES = ("source", "target")
TOKENS = 16_384
"""Positions of a batch."""


@dataclass(frozen=True)
class Choices:
    """Texts of which one is chosen, each with what is said for it: itself, or several prompts."""

    names: tuple[str, ...]
    prompts: tuple[tuple[str, ...], ...]

    @classmethod
    def read(cls, source: Path | Sequence[str], report: Report) -> "Choices":
        """Lines, or those of a file: a text, or “label TAB prompt TAB prompt …”."""
        lines = [line for _, line in sound(source)] if isinstance(source, Path) else [*source]
        found: dict[str, tuple[str, ...]] = {}
        for line in lines:
            name, *prompts = [cell.strip() for cell in line.split("\t")]
            if name:
                found[name] = tuple(filter(None, prompts)) or (name,)
        if not found:
            where = source if isinstance(source, Path) else "choices"
            raise UserError(f"{where}: there is no text to choose")
        report.used += len(found)
        return cls(tuple(found), tuple(found.values()))


class Labels(nn.Module):
    """The texts' vectors as the weights of a head of labels: z = V u / τ (section 3.1.2)."""

    predicts = "labels"

    def __init__(self, head: Any, vectors: Float[Tensor, "C E"]) -> None:
        super().__init__()
        self.head, self.weight = head, vectors

    def pool(self, sequence: States) -> Float[Tensor, "B E"]:
        found: Tensor = self.head.vectors(SIDES[0], sequence)
        return found

    def logits(self, hidden: Float[Tensor, "*N E"]) -> Float[Tensor, "*N C"]:
        found: Tensor = self.head.logits(hidden, self.weight)
        return found


@runtime_checkable
class Retrieves(Protocol):
    """A task that finds again what belongs together."""

    directions: tuple[str, str]
    """What is found by what: "image_to_text" and the other way."""

    def labelled(self, model: Model) -> dict[str, list[bool]]:
        """Whether labels are found by prompts, by the names of their scores."""
        ...


@dataclass(frozen=True)
class Matcher:
    """What is read on both sides, and the texts that are chosen from."""

    fields: tuple[Any, Any]
    """Source and target."""
    longest: int
    """The most positions that are read of either."""
    choices: Choices

    # Vectors

    def vectors(self, model: Model, side: int, rows: Sequence[Row]) -> Float[Tensor, "N E"]:
        """Of rows of one side, each as if it stood alone."""
        model.eval()
        head = self._head(model)
        sizes = np.array([self.fields[side].length(row) for row in rows], np.int64)[:, None]
        most = batching.Config(tokens=TOKENS, sentences=64)

        def each(ids: list[int]) -> Any:
            batch = self.batch(side, [rows[n] for n in ids]).to(model.device)
            return head.vectors(SIDES[side], model.encode(batch, SIDES[side])).cpu().numpy()

        with torch.inference_mode():
            found = shared_batches(batching.plan(sizes, most), each)
        return torch.from_numpy(np.stack(found))

    def of_texts(self, model: Model, side: int, texts: Sequence[str]) -> Float[Tensor, "N E"]:
        """Of what a user gives for one side; it must be readable."""
        return self.vectors(model, side, self.rows(side, texts))

    def rows(self, side: int, texts: Sequence[str]) -> list[Row]:
        """Of what a user gives for one side, as much of each as is read."""
        rows, problems = readable(self.fields[side], texts, range(len(texts)))
        for problem in problems.values():
            raise UserError(problem)
        return [self.cut(side, rows[n]) for n in range(len(texts))]

    def batch(self, side: int, rows: Sequence[Row]) -> Batch:
        return collate([self.fields[side]], rows, range(len(rows)))

    def cut(self, side: int, row: Row) -> Row:
        found: Row = self.fields[side].cut(row, self.longest)
        return found

    def weights(self, model: Model, choices: Choices | None = None) -> Float[Tensor, "C E"]:
        """One vector for each choice: the mean of its prompts', of length 1."""
        chosen = choices or self.choices
        every = self.of_texts(model, 1, [text for texts in chosen.prompts for text in texts])
        ends = [0, *accumulate(map(len, chosen.prompts))]
        means = torch.stack([every[a:b].mean(0) for a, b in pairwise(ends)])
        return nn.functional.normalize(means, dim=-1)

    def classifier(self, model: Model, choices: Choices | None = None) -> Model:
        """The source's tower with the choices for labels."""
        tower = model.towers[SIDES[0]]
        head = Labels(model.head, self.weights(model, choices).to(model.device))
        return Model(tower.input, tower.encoder, None, head).eval()

    def similarities(
        self, model: Model, sources: Float[Tensor, "N E"], targets: Float[Tensor, "M E"]
    ) -> Float[np.ndarray, "N M"]:
        """s of each source and each target."""
        with torch.inference_mode():
            both = (each.to(model.device) for each in (sources, targets))
            found: NDArray[Any] = self._head(model).logits(*both).double().cpu().numpy()
        return found

    def _head(self, model: Model) -> Any:
        return model.head

    # What a user asks for

    def predict(
        self, model: Model, inputs: Sequence[str], first: int = 0, choices: Choices | None = None
    ) -> list[Prediction]:
        """The likeliest choice for each input, with the probability of each, and its vector."""
        chosen = choices or self.choices
        full = [n for n, line in enumerate(inputs) if line.strip()]
        rows, problems = readable(self.fields[0], inputs, full, first)
        found = {n: nothing(problems.get(n)) for n in range(len(inputs))}
        if rows:
            own = self.vectors(model, 0, [self.cut(0, row) for row in rows.values()])
            logits = self.similarities(model, own, self.weights(model, chosen))
            chances = logits - np.logaddexp.reduce(logits, 1, keepdims=True)
            for n, row, vector, chance in zip(rows, rows.values(), own, chances, strict=True):
                found[n] = self._prediction(row, chosen, chance, vector)
        return [found[n] for n in range(len(inputs))]

    def _prediction(
        self, row: Row, choices: Choices, chances: NDArray[Any], vector: Tensor
    ) -> Prediction:
        best = int(chances.argmax())
        return Prediction(
            text=choices.names[best],
            status=self.fields[0].status(row, self.longest),
            score=float(chances[best]),
            tokens=[choices.names[best]],
            log_probs=[float(chances[best])],
            probabilities=dict(zip(choices.names, np.exp(chances).tolist(), strict=True)),
            vector=vector.tolist(),
        )

    def score(
        self, model: Model, inputs: Sequence[str], outputs: Sequence[str]
    ) -> list[dict[str, Any]]:
        """log p of each output for its input, among the choices and itself."""
        sources, targets = (
            self.of_texts(model, side, texts) for side, texts in enumerate((inputs, outputs))
        )
        logits = self.similarities(model, sources, self.weights(model))
        cosines = (sources * targets).sum(1)
        scale = self._head(model).scale().detach().cpu()
        found = []
        for text, row, cosine in zip(outputs, logits, cosines, strict=True):
            others = [z for name, z in zip(self.choices.names, row, strict=True) if name != text]
            own = float(cosine * scale)
            chance = float(own - np.logaddexp.reduce([own, *others]))
            found.append(scored([chance], status="ok", tokens=[text], similarity=float(cosine)))
        return found
