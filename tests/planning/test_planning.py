"""Plans: passes, memory and time follow the sizes, the hardware and the measurements they are fitted to."""

import json
import math
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import psutil
import pytest
import torch

import exhume
from exhume import data
from exhume.attacks._base.tuning import DEFAULT_TUNING
from exhume.attacks._search.schedule import schedule
from exhume.errors import InputError
from exhume.planning import GPU, Hardware, outlook, plan
from exhume.planning import passes as known
from exhume.planning.hardware import available_memory

SMALL = Hardware("a box", flops=1e11, bandwidth=1e10, memory=10**12, drawing=1e8)
CLUSTER = replace(GPU, name="a thousand GPUs", processes=1000, network=25e9)


def planned(samples, *, dim=3072, ratio=3.0, hardware=SMALL, outputs=1):
    return plan(outputs * round(ratio * dim * samples / outputs), dim, samples, outputs, hardware)


@pytest.mark.parametrize("ratio", [1.2, 3.0, 10.0])
def test_more_samples_at_the_same_ratio_never_cost_less(ratio):
    few = () if ratio < 2 else (1, 2)  # which need p > 2d and 2.7d with relu
    costs = [planned(samples, ratio=ratio).cost for samples in (*few, 10, 100, 1000, 10_000, 10**6)]
    for less, more in pairwise(costs):
        assert less.flops < more.flops
        assert less.memory_kept < more.memory_kept
        assert less.memory_regenerated < more.memory_regenerated
        if more.seconds is not None:
            assert less.seconds < more.seconds


def test_more_samples_in_the_same_model_never_cost_less():
    costs = [plan(10**6, 1000, samples, hardware=SMALL).cost for samples in (10, 50, 100, 300, 400, 900)]
    assert all(less.flops < more.flops and less.seconds < more.seconds for less, more in pairwise(costs))


def test_parameters_beyond_those_that_are_read_change_the_unit_of_passes_and_are_read_once():
    ratio = DEFAULT_TUNING.schedule.in_basis
    near, far = planned(100, ratio=ratio).cost, planned(100, ratio=10 * ratio).cost
    assert far.coordinates == near.coordinates
    last = 9 * (near.per_pass.of_a_pass + near.per_pass.first_drawing)
    assert far.seconds == pytest.approx(near.seconds + last)
    assert far.full_passes == pytest.approx(near.passes / 10 + 0.9)
    assert near.full_passes == pytest.approx(near.passes)


def test_units():
    cost = planned(100).cost
    assert cost.coordinates == cost.width == 921_600
    assert cost.matrix_bytes == 4 * 921_600 * 3072
    pass_alone = 2 * 921_600 * 3072 * 100
    assert pass_alone <= cost.flops / cost.passes <= 1.01 * pass_alone
    assert cost.per_pass.products == pytest.approx(cost.flops / cost.passes / 1e11)
    assert cost.per_pass.reading == pytest.approx(known.READS_PER_PASS_IN_A_BASIS * cost.matrix_bytes / 1e10)
    assert cost.per_pass.first_drawing == pytest.approx(921_600 * 3072 / 1e8)
    assert cost.seconds == pytest.approx(cost.passes * cost.per_pass.of_a_pass + cost.per_pass.first_drawing)


def test_a_pass_takes_the_longer_of_products_and_reading_and_then_the_rest():
    fast = replace(SMALL, flops=1e18)
    parts = planned(100, hardware=fast).cost.per_pass
    assert parts.products < parts.reading
    assert parts.of_a_pass == pytest.approx(parts.reading + parts.tables + parts.overhead)
    slower = planned(100, hardware=replace(fast, bandwidth=1e9)).cost.per_pass
    assert slower.of_a_pass > 9 * parts.of_a_pass


def test_v_is_kept_as_precisely_as_the_memory_allows(monkeypatch):
    monkeypatch.setattr(known, "HALF_PRECISION_SHARE", 0.75)
    cost = planned(100).cost
    assert cost.regime == "kept"
    assert cost.memory == cost.memory_kept == cost.memory_half + cost.matrix_bytes // 2
    regimes = {}
    for memory in (cost.memory_kept, cost.memory_half, cost.memory_regenerated):
        for short in (0, 1):
            regimes[memory - short] = planned(100, hardware=replace(SMALL, memory=memory - short)).cost
    assert [each.regime for each in regimes.values()] == [
        "kept", "half precision", "half precision", "regenerated", "regenerated", "too large",
    ]  # fmt: skip
    times = [each.seconds for each in regimes.values()]
    assert times[:5] == sorted(times[:5])
    assert times[0] < times[2] < times[4]
    assert times[5] is None
    assert all(each.memory <= limit for limit, each in list(regimes.items())[:5])


def test_an_attack_without_half_precision_draws_v_anew_instead(monkeypatch):
    monkeypatch.setattr(known, "HALF_PRECISION_SHARE", 0.0)
    tight = replace(SMALL, memory=planned(100).cost.memory_half)
    assert planned(100, hardware=tight).cost.regime == "regenerated"


def test_drawing_v_anew_costs_its_numbers_in_every_pass():
    tight = replace(SMALL, memory=planned(100).cost.memory_regenerated)
    parts = planned(100, hardware=tight).cost.per_pass
    assert parts.drawing == pytest.approx(known.READS_PER_PASS_IN_A_BASIS * 921_600 * 3072 / 1e8)
    assert parts.first_drawing == 0


def test_processes_share_the_coordinates_and_pay_for_the_network():
    alone = planned(100).cost
    shared = planned(100, hardware=replace(SMALL, processes=4, network=1e9)).cost
    assert shared.per_pass.products == pytest.approx(alone.per_pass.products / 4)
    assert shared.flops == alone.flops
    assert shared.memory_kept < alone.memory_kept / 2
    assert alone.per_pass.network == 0
    # Ring all-reduce: every process sends 2 (P - 1) / P of the n x d numbers, once for every two passes.
    assert shared.per_pass.network == pytest.approx(2 * 3 / 4 * 4 * 100 * 3072 / 2 / 1e9, rel=0.05)
    slow = planned(100, hardware=replace(SMALL, processes=4, network=1e3)).cost
    assert slow.per_pass.of_a_pass > 1e6 * shared.per_pass.network


def test_the_law_comes_first():
    none = planned(100, ratio=0.9)
    assert none.law.verdict == "labels only"
    assert none.cost is None
    assert "any hardware" in none.sentence
    assert none.to_json()["cost"] is None
    assert planned(100, ratio=1.5).cost.passes > planned(100, ratio=3).cost.passes


def test_a_plan_is_json():
    value = json.loads(json.dumps(planned(100, hardware=CLUSTER).to_json(), allow_nan=False))
    assert set(value) == {"sentence", "law", "cost", "hardware"}
    assert value["cost"]["memory"] == value["cost"]["memory_kept"]
    assert value["law"]["num_samples"] == 100
    assert value["hardware"]["processes"] == 1000
    large = planned(10**6, hardware=GPU).to_json()
    assert large["cost"]["seconds"] is None
    assert large["cost"]["regime"] == "too large"
    assert large["sentence"].startswith("Does not fit one GPU")


def test_sizes_beyond_the_measurements_are_called_so():
    assert not planned(30).cost.extrapolated
    assert planned(10_000).cost.extrapolated
    assert planned(30, dim=150_528).cost.extrapolated
    assert planned(30, ratio=1.1).cost.extrapolated


@pytest.mark.parametrize("outputs", [1, 10])
def test_the_power_law_meets_what_it_was_fitted_to(outputs):
    fitted = known.law_of_passes(outputs)
    for each in known.ONE_OUTPUT if outputs == 1 else known.SEVERAL_OUTPUTS:
        told = fitted(each.input_dim, each.num_samples, each.ratio)
        assert max(told / each.passes, each.passes / told) <= fitted.misfit * (1 + 1e-9) < 3
    assert fitted.of_samples > 0
    assert fitted.of_ratio <= 0


def test_a_power_law_is_found_again():
    true = [(d, n, r, 7 * n**0.5 * d**-0.25 * r**-1.5) for d in (10, 99) for n in (3, 50) for r in (2, 4)]
    fitted = known.fit([known.Measured(d, n, r, passes, "made up") for d, n, r, passes in true])
    found = (fitted.factor, fitted.of_samples, fitted.of_dim, fitted.of_ratio, fitted.misfit)
    assert found == pytest.approx((7, 0.5, -0.25, -1.5, 1))
    (alone,) = [known.fit([known.Measured(*each, "made up") for each in true if each[0] == 10])]
    assert alone.of_dim == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("dim", "samples", "ratio", "outputs"),
    [(300, 5, 3, 1), (300, 5, 3.8, 1), (300, 5, 12, 1), (90, 12, 12, 1), (30, 5, 12, 1), (300, 5, 12, 2)],
)
@pytest.mark.parametrize("activation", ["relu", "softplus"])
def test_the_plan_reads_as_many_coordinates_as_the_attack_does_at_first(
    dim, samples, ratio, outputs, activation, monkeypatch
):
    training = data.load("sphere", dim=dim, samples=samples, seed=0)
    labels = training.labels if outputs == 1 else torch.eye(outputs)[torch.arange(samples) % outputs]
    width = round(ratio * dim * samples)
    victim = exhume.RandomFeatures(num_features=width, activation=activation).fit(training.inputs, labels)
    target, read = victim.target(), []

    def watched(*arguments):
        for problem in schedule(*arguments):
            read.append(problem.features.num_features)
            yield problem

    monkeypatch.setattr("exhume.attacks.exact.schedule", watched)
    exhume.reconstruct(target, num_samples=samples, max_passes=2)
    # Several outputs are searched directly, on all coordinates.
    cost = plan(width * outputs, dim, samples, outputs, SMALL, activation).cost
    assert cost.coordinates == (read[0] if read else width)
    assert bool(read) == (outputs == 1)


def test_passes_are_predicted_within_a_factor_of_three():
    training = data.load("sphere", dim=30, samples=15, seed=3)
    victim = exhume.RandomFeatures(num_features=3 * 30 * 15, seed=3).fit(training.inputs, training.labels)
    cost = plan(3 * 30 * 15, 30, 15, hardware=SMALL).cost
    measured = exhume.reconstruct(victim.target(), num_samples=15, seed=3)
    assert not cost.extrapolated
    assert measured.certificate.verdict == "exact"
    assert cost.full_passes / 3 < measured.passes < 3 * cost.full_passes


def test_the_probe_measures_positive_finite_speeds():
    threads = torch.get_num_threads()
    here = Hardware.probe((400, 5), dim=64, coordinates=1500)
    speeds = [here.flops, here.bandwidth, here.drawing, here.conversion, *(speed for _, speed in here.flops_by_rows)]
    assert all(0 < speed < math.inf for speed in speeds)
    assert [rows for rows, _ in here.flops_by_rows] == [5, 300]
    assert here.name == (
        "this machine (1 core)" if here.cores == 1 else f"this machine (1 thread on {here.cores} cores)"
    )
    assert torch.get_num_threads() == threads


def test_this_machine_is_the_default():
    here = plan(2000, 20, 10).hardware
    assert here.name.startswith("this machine")
    assert 0 < here.memory < math.inf
    assert here.cores >= 1
    assert here.processes == 1


def test_speeds_between_measured_rows_are_interpolated():
    measured = replace(SMALL, flops=9e10, flops_by_rows=((10, 1e10), (1000, 9e10)))
    assert [measured.speed(rows) for rows in (1, 10, 1000, 10**6)] == pytest.approx([1e10, 1e10, 9e10, 9e10])
    assert measured.speed(100) == pytest.approx(3e10)
    assert SMALL.speed(1) == SMALL.flops


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"flops": 0}, "flops is 0"),
        ({"bandwidth": -1.0}, "bandwidth is -1.0"),
        ({"drawing": math.inf}, "drawing is inf"),
        ({"network": math.nan}, "network is nan"),
        ({"memory": 0}, "memory is 0"),
        ({"memory": "lots"}, "'lots' is not a size"),
        ({"processes": 0}, "processes is 0"),
        ({"processes": 8}, "processes is 8 and no network is given"),
    ],
)
def test_impossible_hardware_is_refused(change, told):
    with pytest.raises(InputError, match=told):
        replace(SMALL, **change)


def test_memory_is_what_the_system_has_available_within_a_container(tmp_path, monkeypatch):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=12_000_000))
    limit = tmp_path / "memory.max"
    assert available_memory([limit]) == 12_000_000
    limit.write_text("max\n")
    assert available_memory([limit]) == 12_000_000
    limit.write_text("1000000\n")
    assert available_memory([limit]) == 1_000_000


def test_the_outlook_reaches_a_million_pictures_of_imagenet():
    rows = outlook(SMALL, others=(GPU, CLUSTER))
    last = rows[-1]
    assert (last.data, last.law.input_dim, last.law.num_samples) == ("ImageNet", 150_528, 10**6)
    assert last.law.num_parameters == 3 * 150_528 * 10**6
    assert last.law.verdict == "reconstructible"
    assert last.verdict.startswith("out of reach")
    assert last.of_last_layer.verdict == "not even labels"
    assert last.of_last_layer.largest_samples == 0  # 2,048 features, whatever the outputs, are fewer than d
    assert rows[0].verdict.endswith("on a box")
    assert any(row.verdict.endswith("on a thousand GPUs") for row in rows)
    json.dumps([row.to_json() for row in rows], allow_nan=False)
