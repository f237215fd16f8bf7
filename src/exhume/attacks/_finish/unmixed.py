"""From the columns of a first layer's displacement to samples: scale, labels, error bars and certificate.

Zeros alone are no evidence: mixtures of columns have them too. A column counts if the input that it yields is inactive
wherever the column is zero, far more often than an unrelated input would be, and if all columns together explain D.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from exhume.attacks._base.problem import Problem, Proposal
from exhume.attacks._base.session import Session
from exhume.attacks._base.stage import SearchResult
from exhume.attacks._finish.column_ambiguity import may_be_chance, spoiled_inputs
from exhume.attacks._finish.norms_and_labels import norms_and_labels
from exhume.attacks._search.unmixing.columns import leverage_margin
from exhume.attacks._search.unmixing.estimates import Estimation
from exhume.attacks._search.unmixing.few_neurons import mixture_of
from exhume.attacks._search.unmixing.missing_columns import known_inputs
from exhume.attacks._search.unmixing.mixture import Mixture, Tensor, kullback_leibler
from exhume.attacks._search.unmixing.search import UnmixSearch
from exhume.errors import InputError
from exhume.results.certificate import APPROXIMATE, EXACT, EXACT_BELOW, FAILED, RECOVERED_BELOW, Certificate
from exhume.results.stop import Stop
from exhume.support.randomness import generator_for
from exhume.target.dense_displacement import DenseDisplacement, dense_displacement

# A residual within this factor of what rounding alone leaves is at the floor.
_AT_FLOOR = 10.0
# Chance (its logarithm) with which an unrelated input may leave as many of a column's zeros inactive as its own does,
# and with which zeros may agree on a mixture of two columns.
_CHANCE = math.log(1e-3)
_ABOUT_NORMS = "Norms: fixed by the bias, or known. Labels: the model's outputs."
_OPEN_NORMS = (
    "Norms: undetermined, because the first layer has no bias, or its bias was decayed otherwise than its weights. "
    "Where the alphabet of labels is known, samples have norms that fit it, else sqrt(d). Labels: the model's outputs."
)
# Share of values that rounding hides from which chance is not counted: weights of 16 bits.
_COARSE = 0.01
# Estimated samples that are longer than this, in usual norms, are given the usual norm.
_LARGEST = 5.0
# Error bar of a sample whose column contradicts it: that of a guess.
_GUESS = math.sqrt(2)


@dataclass(frozen=True)
class _Samples:
    """Samples in the units of the input, (n, d); whether their norms are known; which have a bias of the right sign."""

    samples: Tensor
    norms_determined: bool
    signs_agree: Tensor


def finish_columns(problem: Problem, moved: DenseDisplacement, mixture: Mixture, found: SearchResult) -> Proposal:
    """Samples and certificate from the columns that were found; approximate directions if some are missing."""
    complete, placed = found.stop is Stop.CONVERGED, _to_samples(problem, moved, mixture, found)
    dtype = problem.features.dtype
    labelled = norms_and_labels(
        placed.samples.to(dtype),
        problem.outputs(placed.samples.to(dtype)),
        problem.features.symmetry,
        problem.target.knowledge,
        problem.tuning.trust,
        complete,
    )
    use_labels = not placed.norms_determined
    samples = labelled.samples if use_labels else placed.samples.to(dtype)
    certificate = _certificate(moved, mixture, found, placed)
    phi = problem.features.forward(samples)
    coefficients = torch.linalg.lstsq(phi.double().T, problem.target.displacement.double().T).solution
    return Proposal(
        samples=samples,
        stop=found.stop,
        signs_determined=complete,
        norms_determined=complete and placed.norms_determined,  # those from outputs are estimates
        labels=labelled.labels if complete else None,
        coefficients=coefficients.to(dtype),
        certificate=certificate,
        evidence=_evidence(moved, mixture, found),
        notes=_notes(moved, mixture, found, _ABOUT_NORMS if placed.norms_determined else _OPEN_NORMS),
    )


def partial_inputs(mixture: Mixture, vectors: Tensor) -> Tensor:
    """Estimated inputs (n, n) where only m of n columns (m, n) are known; below them a basis of what is missing.

    The inputs of found columns are fitted to their zeros. A single missing input is exact.
    """
    return torch.cat([known_inputs(mixture, vectors), mixture.open_inputs(vectors).T])


def unmixed_samples(
    problem: Problem, session: Session, count: int, max_starts: int | None = None, share: float = 1.0
) -> Tensor | None:
    """Samples (n, d) from all columns of a ReLU layer's displacement, or some: where another search may begin.

    None if the layer does not show n samples, or no column was found. The search ends with a share of the budget.
    """
    model = problem.target.known_model
    assert model is not None
    try:
        moved = dense_displacement(model, problem.target.input_shape, count)
    except InputError:
        return None
    if not moved.relu or moved.spectrum.rank != count:
        return None
    mixture = mixture_of(problem, moved)
    if mixture.num_neurons <= count:
        return None
    search = UnmixSearch(problem, mixture, max_starts, Estimation(problem, mixture, moved))
    found = session.run_stage(search, share)
    return _to_samples(problem, moved, mixture, found).samples if len(found.rows) else None


def _to_samples(problem: Problem, moved: DenseDisplacement, mixture: Mixture, found: SearchResult) -> _Samples:
    """Samples from columns: scaled by the bias, and freed from the normalisation before the layer."""
    complete = found.stop is Stop.CONVERGED
    full = len(found.rows) == mixture.rank
    inputs = mixture.inputs_of(found.rows) if full else partial_inputs(mixture, found.rows)
    rows = inputs @ moved.spectrum.right
    agree = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
    first = moved.first
    norm = problem.target.knowledge.norm
    given = rows[:, : first.layer.weight.shape[1]]
    radius = norm or math.sqrt(given.shape[1])
    on_sphere = given * radius / torch.linalg.vector_norm(given, dim=1, keepdim=True).clamp_min(1e-300)
    if moved.has_bias and complete:
        agree = rows[:, -1] > 0
        given = given / rows[:, -1:]
    elif moved.has_bias:  # estimates, of which the missing ones have no sign of their own
        scaled = given / rows[:, -1:]
        usable = torch.linalg.vector_norm(scaled, dim=1, keepdim=True) < _LARGEST * radius
        given = torch.where(usable, scaled, on_sphere)
    else:
        given = on_sphere
    known = (moved.has_bias and complete) or norm is not None
    return _Samples((given - first.shift.to(given)) / first.scale.to(given), known, agree)


def _certificate(moved: DenseDisplacement, mixture: Mixture, found: SearchResult, placed: _Samples) -> Certificate:
    """Judges the columns by their inputs' activations and by D alone."""
    spectrum, size, rank = moved.spectrum, float(moved.moved.norm()), mixture.rank
    entries = moved.before.numel()
    floor = math.hypot(spectrum.noise * math.sqrt(entries), spectrum.bias_noise * math.sqrt(len(moved.before))) / size
    zeros = mixture.zeros(found.rows)
    unknowns = int((~zeros).sum()) + rank * (moved.before.shape[1] - 1)
    if found.stop is not Stop.CONVERGED:
        return Certificate(entries, unknowns, 1 - found.num_samples / rank, floor, None, (), FAILED, _why(found))
    inputs = mixture.inputs_of(found.rows)
    columns = torch.where(zeros, 0.0, mixture.columns(found.rows))  # (n, h), zeros made exact
    explained = columns.T @ (mixture.dual_basis(found.rows) @ spectrum.right)
    residual = float((moved.moved[mixture.alive] - explained).norm()) / size
    trusted = _beyond_chance(mixture, found.rows, inputs) & _determined(mixture, found.rows) & placed.signs_agree
    spread = _error_bars(moved, mixture, found.rows, placed.samples).clamp_max(_GUESS)
    bars = tuple(spread.masked_fill(may_be_chance(mixture, found.rows, _CHANCE), _GUESS).tolist())
    smallest = float(torch.linalg.svdvals(found.rows)[-1])
    good, count = sum(bar < RECOVERED_BELOW for bar in bars), len(bars)
    if not bool(trusted.all()):  # a wrong column spoils the inputs of others, and which ones is not known
        reason = (
            f"{int((~trusted).sum())} of {count} columns contradict their own inputs or agree with them by chance, or "
            "have zeros that chance explains."
        )
        return Certificate(entries, unknowns, residual, floor, smallest, (), FAILED, reason)
    if residual > _AT_FLOOR * floor or good < count:  # a column that is not determined spoils others beyond their bars
        reason = (
            "The columns do not explain the displacement of the first layer, or the zeros of "
            f"{count - good} of {count} columns do not determine them."
        )
        return Certificate(entries, unknowns, residual, floor, smallest, (), FAILED, reason)
    if max(bars) < EXACT_BELOW:
        reason = (
            f"All {count} columns agree with the activations of their own inputs, and together they explain the "
            "displacement of the first layer to rounding."
        )
        return Certificate(entries, unknowns, residual, floor, smallest, bars, EXACT, reason)
    reason = (
        f"{good} of {count} samples have an error bar below {RECOVERED_BELOW}; rounding of the weights limits them."
    )
    return Certificate(entries, unknowns, residual, floor, smallest, bars, APPROXIMATE, reason)


def _why(found: SearchResult) -> str:
    return f"{found.num_samples} columns of the first layer's displacement were found, which is not all of them."


def _beyond_chance(mixture: Mixture, vectors: Tensor, inputs: Tensor) -> Tensor:
    """Which inputs leave so many of their columns' zeros inactive that chance does not explain it.

    An unrelated input leaves each of z zeros inactive with the probability p that it leaves any neuron inactive, and a
    share q of them with a probability of at most exp(-z KL(q || p)) (Chernoff).
    """
    agreement = mixture.agreement(vectors, inputs)
    count = agreement.zeros.sum(1)
    logarithms = []
    shares = (agreement.inactive_before, agreement.inactive_after)
    for share, values in zip(shares, mixture.activations(inputs), strict=True):
        chance = (values < 0).double().mean(1).clamp(1e-6, 1 - 1e-6)
        own = torch.maximum(share.to(chance), chance)
        logarithms.append(-count * kullback_leibler(own, chance))
    return (torch.minimum(*logarithms) < _CHANCE) & agreement.consistent(mixture.tuning)


def _determined(mixture: Mixture, vectors: Tensor) -> Tensor:
    """Which columns have more zeros than any vector can be given, and than some vector has by chance.

    Any n - 1 of h neurons determine a vector that is zero there. Each further zero has a probability of about p, the
    share of values that rounding hides, so that C(h, z) p^(z - n + 1) vectors with z zeros are expected by chance.
    Where rounding hides more than `_COARSE`, that says nothing, and the search's own measures have to do.
    """
    tuning, zeros = mixture.tuning, mixture.zeros(vectors)
    count, neurons = zeros.sum(1).double(), torch.tensor(float(mixture.num_neurons), dtype=torch.float64)
    hidden = (2 * mixture.threshold(vectors)[:, 0] / mixture.columns(vectors).abs().mean(1)).clamp(1e-12, 1.0)
    choices = torch.lgamma(neurons + 1) - torch.lgamma(count + 1) - torch.lgamma(neurons - count + 1)
    by_chance = choices + (count - mixture.rank + 1) * hidden.log() > _CHANCE
    enough = (count >= mixture.rank + tuning.spare) & (mixture.evidence(vectors) > tuning.evidence)
    told = leverage_margin(mixture, vectors, zeros) > tuning.least_leverage
    return enough & told & ~(by_chance & (hidden < _COARSE))


def _error_bars(moved: DenseDisplacement, mixture: Mixture, vectors: Tensor, samples: Tensor) -> Tensor:
    """Relative errors (n,): the spread of samples computed again with noise of rounding's size added to D.

    Noise off the row space of D reaches a sample through its row of C^+ alone. What the zeros leave open is added.
    """
    tuning, spectrum, first = mixture.tuning, moved.spectrum, moved.first
    generator, zeros = generator_for(0, "error bars of unmix"), mixture.zeros(vectors)
    root = math.sqrt(mixture.num_neurons)
    width = first.layer.weight.shape[1]
    given = samples * first.scale.to(samples) + first.shift.to(samples)
    length = torch.linalg.vector_norm(given, dim=1)
    squares = torch.zeros_like(length)
    for _ in range(tuning.perturbations):
        noise = torch.randn(mixture.basis.shape, generator=generator, dtype=torch.float64).to(mixture.basis)
        in_bias = torch.randn(len(noise), generator=generator, dtype=torch.float64).to(noise)
        noise = mixture.noise * noise + torch.outer(in_bias, mixture.bias_noise)
        noisy = mixture.basis + root * noise / mixture.sizes
        again = torch.stack(
            [torch.linalg.eigh(noisy[zero].T @ noisy[zero])[1][:, 0] for zero in zeros]
        )  # (n, n), the vectors that vanish on the same rows
        rows = torch.linalg.pinv(again.T) * mixture.sizes / root @ spectrum.right
        if moved.has_bias:
            moved_rows = rows[:, :width] / rows[:, -1:]
        else:
            rows = rows[:, :width] * torch.sign((rows[:, :width] * given).sum(1, keepdim=True))
            moved_rows = rows * (length / torch.linalg.vector_norm(rows, dim=1))[:, None]
        squares += (moved_rows - given).square().sum(1) / tuning.perturbations
    rows = mixture.inputs_of(vectors) @ spectrum.right
    sizes = rows[:, -1].abs() if moved.has_bias else torch.linalg.vector_norm(rows, dim=1) / length
    through = torch.linalg.vector_norm(torch.linalg.inv(vectors.T), dim=1) / root  # rows of C^+
    squares += (mixture.noise * through / sizes).square() * width
    spoiled = spoiled_inputs(mixture, vectors).fill_diagonal_(0.0) * sizes / sizes[:, None]
    apart = torch.cdist(given, given) if moved.has_bias else length.expand(len(length), -1)
    ambiguous = (spoiled * apart).square().sum(1).sqrt()
    return tuning.bars * (squares.sqrt() + ambiguous) / length


def _evidence(moved: DenseDisplacement, mixture: Mixture, found: SearchResult) -> dict[str, object]:
    """Numbers behind the result."""
    zeros = mixture.zeros(found.rows)
    evidence: dict[str, object] = {
        "rank": mixture.rank,
        "singular_values": list(moved.spectrum.values),
        "fall": moved.spectrum.fall,
        "share_of_initial_weights": moved.share,
        "columns": found.num_samples,
        "starts": found.starts,
        "zero_shares": zeros.double().mean(1).tolist(),
    }
    if found.stop is Stop.STARTS_SPENT:
        evidence["ending"] = "The starts were spent before all columns of the first layer's displacement were found."
    if found.stop is Stop.CONVERGED:
        evidence["ending"] = "A column of the first layer's displacement was found for every sample."
        agreement = mixture.agreement(found.rows, mixture.inputs_of(found.rows))
        evidence["inactive_after"] = agreement.inactive_after.tolist()
        evidence["inactive_before"] = agreement.inactive_before.tolist()
        evidence["contradiction"] = agreement.contradiction.tolist()
    return evidence


def _notes(moved: DenseDisplacement, mixture: Mixture, found: SearchResult, norms: str) -> dict[str, str]:
    """Sentences for the result."""
    rank, spectrum = mixture.rank, moved.spectrum
    notes = {
        "samples": f"Samples: {rank}, the rank of the first layer's displacement; its singular values fall by a factor "
        f"of {spectrum.fall:.2g} behind it."
    }
    if moved.share != 1:
        notes["decay"] = f"Weight decay left {moved.share:.6g} of the initial weights of the first layer."
    if found.num_samples < rank:
        notes["columns"] = (
            f"Columns: {found.num_samples} of {rank} were found. Without all of them no input is known exactly: the "
            "first rows of the result are estimates, and so is the last if a single column is missing; if more are, "
            "the others are a basis of the span of the missing samples."
        )
    else:
        notes["norms"] = norms
    return notes
