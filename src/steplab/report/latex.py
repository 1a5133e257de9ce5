r"""The report's tables in LaTeX (booktabs), for papers: numbers with four digits, every text escaped."""

from __future__ import annotations

from steplab.report.table import Cell, Column, PageTable

SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "²": r"\textsuperscript{2}", "·": r"\textperiodcentered{}",
    "–": "--", "…": r"\dots{}", "µ": r"\textmu{}", "×": r"\texttimes{}",
}  # fmt: skip
LEFT_OUT = ("log_tail", "started", "host", "formula")
MOST_ROWS = 200


def escaped(text: str) -> str:
    r"""Text as LaTeX prints it; what no common font holds becomes a question mark.

    >>> escaped("50 % of batch_size")
    '50 \\% of batch\\_size'
    """
    return "".join(_letter(letter) for letter in " ".join(text.split()))


def _letter(letter: str) -> str:
    if letter in SPECIAL:
        return SPECIAL[letter]
    return letter if letter.isprintable() and ord(letter) < 0x250 else "?"


def latex(table: PageTable) -> str:
    r"""A `tabular` with \toprule, \midrule and \bottomrule; long tables are cut, and it is said."""
    kept = [at for at, column in enumerate(table.columns) if column.key not in LEFT_OUT]
    shape = "".join("l" if table.columns[at].kind == "text" else "r" for at in kept)
    heads = " & ".join(_head(table.columns[at]) for at in kept)
    lines = [f"% {escaped(table.title)}; needs \\usepackage{{booktabs}} and \\usepackage{{textcomp}}"]
    lines += [rf"\begin{{tabular}}{{{shape}}}", r"\toprule", rf"{heads} \\", r"\midrule"]
    for row in table.rows[:MOST_ROWS]:
        lines.append(" & ".join(_shown(row[at], table.columns[at]) for at in kept) + r" \\")
    if len(table.rows) > MOST_ROWS:
        lines.append(f"% {len(table.rows) - MOST_ROWS} more rows are left out")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _head(column: Column) -> str:
    return escaped(column.title) + (f" [{escaped(column.unit)}]" if column.unit else "")


def _shown(value: Cell, column: Column) -> str:
    if value is None:
        return "--"
    if isinstance(value, int | float) and column.kind == "number":
        scaled = value * column.scale
        return f"{scaled:.0f}" if float(scaled).is_integer() and abs(scaled) < 1e9 else f"{scaled:.4g}"
    return escaped(str(value))
