"""Weights from other runs: which parts begin with them, and whether they fit.

    [model.encoder]
    weights = "runs/x"              the encoder of that run's final model
    weights = "runs/x:decoder"      another part of it

They are copied when a run is made (`start/`), so that it never needs the other run again.
`model.weights` (`--from`) names the run for all parts that it has, too (`recipe/inherited.py` has
said which), and what it has learnt from its data comes along: tokenizers, and labels where the head
is taken.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from regard.errors import RecipeError, UserError
from regard.inputs import Pretrained, Resamples
from regard.model import AnyField, Config, Model, build, stand_in
from regard.recipe import config as configuration, paths
from regard.recipe.config import Recipe
from regard.recipe.inherited import BEGUN, HOLDING
from regard.recipe.parts import NEW, Part
from regard.train import checkpoint
from regard.train.checkpoint import Checkpoint
from regard.tuning import lora
from regard.types import Positive, Sizes

if TYPE_CHECKING:
    from regard.runs.run import Run

Weights = dict[str, Tensor]
HELD = ("input", "encoder")
PREFIXES = tuple(f"{name}." for name in HELD)
"""How the names of weights begin that an input of kind "pretrained" has from its run."""


class Base:
    """A run that gives weights: its final model, or the newest if training is not over."""

    def __init__(self, run: "Run") -> None:
        self.folder, self.config, self.sizes = run.folder, run.recipe.model, run.task.sizes
        with torch.device("meta"):
            model = build(self.config, self.sizes)
        weights = run.read("final", Checkpoint.weights)
        shapes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
        checkpoint.check_shapes(model, shapes, str(run.folder))
        checkpoint.check_finite(weights, str(run.folder))
        self._weights = lora.merged_weights(model, weights)
        self._model = lora.merge(model)

    def part(self, key: str) -> Weights:
        """The weights of a part, by their names in it; those that are tied are a part's, too."""
        if key not in (known := self.config.parts()):
            raise RecipeError(f"{self.folder} has no part {key!r}, only {', '.join(known)}")
        return {own: self._weights[name] for own, name in names_of(self._model, key).items()}

    def module(self, key: str) -> nn.Module:
        """A part without its weights."""
        return self._model.get_submodule(key)

    def serving(self, key: str, kind: str, part: str) -> Weights:
        """The weights of a part for a part of this key and kind; a decoder may serve as an input,
        by its embedding, and as an encoder of kind "decoder", by all else; input and encoder
        together serve as one that holds them."""
        if self.is_held(kind, part):
            return {f"{own}.{n}": t for own in HELD for n, t in self.part(own).items()}
        found = self.part(part)
        if part == "decoder" and key.endswith("input"):
            return {name: tensor for name, tensor in found.items() if name.startswith("embedding.")}
        if part == "decoder" and kind == "decoder":
            return {n: tensor for n, tensor in found.items() if not n.startswith("embedding.")}
        return found

    def is_held(self, kind: str, part: str) -> bool:
        """Whether a part of this kind holds parts of the run, and is not itself one of it."""
        return kind == HOLDING and self.config.parts()[part].kind != HOLDING


def names_of(model: nn.Module, key: str) -> dict[str, str]:
    """The names of a part's weights in the part, and in the model, where a tied one has one."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    own = model.get_submodule(key).named_parameters()
    return {name: names[parameter] for name, parameter in own}


def begins_with(config: Config) -> dict[str, str]:
    """The keys of the parts that begin with another run's weights, and where these are."""
    found = {key: part.training.weights for key, part in config.parts().items() if part.training}
    return {key: place for key, place in found.items() if place and place != NEW}


def given_names(config: Config, model: Model) -> set[str]:
    """The names of the weights that a run has been given. Earlier versions gave all, and did not
    write that into the recipe."""
    parts = begins_with(config)
    if not parts:
        return {name for name, _ in model.named_parameters()}
    return {
        name
        for key in parts
        for own, name in names_of(model, key).items()
        if not lora.is_adapter(own) and (not _holds_base(config, key) or own.startswith(PREFIXES))
    }


def _holds_base(config: Config, key: str) -> bool:
    """Whether a part reads by the run that it names, instead of beginning as that run's part."""
    return config.parts()[key].kind == HOLDING and not config.weights


def check(recipe: Recipe) -> None:
    """What can be refused before any data is read: a place without a run, another encoder."""
    config: Config = recipe.model
    reads = config.input
    if reads and reads.training and reads.training.weights and vectors_of(reads):
        raise RecipeError("model.input.vectors: model.input.weights gives these, too: take one")
    if reads and reads.kind == HOLDING and "input" not in begins_with(config):
        raise RecipeError(f"model.input.weights: kind = {HOLDING!r} wants a run to read by")
    for key, (base, part) in _open(config).items():
        if key.endswith("encoder"):  # its weights do not depend on the data
            _fitting(stand_in(config), key, base, part, config)


def gather(
    recipe: Recipe, model: Model, sizes: Sizes, only: Collection[str] | None = None
) -> Weights:
    """The weights that the recipe's parts, or some of them, begin with, by their names in the
    model, which may be one without memory."""
    found: Weights = {}
    for key, (base, part) in _open(recipe.model).items():
        if only is not None and key not in only:
            continue
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


def base_of(recipe: Recipe) -> "Run | None":
    """The run whose vocabulary comes along: that which the model begins with, if one is named for
    all parts, or that which its input reads by."""
    from regard.runs.run import Run

    key, place = _source(recipe.model)
    try:
        return Run(Path(place)) if place else None
    except UserError as error:
        raise RecipeError(f"{key}: {error}") from None


def _source(config: Config) -> tuple[str, str]:
    """The key that names such a run, and its place."""
    if not config.weights and config.input is not None and config.input.kind == HOLDING:
        return "model.input.weights", begins_with(config).get("input", "")
    return "model.weights", config.weights


def fields_of(recipe: Recipe, base: "Run", fields: Mapping[str, Any]) -> dict[str, str]:
    """The sides whose fields come along with the weights, and the names of these fields there: what
    a part that is taken reads or predicts."""
    names, there = [field.name for field in fields.values()], base.task
    taken = _taken(recipe.model)
    if base.recipe.kind == recipe.kind and taken.keys() == recipe.model.parts().keys():
        return {side: field.name for side, field in fields.items()}
    plain = Sizes({}, reads=next(iter(names), ""), writes=names[-1] if names else "")
    pairs = {_field(key, plain): _field(part, there.sizes) for key, part in taken.items()}
    return {side: pairs[f.name] for side, f in fields.items() if pairs.get(f.name)}


def learnt(recipe: Recipe, base: "Run | None", fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that come along, by their sides, with what they have learnt."""
    if base is None:
        return {}
    found = {}
    for side, name in fields_of(recipe, base, fields).items():
        loaded = replace(fields[side], name=name).load(base.folder)
        found[side] = replace(loaded, name=fields[side].name)
    return found


def check_whole(recipe: Recipe, base: "Run", fields: Mapping[str, Any]) -> None:
    """Refuse, before any data is read, weights for all parts that do not fit."""
    known = {field.name: field for field in learnt(recipe, base, fields).values()}
    names = [field.name for field in fields.values()]
    if base.recipe.kind == recipe.kind and len(known) == len(names):
        sizes = base.task.sizes
    else:
        sizes = Sizes(
            {n: known[n].size if n in known else AnyField() for n in names},
            reads=next(iter(names), ""),
            writes=names[-1] if names else "",
            shared=True,
            vocabularies={name: field.vocabulary for name, field in known.items()},
        )
    with torch.device("meta"):
        model = build(recipe.model, sizes)
    try:
        gather(recipe, model, sizes, _taken(recipe.model))
    except RecipeError as error:
        differs = _difference(recipe, base) if recipe.model.weights else ""
        raise RecipeError(f"model: {differs}" if differs else str(error)) from None


def _taken(config: Config) -> dict[str, str]:
    """The parts that begin with weights of the run whose vocabulary comes along, and their keys
    there."""
    places = {key: paths.split(place) for key, place in begins_with(config).items()}
    _, source = _source(config)
    return {key: part or key for key, (run, part) in places.items() if run == source}


def _difference(recipe: Recipe, base: "Run") -> str:
    """The keys of the model's section that decide its shape and differ."""
    here, there = (configuration.flat(r.model) for r in (recipe, base.recipe))
    taken = [f"{key}." for key, part in _taken(recipe.model).items() if part == key]
    shared = ("dim", "scale", "tie") if "head." in taken else ("dim", "scale")
    return ", ".join(
        f"{key} is {here.get(key)} here and {there.get(key)} in {base.folder}"
        for key in here | there
        if key in shared or key.startswith(tuple(taken))
        if here.get(key) != there.get(key) and not isinstance(here.get(key), float)
        if key.rpartition(".")[2] not in ("weights", "frozen", *BEGUN) and ".lora." not in key
    )


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
        given = base.serving(key, config.parts()[key].kind, part)
    except RecipeError as error:
        raise RecipeError(f"model.{key}.weights: {error}") from None
    mine, theirs = model.get_submodule(key), base.module(part)
    if isinstance(mine, Resamples) and isinstance(theirs, Resamples):
        given = mine.taken_over(given, theirs.grid)
    there = {name: tuple(tensor.shape) for name, tensor in given.items()}
    own = model.get_submodule(key).named_parameters()
    held = base.is_held(config.parts()[key].kind, part)
    here = {
        name: tuple(p.shape)
        for name, p in own
        if not lora.is_adapter(name) and (not held or name.startswith(PREFIXES))
    }
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
    if not here:
        return
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
        part = config.parts().get(key)
        if part is None:  # of a run that an input reads by
            continue
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
