"""Numbers as vectors: each step of a series, or each patch of consecutive steps."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import RecipeError
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding
from regard.recipe.values import Length, LengthOrZero, Share
from regard.types import Batch, FieldSize, Sequence


@dataclass(frozen=True, kw_only=True)
class Config:
    """What becomes one position of the sequence."""

    patch: Length = 1
    """Consecutive steps that become one position (Nie et al. 2023, section 3.1)."""
    stride: LengthOrZero = 0
    """Steps from one patch to the next; 0: as many as a patch has."""
    project: bool = True
    """Map each patch to the model's dimension; false: take the values themselves, which then must
    be as many as the model's dimension."""
    dropout: Share = 0.0
    """On the vectors."""

    def __post_init__(self) -> None:
        if self.stride > self.patch:
            raise RecipeError(f"stride: {self.stride} leaves out steps between patches")
        if self.patch > 1 and not self.project:
            raise RecipeError("project: patches need a projection")

    def positions(self, length: int) -> int:
        """How many patches cover `length` steps."""
        stride = self.stride or self.patch
        return -(-max(length - self.patch, 0) // stride) + 1

    def spans(self, length: int) -> list[tuple[int, int]]:
        """The steps that each position holds, from and up to, of `length` steps: the last position
        ends with the last step. What the first one lacks before the first step is left out."""
        stride, count = self.stride or self.patch, self.positions(length)
        ends = [length - (count - 1 - n) * stride for n in range(count)]
        return [(max(0, end - self.patch), end) for end in ends]

    def fixed_length(self, size: FieldSize) -> int:
        return self.positions(size["length"])

    def example(self, dim: int) -> dict[str, int]:
        return {"variables": dim, "length": 1024}


class Input(nn.Module):
    """x_n = W [v_{nr}; …; v_{nr+p−1}] + b for the values v_t ∈ ℝᶜ, patches p and strides r.

    The last patch ends with the last step; the first value is repeated before the first step as
    far as the first patch needs it. W keeps float32 in training: rounding would blur the values.
    """

    def __init__(
        self, config: Config, size: FieldSize, dim: int, *, shared: Embedding | None, scale: bool
    ) -> None:
        super().__init__()
        self.field, variables = size.name, size["variables"]
        self.config, self.stride = config, config.stride or config.patch
        self.project = nn.Linear(config.patch * variables, dim) if config.project else None
        self.dropout = Dropout(config.dropout)
        if self.project is None and variables != dim:
            raise RecipeError(
                f"project: without it model.dim must be the number of variables that the model "
                f"sees, {variables}, not {dim}"
            )

    def forward(self, batch: Batch) -> Sequence:
        x = self.patches(batch[self.field])  # (B, N, p · C)
        x = x if self.project is None else self.project(x)
        mask = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        return Sequence(self.dropout(x), mask)

    def patches(self, values: Float[Tensor, "B S C"]) -> Float[Tensor, "B N E"]:
        """[v_{nr}; …; v_{nr+p−1}] of each patch n."""
        patch, length = self.config.patch, values.shape[1]
        before = (self.config.positions(length) - 1) * self.stride + patch - length
        padded = F.pad(values.transpose(1, 2), (before, 0), mode="replicate")  # (B, C, S')
        if torch.onnx.is_in_onnx_export():  # which has no such operation
            end = padded.shape[2] - patch + 1
            steps = [padded[:, :, n : end + n : self.stride] for n in range(patch)]  # (B, C, N)
            return torch.stack(steps, 3).permute(0, 2, 3, 1).flatten(2)
        return padded.unfold(2, patch, self.stride).permute(0, 2, 3, 1).flatten(2)
