"""The words of a plan of `exhume law --cost`: work, memory, time and hardware of one attack, as a page for people."""

from __future__ import annotations

from exhume.law import GREY_ZONE
from exhume.planning import Cost, Hardware, Plan, Seconds
from exhume.planning.cost import HALF, KEPT, TOO_LARGE
from exhume.planning.passes import PowerLaw, law_of_passes
from exhume.planning.words import duration, rate, size

_DEFAULT_BUDGET = 4 * 10**9  # bytes for V, unless --memory-budget is given
_STEP = 10**8  # to which budgets are rounded
# Equations per unknown below which the attack often fails (python -m benches success_curve).
_OFTEN_FAILS = 1.5
_INDENT = " " * 12


def page_of(planned: Plan, drawing_is_assumed: bool = False) -> str:
    """The verdict of the law, how long, how much memory, and why."""
    cost = planned.cost
    lines = [planned.law.sentence, planned.sentence]
    if cost is None:
        return "\n".join(lines)
    if planned.law.verdict == GREY_ZONE and planned.law.equations < _OFTEN_FAILS * planned.law.unknowns:
        lines.append(
            f"Below {_OFTEN_FAILS} equations an unknown the attack often fails, after many times as many passes."
        )
    lines += ["", *_work(planned, cost), "", *_memory(planned, cost)]
    if cost.per_pass is not None:
        lines += ["", *_time(cost.per_pass)]
    lines += ["", *_where(planned.hardware, planned.law.num_samples, drawing_is_assumed), ""]
    lines.append(
        "V: the random first layer, one row of d numbers for each coordinate, drawn again from its seed at will."
    )
    lines.append("A pass: V applied once to all n samples.")
    return "\n".join(lines)


def counted(count: int, name: str) -> str:
    """A number of things: "1 sample", "1,000 samples"."""
    return f"{count:,} {name}{'' if count == 1 else 's'}"


def _where(hardware: Hardware, samples: int, drawing_is_assumed: bool) -> list[str]:
    """What it would run on."""
    network = f", {size(hardware.network)}/s over the network" if hardware.network else ""
    assumed = " (assumed; --drawing)" if drawing_is_assumed else ""
    speed = rate(hardware.speed(samples), "flop/s")
    return [
        f"  hardware  {hardware.name}: {speed} in products with {counted(samples, 'sample')},",
        f"{_INDENT}{size(hardware.bandwidth)}/s from memory, "
        f"{hardware.drawing / 1e6:,.0f} million numbers of V drawn a second{assumed}{network};",
        f"{_INDENT}{size(hardware.memory)} of memory a process.",
    ]


def _work(planned: Plan, cost: Cost) -> list[str]:
    """What is done: coordinates, passes, operations."""
    fitted = law_of_passes(planned.law.num_outputs)
    part = "all" if cost.coordinates == cost.width else f"{cost.coordinates:,} of the"
    lines = [
        f"  work      {cost.passes:,.0f} passes over {part} {cost.width:,} coordinates, {cost.flops:.2g} operations."
    ]
    if cost.coordinates < cost.width:
        lines.append(
            f"{_INDENT}It reads no more unless the search fails; its result will count about {cost.full_passes:,.0f} "
            f"passes, in units of all {cost.width:,} coordinates."
        )
    lines.append(f"{_INDENT}{_trust(fitted, planned.law.num_outputs)}")
    if cost.extrapolated:
        lines.append(
            f"{_INDENT}The passes are extrapolated: measured were n = {_range(fitted.samples)}, "
            f"d = {_range(fitted.dims)} and p/dn = {_range(fitted.ratios)}."
        )
    return lines


def _trust(fitted: PowerLaw, outputs: int) -> str:
    """What the passes rest on."""
    if outputs > 1:
        attacks = "two" if fitted.count == 2 else str(fitted.count)
        return f"Passes of several outputs rest on {attacks} attacks: take them as an order of magnitude."
    return f"Passes are fitted to {fitted.count} measurements, off by a factor of {fitted.misfit:.2f} at most."


def _range(ends: tuple[float, float]) -> str:
    """Smallest and largest, or the one number that both are."""
    low, high = (f"{end:,}" if isinstance(end, int) else f"{end:g}" for end in ends)
    return low if low == high else f"{low} to {high}"


def _memory(planned: Plan, cost: Cost) -> list[str]:
    """How much memory, and what becomes of V."""
    sizes = (
        f"with V kept {size(cost.memory_kept)}, in half precision {size(cost.memory_half)}, "
        f"drawn anew {size(cost.memory_regenerated)}"
    )
    lines = [f"  memory    {size(cost.memory)} a process, of {size(planned.hardware.memory)}: {sizes}."]
    if cost.regime == TOO_LARGE:
        return lines
    lines += [f"{_INDENT}{line}" for line in _fate(cost)]
    budget = _budget(planned, cost)
    if budget != _DEFAULT_BUDGET:
        lines.append(f"{_INDENT}Tell the attack so: --memory-budget {_in_words(budget)} (4GB unless given).")
    return lines


def _fate(cost: Cost) -> list[str]:
    """What becomes of V."""
    matrix = f"({size(cost.matrix_bytes)} in float32, over all processes)"
    if cost.regime == KEPT:
        return [f"V is kept in memory {matrix}."]
    if cost.regime == HALF:
        early = f"V fits in half precision only {matrix}, and is kept so for the early passes."
        return [early, "For the others as much of it as fits is kept, and the rest drawn anew in every pass."]
    if cost.keeps_parts:
        return [f"V does not fit {matrix}.", "As much of it as fits is kept, and the rest drawn anew in every pass."]
    return [f"V does not fit {matrix} and is drawn anew in every pass."]


def _budget(planned: Plan, cost: Cost) -> int:
    """Bytes for V that do as planned: the default where that does, else enough for a V that is kept, or what is left.

    A search that draws all of V anew still keeps the subsets that it reads, so that it is told what is left, not 0.
    """
    if cost.regime == KEPT:
        return max(_DEFAULT_BUDGET, -(-cost.budget // _STEP) * _STEP)
    if cost.keeps_parts:
        return cost.budget // _STEP * _STEP
    left = planned.hardware.memory - cost.memory_regenerated
    return min(_DEFAULT_BUDGET, left // _STEP * _STEP)


def _in_words(budget: int) -> str:
    """Bytes as --memory-budget takes them: "5GB", "5700MB"."""
    return f"{budget // 10**9}GB" if budget % 10**9 == 0 else f"{budget // 10**6}MB"


def _time(parts: Seconds) -> list[str]:
    """How long a pass takes, and on what."""
    named = {
        "products": parts.products,
        "reading V": parts.reading,
        "drawing V": parts.drawing,
        "converting V": parts.converting,
        "activations": parts.tables,
        "network": parts.network,
        "overhead": parts.overhead,
    }
    spent = ", ".join(f"{name} {value:.2g} s" for name, value in named.items() if value)
    lines = [f"  time      {parts.of_a_pass:.2g} s a pass: {spent}.", f"{_INDENT}Products and reading V overlap."]
    if parts.first_drawing >= 1:
        lines.append(f"{_INDENT}Drawing V for the first time takes {duration(parts.first_drawing)}.")
    return lines
