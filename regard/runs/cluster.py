"""Work on a cluster, by Ray Data (an extra): the same work on many items, in order.

A worker is a process of the cluster that makes itself ready once and then does one item after the
other. What it is sent are texts alone: the name of a function, an order as JSON, items. Where one
is lost, Ray does its items again, so that an item's work must do no harm if it is done twice.

All machines see the same folders under the same paths, and have the same versions.
"""

import contextlib
import importlib
import io
import json
import logging
import os
import platform
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tokenizers
import torch

from regard import __version__
from regard.errors import UserError
from regard.recipe.parts import add_folder, folders

REACHED = 5.0
"""Seconds in which the address of a cluster must answer: Ray itself would wait for minutes."""
MOST = 10_000
"""Blocks of items that Ray looks after at once."""
VERSIONS = {"regard": __version__, "torch": torch.__version__, "tokenizers": tokenizers.__version__}
Work = Callable[[str], bytes]
"""An item ↦ what comes of it."""


class Done(NamedTuple):
    """What has become of an item."""

    item: str
    out: bytes
    said: str
    """Messages for a person, as they would stand on stderr."""
    error: str
    """Why nothing has come of it; else empty."""


@contextmanager
def connected(address: str) -> Iterator[None]:
    """As long as this is open, `each` has a cluster: "auto", "HOST:6379", or "local", all cores of
    this machine."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
        import ray.data
    except ImportError:
        raise UserError("--ray needs Ray: pip install 'regard[ray]'") from None
    _reach(address)
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    here: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **here)
    except (OSError, RuntimeError, ValueError) as error:
        raise UserError(f"--ray {address}: {_first_line(error)}") from None
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = True
    try:
        yield
    finally:
        ray.shutdown()


def _reach(address: str) -> None:
    """Refuse an address where nobody answers."""
    host, colon, port = address.rpartition(":")
    if address in ("auto", "local"):
        return
    if not colon or not port.isdecimal() or int(port) > 0xFFFF:
        raise UserError(f"--ray {address}: auto, local, or HOST:PORT of a cluster, such as h1:6379")
    try:
        socket.create_connection((host, int(port)), REACHED).close()
    except OSError as error:
        raise UserError(
            f"--ray {address}: no cluster answers there ({error.strerror or error}); on the first "
            "machine: ray start --head; on each other one: ray start --address HOST:6379"
        ) from None


def each(
    work: str, order: Mapping[str, Any], items: Sequence[str], *, gpu: bool = False
) -> Iterator[Done]:
    """Each item's work, in the order of the items. `work` names a function, "room.module:name",
    that makes a `Work` of the order in each worker; it has a core, or a GPU."""
    import ray
    import ray.data

    parts = [str(each.absolute()) for each in folders()]
    sent = {"work": work, "order": order, "place": str(Path.cwd()), "parts": parts}
    if not items:
        return
    if not ray.cluster_resources().get("GPU" if gpu else "CPU"):
        raise UserError("--ray: the cluster has no " + ("GPU" if gpu else "core"))
    done = ray.data.from_items(
        [{"item": item} for item in items], override_num_blocks=min(len(items), MOST)
    ).map_batches(
        item_done, fn_kwargs={"sent": json.dumps(sent | {"versions": VERSIONS})},
        batch_size=1, batch_format="numpy", num_cpus=1, num_gpus=1 if gpu else None,
    )  # fmt: skip
    try:
        for row in done.iter_rows():
            yield Done(*(row[name] for name in Done._fields))
    except ray.exceptions.RayError as error:
        raise UserError(f"--ray: {_first_line(error)}") from None


def item_done(batch: Mapping[str, Any], sent: str) -> dict[str, Any]:
    """A batch of one item in a worker."""
    [item] = batch["item"]
    out, error = b"", ""
    with contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            out = _ready(sent)(str(item))
        except (UserError, OSError) as found:
            error = f"{found} (on {platform.node()})"
    row = Done(str(item), out, said.getvalue(), error)
    return {name: np.array([value], object) for name, value in row._asdict().items()}


@lru_cache(1)
def _ready(order: str) -> Work:
    """What a worker does, once it stands where the process stands that asks. Its process stays, so
    that a model is loaded once."""
    sent = json.loads(order)
    for name, version in VERSIONS.items():
        if version != sent["versions"][name]:
            raise UserError(f"{name} is {version} here, and {sent['versions'][name]} where you are")
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # a worker has one core
    try:
        os.chdir(sent["place"])
    except OSError as error:
        raise UserError(
            f"{sent['place']}: {error.strerror}; all machines must see the same folders"
        ) from None
    for parts in sent["parts"]:
        add_folder(Path(parts))
    place, _, name = sent["work"].partition(":")
    made: Work = getattr(importlib.import_module(f"regard.{place}"), name)(sent["order"])
    return made


def _first_line(error: Exception) -> str:
    """What Ray says, without the traces of its processes."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
