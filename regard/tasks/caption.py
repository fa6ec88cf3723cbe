"""Caption: picture to text, by a decoder that looks at the picture, or by its vector alone."""

from dataclasses import dataclass
from typing import Annotated

from regard.data import batching, files, tokenizers
from regard.data.held_out import ByContent
from regard.decoding.translation import Output
from regard.metrics import Direction
from regard.metrics.text import Evaluation
from regard.recipe.config import Recipe, Room
from regard.recipe.parts import Part
from regard.tasks import check_head, check_search
from regard.tasks._writing import DescribingTask, check_described, described

PARTS = {
    "input": "cnn", "encoder": "none", "decoder": "rnn", "head": "vocabulary",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sections of a recipe for captions, beside the model and the trainer."""

    data: files.Config
    """The pictures and their texts. Columns are the picture's and the text's, in this order."""
    source: Annotated[Part, Room("fields", "image")]
    """What is described."""
    tokenizer: tokenizers.Config
    """How text becomes tokens."""
    held_out: ByContent
    """What is kept from learning, where no files are named for it: by the pictures' bytes, so that
    a picture with several captions is in one part."""
    batch: batching.Config
    """How large a batch is."""
    search: Annotated[Part, Room("search", "beam")]
    """How an output is found."""
    output: Output
    """How long an output may become, or what it may be; a picture counts as one token."""
    evaluation: Evaluation
    """How outputs are scored."""


def metrics(config: Config) -> dict[str, Direction]:
    return {"nll": "lower", "perplexity": "lower", **config.evaluation.watched}


def check(recipe: Recipe) -> None:
    """Refuse what can be known to be wrong before any data is read."""
    check_described(recipe, "picture")
    check_head(recipe, "tokens")
    check_search(recipe)


plan = described


class Task(DescribingTask):
    """Captioning whose tokenizer and stores lie in a run's folder."""

    config: Config
