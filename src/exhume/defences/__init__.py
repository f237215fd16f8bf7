"""Defences: alterations of a released model, and what the attack still recovers after each."""

from exhume.defences.base import Defence, Release, Setting, Variant
from exhume.defences.measuring import DEFENCES, Outcome, Utility, measure
from exhume.defences.on_the_head import Coordinates, Noise, Pruning, Rounding
from exhume.defences.private import PrivateTraining
from exhume.defences.retrained import MoreSamples, Ridge
from exhume.defences.summary import table, where_recovery_ends

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
