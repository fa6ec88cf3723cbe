"""A bag of n-grams that begins as naive Bayes would end (Wang & Manning 2012, section 2).

n_fc counts the occurrences of the word or n-gram f in the training texts of label c, π_c is the
share of all occurrences that stand in these texts, C the number of labels. Row f of the input
begins with

    r_fc = log(n_fc / (C π_c) + α) − mean over c of the same

so that what is as frequent under all labels, or was never seen, says nothing. The head begins with

    z_c = √n̄ · (mean over the text of r)_c + log(N_c / N)

where N_c of N texts have label c, and n̄ is their mean length. Naive Bayes would take the sum, as if
a text's n-grams were independent; the root is between the sum and the mean. Training goes on from
there.
"""

import math
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.data.batching import first_epoch
from regard.errors import RecipeError
from regard.inputs import Counted
from regard.model import Config, Model
from regard.recipe.parts import Part, module
from regard.runs import transfer
from regard.types import Batches, Sizes

KEY = "model.input.naive_bayes"


class Counts(NamedTuple):
    """What is counted in one epoch."""

    found: Int[Tensor, "C R"]
    """n_fc: how often each row is looked up in the texts of each label."""
    texts: Int[Tensor, "C"]
    """N_c."""
    length: float
    """n̄: positions of a text."""


def smoothing(part: Part | None) -> float:
    """α of an input, or 0 if it does not begin so."""
    settings = part.config if part else None
    return settings.naive_bayes if isinstance(settings, Counted) else 0.0


def check(config: Config) -> None:
    """Refuse a model to which the weights of naive Bayes mean nothing."""
    for key, part in config.parts().items():
        if key != "input" and smoothing(part):
            raise RecipeError(f"model.{key}.naive_bayes: only model.input can begin so")
    if not smoothing(config.input):
        return
    head: Any = config.head
    if head is None or module("heads", head.kind).Head.predicts != "labels":
        raise RecipeError(f"{KEY}: only labels of whole texts are counted: leave it out")
    if config.encoder is None or config.encoder.kind != "bag":
        raise RecipeError(f"{KEY}: it needs model.encoder.kind = 'bag': set that, or leave it out")
    if head.config.pooling != "mean" or head.config.pooler:
        raise RecipeError(
            f"{KEY}: it needs model.head.pooling = 'mean' and no model.head.pooler: set these, or "
            "leave it out"
        )
    if transfer.vectors_of(config.input):  # type: ignore[arg-type]
        raise RecipeError(f"{KEY}: model.input.vectors gives other vectors to begin with: take one")
    if {"input", "head"} & {*transfer.begins_with(config)}:
        raise RecipeError(
            f"{KEY}: model.input.weights and model.head.weights must be left out then"
        )


def check_size(config: Config, sizes: Sizes) -> None:
    """Each label needs an entry of its own."""
    if not smoothing(config.input):
        return
    if config.dim < (labels := sizes.of(sizes.writes)["outputs"]):
        raise RecipeError(
            f"model.dim: {config.dim} is less than the {labels} labels, each of which needs an "
            f"entry of its own with {KEY}"
        )


def begin(model: Model, batches: Batches, alpha: float) -> None:
    """Give input and head the weights that they begin with."""
    reads: Any = model.input
    project = cast(Any, model.head).project
    counts = count(reads, batches, project.out_features)
    reads.begin(ratios(counts.found, alpha))
    prior = (counts.texts / counts.texts.sum()).clamp(min=1e-9).log()
    with torch.no_grad():
        project.weight[:, : len(prior)] = math.sqrt(counts.length) * torch.eye(len(prior))
        project.bias.copy_(prior - prior.mean())


def count(reads: Any, batches: Batches, labels: int) -> Counts:
    """Count the first epoch, which has every text once."""
    found = torch.zeros(labels * reads.rows, dtype=torch.int64)
    texts, positions = torch.zeros(labels, dtype=torch.int64), 0
    for position in first_epoch(batches):
        batch = batches.at(position)
        rows, whose = reads.looked_up(batch)
        own = batch["labels"]
        found.index_add_(0, own[whose] * reads.rows + rows, torch.ones_like(rows))
        texts += torch.bincount(own, minlength=labels)
        positions += int(batch[f"{reads.field}_mask"].sum())
    return Counts(found.view(labels, -1), texts, positions / max(1, int(texts.sum())))


def ratios(found: Int[Tensor, "C R"], alpha: float) -> Float[Tensor, "R C"]:
    """r_fc, the log-count ratios."""
    share = found.sum(1, keepdim=True) / found.sum()
    logs = (found / (len(found) * share).clamp(min=1e-9) + alpha).log()
    return (logs - logs.mean(0)).t()
