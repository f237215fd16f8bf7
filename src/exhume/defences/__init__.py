"""Defences: alterations of a released model, and what the attack still finds after each."""

from exhume.defences.base import Defence, Setting, Variant
from exhume.defences.coordinates import Coordinates
from exhume.defences.measuring import measure
from exhume.defences.noise import Noise
from exhume.defences.outcome import Outcome, Utility
from exhume.defences.private import PrivateTraining
from exhume.defences.pruning import Pruning
from exhume.defences.registry import DEFENCES
from exhume.defences.release import Release
from exhume.defences.ridge import Ridge
from exhume.defences.rounding import Rounding
from exhume.defences.samples import MoreSamples
from exhume.defences.table import table, where_recovery_ends

__all__ = [
    "DEFENCES",
    "Coordinates",
    "Defence",
    "MoreSamples",
    "Noise",
    "Outcome",
    "PrivateTraining",
    "Pruning",
    "Release",
    "Ridge",
    "Rounding",
    "Setting",
    "Utility",
    "Variant",
    "measure",
    "table",
    "where_recovery_ends",
]
