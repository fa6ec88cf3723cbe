"""What can be chosen of a training of word vectors."""

import dataclasses
import difflib
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from regard.errors import RecipeError
from regard.recipe.values import Count, Few, Positive, Range, Seed, check

Dimension = Annotated[int, Range(1, 4096)]
Words = Annotated[int, Range(1, 1_000_000)]
Negatives = Annotated[int, Range(1, 1000)]
Window = Annotated[int, Range(1, 1000)]
Threshold = Annotated[float, Range(0, 1)]
Epochs = Annotated[int, Range(1, 10_000)]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All that decides what the vectors become, beside the text."""

    model: Literal["skip-gram", "cbow"] = "skip-gram"
    """Predict each word from each word near it, or from the mean of all that are near it."""
    loss: Literal["negatives", "hierarchical"] = "negatives"
    """Against words that are drawn, or along the paths of a Huffman tree."""
    dim: Dimension = 100
    """Numbers of a vector."""
    window: Window = 5
    """The farthest that a word may be to be near; each place draws its own, from 1 on."""
    negatives: Negatives = 5
    """Words that are drawn for each pair."""
    subsample: Threshold = 1e-3
    """Words more frequent than this fraction of the text are left out at random; 0: none is."""
    min_frequency: Count = 5
    """Words that are seen less often have no vector."""
    max_vocabulary: Words = 1_000_000
    """The most words, the frequent ones first."""
    epochs: Epochs = 5
    """How often the text is read."""
    learning_rate: Positive = 0.025
    """That of the beginning; it falls in a straight line."""
    min_learning_rate: Positive = 1e-4
    """That of the end."""
    lowercase: bool = True
    """Fold to lower case first, as [tokenizer] lowercase does."""
    split: Literal["punctuation", "treebank", "whitespace"] = "punctuation"
    """What words are, as [tokenizer] split: whether punctuation parts from words."""
    keep: Literal["inputs", "outputs"] = "inputs"
    """Which of a word's two vectors is kept. Inputs are near for words that mean alike; means of
    outputs tell texts apart that the vectors were learnt from."""
    seed: Seed = 1
    """Of all draws."""
    threads: Few = 1
    """More than one learn at once, without locks: quicker, but never twice the same."""

    def __post_init__(self) -> None:
        kinds = _hints()
        for field in dataclasses.fields(self):
            value, hint = getattr(self, field.name), kinds[field.name]
            if hasattr(hint, "__metadata__"):
                check(field.name, value, hint)
            elif hint is bool:
                if not isinstance(value, bool):
                    raise RecipeError(f"{field.name}: {value!r} is not true or false")
            elif value not in hint.__args__:
                raise RecipeError(f"{field.name}: {value!r} is none of {', '.join(hint.__args__)}")
        if self.loss == "hierarchical" and self.keep == "outputs":
            raise RecipeError("keep: outputs of the hierarchical loss are no words': keep inputs")
        if self.min_learning_rate > self.learning_rate:
            raise RecipeError("min_learning_rate: it is above learning_rate")

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def made(**given: Any) -> Settings:
    """Settings of which some are given. CBOW, which takes one step for all words near, begins with
    twice the rate; a rate that is below the last one is kept to the end."""
    names = [field.name for field in dataclasses.fields(Settings)]
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
            raise RecipeError(f"word2vec has no {name!r}; {hint}")
    if given.get("model") == "cbow":
        given = {"learning_rate": 0.05} | given
    rate = given.get("learning_rate")
    if isinstance(rate, float) and rate < Settings.min_learning_rate:
        given = {"min_learning_rate": rate} | given
    return Settings(**given)


def _hints() -> dict[str, Any]:
    from typing import get_type_hints

    return get_type_hints(Settings, include_extras=True)
