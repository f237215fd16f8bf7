"""From the inputs that a search without exact zeros found to samples, error bars and a certificate.

The residual of a sample is relative to its own column. It is not at rounding: the path of training is known nearly,
so the verdict is "approximate" at best. A wrong input fits several times worse than the others.
"""

from __future__ import annotations

import math

import torch

from exhume.attacks._base.problem import Problem, Proposal
from exhume.attacks._base.stage import SearchResult
from exhume.attacks._search.unmixing.smooth_columns import SmoothSearch
from exhume.results.certificate import APPROXIMATE, FAILED, RECOVERED_BELOW, Certificate

# Error bar of a sample that nothing is known of: that of a guess.
_GUESS = math.sqrt(2)


def finish_smooth(problem: Problem, search: SmoothSearch, found: SearchResult) -> Proposal:
    """Samples and certificate from the inputs found; a basis of the rest if some are missing."""
    tuning, moved, count = problem.tuning.smooth, search.network.moved, search.count
    inputs, complete, miss = found.rows, len(found.rows) == count, None
    bars = residuals = torch.full((count,), _GUESS, dtype=torch.float64)
    if complete:
        fitted, miss = search.refit(inputs, tuning.last_nodes)
        changes = (fitted.inputs - inputs).norm(dim=1) / inputs.norm(dim=1)
        residuals = fitted.residuals
        wrong = residuals > max(tuning.outlier * float(residuals.median()), tuning.floor)
        bars = torch.where(wrong, _GUESS, tuning.bars * torch.hypot(residuals, changes))
        inputs = fitted.inputs
    else:
        inputs = torch.cat([inputs, torch.linalg.svd(inputs)[2][len(inputs) :]])
    samples = search.samples(inputs).to(problem.features.dtype)
    phi = problem.features.forward(samples)
    coefficients = torch.linalg.lstsq(phi.double().T, problem.target.displacement.double().T).solution
    outputs = problem.outputs(samples)
    spectrum, entries = moved.spectrum, moved.before.numel()
    floor = spectrum.noise * math.sqrt(entries) / float(moved.moved.norm())
    nodes = tuning.last_nodes * (outputs.shape[1] - int(search.network.errors_sum_to_zero))
    unknowns = count * (search.frame.directions.shape[1] + nodes)
    residual = min(1.0, float(residuals.square().mean().sqrt()))
    good = int((bars < RECOVERED_BELOW).sum())
    predicted = tuple(bars.clamp_max(_GUESS).tolist()) if good else ()
    reason = (
        f"{good} of {count} samples have an error bar below {RECOVERED_BELOW}; without exact zeros the path of "
        "training, which is simulated, limits them."
        if complete
        else f"{len(found.rows)} samples that explain the first layer's displacement were found, not all {count}."
    )
    verdict = APPROXIMATE if good else FAILED
    return Proposal(
        samples=samples,
        stop=found.stop,
        signs_determined=complete,
        norms_determined=complete,
        labels=(outputs[:, 0] if outputs.shape[1] == 1 else outputs) if complete else None,
        coefficients=coefficients.to(samples),
        certificate=Certificate(entries, unknowns, residual, floor, None, predicted, verdict, reason),
        evidence={
            "rank": count,
            "singular_values": list(spectrum.values),
            "fall": spectrum.fall,
            "share_of_initial_weights": moved.share,
            "columns": len(found.rows),
            "starts": found.starts,
            "residuals": residuals.tolist() if complete else [],
            "simulated_training_misses": miss,
        },
        notes={
            "samples": f"Samples: {count}, the rank of the first layer's displacement; its singular values fall by a "
            f"factor of {spectrum.fall:.2g} behind it.",
            "columns": "Columns: found by what each sample can have sent back at nodes of the path of training; the "
            "activation leaves no exact zeros.",
        },
    )
