"""The adapter to adversarial-robustness-toolbox: the attacks as its ReconstructionAttack, on its PyTorch estimators."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from exhume.attacks import ATTACKS, AUTO, DEFAULT, reconstruct
from exhume.errors import InputError
from exhume.results.reconstruction import Reconstruction
from exhume.support.labels import as_outputs, class_numbers
from exhume.support.validation import one_of, whole_number
from exhume.target.displacement import Initial, InitialBias
from exhume.target.knowledge import Knowledge
from exhume.target.target import Target

try:
    from art.attacks.attack import ReconstructionAttack  # type: ignore[import-untyped]
    from art.config import ART_NUMPY_DTYPE  # type: ignore[import-untyped]
    from art.estimators.classification.classifier import ClassifierMixin  # type: ignore[import-untyped]
    from art.estimators.pytorch import PyTorchEstimator  # type: ignore[import-untyped]
    from art.estimators.regression.regressor import RegressorMixin  # type: ignore[import-untyped]
    from art.preprocessing.standardisation_mean_std.numpy import (  # type: ignore[import-untyped]
        StandardisationMeanStd,
    )
    from art.preprocessing.standardisation_mean_std.pytorch import (  # type: ignore[import-untyped]
        StandardisationMeanStdPyTorch,
    )
    from art.preprocessing.standardisation_mean_std.utils import (  # type: ignore[import-untyped]
        broadcastable_mean_std,
    )
except ImportError as error:
    raise ImportError(
        f"exhume.adapters.art needs adversarial-robustness-toolbox ({error}); get it with: pip install 'exhume[art]'"
    ) from error

_LOG = logging.getLogger(__name__)
_SETTINGS = ("head", "initial_head", "initial_bias", "num_samples", "method", "seed", "max_passes", "knowledge")


class LastLayerReconstruction(ReconstructionAttack):  # type: ignore[misc]
    """Recovers training samples of an ART PyTorch classifier or regressor from the weights of its last layer.

    The estimator's standardisation (mean and standard deviation) is undone, so that samples come back as they were
    given to `estimator.fit`. Any other preprocessing that was applied in training is refused: it cannot be undone.
    What is applied in prediction only (`apply_fit=False`, postprocessing) is ignored: the weights do not depend on it.

    Attributes:
        result: the whole Reconstruction of the last `reconstruct`, with its certificate; None before.
    """

    attack_params = [*ReconstructionAttack.attack_params, *_SETTINGS]  # noqa: RUF012 - a list, as ART has it
    _estimator_requirements = (PyTorchEstimator, (ClassifierMixin, RegressorMixin))

    def __init__(
        self,
        estimator: Any,
        head: str | None = None,
        initial_head: Initial | NDArray[Any] = "unknown",
        initial_bias: InitialBias | NDArray[Any] = "unknown",
        num_samples: int | None = None,
        method: str = DEFAULT,
        seed: int = 0,
        max_passes: float = float("inf"),
        knowledge: Knowledge | None = None,
    ) -> None:
        """Prepares the attack and checks its parameters; nothing runs yet.

        Args:
            estimator: a trained PyTorchClassifier or PyTorchRegressor.
            head: name of the linear layer to read; by default the last that a forward pass runs through.
            initial_head: its weights before training, the untrained state dict, "zero" or "unknown".
            initial_bias: likewise for its bias.
            num_samples: training samples in all, known ones included; None takes the knowledge, or estimates.
            method: an attack's name, such as "exact"; "auto" tries those that fit the estimator.
            seed: of the attack's own randomness.
            max_passes: budget in feature passes.
            knowledge: what else the attacker is assumed to know, of the model's own inputs (after standardisation).

        Raises:
            EstimatorError: the estimator is no PyTorch classifier or regressor.
            InputError: a parameter is not valid, or the preprocessing cannot be undone.
        """
        super().__init__(estimator=estimator)
        self.result: Reconstruction | None = None
        given = (head, initial_head, initial_bias, num_samples, method, seed, max_passes, knowledge)
        self.set_params(**dict(zip(_SETTINGS, given, strict=True)))

    def reconstruct(
        self, x: NDArray[Any] | None = None, y: NDArray[Any] | None = None, **kwargs: Any
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Recovers the training samples that are not known.

        Args:
            x: known training samples, in the estimator's input shape and units; empty or None if none are.
            y: their labels. They are not needed: the coefficients of known samples are solved for.
            kwargs: other settings of `exhume.reconstruct`: the method's options, `progress`, `allow_underdetermined`.

        Returns:
            The recovered samples (n, *input_shape), in the units that `estimator.fit` was given, and their labels: of
            a classifier one-hot (n, classes) by its largest output, of a regressor or a single output the outputs
            (n, k) themselves, and NaN where the weights do not determine them. Known samples are not among them.

        Raises:
            InputError: the samples do not fit the estimator, or a setting is not valid.
        """
        estimator = self.estimator
        target = Target.last_layer(
            copy.deepcopy(estimator.model).eval(),
            self.head,
            initial_head=_as_weights(self.initial_head),
            initial_bias=_as_weights(self.initial_bias),
            input_shape=tuple(estimator.input_shape),
            knowledge=self._knowledge(x, y),
        )
        result = reconstruct(
            target,
            num_samples=self.num_samples,
            method=self.method,
            seed=self.seed,
            max_passes=self.max_passes,
            **kwargs,
        )
        self.result = result
        if result.certificate.verdict == "failed":
            _LOG.warning("The reconstruction failed: %s", result.certificate.reason)
        if not result.norms_determined:
            _LOG.warning("The weights do not determine the norms of the model's inputs: they were set to sqrt(d).")
        inputs = result.samples.detach().cpu().double().numpy().reshape(-1, *estimator.input_shape)
        for mean, std in reversed(self._standardisations()):  # undone, the last one first
            inputs = inputs * std + mean
        return inputs.astype(ART_NUMPY_DTYPE), self._labels(result)

    def _knowledge(self, x: NDArray[Any] | None, y: NDArray[Any] | None) -> Knowledge:
        """The knowledge that was given, and the known samples as inputs of the model."""
        known = self.knowledge or Knowledge()
        held = np.zeros((0, *self.estimator.input_shape)) if x is None else np.asarray(x)
        if y is not None and len(y) != len(held):
            raise InputError(f"y has {len(y)} labels and x {len(held)} samples; valid: one a sample, or None")
        if not held.size:
            return known
        if held.shape[1:] != tuple(self.estimator.input_shape):
            raise InputError(
                f"x has samples of shape {held.shape[1:]}; valid: {tuple(self.estimator.input_shape)}, the estimator's"
            )
        seen = held.astype(np.float64)
        for mean, std in self._standardisations():
            seen = (seen - mean) / std
        return known.knowing(samples=torch.from_numpy(seen.reshape(len(seen), -1)).float())

    def _standardisations(self) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        """Mean and standard deviation of what the estimator applied in training, ready for inputs with a batch axis."""
        found = []
        for operation in self.estimator.preprocessing_operations:
            if not operation.apply_fit:
                continue
            if not isinstance(operation, StandardisationMeanStd | StandardisationMeanStdPyTorch):
                raise InputError(
                    f"the estimator was trained behind {type(operation).__name__}, which cannot be undone; "
                    "valid: no preprocessing, or a mean and a standard deviation"
                )
            like = np.empty((1, *self.estimator.input_shape))
            found.append(broadcastable_mean_std(like, np.asarray(operation.mean), np.asarray(operation.std)))
        return found

    def _labels(self, result: Reconstruction) -> NDArray[Any]:
        """Labels in ART's form; NaN where the weights do not determine them."""
        outputs = result.coefficients.shape[1]
        if result.labels is None:
            return np.full((len(result.samples), outputs), np.nan, dtype=ART_NUMPY_DTYPE)
        labels = result.labels.detach().cpu()
        if isinstance(self.estimator, ClassifierMixin) and outputs > 1:
            labels = class_numbers(labels)
        return as_outputs(labels, outputs).numpy().astype(ART_NUMPY_DTYPE)

    def _check_params(self) -> None:
        """Refuses parameters that no attack can take."""
        super()._check_params()
        one_of("method", self.method, (*ATTACKS, AUTO))
        if self.head is not None and not isinstance(self.head, str):
            raise InputError(f"head is {self.head!r}; valid: a layer's name, or None")
        if self.num_samples is not None:
            whole_number("num_samples", self.num_samples)
        whole_number("seed", self.seed, least=0)
        if not isinstance(self.max_passes, int | float) or not self.max_passes > 0:
            raise InputError(f"max_passes is {self.max_passes!r}; valid: a number above 0")
        for name in ("initial_head", "initial_bias"):
            value = getattr(self, name)
            if not isinstance(value, Mapping | torch.Tensor | np.ndarray) and value not in ("zero", "unknown"):
                raise InputError(f"{name} is {value!r}; valid: weights, 'zero' or 'unknown'")
        if isinstance(self.initial_bias, Mapping):
            raise InputError("initial_bias is a mapping; valid: weights, 'zero' or 'unknown'")
        if self.knowledge is not None and not isinstance(self.knowledge, Knowledge):
            raise InputError(f"knowledge is a {type(self.knowledge).__name__}; valid: an exhume.Knowledge, or None")
        self._standardisations()


def _as_weights(value: Any) -> Any:
    """Arrays as tensors; tensors, state dicts and words as they are."""
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value
