"""The contract of every feature map: derivatives are right, precision can be changed, descriptions rebuild it."""

import pytest
import torch

from exhume import activations
from exhume.errors import InputError
from exhume.features import (
    DenseMatrix,
    FirstLayerMap,
    GaussianMatrix,
    ModuleFeatureMap,
    OneLayerFeatures,
    PassCounter,
    RandomFeatureMap,
    Saveable,
    TrainedBody,
)
from exhume.features.endpoints import BothEnds
from exhume.features.in_subspace import ReducedBody, reduced
from exhume.features.matrix import BLOCK_ROWS
from exhume.features.pipeline import functions
from exhume.features.pipeline.fourier import fourier_map
from exhume.features.pipeline.function_map import FunctionMap, composed
from exhume.networks import TwoLayer
from exhume.target.target import Target, fastest

DIM, ROWS = 6, 4


def normal(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)


def module_map(dim=DIM, seed=0, **options):
    network = TwoLayer(dim, 9, 2, "softplus", seed=seed).double().eval()
    return ModuleFeatureMap(network, "head", (dim,), **options)


def basis(rows, columns):
    return torch.linalg.qr(normal(columns, rows))[0].T


MAPS = {
    **{
        f"random-{name}": lambda name=name: RandomFeatureMap(GaussianMatrix(40, DIM, seed=0), name, torch.float64)
        for name in activations.names()
    },
    "first-layer": lambda: fastest(module_map()),
    "first-layer-with-bias": lambda: FirstLayerMap(
        DenseMatrix(normal(9, DIM)), "softplus", torch.float64, offset=normal(9)
    ),
    "module": lambda: module_map(),
    "module-with-bias": lambda: module_map().with_bias(),
    "module-in-chunks": lambda: module_map(memory_budget=1),
    "module-pruned": lambda: module_map().subset(torch.tensor([0, 3, 4])),
    "reduced-random": lambda: reduced(
        RandomFeatureMap(GaussianMatrix(40, 9, seed=0), "tanh", torch.float64), basis(DIM, 9)
    ),
    "reduced-module": lambda: reduced(module_map(9), basis(DIM, 9)),
    "both-ends": lambda: BothEnds(fastest(module_map()), fastest(module_map(seed=1))),
    "fourier": lambda: fourier_map(normal(40, DIM), normal(40)),
    "fourier-after-scaler": lambda: composed(
        (functions.Affine(normal(DIM), normal(DIM)), functions.Cosine(normal(30, DIM), normal(30))), DIM
    ),
    "function-monomials": lambda: FunctionMap(
        (functions.Monomials(torch.cat([torch.eye(DIM), 2 * torch.eye(DIM), torch.ones(1, DIM)]).long()),), DIM
    ),
    "function-sketch": lambda: FunctionMap((functions.CountSketch(0.3 * normal(3, 16, DIM), normal(3, 16)),), DIM),
    "function-projection": lambda: FunctionMap(
        (functions.Affine(normal(20, DIM), normal(20)), functions.Elementwise("tanh")), DIM
    ),
    "random-many-chunks": lambda: RandomFeatureMap(
        GaussianMatrix(2 * BLOCK_ROWS + 5, DIM, seed=0, memory_budget=0), "tanh", torch.float64
    ),
}


# Parts of other maps, which are made anew from those.
UNSAVED = {"first-layer-with-bias", "module-pruned", "reduced-random", "reduced-module", "both-ends"}
# Maps of data pipelines, which are made anew from those.
UNSAVED |= {name for name in MAPS if name.startswith(("fourier", "function"))}


@pytest.fixture(params=sorted(MAPS))
def feature_map(request):
    return MAPS[request.param]()


@pytest.fixture
def inputs():
    return torch.randn((ROWS, DIM), generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def dense_jacobian(feature_map, inputs):
    """J_i by central differences, (m, p, d)."""
    eps = 1e-6
    columns = []
    for axis in range(DIM):
        shift = torch.zeros(DIM, dtype=torch.float64)
        shift[axis] = eps
        columns.append((feature_map.forward(inputs + shift) - feature_map.forward(inputs - shift)) / (2 * eps))
    return torch.stack(columns, dim=2)


def test_jvp_and_vjp_match_finite_differences(feature_map, inputs):
    jacobian = dense_jacobian(feature_map, inputs)
    at = feature_map.linearise(inputs)
    torch.testing.assert_close(at.features, feature_map.forward(inputs))
    generator = torch.Generator().manual_seed(1)
    directions = torch.randn((ROWS, DIM), generator=generator, dtype=torch.float64)
    cotangents = torch.randn((ROWS, feature_map.num_features), generator=generator, dtype=torch.float64)
    torch.testing.assert_close(
        at.jvp(directions), torch.einsum("ipd,id->ip", jacobian, directions), atol=1e-7, rtol=1e-6
    )
    torch.testing.assert_close(
        at.vjp(cotangents), torch.einsum("ipd,ip->id", jacobian, cotangents), atol=1e-6, rtol=1e-6
    )


def test_other_precision_is_the_same_map(feature_map, inputs):
    single = feature_map.with_dtype(torch.float32)
    assert single.forward(inputs).dtype == torch.float32
    torch.testing.assert_close(single.forward(inputs).double(), feature_map.forward(inputs), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", sorted(set(MAPS) - UNSAVED))
def test_description_and_tensors_rebuild_the_map(name, inputs, tmp_path):
    feature_map = MAPS[name]()
    Target(feature_map, torch.ones(feature_map.num_features)).save(tmp_path)
    again = Target.load(tmp_path).feature_map
    assert again.identity() == feature_map.identity()
    torch.testing.assert_close(again.with_dtype(torch.float64).forward(inputs), feature_map.forward(inputs))


def test_mean_kernel_is_about_that_of_the_jacobians(feature_map, inputs):
    at = feature_map.linearise(inputs)
    jacobian = dense_jacobian(feature_map, inputs)
    exact = torch.einsum("ipd,jpd->ij", jacobian, jacobian) / DIM
    kernel = at.mean_kernel(ROWS)
    assert kernel.shape == (ROWS, ROWS)
    assert float((kernel - exact).norm() / exact.norm()) < 1.0
    assert float(torch.linalg.eigvalsh(kernel)[0]) > -1e-8


def test_rows_of_the_wrong_length_are_refused(feature_map):
    with pytest.raises(InputError, match=r"\(4, 7\)"):
        feature_map.forward(torch.zeros(4, 7))


def test_passes_are_counted_by_rows_in_every_precision(feature_map, inputs):
    counted = feature_map.with_counter(PassCounter())
    at = counted.linearise(inputs)
    at.vjp(at.jvp(inputs))
    counted.with_dtype(torch.float32).forward(inputs)
    # A reduced module computes in all 9 dimensions of its inputs, and features at both ends are two maps.
    inputs_computed = {ReducedBody: 9, BothEnds: 2 * DIM}.get(type(feature_map), DIM)
    assert counted.counter.work == 4 * ROWS * feature_map.num_features * inputs_computed
    assert feature_map.counter is not counted.counter


def test_weighted_products_are_those_of_single_samples_summed(feature_map, inputs):
    at, count = feature_map.linearise(inputs), ROWS - 1
    generator = torch.Generator().manual_seed(2)
    weights, change, directions, cotangents = (
        torch.randn(shape, generator=generator, dtype=torch.float64)
        for shape in ((ROWS, 3), (count, 3), (ROWS, DIM), (3, feature_map.num_features))
    )
    torch.testing.assert_close(at.weighted_jvp(weights, directions), weights.T @ at.jvp(directions))
    torch.testing.assert_close(at.weighted_vjp(weights, cotangents), at.vjp(weights @ cotangents))
    combined = weights.T @ at.jvp(directions) + change.T @ at.features[:count]
    image, moments = at.normal_product(weights, directions, change)
    torch.testing.assert_close(image, at.vjp(weights @ combined))
    torch.testing.assert_close(moments, at.features[:count] @ combined.T)


@pytest.mark.parametrize("rows", [slice(2, 6), torch.tensor([5, 0, 3])])
def test_a_subset_has_some_of_the_features_and_counts_in_the_same_counter(feature_map, inputs, rows):
    if feature_map.num_features < 6:
        pytest.skip("too few features")
    part = feature_map.subset(rows)
    torch.testing.assert_close(part.forward(inputs), feature_map.forward(inputs)[:, rows])
    assert part.num_features == len(torch.arange(feature_map.num_features)[rows])
    assert part.counter is feature_map.counter


def test_what_a_map_can_do_shows_in_its_type():
    kinds = {name: build() for name, build in MAPS.items()}
    one_layer = {name for name, each in kinds.items() if isinstance(each, OneLayerFeatures)}
    trained = {name for name, each in kinds.items() if isinstance(each, TrainedBody)}
    saveable = {name for name, each in kinds.items() if isinstance(each, Saveable)}
    assert one_layer == {name for name in MAPS if "random" in name or "first-layer" in name or "fourier" in name}
    assert trained == {name for name in MAPS if "module" in name or "first-layer" in name}
    assert saveable == {name for name in MAPS if not name.startswith(("fourier", "function"))} - {
        "reduced-module",
        "both-ends",
    }


def test_a_target_whose_features_no_file_describes_is_not_saved(tmp_path):
    feature_map = MAPS["both-ends"]()
    with pytest.raises(InputError, match="cannot be saved"):
        Target(feature_map, torch.ones(feature_map.num_features)).save(tmp_path)


def test_inactive_relus_get_the_slope_asked_for_and_only_they(inputs):
    for name in ("relu", "relu+tanh"):
        feature_map = MAPS[f"random-{name}"]()
        true, leaky = (feature_map.linearise(inputs, slope).slopes for slope in (0.0, 0.02))
        inactive = MAPS["random-relu"]().forward(inputs) == 0
        assert inactive.any()
        torch.testing.assert_close(leaky - true, 0.02 * inactive.double())
    smooth = MAPS["random-tanh"]()
    assert torch.equal(smooth.linearise(inputs, 0.02).slopes, smooth.linearise(inputs).slopes)
