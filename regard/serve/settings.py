"""What may be asked of a server, and how much of it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import arg

from regard.recipe.values import Range, check

Port = Annotated[int, Range(0, 65535)]
Many = Annotated[int, Range(1, 10**9)]
ManyOrNone = Annotated[int, Range(0, 10**9)]
Seconds = Annotated[float, Range(0, 86_400, open_low=True)]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How runs are served."""

    host: str = "127.0.0.1"
    """The address to listen on; 0.0.0.0 is every one of this machine."""
    port: int = 8000
    """The port; 0: any that is free."""
    keys: Annotated[Path | None, arg(help_behavior_hint="")] = None
    """A file of API keys, one on each line, a name after it if you like; without it anybody who
    can reach the port may ask."""
    hosts: Annotated[tuple[str, ...], arg(help_behavior_hint="")] = ()
    """Names by which clients may call the server (the header Host). By default those of this
    machine alone if it listens to this machine alone, else any."""
    behind_proxy: bool = False
    """A proxy on this machine stands before the server: believe the address that it forwards."""
    workers: int = 1
    """Processes that share the port, each with its own copy of the models."""
    characters: int = 100_000
    """The most characters of a request, those of all its inputs together."""
    items: int = 256
    """The most inputs of a request."""
    nbest: int = 16
    """The most hypotheses that are followed or given for an input: beams, samples, n-best."""
    new_tokens: int = 2048
    """The most tokens that are written for an input."""
    body_bytes: int = 10_000_000
    """The most bytes of a request's body."""
    queue: int = 96
    """The most requests that wait or are answered at a time, of each run."""
    queue_items: int = 2048
    """The most inputs of these together."""
    deadline: float = 60.0
    """Seconds after which a request that is not answered is given up."""
    rate: int = 0
    """Requests a minute for each key, or for each address where there are no keys; 0: any."""
    connections: int = 1024
    """The most connections; beyond that those are closed that have waited for their client for
    longest: for headers, for the rest of a body, or to be read."""
    header_seconds: float = 10.0
    """In which the headers of a request must have come."""
    body_seconds: float = 30.0
    """In which its body must have come."""
    idle_seconds: float = 30.0
    """After which a connection without a request is closed."""
    grace: float = 30.0
    """Seconds for what was admitted, after SIGTERM, before the server ends all the same."""
    log: Literal["requests", "errors"] = "requests"
    """What is logged on standard error, a line of JSON each: every request, or what goes wrong and
    what becomes of the server alone."""
    log_texts: bool = False
    """Log what users send, too: the first characters of each request."""

    def __post_init__(self) -> None:
        check("port", self.port, Port)
        for name in ("workers", "characters", "items", "nbest", "new_tokens", "body_bytes"):
            check(name, self.__dict__[name], Many)
        for name in ("queue", "queue_items", "connections"):
            check(name, self.__dict__[name], Many)
        check("rate", self.rate, ManyOrNone)
        for name in ("deadline", "header_seconds", "body_seconds", "idle_seconds", "grace"):
            check(name, self.__dict__[name], Seconds)

    @property
    def local(self) -> bool:
        """Whether this machine alone can reach the server."""
        return self.host in LOOPBACK or self.host.startswith("127.")


LOOPBACK = ("127.0.0.1", "localhost", "::1")
