"""What all tests share: checked shapes, a fixed seed, one thread per worker, the shared data."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from jaxtyping import install_import_hook

import tests.shapes

PROJECT = Path(__file__).resolve().parent.parent

# Before any test imports regard: from here on every shape in a signature is checked at each call.
# Files without shapes are left alone: mypy knows their types, and to check each call takes time.
if os.environ.get("REGARD_NO_SHAPE_CHECK") != "1":
    shaped = [
        ".".join(path.relative_to(PROJECT).with_suffix("").parts)
        for path in (PROJECT / "regard").rglob("*.py")
        if "jaxtyping" in path.read_text(encoding="utf-8")
    ]
    install_import_hook(shaped, f"{tests.shapes.__name__}.check")

if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def seed() -> None:
    """Every test draws the same numbers, alone or after others."""
    torch.manual_seed(0)


@pytest.fixture(scope="session", autouse=True)
def drawing() -> Iterator[Callable[..., None]]:
    """No picture of the curves of a training, which takes longer than these trainings do; what
    draws it, for tests of it."""
    from regard.runs import finishing

    with pytest.MonkeyPatch.context() as patch:
        draw = finishing.draw
        patch.setattr(finishing, "draw", lambda folder, records: None)
        yield draw


@pytest.fixture(scope="session", autouse=True)
def plain_defaults() -> Iterator[Callable[..., dict[str, Any]]]:
    """Recipes of tests say what they want; the defaults of the tasks, which are for real data, are
    laid under none of them. What reads these, for tests of it."""
    from regard.recipe import defaults

    with pytest.MonkeyPatch.context() as patch:
        read = defaults.of
        patch.setattr(defaults, "of", lambda task: {})
        yield read


@pytest.fixture
def task_defaults(
    plain_defaults: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recipes have the defaults of their task, as they do for everybody."""
    monkeypatch.setattr("regard.recipe.defaults.of", plain_defaults)


@pytest.fixture
def pictures(drawing: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings draw their curves, as they do for everybody."""
    monkeypatch.setattr("regard.runs.finishing.draw", drawing)


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """`shared_data("multi30k")` is that corpus's folder; without it the test is skipped."""
    root = Path(os.environ.get("REGARD_SHARED_DATA", PROJECT.parent / "shared" / "data"))

    def folder(name: str) -> Path:
        if not (root / name).is_dir():
            pytest.skip(f"no folder {name!r} in {root}; REGARD_SHARED_DATA says where to look")
        return root / name

    return folder
