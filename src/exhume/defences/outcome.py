"""What an attack found on an altered copy of a model, beside what the alteration cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Utility:
    """How good a model still is.

    Attributes:
        training_error, held_out_error: mean squared error, or the share of wrong classes where labels are classes.
        output_change: relative change of the outputs on the same inputs; None if there are none to compare.
    """

    training_error: float | None = None
    held_out_error: float | None = None
    output_change: float | None = None


@dataclass(frozen=True)
class Outcome:
    """One altered copy, attacked.

    Attributes:
        defence: the family, such as "rounding"; "none" is the model as it is.
        setting: which of the family, such as "float16" or "noise 1%".
        strength: a number that orders the settings of a family.
        recovered: samples that came back within RECOVERED_BELOW; of the truth if it was given, else of those that the
            attack on the model as it is vouches for. None if it could not be told.
        num_samples: out of how many.
        error: mean error of those; None likewise.
        predicted_error: what the certificate expects.
        verdict: "exact", "approximate" or "failed"; None if the attack could not be run.
        utility: how good the altered model is.
        reason: why it could not be run.
        note: what else is to be said, such as the epsilon of a private training.
        passes, seconds: what the attack cost.
        equations, unknowns: what the released weights give and what the samples ask; with fewer equations than
            unknowns they do not determine the samples. None if the attack could not be run.
    """

    defence: str
    setting: str
    strength: float
    recovered: int | None
    num_samples: int | None
    error: float | None
    predicted_error: float | None
    verdict: str | None
    utility: Utility
    reason: str = ""
    note: str = ""
    passes: float = 0.0
    seconds: float = 0.0
    equations: int | None = None
    unknowns: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Outcome:
        """Reads what `to_json` wrote."""
        return cls(**{**value, "utility": Utility(**value["utility"])})
