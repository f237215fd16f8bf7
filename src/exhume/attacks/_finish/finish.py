"""From rows that a search found to a proposal: signs, polish, drift, norms and labels."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from exhume.attacks._base.problem import Drift, Problem, Proposal
from exhume.attacks._base.session import BUDGET_STOPS, Session
from exhume.attacks._base.stage import SearchResult
from exhume.attacks._finish.drift import take_out_drift
from exhume.attacks._finish.norms_and_labels import Labelled, norms_and_labels
from exhume.attacks._finish.polish import affords_double, free_norms, polish
from exhume.attacks._finish.signs import Signs, choose_signs
from exhume.attacks._finish.unread import check_unread
from exhume.attacks._search.sample_count import visible_directions
from exhume.attacks._search.spectral import shows_samples
from exhume.attacks._search.subsets import SubsetSearch
from exhume.attacks._search.working_equation import choices, working_equation
from exhume.results.stop import Stop
from exhume.solvers import levenberg_marquardt


def finish(found: SearchResult, session: Session, drift: Drift | None = None) -> Proposal:
    """Samples with signs, norms and labels, solved to the floor of the precision and corrected for drift.

    Args:
        found: what a search found.
        session: records the steps.
        drift: if samples are corrected for drift already; else a first-order correction is tried where rows end above
            rounding.
    """
    problem = replace(found.problem, features=found.problem.features.kept_as_it_fits())  # no search keeps V by now
    parity, stop = problem.features.symmetry.parity, found.stop
    signs, choice = _signs_of_working_rows(problem, found, session) if found.working else _signs_of_rows(found)
    signs_open = stop.trusted and not signs.determined and parity == "none"
    samples = signs.samples
    if drift is None and stop.trusted and not signs_open:
        # Rows that solve the model's own equation down to a noise floor are at its minimum already.
        if found.working or stop is Stop.CONVERGED:
            samples = polish(problem, samples, session)
        if stop is not Stop.CONVERGED:
            drift = take_out_drift(problem, samples, session.record)
    samples = samples if drift is None else drift.samples
    if signs_open:
        stop = Stop.SIGNS_OPEN
    elif stop is Stop.REPRODUCED and _has_structure(problem, samples, session.generator):
        stop = Stop.STRUCTURED
    labelled = _labelled(problem, samples, stop, problem.outputs(samples))
    notes = {"choices": choice, "signs": signs.note}
    if drift is not None:
        notes["drift"] = drift.note
    notes["norms"] = labelled.note
    if problem.num_samples is not None and found.num_samples < problem.num_samples:
        counts = f"{found.num_samples} of the {problem.num_samples} looked for"
        notes["samples"] = f"Samples: {counts} explain the weights; the rest was idle."
    return Proposal(
        samples=labelled.samples,
        stop=stop,
        signs_determined=signs.determined,
        norms_determined=labelled.norms_determined,
        labels=labelled.labels if signs.determined or parity == "even" else None,
        solved=found.problem,
        drift=drift,
        evidence=found.evidence | {"starts": found.starts},
        notes=notes,
    )


def finish_and_check(problem: Problem, found: SearchResult, session: Session, max_starts: int) -> Proposal:
    """Finishes on the coordinates that the search read, and checks the samples against the others.

    Where the search did not find the samples, all coordinates are read: there is noise, and more of them average it.
    Where the others do not confirm the samples, the search goes on with all coordinates.

    Args:
        problem: on all coordinates.
        found: what the search found, on some of them or on all.
        session: records the steps.
        max_starts: of another search.
    """
    num_read, width = found.problem.features.num_features, problem.features.num_features
    if num_read == width or found.stop is not Stop.CONVERGED:
        return finish(replace(found, problem=problem), session)
    proposal = finish(found, session)
    check = check_unread(problem, num_read, proposal.samples)
    if not check.confirms:
        del proposal
        found = session.run_stage(SubsetSearch(problem, found.num_samples, max_starts=max_starts, rows=found.rows))
        return finish(found, session)
    # Norms of homogeneous features are read off the outputs of all coordinates, and coefficients follow them.
    labelled = _labelled(problem, proposal.samples, proposal.stop, check.outputs)
    sizes = proposal.samples.norm(dim=1) / labelled.samples.norm(dim=1)
    note = (
        f"Coordinates: {num_read} of {width} were read; the others, read once, are explained to a relative residual of "
        f"{check.unread:.1e}."
    )
    return replace(
        proposal,
        samples=labelled.samples,
        labels=labelled.labels if proposal.labels is not None else None,
        norms_determined=labelled.norms_determined,
        coefficients=check.coefficients * sizes[:, None].to(check.coefficients),
        residual=check.residual,
        evidence=proposal.evidence | {"coordinates": num_read, "unread_residual": check.unread},
        notes=proposal.notes | {"norms": labelled.note, "coordinates": note},
    )


def _signs_of_working_rows(problem: Problem, found: SearchResult, session: Session) -> tuple[Signs, str]:
    """Signs from the nuisance that is fitted beside rows of the working equation, and the choices made for it."""
    activation, tuning = problem.one_layer.activation, problem.tuning.polish
    equation = working_equation(problem, found.num_samples)
    # Found rows are precise enough to decide the signs; others are taken to the bottom of their minimum first.
    ended = found.stop is Stop.CONVERGED or found.stop in BUDGET_STOPS or session.budget_spent() is not None
    rule = replace(tuning.refine, max_steps=0) if ended else tuning.refine
    point = levenberg_marquardt(equation, found.rows, problem.sphere, rule, cg=tuning.refine_cg).point
    if problem.norms_open and found.stop.trusted:
        equation, point = free_norms(problem, point.rows, found.num_samples)
    signs = choose_signs(equation, point, activation, problem.tuning, problem.target.knowledge.samples)
    return signs, choices(equation, activation, affords_double(problem.target, tuning))


def _signs_of_rows(found: SearchResult) -> tuple[Signs, str]:
    """Signs of rows that solve the model's own equation: they are solved for, unless the features hide them."""
    parity = found.problem.features.symmetry.parity
    note = "Signs: solved for together with the samples."
    if parity != "none":
        note = f"Signs: the features are an {parity} function of the input, which hides them for good."
    choice = "Choices: solved directly on all coordinates."
    return Signs(found.rows, parity == "none", note), choice


def _has_structure(problem: Problem, samples: torch.Tensor, generator: torch.Generator) -> bool:
    """Whether the residual of a minimum that was reached twice is more than noise, so that it is not trusted."""
    equation, tuning = problem.equation(problem.features.with_dtype(samples.dtype)), problem.tuning
    point = equation.at(samples)
    blind = not shows_samples(problem.one_layer.activation, tuning.equation)
    if blind and math.sqrt(point.loss) > tuning.trust.blind_residual:
        return True
    margin = tuning.trust.structure_margin
    return visible_directions(equation, point.residual, generator, tuning, margin=margin) > 0


def _labelled(problem: Problem, samples: torch.Tensor, stop: Stop, outputs: torch.Tensor) -> Labelled:
    """Norms and labels from the trained model's outputs; no norms if the search came to nothing."""
    explained = stop.trusted or stop in (Stop.STRUCTURED, Stop.SIGNS_OPEN)
    credible = explained and problem.equation_count(len(samples)).determined
    known, trust = problem.target.knowledge, problem.tuning.trust
    return norms_and_labels(samples, outputs, problem.features.symmetry, known, trust, credible)
