"""Subjects of reports with chosen certificates and scores, made without an attack."""

from dataclasses import replace

import torch

from exhume import law
from exhume.data import Dataset
from exhume.report.subject import Subject
from exhume.results.certificate import Certificate
from exhume.results.reconstruction import Reconstruction
from exhume.results.stop import Stop
from exhume.scoring.against_truth import score
from exhume.target.knowledge import Knowledge

ROWS, DIM = 4, 16
TRUTH = torch.randn(ROWS, DIM, generator=torch.Generator().manual_seed(7))
ENOUGH = law.forecast(400, DIM, ROWS)
TOO_FEW = law.forecast(20, DIM, ROWS)
CAPTION = "The reason of the certificate."


def result_of(bars=(), verdict="failed", *, samples=TRUTH, stop=Stop.CONVERGED, **changes):
    """A reconstruction with these error bars."""
    plenty = {"equations": 400, "unknowns": 64, "residual": 1e-7, "floor": 1e-7, "smallest_singular_value": 0.1}
    counts = {name: changes.pop(name, value) for name, value in plenty.items()}
    values = {
        "samples": samples,
        "coefficients": torch.ones(len(samples), 1),
        "certificate": Certificate(predicted_errors=tuple(bars), verdict=verdict, reason=CAPTION, **counts),
        "target": "fingerprint",
        "method": "exact",
        "seed": 3,
        "options": {},
        "knowledge": Knowledge(num_samples=len(samples)),
        "stop": stop,
        "steps": 10,
        "passes": 120.0,
        "seconds": 0.5,
        "signs_determined": True,
        "norms_determined": True,
        "history": {"step": [0.0, 1.0], "loss": [1.0, 1e-12], "passes": [1.0, 100.0]},
    }
    return Reconstruction(**values | changes)


def subject_of(result, *, truth=None, forecast=ENOUGH, true_labels=None, picture=None, table=None, **changes):
    """A subject about it, scored if the truth is given."""
    size = DIM if result is None else result.samples.shape[1]
    data = Dataset.without_samples(size) if truth is None else Dataset.of(truth, true_labels)
    values = {
        "name": "a model",
        "result": result,
        "forecast": forecast,
        "input_shape": (DIM,),
        "dataset": replace(data, picture=picture, table=table),
        "score": None if truth is None else score(result, truth),
    }
    return Subject(**values | changes)
