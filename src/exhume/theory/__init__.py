"""The theory's room: numerical tests of what the theorems rest on, the exponent measured beside the predicted one."""

from exhume.theory.check import Check, fit_exponent
from exhume.theory.verification import verify

__all__ = ["Check", "fit_exponent", "verify"]
