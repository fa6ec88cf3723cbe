"""Filters over pictures:  y_o = Σ_i K_oi ∗ x_i,  in training in bfloat16 where that is faster."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


class Filters(nn.Conv2d):
    """K ∗ x without a bias, as many pixels out as in, or every `stride`-th; the outside is 0.

    With `precision` bfloat16, which the trainer sets where the processor multiplies it natively,
    pictures go in and come out as bfloat16 while the model learns: a convolution is then two to
    three times as fast. Filters and their gradients stay float32, and prediction is in full
    precision.
    """

    def __init__(self, inputs: int, outputs: int, size: int, stride: int = 1) -> None:
        super().__init__(inputs, outputs, size, stride, padding=size // 2, bias=False)
        nn.init.kaiming_normal_(self.weight, nonlinearity="relu")
        self.precision = torch.float32

    def forward(self, x: Float[Tensor, "B I Y X"]) -> Float[Tensor, "B O Y2 X2"]:
        weight = self.weight
        if self.precision == torch.bfloat16 and self.training and x.is_cpu:
            x, weight = x.to(torch.bfloat16), weight.to(torch.bfloat16)
        return F.conv2d(x, weight, None, self.stride, self.padding)
