"""CTranslate2: a fast engine on a processor, and a form to ship, straight from our own weights.

A converted model speaks in numbers: symbol n is the token "n", so no spelling can be mistaken.
What search never writes (padding, start, unknown) has the bias `NEVER` on its logit: it takes no
probability, as in `regard.search`, whose definitions of greedy and beam search are kept.
"""

import hashlib
import importlib.util
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from math import expm1, isfinite, log
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer as Library, decoders, normalizers
from torch import Tensor

import regard
from regard.config import Recipe
from regard.data.tokenizers import END, PAD, START, UNKNOWN, Tokenizer
from regard.decoders import transformer as decoder
from regard.encoders import transformer as encoder
from regard.errors import UserError
from regard.heads import vocabulary
from regard.inputs import tokens
from regard.model import Model
from regard.parts import Part, module
from regard.runs import Run
from regard.search import Hypothesis, Request, beam, impossible
from regard.tasks.translate import SIDES, Task, collate
from regard.train.checkpoint import MANIFEST, Checkpoint, sync
from regard.types import Sizes

Quantization = Literal[
    "float32",
    "int8",
    "int8_float32",
    "int8_float16",
    "int8_bfloat16",
    "int16",
    "float16",
    "bfloat16",
]
FORMAT = 1
FORBIDDEN = (PAD, START, UNKNOWN)
NEVER = -30_000.0
"""A logit that has no probability beside any other; float16 holds it, too."""
TOLERANCE = 1e-3
"""How far a log-probability in float32 may be from the original's."""
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH", "swiglu": "SWISH"}
SAMPLES = 16
"""Sentences by which an export is compared with the original."""


# What it can do


def installed() -> bool:
    return importlib.util.find_spec("ctranslate2") is not None


def supports(recipe: Recipe) -> str | None:
    """Why a recipe's model cannot run in CTranslate2; None if it can."""
    if recipe.kind != "translate":
        return f"the task is {recipe.kind!r}; only 'translate' runs in CTranslate2"
    parts = {"input": tokens, "encoder": encoder, "decoder": decoder, "head": vocabulary}
    for name, known in parts.items():
        part: Part = getattr(recipe.model, name)
        if module(f"{name}s", part.kind) is not known:
            wanted = known.__name__.rpartition(".")[2]
            return f"model.{name} is of kind {part.kind!r}; only {wanted!r} runs in CTranslate2"
    for name, length in zip(("encoder", "decoder"), _lengths(recipe), strict=True):
        config = getattr(recipe.model, name).config
        if config.activation not in ACTIVATIONS:
            return f"model.{name}.activation: CTranslate2 has no {config.activation!r}"
        if config.position in ("learned", "one_hot") and config.limit < length:
            return (
                f"model.{name}.limit: {config.limit} positions are fewer than the {length} "
                "that data.longest and output allow"
            )
    return None


def obstacle(
    recipe: Recipe, sizes: Sizes, search: Part, device: str = "cpu", *, prefixes: bool = False
) -> str | None:
    """Why this search over this recipe's model is for torch; None if CTranslate2 does the same."""
    if reason := supports(recipe):
        return reason
    if torch.device(device).type != "cpu":
        return f"the model is on {device}"
    if prefixes:
        return "CTranslate2 takes a forced prefix as certain, regard as probable as it is"
    if search.kind not in ("greedy", "beam"):
        return f"{search.kind!r} search is not what CTranslate2 does"
    beams, enough = _beams(search)
    if beams == 1 and enough > 1:
        return "CTranslate2 has no patience with a single beam"
    if beams >= sizes.target - len(FORBIDDEN):
        return f"{beams} beams are too many for {sizes.target} symbols"
    return None


def choose(
    recipe: Recipe,
    sizes: Sizes,
    search: Part,
    device: str = "cpu",
    *,
    prefixes: bool = False,
    available: bool | None = None,
) -> Literal["torch", "ctranslate2"]:
    """What `auto` stands for: CTranslate2 where it is installed and does the same."""
    there = installed() if available is None else available
    able = there and obstacle(recipe, sizes, search, device, prefixes=prefixes) is None
    return "ctranslate2" if able else "torch"


def _beams(search: Part) -> tuple[int, int]:
    """How many hypotheses are followed, and how many are enough."""
    return (search.config.beams, search.config.enough) if search.kind == "beam" else (1, 1)


def _lengths(recipe: Recipe) -> tuple[int, int]:
    """The most positions that encoder and decoder read, end and start symbol included."""
    longest, output = recipe.task.data.longest, recipe.task.output
    return longest + 1, int(output.factor * longest) + output.extra + 1


# From our weights


def convert(
    model: Model, recipe: Recipe, folder: Path, quantization: Quantization = "float32"
) -> None:
    """Write the model into `folder`, which is there, as CTranslate2 reads it.

    First in float32, to compare it with the original; then as it is to be.
    """
    if reason := supports(recipe):
        raise UserError(f"not a model for CTranslate2: {reason}")
    _save(model, recipe, folder, "float32")
    off = _difference(model, recipe, Engine(folder, workers=1))
    if not off <= TOLERANCE:
        raise UserError(
            f"the converted model is not the original: log-probabilities differ by {off:.2g}. "
            "The torch engine is not concerned"
        )
    if quantization != "float32":
        _save(model, recipe, folder, quantization)


def _save(model: Model, recipe: Recipe, folder: Path, quantization: Quantization) -> None:
    specs = _library().specs
    parts: Any = model
    bounds = _lengths(recipe)
    source = _stack(specs.TransformerEncoderSpec, recipe.model.encoder.config, parts.encoder)
    target = _stack(specs.TransformerDecoderSpec, recipe.model.decoder.config, parts.decoder)
    for spec, own, part, length in (
        (source, source.embeddings[0], parts.encoder, bounds[0]),
        (target, target.embeddings, parts.decoder, bounds[1]),
    ):
        embedding = parts.input.embedding if spec is source else parts.decoder.embedding
        own.weight, spec.scale_embeddings = _array(embedding.weight), embedding.factor
        if part.rotary is None:
            # Without a table CTranslate2 would take one of its own.
            spec.position_encodings.encodings = _table(part.position, length)
    head = parts.head
    bias = torch.zeros(len(head.weight)) if head.bias is None else head.bias.detach().clone()
    bias[list(FORBIDDEN)] = NEVER
    target.projection.weight, target.projection.bias = _array(head.weight), _array(bias)

    whole = specs.TransformerSpec(source, target)
    whole.register_source_vocabulary(_numbers(range(len(source.embeddings[0].weight))))
    whole.register_target_vocabulary(_numbers(range(len(target.embeddings.weight))))
    whole.config.bos_token = whole.config.decoder_start_token = str(START)
    whole.config.eos_token, whole.config.unk_token = str(END), str(UNKNOWN)
    whole.validate()
    whole.optimize(quantization)
    whole.save(str(folder))


def _stack(kind: Any, config: Any, part: Any) -> Any:
    """The blocks of an encoder or decoder."""
    spec = kind(
        config.layers,
        config.heads,
        pre_norm=config.norm == "pre",
        activation=getattr(_library().specs.Activation, ACTIVATIONS[config.activation]),
        ffn_glu=config.activation == "swiglu",
        rms_norm=config.normalisation == "rms",
        rotary_dim=0 if config.position == "rotary" else None,  # 0: all of them
    )
    if config.norm == "pre":
        _norm(spec.layer_norm, part.norm)
    for layer, block in zip(spec.layer, part.blocks, strict=True):
        own, network = block.attention, block.feedforward
        _norm(layer.self_attention.layer_norm, block.around_attention.norm)
        _linear(layer.self_attention.linear, own.query_key_value, own.output)
        if hasattr(block, "cross"):
            other = block.cross
            _norm(layer.attention.layer_norm, block.around_cross.norm)
            _linear(layer.attention.linear, other.query, other.key_value, other.output)
        _norm(layer.ffn.layer_norm, block.around_feedforward.norm)
        _linear([layer.ffn.linear_0, layer.ffn.linear_1], network.up, network.down)
        if network.gate is not None:
            _linear([layer.ffn.linear_0_noact], network.gate)
    return spec


def _norm(spec: Any, layer: Any) -> None:
    """The ε of nn.LayerNorm and of our RMSNorm are what CTranslate2 takes by default."""
    spec.gamma = _array(layer.weight)
    if getattr(layer, "bias", None) is not None:
        spec.beta = _array(layer.bias)


def _linear(specs: Sequence[Any], *layers: Any) -> None:
    for spec, layer in zip(specs, layers, strict=True):
        spec.weight = _array(layer.weight)
        if layer.bias is not None:
            spec.bias = _array(layer.bias)


def _table(position: Any, length: int) -> NDArray[np.float32]:
    if position.kind == "none":
        return np.zeros((length, position.dim), np.float32)
    return _array(position.rows(0, length))


def _array(tensor: Tensor) -> NDArray[np.float32]:
    """A copy: CTranslate2 quantizes in place."""
    array: NDArray[np.float32] = tensor.detach().float().cpu().numpy().copy()
    return array


def _numbers(symbols: Sequence[int]) -> list[str]:
    return [str(symbol) for symbol in symbols]


def _library() -> Any:
    if not installed():
        raise UserError("CTranslate2 is not installed: pip install 'regard[ctranslate2]'")
    import ctranslate2
    import ctranslate2.specs

    return ctranslate2


def _difference(model: Model, recipe: Recipe, engine: "Engine") -> float:
    """max |log p − log p′| over random pairs; what is forbidden takes no probability."""
    parts: Any = model
    chance = np.random.default_rng(1)
    sources, targets = (
        [
            chance.integers(UNKNOWN + 1, symbols, size=min(size, bound - 1)).tolist()
            for size in (1, 3, 7, 13)
        ]
        for symbols, bound in zip(
            (len(parts.input.embedding.weight), len(parts.head.weight)),
            _lengths(recipe),
            strict=True,
        )
    )
    training = model.training
    model.eval()
    with torch.inference_mode():
        batch = collate(sources, targets, range(len(sources))).to(model.device)
        hidden, _ = model.decode(batch["target_in"], model.start(batch))
        logits = model.head.logits(hidden).float()
        logits[..., list(FORBIDDEN)] = -torch.inf
        chosen = logits.log_softmax(-1).gather(-1, batch["target_out"][..., None])[..., 0]
    model.train(training)
    theirs = engine.score(sources, targets)
    pairs = [(row[: len(other)], other) for row, other in zip(chosen.tolist(), theirs, strict=True)]
    return max(abs(a - b) for row, other in pairs for a, b in zip(row, other, strict=True))


# Finding outputs


class Engine:
    """A converted model at work. `find` is a `Finder`: it takes the place of our own search.

    `workers` batches of up to `batch` sentences are in work side by side, each on `threads`
    threads. One thread each, and a worker for each core, is the fastest unless there is but one
    batch.
    """

    def __init__(
        self, folder: Path, *, workers: int | None = None, threads: int = 1, batch: int = 32
    ) -> None:
        self._batch = batch
        try:
            self._translator = _library().Translator(
                str(folder),
                inter_threads=workers or max(1, _cores() // threads),
                intra_threads=threads,
                max_queued_batches=-1,
            )
        except RuntimeError as error:
            raise UserError(f"{folder}: {error}") from None

    def find(
        self,
        sources: list[list[int]],
        request: Request,
        search: Part,
        *,
        log_probs: bool = True,
    ) -> list[list[Hypothesis]]:
        """Each sentence's hypotheses, best first, as `regard.search` defines them.

        Without `log_probs`, which take a pass of their own, those of each hypothesis are empty.
        """
        if (request.start, request.end, request.forbidden) != (START, END, FORBIDDEN):
            raise ValueError("the model was converted for other start, end or forbidden symbols")
        if any(request.forced):
            raise UserError("CTranslate2 cannot be given prefixes: use the torch engine")
        options = settings(search)
        minimum = options.pop("min_decoding_length")
        caps: list[int] = torch.as_tensor(request.caps).tolist()
        # One call has one cap. The longest come first, so that no worker is left with them alone.
        waiting = []
        for cap in sorted({cap for cap in caps if cap > 0}, reverse=True):
            group = [n for n, own in enumerate(caps) if own == cap and sources[n]]
            results = self._translator.translate_batch(
                [_numbers([*sources[n], END]) for n in group],
                max_decoding_length=cap,
                min_decoding_length=min(minimum, cap),
                max_batch_size=self._batch,
                asynchronous=True,
                **options,
            )
            waiting += zip(group, results, strict=True)
        # Where there is nothing to read or to write, CTranslate2 does not ask the model.
        found = [[Hypothesis((), 0.0, (), not source)] for source in sources]
        for n, result in waiting:
            found[n] = _hypotheses(result.result())
        return self._with_log_probs(sources, found, minimum) if log_probs else found

    def _with_log_probs(
        self, sources: list[list[int]], found: list[list[Hypothesis]], minimum: int
    ) -> list[list[Hypothesis]]:
        flat = [(source, h) for source, best in zip(sources, found, strict=True) for h in best]
        values = self.score([source for source, _ in flat], [h.tokens for _, h in flat])
        # Before the minimum the end takes no probability, but the model gives it some.
        early = [(n, t) for n, (_, h) in enumerate(flat) for t in range(len(h.tokens[:minimum]))]
        ends = self.score([flat[n][0] for n, _ in early], [flat[n][1].tokens[:t] for n, t in early])
        for (n, t), chances in zip(early, ends, strict=True):
            values[n][t] -= log(max(-expm1(chances[-1]), 1e-7))
        rows = iter(values)
        return [
            [h._replace(log_probs=tuple(next(rows)[: len(h.tokens) + h.finished])) for h in best]
            for best in found
        ]

    def score(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """log p of each target's symbols and of its end; forbidden ones have none."""
        results = self._translator.score_batch(
            [_numbers([*source, END]) for source in sources],
            [_numbers(target) for target in targets],
            max_input_length=0,
            max_batch_size=self._batch,
            asynchronous=True,
        )
        return [result.result().log_probs for result in results]


def settings(search: Part) -> dict[str, Any]:
    """A search as options of translate_batch. Scores count the end only where it is returned."""
    beams, _ = _beams(search)
    config = search.config
    several = search.kind == "beam"
    return {
        "beam_size": beams,
        "num_hypotheses": config.nbest if several else 1,
        "length_penalty": config.length_penalty if several else 0.0,
        "patience": config.patience if several else 1.0,
        "min_decoding_length": config.minimum,
        "max_input_length": 0,
        "return_end_token": True,
        "return_scores": True,
    }


def _hypotheses(result: Any) -> list[Hypothesis]:
    found = []
    for names, score in zip(result.hypotheses, result.scores, strict=True):
        symbols = tuple(map(int, names))
        finished = symbols[-1] == END
        if not isfinite(score):
            raise impossible()
        found.append(Hypothesis(symbols[: len(symbols) - finished], score, (), finished))
    return found


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def engine(
    run: Run, checkpoint: str = "final", quantization: Quantization = "float32", **options: Any
) -> Engine:
    """The engine of a run. Its model is converted once, and kept in the run's folder `engines`."""
    found = run.find(checkpoint)
    name = f"ctranslate2-{quantization}-{_identity(found, run.recipe)}"
    folder = run.folder / "engines" / name
    if not folder.is_dir():
        try:
            with _whole(folder) as writing:
                convert(run.model(checkpoint), run.recipe, writing, quantization)
        except OSError:  # no room, or no right to write: make do without keeping it
            with tempfile.TemporaryDirectory() as elsewhere:
                convert(run.model(checkpoint), run.recipe, Path(elsewhere), quantization)
                return Engine(Path(elsewhere), **options)
    return Engine(folder, **options)


def _identity(found: Checkpoint, recipe: Recipe) -> str:
    """Changes with the weights, with what else is converted, and with how."""
    weights = json.loads((found.folder / MANIFEST).read_text())["files"]["model.safetensors"]
    whole = [FORMAT, weights["sha256"], _lengths(recipe)]
    return hashlib.sha256(json.dumps(whole).encode()).hexdigest()[:16]


@contextmanager
def _whole(folder: Path) -> Iterator[Path]:
    """A folder to write into, which gets its name once all of it is there."""
    writing = folder.with_name(f".writing-{folder.name}-{os.getpid()}")
    shutil.rmtree(writing, ignore_errors=True)
    writing.mkdir(parents=True)
    try:
        yield writing
        for path in (*writing.iterdir(), writing):
            sync(path)
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
        try:
            writing.rename(folder)
        except OSError:
            if not folder.is_dir():  # else somebody else was quicker
                raise
    finally:
        shutil.rmtree(writing, ignore_errors=True)


# To ship


@dataclass(frozen=True)
class Parity:
    """What a converted model makes of a few sentences, beside what the original does."""

    sentences: int
    equal: float
    """The share of sentences whose output is the same."""
    difference: float
    """The largest difference of two scores, or of two log-probabilities of equal outputs."""


def export(
    run: Run, folder: Path, quantization: Quantization = "int8", checkpoint: str = "final"
) -> Parity:
    """Write a folder that CTranslate2 and tokenizers can use alone; its README.md says how."""
    if folder.is_dir() and any(folder.iterdir()):
        raise UserError(f"{folder} exists and is not empty")
    recipe, task, model = run.recipe, run.task, run.model(checkpoint)
    assert isinstance(task, Task)
    own: Part = recipe.task.search
    search = Part("beam", beam.Config()) if obstacle(recipe, task.sizes, own) else own
    try:
        with _whole(folder) as writing:
            convert(model, recipe, writing, quantization)
            for side, tokenizer in zip(SIDES, (task.source, task.target), strict=True):
                _alone(tokenizer, writing / f"{side}.tokenizer.json")
            found = parity(task, model, Engine(writing), search)
            if quantization == "float32" and not found.difference <= TOLERANCE:
                raise UserError(f"the exported model is not the original: {found}")
            card = {
                "format": FORMAT,
                "regard": regard.__version__,
                "quantization": quantization,
                "parity": asdict(found),
                "end": str(END),
                "longest": recipe.task.data.longest,
                "output": asdict(recipe.task.output),
                "search": settings(search),
            }
            (writing / "regard.json").write_text(json.dumps(card, indent=1), encoding="utf-8")
            (writing / "README.md").write_text(_readme(card), encoding="utf-8")
    except OSError as error:
        raise UserError(f"{folder} could not be written: {error.strerror or error}") from None
    return found


def parity(task: Task, model: Model, engine: Engine, search: Part) -> Parity:
    """Compare the engine with our own search on a few sentences."""
    lines = _samples(task)
    ours = list(task.predict(model, lines, search))
    theirs = list(task.predict(model, lines, search, finder=engine.find))
    pairs = list(zip(ours, theirs, strict=True))
    off = [abs(a.score - b.score) for a, b in pairs]
    same = [(a, b) for a, b in pairs if a.tokens == b.tokens]
    for a, b in same:
        off += [abs(x - y) for x, y in zip(a.log_probs, b.log_probs, strict=True)]
    return Parity(len(lines), len(same) / len(lines), max(off))


def _samples(task: Task) -> list[str]:
    """Sentences of the validation part, or symbols at random where the data is not there."""
    try:
        lines = [line for line in task.references("validation")[0] if line.strip()]
    except UserError:
        lines = []
    if not lines:
        chance = np.random.default_rng(1)
        rows = [chance.integers(UNKNOWN + 1, len(task.source), n + 1) for n in range(SAMPLES)]
        lines = [task.source.decode(row.tolist()) or "?" for row in rows]
    return lines[:SAMPLES]


def _alone(tokenizer: Tokenizer, path: Path) -> None:
    """Write a tokenizer that needs nothing but the library: also the first blank is its matter."""
    tokenizer.save(path)
    library = Library.from_file(str(path))
    if library.encode("a").ids == tokenizer.encode(["a"])[0]:
        return
    before = [library.normalizer] if library.normalizer else []
    library.normalizer = normalizers.Sequence([*before, normalizers.Prepend(" ")])
    library.decoder = decoders.Sequence([library.decoder, decoders.Strip(" ", 1, 0)])
    library.save(str(path))


def _readme(card: dict[str, Any]) -> str:
    found = card["parity"]
    return README.format(
        quantization=card["quantization"],
        equal=f"{found['equal']:.0%} of {found['sentences']} sentences",
        difference=f"{found['difference']:.1g}",
    )


README = """\
# A translation model for CTranslate2

Weights in {quantization}. Compared with the original when it was written: the same output for
{equal}, scores within {difference}.

    pip install ctranslate2 tokenizers

```python
import json
import sys
from pathlib import Path

from ctranslate2 import Translator
from tokenizers import Tokenizer

folder = Path(sys.argv[1])  # this folder
card = json.loads((folder / "regard.json").read_text())
source = Tokenizer.from_file(str(folder / "source.tokenizer.json"))
target = Tokenizer.from_file(str(folder / "target.tokenizer.json"))
translator = Translator(str(folder))


def translate(line):
    if not line.strip():
        return ""
    symbols = source.encode(line).ids[: card["longest"]]
    longest = int(card["output"]["factor"] * len(symbols)) + card["output"]["extra"]
    tokens = [str(symbol) for symbol in symbols] + [card["end"]]
    found = translator.translate_batch([tokens], max_decoding_length=longest, **card["search"])
    best = found[0].hypotheses[0]
    return target.decode([int(token) for token in best if token != card["end"]])


for line in sys.stdin:
    print(translate(line.rstrip("\\n")), flush=True)
```

Symbol n of a vocabulary is the token "n". Sentences of equal length can be given to one call, which
is much faster; `Translator(..., inter_threads=N, intra_threads=1)` keeps N cores busy.
"""
