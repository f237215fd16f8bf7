"""How far a dense first layer moved, and which share of its initial weights weight decay left.

Every first-order method with one step size for all weights moves a dense layer by a combination of its inputs:

    D = [W_T - s W_0, b_T - s b_0] = C [X 1],    C (h, n) the summed errors that were sent back,

with s the share that weight decay left of the start (1 without decay). The rank of D is the number of samples n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import nn

from exhume.errors import InputError
from exhume.support.rounding_grid import rounding_noise
from exhume.target.first_layer import FirstLayer, first_layer, is_followed_by_relu
from exhume.target.network_weights import NetworkWeights

# The rank of D is where its singular values fall by the largest factor, which must be at least this.
LEAST_FALL = 8.0
# Singular values below this share of what float32 rounding of the weights makes are taken for zero.
_ROUNDING = 0.2 * 2.0**-24
# A share other than 1 is taken if it leaves less than this part of the noise behind the samples.
_LESS_NOISE = 0.7
# Singular values above this multiple of what the recognised rounding of the weights can make belong to samples, and the
# first behind them must reach the other multiple, or the rounding does not explain it.
_ABOVE_ROUNDING, _AT_ROUNDING = 1.25, 0.6
# Rounds at most that fit the share of the initial weights off the span of the data, and the change that ends them.
_SHARE_ROUNDS, _SAME_SHARE = 12, 1e-9
# Error of what a bias without decay tells, over (1 - s) times its size: with less, zeros of columns are not seen, with
# more, samples are lost. Measured 0.01 to 0.16, mostly 0.05, on the networks of `python -m benches estimators` with
# seed 10, and an entry counts as zero up to six times this; 0.1 found fewer columns on five of eight of them.
_BIAS_NOISE = 0.03
_ON_A_FROZEN_BODY = (
    ". If a dense block was trained on a frozen body, of convolutions or not, attack the block alone: "
    "Target.last_layer(block, ...). The result is then the body's features of each sample, not its inputs "
    "(docs/explanation/unmix.md, Dense layers on a frozen body)"
)
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
        bias_noise: standard deviation of a further error in the last column, that of the bias.
    """

    left: torch.Tensor
    sizes: torch.Tensor
    right: torch.Tensor
    values: tuple[float, ...]
    fall: float
    noise: float
    bias_noise: float = 0.0

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
        bias_factor: what the move of a bias without decay is multiplied by to be about that with the weights' decay;
            None if the bias decays as the weights do.
    """

    first: FirstLayer
    before: torch.Tensor
    after: torch.Tensor
    has_bias: bool
    share: float
    spectrum: Spectrum
    relu: bool
    bias_factor: float | None = None

    @property
    def moved(self) -> torch.Tensor:
        """D (h, m)."""
        moved = self.after - self.share * self.before
        if self.bias_factor is not None:
            moved[:, -1] = self.bias_factor * (self.after - self.before)[:, -1]
        return moved


def dense_first_layer(model: NetworkWeights, input_shape: tuple[int, ...]) -> FirstLayer:
    """The first layer of a network, which must be dense and have moved, and of which the start must be known."""
    first = first_layer(model.module, input_shape)
    name, weight = first.parameter("weight"), first.layer.weight.detach()
    before = model.initial.get(name)
    if name not in model.trained if before is None else torch.equal(before.to(weight), weight):
        raise InputError(f"the first layer {first.name!r} did not move in training{_ON_A_FROZEN_BODY}")
    if not isinstance(first.layer, nn.Linear):
        raise InputError(f"the first layer {first.name!r} is a convolution; a dense one is needed")
    if before is None:
        raise InputError(f"the weights of the first layer {name!r} before training are not known; they are needed")
    return first


def dense_displacement(
    model: NetworkWeights, input_shape: tuple[int, ...], num_samples: int | None = None
) -> DenseDisplacement:
    """The displacement of a network's dense first layer.

    Args:
        model: the network; the layer's initial weights must be known.
        input_shape: shape of one input.
        num_samples: the rank of D where its singular values do not show it.
    """
    first = dense_first_layer(model, input_shape)
    weight = first.layer.weight.detach().double()
    before = model.initial[first.parameter("weight")].to(weight)
    bias, bias_before = first.layer.bias, model.initial.get(first.parameter("bias"))
    with_bias, pair = False, (before, weight)
    if bias is not None and bias_before is not None:
        with_bias, pair = True, (_beside(before, bias_before.to(weight)), _beside(weight, bias.detach().double()))
        if first.parameter("bias") in model.undecayed and (parts := _with_constant_bias(*pair, num_samples)):
            relu = is_followed_by_relu(model.module, first.layer, input_shape)
            return DenseDisplacement(first, *pair, True, *parts, relu, bias_factor=_bias_factor(parts[0]))
    share, found = _find_share(*pair, num_samples)
    if with_bias and (found is None or share != 1.0):
        # A bias that decays otherwise than the weights weighs the steps otherwise, and adds to the rank.
        alone = _find_share(before, weight, num_samples)
        if found is None or (alone[1] is not None and alone[1].rank < found.rank):
            with_bias, pair, (share, found) = False, (before, weight), alone
    if found is None:
        raise InputError(
            f"the displacement of the first layer {first.name!r} ({weight.shape[0]} x {weight.shape[1]}) has no clear "
            "rank: its singular values do not fall to rounding. It takes training by SGD of any kind from the given "
            "initial weights (not Adam), and fewer samples than inputs and neurons"
        )
    relu = is_followed_by_relu(model.module, first.layer, input_shape)
    return DenseDisplacement(first, *pair, with_bias, share, found, relu)


def _find_share(before: torch.Tensor, after: torch.Tensor, num_samples: int | None) -> tuple[float, Spectrum | None]:
    """The share s of the initial weights that is left, and the spectrum of D; None if D has no clear rank.

    A slow decay leaves (s - 1) W_0 in D, which looks like noise behind the samples, or like many samples. So s = 1 is
    kept only if the share that fits best gives no smaller rank and not much less noise.
    """
    rounding = rounding_noise(after)
    plain = _cut_spectrum(after - before, after, num_samples, rounding)
    share, start = 1.0, _cut_spectrum(after - before, after, num_samples, None)
    if start is None:
        share = decay_share(before, after)
        start = _cut_spectrum(after - share * before, after, num_samples, rounding)
    share, found = _off_the_span(before, after, (share, start), num_samples, rounding)
    if found is None or plain is None:
        return (1.0, plain) if found is None else (share, found)
    decayed = found.rank < plain.rank or (found.rank == plain.rank and found.noise < _LESS_NOISE * plain.noise)
    return (share, found) if decayed else (1.0, plain)


def _off_the_span(
    before: torch.Tensor,
    after: torch.Tensor,
    start: tuple[float, Spectrum | None],
    num_samples: int | None,
    rounding: float | None,
) -> tuple[float, Spectrum | None]:
    """The share s that fits best off the span of the samples, where the trained weights are s times the initial ones.

    `start` has a first share and the spectrum of D with it; None if D has no clear rank.
    """
    share, found = start
    for _ in range(_SHARE_ROUNDS):
        if found is None:
            return share, None
        rest, old = (each - (each @ found.right.T) @ found.right for each in (after, before))
        last, share = share, float((rest * old).sum() / old.square().sum().clamp_min(1e-300))
        found = _cut_spectrum(after - share * before, after, num_samples, rounding)
        if abs(share - last) < _SAME_SHARE:
            break
    return share, found


def _with_constant_bias(
    before: torch.Tensor, after: torch.Tensor, num_samples: int | None
) -> tuple[float, Spectrum] | None:
    """The share s of the weights' decay and the spectrum of D, where the bias, the last column, does not decay.

    D = [C' X, C 1]: decay makes the columns C' of the weights differ from those of the bias by about 1 - s. After a
    common factor is taken out, that is noise in the last column, far above rounding. None if D has no clear rank.
    """
    (old, new), bias = (before[:, :-1], after[:, :-1]), after[:, -1] - before[:, -1]
    shares = []
    for share in (decay_share(old, new), clustered_share(old, new)):
        start = _cut_spectrum(new - share * old, new, None, None)
        shares.append(_off_the_span(old, new, (share, start), None, None))
    share, found = max(shares, key=lambda each: 0.0 if each[1] is None else each[1].fall)
    if found is None:
        return None
    bias = _bias_factor(share) * bias
    whole = _cut_spectrum(_beside(new - share * old, bias), after, num_samples, None)
    if whole is None:
        return None
    return share, replace(whole, bias_noise=_BIAS_NOISE * abs(1 - share) * float(bias.square().mean().sqrt()))


def _bias_factor(share: float) -> float:
    """About sum_t s^(1 - t/T) g_t / sum_t g_t, the ratio of moves with and without decay.

    It is (1 - s) / -log s for steps g_t of one size, and s for steps at the beginning only: the mean of both.
    """
    return 0.5 * (share + (1 - share) / -math.log(share)) if 0 < share < 1 else 1.0


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


def _cut_spectrum(
    moved: torch.Tensor, after: torch.Tensor, num_samples: int | None, rounding: float | None
) -> Spectrum | None:
    """D's singular vectors above its noise; None if its rank is not clear.

    The rank is where singular values fall by the largest factor. Where the weights were rounded to a grid that is
    recognised, it is the number of singular values above those of the rounding errors: samples of different sizes may
    fall by more among themselves.
    """
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
    explained = _rank_above(above, (rounding or 0.0) * spread)
    if explained is not None:
        rank = explained
    elif float(falls[rank - 1]) < LEAST_FALL:
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


def _rank_above(sizes: torch.Tensor, edge: float) -> int | None:
    """How many singular values exceed the largest one of rounding errors; None if these do not explain the next."""
    rank = int((sizes > _ABOVE_ROUNDING * edge).sum())
    if edge == 0 or not 0 < rank < len(sizes) or float(sizes[rank]) < _AT_ROUNDING * edge:
        return None
    return rank


def _beside(weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch.cat([weight, bias[:, None]], 1)
