"""A head of as many outputs as samples: single samples' features are found in its rows, and the samples behind them."""

import math

import pytest
import torch

import exhume
from exhume import data
from exhume.attacks._base.output_tuning import IndependentTuning
from exhume.attacks._base.session import Budget, Session
from exhume.attacks._search.direct import DirectSearch
from exhume.attacks._search.unmixing.feature_rows import FeatureSearch, solve_for_inputs, spans_features
from exhume.attacks._search.unmixing.independent_rows import independent_components, independent_rows
from exhume.solvers import CGOptions

DIM, SAMPLES, FEATURES = 12, 5, 120


@pytest.fixture(scope="module")
def training():
    return data.load("sphere", dim=DIM, samples=SAMPLES)


def head(training, outputs=SAMPLES, activation="relu"):
    labels = torch.randn((SAMPLES, outputs), generator=torch.Generator().manual_seed(1))
    return exhume.RandomFeatures(FEATURES, activation=activation).fit(training.inputs, labels).target()


def cosines(rows, others):
    """The largest cosine of every one of the others with a row."""
    unit, other = (torch.nn.functional.normalize(each, dim=1) for each in (rows, others))
    return (unit @ other.T).amax(0)


def test_vectors_are_the_features_of_samples_and_rows_the_samples(training, problem_of, session_of):
    target = head(training)
    problem = problem_of(target, SAMPLES)
    search, session = FeatureSearch(problem, SAMPLES), session_of(problem)
    state = search.begin(session.generator)
    while search.finished(state) is None:
        state = search.advance(state, session)
    features = state.vectors @ torch.linalg.svd(target.displacement, full_matrices=False)[2]
    assert float(cosines(features, target.features.forward(training.inputs)).min()) > 0.999
    assert float(cosines(search.give_up(state, search.finished(state), session).rows, training.inputs).min()) > 0.999


def test_inputs_solve_the_weighted_least_squares_problem(training, problem_of):
    features = problem_of(head(training), SAMPLES).one_layer
    generator = torch.Generator().manual_seed(2)
    values, weights = (torch.rand((3, FEATURES), generator=generator) for _ in range(2))
    matrix = features.matvec(torch.eye(DIM)).T  # V
    solved = solve_for_inputs(features, values, weights, CGOptions(100, 1e-6))
    for value, weight, found in zip(values, weights, solved, strict=True):
        root = weight.sqrt()
        right = torch.linalg.lstsq(root[:, None] * matrix, (root * value)[:, None]).solution[:, 0]
        torch.testing.assert_close(found, right, rtol=1e-3, atol=1e-4)


def test_rows_that_no_start_found_are_random(training, problem_of, session_of):
    problem = problem_of(head(training), SAMPLES)
    search, session = FeatureSearch(problem, SAMPLES), session_of(problem)
    rows = search.give_up(search.begin(session.generator), exhume.Stop.TIME_LIMIT, session).rows
    assert rows.shape == (SAMPLES, DIM)
    torch.testing.assert_close(rows.norm(dim=1), torch.full((SAMPLES,), math.sqrt(DIM)))


@pytest.mark.parametrize(("outputs", "spanned"), [(SAMPLES, True), (SAMPLES + 3, True), (SAMPLES - 1, False)])
def test_the_head_spans_the_features_of_no_more_samples_than_outputs(training, problem_of, outputs, spanned):
    assert spans_features(problem_of(head(training, outputs), SAMPLES), SAMPLES) is spanned


def test_known_samples_leave_the_features_to_the_direct_search(training, problem_of):
    target = head(training)
    known = target.with_knowledge(target.knowledge.knowing(samples=training.inputs[:1]))
    assert not spans_features(problem_of(known, SAMPLES - 1), SAMPLES - 1)


def test_independent_components_are_the_sources_of_a_mixture():
    generator = torch.Generator().manual_seed(0)
    sources = torch.randn((4, 5000), generator=generator).double() ** 3
    mixed = torch.randn((6, 4), generator=generator).double() @ sources
    parts = independent_components(mixed, 4, IndependentTuning())
    torch.testing.assert_close(parts @ parts.T / 5000, torch.eye(4).double())
    centred = sources - sources.mean(1, keepdim=True)
    assert float(cosines(torch.cat([parts, -parts]), centred).min()) > 0.99


@pytest.mark.parametrize("activation", ["gelu", "tanh"])
def test_smooth_features_are_independent_components(training, problem_of, activation):
    labels = torch.randn((SAMPLES, SAMPLES), generator=torch.Generator().manual_seed(1))
    target = exhume.RandomFeatures(2000, activation=activation).fit(training.inputs, labels).target()
    rows = independent_rows(problem_of(target, SAMPLES), SAMPLES)
    if activation == "tanh":  # an odd function: signs are hidden
        rows = torch.cat([rows, -rows])
    assert float(cosines(rows, training.inputs).min()) > 0.9


def test_the_direct_search_begins_at_given_rows(training, problem_of):
    problem = problem_of(head(training), SAMPLES)
    state = DirectSearch(problem, SAMPLES, 1, training.inputs).begin(torch.Generator())
    torch.testing.assert_close(state.rows, training.inputs)
    assert state.losses[-1] < 1e-10


def test_near_the_wall_one_start_finds_all_samples(training):
    """1.6 times the wall of 31 features."""
    labels = torch.eye(SAMPLES)
    target = exhume.RandomFeatures(50).fit(training.inputs, labels).target()
    result = exhume.Exact(max_starts=1)(target, num_samples=SAMPLES)
    assert result.certificate.verdict == "exact"
    assert exhume.score(result, training.inputs).claimed_error < 1e-3


@pytest.mark.parametrize(
    ("outputs", "budget", "asked", "starts"),
    [(1, math.inf, None, 8), (1, 100, None, 8), (2, math.inf, None, 8), (2, 100, None, 10_000), (2, 100, 3, 3)],
)
def test_with_several_outputs_a_budget_takes_the_place_of_a_number_of_starts(
    training, problem_of, outputs, budget, asked, starts
):
    problem = problem_of(head(training, outputs), SAMPLES)
    session = Session(problem.features, torch.Generator(), budget=Budget(max_passes=budget))
    assert exhume.Exact(max_starts=asked)._starts(problem, session) == starts
