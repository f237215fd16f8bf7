"""What the law says of a target: the sizes of the equation that an attack on it would solve."""

from __future__ import annotations

from dataclasses import replace

from exhume import law
from exhume.errors import InputError
from exhume.features import RowFeatureMap
from exhume.law import Forecast
from exhume.target import Target

# An activation that shows norms: whether features hide them is said by `norms_known` here, as it is of any body.
_SHOWS_NORMS = "gelu"


def forecast_of(target: Target, num_samples: int | None = None) -> Forecast:
    """The law's word on a target: its parameters, what is known already, and whether its features hide norms.

    Args:
        target: what would be attacked.
        num_samples: n, known ones included; by default what the target's knowledge says.
    """
    known, features = target.knowledge, target.features
    count = num_samples if num_samples is not None else known.count
    if count is None:
        raise InputError("a forecast needs the number of samples, which the target's knowledge does not say")
    result = law.forecast(
        num_parameters=target.num_parameters,
        input_dim=features.input_dim,
        num_samples=count,
        num_outputs=target.num_outputs,
        activation=_SHOWS_NORMS,
        known_samples=min(known.known_samples, count),
        subspace_dim=None if known.subspace is None else min(len(known.subspace), features.input_dim),
        norms_known=known.norm is not None or features.symmetry.homogeneous,
    )
    name = features.activation.name if isinstance(features, RowFeatureMap) else type(features).__name__
    return replace(result, activation=name, norms_known=known.norm is not None)
