"""torch.nn's Transformer layers with the same weights give the same outputs and gradients."""

from collections.abc import Iterator
from typing import Any, Literal

import pytest
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.decoders import transformer as decoder
from regard.encoders import transformer as encoder
from regard.heads import vocabulary
from regard.layers.embedding import Embedding
from regard.layers.transformer import Config
from regard.types import Sequence

B, S, T, HEADS, DIM, INNER, LAYERS, SYMBOLS = 2, 11, 7, 3, 15, 13, 2, 17

NORMS = pytest.mark.parametrize("norm", ["post", "pre"])
ACTIVATIONS = pytest.mark.parametrize("activation", ["relu", "gelu"])
PADDED = pytest.mark.parametrize("padded", [False, True])

Norm = Literal["post", "pre"]
Activation = Literal["relu", "gelu"]


def settings(norm: Norm, activation: Activation) -> Config:
    return Config(
        layers=LAYERS,
        heads=HEADS,
        feedforward=INNER,
        activation=activation,
        norm=norm,
        dropout=0.0,
        position="none",
    )


def options(norm: Norm, activation: Activation) -> dict[str, Any]:
    """The same for a layer of torch.nn."""
    return {
        "d_model": DIM,
        "nhead": HEADS,
        "dim_feedforward": INNER,
        "activation": activation,
        "norm_first": norm == "pre",
        "dropout": 0.0,
        "batch_first": True,
    }


def final(norm: Norm) -> nn.LayerNorm | None:
    return nn.LayerNorm(DIM) if norm == "pre" else None


def their_encoder(norm: Norm, activation: Activation) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(**options(norm, activation))
    return nn.TransformerEncoder(layer, LAYERS, final(norm), enable_nested_tensor=False)


def parameters(theirs: nn.Module, ours: nn.Module, *, cross: bool) -> Iterator[tuple[Tensor, ...]]:
    """Pairs (theirs, ours) of all parameters; a part of ours where theirs is one of several."""
    theirs_of, ours_of = dict(theirs.named_parameters()), dict(ours.named_parameters())
    last = "norm3" if cross else "norm2"
    names = {
        "self_attn.in_proj_": "attention.query_key_value.",
        "self_attn.out_proj.": "attention.output.",
        "norm1.": "around_attention.norm.",
        "linear1.": "feedforward.up.",
        "linear2.": "feedforward.down.",
        f"{last}.": "around_feedforward.norm.",
    }
    if cross:
        names |= {"multihead_attn.out_proj.": "cross.output.", "norm2.": "around_cross.norm."}
    for kind in ("weight", "bias"):
        for n in range(LAYERS):
            for their, our in names.items():
                yield theirs_of[f"layers.{n}.{their}{kind}"], ours_of[f"blocks.{n}.{our}{kind}"]
            if cross:
                packed = theirs_of[f"layers.{n}.multihead_attn.in_proj_{kind}"]
                apart = [
                    ours_of[f"blocks.{n}.cross.{our}.{kind}"] for our in ("query", "key_value")
                ]
                yield packed, *apart
        if "norm.weight" in theirs_of:
            yield theirs_of[f"norm.{kind}"], ours_of[f"norm.{kind}"]


def same_weights(theirs: nn.Module, ours: nn.Module, *, cross: bool) -> list[tuple[Tensor, ...]]:
    """Draw all of theirs, biases and norms too, and copy them; gives the pairs."""
    pairs, copied = list(parameters(theirs, ours, cross=cross)), 0
    with torch.no_grad():
        for their, *our in pairs:
            their.normal_(std=0.5)
            for part, values in zip(our, their.split([len(p) for p in our]), strict=True):
                part.copy_(values)
                copied += part.numel()
    table = sum(p.numel() for name, p in ours.named_parameters() if "embedding" in name)
    assert copied == sum(p.numel() for p in theirs.parameters())
    assert copied == sum(p.numel() for p in ours.parameters()) - table
    return pairs


def assert_same(
    found: Tensor,
    expected: Tensor,
    inputs: list[Tensor],
    pairs: list[tuple[Tensor, ...]],
    mask: Bool[Tensor, "B _"],
) -> None:
    """Values where the mask is True, and gradients of them by the inputs and all parameters."""
    close(found[mask], expected[mask])
    weights = torch.randn_like(expected) * mask[..., None]
    by_theirs = torch.autograd.grad(expected, [*inputs, *(their for their, *_ in pairs)], weights)
    ours = [[x] for x in inputs] + [our for _, *our in pairs]
    by_ours = iter(torch.autograd.grad(found, [part for group in ours for part in group], weights))
    for group, grad in zip(ours, by_theirs, strict=True):
        own = torch.cat([next(by_ours) for _ in group])
        torch.testing.assert_close(own, grad, rtol=1e-4, atol=1e-4)
        assert grad.count_nonzero() > 0


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def padding(length: int, padded: bool) -> Bool[Tensor, "B {length}"]:
    mask = torch.ones(B, length, dtype=torch.bool)
    mask[1, length - 4 :] = not padded
    return mask


def states(length: int) -> Float[Tensor, "B {length} D"]:
    return torch.randn(B, length, DIM, requires_grad=True)


@NORMS
@ACTIVATIONS
@PADDED
def test_the_encoder(norm: Norm, activation: Activation, padded: bool) -> None:
    theirs = their_encoder(norm, activation)
    ours = encoder.Encoder(settings(norm, activation), DIM)
    pairs = same_weights(theirs, ours, cross=False)
    x, mask = states(S), padding(S, padded)
    expected = theirs(x, src_key_padding_mask=~mask)
    assert_same(ours(Sequence(x, mask)).states, expected, [x], pairs, mask)


@NORMS
@ACTIVATIONS
@PADDED
def test_the_decoder(norm: Norm, activation: Activation, padded: bool) -> None:
    theirs = nn.TransformerDecoder(
        nn.TransformerDecoderLayer(**options(norm, activation)), LAYERS, final(norm)
    )
    embedding = Embedding(SYMBOLS, DIM)
    ours = decoder.Decoder(settings(norm, activation), DIM, embedding, memory=True)
    pairs = same_weights(theirs, ours, cross=True)
    tokens, memory, mask = torch.randint(SYMBOLS, (B, T)), states(S), padding(S, padded)
    expected = theirs(
        embedding(tokens),
        memory,
        tgt_mask=torch.ones(T, T, dtype=torch.bool).triu(1),  # there, True is hidden
        memory_key_padding_mask=~mask,
    )
    found, _ = ours(tokens, ours.start(Sequence(memory, mask), B))
    assert_same(found, expected, [memory, embedding.weight], pairs, padding(T, False))


@NORMS
def test_a_decoder_without_a_memory_is_a_causal_encoder(norm: Norm) -> None:
    """GPT's block: torch.nn has no class of its own for it."""
    theirs = their_encoder(norm, "gelu")
    embedding = Embedding(SYMBOLS, DIM)
    ours = decoder.Decoder(settings(norm, "gelu"), DIM, embedding, memory=False)
    same_weights(theirs, ours, cross=False)
    tokens = torch.randint(SYMBOLS, (B, T))
    hidden = torch.ones(T, T, dtype=torch.bool).triu(1)
    found, _ = ours(tokens, ours.start(None, B))
    close(found, theirs(embedding(tokens), mask=hidden))


def test_the_loss_of_tied_logits() -> None:
    """−log p with label smoothing, as torch.nn.functional has it."""
    table = nn.Parameter(torch.randn(SYMBOLS, DIM))
    head = vocabulary.Head(vocabulary.Config(bias=True), DIM, SYMBOLS, table)
    assert head.bias is not None
    nn.init.normal_(head.bias)
    hidden, mask = states(T), padding(T, True)
    targets = torch.randint(SYMBOLS, (B, T))
    logits = hidden @ table.T + head.bias
    close(head.logits(hidden), logits)
    terms = head.loss(hidden, targets, mask)
    for name, smoothing in (("smoothed", 0.1), ("nll", 0.0)):
        expected = nn.functional.cross_entropy(
            logits[mask], targets[mask], reduction="sum", label_smoothing=smoothing
        )
        close(terms[name].sum, expected)
        assert terms[name].count == int(mask.sum())
    assert terms["smoothed"].weight == 1.0 and terms["nll"].weight == 0.0
