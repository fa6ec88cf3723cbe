"""The recurrent encoder and decoder, and attention without parameters."""

from dataclasses import replace
from math import exp, log, tanh
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from regard import front, model
from regard.decoders import rnn as decoding
from regard.decoders.rnn import Attention, Decoder, Memory, summarise
from regard.decoding.translation import align, collate, cross_attention
from regard.encoders import attention, rnn as encoding
from regard.errors import RecipeError
from regard.heads import vocabulary
from regard.inputs import tokens as symbols
from regard.layers.embedding import Embedding
from regard.layers.probe import watch
from regard.recipe.config import recipe
from regard.recipe.parts import Part
from regard.search import Request, beam, greedy, sample
from regard.types import Batch, DecoderState, Sequence
from tests import corpus
from tests.field_sizes import texts

B, T, S, D, V = 3, 5, 7, 6, 11
MASK = torch.arange(S) < torch.tensor([7, 2, 4])[:, None]
VARIANTS: dict[str, dict[str, Any]] = {
    "fixed": {"attention": "none", "cell": "gru"},
    "fixed, deep": {"attention": "none", "layers": 2, "hidden": 4, "summary": "last"},
    "multiplicative": {"layers": 2, "residual": True, "summary": "mean"},
    "multiplicative, before": {"order": "before", "cell": "rnn_relu"},
    "multiplicative, fed": {"input_feeding": True, "hidden": 4, "layers": 2},
    "additive": {"attention": "additive", "hidden": 4, "cell": "rnn_tanh"},
    "additive, before": {"attention": "additive", "order": "before", "layers": 2},
    "additive, fed": {"attention": "additive", "input_feeding": True, "cell": "gru"},
}
ATTENTIVE = [name for name, options in VARIANTS.items() if options.get("attention") != "none"]


def decoder_of(name: str | None, **options: Any) -> Decoder:
    """One of the variants, or a language model; without dropout."""
    chosen = VARIANTS[name] if name else {"layers": 2}
    config = decoding.Config(**{"dropout": 0.0, **chosen, **options})
    return Decoder(config, D, Embedding(V, D), memory=name is not None)


def a_memory() -> Sequence:
    return Sequence(torch.randn(B, S, D), MASK)


def some_tokens(rows: int = B, length: int = T) -> Tensor:
    return torch.randint(V, (rows, length))


def close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


# The decoder


@pytest.mark.parametrize("name", [None, *VARIANTS])
def test_step_by_step_is_in_parallel(name: str | None) -> None:
    decoder, read = decoder_of(name), some_tokens()
    memory = a_memory() if name else None
    whole, end = decoder(read, decoder.start(memory, B))
    assert whole.shape == (B, T, D)
    for sizes in ([1] * T, [2, 3], [4, 1]):
        state, parts = decoder.start(memory, B), []
        for part in read.split(sizes, 1):
            hidden, state = decoder(part, state)
            parts.append(hidden)
        close(torch.cat(parts, 1), whole)
        for layer, last in zip(state.layers, end.layers, strict=True):
            for one, other in zip(layer, last, strict=True):
                close(one, other)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_hypothesis_does_not_see_the_others(name: str) -> None:
    """Hypotheses that were repeated, chosen and thinned out go on as each does alone."""
    decoder, memory = decoder_of(name), a_memory()
    first, second = some_tokens(B, 2), some_tokens(4, 3)
    state = decoder(first, decoder.start(memory, B))[1]
    wide = state.expand(2)
    assert issubclass(decoding.State, DecoderState)
    assert wide.rows == 2 * B
    assert wide.memory is state.memory, "the memory is not copied"
    other = some_tokens(2 * B, 2)
    wide = decoder(other, wide)[1]
    wide = wide.select(torch.tensor([1, 0, 2, 2, 5, 4]))
    kept = wide.keep(torch.tensor([2, 0]))
    assert (kept.rows, kept.sentences) == (4, 2)
    hidden, _ = decoder(second, kept)
    for row, (sentence, hypothesis) in enumerate([(2, 5), (2, 4), (0, 1), (0, 0)]):
        alone = Sequence(memory.states[sentence : sentence + 1], MASK[sentence : sentence + 1])
        path = torch.cat([first[sentence], other[hypothesis], second[row]])[None]
        close(hidden[row], decoder(path, decoder.start(alone, 1))[0][0, 4:])


@pytest.mark.parametrize("name", VARIANTS)
def test_padding_of_the_memory_changes_nothing(name: str) -> None:
    decoder, memory, read = decoder_of(name), a_memory(), some_tokens()
    expected, _ = decoder(read, decoder.start(memory, B))
    wild = torch.where(MASK[..., None], memory.states, 1e4)
    longer = torch.cat([wild, torch.full((B, 2, D), -1e4)], 1)
    mask = torch.cat([MASK, torch.zeros(B, 2, dtype=torch.bool)], 1)
    close(decoder(read, decoder.start(Sequence(longer, mask), B))[0], expected)


@pytest.mark.parametrize("name", [None, *VARIANTS])
def test_what_is_read_later_changes_nothing(name: str | None) -> None:
    decoder, read = decoder_of(name), some_tokens()
    state = decoder.start(a_memory() if name else None, B)
    changed = read.clone()
    changed[:, 3] = (read[:, 3] + 1) % V
    before, after = decoder(read, state)[0], decoder(changed, state)[0]
    assert torch.equal(before[:, :3], after[:, :3])
    assert (before[:, 3:] != after[:, 3:]).any(-1).all()


@pytest.mark.parametrize("name", VARIANTS)
def test_every_parameter_and_the_memory_learn(name: str) -> None:
    decoder, memory = decoder_of(name), a_memory()
    memory.states.requires_grad_()
    hidden, _ = decoder(some_tokens(), decoder.start(memory, B))
    hidden.square().sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in decoder.parameters())
    assert memory.states.grad is not None
    assert not memory.states.grad[~MASK].any()
    reached = memory.states.grad.abs().sum(-1) > 0
    if decoder.attention is not None or decoder.config.summary == "mean":
        assert torch.equal(reached, MASK)
    else:
        assert reached.sum() == (2 if decoder.config.summary == "ends" else 1) * B


def test_the_summary_counts_real_positions_alone() -> None:
    states = torch.tensor([[[1.0], [2.0], [6.0], [90.0]], [[4.0], [90.0], [90.0], [90.0]]])
    memory = Sequence(states, torch.tensor([[True] * 3 + [False], [True] + [False] * 3]))
    assert summarise(memory, "last").tolist() == [[6.0], [4.0]]
    assert summarise(memory, "ends").tolist() == [[3.5], [4.0]]
    assert summarise(memory, "mean").tolist() == [[3.0], [4.0]]
    assert summarise(memory, "max").tolist() == [[6.0], [4.0]]


def test_scores_by_hand() -> None:
    """One query 2, memory (1, −1, 3), the last of which is padding; all matrices are numbers."""
    states = torch.tensor([[[1.0], [-1.0], [3.0]]])
    mask = torch.tensor([[[True, True, False]]])
    query = torch.tensor([[[2.0]]])

    multiplicative = Attention(1, 1, additive=False)
    torch.nn.init.constant_(multiplicative.key.weight, 0.25)
    memory = Memory(states[:, 0], multiplicative.key(states), states, mask)
    high, low = exp(0.5), exp(-0.5)
    expected = (high - low) / (high + low)
    assert multiplicative(query, memory).item() == pytest.approx(expected)

    additive = Attention(1, 1, additive=True)
    assert additive.query is not None and additive.score is not None
    for linear, value in ((additive.key, 0.5), (additive.query, -0.25), (additive.score, 3.0)):
        torch.nn.init.constant_(linear.weight, value)
    torch.nn.init.constant_(additive.query.bias, 0.1)
    memory = Memory(states[:, 0], additive.key(states), states, mask)
    high, low = exp(3 * tanh(0.5 - 0.4)), exp(3 * tanh(-0.5 - 0.4))
    expected = (high - low) / (high + low)
    assert additive(query, memory).item() == pytest.approx(expected)


def test_what_is_handed_on() -> None:
    decoder, read = decoder_of(None), some_tokens(B, 2 * T)
    whole, _ = decoder(read, decoder.start(None, B))
    _, state = decoder(read[:, :T], decoder.start(None, B))
    carry = decoder.carry(state)
    assert carry.keys() == {"layer.0.state", "layer.0.cell", "layer.1.state", "layer.1.cell"}
    assert not any(value.requires_grad for value in carry.values())
    rest, _ = decoder(read[:, T:], decoder.resume(decoder.start(None, B), carry))
    close(rest, whole[:, T:])
    again, _ = decoder(read[:, T:], state.detach())
    assert torch.equal(again, rest)
    again.sum().backward()
    unread = set(read[:, :T].flatten().tolist()) - set(read[:, T:].flatten().tolist())
    assert unread
    grad = decoder.embedding.weight.grad
    assert grad is not None and not grad[list(unread)].any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attention": "none", "input_feeding": True}, "input_feeding: there is nothing to feed"),
        ({"order": "before", "input_feeding": True}, "input_feeding: it needs order = 'after'"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        decoding.Config(**options)


def test_nothing_can_be_fed_without_a_memory() -> None:
    with pytest.raises(RecipeError, match="input_feeding: a language model has no memory"):
        Decoder(decoding.Config(input_feeding=True), D, Embedding(V, D), memory=False)


# Looking into it


def whole_model(encoder: Part, decoder: Part) -> model.Model:
    config = model.Config(
        dim=D,
        input=Part("tokens", symbols.Config()),
        encoder=encoder,
        decoder=decoder,
        head=Part("vocabulary", vocabulary.Config()),
    )
    return model.build(config, texts(V, V, shared=True)).eval()


def recurrent_model(name: str) -> model.Model:
    return whole_model(
        Part("rnn", encoding.Config()), Part("rnn", decoding.Config(**VARIANTS[name]))
    )


def a_batch() -> Batch:
    sources, targets = [[4, 5, 6, 7], [8, 9], [5]], [[4, 5], [6, 7, 8], [9, 4, 10, 5]]
    return collate(sources, targets)


@pytest.mark.parametrize("name", ATTENTIVE)
def test_weights_are_seen_where_they_are_looked_for(name: str) -> None:
    net, batch = recurrent_model(name), a_batch()
    seen = cross_attention(net, batch)
    assert list(seen) == ["decoder.cross.weights"]
    weights = seen["decoder.cross.weights"]
    size, length = batch["target_in"].shape
    assert weights.shape == (size, 1, length, batch["source"].shape[1])
    close(weights.sum(-1), torch.ones(size, 1, length))
    assert not weights[~batch["source_mask"][:, None, None].expand_as(weights)].any()
    links = align(net, batch)
    assert [len(row) for row in links] == [3, 4, 5]


@pytest.mark.parametrize("name", ATTENTIVE)
def test_hypotheses_are_folded_into_their_sentences_weights(name: str) -> None:
    decoder, memory = decoder_of(name), a_memory()
    read = some_tokens(2 * B)

    def weights_of(read: Tensor, state: decoding.State) -> Tensor:
        seen: dict[str, Tensor] = {}
        with watch(lambda name, value: seen.setdefault(name, value)):
            decoder(read, state)
        return seen["cross.weights"]

    both = weights_of(read, decoder.start(memory, B).expand(2)).view(B, 2, T, S)
    for hypothesis in range(2):
        alone = weights_of(read.view(B, 2, T)[:, hypothesis], decoder.start(memory, B))
        close(both[:, hypothesis], alone[:, 0])


@pytest.mark.parametrize("name", VARIANTS)
def test_watching_changes_nothing(name: str) -> None:
    net, batch = recurrent_model(name), a_batch()
    expected, _ = net.decode(batch["target_in"], net.start(batch))
    names: set[str] = set()

    def watcher(name: str, value: Tensor) -> Tensor:
        names.add(name)
        return value

    with watch(watcher):
        hidden, _ = net.decode(batch["target_in"], net.start(batch))
    real = batch["target_mask"]
    close(hidden[real], expected[real])
    gates = "gates.update" if VARIANTS[name].get("cell") == "gru" else "state"
    assert {
        "encoder.layer.0.forward.gates.forget",
        "encoder.layer.1.backward.cell",
        "encoder.layer.1.backward.step.2.gates.input",
        "decoder.input",
        f"decoder.layer.0.{gates}",
        f"decoder.layer.0.step.2.{gates}",
    } <= names


@pytest.mark.parametrize("name", ["multiplicative", "multiplicative, fed", "additive, before"])
def test_weights_can_be_changed(name: str) -> None:
    """A decoder that is made to look at the first symbol alone sees no other."""
    net, batch = recurrent_model(name), a_batch()
    state = net.start(batch)

    def first(name: str, value: Tensor) -> Tensor:
        if "cross" not in name or not name.endswith("weights"):
            return value
        return torch.nn.functional.one_hot(torch.zeros_like(value[..., 0]).long(), value.shape[-1])

    def read(values: Tensor) -> Tensor:
        assert isinstance(state, decoding.State) and state.memory is not None
        changed = replace(state, memory=state.memory._replace(values=values))
        with watch(lambda name, value: first(name, value).to(value.dtype)):
            return net.decode(batch["target_in"], changed)[0]

    values = net.encode(batch)
    assert values is not None
    other = values.states.clone()
    other[:, 1:] += 1
    assert torch.equal(read(values.states), read(other))
    other[:, 0] += 1
    assert not torch.equal(read(values.states), read(other))


# The encoders


@pytest.mark.parametrize(
    ("options", "projected"),
    [
        ({"bidirectional": False}, False),
        ({"bidirectional": False, "hidden": 5}, True),
        ({"bidirectional": True, "hidden": D // 2}, False),
        ({"bidirectional": True, "residual": True, "layers": 3}, True),
    ],
)
def test_the_encoders_output_is_as_wide_as_the_model(
    options: dict[str, Any], projected: bool
) -> None:
    encoder = encoding.Encoder(encoding.Config(**options), D).eval()
    assert (sum(1 for name, _ in encoder.named_parameters() if "output" in name) > 0) is projected
    source = a_memory()
    memory = encoder(source)
    assert memory.states.shape == (B, S, D)
    assert memory.mask is source.mask


@pytest.mark.parametrize("both", [False, True])
def test_the_encoder_reads_in_one_direction_or_both(both: bool) -> None:
    encoder = encoding.Encoder(encoding.Config(bidirectional=both), D).eval()
    source = a_memory()
    changed = source.states.clone()
    changed[:, 1] += 1
    moved = encoder(source).states != encoder(Sequence(changed, MASK)).states
    expected = MASK.clone()
    expected[:, 0] = both
    assert torch.equal(moved.any(-1) & MASK, expected)


@pytest.mark.parametrize("options", [{}, {"bidirectional": False, "cell": "gru", "residual": True}])
def test_padding_of_the_source_changes_nothing(options: dict[str, Any]) -> None:
    encoder = encoding.Encoder(encoding.Config(**options), D).eval()
    source = a_memory()
    together = encoder(source).states
    for row, length in enumerate(MASK.sum(1).tolist()):
        alone = Sequence(source.states[row : row + 1, :length], MASK[row : row + 1, :length])
        close(together[row, :length], encoder(alone).states[0])


def test_residual_layers_add_their_input() -> None:
    """A second layer without weights gives back what it was given."""
    plain, residual = (
        encoding.Encoder(
            encoding.Config(cell="rnn_tanh", bidirectional=False, residual=residual, dropout=0.0), D
        )
        for residual in (False, True)
    )
    residual.load_state_dict(plain.state_dict())
    for encoder in (plain, residual):
        for parameter in encoder.layers[1].parameters():
            torch.nn.init.zeros_(parameter)
    source = a_memory()
    first: Any = plain.layers[0]
    assert not plain(source).states.any()
    close(residual(source).states, first(source.states, None))


def test_dropout_is_for_training_alone() -> None:
    source, read = a_memory(), some_tokens()
    encoder = encoding.Encoder(encoding.Config(dropout=0.5), D)
    assert not torch.equal(encoder(source).states, encoder(source).states)
    encoder.eval()
    assert torch.equal(encoder(source).states, encoder(source).states)
    for name in VARIANTS:
        decoder = decoder_of(name, dropout=0.5)
        state = decoder.start(source, B)
        assert not torch.equal(decoder(read, state)[0], decoder(read, state)[0])
        decoder.eval()
        assert torch.equal(decoder(read, state)[0], decoder(read, state)[0])


def test_attention_without_parameters_by_hand() -> None:
    """x = (log 2, 0): α₁ = softmax(log² 2, 0), α₂ = (½, ½). The third position is padding."""
    encoder = attention.Encoder(attention.Config(), 1)
    assert not list(encoder.parameters())
    source = Sequence(torch.tensor([[[log(2)], [0.0], [9.0]]]), torch.tensor([[True, True, False]]))
    high = exp(log(2) ** 2)
    expected = [log(2) * high / (high + 1), log(2) / 2]
    assert encoder(source).states[0, :2, 0].tolist() == pytest.approx(expected)


@pytest.mark.parametrize("scale", [False, True])
def test_attention_without_parameters_can_be_watched(scale: bool) -> None:
    encoder = attention.Encoder(attention.Config(layers=2, scale=scale), D)
    source = a_memory()
    seen: dict[str, Tensor] = {}
    with watch(lambda name, value: seen.setdefault(name, value)):
        watched = encoder(source).states
    close(watched[MASK], encoder(source).states[MASK])
    weights = seen["block.0.attention.weights"]
    assert weights.shape == (B, 1, S, S)
    scores = source.states @ source.states.transpose(1, 2) / (D**0.5 if scale else 1)
    expected = scores.masked_fill(~MASK[:, None], -torch.inf).softmax(-1)
    close(weights[:, 0], expected)
    assert "block.1.attention.weights" in seen


# All together


@pytest.mark.parametrize("name", VARIANTS)
def test_searches_run(name: str) -> None:
    net = recurrent_model(name)
    batch = collate([[4, 5, 6], [7], [8, 9, 10, 4]], [[]] * 3)
    request = Request(1, 2, [6, 4, 5], forbidden=(0, 1, 3), numbers=(0, 1, 2))
    with torch.inference_mode():
        walked = greedy.search(net.step, net.start(batch), request, greedy.Config())
        narrow = beam.search(net.step, net.start(batch), request, beam.Config(beams=1))
        wide = beam.search(net.step, net.start(batch), request, beam.Config(beams=4, nbest=2))
        drawn = sample.search(net.step, net.start(batch), request, sample.Config())
        assert [h[0].tokens for h in walked] == [h[0].tokens for h in narrow]
        assert all(len(found) == 2 for found in wide)
        for found in (*wide, *drawn):
            assert all(h.log_probs for h in found)
        # The score of what the beam has found is what the decoder gives it, read at once.
        for row, found in enumerate(wide):
            best = found[0]
            alone = collate([[[4, 5, 6], [7], [8, 9, 10, 4]][row]], [list(best.tokens)])
            hidden, _ = net.decode(alone["target_in"], net.start(alone))
            logits = net.head.logits(hidden)[0].index_fill(-1, torch.tensor([0, 1, 3]), -torch.inf)
            chances = logits.log_softmax(-1).gather(1, alone["target_out"][0, :, None])[:, 0]
            expected = chances[: len(best.log_probs)].tolist()
            assert list(best.log_probs) == pytest.approx(expected, abs=1e-4)


RNN: dict[str, Any] = {"kind": "rnn", "layers": 1, "dropout": 0.0}
TRANSFORMER = RNN | {"kind": "transformer", "heads": 2, "feedforward": 32}
PAIRS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "rnn, no attention": (RNN, RNN | {"attention": "none"}),
    "rnn, multiplicative": (RNN, RNN),
    "rnn, fed": (RNN | {"cell": "gru"}, RNN | {"cell": "gru", "input_feeding": True}),
    "rnn, before": (RNN, RNN | {"attention": "additive", "order": "before"}),
    "rnn to transformer": (RNN, TRANSFORMER),
    "transformer to rnn": (TRANSFORMER, RNN | {"attention": "additive"}),
    "plain attention to rnn": ({"kind": "attention"}, RNN),
}


@pytest.mark.parametrize("name", PAIRS)
def test_one_batch_is_learnt(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.runs.finishing.draw", lambda folder, records: None)
    encoder, decoder = PAIRS[name]
    corpus.write(tmp_path, train=8)
    table = {
        "task": "translate",
        "data": {"folder": str(tmp_path), "train": ["train.source", "train.target"]},
        "tokenizer": {"kind": "word", "joint": False},
        "batch": {"tokens": 1000},
        "search": {"kind": "greedy"},
        "model": {"dim": 32, "tie": "output", "encoder": encoder, "decoder": decoder},
        "train": {
            "updates": 60,
            "validate_every": 0,
            "save_every": 60,
            "threads": 1,
            "precision": "float32",
            "optimizer": {"learning_rate": 0.02},
            "schedule": {"warmup": 10},
        },
    }
    predictor = front.train(table, to=tmp_path / "run")
    sources = corpus.sentences(8, 0)
    if encoder["kind"] != "attention":  # which does not know the order
        assert predictor.predict(sources) == [corpus.translate(source) for source in sources]
    else:
        outputs = predictor.predict(sources)
        assert [sorted(o.split()) for o in outputs] == [
            sorted(corpus.translate(source).split()) for source in sources
        ]


def test_a_cells_name_is_checked() -> None:
    table = {
        "task": "translate",
        "data": {"train": ["a", "b"]},
        "model": {"decoder": {"kind": "rnn", "cell": "ltsm"}},
    }
    with pytest.raises(RecipeError, match=r"model\.decoder\.cell: .* did you mean 'lstm'"):
        recipe(table)
