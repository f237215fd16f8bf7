"""Samples found in feature spans: what they cover, and a certificate that certifies nothing."""

from __future__ import annotations

import torch

from exhume.attacks._base.problem import EquationCount, Problem, Proposal
from exhume.attacks._base.stage import SearchResult
from exhume.equation.feature_span import FeatureSpans
from exhume.results.certificate import FAILED, Certificate


def finish_spans(problem: Problem, spans: FeatureSpans, found: SearchResult, counted: EquationCount) -> Proposal:
    """The accepted rows. Their errors cannot be bounded: the last stages of a network hardly see fine detail."""
    with torch.no_grad():
        patches, outputs = spans.patches(found.rows)
        left = float(spans.coverage(patches).mean())
    reason = (
        f"{found.num_samples} of {problem.num_samples} samples were found one by one in feature spans, which leave "
        "fine detail open and give no error bars."
    )
    if not found.num_samples:
        reason += " The row that is returned was not accepted."
    read = ", ".join(spans.layers)
    return Proposal(
        samples=found.rows,
        stop=found.stop,
        signs_determined=True,
        norms_determined=problem.norms_open,
        labels=outputs.argmax(1).to(found.rows) if outputs.shape[1] > 1 else outputs.sign()[:, 0],
        coefficients=outputs.new_zeros((len(found.rows), outputs.shape[1])),  # of no path equation
        certificate=Certificate(*counted, left**0.5, torch.finfo(torch.float32).eps, None, (), FAILED, reason),
        evidence={
            "layers": list(spans.layers),
            "uncovered": left,
            "rounds": found.starts,
            "found": found.num_samples,
            "ending": f"The search in feature spans ended after {found.starts} rounds.",
        },
        notes={
            "equation": f"Equation: the row spaces of {read}, as the path equation does not fit into memory. The "
            f"samples found leave {100 * left:.2g} % of them uncovered."
        },
    )
