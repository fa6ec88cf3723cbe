"""Rooms and files stay small enough to be read: a ratchet."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "regard"
ROOT, FILE, TASK = 10, 400, 300
"""Modules at the package's root; lines of a file; lines of a task."""
LARGER: dict[str, int] = {}
"""Files that are still larger: none may grow, and none may join them."""


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_few_modules_stand_at_the_root():
    assert len(list(PACKAGE.glob("*.py"))) <= ROOT


def test_files_are_short_enough_to_be_read():
    found = {}
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).as_posix()
        most = TASK if name.startswith("tasks/") else FILE
        if lines(path) > LARGER.get(name, most):
            found[name] = lines(path)
    assert not found, f"part these files: {found}"


def test_what_has_become_short_leaves_the_list():
    for name in LARGER:
        path, most = PACKAGE / name, TASK if name.startswith("tasks/") else FILE
        assert path.is_file() and lines(path) > most, name
