"""Where a model that is to be imported is: a folder, or a name on the hub."""

import sys
from pathlib import Path
from typing import Any

import pytest

from regard.errors import UserError
from regard.interop import hub

huggingface_hub = pytest.importorskip("huggingface_hub")


def test_a_folder_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpt2").mkdir()
    assert hub.folder("gpt2") == Path("gpt2")
    assert hub.folder("./missing") == Path("./missing"), "no name on the hub begins with a point"
    assert hub.folder("a/b/c") == Path("a/b/c"), "nor has one two slashes"


def test_a_name_is_fetched_without_code_and_pickles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def download(name: str, **options: Any) -> str:
        asked.update(options, name=name)
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    (tmp_path / "model.safetensors").touch()
    assert hub.folder("somebody/model") == tmp_path
    patterns = ["*.json", "*.safetensors", "*.spm", "chat_template.jinja"]
    assert asked == {"name": "somebody/model", "allow_patterns": patterns}


def test_pickled_weights_alone_are_refused_with_the_advice_of_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are never fetched, so that the list of files says what is there."""
    names = ["config.json", "pytorch_model.bin"]
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: str(tmp_path))
    monkeypatch.setattr(huggingface_hub, "list_repo_files", lambda name: names)
    with pytest.raises(
        UserError, match=r"^old/model has pickled weights alone \(pytorch_model\.bin"
    ):
        hub.folder("old/model")
    names.remove("pytorch_model.bin")
    assert hub.folder("old/model") == tmp_path, "the import says what is missing"


def test_what_is_nowhere_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def download(name: str, **options: Any) -> str:
        raise OSError("there is no network\nand much more")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    with pytest.raises(UserError, match=r"^nowhere/model: neither a folder .*no network$"):
        hub.folder("nowhere/model")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UserError, match="pip install huggingface_hub"):
        hub.folder("nowhere/model")
