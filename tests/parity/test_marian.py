"""A MarianMT model of Hugging Face and what is imported from it say the same."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers")

from regard.errors import UserError  # noqa: E402 (transformers may be missing)
from regard.interop import huggingface  # noqa: E402
from regard.interop.huggingface import Imported, load, marian  # noqa: E402
from regard.model import Model  # noqa: E402
from regard.search import Request, greedy  # noqa: E402
from regard.types import Batch  # noqa: E402

LENGTHS, T, LIMIT = (11, 7, 5), 13, 31
SOURCE, TARGET = 37, 41
END, PAD = 0, 36  # Marian's habit: the end is the first symbol, the padding the last

SIZES = {
    "vocab_size": SOURCE,
    "d_model": 30,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 5,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 19,
    "decoder_ffn_dim": 23,
    "max_position_embeddings": LIMIT,
    "pad_token_id": PAD,
    "eos_token_id": END,
    "decoder_start_token_id": PAD,
    "forced_eos_token_id": None,
    "scale_embedding": True,
    "activation_function": "swish",
}


def make(std: float = 0.3, **options: Any) -> Any:
    """A small model with every weight drawn, biases and norms too."""
    model = transformers.MarianMTModel(transformers.MarianConfig(**SIZES | options)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                parameter.normal_(mean=float(name.endswith("norm.weight")), std=std)
        model.final_logits_bias.normal_()
    return model


def imported(model: Any) -> Imported:
    return marian(model.config.to_dict(), model.state_dict())


def batch(size: int = SOURCE) -> Batch:
    source = torch.randint(1, size - 1, (len(LENGTHS), max(LENGTHS)))
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    source[:, -1] = END
    source = source.masked_fill(~mask, PAD)
    ids = tuple(range(len(LENGTHS)))
    return Batch(tensors={"source": source, "source_mask": mask}, ids=ids, targets=0)


def theirs(model: Any, given: Batch, target: Tensor) -> Tensor:
    logits: Tensor = model(
        input_ids=given["source"], attention_mask=given["source_mask"], decoder_input_ids=target
    ).logits
    return logits


def ours(model: Model, given: Batch, target: Tensor) -> Tensor:
    return model.head.logits(model.decode(target, model.start(given))[0])


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"activation_function": "relu"},
        {"activation_function": "gelu", "scale_embedding": False},
        {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": TARGET},
        {"tie_word_embeddings": False},
        {
            "share_encoder_decoder_embeddings": False,
            "decoder_vocab_size": TARGET,
            "tie_word_embeddings": False,
        },
    ],
)
def test_the_logits_are_the_same(options: dict[str, Any]) -> None:
    """Encoder and decoder of different depths, heads and widths; a padded batch; from pad on."""
    other, given = make(**options), batch()
    found = imported(other)
    target = torch.randint(1, found.sizes.fields["target"]["outputs"], (len(LENGTHS), T))
    target[:, 0] = found.start
    with torch.inference_mode():
        close(ours(found.model(), given, target), theirs(other, given, target))
    assert (found.start, found.end, found.pad) == (PAD, END, PAD)
    trained = sum(p.numel() for p in other.parameters() if p.requires_grad)
    bias = found.sizes.fields["target"]["outputs"]  # a buffer there, a parameter here
    unused = SOURCE * 30 if options == {"tie_word_embeddings": False} else 0  # their shared table
    assert found.model().size() == trained - unused + bias


def test_the_encoders_are_the_same() -> None:
    other, given = make(), batch()
    memory = imported(other).model().encode(given)
    assert memory is not None
    expected = other.model.encoder(given["source"], given["source_mask"]).last_hidden_state
    close(memory.states[memory.mask], expected[memory.mask])


def test_the_gradients_are_the_same() -> None:
    """Of the mean logarithm of a probability, by the table that three places share."""
    other, given = make(), batch()
    found = imported(other)
    model, target = found.model(), torch.randint(1, SOURCE, (len(LENGTHS), T))
    for logits in (ours(model, given, target), theirs(other, given, target)):
        logits.log_softmax(-1)[..., 3].mean().backward()
    table = model.get_parameter("input.embedding.weight").grad
    assert table is not None and other.model.shared.weight.grad.abs().max() > 1e-3
    # They keep the padding's row from learning by its use as an input.
    rest = [n for n in range(SOURCE) if n != PAD]
    close(table[rest], other.model.shared.weight.grad[rest])
    weight = model.get_parameter("decoder.blocks.1.cross.key_value.weight").grad
    cross = other.model.decoder.layers[1].encoder_attn
    assert weight is not None
    close(weight, torch.cat([cross.k_proj.weight.grad, cross.v_proj.weight.grad]))


def test_greedy_search_writes_the_same() -> None:
    """Both searches with their own caches, from the same start symbol to the same end."""
    other, given, cap, end = make(0.14, tie_word_embeddings=False), batch(), 17, 28
    # After token n it mostly says n + 5; tied, it would repeat itself.
    other.lm_head.weight.data.copy_(other.model.decoder.embed_tokens.weight.roll(5, 0))
    other.final_logits_bias.mul_(0.14)
    found = imported(other)
    model = found.model()
    settings = transformers.GenerationConfig(
        max_new_tokens=cap,
        num_beams=1,
        do_sample=False,
        bad_words_ids=[[PAD]],
        pad_token_id=PAD,
        eos_token_id=end,
        decoder_start_token_id=PAD,
    )
    with torch.inference_mode():
        written = other.generate(
            input_ids=given["source"],
            attention_mask=given["source_mask"],
            generation_config=settings,
        )
        request = Request(found.start, end, [cap] * len(given), forbidden=(found.pad,))
        results = greedy.search(model.step, model.start(given), request, greedy.Config())
    for row, (best,) in zip(written[:, 1:].tolist(), results, strict=True):
        assert best.finished == (end in row)
        assert best.tokens == tuple(row[: row.index(end)] if best.finished else row)
    assert {best.finished for (best,) in results} == {False, True}
    assert len({best.tokens for (best,) in results}) == len(LENGTHS)


# From and to a folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("marian")
    make().save_pretrained(path)
    return path


def copied(folder: Path, to: Path, **settings: Any) -> Path:
    """The folder with settings changed; None takes one away."""
    table = json.loads((folder / "config.json").read_text()) | settings
    table = {key: value for key, value in table.items() if value is not None}
    (to / "config.json").write_text(json.dumps(table))
    (to / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    return to


def test_a_folder_is_loaded(folder: Path) -> None:
    other, given = transformers.MarianMTModel.from_pretrained(folder).eval(), batch()
    target = torch.randint(1, SOURCE, (len(LENGTHS), T))
    with torch.inference_mode():
        close(ours(load(folder).model(), given, target), theirs(other, given, target))


def test_half_precision_and_a_stored_sinusoid_are_fine(folder: Path, tmp_path: Path) -> None:
    """As older files on the hub have them."""
    copied(folder, tmp_path)
    state = {name: t.half() for name, t in load_file(folder / "model.safetensors").items()}
    model = transformers.MarianMTModel.from_pretrained(folder)
    table = model.model.encoder.embed_positions.weight.detach().clone()
    save_file(state | {huggingface.POSITIONS[0]: table.half()}, tmp_path / "model.safetensors")
    weights, exact = load(tmp_path).weights, load(folder).weights
    assert weights.keys() == exact.keys()
    for name, tensor in weights.items():
        assert tensor.dtype == torch.float32
        torch.testing.assert_close(tensor, exact[name], rtol=1e-3, atol=1e-3)
    save_file(state | {huggingface.POSITIONS[0]: table.flip(1)}, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match=r"embed_positions\.weight: not the sinusoid"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model_type": "bart"}, "model_type: 'bart' cannot be imported"),
        ({"normalize_before": True}, "normalize_before: "),
        ({"activation_function": "tanh"}, "activation_function: 'tanh' is not one of relu"),
        ({"d_model": "30"}, "d_model: '30' given, wanted an integer ≥ 1"),
        ({"encoder_layers": None}, "encoder_layers: None given"),
        ({"encoder_layers": 4}, r"encoder\.layers\.3\.self_attn\.q_proj\.weight: missing"),
        ({"encoder_layers": 2}, r"encoder\.layers\.2\..*: no place for these weights"),
        ({"dropout": "much"}, "dropout: 'much' given"),
    ],
)
def test_what_cannot_be_imported_is_named(
    folder: Path, tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        load(copied(folder, tmp_path, **settings))
    assert str(tmp_path) in str(caught.value)


def test_weights_of_another_shape_are_named(folder: Path, tmp_path: Path) -> None:
    found = load(copied(folder, tmp_path, encoder_ffn_dim=29))
    with pytest.raises(UserError, match=r"encoder\.blocks\.0\.feedforward\.up\.weight has shape"):
        found.model()


def test_files_that_are_missing_or_broken_are_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"config\.json: .*No such file"):
        load(tmp_path)
    copied(folder, tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"not a tensor in sight")
    with pytest.raises(UserError, match=r"model\.safetensors: "):
        load(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"model\.safetensors: .*No such file"):
        load(tmp_path)
    (tmp_path / "pytorch_model.bin").touch()
    with pytest.raises(UserError, match="pickled weights alone"):
        load(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UserError, match=r"config\.json: "):
        load(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(UserError, match=r"config\.json: it is no object"):
        load(tmp_path)
