"""What follows the first layer of a network: a ReLU, a smooth activation, or neither."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from exhume.target.first_layer import is_followed_by_curve, is_followed_by_relu


class Attending(nn.Module):
    """A dense layer, an activation, and attention by torch's fused kernel, which has no second derivative."""

    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        self.first, self.activation, self.head = nn.Linear(8, 12), activation, nn.Linear(12, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        tokens = self.activation(self.first(inputs)).reshape(-1, 1, 3, 4)
        attended = functional.scaled_dot_product_attention(tokens, tokens, tokens)
        found: torch.Tensor = self.head((tokens + attended).flatten(1))
        return found


def test_a_smooth_activation_is_recognised_below_attention() -> None:
    torch.manual_seed(0)
    model = Attending(nn.GELU()).eval()
    assert not is_followed_by_relu(model, model.first, (8,))
    assert is_followed_by_curve(model, model.first, (8,))


def test_a_relu_is_recognised_below_attention() -> None:
    torch.manual_seed(0)
    model = Attending(nn.ReLU()).eval()
    assert is_followed_by_relu(model, model.first, (8,))
