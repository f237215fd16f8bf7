"""What a finished cell leaves behind: its numbers, and its pictures if its data are pictures."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class Outcome(BaseModel):
    """The numbers of one cell, flat, so that they are columns of a table.

    Attributes:
        num_parameters: k p, the weights of the last layer; of the surviving ones if it was pruned.
        ratio: num_parameters / (d n).
        drift: relative change of the features in training; None for random features.
        error, error_up_to_sign, recovered, recovered_up_to_sign, missing, baseline_random, psnr, ssim,
            orthogonal_residual, label_accuracy: of `Score`.
        flipped: samples that came back as negatives: closer with the other sign, and then within 0.5.
        duplicates, strays: how many rows beyond n repeat a true sample, and how many resemble none.
        signs_determined: whether the attack claims its signs.
        residual: ||P_perp theta|| / ||theta||.
        loss: its square, the normalised reconstruction loss.
        verdict, stop, predicted_error, equations, unknowns, steps, passes: of the reconstruction.
        target: fingerprint of what was attacked: equal for attacks on the same victim.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    num_samples: int
    input_dim: int
    num_features: int
    num_outputs: int
    num_parameters: int
    ratio: float
    training_loss: float
    drift: float | None
    error: float
    error_up_to_sign: float
    recovered: int
    recovered_up_to_sign: int
    flipped: int
    missing: int
    duplicates: int
    strays: int
    num_rows: int
    baseline_random: float
    orthogonal_residual: float | None
    psnr: float | None
    ssim: float | None
    label_accuracy: float | None
    signs_determined: bool
    residual: float
    loss: float
    verdict: str
    stop: str
    predicted_error: float | None
    equations: int
    unknowns: int
    steps: int
    passes: float
    training_seconds: float
    attack_seconds: float
    target: str

    @property
    def claimed_error(self) -> float:
        """The error that the attack answers for: signed where it claims its signs, else up to sign."""
        return self.error if self.signs_determined else self.error_up_to_sign

    def to_json(self) -> dict[str, Any]:
        """Every number, as plain JSON."""
        return self.model_dump(mode="json")


class Finished(BaseModel):
    """An outcome and the pictures that belong to it.

    Attributes:
        outcome: the numbers.
        pictures: a safetensors file as bytes: `truth` and `recovered` (q, C, H, W) in 0..255, matched; `turned`, the
            recovered ones with the true sign; `extras`, rows beyond n; `errors` (q,) up to sign. None for vectors.
    """

    model_config = ConfigDict(frozen=True)

    outcome: Outcome
    pictures: bytes | None = None
