"""The machinery of the benches: fitted exponents, the timer of operations, and the comparison of passes."""

import math
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from benches.headline import Case, chosen
from benches.hot_loop import DRAWS, PRODUCTS, profiled
from benches.laptop import CASES, limit_of
from benches.passes import Cost, compared
from benches.scaling import Size, fit_power, fitted


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


def test_a_loop_of_matrix_products_is_timed_as_products():
    values = torch.ones(600, 600)
    with profiled() as profile:
        for _ in range(20):
            torch.addmm(values, values, values @ values).neg_()
    assert (profile.calls["addmm"], profile.calls["mm"], profile.calls["neg"]) == (20, 20, 20)
    assert profile.share(PRODUCTS) > 0.9
    assert profile.share(PRODUCTS) + profile.outside <= 1


def test_a_loop_of_other_operations_is_not_timed_as_products():
    values = torch.ones(400, 400)
    with profiled() as profile:
        for _ in range(50):
            values = values.exp().sin()
    assert profile.share(PRODUCTS) == 0
    assert profile.seconds["exp"] + profile.seconds["sin"] > 0.5 * profile.wall


def test_operations_of_other_threads_are_timed_too():
    with profiled() as profile, ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: torch.randn(3000, 3000)).result()
    assert profile.calls["randn"] == 1
    assert profile.share(DRAWS) > 0.8 / torch.get_num_threads()


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
