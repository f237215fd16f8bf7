"""Which parameters of a network an equation is about: all that were trained, the head, the first layer, by name."""

from __future__ import annotations

from collections.abc import Sequence

from exhume.errors import InputError
from exhume.target.network_weights import NetworkWeights
from exhume.target.target import Target

SETS = ("all", "head", "first", "body")


def chosen_names(
    target: Target, parameters: str | Sequence[str], from_initial: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names that a choice of parameters stands for, and those left out of it for want of initial weights."""
    model = known_network(target)
    if model is None:
        if parameters not in ("all", "head"):
            why = "its head is pruned" if target.model is not None else "it has no other weights"
            raise InputError(f"only the head of this target can be chosen ({why}), not {parameters!r}")
        _check_known(target.knowledge.initial_head != "unknown" or not from_initial, "head")
        return ("head",), ()
    if isinstance(parameters, str) and parameters in SETS:
        names = _of_set(model, parameters)
        known = tuple(name for name in names if not from_initial or name in model.initial)
        _check_known(bool(known), parameters)
        return known, tuple(name for name in names if name not in known)
    names = (parameters,) if isinstance(parameters, str) else tuple(parameters)
    wrong = [name for name in names if name not in model.trained]
    if wrong or not names:
        raise InputError(
            f"no trained parameters are called {', '.join(wrong) or 'nothing'}; "
            f"valid: {', '.join((*SETS, *model.trained))}"
        )
    missing = [name for name in names if from_initial and name not in model.initial]
    _check_known(not missing, ", ".join(missing))
    return names, ()


def count_equations(target: Target, parameters: str | Sequence[str], from_initial: bool) -> int:
    """How many numbers a choice of parameters has."""
    model = known_network(target)
    names, _ = chosen_names(target, parameters, from_initial)
    return target.num_parameters if model is None else sum(each.numel() for each in model.weights(names).values())


def _of_set(model: NetworkWeights, parameters: str) -> tuple[str, ...]:
    if parameters == "all":
        return model.trained
    if parameters == "first":
        layer = model.trained[0].rpartition(".")[0]
        return tuple(name for name in model.trained if name.rpartition(".")[0] == layer)
    names = tuple(name for name in model.trained if model.in_head(name) == (parameters == "head"))
    if not names:
        raise InputError(f"no parameters of the {parameters} were trained; trained: {', '.join(model.trained)}")
    return names


def _check_known(known: bool, what: str) -> None:
    if not known:
        raise InputError(
            f"the weights before training are needed, of the head at least, and those of {what!r} are not known; "
            "give them as initial_head (a state dict gives all)"
        )


def known_network(target: Target) -> NetworkWeights | None:
    """The network whose parameters can be chosen; a pruned one is known by the features of its head alone."""
    return None if target.surviving is not None else target.known_model
