"""`exhume law --cost`: passes, memory and time of an attack, as text or as one JSON object."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from exhume.cli.options import parse_whole
from exhume.cli.render import show
from exhume.errors import InputError
from exhume.law import GREY_ZONE
from exhume.planning import Cost, Hardware, Plan, plan
from exhume.planning.cost import HALF, KEPT, TOO_LARGE
from exhume.planning.passes import law_of_passes
from exhume.support.text import long_duration, parse_bytes, plural, rate, size

_LEAST_MEMORY = 10**6  # bytes
_DEFAULT_BUDGET = 4 * 10**9  # bytes for V, unless --memory-budget is given
_BUDGET_STEP = 10**8  # bytes, to which budgets are rounded
# Equations per unknown below which the attack often fails (python -m benches success_curve).
_OFTEN_FAILS = 1.5
# Speeds that may be stated, with an example of each.
_EXAMPLES = {"--flops": "20e12", "--bandwidth": "1.5e12", "--network": "25e9", "--drawing": "1e9"}


def show_cost(
    sizes: tuple[int, int, int, int], activation: str, stated: Mapping[str, str | None], as_json: bool
) -> None:
    """Prints the plan of one attack.

    Args:
        sizes: p, d, n and the number of outputs.
        activation: of the features.
        stated: --flops, --bandwidth and so on as they were written; None where not given.
        as_json: whether to print JSON.
    """
    p, d, n, outputs = sizes
    given = [option for option, text in stated.items() if text is not None]
    memory = stated["--memory"]
    limit = None if memory is None else _parse_memory(memory)  # a mistake is reported before anything is measured
    if given in ([], ["--memory"]):
        planned = plan(p, d, n, outputs, None, activation)
        if limit is not None:
            planned = plan(p, d, n, outputs, replace(planned.hardware, memory=limit), activation)
        drawing_is_assumed = False
    else:
        planned = plan(p, d, n, outputs, _stated_hardware(stated, given, limit), activation)
        drawing_is_assumed = stated["--drawing"] is None
    show(_describe(planned, drawing_is_assumed), planned.to_json(), as_json)


def _stated_hardware(stated: Mapping[str, str | None], given: list[str], memory: int | None) -> Hardware:
    """The hardware that the options state."""
    processes = 1 if stated["--processes"] is None else parse_whole(stated["--processes"], "--processes", least=1)
    needed = ("--flops", "--bandwidth", "--memory", *(["--network"] if processes > 1 else []))
    missing = [option for option in needed if stated[option] is None]
    if missing:
        raise InputError(
            f"{', '.join(given)} without {', '.join(missing)}; valid: --flops, --bandwidth and --memory together "
            "(with --processes above 1 also --network), or none of them to measure this machine"
        )
    speeds: dict[str, Any] = {
        option.removeprefix("--"): _parse_positive(option, text, example)
        for option, example in _EXAMPLES.items()
        if (text := stated[option]) is not None
    }
    name = "the stated hardware" if processes == 1 else f"the stated hardware ({processes:,} processes)"
    return Hardware(name, memory=memory or 0, processes=processes, **speeds)


def _describe(planned: Plan, drawing_is_assumed: bool) -> str:
    """The law's verdict, the time, and where work, memory and time come from."""
    law, cost = planned.law, planned.cost
    often_fails = law.verdict == GREY_ZONE and law.margin < _OFTEN_FAILS
    templates = Environment(
        loader=PackageLoader("exhume.cli"), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    templates.filters |= {"size": size, "plural": plural, "rate": rate, "long_duration": long_duration, "range": _range}
    text = templates.get_template("law_cost.txt.j2").render(
        plan=planned,
        cost=cost,
        hardware=planned.hardware,
        fitted=law_of_passes(law.num_outputs),
        often_fails=_OFTEN_FAILS if often_fails else None,
        budget=None if cost is None or cost.regime == TOO_LARGE else _budget(planned, cost),
        default_budget=_DEFAULT_BUDGET,
        drawing_is_assumed=drawing_is_assumed,
        KEPT=KEPT,
        HALF=HALF,
    )
    return text.rstrip()


def _range(ends: tuple[float, float]) -> str:
    """The sizes that were measured: "5 to 100", or "5" if that is all."""
    low, high = (f"{end:,}" if isinstance(end, int) else f"{end:g}" for end in ends)
    return low if low == high else f"{low} to {high}"


def _budget(planned: Plan, cost: Cost) -> int:
    """Bytes for V with which the attack does as planned.

    If V is kept: all of V, at least the default. If parts of it are kept: the memory left for them. If all of V is
    generated again, the attack still keeps the subsets of it that it reads: the default, or the memory that is left.
    """
    if cost.regime == KEPT:
        return max(_DEFAULT_BUDGET, -(-cost.budget // _BUDGET_STEP) * _BUDGET_STEP)
    if cost.keeps_parts:
        return cost.budget // _BUDGET_STEP * _BUDGET_STEP
    left = planned.hardware.memory - cost.memory_regenerated
    return min(_DEFAULT_BUDGET, left // _BUDGET_STEP * _BUDGET_STEP)


def _parse_positive(option: str, text: str, example: str) -> float:
    """The number given for an option."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (value > 0 and math.isfinite(value)):
        raise InputError(f"{option} is {text!r}; valid: a finite number above 0, for instance {example}")
    return value


def _parse_memory(text: str) -> int:
    """The bytes given for --memory."""
    value = parse_bytes(text, "--memory")
    if value < _LEAST_MEMORY:
        bare = text.strip().isdigit() and value > 0
        meant = f"did you mean {value}GB?" if bare else "valid: at least 1MB, for instance 80GB"
        raise InputError(f"--memory is {value} bytes; {meant}")
    return value
