"""What a caller gives as X and y (a table, an array, lists), as a table with named columns and a vector.

Arrays follow scikit-learn: their columns are called x0, x1 …, their number must stay the same, and its own checks
refuse what is sparse, complex, one-dimensional or not finite. Columns of a table are taken by name, in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import column_or_1d, validate_data

from steplab.core.errors import ModelError
from steplab.models.refusals import refusals

Array = np.ndarray


def array_names(count: int) -> list[str]:
    """The names of an array's columns, as scikit-learn calls them.

    >>> array_names(2)
    ['x0', 'x1']
    """
    return [f"x{i}" for i in range(count)]


def fitting_table(model: Any, X: object, *, with_text: bool = False) -> pd.DataFrame:
    """The rows to fit to; the model remembers its columns (`n_features_in_`, `feature_names_in_`).

    An array holds numbers, and text if some of its columns are known to be categorical.
    """
    given = _as_pandas(X)
    with refusals():
        if isinstance(given, pd.DataFrame):
            validate_data(model, given, skip_check_array=True)
            return given if _is_named(given) else given.set_axis(array_names(given.shape[1]), axis=1)
        array = validate_data(model, given, dtype=None if with_text else np.float64)
    return pd.DataFrame(array, columns=array_names(array.shape[1]))


def asked_table(model: Any, X: object, *, with_text: bool = False) -> pd.DataFrame:
    """The rows to predict: a table by its names, anything else by the order of columns that the model was fitted to."""
    given = _as_pandas(X)
    if isinstance(given, pd.DataFrame) and _is_named(given):
        return given
    if not model.order_known_:
        hint = f"give a table with the columns {', '.join(model.roles_.columns)}"
        raise ModelError("this saved model knows its columns by name, not by order", hint=hint)
    is_frame = isinstance(given, pd.DataFrame)
    with refusals():
        dtype = None if with_text else np.float64
        values = validate_data(model, given, reset=False, skip_check_array=is_frame, dtype=dtype)
    columns = getattr(model, "feature_names_in_", array_names(model.n_features_in_))
    return values.set_axis(columns, axis=1) if is_frame else pd.DataFrame(values, columns=columns)


def target_vector(y: object, rows: int) -> Array:
    """The target as finite numbers, one for each row."""
    if y is None:
        raise ModelError("a fit requires y to be passed, but the target y is None")
    with refusals():
        target = np.asarray(column_or_1d(y, warn=True), float)
    if len(target) != rows:
        raise ModelError(f"there are {rows} rows and {len(target)} target values")
    if not np.isfinite(target).all():
        raise ModelError("the target holds missing or infinite values", hint="remove those rows")
    return target


def group_codes(groups: Sequence[object] | None, order: Array) -> Array | None:
    """The group of each row as a number, for rows taken in that order."""
    if groups is None:
        return None
    if len(groups) != len(order):
        raise ModelError(f"there are {len(order)} rows and {len(groups)} groups")
    return np.asarray(pd.factorize(np.asarray(groups)[order])[0])


def _as_pandas(X: object) -> object:
    """Tables of other libraries (Polars, Arrow) as pandas; anything else as it is."""
    convert = getattr(X, "to_pandas", None)
    return X if convert is None else convert()


def _is_named(X: pd.DataFrame) -> bool:
    return all(isinstance(name, str) for name in X.columns)
