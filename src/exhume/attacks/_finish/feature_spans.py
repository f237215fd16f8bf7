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
        f"{len(found.rows)} of {found.problem.num_samples} samples were found one by one in feature spans, which "
        "leave fine detail open and give no error bars."
    )
    read = ", ".join(spans.layers)
    return Proposal(
        samples=found.rows,
        stop=found.stop,
        signs_determined=True,
        norms_determined=problem.norms_open or problem.target.knowledge.norm is not None,
        labels=outputs.argmax(1).to(found.rows) if outputs.shape[1] > 1 else outputs.sign()[:, 0],
        coefficients=outputs.new_zeros((len(found.rows), outputs.shape[1])),  # of no path equation
        certificate=Certificate(*counted, left**0.5, torch.finfo(torch.float32).eps, None, (), FAILED, reason),
        evidence={"layers": list(spans.layers), "uncovered": left, "rounds": found.starts},
        notes={
            "equation": f"Equation: the row spaces of {read}, as the path equation does not fit into memory. The "
            f"samples found leave {100 * left:.2g} % of them uncovered."
        },
    )
