"""Which parts of a model are trained, and how fast."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from torch import nn

from regard.errors import RecipeError
from regard.recipe.parts import Holds, Part, Training
from regard.tuning import lora

LAYERS = ("blocks", "layers")
"""What parts call their layers."""


def set_training(
    model: nn.Module, parts: Mapping[str, Part]
) -> tuple[tuple[str, ...], dict[str, float]]:
    """The keys of the parts that are not trained, and what the learning rate of modules is
    multiplied by, a module inside another one after it; adapters are added where they are wanted.
    Parts that share a weight must agree."""
    found = {
        each: training
        for key, part in parts.items()
        for each, training in _trained(model.get_submodule(key), key, part.training or Training())
    }
    owners: dict[nn.Parameter, str] = {}
    for key, training in found.items():
        for name, parameter in model.get_submodule(key).named_parameters():
            first = owners.setdefault(parameter, key)
            for what, (here, there) in _decided(training, found[first]).items():
                if here != there:
                    raise RecipeError(
                        f"model.{key}.{what}: its {name} is also a weight of model.{first}, which "
                        "has another value there: set it for both, or model.tie = 'none'"
                    )
            if training.frozen:
                parameter.requires_grad_(False)
    for key, training in found.items():
        if training.lora is not None:
            _adapt(model, key, training)
    if any(_keeps(each) for each in found.values()) and not any(
        parameter.requires_grad for parameter in model.parameters()
    ):
        raise RecipeError("model: every part is frozen: there is nothing to train")
    frozen = tuple(key for key, training in found.items() if training.frozen)
    return frozen, _factors(model, found)


def _trained(part: nn.Module, key: str, training: Training) -> Iterator[tuple[str, Training]]:
    """What a recipe's word is about: the part, or the parts of another run that it holds, of which
    an encoder has layers."""
    if not isinstance(part, Holds):
        yield key, training
        return
    for name in part.held:
        yield f"{key}.{name}", training if name == "encoder" else replace(training, layer_decay=1.0)


def _keeps(training: Training) -> bool:
    """Whether the weights themselves stay as they are."""
    return training.frozen or training.lora is not None


def _decided(one: Training, other: Training) -> dict[str, tuple[object, object]]:
    """What two parts that share a weight must agree on."""
    return {"frozen": (_keeps(one), _keeps(other)), "rate": (one.rate, other.rate)}


def _adapt(model: nn.Module, key: str, training: Training) -> None:
    if training.frozen:
        raise RecipeError(f"model.{key}.frozen: its adapters (model.{key}.lora) are to be trained")
    assert training.lora is not None
    try:
        lora.add(model.get_submodule(key), training.lora)
    except RecipeError as error:
        raise RecipeError(f"model.{key}.{error}") from None


def _factors(model: nn.Module, found: Mapping[str, Training]) -> dict[str, float]:
    """The factors of parts, and of their layers where those below learn more slowly.

    Of L layers, layer l learns at d^(L−l), what is read before the first at d^L, and what stands
    behind the last at 1.
    """
    factors = {key: training.rate for key, training in found.items() if training.rate != 1}
    for key, training in found.items():
        decay = training.layer_decay
        if decay == 1:
            continue
        layers = list(_layers(model.get_submodule(key)))
        if not layers:
            raise RecipeError(f"model.{key}.layer_decay: the part has no layers")
        lowest = training.rate * decay ** len(layers)
        below = f"{key.removesuffix('encoder')}input"
        if key.endswith("encoder") and below in found:
            factors[below] = found[below].rate * lowest
        factors[key] = lowest
        names = [name for name, _ in model.get_submodule(key).named_children()]
        for name in names[names.index(layers[0].partition(".")[0]) :]:
            factors[f"{key}.{name}"] = training.rate
        for number, name in enumerate(layers, 1):
            factors[f"{key}.{name}"] = training.rate * decay ** (len(layers) - number)
    return factors


def _layers(part: nn.Module) -> Iterator[str]:
    """The names of the layers that stand on each other in a part, the first one first."""
    for name, child in part.named_children():
        if name in LAYERS and isinstance(child, nn.ModuleList):
            yield from (f"{name}.{number}" for number in range(len(child)))
