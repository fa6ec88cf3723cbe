"""Sounds that nobody has described: how long they are, and of which rate."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from regard.data import media, sound
from regard.errors import UserError
from regard.starting import Asked, Draft, Key, Section, measures, table
from regard.starting.sizing import held_out, up

LOOKED = 200
"""Sounds that are opened, evenly out of all."""
LONGEST, MOST = 3600.0, 200_000_000
"""Seconds and bytes of one that is opened."""
HEARD = 20 * 3600
"""Seconds that a first training hears, in all of its epochs together."""


@dataclass(frozen=True)
class Heard:
    """What was heard of some sounds."""

    seconds: list[float]
    rates: Counter[int]
    broken: int

    @property
    def rate(self) -> int:
        """The most frequent one, as far as speech needs it."""
        return min(16_000, self.rates.most_common(1)[0][0])

    @property
    def longest(self) -> float:
        return max(self.seconds)

    def facts(self) -> dict[str, Any]:
        return {
            "seconds": round(median(self.seconds), 3),
            "longest": round(self.longest, 3),
            "rates": dict(self.rates),
            "broken": self.broken,
        }

    def said(self) -> list[str]:
        rates = ", ".join(f"{rate:,} Hz" for rate, _ in self.rates.most_common())
        said = [
            f"  {median(self.seconds):.2g} seconds (median), {self.longest:.2g} at most, {rates}"
        ]
        opened = len(self.seconds) + self.broken
        return said + [f"  {self.broken} of {opened} that were opened cannot be read"] * bool(
            self.broken
        )

    def sections(self, kind: str = "audio") -> list[Section]:
        """What the sounds are like, with room for longer ones than were looked at."""
        most = max(1, up(1.5 * self.longest, 1))
        source = [Key("kind", kind), Key("max_seconds", most, "longer ones are left out")]
        features = [Key("rate", self.rate, "samples of a second")]
        features += [Key("mels", 40)] if self.rate <= 8000 else []
        return [
            Section("source", tuple(source)),
            Section("source.features", tuple(features)),
            Section(
                "source.augment",
                (Key("speed", 0.1), Key("noise", 0.1), Key("frequency_masks", 1)),
                "sounds are varied in training",
            ),
        ]

    def epochs(self, count: int) -> int:
        return max(10, min(60, round(HEARD / max(1.0, count * median(self.seconds)))))


def listen(places: Sequence[str]) -> Heard:
    """Open some of them."""
    seconds, rates = list[float](), Counter[int]()
    chosen = places[:: -(-len(places) // LOOKED) or 1]
    for place in chosen:
        with suppress(ValueError):
            found = sound.read(media.contents(place, MOST), LONGEST)
            seconds.append(len(found.samples) / found.rate)
            rates[found.rate] += 1
    if not seconds:
        raise UserError(f"{places[0]}: neither it nor another of the sounds can be read")
    return Heard(seconds, rates, len(chosen) - len(seconds))


def is_folder(asked: Asked) -> bool:
    """Whether all are folders, and most of what is in them are sounds."""
    if not all(path.is_dir() for path in asked.files):
        return False
    names = [path.suffix.lower() for folder in asked.files for path in media.files(folder)]
    return 2 * sum(name in sound.SUFFIXES for name in names) > len(names)


def look(asked: Asked, base: Path) -> Draft:
    """A folder of classes, FOLDER/label/sound."""
    folder = asked.files[0]
    inside = {each.name: [*map(str, media.files(each))] for each in media.classes(folder)}
    counts = Counter({name: len(found) for name, found in inside.items() if found})
    if len(counts) < 2 or len(asked.files) > 1:
        raise UserError(
            f"{folder}: one folder is wanted, and in it two at least, called by their labels"
        )
    heard = listen([path for found in inside.values() for path in found])
    total = sum(counts.values())
    majority = measures.majority([name for name, count in counts.items() for _ in range(count)])
    data = [Key("train", table.named([folder], base))]
    data += [Key("on_bad_line", "skip", "some cannot be read")] if heard.broken else []
    return Draft(
        title=f"{total:,} sounds with {len(counts)} labels",
        facts={"sounds": total, "labels": dict(counts.most_common(50)), **heard.facts()},
        seen=[f"{folder}: {total:,} sounds in {len(counts)} folders", *heard.said()],
        sections=[
            Section("", (Key("task", "classify"),)),
            Section("data", tuple(data)),
            *held_out((), "as large a share of each label", 0.1, Key("stratified", True)),
            *heard.sections(),
            Section("model.input", (Key("kind", "mel"),)),
            Section("model.encoder", (Key("kind", "rnn"),)),
            Section("train", (Key("epochs", heard.epochs(total), "times through the data"),)),
        ],
        reference=[f"accuracy {majority:.1%} by always taking the most frequent label"],
        scores={"majority": majority},
    )
