"""How far a dense first layer moved, and which share of its initial weights weight decay left.

Every first-order method with one step size for all weights moves a dense layer by a combination of its inputs:

    D = [W_T - s W_0, b_T - s b_0] = C [X 1],    C (h, n) the summed errors that were sent back,

with s the share that weight decay left of the start (1 without decay). The rank of D is the number of samples n.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import nn

from exhume.errors import InputError
from exhume.target.first_layer import FirstLayer, first_layer, is_followed_by_relu
from exhume.target.network_weights import NetworkWeights

# The rank of D is where its singular values fall by the largest factor, which must be at least this.
LEAST_FALL = 8.0
# Singular values below this share of what float32 rounding of the weights makes are taken for zero.
_ROUNDING = 0.2 * 2.0**-24
# Rounds that fit the share of the initial weights off the span of the data.
_SHARE_ROUNDS = 3
# Noise in the displacement of a bias without decay, over (1 - s) times its size: with less, zeros of columns are not
# seen, with more, samples are lost (`python -m benches estimators`, breast-cancer, seed 3).
_BIAS_NOISE = 0.1
# Eigenvalues closer together than this many neighbours are the share of the initial weights.
_NEIGHBOUR = 3


@dataclass(frozen=True)
class Spectrum:
    """The singular value decomposition of D, cut where its singular values fall to rounding.

    Attributes:
        left, sizes, right: D = left diag(sizes) right, with n columns (h, n) and n rows (n, m).
        values: the leading singular values, three more than n.
        fall: the last of the n singular values over the next.
        noise: standard deviation of the rounding in an entry of D, from the singular values behind the first n.
    """

    left: torch.Tensor
    sizes: torch.Tensor
    right: torch.Tensor
    values: tuple[float, ...]
    fall: float
    noise: float

    @property
    def rank(self) -> int:
        """n."""
        return len(self.sizes)


@dataclass(frozen=True)
class DenseDisplacement:
    """The displacement of a dense first layer, and what it was computed from, in float64.

    Attributes:
        first: the layer and the normalisation before it.
        before, after: [W b] (h, m) before and after training; m = d + 1 with the bias, d without.
        has_bias: whether the bias is the last column.
        share: s.
        spectrum: of D.
        relu: whether a ReLU follows.
        bias_share: s of the bias; 1 if it is known not to decay.
    """

    first: FirstLayer
    before: torch.Tensor
    after: torch.Tensor
    has_bias: bool
    share: float
    spectrum: Spectrum
    relu: bool
    bias_share: float | None = None

    @property
    def moved(self) -> torch.Tensor:
        """D (h, m)."""
        shares = torch.full_like(self.before[0], self.share)
        if self.bias_share is not None:
            shares[-1] = self.bias_share
        return self.after - shares * self.before


def dense_displacement(
    model: NetworkWeights, input_shape: tuple[int, ...], num_samples: int | None = None
) -> DenseDisplacement:
    """The displacement of a network's dense first layer.

    Args:
        model: the network; the layer's initial weights must be known.
        input_shape: shape of one input.
        num_samples: the rank of D where its singular values do not show it.
    """
    first = first_layer(model.module, input_shape)
    name, weight = first.parameter("weight"), first.layer.weight.detach().double()
    if not isinstance(first.layer, nn.Linear):
        raise InputError(f"the first layer {first.name!r} is a convolution; a dense one is needed")
    if name not in model.initial:
        raise InputError(f"the weights of the first layer {name!r} before training are not known; they are needed")
    before = model.initial[name].to(weight)
    bias, bias_before = first.layer.bias, model.initial.get(first.parameter("bias"))
    with_bias = bias is not None and bias_before is not None
    pair = (before, weight)
    if with_bias:
        assert bias is not None
        assert bias_before is not None
        pair = (_beside(before, bias_before.to(weight)), _beside(weight, bias.detach().double()))
        if first.parameter("bias") in model.undecayed and (parts := _with_constant_bias(*pair, num_samples)):
            relu = is_followed_by_relu(model.module, first.layer, input_shape)
            return DenseDisplacement(first, *pair, True, *parts, relu, bias_share=1.0)
    share, found = _find_share(*pair, num_samples)
    if found is None and with_bias:  # a bias that decays otherwise than the weights would add to the rank
        with_bias, pair = False, (before, weight)
        share, found = _find_share(*pair, num_samples)
    if found is None:
        raise InputError(
            f"the displacement of the first layer {first.name!r} ({weight.shape[0]} x {weight.shape[1]}) has no clear "
            "rank: its singular values do not fall to rounding. It takes training by SGD of any kind from the given "
            "initial weights (not Adam), and fewer samples than inputs and neurons"
        )
    relu = is_followed_by_relu(model.module, first.layer, input_shape)
    return DenseDisplacement(first, *pair, with_bias, share, found, relu)


def _find_share(before: torch.Tensor, after: torch.Tensor, num_samples: int | None) -> tuple[float, Spectrum | None]:
    """The share s of the initial weights that is left, and the spectrum of D; None if D has no clear rank."""
    found = _cut_spectrum(after - before, after, num_samples)
    if found is not None:
        return 1.0, found
    return _off_the_span(before, after, decay_share(before, after), num_samples)


def _off_the_span(
    before: torch.Tensor, after: torch.Tensor, share: float, num_samples: int | None = None
) -> tuple[float, Spectrum | None]:
    """A share made precise: off the row space of D the trained weights are s times the initial ones."""
    for _ in range(_SHARE_ROUNDS):
        found = _cut_spectrum(after - share * before, after, num_samples)
        if found is None:
            return share, None
        rest, old = (each - (each @ found.right.T) @ found.right for each in (after, before))
        share = float((rest * old).sum() / old.square().sum())
    return share, _cut_spectrum(after - share * before, after, num_samples)


def _with_constant_bias(
    before: torch.Tensor, after: torch.Tensor, num_samples: int | None
) -> tuple[float, Spectrum] | None:
    """The share s of the weights' decay and the spectrum of D, where the bias, the last column, does not decay.

    D = [C' X, C 1]: decay makes the columns C' of the weights differ from those of the bias by about 1 - s. That is
    noise in the last column, far above rounding. None if D has no clear rank.
    """
    (old, new), bias = (before[:, :-1], after[:, :-1]), after[:, -1] - before[:, -1]
    shares = [_off_the_span(old, new, share) for share in (decay_share(old, new), clustered_share(old, new))]
    share, found = max(shares, key=lambda each: 0.0 if each[1] is None else each[1].fall)
    if found is None:
        return None
    whole = _cut_spectrum(_beside(new - share * old, bias), after, num_samples)
    if whole is None:
        return None
    noise = _BIAS_NOISE * abs(1 - share) * float(bias.square().mean().sqrt())
    return share, replace(whole, noise=max(whole.noise, noise))


def clustered_share(before: torch.Tensor, after: torch.Tensor) -> float:
    """As `decay_share`, for n up to d - 4: the eigenvalue whose third neighbour is nearest."""
    values = _share_spectrum(before, after)
    if len(values) <= _NEIGHBOUR:
        return 1.0
    gaps = (values[:, None] - values[None]).abs().sort(1).values[:, _NEIGHBOUR]
    return float(values[gaps.argmin()].real)


def decay_share(before: torch.Tensor, after: torch.Tensor) -> float:
    """s of W_T = s W_0 + C X: the eigenvalue of most multiplicity of W_0^-1 W_T, with both matrices made square.

    C X has rank n, so that all but n eigenvalues are s; their median is s while n is less than half of them.
    """
    return float(_share_spectrum(before, after).real.median())


def _share_spectrum(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    """Eigenvalues of W_0^-1 W_T, with both matrices made square by the same random combinations."""
    generator = torch.Generator().manual_seed(0)
    rows, columns = before.shape
    least = min(rows, columns)
    drawn = torch.randn((max(rows, columns), least), generator=generator, dtype=torch.float64).to(before)
    if rows < columns:
        before, after = before @ drawn, after @ drawn
    else:
        before, after = drawn.T @ before, drawn.T @ after
    return torch.linalg.eigvals(torch.linalg.solve(before, after))


def _cut_spectrum(moved: torch.Tensor, after: torch.Tensor, num_samples: int | None) -> Spectrum | None:
    """D's singular vectors up to the largest fall of its singular values; None if no fall is large enough."""
    rows, columns = (moved != 0).any(1).sum(), (moved != 0).any(0).sum()  # neurons that never fired, constant inputs
    wide = moved.shape[0] <= moved.shape[1]
    values, vectors = torch.linalg.eigh(moved @ moved.T if wide else moved.T @ moved)
    sizes = values.flip(0).clamp_min(0).sqrt()
    if float(sizes[0]) == 0:
        raise InputError("the first layer did not move in training")
    spread = float(rows) ** 0.5 + float(columns) ** 0.5  # the norm of a matrix of independent entries, over their size
    floor = max(_ROUNDING * float(after.square().mean().sqrt()) * spread, 1e-8 * float(sizes[0]))
    above = sizes.clamp_min(floor)
    falls = above[:-1] / above[1:]
    rank = int(falls.argmax()) + 1
    if float(falls[rank - 1]) < LEAST_FALL:
        if num_samples is None or num_samples >= len(sizes):
            return None
        rank = num_samples
    kept, vectors = sizes[:rank], vectors.flip(1)[:, :rank]
    if wide:
        left, right = vectors, (vectors.T @ moved) / kept[:, None]
    else:
        left, right = (moved @ vectors) / kept, vectors.T
    noise = float(above[rank]) / spread
    return Spectrum(left, kept, right, tuple(sizes[: rank + 3].tolist()), float(falls[rank - 1]), noise)


def _beside(weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch.cat([weight, bias[:, None]], 1)
