"""Fitted scikit-learn transformers as differentiable functions of plain tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from exhume.errors import InputError
from exhume.features.pipeline import functions
from exhume.features.pipeline.functions import Affine, Step

# Functions of numpy and scipy that a FunctionTransformer may apply, by name, and what torch calls them.
_ELEMENTWISE = {name: name for name in ("tanh", "sin", "cos", "exp", "expm1", "log", "log1p", "sqrt", "square", "abs")}
_ELEMENTWISE |= {"absolute": "abs", "sinh": "sinh", "cosh": "cosh", "arctan": "arctan", "arcsinh": "arcsinh"}
_ELEMENTWISE |= {"expit": "sigmoid", "erf": "erf"}


def feature_steps(transformers: Sequence[Any]) -> tuple[Step, ...]:
    """The functions that fitted transformers apply, one after the other; others are declined by name."""
    return tuple(step for transformer in transformers for step in _steps_of(transformer))


def _steps_of(transformer: Any) -> tuple[Step, ...]:
    name = type(transformer).__name__
    if transformer is None or (isinstance(transformer, str) and transformer == "passthrough"):
        return ()
    if name not in _STEPS or not type(transformer).__module__.startswith("sklearn."):
        raise InputError(
            f"features of a {name} cannot be differentiated here; valid: {', '.join(sorted(_STEPS))}; other steps "
            "must come before the first of these and be undone on the samples"
        )
    try:
        return _STEPS[name](transformer)
    except AttributeError as error:
        raise InputError(f"this {name} is not fitted: {error}") from error


def _tensor(values: Any) -> torch.Tensor:
    dense = values.toarray() if hasattr(values, "toarray") else values
    return torch.from_numpy(np.array(dense, dtype=np.float64))


def _scaled(scale: Any, offset: Any) -> tuple[Step, ...]:
    """x * scale + offset, column by column."""
    return (Affine(_tensor(scale), _tensor(offset)),)


def _standard(scaler: Any) -> tuple[Step, ...]:
    size = scaler.n_features_in_
    scale = np.ones(size) if scaler.scale_ is None else scaler.scale_
    mean = np.zeros(size) if not scaler.with_mean else scaler.mean_
    return _scaled(1 / scale, -mean / scale)


def _min_max(scaler: Any) -> tuple[Step, ...]:
    if scaler.clip:
        raise InputError("a MinMaxScaler with clip=True is constant outside its range; valid: clip=False")
    return _scaled(scaler.scale_, scaler.min_)


def _robust(scaler: Any) -> tuple[Step, ...]:
    size = scaler.n_features_in_
    scale = np.ones(size) if scaler.scale_ is None else scaler.scale_
    center = np.zeros(size) if scaler.center_ is None else scaler.center_
    return _scaled(1 / scale, -center / scale)


def _components(pca: Any) -> tuple[Step, ...]:
    matrix = pca.components_
    if pca.whiten:
        matrix = matrix / np.sqrt(pca.explained_variance_)[:, None]
    return (Affine(_tensor(matrix), _tensor(-matrix @ pca.mean_)),)


def _cosines(sampler: Any) -> tuple[Step, ...]:
    """cos(W x + b) and its scale, sqrt(2 / p)."""
    weights, phases = _tensor(sampler.random_weights_).T.contiguous(), _tensor(sampler.random_offset_)
    size = np.full(len(weights), math.sqrt(2 / len(weights)))
    return (functions.Cosine(weights, phases), *_scaled(size, np.zeros(len(weights))))


def _skewed(sampler: Any) -> tuple[Step, ...]:
    return (functions.SkewedLog(float(sampler.skewedness)), *_cosines(sampler))


def _additive(sampler: Any) -> tuple[Step, ...]:
    interval = sampler.sample_interval or {1: 0.8, 2: 0.5, 3: 0.4}[sampler.sample_steps]
    return (functions.AdditiveChiSquared(int(sampler.sample_steps), float(interval)),)


def _sketch(sampler: Any) -> tuple[Step, ...]:
    places, signs = np.asarray(sampler.indexHash_), np.asarray(sampler.bitHash_)
    degree, columns = places.shape
    sketches = np.zeros((degree, sampler.n_components, columns))
    for power in range(degree):
        sketches[power, places[power], np.arange(columns)] = signs[power]
    offsets = np.zeros((degree, sampler.n_components))
    if sampler.coef0 != 0:
        offsets, sketches = math.sqrt(sampler.coef0) * sketches[:, :, -1], sketches[:, :, :-1]
    return (functions.CountSketch(_tensor(math.sqrt(sampler.gamma) * sketches), _tensor(offsets)),)


def _splines(transformer: Any) -> tuple[Step, ...]:
    from scipy.interpolate import BSpline, PPoly

    if transformer.extrapolation not in ("constant", "error"):
        raise InputError(f"a SplineTransformer with extrapolation={transformer.extrapolation!r}; valid: 'constant'")
    breaks, tables = [], []
    for spline in transformer.bsplines_:
        ends, first, last = spline.t, spline.t[spline.k], spline.t[-spline.k - 1]
        if not (np.diff(ends) > 0).all():
            raise InputError("a SplineTransformer with a knot twice is not continuous; valid: different knots")
        inside = (ends[:-1] >= first) & (ends[1:] <= last)
        single = [PPoly.from_spline(BSpline(spline.t, column, spline.k)).c for column in spline.c.T]
        table = np.stack(single, 2)[:, inside]  # (degree + 1, q, b)
        breaks.append(_tensor(np.append(ends[:-1][inside], last)))
        tables.append(_tensor(table if transformer.include_bias else table[:, :, :-1]))
    return (functions.Splines(tuple(breaks), tuple(tables)),)


def _polynomial(transformer: Any) -> tuple[Step, ...]:
    return (functions.Monomials(torch.from_numpy(np.asarray(transformer.powers_, dtype=np.int64))),)


def _projection(transformer: Any) -> tuple[Step, ...]:
    matrix = _tensor(transformer.components_)
    return (Affine(matrix, torch.zeros(len(matrix), dtype=torch.float64)),)


def _function(transformer: Any) -> tuple[Step, ...]:
    if transformer.func is None:
        return ()
    name = getattr(transformer.func, "__name__", "")
    home = (getattr(transformer.func, "__module__", None) or type(transformer.func).__module__).split(".")[0]
    if name not in _ELEMENTWISE or home not in ("numpy", "scipy") or transformer.kw_args:
        known = ", ".join(sorted(_ELEMENTWISE))
        raise InputError(f"a FunctionTransformer of {name or transformer.func!r}; valid: numpy's or scipy's {known}")
    return (functions.Elementwise(_ELEMENTWISE[name]),)


_STEPS: dict[str, Callable[[Any], tuple[Step, ...]]] = {
    "AdditiveChi2Sampler": _additive,
    "FunctionTransformer": _function,
    "GaussianRandomProjection": _projection,
    "MaxAbsScaler": lambda scaler: _scaled(1 / scaler.scale_, np.zeros(len(scaler.scale_))),
    "MinMaxScaler": _min_max,
    "PCA": _components,
    "PolynomialCountSketch": _sketch,
    "PolynomialFeatures": _polynomial,
    "RBFSampler": _cosines,
    "RobustScaler": _robust,
    "SkewedChi2Sampler": _skewed,
    "SparseRandomProjection": _projection,
    "SplineTransformer": _splines,
    "StandardScaler": _standard,
}
