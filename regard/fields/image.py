"""Pictures: a value is the place of one, a file or one of many in a container."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from regard.checks import pictures as checks
from regard.checks.findings import Finding
from regard.checks.sides import Part
from regard.data import augmentation, catalogue, idx, media, parquet, pictures, whole_file
from regard.data.labelled import Labelled
from regard.data.pictures import Form, Pixels
from regard.data.readers import Policy, Report, suffix
from regard.data.store import Column, Store
from regard.data.tables import Name
from regard.errors import RecipeError, UserError
from regard.fields import Array, Draw, Field as Base, Row
from regard.recipe import checked
from regard.recipe.values import Items, Range

Edge = Annotated[int, Range(1, 4096)]
Normalise = Literal["training", "given", "imagenet", "clip", "half", "none"]
KNOWN = {
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "clip": ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
    "half": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "none": ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
}
"""Mean and deviation of each channel, for values from 0 to 1."""
LEARNT_FROM = 2000
"""Pictures of the training part, evenly out of all, whose mean and deviation are taken."""
TOGETHER = 1 << 26
"""Bytes of pictures that are encoded together."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """What pictures become."""

    size: Annotated[tuple[Edge, ...], Items(2)] = (224, 224)
    """Height and width, in pixels, that every picture gets; one number is both."""
    channels: Literal[1, 3] = 3
    """1: shades of grey, 3: colours."""
    resize: pictures.Resize = "crop"
    """stretch: to the size, whatever the shape; crop: the shorter side to the size, then the
    middle; pad: all of it, with the background around it."""
    resampling: pictures.Resampling = "bilinear"
    """How pixels are found between pixels."""
    background: pictures.Background = "white"
    """What is behind transparent pixels, and around padded pictures."""
    normalise: Normalise = "training"
    """(x − mean) / deviation of each channel: of the training part, or given by `mean` and `std`,
    or as ImageNet's or CLIP's; half: from −1 to 1; none: from 0 to 1."""
    mean: Annotated[tuple[Annotated[float, Range(0, 100)], ...], Items(3)] = ()
    """With normalise = "given", of values from 0 to 1."""
    std: Annotated[tuple[Annotated[float, Range(0, 100, open_low=True)], ...], Items(3)] = ()
    """With normalise = "given"."""
    max_pixels: Annotated[int, Range(1, 10**9)] = 50_000_000
    """Pictures with more are broken: their header says so, and nothing is decoded."""
    max_bytes: Annotated[int, Range(1, 10**10)] = 100_000_000
    """Files with more are broken."""
    augment: augmentation.Config = field(default_factory=augmentation.Config)
    """How pictures are varied in training."""

    def __post_init__(self) -> None:
        if not self.size:
            raise RecipeError("size: names no number of pixels")
        given = self.normalise == "given"
        for name in ("mean", "std"):
            count = len(self.mean if name == "mean" else self.std)
            if given and count != self.channels:
                raise RecipeError(f"{name}: {count} numbers for {self.channels} channels")
            if count and not given:
                raise RecipeError(f'{name}: it needs normalise = "given"')

    @property
    def form(self) -> Form:
        height, width = self.size[0], self.size[-1]
        return Form(height, width, self.channels, self.resize, self.resampling, self.background)


@dataclass(frozen=True)
class Standard:
    """x ↦ (x − mean) / std of each channel, for values from 0 to 1."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @cached_property
    def table(self) -> NDArray[np.float32]:
        """(C, 256): what each value of a byte becomes."""
        mean, std = np.array(self.mean)[:, None], np.array(self.std)[:, None]
        return np.asarray((np.arange(256) / 255 - mean) / std, np.float32)

    def apply(self, pixels: NDArray[Any]) -> NDArray[np.float32]:
        """(B, H, W, C), bytes or real numbers from 0 to 255, become (B, C, H, W)."""
        count, height, width, channels = pixels.shape
        found = np.empty((count, channels, height, width), np.float32)
        for n in range(channels):
            if pixels.dtype == np.uint8:
                np.take(self.table[n], pixels[..., n], out=found[:, n])
            else:
                np.multiply(pixels[..., n], 1 / (255 * self.std[n]), out=found[:, n])
                found[:, n] -= self.mean[n] / self.std[n]
        return found


@dataclass(frozen=True)
class Field(Base):
    """Pictures, stored as bytes of the size that a model reads: NAME (1, H, W, C). A batch has NAME
    (B, C, H, W), normalised, and where pictures are mixed NAME_share (B), how much of each is its
    own."""

    name: str
    config: Config
    folder: str = ""
    """That of the data."""
    of_table: str = "image"
    """The column of Parquet that holds pictures."""
    learnt: Standard | None = None
    readable = on_disk = True
    column = "image"

    @classmethod
    def of(cls, name: str, config: Config, task: Any) -> "Field":
        data = task.data
        folder = data.folder
        with suppress(UserError):  # who reads the data says so
            folder = str(catalogue.find(data.set)) if data.set else folder
        return cls(name, config, folder, cls.column)

    @property
    def mixed(self) -> bool:
        return self.config.augment.mixup > 0

    def in_column(self, name: str) -> "Field":
        return replace(self, of_table=name)

    # One picture

    def from_python(self, value: Any, name: str) -> str:
        """A path, a picture of Pillow, or bytes (H, W) or (H, W, C) as an array."""
        if isinstance(value, Path):
            return str(value)
        if isinstance(value, Image.Image):
            return media.Inline(name, pictures.png(value))
        if isinstance(value, np.ndarray):
            try:
                return media.Inline(name, pictures.png(Image.fromarray(value)))
            except (TypeError, ValueError, OSError) as error:
                raise UserError(f"{name}: this array is no picture: {error}") from None
        found: str = value
        return found

    def parse(self, text: str) -> str:
        """A place that is there; what is in it shows when it is encoded."""
        if isinstance(text, media.Inline):
            return text
        path, _ = media.split(text.strip())
        media.check(path)
        return text.strip()

    def cell(self, text: str, table: Path) -> str:
        place = media.located(text, table, self.folder)
        if (inside := _in_idx(place)) is not None:
            idx.image(*inside)
        else:
            pictures.check(self._bytes(place), self.config.max_pixels)
        return place

    def show(self, value: str) -> str:
        return value

    def kept(self, line: str) -> str:
        return line

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
        """Places and labels of folders of classes, tables, Parquet or idx files."""
        if any(idx.dimensions(path) for path in paths):
            return idx.labelled(paths, report)
        how = {"folder": self.folder, "separator": separator, **layout}
        return media.labelled(paths, columns or ("label", self.column), policy, report, **how)

    def _bytes(self, place: str) -> bytes:
        return media.contents(place, self.config.max_bytes, self.of_table)

    def content(self, value: str) -> str:
        """A digest: the same picture under another name is the same."""
        inside = _in_idx(value)
        data = self._bytes(value) if inside is None else idx.image(*inside).tobytes()
        return hashlib.blake2b(data, digest_size=16).hexdigest()

    def pixels(self, place: str) -> Pixels:
        """(H, W, C) of the size that a model reads; ValueError says what is wrong."""
        if (inside := _in_idx(place)) is not None:
            return pictures.shaped(Image.fromarray(idx.image(*inside)), self.config.form)
        return pictures.decoded(self._bytes(place), self.config.form, self.config.max_pixels)

    def check(self, parts: Sequence[Part], base: Path | None = None) -> Iterator[Finding]:
        """Pictures that are there twice, exactly or nearly, and small ones."""
        form = self.config.form
        return checks.check(parts, self._glimpse, self._digest, (form.height, form.width))

    def _digest(self, place: str) -> str | None:
        with suppress(ValueError, UserError):
            return self.content(place)
        return None

    def _glimpse(self, place: str) -> checks.Glimpse | None:
        with suppress(ValueError, UserError):
            if (inside := _in_idx(place)) is not None:
                found = idx.image(*inside)
                image, size, turn = Image.fromarray(found), (found.shape[0], found.shape[1]), 1
            else:
                image, size, turn = pictures.small(self._bytes(place), self.config.max_pixels)
            return checks.glimpse(image, size, turn)
        return None

    # Those of all

    def fit(self, values: Iterable[str]) -> "Field":
        """Mean and deviation of each channel."""
        config = self.config
        if config.normalise == "given":
            return replace(self, learnt=Standard(config.mean, config.std))
        if config.normalise != "training":
            known: tuple[tuple[float, ...], ...] = KNOWN[config.normalise]
            if config.channels == 1:  # as bright as the colours together
                known = tuple((_sum(each, augmentation.GREY.tolist()),) for each in known)
            return replace(self, learnt=Standard(*known))
        places = list(values)
        chosen = places[:: -(-len(places) // LEARNT_FROM)]
        sums = np.zeros((2, config.channels))
        for place in chosen:
            x = self._encoded(place)[0] / 255
            sums += np.stack([x.mean((0, 1)), (x * x).mean((0, 1))])
        mean, square = sums / len(chosen)
        std = np.sqrt(np.maximum(square - mean * mean, 0))
        std[std < 1e-3] = 1.0  # all of one colour
        return replace(self, learnt=Standard(tuple(mean.tolist()), tuple(std.tolist())))

    @property
    def file(self) -> str:
        return f"{self.name}.image.json"

    def save(self, folder: Path) -> None:
        about = {"mean": self.standard.mean, "std": self.standard.std}
        whole_file.write(folder / self.file, json.dumps(about, indent=2) + "\n")

    def load(self, folder: Path) -> "Field":
        path, count = folder / self.file, self.config.channels
        try:
            table = checked.keys(checked.read(path), "it", {"mean", "std"})
            mean, std = (checked.items(table[key], key, count) for key in ("mean", "std"))
            learnt = Standard(
                tuple(checked.number(each, "a mean") for each in mean),
                tuple(checked.number(each, "a deviation", above=0.0) for each in std),
            )
        except (OSError, ValueError) as error:
            raise UserError(f"{path} cannot be read: {error}") from None
        return replace(self, learnt=learnt)

    # What has learnt from data

    @property
    def standard(self) -> Standard:
        assert self.learnt is not None
        return self.learnt

    @property
    def size(self) -> Mapping[str, int]:
        form = self.config.form
        return {"height": form.height, "width": form.width, "channels": form.channels}

    @property
    def size_names(self) -> Mapping[str, int]:
        return self.size

    @property
    def columns(self) -> Mapping[str, Column]:
        form = self.config.form
        return {self.name: Column("u1", (form.height, form.width, form.channels))}

    def verify(self, store: Store, longest: int) -> None:
        store.check(self.name, longest=1)
        if (store.lengths(self.name) != 1).any():
            raise UserError(
                f"the stored data cannot be read: an example of {store.name} has no picture. Start "
                "a new run from the recipe"
            )

    @property
    def together(self) -> int:
        form = self.config.form
        return max(1, min(2048, TOGETHER // (form.height * form.width * form.channels)))

    def encode(self, values: Sequence[str]) -> list[Row]:
        return [{self.name: self._encoded(place)} for place in values]

    def _encoded(self, place: str) -> Array:
        try:
            return self.pixels(place)[None]
        except ValueError as error:
            raise UserError(f"{place}: {error}") from None

    def collate(self, rows: Sequence[Row], ids: Sequence[int], draw: Draw) -> dict[str, Array]:
        pixels: NDArray[Any] = np.concatenate([row[self.name] for row in rows])
        vary = self.config.augment
        if draw.learning and vary.varies:
            drawn = draw.uniform(ids, augmentation.DRAWS)
            pixels = augmentation.varied(pixels, drawn, vary)
        return {self.name: self.standard.apply(pixels)}

    def mix(
        self, own: Mapping[str, Array], others: Mapping[str, Array], ids: Sequence[int], draw: Draw
    ) -> dict[str, Array]:
        """λ x + (1 − λ) x′; NAME_share (B) is λ."""
        alpha = self.config.augment.mixup
        share = np.array([draw.random(n).beta(alpha, alpha) for n in ids], np.float32)
        by = share[:, None, None, None]
        mixed = own[self.name] * by + others[self.name] * (1 - by)
        return {self.name: mixed, f"{self.name}_share": share}

    def as_png(self, row: Row) -> bytes:
        pixels = np.asarray(row[self.name])[0]
        return pictures.png(Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels))

    def pieces(self, row: Row) -> list[str]:
        """One: the parts of a picture that a model reads are its input's."""
        form = self.config.form
        return [f"{form.height} × {form.width}"]


def _in_idx(place: str) -> tuple[Path, int] | None:
    """The file and the number of an image in an idx file, if the place is there."""
    path, number = media.split(place)
    return None if number is None or suffix(path) == parquet.SUFFIX else (path, number)


def _sum(values: Sequence[float], weights: Sequence[float]) -> float:
    return sum(x * w for x, w in zip(values, weights, strict=True))
