"""Tables for spreadsheets: text that one would take for a formula is written so that it stays text.

A cell that begins with = @ + - a tab or a return is computed by spreadsheets, whatever it does. Such text, unless it is
a number, gets an apostrophe before it, as spreadsheets write it themselves, and reading takes it away again.
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

# Behind any apostrophes, so that what had some already comes back as it was.
FORMULA = r"^'*[=@+\-\t\r]"
NUMBER = r"^'*[+\-]?(\d+\.?\d*|\.\d+)([eE][+\-]?\d+)?$"
_FORMULA, _NUMBER = re.compile(FORMULA), re.compile(NUMBER)


def defused(table: pa.Table) -> pa.Table:
    """The table with an apostrophe before every text and name that a spreadsheet would compute."""
    columns = [_column(table.column(at)) for at in range(table.num_columns)]
    return pa.table(columns, names=[f"'{name}" if is_formula(name) else name for name in table.column_names])


def _column(values: Any) -> Any:
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        return values
    texts = values.cast(pa.large_string())
    risky = pc.and_not(pc.match_substring_regex(texts, FORMULA), pc.match_substring_regex(texts, NUMBER))
    before, nothing = (pa.scalar(text, pa.large_string()) for text in ("'", ""))
    return pc.if_else(risky, pc.binary_join_element_wise(before, texts, nothing), texts)


def is_formula(text: str) -> bool:
    """Whether a spreadsheet would compute a text.

    >>> [is_formula(text) for text in ("=1+1", "@SUM(A1)", "-5", "-x", "a=b")]
    [True, True, False, True, False]
    """
    return bool(_FORMULA.match(text)) and not _NUMBER.fullmatch(text)


def restored(text: str) -> str:
    """A cell as it was before `defused`.

    >>> restored("'=1+1"), restored("'tis")
    ('=1+1', "'tis")
    """
    return text[1:] if text[:1] == "'" and is_formula(text) else text
