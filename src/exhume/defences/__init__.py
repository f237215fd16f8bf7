"""Defences: alterations of a released model, and what the attack still finds after each."""

from exhume.defences.outcome import Outcome, Utility

__all__ = ["Outcome", "Utility"]
