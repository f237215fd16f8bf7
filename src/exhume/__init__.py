"""exhume: recover training data from trained weights, and prove how good the recovery is."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from exhume.activations import Activation
    from exhume.attacks import KKT, NTK, Descent, Exact, Greedy, Layers, Replay, Subspace, Unmix, reconstruct
    from exhume.auditing import Audit, audit, find_checkpoint
    from exhume.errors import DataError, ExhumeError, FileError, InputError
    from exhume.features import FeatureMap
    from exhume.law import Forecast, forecast
    from exhume.results.certificate import Certificate
    from exhume.results.reconstruction import Reconstruction
    from exhume.results.stop import Stop
    from exhume.scoring import Score, score
    from exhume.target.initial_weights import InitialWeights, find_seed
    from exhume.target.knowledge import Knowledge
    from exhume.target.target import Target
    from exhume.training.recipe import Recipe
    from exhume.victims import RandomFeatures

    __version__: str

# Where each public name is defined. A module is imported when one of its names is first used, so that `import exhume`
# and `exhume --help` load no torch.
_HOME = {
    "KKT": "attacks",
    "NTK": "attacks",
    "Activation": "activations",
    "Audit": "auditing",
    "Certificate": "results.certificate",
    "DataError": "errors",
    "Descent": "attacks",
    "Exact": "attacks",
    "ExhumeError": "errors",
    "FeatureMap": "features",
    "FileError": "errors",
    "Forecast": "law",
    "Greedy": "attacks",
    "InitialWeights": "target.initial_weights",
    "InputError": "errors",
    "Knowledge": "target.knowledge",
    "Layers": "attacks",
    "RandomFeatures": "victims",
    "Recipe": "training.recipe",
    "Replay": "attacks",
    "Reconstruction": "results.reconstruction",
    "Score": "scoring",
    "Stop": "results.stop",
    "Subspace": "attacks",
    "Unmix": "attacks",
    "Target": "target.target",
    "audit": "auditing",
    "find_checkpoint": "auditing",
    "find_seed": "target.initial_weights",
    "forecast": "law",
    "reconstruct": "attacks",
    "score": "scoring",
}
# Public modules and packages, reachable as attributes after `import exhume`.
_MODULES = (
    "activations",
    "adapters",
    "attacks",
    "data",
    "defences",
    "features",
    "law",
    "networks",
    "planning",
    "report",
    "scoring",
    "sweep",
    "training",
    "victims",
)

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
    "Greedy",
    "InitialWeights",
    "InputError",
    "Knowledge",
    "Layers",
    "RandomFeatures",
    "Recipe",
    "Reconstruction",
    "Replay",
    "Score",
    "Stop",
    "Subspace",
    "Target",
    "Unmix",
    "audit",
    "find_checkpoint",
    "find_seed",
    "forecast",
    "reconstruct",
    "score",
]


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used (PEP 562)."""
    if name == "__version__":
        return import_module("importlib.metadata").version("exhume")
    if name in _HOME:
        return getattr(import_module(f"exhume.{_HOME[name]}"), name)
    if name in _MODULES:
        return import_module(f"exhume.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
