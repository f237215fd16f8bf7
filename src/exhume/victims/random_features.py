"""The random-features victim, Eq. (1): a scikit-learn regressor whose weights carry its training data."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from exhume.activations import Activation
from exhume.errors import InputError
from exhume.features import GaussianMatrix, RandomFeatureMap
from exhume.target import Knowledge, Target
from exhume.victims.training import logistic_coefficients, ridge_coefficients

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
        memory_budget: V is kept in memory if it fits, else made anew in chunks on every pass.
        device: where to compute.
        step_size, max_steps: of the logistic descent; the paper's 1e-3 and 10^6.

    Attributes:
        theta_: the trained weights, (k, p).
        feature_map_: phi.
        training_loss_: mean loss on the training set.
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
        inputs, targets = validate_data(
            self, X=_as_numpy(X), y=_as_numpy(y), multi_output=True, y_numeric=True, dtype=np.float64
        )
        targets = targets.astype(np.float64)
        self._check_settings(targets)
        matrix = GaussianMatrix(
            self.num_features,
            self.n_features_in_,
            self.seed,
            memory_budget=self.memory_budget,
            device=self.device,
        )
        self.feature_map_ = RandomFeatureMap(matrix, self.activation, _DTYPES[self.dtype])
        labels = torch.from_numpy(targets.reshape(len(targets), -1)).to(self.device)  # (n, k)
        features = self.feature_map_.forward(torch.from_numpy(np.require(inputs, requirements="W")))  # (n, p)
        gram = _gram(features)
        if self.loss == "square":
            coefficients = ridge_coefficients(gram, labels, self.ridge)
        else:
            coefficients = logistic_coefficients(gram, labels, self.step_size, self.max_steps)
        self.theta_ = (coefficients.to(features.dtype).T @ features).detach()  # (k, p)
        outputs = gram @ coefficients
        if self.loss == "square":
            self.training_loss_ = float((outputs - labels).square().mean())
        else:
            self.training_loss_ = float(torch.nn.functional.softplus(-labels * outputs).mean())
        self._single_output = targets.ndim == 1
        return self

    def predict(self, X: ArrayLike | torch.Tensor) -> NDArray[np.float64]:
        """f(x) for every row, (n,) or (n, k); computed in float64 so that it does not depend on the batch."""
        check_is_fitted(self)
        rows = validate_data(self, X=_as_numpy(X), reset=False, dtype=np.float64)
        inputs = torch.from_numpy(np.require(rows, requirements="W")).to(self.device)
        outputs = torch.zeros((len(rows), self.theta_.shape[0]), dtype=torch.float64, device=self.device)
        for columns, part in self.feature_map_.matrix.chunks(torch.float64):
            values = self.feature_map_.activation.value(inputs @ part.T)
            outputs += values @ self.theta_[:, columns].double().T
        predictions: NDArray[np.float64] = outputs.cpu().numpy()
        return predictions[:, 0] if self._single_output else predictions

    def target(self, *, input_shape: tuple[int, ...] = (), knowledge: Knowledge | None = None) -> Target:
        """The public part: what a thief of the weights holds.

        Args:
            input_shape: shape of one input, such as (3, 32, 32), if the rows are flattened pictures.
            knowledge: what the attacker is assumed to know besides; by default nothing.
        """
        check_is_fitted(self)
        return Target(self.feature_map_, self.theta_, knowledge or Knowledge(), input_shape)

    def _check_settings(self, y: NDArray[np.float64]) -> None:
        if self.dtype not in _DTYPES:
            raise InputError(f"dtype {self.dtype!r} is not supported; valid: {', '.join(_DTYPES)}")
        if self.loss not in ("square", "logistic"):
            raise InputError(f"loss {self.loss!r} is not supported; valid: square, logistic")
        if not self.num_features >= 1:
            raise InputError(f"num_features must be at least 1, got {self.num_features}")
        if not self.ridge >= 0:
            raise InputError(f"ridge must not be negative, got {self.ridge}")
        if self.loss == "logistic" and (self.ridge or not np.isin(y, (-1.0, 1.0)).all()):
            raise InputError("logistic loss takes labels -1 and +1 and no ridge")


def _gram(features: torch.Tensor) -> torch.Tensor:
    """Phi Phi^T in float64, a slice of coordinates at a time so that no float64 copy of Phi is made."""
    gram = torch.zeros((features.shape[0],) * 2, dtype=torch.float64, device=features.device)
    step = max(1, 2**24 // max(features.shape[0], 1))
    for part in torch.split(features, step, dim=1):
        wide = part.double()
        gram.addmm_(wide, wide.T)
    return gram


def _as_numpy(value: Any) -> Any:
    return value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else value
