"""Why an attack ended, and whether its result is trusted for that reason."""

from __future__ import annotations

from enum import StrEnum


class Stop(StrEnum):
    """Why an attack ended; `sentence` puts it in words.

    Examples:
        >>> from exhume import Stop
        >>> Stop.CONVERGED.sentence
        'The loss fell below its tolerance.'
        >>> [stop.value for stop in Stop if stop.trusted]
        ['converged', 'reproduced', 'floor']
    """

    CONVERGED = "converged"
    REPRODUCED = "reproduced"
    FLOOR = "floor"
    STRUCTURED = "structured"
    SIGNS_OPEN = "signs_open"
    STARTS_SPENT = "starts_spent"
    STEP_LIMIT = "step_limit"
    PASS_LIMIT = "pass_limit"
    TIME_LIMIT = "time_limit"
    DIVERGED = "diverged"

    @property
    def trusted(self) -> bool:
        """Whether the samples behind it may be certified."""
        return self in (Stop.CONVERGED, Stop.REPRODUCED, Stop.FLOOR)

    @property
    def credible_error(self) -> float:
        """Typical predicted error above which the samples are not certified.

        A noise floor was reached from one start only. With few surplus equations and much drift, wrong samples may
        fit as well as the true ones; their error bars are large.
        """
        return 0.1 if self is Stop.FLOOR else 0.5

    @property
    def sentence(self) -> str:
        """The reason as a sentence."""
        return {
            Stop.CONVERGED: "The loss fell below its tolerance.",
            Stop.REPRODUCED: "Independent starts reached the same minimum, above the floating-point floor.",
            Stop.FLOOR: "The residual is above rounding but small, and every sample contributes far more than it: a "
            "noise floor. The features moved in training, or the weights carry noise.",
            Stop.STRUCTURED: "Independent starts reached the same minimum, but its residual has structure: "
            "there may be more samples than were looked for.",
            Stop.SIGNS_OPEN: "Samples were found up to sign, but the weights do not decide their signs.",
            Stop.STARTS_SPENT: "No start reached a minimum that explains the weights.",
            Stop.STEP_LIMIT: "The step limit was reached before the loss fell below its tolerance.",
            Stop.PASS_LIMIT: "The budget of feature passes was spent before the loss fell below its tolerance.",
            Stop.TIME_LIMIT: "The time was spent before the loss fell below its tolerance.",
            Stop.DIVERGED: "The loss became NaN or infinite.",
        }[self]
