"""Texts without anything beside them: running text, documents or lines."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from regard.data import documents, files
from regard.data.documents import Kind
from regard.data.labelled import plain_sentences
from regard.data.readers import Policy, Report, suffix
from regard.data.tables import parallel
from regard.fields import Example


def read(
    data: files.Config, kind: Kind | None, part: files.Part, policy: Policy, report: Report
) -> Iterator[Example]:
    """The texts of a part's own files; without a kind, lines, of which empty ones are left out. Of
    all else even empty ones are read. A line of CoNLL-U is a sentence, as it is cut into words."""
    policy = policy if kind is None else replace(policy, empty="keep")

    def lines(path: Path) -> Iterator[tuple[int, str]]:
        if suffix(path) == ".conllu":
            return plain_sentences(path, policy, report)
        rows = parallel([path], data.columns or ("text",), policy, report, **data.layout)
        return ((number, line) for number, (line,) in rows)

    for path, number, text in documents.read(data.paths(part), lines, kind or "line", data.wrap):
        yield Example((path,), number, (text,))
    if kind is not None:  # seen, but not left out
        report.counts.pop("empty text", None)
        report.findings.pop("empty text", None)
