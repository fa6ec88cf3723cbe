"""A group of several processes, by PyTorch's own engine: gloo on processors, NCCL on GPUs.

torchrun, or `--processes`, starts them and says who is who by environment variables (RANK,
WORLD_SIZE, MASTER_ADDR, …). What ranks say to each other is JSON as bytes, or tensors: nothing is
pickled. An update has three calls: targets are counted before it; trouble and losses are told after
the backward pass; gradients are summed, all in one flat buffer.

A rank that waits longer than `train.timeout` looks at what every rank has written of itself into
the common store, each second, from a thread of its own: who no longer writes has gone or stands
still, who writes but has made fewer calls is stuck. It is named.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous

from regard.errors import UserError
from regard.train.group import Group, Value
from regard.types import Carry

ROOM = 4096
"""Bytes that ranks exchange at once; what is longer is told in a second call."""
HEAD = 8
"""Bytes that say how long it is."""
BEAT = 1.0
"""Seconds between two signs of life."""
Result = TypeVar("Result")
FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
KINDS = (*FLOATS, torch.int64, torch.uint8, torch.bool)
TYPES = {str(kind).removeprefix("torch."): kind for kind in KINDS}
"""What tensors may be of that are exchanged."""


class Lost(UserError):
    """Another rank has gone, or does not answer: what was saved goes on when all start again."""


def is_one_of_many() -> bool:
    """Whether this process is one of several that torchrun, or `--processes`, has started."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def restarts() -> int:
    """How often all processes were started again, after one of them was lost."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def is_elastic() -> bool:
    """Whether torchrun has started this process: it also starts all again, uncounted, where others
    have come or gone."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def join(timeout: float = 10.0) -> "Processes":
    """The group that the environment describes, once all are there; `timeout` is in minutes."""
    store, rank, size = next(rendezvous("env://"))
    store.set_timeout(timedelta(minutes=timeout))
    backend = "gloo"
    if torch.cuda.is_available():
        backend = "cpu:gloo,cuda:nccl"
        # Before NCCL asks: else all ranks of a machine would have a context on its first GPU.
        here = int(os.environ.get("LOCAL_RANK", "0"))
        torch.cuda.set_device(here % torch.cuda.device_count())
    try:
        dist.init_process_group(
            backend,
            store=store,
            rank=rank,
            world_size=size,
            timeout=timedelta(minutes=timeout),
        )
    except RuntimeError as error:
        raise Lost(f"rank {rank} of {size} waited in vain for the others: {error}") from None
    return Processes(store, rank, size)


class Processes(Group):
    """One rank of several."""

    def __init__(self, store: Any, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        variables = ("LOCAL_RANK", "LOCAL_WORLD_SIZE")
        here, count = (int(os.environ.get(name, n)) for n, name in enumerate(variables))
        self.near = (here, count)
        self.calls = 0
        """How often it has asked the others."""
        self._store = store
        self._flat: dict[tuple[int, ...], Tensor] = {}
        self._left = threading.Event()
        threading.Thread(target=self._beat, args=(store.clone(),), daemon=True).start()

    def _beat(self, store: Any) -> None:
        """Write down, again and again, that this rank lives, and what it is at."""
        number = 0
        try:
            while not self._left.wait(BEAT):
                number += 1
                store.set(f"beat/{self.rank}", json.dumps([number, self.calls, self.doing]))
        except RuntimeError:
            return  # the store has gone with its process: the next call says so

    # Calls

    def gather(self, value: Value) -> list[Value]:
        said = json.dumps(value).encode()
        head = len(said).to_bytes(HEAD, "little")
        found = self._exchange((head + said)[:ROOM], ROOM)
        lengths = [int.from_bytes(each[:HEAD], "little") for each in found]
        if (longest := max(lengths)) > ROOM - HEAD:
            rest = self._exchange(said[ROOM - HEAD :], longest - ROOM + HEAD)
            found = [one + other for one, other in zip(found, rest, strict=True)]
        return [
            json.loads(each[HEAD : HEAD + length])
            for each, length in zip(found, lengths, strict=True)
        ]

    def _exchange(self, said: bytes, room: int) -> list[bytes]:
        own = torch.frombuffer(bytearray(said.ljust(room, b"\0")), dtype=torch.uint8)
        found = [torch.empty_like(own) for _ in range(self.size)]
        self.call(lambda: dist.all_gather(found, own))
        return [each.numpy().tobytes() for each in found]

    def gather_tensors(self, tensors: Carry) -> list[Carry]:
        """Each tensor is told by those who have it, one after the other."""
        own = {name: t.detach().contiguous() for name, t in (tensors or {}).items()}
        described: list[Any] = self.gather(
            {name: [_name(t), list(t.shape)] for name, t in own.items()} if tensors else None
        )
        device = next((t.device for t in own.values()), torch.device("cpu"))
        found: list[Carry] = []
        for rank, names in enumerate(described):
            given = {}
            for name, (kind, shape) in (names or {}).items():
                given[name] = (
                    own[name]
                    if rank == self.rank
                    else torch.empty(shape, dtype=TYPES[kind], device=device)
                )
                self.call(partial(dist.broadcast, given[name], rank))
            found.append(given if names is not None else None)
        return found

    def sum_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """By one buffer for all gradients of a type, of which they are parts afterwards: what is
        summed is copied once. The engine gives all ranks the same bits."""
        for kind in {(p.device, p.dtype) for p in parameters}:
            alike = [p for p in parameters if (p.device, p.dtype) == kind]
            sizes = [p.numel() for p in alike]
            key = (*sizes, hash(kind))
            if key not in self._flat:
                self._flat = {k: t for k, t in self._flat.items() if t.dtype != alike[0].dtype}
                self._flat[key] = torch.empty(sum(sizes), dtype=kind[1], device=kind[0])
            flat = self._flat[key]
            views = [
                each.view(p.shape) for each, p in zip(torch.split(flat, sizes), alike, strict=True)
            ]
            for view, parameter in zip(views, alike, strict=True):
                view.zero_() if parameter.grad is None else view.copy_(parameter.grad)
                parameter.grad = view
            self.call(partial(dist.all_reduce, flat))

    def same_weights(self, model: nn.Module) -> None:
        """Give all ranks the weights of rank 0."""
        for tensor in model.parameters():
            self.call(partial(dist.broadcast, tensor.detach(), 0))

    def call(self, ask: Callable[[], Result]) -> Result:
        """Ask the others; who does not answer is named."""
        self.calls += 1
        try:
            return ask()
        except RuntimeError as error:
            raise self.explained(error) from None

    def wait_for(self, name: str) -> str:
        """What rank 0 has told under a name (`tell`), however long that takes it."""
        try:
            while not self._store.check([name]):
                time.sleep(0.2)
            return bytes(self._store.get(name)).decode()
        except RuntimeError:  # the store is gone, and the process that had it
            raise Lost(f"rank {self.rank}: rank 0 has gone while others waited for it") from None

    def tell(self, name: str, text: str) -> None:
        self._store.set(name, text)

    def close(self) -> None:
        self._left.set()
        dist.destroy_process_group()

    # When one does not answer

    def explained(self, error: Exception) -> Exception:
        said = str(error)
        if isinstance(error, UserError) or not isinstance(error, RuntimeError):
            return error
        if not any(words in said.lower() for words in SAID):
            return error
        if any(words in said.lower() for words in ("timed out", "timeout")):
            who = self._silent() or "another process does not answer"
        else:
            who = "another process has gone"
        return Lost(
            f"rank {self.rank}: {who}. What was saved is whole: start all of them again, or let "
            "torchrun do it (--max-restarts)"
        )

    def _silent(self) -> str:
        """Who has stopped to write, or is behind, and what each was at."""
        try:
            before = self._beats()
            time.sleep(3 * BEAT)
            after = self._beats()
        except RuntimeError:
            return "rank 0 has gone" if self.rank else ""
        said = []
        for rank, now in after.items():
            if rank == self.rank:
                continue
            if now is None or before[rank] == now:
                at = f", last at {now[2]}" if now else ""
                said.append(f"rank {rank} gives no sign of life{at}")
            elif now[1] < self.calls:
                said.append(f"rank {rank} is stuck at {now[2]}")
        return ", ".join(said)

    def _beats(self) -> dict[int, list[Any] | None]:
        """What each rank has last written."""
        names = {rank: f"beat/{rank}" for rank in range(self.size)}
        return {
            rank: json.loads(self._store.get(name)) if self._store.check([name]) else None
            for rank, name in names.items()
        }


SAID = (
    "timed out",
    "timeout",
    "connection closed",
    "connection reset",
    "broken pipe",
    "remote peer",
)
"""Words of the engine's errors where another rank is the reason."""


def _name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
