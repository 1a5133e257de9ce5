"""Tables: made from records, cached, made again when records change; broken records are named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from steplab.core.trial import trial_id
from steplab.store import records, tables
from steplab.store.paths import StudyFolder


@pytest.fixture
def folder(tmp_path: Path, steplab: Callable[..., Any], study_file: Callable[..., Path]) -> StudyFolder:
    """A finished synthetic study of 8 trials."""
    path = study_file(batch_size=[8, 16], workers=[1, 2], noise=0.05)
    assert steplab("run", path, "--out", "out").code == 0
    return StudyFolder(tmp_path / "out")


def test_deleting_the_cache_loses_nothing(folder: StudyFolder) -> None:
    first = tables.load(folder.root)
    assert folder.cache.exists()
    cached = tables.load(folder.root)
    shutil.rmtree(folder.cache)
    again = tables.load(folder.root)
    for other in (cached, again):
        pd.testing.assert_frame_equal(other.trials, first.trials, check_dtype=False)
        assert other.iterations.sort_by("trial").num_rows == first.iterations.num_rows
        assert other.factors == first.factors


def test_several_processes_read_what_one_reads(
    folder: StudyFolder, monkeypatch: pytest.MonkeyPatch, no_orphans
) -> None:
    broken = sorted(records.done(folder))[0]
    folder.record(broken).write_text("{")
    alone = tables.load(folder.root)
    monkeypatch.setattr(tables, "MANY", 2)
    monkeypatch.setattr(tables, "CHUNK", 2)
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    shared = tables.load(folder.root)
    pd.testing.assert_frame_equal(shared.trials, alone.trials)
    assert shared.iterations == alone.iterations and shared.layers == alone.layers
    assert shared.unreadable == alone.unreadable and len(shared.unreadable) == 1


def test_new_records_join_the_cached_ones(folder: StudyFolder, tmp_path: Path) -> None:
    name = sorted(records.done(folder))[0]
    aside = tmp_path / "aside.json"
    folder.record(name).rename(aside)
    assert len(tables.load(folder.root).trials) == 7
    aside.rename(folder.record(name))
    assert len(tables.load(folder.root).trials) == 8
    assert len(list(folder.cache.glob("*/index"))) == 2
    assert len(tables.load(folder.root).trials) == 8


def test_a_record_that_went_away_leaves_the_tables(folder: StudyFolder) -> None:
    assert len(tables.load(folder.root).trials) == 8
    folder.record(sorted(records.done(folder))[0]).unlink()
    assert len(tables.load(folder.root).trials) == 7


def test_a_broken_record_is_named_and_the_rest_is_shown(folder: StudyFolder) -> None:
    name = sorted(records.done(folder))[0]
    folder.record(name).write_text("{")
    loaded = tables.load(folder.root)
    assert len(loaded.trials) == 7
    assert name in loaded.unreadable[0]


def test_sql_sees_the_tables(folder: StudyFolder) -> None:
    connection = tables.load(folder.root).connection()
    sql = "select count(*) from trials join iterations using (trial) where mode = 'native' and not warmup"
    assert connection.sql(sql).fetchall() == [(8 * (2 + 4) // 4 * 8,)]


def test_sql_cannot_reach_files(folder: StudyFolder) -> None:
    connection = tables.load(folder.root).connection()
    with pytest.raises(Exception, match=r"(?i)disabled|permission"):
        connection.sql("select * from read_csv('/etc/passwd')").fetchall()


def test_an_accumulation_counts_as_a_whole(tmp_path: Path, steplab: Callable[..., Any], study_file: Any) -> None:
    path = study_file(strategy=["accumulate:4"], workers=[2], latency_s=1.0, update_s=0.0, compute_s=0.4, sample_s=0.0)
    assert steplab("run", path, "--out", "out").code == 0
    row = tables.load(tmp_path / "out").trials.iloc[0]
    exchange = 1.0 + 61706 * 4 / 1e9
    assert row["t_iter"] == pytest.approx(0.4 + exchange / 4)
    assert row["t_c"] == pytest.approx(exchange / 4)


def test_the_first_record_of_a_trial_stays(folder: StudyFolder) -> None:
    record = next(records.all_records(folder))
    before = folder.record(record.trial).read_bytes()
    assert not records.write_record(folder, record.model_copy(update={"seconds": 99.0}))
    assert folder.record(record.trial).read_bytes() == before
    assert json.loads(before)["seconds"] != 99.0


@pytest.mark.parametrize(("versions", "named"), [(1, False), (2, True)])
def test_what_identifies_ones_own_code_is_a_factor_only_where_there_are_several_versions(
    folder: StudyFolder, versions: int, named: bool
) -> None:
    for number, trial in enumerate(sorted(records.done(folder))):
        path = folder.record(trial)
        document = json.loads(path.read_text())
        network = "module:net:wide" if document["config"]["batch_size"] == 8 else "module:net:deep"
        document["config"] |= {"network": network, "code": f"sha-{network[-4:]}-{number % versions}"}
        if number == 7:  # as of a trial that its framework refused
            del document["config"]["code"]
        document["trial"] = trial_id(document["config"], document["replicate"])
        path.unlink()
        folder.record(document["trial"]).write_text(json.dumps(document))
    loaded = tables.load(folder.root)
    assert {"network", "code"} <= set(loaded.factors) and loaded.trials["code"].nunique() == 2 * versions
    assert "network" in loaded.telling and ("code" in loaded.telling) is named
