"""Models of the transformers library and the runs that are made of them say the same."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch

os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers")

from regard.data.tokenizers import Tokenizer  # noqa: E402 (transformers may be missing)
from regard.interop import importing  # noqa: E402
from regard.interop.shipping import ship  # noqa: E402
from regard.recipe.parts import Part, module  # noqa: E402
from regard.runs import Run  # noqa: E402
from tests.parity.huggingface_models import WRITERS, drawn, saved, strange  # noqa: E402

SLOWED = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 31,
}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in WRITERS},
    "gpt2, untied, ReLU": ("gpt2", {"tie_word_embeddings": False, "activation_function": "relu"}),
    "gpt_neox, one after the other": ("gpt_neox", {"use_parallel_residual": False}),
    "llama, longer texts": ("llama", {"rope_parameters": SLOWED}),
    "qwen2, longer texts": (
        "qwen2",
        {"rope_parameters": {"rope_type": "linear", "factor": 2.5, "rope_theta": 1e6}},
    ),
    "llama, tied": ("llama", {"tie_word_embeddings": True, "num_key_value_heads": 6}),
}
PROMPTS = ["the quick", "brown fox jumps over", "a", "größer 東京 and"]


@pytest.fixture(scope="module", params=VARIANTS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A family's model, its tokenizer, and the run that is made of both."""
    torch.manual_seed(7)
    name, options = VARIANTS[request.param]
    folder = tmp_path_factory.mktemp(name)
    model, tokenizer = WRITERS[name](**options)
    fast = saved(drawn(model, 0.2), tokenizer, folder / "theirs")
    return model, fast, importing.run(folder / "theirs", folder / "run")


def ours(run: Run, tokens: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return importing.logits(run.model(), tokens)


def test_the_logits_are_the_same(made: Any) -> None:
    model, _, run = made
    tokens = torch.randint(model.config.vocab_size, (3, 37))
    with torch.inference_mode():
        torch.testing.assert_close(ours(run, tokens), model(tokens).logits, rtol=0, atol=1e-5)


def written(model: Any, fast: Any, prompt: str, **options: Any) -> list[int]:
    """What `generate` writes after a prompt."""
    given = fast(prompt, return_tensors="pt", return_token_type_ids=False)
    with torch.inference_mode():
        found = model.generate(**given, do_sample=False, max_new_tokens=15, **options)
    row: list[int] = found[0, given["input_ids"].shape[1] :].tolist()
    return row[: row.index(end)] if (end := model.config.eos_token_id) in row else row


@pytest.mark.parametrize("beams", [1, 4])
def test_searches_write_the_same(made: Any, beams: int) -> None:
    """A beam search of theirs that ends when as many outputs are ended is the one of ours."""
    model, fast, run = made
    kind, options = ("greedy", {}) if beams == 1 else ("beam", {"beams": beams})
    search = Part(kind, module("search", kind).Config(**options))
    found = run.task.predict(run.model(), PROMPTS, search, length=15)
    several = {"num_beams": beams, "early_stopping": True} if beams > 1 else {}
    for prompt, best in zip(PROMPTS, found, strict=True):
        before = fast(prompt)["input_ids"]
        whole = fast.decode(
            [*before, *written(model, fast, prompt, **several)], skip_special_tokens=True
        )
        begun = fast.decode(before, skip_special_tokens=True)
        assert best.text == whole.removeprefix(begun)


@pytest.mark.parametrize("made", [*WRITERS], indirect=True)
def test_the_tokenizers_agree(made: Any) -> None:
    _, fast, run = made
    by: Tokenizer = run.task.by
    texts = strange(1000)
    for text, row in zip(texts, by.encode(texts), strict=True):
        assert row == fast(text, add_special_tokens=False)["input_ids"], ascii(text[:80])
        if len(text) < 1000:
            assert by.decode(row) == fast.decode(
                row, skip_special_tokens=True, clean_up_tokenization_spaces=False
            )


@pytest.mark.parametrize("made", [*WRITERS], indirect=True)
def test_every_verb_that_needs_no_data_works(made: Any) -> None:
    _, _, run = made
    (score,) = run.task.score(run.model(), ["the quick brown"])
    assert score["log_prob"] < 0 and len(score["tokens"]) == len(score["log_probs"])
    search = Part("greedy", module("search", "greedy").Config())
    reading = run.task.look(run.model(), "the quick", search, None, 5)
    assert reading.said[: reading.given]


def test_what_is_exported_says_the_same(made: Any, tmp_path: Path) -> None:
    model, fast, run = made
    found = ship(run, tmp_path / "out", "huggingface")
    assert found.parity["family"] == model.config.model_type
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    assert type(again) is type(model)
    tokens = torch.randint(model.config.vocab_size, (3, 37))
    with torch.inference_mode():
        torch.testing.assert_close(again(tokens).logits, model(tokens).logits, rtol=0, atol=1e-5)
    cut = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    texts = strange(1000)
    assert cut(texts)["input_ids"] == fast(texts)["input_ids"]
    for options in ({"num_beams": 1}, {"num_beams": 4, "early_stopping": True}):
        for prompt in PROMPTS:
            expected = written(model, fast, prompt, **options)
            assert written(again, cut, prompt, **options) == expected
    assert cut.eos_token == fast.eos_token
