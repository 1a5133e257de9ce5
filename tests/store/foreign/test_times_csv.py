"""Plain tables of times as studies: guesses, units, several tables, and the published ones of the MMU thesis."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steplab.analysis.sentences import sentences
from steplab.analysis.study import analyse
from steplab.core.errors import InputError
from steplab.design.plan import plan
from steplab.store import tables
from steplab.store.foreign.imported import foreign_rank, write_study
from steplab.store.foreign.times_csv import Wishes, read_times
from steplab.study.file import read_study

DATA = Path(__file__).parents[3] / "docs" / "sources" / "data" / "published"
MMU = [DATA / "mmu_3_2_phases.csv", DATA / "mmu_3_3_aggregation.csv"]


@pytest.fixture
def table(tmp_path: Path):
    """Write a CSV and read it."""

    def read(text: str, wishes: Wishes | None = None, name: str = "times.csv"):
        (tmp_path / name).write_text(text)
        return read_times([tmp_path / name], wishes or Wishes())

    return read


def columns(trial, mode="phased", rank=0):
    return trial.ranks[rank].modes[mode].columns


def test_names_and_units_are_guessed_from_what_people_write(table):
    study = table("Batch Size,nodes,Step Time (ms),fwd_us,bwd [s],std\n32,2,10 ,4000,0.005,1\n")
    (trial,) = study.trials
    assert trial.config == {"batch_size": 32, "workers": 2}
    assert columns(trial) == {"t_iter": [0.01], "t_f": [0.004], "t_b": [0.005]}
    assert any("left out: std" in note for note in study.notes)


def test_units_beside_numbers_count(table):
    assert columns(table("batch,time\n8,12 ms\n").trials[0], "native") == {"t_iter": [0.012]}


def test_the_asked_unit_is_for_columns_that_say_none(table):
    (trial,) = table("t_iter,t_f_s\n12,0.004\n", Wishes(unit="ms")).trials
    assert columns(trial) == {"t_iter": [0.012], "t_f": [0.004]}


def test_a_unit_that_is_no_time_is_refused(table):
    with pytest.raises(InputError, match="'mb' is not a unit of time"):
        table("t_iter [MB]\n1\n".replace("MB", "mb"))


def test_rows_with_iterations_and_ranks_make_one_trial(table):
    text = "workers,rank,iteration,t_iter\n2,1,1,4\n2,0,0,1\n2,1,0,3\n2,0,1,2\n"
    (trial,) = table(text).trials
    assert [columns(trial, "native", rank) for rank in (0, 1)] == [{"t_iter": [1, 2]}, {"t_iter": [3, 4]}]


def test_equal_rows_without_iterations_are_replicates(table):
    study = table("workers,t_iter\n1,1\n2,2\n1,3\n")
    assert [(trial.config["workers"], trial.replicate) for trial in study.trials] == [(1, 0), (2, 0), (1, 1)]


def test_named_replicates_are_numbered(table):
    study = table("run,t_iter\nb,2\na,1\n")
    assert {trial.replicate: columns(trial, "native")["t_iter"] for trial in study.trials} == {0: [1], 1: [2]}


def test_columns_may_be_named_by_hand(table):
    study = table("foo,bar,x\n7,1.5,2\n", Wishes(columns={"t_iter": "bar", "batch_size": "foo"}, factors=("foo",)))
    assert study.trials[0].config == {"batch_size": 7}
    assert columns(study.trials[0], "native") == {"t_iter": [1.5]}


def test_a_column_that_is_not_there_is_named_with_the_nearest(table):
    with pytest.raises(InputError, match="there is no column 'totl'; did you mean 'total'"):
        table("total,x\n1,2\n", Wishes(columns={"t_iter": "totl"}))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a,b\n1,2\n", "no column is a time"),
        ("t_iter\nx\n", "is not a time"),
        ("t_iter\n-1\n", "negative"),
        ("t_iter,batch\n1,1.5\n", "not a count"),
        ("t_iter,workers\n1,many\n", "'many' in row 1 is no number"),
        ("t_iter\n", "no rows"),
        ("", "not a readable table"),
        ("phase,mean_s,value\nt_f,1,2\n", "not clear which column"),
        ("phase,mean_s\nt_f,1\nt_f,2\n", "stands twice"),
        ("t_iter,colour\n1,\n2,red\n", "has no value in some rows"),
    ],
)
def test_a_table_that_makes_no_sense_is_one_sentence(table, text, problem, tmp_path):
    with pytest.raises(InputError, match=problem):
        write_study(table(text), tmp_path / "out", "")
    assert not (tmp_path / "out").exists()


def test_missing_t_iter_is_the_sum_of_the_phases_and_said(table):
    study = table("workers,t_f,t_b\n1,1,2\n")
    assert columns(study.trials[0])["t_iter"] == [3]
    assert any("the sum of their phases" in note for note in study.notes)


def test_an_exchange_given_as_a_whole_and_in_parts_counts_once(table, tmp_path):
    study = table("workers,t_f,t_c,t_wait,t_move\n2,1,3,1,2\n")
    assert columns(study.trials[0], "native") == {"t_iter": [4.0]}
    write_study(study, tmp_path / "study", "")
    (row,) = tables.load(tmp_path / "study").trials.to_dict("records")
    assert (row["t_c"], row["t_wait"], row["t_other"]) == (3.0, 1.0, 0.0)


def test_the_mmu_phases_are_flagged_where_they_do_not_sum(tmp_path):
    write_study(read_times(MMU[:1], Wishes()), tmp_path / "mmu", "")
    loaded = tables.load(tmp_path / "mmu")
    trials = loaded.trials.set_index(["network", "framework"])
    assert trials.loc[("mlp", "tensorflow"), "t_other"] == pytest.approx(1.4371 - 0.8448)
    assert trials.loc[("mlp", "mxnet"), "t_other"] == pytest.approx(0.3992 - 0.5032)
    analysis = analyse(loaded.trials, loaded.factors)
    shares = {(one.factors["network"], one.factors["framework"]): one.share for one in analysis.unexplained}
    assert shares[("mlp", "tensorflow")] == pytest.approx(0.41, abs=0.005)
    assert shares[("mlp", "mxnet")] == pytest.approx(-0.26, abs=0.005)
    assert "the phases do not sum to t_iter" in " ".join(map(str, sentences(analysis)))


def test_the_s_sgd_speed_up_of_the_mmu_tables_comes_back(tmp_path):
    """S = N·t(1)/t(N) with t(1) = t_io+t_h2d+t_f+t_b+t_u and t(N) = t(1)+t_md+t_c (MMU, chapter 3), by hand for CNN."""
    write_study(read_times(MMU, Wishes()), tmp_path / "mmu", "")
    trials = tables.load(tmp_path / "mmu").trials.set_index(["network", "framework", "workers"])
    alone = 0.0006 + 0.0212 + 0.3489 + 0.1151 + 0.2636
    row = trials.loc[("cnn", "tensorflow", 3)]
    assert row["t_iter"] == pytest.approx(alone + 0.0005 + 0.4017)
    one = row[["t_io", "t_h2d", "t_f", "t_b", "t_u"]].sum()
    assert 3 * one / row["t_iter"] == pytest.approx(3 * alone / (alone + 0.4022))
    assert trials["lif"].isna().sum() == 18  # one time for several workers says nothing on their balance


def test_the_folder_reads_as_a_study_that_is_not_run(tmp_path):
    from steplab.core.errors import StudyError

    write_study(read_times(MMU, Wishes()), tmp_path / "mmu", "")
    study = read_study(tmp_path / "mmu" / "study.toml")
    assert study.imported is not None
    assert study.factors["workers"] == (1, 2, 3)
    with pytest.raises(StudyError, match="was imported"):
        plan(study)


NAME = st.sampled_from(
    ["t_iter", "t_f", "workers", "rank", "iteration", "run", "phase", "colour", "time [ms]", "", "a b"]
)
CELL = st.one_of(
    st.integers(-2, 9).map(str), st.floats().map(str), st.text("ab1.,;\"'%µ é\x00", max_size=4), st.just("t_b")
)


@settings(max_examples=200, deadline=None)
@given(head=st.lists(NAME, max_size=5), rows=st.lists(st.lists(CELL, max_size=6), max_size=5))
def test_whatever_a_table_holds_it_becomes_a_study_or_one_sentence(head, rows, tmp_path_factory):
    place = tmp_path_factory.mktemp("fuzz")
    (place / "x.csv").write_text("\n".join(",".join(row) for row in [head, *rows]))
    try:
        write_study(read_times([place / "x.csv"], Wishes()), place / "out", "")
    except InputError as error:
        assert "\n" not in str(error)
        return
    read_study(place / "out" / "study.toml")
    assert tables.load(place / "out").unreadable == ()


def test_the_page_on_the_sources_prints_what_the_tables_give(tmp_path):
    write_study(read_times(MMU, Wishes()), tmp_path / "mmu", "")
    trials = tables.load(tmp_path / "mmu").trials.set_index(["network", "framework", "workers"])
    page = (Path(__file__).parents[3] / "docs" / "sources.md").read_text().replace("−", "-")
    printed = [line.strip("| ").split(" | ") for line in page.splitlines() if line.count("|") == 8][2:]
    assert len(printed) == 9
    for network, framework, given_s, total_s, rest, *speedups in printed:
        row = trials.loc[(network, framework, 1)]
        alone = row[["t_io", "t_h2d", "t_f", "t_b", "t_u"]].sum()
        assert float(given_s) == pytest.approx(row["t_iter"], abs=5e-5)
        assert float(total_s) == pytest.approx(alone + row["t_md"], abs=5e-5)
        assert float(rest.removesuffix(" %")) == pytest.approx(100 * row["t_other"] / row["t_iter"], abs=0.051)
        expected = [n * alone / trials.loc[(network, framework, n), "t_iter"] for n in (2, 3)]
        assert list(map(float, speedups)) == pytest.approx(expected, abs=6e-4)


@pytest.mark.parametrize("cell", ["1e999", "1e300", "2e9"])
def test_a_time_that_cannot_be_is_refused(table, cell):
    with pytest.raises(InputError, match="in row 1 cannot be; allowed: from 0 to 1e"):
        table(f"workers,t_iter\n1,{cell}\n2,0.1\n")


def test_a_rank_of_infinite_times_is_refused():
    with pytest.raises(InputError, match="a time of rank 3 is inf s, which cannot be"):
        foreign_rank(3, {"t_iter": [0.1, float("inf")]})


@pytest.mark.parametrize(("column", "key"), [("run", "replicate"), ("rank", "rank")])
def test_a_row_without_its_replicate_or_rank_is_refused(table, column, key):
    with pytest.raises(InputError, match=f"the column of the {key} has no value in some rows"):
        table(f"t_iter,{column}\n0.1,\n0.1,0\n", Wishes())


@pytest.mark.parametrize("level", [2**70, float("inf")])
def test_a_level_that_no_record_holds_is_refused(table, tmp_path, level):
    study = table("workers,t_iter\n1,0.1\n", Wishes(constants={"seed": level}))
    with pytest.raises(InputError, match="is no plain number"):
        write_study(study, tmp_path / "study", "")


@pytest.mark.parametrize(
    ("table", "workers"),
    [
        ("gpus,nodes,seconds\n1,1,9\n8,1,2\n16,2,1\n", [1, 8, 16]),
        ("nodes,gpus,seconds\n1,1,9\n1,8,2\n2,16,1\n", [1, 8, 16]),  # the order of columns does not matter
        ("nodes,gpus,seconds\n1,4,9\n2,4,5\n4,4,3\n", [1, 2, 4]),  # the GPUs of each node
        ("nodes,gpus,seconds\n1,1,9\n1,2,5\n2,1,4\n", [1, 1, 2]),  # fewer GPUs than nodes
        ("np,time\n1,9\n2,5\n", [1, 2]),
        ("num_replicas,elapsed\n1,9\n2,5\n", [1, 2]),
    ],
)
def test_workers_are_the_finest_count_of_all(table: str, workers: list[int], tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(table)
    study = read_times([tmp_path / "t.csv"], Wishes())
    assert [trial.config["workers"] for trial in study.trials] == workers


@pytest.mark.parametrize(
    ("column", "seconds"),
    [("seconds", 12.0), ("time", 12.0), ("latency_us", 12e-6), ("duration_ms", 0.012), ("step_ms", 0.012),
     ("milliseconds", 0.012), ("elapsed [ms]", 0.012)],
)  # fmt: skip
def test_a_column_named_like_a_time_is_one_in_its_unit(column: str, seconds: float, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"workers,{column}\n1,12\n")
    (trial,) = read_times([tmp_path / "t.csv"], Wishes()).trials
    assert trial.ranks[0].modes["native"].columns["t_iter"] == pytest.approx([seconds])


def test_a_strategy_that_is_called_sync_is_no_phase(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("strategy,workers,step_time\nsync,1,0.1\nsync,2,0.2\n")
    assert [trial.config["strategy"] for trial in read_times([tmp_path / "t.csv"], Wishes()).trials] == ["sync", "sync"]


def test_a_global_batch_that_does_not_divide_loses_no_sample(table, tmp_path):
    text = "global_batch_size,workers,t_iter\n64,1,1.0\n64,24,0.05\n8,16,0.02\n"
    write_study(table(text), tmp_path / "out", "")
    rows = tables.trials_frame(tmp_path / "out").sort_values(["global_batch_size", "workers"])
    assert rows["throughput"].tolist() == pytest.approx([8 / 0.02, 64 / 1.0, 64 / 0.05])
