"""How far a column may be a mixture with another one without its zeros showing it, and what that does to the inputs.

If some other column is small wherever c_j is zero, c_j plus a multiple of it is as good: no entry rises above the
rounding. A single zero that forbids this is no evidence, because the multiple can be chosen such that it is zero there;
so the most decisive zero of every column is left out.
"""

from __future__ import annotations

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
