"""Templates of dialogues, here and in the transformers library: the same tokens for the same
messages. Jinja of a folder is never run by us."""

import json
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest
import torch
from torch import nn

from regard import cli
from regard.data.template import Config
from regard.data.tokenizers import Tokenizer
from regard.front import Predictor
from regard.interop import importing
from regard.interop.chat_templates import known
from regard.interop.importing import Imported
from regard.interop.shipping import ship
from regard.model import build
from regard.recipe import config
from regard.runs import Run
from regard.train.checkpoint import weights_of
from tests.parity import huggingface_models

transformers = pytest.importorskip("transformers")

DIALOGUES = [
    [{"role": "user", "content": "the quick\nbrown fox"}],
    [
        {"role": "system", "content": "Be 100 % {{brief}} “東京”."},
        {"role": "user", "content": "jumps over"},
        {"role": "assistant", "content": "the lazy dog"},
        {"role": "user", "content": "again?"},
    ],
]
TEMPLATES: dict[str, dict[str, str]] = {
    "usual": {},
    "own tokens": {
        "before": "<|>\n",
        "user": '<user>User\'s "{content}" 100%\n<end>',
        "assistant": "<answer>{content}<turn>\n",
        "default_system": 'You\'re \\ "it"',
    },
}
CHATML = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
LLAMA3 = (
    "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = "
    "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] "
    "| trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}"
    "{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"
)


def rendered(cut: Any, messages: Any) -> list[int]:
    found: list[int] = cut.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=True, return_dict=False
    )
    return found


@pytest.mark.parametrize("kind", ["bpe", "character", "bytes"])
@pytest.mark.parametrize("name", TEMPLATES)
def test_an_export_writes_dialogues_as_the_run_does(name: str, kind: str, tmp_path: Path) -> None:
    """And what is read again is a run that answers, with the same template."""
    blocks = {"kind": "transformer", "layers": 1, "heads": 2, "feedforward": 16, "norm": "pre"}
    blocks |= {"position": "rotary", "rotary_layout": "halves", "limit": 64, "activation": "silu"}
    recipe = config.from_table(
        {
            "task": "language_model",
            "unit": "dialogue",
            "data": {"train": ["nothing"], "max_length": 60},
            "tokenizer": {"kind": kind, "vocabulary": 400},
            "template": TEMPLATES[name],
            "model": {"dim": 8, "tie": "none", "decoder": blocks, "head": {"bias": False}},
        }
    )
    texts = [f"{text} User's 100%" for text in huggingface_models.TEXT]
    by = Tokenizer.train(recipe.task.tokenizer, texts, Config(**TEMPLATES[name]).names)
    sizes = importing.sizes_of_task(recipe, files := {"target.tokenizer.json": by.json})
    drawn = build(recipe.model, sizes)
    for parameter in drawn.parameters():
        nn.init.normal_(parameter, std=0.3)
    made = Imported(recipe, sizes, files, weights_of(drawn))
    run = importing.write(made, tmp_path / "run", tmp_path)
    ship(run, tmp_path / "out", "huggingface")
    cut = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    again = Predictor(importing.run(tmp_path / "out", tmp_path / "again"))
    assert again.run.recipe.task.template == recipe.task.template
    for messages in DIALOGUES:
        ours = Predictor(run).prompt_tokens(messages)
        assert rendered(cut, messages) == ours == again.prompt_tokens(messages)


def folder(place: Path, special: dict[str, str], jinja: str) -> Any:
    """A small random model with a chat template; the transformers library's tokenizer for it."""
    tokenizer = huggingface_models.byte_level(special, pattern=huggingface_models.QWEN2)
    end = tokenizer.token_to_id(special["end"])
    sizes = huggingface_models.WIDE | {"num_key_value_heads": 3, "eos_token_id": end}
    torch.manual_seed(1)
    model = transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**sizes, bos_token_id=None))
    model.save_pretrained(place)
    cut = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=special["end"], bos_token=special.get("start")
    )
    cut.chat_template = jinja
    cut.save_pretrained(place)
    return transformers.AutoTokenizer.from_pretrained(place)


@pytest.mark.parametrize(
    ("special", "jinja"),
    [
        (["<|endoftext|>", "<|im_start|>", "<|im_end|>"], CHATML),
        (
            [
                "<|end_of_text|>",
                "<|begin_of_text|>",
                "<|start_header_id|>",
                "<|end_header_id|>",
                "<|eot_id|>",
            ],
            LLAMA3,
        ),
    ],
    ids=["chatml", "llama3"],
)
def test_well_known_templates_are_taken_over(
    special: list[str], jinja: str, tmp_path: Path
) -> None:
    names = {"end": special[0]} | {f"other{n}": each for n, each in enumerate(special[1:])}
    if "<|begin_of_text|>" in special:
        names["start"] = names.pop("other0")
    cut = folder(tmp_path / "theirs", names, jinja)
    model = Predictor(importing.run(tmp_path / "theirs", tmp_path / "run"))
    for messages in DIALOGUES:
        assert model.prompt_tokens(messages) == rendered(cut, messages)
    [found] = model.predictions([DIALOGUES[0]], length=3)
    assert found.text
    template = model.template
    assert template is not None
    assert template.end == cut.convert_tokens_to_ids(special[2 if len(special) == 3 else 4])
    ship(model.run, tmp_path / "out", "huggingface")
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    for messages in DIALOGUES:
        assert rendered(again, messages) == rendered(cut, messages)
    about = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert template.end in about["eos_token_id"], "generate ends where an answer does"


def test_other_templates_are_left_to_the_user(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A loop without end does no harm: it is never run."""
    jinja = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    folder(tmp_path / "theirs", {"end": "</s>"}, jinja)
    cli.main(["import", str(tmp_path / "theirs"), str(tmp_path / "run")])
    err = capsys.readouterr().err
    assert "its chat template is not taken over: it is of no known form" in err
    assert Run(tmp_path / "run").recipe.task.unit == "stream"
    lacking = {"end": "</s>", "one": "<|im_start|>"}
    folder(tmp_path / "other", lacking, CHATML)
    assert "has no special token <|im_end|>" in importing.read(tmp_path / "other").notes[0]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (CHATML, {"before": "", "default_system": "You are helpful."}),
        (LLAMA3, {"before": "<|begin_of_text|>"}),
        (LLAMA3 + "{{ date_string }}", {}),
        ("{{ messages[0]['content'] }}", {}),
        ("<|im_start|> alone", {}),
    ],
)
def test_forms_are_known_by_their_markers(text: str, found: dict[str, str]) -> None:
    section = known(text)
    assert {key: section[key] for key in section if key not in ("system", "user", "assistant")} == (
        found
    )
    assert bool(section) == bool(found)
    Config(**section)
