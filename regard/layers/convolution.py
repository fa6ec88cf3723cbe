"""Convolutions over positions (Kim 2014; Collobert et al. 2011)."""

from collections.abc import Sequence as Several

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F


class Convolutions(nn.Module):
    """Filters of several widths side by side, as many outputs as inputs.

        y_t = [y_t^(w₁); y_t^(w₂); …],   y_t^(w) = b + Σ_{i<w} W_i x_{t+i−⌊(w−1)/2⌋}

    x is zero beyond the ends and wherever the mask is False, so padding changes nothing.
    """

    def __init__(self, inputs: int, outputs: int, widths: Several[int]) -> None:
        super().__init__()
        share, more = divmod(outputs, len(widths))
        self.widths = tuple(widths)
        self.filters = nn.ModuleList(
            nn.Conv1d(inputs, share + (n < more), width) for n, width in enumerate(widths)
        )
        for each in self.filters:
            assert isinstance(each, nn.Conv1d) and each.bias is not None
            nn.init.kaiming_uniform_(each.weight, nonlinearity="relu")
            nn.init.zeros_(each.bias)

    def forward(
        self, x: Float[Tensor, "N T I"], mask: Bool[Tensor, "N T"]
    ) -> Float[Tensor, "N T O"]:
        across = x.masked_fill(~mask[..., None], 0.0).transpose(1, 2)  # (N, I, T)
        pairs = zip(self.filters, self.widths, strict=True)
        found = [each(F.pad(across, ((w - 1) // 2, w // 2))) for each, w in pairs]
        return torch.cat(found, 1).transpose(1, 2)

    def highest(
        self, x: Float[Tensor, "V I"], rows: Int[Tensor, "N T"], mask: Bool[Tensor, "N T"]
    ) -> Float[Tensor, "N O"]:
        """max_t y_t of rows of symbols whose vectors are x, each of them real at least once.

        The same as `forward`, and a maximum over what is real, with less work: only windows around
        real places are multiplied. Of words, which differ in length, they are a third.
        """
        before, after = (max(self.widths) - 1) // 2, max(self.widths) // 2
        padded = F.pad(torch.where(mask, rows + 1, 0), (before, after))
        windows = padded.unfold(1, before + 1 + after, 1)[mask]  # (places, widest)
        around = F.embedding(windows, F.pad(x, (0, 0, 1, 0)))  # 0 beyond the ends
        found = []
        for each, width in zip(self.filters, self.widths, strict=True):
            assert isinstance(each, nn.Conv1d)
            first = before - (width - 1) // 2
            seen = around[:, first : first + width].flatten(1)  # (places, width · I)
            found.append(F.linear(seen, each.weight.transpose(1, 2).flatten(1), each.bias))
        y = torch.cat(found, 1)
        return torch.segment_reduce(y, "max", lengths=mask.sum(1), unsafe=True)
