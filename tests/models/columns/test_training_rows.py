import numpy as np
import pandas as pd
import pytest

from steplab.core.errors import NotEnoughData, TableError
from steplab.models.columns.roles import Roles
from steplab.models.columns.training_rows import choose

FRAME = pd.DataFrame({
    "filters": [4.0, 8.0, 16.0, 8.0], "workers": [1.0, 2.0, np.nan, 2.0], "kind": ["u", "v", "u", "v"],
    "constant": [7.0] * 4, "t_iter": [1.0, 2.0, 3.0, 0.0], "t_f": [0.1, 0.2, 0.3, 0.4],
    "label": ["r1", "r2", "r3", "r4"],
})  # fmt: skip


def test_roles_are_inferred_and_said():
    chosen = choose(FRAME, None, Roles())
    assert chosen.roles == Roles(("filters",), ("kind",), ("workers",))
    assert any("roles inferred" in note for note in chosen.notes)
    assert any("constant, t_f, label" in note for note in chosen.notes)


def test_gaps_replicates_and_zeros_are_told():
    notes = " | ".join(choose(FRAME, "t_iter", Roles(("filters",), (), ("workers",))).notes)
    assert "1 of 4 rows have missing values" in notes
    assert "1 row repeats a configuration" in notes
    assert "1 values of 't_iter' are zero or negative" in notes


def test_a_named_column_must_exist():
    with pytest.raises(TableError, match="did you mean 'workers'"):
        choose(FRAME, "t_iter", Roles((), (), ("worker",)))


def test_without_a_target_the_numeric_columns_are_listed():
    with pytest.raises(TableError, match="--target, one of filters, workers"):
        choose(FRAME.drop(columns="t_iter"), None, Roles())


def test_the_target_is_no_factor():
    with pytest.raises(TableError, match="is the target"):
        choose(FRAME, "t_iter", Roles(("t_iter",)))


def test_text_in_a_numeric_role_is_shown():
    frame = FRAME.assign(filters=["4", "eight", "16", "8"])
    with pytest.raises(TableError, match="holds text such as 'eight'"):
        choose(frame, "t_iter", Roles(("filters",)))


def test_no_complete_row_names_the_column_with_the_gaps():
    with pytest.raises(NotEnoughData, match="'workers' has the most gaps"):
        choose(FRAME.assign(workers=np.nan), "t_iter", Roles(("filters",), (), ("workers",)))


def test_a_table_in_which_nothing_varies_is_refused():
    with pytest.raises(TableError, match="no column varies"):
        choose(FRAME[["constant", "t_iter"]], None, Roles())


def test_groups_follow_the_group_column():
    frame = FRAME.dropna().assign(run=[1, 1, 2])
    assert choose(frame, None, Roles(("filters",)), "run").groups.tolist() == [0, 0, 1]


def test_known_factors_decide_what_is_modelled():
    chosen = choose(FRAME, None, Roles(), factors=("filters", "constant"))
    assert chosen.roles == Roles(("filters",))
    assert chosen.notes[:2] == ("roles inferred: intrinsic filters", "not used (constant): constant")


def test_a_factor_that_varied_and_is_left_out_is_named():
    frame = pd.DataFrame({"workers": [1, 2, 1, 2], "threads": [1, 1, 2, 2], "t_iter": [1.0, 2.0, 3.0, 4.0]})
    chosen = choose(frame, None, Roles((), (), ("workers",)), factors=("workers", "threads"))
    assert any(note.startswith("left out, though varied: threads") for note in chosen.notes)
    assert not any("left out" in note for note in choose(frame, None, Roles((), (), ("workers", "threads"))).notes)


def replicated(**levels):
    """A table of every combination of levels, twice."""
    rows = pd.MultiIndex.from_product(levels.values(), names=levels).to_frame(index=False)
    return pd.concat([rows, rows], ignore_index=True).assign(t_iter=range(1, 2 * len(rows) + 1))


def test_replicates_of_a_plain_table_are_groups():
    chosen = choose(replicated(workers=[1, 2, 4, 8]), "t_iter", Roles())
    assert chosen.groups.tolist() == [0, 1, 2, 3] * 2
    assert choose(replicated(workers=[1, 2, 4, 8])[:4], "t_iter", Roles()).groups is None  # none repeats


def test_a_level_of_one_configuration_and_a_column_that_is_constant_leave_replicates_together():
    table = replicated(workers=[1, 2, 4, 8, 16]).assign(strategy="sync", threads=1)
    table.loc[table["workers"] == 16, "strategy"] = "sharded"
    chosen = choose(table, "t_iter", Roles((), ("strategy",), ("workers", "threads")))
    assert chosen.groups.tolist() == [0, 1, 2, 3, 4] * 2


@pytest.mark.parametrize(
    "levels", [{"framework": ["jax", "torch"]}, {"workers": [1, 2]}, {"workers": [1, 2], "batch_size": [8, 16]}]
)
def test_configurations_that_the_others_tell_nothing_of_are_no_groups(levels):
    chosen = choose(replicated(**levels), "t_iter", Roles())
    assert chosen.groups is None
    assert any("too few to leave one out" in note for note in chosen.notes)


def test_a_target_of_zeros_is_refused():
    with pytest.raises(TableError, match="column 't_h2d' is 0 in every row"):
        choose(FRAME.assign(t_h2d=0.0), "t_h2d", Roles())


def test_numbers_that_no_square_is_of_are_refused():
    with pytest.raises(TableError, match="column 'filters' holds numbers above 1e"):
        choose(FRAME.assign(filters=FRAME["filters"] * 1e300), "t_iter", Roles(("filters",), (), ()))
