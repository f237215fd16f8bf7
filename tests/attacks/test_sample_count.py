"""The number of samples: rows that match no sample are dropped."""

import pytest
import torch

from exhume import data
from exhume.attacks._base.stage import SearchResult
from exhume.attacks._search.sample_count import drop_idle_rows
from exhume.attacks._search.working_equation import working_equation
from exhume.results.stop import Stop
from exhume.victims import RandomFeatures

DIM = 20


@pytest.mark.parametrize("samples", [2, 3])
def test_an_idle_row_is_dropped_also_where_the_linear_part_becomes_an_unknown(problem_of, session_of, samples):
    """Up to d/10 = 2 samples the linear part is solved for jointly: it is a row of two samples, not of three."""
    training = data.load("sphere", dim=DIM, samples=samples, seed=0)
    target = RandomFeatures(num_features=30 * DIM).fit(training.inputs, training.labels).target()
    problem = problem_of(target, samples + 1)
    idle = torch.randn((1, DIM), generator=torch.Generator().manual_seed(1))
    rows = torch.cat([training.inputs, problem.sphere.retract(idle)])
    assert working_equation(problem, samples + 1).num_linear == 0
    found = SearchResult(rows, samples + 1, Stop.CONVERGED, problem, 1, 0, working=True)
    fewer = drop_idle_rows(found, session_of(problem))
    assert (fewer.num_samples, fewer.stop) == (samples, Stop.CONVERGED)
    assert len(fewer.rows) == samples + (1 if samples == 2 else 0)
    cosines = torch.nn.functional.cosine_similarity(fewer.rows[:samples], training.inputs).abs()
    assert float(cosines.min()) > 1 - 1e-6
    assert [count for count, _ in fewer.evidence["residuals"]] == [samples]


def test_samples_are_not_dropped(problem_of, session_of):
    training = data.load("sphere", dim=DIM, samples=3, seed=0)
    target = RandomFeatures(num_features=30 * DIM).fit(training.inputs, training.labels).target()
    problem = problem_of(target, 3)
    found = SearchResult(training.inputs, 3, Stop.CONVERGED, problem, 1, 0, working=True)
    assert drop_idle_rows(found, session_of(problem)) is found
    fewer = drop_idle_rows(found, session_of(problem), thorough=True)
    assert (fewer.num_samples, fewer.stop) == (3, Stop.CONVERGED)
    (count, residual) = fewer.evidence["residuals"][0]
    assert count == 2
    assert residual > 1e-3
