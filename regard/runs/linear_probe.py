"""A head that begins as the linear probe of what the parts before it give (Kumar et al. 2022).

v_n ∈ ℝᴱ is the vector that stands for example n of the training part, x_n the same with mean 0 and
deviation 1 in each entry. The head begins with the softmax regression

    min  1/N Σ_n −log softmax(A x_n + a)_{y_n} + λ ‖A‖²    over A and a

as weights of v: W = A / σ and b = a − W μ. A head that begins by chance spends the first updates on
finding out what the rest knows, and spoils it meanwhile. Means over long texts differ little from
each other, so that such a head also learns slowly: here their scale does not matter.
"""

from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.batching import first_epoch
from regard.errors import RecipeError
from regard.heads import labels
from regard.model import Config, Model
from regard.runs import naive_bayes, transfer
from regard.types import Batches

KEY = "model.head.linear_probe"
MOST = 4096
"""Examples that it is fitted to; training itself sees the others."""
STEPS = 100


def penalty(config: Config) -> float:
    """λ of a head, or 0 if it does not begin so."""
    settings = config.head.config if config.head else None
    return settings.linear_probe if isinstance(settings, labels.Config) else 0.0


def check(config: Config) -> None:
    """Refuse a probe beside other first weights of the head, and of heads beside it."""
    for key, part in config.parts().items():
        if key != "head" and isinstance(part.config, labels.Config) and part.config.linear_probe:
            raise RecipeError(f"model.{key}.linear_probe: only model.head can begin so")
    if not penalty(config):
        return
    if naive_bayes.smoothing(config.input):
        raise RecipeError(f"{KEY}: {naive_bayes.KEY} gives the head other first weights: take one")
    if "head" in transfer.begins_with(config):
        raise RecipeError(f"{KEY}: model.head.weights gives the head its first weights: take one")


def begin(model: Model, batches: Batches, weight: float) -> None:
    """Give the head the weights that it begins with."""
    head = cast(Any, model.head)
    vectors, truth = _vectors(model, batches)
    matrix, bias = fit(vectors, truth, head.project.out_features, weight)
    with torch.no_grad():
        head.project.weight.copy_(matrix)
        head.project.bias.copy_(bias)


def _vectors(model: Model, batches: Batches) -> tuple[Float[Tensor, "N E"], Int[Tensor, " N"]]:
    """Of the first examples of the first epoch, and their labels."""
    head = cast(Any, model.head)
    found, truth, learning = list[Tensor](), list[Tensor](), model.training
    model.eval()
    with torch.inference_mode():
        for position in first_epoch(batches):
            batch = batches.at(position).to(model.device)
            found.append(head.pool(model.encode(batch)).double().cpu())
            truth.append(batch["labels"].cpu())
            if sum(map(len, truth)) >= MOST:
                break
    model.train(learning)
    return torch.cat(found)[:MOST].clone(), torch.cat(truth)[:MOST].clone()


def fit(
    vectors: Float[Tensor, "N E"], truth: Int[Tensor, " N"], labels: int, weight: float
) -> tuple[Float[Tensor, "C E"], Float[Tensor, " C"]]:
    """W and b of the softmax regression."""
    mean, deviation = vectors.mean(0), vectors.std(0, correction=0)
    deviation = torch.where(deviation > 0, deviation, 1.0)
    known = (vectors - mean) / deviation
    matrix = nn.Parameter(torch.zeros(labels, vectors.shape[1], dtype=vectors.dtype))
    bias = nn.Parameter(torch.zeros(labels, dtype=vectors.dtype))
    steps = torch.optim.LBFGS([matrix, bias], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        steps.zero_grad()
        value = F.cross_entropy(known @ matrix.t() + bias, truth) + weight * matrix.square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    steps.step(loss)  # type: ignore[no-untyped-call]
    found = (matrix / deviation).detach()
    return found, bias.detach() - found @ mean
