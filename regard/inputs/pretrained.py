"""Words as another run's model reads them, in all of its layers: ELMo (Peters et al. 2018).

The run is one that has an input and an encoder, as a bidirectional or a masked language model has;
`weights` names it. Its layers are mixed by weights that are learnt with the rest of the model.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import RecipeError
from regard.inputs import characters, words
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding
from regard.layers.linear import Linear, glorot
from regard.layers.probe import probe, scope
from regard.recipe.parts import Part
from regard.recipe.typed import Room
from regard.recipe.values import Share, Width
from regard.types import Batch, FieldSize, Layered, Sequence, Spells


@dataclass(frozen=True, kw_only=True)
class Config:
    """How the layers of a run become an input. `weights` names the run, `frozen` says whether its
    own weights stay as they are; what the run has is written below when the recipe is read."""

    dropout: Share = 0.0
    """On the mixed layers."""
    norm: bool = False
    """Whether each layer is normalised before they are mixed."""
    beside: words.Config | None = None
    """Vectors of this model's own, of words and of their characters, beside those of the run."""
    dim: Width = 512
    """The run's model.dim."""
    scale: bool = True
    """The run's model.scale."""
    framed: bool = True
    """Whether the run has read its texts between START and END."""
    input: Annotated[Part, Room("inputs", "characters", taken=True)]
    """The run's model.input."""
    encoder: Annotated[Part, Room("encoders", "both_ways", taken=True)]
    """The run's model.encoder."""

    def __post_init__(self) -> None:
        if self.beside is not None and self.beside.vectors:
            raise RecipeError("beside.vectors: the run's layers stand in their place")

    @property
    def spelt(self) -> bool:
        return any(
            isinstance(each, Spells) and each.spelt for each in (self.input.config, self.beside)
        )


class Input(nn.Module):
    """x_t = W (γ Σ_j s_j h_{t,j}) + b for the layers h_{t,0} … h_{t,L} of the run, s = softmax(w).

    γ, w, W and b are new, and so is what is added where vectors of one's own stand beside: a sum of
    two projections is the projection of both side by side.
    """

    held = ("input", "encoder")

    def __init__(
        self,
        config: Config,
        size: FieldSize,
        dim: int,
        *,
        shared: Embedding | None,
        scale: bool,
        input: Any,
        encoder: Any,
    ) -> None:
        super().__init__()
        characters.no_sharing(shared)
        self.field, self.input, self.encoder = size.name, input, encoder
        widths = encoder.widths() if isinstance(encoder, Layered) else (config.dim,) * 2
        if len({*widths}) > 1:
            raise RecipeError(
                f"weights: its layers have {', '.join(map(str, widths))} numbers for a word: "
                "layers that are not as wide as each other cannot be mixed"
            )
        self.mixture = nn.Parameter(torch.zeros(len(widths)))
        self.factor = nn.Parameter(torch.ones(()))
        self.dropout, self.norm = Dropout(config.dropout), config.norm
        self.project = glorot(Linear(widths[0], dim))
        self.beside: nn.Module | None = None
        if config.beside is not None:
            self.beside = words.Input(config.beside, size, dim, shared=None, scale=scale)
        # Words come without START and END, which the run may have read.
        known = size.numbers if config.framed else {}
        self.frame = (known["start"], known["end"]) if "start" in known else None

    def forward(self, batch: Batch) -> Sequence:
        layers, mask = self.layers(batch)
        x = self.project(self.dropout(self.mixed(layers)))
        if self.beside is not None:
            x = x + self.beside(batch).states
        return Sequence(x, mask)

    def mixed(self, layers: list[Tensor]) -> Float[Tensor, "B S E"]:
        """γ Σ_j s_j h_j."""
        shares = probe("mixture", self.mixture.softmax(0))
        if self.norm:
            layers = [F.layer_norm(layer, layer.shape[-1:]) for layer in layers]
        total = layers[0] * shares[0]
        for share, layer in zip(shares[1:], layers[1:], strict=True):
            total = total + share * layer
        return self.factor * total

    def layers(self, batch: Batch) -> tuple[list[Tensor], Bool[Tensor, "B S"]]:
        """h_0 … h_L of each position, and which are real."""
        kept = self.training and not any(p.requires_grad for p in self.encoder.parameters())
        with torch.set_grad_enabled(torch.is_grad_enabled() and not kept), scope("pretrained"):
            read = self.input(batch if self.frame is None else self._framed(batch, *self.frame))
            if isinstance(self.encoder, Layered):
                found = [layer.states for layer in self.encoder.all_layers(read)]
            else:
                found = [read.states, self.encoder(read).states]
        mask = batch[f"{self.field}_mask"]
        if self.frame is not None:
            found = [states[:, 1:-1] for states in found]
        return found, mask

    def _framed(self, batch: Batch, start: int, end: int) -> Batch:
        """The same words between START and END; padding follows these."""
        name = self.field
        mask = batch[f"{name}_mask"]
        inside = torch.where(F.pad(mask, (1, 1)), F.pad(batch[name], (1, 1)), end)
        first = torch.full_like(inside[:, :1], start)
        found = {
            name: torch.cat([first, inside[:, 1:]], 1),
            f"{name}_mask": F.pad(mask, (2, 0), value=True),
        }
        if (spelt := batch.tensors.get(f"{name}_characters")) is not None:
            found[f"{name}_characters"] = F.pad(spelt, (0, 0, 1, 1))
        return Batch(tensors=found, ids=batch.ids, targets=batch.targets)
