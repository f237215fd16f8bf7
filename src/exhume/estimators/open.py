"""Opens an estimator: one in memory, or a skops file; other kinds of files would run code and are refused."""

from __future__ import annotations

import pickletools
import warnings
import zipfile
from pathlib import Path
from typing import Any

import sklearn
from sklearn.base import BaseEstimator
from sklearn.exceptions import InconsistentVersionWarning

from exhume.errors import FileError, InputError, brief
from exhume.support import files
from exhume.support.text import parse_bytes

_CONVERT = (
    "exhume opens skops files only. Convert it where you trust it:\n"
    "  import joblib, skops.io\n"
    '  skops.io.dump(joblib.load("{name}"), "{stem}.skops")'
)
# First bytes of files that pickle, joblib and their compressions write.
_PICKLED = (
    b"\x80",
    b"\x1f\x8b",
    b"BZh",
    b"\xfd7zXZ",
    b"]\x00\x00",
    b"\x78\x01",
    b"\x78\x9c",
    b"\x78\xda",
    b"\x04\x22\x4d\x18",
)
# Classes of scikit-learn, numpy and scipy that skops does not list: they hold numbers, and no code of a file's author.
_HARMLESS = frozenset(
    {
        "numpy.dtype",
        "scipy._lib.array_api_compat.numpy._aliases.asarray",
        "scipy.interpolate._bsplines.BSpline",
        "scipy.sparse._csc.csc_matrix",
        "scipy.sparse._csr.csr_matrix",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "sklearn.gaussian_process._gpc._BinaryGaussianProcessClassifierLaplace",
        "sklearn.metrics._scorer._PassthroughScorer",
        "sklearn.model_selection._split.KFold",
        "sklearn.model_selection._split.StratifiedKFold",
        "sklearn.neighbors._ball_tree.BallTree",
        "sklearn.neighbors._kd_tree.KDTree",
        "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
        "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
        "sklearn.tree._tree.Tree",
        "sklearn.utils._bunch.Bunch",
    }
)
_HARMLESS_MODULES = ("sklearn.gaussian_process.kernels", "sklearn.metrics._dist_metrics")
_SUFFIXES = (".pkl", ".pickle", ".joblib", ".sav", ".p")


def is_estimator(model: Any) -> bool:
    """Whether an object is an estimator of scikit-learn or of a library that follows it."""
    return isinstance(model, BaseEstimator) or (hasattr(model, "fit") and hasattr(model, "get_params"))


def open_estimator(path: Path, max_size: str = "4GB") -> tuple[Any, tuple[str, ...]]:
    """The estimator in a skops file, and notes on its versions; the file is read, and no code in it is run.

    Types that skops does not know as harmless are refused, as are pickle and joblib files.
    """
    path, most = Path(path), parse_bytes(max_size)
    files.regular_size(path, most)
    if not zipfile.is_zipfile(path):
        raise FileError(_refusal(path))
    _check_archive(path, most)
    io = _skops()
    try:
        unlisted = io.get_untrusted_types(file=path)
    except Exception as error:  # of a damaged or hostile file, in any way
        raise FileError(f"{path} is not a whole skops file: {brief(error)}") from error
    unknown = [each for each in unlisted if not _is_harmless(each)]
    if unknown:
        raise FileError(
            f"{path} holds types that skops does not trust: {', '.join(map(brief, unknown))}. Nothing was loaded. If "
            "you know them, load the file yourself with skops.io.load(..., trusted=[...]) and call "
            "exhume.audit(estimator)"
        )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            estimator = io.load(path, trusted=unlisted)
        except Exception as error:
            raise FileError(f"{path} could not be opened by skops: {type(error).__name__}: {brief(error)}") from error
    if not is_estimator(estimator):
        raise InputError(f"{path} holds a {type(estimator).__name__}; valid: a fitted estimator or pipeline")
    return estimator, _version_notes(caught)


def _is_harmless(name: str) -> bool:
    return name in _HARMLESS or name.rpartition(".")[0] in _HARMLESS_MODULES


def _version_notes(caught: list[warnings.WarningMessage]) -> tuple[str, ...]:
    """One sentence for every other version of scikit-learn that parts of a file were written with."""
    versions = {
        each.message.original_sklearn_version for each in caught if isinstance(each.message, InconsistentVersionWarning)
    }
    return tuple(
        f"Warning: the file was written with scikit-learn {version}, and this is {sklearn.__version__}. Attributes may "
        "have another meaning; open it with the version that wrote it to be certain."
        for version in sorted(versions)
    )


def _skops() -> Any:
    try:
        import skops.io as io
    except ImportError as error:
        raise InputError("skops files need skops: pip install 'exhume[sklearn]'") from error
    return io


def _check_archive(path: Path, most: int) -> None:
    """Refuses an archive that unpacks to more than `most` bytes, or that skops did not write."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, OSError, NotImplementedError) as error:
        raise FileError(f"{path} is a damaged archive: {brief(error)}") from error
    if "schema.json" not in {each.filename for each in members}:
        raise FileError(f"{path} is an archive, but skops did not write it: it has no schema.json")
    size = sum(each.file_size for each in members)
    if size > most:
        raise FileError(f"{path} unpacks to {size:,} bytes; valid: at most {most:,} (max_size)")


def _refusal(path: Path) -> str:
    with path.open("rb") as file:
        head = file.read(4096)
    pickled = head.startswith(_PICKLED) or path.suffix.lower() in _SUFFIXES or _is_old_pickle(head)
    if not pickled:
        return f"{path} is no skops file; valid: what skops.io.dump(estimator, file) writes"
    convert = _CONVERT.format(name=path.name, stem=path.stem)
    return f"{path} is a pickle or joblib file, which runs code when it is loaded; it was not loaded. {convert}"


def _is_old_pickle(head: bytes) -> bool:
    """Whether the file starts like a pickle of protocol 0 or 1; its operations are listed, not run."""
    try:
        first = next(iter(pickletools.genops(head)))[0].name
    except (ValueError, StopIteration, IndexError):
        return False
    return first in ("GLOBAL", "MARK", "EMPTY_DICT", "EMPTY_LIST")
