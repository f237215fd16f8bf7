"""The passes of a few tiny problems do not exceed those in benches/passes.json."""

import pytest
from benches.passes import ALLOWED, PROBLEMS, QUICK, cost, recorded


@pytest.mark.parametrize("name", QUICK)
def test_a_tiny_problem_takes_no_more_passes_than_recorded(name):
    results = [QUICK[name].attack(seed) for seed in range(QUICK[name].seeds)]
    now = cost([(result.passes, result.certificate.verdict) for result in results])
    before = recorded()[name]
    assert now.median <= ALLOWED * before.median, (now, before)
    assert now.exact >= before.exact


def test_every_problem_is_recorded_with_all_its_seeds():
    assert {name: len(each.passes) for name, each in recorded().items()} == {
        name: problem.seeds for name, problem in PROBLEMS.items()
    }
