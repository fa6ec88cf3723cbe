"""Attention is regression: three smoothers through the same points.

A linear smoother predicts at q by weighing the values yᵢ that were seen at xᵢ:

    f(q) = Σᵢ wᵢ(q) yᵢ

Nadaraya–Watson   wᵢ(q) = k(q, xᵢ) / Σⱼ k(q, xⱼ),     k(q, x) = exp(−(q − x)² / 2h²)
attention         w(q) = softmax(query · keyᵢ / √K)    as in every Transformer
Gaussian process  w(q) = k(q, X) (k(X, X) + σ² I)⁻¹    the posterior mean

The first two are one function. Multiply the square out,

    −(q − x)² / 2h² = (q x − x² / 2) / h² − q² / 2h²,

and the last term is the same for every key, so that softmax cancels it. Hence, with K = 2,

    query(q) = √2 (q, 1),     key(x) = (x, −x² / 2) / h²,     value = y

make `regard.layers.attention.attention` the Nadaraya–Watson regression, to the last digits. A
Transformer learns the maps from words to queries and keys; here they are written down.

The Gaussian process has the same kernel, but asks also how alike the points are to each other. Its
weights may be negative and do not sum to one; without noise it goes through every point. With much
noise, σ² f(q) → Σᵢ k(q, xᵢ) yᵢ: Nadaraya–Watson without its denominator.

    python examples/attention_as_regression.py [PICTURE.png]
"""

import sys
from pathlib import Path
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor

from regard.layers.attention import attention_weights
from regard.plots import drawing

Points = Float[Tensor, "N"]
Weights = Float[Tensor, "Q N"]

WIDTH, NOISE = 0.35, 0.2
"""h of the kernel, and σ of the noise that the Gaussian process expects."""


def kernel(q: Float[Tensor, "Q"], x: Points, width: float = WIDTH) -> Weights:
    """k(q, x) = exp(−(q − x)² / 2h²)."""
    return (-(q[:, None] - x).square() / (2 * width**2)).exp()


def nadaraya_watson(q: Float[Tensor, "Q"], x: Points, width: float = WIDTH) -> Weights:
    """wᵢ(q) = k(q, xᵢ) / Σⱼ k(q, xⱼ)."""
    likeness = kernel(q, x, width)
    return likeness / likeness.sum(1, keepdim=True)


def attend(q: Float[Tensor, "Q"], x: Points, width: float = WIDTH) -> Weights:
    """softmax(Q Kᵀ / √2) with query(q) = √2 (q, 1) and key(x) = (x, −x² / 2) / h²."""
    query = torch.stack([q, torch.ones_like(q)], -1) * 2**0.5  # (Q, 2)
    key = torch.stack([x, -x.square() / 2], -1) / width**2  # (N, 2)
    return attention_weights(query, key)


def gaussian_process(
    q: Float[Tensor, "Q"], x: Points, width: float = WIDTH, noise: float = NOISE
) -> Weights:
    """w(q) = k(q, X) (k(X, X) + σ² I)⁻¹; the posterior mean is w(q) y."""
    covariance = kernel(x, x, width) + noise**2 * torch.eye(len(x), dtype=x.dtype)
    weights: Tensor = torch.linalg.solve(covariance, kernel(q, x, width).T).T
    return weights


SMOOTHERS = {
    "Nadaraya–Watson": nadaraya_watson,
    "attention": attend,
    "Gaussian process": gaussian_process,
}


def points(count: int = 18, seed: int = 4) -> tuple[Points, Points]:
    """y = sin 2x + x / 2 + noise, at places between 0 and 5 that chance chose."""
    chance = torch.Generator().manual_seed(seed)
    x = torch.rand(count, generator=chance, dtype=torch.float64).sort().values * 5
    noise = NOISE * torch.randn(count, generator=chance, dtype=torch.float64)
    return x, truth(x) + noise


def truth(x: Points) -> Points:
    return (2 * x).sin() + x / 2


def draw(path: Path) -> None:
    """Above: the points and three curves. Below: how much each of them looks at which point."""
    x, y = points()
    q = torch.linspace(-0.5, 5.5, 240, dtype=torch.float64)
    with drawing.style():
        figure = drawing.figure(9, 6, "One set of points, three linear smoothers")
        above, below = cast(Any, figure.subfigures(2, 1, height_ratios=[3, 2]))
        ax = above.subplots()
        ax.plot(q, truth(q), color=drawing.GRID, linewidth=4, label="truth")
        ax.scatter(x, y, color=drawing.INK, zorder=3, label="points")
        for (name, weights), colour, stroke in zip(
            SMOOTHERS.items(), drawing.COLOURS, ("-", "--", "-"), strict=False
        ):
            ax.plot(q, weights(q, x) @ y, stroke, color=colour, label=name)
        ax.set(xlabel="x", ylabel="y")
        ax.legend(ncols=3)
        for ax, (name, weights) in zip(below.subplots(1, 3), SMOOTHERS.items(), strict=True):
            shown = ax.imshow(
                weights(q, x), aspect="auto", cmap="RdBu", vmin=-0.5, vmax=0.5, origin="lower",
                extent=(0.5, len(x) + 0.5, float(q[0]), float(q[-1])), interpolation="nearest",
            )  # fmt: skip
            ax.grid(visible=False)
            ax.set(title=name, xlabel="point", ylabel="query")
        below.colorbar(shown, label="weight", shrink=0.8)
    drawing.save(figure, path)


def main() -> None:
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "attention_as_regression.png")
    x, y = points()
    q = torch.linspace(float(x[0]), float(x[-1]), 101, dtype=torch.float64)
    fits = {name: weights(q, x) @ y for name, weights in SMOOTHERS.items()}
    apart = (fits["attention"] - fits["Nadaraya–Watson"]).abs().max()
    print(f"attention and Nadaraya–Watson differ by at most {apart:.1e}")
    for name, fit in fits.items():
        error = (fit - truth(q)).square().mean()
        print(f"{name:16} mean squared error between the points {error:.3f}")
    draw(path)
    print(f"picture: {path}")


if __name__ == "__main__":
    main()
