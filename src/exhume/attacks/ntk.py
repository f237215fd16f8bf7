"""The attack on the tangent kernel: weights' displacement as a combination of gradients (Loo et al. 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from exhume.attacks._base.gradient_matching import GradientMatching, Match, Tensors, outside
from exhume.equation.gradient_span import WEIGHTS_AT, GradientSpan
from exhume.equation.gradients import Coefficients, WeightsAt
from exhume.errors import InputError
from exhume.features.smooth_relu import softplus
from exhume.target.target import Target


@dataclass(frozen=True)
class NTK(GradientMatching):
    """Minimises ||theta_T - theta_0 - sum_i J(x_i)^T alpha_i||^2 over candidates and signed coefficients.

    Gradient descent in the linear (lazy) regime moves the weights by a combination of the samples' gradients. The
    weights before training are needed, of the head at least. Known ranges of pixels add a squared hinge, which Loo
    et al. do not have. ReLUs become softplus of beta = min(10 + 10^(step / 20000), 200).

    Attributes:
        at: where gradients are taken: "trained" in the paper; "initial" or "midpoint".
        rate: step size of Adam.
        coefficient_rate: that of the coefficients, if it is another; large inputs have small coefficients.
        start_scale: standard deviation of the Gaussian start.
        coefficient_scale: coefficients begin uniformly in (-scale, scale).
        least_sharpness, most_sharpness, sharpening_steps: 10, 200 and 20000 in beta.

    Examples:
        >>> import exhume
        >>> import torch
        >>> from exhume.networks import MLP
        >>> network = MLP(6, (40,), 1, "gelu", seed=0).eval()
        >>> before = {name: torch.zeros_like(weight) for name, weight in network.state_dict().items()}
        >>> target = exhume.Target.last_layer(network, initial_head=before, input_shape=(6,))
        >>> result = exhume.NTK(max_steps=20)(target, num_samples=2)
        >>> result.stop.value, result.history["loss"][-1] < result.history["loss"][0]
        ('step_limit', True)
    """

    name: ClassVar[str] = "ntk"

    max_steps: int = 80_000
    precision: Literal["float32", "float64"] = "float32"
    at: WeightsAt = "trained"
    rate: float = 0.02
    coefficient_rate: float | None = None
    start_scale: float = 0.2
    coefficient_scale: float = 0.5
    least_sharpness: float = 10.0
    most_sharpness: float = 200.0
    sharpening_steps: float = 20_000.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.at not in WEIGHTS_AT:
            raise InputError(f"at is {self.at!r}; valid: {', '.join(WEIGHTS_AT)}")
        scales = ("rate", "start_scale", "coefficient_scale")
        for name in (*scales, "least_sharpness", "most_sharpness", "sharpening_steps"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} must be positive, got {getattr(self, name)}")
        if self.coefficient_rate is not None and not self.coefficient_rate > 0:
            raise InputError(f"coefficient_rate must be positive, got {self.coefficient_rate}")

    def equation(self, target: Target) -> GradientSpan:
        """Trained less initial weights, by gradients at the chosen point."""
        return GradientSpan(target, self.chosen, at=self.at, dtype=getattr(torch, self.precision))

    def from_initial(self) -> bool:
        """The displacement."""
        return True

    def per_sample(self, target: Target) -> int:
        """A coefficient for each output."""
        return target.num_outputs

    def start(self, match: Match, count: int, generator: torch.Generator) -> Tensors:
        """Gaussian samples, uniform coefficients."""
        samples = self.start_scale * torch.randn((count, match.span.input_dim), generator=generator)
        drawn = torch.rand((count, match.span.num_outputs), generator=generator)
        return {"samples": samples, "weights": 2 * self.coefficient_scale * (drawn - 0.5)}

    def coefficients(self, match: Match, weights: torch.Tensor) -> Coefficients:
        """The weights themselves."""
        return weights

    def sharpness(self, step: int) -> float:
        """beta at a step."""
        growing = 10.0 ** min(step / self.sharpening_steps, 300.0)
        return min(self.least_sharpness + growing, self.most_sharpness)

    def objective(self, match: Match, values: Tensors, step: int) -> torch.Tensor:
        """The equation's squared residual, and that of pixels outside their range."""
        samples = values["samples"]
        with softplus(self.sharpness(step)):
            loss = match.span.loss(samples, values["weights"]) * match.span.squared_norm
        return loss + outside(samples, match.bounds)

    def optimiser(self, values: Tensors) -> torch.optim.Optimizer:
        """Adam."""
        rates = {"samples": self.rate, "weights": self.coefficient_rate or self.rate}
        return torch.optim.Adam([{"params": [value], "lr": rates[name]} for name, value in values.items()])

    def notes(self, target: Target, match: Match) -> dict[str, str]:
        """Where gradients were taken."""
        text = f"Gradients at the {self.at} weights; the equation holds for training in the linear regime."
        return {"gradients": text}
