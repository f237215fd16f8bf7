"""A session of several stages that is cut in one of them resumes that one, and replays those before it."""

from dataclasses import dataclass, field, replace

import pytest
import torch

from exhume import data
from exhume.attacks._base.problem import Problem
from exhume.attacks._base.session import Budget, Session
from exhume.attacks._base.stage import NOT_SAVED, Search, SearchResult, Where
from exhume.errors import FileError
from exhume.features import PassCounter
from exhume.results.stop import Stop
from exhume.support import checkpoint
from exhume.support.checkpoint import Checkpoint
from exhume.victims import RandomFeatures

STEPS = 6  # of each stage


@dataclass(frozen=True)
class WalkState:
    rows: torch.Tensor
    step: int = 0
    features: torch.Tensor | None = field(default=None, metadata=NOT_SAVED)


class Walk(Search[WalkState]):
    """A few random steps; each evaluates the features, which a checkpoint does not hold."""

    state_type = WalkState

    def __init__(self, problem, start, walked):
        self.problem, self.count, self._start, self._walked = problem, len(start), start, walked

    def begin(self, generator):
        return self.restore(WalkState(self._start))

    def restore(self, state):
        return replace(state, features=self.problem.features.forward(state.rows))

    def where(self, state):
        return Where(state.step, STEPS, float(state.features.square().sum()))

    def advance(self, state, session):
        self._walked.append(type(self).__name__)
        if state.step == STEPS:
            return SearchResult(state.rows, self.count, Stop.CONVERGED, self.problem, 1, state.step)
        rows = state.rows + torch.randn(state.rows.shape, generator=session.generator)
        return self.restore(WalkState(rows, state.step + 1))

    def give_up(self, state, stop, session):
        return SearchResult(state.rows, self.count, stop, self.problem, 1, state.step)


class OtherWalk(Walk):
    """A stage of another kind."""


class Cut(Exception):
    pass


@pytest.fixture(scope="module")
def target():
    training = data.load("sphere", dim=4, samples=2)
    return RandomFeatures(num_features=40).fit(training.inputs, training.labels).target()


@pytest.fixture
def run(monkeypatch, tmp_path, target):
    """Runs three stages, with a random number between them; returns the kinds of steps made, events and results."""
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 0.0)

    def go(cut=None, *, resume=False, budget=None, kinds=(OtherWalk, Walk, Walk), rows=2):
        problem = Problem(target, target.features.with_counter(PassCounter()), 2)
        walked, events = [], []

        def progress(event):
            events.append(event)
            if len(events) == cut:
                raise Cut

        saved = Checkpoint(tmp_path / "state.safetensors", "the run", resume=resume)
        session = Session(problem.features, torch.Generator().manual_seed(0), saved, budget, progress)
        first, second, third = kinds
        found = [session.run_stage(first(problem, torch.zeros(rows, 4), walked))]
        between = torch.randn(1, generator=session.generator)
        found.append(session.run_stage(second(problem, found[-1].rows + between, walked)))
        found.append(session.run_stage(third(problem, found[-1].rows, walked)))
        return walked, events, [each.rows for each in found], session

    return go


# Each stage records its states 0 to 6: the cuts are in the first, the second and the third stage.
@pytest.mark.parametrize(("cut", "step", "stages"), [(4, 2, 3), (10, 1, 2), (17, 1, 1)])
def test_a_run_cut_in_any_stage_resumes_there_and_ends_as_the_uncut_one(run, cut, step, stages):
    walked, events, rows, session = run()
    assert len(walked) == 3 * (STEPS + 1)
    with pytest.raises(Cut):
        run(cut)
    walked, again, resumed, resumed_session = run(resume=True)
    assert len(walked) == stages * (STEPS + 1) - again[0].step
    assert again[0].step == step + 1  # the state whose report was cut had been saved
    assert again == events[-len(again) :]
    assert all(torch.equal(one, other) for one, other in zip(rows, resumed, strict=True))
    assert (resumed_session.steps, resumed_session.passes(2)) == (session.steps, session.passes(2))
    assert resumed_session.history(2) == session.history(2)


def test_a_stage_that_the_budget_ended_is_resumed_with_a_larger_one(run):
    _, events, rows, _ = run()
    walked, _, shorter, session = run(budget=Budget(max_passes=10))
    assert session.budget_spent() is Stop.PASS_LIMIT
    assert "Walk" in walked
    assert not torch.equal(shorter[-1], rows[-1])
    _, again, resumed, _ = run(resume=True)
    assert 0 < len(again) < len(events)
    assert torch.equal(resumed[-1], rows[-1])


@pytest.mark.parametrize("cut", [4, 17])
def test_a_checkpoint_of_other_stages_is_refused(run, cut):
    with pytest.raises(Cut):
        run(cut)
    with pytest.raises(FileError, match="stage 1 is OtherWalk for 2 samples on 40 coordinates there, but Walk for 2"):
        run(resume=True, kinds=(Walk, Walk, Walk))
    with pytest.raises(FileError, match="but OtherWalk for 3 samples on 40 coordinates in this run"):
        run(resume=True, rows=3)
