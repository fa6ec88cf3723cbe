"""`/v1/runs`: what runs have recorded, for the page that shows them while they train.

Nothing but the records of the folders that were named at the start is read, and nothing is written.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response

from regard.serve.bodies import context
from regard.serve.described import described
from regard.serve.errors import Refusal
from regard.serve.routes.predict import answer
from regard.train import log

POINTS = 600
"""Records of training that are sent at most; of more, every second, third, …"""
SAMPLES = 20
"""The latest validations whose samples are sent."""


def router(folders: Mapping[str, Path]) -> APIRouter:
    """`folders`: of runs, by the names that the page calls them."""
    made = APIRouter()

    @made.get("/v1/runs", **described(None, "The runs that are watched."))
    async def runs() -> dict[str, Any]:
        return {"object": "list", "data": [_about(name, each) for name, each in folders.items()]}

    @made.get("/v1/runs/{name}", **described(None, "What a run has recorded so far."))
    def run(name: str, request: Request) -> Response:  # in a thread: it reads a file
        if name not in folders:
            raise Refusal(404, "no such run is watched", code="run_not_found")
        path = folders[name] / log.RECORDS
        tag = _tag(path)
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers={"etag": tag})
        context(request).run = name
        made = answer(_about(name, folders[name]) | {"records": thinned(log.read(path))})
        made.headers["etag"] = tag
        return made

    return made


def _about(name: str, folder: Path) -> dict[str, Any]:
    return {"id": name, "object": "run", "finished": (folder / "model").is_dir()}


def _tag(path: Path) -> str:
    """Of the file as it is; a run that is not there yet, or is rewound, has another."""
    try:
        known = path.stat()
    except OSError:
        return '"none"'
    finished = (path.parent / "model").is_dir()
    text = f"{known.st_ino} {known.st_size} {known.st_mtime_ns} {finished}"
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:16]}"'


def thinned(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """All validations, the latest samples, and as many steps of training as a picture can show; of
    these always the last."""
    steps = [record for record in records if record["kind"] == "train"]
    every = -(-len(steps) // POINTS) or 1
    kept = {id(record) for record in (*steps[::every], *steps[-1:])}
    samples = [record for record in records if record["kind"] == "samples"]
    kept |= {id(record) for record in samples[-SAMPLES:]}
    others = ("train", "samples")
    return [record for record in records if record["kind"] not in others or id(record) in kept]
