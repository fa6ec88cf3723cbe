"""Words as points: which are near, and which stand to each other as others do.

Vectors are compared by the cosine of their angle, cos(a, b) = a·b / ‖a‖‖b‖.
"""

import difflib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.console.tables import Block, Shown
from regard.data import vector_files
from regard.errors import UserError
from regard.train import manifest
from regard.word2vec import folder
from regard.word2vec.folder import Folder

Vector = NDArray[np.float32]
FORMS = {".bin": "binary", ".txt": "text", ".vec": "text"}


class Near(NamedTuple):
    """A word, and the cosine of its angle to what was asked for."""

    word: str
    cosine: float


class Space(Shown):
    """Vectors of words, of a run or of a file."""

    def __init__(
        self, words: Sequence[str], vectors: Vector, name: str = "", run: Folder | None = None
    ) -> None:
        self.words, self.vectors, self.name, self.run = list(words), vectors, name, run
        self._numbers = {word: n for n, word in reversed([*enumerate(self.words)])}

    @classmethod
    def load(cls, path: Path) -> "Space":
        """Of a run of word2vec, or of a file in word2vec's or GloVe's form."""
        if vector_files.is_run(path):
            run = folder.opened(path)
            words, vectors = vector_files.run(path)
            listed = manifest.read(path / "model")["files"]
            if fault := manifest.fault(path / "model", listed):
                raise UserError(f"{path / 'model'}: {fault}")
            return cls(words, vectors, str(path), run)
        found = [*vector_files.entries(path)]
        if not found:
            raise UserError(f"{path}: no word has a vector there")
        return cls([word for word, _ in found], np.stack([v for _, v in found]), str(path))

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return self.number(word) is not None

    @property
    def dim(self) -> int:
        return int(self.vectors.shape[1])

    @cached_property
    def directions(self) -> Vector:
        """(V, D) The vectors with length 1; that of nothing stays nothing."""
        lengths = np.linalg.norm(self.vectors, axis=1, keepdims=True)
        found: Vector = self.vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
        return found

    def number(self, word: str) -> int | None:
        """The row of a word as it is written, or else of its lower case."""
        found = self._numbers.get(word)
        return self._numbers.get(word.lower()) if found is None else found

    def row(self, word: str) -> int:
        """The same; a word without a vector is refused, with the nearest that has one."""
        if (found := self.number(word)) is not None:
            return found
        like = [each for each in self.words if each[:1] == word[:1].lower()]
        near = difflib.get_close_matches(word.lower(), like, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UserError(f"{self.name or 'the vectors'}: {word!r} has no vector{hint}")

    def vector(self, word: str) -> Vector:
        """(D,) of a word, to be changed by nobody."""
        found: Vector = self.vectors[self.row(word)].view()
        found.flags.writeable = False
        return found

    def similarity(self, one: str, other: str) -> float:
        """The cosine of two words."""
        return float(self.directions[self.row(one)] @ self.directions[self.row(other)])

    def neighbours(self, *words: str, count: int = 10) -> list[Near]:
        """The words nearest to a word, or to the mean direction of several."""
        if not words:
            raise UserError("neighbours: of which word?")
        rows = [self.row(word) for word in words]
        return self._nearest(self.directions[rows].mean(0), rows, count)

    def analogy(self, a: str, b: str, c: str, count: int = 5) -> list[Near]:
        """a is to b as c is to what? The words nearest to b − a + c, but for these three.

        argmax_w cos(w, b̂ − â + ĉ), where ^ has length 1 (Mikolov et al. 2013a, section 4)
        """
        rows = [self.row(word) for word in (a, b, c)]
        x, y, z = self.directions[rows]
        return self._nearest(y - x + z, rows, count)

    def _nearest(self, point: Vector, without: Sequence[int], count: int) -> list[Near]:
        cosines = self.directions @ (point / max(float(np.linalg.norm(point)), 1e-30))
        cosines[[*without]] = -np.inf
        count = min(count, len(self) - len({*without}))
        if count < 1:
            return []
        best = np.argpartition(-cosines, count - 1)[:count]
        best = best[np.argsort(-cosines[best], kind="stable")]
        return [Near(self.words[n], float(cosines[n])) for n in best]

    def plane(self, words: Sequence[str]) -> tuple[NDArray[np.float64], tuple[float, float]]:
        """(N, 2) Places of words on the two main axes of these words (PCA of their directions), and
        the fraction of their variance that each axis has."""
        x = self.directions[[self.row(word) for word in words]].astype(np.float64)
        x -= x.mean(0)
        u, s, _ = np.linalg.svd(x, full_matrices=False)
        places = np.zeros((len(words), 2))
        kept = min(2, len(s))
        places[:, :kept] = u[:, :kept] * s[:kept]
        # An axis has no direction of its own: the point that is farthest out is put on its right.
        turned = np.sign(places[np.abs(places).argmax(0), [0, 1]])
        parts = [*(s**2 / max(float((s**2).sum()), 1e-30)).tolist(), 0.0, 0.0]
        return places * np.where(turned == 0, 1, turned), (parts[0], parts[1])

    def blocks(self) -> list[Block]:
        rows = [
            ("vectors", self.name),
            ("words", f"{len(self):,}"),
            ("dimension", f"{self.dim:,}"),
        ]
        if self.run:
            own, text = self.run.settings, self.run.text
            rows += [
                ("learnt by", f"{own.model}, {own.loss}, {own.epochs} epochs"),
                ("text", f"{text['words']:,} words"),
            ]
        return [Block(("", ""), rows)]


def export(space: Space, path: Path) -> tuple[str, int]:
    """Write word2vec's binary form (.bin) or its text form (.txt, .vec); which, and the words."""
    form = FORMS.get(path.suffix.lower())
    if form is None:
        raise UserError(f"{path}: the name must end in {', '.join(FORMS)}: which form is meant?")
    if path.exists():
        raise UserError(f"{path} is there already: name another file, or remove it")
    vector_files.write(path, space.words, space.vectors, binary=form == "binary")
    return form, len(space)
