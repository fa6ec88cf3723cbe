"""Programs that run exported models: a person reads them at once."""

import ast
import sys
from pathlib import Path

import pytest

from regard.interop.shipments import PROGRAMS
from tests.exported import code_lines

MOST = 12
LIBRARIES = {"onnxruntime", "tokenizers", "ctranslate2"}
FILES = sorted(PROGRAMS.glob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_program_has_about_ten_lines(path: Path):
    text = path.read_text(encoding="utf-8")
    assert code_lines(text) <= MOST
    assert ";" not in text.replace('",;\\t"', "") and "exec" not in text
    assert max(map(len, text.split("\n"))) <= 100


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_program_needs_few_libraries(path: Path):
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(str(node.module))
    assert found <= LIBRARIES | sys.stdlib_module_names


def test_lines_of_code_are_counted():
    text = '"""Says it.\n\nTwice."""\n\nimport sys\n\n# why\nprint(\n    1\n)\n'
    assert code_lines(text) == 4


@pytest.mark.parametrize("name", ["labels", "tags", "forecast"])
def test_the_documentation_shows_them_as_they_are(name: str):
    shown = (PROGRAMS.parents[2] / "docs/shipping.md").read_text(encoding="utf-8")
    assert (PROGRAMS / f"{name}.py").read_text(encoding="utf-8") in shown
