"""From the input of a step back to the rows that were passed to `fit`: the inverse of every transformer before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exhume.errors import InputError
from exhume.estimators.walk import Among, Columns, Lost, Passed, column_branches, family

Values = NDArray[Any]
# Inverses of functions that a FunctionTransformer is often given without one.
_INVERSES: dict[str, Callable[[Values], Values]] = {
    "log1p": np.expm1,
    "expm1": np.log1p,
    "log": np.exp,
    "exp": np.log,
    "log2": np.exp2,
    "log10": lambda values: 10.0**values,
    "cbrt": lambda values: values**3,
    "tanh": np.arctanh,
    "arcsinh": np.sinh,
}
# Relative difference that rounding may make when restored rows are transformed again.
_ROUND_TRIP = 1e-6


@dataclass(frozen=True)
class Rows:
    """Rows of a table.

    Attributes:
        values: (n, d) float64, or object if a column holds categories; NaN where a value is missing or not known.
        known: (d,) which columns the rows tell anything of.
        exact: whether nothing but rounding was lost on the way back.
        notes: what was lost, in sentences.
    """

    values: Values
    known: NDArray[np.bool_]
    exact: bool = True
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, values: Any) -> Rows:
        """Rows of which every column is known."""
        table = np.asarray(values)
        table = table if table.dtype == object else table.astype(np.float64)
        return cls(table, np.ones(table.shape[1], dtype=bool))

    def inexact(self, note: str) -> Rows:
        """The same rows, of which something was lost."""
        return replace(self, exact=False, notes=(*self.notes, note))


class NotInvertible(InputError):
    """A transformer from whose output its input cannot be computed."""


def undo_all(before: Sequence[Passed], rows: Rows) -> Rows:
    """The rows as they were passed to `fit`, from those that reach a step behind `before`."""
    for each in reversed(before):
        rows = undo(each, rows)
    return rows


def undo(passed: Any, rows: Rows) -> Rows:
    """The rows before one transformer."""
    if isinstance(passed, Lost):
        raise NotInvertible(passed.reason)
    if isinstance(passed, Among):
        chosen = slice(passed.start, passed.start + passed.width)
        return replace(rows, values=rows.values[:, chosen], known=rows.known[chosen])
    if isinstance(passed, Columns):
        return _placed(rows, passed.chosen, passed.width)
    if passed is None or isinstance(passed, str):
        return rows
    for name in family(passed):
        if name in INVERSES:
            return INVERSES[name](passed, rows)
    if hasattr(passed, "inverse_transform"):
        return _checked(passed, rows).inexact(f"{type(passed).__name__}: whether its inverse is exact is not known")
    raise NotInvertible(f"rows cannot be computed from what {type(passed).__name__} makes of them")


def _placed(rows: Rows, chosen: Sequence[int], width: int) -> Rows:
    """Columns put back to their places among `width`; the others are not known."""
    values = np.full((len(rows.values), width), np.nan, dtype=rows.values.dtype)
    known = np.zeros(width, dtype=bool)
    values[:, list(chosen)], known[list(chosen)] = rows.values, rows.known
    return replace(rows, values=values, known=known)


def _numbers(rows: Rows, transformer: Any) -> Values:
    """The values as float64; columns that nothing is known of cannot be passed through a transformer."""
    if not rows.known.all():
        raise NotInvertible(f"{type(transformer).__name__} needs all of its columns, and some are not known")
    return rows.values.astype(np.float64)


def _inverse(transformer: Any, rows: Rows) -> Rows:
    """Column by column through `inverse_transform`; columns that are not known stay so."""
    values = np.where(rows.known, rows.values, 0.0).astype(np.float64)
    restored = np.asarray(transformer.inverse_transform(values), dtype=np.float64)
    return replace(rows, values=np.where(rows.known, restored, np.nan))


def _checked(transformer: Any, rows: Rows) -> Rows:
    """Through `inverse_transform`, and through `transform` again to see whether that gives the same."""
    values = _numbers(rows, transformer)
    restored = np.asarray(transformer.inverse_transform(values))
    again = np.asarray(transformer.transform(restored), dtype=np.float64)
    back = replace(Rows.of(restored), exact=rows.exact, notes=rows.notes)
    scale = np.abs(values).max(0, initial=0.0) + 1e-300
    if np.allclose(again / scale, values / scale, rtol=0, atol=_ROUND_TRIP, equal_nan=True):
        return back
    return back.inexact(f"{type(transformer).__name__} does not give the rows back exactly")


def _pipeline(transformer: Any, rows: Rows) -> Rows:
    return undo_all([each for _, each in transformer.steps], rows)


def _column_transformer(transformer: Any, rows: Rows) -> Rows:
    branches = column_branches(transformer)
    slices = transformer.output_indices_
    parts = [
        (each, _branch(rows, slices.get(name)), columns)
        for name, each, columns in branches
        if not (isinstance(each, str) and each == "drop")
    ]
    return _joined(parts, int(transformer.n_features_in_), len(rows.values), rows)


def _feature_union(transformer: Any, rows: Rows) -> Rows:
    width = int(transformer.n_features_in_)
    parts, start = [], 0
    for _, each in transformer.transformer_list:
        if isinstance(each, str) and each == "drop":
            continue
        size = width if isinstance(each, str) else len(each.get_feature_names_out())
        parts.append((each, _branch(rows, slice(start, start + size)), Columns(tuple(range(width)), width)))
        start += size
    return _joined(parts, width, len(rows.values), rows)


def _branch(rows: Rows, columns: slice | None) -> Rows:
    columns = slice(0, 0) if columns is None else columns
    return replace(rows, values=rows.values[:, columns], known=rows.known[columns])


def _joined(parts: Sequence[tuple[Any, Rows, Columns]], width: int, count: int, rows: Rows) -> Rows:
    """Every column from the first branch that knows it; one that cannot be inverted leaves its columns unknown."""
    values, known = np.full((count, width), np.nan, dtype=object), np.zeros(width, dtype=bool)
    exact, notes = rows.exact, list(rows.notes)
    for transformer, part, columns in parts:
        try:
            back = _placed(undo(transformer, part), columns.chosen, width)
        except NotInvertible as error:
            notes.append(str(error))
            continue
        new = back.known & ~known
        if new.any():
            values[:, new], known = back.values[:, new], known | new
            exact, notes = exact and back.exact, [*notes, *back.notes]
    if not known.any():
        raise NotInvertible("; ".join(dict.fromkeys(notes)) or "no column is passed on")
    return Rows(_narrowed(values), known, exact, tuple(dict.fromkeys(notes)))


def _narrowed(values: Values) -> Values:
    """Objects as numbers, if all of them are."""
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError):
        return values


def _pca(transformer: Any, rows: Rows) -> Rows:
    restored = replace(Rows.of(transformer.inverse_transform(_numbers(rows, transformer))), notes=rows.notes)
    restored = replace(restored, exact=rows.exact)
    kept, rank = int(transformer.n_components_), min(transformer.n_features_in_, transformer.n_samples_ - 1)
    if kept >= rank:  # as many directions as centred rows can have
        return restored
    return restored.inexact(f"PCA kept {kept} of {rank} directions: rows are shown without the others")


def _projection(transformer: Any, rows: Rows) -> Rows:
    components = np.asarray(getattr(transformer.components_, "toarray", lambda: transformer.components_)())
    restored = _numbers(rows, transformer) @ np.linalg.pinv(components).T
    if components.shape[0] < components.shape[1]:
        raise NotInvertible(f"{type(transformer).__name__} maps {components.shape[1]} columns to fewer")
    return replace(rows, values=restored, known=np.ones(components.shape[1], dtype=bool))


def _encoder(transformer: Any, rows: Rows) -> Rows:
    restored = np.asarray(transformer.inverse_transform(_codes(transformer, _numbers(rows, transformer))), dtype=object)
    back = replace(Rows.of(_narrowed(restored)), exact=rows.exact, notes=rows.notes)
    infrequent = getattr(transformer, "infrequent_categories_", None)
    if infrequent is not None and any(each is not None for each in infrequent):
        return back.inexact("rare categories were merged and are shown as one")
    return back


def _codes(transformer: Any, values: Values) -> Values:
    """Codes of categories rounded to whole numbers: OrdinalEncoder cuts off decimals, and 0.9999 would become 0."""
    if "OrdinalEncoder" not in family(transformer):
        return values
    most = [len(each) - 1 for each in transformer.categories_]
    return np.clip(np.round(values), 0, most)


def _imputer(transformer: Any, rows: Rows) -> Rows:
    width = int(transformer.n_features_in_)
    if getattr(transformer, "add_indicator", False) and len(transformer.indicator_.features_):
        indicated = transformer.indicator_.features_
        values = rows.values[:, : rows.values.shape[1] - len(indicated)].copy()
        if values.shape[1] != width:
            raise NotInvertible(f"{type(transformer).__name__} left out columns without a value")
        values[:, indicated] = np.where(
            rows.values[:, -len(indicated) :].astype(float) > 0.5, np.nan, values[:, indicated]
        )
        return replace(rows, values=values, known=rows.known[:width])
    if rows.values.shape[1] != width:
        raise NotInvertible(f"{type(transformer).__name__} left out columns without a value")
    return replace(rows, notes=(*rows.notes, "Values that were missing are shown as they were imputed."))


def _selector(transformer: Any, rows: Rows) -> Rows:
    chosen = np.flatnonzero(transformer.get_support())
    return _placed(rows, chosen.tolist(), int(transformer.n_features_in_))


def _function(transformer: Any, rows: Rows) -> Rows:
    if transformer.func is None:
        return rows
    if transformer.inverse_func is not None:
        restored = transformer.inverse_func(rows.values, **(transformer.inv_kw_args or {}))
        return replace(rows, values=np.asarray(restored))
    name = getattr(transformer.func, "__name__", "")
    if name not in _INVERSES or transformer.kw_args:
        raise NotInvertible(f"the inverse of the function {name or transformer.func!r} is not known")
    return replace(rows, values=_INVERSES[name](rows.values.astype(np.float64)))


def _polynomial(transformer: Any, rows: Rows) -> Rows:
    """The columns of degree one are the rows themselves."""
    powers = transformer.powers_
    linear = {int(np.argmax(each)): place for place, each in enumerate(powers) if each.sum() == 1}
    width = int(transformer.n_features_in_)
    if len(linear) < width:
        raise NotInvertible("PolynomialFeatures left out the columns of degree one")
    places = [linear[column] for column in range(width)]
    return replace(rows, values=rows.values[:, places], known=rows.known[places])


def _binned(transformer: Any, rows: Rows) -> Rows:
    if transformer.encode != "ordinal":
        raise NotInvertible("KBinsDiscretizer tells of a value only in which interval it lies")
    return _inverse(transformer, rows).inexact("KBinsDiscretizer: of each value only its interval is known")


INVERSES: dict[str, Callable[[Any, Rows], Rows]] = {
    "Pipeline": _pipeline,
    "ColumnTransformer": _column_transformer,
    "FeatureUnion": _feature_union,
    "StandardScaler": _inverse,
    "MinMaxScaler": _inverse,
    "MaxAbsScaler": _inverse,
    "RobustScaler": _inverse,
    "PowerTransformer": _inverse,
    "QuantileTransformer": _checked,
    "PCA": _pca,
    "BaseRandomProjection": _projection,
    "OrdinalEncoder": _encoder,
    "OneHotEncoder": _encoder,
    "SimpleImputer": _imputer,
    "KNNImputer": _imputer,
    "IterativeImputer": _imputer,
    "SelectorMixin": _selector,
    "FunctionTransformer": _function,
    "PolynomialFeatures": _polynomial,
    "KBinsDiscretizer": _binned,
}
