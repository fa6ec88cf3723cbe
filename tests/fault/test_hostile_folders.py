"""Folders of Hugging Face that somebody has forged: a clear error, soon, and in little memory."""

import importlib
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from regard.interop import sentencepiece
from tests.fault import canary
from tests.fault.honest_folders import (
    BERT,
    CONFIG,
    DIM,
    FAMILIES,
    MARIAN,
    NUMBERS,
    ROWS,
    places,
    put,
    tensors,
    tree,
)

Forge = Callable[[Path], None]


def write(folder: Path, family: str) -> Path:
    folder.mkdir(parents=True)
    FAMILIES[family](folder)
    return folder


def header(folder: Path, **entries: Any) -> None:
    """A file of tensors whose header says anything."""
    text = json.dumps(entries).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text)


def truncated(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-9])


def lying(folder: Path) -> None:
    header(folder, **{"wte.weight": {"dtype": "F32", "shape": [ROWS, DIM], "data_offsets": [0, 8]}})


def huge(folder: Path) -> None:
    size = 10**13
    header(
        folder, **{"wte.weight": {"dtype": "F32", "shape": [size], "data_offsets": [0, 4 * size]}}
    )


def sparse(folder: Path) -> None:
    """As large as it says, but made of holes."""
    rows = 5_000_000
    put(folder / "config.json", CONFIG | {"vocab_size": rows, "n_embd": 512})
    size = rows * 512 * 4
    header(
        folder, **{"wte.weight": {"dtype": "F32", "shape": [rows, 512], "data_offsets": [0, size]}}
    )
    with (folder / "model.safetensors").open("r+b") as file:
        file.truncate(file.seek(0, 2) + size)


def long_header(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", 1 << 62) + b"{}")


def shapes(folder: Path) -> None:
    wrong = tensors() | {"h.0.mlp.c_fc.weight": torch.zeros(DIM, DIM)}
    save_file(wrong, folder / "model.safetensors")


def wide(folder: Path) -> None:
    put(folder / "config.json", CONFIG | {"n_embd": 10**9})


def deep(folder: Path) -> None:
    put(folder / "config.json", CONFIG | {"n_layer": 10**9})


def missing(folder: Path) -> None:
    rest = tensors()
    del rest["ln_f.bias"]
    save_file(rest, folder / "model.safetensors")


def added(folder: Path) -> None:
    save_file(tensors() | {"evil": torch.zeros(3)}, folder / "model.safetensors")


def not_finite(folder: Path) -> None:
    wrong = tensors() | {"ln_f.bias": torch.full((DIM,), float("nan"))}
    save_file(wrong, folder / "model.safetensors")


def outside(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder.parent / "model.safetensors")
    listed = dict.fromkeys(tensors(), "../model.safetensors")
    put(folder / "model.safetensors.index.json", {"weight_map": listed})


def absolute(folder: Path) -> None:
    listed = dict.fromkeys(tensors(), "/etc/passwd")
    put(folder / "model.safetensors.index.json", {"weight_map": listed})


def elsewhere(folder: Path) -> None:
    listed = dict.fromkeys([*tensors(), "more"], "model.safetensors")
    put(folder / "model.safetensors.index.json", {"weight_map": listed})


def pickled(name: str) -> Forge:
    """A pickle that leaves a mark, instead of weights."""

    def forge(folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        (folder / name).write_bytes(canary.pickled(folder.parent))

    return forge


def indexed(folder: Path) -> None:
    """A pipe among the files of an index."""
    os.mkfifo(folder / "part.safetensors")
    listed = dict.fromkeys(tensors(), "part.safetensors")
    put(folder / "model.safetensors.index.json", {"weight_map": listed})


def pipe(name: str) -> Forge:
    def forge(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)

    return forge


def endless(name: str) -> Forge:
    """A link to what has no end, and says that it is empty."""

    def forge(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to("/dev/zero")

    return forge


def said(name: str, value: Any) -> Forge:
    return lambda folder: put(folder / name, value)


def raw(name: str, data: bytes) -> Forge:
    def forge(folder: Path) -> None:
        (folder / name).write_bytes(data)

    return forge


def holes(name: str, size: int) -> Forge:
    def forge(folder: Path) -> None:
        with (folder / name).open("r+b") as file:
            file.truncate(size)

    return forge


def without(name: str) -> Forge:
    return lambda folder: (folder / name).unlink()


def cutting(**changes: Any) -> Forge:
    return lambda folder: put(folder / "tokenizer.json", tree() | changes)


def split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def replaced(pattern: str, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": pattern}, "content": content}


def nested(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("[" * 100_000, encoding="utf-8")


NO_FILE = "{} is not a regular file"
DOUBLING = {"type": "Sequence", "normalizers": [replaced("a", "aa")] * 12}
LONG = sentencepiece.LARGEST
CASES: dict[str, tuple[Forge, str]] = {
    "truncated": (truncated, "model.safetensors"),
    "lying": (lying, "model.safetensors"),
    "huge": (huge, "model.safetensors"),
    "sparse": (sparse, "holes"),
    "long header": (long_header, "its header is too large"),
    "shapes": (shapes, "mlp.c_fc.weight"),
    "wide": (wide, "must be"),
    "deep": (deep, "model.decoder.layers"),
    "missing weight": (missing, "ln_f.bias: missing"),
    "unknown weight": (added, "evil"),
    "not finite": (not_finite, "not finite"),
    "outside": (outside, "is not the name of a file in the folder"),
    "absolute": (absolute, "is not the name of a file in the folder"),
    "elsewhere": (elsewhere, "has no tensor 'more'"),
    "pickled": (pickled("pytorch_model.bin"), "pickled weights alone (pytorch_model.bin)"),
    "pickled, renamed": (pickled("model.safetensors"), "model.safetensors: "),
    "a pipe in an index": (indexed, "part.safetensors is not a regular file"),
    "bert: shapes": (said("config.json", BERT | {"intermediate_size": 5}), "intermediate.dense"),
    "bert: wide": (said("config.json", BERT | {"hidden_size": 10**9}), "must be"),
    "bert: pickled": (pickled("model.bin"), "pickled weights alone (model.bin)"),
    "bert: many tokens": (
        said("tokenizer.json", tree(*map(str, range(99)))),
        "but vocab_size in config.json is 7",
    ),
    "bert: tokenizer_config": (raw("tokenizer_config.json", b"[" * 99_999), "tokenizer_config"),
    "bert: no mark": (said("tokenizer.json", tree("x", "y")), "which token ends a text"),
    "vit: shapes": (said("preprocessor_config.json", {"size": 1, "resample": 99}), "resample: 99"),
    "marian: pickled": (pickled("pytorch_model.bin"), "pickled weights alone"),
    "marian: deep": (said("config.json", MARIAN | {"encoder_layers": 10**9}), "encoder.layers"),
    "marian: vocab": (said("vocab.json", NUMBERS | {"c": 10**9}), "does not number its tokens"),
    "marian: vocab of texts": (said("vocab.json", {"a": "b"}), "does not number its tokens"),
    "marian: long vocab": (
        said("vocab.json", {f"{n:x}": n for n in range(300_000)}),
        "more values",
    ),
    "marian: no sentencepiece": (raw("target.spm", b"\xff" * 99), "target.spm: it is no model"),
    "marian: empty fields": (raw("source.spm", b"\x20\x01" * (LONG // 2)), "it has no pieces"),
    "marian: long": (holes("target.spm", LONG + 1), "target.spm is larger than"),
    "marian: endless": (holes("source.spm", 10**12), "source.spm is larger than"),
    "two-sided: catastrophic": (
        said("target.tokenizer.json", tree() | {"pre_tokenizer": split("(a+)+b")}),
        "repeats a group",
    ),
    **{f"{f}: {name} is a pipe": (pipe(name), NO_FILE.format(name)) for f, name in places()},
    **{f"{f}: {name} has no end": (endless(name), NO_FILE.format(name)) for f, name in places()},
    "no config": (without("config.json"), "config.json: there is no such file"),
    "no tokenizer": (without("tokenizer.json"), "tokenizer.json: there is no such file"),
    "no weights": (without("model.safetensors"), "model.safetensors: there is no such file"),
    "catastrophic": (cutting(pre_tokenizer=split("(a+)+b")), "repeats a group"),
    "overlapping": (cutting(pre_tokenizer=split("a*a*a*a*b")), "has many repetitions"),
    "back": (cutting(pre_tokenizer=split(r"(a)\1")), "refers back"),
    "doubling": (cutting(normalizer=DOUBLING), "times as long"),
    "everywhere": (cutting(normalizer=replaced("", "aa")), "an empty one stands everywhere"),
    "unknown part": (cutting(normalizer={"type": "Eval"}), "'Eval' is not one of"),
    "nested": (nested, "tokenizer.json"),
    "random": (
        cutting(model={"type": "BPE", "dropout": 0.5, "vocab": {}, "merges": []}),
        "cuts at random",
    ),
    "far number": (
        cutting(model={"type": "WordLevel", "vocab": {"<end>": 0, "a": 10**9}, "unk_token": "a"}),
        "it numbers 2 tokens up to",
    ),
}

PROGRAM = """
import sys, time, resource
from pathlib import Path
from regard.errors import UserError
from regard.interop import importing
import regard.tasks.language_model, regard.decoders.transformer, regard.heads.vocabulary
import regard.tasks.masked_language_model, regard.tasks.translate, regard.tasks.classify
import regard.search.beam, regard.inputs.patches, regard.heads.masked, regard.heads.labels
import regard.interop.families.bert, regard.interop.families.marian, regard.interop.families.vit
import regard.train.job, regard.search.greedy, regard.interop.families.gpt2, regard.model

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

before = peak()
for folder in sys.argv[1:]:
    busy = time.process_time()
    try:
        importing.run(Path(folder), Path(folder + "-run"))
        said = "IMPORTED"
    except UserError as error:
        said = str(error)
    print(ascii(said), round(peak() - before), time.process_time() - busy, sep="\\t")
"""


def family(case: str) -> str:
    first, colon, _ = case.partition(": ")
    return first if colon else "gpt2"


Said = tuple[str, float, float]


def ran(folders: list[Path]) -> list[Said]:
    """What is said to each folder, the megabytes that all took up to then, beside what the loader
    takes, and seconds."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *folders], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    rows = (line.split("\t") for line in done.stdout.splitlines())
    return [(row[0], float(row[1]), float(row[2])) for row in rows]


CODE = {
    "auto_map": {"AutoConfig": "evil.Config", "AutoTokenizer": ["evil.Tokenizer", None]},
    "trust_remote_code": True,
}


def with_code(folder: Path) -> Path:
    """Programs that settings name, pickles beside the weights, and a template in Jinja."""
    config = json.loads((folder / "config.json").read_text())
    put(folder / "config.json", config | CODE)
    put(folder / "tokenizer_config.json", CODE)
    for name in ("evil.py", "modeling_evil.py", "__init__.py", "conftest.py"):
        (folder / name).write_text(canary.program(folder.parent))
    for name in ("pytorch_model.bin", "training_args.bin", "optimizer.pt"):
        (folder / name).write_bytes(canary.pickled(folder.parent))
    mark = repr(str(folder.parent / canary.MARK))
    jinja = f"{{{{ cycler.__init__.__globals__.os.mkdir({mark}) }}}}"
    (folder / "chat_template.jinja").write_text(jinja)
    return folder


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Said]:
    """What is said to each case; folders that nobody has forged are imported before them, and such
    as only bring programs along after them."""
    base = tmp_path_factory.mktemp("folders")
    folders = {f"good {name}": write(base / f"good-{name}", name) for name in FAMILIES}
    for n, (case, (forge, _)) in enumerate(CASES.items()):
        folders[case] = write(base / f"f{n}" / "model", family(case))
        forge(folders[case])
    for name in FAMILIES:
        folders[f"code {name}"] = with_code(write(base / f"code-{name}" / "model", name))
    found = dict(zip(folders, ran([*folders.values()]), strict=True))
    assert not [*base.glob("f*/model-run*")]
    assert not [*base.rglob(canary.MARK)]
    return found


@pytest.mark.parametrize("case", CASES)
def test_a_forged_folder_is_refused(told: dict[str, Said], case: str) -> None:
    said, megabytes, seconds = told[case]
    assert CASES[case][1] in said and "IMPORTED" not in said, said
    assert "\\n" not in said and len(said) < 1000
    assert megabytes < 100 and seconds < 2, (megabytes, seconds)


@pytest.mark.parametrize("name", FAMILIES)
def test_what_a_folder_brings_along_is_never_run(told: dict[str, Said], name: str) -> None:
    """No mark is left by it, which the fixture looks for."""
    assert told[f"good {name}"][0] == told[f"code {name}"][0] == "'IMPORTED'"


def test_the_canaries_would_leave_a_mark(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    exec(canary.program(tmp_path / "code"))  # noqa: S102
    assert (tmp_path / "code" / canary.MARK).is_dir()
    loads = importlib.import_module("pickle").loads
    loads(canary.pickled(tmp_path))
    assert (tmp_path / canary.MARK).is_dir()
