"""Weights from other runs: which parts begin with them, and whether they fit.

    [model.encoder]
    weights = "runs/x"              the encoder of that run's final model
    weights = "runs/x:decoder"      another part of it

They are copied when a run is made (`start/`), so that it never needs the other run again. `--from`
is the same for all parts at once, and takes what the other run has learnt from its data, too:
tokenizers and labels.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from regard.errors import RecipeError, UserError
from regard.model import Config, Model, build, stand_in
from regard.recipe import paths
from regard.recipe.config import Recipe
from regard.recipe.parts import Part, Training
from regard.train import checkpoint
from regard.train.checkpoint import Checkpoint
from regard.types import Positive, Pretrained, Sizes

if TYPE_CHECKING:
    from regard.runs.run import Run

Weights = dict[str, Tensor]


class Base:
    """A run that gives weights: its final model, or the newest if training is not over."""

    def __init__(self, run: "Run") -> None:
        self.folder, self.config, self.sizes = run.folder, run.recipe.model, run.task.sizes
        with torch.device("meta"):
            self._model = build(self.config, self.sizes)
        self._weights = run.read("final", Checkpoint.weights)
        shapes = {name: tuple(tensor.shape) for name, tensor in self._weights.items()}
        checkpoint.check_shapes(self._model, shapes, str(run.folder))
        checkpoint.check_finite(self._weights, str(run.folder))

    def part(self, key: str) -> Weights:
        """The weights of a part, by their names in it; those that are tied are a part's, too."""
        if key not in (known := self.config.parts()):
            raise RecipeError(f"{self.folder} has no part {key!r}, only {', '.join(known)}")
        return {own: self._weights[name] for own, name in names_of(self._model, key).items()}


def names_of(model: nn.Module, key: str) -> dict[str, str]:
    """The names of a part's weights in the part, and in the model, where a tied one has one."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    own = model.get_submodule(key).named_parameters()
    return {name: names[parameter] for name, parameter in own}


def begins_with(config: Config) -> dict[str, str]:
    """The keys of the parts that begin with another run's weights, and where these are."""
    found = {key: part.training.weights for key, part in config.parts().items() if part.training}
    return {key: place for key, place in found.items() if place}


def given_names(config: Config, model: Model) -> set[str]:
    """The names of the weights that a run has been given. Earlier versions gave all, and did not
    write that into the recipe."""
    parts = begins_with(config)
    if not parts:
        return {name for name, _ in model.named_parameters()}
    return {name for key in parts for name in names_of(model, key).values()}


def check(recipe: Recipe) -> None:
    """What can be refused before any data is read: a place without a run, another encoder."""
    config: Config = recipe.model
    reads = config.input
    if reads and reads.training and reads.training.weights and vectors_of(reads):
        raise RecipeError("model.input.vectors: model.input.weights gives these, too: take one")
    for key, (base, part) in _open(config).items():
        if key.endswith("encoder"):  # its weights do not depend on the data
            _fitting(stand_in(config), key, base, part, config)


def gather(recipe: Recipe, model: Model, sizes: Sizes) -> Weights:
    """The weights that the recipe's parts begin with, by their names in the model, which may be one
    without memory."""
    found: Weights = {}
    for key, (base, part) in _open(recipe.model).items():
        _same_vocabulary(key, sizes, base, part)
        own = names_of(model, key)
        for name, tensor in _fitting(model, key, base, part, recipe.model).items():
            known = found.setdefault(own[name], tensor)
            if known is not tensor and not torch.equal(known, tensor):
                raise RecipeError(
                    f"model.{key}.weights: its {name} is shared with a part that begins with other "
                    "weights: name one run for both, or set model.tie = 'none'"
                )
    _check_frozen(recipe.model, model)
    return found


def of_all_parts(recipe: Recipe, base_run: "Run") -> Recipe:
    """The recipe of `--from`: what names no weights of its own begins with those of the run, and
    not with pretrained vectors."""

    def change(part: Part) -> Part:
        training = part.training or Training()
        place = training.weights or str(base_run.folder.resolve())
        config = part.config
        if not training.weights and vectors_of(part):
            config = replace(config, vectors="")
        return Part(part.kind, config, replace(training, weights=place))

    return replace(recipe, model=recipe.model.changed(change))


def vectors_of(part: Part) -> str:
    """The file of pretrained vectors that an input begins with."""
    return part.config.vectors if isinstance(part.config, Pretrained) else ""


def _open(config: Config) -> dict[str, tuple[Base, str]]:
    """For each part that begins with another run's weights: that run, each of which is opened once,
    and the part's key there."""
    from regard.runs.run import Run

    bases: dict[str, Base] = {}
    found: dict[str, tuple[Base, str]] = {}
    for key, place in begins_with(config).items():
        folder, part = paths.split(place)
        try:
            if folder not in bases:
                bases[folder] = Base(Run(Path(folder)))
        except UserError as error:
            raise RecipeError(f"model.{key}.weights: {error}") from None
        found[key] = bases[folder], part or key
    return found


def _fitting(model: Model, key: str, base: Base, part: str, config: Config) -> Weights:
    """The weights for a part, if their names and shapes are its own."""
    try:
        given = base.part(part)
    except RecipeError as error:
        raise RecipeError(f"model.{key}.weights: {error}") from None
    there = {name: tuple(tensor.shape) for name, tensor in given.items()}
    own = model.get_submodule(key).named_parameters()
    here = {name: tuple(parameter.shape) for name, parameter in own}
    for name in here.keys() & there.keys() & _decided(model.get_submodule(key)):
        if there[name] != here[name]:  # validation will decide it; until then it is 1
            given[name], there[name] = torch.ones(here[name]), here[name]
    kinds = base.config.parts()[part].kind, config.parts()[key].kind
    if there.keys() != here.keys() and kinds[0] != kinds[1]:
        raise RecipeError(
            f"model.{key}.weights: the {part} is of kind {kinds[0]!r} in {base.folder} and "
            f"{kinds[1]!r} here"
        )
    for name in [*here, *there]:
        if there.get(name) != here.get(name):
            sizes = [str(shapes.get(name, "missing")) for shapes in (there, here)]
            raise RecipeError(
                f"model.{key}.weights: {name} is {sizes[0]} in {base.folder} and {sizes[1]} here"
            )
    return given


def _decided(part: nn.Module) -> set[str]:
    """The names of weights that validation decides after training."""
    places = [(f"{place}.", each) for place, each in part.named_modules()]
    found = ((place, each.positive) for place, each in places if isinstance(each, Positive))
    return {(place + name).lstrip(".") for place, names in found for name in names}


def _same_vocabulary(key: str, sizes: Sizes, base: Base, part: str) -> None:
    """Rows of an embedding or a projection belong to the tokens or labels they were learnt for."""
    here, there = _field(key, sizes), _field(part, base.sizes)
    if sizes.vocabularies.get(here) != base.sizes.vocabularies.get(there):
        raise RecipeError(
            f"model.{key}.weights: the vocabulary of {there!r} in {base.folder} is not that of "
            f"{here!r} here. Leave them out, or take --from {base.folder}, which takes its "
            "vocabulary, too"
        )


def _field(key: str, sizes: Sizes) -> str:
    """The field that a part reads or predicts; an encoder's weights know none."""
    *around, name = key.split(".")
    if name == "encoder":
        return ""
    if around:
        return name if around == ["heads"] else around[-1]
    return sizes.reads if name == "input" else sizes.writes


def _check_frozen(config: Config, model: Model) -> None:
    """A part that keeps what it begins with must begin with something."""
    for key in model.frozen:
        part = config.parts()[key]
        own = {name for name, _ in model.get_submodule(key).named_parameters()}
        if not own or key in begins_with(config):
            continue
        if not vectors_of(part):
            raise RecipeError(
                f"model.{key}.frozen: it would keep the weights that were drawn for it: name a run "
                f"in model.{key}.weights"
            )
        if own != {"embedding.weight"}:
            raise RecipeError(
                f"model.{key}.frozen: it has more weights than the vectors: "
                f"model.{key}.frozen_vectors = true keeps the vectors alone"
            )
