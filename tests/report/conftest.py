"""Fixtures of the tests of reports: a report of real digits, one of records, and a function to change a part of one."""

import dataclasses
from collections.abc import Callable

import pytest
import torch

import exhume.data
from exhume.report import Chart, Fact, Field, Level, Remedy, Report, Sample, Table, Verdict
from exhume.support.images import data_uri

_CURVE = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 300" font-family="inherit" font-size="13">'
    '<path d="M60 20V250H620" fill="none" stroke="var(--line)"/>'
    '<path d="M60 40C180 60 220 240 330 244S560 246 620 247" fill="none" stroke="{colour}" stroke-width="2.5"/>'
    '<path d="M300 20V250" stroke="var(--muted)" stroke-dasharray="4 4"/>'
    '<text x="308" y="36" fill="var(--muted)">the wall: p = d n</text>'
    '<circle cx="430" cy="246" r="6" fill="var(--leak)"/><text x="420" y="230" fill="var(--ink)">this model</text>'
    '<text x="340" y="285" text-anchor="middle" fill="var(--muted)">weights per unknown, p / (d n)</text></svg>'
)


def chart(title: str = "Recovered samples", colour: str = "var(--accent)") -> Chart:
    """A small drawing in the colours of the page."""
    return Chart(
        title,
        _CURVE.format(colour=colour),
        "A curve that falls steeply to zero where p reaches d n; this model lies to the right of it.",
        "To the right of the wall there are more weights than unknowns.",
    )


def digit_samples(count: int = 12, truth: bool = True) -> tuple[Sample, ...]:
    """Digits and slightly wrong copies of them, the best first."""
    data = exhume.data.load("digits", samples=min(count, 500))
    assert data.picture is not None
    noise = torch.randn(data.inputs.shape, generator=torch.Generator().manual_seed(0))
    samples = []
    for row in range(count):
        index = row % data.inputs.shape[0]
        error = 10 ** (-4 + 3.9 * row / count)
        recovered = data.inputs[index] + error * noise[index] * data.inputs[index].norm() / noise[index].norm()
        pictures = [data_uri(data.picture.to_pictures(vector[None])[0]) for vector in (recovered, data.inputs[index])]
        samples.append(
            Sample(
                row,
                "certain" if error < 1e-2 else "likely" if error < 0.15 else "not trusted",
                error_bar=1.3 * error if error < 0.5 else None,
                picture=pictures[0],
                true_picture=pictures[1] if truth else None,
                label="even" if row % 2 else "odd",
                true_label=("even" if row % 2 else "odd") if truth else None,
                error=error if truth else None,
                error_up_to_sign=error if truth else None,
                psnr=18 - 20 * torch.tensor(error).log10().item() if truth else None,
                ssim=max(0.0, 1 - error) if truth else None,
                truth_index=(7 * row) % count if truth else None,
            )
        )
    return tuple(samples)


@pytest.fixture(scope="session")
def full_report() -> Report:
    """A report with something in every part."""
    return Report(
        title="Digit classifier, release 2",
        verdict=Verdict(
            Level.LEAK,
            "9 of the 12 training samples can be read out of these weights.",
            (
                "The weights pose 1,536 equations for 768 unknowns: more than enough.",
                "9 recovered samples are certified; their expected error is below 15 %.",
                "Checked against the true training data: 11 of 12 are closer to a training sample than to any other.",
            ),
        ),
        facts=(
            Fact("Recovered samples", "9 of 12", "certified"),
            Fact("Weights per unknown", "2.0", "recovery is possible above 1"),
            Fact("Median expected error", "0.8 %", "relative to the sample's norm"),
            Fact("Attack took", "41 s", "1,204 passes"),
        ),
        law=chart("The law of this model"),
        samples=digit_samples(),
        samples_note="Pixels are drawn with the statistics of the training set.",
        assumptions=(
            Fact("Random features", "known", "the seed was published with the model"),
            Fact("Number of samples", "12"),
            Fact("Activation", "relu"),
        ),
        convergence=(chart("Residual", "var(--other-1)"), chart("Displacement", "var(--other-2)")),
        defence_charts=(chart("Recovered against utility lost", "var(--other-3)"),),
        defence_tables=(
            Table(
                "Defences",
                ("Defence", "Strength", "Recovered", "Training error", "Stops the attack"),
                (
                    ("none", None, 9, 0.00012, False),
                    ("Gaussian noise", 0.01, 7, 0.0231, False),
                    ("Gaussian noise", 0.1, 0, 0.31, True),
                    ("rounding to int8", None, 2, 0.0101, False),
                ),
                "Each row is a whole attack on an altered copy of the model.",
                "defences",
            ),
        ),
        charts=(chart("Recovered by width", "var(--other-4)"),),
        tables=(Table("Cells", ("Width", "Recovered"), ((512, 0.0), (2048, 0.41), (1024, None)), name="cells"),),
        remedies=(
            Remedy("Release fewer weights", "With fewer than 768 trained weights the samples are out of reach."),
            Remedy("Add noise to the head", "A standard deviation of 0.1 ended recovery here, at 31 % training error."),
        ),
        notes=("Signs are determined by the activation.", "One run; another seed may recover more."),
        model_card="## Training-data recovery\n\n- 9 of 12 training samples are recoverable (exhume 0.1.0).\n",
        provenance=(Fact("exhume", "0.1.0"), Fact("Seed", "0"), Fact("Weights", "sha256 " + "9f86d081884c7d65" * 4)),
    )


@pytest.fixture(scope="session")
def tabular_report(full_report: Report) -> Report:
    """A report of records instead of pictures."""
    fields = (
        Field("age", "years"),
        Field("bmi", "kg/m²"),
        Field("pressure", "mmHg"),
        Field("s1"),
        Field("sex"),
    )
    true = ((59, 32.1, 101, 157, 2), (48, 21.6, 87, 183, 1), (72, 30.5, 93, 156, 2), (24, 25.3, 84, 198, 1))
    samples = tuple(
        Sample(
            row,
            "certain" if row < 3 else "likely",
            error_bar=1e-3 * 4**row,
            record=tuple(value * (1 + 1e-3 * 4**row) for value in values),
            true_record=tuple(map(float, values)),
            error=0.9e-3 * 4**row,
            truth_index=3 - row,
        )
        for row, values in enumerate(true)
    )
    return dataclasses.replace(
        full_report, title="Diabetes model", samples=samples, fields=fields, samples_note="Norms are identified."
    )


@pytest.fixture(scope="session")
def many_samples() -> Callable[[int], tuple[Sample, ...]]:
    """Makes any number of samples with pictures."""
    return digit_samples
