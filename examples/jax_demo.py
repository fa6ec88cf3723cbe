"""Learning is a function too: a small network and one attention head, trained by `jax.grad`.

A model is a function of its weights and of data. `jax.grad` makes of its loss another function, the
gradient, `jax.jit` compiles it, and a step of learning is one line:

    weights ← weights − rate · ∂loss / ∂weights

1. A network of one hidden layer, f(x) = tanh(x W₁ + b₁) W₂ + b₂, learns y = sin 3x.
2. One attention head learns to look something up. It reads six pairs of a letter and a digit and
   then one of the letters; it has to say the digit that stood beside it. No table of answers can
   help, since the pairs are drawn anew each time: the head has to find the place, and it is shown
   at the end which places it looks at.

    python examples/jax_demo.py [PICTURE.png]
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from regard.interop.jax_layers import attention_weights
from regard.plots import drawing

Weights = dict[str, Array]
Loss = Callable[..., Array]
LETTERS, DIGITS, PAIRS, DIM = 12, 10, 6, 16


def drawn(seed: int, **shapes: tuple[int, ...]) -> Weights:
    """Weights of the given shapes; W from N(0, 1/rows), b zero."""
    keys = jax.random.split(jax.random.key(seed), len(shapes))
    return {
        name: jax.random.normal(key, shape) / shape[0] ** 0.5
        if len(shape) > 1
        else jnp.zeros(shape)
        for key, (name, shape) in zip(keys, shapes.items(), strict=True)
    }


def learn(
    loss: Loss, weights: Weights, batches: Callable[[int], Any], rate: float, steps: int
) -> Weights:
    """Gradient descent with momentum 0.9:  m ← 0.9 m + ∂loss,  w ← w − rate · m."""

    def step(weights: Weights, momentum: Weights, *batch: Array) -> tuple[Array, Weights, Weights]:
        value, gradient = jax.value_and_grad(loss)(weights, *batch)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradient)
        weights = jax.tree.map(lambda w, m: w - rate * m, weights, momentum)
        return value, weights, momentum

    compiled, momentum = jax.jit(step), jax.tree.map(jnp.zeros_like, weights)
    for number in range(steps):
        value, weights, momentum = compiled(weights, momentum, *batches(number))
        if number % (steps // 5) == 0 or number == steps - 1:
            print(f"  step {number:5}: loss {value:.4f}")
    return weights


# 1. A small network


def network(weights: Weights, x: Array) -> Array:
    """f(x) = tanh(x W₁ + b₁) W₂ + b₂ for x (N, 1)."""
    return jnp.tanh(x @ weights["W1"] + weights["b1"]) @ weights["W2"] + weights["b2"]


def squared_error(weights: Weights, x: Array, y: Array) -> Array:
    return jnp.mean((network(weights, x) - y) ** 2)


def learn_sine(steps: int = 1500) -> Weights:
    x = jnp.linspace(-1, 1, 64)[:, None]
    batch = x, jnp.sin(3 * x)
    weights = drawn(1, W1=(1, 32), b1=(32,), W2=(32, 1), b2=(1,))
    return learn(squared_error, weights, lambda number: batch, rate=0.05, steps=steps)


# 2. One attention head


def look(weights: Weights, asked: Array, letters: Array) -> Array:
    """softmax(q Kᵀ / √K) of the letter asked for (N), over those that stand there (N, P)."""
    query = weights["query"][asked][:, None]  # (N, 1, K)
    return attention_weights(query, weights["key"][letters])[:, 0]


def head(weights: Weights, asked: Array, letters: Array, digits: Array) -> Array:
    """Logits of the digit: what is seen, weighed by how much it is looked at, times W."""
    seen = look(weights, asked, letters)[:, :, None] * weights["value"][digits]
    return seen.sum(1) @ weights["output"]


def surprise(weights: Weights, asked: Array, letters: Array, digits: Array, answer: Array) -> Array:
    """−log p(answer), the mean."""
    chances = jax.nn.log_softmax(head(weights, asked, letters, digits))
    return -jnp.take_along_axis(chances, answer[:, None], 1).mean()


def questions(seed: int, count: int = 256) -> tuple[Array, Array, Array, Array]:
    """Six different letters, a digit beside each, one of the letters, and its digit."""
    first, second, third = jax.random.split(jax.random.key(seed), 3)
    shuffle = jax.vmap(lambda key: jax.random.permutation(key, LETTERS)[:PAIRS])
    letters = shuffle(jax.random.split(first, count))
    digits = jax.random.randint(second, (count, PAIRS), 0, DIGITS)
    place = jax.random.randint(third, (count, 1), 0, PAIRS)
    asked, answer = (jnp.take_along_axis(row, place, 1)[:, 0] for row in (letters, digits))
    return asked, letters, digits, answer


def learn_look_up(steps: int = 300) -> Weights:
    shapes = {"query": (LETTERS, DIM), "key": (LETTERS, DIM)}
    shapes |= {"value": (DIGITS, DIM), "output": (DIM, DIGITS)}
    batches = jax.jit(questions, static_argnames="count")
    return learn(
        surprise, drawn(2, **shapes), lambda number: batches(number), rate=0.5, steps=steps
    )


def right(weights: Weights, seed: int = 10**6) -> float:
    """The fraction of new questions that are answered rightly."""
    asked, letters, digits, answer = questions(seed, 1000)
    return float((head(weights, asked, letters, digits).argmax(1) == answer).mean())


def draw(sine: Weights, weights: Weights, path: Path) -> None:
    """The curve, and where the head looks in ten questions."""
    x = jnp.linspace(-1.2, 1.2, 200)[:, None]
    asked, letters, digits, _ = questions(10**6 + 1, 10)
    seen = look(weights, asked, letters)
    with drawing.style():
        figure = drawing.figure(9, 3.6, "Learnt by jax.grad")
        left, right = figure.subplots(1, 2)
        left.plot(x[:, 0], jnp.sin(3 * x[:, 0]), color=drawing.GRID, linewidth=4, label="sin 3x")
        left.plot(x[:, 0], network(sine, x)[:, 0], color=drawing.COLOURS[0], label="network")
        left.legend()
        right.imshow(seen, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        for row in range(10):
            for place in range(PAIRS):
                pair = f"{chr(65 + int(letters[row, place]))} {int(digits[row, place])}"
                dark = float(seen[row, place]) > 0.5
                right.text(
                    place, row, pair, ha="center", va="center", color="white" if dark else "black"
                )
        right.set_yticks(range(10), [f"{chr(65 + int(letter))} ?" for letter in asked])
        right.set_xticks([])
        right.grid(visible=False)
        right.set_title("what one head looks at")
    drawing.save(figure, path)


def main() -> None:
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "jax_demo.png")
    print("a network learns y = sin 3x")
    sine = learn_sine()
    print("one attention head learns to look up")
    weights = learn_look_up()
    print(f"  {100 * right(weights):.1f} % of 1,000 new questions are answered rightly")
    draw(sine, weights, path)
    print(f"picture: {path}")


if __name__ == "__main__":
    main()
