"""Sounds that are silent, clipped, too short or long, there twice, or of several rates."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from regard.checks.findings import Finding, counted, finding
from regard.checks.sides import Part, Side
from regard.data.log_mel import Config
from regard.data.sound import Recorded

LOOKED = 2000
"""Sounds of a part, evenly out of all, that are listened to; files are compared all."""
SILENT = 1e-3
"""Amplitude of the loudest sample that is still silence: −60 dB."""
FULL, CLIPPED = 0.999, 0.001
"""Amplitude of a sample at its limit, and the fraction of such that makes a sound clipped."""
SHORT, LONG = 0.05, 10
"""Seconds that are too short for a word; times the median that are unusually long."""


@dataclass
class _Heard:
    """What was heard of a part: numbers of sounds, and their hashes."""

    silent: list[int] = field(default_factory=list)
    clipped: list[int] = field(default_factory=list)
    short: list[int] = field(default_factory=list)
    seconds: dict[int, float] = field(default_factory=dict)
    rates: Counter[int] = field(default_factory=Counter)
    first_of_rate: dict[int, int] = field(default_factory=dict)
    same: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Those whose files, or whose samples, have a hash; of a file that several lines name, the
    first."""
    looked: int = 0

    def listen(self, n: int, sound: Recorded) -> None:
        loud = np.abs(sound.samples)
        seconds = len(loud) / sound.rate
        self.looked += 1
        self.seconds[n] = seconds
        self.rates[sound.rate] += 1
        self.first_of_rate.setdefault(sound.rate, n)
        self.same[hashlib.sha256(sound.samples.tobytes()).hexdigest()].append(n)
        if float(loud.max()) < SILENT:
            self.silent.append(n)
        if float((loud >= FULL).mean()) > CLIPPED:
            self.clipped.append(n)
        if seconds < SHORT:
            self.short.append(n)

    def counted(self, part: Part, count: int) -> str:
        """“3 of the 2,000 sounds that were listened to (0.15 %) of data.train”."""
        if self.looked == len(part):
            return part.counted(count, "sounds")
        which = "sounds that were listened to"
        return f"{counted(count, self.looked, which, 'the ')} of {part.key}"


def check(
    parts: Sequence[Part],
    read: Callable[[str], Recorded],
    digest: Callable[[str], str | None],
    features: Config,
) -> Iterator[Finding]:
    """What is wrong with the sounds of all parts, as far as they are listened to."""
    seen: dict[str, tuple[Part, int]] = {}
    for part in parts:
        side = part.sides[0]
        heard = _heard(side, read, digest)
        yield from _of_part(part, side, heard, features)
        yield from _leaked(part, side, heard, seen)


def _heard(
    side: Side, read: Callable[[str], Recorded], digest: Callable[[str], str | None]
) -> _Heard:
    heard, own = _Heard(), side.first()
    for n in own:
        if found := digest(side.values[n]):
            heard.same[found].append(n)
    for n in own[:: -(-len(own) // LOOKED) or 1]:
        try:
            heard.listen(n, read(side.values[n]))
        except ValueError:  # the reader has reported it
            continue
    return heard


def _of_part(part: Part, side: Side, heard: _Heard, features: Config) -> Iterator[Finding]:
    usual = median(heard.seconds.values()) if heard.seconds else 0
    long = [n for n, seconds in heard.seconds.items() if seconds > LONG * max(usual, SHORT)]
    longer = f"sounds more than {LONG} times as long as the median of {usual:.2g} seconds"
    for code, hit, what in (
        ("audio.silent", heard.silent, "sounds without any sound"),
        ("audio.clipped", heard.clipped, "sounds that are clipped"),
        ("audio.short", heard.short, f"sounds of less than {SHORT} seconds"),
        ("audio.long", long, longer),
    ):
        if hit:
            said = f"{what}: {heard.counted(part, len(hit))}"
            yield finding(code, side.place(hit[0]), said, side.lines[hit[0]])
    if copies := sorted({n for same in heard.same.values() for n in same[1:]}):
        yield part.lines("audio.repeated", side, copies, "sounds that are there already")
    yield from _rates(part, side, heard, features)


def _rates(part: Part, side: Side, heard: _Heard, features: Config) -> Iterator[Finding]:
    """Several rates in one part, or a rate that cannot have the highest band."""
    if len(heard.rates) > 1:
        shown = ", ".join(f"{count:,} of {rate:,} Hz" for rate, count in heard.rates.most_common())
        rare = min(heard.rates, key=lambda rate: heard.rates[rate])
        place = heard.first_of_rate[rare]
        what = f"sounds of several rates in {part.key}: {shown}"
        yield finding("audio.rates", side.place(place), what, side.lines[place])
    low = [rate for rate in heard.rates if rate < 2 * features.top * 0.99]
    if low:
        place = heard.first_of_rate[low[0]]
        what = (
            f"sounds of {low[0]:,} Hz in {part.key} have nothing above {low[0] / 2:,.0f} Hz, but "
            f"the bands go up to {features.top:,.0f} Hz"
        )
        yield finding("audio.rate", side.place(place), what, side.lines[place])


def _leaked(
    part: Part, side: Side, heard: _Heard, seen: dict[str, tuple[Part, int]]
) -> Iterator[Finding]:
    """Sounds that another part has, too."""
    found = [(n, seen[key]) for key, same in heard.same.items() if key in seen for n in same]
    if found:
        others = sorted({other.key for _, (other, _) in found})
        what = f"sounds that {' and '.join(others)} has, too"
        yield part.lines("audio.leaked", side, sorted({n for n, _ in found}), what)
    seen |= {key: (part, same[0]) for key, same in heard.same.items() if key not in seen}


def room(
    part: Part, room_of: Callable[[str], int], needed: Callable[[str], int]
) -> Iterator[Finding]:
    """Texts that are too long for their sounds: CTC has a position for each token."""
    sounds, texts = part.sides
    hit = []
    for n in range(0, len(part), -(-len(part) // LOOKED) or 1):
        try:
            fits = needed(texts.values[n]) <= room_of(sounds.values[n])
        except ValueError:
            continue
        if not fits:
            hit.append(n)
    if hit:
        what = "texts that have more tokens than their sounds have positions, which teach nothing"
        yield part.lines("audio.text", texts, hit, what)
