"""The search for training samples one by one, in the feature spans of layers with few positions.

Every row minimises, by first-order steps in the coordinates of a prior,

    mean over layers of log(f / f of samples of the prior) / 2  +  log coverage / 2  +  prior  +  label

with f the share of its patches outside the row spaces. Rows of small f are accepted if they cover a part of the row
spaces that no other row does. What accepted rows explain no longer counts for the rows of the next round (deflation),
so that these find other samples. A last joint solve with a stronger prior removes noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch.nn import functional

from exhume.attacks._base.problem import Problem
from exhume.attacks._base.session import Session
from exhume.attacks._base.stage import Search, SearchResult, Where
from exhume.attacks._search.feature_spans.prior import Prior
from exhume.equation.feature_span import FeatureSpans
from exhume.results.stop import Stop


@dataclass(frozen=True)
class SpanState:
    """Where the search stands.

    Attributes:
        rows: (m, d), accepted.
        others: (c, d), rows that were not accepted and go on.
        rounds: made so far.
        uncovered: share of the row spaces that the accepted rows leave.
        polished: whether the last solve is made.
    """

    rows: torch.Tensor
    others: torch.Tensor
    rounds: int = 0
    uncovered: float = 1.0
    polished: bool = False


class FeatureSpanSearch(Search[SpanState]):
    """Looks for n samples whose patches lie in the row spaces and cover them.

    Args:
        problem: what is solved.
        spans: the row spaces.
    """

    state_type = SpanState

    def __init__(self, problem: Problem, spans: FeatureSpans) -> None:
        assert problem.num_samples is not None
        self.problem, self.spans, self.count = problem, spans, problem.num_samples
        self._tuning, self._prior = problem.tuning.layers.spans, Prior.of(problem)
        generator = torch.Generator().manual_seed(0)
        drawn = torch.randn((self._tuning.reference, len(self._prior.mean)), generator=generator)
        with torch.no_grad():
            self._generic = spans.patches(self._prior.rows(drawn.to(self._prior.mean)))[0]
            mean = {name: each.mean(0, keepdim=True) for name, each in self._generic.items()}
            known = problem.target.knowledge.samples
            if known is not None:
                mean = _joined(mean, spans.patches(known.to(self._prior.mean))[0])
        self._common = mean

    def begin(self, generator: torch.Generator) -> SpanState:
        """No rows."""
        none = self._prior.mean.new_zeros((0, len(self._prior.mean)))
        return SpanState(none, none)

    def where(self, state: SpanState) -> Where:
        """The loss is the share of the row spaces that is not covered."""
        return Where(state.rounds, self._tuning.rounds, state.uncovered)

    def finished(self, state: SpanState) -> Stop | None:
        """After the last solve."""
        return (Stop.FLOOR if len(state.rows) == self.count else Stop.STARTS_SPENT) if state.polished else None

    def give_up(self, state: SpanState, stop: Stop, session: Session) -> SearchResult:
        """The accepted rows; one that was not accepted if there are none. The last solve comes on top of a budget."""
        if not state.polished and len(state.rows):
            state = self._covering(state, self._polished(state.rows, self._tuning.polish, None))
        rows = state.rows if len(state.rows) else torch.cat([state.others, self._prior.mean[None]])[:1]
        return SearchResult(rows, len(state.rows), stop, self.problem, state.rounds, state.rounds)

    def advance(self, state: SpanState, session: Session) -> SpanState:
        """A round, or the last solve."""
        tuning = self._tuning
        if len(state.rows) < self.count and state.rounds < tuning.rounds:
            return replace(self._round(state, session), rounds=state.rounds + 1)
        rows = self._polished(state.rows, tuning.polish, session) if len(state.rows) else state.rows
        return replace(self._covering(state, rows), polished=True)

    def _round(self, state: SpanState, session: Session) -> SpanState:
        """New rows beside the accepted ones, and those of them that are accepted too."""
        rows, tuning = state.rows, self._tuning
        with torch.no_grad():
            found = self.spans.patches(rows)[0] if len(rows) else None
        missing = self.count - len(rows)
        size = min(self.count, max(tuning.least_rows, 2 * missing))
        white = torch.randn((size, len(self._prior.mean)), generator=session.generator).to(self._prior.mean)
        going_on = state.others[: size // 2]
        white[: len(going_on)] = self._prior.white(going_on)
        new = self._minimise(
            white, tuning.steps, tuning.rate, tuning.weak_prior, session, found, self._labels(rows, size)
        )
        order = self._quality(new, found).argsort()
        accepted = []
        for at in order.tolist():
            if len(rows) < self.count and float(self._quality(new[at : at + 1], found)) < tuning.accepted:
                rows = torch.cat([rows, new[at : at + 1]])
                accepted.append(at)
                with torch.no_grad():
                    found = self.spans.patches(rows)[0]
        fresh = [at for at in order.tolist() if at not in accepted and at >= len(going_on)]
        if accepted:
            rows = self._polished(rows, tuning.settle, session)
        return self._covering(replace(state, others=new[fresh]), rows)

    def _polished(self, rows: torch.Tensor, steps: int, session: Session | None) -> torch.Tensor:
        tuning = self._tuning
        return self._minimise(self._prior.white(rows), steps, tuning.last_rate, tuning.prior, session)

    def _covering(self, state: SpanState, rows: torch.Tensor) -> SpanState:
        """Only the rows without which less is covered."""
        with torch.no_grad():
            while len(rows):
                patches = self.spans.patches(rows)[0]
                total = self._uncovered(patches)
                rest = [[other for other in range(len(rows)) if other != row] for row in range(len(rows))]
                left = [self._uncovered({name: each[kept] for name, each in patches.items()}) for kept in rest]
                if min(left) - total >= self._tuning.covered / self.count:
                    return replace(state, rows=rows, uncovered=total)
                rows = rows[rest[left.index(min(left))]]
        return replace(state, rows=rows, uncovered=1.0)

    def _uncovered(self, patches: dict[str, torch.Tensor]) -> float:
        """The mean coverage over the layers; 1 without rows."""
        return float(self.spans.coverage(patches).mean()) if len(next(iter(patches.values()))) else 1.0

    def _labels(self, rows: torch.Tensor, size: int) -> torch.Tensor:
        """Classes for new rows, in turn: those that are known, or all alike, without those of the rows found."""
        outputs, labels = self.problem.target.num_outputs, self.problem.target.knowledge.labels
        left = list(range(outputs)) * math.ceil(self.count / outputs)
        if labels is not None and outputs > 1:
            left = (labels.argmax(1) if labels.ndim == 2 else labels).long().tolist()
        if len(rows):
            with torch.no_grad():
                for label in self.spans.patches(rows)[1].argmax(1).tolist():
                    if label in left and len(left) > 1:
                        left.remove(label)
        return torch.tensor([left[at % len(left)] for at in range(size)], device=rows.device)

    def _quality(self, rows: torch.Tensor, found: dict[str, torch.Tensor] | None) -> torch.Tensor:
        """The square root of f of rows, over that of samples of the prior, (m,)."""
        with torch.no_grad():
            explained = self.spans.explained(_joined(self._common, found))
            shares = self.spans.outside(self.spans.patches(rows)[0], explained)
            return (shares / self._usual(explained)).log().mean(0).mul(0.5).exp()

    def _usual(self, explained: dict[str, torch.Tensor]) -> torch.Tensor:
        """f of samples of the prior, (layers, 1)."""
        return self.spans.outside(self._generic, explained).median(1, keepdim=True).values

    def _minimise(
        self,
        white: torch.Tensor,
        steps: int,
        rate: float,
        prior: float,
        session: Session | None,
        found: dict[str, torch.Tensor] | None = None,
        labels: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Steps of Adam whose size falls to zero as a cosine; returns rows."""
        tuning = self._tuning
        with torch.no_grad():
            explained = self.spans.explained(_joined(self._common, found))
            usual = self._usual(explained)
        white = white.detach().clone().requires_grad_()
        optimiser = torch.optim.Adam([white], rate, betas=(0.9, 0.99))
        for step in range(steps):
            if session is not None and session.budget_spent() is not None:
                break
            with torch.enable_grad():
                patches, outputs = self.spans.patches(self._prior.rows(white))
                shares = self.spans.outside(patches, explained) / usual
                loss = (shares + tuning.floor**2).log().mean(0).sum() + prior * white.square().sum()
                left = self.spans.coverage(_joined(found, patches) if found else patches)
                loss = loss + self.count * (left + tuning.coverage_floor**2).log().mean()
                if labels is not None and outputs.shape[1] > 1:
                    loss = loss + 2 * tuning.label * functional.cross_entropy(outputs, labels, reduction="sum")
                optimiser.zero_grad()
                (0.5 * loss).backward()
            self.problem.features.count(2 * len(white))  # the way back
            optimiser.param_groups[0]["lr"] = rate * 0.5 * (1 + math.cos(math.pi * step / steps))
            optimiser.step()
        return self._prior.rows(white.detach())


def _joined(one: dict[str, torch.Tensor] | None, other: dict[str, torch.Tensor] | None) -> dict[str, torch.Tensor]:
    """Patches of the rows of both."""
    if one is None or other is None:
        return one or other or {}
    return {name: torch.cat([each, other[name]]) for name, each in one.items()}
