"""A run of several searches that is cut in one of them goes on in that one, with what the others have found."""

import pytest
import torch

import exhume
from exhume import data
from exhume.attacks import checkpoint, exact
from exhume.attacks.basis_search import BasisSearch, BasisState
from exhume.attacks.monitor import Monitor
from exhume.attacks.search import Outcome, Search

STEPS = 6


class Cut(Exception):
    pass


class Done(Exception):
    pass


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Runs three searches of a few random steps each; returns the names of those run, their steps and the results."""
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 0.0)
    names, results = [], []

    def walk(self, state):
        names.append(type(self).__name__)
        while state.step < STEPS and self._keep_going(state):
            state.step += 1
            state.rows = state.rows + torch.randn(state.rows.shape, generator=state.generator)
        return Outcome(state.rows, True, False, 1, state.step)

    def attack(self, problem):
        monitor = Monitor(problem, max_starts=1)
        span = monitor.span_for(2)
        first = monitor.in_basis(span, 2)
        between = torch.randn(1, generator=problem.generator)
        second = monitor.search(span, 2, rows=first.rows + between)
        third = monitor.search(span, 2, rows=second.rows)
        rows = torch.stack([outcome.rows for outcome in (first, second, third)])
        results.append((rows, monitor.steps, monitor.history))
        raise Done

    def init(self, span, count, *, radius, keep_going):
        self._keep_going = keep_going

    monkeypatch.setattr(Search, "run", walk)
    monkeypatch.setattr(BasisSearch, "run", walk)
    monkeypatch.setattr(BasisSearch, "__init__", init)
    monkeypatch.setattr(BasisSearch, "begin", lambda self, g: BasisState(torch.zeros(2, 4), torch.zeros(0, 4), g))
    monkeypatch.setattr(exact.Exact, "run", attack)
    training = data.load("sphere", dim=4, samples=2)
    target = exhume.RandomFeatures(num_features=40).fit(training.inputs, training.labels).target()

    def go(cut=None, *, resume=False):
        names.clear()
        steps = []

        def progress(event):
            steps.append(event.step)
            if len(steps) == cut:
                raise Cut

        with pytest.raises(Done if cut is None else Cut):
            exhume.reconstruct(
                target, num_samples=2, progress=progress, checkpoint=tmp_path / "state.safetensors", resume=resume
            )
        return list(names), steps, results[-1] if results else None

    return go


@pytest.mark.parametrize(
    ("cut", "left"),
    [(4, ["BasisSearch", "Search", "Search"]), (10, ["Search", "Search"]), (17, ["Search"])],
)
def test_a_run_cut_in_any_of_its_searches_resumes_that_one_at_its_step(run, cut, left):
    _, _, (rows, steps, history) = run()
    run(cut)
    names, seen, again = run(resume=True)
    assert names == left
    assert seen[0] == (cut - 1) % STEPS - 1
    assert torch.equal(again[0], rows)
    assert again[1:] == (steps, history)
