"""A vision transformer of variable embedding width, in the layout of ViT-B/16."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from exhume.errors import InputError
from exhume.networks.base import Network, gaussian_convolution, gaussian_linear, square_image
from exhume.support.randomness import generator_for
from exhume.support.validation import flag, positive_number, whole_number

_LARGEST_PATCH = 16  # ViT-B/16
_MOST_HEADS = 12  # ViT-B
_MLP_RATIO = 4


class Attention(nn.Module):
    """Multi-head self-attention in plain matrix products, which forward-mode differentiation can follow."""

    def __init__(self, width: int, num_heads: int, generator: torch.Generator) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.queries_keys_values = gaussian_linear(width, 3 * width, generator, bias=True)
        self.output = gaussian_linear(width, width, generator, bias=True)

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens (m, t, w) to tokens of the same shape."""
        m, t, w = tokens.shape
        split = self.queries_keys_values(tokens).reshape(m, t, 3, self.num_heads, w // self.num_heads)
        queries, keys, values = split.permute(2, 0, 3, 1, 4).unbind(0)  # (m, heads, t, w / heads) each
        scores = queries @ keys.transpose(-2, -1) / math.sqrt(w // self.num_heads)
        mixed = torch.softmax(scores, dim=-1) @ values
        return self.output(mixed.transpose(1, 2).reshape(m, t, w))


class EncoderBlock(nn.Module):
    """u + attention(norm(u)), then u + mlp(norm(u)); the MLP is four times as wide, with the exact GELU."""

    def __init__(self, width: int, num_heads: int, generator: torch.Generator) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width, eps=1e-6)
        self.attention = Attention(width, num_heads, generator)
        self.mlp_norm = nn.LayerNorm(width, eps=1e-6)
        self.widen = gaussian_linear(width, _MLP_RATIO * width, generator, bias=True)
        self.narrow = gaussian_linear(_MLP_RATIO * width, width, generator, bias=True)

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens (m, t, w) to tokens of the same shape."""
        tokens = tokens + self.attention(self.attention_norm(tokens))
        return tokens + self.narrow(functional.gelu(self.widen(self.mlp_norm(tokens))))


class VisionTransformer(Network):
    """Patches, a class token and learned positions; pre-norm encoder blocks; the class token goes to the head.

    The paper trains "randomly initialized vision transformers akin to ViT-B/16" of several widths and gives neither
    depth nor initialisation. Chosen here: depth 2, matrices N(0, 1/fan_in), biases 0, class token and positions
    N(0, token_std^2). ViT's customary token_std is 0.02; larger tokens make features that move less in training, as the
    first norm divides by their size and so multiplies gradients. The head starts at zero, as it does in the authors'
    own ViT, and that too makes features move less: no gradient reaches the body before the head has grown.

    Args:
        image_shape: (C, side, side).
        width: of a token, the features that the head reads.
        num_outputs: k.
        patch: side of a patch, a divisor of the image's; by default the largest up to 16, and up to half the side of
            images smaller than 32.
        depth: encoder blocks; ViT-B has 12.
        num_heads: a divisor of the width; by default the largest up to ViT-B's 12.
        head_bias: whether the head has a bias.
        token_std: of the initial class token and positions.
        zero_head: whether the head starts at zero rather than N(0, 1/width).
        seed: of the initial weights.
    """

    name = "vit"
    activation = "gelu"

    def __init__(
        self,
        image_shape: tuple[int, int, int],
        width: int,
        num_outputs: int = 1,
        patch: int | None = None,
        depth: int = 2,
        num_heads: int | None = None,
        head_bias: bool = False,
        token_std: float = 0.3,
        zero_head: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__()
        channels, side, _ = self.input_shape = square_image(image_shape, 1)
        whole_number("width", width)
        whole_number("num_outputs", num_outputs)
        whole_number("depth", depth)
        largest = _LARGEST_PATCH if side >= 2 * _LARGEST_PATCH else side // 2
        self.patch = _divisor("patch", patch, side, largest)
        self.num_heads = _divisor("num_heads", num_heads, width, _MOST_HEADS)
        self.token_std = positive_number("token_std", token_std)
        generator = generator_for(seed, "vit weights")
        self.embedding = gaussian_convolution((channels, width), self.patch, generator, stride=self.patch, bias=True)
        tokens = (side // self.patch) ** 2 + 1
        self.class_token = nn.Parameter(token_std * torch.randn((1, 1, width), generator=generator))
        self.positions = nn.Parameter(token_std * torch.randn((1, tokens, width), generator=generator))
        self.blocks = nn.Sequential(*(EncoderBlock(width, self.num_heads, generator) for _ in range(depth)))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = gaussian_linear(width, num_outputs, generator, bias=flag("head_bias", head_bias))
        self.zero_head = flag("zero_head", zero_head)
        if self.zero_head:
            nn.init.zeros_(self.head.weight)

    @property
    def config(self) -> dict[str, Any]:
        """The constructor's arguments but the seed."""
        return {
            "image_shape": list(self.input_shape),
            "width": self.num_features,
            "num_outputs": self.num_outputs,
            "patch": self.patch,
            "depth": len(self.blocks),
            "num_heads": self.num_heads,
            "head_bias": self.head.bias is not None,
            "token_std": self.token_std,
            "zero_head": self.zero_head,
        }

    def body(self, inputs: Tensor) -> Tensor:
        """The class token after the last norm, (m, width)."""
        patches = self.embedding(inputs).flatten(2).transpose(1, 2)  # (m, t - 1, width)
        first = self.class_token.expand(len(inputs), -1, -1)
        tokens = torch.cat((first, patches), dim=1) + self.positions  # (m, t, width)
        return self.norm(self.blocks(tokens)[:, 0])


def _divisor(name: str, value: int | None, whole: int, most: int) -> int:
    """The given divisor of `whole`, or its largest divisor up to `most`."""
    if value is None:
        return next(divisor for divisor in range(max(1, min(most, whole)), 0, -1) if whole % divisor == 0)
    if whole % whole_number(name, value):
        raise InputError(f"{name} is {value}; valid: a divisor of {whole}")
    return value
