"""Tables in LaTeX: escaped, with units, cut where they are too long."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from steplab.report.latex import MOST_ROWS, escaped, latex
from steplab.report.table import Column, PageTable

COLUMNS = (Column("name", "batch_size", "text"), Column("t_iter", "t_iter", unit="ms", scale=1e3))


@given(st.text())
def test_no_special_character_is_left_alone(text: str) -> None:
    bare = escaped(text)
    for known in (r"\textbackslash{}", r"\textasciitilde{}", r"\textasciicircum{}", r"\textless{}", r"\textgreater{}",
                  r"\textbar{}", r"\textquotedbl{}", r"\textsuperscript{2}", r"\textperiodcentered{}", r"\dots{}",
                  r"\textmu{}", r"\texttimes{}", r"\&", r"\%", r"\$", r"\#", r"\_", r"\{", r"\}"):  # fmt: skip
        bare = bare.replace(known, "")
    assert not set(bare) & set("\\&%$#_{}~^\n")


def test_numbers_are_scaled_to_their_unit_and_gaps_are_dashes() -> None:
    made = latex(PageTable("x", "X", COLUMNS, [["a_b", 0.0123456], ["c", None]]))
    assert r"batch\_size & t\_iter [ms] \\" in made
    assert r"a\_b & 12.35 \\" in made
    assert r"c & -- \\" in made
    assert made.count(r"\toprule") == made.count(r"\midrule") == made.count(r"\bottomrule") == 1


def test_a_long_table_is_cut_and_says_so() -> None:
    made = latex(PageTable("x", "X", COLUMNS, [["a", 1.0]] * (MOST_ROWS + 5)))
    assert "5 more rows are left out" in made
