"""What stands between columns, how dates are written, where long lines are cut."""

from pathlib import Path

import pytest

from regard.data import dates, delimiters, wrap
from regard.data.readers import Policy, Report
from regard.data.tables import parallel
from regard.errors import RecipeError, UserError

PAIR = ("source", "target")


def read(path: Path, text: str, columns=PAIR, **layout):
    path.write_text(text, encoding="utf-8")
    return [row for _, row in parallel([path], columns, Policy(), Report(), **layout)]


# Delimiters


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\tb, c\nd\te, f\n", ("\t", 2)),
        ("date;x;y\n1.1.2020;1,5;2,5\n2.1.2020;1,6;2,6\n", (";", 3)),
        ("a|b\nc|d\n", ("|", 2)),
        ('"a, b",c\n"d\ne",f\n', (",", 2)),
        ("one line alone, with a comma\n", None),
        ("A sentence, as it is.\nAnother.\nAnd, well, a third.\n", None),
    ],
)
def test_the_delimiter_cuts_every_line_alike(text, expected):
    assert delimiters.guess(text.split("\n")) == expected


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt", "a"])
@pytest.mark.parametrize("between", ["\t", ";", "|", ","])
def test_a_table_is_judged_by_its_content(tmp_path, name, between):
    text = f"ein Haus{between}a house\nzwei{between}two\n"
    assert read(tmp_path / name, text) == [("ein Haus", "a house"), ("zwei", "two")]


def test_what_the_suffix_promises_holds_where_it_fits(tmp_path):
    text = "a;b,c;d\ne;f,g;h\n"  # two columns between commas, three between semicolons
    assert read(tmp_path / "a.csv", text) == [("a;b", "c;d"), ("e;f", "g;h")]
    text = "x;y,z\tu\nv;w\tq\n"
    assert read(tmp_path / "a.tsv", text) == [("x;y,z", "u"), ("v;w", "q")]


def test_a_header_chooses_the_delimiter(tmp_path):
    """Between commas most rows have two columns as well, but no header that names them."""
    text = "target;source\na, b;c\nd, e;f\n"
    assert read(tmp_path / "a.csv", text, header=True) == [("c", "a, b"), ("f", "d, e")]


def test_columns_by_number_and_by_name(tmp_path):
    text = "1\tHi, Tom.\tHallo, Tom.\tCC-BY, 2.0\n2\tRun, Tom!\tLauf, Tom!\tCC-BY, 2.0\n"
    both = [("Hi, Tom.", "Hallo, Tom."), ("Run, Tom!", "Lauf, Tom!")]
    assert read(tmp_path / "a.txt", text, (2, 3)) == both
    assert read(tmp_path / "a.tsv", text, (3, 2)) == [row[::-1] for row in both]
    assert read(tmp_path / "a.tsv", text, ("-1", 1))[0] == ("CC-BY, 2.0", "1")
    named = "id\tde\ten\n1\tHaus\thouse\n"
    assert read(tmp_path / "a.tsv", named, ("en", 2), header=True) == [("house", "Haus")]


def test_a_delimiter_that_is_given_is_taken(tmp_path):
    text = "a#b\nc#d\n"
    assert read(tmp_path / "a.csv", text, delimiter="#") == [("a", "b"), ("c", "d")]
    with pytest.raises(RecipeError, match="'tabs' is neither one of 'tab'"):
        delimiters.character("tabs")


@pytest.mark.parametrize(
    ("text", "layout", "said"),
    [
        ("a;b\nc;d\n", {"delimiter": "tab"}, "one column, with tabs.*semicolons would give 2: set "
         "data.delimiter = 'semicolon'"),
        ("a\tb\tc\nd\te\tf\n", {}, r"3 columns instead of 2 \(source, target\).*\[1, 2\]"),
        ("a\tb\nc\td\n", {"columns": (1, 5)}, "there is no column 5: the line has 2"),
        ("no columns\nat all\n", {}, "1 plain text file for the 2 columns source, target"),
        ('{"source": "a", "target": "b"}\n', {"columns": (1, 2)}, "JSONL: its columns go by key"),
    ],
)  # fmt: skip
def test_what_cannot_be_cut_says_what_would_do(tmp_path, text, layout, said):
    with pytest.raises(UserError, match=said):
        read(tmp_path / "a.txt", text, **layout)


def test_json_is_known_by_its_content(tmp_path):
    text = '{"source": "a", "target": "b"}\n'
    assert read(tmp_path / "a.json", text) == [("a", "b")]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([["text", "label"], ["a b c", "x"], ["d e", "y"]], True),
        ([["Wert", "Tag"], ["1.5", "3"], ["2.5", "4"]], True),
        ([["Satz", "Art"], *([f"s {n}", "xy"[n % 2]] for n in range(40))], True),
        ([["Hi.", "Hallo!"], ["Run!", "Lauf!"], ["Wow!", "Toll!"]], False),
        ([["1", "2"], ["3", "4"]], False),
        ([["x", "x"], ["1", "2"]], False),
        ([["good", "a fine text"], *(["good", f"text {n}"] for n in range(40))], False),
    ],
)
def test_a_header_is_told_from_a_row(rows, expected):
    assert delimiters.has_header(rows) is expected


# Dates


@pytest.mark.parametrize(
    ("text", "order", "expected"),
    [
        ("31.12.2024", "auto", "2024-12-31"),
        ("1.2.2024 7:05", "auto", "2024-02-01 07:05"),
        ("2024/1/2 03:04:05", "auto", "2024-01-02 03:04:05"),
        ("31/12/2024", "day_first", "2024-12-31"),
        ("12/31/2024 1:05 PM", "month_first", "2024-12-31 13:05"),
        ("12/31/2024 12:05 am", "month_first", "2024-12-31 00:05"),
        ("20241231", "compact", "2024-12-31"),
        ("20241231", "auto", "20241231"),
        ("5/6/2024", "auto", "5/6/2024"),
        ("2024-12-31T13:00:00Z", "auto", "2024-12-31T13:00:00Z"),
        ("1.5", "auto", "1.5"),
    ],
)
def test_dates_become_iso(text, order, expected):
    assert dates.iso(text, order) == expected


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["5/6/2024", "13/6/2024"], "day_first"),
        (["5/6/2024", "5/13/2024"], "month_first"),
        (["5/6/2024", "6/6/2024"], None),
        (["20240101", "20240102"], "compact"),
        (["10000001", "10000099"], "auto"),
        (["2024-01-01"], "auto"),
    ],
)
def test_which_number_is_the_day(texts, expected):
    assert dates.order(texts) == expected


# Long lines


def test_long_lines_are_cut_at_blanks():
    assert list(wrap.lines("aa bb cc dd", 4)) == ["aa bb", "cc dd"]
    assert list(wrap.lines("aaaaaaaaaa bb", 4)) == ["aaaaaaaa", "aa bb"]
    assert list(wrap.lines("", 4)) == [""]
    assert list(wrap.lines("a b c", 0)) == ["a b c"]
    text = " ".join(f"word{n}" for n in range(500))
    assert " ".join(wrap.lines(text, 50)) == text


def test_long_sentences_are_cut_where_one_ends():
    words = "a b . c d e . f".split()  # noqa: SIM905
    cut = [words[place] for place in wrap.sentences(words, 2)]
    assert cut == [["a", "b", "."], ["c", "d", "e", "."], ["f"]]
    assert [p.stop - p.start for p in wrap.sentences(["x"] * 20, 2)] == [8, 8, 4]
    assert list(wrap.sentences(words, 0)) == [slice(0, 8)]
