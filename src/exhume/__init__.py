"""exhume: recover training data from trained weights, and prove how good the recovery is."""

from typing import TYPE_CHECKING, Any

from exhume.activations import Activation
from exhume.attacks import KKT, NTK, Descent, Exact, Subspace, reconstruct
from exhume.certificate import Certificate
from exhume.errors import DataError, ExhumeError, FileError, InputError
from exhume.features import FeatureMap
from exhume.knowledge import Knowledge
from exhume.law import Forecast, forecast
from exhume.reconstruction import Reconstruction, Stop
from exhume.scoring import Score, score
from exhume.target import Target
from exhume.version import VERSION
from exhume.victims import RandomFeatures

if TYPE_CHECKING:
    from exhume.auditing import Audit, audit

__all__ = [
    "KKT",
    "NTK",
    "Activation",
    "Audit",
    "Certificate",
    "DataError",
    "Descent",
    "Exact",
    "ExhumeError",
    "FeatureMap",
    "FileError",
    "Forecast",
    "InputError",
    "Knowledge",
    "RandomFeatures",
    "Reconstruction",
    "Score",
    "Stop",
    "Subspace",
    "Target",
    "audit",
    "forecast",
    "reconstruct",
    "score",
]
__version__ = VERSION


def __getattr__(name: str) -> Any:
    """Loads audits when they are asked for: their charts and tables take longer to load than a small attack to run."""
    if name in ("Audit", "audit"):
        from exhume import auditing

        return getattr(auditing, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
