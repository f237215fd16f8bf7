"""The random-features victim, Eq. (1): a scikit-learn regressor, trained in the n x n Gram matrix of its features.

A head trained from zero stays in the span of the training features, theta = Phi^T a. Training a instead of theta gives
the same solution, or the same steps of gradient descent, at a cost that does not grow with the number of features.
"""

from __future__ import annotations

import copy
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from exhume.activations import Activation
from exhume.errors import InputError
from exhume.features import GaussianMatrix, RandomFeatureMap
from exhume.support.validation import one_of, positive_number, whole_number
from exhume.target.knowledge import Knowledge
from exhume.target.target import Target
from exhume.training import losses
from exhume.victims.pruning import magnitude, optimal_brain_surgeon

# Mean squared error up to which a model counts as fitting its labels exactly.
_INTERPOLATED = 1e-8
# Logistic descent stops when a step changes the coefficients by less than this share: float64 resolves no more.
_STALLED = 1e-15
_LOOK_EVERY = 100  # steps
_GRAM_SLICE = 2**24  # entries of Phi that are converted to float64 at a time
_DTYPES = {"float32": torch.float32, "float64": torch.float64}


class RandomFeatures(MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """f(x) = act(V x)^T theta with V fixed and Gaussian; only theta is trained.

    Square loss has closed forms: theta = Phi^+ Y, Eq. (2), and with ridge > 0
    theta = Phi^T (Phi Phi^T + n ridge I)^-1 Y, Eq. (169). Logistic loss (labels -1 and +1) is minimised by full-batch
    gradient descent from zero, as in the paper's Figure 8.

    Args:
        num_features: p.
        activation: name of a built-in or registered activation, or an Activation.
        loss: "square" or "logistic".
        ridge: lambda of Eq. (168); square loss only.
        seed: of V.
        dtype: "float32" or "float64", the precision of features and weights.
        memory_budget: V is kept in memory if it fits, else regenerated in chunks on every pass.
        device: where to compute.
        step_size, max_steps: of the logistic descent; the paper's 1e-3 and 10^6.

    Attributes:
        theta_: the trained weights, (k, p), or (k, p') of the surviving features.
        feature_map_: phi, all of it.
        surviving_: indices of the features that survived pruning (p',); None if nothing was pruned.
        training_loss_: mean loss on the training set.

    Examples:
        >>> import exhume
        >>> from exhume import data
        >>> sphere = data.load("sphere", dim=8, samples=4)
        >>> victim = exhume.RandomFeatures(num_features=200).fit(sphere.inputs, sphere.labels)
        >>> victim.training_loss_ < 1e-6  # it interpolates
        True
        >>> victim.predict(sphere.inputs).shape, victim.target().num_parameters
        ((4,), 200)
    """

    def __init__(
        self,
        num_features: int = 1000,
        activation: str | Activation = "relu",
        loss: Literal["square", "logistic"] = "square",
        ridge: float = 0.0,
        seed: int = 0,
        dtype: str = "float32",
        memory_budget: int | str = "4GB",
        device: str = "cpu",
        step_size: float = 1e-3,
        max_steps: int = 1_000_000,
    ) -> None:
        self.num_features = num_features
        self.activation = activation
        self.loss = loss
        self.ridge = ridge
        self.seed = seed
        self.dtype = dtype
        self.memory_budget = memory_budget
        self.device = device
        self.step_size = step_size
        self.max_steps = max_steps

    def fit(self, X: ArrayLike | torch.Tensor, y: ArrayLike | torch.Tensor) -> RandomFeatures:
        """Trains theta on rows X (n, d) and labels y, (n,) or (n, k)."""
        inputs, targets = self._validated(X, y, reset=True)
        self._check_settings(targets)
        matrix = GaussianMatrix(
            self.num_features, self.n_features_in_, self.seed, memory_budget=self.memory_budget, device=self.device
        )
        self.feature_map_ = RandomFeatureMap(matrix, self.activation, _DTYPES[self.dtype])
        labels = _columns(targets).to(self.device)  # (n, k)
        features = self.feature_map_.forward(torch.from_numpy(inputs))  # (n, p)
        gram = gram_of(features)
        if self.loss == "square":
            coefficients = ridge_coefficients(gram, labels, self.ridge)
        else:
            coefficients = logistic_coefficients(gram, labels, self.step_size, self.max_steps)
        self.theta_ = (coefficients.to(features.dtype).T @ features).detach()  # (k, p)
        self.training_loss_ = float(losses.get(self.loss).value(gram @ coefficients, labels))
        self.surviving_: torch.Tensor | None = None
        self._single_output = targets.ndim == 1
        return self

    def prune(
        self,
        X: ArrayLike | torch.Tensor,
        y: ArrayLike | torch.Tensor,
        keep: float,
        method: Literal["obs", "magnitude"] = "obs",
        block: int | None = None,
    ) -> RandomFeatures:
        """A fitted copy with a share of the features removed; this victim keeps all of its own.

        Args:
            X, y: what it was trained on: the surgeon re-adjusts to X, the training loss is that on both.
            keep: p'/p, the share that survives, above 0 and at most 1.
            method: "obs", Optimal Brain Surgeon (square loss only), or "magnitude", the largest weights as they are.
            block: of `optimal_brain_surgeon`.
        """
        check_is_fitted(self)
        inputs, targets = self._validated(X, y, reset=False)
        labels, width = _columns(targets).to(self.device), self.theta_.shape[1]
        if self.surviving_ is not None:
            raise InputError(f"this victim is pruned already, to {width} features; prune the whole one instead")
        if labels.shape[1] != len(self.theta_):
            raise InputError(f"y has {labels.shape[1]} outputs; valid: {len(self.theta_)}, as in training")
        if not 0 < keep <= 1:
            raise InputError(f"keep is the share of features that survive, above 0 and at most 1; got {keep}")
        if one_of("pruning method", method, ("obs", "magnitude")) == "obs" and self.loss != "square":
            raise InputError(f"obs prunes victims of square loss, not {self.loss}; valid here: magnitude")
        count = max(1, round(keep * width))
        pruned = copy.copy(self)
        if method == "magnitude":
            pruned.surviving_, pruned.theta_ = magnitude(self.theta_, count)
        else:
            features = self.feature_map_.forward(torch.from_numpy(inputs))  # (n, p)
            pruned.surviving_, pruned.theta_ = optimal_brain_surgeon(features, self.theta_, count, block, self.ridge)
        pruned.training_loss_ = float(losses.get(self.loss).value(pruned._outputs(inputs), labels))
        return pruned

    def predict(self, X: ArrayLike | torch.Tensor) -> NDArray[np.float64]:
        """f(x) for every row, (n,) or (n, k); computed in float64 so that it does not depend on the batch."""
        check_is_fitted(self)
        rows = validate_data(self, X=_as_numpy(X), reset=False, dtype=np.float64)
        predictions: NDArray[np.float64] = self._outputs(np.require(rows, requirements="W")).cpu().numpy()
        return predictions[:, 0] if self._single_output else predictions

    @property
    def interpolates(self) -> bool:
        """Whether the model outputs its labels: whoever knows their alphabet then learns the norms of inputs too."""
        check_is_fitted(self)
        return self.loss == "square" and self.ridge == 0 and self.training_loss_ < _INTERPOLATED

    def target(self, *, input_shape: tuple[int, ...] = (), knowledge: Knowledge | None = None) -> Target:
        """The public part: what an adversary who has the weights holds.

        Args:
            input_shape: shape of one input, such as (3, 32, 32), if the rows are flattened pictures.
            knowledge: what the attacker is assumed to know besides; by default nothing.
        """
        check_is_fitted(self)
        return Target(self.feature_map_, self.theta_, knowledge or Knowledge(), input_shape, self.surviving_)

    def _outputs(self, rows: NDArray[np.float64]) -> torch.Tensor:
        """f(x) in float64, (n, k)."""
        inputs = torch.from_numpy(rows).to(self.device)
        outputs = torch.zeros((len(rows), self.theta_.shape[0]), dtype=torch.float64, device=self.device)
        whole = self.feature_map_
        features = whole if self.surviving_ is None else whole.subset(self.surviving_)
        for columns, part in features.matrix.chunks(torch.float64):
            values = features.activation.value(inputs @ part.T)
            outputs += values @ self.theta_[:, columns].double().T
        return outputs

    def _validated(self, X: Any, y: Any, *, reset: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Rows (n, d) and labels (n,) or (n, k), as scikit-learn checks them."""
        inputs, targets = validate_data(
            self, X=_as_numpy(X), y=_as_numpy(y), reset=reset, multi_output=True, y_numeric=True, dtype=np.float64
        )
        return np.require(inputs, requirements="W"), targets.astype(np.float64)

    def _check_settings(self, y: NDArray[np.float64]) -> None:
        one_of("dtype", self.dtype, _DTYPES)
        one_of("loss", self.loss, ("square", "logistic"))
        whole_number("num_features", self.num_features)
        if not self.ridge >= 0:
            raise InputError(f"ridge must not be negative, got {self.ridge}")
        if self.loss == "logistic" and (self.ridge or not np.isin(y, (-1.0, 1.0)).all()):
            raise InputError("logistic loss takes labels -1 and +1 and no ridge")


def gram_of(features: torch.Tensor) -> torch.Tensor:
    """Phi Phi^T (n, n) in float64, a slice of coordinates at a time so that no float64 copy of Phi is made."""
    gram = torch.zeros((len(features), len(features)), dtype=torch.float64, device=features.device)
    for part in features.split(max(1, _GRAM_SLICE // max(len(features), 1)), dim=1):
        wide = part.double()
        gram.addmm_(wide, wide.T)
    return gram


def ridge_coefficients(gram: torch.Tensor, labels: torch.Tensor, ridge: float) -> torch.Tensor:
    """a with theta = Phi^T a minimising mean (Phi theta - Y)^2 + ridge ||theta||^2: Eq. (169), or Eq. (2) if ridge = 0.

    Args:
        gram: Phi Phi^T (n, n), float64.
        labels: Y (n, k).
        ridge: lambda; with 0 the minimum-norm solution Phi^+ Y, also where Phi Phi^T is singular.
    """
    if ridge == 0:
        return torch.linalg.pinv(gram, hermitian=True, rtol=1e-13) @ labels
    shifted = gram + len(gram) * ridge * torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    return torch.linalg.solve(shifted, labels)


def logistic_coefficients(gram: torch.Tensor, labels: torch.Tensor, step_size: float, max_steps: int) -> torch.Tensor:
    """Full-batch gradient descent from zero on sum_i log(1 + exp(-y_i f_i)), in coefficients: a <- a + step y s(-y f).

    Args:
        gram: Phi Phi^T (n, n).
        labels: Y (n, k) of -1 and +1.
        step_size: the paper takes 10^-3. Above 8 / lambda_max(gram) the loss rises at first; on separable data it
            comes down all the same.
        max_steps: the paper takes 10^6.
    """
    positive_number("step_size", step_size)
    coefficients = torch.zeros_like(labels)
    change, pull, against = torch.empty_like(labels), step_size * labels, -labels
    for step in range(max_steps):
        # In place: a million steps on a small matrix cost mostly the overhead of the calls.
        torch.mm(gram, coefficients, out=change).mul_(against).sigmoid_().mul_(pull)
        coefficients += change
        if step % _LOOK_EVERY == 0 and change.abs().max() <= _STALLED * coefficients.abs().max():
            break
    return coefficients


def _columns(targets: NDArray[np.float64]) -> torch.Tensor:
    """Labels (n,) or (n, k) as (n, k)."""
    return torch.from_numpy(targets.reshape(len(targets), -1))


def _as_numpy(value: Any) -> Any:
    return value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else value
