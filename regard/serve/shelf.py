"""The runs that are served, by their names; opened again when a newer version is there."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.runs import Run
from regard.serve import log
from regard.serve.errors import Refusal
from regard.serve.service import Service, Source
from regard.serve.settings import Settings


def sources(runs: Sequence[str], **how: Any) -> list[Source]:
    """Runs as a user names them: FOLDER, or NAME=FOLDER. What is no run is refused."""
    found: dict[str, Source] = {}
    for text in runs:
        name, folder = named(text)
        Run(folder)
        if name in found:
            raise UserError(f"two runs are called {name!r}: give one another name, OTHER={folder}")
        found[name] = Source(name, folder, tuple(sorted(how.items())))
    return [*found.values()]


def named(text: str) -> tuple[str, Path]:
    """The name and the folder of FOLDER, or of NAME=FOLDER."""
    name, mark, folder = text.partition("=")
    if not mark or Path(text).exists():
        return Path(text).resolve().name, Path(text)
    return name, Path(folder)


class Shelf:
    """All runs that are served. Belongs to the event loop."""

    def __init__(self, runs: Sequence[Source], settings: Settings) -> None:
        self.sources, self.settings = list(runs), settings
        self.services: dict[str, Service] = {}
        self.ready = False
        """Whether all of them are open."""
        self.fault: Exception | None = None
        """Why one could not be opened at the start."""
        self._changing = asyncio.Lock()

    def __iter__(self) -> Iterator[Service]:
        return iter(self.services.values())

    async def load(self) -> None:
        """Open all runs, beside whatever else the event loop does."""
        async with self._changing:  # a reload that is asked for meanwhile comes afterwards
            for source in self.sources:
                engine = await asyncio.to_thread(source.open)
                self.services[source.name] = Service(source, engine, self.settings)
                log.say("opened", run=source.name, notes=engine.predictor.notes)
            self.ready = True

    async def reload(self) -> None:
        """Open each run anew, beside the version that answers now, and let it take over. A version
        that cannot be opened changes nothing."""
        async with self._changing:
            for service in self:
                try:
                    engine = await asyncio.to_thread(service.source.open)
                except Exception as error:  # whatever it is, the old version goes on
                    why = str(error) or type(error).__name__
                    log.say("reload failed", run=service.name, why=why, keeps=service.version)
                    continue
                before = service.swap(engine)
                log.say("reloaded", run=service.name, version=service.version)
                await asyncio.to_thread(before.join)

    def check_ready(self) -> None:
        """Refuse what comes too early."""
        if not self.ready:
            raise Refusal(503, "the models are being loaded", code="loading", retry=2)

    def get(self, name: str | None) -> Service:
        """The run of a name; the first for none, if it is the only one or nobody is asked."""
        self.check_ready()
        if name is None or name == "":
            name = next(iter(self.services), "")
        if name not in self.services:
            raise Refusal(404, "there is no such model", code="model_not_found", param="model")
        return self.services[name]

    def busy(self) -> Refusal | None:
        """The refusal for all who come now, if no run has a place: before anything of a request
        is read."""
        found = list(self)
        if not found or not all(service.queue.full for service in found):
            return None
        return min((service.queue.refusal() for service in found), key=lambda each: each.retry or 0)

    def close(self) -> None:
        for service in self:
            service.engine.close()
