"""The span equation against dense oracles: projection, gradient, Gauss-Newton operator, preconditioner."""

from functools import partial

import pytest
import torch

from exhume import activations
from exhume.equation.nuisance import Nuisance
from exhume.equation.span import Span
from exhume.features import GaussianMatrix, RandomFeatureMap
from exhume.features import one_layer as random_features

DIM, WIDTH, SAMPLES = 4, 60, 3
NUISANCES = {
    "none": Nuisance(),
    "linear": Nuisance(linear=True),
    "constant": Nuisance(constant=True),
    "both": Nuisance(linear=True, constant=True),
    "joint": Nuisance(linear=True, joint=True),
    "joint and constant": Nuisance(linear=True, constant=True, joint=True),
}


def normal(span, point, directions):
    """The Gauss-Newton operator J^T P J."""
    return span.adjoint(point, span.project(point, span.jacobian(point, directions)))


def make(activation="relu", outputs=2, nuisance="none", **settings):
    generator = torch.Generator().manual_seed(0)
    features = RandomFeatureMap(GaussianMatrix(WIDTH, DIM, seed=1), activation, torch.float64)
    theta = torch.randn((outputs, WIDTH), generator=generator, dtype=torch.float64)
    span = Span(features, theta, NUISANCES[nuisance], **settings)
    rows = torch.randn((SAMPLES + span.num_linear, DIM), generator=generator, dtype=torch.float64)
    return span, rows


def projector(span, rows):
    """I minus the dense projector onto features and projected nuisance, (p, p)."""
    basis = [span.features.forward(rows[:SAMPLES])]
    if span.nuisance.linear and not span.nuisance.joint:
        basis.append(torch.cat([part.clone() for _, part in span.features.matrix.chunks(torch.float64)]).T)
    if span.nuisance.constant:
        basis.append(torch.ones((1, WIDTH), dtype=torch.float64))
    stacked = torch.cat(basis)
    return torch.eye(WIDTH, dtype=torch.float64) - torch.linalg.pinv(stacked) @ stacked


def goal(span, rows):
    if not span.num_linear:
        return span.displacement
    return span.displacement - span.features.matvec(rows[SAMPLES:])


def dense_jacobian(span, rows):
    """d(sum_i a_i phi(x_i) + W V^T) / d rows with A fixed, by central differences: (k p, rows d)."""
    weights = span.at(rows).coefficients

    def model(flat):
        current = flat.reshape(rows.shape)
        value = weights.T @ span.features.forward(current[:SAMPLES])
        if span.num_linear:
            value = value + span.features.matvec(current[SAMPLES:])
        return value.reshape(-1)

    flat, eps = rows.reshape(-1), 1e-6
    eye = torch.eye(flat.numel(), dtype=torch.float64) * eps
    return torch.stack([(model(flat + step) - model(flat - step)) / (2 * eps) for step in eye], dim=1)


@pytest.mark.parametrize("nuisance", NUISANCES)
@pytest.mark.parametrize("outputs", [1, 3])
def test_residual_is_the_dense_projection(nuisance, outputs):
    span, rows = make(outputs=outputs, nuisance=nuisance)
    point = span.at(rows)
    expected = goal(span, rows) @ projector(span, rows)
    torch.testing.assert_close(point.residual, expected, atol=1e-9, rtol=1e-9)
    assert point.loss == pytest.approx(float(expected.square().sum()) / span.squared_norm)


@pytest.mark.parametrize("nuisance", NUISANCES)
@pytest.mark.parametrize("activation", activations.names())
def test_gauss_newton_operator_and_gradient_match_a_dense_jacobian(activation, nuisance):
    span, rows = make(activation, nuisance=nuisance)
    point = span.at(rows)
    jacobian = dense_jacobian(span, rows)
    outputs = span.num_outputs
    project = torch.kron(torch.eye(outputs, dtype=torch.float64), projector(span, rows))
    directions = torch.randn(rows.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    expected = (jacobian.T @ project @ jacobian @ directions.reshape(-1)).reshape(rows.shape)
    torch.testing.assert_close(normal(span, point, directions), expected, atol=1e-5, rtol=1e-5)
    gradient = (jacobian.T @ (goal(span, rows) @ projector(span, rows)).reshape(-1)).reshape(rows.shape)
    torch.testing.assert_close(span.gradient(point), gradient, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("nuisance", ["none", "linear", "joint"])
@pytest.mark.parametrize("activation", activations.names())
def test_gradient_is_that_of_the_loss(activation, nuisance):
    span, rows = make(activation, nuisance=nuisance)
    direction = torch.randn(rows.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    eps = 1e-6
    slope = (span.at(rows + eps * direction).loss - span.at(rows - eps * direction).loss) / (2 * eps)
    along = float((span.gradient(span.at(rows)) * direction).sum())
    assert slope * span.squared_norm == pytest.approx(-2 * along, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("activation", ["abs", "relu", "tanh", "softplus"])
@pytest.mark.parametrize("linear", [False, True])
def test_gauss_newton_matrix_concentrates_on_the_closed_form(activation, linear):
    dim, width, samples = 40, 40_000, 3
    generator = torch.Generator().manual_seed(0)
    features = RandomFeatureMap(GaussianMatrix(width, dim, seed=1), activation, torch.float64)
    rows = torch.nn.functional.normalize(torch.randn((samples, dim), generator=generator), dim=1).double() * dim**0.5
    theta = torch.randn((1, samples), generator=generator).double() @ features.forward(rows)
    span = Span(features, theta, Nuisance(linear=linear))
    point = span.at(rows)
    mean = span.mean_normal(point)
    for sample in range(samples):
        # A direction orthogonal to all samples: the projection onto their features leaves it alone.
        probe = torch.randn((dim,), generator=generator).double()
        probe -= rows.T @ torch.linalg.lstsq(rows.T, probe[:, None]).solution[:, 0]
        directions = torch.zeros_like(rows)
        directions[sample] = probe / probe.norm()
        image = normal(span, point, directions) @ directions[sample]  # column `sample` of the n x n matrix
        torch.testing.assert_close(image, mean[:, sample], atol=0.1 * float(mean.abs().max()), rtol=0.1)


def test_duplicate_rows_do_not_break_the_projection():
    span, rows = make()
    rows[1] = rows[0]
    expected = span.displacement @ projector(span, rows)
    torch.testing.assert_close(span.at(rows).residual, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("rows", [slice(10, 50), torch.tensor([3, 50, 7, 12, 40, 41, 42, 43, 44, 45])])
def test_subset_is_the_equation_on_those_coordinates(rows):
    span, samples = make()
    part = span.subset(rows)
    expected = Span(
        RandomFeatureMap(span.features.matrix.subset(rows), "relu", torch.float64), span.displacement[:, rows]
    )
    torch.testing.assert_close(part.at(samples).residual, expected.at(samples).residual)
    share = part.features.num_features / WIDTH
    assert part.squared_norm == pytest.approx(span.squared_norm * share)


def test_no_large_matrix_is_formed():
    """With p = 20,000 and n k = 120 nothing of size p x p or nk x nk may appear; the largest tensor is (n, p)."""
    largest = 0

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            nonlocal largest
            out = function(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor):
                largest = max(largest, out.numel())
            return out

    features = RandomFeatureMap(GaussianMatrix(20_000, 5, seed=0), "relu")
    theta = torch.randn((10, 20_000), generator=torch.Generator().manual_seed(0))
    rows = torch.randn((12, 5), generator=torch.Generator().manual_seed(1))
    span = Span(features, theta)
    with Watch():
        normal(span, span.at(rows), rows)
    assert largest <= 12 * 20_000


@pytest.mark.parametrize("outputs", [1, 3])
def test_weighted_derivatives_are_those_of_single_samples_summed(outputs, monkeypatch):
    monkeypatch.setattr(random_features, "_CACHED", 2000)
    monkeypatch.setattr(random_features, "_LEAST_ROWS", 64)
    features = RandomFeatureMap(GaussianMatrix(500, 7, seed=0), "relu", torch.float64)
    generator = torch.Generator().manual_seed(1)
    draw = partial(torch.randn, generator=generator, dtype=torch.float64)
    at = features.linearise(draw(5, 7), linear_rows=1)
    weights, directions, cotangents = draw(5, outputs), draw(5, 7), draw(outputs, 500)
    torch.testing.assert_close(at.weighted_jvp(weights, directions), weights.T @ at.jvp(directions))
    torch.testing.assert_close(at.weighted_vjp(weights, cotangents), at.vjp(weights @ cotangents))


def test_a_weighted_moment_is_two_passes_over_v():
    features = RandomFeatureMap(GaussianMatrix(500, 7, seed=0), "relu", torch.float64)
    generator = torch.Generator().manual_seed(1)
    basis, weights = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((2, 7), (500,)))
    moment = features.weighted_moment(basis, weights)
    assert features.counter.passes(2, 500, 7) == 2
    torch.testing.assert_close(moment, features.rmatvec(features.matvec(basis) * weights))
