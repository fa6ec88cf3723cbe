"""Readers: every line comes through or is accounted for, under its own number."""

import csv
import gzip
import json
import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from regard.data import readers
from regard.data.readers import Finding, Policy, Report, text
from regard.data.tables import parallel
from regard.errors import UserError

PROJECT = Path(__file__).resolve().parents[2]
SKIP = Policy(broken="skip")
PAIR = ("source", "target")


def put(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)
    return path


def rows(*paths: Path, columns=PAIR, policy=SKIP, report=None, header=False):
    return list(parallel(paths, columns, policy, report or Report(), header=header))


def numbered(*lines: tuple[str, ...]):
    return list(enumerate(lines, 1))


# Formats


@pytest.mark.parametrize("gz", ["", ".gz"])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", "ein Haus\ta house\nzwei, drei\ttwo, three\n"),
        ("a.csv", 'ein Haus,a house\n"zwei, drei","two, three"\n'),
        (
            "a.jsonl",
            '{"source": "ein Haus", "target": "a house"}\n'
            '{"target": "two, three", "more": [1], "source": "zwei, drei"}\n',
        ),
    ],
)
def test_one_file_with_all_columns(tmp_path, name, content, gz):
    expected = numbered(("ein Haus", "a house"), ("zwei, drei", "two, three"))
    report = Report()
    assert rows(put(tmp_path, name + gz, content), report=report) == expected
    assert (report.used, report.counts) == (2, {})


@pytest.mark.parametrize("gz", ["", ".gz"])
def test_one_plain_file_for_each_column(tmp_path, gz):
    files = [put(tmp_path, f"train.{x}{gz}", f"{x}1\n{x}2\n{x}3\n") for x in "abc"]
    expected = numbered(*(tuple(f"{x}{n}" for x in "abc") for n in "123"))
    assert rows(*files, columns=("a", "b", "c")) == expected


def test_columns_by_the_names_in_a_header(tmp_path):
    content = "id,target,source\n1,house,Haus\n2,street,Straße\n"
    expected = [(2, ("Haus", "house")), (3, ("Straße", "street"))]
    assert rows(put(tmp_path, "a.csv", content), header=True) == expected
    assert rows(put(tmp_path, "a.tsv", content.replace(",", "\t")), header=True) == expected


@pytest.mark.parametrize(
    ("names", "said"), [("id,src,target", "no"), ("source,source,target", "two")]
)
def test_a_header_without_the_columns_is_refused(tmp_path, names, said):
    with pytest.raises(UserError, match=f"a.csv:1: .* {said} columns? “source”.*{names[:3]}"):
        rows(put(tmp_path, "a.csv", f"{names}\n1,2,3\n"), header=True)


def test_running_text_is_plain_whatever_its_name(tmp_path):
    report = Report()
    path = put(tmp_path, "a.tsv", "one\ttwo\n\nthree")
    assert list(text(path, Policy(), report)) == [(1, "one\ttwo"), (3, "three")]
    assert report.counts == {"empty line": 1}


def test_numbers_in_json_are_fields_too(tmp_path):
    path = put(tmp_path, "a.jsonl", '{"label": 1, "sure": true, "p": 0.5}\n')
    assert rows(path, columns=("label", "sure", "p")) == [(1, ("1", "true", "0.5"))]


def test_quotes_mean_nothing_in_tsv(tmp_path):
    path = put(tmp_path, "a.tsv", '"so\tthat"\n5" disk\tDiskette\n')
    assert rows(path) == numbered(('"so', 'that"'), ('5" disk', "Diskette"))


# Where lines end


def test_only_a_newline_ends_a_line(tmp_path):
    odd = "a\u2028b\u2029c\x85d\u00a0e"
    assert rows(put(tmp_path, "a.txt", odd + "\nz\n"), columns=("x",)) == numbered((odd,), ("z",))


def test_windows_line_ends_and_a_byte_order_mark(tmp_path):
    path = put(tmp_path, "a.tsv", b"\xef\xbb\xbfa\tb\r\nc\td\r\n")
    assert rows(path) == numbered(("a", "b"), ("c", "d"))


def test_a_last_line_needs_no_newline(tmp_path):
    assert rows(put(tmp_path, "a", "a\nb"), put(tmp_path, "b", "c\nd\n")) == numbered(
        ("a", "c"), ("b", "d")
    )


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=12), min_size=1),
    st.integers(1, 20),
    st.sampled_from(["\n", "\r\n"]),
)
def test_lines_survive_any_block_size(tmp_path_factory, lines, block, end):
    """Joined by newlines and read back in blocks of a few bytes: the same lines."""
    path = tmp_path_factory.mktemp("blocks") / "a.txt"
    path.write_bytes(("x" + end + end.join(lines) + end).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readers, "BLOCK", block)
        assert list(readers.lines(path, {})) == ["x", *lines]
        assert readers.count(path) == 1 + len(lines)


# Defects


def test_good_lines_around_broken_ones_are_used_and_keep_their_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "BLOCK", 8)
    source = put(tmp_path, "s", b"one\ntw\xffo\nthree\nfour\nf\0ive\nsix\n")
    target = put(tmp_path, "t", b"eins\nzwei\ndrei\n\nf\xc3\xbcnf\nse\x0bchs\n")
    report = Report()
    assert rows(source, target, report=report) == [(1, ("one", "eins")), (3, ("three", "drei"))]
    assert report.used == 2
    assert report.counts == {
        "not UTF-8": 1,
        "empty target": 1,
        "control character U+0000": 1,
        "control character U+000B": 1,
    }
    assert report.findings["not UTF-8"] == [Finding(source, 2, "not UTF-8", r"tw\xffo")]
    assert report.findings["control character U+000B"][0].path == target
    assert f"  {target}:4: “four | ”" in report.summary()


@pytest.mark.parametrize(
    ("name", "bad", "what"),
    [
        ("a.tsv", "c", "1 columns instead of 2"),
        ("a.tsv", "c\td\te", "3 columns instead of 2"),
        ("a.csv", "c,d,e", "3 columns instead of 2"),
        ("a.csv", '"c"x,d', "not CSV (',' expected after '\"')"),
        ("a.csv", '"c,d', "quote that is not closed"),
        ("a.jsonl", '{"source": "c", "target": ', "not JSON"),
        ("a.jsonl", "[" * 100_000, "not JSON"),
        ("a.jsonl", '["source", "target"]', "not a JSON object"),
        ("a.jsonl", '{"source": "c"}', "no key “target”"),
        ("a.jsonl", '{"source": null, "target": "d"}', "“source” is not text"),
        ("a.jsonl", r'{"source": "c\u000bd", "target": "d"}', "control character U+000B"),
        ("a.jsonl", r'{"source": "\ud800", "target": "d"}', "half a surrogate pair U+D800"),
        ("a.tsv", "c\rd\te", "control character U+000D"),
    ],
)
def test_each_kind_of_broken_line(tmp_path, name, bad, what):
    good = {"tsv": "{}\t{}", "csv": "{},{}", "jsonl": '{{"source": "{}", "target": "{}"}}'}
    line = good[name[2:]].format
    path = put(tmp_path, name, "\n".join([line("a", "b"), bad, line("y", "z"), line("k", "l")]))
    report = Report()
    assert rows(path, report=report) == [(1, ("a", "b")), (3, ("y", "z")), (4, ("k", "l"))]
    assert report.counts == {what: 1}
    assert report.findings[what][0].line == 2
    with pytest.raises(UserError) as refused:
        rows(path, policy=Policy())
    assert str(refused.value).startswith(f"{path}:2: {what}: “")
    assert 'data.on_bad_line = "skip"' in str(refused.value)


def test_a_line_break_inside_a_cell_is_a_blank(tmp_path):
    path = put(tmp_path, "a.csv", 'a,b\n"c\nlooks,right\r\nd",e\ny,z\n')
    assert rows(path) == [(1, ("a", "b")), (2, ("c looks,right d", "e")), (5, ("y", "z"))]
    path = put(tmp_path, "a.jsonl", r'{"source": "a\r\nb\nc", "target": "d"}')
    assert rows(path) == [(1, ("a b c", "d"))]


def test_a_cell_of_several_lines_with_one_that_is_no_text_is_broken(tmp_path):
    path = put(tmp_path, "a.csv", b'a,b\n"c\n\xff\nd",e\ny,z\n')
    report = Report()
    assert rows(path, report=report) == [(1, ("a", "b")), (5, ("y", "z"))]
    assert report.counts == {"not UTF-8": 1}


def test_an_unclosed_quote_swallows_no_good_line(tmp_path):
    later = [(f"s{n}", f't"{n}') for n in range(3, 3000)]
    quoted = ['{},"{}"'.format(s, t.replace('"', '""')) for s, t in later]
    path = put(tmp_path, "a.csv", "\n".join(["a,b", '"c,d', *quoted]) + "\n")
    assert rows(path) == [(1, ("a", "b")), *enumerate(later, 3)]


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.jsonl"])
@pytest.mark.parametrize("blank", ["", "  "])
def test_a_blank_line_in_a_table_is_empty_not_broken(tmp_path, name, blank):
    pair = {"a.tsv": "a\tb", "a.csv": "a,b", "a.jsonl": '{"source": "a", "target": "b"}'}[name]
    report = Report()
    path = put(tmp_path, name, f"{pair}\n{blank}\n{pair}\n")
    assert rows(path, policy=Policy(), report=report) == [(1, ("a", "b")), (3, ("a", "b"))]
    assert report.counts == {"empty source": 1}


def test_empty_sides_are_skipped_kept_or_refused(tmp_path):
    files = put(tmp_path, "s", "a\nb\n \n"), put(tmp_path, "t", "x\n\u3000\nz\n")
    skip, keep = Report(), Report()
    assert rows(*files, policy=Policy(), report=skip) == [(1, ("a", "x"))]
    assert rows(*files, policy=Policy(empty="keep"), report=keep) == numbered(
        ("a", "x"), ("b", "\u3000"), (" ", "z")
    )
    assert skip.counts == keep.counts == {"empty source": 1, "empty target": 1}
    assert (skip.used, keep.used) == (1, 3)
    with pytest.raises(UserError, match=r"t:2: empty target: .*data.on_empty = \"skip\""):
        rows(*files, policy=Policy(empty="refuse"))


def test_a_broken_line_is_not_kept_as_an_empty_one(tmp_path):
    path = put(tmp_path, "a", b"a\n\xff\n\n")
    kept = rows(path, columns=("x",), policy=Policy(broken="skip", empty="keep"))
    assert kept == [(1, ("a",)), (3, ("",))]


def test_the_report_counts_all_and_keeps_ten(tmp_path):
    path = put(tmp_path, "a.tsv", "a\tb\n" + "c\n" * 25)
    report = Report()
    rows(path, report=report)
    what = "1 columns instead of 2"
    assert report.counts[what] == 25
    assert [f.line for f in report.findings[what]] == list(range(2, 12))
    assert report.summary()[:3] == [
        "1 lines used",
        f"25 × {what}, the first 10:",
        f"  {path}:2: “c”",
    ]


def test_an_excerpt_shows_the_place_and_is_safe_to_print():
    assert readers.excerpt("short") == "short"
    assert readers.excerpt("a\x1b[2Jb") == r"a\x1b[2Jb"
    shown = readers.excerpt("x" * 500 + "HERE" + "y" * 500, 500)
    assert shown.startswith("…") and shown.endswith("…") and "HERE" in shown
    assert len(shown) == 62


# Whole files


@pytest.mark.parametrize("gz", ["", ".gz"])
def test_unequal_lengths_are_an_error_with_both_counts(tmp_path, gz):
    long = put(tmp_path, f"long{gz}", "a\nb\nc\n")
    short = put(tmp_path, f"short{gz}", "x\ny")
    for files in [(long, short), (short, long)]:
        with pytest.raises(UserError) as error:
            rows(*files)
        assert f"{long} has 3" in str(error.value) and f"{short} has 2" in str(error.value)


def test_a_file_that_is_no_plain_text_is_told_before_its_lines_are_counted(tmp_path):
    (tmp_path / "a").write_text("one\ntwo\n")
    (tmp_path / "b").write_bytes("eins\nzwei\ndrei\n".encode("utf-16"))
    with pytest.raises(UserError, match="b is UTF-16: convert it to UTF-8 first"):
        list(
            parallel(
                [tmp_path / "a", tmp_path / "b"], ("x", "y"), readers.Policy(), readers.Report()
            )
        )


def test_unequal_plain_files_are_found_before_anything_is_read(tmp_path):
    with pytest.raises(UserError, match="unequal"):
        parallel([put(tmp_path, "s", "a\nb\n"), put(tmp_path, "t", "a\n")], PAIR, SKIP, Report())


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("empty.txt", b"", "no usable line"),
        ("blank.txt", b"\n \n\n", "no usable line. The first: .*blank.txt:1: empty x"),
        ("cut.txt.gz", None, "cut.txt.gz is not a whole gzip file"),
        ("false.txt.gz", b"", "false.txt.gz is not a whole gzip file"),
        ("packed.txt", gzip.compress(b"a\n", mtime=0), "packed.txt is compressed by gzip"),
        ("wide.txt", "a\n".encode("utf-16"), "wide.txt is UTF-16"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path, name, content, said):
    path = put(tmp_path, name, content or b"")
    if name == "cut.txt.gz":
        path.write_bytes(gzip.compress(os.urandom(10_000).hex().encode())[:-100])
    if name == "false.txt.gz":
        path.write_bytes(b"plain text\n")
    with pytest.raises(UserError, match=said) as error:
        rows(path, columns=("x",))
    assert str(path) in str(error.value)


def test_a_missing_file_names_its_neighbour(tmp_path):
    put(tmp_path, "train.de", "a\n")
    with pytest.raises(UserError, match=r"trian\.de.*did you mean train\.de\?"):
        parallel([tmp_path / "trian.de"], ("x",), SKIP, Report())
    with pytest.raises(UserError, match=r"no folder .*nowhere"):
        text(tmp_path / "nowhere" / "a", SKIP, Report())
    with pytest.raises(UserError, match="is a folder"):
        parallel([tmp_path], ("x",), SKIP, Report())


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_named(tmp_path):
    path = put(tmp_path, "a", "a\n")
    path.chmod(0)
    with pytest.raises(UserError, match=r"a cannot be read: Permission"):
        rows(path, columns=("x",))


def test_files_that_do_not_fit_the_columns_are_refused(tmp_path):
    plain, table = put(tmp_path, "a.txt", "a\n"), put(tmp_path, "a.tsv", "a\tb\n")
    with pytest.raises(UserError, match="1 plain text file for the 2 columns source, target"):
        rows(plain)
    with pytest.raises(UserError, match=r"give one \.tsv file"):
        rows(plain, table)


def test_stopping_early_closes_the_file_and_still_counts(tmp_path):
    report = Report()
    stream = parallel([put(tmp_path, "a", "a\nb\nc\n")], ("x",), SKIP, report)
    assert next(stream) == (1, ("a",))
    del stream
    assert report.used == 1


# Size


def test_a_large_file_is_streamed_and_fast(tmp_path):
    """200,000 pairs take a fifth of a second; the bound leaves room for a busy machine."""
    path = tmp_path / "a.txt"
    path.write_text("ein Satz von gewöhnlicher Länge, wie er im Buche steht .\n" * 200_000)
    start = time.perf_counter()
    assert sum(1 for _ in parallel([path, path], PAIR, Policy(), Report())) == 200_000
    assert time.perf_counter() - start < 8


def test_memory_does_not_grow_with_the_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("ein Satz von gewöhnlicher Länge, wie er im Buche steht .\n" * 400_000)
    tracemalloc.start()
    try:
        assert sum(1 for _ in readers.lines(path, {})) == 400_000
        assert tracemalloc.get_traced_memory()[1] < path.stat().st_size / 2
    finally:
        tracemalloc.stop()


def test_readers_need_no_torch():
    code = "import sys, regard.data.readers, regard.data.catalogue; print('torch' in sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "False"


# Real data


def test_multi30k_has_no_defect(shared_data: Callable[[str], Path]):
    folder = shared_data("multi30k")
    report = Report()
    count = len(rows(folder / "train.en", folder / "train.de", policy=Policy(), report=report))
    assert (count, report.used, report.counts) == (29_000, 29_000, {})


def test_tatoeba_is_read_from_gzip(shared_data: Callable[[str], Path]):
    path = shared_data("tatoeba-deu-eng") / "deu-eng.tsv.gz"
    pairs = rows(path, columns=("english", "german"), policy=Policy())
    assert (len(pairs), pairs[0]) == (169_197, (1, ("Hi.", "Hallo!")))


def test_json_and_csv_say_the_same_as_their_writers(tmp_path):
    pairs = [('a "b", c', "d,e"), ("f;g", 'h""'), (" i ", "j'k"), ("\\n", "l\tm")]
    with (tmp_path / "a.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows(pairs)
    put(
        tmp_path,
        "a.jsonl",
        "".join(json.dumps(dict(zip(PAIR, p, strict=True))) + "\n" for p in pairs),
    )
    assert rows(tmp_path / "a.csv") == rows(tmp_path / "a.jsonl") == numbered(*pairs)
