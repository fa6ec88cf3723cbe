"""Pictures and what belongs to them; or two columns of texts, such as two languages."""

from dataclasses import replace
from pathlib import Path

from regard.starting import Asked, Draft, Key, Section, caption, described, translate

KEPT = ("data", "held_out")
"""Sections of a recipe for translation that pairs of texts have, too."""


def fits(asked: Asked) -> float:
    """Never by itself: the same files are for captions, or for translation."""
    return 0.0


def look(asked: Asked, base: Path) -> Draft:
    """Pairs: of pictures and texts, or of texts."""
    if described.fits(asked, described.PICTURE):
        return caption.draft(asked, base, "contrast", "model.towers.source.input", 0.05)
    found = translate.look(asked, base)
    sections = [
        Section("", (Key("task", "contrast"),)),
        *(section for section in found.sections if section.name in KEPT),
        Section("source", (Key("kind", "text"),)),
        Section("model.towers.source.input", (Key("kind", "tokens"),)),
        Section("model.towers.source.encoder", (Key("kind", "rnn"),)),
        Section("model.towers.target.encoder", (Key("kind", "rnn"),)),
    ]
    reference = ["R@1 of 100 / n by chance, among n pairs"]
    return replace(found, sections=sections, reference=reference, scores={})
