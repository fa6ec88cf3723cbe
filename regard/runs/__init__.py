"""A run's folder: the only thing that is saved and loaded.

    recipe.toml                 every default written out
    *.tokenizer.json            trained once, on the training part
    labels.json                 what may be said of a text or a word, where the task says labels
    series.json                 variables, their means and deviations, where the task forecasts
    choices.txt                 what may be written, where the recipe names a file of it
    store/                      the training and validation parts as tokens, the texts that are
                                validated by, pretrained vectors: all that training reads
    manifest.json               size and hash of all that the run was made with
    data.json                   what the readers found: lines used, lines skipped and why
    environment.json            versions, processor, cores
    start/                      the weights that it began with, where they are another run's
    checkpoints/00001000/ …     see train/checkpoint.py
    metrics.jsonl, events/      every record, also as TensorBoard events; what each start decided
    curves.png, curves.svg      the same as a picture
    model/                      the final model: an average, or the best checkpoint
    engines/                    the same converted for other engines, made when first used

To predict, model/ and what stands above the store are enough.
"""

from regard.runs.run import Run
from regard.runs.training import train

__all__ = ["Run", "train"]
