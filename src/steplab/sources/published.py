"""The tables that the sources printed: which columns each file has, words before the bar and numbers behind it."""

from __future__ import annotations

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

HEADERS = {
    "asu_parameters": "layer | parameters",
    "mmu_3_2_phases": "network framework phase | mean_s std_s",
    "mmu_3_3_aggregation": "network framework | workers t_c_s",
    "mmu_3_4_imbalance": "framework network | workers lif",
    "mmu_3_5_regression": "network framework | beta0 beta1 beta2 r2",
    "mmu_4_1_parameters": "kind name levels |",
    "mmu_4_2_unregularised": "framework parameter symbol | mean std",
    "mmu_4_3_l2": "framework parameter symbol | mean std",
    "mmu_4_4_penalties": "penalty framework | mape_percent mse rmse",
    "mmu_4_5_scaling": "framework | workers_power",
    "mmu_5_1_parameters": "kind name levels |",
    "mmu_5_2_resattnet": "parameter symbol | mean std",
    "mmu_accuracy": "source model unit | tensorflow mxnet pytorch",
    "nyu_epochs": "network device | seconds",
    "nyu_flops": "network | flops expected_flops",
}


def expect_published(name: str, table: pd.DataFrame) -> None:
    """Raise ValueError, with what is wrong, unless a table has the columns and numbers of the one of that name."""
    words, numbers = (part.split() for part in HEADERS[name].split("|"))
    if set(table.columns) != {*words, *numbers}:
        raise ValueError(f"its columns are not {', '.join((*words, *numbers))}")
    if not len(table):
        raise ValueError("it has no rows")
    for column in numbers:
        if not is_numeric_dtype(table[column]) or not np.isfinite(table[column]).all():
            raise ValueError(f"the column {column} has something else than numbers")
