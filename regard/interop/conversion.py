"""Our own weights as a model of CTranslate2, by its specifications.

A converted model speaks in numbers: id n is the token "n", so no spelling can be mistaken.
What search never writes (padding, start, unknown) has the bias `NEVER` on its logit: it takes no
probability, as in `regard.search`.
"""

import importlib.util
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.data.tokenizers import Tokenizer
from regard.decoders import transformer as decoder
from regard.errors import UserError
from regard.interop import Quantization
from regard.model import Model
from regard.recipe.config import Recipe

FORBIDDEN = (Tokenizer.pad, Tokenizer.start, Tokenizer.unknown)
NEVER = -30_000.0
"""A logit that has no probability beside any other; float16 holds it, too."""
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH", "swiglu": "SWISH"}
PLAIN = (
    "epsilon", "embedding_norm", "parallel", "key_value_heads", "query_key_value_bias",
    "rotary_base", "rotary_fraction", "rotary_layout", "rotary_scaling",
)  # fmt: skip
"""Keys of a Transformer's part that must be as they are by default."""


def unlike(config: Any) -> str | None:
    """A key of a Transformer's part whose value CTranslate2 is not given; None if there is none."""
    usual = decoder.Config()
    return next((key for key in PLAIN if getattr(config, key) != getattr(usual, key)), None)


@cache
def missing() -> str | None:
    """Why there is no CTranslate2, and what to do; None if there is."""
    if importlib.util.find_spec("ctranslate2") is None:
        return "CTranslate2 is not installed: pip install ctranslate2"
    try:
        import ctranslate2.specs  # noqa: F401
    except (ImportError, OSError) as error:  # made for another system, or a part of it is gone
        return f"CTranslate2 cannot be loaded ({error}): pip install --force-reinstall ctranslate2"
    return None


def library() -> Any:
    if reason := missing():
        raise UserError(reason)
    import ctranslate2
    import ctranslate2.specs

    return ctranslate2


def computable() -> list[str]:
    """The numbers that CTranslate2 computes with on this processor."""
    return sorted(library().get_supported_compute_types("cpu"))


def unavailable(quantization: Quantization = "float32", shortlist: bool = False) -> str | None:
    """Why this machine has no such engine, beginning with the option at fault; None if it has."""
    exact = quantization == "float32"
    if reason := missing():
        option = "engine" if exact and not shortlist else "shortlist" if exact else "quantization"
        return f"{option}: {reason}"
    if not exact and quantization not in computable():
        there = ", ".join(computable())
        return f"quantization: on this processor CTranslate2 has no {quantization}, only {there}"
    return None


def lengths(recipe: Recipe) -> tuple[int, int]:
    """The most positions that encoder and decoder read, end and start symbol included."""
    longest, output = recipe.task.data.max_length, recipe.task.output
    return longest + 1, int(output.factor * longest) + output.extra + 1


def save(model: Model, recipe: Recipe, folder: Path, quantization: Quantization) -> None:
    """Write the model into `folder`, which is there."""
    specification(model, recipe, quantization).save(str(folder))


def specification(model: Model, recipe: Recipe, quantization: Quantization) -> Any:
    """The model as CTranslate2 writes it: a TransformerSpec that has all weights."""
    specs = library().specs
    parts: Any = model  # `supports` has seen what they are
    settings, (longest, largest) = recipe.model, lengths(recipe)
    source = _stack(specs.TransformerEncoderSpec, settings.encoder.config, parts.encoder, longest)
    target = _stack(specs.TransformerDecoderSpec, settings.decoder.config, parts.decoder, largest)
    for stack, spec, embedding in (
        (source, source.embeddings[0], parts.input.embedding),
        (target, target.embeddings, parts.decoder.embedding),
    ):
        spec.weight, stack.scale_embeddings = _array(embedding.weight), embedding.factor
    bias = torch.zeros(len(parts.head.weight)) if parts.head.bias is None else parts.head.bias
    target.projection.weight, target.projection.bias = _array(parts.head.weight), _array(bias)
    target.projection.bias[list(FORBIDDEN)] = NEVER

    both = specs.TransformerSpec(source, target)
    narrow = quantization in ("int8", "int8_float32")
    if narrow:
        specs.model_spec.visit_spec(both, _round)
    both.register_source_vocabulary(names(range(len(source.embeddings[0].weight))))
    both.register_target_vocabulary(names(range(len(target.embeddings.weight))))
    both.config.bos_token = both.config.decoder_start_token = str(Tokenizer.start)
    both.config.eos_token, both.config.unk_token = str(Tokenizer.end), str(Tokenizer.unknown)
    both.validate()
    both.optimize(None if narrow else quantization)
    return both


def _round(spec: Any, name: str, value: Any) -> None:
    """Put int8 and its scales where CTranslate2 has room for scales."""
    if name.rpartition("/")[2] == "weight" and hasattr(spec, "weight_scale"):
        spec.weight, spec.weight_scale = int8(value)


def int8(weight: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """q = round(s w), with a scale s for each row, such that no processor's products overflow.

    A product x·w of bytes, x in 0 … 255, is summed in 32 bits where the processor has an
    instruction for it (VNNI on x86, any ARM). Older x86 processors first add two neighbours,
    x₁q₁ + x₂q₂, in 16 bits, and what does not fit is cut off at ± 32,767. It fits for every x
    if the positive ones of q₁ and q₂ are together at most 128, and the negative ones, too:
    255 · 128 = 32,640. So s = 127 / m, m the largest such sum in the row; rounding adds at most ½
    to each of the two. The largest |q| in a row is then about 95 instead of 127.
    """
    half, most = weight.shape[1] // 2, np.zeros(len(weight), np.float32)
    for part in (np.maximum(weight, 0), np.maximum(-weight, 0)):
        sums = part[:, ::2].copy()
        sums[:, :half] += part[:, 1::2]  # of an odd number, the last is by itself
        most = np.maximum(most, sums.max(1))
    most[most == 0] = 127.0
    # In a row of denormal numbers the scale must stay finite.
    scale = (127.0 / np.maximum(most, 127.0 / np.finfo(np.float32).max)).astype(np.float32)
    return np.rint(weight * scale[:, None]).astype(np.int8), scale


def _stack(kind: Any, config: Any, part: Any, length: int) -> Any:
    """An encoder or decoder for `length` positions, without its embedding."""
    spec = kind(
        config.layers,
        config.heads,
        pre_norm=config.norm == "pre",
        activation=library().specs.Activation[ACTIVATIONS[config.activation]],
        ffn_glu=config.activation == "swiglu",
        rms_norm=config.normalisation == "rms",
        rotary_dim=0 if config.position == "rotary" else None,  # 0: all of them
    )
    if config.position != "rotary":
        # Without a table CTranslate2 would take one of its own.
        spec.position_encodings.encodings = _table(part.position, length)
    if config.norm == "pre":
        _norm(spec.layer_norm, part.norm)
    for layer, block in zip(spec.layer, part.blocks, strict=True):
        own, network = block.attention, block.feedforward
        _norm(layer.self_attention.layer_norm, block.around_attention.norm)
        _linear(layer.self_attention.linear, own.query_key_value, own.output)
        if isinstance(block, decoder.Block):
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
    if isinstance(layer, nn.LayerNorm):
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


def names(symbols: Sequence[int]) -> list[str]:
    return [str(symbol) for symbol in symbols]
