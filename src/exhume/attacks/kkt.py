"""The attack on the maximum margin: weights as a combination of the margins' gradients (Haim et al. 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from exhume.attacks.base import Problem
from exhume.attacks.gradient_matching import GradientMatching, Search, State, outside
from exhume.errors import InputError
from exhume.features.smooth_relu import smooth_slope
from exhume.gradient_span import Coefficients, GradientSpan, margin_coefficients
from exhume.solvers.first_order import Momentum, Tensors
from exhume.target import Target

# Haim et al.'s weight of the penalty on small multipliers.
_PENALTY = 5.0
# Free coefficients begin in (-1/2, 1/2), as those of `ntk` do.
_FREE_START = 0.5


@dataclass(frozen=True)
class KKT(GradientMatching):
    """Minimises ||theta - sum_i lambda_i grad margin(x_i)||^2 + 5 sum_i relu(lambda_min - lambda_i)^2 + pixel hinge.

    A homogeneous network trained on logistic or cross-entropy loss tends to a stationary point of the maximum margin:
    theta = sum_i lambda_i grad_theta [y_i f(theta; x_i)] with lambda_i >= 0, zero off the margin. No initial weights
    are needed. With several outputs the margin is f_y - max_j f_j (Buzaglo et al. 2023). The pixel hinge is the
    squared distance to the known range of pixels (`Knowledge.pixel_range`); without one there is no hinge.
    Defaults are Haim et al.'s, tuned by them on 500 CIFAR-10 images (d = 3072).

    Attributes:
        form: "margin"; or "regularised" for any loss with weight decay, where theta = -(1 / decay) sum_i l'_i grad f
            and coefficients are free, one for each output.
        sample_rate, weight_rate: step sizes of samples and multipliers.
        momentum: of both.
        start_scale: standard deviation of the Gaussian start.
        least_weight: lambda_min.
        sharpness: alpha of sigmoid(alpha z), which stands for the derivative of ReLUs.

    Examples:
        >>> import exhume
        >>> from exhume.networks import MLP
        >>> network = MLP(6, (40,), 1, "relu", seed=0).eval()
        >>> target = exhume.Target.last_layer(network, input_shape=(6,))
        >>> result = exhume.KKT(max_steps=20, sample_rate=0.02, weight_rate=0.01)(target, num_samples=2)
        >>> result.certificate.verdict  # the network was not trained at all
        'failed'
    """

    name: ClassVar[str] = "kkt"

    form: Literal["margin", "regularised"] = "margin"
    sample_rate: float = 0.555
    weight_rate: float = 1e-4
    momentum: float = 0.9
    start_scale: float = 8.9e-4
    least_weight: float = 0.498
    sharpness: float = 19.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.form not in ("margin", "regularised"):
            raise InputError(f"form is {self.form!r}; valid: margin, regularised")
        for name in ("sample_rate", "weight_rate", "start_scale", "sharpness"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} must be positive, got {getattr(self, name)}")
        if not 0 <= self.momentum < 1:
            raise InputError(f"momentum must be in [0, 1), got {self.momentum}")

    def equation(self, target: Target) -> GradientSpan:
        """theta itself, by gradients at the trained weights."""
        return GradientSpan(target, self.chosen, from_initial=False, dtype=getattr(torch, self.precision))

    def from_initial(self) -> bool:
        """No initial weights."""
        return False

    def per_sample(self, target: Target) -> int:
        """A multiplier, or a coefficient for each output."""
        return 1 if self.form == "margin" else target.num_outputs

    def fixed_labels(self, target: Target, count: int) -> torch.Tensor | None:
        """Labels of the candidates in the known shares, or every label as often."""
        if self.form == "regularised":
            return None
        several = target.num_outputs > 1
        labels, known = torch.tensor([1.0, -1.0]), target.knowledge.labels
        if known is not None:
            labels = known.argmax(1) if known.ndim == 2 and known.shape[1] > 1 else known.flatten()
            _check_labels(labels, target.num_outputs)
        elif several:
            labels = torch.arange(target.num_outputs)
        return labels.repeat(-(-count // len(labels)))[:count].to(target.features.device)

    def start(self, problem: Problem, search: Search, count: int) -> Tensors:
        """Small Gaussian samples; multipliers in (0, 1)."""
        samples = self.start_scale * torch.randn((count, search.span.input_dim), generator=problem.generator)
        if self.form == "margin":
            return {"samples": samples, "weights": torch.rand(count, generator=problem.generator)}
        drawn = torch.rand((count, search.span.num_outputs), generator=problem.generator)
        return {"samples": samples, "weights": 2 * _FREE_START * (drawn - 0.5)}

    def coefficients(self, search: Search, weights: torch.Tensor) -> Coefficients:
        """lambda_i times the margin's signs, or the weights themselves."""
        return weights if search.labels is None else margin_coefficients(weights, search.labels)

    def objective(self, search: Search, state: State) -> torch.Tensor:
        """The equation's squared residual and the penalties."""
        samples, weights = state.values["samples"], state.values["weights"]
        with smooth_slope(self.sharpness):
            loss = search.span.loss(samples, self.coefficients(search, weights)) * search.span.squared_norm
        loss = loss + outside(samples, search.bounds)
        if search.labels is None:
            return loss
        return loss + _PENALTY * (self.least_weight - weights).relu().square().sum()

    def update(self) -> Momentum:
        """Momentum, with a step size each."""
        return Momentum({"samples": self.sample_rate, "weights": self.weight_rate}, self.momentum)

    def notes(self, target: Target, search: Search) -> list[str]:
        """Where labels came from, and when the equation does not hold."""
        notes = []
        if search.labels is not None:
            shares = "in the shares of the known ones" if target.knowledge.labels is not None else "in equal shares"
            notes.append(f"Labels: fixed for the candidates, {shares}.")
        if self.form == "margin" and not target.features.symmetry.homogeneous:
            notes.append("The network is not homogeneous: the equation holds only for training with weight decay.")
        return notes


def _check_labels(labels: torch.Tensor, num_outputs: int) -> None:
    if num_outputs == 1 and not bool((labels.abs() == 1).all()):
        raise InputError("the margin of one output takes known labels -1 and +1; others need form=regularised")
    if num_outputs > 1 and not bool(((labels >= 0) & (labels < num_outputs) & (labels == labels.round())).all()):
        raise InputError(f"known labels must be one-hot or classes 0 to {num_outputs - 1}; others: form=regularised")
