"""What examples/jax_demo.py learns."""

from pathlib import Path

import pytest

pytest.importorskip("jax", reason="JAX is not installed (regard[jax])")

import jax
import jax.numpy as jnp

from examples import jax_demo


def test_the_gradient_is_the_slope_of_the_loss():
    weights = jax_demo.drawn(3, W1=(1, 5), b1=(5,), W2=(5, 1), b2=(1,))
    x = jnp.array([[0.3], [-0.8]])
    y = jnp.array([[1.0], [0.5]])
    slope = jax.grad(jax_demo.squared_error)(weights, x, y)["b2"][0]
    above, below = (
        jax_demo.squared_error(weights | {"b2": weights["b2"] + step}, x, y)
        for step in (1e-2, -1e-2)
    )
    assert float(slope) == pytest.approx(float(above - below) / 2e-2, rel=1e-3)


def test_both_learn_and_the_head_looks_at_the_letter_that_is_asked_for(tmp_path: Path):
    sine = jax_demo.learn_sine()
    x = jnp.linspace(-1, 1, 50)[:, None]
    assert float(jnp.abs(jax_demo.network(sine, x) - jnp.sin(3 * x)).max()) < 0.2
    weights = jax_demo.learn_look_up()
    assert jax_demo.right(weights) > 0.99
    asked, letters, _, _ = jax_demo.questions(7, 200)
    seen = jax_demo.look(weights, asked, letters)
    there = letters == asked[:, None]
    assert float(seen[there].min()) > 0.8
    jax_demo.draw(sine, weights, tmp_path / "demo.png")
    assert (tmp_path / "demo.png").stat().st_size > 10_000
