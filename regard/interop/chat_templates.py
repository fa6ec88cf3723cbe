"""Templates of dialogues there (Jinja, by the transformers library), and ours.

Out, our template is written as Jinja: `apply_chat_template` gives the tokens that a run reads. In,
Jinja is a program of somebody else's, which is never run: those of two well-known forms are known
by their markers, and become our template; of any other, the user is told to write it.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from regard.data.dialogues import ROLES
from regard.data.template import Marked, Template
from regard.data.tokenizers import Tokenizer
from regard.fields.dialogue import Side
from regard.interop.folders import Folder

LARGEST = 1 << 18
"""Bytes of a template."""
KEY = "regard_template"
"""In the config.json of an export: our template as it is."""
FORMS: Mapping[str, tuple[str, str]] = {
    "<|im_start|>": ("", "<|im_start|>ROLE\n{content}<|im_end|>\n"),
    "<|start_header_id|>": (
        "<|begin_of_text|>",
        "<|start_header_id|>ROLE<|end_header_id|>\n\n{content}<|eot_id|>",
    ),
}
"""ChatML and that of Llama 3, by a marker of each: what begins a dialogue, and a message."""
SYSTEM = re.compile(r"<\|im_start\|>system\\n([^'\"{}<>\\]+)<\|im_end\|>")
"""What stands there for a system that says nothing."""
CHANGES = ("date_string", "strftime_now")
"""A template that has these writes the day of the year."""
MARK = re.compile(r"<\|\w+\|>")


def written(form: Template, by: Tokenizer) -> str:
    """A template as Jinja."""

    def spelt(pieces: Iterable[Marked]) -> str:
        return _text("".join(p if isinstance(p, str) else by.spelling_of(p) for p in pieces))

    def said(role: str, content: str) -> str:
        before, after = form.forms[role]
        return f"{{{{ {spelt(before)} + {content} + {spelt(after)} }}}}"

    first = "messages[0]['content']"
    default = form.config.default_system
    usual = said("system", _text(default)) if default else ""
    turns = [_if(f"message['role'] == '{r}'", said(r, "message['content']")) for r in ROLES[1:]]
    return (
        f"{{{{ {spelt(form.before)} }}}}"
        + _if("messages[0]['role'] == 'system'", f"{said('system', first)}{{% else %}}{usual}")
        + f"{{% for message in messages %}}{''.join(turns)}{{% endfor %}}"
        + _if("add_generation_prompt", f"{{{{ {spelt(form.forms['assistant'].before)} }}}}")
    )


def _text(text: str) -> str:
    """As Jinja writes a text."""
    return json.dumps(text, ensure_ascii=False)


def _if(what: str, then: str) -> str:
    return f"{{% if {what} %}}{then}{{% endif %}}"


def kept(side: Any) -> dict[str, Any]:
    """What the config.json of an export has of the template of a run, if it has one."""
    return {KEY: asdict(side.template)} if isinstance(side, Side) else {}


def read(folder: Folder, special: Iterable[str]) -> tuple[dict[str, Any], list[str]]:
    """The section `template` that a folder asks for, whose tokenizer has these special tokens, and
    what is to be said of it."""
    if isinstance(own := folder.table("config.json").get(KEY), dict):
        return own, []
    if not (text := _jinja(folder)):
        return {}, []
    found = known(text)
    lacks = sorted({*MARK.findall(json.dumps(found))} - {*special})
    if found and not lacks:
        return found, []
    why = f"the tokenizer has no special token {lacks[0]}" if lacks else "it is of no known form"
    return {}, [
        f"{folder.path}: its chat template is not taken over: {why}, and Jinja is not run. For "
        'dialogues, train with unit = "dialogue" and write the template as [template]'
    ]


def _jinja(folder: Folder) -> str:
    """A folder's template, of several the usual one."""
    if (folder.path / "chat_template.jinja").exists():
        return folder.text("chat_template.jinja", LARGEST)
    value = folder.table("tokenizer_config.json", needed=False).get("chat_template")
    if isinstance(value, list):
        several = [each for each in value if isinstance(each, dict)]
        value = next(
            (each.get("template") for each in several if each.get("name") == "default"), ""
        )
    return value if isinstance(value, str) and len(value) <= LARGEST else ""


def known(text: str) -> dict[str, Any]:
    """The section `template` for a template of a well-known form; nothing for any other."""
    if any(word in text for word in CHANGES):
        return {}
    for mark, (before, message) in FORMS.items():
        if mark in text and all(each in text for each in MARK.findall(message)):
            usual = SYSTEM.search(text)
            forms = {role: message.replace("ROLE", role) for role in ROLES}
            return {"before": before, **forms} | ({"default_system": usual[1]} if usual else {})
    return {}
