"""Whether a run could have written what stands in one of its files: rules of the tests' own, which
know the formats, but nothing of the code that reads them.

A file is compared with what it was before the forger had it: a value may be another one of its kind
(another weight, another rate, another word), but no vocabulary grows, and no shape changes.
"""

import json
import math
import struct
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

SPECIAL = 4
END = 2
UNKNOWN = 3
LABELS = ("labels", "tags")
"""How columns of what is learnt to be said are called."""
Table = dict[str, Any]


class Lie(Exception):
    """What no run writes."""


def must(truth: Any) -> None:
    if not truth:
        raise Lie


def could_be(name: str, before: Path, now: Path) -> bool:
    """Whether the file `name` of the run `now` is one that a run such as `before` could have."""
    try:
        rule(name)(before / name, now / name)
    except (Lie, ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError):
        return False
    except (RecursionError, struct.error):
        return False
    return True


def rule(name: str) -> Callable[[Path, Path], None]:
    ending = name.rpartition(".")[2]
    for pattern, found in RULES.items():
        if name.endswith(pattern):
            return found
    if name.startswith("store/") and ending == "json":
        return index
    rules = {"safetensors": tensors, "tokens": tokens, "offsets": offsets}
    return (rules | {"values": values, "lengths": lengths}).get(ending, anything)


def unchanged(before: Path, now: Path) -> None:
    """It follows from the weights."""
    must(now.read_bytes() == before.read_bytes())


def anything(before: Path, now: Path) -> None:
    """Nothing is known of it."""


# JSON and TOML


def strict(path: Path) -> Any:
    """JSON without what the standard does not have, and with each key once."""

    def once(pairs: list[tuple[str, Any]]) -> Table:
        must(len({key for key, _ in pairs}) == len(pairs))
        return dict(pairs)

    def integer(digits: str) -> int:
        must(len(digits) < 25)
        return int(digits)

    text = path.read_bytes().decode()
    return json.loads(text, object_pairs_hook=once, parse_int=integer)


def is_count(value: Any, low: int = 0) -> bool:
    return type(value) is int and low <= value < 2**63


def is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def is_line(value: Any) -> bool:
    if not isinstance(value, str) or {"\n", "\r", "\0"} & set(value):
        return False
    return not any("\ud800" <= c <= "\udfff" for c in value)


def labels(before: Path, now: Path) -> None:
    old, table = strict(before), strict(now)
    must(table.keys() == old.keys())
    if "mean" in old:
        must(is_number(table["mean"]) and is_number(table["deviation"]) and table["deviation"] > 0)
        return
    names, counts = table["names"], table["counts"]
    must(isinstance(names, list) and all(map(is_line, names)))
    must(names == sorted(set(names)) and len(names) == len(old["names"]))
    must(isinstance(counts, list) and len(counts) == len(names))
    must(all(is_count(count, 1) for count in counts) and is_count(table["texts"], max(counts)))


def scaler(before: Path, now: Path) -> None:
    old, table = strict(before), strict(now)
    must(table.keys() == old.keys())
    names = table["variables"]
    must(isinstance(names, list) and all(map(is_line, names)))
    must(len(set(names)) == len(names) == len(old["variables"]))
    for key in ("mean", "deviation"):
        must(isinstance(table[key], list) and len(table[key]) == len(names))
        must(all(map(is_number, table[key])))
    must(all(value > 0 for value in table["deviation"]))
    ends = [table["parts"][part] for part in ("train", "validation", "test")]
    must(len(table["parts"]) == 3 and all(isinstance(pair, list) for pair in ends))
    flat = [row for pair in ends for row in pair]
    must(len(flat) == 6 and all(map(is_count, flat)) and flat == sorted(flat))
    must(flat[0] == 0 < flat[1] == flat[2] and flat[3] == flat[4])
    must(table["parts"]["validation"][1] == old["parts"]["validation"][1])


def tokenizer(before: Path, now: Path) -> None:
    old, tree = strict(before), strict(now)
    inner, outer = {"vocab", "merges"}, {"model"}
    must(_without(tree, outer) == _without(old, outer))
    must(_without(tree["model"], inner) == _without(old["model"], inner))
    kind, vocabulary = old["model"]["type"], tree["model"]["vocab"]
    if kind == "Unigram":
        must(isinstance(vocabulary, list) and all(len(entry) == 2 for entry in vocabulary))
        must(all(is_number(score) and score <= 0 for _, score in vocabulary))
        pieces = [piece for piece, _ in vocabulary]
    else:
        must(isinstance(vocabulary, dict) and all(map(is_count, vocabulary.values())))
        must(sorted(vocabulary.values()) == list(range(len(vocabulary))))
        pieces = sorted(vocabulary, key=lambda piece: int(vocabulary[piece]))
    must(all(map(is_line, pieces)) and len(set(pieces)) == len(pieces))
    must(len(pieces) == len(old["model"]["vocab"]))
    must(pieces[:SPECIAL] == [" <pad>", " <start>", " <end>", " <unknown>"])
    own = pieces[SPECIAL:]
    short = {piece for piece in own if len(piece) == 1}
    must("" not in own)
    if kind == "WordLevel":
        single = old["decoder"] is not None
        must(len(short) == len(own) if single else not any(" " in piece for piece in own))
        must(single or not any(set("\t\v\f") & set(piece) for piece in own))
        return
    was = {piece for piece in _pieces(old) if len(piece) == 1}
    must(short == was >= set("".join(own)))
    if kind == "BPE":
        merges = tree["model"]["merges"]
        must(isinstance(merges, list) and all(isinstance(pair, list) for pair in merges))
        must({left + right for left, right in merges} == set(own) - short)
        must(all(part in vocabulary for pair in merges for part in pair))


def _pieces(tree: Table) -> list[str]:
    vocabulary = tree["model"]["vocab"]
    return [e[0] for e in vocabulary] if isinstance(vocabulary, list) else list(vocabulary)


def _without(table: Table, keys: set[str]) -> str:
    """The rest, without what is off anyway; as text, in which true is not 1."""
    kept = {k: v for k, v in table.items() if k not in keys and v not in (None, False, [])}
    return json.dumps(kept, sort_keys=True)


COUNTS = ("update", "tokens", "best_update", "stale", "refused", "lowered", "counted")
TIMES = ("seconds", "cpu_seconds", "memory")


def progress(before: Path, now: Path) -> None:
    old, table = strict(before), strict(now)
    must({"update", "position", "scores"} <= table.keys() <= old.keys())
    must(all(is_count(table[key]) for key in COUNTS if key in table))
    must(all(is_number(table[key]) and table[key] >= 0 for key in TIMES if key in table))
    for key in ("best", "loss", "lowest", "then"):
        must(table.get(key) is None or is_number(table[key]))
    must(table["position"].keys() == {"epoch", "index"})
    must(all(map(is_count, table["position"].values())))
    must(type(table.get("finished", False)) is bool)
    must(all(is_count(table[key], -1) for key in ("recorded", "validated") if key in table))
    must(all(map(is_number, table.get("sums", {}).values())))
    must(all(map(is_count, table.get("signs", {}).values())))
    must(all(map(is_count, table.get("counts", {}).values())))
    about = table.get("machine", {}).values()
    must(all(is_number(value) or isinstance(value, str) for value in about))
    must(all(key.isdecimal() and key.isascii() for key in table["scores"]))
    must(all(type(value) in (int, float) for value in table["scores"].values()))
    if now.parent.name != "model":
        must(table["update"] == int(now.parent.name))
    updates = [table.get(key, 0) for key in ("best_update", "recorded", "validated")]
    must(max([*updates, *map(int, table["scores"])]) <= table["update"])


NUMBERS = {
    "beta1", "beta2", "clip", "dropout", "end", "epochs", "epsilon", "factor",
    "feedforward_dropout", "learning_rate", "length_penalty", "level", "memory", "minutes",
    "rate", "rollback_factor", "save_every", "scale", "smoothing", "temperature", "test",
    "top_p", "train", "unknown", "validate_every", "validation", "warmup", "weight_decay",
    "word_dropout",
}  # fmt: skip
"""Keys of a recipe that need not be whole: one that is has no point in the file."""


def recipe(before: Path, now: Path) -> None:
    """Types alone, and what no key can be: the ranges are many, and the recipes' own matter."""
    old, table = (_flat(tomllib.loads(path.read_bytes().decode())) for path in (before, now))
    must(table.keys() <= old.keys())
    for key, value in table.items():
        was = type(old[key])
        any_number = was is float or key.rpartition(".")[2] in NUMBERS or key == "search.patience"
        must(type(value) is was or (any_number and {type(value), was} == {int, float}))
        must(was is not list or {type(each) for each in value} <= {str, *map(type, old[key])})
        must(type(value) is not float or math.isfinite(value))
        must(was not in (int, float) or abs(value) < 2**63)
        texts = value if was is list else [value]
        must(not any("\0" in each for each in texts if isinstance(each, str)))


def _flat(table: Table, prefix: str = "") -> Table:
    found: Table = {}
    for key, value in table.items():
        inner = isinstance(value, dict)
        found |= _flat(value, f"{prefix}{key}.") if inner else {f"{prefix}{key}": value}
    return found


def choices(before: Path, now: Path) -> None:
    now.read_bytes().decode()


def shortlist(before: Path, now: Path) -> None:
    """For all tokens, then for some of the source: those that are allowed, the end always."""
    folder, run = before.parent, before.parents[2]
    sides = [run / f"{side}.tokenizer.json" for side in ("source", "target")]
    source, target = (set(map(str, range(len(_pieces(strict(path)))))) for path in sides)
    must(folder.parent.name == "engines")
    lines = now.read_bytes().decode("ascii").split("\n")
    must(lines.pop() == "" and lines[0].startswith("\t"))
    must(str(END) in lines[0][1:].split(" "))
    for number, line in enumerate(lines):
        key, symbols = line.split("\t")
        must(set(symbols.split(" ")) <= target and (key in source or number == 0))


# Numbers


def parsed(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """The tensors of a file: float32, one after the other without a gap, to the end."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    must(length <= len(data) - 8)
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    rest, place, found = data[8 + length :], 0, {}
    for name, about in sorted(header.items(), key=lambda pair: pair[1]["data_offsets"]):
        must(about["dtype"] == "F32" and all(is_count(size, 1) for size in about["shape"]))
        first, end = about["data_offsets"]
        must(first == place and end - first == 4 * math.prod(about["shape"]))
        found[name] = np.frombuffer(rest[first:end], "<f4").reshape(about["shape"])
        place = end
    must(place == len(rest))
    return found


def tensors(before: Path, now: Path) -> None:
    old, found = parsed(before), parsed(now)
    must(found.keys() == old.keys())
    for name, value in found.items():
        must(value.shape == old[name].shape and np.isfinite(value).all())
        if name.endswith(("head.temperature", "head.deviation")):
            must((value > 0).all())
        if name.endswith("/exp_avg_sq"):
            must((value >= 0).all())
        if name.endswith("/step"):
            must(value >= 1)


def array(before: Path, now: Path) -> None:
    old = np.load(before)
    data = now.read_bytes()
    must(data[:8] == before.read_bytes()[:8])
    length = int.from_bytes(data[8:10], "little")
    header = data[10 : 10 + length].decode("latin1")
    was = before.read_bytes()[10 : 10 + int.from_bytes(before.read_bytes()[8:10], "little")]
    must(header.split() == was.decode("latin1").split())
    values = np.frombuffer(data[10 + length :], "<f8")
    must(values.size == old.size and np.isfinite(values).all())


def offsets(before: Path, now: Path) -> None:
    old, found = (np.frombuffer(path.read_bytes(), "<i8").tolist() for path in (before, now))
    must(len(found) == len(old) and found[0] == 0 and found == sorted(found))
    must(found[-1] == old[-1])
    if (before.parent / f"{now.name.split('.')[0]}.labels.offsets").exists():
        must(found == old)  # else they are not of the same words
    if not (before.parents[1] / "source.tokenizer.json").is_file():
        lines(now)


def tokens(before: Path, now: Path) -> None:
    """Of the earlier form of a store."""
    part, kind, _ = now.name.split(".")
    data = now.read_bytes()
    must(len(data) == before.stat().st_size)
    count = np.frombuffer(before.with_suffix(".offsets").read_bytes(), "<i8")[-1]
    found = np.frombuffer(data, "<u4" if count and len(data) // count == 4 else "<u2")
    if kind == "labels" and "mean" in strict(before.parents[1] / "labels.json"):
        found = found.view("<f4")
    numbers(before, now, part, kind, found)
    if not (before.parents[1] / "source.tokenizer.json").is_file():
        lines(now)


def index(before: Path, now: Path) -> None:
    """Of a store: columns and counts are what they were; hashes are compared by the reader."""
    old, table = strict(before), strict(now)
    for each in (old, table):
        must(is_hash(each.pop("sha256")))
        for shard in each["shards"]:
            for part in shard["columns"].values():
                must(is_hash(part.pop("values")) and is_hash(part.pop("lengths")))
    must(json.dumps(table, sort_keys=True) == json.dumps(old, sort_keys=True))


def is_hash(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")


def values(before: Path, now: Path) -> None:
    """NAME.COLUMN.00000.values: as many as there were, each one that may stand there."""
    part, kind, _, _ = now.name.split(".")
    data = now.read_bytes()
    must(len(data) == before.stat().st_size)
    if part == "watched":
        return texts(now.with_suffix(".lengths"), data)
    dtype = strict(before.with_name(f"{part}.json"))["columns"][kind]["dtype"]
    if dtype == "bool":
        must(set(data) <= {0, 1})
    found = np.frombuffer(data, np.dtype(dtype).newbyteorder("<"))
    numbers(before, now, part, kind, found)
    if kind == "target" and not (before.parents[1] / "source.tokenizer.json").is_file():
        ends(now.with_suffix(".lengths"), found)


def lengths(before: Path, now: Path) -> None:
    old, found = (np.frombuffer(path.read_bytes(), "<u4").tolist() for path in (before, now))
    must(len(found) == len(old) and sum(found) == sum(old))
    part, kind, _, _ = now.name.split(".")
    columns = strict(before.with_name(f"{part}.json"))["columns"]
    if part == "watched":
        return texts(now, now.with_suffix(".values").read_bytes())
    if "labels" in columns or "tags" in columns:
        must(found == old)  # else they are not of the same words
    if kind == "target" and not (before.parents[1] / "source.tokenizer.json").is_file():
        data = now.with_suffix(".values").read_bytes()
        ends(now, np.frombuffer(data, np.dtype(columns[kind]["dtype"]).newbyteorder("<")))


def texts(path: Path, data: bytes) -> None:
    """Each is UTF-8, and as long as the file of lengths says."""
    place = 0
    for length in np.frombuffer(path.read_bytes(), "<u4").tolist():
        data[place : place + length].decode()
        place += length
    must(place == len(data))


def ends(path: Path, found: np.ndarray[Any, Any]) -> None:
    """In a language model's text, lines end with the end symbol, which stands nowhere else."""
    places = np.cumsum(np.frombuffer(path.read_bytes(), "<u4").astype("<i8")) - 1
    must(np.array_equal(np.flatnonzero(found == END), places))


def numbers(before: Path, now: Path, part: str, kind: str, found: np.ndarray[Any, Any]) -> None:
    """A count of pieces or letters must be what it was; tokens and labels may be others."""
    run, kind = before.parents[1], kind.removeprefix("source_")
    must(kind not in ("pieces", "letters") or now.read_bytes() == before.read_bytes())
    if found.dtype.kind == "f":
        must(not (np.isinf(found) if kind in LABELS else ~np.isfinite(found)).any())
    elif kind == "text":
        now.read_bytes().decode()
    elif kind in LABELS:
        table = strict(run / "labels.json")
        one = 'task = "classify"' in (run / "recipe.toml").read_text(encoding="utf-8")
        low, high = one and part == "train", len(table["names"]) + 1
        must(not found.size or (found.min() >= low and found.max() < high))
    elif kind not in ("pieces", "letters"):
        side = {"symbols": "source"}.get(kind, kind)
        path = run / f"{side}.tokenizer.json"
        high = len(strict(path)["model"]["vocab"]) if path.is_file() else 0
        no_source = not (run / "source.tokenizer.json").is_file()  # but ends of lines
        must(not found.size or (found.min() >= UNKNOWN - no_source and found.max() < high))


def lines(now: Path) -> None:
    """In a language model's text, lines end with the end symbol, which stands nowhere else."""
    path = now.with_suffix(".offsets")
    if path.name == "train.target.offsets":
        places = np.frombuffer(path.read_bytes(), "<i8")[1:] - 1
        found = np.frombuffer(now.with_suffix(".tokens").read_bytes(), "<u2")
        must(np.array_equal(np.flatnonzero(found == END), places))


RULES: dict[str, Callable[[Path, Path], None]] = {
    "labels.json": labels,
    "series.json": scaler,
    ".tokenizer.json": tokenizer,
    "progress.json": progress,
    "recipe.toml": recipe,
    "choices.txt": choices,
    "series.npy": array,
    "model.bin": unchanged,
    "config.json": unchanged,
    "_vocabulary.json": unchanged,
    "vmap.txt": shortlist,
}
