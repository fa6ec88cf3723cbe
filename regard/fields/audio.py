"""Sound: a value is the path of a file, and what a model reads are its log-mel frames.

The store has samples, of 16 bits and one rate, and not frames: speed and noise are of samples, and
frames are made where a batch is, once these are drawn.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from regard.checks import audio as checks
from regard.checks.findings import Finding
from regard.checks.sides import Part
from regard.data import catalogue, log_mel, media, sound, sound_variation
from regard.data.band_standard import BandStandard
from regard.data.batching import Lengths
from regard.data.labelled import Labelled
from regard.data.readers import Policy, Report
from regard.data.store import Column, Store
from regard.data.tables import Name
from regard.errors import UserError
from regard.fields import Array, Draw, Field as Base, Row
from regard.recipe.values import Range

TOGETHER = 64
"""Sounds that are encoded together: each may be a megabyte."""
MICROSECONDS = 1_000_000
"""A model knows the hop by them: sizes are integers."""
STEADY = 1e-5
"""Added to deviations: silence has none."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """What sounds are like."""

    max_seconds: Annotated[float, Range(0.1, 3600)] = 30.0
    """The longest that a sound may be; a longer one is reported as one that cannot be read."""
    max_bytes: Annotated[int, Range(1, 2**31)] = 50_000_000
    """The most bytes that its file may have."""
    features: log_mel.Config = field(default_factory=log_mel.Config)
    """The frames that a model reads."""
    normalise: Literal["utterance", "training", "whisper", "none"] = "utterance"
    """Each band of a sound to mean 0 and deviation 1 over its own frames, or over those of the
    training part; as Whisper does; or not at all."""
    augment: sound_variation.Config = field(default_factory=sound_variation.Config)
    """How sounds are varied in training."""


@dataclass(frozen=True)
class Field(Base):
    """Sounds as frames (T, M)."""

    name: str
    config: Config
    folder: str = ""
    """Where files are that are not beside their table."""
    of_table: str = "audio"
    """The column of Parquet that holds sounds."""
    learnt: BandStandard | None = None
    readable = True
    on_disk = True
    column = "audio"

    @classmethod
    def of(cls, name: str, config: Config, task: Any) -> "Field":
        data = task.data
        folder = data.folder
        with suppress(UserError):  # who reads the data says so
            folder = str(catalogue.find(data.set)) if data.set else folder
        return cls(name, config, folder, cls.column)

    def in_column(self, name: str) -> "Field":
        return replace(self, of_table=name)

    # One sound

    def parse(self, text: str) -> str:
        """A place that is there; what is in it shows when it is encoded."""
        if isinstance(text, media.Inline):
            return text
        path, _ = media.split(text.strip())
        media.check(path)
        return text.strip()

    def cell(self, text: str, table: Path) -> str:
        place = media.located(text, table, self.folder)
        self.recorded(place)
        return place

    def kept(self, line: str) -> str:
        return line

    def show(self, value: str) -> str:
        return value

    def content(self, value: str) -> str:
        """A digest: the same file under another name is the same."""
        return hashlib.blake2b(self._bytes(value), digest_size=16).hexdigest()

    def _bytes(self, place: str) -> bytes:
        return media.contents(place, self.config.max_bytes, self.of_table)

    def recorded(self, place: str) -> sound.Recorded:
        """The sound at a place, as it was recorded."""
        return sound.read(self._bytes(place), self.config.max_seconds)

    def samples(self, place: str) -> sound.Samples:
        """The same at the model's rate."""
        try:
            found = self.recorded(place)
        except ValueError as error:
            raise UserError(f"{place}: {error}") from None
        return sound.resampled(found.samples, found.rate, self.config.features.rate)

    def labelled(
        self,
        paths: Sequence[Path],
        columns: tuple[Name, ...],
        policy: Policy,
        report: Report,
        *,
        separator: str = "",
        **layout: Any,
    ) -> Iterator[Labelled]:
        columns = columns or ("label", self.column)
        how = {"folder": self.folder, "separator": separator, **layout}
        return media.labelled(paths, columns, policy, report, **how)

    def check(self, parts: Sequence[Part], base: Path | None = None) -> Iterator[Finding]:
        return checks.check(parts, self.recorded, self._digest, self.config.features)

    def _digest(self, place: str) -> str | None:
        with suppress(ValueError, UserError):
            return self.content(place)
        return None

    def seconds(self, row: Row) -> float:
        return len(row[self.name]) / self.config.features.rate

    # What is learnt

    @property
    def _learns(self) -> bool:
        return self.config.normalise == "training"

    def fit(self, values: Iterable[str]) -> "Field":
        if not self._learns:
            return self
        frames = (log_mel.log_mel(self._stored(each), self.config.features) for each in values)
        return replace(self, learnt=BandStandard.fit(frames))

    def _stored(self, place: str) -> sound.Samples:
        return sound.real(sound.whole(self.samples(place)))

    def load(self, folder: Path) -> "Field":
        if not self._learns:
            return self
        return replace(self, learnt=BandStandard.load(folder, self.name, self.config.features.mels))

    def save(self, folder: Path) -> None:
        if self.learnt is not None:
            self.learnt.save(folder, self.name)

    # What has learnt from data

    @property
    def size_names(self) -> Mapping[str, int]:
        features = self.config.features
        return {"mels": features.mels, "hop": round(features.hop * MICROSECONDS)}

    @property
    def size(self) -> Mapping[str, int]:
        return self.size_names

    @property
    def columns(self) -> Mapping[str, Column]:
        return {self.name: Column("i2")}

    @property
    def together(self) -> int:
        return TOGETHER

    def verify(self, store: Store, longest: int) -> None:
        most = int(self.config.max_seconds * self.config.features.rate) + 1
        store.check(self.name, longest=most)

    def encode(self, values: Sequence[str]) -> list[Row]:
        return [{self.name: sound.whole(self.samples(value))} for value in values]

    def sizes(self, flat: Mapping[str, Any]) -> None:
        """What is too long is so in seconds, and is no example at all."""
        return None

    def length(self, row: Row) -> int:
        return self.config.features.frames(len(row[self.name]))

    def lengths(self, store: Store) -> Lengths:
        return np.maximum(1, store.lengths(self.name) // self.config.features.step)

    def frames(self, row: Row) -> log_mel.Frames:
        """What a model reads of a sound (T, M)."""
        return self._normalised(log_mel.log_mel(self._real(row), self.config.features))

    def _real(self, row: Row) -> sound.Samples:
        return sound.real(np.asarray(row[self.name], np.int16))

    def _varied(self, rows: Sequence[Row], draws: list[list[float]]) -> list[log_mel.Frames]:
        """The same of sounds as they might have been."""
        features, augment = self.config.features, self.config.augment
        both = [*zip(rows, draws, strict=True)]
        sounds = [sound_variation.vary(self._real(r), features.rate, augment, d) for r, d in both]
        speeds = [sound_variation.speed(augment, each) for each in draws]
        found = [self._normalised(f) for f in log_mel.of_many(sounds, features, speeds)]
        for frames, each in zip(found, draws, strict=True):
            sound_variation.mask(frames, features.hop, augment, each)
        return found

    def _normalised(self, frames: log_mel.Frames) -> log_mel.Frames:
        match self.config.normalise:
            case "utterance":
                found: log_mel.Frames = frames - frames.mean(0)
                found /= np.sqrt(np.square(found).mean(0)) + STEADY
                return found
            case "training":
                assert self.learnt is not None
                return self.learnt.apply(frames)
            case "whisper":
                return log_mel.whisper(frames)
        return frames

    def collate(self, rows: Sequence[Row], ids: Sequence[int], draw: Draw) -> dict[str, Array]:
        if draw.learning:
            draws = draw.uniform(ids, self.config.augment.draws)
            found = self._varied(rows, draws.tolist())
        else:
            found = [self.frames(row) for row in rows]
        longest = max(map(len, found))
        frames = np.zeros((len(rows), longest, self.config.features.mels), np.float32)
        mask = np.zeros((len(rows), longest), bool)
        for n, each in enumerate(found):
            frames[n, : len(each)], mask[n, : len(each)] = each, True
        return {self.name: frames, f"{self.name}_mask": mask}

    def played(self, row: Row) -> sound.Played:
        samples = np.asarray(row[self.name], np.int16)
        wav = sound.wav(samples, self.config.features.rate)
        return sound.Played(wav, self.frames(row), self.seconds(row))

    def pieces(self, row: Row) -> list[str]:
        """When each frame is, in seconds."""
        return [f"{n * self.config.features.hop:.2f}" for n in range(self.length(row))]

    def status(self, row: Row, longest: int, *, strict: bool = False) -> str:
        return "ok"
