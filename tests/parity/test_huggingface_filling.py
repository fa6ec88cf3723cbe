"""BERT and its kin, of the transformers library and as runs, say the same."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch

os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers")

from regard.interop import importing  # noqa: E402 (transformers may be missing)
from regard.interop.shipping import ship  # noqa: E402
from regard.recipe.parts import Part  # noqa: E402
from regard.types import Batch  # noqa: E402
from tests.parity.huggingface_models import FILLERS, drawn, saved, strange  # noqa: E402

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in FILLERS},
    "bert, untied": ("bert", {"tie_word_embeddings": False, "type_vocab_size": 3}),
}
LENGTHS = (23, 11, 5)


@pytest.fixture(scope="module", params=VARIANTS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A family's model, its tokenizer, and the run that is made of both."""
    torch.manual_seed(7)
    name, options = VARIANTS[request.param]
    folder = tmp_path_factory.mktemp(name)
    model, tokenizer = FILLERS[name](**options)
    fast = saved(drawn(model), tokenizer, folder / "theirs")
    return model, fast, importing.run(folder / "theirs", folder / "run")


def given(model: Any) -> dict[str, torch.Tensor]:
    """Texts of unlike lengths; of a model that has segments, of two each."""
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    pad = model.config.pad_token_id
    tokens = torch.randint(7, model.config.vocab_size, mask.shape).masked_fill(~mask, pad)
    found = {"input_ids": tokens, "attention_mask": mask.long()}
    if getattr(model.config, "type_vocab_size", 0) > 1:
        found["token_type_ids"] = (torch.arange(max(LENGTHS)) > 3).long().expand(mask.shape)
    return found


def ours(run: Any, texts: dict[str, torch.Tensor]) -> torch.Tensor:
    model = run.model()
    names = {"input_ids": "source", "token_type_ids": "source_segments"}
    tensors = {names[name]: each for name, each in texts.items() if name in names}
    tensors["source_mask"] = texts["attention_mask"].bool()
    with torch.inference_mode():
        memory = model.encode(Batch(tensors=tensors, ids=(0, 1, 2), targets=0))
        assert memory is not None
        found: torch.Tensor = model.head.logits(memory.states)
    return found


def test_the_logits_are_the_same(made: Any) -> None:
    model, _, run = made
    texts = given(model)
    real = texts["attention_mask"].bool()
    with torch.inference_mode():
        theirs = model(**texts).logits
    torch.testing.assert_close(ours(run, texts)[real], theirs[real], rtol=0, atol=1e-5)


def test_the_same_words_are_filled_in(made: Any) -> None:
    """Their text with a mask, ours with [MASK]; special tokens, which are never said, left out."""
    model, fast, run = made
    line = "the quick [MASK] fox jumps over the [MASK] dog"
    (best,) = run.task.predict(run.model(), [line], Part("none", None), top=3)
    read = fast(line.replace("[MASK]", fast.mask_token), return_tensors="pt")
    with torch.inference_mode():
        scores = model(**read).logits[0].clone()
        scores[:, fast.all_special_ids] = -torch.inf
    places = (read["input_ids"][0] == fast.mask_token_id).nonzero()[:, 0]
    assert len(places) == 2
    for place, words in zip(places, best.masks, strict=True):
        chances = scores[place].softmax(-1).topk(3)
        assert [word["p"] for word in words] == pytest.approx(chances.values.tolist(), rel=1e-4)
        expected = run.task.by.pieces(chances.indices.tolist())
        assert [word["token"] for word in words] == expected


@pytest.mark.parametrize("made", [*FILLERS], indirect=True)
def test_a_pair_has_its_segments(made: Any) -> None:
    _, fast, run = made
    row = run.task.source.blanks("the [MASK] fox [SEP] the lazy dog")
    read = fast.decode(row["source"], skip_special_tokens=True)
    assert "fox" in read and "dog" in read
    segments = row["source_second"]
    assert set(segments) == {0, 1} and segments == sorted(segments)
    assert segments.count(0) == row["source"].index(run.task.by.end) + 1


@pytest.mark.parametrize("made", [*FILLERS], indirect=True)
def test_the_tokenizers_agree(made: Any) -> None:
    _, fast, run = made
    by, texts = run.task.by, strange(1000)
    for text, row in zip(texts, by.encode(texts), strict=True):
        assert row == fast(text, add_special_tokens=False)["input_ids"], ascii(text[:80])
    special = ("pad", "start", "end", "mask")
    names = ("pad_token_id", "cls_token_id", "sep_token_id", "mask_token_id")
    if fast.cls_token is not None:
        assert [by.named[s] for s in special] == [getattr(fast, name) for name in names]


@pytest.mark.parametrize("made", [*FILLERS], indirect=True)
def test_special_tokens_need_not_be_named(made: Any, tmp_path: Path) -> None:
    """Old folders, as the first BERT's, have no more than tokenizer.json."""
    _, _, run = made
    ship(run, tmp_path / "out", "huggingface")
    (tmp_path / "out" / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    found = importing.read(tmp_path / "out").recipe.task.tokenizer
    assert found == run.recipe.task.tokenizer


def test_what_is_exported_says_the_same(made: Any, tmp_path: Path) -> None:
    model, fast, run = made
    found = ship(run, tmp_path / "out", "huggingface")
    assert found.parity["family"] == model.config.model_type
    again = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "out").eval()
    texts = given(model)
    real = texts["attention_mask"].bool()
    with torch.inference_mode():
        both = [each(**texts).logits[real] for each in (again, model)]
    torch.testing.assert_close(*both, rtol=0, atol=1e-5)
    tops = [each.topk(3).indices for each in both]
    assert torch.equal(*tops), "the same words are filled in"
    cut = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    several = strange(1000)
    assert cut(several)["input_ids"] == fast(several)["input_ids"]
    assert cut.mask_token == fast.mask_token
