"""BERT and its kin with heads for labels, of the transformers library and as runs, say the same."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers")

import regard  # noqa: E402 (transformers may be missing)
from regard import cli  # noqa: E402
from regard.errors import UserError  # noqa: E402
from regard.interop import importing  # noqa: E402
from regard.interop.shipping import ship  # noqa: E402
from regard.runs import Run  # noqa: E402
from tests.parity.huggingface_models import FILLERS, drawn, saved  # noqa: E402

NAMES = {0: "so-so", 1: "good", 2: "bad"}
ORDER = [2, 1, 0]
LINES = [
    "the quick brown fox",
    "jumps over the lazy dog, again",
    "a fox",
    "größer, again and again!",
]
SHORT = ("train.epochs=0", "train.updates=2", "train.threads=1", "train.validate_every=0")


def theirs(family: str, folder: Path, what: str = "Sequence", **options: Any) -> tuple[Any, Any]:
    """A drawn model with labels in a folder, and its tokenizer."""
    torch.manual_seed(5)
    filler, tokenizer = FILLERS[family](id2label=NAMES, **options)
    name = type(filler).__name__.replace("MaskedLM", f"{what}Classification")
    model = getattr(transformers, name)(filler.config)
    return model, saved(drawn(model), tokenizer, folder)


def chances(model: Any, fast: Any, line: str, several: bool = False) -> list[float]:
    """Theirs, of one text."""
    with torch.inference_mode():
        read = fast(line, return_tensors="pt", return_token_type_ids=False)
        logits = model(**read).logits[0]
    found: list[float] = (logits.sigmoid() if several else logits.softmax(-1)).tolist()
    return found


def test_problem_types_are_known(tmp_path: Path) -> None:
    several = "multi_label_classification"
    model, fast = theirs("bert", tmp_path / "theirs", problem_type=several)
    run = importing.run(tmp_path / "theirs", tmp_path / "run")
    (said,) = regard.load(run.folder).predictions(LINES[:1])
    expected = dict(zip(NAMES.values(), chances(model, fast, LINES[0], True), strict=True))
    assert said.probabilities == pytest.approx(expected, abs=1e-5)
    ship(run, tmp_path / "out", "huggingface")
    assert json.loads((tmp_path / "out" / "config.json").read_text())["problem_type"] == several


@pytest.mark.parametrize("family", FILLERS)
def test_a_classifier_comes_in_and_goes_out(family: str, tmp_path: Path) -> None:
    model, fast = theirs(family, tmp_path / "theirs")
    run = importing.run(tmp_path / "theirs", tmp_path / "run")
    assert run.recipe.kind == "classify"
    tokens = torch.randint(7, model.config.vocab_size, (3, 17))
    with torch.inference_mode():
        logits = model(tokens).logits
        ours = importing.logits(run.model(), tokens)
    torch.testing.assert_close(ours, logits[:, ORDER], rtol=0, atol=1e-5)
    for said, line in zip(regard.load(run.folder).predictions(LINES), LINES, strict=True):
        expected = dict(zip(NAMES.values(), chances(model, fast, line), strict=True))
        assert said.probabilities == pytest.approx(expected, abs=1e-5)

    assert ship(run, tmp_path / "out", "huggingface").parity["family"] == family
    again = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    assert type(again) is type(model)
    with torch.inference_mode():
        torch.testing.assert_close(again(tokens).logits, logits[:, ORDER], rtol=0, atol=1e-5)
    assert [*again.config.id2label.values()] == ["bad", "good", "so-so"]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs that fill in words, imported, and texts with labels."""
    folder = tmp_path_factory.mktemp("base")
    torch.manual_seed(3)
    for name, make in FILLERS.items():
        model, tokenizer = make()
        saved(drawn(model, 0.1), tokenizer, folder / "theirs" / name)
        importing.run(folder / "theirs" / name, folder / name)
    rows = [f"{'good' if 'fox' in line else 'bad'}\t{line}" for line in LINES * 5]
    (folder / "labels.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder


def tuned(base: Path, family: str, folder: Path, *changes: str) -> Run:
    """A classifier that began with such a run."""
    recipe = folder / "recipe.toml"
    data = f'task = "classify"\n[data]\ntrain = ["{base / "labels.tsv"}"]\n'
    recipe.write_text(
        f'{data}[held_out]\nvalidation = 0.25\n[model]\nweights = "{base / family}"\n'
    )
    cli.main(["train", str(recipe), "--to", str(folder / "run"), *SHORT, *changes])
    return Run(folder / "run")


HEADS = {
    "bert": ("model.head.pooling=class", "model.head.pooler=true"),
    "roberta": ("model.head.pooling=class", "model.head.pooler=true"),
    "distilbert": (
        "model.head.pooling=class",
        "model.head.pooler=true",
        "model.head.pooler_activation=relu",
    ),
}


@pytest.mark.parametrize("family", HEADS)
def test_what_is_fine_tuned_says_the_same_there(family: str, base: Path, tmp_path: Path) -> None:
    """Also with the temperature that validation decided."""
    run = tuned(base, family, tmp_path, *HEADS[family])
    assert ship(run, tmp_path / "out", "huggingface").parity["family"] == family
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    fast = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    for said, line in zip(regard.load(run.folder).predictions(LINES), LINES, strict=True):
        expected = dict(zip(["bad", "good"], chances(model, fast, line), strict=True))
        assert said.probabilities == pytest.approx(expected, abs=1e-5)


def test_what_no_class_has_is_named_with_what_to_train(base: Path, tmp_path: Path) -> None:
    run = tuned(base, "bert", tmp_path)
    with pytest.raises(UserError) as refused:
        ship(run, tmp_path / "out", "huggingface")
    said = str(refused.value)
    assert "bert: model.head.pooling is 'mean', wanted: 'class'" in said
    assert "train with model.head.pooling = 'class', model.head.pooler = true" in said
    assert "vit" not in said and "roberta" not in said.replace(str(tmp_path), "")
    with pytest.raises(UserError) as refused:
        ship(run, tmp_path / "out", "onnx")
    said = str(refused.value)
    assert "take --to huggingface" not in said and "model.head.pooling = 'class'" in said


def test_an_encoder_by_itself_is_refused_with_what_to_do(tmp_path: Path) -> None:
    filler, tokenizer = FILLERS["bert"]()
    saved(filler.bert, tokenizer, tmp_path / "theirs")
    with pytest.raises(UserError, match=r"add a new head: BertForMaskedLM\.from_pretrained"):
        importing.run(tmp_path / "theirs", tmp_path / "run")


def test_numbers_are_no_labels(tmp_path: Path) -> None:
    theirs("bert", tmp_path / "theirs", problem_type="regression")
    with pytest.raises(UserError, match=r"config\.json: problem_type: 'regression' cannot"):
        importing.run(tmp_path / "theirs", tmp_path / "run")


WORDS = ["the", "quick", "brown", "fox", "jumpsover,", "the", "lazyish", "dog!"]


def tags_of(model: Any, fast: Any, words: list[str]) -> tuple[list[str], torch.Tensor]:
    """Theirs, by the first piece of each word."""
    read = fast(words, is_split_into_words=True, return_tensors="pt")
    places = read.word_ids(0)
    first = [places.index(n) for n in range(len(words))]
    with torch.inference_mode():
        ids = {name: read[name] for name in ("input_ids", "attention_mask")}
        logits = model(**ids).logits[0, first]
    return [model.config.id2label[n] for n in logits.argmax(-1).tolist()], logits


@pytest.mark.parametrize("family", ["bert", "distilbert"])
def test_a_tagger_comes_in_and_goes_out(family: str, tmp_path: Path) -> None:
    model, fast = theirs(family, tmp_path / "theirs", "Token")
    run = importing.run(tmp_path / "theirs", tmp_path / "run")
    assert run.recipe.kind == "tag"
    expected, logits = tags_of(model, fast, WORDS)
    (said,) = regard.load(run.folder).predictions([" ".join(WORDS)])
    assert said.tokens == expected
    best = logits.log_softmax(-1).max(-1).values.tolist()
    assert said.log_probs == pytest.approx(best, abs=1e-4)
    cli.main(["inspect", str(run.folder), " ".join(WORDS), "--output", str(tmp_path / "x.html")])
    assert (tmp_path / "x.html").stat().st_size > 10_000

    ship(run, tmp_path / "out", "huggingface")
    again = transformers.AutoModelForTokenClassification.from_pretrained(tmp_path / "out").eval()
    cut = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    same, others = tags_of(again, cut, WORDS)
    assert type(again) is type(model) and same == expected
    torch.testing.assert_close(others, logits[:, ORDER], rtol=0, atol=1e-5)


def test_a_tagger_that_is_fine_tuned_says_the_same_there(base: Path, tmp_path: Path) -> None:
    rows = "\n".join(f"{word} {'N' if 'o' in word else 'O'}" for word in WORDS)
    (tmp_path / "tags.txt").write_text(f"{rows}\n\n" * 8)
    data = f'task = "tag"\ncharacters = false\n[data]\ntrain = ["{tmp_path / "tags.txt"}"]\n'
    (tmp_path / "tag.toml").write_text(f'{data}[model]\nweights = "{base / "bert"}"\n')
    words = ["train", str(tmp_path / "tag.toml"), *SHORT, "--to", str(tmp_path / "run")]
    cli.main([*words, "framed=true", "model.head.crf=false"])
    run = Run(tmp_path / "run")
    ship(run, tmp_path / "out", "huggingface")
    model = transformers.AutoModelForTokenClassification.from_pretrained(tmp_path / "out").eval()
    fast = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    (said,) = regard.load(run.folder).predictions([" ".join(WORDS)])
    expected, logits = tags_of(model, fast, WORDS)
    assert said.tokens == expected
    best = logits.log_softmax(-1).max(-1).values.tolist()
    assert said.log_probs == pytest.approx(best, abs=1e-4)
    for change, message in [
        (("framed=false",), "framed is false: .* train with framed = true"),
        (("framed=true", "model.head.crf=true"), "bert: model.head.crf is True, .* = false"),
    ]:
        other = tmp_path / change[-1]
        cli.main([*words[:-1], str(other), *change])
        with pytest.raises(UserError, match=message):
            ship(Run(other), tmp_path / "none", "huggingface")


def test_heads_that_are_not_known_are_refused(tmp_path: Path) -> None:
    theirs("roberta", tmp_path / "theirs", "Token")
    with pytest.raises(UserError, match=r"'RobertaForTokenClassification' cannot be imported, on"):
        importing.run(tmp_path / "theirs", tmp_path / "run")
