"""The annealed phase: steps of several runs against the equation's own, and samples found near the wall."""

import math
from dataclasses import replace

import pytest
import torch

import exhume
from exhume import data
from exhume.attacks._base.problem import Problem
from exhume.attacks._base.session import Budget, Session
from exhume.attacks._base.tuning import DEFAULT_TUNING
from exhume.attacks._search.direct import DirectSearch
from exhume.attacks._search.on_subsets.annealing import Annealing, AnnealingState, crossed, newton_steps
from exhume.features import PassCounter
from exhume.results.stop import Stop
from exhume.support import serialise
from exhume.wall import Wall

DIM, SAMPLES, OUTPUTS = 12, 8, 3
RIDGE = DEFAULT_TUNING.equation.ridge


def problem(times_the_wall=1.6, activation="relu", known=0, tuning=DEFAULT_TUNING):
    """The samples, and an attack's problem of random features with three outputs."""
    wall = Wall(DIM, OUTPUTS, SAMPLES, active_share=0.5).features()
    training = data.load("sphere", dim=DIM, samples=SAMPLES, seed=3)
    labels = torch.randint(2, (SAMPLES, OUTPUTS), generator=torch.Generator().manual_seed(3)) * 2.0 - 1
    width = math.ceil(times_the_wall * wall)
    target = exhume.RandomFeatures(num_features=width, activation=activation).fit(training.inputs, labels).target()
    if known:
        target = replace(target, knowledge=target.knowledge.knowing(samples=training.inputs[:known]))
    features = target.features.with_counter(PassCounter())
    return training.inputs, Problem(target, features, SAMPLES - known, tuning=tuning)


def drawn_rows(attacked, runs, count):
    rows = torch.randn((runs, count, DIM), generator=torch.Generator().manual_seed(1))
    return attacked.sphere.retract(rows.flatten(0, 1)).view_as(rows)


@pytest.mark.parametrize(("activation", "known"), [("relu", 0), ("tanh", 0), ("relu", 2)])
def test_the_steps_of_all_runs_are_those_of_the_equation(activation, known):
    """The oracle solves with the dense matrix of `Span.mean_normal` for one run at a time."""
    _, attacked = problem(activation=activation, known=known)
    equation = attacked.equation(ridge=RIDGE)
    rows = drawn_rows(attacked, 4, SAMPLES - known)
    steps, residuals = newton_steps(equation, rows, damping=0.015)
    for run, step, residual in zip(rows, steps, residuals, strict=True):
        point = equation.at(run)
        normal = equation.mean_normal(point)
        damped = normal + 0.015 * torch.diag(normal.diagonal())
        expected = torch.linalg.solve(damped, equation.gradient(point).double())
        torch.testing.assert_close(step.double(), expected, rtol=1e-2, atol=1e-3 * float(expected.abs().max()))
        assert float(residual) == pytest.approx(math.sqrt(point.loss), rel=1e-3)


def test_a_run_with_two_equal_rows_does_not_disturb_the_others():
    _, attacked = problem()
    equation = attacked.equation(ridge=0.0)
    rows = drawn_rows(attacked, 3, SAMPLES)
    alone, _ = newton_steps(equation, rows[1:], damping=0.015)
    rows[0, 1] = rows[0, 0]
    steps, residuals = newton_steps(equation, rows, damping=0.015)
    assert bool(torch.isfinite(steps).all())
    assert bool(torch.isfinite(residuals).all())
    torch.testing.assert_close(steps[1:], alone, rtol=1e-3, atol=1e-3 * float(alone.abs().max()))


def test_a_pass_is_counted_for_every_run():
    _, attacked = problem()
    equation = attacked.equation(ridge=RIDGE)
    counter = attacked.features.counter
    sizes = SAMPLES, attacked.features.num_features, DIM
    before = counter.passes(*sizes)
    newton_steps(equation, drawn_rows(attacked, 5, SAMPLES), damping=0.015)
    assert counter.passes(*sizes) - before == pytest.approx(2 * 5)


def test_large_problems_are_annealed_one_run_at_a_time_and_small_ones_side_by_side():
    _, attacked = problem()
    equation, generator = attacked.equation(ridge=RIDGE), torch.Generator()
    small = Annealing(equation, SAMPLES, attacked.sphere, DEFAULT_TUNING)
    assert small.begin(generator).rows.shape == (DEFAULT_TUNING.annealing.most_runs, SAMPLES, DIM)
    tuning = replace(DEFAULT_TUNING, annealing=replace(DEFAULT_TUNING.annealing, small_product=1))
    assert len(Annealing(equation, SAMPLES, attacked.sphere, tuning).begin(generator).rows) == 1


def ended(state, residual):
    """A phase that ended with this residual in all runs."""
    return replace(state, residuals=torch.full_like(state.residuals, residual))


def test_phases_keep_rows_while_the_residual_falls_and_then_begin_anew_with_more_steps():
    _, attacked = problem()
    annealing = Annealing(attacked.equation(ridge=RIDGE), SAMPLES, attacked.sphere, DEFAULT_TUNING)
    generator, tuning = torch.Generator(), DEFAULT_TUNING.annealing
    state, phases = annealing.begin(generator), []
    for residual in (0.12, 0.1, 0.11, 0.1):
        phases.append((state.hot, state.max_steps))
        state = annealing.begin(generator, ended(state, residual))
    first, kept = (tuning.hot, tuning.steps), (tuning.warm, tuning.steps)
    assert phases == [first, kept, kept, (tuning.hot, 2 * tuning.steps)]


def test_steps_have_a_limit():
    _, attacked = problem()
    annealing = Annealing(attacked.equation(ridge=RIDGE), SAMPLES, attacked.sphere, DEFAULT_TUNING)
    last = replace(ended(annealing.begin(torch.Generator()), 0.1), cycle=50, before=0.0)
    assert annealing.begin(torch.Generator(), last).max_steps == DEFAULT_TUNING.annealing.most_steps


def runs_that_agree(tuning):
    """Samples, and four runs of six rows in 40 dimensions: the first two have rows near samples 0, 1 and 2.

    The third run has one near sample 3, the fourth is best and has one near 3 and one near 0.
    """
    generator = torch.Generator().manual_seed(2)
    samples = torch.nn.functional.normalize(torch.randn((6, 40), generator=generator))
    rows = torch.nn.functional.normalize(torch.randn((4, 6, 40), generator=generator), dim=2)
    for run, held in enumerate([(0, 1, 2), (2, 0, 1), (3,), (3, 0)]):
        for place, sample in enumerate(held):
            rows[run, place] = samples[sample] + 0.03 * torch.randn(40, generator=generator)
    state = AnnealingState(
        rows, torch.zeros_like(rows), torch.tensor([0.2, 0.3, 0.4, 0.1]), tuning.hot, 0, math.inf, 9, 9
    )
    return samples, state


def near(samples, run):
    """Which samples a run has a row near."""
    cosines = torch.nn.functional.normalize(run) @ samples.T
    return {sample for sample in range(len(samples)) if float(cosines[:, sample].max()) > 0.9}


def test_runs_keep_the_rows_that_another_run_agrees_with_and_draw_the_others_anew():
    tuning = replace(DEFAULT_TUNING.annealing, taken_over=0.0)
    samples, last = runs_that_agree(tuning)
    fresh = torch.nn.functional.normalize(torch.randn((4, 6, 40), generator=torch.Generator().manual_seed(3)), dim=2)
    children = crossed(last, fresh, tuning, torch.Generator())
    # The better half are the fourth run and the first.
    assert [near(samples, child) for child in children] == [{0, 3}, {0, 1, 2}] * 2
    assert torch.equal(children[0, 2:], fresh[0, 2:])
    assert torch.equal(children[1, 3:], fresh[1, 3:])


def test_runs_take_over_what_others_agree_on_once():
    tuning = replace(DEFAULT_TUNING.annealing, taken_over=1.0)
    samples, last = runs_that_agree(tuning)
    fresh = torch.zeros_like(last.rows)
    for child in crossed(last, fresh, tuning, torch.Generator()):
        assert near(samples, child) == {0, 1, 2, 3}
        assert int((child.norm(dim=1) > 0).sum()) == 4  # no sample twice


def test_runs_that_agree_on_nothing_begin_anew():
    tuning = DEFAULT_TUNING.annealing
    _, last = runs_that_agree(tuning)
    drawn = torch.nn.functional.normalize(torch.randn((4, 6, 40), generator=torch.Generator().manual_seed(4)), dim=2)
    fresh = torch.zeros_like(drawn)
    assert torch.equal(crossed(replace(last, rows=drawn), fresh, tuning, torch.Generator()), fresh)


def test_annealed_starts_find_samples_near_the_wall_that_plain_ones_do_not():
    inputs, attacked = problem()
    session = Session(attacked.features, torch.Generator().manual_seed(0))
    plain = session.run_stage(DirectSearch(attacked, SAMPLES, 1))
    assert plain.stop is Stop.STARTS_SPENT
    found = session.run_stage(DirectSearch(attacked, SAMPLES, 8))
    assert found.stop is Stop.CONVERGED
    assert found.starts > 1
    cosines = torch.nn.functional.normalize(found.rows) @ torch.nn.functional.normalize(inputs).T
    assert float(cosines.max(0).values.min()) > 0.9999


def test_a_budget_ends_the_phase_with_the_best_rows_so_far():
    _, attacked = problem()
    session = Session(attacked.features, torch.Generator().manual_seed(0), budget=Budget(max_passes=3000))
    search = DirectSearch(attacked, SAMPLES, 8)
    begun = search._end_start(search.begin(session.generator), session)  # in the annealed phase of the next start
    result = search.give_up(begun, Stop.PASS_LIMIT, session)
    assert result.stop is Stop.PASS_LIMIT
    assert search.equation.at(result.rows).loss <= search.equation.at(begun.rows).loss


def test_an_interrupted_phase_goes_on_where_it_was():
    _, attacked = problem()
    search = DirectSearch(attacked, SAMPLES, 8)
    session = Session(attacked.features, torch.Generator().manual_seed(0))
    state = search._end_start(search.begin(session.generator), session)
    for _ in range(3):
        state = search.advance(state, session)
    state = replace(state, annealed=search._annealing.begin(session.generator))
    tensors, value = serialise.dump(state)
    restored = search.restore(serialise.load(search.state_type, tensors, value))
    drawn = session.generator.get_state()
    expected = search.advance(state, session)
    session.generator.set_state(drawn)
    assert torch.equal(search.advance(restored, session).annealing.rows, expected.annealing.rows)
    assert torch.equal(restored.annealed.rows, state.annealed.rows)
