"""The search for all columns of a ReLU layer's displacement, one batch of starts after the other.

Deflation is exact: the inputs of samples not yet found are orthogonal to known directions, so that every column found
makes the search for the others easier, and the last input is known before its column is. Once there are as many columns
as samples, each must agree with the activations of its own input; others are dropped, and the search goes on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from exhume.attacks._base.problem import Problem
from exhume.attacks._base.session import Session
from exhume.attacks._base.stage import Search, SearchResult, Where
from exhume.attacks._search.unmixing.columns import (
    better_of,
    columns_of_inputs,
    fit_inputs,
    leverage_margin,
    search_columns,
)
from exhume.attacks._search.unmixing.estimates import Estimation, EstimationState, completed, repeated
from exhume.attacks._search.unmixing.missing_columns import columns_nearby, missing_columns
from exhume.attacks._search.unmixing.mixture import Mixture
from exhume.attacks._search.unmixing.repair import repair
from exhume.results.stop import Stop

# Cosine above which two vectors are the same column.
_SAME = 0.99


@dataclass(frozen=True)
class UnmixState:
    """Everything that the next batch of starts depends on.

    Attributes:
        vectors: (m, n), the columns found so far.
        starts: made so far.
        stalled: starts since the last new column.
        complete: whether there are n columns, and each agrees with its input.
        blind: starts from random inputs since the last new column.
        estimates: of the samples whose columns are missing, while these are estimated.
        whole: (n, n) or (0, n), the best n columns so far that agree with their inputs, though zeros do not determine
            all of them.
    """

    vectors: torch.Tensor
    whole: torch.Tensor
    starts: int = 0
    stalled: int = 0
    complete: bool = False
    blind: int = 0
    estimates: EstimationState | None = None


class UnmixSearch(Search[UnmixState]):
    """Looks for the n columns of a mixture.

    Args:
        problem: that the mixture belongs to.
        mixture: the displacement of the first layer.
        max_starts: by default as many as the tuning says.
        estimation: of samples, where random inputs lead to no more columns; None to do without.
    """

    state_type = UnmixState

    def __init__(
        self,
        problem: Problem,
        mixture: Mixture,
        max_starts: int | None = None,
        estimation: Estimation | None = None,
    ) -> None:
        self.problem, self.mixture, self.count = problem, mixture, mixture.rank
        self._estimation = estimation if estimation is not None and estimation.possible else None
        self._tuning = mixture.tuning
        self._max_starts = max_starts

    def begin(self, generator: torch.Generator) -> UnmixState:
        """No column yet."""
        none = torch.zeros((0, self.count)).to(self.mixture.basis)
        return UnmixState(none, none)

    def restore(self, state: UnmixState) -> UnmixState:
        """The path of training is simulated again."""
        if state.estimates is None or self._estimation is None:
            return state
        search = self._estimation.search(state.estimates)
        return replace(state, estimates=replace(state.estimates, smooth=search.restore(state.estimates.smooth)))

    def where(self, state: UnmixState) -> Where:
        """The loss is the share of columns that is missing."""
        return Where(state.starts, self._most(state), 1 - len(state.vectors) / self.count)

    def finished(self, state: UnmixState) -> Stop | None:
        """All columns, or no starts left."""
        if state.complete:
            return Stop.CONVERGED
        return Stop.STARTS_SPENT if state.starts >= self._most(state) else None

    def _most(self, state: UnmixState) -> int:
        """Starts at most: more where columns were found."""
        tuning = self._tuning
        of_found = tuning.starts_per_column * len(state.vectors) if self._estimation is not None else 0
        return self._max_starts or tuning.starts + tuning.starts_per_sample * self.count + of_found

    def advance(self, state: UnmixState, session: Session) -> UnmixState:
        """One batch of starts, or a step of estimates; a check of all columns once there are enough."""
        mixture, generator, tuning = self.mixture, session.generator, self._tuning
        patience = tuning.stalled if self._estimation is None else tuning.stalled_near
        if state.estimates is None and state.stalled >= patience and len(state.vectors):
            state = replace(state, vectors=self._without_doubtful(state.vectors, generator), stalled=0, blind=0)
        if self._estimation is not None and (state.estimates is not None or state.blind >= tuning.blind):
            return self._estimated(self._estimation, state, session)
        vectors, stalled, before = state.vectors, state.stalled, len(state.vectors)
        starts, last = 0, before == self.count - 1  # the last column excludes no input, and is checked with the others
        if tuning.known * self.count <= len(vectors) < self.count and len(vectors) > 1:
            found, starts = missing_columns(mixture, vectors, tuning.missing_starts, generator), tuning.missing_starts
            self.problem.features.count(len(vectors))  # one fit for each
            vectors = self._with(vectors, found.vectors[found.alone], found.zeros[found.alone], last)
        if len(vectors) == before:
            more = self._batch(stalled)
            found, starts = search_columns(mixture, mixture.open_inputs(vectors), more, generator), starts + more
            vectors = self._with(vectors, found.vectors[found.alone], found.zeros[found.alone], last)
        self.problem.features.count(starts * self.count)  # a start counts as one pass
        stalled = 0 if len(vectors) > before else stalled + starts
        blind = state.blind + starts if stalled else 0
        state = replace(state, vectors=vectors, starts=state.starts + starts, stalled=stalled, blind=blind)
        return self._checked(state, generator) if len(vectors) == self.count else state

    def _estimated(self, estimation: Estimation, state: UnmixState, session: Session) -> UnmixState:
        """A step of the search for estimates; then rounds of weightings that lead from these to columns."""
        generator, tuning, vectors, estimates = session.generator, self._tuning, state.vectors, state.estimates
        if estimates is None and len(vectors) < self.count - 1:
            return replace(state, estimates=estimation.begin(vectors, generator))
        if estimates is not None:
            search, smooth = estimation.search(estimates), estimates.smooth
            if search.finished(smooth) is None and smooth.rounds < tuning.rounds:
                return replace(state, estimates=replace(estimates, smooth=search.advance(smooth, session)))
        starts = tuning.estimated * tuning.batch
        self.problem.features.count(starts * self.count)
        state = replace(state, starts=state.starts + starts, stalled=state.stalled + starts)
        if estimates is None:
            whole, ended = self._with_last(vectors, generator), state
            return self._checked(replace(ended, vectors=whole), generator) if len(whole) == self.count else ended
        if not len(estimates.smooth.best):
            return replace(state, estimates=None)
        state = self._near(estimation, estimates, state, generator)
        if len(state.vectors) < self.count:
            return state
        return self._checked(replace(state, estimates=None), generator)

    def _near(
        self, estimation: Estimation, estimates: EstimationState, state: UnmixState, generator: torch.Generator
    ) -> UnmixState:
        """A round of weightings; the estimation ends after some without a new column."""
        mixture, tuning, vectors = self.mixture, self._tuning, state.vectors
        found = estimation.columns(vectors, estimates, generator)
        possible = (found.net_zeros >= self.count) & (mixture.evidence(found.vectors) > tuning.little_evidence)
        reached = torch.cat([estimates.reached, found.vectors[possible]])[-len(tuning.votes) * tuning.weightings :]
        lax = estimates.idle + 1 == len(tuning.votes)
        chosen = torch.cat([found.vectors[found.alone], repeated(mixture, reached, tuning.votes[estimates.idle])])
        more = self._with(vectors, chosen, mixture.zeros(chosen), lax)
        if lax and self.count - tuning.few <= len(more) < self.count:
            whole = completed(mixture, more, found)
            more = more if whole is None else whole
        if len(more) > len(vectors):
            known = ((reached @ more.T).abs() > _SAME).any(1)
            estimates = replace(estimates, reached=reached[~known], idle=0, fruitful=True)
            return replace(state, vectors=more, stalled=0, blind=0, estimates=estimates)
        estimates = replace(estimates, reached=reached, idle=estimates.idle + 1)
        rounds = tuning.rounds_after if estimates.fruitful else len(tuning.votes)
        return replace(state, estimates=estimates if estimates.idle < rounds else None)

    def _completed(self, state: UnmixState, vectors: torch.Tensor) -> UnmixState:
        """Complete if zeros determine all columns, or the same ones were found before; else open ones are dropped.

        Of several sets of columns the one is kept that is zero at the most neurons that its inputs leave inactive.
        """
        mixture, whole = self.mixture, state.whole
        margins = leverage_margin(mixture, vectors, mixture.zeros(vectors))
        enough = self._tuning.leverage if self._estimation is None else self._tuning.least_leverage
        if float(margins.min()) > enough or bool(_repeats(vectors, whole).all()):
            return replace(state, vectors=vectors, complete=True)
        best = whole if len(whole) and self._unmoved(whole) > self._unmoved(vectors) else vectors
        least = margins.argsort()[: self._tuning.reopened]
        kept = torch.ones_like(margins, dtype=torch.bool)
        kept[least[margins[least] <= enough]] = False
        return replace(state, vectors=vectors[kept], whole=best)

    def _unmoved(self, vectors: torch.Tensor) -> float:
        """The mean share of neurons that an input leaves inactive at which its column is zero."""
        return float(self.mixture.agreement(vectors, self.mixture.inputs_of(vectors)).unmoved.mean())

    def give_up(self, state: UnmixState, stop: Stop, session: Session) -> SearchResult:
        """All columns, or those found so far; if a single one is missing, an estimate of it beside them."""
        if len(state.whole) and not state.complete:
            return SearchResult(state.whole, self.count, Stop.CONVERGED, self.problem, state.starts, self._tuning.steps)
        count, vectors = len(state.vectors), state.vectors
        if count == self.count - 1:
            vectors = self._with_last(vectors, session.generator)
        return SearchResult(vectors, count, stop, self.problem, state.starts, self._tuning.steps)

    def _with_last(self, vectors: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Vectors and the missing one, unless that is not independent of them.

        Its zeros need not determine it: its input is known up to the sign.
        """
        mixture, batch = self.mixture, self._tuning.batch
        line = mixture.open_inputs(vectors).T
        inputs = torch.cat([line.expand(batch, -1), -line.expand(batch, -1)])
        start = torch.randn(inputs.shape, generator=generator).to(inputs)
        found = columns_of_inputs(mixture, inputs, start, generator)
        contradiction = mixture.agreement(found.vectors, inputs).contradiction
        agreeing = contradiction <= contradiction.min() + self._tuning.contradiction
        whole = torch.cat([vectors, found.vectors[found.net_zeros.where(agreeing, -1).argmax()][None]])
        return whole if len(mixture.independent(whole)) == self.count else vectors

    def _without_doubtful(self, vectors: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Vectors without the one whose removal lets inputs fit the zeros of the others best; sometimes a random one.

        The input of a column is orthogonal to a direction for every other column: a wrong one excludes right inputs.
        """
        mixture, count = self.mixture, len(vectors)
        worst = int(torch.randint(count, (), generator=generator))
        if float(torch.rand((), generator=generator)) > self._tuning.dropped and count <= self._tuning.most_drawn:
            zeros = mixture.zeros(vectors)
            fits = torch.zeros(count, count)
            for out in range(count):
                for at in set(range(count)) - {out}:
                    others = [each for each in range(count) if each not in (out, at)]
                    fits[out, at] = fit_inputs(mixture, zeros[[at]], mixture.open_inputs(vectors[others]))[1]
            self.problem.features.count(count**2)
            worst = int(fits.sum(1).argmax())
        return torch.cat([vectors[:worst], vectors[worst + 1 :]])

    def _batch(self, stalled: int) -> int:
        """Starts at a time: few, as every column found helps the next; more once these find none, as they cost less."""
        tuning = self._tuning
        return tuning.batch * (tuning.wide if self.count <= tuning.most_drawn and stalled >= tuning.batch else 1)

    def _with(self, vectors: torch.Tensor, more: torch.Tensor, zeros: torch.Tensor, lax: bool = False) -> torch.Tensor:
        """Vectors and further ones that are independent of them, if some input not yet found fits their zeros.

        Where estimates of the samples can lead on and neurons are few, the fit must be better: a wrong column excludes
        right inputs.
        """
        mixture, known = self.mixture, len(vectors)
        places = [at - known for at in mixture.independent(torch.cat([vectors, more])) if at >= known]
        if not places:
            return vectors
        _, fits = fit_inputs(mixture, zeros[places], mixture.open_inputs(vectors))
        well = self._estimation is not None and mixture.few_neurons and not lax
        agrees = self._tuning.agrees_well if well else self._tuning.agrees
        together = torch.cat([vectors, more[places][fits > agrees]])
        return together[: self.count]

    def _checked(self, state: UnmixState, generator: torch.Generator) -> UnmixState:
        """Complete if no column contradicts its input and no input yields more zeros; else mended or dropped."""
        mixture, vectors = self.mixture, state.vectors
        for _ in range(self._tuning.refits):
            self.problem.features.count(2 * len(vectors) * self.count)  # as two starts for each
            vectors = repair(mixture, vectors, generator)
            inputs = mixture.inputs_of(vectors)
            agreement = mixture.agreement(vectors, inputs)
            consistent = agreement.consistent(self._tuning)
            again = columns_nearby(mixture, inputs, vectors)
            again = better_of(columns_of_inputs(mixture, inputs, vectors, generator), again)
            better = again.alone & (again.net_zeros > mixture.net_zeros(vectors) + 1)
            others = (again.vectors @ vectors.T).abs().fill_diagonal_(0.0)
            better &= others.amax(1) < _SAME  # inputs of one class are near each other
            if bool(consistent.all()) and not bool(better.any()):
                return self._completed(state, vectors)
            vectors = torch.where(better[:, None], again.vectors, vectors)
            vectors = vectors[mixture.net_zeros(vectors).argsort(descending=True)]
            vectors = vectors[mixture.independent(vectors)]
            if len(vectors) < self.count:
                return replace(state, vectors=vectors)
        agreement = mixture.agreement(vectors, mixture.inputs_of(vectors))
        consistent = agreement.consistent(self._tuning)
        # A mixture of two columns leaves the input of the one right and spoils that of the other: it has few zeros.
        kept = consistent.clone()
        kept[mixture.net_zeros(vectors).argmin()] = False
        kept[agreement.unmoved.argmin()] = False
        return replace(state, vectors=vectors[kept])


def _repeats(again: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
    """Which of the vectors (m, n) are among others (l, n)."""
    return ((again @ vectors.T).abs() > _SAME).any(1)
