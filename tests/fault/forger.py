"""A forger of runs: changes values in any file, and makes all hashes agree with what is there."""

import json
import math
import random
import struct
import tomllib
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import tomli_w

from regard.data import earlier_store
from regard.data.shards import File
from regard.train import manifest

Chance = random.Random


class Raw(str):
    """What stands in a JSON file as it is, though it is no JSON, or none that Python writes."""


LATER = ("manifest.json", "metrics.jsonl", "curves.png", "curves.svg")
"""Files of a run's folder that were not there when it was made."""
DEEP = 3000
NASTY: list[Any] = [
    None, True, False, 0, 1, -1, 3, 2**31, 2**63, 2**64, 10**30, 0.5, -0.0, 1e-320, 1e308,
    Raw("9" * 5000), Raw("-" + "9" * 4000), Raw("NaN"), Raw("Infinity"), Raw("-Infinity"),
    Raw("1e999"), "", "x", "../../x", "/etc/passwd", "a\nb", "x\0y", Raw('"\\ud800"'), "1",
    "x" * 70_000, [], {}, [[]], {"": 0}, [1, 2, 3], ["a", "a"], Raw("[" * DEEP + "]" * DEEP),
    Raw('{"a":' * DEEP + "1" + "}" * DEEP), Raw('{"a": 1, "a": 2}'),
]  # fmt: skip
EXPLOSIVE: dict[str, list[Any]] = {
    "normalizer": [
        {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 1000},
        {"type": "Sequence", "normalizers": [
            {"type": "Replace", "pattern": {"Regex": "."}, "content": "aa"}] * 40},
        {"type": "Prepend", "prepend": "x" * (4 << 20)},
        Raw('{"type":"Sequence","normalizers":[' * 120 + '{"type":"NFC"}' + "]}" * 120),
        {"type": "Replace", "pattern": {"Regex": "(a*)*(a*)*b"}, "content": ""},
        {"type": "Lowercase"}, {"type": "StripAccents"},
    ],
    "pre_tokenizer": [
        {"type": "Split", "pattern": {"Regex": "(a+)+$|(.*)*x"}, "behavior": "Isolated",
         "invert": False},
        {"type": "Split", "pattern": {"Regex": "(?:(?:(?:.*)*)*)*Q"}, "behavior": "Removed",
         "invert": True},
        {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        {"type": "Digits", "individual_digits": True}, None,
    ],
    "decoder": [
        {"type": "Replace", "pattern": {"Regex": "(.*)*Q"}, "content": "x" * 9999},
        {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "a"}, "content": "aaaa"}] * 30},
        {"type": "BPEDecoder", "suffix": "</w>"}, None,
    ],
    "post_processor": [{"type": "BertProcessing", "sep": ["x", 7], "cls": ["y", 2**31]}],
    "truncation": [
        {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0}],
    "padding": [{"strategy": {"Fixed": 10**9}, "direction": "Right", "pad_to_multiple_of": None,
                 "pad_id": 0, "pad_type_id": 0, "pad_token": "x"}],
    "added_tokens": [[{"id": 10**6, "content": "a", "single_word": False, "lstrip": False,
                       "rstrip": False, "normalized": False, "special": True}]],
}  # fmt: skip


def agree(run: Path, kept: Collection[str] = ()) -> None:
    """Make all manifests, and the sums of stores, agree with what is there, but those `kept`."""
    for sums in (run / "store").glob("*.sha256"):
        paths = [sums.with_suffix(kind) for kind in (".tokens", ".offsets")]
        if f"store/{sums.name}" not in kept and all(path.is_file() for path in paths):
            sums.write_bytes(earlier_store.summed(*map(File, paths)))
    for index in indices(run):
        if f"store/{index.name}" not in kept:
            with suppress(ValueError, LookupError, TypeError):  # it may be no index any more
                index.write_text(json.dumps(_hashed(index)))
    before = {name: (run / name).read_bytes() for name in kept}
    names = [str(p.relative_to(run)) for p in run.rglob("*") if p.is_file()]
    made = [
        n for n in names if n.startswith(("store/", "start/")) or ("/" not in n and n[0] != ".")
    ]
    files = {n: manifest.entry(run / n) for n in made if n not in LATER}
    sign(run, files, {}, {})
    for folder in (run / "model", *(run / "checkpoints").glob("[0-9]*")):
        if folder.is_dir() and not folder.is_symlink():
            there = [f for f in folder.iterdir() if f.is_file() and f.name != "manifest.json"]
            lines = [run / "metrics.jsonl"] if (run / "metrics.jsonl").is_file() else []
            records = {path.name: manifest.entry(path, 10) for path in lines}
            sign(folder, {f.name: manifest.entry(f) for f in there}, files, records)
    text = {n: entry for n, entry in files.items() if n.startswith("store/train.")}
    for folder in (run / "engines").glob("*"):
        there = [f for f in folder.iterdir() if f.name not in ("manifest.json", "nearness.json")]
        sign(folder, {f.name: manifest.entry(f) for f in there}, text, {})
    for name, content in before.items():
        (run / name).write_bytes(content)


def indices(run: Path) -> list[Path]:
    """Those of its stores."""
    return sorted((run / "store").glob("*.json"))


def _hashed(index: Path) -> Any:
    """What an index says, with the hashes of the files that are there."""
    table = json.loads(index.read_text(encoding="utf-8"))
    for number, shard in enumerate(table["shards"]):
        for column, part in shard["columns"].items():
            for kind in ("values", "lengths"):
                path = index.with_name(f"{index.stem}.{column}.{number:05}.{kind}")
                part[kind] = File(path).hash() if path.is_file() else part[kind]
    return manifest.signed(table)


def sign(folder: Path, files: Any, run: Any, records: Any) -> None:
    table = {"format": 2, "files": files, "run": run, "records": records}
    (folder / "manifest.json").write_text(json.dumps(manifest.signed(table)))


# What is forged


def forged(run: Path, chance: Chance) -> list[str]:
    """Change one to three things in a run; the names of the files. The hashes agree after it."""
    files = sorted(str(p.relative_to(run)) for p in run.rglob("*") if p.is_file())
    files = [name for name in files if name != ".lock" and not name.startswith("events")]
    plain = [name for name in files if not name.endswith(("manifest.json", ".sha256"))]
    first = chance.choice(plain if chance.random() < 0.93 else files)
    names = [
        first,
        *chance.choices([first, chance.choice(plain)], k=chance.choice((0, 0, 0, 1, 2))),
    ]
    for name in names:
        change(run / name, chance)
    listed = {f"store/{index.name}" for index in indices(run)}
    agree(run, {n for n in names if n.endswith(("manifest.json", ".sha256")) or n in listed})
    return sorted({*names})


def change(path: Path, chance: Chance) -> None:
    """Something in a file, by what kind of file it is; or any of its bytes."""
    ways: dict[str, Callable[[Path, Chance], None]] = {
        ".json": in_json, ".toml": in_toml, ".safetensors": in_tensors, ".jsonl": in_lines,
        ".tokens": in_numbers, ".offsets": in_numbers, ".npy": in_numbers,
        ".values": in_numbers, ".lengths": in_numbers,
    }  # fmt: skip
    way = ways.get(path.suffix, in_bytes)
    before = path.read_bytes()
    for _ in range(20):
        try:
            (in_bytes if chance.random() < 0.15 else way)(path, chance)
        except (ValueError, KeyError, TypeError, IndexError, RecursionError, struct.error):
            in_bytes(path, chance)  # it was forged before, and is no longer what it was
        if path.read_bytes() != before:
            return


def in_bytes(path: Path, chance: Chance) -> None:
    data = bytearray(path.read_bytes()) or bytearray(b"x")
    place, size = chance.randrange(len(data)), chance.choice((1, 1, 4, 64))
    match chance.randrange(6):
        case 0:
            data[place] ^= 1 << chance.randrange(8)
        case 1:
            data[place : place + size] = chance.randbytes(size)
        case 2:
            data[place:place] = chance.randbytes(size)
        case 3:
            del data[place : place + size]
        case 4:
            del data[place:]
        case 5:
            data[place : place + size] = bytes(size)
    path.write_bytes(data)


def in_json(path: Path, chance: Chance) -> None:
    table = json.loads(path.read_text(encoding="utf-8"))
    if path.name.endswith(".tokenizer.json") and chance.random() < 0.4:
        key = chance.choice(list(EXPLOSIVE))
        table[key] = chance.choice(EXPLOSIVE[key])
    else:
        holder, key = chance.choice(list(_places(table, chance)))
        _replace(holder, key, chance)
    hashed = path.name == "manifest.json" or path.parent.name == "store"
    if hashed and chance.random() < 0.8:
        path.write_text(json.dumps(manifest.signed(json.loads(dumped(table)))))
    else:
        path.write_text(dumped(table), encoding="utf-8")


def in_lines(path: Path, chance: Chance) -> None:
    """One of the records."""
    lines = path.read_text(encoding="utf-8").splitlines()
    place = chance.randrange(len(lines))
    record = json.loads(lines[place])
    _replace(record, chance.choice(list(record)), chance)
    lines[place] = dumped(record)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _places(tree: Any, chance: Chance) -> Iterator[tuple[Any, Any]]:
    """Where something could be changed: a few of each container's keys."""
    keys = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
    for key in chance.sample(keys, min(6, len(keys))):
        yield tree, key
        if isinstance(tree[key], dict | list) and tree[key]:
            yield from _places(tree[key], chance)


def _replace(holder: Any, key: Any, chance: Chance) -> None:
    """Another value, none, one more, one that is there already, or under another name."""
    value = chance.choice(NASTY)
    match chance.randrange(8):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[chance.choice(["", "x", "update", "__class__", key + "s"])] = value
        case 1:
            holder.insert(key, value)
        case 2:
            other = chance.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
            holder[key] = holder[other]
        case 3 if type(holder[key]) in (int, float):
            was = holder[key]
            holder[key] = chance.choice([was + 1, was - 1, -was, was * 2, was + 0.5, float(was)])
        case _:
            holder[key] = value


def dumped(value: Any) -> str:
    """JSON, with what is raw as it is."""
    match value:
        case Raw():
            return str(value)
        case dict():
            pairs = (f"{json.dumps(str(key))}: {dumped(each)}" for key, each in value.items())
            return "{" + ", ".join(pairs) + "}"
        case list():
            return "[" + ", ".join(map(dumped, value)) + "]"
    return json.dumps(value)


def in_toml(path: Path, chance: Chance) -> None:
    text = path.read_text(encoding="utf-8")
    table = tomllib.loads(text)
    holder, key = chance.choice(list(_places(table, chance)))
    value = chance.choice([v for v in NASTY if v is not None and not isinstance(v, Raw)] + [
        math.nan, math.inf, -math.inf, "auto", "beam", "rnn", "word", 2, 7, 1e-9,
    ])  # fmt: skip
    if chance.random() < 0.15:
        del holder[key]
    else:
        holder[key] = value
    path.write_text(tomli_w.dumps(table), encoding="utf-8")


def in_tensors(path: Path, chance: Chance) -> None:
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header, rest = json.loads(data[8 : 8 + length]), bytearray(data[8 + length :])
    name = chance.choice([key for key in header if key != "__metadata__"])
    about = header[name]
    match chance.randrange(8):
        case 0:
            about["dtype"] = chance.choice(["F64", "F16", "BF16", "I8", "BOOL", "U64", "C64", "x"])
        case 1:
            about["shape"] = chance.choice([[], [0], [-1], [2**63], [0, 2**64 - 1], [1] * 99, "x"])
        case 2:
            about["shape"] = about["shape"][::-1] + chance.choice([[], [1]])
        case 3:
            about["data_offsets"] = chance.choice([[0, 2**63], [2**64, 0], [-4, 0], [0, 0], [0]])
        case 4:
            header[chance.choice([f"{name}x", "", "../x", "x\0y"])] = header.pop(name)
        case 5:
            del header[name]
        case _:
            number = chance.choice([math.nan, math.inf, -math.inf, 1e38, -1e38, 0.0, -1.0, 1e-40])
            first, end = about["data_offsets"]
            place = chance.randrange(first, end, 4)
            rest[place : place + 4] = struct.pack("<f", number)
    text = json.dumps(header).encode()
    size = len(text) if chance.random() < 0.95 else chance.choice([2**63, 2**64 - 1, 0, 90 << 20])
    path.write_bytes(size.to_bytes(8, "little") + text + rest)


def in_numbers(path: Path, chance: Chance) -> None:
    """A token, a border, a length, a value."""
    form = {".tokens": "<H", ".offsets": "<q", ".npy": "<d", ".lengths": "<I"}.get(path.suffix)
    form = form or f"<{FORMS[dtype(path)]}"
    every: dict[str, list[Any]] = {
        "<?": [True, False], "<B": [0, 1, 2, 9, 128, 255], "<H": [*SMALL, 2**15, 2**16 - 1],
        "<I": [*SMALL, 2**16, 2**31, 2**32 - 1], "<h": [*SMALL, -1, -(2**15), 2**15 - 1],
        "<i": [*SMALL, -1, -(2**31), 2**31 - 1],
        "<q": [0, 1, -1, 2, 7, 2**31, 2**62, 2**63 - 1, -(2**63)],
        "<e": [math.nan, math.inf, -math.inf, 0.0, 6e4, 1e-7, 7.0],
        "<f": [math.nan, math.inf, -math.inf, 0.0, 1e38, 1e-40, 7.0],
        "<d": [math.nan, math.inf, -math.inf, 0.0, 1e308, 1e-310, 7.0],
    }  # fmt: skip
    nasty = every[form]
    data, width = bytearray(path.read_bytes()), struct.calcsize(form)
    start = 128 if path.suffix == ".npy" else 0
    place = chance.randrange(start, len(data), width)
    data[place : place + width] = struct.pack(form, chance.choice(nasty))
    if chance.random() < 0.1:
        data += data[-width:]
    path.write_bytes(data)


SMALL = [0, 1, 2, 3, 4, 5, 9, 255, 256]
FORMS = {
    "u1": "B", "u2": "H", "u4": "I", "i2": "h", "i4": "i", "i8": "q",
    "f2": "e", "f4": "f", "f8": "d", "bool": "?",
}  # fmt: skip
"""How `struct` calls the types of a store."""


def dtype(path: Path) -> str:
    """Of NAME.COLUMN.00000.values, as the index has it."""
    name, column, _, _ = path.name.rsplit(".", 3)
    table = json.loads(path.with_name(f"{name}.json").read_text(encoding="utf-8"))
    return str(table["columns"][column]["dtype"])
