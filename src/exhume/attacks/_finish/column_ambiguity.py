"""How far a column may be a mixture with another one without its zeros showing it, and what that does to the inputs.

If some other column is small wherever c_j is zero, c_j plus a multiple of it is as good: no entry rises above the
rounding. A single zero that forbids this is no evidence, because the multiple can be chosen such that it is zero there;
so the most decisive zero of every column is left out. With many neurons, several zeros may agree on a multiple by
chance; `may_be_chance` counts how many.
"""

from __future__ import annotations

import math

import torch

from exhume.attacks._search.unmixing.mixture import Mixture, Tensor

# Weight that keeps the column itself out of the eigenvectors, over the largest eigenvalue.
_APART = 10.0


def spoiled_inputs(mixture: Mixture, vectors: Tensor) -> Tensor:
    """Multiples (n, n) of the inputs i by which the inputs j may be spoiled: y_j + multiple[j, i] y_i, at most."""
    dual = torch.linalg.inv(vectors.T)  # (n, n); the inputs are its rows times S
    changes = torch.stack([_ambiguity(mixture, vector) for vector in vectors])  # (n, n)
    through = dual @ changes.T  # what the change of column i makes of the dual basis, along input i
    return through.abs() / (1 - through.diagonal().abs()).clamp_min(0.1)


def may_be_chance(mixture: Mixture, vectors: Tensor, chance: float) -> Tensor:
    """Which inputs i (n,) may be spoiled, as chance explains the zeros of a column j that tell c_j from c_j + t c_i.

    Such zeros lie where c_i is not zero. Any t makes a column vanish where c_j / c_i = -t. Of N neurons, some k have a
    common ratio within the rounding with a probability of about N^k / k! p^(k - 1), where p is the share of an entry's
    values that rounding hides; there are n^2 pairs of columns for which this may happen.

    Args:
        mixture: the displacement.
        vectors: of all columns, (n, n).
        chance: logarithm of the largest probability that is not taken for chance.
    """
    zeros, sizes = mixture.zeros(vectors), mixture.columns(vectors).abs()
    hidden = (2 * mixture.threshold(vectors)[:, 0] / sizes.mean(1)).clamp(1e-12, 1.0)  # (n,)
    telling = (zeros[:, None] & ~zeros[None]).sum(2).double()  # (n, n): of column j, where column i is not zero
    neurons = (~zeros).sum(1).double()  # (n,)
    probability = telling * neurons.log() - torch.lgamma(telling + 1) + (telling - 1) * hidden.log()[:, None]
    doubtful = (probability + 2 * math.log(len(vectors)) > chance).fill_diagonal_(False)
    return doubtful.any(0)


def _ambiguity(mixture: Mixture, vector: Tensor) -> Tensor:
    """The largest multiple of the least visible direction that stays below the rounding at the zeros but one: (n,)."""
    threshold = float(mixture.threshold(vector[None]))
    rows = mixture.basis[(mixture.basis @ vector).abs() < threshold]
    largest = rows.square().sum()
    gram = rows.T @ rows + _APART * largest * torch.outer(vector, vector)
    leverage = (torch.linalg.solve(gram, rows.T) * rows.T).sum(0)
    most = int(leverage.argmax())
    other = torch.linalg.eigh(gram - torch.outer(rows[most], rows[most]))[1][:, 0]
    others = torch.cat([rows[:most], rows[most + 1 :]])
    visible = float((others @ other).abs().max()) if len(others) else 0.0
    return other * min(1.0, threshold / max(visible, 1e-300))
