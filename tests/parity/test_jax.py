"""The same weights by torch and by pure functions in JAX say the same."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard import front, model
from regard.encoders import rnn
from regard.errors import UserError
from regard.heads import ctc, labels, masked, vocabulary
from regard.inputs import characters, tokens
from regard.layers import transformer
from regard.recipe.parts import Part
from regard.types import Batch, Sizes

pytest.importorskip("jax", reason="JAX is not installed (regard[jax])")

import jax
import jax.numpy as jnp

from regard.interop import jax as pure
from regard.interop.jax_layers import part

WORDS, DIM = 31, 24


def array(tensor: torch.Tensor) -> jnp.ndarray:
    return jnp.asarray(tensor.numpy())


SHAPES: dict[str, dict[str, Any]] = {
    "the paper's": {},
    "pre-norm, gelu, learned": {"norm": "pre", "activation": "gelu", "position": "learned"},
    "Llama's": {
        "norm": "pre",
        "normalisation": "rms",
        "activation": "swiglu",
        "bias": False,
        "position": "rotary",
    },
    "Qwen2's, grouped": {
        "norm": "pre",
        "normalisation": "rms",
        "activation": "swiglu",
        "bias": False,
        "query_key_value_bias": True,
        "key_value_heads": 1,
        "position": "rotary",
        "rotary_layout": "halves",
        "rotary_base": 500.0,
        "epsilon": 1e-3,
    },
    "GPT-NeoX's": {
        "norm": "pre",
        "activation": "gelu_tanh",
        "parallel": True,
        "position": "rotary",
        "rotary_layout": "halves",
        "rotary_fraction": 0.5,
    },
    "BERT's": {"activation": "gelu", "position": "learned", "embedding_norm": True},
    "Marian's": {"layout": "halves", "activation": "silu"},
    "one-hot": {"position": "one_hot", "limit": 24},
    "no positions": {"position": "none"},
}


def built(settings: dict[str, Any], *, reads: bool) -> tuple[model.Config, model.Model]:
    """A model of two blocks, with weights that no initialisation has left at 0 or 1."""
    part = Part(
        "transformer", transformer.Config(layers=2, heads=3, feedforward=40, **settings), None
    )
    config = model.Config(
        dim=DIM,
        tie="all" if reads else "output",
        input=Part("tokens", tokens.Config(), None) if reads else None,
        encoder=part if reads else None,
        decoder=part,
        head=Part("vocabulary", vocabulary.Config(bias=True), None),
    )
    size = {"tokens": WORDS, "outputs": WORDS}
    fields = {"source": size, "target": size} if reads else {"target": size}
    made = model.build(config, Sizes(fields, "source" if reads else "", "target", shared=True))
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return config, made.eval()


def sentences() -> tuple[torch.Tensor, torch.Tensor]:
    """Three sources of 7, 5 and 2 tokens."""
    mask = torch.arange(7) < torch.tensor([[7], [5], [2]])
    return torch.randint(4, WORDS, (3, 7)) * mask, mask


@pytest.mark.parametrize("settings", SHAPES.values(), ids=SHAPES.keys())
@torch.inference_mode()
def test_logits_of_a_translation_are_those_of_torch(settings: dict[str, Any]):
    config, made = built(settings, reads=True)
    weights, shape = pure.weights_of(made), pure.shape_of(config)
    source, mask = sentences()
    target = torch.randint(4, WORDS, (3, 11))
    batch = Batch(tensors={"source": source, "source_mask": mask}, ids=(0, 1, 2), targets=0)
    hidden, _ = made.decode(target, made.start(batch))

    memory = pure.encoder(weights, shape, array(source), array(mask))
    seen, room = pure.project(weights, shape, memory), pure.empty(shape, 3, 11)
    found, cache = pure.decoder(weights, shape, array(target), room, 0, seen, array(mask))
    theirs = np.asarray(pure.logits(weights, shape, found))
    np.testing.assert_allclose(theirs, made.head.logits(hidden).numpy(), rtol=0, atol=1e-5)

    # One token after the other is the same computation.
    cache = pure.empty(shape, 3, 11)
    for place in range(11):
        step = array(target[:, place : place + 1])
        found, cache = pure.decoder(weights, shape, step, cache, place, seen, array(mask))
        last = np.asarray(pure.logits(weights, shape, found))[:, 0]
        np.testing.assert_allclose(last, theirs[:, place], rtol=0, atol=1e-5)


def filler(*, segments: int, **head: Any) -> tuple[model.Config, model.Model]:
    """BERT with another epsilon in its head than in its encoder, as no default has it."""
    small: dict[str, Any] = {"layers": 2, "heads": 3, "feedforward": 40, "epsilon": 1e-3}
    part = transformer.Config(**small, **SHAPES["BERT's"])
    config = model.Config(
        dim=DIM,
        scale=False,
        input=Part("tokens", tokens.Config(segments=segments), None),
        encoder=Part("transformer", part, None),
        head=Part("masked", masked.Config(**head), None),
    )
    size = {"tokens": WORDS, "outputs": WORDS}
    made = model.build(config, Sizes({"source": size}, "source", "source", shared=True))
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return config, made.eval()


@pytest.mark.parametrize("segments", [0, 2])
@pytest.mark.parametrize(
    "head", [{"epsilon": 1e-2}, {}, {"transform": False}, {"bias": False}], ids=str
)
@torch.inference_mode()
def test_logits_of_hidden_tokens_are_those_of_torch(segments: int, head: dict[str, Any]):
    """A text by itself, and a pair whose third segment the model does not have."""
    config, made = filler(segments=segments, **head)
    weights, shape = pure.weights_of(made), pure.shape_of(config)
    source, mask = sentences()
    for second in (None, torch.tensor([0, 0, 0, 1, 1, 2, 2]).expand(3, -1)):
        tensors = {"source": source, "source_mask": mask}
        tensors |= {} if second is None else {"source_segments": second}
        memory = made.encode(Batch(tensors=tensors, ids=(0, 1, 2), targets=0))
        assert memory is not None
        given = None if second is None else array(second)
        found = pure.encoder(weights, shape, array(source), array(mask), given)
        theirs = np.asarray(pure.logits(weights, shape, found))
        expected = made.head.logits(memory.states).numpy()
        np.testing.assert_allclose(theirs, expected, rtol=0, atol=1e-5)


@torch.inference_mode()
def test_every_function_is_compiled_by_jit():
    """The same numbers, with shapes that are fixed and all else traced."""
    config, made = built(SHAPES["BERT's"], reads=True)
    weights, shape = pure.weights_of(made), pure.shape_of(config)
    source, mask = map(array, sentences())
    target = array(torch.randint(4, WORDS, (3, 11)))
    assert shape.encoder is not None and shape.decoder is not None

    def close(fast: Any, slow: Any, *given: Any, **fixed: Any) -> Any:
        found = slow(*given, **fixed)
        for one, other in zip(*map(jax.tree.leaves, (fast(*given, **fixed), found)), strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)
        return found

    encode = jax.jit(pure.encoder, static_argnames="shape")
    memory = close(encode, pure.encoder, weights, shape, source, mask)
    block = jax.jit(pure.encoder_block, static_argnames="config")
    first = part(weights, "encoder.blocks.0")
    close(block, pure.encoder_block, first, shape.encoder, memory, mask)
    seen, room = pure.project(weights, shape, memory), pure.empty(shape, 3, 11)
    assert seen is not None
    decode = jax.jit(pure.decoder, static_argnames="shape")
    hidden, _ = close(decode, pure.decoder, weights, shape, target, room, 0, seen, mask)
    block = jax.jit(pure.decoder_block, static_argnames="config")
    first = part(weights, "decoder.blocks.0")
    given = (first, shape.decoder, hidden, room[0], 0, seen[0], mask)
    close(block, pure.decoder_block, *given)
    project = jax.jit(pure.logits, static_argnames="shape")
    close(project, pure.logits, weights, shape, hidden)


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "marian"])
@torch.inference_mode()
def test_an_imported_run_is_read(family: str, tmp_path: Path):
    """Logits of the transformers library's own model, through the run that is made of it."""
    pytest.importorskip("transformers")
    from regard.interop import importing
    from tests.parity.huggingface_models import FAMILIES, drawn, saved

    theirs, tokenizer = FAMILIES[family]()
    saved(drawn(theirs, 0.2), tokenizer, tmp_path / "theirs")
    theirs = type(theirs).from_pretrained(tmp_path / "theirs").eval()  # sinusoids are not drawn
    importing.run(tmp_path / "theirs", tmp_path / "run")
    weights, shape = pure.load(tmp_path / "run")
    symbols = theirs.config.vocab_size
    source = torch.randint(2, symbols, (3, 13))
    found = pure.encoder(weights, shape, array(source), jnp.ones(source.shape, bool))
    given = {"input_ids": source}
    if family == "marian":
        target = given["decoder_input_ids"] = torch.randint(2, symbols, (3, 11))
        seen, room = pure.project(weights, shape, found), pure.empty(shape, 3, 11)
        found, _ = pure.decoder(weights, shape, array(target), room, 0, seen)
    said = np.asarray(pure.logits(weights, shape, found))
    np.testing.assert_allclose(said, theirs(**given).logits.numpy(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("reads", [True, False], ids=["translation", "language model"])
@torch.inference_mode()
def test_greedy_search_says_what_torch_says(reads: bool):
    config, made = built({"norm": "pre", "position": "rotary"}, reads=reads)
    weights, shape = pure.weights_of(made), pure.shape_of(config)
    source, mask = sentences()
    tensors = {"source": source, "source_mask": mask} if reads else {}
    state = made.start(Batch(tensors=tensors, ids=(0, 1, 2), targets=0))
    length, end, barred = 13, 2, (0, 1, 3)
    prompt = torch.full((3, 1), 1)

    said = []
    tokens_, ended = prompt, torch.zeros(3, dtype=torch.bool)
    for _ in range(length):
        scores, state = made.step(tokens_[:, -1:], state)
        scores[:, list(barred)] = -torch.inf
        token = torch.where(ended, end, scores.argmax(-1))
        ended |= token == end
        said.append(token)
        tokens_ = token[:, None]

    memory = pure.encoder(weights, shape, array(source), array(mask)) if reads else None
    found = pure.greedy(
        weights,
        shape,
        array(prompt),
        length,
        end,
        barred,
        memory,
        array(mask) if reads else None,
    )
    assert np.asarray(found).tolist() == torch.stack(said, 1).tolist()


def test_a_run_is_read_with_its_weights(tmp_path: Path):
    lines = ["a b c d e f", "c b a d f e", "f f a b b c"] * 4
    (tmp_path / "text.txt").write_text("".join(f"{line}\n" for line in lines))
    decoder = {"kind": "transformer", "layers": 1, "heads": 2, "feedforward": 16, "dropout": 0.0}
    table = {
        "task": "language_model",
        "unit": "line",
        "data": {"train": [str(tmp_path / "text.txt")], "validation": [str(tmp_path / "text.txt")]},
        "tokenizer": {"kind": "word"},
        "model": {"dim": 16, "decoder": decoder},
        "search": {"kind": "greedy"},
        "output": {"length": 6},
        "train": {"updates": 20, "validate_every": 0, "device": "cpu", "threads": 1},
    }
    predictor = front.train(table, to=tmp_path / "run")
    by = predictor.task.fields["target"].tokenizer
    weights, shape = pure.load(tmp_path / "run")
    prompt = jnp.array([[by.start, *by.encode(["a b"])[0]]])
    found = pure.greedy(weights, shape, prompt, 6, by.end, by.unwritten)
    said = np.asarray(found)[0].tolist()
    said = said[: said.index(by.end)] if by.end in said else said
    [expected] = predictor.predict(["a b"])
    assert by.decode(said).strip() == expected.strip()


@pytest.mark.parametrize(
    ("key", "part", "message"),
    [
        ("encoder", Part("rnn", rnn.Config(), None), "'transformer': model.encoder.kind is 'rnn'"),
        ("head", Part("ctc", ctc.Config(), None), "or 'masked': model.head.kind is 'ctc'"),
        ("input", Part("characters", characters.Config(), None), "model.input.kind is 'char"),
        ("heads", {"next": Part("labels", labels.Config(), None)}, "model.heads.next.kind is 'la"),
        ("head", None, "there is no model.head"),
    ],
)
def test_what_is_not_there_is_refused(key: str, part: Any, message: str):
    config, _ = built({}, reads=True)
    with pytest.raises(UserError, match=message):
        pure.shape_of(replace(config, **{key: part}))
