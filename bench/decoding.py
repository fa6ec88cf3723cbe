"""Translating: many sentences, and one at a time."""

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

from bench import machine
from bench.batches import folder_of
from bench.peers import HOME, Contestant, race
from bench.table import compare
from regard import front, runs
from regard.data.tokenizers import Tokenizer
from regard.errors import UserError
from regard.interop import ctranslate2
from regard.model import Model
from regard.recipe import config

BEAMS = 5
BATCH = 64
"""Sentences at a time, of all but CTranslate2, which is at its best with 16."""
OURS = (
    ("ctranslate2", "float32", False),
    ("ctranslate2", "int8", False),
    ("ctranslate2", "int8", True),
    ("torch", "float32", False),
)
"""Engine, its numbers, and whether it has a shortlist."""


def decode(options: argparse.Namespace) -> dict[str, Any]:
    """test_2016_flickr with 5 beams, sentences per second."""
    return _race(options, lines=300 if options.quick else 1000, one_by_one=False)


def latency(options: argparse.Namespace) -> dict[str, Any]:
    """One short sentence after the other, each answered before the next comes."""
    return _race(options, lines=50 if options.quick else 200, one_by_one=True)


def _race(options: argparse.Namespace, *, lines: int, one_by_one: bool) -> dict[str, Any]:
    run = _run(options)
    predictor = front.Predictor(run, engine="torch")
    chosen, shared = _inputs(options, predictor, lines, one_by_one)
    contestants = _contestants(predictor.model, run.recipe, shared)
    limits = machine.limits(_shapes(predictor.model, shared["batch"]), options.threads)
    rounds = 12 if one_by_one else 3  # one by one a round is short, and says little by itself
    raced = race(
        contestants,
        rounds=rounds * (1 if options.quick else 2),
        seconds=150 if options.quick else 1500,
    )
    result = compare(raced, "sentences per second")
    best = {name: figure["best"] for name, figure in result["figures"].items()}
    ratio = ratios(best)
    for name, times in ratio.items():
        print(f"{times:6.2f} times as fast as {name}")
    written = [len(p.tokens) for p in predictor.predictions(chosen[:100], beams=BEAMS)]
    sources = json.loads(Path(shared["symbols"]).read_text())
    flops = _flops(predictor.model, sources, sum(written) / len(written))
    result |= machine.shares(flops * best["regard torch"] / 1e9, limits, "the torch engine")
    return result | {"ratio": {name: round(times, 3) for name, times in ratio.items()}}


def _inputs(
    options: argparse.Namespace, predictor: front.Predictor, lines: int, one_by_one: bool
) -> tuple[list[str], dict[str, Any]]:
    """The sentences to translate, and what every contestant is given."""
    task: Any = predictor.task
    sentences = task.references("test")[0]
    chosen = sorted(sentences, key=len)[: 2 * lines : 2] if one_by_one else sentences[:lines]
    HOME.mkdir(exist_ok=True)
    text, symbols = HOME / "sentences.txt", HOME / "symbols.json"
    text.write_text("".join(f"{line}\n" for line in chosen), encoding="utf-8")
    sources = [[*source, Tokenizer.end] for source in task.source.tokenizer.encode(chosen)]
    symbols.write_text(json.dumps(sources), encoding="utf-8")
    return chosen, {
        "threads": options.threads,
        "beams": BEAMS,
        "batch": 1 if one_by_one else BATCH,
        "one_by_one": one_by_one,
        "sentences": str(text),
        "symbols": str(symbols),
        "run": str(predictor.run.folder),
        "cap": 2 * max(map(len, sources)) + 10,
        "workers": options.threads,
    }


def _contestants(model: Model, recipe: config.Recipe, shared: dict[str, Any]) -> list[Contestant]:
    contestants = [
        Contestant(
            f"regard {engine} {kind}".replace(" float32", "") + " shortlist" * shortlist,
            "decode_regard.py",
            shared | {"engine": engine, "quantization": kind, "shortlist": shortlist},
        )
        for engine, kind, shortlist in OURS
    ]
    for kind in ("int8", "float32"):
        folder = HOME / f"ctranslate2-{kind}"
        _convert(model, recipe, folder, kind)
        direct = shared | {"model": str(folder)}
        name = f"ctranslate2 {kind}".replace(" float32", "")
        contestants.append(Contestant(name, "decode_ctranslate2.py", direct))
    hugging = HOME / "pegasus"
    to_huggingface(model, recipe, hugging)
    theirs = shared | {"model": str(hugging)}
    return [
        *contestants,
        Contestant("huggingface", "decode_huggingface.py", theirs, "huggingface"),
    ]


def ratios(best: dict[str, float]) -> dict[str, float]:
    """How many times as fast regard is as each peer that took part, also like for like."""
    ours = max(value for name, value in best.items() if name.startswith("regard"))
    direct = max((v for name, v in best.items() if name.startswith("ctranslate2")), default=0.0)
    pairs = {
        "ctranslate2, both in int8": ("regard ctranslate2 int8", "ctranslate2 int8"),
        "ctranslate2, both in float32": ("regard ctranslate2", "ctranslate2"),
        "huggingface, ours in int8": ("regard ctranslate2 int8", "huggingface"),
        "huggingface, ours in float32": ("regard ctranslate2", "huggingface"),
        "huggingface, by the torch engine": ("regard torch", "huggingface"),
    }
    found = {"huggingface": ours / best["huggingface"]} if "huggingface" in best else {}
    found |= {"ctranslate2": ours / direct} if direct else {}
    return found | {
        name: best[our] / best[their] for name, (our, their) in pairs.items() if their in best
    }


def _shapes(model: Model, sentences: int) -> list[tuple[int, int, int]]:
    """The products of a step: with the vocabulary, and with the largest weight of a block."""
    symbols, dim = model.head.weight.shape  # type: ignore[attr-defined]
    rows = sentences * BEAMS
    return [(rows, dim, symbols), (rows, dim, 3 * dim)]


def _flops(model: Model, sources: list[list[int]], written: float) -> float:
    """Of the matrix products for one sentence: two for each weight wherever it is used."""
    weights = {
        name: weight.numel()
        for name, weight in model.named_parameters()
        if weight.ndim == 2 and "embedding" not in name
    }
    read = [n for n in weights if n.startswith("encoder") or "cross.key_value" in n]
    reading = sum(weights[name] for name in read)
    vocabulary: int = model.head.weight.numel()  # type: ignore[attr-defined]
    writing = vocabulary + sum(
        size for name, size in weights.items() if name.startswith("decoder") and name not in read
    )
    return 2 * (reading * sum(map(len, sources)) / len(sources) + writing * BEAMS * written)


def _run(options: argparse.Namespace) -> runs.Run:
    """The run that was named, or one that is trained for a few minutes to have real lengths."""
    if options.run:
        run = runs.Run(Path(options.run))
        if run.recipe.kind != "translate":
            raise UserError(f"--run {run.folder}: its task is {run.recipe.kind}, not translate")
        return run
    folder = HOME / "run"
    if not (folder / "model").is_dir():
        where = folder_of(options)
        shutil.rmtree(folder, ignore_errors=True)  # one that was interrupted
        data = ["data.set=", f"data.folder={where}"] if options.data else []
        changes = [*data, "train.updates=600", "train.save_every=600", "train.average=0"]
        recipe = config.load(Path("multi30k-en-de"), changes)
        runs.train(runs.Run.create(folder, recipe), [print])
    return runs.Run(folder)


def _convert(model: Model, recipe: config.Recipe, folder: Path, kind: Any) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    ctranslate2.convert(model, recipe, folder, kind)


def to_huggingface(model: Model, recipe: config.Recipe, folder: Path) -> None:
    """The same weights as a Pegasus model, which is pre-norm with a given table of positions."""
    try:
        from transformers import PegasusConfig, PegasusForConditionalGeneration
    except ImportError:
        what = "the weights are handed to Hugging Face by its own library"
        raise UserError(f"{what}: pip install transformers") from None

    side = recipe.model.encoder.config
    symbols = model.head.weight.shape[0]  # type: ignore[attr-defined]
    made = PegasusForConditionalGeneration(
        PegasusConfig(
            vocab_size=symbols,
            d_model=recipe.model.dim,
            encoder_layers=side.layers,
            decoder_layers=recipe.model.decoder.config.layers,
            encoder_attention_heads=side.heads,
            decoder_attention_heads=recipe.model.decoder.config.heads,
            encoder_ffn_dim=side.feedforward,
            decoder_ffn_dim=recipe.model.decoder.config.feedforward,
            activation_function=side.activation,
            scale_embedding=recipe.model.scale,
            pad_token_id=0,
            eos_token_id=Tokenizer.end,
            decoder_start_token_id=1,
            forced_eos_token_id=None,
            max_position_embeddings=1024,
        )
    ).eval()
    state = made.state_dict()
    for name in state:
        if (value := _pegasus(name, model)) is not None:
            state[name].copy_(value)
    made.load_state_dict(state)
    made.save_pretrained(folder)


def _pegasus(name: str, model: Model) -> Any:
    """Our tensor for one of Pegasus's names; None if we have none."""
    parts = name.split(".")
    if name == "final_logits_bias":
        return None
    if "shared" in name or "embed_tokens" in name or name == "lm_head.weight":
        return model.head.weight.detach()  # type: ignore[attr-defined]
    side: Any = model.encoder if parts[1] == "encoder" else model.decoder
    if parts[2] == "embed_positions":
        return side.position.rows(0, 1024)
    if parts[2] == "layer_norm":
        return getattr(side.norm, parts[3]).detach()
    block, layer, kind = side.blocks[int(parts[3])], parts[4], parts[-1]
    around = {
        "self_attn_layer_norm": "around_attention",
        "encoder_attn_layer_norm": "around_cross",
        "final_layer_norm": "around_feedforward",
    }
    if layer in around:
        return getattr(getattr(block, around[layer]).norm, kind).detach()
    if layer in ("fc1", "fc2"):
        inner = block.feedforward.up if layer == "fc1" else block.feedforward.down
        return getattr(inner, kind).detach()
    attention = block.attention if layer == "self_attn" else block.cross
    which = parts[5]
    if which == "out_proj":
        return getattr(attention.output, kind).detach()
    if layer == "self_attn":
        blocks = getattr(attention.query_key_value, kind).detach().chunk(3)
        return blocks[("q_proj", "k_proj", "v_proj").index(which)]
    if which == "q_proj":
        return getattr(attention.query, kind).detach()
    return getattr(attention.key_value, kind).detach().chunk(2)[which == "v_proj"]
