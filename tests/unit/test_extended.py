"""Tables come out as they came in, with columns added: byte for byte, row for row."""

import json
from collections.abc import Iterator
from typing import Any, Literal

import pytest

from regard.data import extended
from regard.data.extended import Request, encoded
from regard.data.extended_rows import opened
from regard.errors import UserError

Kind = Literal["tsv", "csv", "jsonl"]


def lines(data: bytes) -> Iterator[bytes]:
    return iter(data.splitlines(keepends=True)) if b"\r" not in data else _at_newlines(data)


def _at_newlines(data: bytes) -> Iterator[bytes]:
    """As a file gives them: only a newline ends a line."""
    *whole, last = data.split(b"\n")
    yield from (line + b"\n" for line in whole)
    if last:
        yield last


def extend(data: bytes, kind: Kind, name: str = "label", **asked: Any) -> tuple[bytes, list[str]]:
    """Each row with what was read of it between angles, and the defects."""
    table = opened(lines(data), "f", kind, Request(**asked))
    column, out, defects = table.free(name), [], []
    out.append(table.header([column]))
    for row in table.rows():
        if row.values is None:
            out.append(row.text + row.ending)
            continue
        read = row.defect or table.read(row)
        if isinstance(read, str):
            defects.append(f"{row.line}: {read}")
        value = None if isinstance(read, str) else f"<{read[0]}>"
        out.append(table.extended(row, {column: value}))
    return encoded("".join(out)), defects


def test_commas_quotes_and_line_ends_stay_as_they_are():
    data = (
        b'\xef\xbb\xbfid,text,stars\r\n1,"a dog, runs", 5\r\n\r\n2,"he said ""hi"" ok",4\r\n'
        b"3,last one,1"
    )
    found, defects = extend(data, "csv")
    assert found == (
        b'\xef\xbb\xbfid,text,stars,label\r\n1,"a dog, runs", 5,"<a dog, runs>"\r\n\r\n'
        b'2,"he said ""hi"" ok",4,"<he said ""hi"" ok>"\r\n3,last one,1,<last one>'
    )
    assert not defects


def test_quotes_are_written_where_the_row_has_them():
    data = b'"country","address"\n"DE","Haus 1, Berlin"\n"FR","rue 2\nParis"\n'
    found, _ = extend(data, "csv", usual=("address",))
    assert found == (
        b'"country","address","label"\n"DE","Haus 1, Berlin","<Haus 1, Berlin>"\n'
        b'"FR","rue 2\nParis","<rue 2 Paris>"\n'
    )


@pytest.mark.parametrize("between", [";", "|", "\t"])
def test_other_delimiters_are_found(between: str):
    rows = [["x", "the text here"], ["y", "one, two, three"], ["z", "a, b"]]
    data = "\n".join(between.join(row) for row in rows).encode() + b"\n"
    found, _ = extend(data, "csv", own=("label", "text"))
    said = "\n".join(between.join([*row, f"<{row[1]}>"]) for row in rows).encode() + b"\n"
    assert found == said
    named = {"\t": "tab", ";": "semicolon", "|": "pipe"}[between]
    assert extend(data, "csv", delimiter=named)[0] == said


def test_cells_between_tabs_are_never_quoted():
    table = opened(iter([b'1\t"a b\n', b"2\tc d\n"]), "f", "tsv", Request())
    rows = list(table.rows())
    assert [table.read(row) for row in rows] == [('"a b',), ("c d",)]
    assert table.extended(rows[0], {"label": 'x\ty\n"z"'}) == '1\t"a b\tx y "z"\n'


def test_a_row_that_cannot_be_read_keeps_its_place():
    data = b"id,text,label\n1,\xff bad,z\n2,short\n3,too,many,cells\n4,good one,w\n"
    found, defects = extend(data, "csv")
    assert found == (
        b"id,text,label,predicted_label\n1,\xff bad,z,\n2,short,,\n3,too,many,cells,\n"
        b"4,good one,w,<good one>\n"
    )
    assert defects == ["2: not UTF-8", "3: 2 columns instead of 3", "4: 4 columns instead of 3"]


def test_a_quote_that_is_not_closed_takes_its_own_line_alone():
    rows = [f"{n},word of line {n}\n".encode() for n in range(500)]
    rows[7] = b'7,"word of line 7\n'
    found, defects = extend(b"id,text\n" + b"".join(rows), "csv")
    assert defects == ["9: a quote is not closed"]
    out = found.split(b"\n")
    assert out[8] == rows[7].strip() and out[9] == b"8,word of line 8,<word of line 8>"
    assert len(out) == 502


def test_objects_get_a_key_before_their_brace():
    data = b'{"a": 1.50, "text": "hi \\u00e9"}\n{"text":"ok"  }\r\n\n{}\nnope\n[1]\n{"text": 3}'
    found, defects = extend(data, "jsonl")
    assert (
        found
        == (
            '{"a": 1.50, "text": "hi \\u00e9", "label": "<hi é>"}\n'
            '{"text":"ok", "label": "<ok>"}\r\n\n'
            '{"label": null}\nnope\n[1]\n{"text": 3, "label": null}'
        ).encode()
    )
    assert defects == [
        "4: it has no “text”",
        "5: not JSON",
        "6: not a JSON object",
        "7: “text” is not text",
    ]


def test_lists_of_words_are_read_where_they_are_asked_for():
    line = json.dumps({"words": ["a", "b"], "text": "x y"}).encode()
    for kind, found in ((str, (["a", "b"],)), (None, "“words” is not text")):
        table = opened(iter([line]), "f", "jsonl", Request(usual=("words",), lists=kind))
        assert [table.read(row) for row in table.rows()] == [found]


def test_no_name_is_taken_twice():
    data = b"text,label,predicted_label\na b,x,y\n"
    assert extend(data, "csv")[0].startswith(b"text,label,predicted_label,predicted_label_2\n")
    data = b'{"text": "a b"}\n' * 300 + b'{"text": "a b", "label": 1}\n'
    with pytest.raises(UserError, match=r"^f:301: it has a key “label” already"):
        extend(data, "jsonl")


# Which column is read


@pytest.mark.parametrize(
    ("data", "asked", "read"),
    [
        (b"id,comment\n1,a b\n2,c d\n", {}, ["a b", "c d"]),  # the only texts
        (b"id,comment\n1,a\n2,b\n", {}, ["a", "b"]),  # the only words
        (b"text,comment\na b,c d\ne f,g h\n", {}, ["a b", "e f"]),  # the run's own name
        (b"text,comment\na b,c d\n", {"columns": ["comment"]}, ["c d"]),
        (b"text,comment\na b,c d\n", {"columns": ["2"]}, ["c d"]),
        (b"text,comment\na b,c d\n", {"columns": ["-1"]}, ["c d"]),
        (
            b"a b,c d\ne f,g h\n",
            {"own": ("source", "target"), "usual": ("source",)},
            ["a b", "e f"],
        ),
        (b"a b,c d\ne f,g h\n", {"own": ("target", "text")}, ["c d", "g h"]),
        (b"good film,pos\nbad one,neg\n", {"own": ("label", "text")}, ["good film", "bad one"]),
        (b"x,a b,7\ny,c d,8\n", {"own": (3, 2), "usual": (2,)}, ["a b", "c d"]),  # by number
        (b"one line\nanother\n", {}, ["one line", "another"]),
        (b"a b\nc d\n", {"header": True}, ["c d"]),
        (b"text\nc d\n", {"header": False}, ["text", "c d"]),
    ],
)
def test_the_column_that_is_read(data: bytes, asked: dict[str, Any], read: list[str]):
    table = opened(lines(data), "f", "csv", Request(**asked))
    assert [table.read(row) for row in table.rows()] == [(each,) for each in read]


@pytest.mark.parametrize(
    ("data", "kind", "asked", "message"),
    [
        (b"a,b\nx y,z w\n", "csv", {"columns": ["c"]}, "f: the header has no column “c”. It has "),
        (b"q,q\nx y,z w\n", "csv", {"columns": ["q"], "header": True}, "two columns “q”"),
        (b"id,text\n1,z w\n", "csv", {"columns": ["3"]}, "no column 3. It has id, text: say which"),
        (b"x y,z w\nu v,s t\n", "csv", {}, "which column is to be read? It has column 1, column 2"),
        (b'{"a": "x y", "b": "z w"}', "jsonl", {}, "which key is to be read? It has a, b: say"),
        (b'{"a": "x y"}', "jsonl", {"columns": ["c"]}, "no object has a key “c”. It has a"),
        (b"a,b\nx y,z w\n", "csv", {"usual": ("s", "t"), "header": True}, "say which by --columns"),
    ],
)
def test_a_column_that_is_not_there_is_refused(
    data: bytes, kind: Kind, asked: dict[str, Any], message: str
):
    with pytest.raises(UserError) as refused:
        opened(lines(data), "f", kind, Request(**asked))
    assert message in str(refused.value)


def test_an_empty_table_stays_empty():
    for kind in ("tsv", "csv", "jsonl"):
        assert extend(b"", kind) == (b"", [])


def test_rows_are_read_one_after_the_other():
    """No more than the first rows are looked at before the first one comes out."""
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield b"some text\tx\n"

    table = opened(endless(), "f", "tsv", Request(columns=["1"]))
    rows = table.rows()
    for _ in range(1000):
        next(rows)
    assert taken <= 1001
    assert extended.SUFFIXES[".ndjson"] == "jsonl"
