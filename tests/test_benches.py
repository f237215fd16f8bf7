"""The machinery of the benches: fitted exponents, timed operations, compared passes, and the victims of unmixing."""

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from benches import unmix
from benches.broken_premises import batch_normalised
from benches.headline import Case, chosen
from benches.hot_loop import DRAWS, PRODUCTS, profiled
from benches.laptop import CASES, limit_of
from benches.ordinary_networks import RECIPES, Network, Recipe, train, victim
from benches.passes import Cost, compared
from benches.pictures import draw
from benches.scaling import Size, fit_power, fitted
from benches.seeds import SEEDS, cases
from benches.unmix_cases import GROUPS, Bar
from benches.unmix_cases import Case as UnmixCase
from benches.unmix_defences import CASES as DEFENCES
from benches.unmix_defences import digits as digits_of_classes
from benches.unmix_defences import noisy


def test_a_power_law_is_fitted_exactly_and_without_error():
    fit = fit_power([5, 10, 20, 40], [3 * n**1.7 for n in (5, 10, 20, 40)])
    assert fit.exponent == pytest.approx(1.7)
    assert fit.factor == pytest.approx(3)
    assert fit.standard_error == pytest.approx(0, abs=1e-6)
    assert fit(80) == pytest.approx(3 * 80**1.7)


def test_the_standard_error_covers_the_exponent_of_noisy_points():
    generator = torch.Generator().manual_seed(0)
    inside = 0
    for _ in range(200):
        noise = torch.randn(8, generator=generator).mul(0.1).exp().tolist()
        sizes = [2.0**k for k in range(8)]
        fit = fit_power(sizes, [n**0.5 * each for n, each in zip(sizes, noise, strict=True)])
        inside += abs(fit.exponent - 0.5) < 2.45 * fit.standard_error  # 95 % of Student's t with 6 degrees of freedom
    assert 180 <= inside <= 199


def test_sizes_that_were_not_solved_are_not_fitted():
    sizes = [Size(n, 4 * n, 10.0 * n, 1.0 * n**3, 1.0 * n**2, ("exact", "failed")) for n in (5, 10)]
    fits = fitted([*sizes, Size(20, 80, 1e6, 1e6, 1e6, ("failed", "approximate"))])
    assert fits["seconds"].exponent == pytest.approx(3)
    assert math.isnan(fits["passes"].standard_error)
    assert fitted(sizes[:1]) == {}


@pytest.fixture
def ticking(monkeypatch):
    """A clock that is a second later whenever the profile reads it: an operation takes a second, and so does Python."""
    readings = itertools.count()
    monkeypatch.setattr("benches.hot_loop.time", SimpleNamespace(perf_counter=lambda: float(next(readings))))


def test_a_loop_of_matrix_products_is_timed_as_products(ticking):
    values = torch.ones(3, 3)
    with profiled() as profile:
        for _ in range(20):
            torch.addmm(values, values, values @ values).neg_()
    assert profile.calls == {"mm": 20, "addmm": 20, "neg": 20}
    assert profile.seconds == {"mm": 20.0, "addmm": 20.0, "neg": 20.0}
    assert profile.wall == 121
    assert profile.share(PRODUCTS) == 40 / 121
    assert profile.outside == pytest.approx(61 / 121)


def test_a_loop_of_other_operations_is_not_timed_as_products(ticking):
    values = torch.ones(3, 3)
    with profiled() as profile:
        for _ in range(50):
            values = values.exp().sin()
    assert profile.share(PRODUCTS) == 0
    assert profile.seconds == {"exp": 50.0, "sin": 50.0}


def test_operations_of_other_threads_are_timed_too(ticking):
    with profiled() as profile, ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: torch.randn(3, 3)).result()
    assert profile.calls["randn"] == 1
    assert profile.share(DRAWS) == 1 / (3 * torch.get_num_threads())


def test_after_the_block_nothing_is_timed():
    with profiled() as profile:
        pass
    torch.ones(3).neg()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: torch.ones(3).neg()).result()
    assert profile.calls == {}


def test_more_passes_than_allowed_or_fewer_exact_attacks_are_worse():
    before = Cost((90.0, 100.0, 300.0), exact=3)
    assert not Cost((125.0, 125.0, 900.0), exact=3).exceeds(before)
    assert Cost((126.0, 126.0, 100.0), exact=3).exceeds(before)
    assert Cost((50.0, 50.0, 50.0), exact=2).exceeds(before)
    rows = compared({"known": before}, {"known": Cost((200.0,), 3), "new": before})
    assert [row[-1] for row in rows] == ["worse", "not recorded"]


def test_cases_are_chosen_by_words_of_their_names(monkeypatch):
    cases = [Case(f"figure_seed{seed}", "cifar10", 1, 1, seed) for seed in range(3)]
    monkeypatch.delenv("EXHUME_BENCH_CASES", raising=False)
    assert chosen(cases) == cases
    monkeypatch.setenv("EXHUME_BENCH_CASES", "seed0, seed2")
    assert [case.seed for case in chosen(cases)] == [0, 2]
    monkeypatch.setenv("EXHUME_BENCH_CASES", "elsewhere")
    with pytest.raises(SystemExit, match="figure_seed1"):
        chosen(cases)


def test_every_laptop_case_has_a_limit():
    assert {limit_of(case).attribute for case in CASES} == {"seconds", "passes", "peak_gb"}


def test_the_seeds_bench_has_50_models_with_a_seed_in_the_range_and_10_without():
    inside = [case for case in cases() if case.inside]
    outside = [case for case in cases() if not case.inside]
    assert (len(inside), len(outside)) == (50, 10)
    assert all(case.seed in SEEDS for case in inside)
    assert not any(case.seed in SEEDS for case in outside)
    assert len({case.path for case in cases()}) == len({case.seed for case in cases()}) == 60


def digits(outputs=5, samples=10):
    """Pictures that need no data folder."""
    return draw("digits", 8, max(outputs, 2), samples, 1)


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_moves_the_first_layer_in_the_span_of_its_inputs(name):
    found = train(Network((64, 60, 5)), RECIPES[name], digits(), seed=1)
    state = found.module.state_dict()
    moved = torch.cat([(state[key] - found.initial[key]).reshape(60, -1) for key in ("0.weight", "0.bias")], 1)
    inputs = torch.cat([found.pictures.inputs, torch.ones(10, 1)], 1)
    basis = torch.linalg.qr(inputs.double().T).Q
    outside = moved.double() - moved.double() @ basis @ basis.T
    assert outside.norm() < 1e-4 * moved.norm()
    assert found.loss < 0.3 * found.loss_before
    assert not found.module.training


def test_dead_networks_and_goals_that_were_not_reached_count_as_diverged():
    found = train(Network((64, 20, 5)), Recipe(0.05, 50), digits(), 0)
    assert not found.diverged
    assert replace(found, until=1e-6).diverged
    dead = {name: -torch.ones_like(value) * (name == "0.bias") for name, value in found.module.state_dict().items()}
    assert found.with_weights(dead).diverged


def test_training_that_diverges_is_reported_and_not_attacked():
    diverging = Recipe(1e3, 20)
    case = UnmixCase("g", ("64-20-5", "r", "10"), 0, lambda: train(Network((64, 20, 5)), diverging, digits(), 0))
    found = unmix.measure(replace(case, method="no such attack", bar=Bar(1e-3, 0.5)))
    assert found.verdict == "diverged"
    row = unmix.cells([replace(case, bar=Bar(1e-3, 0.5))], [found])
    assert "1 diverged" in row
    assert row[-1] == "no"


def test_merged_batch_normalisation_acts_as_the_two_layers(monkeypatch):
    monkeypatch.setattr("benches.ordinary_networks.sources", lambda outputs: ("digits",))
    merged = batch_normalised(1)
    apart = victim(Network((256, 512, 512, 5), batch_norm=True), RECIPES["batches, momentum"], 10, 1)
    assert len(merged.module) == len(apart.module) - 1
    outputs = [each.module(apart.pictures.inputs) for each in (merged, apart)]
    torch.testing.assert_close(*outputs, rtol=1e-4, atol=1e-4)
    assert merged.initial.keys() == merged.module.state_dict().keys()


def proposal(samples, verdict, bars):
    certificate = SimpleNamespace(verdict=verdict, predicted_errors=bars)
    return SimpleNamespace(
        samples=samples, certificate=certificate, signs_determined=True, norms_determined=True, labels=None
    )


def test_certified_samples_are_wrong_beyond_their_bars_and_exact_ones_beyond_a_thousandth():
    truth = torch.eye(4) * 2
    off = torch.diag(torch.tensor([2.0, 2.01, 2.1, 3.0]))  # errors 0, 0.005, 0.05, 0.5
    held = SimpleNamespace(pictures=SimpleNamespace(inputs=truth))
    assert unmix.certified(proposal(off, "approximate", (0.01,) * 4), held) == [False, False, True, True]
    assert unmix.certified(proposal(off, "approximate", (0.02, 0.02, 0.02, 0.2)), held) == [False, False, False]
    assert unmix.certified(proposal(off, "exact", (1e-4,) * 4), held) == [False, True, True, True]
    assert unmix.certified(proposal(off, "failed", (1e-4,) * 4), held) == []


def test_samples_without_a_row_are_not_recovered():
    pictures = digits()
    held = SimpleNamespace(pictures=pictures)
    errors, ssim = unmix.against_truth(proposal(pictures.inputs[:4], "exact", (1e-5,) * 4), held)
    assert sorted(error > 0.5 for error in errors) == [False] * 4 + [True] * 6
    assert ssim == pytest.approx(0.4, abs=1e-3)
    errors, _ = unmix.against_truth(proposal(pictures.inputs[:0], "failed", ()), held)
    assert errors == (1.0,) * 10


def test_finished_cases_are_skipped_and_a_torn_line_is_measured_again(tmp_path, monkeypatch):
    cases = [UnmixCase("g", ("net", "recipe", "1"), seed, lambda: None) for seed in range(3)]
    measured = []
    monkeypatch.setattr(
        unmix, "measure", lambda case: measured.append(case.seed) or unmix.Measured(case.key, (1e-5,), "exact")
    )
    store = tmp_path / "new" / "store.jsonl"
    unmix.run(cases[:2], store)
    store.write_text(store.read_text()[:-9])
    found = unmix.run(cases, store)
    assert measured == [0, 1, 1, 2]
    assert unmix.finished(store) == found


def test_cases_of_unmixing_have_keys_of_their_own():
    keys = [case.key for group in GROUPS.values() for case in group()]
    assert len(set(keys)) == len(keys)
    assert sum(key.startswith("certificate/") for key in keys) == 260


def test_an_unknown_group_of_unmixing_is_refused(monkeypatch):
    monkeypatch.setenv("EXHUME_BENCH_CASES", "simudy, nothing")
    with pytest.raises(SystemExit, match="nothing"):
        unmix.chosen_groups()


def test_noise_of_the_defences_bench_has_its_share_of_the_displacement_and_stays_in_the_first_layer():
    generator = torch.Generator().manual_seed(0)
    before = {"0.weight": torch.zeros(256, 64), "0.bias": torch.zeros(256), "2.weight": torch.zeros(5, 256)}
    after = {name: torch.randn(each.shape, generator=generator) for name, each in before.items()}
    released = noisy(0.01)(before, after, generator)

    def length(state):
        return float(torch.cat([state["0.weight"].flatten(), state["0.bias"]]).norm())

    added = {name: released[name] - after[name] for name in after}
    assert length(added) / length(after) == pytest.approx(0.01, rel=0.03)
    assert torch.equal(released["2.weight"], after["2.weight"])


def test_int8_of_the_defences_bench_has_at_most_255_values():
    weights = {"0.weight": torch.randn(256, 64, generator=torch.Generator().manual_seed(0))}
    _, release = DEFENCES["int8"]
    rounded = release({}, weights, torch.Generator())["0.weight"]
    assert len(rounded.unique()) <= 255
    assert float((rounded - weights["0.weight"]).abs().max()) <= float(weights["0.weight"].abs().max()) / 254 * 1.001


def test_held_out_digits_of_the_defences_bench_are_no_training_digits():
    own, again = digits_of_classes(0), digits_of_classes(0)
    assert torch.equal(own.inputs, again.inputs)
    assert own.labels.bincount().tolist() == [4] * 5
    assert float(torch.cdist(own.inputs, own.other_inputs).min()) > 0
