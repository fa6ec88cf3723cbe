"""Points in the plane, one after the other: "0.5,1 -0.25,0.75 …"."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from regard.checks.findings import Finding, Kind
from regard.checks.sides import Part
from regard.data.store import Column, Store
from regard.fields import Array, Draw, Field as Base, Row

FAR = 100.0


@dataclass(frozen=True, kw_only=True)
class Config:
    """What paths are like."""

    count: int = 6
    """Points of a path."""
    noise: float = 0.0
    """The deviation of what is added to each coordinate in training."""


@dataclass(frozen=True)
class Field(Base):
    """Paths of a fixed number of points."""

    name: str
    config: Config
    readable = True
    findings: ClassVar[Mapping[str, Kind]] = {"points.far": Kind("warning", "look at the line")}

    @classmethod
    def of(cls, name: str, config: Config, task: Any) -> "Field":
        return cls(name, config)

    def parse(self, text: str) -> Array:
        try:
            found = np.array([[float(x) for x in point.split(",")] for point in text.split()])
        except ValueError:
            raise ValueError("not points of two numbers each") from None
        if found.shape != (self.config.count, 2):
            raise ValueError(f"not {self.config.count} points of two numbers each")
        return found

    def show(self, value: Array) -> str:
        return " ".join(f"{x:g},{y:g}" for x, y in value)

    def check(self, parts: Sequence[Part], base: Path | None = None) -> Iterator[Finding]:
        for part in parts:
            side = part[self.side(part)]
            for n, value in enumerate(side.values):
                if np.abs(value).max() > FAR:
                    kind = self.findings["points.far"]
                    what = f"a coordinate of {np.abs(value).max():g}"
                    yield Finding(
                        kind.severity, "points.far", side.place(n), what, side.lines[n], kind.advice
                    )
                    break

    def side(self, part: Part) -> str:
        return part.sides[0].name

    @property
    def size(self) -> Mapping[str, int]:
        return {"variables": 2, "length": self.config.count}

    @property
    def columns(self) -> Mapping[str, Column]:
        return {self.name: Column("f4", (2,))}

    def verify(self, store: Store, longest: int) -> None:
        store.check(self.name, finite=True, longest=self.config.count)

    def encode(self, values: Sequence[Array]) -> list[Row]:
        return [{self.name: np.asarray(value, np.float32)} for value in values]

    def collate(self, rows: Sequence[Row], ids: Sequence[int], draw: Draw) -> dict[str, Array]:
        found = np.stack([row[self.name] for row in rows]).astype(np.float32)
        if self.config.noise and draw.seed:
            drawn = [draw.random(n).normal(0, self.config.noise, found.shape[1:]) for n in ids]
            found = found + np.stack(drawn).astype(np.float32)
        return {self.name: found}

    def pieces(self, row: Row) -> list[str]:
        return [f"({x:g}, {y:g})" for x, y in row[self.name]]
