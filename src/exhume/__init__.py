"""exhume: recover training data from trained weights, and prove how good the recovery is."""

from exhume.errors import DataError, ExhumeError, FileError, InputError

__all__ = ["DataError", "ExhumeError", "FileError", "InputError"]
__version__ = "0.1.0"
