"""Folders of Hugging Face that somebody has forged: a clear error, soon, and in little memory."""

import json
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers

ROWS, DIM, LIMIT = 7, 4, 11
CONFIG = {
    "model_type": "gpt2",
    "vocab_size": ROWS,
    "n_embd": DIM,
    "n_positions": LIMIT,
    "n_layer": 1,
    "n_head": 2,
    "eos_token_id": 0,
}


def tensors() -> dict[str, torch.Tensor]:
    shapes: dict[str, tuple[int, ...]] = {
        "wte.weight": (ROWS, DIM),
        "wpe.weight": (LIMIT, DIM),
        "h.0.attn.c_attn.weight": (DIM, 3 * DIM),
        "h.0.attn.c_attn.bias": (3 * DIM,),
        "h.0.attn.c_proj.weight": (DIM, DIM),
        "h.0.attn.c_proj.bias": (DIM,),
        "h.0.mlp.c_fc.weight": (DIM, 4 * DIM),
        "h.0.mlp.c_fc.bias": (4 * DIM,),
        "h.0.mlp.c_proj.weight": (4 * DIM, DIM),
        "h.0.mlp.c_proj.bias": (DIM,),
    }
    shapes |= {f"h.0.ln_{n}.{kind}": (DIM,) for n in (1, 2) for kind in ("weight", "bias")}
    shapes |= {f"ln_f.{kind}": (DIM,) for kind in ("weight", "bias")}
    return {name: torch.zeros(shape) for name, shape in shapes.items()}


def tree() -> dict[str, Any]:
    made = Tokenizer(models.WordLevel({"<end>": 0, "a": 1, "b": 2}, unk_token="a"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    found: dict[str, Any] = json.loads(made.to_str())
    return found


def write(folder: Path) -> Path:
    folder.mkdir(parents=True)
    put(folder / "config.json", CONFIG)
    put(folder / "tokenizer.json", tree())
    save_file(tensors(), folder / "model.safetensors")
    return folder


def put(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


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


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def cutting(**changes: Any) -> Callable[[Path], None]:
    return lambda folder: put(folder / "tokenizer.json", tree() | changes)


def split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def replaced(pattern: str, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": pattern}, "content": content}


def nested(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("[" * 100_000, encoding="utf-8")


DOUBLING = {"type": "Sequence", "normalizers": [replaced("a", "aa")] * 12}
CASES: dict[str, tuple[Callable[[Path], None], str]] = {
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
    "pickled": (pickled, "pickled weights alone (pytorch_model.bin)"),
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


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, float, float]]:
    """What is said to each folder, the megabytes that all took up to then, beside what the loader
    takes, and seconds."""
    base = tmp_path_factory.mktemp("folders")
    names = {case: f"f{n}" for n, case in enumerate(CASES)}
    good = write(base / "good")
    for case, (forge, _) in CASES.items():
        forge(write(base / names[case] / "model"))
    folders = [str(good), *(str(base / name / "model") for name in names.values())]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *folders], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    first, *rows = (line.split("\t") for line in done.stdout.splitlines())
    assert first[0] == "'IMPORTED'"
    assert not [path for path in base.rglob("*model-run*") if path.name != "good-run"]
    found = ((row[0], float(row[1]), float(row[2])) for row in rows)
    return dict(zip(CASES, found, strict=True))


@pytest.mark.parametrize("case", CASES)
def test_a_forged_folder_is_refused(told: dict[str, tuple[str, float, float]], case: str) -> None:
    said, megabytes, seconds = told[case]
    assert CASES[case][1] in said and "IMPORTED" not in said, said
    assert "\\n" not in said and len(said) < 1000
    assert megabytes < 100 and seconds < 2, (megabytes, seconds)
