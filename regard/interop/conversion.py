"""Our own weights as a model of CTranslate2, by its specifications.

A converted model speaks in numbers: symbol n is the token "n", so no spelling can be mistaken.
What search never writes (padding, start, unknown) has the bias `NEVER` on its logit: it takes no
probability, as in `regard.search`.
"""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.config import Recipe
from regard.data.tokenizers import END, PAD, START, UNKNOWN
from regard.errors import UserError
from regard.model import Model

Quantization = Literal[
    "float32", "int8", "int8_float32", "int8_float16", "int16", "float16", "bfloat16"
]
FORBIDDEN = (PAD, START, UNKNOWN)
NEVER = -30_000.0
"""A logit that has no probability beside any other; float16 holds it, too."""
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH", "swiglu": "SWISH"}


def installed() -> bool:
    return importlib.util.find_spec("ctranslate2") is not None


def library() -> Any:
    if not installed():
        raise UserError("CTranslate2 is not installed: pip install 'regard[ctranslate2]'")
    import ctranslate2
    import ctranslate2.specs

    return ctranslate2


def lengths(recipe: Recipe) -> tuple[int, int]:
    """The most positions that encoder and decoder read, end and start symbol included."""
    longest, output = recipe.task.data.longest, recipe.task.output
    return longest + 1, int(output.factor * longest) + output.extra + 1


def save(model: Model, recipe: Recipe, folder: Path, quantization: Quantization) -> None:
    """Write the model into `folder`, which is there."""
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
    both.register_source_vocabulary(names(range(len(source.embeddings[0].weight))))
    both.register_target_vocabulary(names(range(len(target.embeddings.weight))))
    both.config.bos_token = both.config.decoder_start_token = str(START)
    both.config.eos_token, both.config.unk_token = str(END), str(UNKNOWN)
    both.validate()
    both.optimize(quantization)
    both.save(str(folder))


def _stack(kind: Any, config: Any, part: Any, length: int) -> Any:
    """An encoder or decoder for `length` positions, without its embedding."""
    spec = kind(
        config.layers,
        config.heads,
        pre_norm=config.norm == "pre",
        activation=getattr(library().specs.Activation, ACTIVATIONS[config.activation]),
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


def names(symbols: Sequence[int]) -> list[str]:
    return [str(symbol) for symbol in symbols]
