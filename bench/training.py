"""Training beside other toolkits, and what each of our measures for speed wins."""

import argparse
from collections.abc import Callable
from typing import Any

from bench import features, machine
from bench.batches import Corpus
from bench.peers import Contestant, Peer, race
from bench.table import compare, per_token

TINY = {"dim": 128, "layers": 4, "heads": 4, "feedforward": 256, "dropout": 0.3}
BASE = {"dim": 512, "layers": 6, "heads": 8, "feedforward": 2048, "dropout": 0.1}
OWN_ENVIRONMENTS = ("huggingface", "joeynmt")
COMPILED = "huggingface, torch.compile"
UNSORTED = "joeynmt, its own batching"
MEASURES = ("bfloat16", "chunked loss", "short attention", "byte dropout", "halves", "kept pages")


def tiny(options: argparse.Namespace) -> dict[str, Any]:
    """Transformer-Tiny on multi30k, vocabulary of 10,000, 4,096 tokens a batch."""
    names = ["regard", "huggingface", COMPILED, "joeynmt", UNSORTED, "torch"]
    return _tiny(options, names)


def _tiny(options: argparse.Namespace, names: list[str]) -> dict[str, Any]:
    return _train(options, TINY, 10_000, 4096, updates=4 if options.quick else 12, names=names)


def base(options: argparse.Namespace) -> dict[str, Any]:
    """The paper's base model, vocabulary of 37,000, 2,000 target tokens a batch."""
    names = ["regard", "huggingface"]
    return _train(options, BASE, 37_000, 2000, updates=1 if options.quick else 3, names=names)


def memory(options: argparse.Namespace) -> dict[str, Any]:
    """Peak memory in training, of processes that train nothing else."""
    result = _tiny(options, ["regard", "huggingface", "joeynmt", UNSORTED, "torch"])
    peaks = {name: figure["peak_megabytes"] for name, figure in result["figures"].items()}
    return result | {"ratio": {n: round(peaks["regard"] / p, 3) for n, p in peaks.items()}}


def measures(options: argparse.Namespace) -> dict[str, Any]:
    """Transformer-Tiny with all measures for speed, and with each of them left out in turn.

    Batching is one of them: the same step on batches of sentences of any length.
    """
    corpus = Corpus(options, 10_000)
    updates = 4 if options.quick else 12
    sorted_batches, by_length = corpus.write(corpus.by_length(4096)[:updates], "by-length")
    random_batches, at_random = corpus.write(corpus.at_random(4096)[:updates], "at-random")
    for name, about in (("by length", by_length), ("at random", at_random)):
        print(f"{name:>20}  {about['padding']:8.1%}   of the positions are padding")
    common = _options(options, TINY, 10_000, updates)
    common["batches"] = str(sorted_batches)
    contestants = [Contestant("regard", "train_regard.py", common)]
    contestants += [
        Contestant(f"no {measure}", "train_regard.py", common | {"without": measure})
        for measure in MEASURES
        if measure != "bfloat16" or features.is_native()
    ]
    unsorted = common | {"batches": str(random_batches)}
    contestants.append(Contestant("no batches by length", "train_regard.py", unsorted))
    raced = race(
        contestants,
        rounds=4 if options.quick else 10,
        seconds=200 if options.quick else 1500,
    )
    padding = {"by length": by_length["padding"], "at random": at_random["padding"]}
    result = compare(raced, "target tokens per second")
    return result | {"padding": padding, "gains": gains(raced.peers)}


def gains(peers: list[Peer]) -> dict[str, float | None]:
    """Print how many times as fast a step is with each measure, by processor time."""
    ours = per_token(peers[0])
    found: dict[str, float | None] = {
        peer.name.removeprefix("no "): round(per_token(peer) / ours, 3) for peer in peers[1:]
    }
    used = features.in_use()
    print(f"\nwith torch at {used['torch']} and oneDNN at {used['oneDNN']}, each measure makes a")
    print("step so many times as fast, by processor time")
    for measure, times in found.items():
        print(f"{measure:>20}  {times:6.2f}")
    if not features.is_native():
        found["bfloat16"] = None
        print(f"{'bfloat16':>20}  {'-':>6}   emulated here: not used, and not measured")
    return found


def _train(
    options: argparse.Namespace,
    size: dict[str, Any],
    symbols: int,
    tokens: int,
    updates: int,
    names: list[str],
) -> dict[str, Any]:
    corpus = Corpus(options, min(symbols, 10_000))
    batches, about = corpus.write(corpus.by_length(tokens)[:updates], f"batches-{tokens}")
    common = _options(options, size, symbols, updates) | {"batches": str(batches)}
    inner, dim = size["feedforward"], size["dim"]
    shapes = [(tokens, dim, dim), (tokens, dim, inner), (tokens, dim, 3 * dim), (512, dim, symbols)]
    limits = machine.limits(shapes, options.threads)
    print(f"{'padding':>20}  {about['padding']:8.1%}   of the positions, for all alike")
    contestants = []
    for name in names:
        toolkit = name.partition(", ")[0]
        given = common | {"shapes": 2 if options.quick else 4}
        if name == UNSORTED:  # Joey NMT does not sort by length, and fills the same budget
            unsorted, of_these = corpus.write(corpus.at_random(tokens)[:updates], "at-random")
            print(f"{'':>20}  {of_these['padding']:8.1%}   {name}")
            given["batches"] = str(unsorted)
        environment = toolkit if toolkit in OWN_ENVIRONMENTS else "own"
        script = f"train_{toolkit}.py" if name != COMPILED else "train_huggingface_compiled.py"
        needed = name != COMPILED  # a compiler need not be there
        contestants.append(Contestant(name, script, given, environment, needed=needed))
    flops = _flops(size, symbols, about["sources"] / about["targets"]) / 1e9
    raced = race(
        contestants,
        rounds=5 if options.quick else 8,
        seconds=180 if options.quick else 1200,
        after=_report(flops, limits),
    )
    result = compare(raced, "target tokens per second")
    for peer in raced.peers:
        show_compiled(peer)
    rates = raced.peers[0].rates()
    rounds = [machine.fractions(flops * rate, limits) for rate in rates]
    return result | machine.shares(flops * max(rates), limits) | {"share of each round": rounds}


def show_compiled(peer: Peer) -> None:
    """Say how long compiling took, and what each way of it came to, where a contestant did that."""
    about = peer.ready.get("ready", {})
    for way, seen in about.get("compiled", {}).items():
        taken = " (takes part)" if way == about["takes part"] else ""
        added = f", {seen['added']:.0%} more positions" if "added" in seen else ""
        print(
            f"{peer.name}, {way}: compiled in {seen['compile seconds']:.0f} s, then "
            f"{seen['rate']:,.0f} target tokens per second{added}{taken}"
        )


def _report(flops: float, limits: dict[str, float]) -> Callable[[int, list[Peer]], None]:
    """Says after each round which fraction of the machine's limits regard has reached."""

    def after(number: int, peers: list[Peer]) -> None:
        rate = peers[0].rates()[-1]
        reached = machine.in_words(flops * rate, limits)
        print(f"round {number}: regard {rate:,.0f} target tokens per second, {reached}", flush=True)

    return after


def _options(
    options: argparse.Namespace, size: dict[str, Any], symbols: int, updates: int
) -> dict[str, Any]:
    return {
        "threads": options.threads,
        "symbols": symbols,
        "sizes": sizes(symbols),
        "size": size,
        "updates": updates,
        "recipe": recipe(size),
        "counted": "target_mask",
    }


def sizes(symbols: int) -> dict[str, Any]:
    """Those of a model with one vocabulary for both sides."""
    fields = {
        "source": {"tokens": symbols},
        "target": {"tokens": symbols, "outputs": symbols},
    }
    return {"fields": fields, "reads": "source", "writes": "target", "shared": True}


def _flops(size: dict[str, Any], symbols: int, sources: float) -> float:
    """Of the matrix products for one target token, forward and backward: 6 per weight used."""
    dim, inner, layers = (int(size[name]) for name in ("dim", "feedforward", "layers"))
    encoder = layers * (4 * dim * dim + 2 * dim * inner)
    decoder = layers * (6 * dim * dim + 2 * dim * inner)
    memory = layers * 2 * dim * dim  # the keys and values of the source
    return 6 * (sources * (encoder + memory) + decoder + dim * symbols)


def recipe(size: dict[str, Any]) -> dict[str, Any]:
    """A Transformer of this size; its data are given otherwise."""
    keys = ("layers", "heads", "feedforward", "dropout")
    stack = {key: size[key] for key in keys} | {"norm": "pre"}
    return {
        "task": "translate",
        "data": {"train": ["unused.source", "unused.target"]},
        "model": {"dim": size["dim"], "encoder": stack, "decoder": stack},
        "train": {"optimizer": {"learning_rate": 1e-4}},
    }
