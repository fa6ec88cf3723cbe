"""What no batch computes: vectors, alternatives, views. A few threads beside those of the engines.

A thread cannot be stopped. So who asked for it keeps the place until the thread has ended, also if
nobody waits any more: else clients that go away could start as many as they like.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

Found = TypeVar("Found")


class Aside:
    """So many at a time. Belongs to the event loop."""

    def __init__(self, threads: int) -> None:
        self._free = asyncio.Semaphore(threads)

    async def run(self, act: Callable[[], Found], ended: Callable[[bool], None]) -> Found:
        """What `act` gives. `ended` is called once, in the event loop, with whether it succeeded:
        when the thread has ended, or if it never began."""
        try:
            await self._free.acquire()
        except BaseException:
            ended(False)
            raise
        loop = asyncio.get_running_loop()
        found: asyncio.Future[Found] = loop.create_future()

        def put(value: Found | None, error: BaseException | None) -> None:
            self._free.release()
            ended(error is None)
            if found.done():  # nobody waits
                return
            if error is not None:
                found.set_exception(error)
            else:
                found.set_result(value)  # type: ignore[arg-type]

        def work() -> None:
            value, error = None, None
            try:
                value = act()
            except BaseException as caught:
                error = caught
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(put, value, error)

        # Not one of an executor, whose threads a server that ends would wait for.
        threading.Thread(target=work, daemon=True).start()
        return await found
