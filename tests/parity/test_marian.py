"""A MarianMT model of Hugging Face and what is imported from it say the same."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor

os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers")

from regard.data.tokenizers import Config as Cutting, Tokenizer as OurTokenizer  # noqa: E402
from regard.errors import UserError  # noqa: E402 (transformers may be missing)
from regard.interop import sentencepiece  # noqa: E402
from regard.interop.importing import Imported, read, run  # noqa: E402
from regard.interop.shipping import ship  # noqa: E402
from regard.model import Model  # noqa: E402
from regard.recipe.parts import Part, module  # noqa: E402
from regard.search import Request, greedy  # noqa: E402
from regard.types import Batch  # noqa: E402
from tests.sentencepieces import sentencepieces  # noqa: E402

LENGTHS, T, LIMIT = (11, 7, 5), 13, 31
SOURCE = 37
POSITIONS = "model.encoder.embed_positions.weight"
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


def written(model: Any, folder: Path) -> Path:
    """A folder with the model, and a tokenizer of letters."""
    letters = {"</s>": END, **{chr(96 + n): n for n in range(1, PAD)}, "<pad>": PAD}
    tokenizer = Tokenizer(models.WordLevel(letters, unk_token="a"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def imported(model: Any) -> Imported:
    with tempfile.TemporaryDirectory() as folder:
        return read(written(model, Path(folder)))


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
    torch.testing.assert_close(a, b, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"activation_function": "relu"},
        {"activation_function": "gelu", "scale_embedding": False},
        {"tie_word_embeddings": False},
    ],
)
def test_the_logits_are_the_same(options: dict[str, Any]) -> None:
    """Encoder and decoder of different depths, heads and widths; a padded batch; from pad on."""
    other, given = make(**options), batch()
    found = imported(other)
    target = torch.randint(1, found.sizes.fields["target"]["outputs"], (len(LENGTHS), T))
    target[:, 0] = PAD
    with torch.inference_mode():
        close(ours(found.model(), given, target), theirs(other, given, target))
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
        request = Request(PAD, end, [cap] * len(given), forbidden=(PAD,))
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
    return written(make(), path)


def copied(folder: Path, to: Path, **settings: Any) -> Path:
    """The folder with settings changed; None takes one away."""
    table = json.loads((folder / "config.json").read_text()) | settings
    table = {key: value for key, value in table.items() if value is not None}
    (to / "config.json").write_text(json.dumps(table))
    for name in ("model.safetensors", "tokenizer.json"):
        (to / name).write_bytes((folder / name).read_bytes())
    return to


def test_a_folder_is_loaded(folder: Path) -> None:
    other, given = transformers.MarianMTModel.from_pretrained(folder).eval(), batch()
    target = torch.randint(1, SOURCE, (len(LENGTHS), T))
    with torch.inference_mode():
        close(ours(read(folder).model(), given, target), theirs(other, given, target))


def test_half_precision_and_a_stored_sinusoid_are_fine(folder: Path, tmp_path: Path) -> None:
    """As older files on the hub have them."""
    copied(folder, tmp_path)
    state = {name: t.half() for name, t in load_file(folder / "model.safetensors").items()}
    model = transformers.MarianMTModel.from_pretrained(folder)
    table = model.model.encoder.embed_positions.weight.detach().clone()
    save_file(state | {POSITIONS: table.half()}, tmp_path / "model.safetensors")
    weights, exact = read(tmp_path).weights, read(folder).weights
    assert weights.keys() == exact.keys()
    for name, tensor in weights.items():
        assert tensor.dtype == torch.float32
        torch.testing.assert_close(tensor, exact[name], rtol=1e-3, atol=1e-3)
    save_file(state | {POSITIONS: table.flip(1)}, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match=r"embed_positions\.weight: not the sinusoid"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model_type": "bart"}, "model_type: 'bart' cannot be imported"),
        ({"normalize_before": True}, "normalize_before: "),
        ({"activation_function": "tanh"}, "activation_function: 'tanh' is not one of relu"),
        ({"decoder_vocab_size": 41}, "decoder_vocab_size: 41 cannot be imported"),
        ({"d_model": "30"}, "d_model: '30' given, wanted an integer ≥ 1"),
        ({"encoder_layers": 4}, r"encoder\.layers\.3\.self_attn\.q_proj\.weight: missing"),
        ({"encoder_layers": 2}, r"encoder\.layers\.2\..*: no place for these weights"),
        ({"dropout": "much"}, "dropout: 'much' given"),
    ],
)
def test_what_cannot_be_imported_is_named(
    folder: Path, tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        read(copied(folder, tmp_path, **settings))
    assert str(tmp_path) in str(caught.value)


def test_weights_of_another_shape_are_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"encoder\.layers\.0\.fc1\.weight: \(19, 30\) in all, but"):
        read(copied(folder, tmp_path, encoder_ffn_dim=29))


def test_a_run_translates(folder: Path, tmp_path: Path) -> None:
    """Greedy and beam search, from text to text, as `generate` does."""
    other = transformers.MarianMTModel.from_pretrained(folder).eval()
    made = run(folder, tmp_path / "run")
    tokenizer, texts = Tokenizer.from_file(str(folder / "tokenizer.json")), ["c d e f g", "x b"]
    for beams in (1, 4):
        kind, options = ("greedy", {}) if beams == 1 else ("beam", {"beams": beams})
        search = Part(kind, module("search", kind).Config(**options))
        found = [*made.task.predict(made.model(), texts, search, length=9)]
        for text, best in zip(texts, found, strict=True):
            source = torch.tensor([[*tokenizer.encode(text).ids, END]])
            settings = transformers.GenerationConfig(
                max_new_tokens=9, num_beams=beams, early_stopping=beams > 1, bad_words_ids=[[PAD]],
                pad_token_id=PAD, eos_token_id=END, decoder_start_token_id=PAD,
            )  # fmt: skip
            row = other.generate(source, generation_config=settings)[0, 1:].tolist()
            row = row[: row.index(END)] if END in row else row
            assert best.text.split() == [str(tokenizer.id_to_token(n)) for n in row]


# sentencepiece


def test_sentencepiece_files_are_read(tmp_path: Path) -> None:
    """The best cut by the sum of scores; what has no number is unknown. What the model does not
    know, but is a token of the other side, is that one."""
    pieces = {"▁ab": -1.0, "▁a": -2.0, "b": -2.5, "▁": -3.0, "a": -3.0, "zz": -1.0}
    numbers = ["</s>", "<unk>", "▁ab", "▁a", "b", "▁", "a", "c", ">>de<<", "<pad>"]
    table = {name: n for n, name in enumerate(numbers)}
    special = {"end": "</s>", "unknown": "<unk>", "pad": "<pad>"}
    text = sentencepiece.tokenizer(sentencepiece.read(sentencepieces(pieces)), table, special)
    config = Cutting(
        kind="huggingface", vocabulary=10, end="</s>", unknown="<unk>", start="<pad>", pad="<pad>"
    )
    by = OurTokenizer(text, config)
    assert by.encode(["ab", " ab  b", "abb", "ba", ">>de<< ab", "c", "zz", ""]) == [
        [2], [2, 5, 4], [2, 4], [5, 4, 6], [8, 2], [5, 7], [5, 1], [],
    ]  # fmt: skip
    assert by.decode([2, 5, 4]) == "ab b"
    assert by.unwritten == (9,)


@pytest.mark.parametrize("data", [b"", b"\x0a\xff", b"\x0a\x02ab", b"\xff" * 20, b"\x0b"])
def test_what_is_no_sentencepiece_is_refused(data: bytes) -> None:
    with pytest.raises(UserError, match="no model of sentencepiece"):
        sentencepiece.read(data)


def test_files_that_are_missing_or_broken_are_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"config\.json: there is no such file"):
        read(tmp_path)
    copied(folder, tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"not a tensor in sight")
    with pytest.raises(UserError, match=r"model\.safetensors: "):
        read(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"model\.safetensors: there is no such file"):
        read(tmp_path)
    (tmp_path / "pytorch_model.bin").touch()
    with pytest.raises(UserError, match="pickled weights alone"):
        read(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UserError, match=r"config\.json: "):
        read(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(UserError, match=r"config\.json: it is no object"):
        read(tmp_path)


def test_what_is_exported_says_the_same(folder: Path, tmp_path: Path) -> None:
    other, given = transformers.MarianMTModel.from_pretrained(folder).eval(), batch()
    made = run(folder, tmp_path / "run")
    assert ship(made, tmp_path / "out", "huggingface").parity["family"] == "marian"
    again = transformers.MarianMTModel.from_pretrained(tmp_path / "out").eval()
    target = torch.randint(1, SOURCE, (len(LENGTHS), T))
    with torch.inference_mode():
        close(theirs(again, given, target), theirs(other, given, target))
    assert again.config.decoder_start_token_id == again.config.pad_token_id == PAD
    there, here = ((each / "tokenizer.json").read_bytes() for each in (folder, tmp_path / "out"))
    assert there == here
