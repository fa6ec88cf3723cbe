"""Where a model is: a folder, or a name on the hub, where there is a network."""

import re
from pathlib import Path

from regard.errors import UserError

NAME = re.compile(r"[\w.-]{1,96}(?:/[\w.-]{1,96})?")
WANTED = ("*.json", "*.safetensors", "*.spm", "chat_template.jinja")
"""Neither code nor anything pickled is ever fetched."""


def folder(source: str) -> Path:
    """The folder that a user means."""
    path = Path(source).expanduser()
    if path.is_dir() or not NAME.fullmatch(source) or source.startswith("."):
        return path
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError
    except ImportError:
        raise UserError(
            f"{source}: there is no such folder; for a name on the hub: pip install huggingface_hub"
        ) from None
    try:
        return Path(snapshot_download(source, allow_patterns=list(WANTED)))
    except (HfHubHTTPError, OSError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise UserError(
            f"{source}: neither a folder nor to be had from the hub: {reason}"
        ) from None
