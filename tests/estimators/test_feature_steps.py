"""Fitted transformers as functions of tensors: they compute what scikit-learn computes, with right derivatives."""

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import AdditiveChi2Sampler, PolynomialCountSketch, RBFSampler, SkewedChi2Sampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    PolynomialFeatures,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

from exhume.errors import InputError
from exhume.estimators.feature_steps import feature_steps
from exhume.features.pipeline.function_map import FunctionMap

ROWS = np.random.default_rng(0).uniform(0.1, 3.0, (7, 4))  # positive, as chi-squared kernels ask
PIPELINES = {
    "RBFSampler": (RBFSampler(gamma=0.3, n_components=9, random_state=0),),
    "scalers and RBFSampler": (
        StandardScaler(),
        MinMaxScaler(),
        MaxAbsScaler(),
        RobustScaler(),
        RBFSampler(n_components=9, random_state=0),
        StandardScaler(with_mean=False),
    ),
    "PCA": (PCA(3, whiten=True), PolynomialFeatures(2)),
    "SkewedChi2Sampler": (SkewedChi2Sampler(skewedness=0.5, n_components=9, random_state=0),),
    "AdditiveChi2Sampler": (AdditiveChi2Sampler(sample_steps=3),),
    "PolynomialCountSketch": (PolynomialCountSketch(degree=3, coef0=2, gamma=0.4, n_components=16, random_state=0),),
    "PolynomialCountSketch without a constant": (PolynomialCountSketch(n_components=15, random_state=0),),
    "PolynomialFeatures": (PolynomialFeatures(3, interaction_only=True, include_bias=False),),
    "SplineTransformer": (SplineTransformer(n_knots=4, degree=3),),
    "SplineTransformer without bias": (SplineTransformer(knots="quantile", degree=2, include_bias=False),),
    "GaussianRandomProjection": (GaussianRandomProjection(6, random_state=0), FunctionTransformer(np.tanh)),
    "SparseRandomProjection": (SparseRandomProjection(6, random_state=0), FunctionTransformer(np.square)),
}


@pytest.mark.parametrize("name", sorted(PIPELINES))
def test_features_and_derivatives_are_those_of_the_transformers(name):
    pipeline = make_pipeline(*PIPELINES[name]).fit(ROWS)
    features = FunctionMap(feature_steps([step for _, step in pipeline.steps]), ROWS.shape[1])
    np.testing.assert_allclose(features.forward(torch.tensor(ROWS)).numpy(), pipeline.transform(ROWS), atol=1e-12)
    inside = ROWS[:2] * 0.9 + 0.1 * ROWS.mean(0)
    steps = 1e-6 * np.eye(ROWS.shape[1])
    for column, step in enumerate(steps):
        slopes = (pipeline.transform(inside + step) - pipeline.transform(inside - step)) / 2e-6
        direction = torch.zeros(2, ROWS.shape[1], dtype=torch.float64)
        direction[:, column] = 1
        moved = features.linearise(torch.tensor(inside)).jvp(direction)
        np.testing.assert_allclose(moved.numpy(), slopes, atol=1e-6)


def test_splines_are_constant_beyond_their_knots():
    splines = SplineTransformer().fit(ROWS)
    features = FunctionMap(feature_steps([splines]), ROWS.shape[1])
    beyond = np.concatenate([ROWS.min(0) - 1, ROWS.max(0) + 1]).reshape(2, -1)
    np.testing.assert_allclose(features.forward(torch.tensor(beyond)).numpy(), splines.transform(beyond), atol=1e-12)


def test_a_map_differs_from_another_by_its_identity():
    one, other = (
        FunctionMap(feature_steps([RBFSampler(n_components=9, random_state=seed).fit(ROWS)]), 4) for seed in (0, 1)
    )
    assert one.identity() == one.with_dtype(torch.float32).identity() != other.identity()


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (QuantileTransformer(n_quantiles=5), "QuantileTransformer cannot be differentiated here; valid: Additive"),
        (FunctionTransformer(np.cumsum), "FunctionTransformer of 'cumsum'; valid: numpy's or scipy's abs"),
        (FunctionTransformer(lambda rows: rows), "FunctionTransformer of '<lambda>'"),
        (MinMaxScaler(clip=True), "clip=True"),
        (SplineTransformer(extrapolation="periodic"), "extrapolation='periodic'; valid: 'constant'"),
    ],
)
def test_other_steps_are_declined_by_name(step, words):
    with pytest.raises(InputError, match=words):
        feature_steps([step.fit(ROWS)])


def test_steps_that_are_not_fitted_are_declined():
    with pytest.raises(InputError, match="RBFSampler is not fitted"):
        feature_steps([RBFSampler()])
