"""`regard.word2vec`: vectors of words from plain text."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.word2vec.space import Space


def word2vec(
    *texts: str | Path,
    to: str | Path | None = None,
    resume: str | Path | None = None,
    column: str | int | None = None,
    header: bool = False,
    on_bad_line: str = "skip",
    callback: Callable[[dict[str, Any]], None] | None = None,
    **settings: Any,
) -> "Space":
    """Learn vectors of words from plain text, and open the result.

    >>> space = regard.word2vec("text.txt", to="runs/vectors", dim=8, min_frequency=1)
    >>> space.neighbours("cat", count=2)
    [Near(word=...

    Args:
        texts: Files of text, plain or tables (TSV, CSV, JSONL), each gzip or not.
        to: The folder of the new run.
        resume: A run to go on with, after the last epoch that was finished.
        column: Of tables: its number, from 1 (-1: the last), or its name or key.
        header: Tables begin with the names of their columns.
        on_bad_line: What to do with a line that is no text: skip or refuse.
        callback: Gets a record after each epoch.
        settings: model, loss, dim, window, negatives, subsample, min_frequency, max_vocabulary,
            epochs, learning_rate, lowercase, split, keep, seed, threads (1 by default).
    """
    from regard.errors import RecipeError
    from regard.word2vec import folder, training
    from regard.word2vec.corpus import Source
    from regard.word2vec.settings import made
    from regard.word2vec.space import Space

    if bool(texts) == (resume is not None) or (texts and to is None):
        raise RecipeError("word2vec: give files of text and `to`, or `resume`")
    if resume is not None:
        path = Path(resume)
    else:
        path = Path(to or "")
        source = Source([*map(Path, texts)], column, header, on_bad_line)
        folder.create(path, source, made(**settings))
    done = training.train(path, callback or (lambda record: None), lambda words, speed: None)
    if not done.finished:
        raise KeyboardInterrupt(f"stopped; to go on: regard.word2vec(resume={str(path)!r})")
    return Space.load(path)
