"""The wall: how many features determine the samples, by counts of equations and unknowns; no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

_DEVIATIONS = 10.0  # standard deviations of a binomial beyond which its terms are left out: they add up to 1e-23
_ROUNDING = 1e-12  # relative, of means of counts


@dataclass(frozen=True)
class Wall:
    """How many features h determine u unknown samples, by the two counts of equations and unknowns.

    Together: k (h - m) equations, m samples being known, for u (D - 1 + k) unknowns. D is the dimension of a sample,
    and one more where its norm is open: its direction, its norm and the size of its coefficients.

    Per sample, the largest of three: (1) the sample that is active on the fewest of the h features must be active on
    more than D. (2) A feature that is active on j samples gives min(j, k) equations for the u D numbers of all of them.
    With k >= u that is (1) on average, with k = 1 it leaves out the features that are active on none. (3) With fewer
    samples than outputs Theta has rank u: u combinations of the outputs have equations, h - m for each sample, and
    D - 1 + u unknowns. Features are taken to be active on each sample independently, with the same probability.

    Attributes:
        numbers: D.
        num_outputs: k.
        unknown: u.
        known: m.
        active_share: probability that a feature is active on a sample.
    """

    numbers: int
    num_outputs: int
    unknown: int
    known: int = 0
    active_share: float = 1.0

    def features(self, ratio: float | None = None) -> int:
        """Fewest features with more equations than unknowns by both counts, or with `ratio` equations per unknown."""
        return max(self.features_together(ratio), self.features_per_sample(ratio))

    def features_together(self, ratio: float | None = None) -> int:
        """Fewest features by the count of all equations."""
        unknowns = self.unknown * (self.numbers - 1 + self.num_outputs)
        enough = max(unknowns + 1, math.ceil((ratio or 0) * unknowns))
        return self.known - (-enough // self.num_outputs)

    def features_per_sample(self, ratio: float | None = None) -> int:
        """Fewest features by the count of each sample."""
        if not self.unknown:
            return 0
        fewest = math.floor(self._sufficient(1.0) * (1 + _ROUNDING)) + 1
        return fewest if ratio is None else max(fewest, round(self._sufficient(ratio)))

    def per_sample(self, num_features: int) -> tuple[int, int]:
        """Equations and unknowns of the sample with the fewest equations, at so many features."""
        if not self.unknown:
            return num_features, 0
        active = self.active_share * num_features
        own = min(active - self._deviations * math.sqrt(active), self._shared * num_features)
        counts = [(max(0, math.ceil(own * (1 - _ROUNDING))), self.numbers)]
        if self.unknown < self.num_outputs:
            counts.append((max(0, num_features - self.known), self.numbers - 1 + self.unknown))
        return min(counts, key=lambda each: each[0] / each[1])

    def _sufficient(self, ratio: float) -> float:
        """How many features give each sample `ratio` equations per unknown, and enough by (2)."""
        needed, deviations = ratio * self.numbers, self._deviations
        root = (deviations + math.sqrt(deviations**2 + 4 * needed)) / 2  # of h s in (1)
        # The ratio was measured in p / (d n), features that are active on no sample included: it is not applied to (2).
        features = max(root**2 / self.active_share, self.numbers / self._shared)
        if self.unknown < self.num_outputs:
            features = max(features, self.known + ratio * (self.numbers - 1 + self.unknown))
        return features

    @property
    def _deviations(self) -> float:
        """How far the sample with the fewest active features lies below the mean h s, in units of sqrt(h s).

        The median of the smallest of u binomial counts, in the normal approximation.
        """
        if self.unknown < 2 or self.active_share == 1:
            return 0.0
        lowest = NormalDist().inv_cdf(-math.expm1(math.log(0.5) / self.unknown))
        return -lowest * math.sqrt(1 - self.active_share)

    @property
    def _shared(self) -> float:
        """Equations that a feature gives to each sample on average: E[min(j, k)] / u, j of u samples being active."""
        return _mean_of_at_most(min(self.num_outputs, self.unknown), self.unknown, self.active_share) / self.unknown


def _mean_of_at_most(most: int, trials: int, share: float) -> float:
    """E[min(j, most)] for a binomial j of so many trials: most - sum over j < most of (most - j) P(j)."""
    mean = trials * share
    if most >= trials or share == 1:
        return min(mean, most)
    reach = _DEVIATIONS * math.sqrt(mean * (1 - share)) + _DEVIATIONS
    total, odds = 0.0, math.log(share) - math.log1p(-share)
    for hits in range(max(0, int(mean - reach)), min(most, int(mean + reach))):
        log_ways = math.lgamma(trials + 1) - math.lgamma(hits + 1) - math.lgamma(trials - hits + 1)
        total += (most - hits) * math.exp(log_ways + hits * odds + trials * math.log1p(-share))
    return most - total
