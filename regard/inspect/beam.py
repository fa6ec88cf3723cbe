"""The tree of a beam search: every hypothesis that was considered, and why it lost."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf

from regard.search import Request, beam


@dataclass
class Node:
    """One candidate: a hypothesis's token at a step."""

    step: int
    parent: int
    """The node that it continues; −1 for the first symbol."""
    piece: str
    log_prob: float
    """log p of the token, given those before it."""
    total: float
    """Σ log p up to here."""
    score: float
    """total / nᵅ, by which finished hypotheses are compared."""
    fate: str
    """best, finished, followed or dropped."""
    why: str
    best: bool = False
    """Whether the best hypothesis goes through it."""


Tree = list[Node]


@contextmanager
def recorded() -> Iterator[list[beam.Layer]]:
    """The steps of the beam search inside, for its first sentence."""
    steps: list[beam.Layer] = []
    with beam.observe(lambda number, layer: None if number else steps.append(layer)):
        yield steps


def tree(
    steps: Sequence[beam.Layer],
    request: Request,
    config: beam.Config,
    pieces: Callable[[Sequence[int]], list[str]],
) -> Tree:
    """All candidates of the first sentence, in the order of the search."""
    nodes: Tree = []
    places: list[dict[int, int]] = []  # of each step: place → node
    for number, layer in enumerate(steps):
        last = number + 1 == len(steps)
        names = pieces(layer.symbols)
        here: dict[int, int] = {}
        for place, total in enumerate(layer.totals):
            if total == -inf:
                continue
            here[place] = len(nodes)
            kept, followed = place in layer.taken, place in layer.chosen
            ends = layer.symbols[place] == request.end and number >= request.forced[0]
            parent = places[-1].get(layer.parents[place], -1) if places else -1
            nodes.append(
                Node(
                    step=number,
                    parent=parent,
                    piece=names[place],
                    log_prob=layer.log_probs[place],
                    total=total,
                    score=total / (number + 1) ** config.length_penalty,
                    fate="finished" if kept else "followed" if followed else "dropped",
                    why=_why(place, kept, ends, followed, last, config.beams),
                )
            )
        places.append(here)
    _judge(nodes)
    return nodes


def _why(place: int, kept: bool, ends: bool, followed: bool, last: bool, beams: int) -> str:
    if kept:
        return ""
    if ends:
        return f"ends, but only as candidate {place + 1}: results come from the first {beams}"
    if followed and last:
        return "still open when the search had enough results"
    if followed:
        return "followed further"
    return f"candidate {place + 1} of its step: the {beams} best that do not end are followed"


def _judge(nodes: Tree) -> None:
    """Which finished hypothesis has won, and by how much the others have lost."""
    finished = [node for node in nodes if node.fate == "finished"]
    if not finished:
        return
    best = max(finished, key=lambda node: node.score)
    for node in finished:
        node.why = f"finished; score {node.score:.3f} against {best.score:.3f} of the best"
    best.fate, best.why = "best", f"the best score of all that finished: {best.score:.3f}"
    best.best, node = True, best
    while node.parent >= 0:
        node = nodes[node.parent]
        node.best = True
