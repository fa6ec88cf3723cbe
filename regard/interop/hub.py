"""Where a model is: a folder, or a name on the hub, where there is a network."""

import re
from pathlib import Path

from regard.errors import UserError
from regard.interop.folders import pickled_alone

NAME = re.compile(r"[\w.-]{1,96}(?:/[\w.-]{1,96})?")
WANTED = ("*.json", "*.safetensors", "*.spm", "chat_template.jinja")
"""Neither code nor anything pickled is ever fetched."""


def folder(source: str) -> Path:
    """The folder that a user means."""
    path = Path(source).expanduser()
    if path.is_dir() or not NAME.fullmatch(source) or source.startswith("."):
        return path
    try:
        from huggingface_hub import list_repo_files, snapshot_download
        from huggingface_hub.errors import HfHubHTTPError
    except ImportError:
        raise UserError(
            f"{source}: there is no such folder; for a name on the hub: pip install huggingface_hub"
        ) from None
    try:
        found = Path(snapshot_download(source, allow_patterns=list(WANTED)))
        has_weights = any(found.glob("*.safetensors"))
        names = [] if has_weights else list_repo_files(source)
    except (HfHubHTTPError, OSError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise UserError(
            f"{source}: neither a folder nor to be had from the hub: {reason}"
        ) from None
    if said := pickled_alone(source, names):
        raise UserError(said)
    return found
