"""Baselines of a score: what samples that were not trained on get, matched to the same rows in the same way.

As many non-members as members are drawn, matched one to one to the rows of the reconstruction, and this is repeated
over random draws. A permutation test asks whether the members are closer than a random choice among members and
non-members (Ernst 2004, "Permutation methods: a basis for exact inference"). Without non-members, surrogates are drawn:
each coordinate of a surrogate is that of a random member. They show what closeness the marginal distribution alone
gives, which is enough to doubt a recovery, and too little to recognise anybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from exhume.errors import InputError
from exhume.results.certificate import RECOVERED_BELOW
from exhume.scoring.matching import distances, on_sphere
from exhume.support.randomness import generator_for, seed_for

Errors = NDArray[np.float64]

# Random draws of non-members, and permutations: the smallest p-value is 1 / 400.
DRAWS = 399
# A p-value up to this is significant, for the members together and for recovered samples.
SIGNIFICANT = 0.005
# A sample is recognised only if at most this share of the non-members is as close as it is.
SAMPLE_SIGNIFICANT = 0.05
# False-positive rate at which the true-positive rate is given; it takes at least its inverse of non-members.
FALSE_POSITIVES = 0.01
# Of more members, so many are drawn for the tests, whose matchings cost the cube of their number; of more non-members,
# so many are read, which bounds memory.
_MOST_MEMBERS, _MOST_NON_MEMBERS = 200, 5000
# Surrogates, if there are no non-members.
_SURROGATES = 400
_ROUNDING = 1e-12
# Fewer members than this are not mixed: mixtures would often be the members themselves.
_FEWEST_TO_MIX = 3
# A non-member within this relative distance of a member is that member.
_SAME = 1e-6


@dataclass(frozen=True)
class Baseline:
    """What samples that were not trained on get.

    Attributes:
        non_members: how many were given; 0 if surrogates were drawn from the truth itself.
        error: mean error of as many non-members as members, matched one to one to the rows, over the draws.
        recovered: mean number of them with an error below RECOVERED_BELOW.
        recovered_p_value: share of the draws in which no smaller share of non-members is recovered than of members.
        p_value: of the permutation test of the members' mean error; None without non-members.
        ranks: for every match its place among the non-members by distance to the closest row, 1 for the closest;
            empty without non-members.
        true_positive_rate: share of the members closer than all but 1 % of the non-members; None if these are fewer
            than 100.
    """

    non_members: int
    error: float
    recovered: float
    recovered_p_value: float
    p_value: float | None = None
    ranks: tuple[int, ...] = ()
    true_positive_rate: float | None = None

    @property
    def recovery_is_significant(self) -> bool:
        """Whether non-members are recovered less often than members."""
        return self.recovered_p_value <= SIGNIFICANT

    @property
    def p_values(self) -> tuple[float, ...]:
        """For every match the share of the non-members that is at least as close to a row as it is."""
        return tuple(rank / (self.non_members + 1) for rank in self.ranks)

    def recognised(self, errors: Sequence[float], below: float) -> int:
        """How many of the matches are recognised.

        The members together are significantly closer, and so are these; or these are by themselves (Bonferroni).
        """
        if self.p_value is None:
            return 0
        together = self.p_value <= SIGNIFICANT
        limit = SAMPLE_SIGNIFICANT if together else SIGNIFICANT / max(len(self.ranks), 1)
        pairs = zip(errors, self.p_values, strict=True)
        return sum(error < below and p_value <= limit for error, p_value in pairs)


def measure_baseline(
    truth: Tensor, rows: Tensor, matched: Tensor, non_members: Tensor | None, *, up_to_sign: bool, seed: int
) -> Baseline:
    """The baseline of a score.

    Args:
        truth: members (n, d).
        rows: of the reconstruction (m, d).
        matched: which members have a match, in the order of the score's matches.
        non_members: (q, d) samples of the same kind that were not trained on.
        up_to_sign: whether the attack does not claim signs.
        seed: of the draws.
    """
    generator = generator_for(seed, "baseline")
    draws = np.random.default_rng(seed_for(seed, "draws of the baseline"))
    near = _errors(truth, rows, up_to_sign)  # (n, m)
    tested = draws.permutation(near)[:_MOST_MEMBERS] if len(near) > _MOST_MEMBERS else near
    own, size = _matched_errors(tested), len(tested)
    others = _without_members(truth, non_members, draws)
    if others is None or not len(rows):
        blocks = [draw_surrogates(truth, generator) for _ in range(-(-_SURROGATES // len(truth)))]
        far = _errors(torch.cat(blocks), rows, up_to_sign)
        return Baseline(0, *_of_draws(own, [_matched_errors(_choice(far, size, draws)) for _ in range(DRAWS)]))
    far = _errors(others, rows, up_to_sign)  # (q, m)
    drawn = [_matched_errors(_choice(far, size, draws)) for _ in range(DRAWS)]
    both = np.concatenate([tested, far])
    permuted = [_matched_errors(_choice(both, size, draws)).mean() for _ in range(DRAWS)]
    closest = np.sort(far.min(1))
    ranks = 1 + np.searchsorted(closest, near.min(1), side="right")  # 1 and the non-members that are at least as close
    return Baseline(
        len(others),
        *_of_draws(own, drawn),
        p_value=_p_value(mean <= own.mean() + _ROUNDING for mean in permuted),
        ranks=tuple(ranks[matched.numpy()].tolist()),
        true_positive_rate=_true_positive_rate(near.min(1), closest),
    )


def _errors(samples: Tensor, rows: Tensor, up_to_sign: bool) -> Errors:
    """(b, m) relative distances of samples to rows; a sample of norm zero, which has none, is as far off as 1."""
    signed, mirrored = distances(samples, rows)
    errors = torch.minimum(signed, mirrored) if up_to_sign else signed
    return torch.where(samples.norm(dim=1, keepdim=True) > 0, errors, 1.0).numpy()


def _matched_errors(costs: Errors) -> Errors:
    """Errors of all samples under the best one-to-one matching; one without a row is as far off as zero, 1."""
    samples, rows = linear_sum_assignment(costs)
    errors = np.ones(len(costs))
    errors[samples] = costs[samples, rows]
    return errors


def _of_draws(own: Errors, drawn: Sequence[Errors]) -> tuple[float, float, float]:
    """Mean error, mean number of recovered samples (of as many as members), and the p-value of the members' number."""
    shares = [float((each < RECOVERED_BELOW).mean()) for each in drawn]
    recovered = float((own < RECOVERED_BELOW).mean())
    error = float(np.mean([each.mean() for each in drawn]))
    return error, len(own) * float(np.mean(shares)), _p_value(share >= recovered for share in shares)


def _p_value(exceeding: Iterable[bool]) -> float:
    """Share of the draws that reach the observed value, which counts as one of them."""
    reached = list(exceeding)
    return (1 + sum(reached)) / (1 + len(reached))


def _choice(errors: Errors, size: int, draws: np.random.Generator) -> Errors:
    """So many different rows, or all if there are fewer."""
    return errors[draws.permutation(len(errors))[:size]]


def _true_positive_rate(members: Errors, non_members: Errors) -> float | None:
    """Share of members closer than all but FALSE_POSITIVES of the non-members (sorted)."""
    if len(non_members) < round(1 / FALSE_POSITIVES):
        return None
    allowed = int(FALSE_POSITIVES * len(non_members))
    return float((members < non_members[allowed]).mean())


def draw_surrogates(truth: Tensor, generator: torch.Generator) -> Tensor:
    """(n, d): every coordinate is that of a random member; of fewer than three members, random directions."""
    if len(truth) < _FEWEST_TO_MIX:
        drawn = torch.randn(truth.shape, dtype=truth.dtype, generator=generator)
        return on_sphere(drawn, float(truth.norm(dim=1).mean()))
    return truth.gather(0, torch.randint(0, len(truth), truth.shape, generator=generator))


def _without_members(truth: Tensor, non_members: Tensor | None, draws: np.random.Generator) -> Tensor | None:
    """The non-members that are not members after all; None if there are none."""
    if non_members is None:
        return None
    if not len(non_members):
        raise InputError("non_members has no rows; valid: at least one, or None")
    others = non_members
    if len(others) > _MOST_NON_MEMBERS:
        others = others[torch.from_numpy(draws.permutation(len(others))[:_MOST_NON_MEMBERS])]
    others = others[distances(truth, others)[0].amin(0) > _SAME]
    return others if len(others) else None
