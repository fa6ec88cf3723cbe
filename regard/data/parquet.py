"""Files of Parquet with pictures or sounds in a column, as data sets of Hugging Face have them.

A cell is bytes, or a structure of `bytes` and `path`. Labels are texts or numbers; what a number
stands for is taken from the file's own description, if that says it. PyArrow reads them: the extra
`regard[parquet]`.
"""

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

from regard.errors import UserError

SUFFIX = ".parquet"


@lru_cache(maxsize=4)
def _opened(path: Path, stamp: int) -> Any:
    """The open file; `stamp` is when it last changed."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UserError(f"{path}: to read Parquet: pip install 'regard[parquet]'") from None
    try:
        return parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"{path} is no whole file of Parquet: {_first(error)}") from None


def _first(error: Exception) -> str:
    return str(error).split("\n", 1)[0]


def _file(path: Path) -> Any:
    return _opened(path, path.stat().st_mtime_ns)


def names(path: Path) -> list[str]:
    """The columns."""
    found: list[str] = _file(path).schema_arrow.names
    return found


def _check(path: Path, name: str) -> None:
    if name not in names(path):
        raise UserError(
            f"{path}: there is no column “{name}”; there are: {', '.join(names(path))}; say by "
            "data.columns which are meant"
        )


def has_bytes(path: Path, column: str) -> bool:
    """Whether a column is of bytes, or of structures that have them."""
    from pyarrow import types

    kind = _file(path).schema_arrow.field(column).type
    if types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
        kind = kind.field("bytes").type
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def labels(path: Path, label: str, column: str) -> Iterator[str]:
    """The label of each row."""
    for name in (label, column):
        _check(path, name)
    called = _called(path, label)
    for batch in _file(path).iter_batches(columns=[label]):
        for number, value in enumerate(batch.column(0).to_pylist()):
            if value is None or str(value).strip() == "":
                raise UserError(f"{path}: row {number + 1}: empty {label}")
            yield (
                called[value]
                if isinstance(value, int) and 0 <= value < len(called)
                else str(value).strip()
            )


def records(path: Path, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Some columns of each row, a few thousand rows in memory at a time."""
    import pyarrow

    try:
        for batch in _file(path).iter_batches(columns=[*dict.fromkeys(columns)], batch_size=4096):
            yield from batch.to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"{path}: rows cannot be read: {_first(error)}") from None


def _called(path: Path, label: str) -> list[str]:
    """The names of numbered labels, if the file says them."""
    about = (_file(path).schema_arrow.metadata or {}).get(b"huggingface", b"{}")
    try:
        found = json.loads(about)["info"]["features"][label]["names"]
    except (ValueError, KeyError, TypeError):
        return []
    return found if isinstance(found, list) and all(isinstance(x, str) for x in found) else []


def cell(path: Path, column: str, number: int) -> bytes:
    """The bytes of a row, counted from 0."""
    _check(path, column)
    file = _file(path)
    counts = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
    ends = [*accumulate(counts)]
    group = bisect_right(ends, number)
    if group == len(ends):
        raise ValueError(f"there is no row {number}")
    rows = _group(path, path.stat().st_mtime_ns, column, group)
    value = rows[number - ends[group] + counts[group]].as_py()
    if isinstance(value, dict):
        value = value.get("bytes")
    if not isinstance(value, bytes):
        raise ValueError(f"the column “{column}” has no bytes in this row")
    return value


@lru_cache(maxsize=1)
def _group(path: Path, stamp: int, column: str, group: int) -> Any:
    """A column of a group of rows, which are read together."""
    import pyarrow

    try:
        return _opened(path, stamp).read_row_group(group, columns=[column]).column(0)
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"a group of rows cannot be read: {_first(error)}") from None
