"""A server's life: its socket, its signals, its end."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import uvicorn

from regard.errors import UserError
from regard.layers.allocator import give_back
from regard.serve import app as apps, log, workers
from regard.serve.keys import Keys
from regard.serve.protocol import Limits, limited
from regard.serve.service import Source
from regard.serve.settings import Settings
from regard.serve.shelf import Shelf

BACKLOG = 1024
LAST_CALL = 0.3
"""Seconds after SIGTERM in which connections are still taken, and refused."""


def bound(settings: Settings) -> socket.socket:
    """A socket that listens where the settings say."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    found = socket.socket(family)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((settings.host, settings.port))
    except OSError as error:
        found.close()
        where = f"{settings.host}:{settings.port}"
        raise UserError(f"cannot listen at {where}: {error.strerror or error}") from None
    found.listen(BACKLOG)
    found.setblocking(False)
    return found


def address(found: socket.socket) -> str:
    """Where a browser finds it."""
    host, port = found.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Server(uvicorn.Server):
    """uvicorn's, with our signals: SIGTERM and Ctrl-C end it, SIGHUP takes up newer runs."""

    def __init__(
        self,
        runs: Sequence[Source],
        settings: Settings,
        parent: int | None = None,
        watched: Mapping[str, Path] | None = None,
    ) -> None:
        """`parent`: the process without which this one is to end, too; `watched`: folders of runs
        whose records are shown while they train."""
        self.settings, self._parent = settings, parent
        self.keys = Keys(settings.keys) if settings.keys else None
        self.shelf = Shelf(runs, settings)
        _, self.guard = apps.make(self.shelf, settings, self.keys, watched)
        self.limits = Limits(settings.connections, settings.header_seconds, settings.body_seconds)
        self._listening: socket.socket | None = None
        self._jobs: set[asyncio.Task[None]] = set()
        super().__init__(
            uvicorn.Config(
                self.guard,
                http=limited(self.limits),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=settings.behind_proxy,
                timeout_keep_alive=max(1, round(settings.idle_seconds)),
                timeout_graceful_shutdown=max(1, round(settings.grace)),
            )
        )

    def run_on(self, listening: socket.socket) -> None:
        """Serve until a signal ends it."""
        # Threads of models must not keep the event loop waiting for five milliseconds each time.
        sys.setswitchinterval(0.001)
        asyncio.run(self._run(listening))
        if self.shelf.fault is not None:
            raise self.shelf.fault

    async def _run(self, listening: socket.socket) -> None:
        self._listening = listening
        loop = asyncio.get_running_loop()
        for name, act in (("SIGTERM", self._end), ("SIGINT", self._end), ("SIGHUP", self._renew)):
            with suppress(AttributeError, NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(getattr(signal, name), act)
        # One of several processes takes no connection before it can answer: another may be ready.
        if self._parent is None:
            self.job(self._open())
        else:
            await self._open()
        try:
            await self._serve([listening])
        finally:
            self.shelf.close()
            for job in self._jobs:
                job.cancel()
            await asyncio.gather(*self._jobs, return_exceptions=True)

    def job(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside serving."""
        task = asyncio.ensure_future(work)
        self._jobs.add(task)
        task.add_done_callback(self._jobs.discard)

    async def _open(self) -> None:
        try:
            await self.shelf.load()
            log.say("ready", runs=[service.name for service in self.shelf])
            workers.tell_ready()
        except Exception as error:
            self.shelf.fault = error
            self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:  # about once a second
            if self._parent is not None and workers.orphaned(self._parent):
                self._end()
            if self._parent is not None:
                self.guard.metrics.look(self.shelf)
            rested = [service.engine.rest() for service in self.shelf]
            if any(rested):
                self.job(asyncio.to_thread(give_back))
        return await super().on_tick(counter)

    def _end(self) -> None:
        """Finish what was admitted, refuse the rest; a second signal ends all at once."""
        if self.should_exit:
            self.force_exit = True
        if self.guard.draining:
            return
        log.say("ending", grace=self.settings.grace)
        self.guard.draining = True
        # Who is about to connect, or has just sent a request, still gets a refusal.
        asyncio.get_running_loop().call_later(LAST_CALL, self._stop)

    def _stop(self) -> None:
        if self._listening is not None:
            with suppress(OSError):
                self._listening.listen(0)  # so that hardly anybody waits when it is closed
        self.should_exit = True

    def _renew(self) -> None:
        log.say("reloading")
        self.job(self._renewed())

    async def _renewed(self) -> None:
        if self.keys is not None:
            try:
                self.keys.reload()
            except UserError as error:
                log.say("reload failed", what="keys", why=str(error))
        await self.shelf.reload()


def serve(
    runs: Sequence[Source],
    settings: Settings,
    say: Callable[[str], None] = lambda text: None,
    watched: Mapping[str, Path] | None = None,
) -> None:
    """Serve runs until a signal ends it; `say` is given the address."""
    more_files()
    parent, given = os.getppid(), workers.inherited()
    listening = given or bound(settings)
    if given is None:
        say(address(listening))
    if settings.workers > 1 and given is None:
        workers.supervise(listening, settings)
    else:
        Server(runs, settings, None if given is None else parent, watched).run_on(listening)


def more_files() -> None:
    """As many open files as this process may have: each connection is one."""
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return
    with suppress(ValueError, OSError):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
