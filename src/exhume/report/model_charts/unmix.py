"""Charts of an unmixing attack: the rank of the first layer's displacement, and the zeros in its columns."""

from __future__ import annotations

import statistics

from exhume.attacks import Unmix
from exhume.report.chart_style import COLOURS, chart, legend_below, number, powers, sheet
from exhume.report.content import Chart
from exhume.results.reconstruction import Reconstruction
from exhume.target.dense_displacement import LEAST_FALL

# Singular values below this share of the largest one are drawn there: float32 weights say nothing about them.
_SMALLEST = 1e-9


def unmix_charts(result: Reconstruction) -> tuple[Chart, ...]:
    """The charts of an unmixing attack, the zeros only if a column with zeros was found; none of another attack."""
    if result.method != Unmix.name or not result.evidence.get("singular_values"):
        return ()
    values = singular_values_chart(result)
    return (values, zeros_chart(result)) if result.evidence.get("zero_shares") else (values,)


def singular_values_chart(result: Reconstruction) -> Chart:
    """The leading singular values of D and where they fall to rounding: the number of samples."""
    rank, fall = int(result.evidence["rank"]), float(result.evidence["fall"])
    values = [float(value) for value in result.evidence["singular_values"]]
    shown = [max(value, _SMALLEST * values[0]) for value in values]
    with sheet((7.0, 2.8)) as (drawing, axis):
        places = range(1, len(shown) + 1)
        style = {"linestyle": "none", "marker": "o", "markersize": 4.5}
        axis.plot(places[:rank], shown[:rank], color=COLOURS["accent"], label="of the samples", **style)
        if len(shown) > rank:
            axis.plot(places[rank:], shown[rank:], color=COLOURS["muted"], label="what follows", **style)
        axis.axvline(rank + 0.5, color=COLOURS["muted"], linestyle="--", label="rank")
        axis.set(yscale="log", xlabel="singular value", ylabel="size")
        powers(axis.yaxis)
        axis.xaxis.get_major_locator().set_params(integer=True)
        legend_below(drawing, axis)
        if fall >= LEAST_FALL:
            meaning = f"Behind the first {rank:,} they fall by a factor of {number(fall)}: this is the rank"
            meaning += ", and it is the number of samples, which need not be known."
        else:
            meaning = f"No fall among them shows the rank; {rank:,} is the number of samples that was given."
        return chart(
            drawing,
            title="How many samples moved the first layer",
            description=f"Singular values of the first layer's displacement on a log axis, from {values[0]:.2g} down "
            f"to {values[rank - 1]:.2g} at place {rank:,}. {meaning}",
            caption=f"Singular values of the change of the first layer in training. {meaning}",
        )


def zeros_chart(result: Reconstruction) -> Chart:
    """For each column found its share of zeros, and how many of them its own input leaves inactive."""
    evidence = result.evidence
    shares = [float(share) for share in evidence["zero_shares"]]
    order = sorted(range(len(shares)), key=lambda column: -shares[column])
    ends = {"before": evidence.get("inactive_before"), "after": evidence.get("inactive_after")}
    places = range(1, len(shares) + 1)
    told = []
    with sheet((7.0, 2.8)) as (drawing, axis):
        zeros = [100 * shares[column] for column in order]
        axis.bar(places, zeros, color=COLOURS["line"], label="zeros of the column")
        for (when, inactive), role, marker in zip(ends.items(), ("other-2", "accent"), ("_", "."), strict=True):
            if not inactive:
                continue
            own = [100 * shares[column] * float(inactive[column]) for column in order]
            label = f"of these inactive {when} training"
            axis.plot(places, own, color=COLOURS[role], linestyle="none", marker=marker, markersize=7, label=label)
            told.append(f"{100 * statistics.mean(map(float, inactive)):.4g} % of them {when} training")
        axis.set(xlabel="column, the one with the most zeros first", ylabel="share of neurons in %", ylim=(0, None))
        axis.xaxis.get_major_locator().set_params(integer=True)
        legend_below(drawing, axis)
        least, most = min(zeros), max(zeros)
        if told:
            agreement = (
                f"The input that a column yields leaves these neurons inactive: on average {' and '.join(told)}. A "
                "wrong column contradicts its own input."
            )
        else:
            agreement = "Columns are missing, so that no input is known well enough to be compared with its zeros."
        return chart(
            drawing,
            title="Zeros of the columns, and the inputs that explain them",
            description=f"Each of {len(shares):,} columns is zero on {least:.2g} to {most:.2g} % of the neurons. "
            f"{agreement}",
            caption="A sample has a column with one number for each neuron, zero if the neuron was never active on it. "
            f"{agreement}",
        )
