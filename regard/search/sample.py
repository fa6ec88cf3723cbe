"""Sampling: each next token drawn by chance, as probable as the model says."""

from dataclasses import dataclass
from math import inf
from typing import Annotated

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from regard.recipe.values import Factor, Few, LengthOrZero, Range, Seed, Share, SymbolsOrZero
from regard.search import Frontier, Hypothesis, Request, Step, Steps, check_ranges, drain
from regard.search.greedy import Texts, penalised, walk
from regard.types import DecoderState, exact, float64


@dataclass(frozen=True, kw_only=True)
class Config:
    """Each next token drawn by chance."""

    temperature: Factor = 1.0
    """Divides the logits: below 1 the probable becomes more probable; greedy search towards 0."""
    top_k: SymbolsOrZero = 0
    """Draw from this many most probable tokens, and from those that tie with the last; 0: all."""
    top_p: Annotated[float, Range(0, 1, open_low=True)] = 1.0
    """Draw from the most probable tokens that together have this probability; 1: all."""
    min_p: Share = 0.0
    """Leave out tokens less probable than this fraction of the most probable one; 0: none."""
    repetition_penalty: Factor = 1.0
    """Multiplies log p of tokens that the text has already, the prompt included: above 1, they
    become less probable."""
    seed: Seed = 1
    """Another seed, another draw; the same seed, the same draw, whatever the batches."""
    samples: Few = 1
    """How many hypotheses are drawn for each sentence."""
    min_length: LengthOrZero = 0
    """At least this many tokens before the end token; a prompt does not count."""

    def __post_init__(self) -> None:
        check_ranges(self)


def search(
    step: Step, state: DecoderState, request: Request, config: Config
) -> list[list[Hypothesis]]:
    """For each sentence its `samples` hypotheses, the most probable first; they may be equal.

    Scores are by the model's own probabilities, as they are before any setting here; α = 0. With
    choices each token is drawn from those that may follow, so that texts do not come as often as
    their probabilities say: one that few others begin like comes more often.
    """
    return drain(steps(step, state, request, config))


def steps(step: Step, state: DecoderState, request: Request, config: Config) -> Steps:
    """The same step by step."""
    if request.numbers is None:
        raise ValueError("sampling needs the sentences' numbers: the draws depend on them")
    place = exact(request.device)

    def choose(log_probs: Float[Tensor, "B W V"], frontier: Frontier[Texts]) -> Int[Tensor, "B W"]:
        keys = [(text.draw, text.age) for text in frontier.working]
        number, age = torch.tensor(keys, device=place)[:, None].unbind(2)  # (B, 1)
        sample = torch.arange(log_probs.shape[1], device=place)
        chance = uniform(config.seed, number, sample, age)
        said = penalised(log_probs, frontier.working, config.repetition_penalty)
        return draw(distribution(said, config), chance).to(log_probs.device)

    return walk(step, state, request, choose, config.min_length, config.samples)


def distribution(log_probs: Float[Tensor, "B W V"], config: Config) -> Float64[Tensor, "B W V"]:
    """softmax(log p / temperature), and 0 for what top_k, then top_p, then min_p leave out; not
    normalised.

    In fp64, so that the sum over a large vocabulary keeps its improbable tokens.
    """
    distance = float64(log_probs - log_probs.amax(-1, keepdim=True))
    probs = (distance / config.temperature).softmax(-1)
    if 0 < config.top_k < probs.shape[-1]:
        probs = probs.where(probs >= probs.topk(config.top_k).values[..., -1:], 0.0)
    if config.top_p < 1:
        probs = probs.where(probs >= _least(probs, config.top_p), 0.0)
    if config.min_p > 0:
        probs = probs.where(probs >= config.min_p * probs.amax(-1, keepdim=True), 0.0)
    return probs


def _least(probs: Float64[Tensor, "B W V"], share: float) -> Float64[Tensor, "B W 1"]:
    """The least probability among the fewest tokens that together have `share` of the whole."""
    wanted, size = share * probs.sum(-1, keepdim=True), probs.shape[-1]
    # To sort all is slow, and a few tokens nearly always suffice.
    few = min(128, size)
    while True:
        ranked = probs.topk(few).values
        # NaN, where a hypothesis has ended and no choice goes on, wants nothing.
        if few == size or not bool((ranked.sum(-1, keepdim=True) < wanted).any()):
            break
        few = min(8 * few, size)
    before = ranked.cumsum(-1) - ranked
    return ranked.where(before < wanted, inf).amin(-1, keepdim=True)


def draw(probs: Float64[Tensor, "B W V"], chance: Float64[Tensor, "B W"]) -> Int[Tensor, "B W"]:
    """The inverse of the distribution function: the least v with Σ_{w ≤ v} p_w > chance · Σ p."""
    mass = probs.cumsum(-1)
    symbols = torch.searchsorted(mass, mass[..., -1:] * chance[..., None], right=True)
    # Where the model gives NaN the search leaves the vocabulary.
    return symbols.squeeze(-1).clamp(max=probs.shape[-1] - 1)


def uniform(
    seed: int | Int[Tensor, "B 1"],
    number: Int[Tensor, "B 1"],
    sample: Int[Tensor, "W"],
    time: int | Int[Tensor, "B 1"],
) -> Float64[Tensor, "B W"]:
    """A number in [0, 1) that is a pure function of its four arguments.

    h ← mix(h + (key + 1) γ) for each key, γ = 2⁶⁴ / golden ratio: SplitMix64 (Steele et al. 2014),
    of which the upper 48 bits are taken. With fewer bits than fp64 holds, u · Σ p stays below Σ p.
    """
    gamma = -0x61C8864680B583EB  # 0x9E3779B97F4A7C15 as a signed number
    hashed = torch.zeros_like(number)
    for key in (seed, number, sample, time):
        hashed = _mix(hashed + (torch.as_tensor(key, device=number.device) + 1) * gamma)
    return _shift(hashed, 16).double() * 2.0**-48


def _mix(x: Int[Tensor, "*N"]) -> Int[Tensor, "*N"]:
    """A bijection of 64-bit numbers each of whose bits depends on all; products wrap around."""
    x = (x ^ _shift(x, 30)) * -0x40A7B892E31B1A47  # 0xBF58476D1CE4E5B9
    x = (x ^ _shift(x, 27)) * -0x6B2FB644ECCEEE15  # 0x94D049BB133111EB
    return x ^ _shift(x, 31)


def _shift(x: Int[Tensor, "*N"], bits: int) -> Int[Tensor, "*N"]:
    """To the right, zeros coming in: `>>` alone would copy the sign."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)
