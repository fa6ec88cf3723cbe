"""Running text that is not stored: parallel streams within windows of texts.

An epoch's windows are those of `streamed`: texts that follow each other, of sources in an order of
their own. Window w has N_w tokens, the sum of its texts' lengths, which were kept when the run was
prepared; in it streams are laid out as in a stored text (`data/stream.py`), by draws of (seed,
epoch, w), in M_w chunks. The window of batch i of an epoch is

    w = min {v : c_v > i}        c_v = Σ_{u ≤ v} M_u

so that to resume is arithmetic. All of a window is read when its first batch is asked for, and the
state that is carried begins anew with it.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from regard.data import files
from regard.data.store import Array
from regard.data.stream import Config, Layout, check_place, check_size
from regard.examples.streamed import Rows, Streamed
from regard.types import ALL, Batch, Position

KEY = 0x7E87
"""Sets these draws apart from others of the same seed."""


@dataclass(frozen=True)
class Epoch:
    """The windows of an epoch, and how streams lie in each."""

    windows: list[NDArray[np.int64]]
    """The blocks of each."""
    layouts: list[Layout]
    ends: list[int]
    """c: the batches of each window and of those before it."""


class StreamedText:
    """The endless stream of training batches, as that of a stored text, within windows."""

    def __init__(
        self, streamed: Streamed, before: int, config: Config, seed: int, data: files.Config
    ) -> None:
        lengths, self._windows = streamed.known(data)
        self._rows = Rows(streamed, lengths, self._windows)
        places = np.concatenate([[0], np.cumsum(lengths.sum(1))])[self._windows.starts]
        self._starts, self._sizes = places[:-1], np.diff(places)
        """Of each block: its first place in all of the text, and its tokens."""
        (self._side,) = streamed.fields
        self._before, self._config, self._seed = before, config, seed
        check_size(int(self._sizes.sum()), config)
        self._planned: tuple[int, Epoch] | None = None

    def _epoch(self, number: int) -> Epoch:
        planned = self._planned  # another thread may ask for another epoch meanwhile
        if planned is None or planned[0] != number:
            planned = self._planned = (number, self._plan(number))
        return planned[1]

    def _plan(self, number: int) -> Epoch:
        windows = self._joined(self._windows.of(self._seed, number))
        layouts = [
            Layout.of(self._tokens(blocks), self._config, [self._seed, KEY, number, w])
            for w, blocks in enumerate(windows)
        ]
        return Epoch(windows, layouts, np.cumsum([len(each) for each in layouts]).tolist())

    def _tokens(self, blocks: NDArray[np.int64]) -> int:
        return int(self._sizes[blocks].sum())

    def _joined(self, windows: Sequence[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        """One that has no token for each stream is joined to the one before it."""
        found: list[NDArray[np.int64]] = []
        for blocks in windows:
            if found and min(map(self._tokens, (found[-1], blocks))) < self._config.streams:
                found[-1] = np.concatenate([found[-1], blocks])
            else:
                found.append(blocks)
        return found

    def at(self, position: Position, rows: slice = ALL) -> Batch:
        """The chunk of each stream at a position, or of those streams that `rows` selects."""
        epoch = self._epoch(position.epoch)
        check_place(position, epoch.ends[-1])
        w = bisect_right(epoch.ends, position.index)
        layout, blocks = epoch.layouts[w], epoch.windows[w]
        chunk = position.index - epoch.ends[w] + len(layout)
        held = self._rows.blocks(blocks.tolist())
        text = Joined([held[block][self._side][0] for block in blocks.tolist()])
        batch = layout.batch(text, self._before, chunk, rows)
        inside = np.array(batch.ids, np.int64)
        which = np.searchsorted(text.starts, inside, "right") - 1
        places = self._starts[blocks[which]] + inside - text.starts[which]
        return replace(batch, ids=tuple(places.tolist()))

    def after(self, position: Position) -> Position:
        """The position that follows."""
        if position.index + 1 < self._epoch(position.epoch).ends[-1]:
            return Position(position.epoch, position.index + 1)
        return Position(position.epoch + 1, 0)


class Joined:
    """Arrays of tokens as one, of which no more is copied than is asked for."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        self._arrays = arrays
        self.starts = np.concatenate([[0], np.cumsum([len(each) for each in arrays])])
        """Where each of them begins, and where the last one ends."""

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __getitem__(self, piece: slice, /) -> Array:
        first, stop, _ = piece.indices(len(self))
        low = int(np.searchsorted(self.starts, first, "right")) - 1
        high = int(np.searchsorted(self.starts, stop, "left"))
        some = zip(self._arrays[low:high], self.starts[low:high].tolist(), strict=True)
        return np.concatenate([tokens[max(0, first - at) : stop - at] for tokens, at in some])
