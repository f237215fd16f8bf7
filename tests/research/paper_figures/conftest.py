"""Records of cells with invented numbers, so that drawings can be checked against them."""

from datetime import UTC, datetime

import pytest
import safetensors.torch
import torch

from exhume.sweep.cell import Cell
from exhume.sweep.experiment import Outcome
from exhume.sweep.store import Record

USUAL = {
    "num_outputs": 1,
    "training_loss": 1e-12,
    "drift": None,
    "recovered": 0,
    "recovered_up_to_sign": 0,
    "flipped": 0,
    "missing": 0,
    "duplicates": 0,
    "strays": 0,
    "baseline_random": 1.3,
    "orthogonal_residual": 0.1,
    "psnr": None,
    "ssim": None,
    "label_accuracy": None,
    "residual": 1e-4,
    "loss": 1e-8,
    "verdict": "not converged",
    "stop": "budget spent",
    "predicted_error": None,
    "equations": 10,
    "unknowns": 10,
    "steps": 100,
    "passes": 300.0,
    "training_seconds": 0.5,
    "attack_seconds": 1.5,
}


def made_up(
    method="exact", p=1200, error=1e-6, *, seed=0, n=20, d=30, state="done", pictures=None, victim=None, **more
):
    """A record with these numbers; `more` are fields of the outcome."""
    cell = Cell.model_validate(
        {
            "data": {"name": "sphere", "dim": d, "samples": n},
            "victim": victim or {"kind": "rf"},
            "features": p,
            "attack": {"method": method},
            "seed": seed,
        }
    )
    numbers = USUAL | {
        "num_samples": n,
        "input_dim": d,
        "num_features": p,
        "num_parameters": p,
        "ratio": p / (d * n),
        "error": error,
        "error_up_to_sign": error,
        "num_rows": n,
        "signs_determined": method == "exact",
        "target": f"{n}-{d}-{p}-{seed}-{victim}",
    }
    failed = state == "failed"
    return Record(
        cell=cell,
        state=state,
        outcome=Outcome(**(numbers | more)) if state == "done" else None,
        error="RuntimeError: did not fit" if failed else None,
        seconds=None if state == "waiting" else 2.0,
        worker="here",
        versions={"exhume": "0.1.0", "torch": "2.9", "python": "3.11"},
        finished_at=None if state == "waiting" else datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        read_pictures=lambda: pictures,
    )


def picture_bytes(count=4, errors=None, flipped=(), extras=0, seed=0):
    """Pictures of random digits-like squares; matches are the truth, or turned for those in `flipped`."""
    generator = torch.Generator().manual_seed(seed)
    truth = torch.randint(0, 256, (count, 1, 8, 8), generator=generator).to(torch.uint8)
    recovered = truth.clone()
    for index in flipped:
        recovered[index] = 255 - truth[index]
    tensors = {
        "truth": truth,
        "recovered": recovered,
        "turned": truth.clone(),
        "extras": truth[:extras].clone(),
        "errors": torch.tensor(errors or [10.0 ** -(index + 1) for index in range(count)]),
    }
    return safetensors.torch.save(tensors)


@pytest.fixture
def record():
    """Makes a record."""
    return made_up


@pytest.fixture
def pictures():
    """Makes the pictures of a cell."""
    return picture_bytes
