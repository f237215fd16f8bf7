"""The contract of every equation: residual, loss, coefficients and derivatives are those of a dense least-squares fit.

A new equation is one row of EQUATIONS: a builder that pairs what the code computes with a dense oracle.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from exhume.equation.channels import ChannelEquation
from exhume.equation.dense_span import DenseSpan
from exhume.equation.norms import FixedNorm, FreeNorm
from exhume.equation.nuisance import Nuisance
from exhume.equation.path import Nodes as PathNodes
from exhume.equation.path import PathEquation
from exhume.equation.pooled_head import find_pooled_head
from exhume.equation.protocol import Equation
from exhume.equation.span import Span
from exhume.equation.trained_network import TrainedNetwork
from exhume.features import GaussianMatrix, RandomFeatureMap
from exhume.features.smooth_relu import scaled_gelu
from exhume.networks import MLP
from exhume.solvers import StoppingRule, levenberg_marquardt
from exhume.target.network_weights import NetworkWeights

DIM, WIDTH, SAMPLES = 5, 40, 3
EPS = 1e-6
ACTIVATIONS = {"relu": functional.relu, "abs": torch.abs, "tanh": torch.tanh, "gelu": functional.gelu}


@dataclass(frozen=True)
class Case:
    """An equation as the code has it, a candidate, and a dense oracle."""

    equation: Equation
    rows: Tensor  # a candidate
    rhs: Callable[[Tensor], Tensor]  # oracle: what is to be explained, (e,)
    design: Callable[[Tensor], Tensor]  # oracle: the columns that explain it, those of the samples first, (e, m + q)
    in_order: Callable[[Tensor], Tensor] = torch.flatten  # coefficients (n, k) in the order of those columns, (m,)
    known: int = 0  # samples that are known

    def dense_fit(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Residual and coefficients by a dense solver."""
        design, rhs = self.design(rows), self.rhs(rows)
        weights = torch.linalg.lstsq(design, rhs[:, None], driver="gelsd").solution[:, 0]
        return rhs - design @ weights, weights

    def dense_loss(self, rows: Tensor) -> float:
        return float(self.dense_fit(rows)[0].square().sum()) / self.equation.squared_norm

    def dense_jacobian(self, rows: Tensor, weights: Tensor) -> Tensor:
        """Of what these weights explain, in the rows: (e, rows d), by central differences."""

        def explained(at):
            return self.design(at) @ weights - self.rhs(at)

        steps = EPS * torch.eye(rows.numel(), dtype=torch.float64).reshape(-1, *rows.shape)
        return torch.stack([(explained(rows + step) - explained(rows - step)) / (2 * EPS) for step in steps], 1)


def normal(*shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def matrix_of(features):
    """V (p, d)."""
    return torch.cat([part.clone() for _, part in features.matrix.chunks(torch.float64)])


@dataclass(frozen=True)
class Setting:
    """A span equation to be built."""

    activation: str = "relu"
    outputs: int = 1
    nuisance: Nuisance | None = None
    known: int = 0
    dense: bool = False  # with its Jacobian written out


def span_of(setting):
    features = RandomFeatureMap(GaussianMatrix(WIDTH, DIM, seed=1), setting.activation, torch.float64)
    fixed = features.forward(normal(setting.known, DIM, seed=2)) if setting.known else None
    span = (DenseSpan if setting.dense else Span)(
        features, normal(setting.outputs, WIDTH, seed=3), setting.nuisance, fixed=fixed
    )
    return span, normal(SAMPLES + span.num_linear, DIM, seed=4)


def dense_rows(setting, matrix, rows):
    """Rows (n + q, p) that are fitted to every output: features of samples, nuisance, features of known samples."""
    activation = ACTIVATIONS[setting.activation]
    parts = [activation(rows[:SAMPLES] @ matrix.T)]
    if setting.nuisance and setting.nuisance.linear and not setting.nuisance.joint:
        parts.append(matrix.T)
    if setting.nuisance and setting.nuisance.constant:
        parts.append(torch.ones((1, len(matrix)), dtype=torch.float64))
    if setting.known:
        parts.append(activation(normal(setting.known, DIM, seed=2) @ matrix.T))
    return torch.cat(parts)


def span_case(setting):
    span, rows = span_of(setting)
    matrix = matrix_of(span.features)

    def rhs(rows):
        linear = rows[SAMPLES:] @ matrix.T  # W V^T where W is among the unknowns
        return (span.displacement - linear if len(linear) else span.displacement).flatten()

    def design(rows):
        """One block of columns an output, those of samples before all others."""
        dense = dense_rows(setting, matrix, rows)
        blocks = (dense[:SAMPLES].T, dense[SAMPLES:].T)
        return torch.cat([torch.block_diag(*[block] * setting.outputs) for block in blocks], 1)

    return Case(span, rows, rhs, design, lambda coefficients: coefficients.T.flatten(), setting.known)


def gradient_columns(network, weights, rows, readout):
    """readout J(weights, x)^T, flat, for every row: (n, k', e)."""

    def outputs(weights, sample):
        return readout @ torch.func.functional_call(network, weights, (sample.reshape(1, *network.input_shape),))[0]

    parts = torch.func.vmap(torch.func.jacrev(outputs), (None, 0))(weights, rows)
    return torch.cat([parts[name].flatten(2) for name in weights], 2)


def path_case(network, shares, *, known=0, zero_sum=False):
    """All weights, gradients at nodes on the line between the ends; one column a coefficient, one for decay."""
    after = {name: weight.detach() for name, weight in network.named_parameters()}
    outputs = 2 + zero_sum
    readout = torch.eye(outputs, dtype=torch.float64)
    if zero_sum:
        readout = torch.linalg.svd(readout - 1 / outputs)[0][:, : outputs - 1].T
    moved = gradient_columns(network, after, normal(SAMPLES, DIM, seed=5), readout).flatten(0, 1)
    parts = (normal(len(moved), seed=6) @ moved).split([weight.numel() for weight in after.values()])
    before = {
        name: weight - part.reshape(weight.shape) for (name, weight), part in zip(after.items(), parts, strict=True)
    }
    model = NetworkWeights(network, "head", tuple(after), before)
    trained = TrainedNetwork(model, network.input_shape)
    assert trained.errors_sum_to_zero is zero_sum
    nodes = tuple(trained.straight(shares))
    given = normal(known, DIM, seed=2) if known else None
    equation = PathEquation(trained, PathNodes(nodes, tuple(after), given))
    start = torch.cat([before[name].flatten() for name in after])

    def design(rows):
        every = rows if given is None else torch.cat([rows, given])
        parts = [gradient_columns(network, dict(node), every, readout) for node in nodes]
        columns = torch.stack(parts, 1).flatten(0, 2).T
        return torch.cat([columns, start[:, None]], 1)

    return Case(
        equation, normal(SAMPLES, DIM, seed=4), lambda rows: equation.displacement, design, known=known * len(shares)
    )


def small_mlp(outputs=2, activation="gelu"):
    network = MLP(DIM, (9, 8), outputs, activation, seed=0).double().eval()
    network.input_shape = (DIM,)
    return network


class SmallConv(torch.nn.Module):
    """Two convolutions, pooling and a linear head, for inputs of DIM numbers in a row."""

    input_shape = (1, 1, DIM)

    def __init__(self, activation=torch.nn.Tanh, **options):
        super().__init__()
        self.body = torch.nn.Sequential(
            torch.nn.Conv2d(1, 4, (1, 3), padding=(0, 1)),
            torch.nn.GELU(),
            torch.nn.Conv2d(4, 6, (1, 2), **options),
            activation(),
        )
        self.head = torch.nn.Linear(6, 2)

    def forward(self, inputs):
        return self.head(self.body(inputs).mean((2, 3)))


def small_conv(activation=torch.nn.Tanh, **options):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return SmallConv(activation, **options).double().eval()


def channel_case(activation, shares, *, known=0, **options):
    """The last convolution: gradients of every feature in the weights of its channel, at nodes, and weight decay."""
    network = small_conv(activation, **options)
    after = {name: weight.detach() for name, weight in network.named_parameters()}
    before = {name: weight + 0.1 * normal(*weight.shape, seed=6) for name, weight in after.items()}
    trained = TrainedNetwork(NetworkWeights(network, "head", tuple(after), before), network.input_shape)
    head = find_pooled_head(trained, "head", tuple(after))
    assert (head.convolution, head.head) == ("body.2", "head")
    nodes, given = tuple(trained.straight(shares)), normal(known, DIM, seed=2) if known else None
    equation = ChannelEquation(head, nodes, 3.0, given)
    names = [name for name in ("2.weight", "2.bias") if f"body.{name}" in after]
    start = torch.cat([before[f"body.{name}"].reshape(6, -1) for name in names], 1)

    def gradients(node, row):
        """(o, o, K): of every feature in the weights of every channel."""
        body = {name.removeprefix("body."): weight for name, weight in node.items() if name.startswith("body.")}

        def features(*own):
            changed = body | dict(zip(names, own, strict=True))
            with scaled_gelu(3.0 / head.scale):
                outputs = torch.func.functional_call(network.body, changed, (row.reshape(1, *network.input_shape),))
            return outputs.mean((2, 3))[0]

        parts = torch.autograd.functional.jacobian(features, tuple(body[name] for name in names))
        return torch.cat([part.reshape(6, 6, -1) for part in parts], 2)

    def design(rows):
        every = list(rows) + ([] if given is None else list(given))
        found = torch.stack([torch.stack([gradients(node, row) for row in every]) for node in nodes])  # (Q, m, o, o, K)
        own = found.diagonal(dim1=2, dim2=3).permute(3, 0, 1, 2)  # (o, Q, m, K)
        assert float(found.square().sum()) == pytest.approx(float(own.square().sum()))  # channels are separate
        blocks = [own[:, :, :SAMPLES].flatten(1, 2), torch.cat([own[:, :, SAMPLES:].flatten(1, 2), start[:, None]], 1)]
        return torch.cat([torch.block_diag(*[each.T for each in block]) for block in blocks], 1)

    def in_order(coefficients):
        return coefficients.reshape(SAMPLES, len(nodes), -1).permute(2, 1, 0).flatten()

    rhs = equation.displacement.flatten()
    return Case(equation, normal(SAMPLES, DIM, seed=4), lambda rows: rhs, design, in_order, known)


SPANS = {
    "one output": Setting(),
    "two outputs": Setting("gelu", 2),
    "linear part projected out": Setting("abs", 2, Nuisance(linear=True)),
    "linear part solved jointly": Setting("abs", 2, Nuisance(linear=True, joint=True)),
    "constant part": Setting("tanh", 1, Nuisance(constant=True)),
    "linear and constant part": Setting("gelu", 1, Nuisance(linear=True, constant=True)),
    "joint linear and constant part": Setting("gelu", 2, Nuisance(linear=True, constant=True, joint=True)),
    "known samples": Setting("relu", 2, known=2),
    "known samples and every part": Setting("gelu", 2, Nuisance(linear=True, constant=True), known=2),
}
DENSE = {
    "one output": Setting(dense=True),
    "two outputs": Setting("gelu", 2, dense=True),
    "known samples": Setting("gelu", 2, known=2, dense=True),
}
STRIDED = {"stride": (1, 2), "padding": (0, 1), "dilation": (1, 2), "bias": False}
EQUATIONS = {
    **{f"span, {name}": lambda setting=setting: span_case(setting) for name, setting in SPANS.items()},
    **{f"dense span, {name}": lambda setting=setting: span_case(setting) for name, setting in DENSE.items()},
    "path, trained end": lambda: path_case(small_mlp(), [1.0]),
    "path, errors that sum to zero": lambda: path_case(small_mlp(3), [0.0, 1.0], zero_sum=True),
    "path, known samples": lambda: path_case(small_mlp(), [0.3], known=2),
    "path, pooled convolutions": lambda: path_case(small_conv(), [0.0, 1.0]),
    "channels": lambda: channel_case(torch.nn.Tanh, [0.0, 1.0]),
    "channels, smooth ReLUs": lambda: channel_case(torch.nn.ReLU, [0.0, 1.0]),
    "channels, known sample": lambda: channel_case(torch.nn.Tanh, [1.0], known=1),
    "channels, stride, dilation, no bias": lambda: channel_case(torch.nn.Tanh, [0.0, 1.0], **STRIDED),
}


@pytest.fixture(params=sorted(EQUATIONS))
def case(request):
    return EQUATIONS[request.param]()


def test_residual_loss_and_coefficients_are_those_of_a_dense_fit(case):
    point = case.equation.at(case.rows)
    residual, weights = case.dense_fit(case.rows)
    found = case.in_order(point.coefficients)
    torch.testing.assert_close(point.residual.flatten(), residual, atol=1e-9, rtol=1e-8)
    torch.testing.assert_close(found, weights[: len(found)], atol=1e-8, rtol=1e-8)
    assert point.loss == pytest.approx(case.dense_loss(case.rows), rel=1e-9)
    assert case.equation.squared_size(point.residual) == pytest.approx(float(residual.square().sum()), rel=1e-9)
    assert torch.equal(point.samples, case.rows[:SAMPLES])


def test_known_samples_use_up_equations(case):
    point = case.equation.at(case.rows)
    known = case.known * point.coefficients.shape[1]
    assert case.equation.num_equations == point.residual.numel() - known


def test_the_adjoint_of_the_residual_is_the_gradient_of_the_dense_loss(case):
    rows, equation = case.rows, case.equation
    steps = EPS * torch.eye(rows.numel(), dtype=torch.float64).reshape(-1, *rows.shape)
    slopes = [(case.dense_loss(rows + step) - case.dense_loss(rows - step)) / (2 * EPS) for step in steps]
    expected = torch.tensor(slopes, dtype=torch.float64)
    assert expected.abs().max() > 1e-3  # the candidate is no minimum
    point = equation.at(rows)
    gradient = -2 / equation.squared_norm * equation.adjoint(point, point.residual)
    torch.testing.assert_close(gradient.flatten(), expected, atol=1e-7, rtol=1e-5)


def test_jacobian_is_that_of_the_dense_model_and_adjoint_its_transpose(case):
    rows, equation, point = case.rows, case.equation, case.equation.at(case.rows)
    weights = case.dense_fit(rows)[1]
    weights[point.coefficients.numel() :] = 0  # nuisance and known samples do not change with the rows
    dense = case.dense_jacobian(rows, weights)
    units = torch.eye(rows.numel(), dtype=torch.float64).reshape(-1, *rows.shape)
    found = torch.stack([equation.jacobian(point, unit).flatten() for unit in units], 1)
    torch.testing.assert_close(found, dense, atol=1e-6, rtol=1e-6)
    changes = torch.eye(len(dense), dtype=torch.float64).reshape(-1, *point.residual.shape)
    adjoint = torch.stack([equation.adjoint(point, unit).flatten() for unit in changes])
    torch.testing.assert_close(adjoint, dense, atol=1e-6, rtol=1e-6)


def test_projection_removes_what_the_dense_columns_span(case):
    point = case.equation.at(case.rows)
    change = normal(*point.residual.shape, seed=8)
    basis = torch.linalg.qr(case.design(case.rows))[0]
    projected = case.equation.project(point, change)
    expected = change.flatten() - basis @ (basis.T @ change.flatten())
    torch.testing.assert_close(projected.flatten(), expected, atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(case.equation.project(point, projected), projected, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("norms", [FreeNorm(1.0), FixedNorm(1.0)])
def test_the_normal_system_is_that_of_the_projected_jacobian(case, norms):
    equation, point = case.equation, case.equation.at(case.rows)
    system = equation.normal_system(point, 0.1, norms)
    directions = norms.project_tangent(case.rows, normal(*case.rows.shape, seed=9), SAMPLES)

    def tangent(rows):
        return norms.project_tangent(case.rows, rows, SAMPLES)

    image = equation.adjoint(point, equation.project(point, equation.jacobian(point, directions)))
    found = system.to_rows(system.apply(system.from_rows(directions)))
    torch.testing.assert_close(found, tangent(image) + system.ridge * directions, atol=1e-8, rtol=1e-8)
    torch.testing.assert_close(system.to_rows(system.rhs), tangent(equation.adjoint(point, point.residual)))
    assert bool((system.ridge > 0).all())
    preconditioned = system.to_rows(system.precondition(system.from_rows(directions)))
    torch.testing.assert_close(preconditioned, tangent(preconditioned))
    assert float((preconditioned * directions).sum()) > 0


def test_a_contribution_is_what_a_dense_fit_without_the_sample_adds_to_the_loss(case):
    point = case.equation.at(case.rows)
    design, rhs = case.design(case.rows), case.rhs(case.rows)
    samples = torch.arange(SAMPLES)[:, None].expand(SAMPLES, point.coefficients.shape[1])
    of_column = torch.full((design.shape[1],), -1)
    of_column[: samples.numel()] = case.in_order(samples)
    losses = []
    for sample in range(SAMPLES):
        others = design[:, of_column != sample]
        rest = rhs - others @ torch.linalg.lstsq(others, rhs[:, None], driver="gelsd").solution[:, 0]
        losses.append(float(rest.square().sum()) / case.equation.squared_norm)
    added = torch.tensor(losses, dtype=torch.float64) - point.loss
    torch.testing.assert_close(case.equation.contributions(point).double(), added, rtol=1e-6, atol=1e-9)


def test_cancellation_is_how_much_larger_the_terms_are_than_their_sum(case):
    point = case.equation.at(case.rows)
    design = case.design(case.rows)[:, : point.coefficients.numel()]
    samples = torch.arange(SAMPLES)[:, None].expand(SAMPLES, point.coefficients.shape[1])
    columns = design * case.in_order(point.coefficients)
    terms = [columns[:, case.in_order(samples) == sample].sum(1) for sample in range(SAMPLES)]
    displacement = case.rhs(case.rows[:SAMPLES])
    largest = max(float(torch.stack(terms).square().sum()), float(displacement.square().sum()))
    expected = max(1.0, (largest / case.equation.squared_norm) ** 0.5)
    assert case.equation.cancellation(point) == pytest.approx(expected, rel=1e-9)


def test_levenberg_marquardt_lowers_the_loss_of_every_equation(case):
    end = levenberg_marquardt(case.equation, case.rows, FreeNorm(1.0), StoppingRule(8, 1e-9))
    assert end.point.loss < 0.9 * end.losses[0]
    assert end.point.loss == pytest.approx(case.dense_loss(end.point.rows), rel=1e-6)


@pytest.mark.parametrize("chosen", [slice(5, 33), torch.arange(28) * 3 % WIDTH])
@pytest.mark.parametrize("name", sorted(SPANS))
def test_subset_is_the_dense_fit_on_those_coordinates(name, chosen):
    setting = SPANS[name]
    span, rows = span_of(setting)
    part, matrix = span.subset(chosen), matrix_of(span.features)[chosen]
    rhs = span.displacement[:, chosen]
    if span.num_linear:
        rhs = rhs - rows[SAMPLES:] @ matrix.T
    columns = dense_rows(setting, matrix, rows).T
    weights = torch.linalg.lstsq(columns, rhs.T, driver="gelsd").solution
    expected = rhs - (columns @ weights).T
    point = part.at(rows)
    torch.testing.assert_close(point.residual, expected, atol=1e-9, rtol=1e-8)
    torch.testing.assert_close(point.coefficients, weights[:SAMPLES], atol=1e-8, rtol=1e-8)
    scale = span.squared_norm * len(matrix) / WIDTH
    assert point.loss == pytest.approx(float(expected.square().sum()) / scale, rel=1e-9)
