"""The pages of the sources are what their stored tables say: filled anew they do not change, and numbers come back."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import simulated_sources

import steplab
from steplab.api.reproduction.summaries import (
    published_tables,
    read_summaries,
    read_summary,
    write_summary,
)
from steplab.core.errors import InputError
from steplab.sources import load_source, modelling, source_names
from steplab.sources.page import Ran, Summary, drawings, filled, filled_index

PAGES = Path(__file__).parents[2] / "docs" / "sources"
RAN = Ran(("steplab run a.toml --out runs/a",), ("runs/a",), 10, 1, 0, 60.0, "2026-01-02", "a CPU", {"torch": "2"}, "0")
KEYS = (
    "framework", "network", "batch_size", "workers", "threads", "strategy", "padding", "filters", "batch_norm",
    "residual",
)  # fmt: skip
SHORT = 60  # trials of each random study: enough to fit, few enough for a test


@pytest.fixture(scope="module")
def summaries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Summary]:
    """The small tables of every source from simulated records, written and read again."""
    folder = tmp_path_factory.mktemp("data")
    made = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(modelling, "SEEDS", 2)
        patch.setattr(modelling, "GENERATIONS", 2)
        patch.setattr(modelling, "FOLDS", 2)
        patch.setattr(modelling, "MODELS", ("generic", "random-forest"))
        for name in source_names():
            tables = load_source(name).summary(simulated_sources.measured(load_source(name), most=SHORT))
            write_summary(folder / name, Summary(tables, RAN))
            made[name] = read_summary(folder / name)
    return made


def page(name: str) -> str:
    return (PAGES / f"{name}.md").read_text()


def built(name: str, summary: Summary | None) -> str:
    """The page as it would be if the laptop's size had this summary."""
    stored = {} if summary is None else {"laptop": summary}
    return filled(page(name), load_source(name), stored, published_tables(PAGES / "data"))


def block(text: str, name: str) -> str:
    found = re.search(rf"<!-- begin {name} -->\n(.*?)<!-- end {name} -->", text, re.S)
    assert found is not None
    return found[1]


def rows(text: str) -> list[list[str]]:
    """The cells of a block's tables."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_source_has_a_page_and_every_page_a_source() -> None:
    assert {path.stem for path in PAGES.glob("*.md")} == set(source_names())


@pytest.mark.parametrize("name", source_names())
def test_a_page_is_what_its_stored_tables_say(name: str) -> None:
    source = load_source(name)
    stored = read_summaries(PAGES / "data", source)
    assert filled(page(name), source, stored, published_tables(PAGES / "data")) == page(name)


def test_the_page_above_is_what_the_stored_tables_say() -> None:
    text = PAGES.with_suffix(".md").read_text()
    every = [(source, read_summaries(PAGES / "data", source)) for source in map(load_source, source_names())]
    assert filled_index(text, every) == text


@pytest.mark.parametrize("name", source_names())
def test_a_picture_is_what_its_stored_tables_say(name: str, summaries: dict[str, Summary]) -> None:
    source = load_source(name)
    stored = read_summaries(PAGES / "data", source)
    for (size, figure), picture in drawings(source, stored).items():
        assert (PAGES / "data" / name / size / f"{figure}.svg").read_text() == picture
    drawn = drawings(source, {"laptop": summaries[name]})
    assert {figure for _, figure in drawn} == {figure.name for figure in source.figures}
    text = built(name, summaries[name])
    assert all(f"](data/{name}/laptop/{figure}.svg)" in block(text, figure) for _, figure in drawn)


@pytest.mark.parametrize("name", source_names())
def test_a_size_that_was_not_run_has_a_sentence_and_no_number_of_ours(name: str) -> None:
    text = built(name, None)
    for table in load_source(name).tables:
        if table.measured:
            assert "Not yet run at laptop and full size here." in block(text, table.name)
            assert "laptop " not in rows(block(text, table.name))[0] if rows(block(text, table.name)) else True
    assert not any("](" in block(text, figure.name) for figure in load_source(name).figures)
    assert "confirmed" not in block(text, "claims")
    assert all(question.text in block(text, "claims") for question in load_source(name).questions)


@pytest.mark.parametrize("name", source_names())
def test_a_size_that_was_run_fills_every_table_and_answers_every_question(
    name: str, summaries: dict[str, Summary]
) -> None:
    source, text = load_source(name), built(name, summaries[name])
    for table in source.tables:
        body = block(text, table.name)
        assert len(rows(body)) > 1, table.name
        assert "Repeat it: `steplab " in body
        assert "runs/a" in body or not table.measured
    answers = rows(block(text, "claims"))
    assert len(answers) == len(source.questions) + 1
    assert all(re.search(r"\*\*(confirmed|refuted|not decidable here)\*\*", " ".join(row)) for row in answers[1:])
    assert "10 trials measured, 1 failed" in block(text, "ran")


@pytest.mark.parametrize("name", source_names())
def test_a_page_filled_twice_is_the_same(name: str, summaries: dict[str, Summary]) -> None:
    once = built(name, summaries[name])
    published = published_tables(PAGES / "data")
    assert filled(once, load_source(name), {"laptop": summaries[name]}, published) == once


def test_tables_come_back_as_they_were_written_also_empty_ones(tmp_path: Path) -> None:
    rows = pd.DataFrame({"trial": ["a"], "t_iter": [0.1]})
    tables = {"trials": rows, "imbalance": rows.iloc[:0], "parameters": pd.DataFrame()}
    write_summary(tmp_path / "data", Summary(tables, RAN))
    again = read_summary(tmp_path / "data")
    assert again.ran == RAN
    assert {name: list(table.columns) for name, table in again.tables.items()} == {
        name: list(table.columns) for name, table in tables.items()
    }
    pd.testing.assert_frame_equal(again.tables["trials"], rows)


def test_what_stands_between_the_blocks_stays() -> None:
    kept = re.sub(r"<!-- begin (\S+) -->.*?<!-- end \1 -->", "", built("resattnet3d", None), flags=re.S)
    assert kept == re.sub(r"<!-- begin (\S+) -->.*?<!-- end \1 -->", "", page("resattnet3d"), flags=re.S)


def test_published_numbers_stand_on_the_page() -> None:
    assert ["torch", "workers", "q", "-1.029", "0.001"] in [
        r[:5] for r in rows(block(page("generic-model"), "unregularised"))
    ]
    assert ["alexnet", "cpu", "3354"] in rows(block(page("alexnet-resnet18-roofline"), "steps"))


def test_the_counted_flops_are_the_published_multiply_adds() -> None:
    """0.71 and 1.82 GMAC, two FLOPs each (the networks' papers); activations and pooling add up to 2 %."""
    counted = {row[0]: float(row[3]) for row in rows(block(page("alexnet-resnet18-roofline"), "flops"))[1:]}
    assert counted["alexnet"] == pytest.approx(2 * 0.714e9, rel=0.02)
    assert counted["resnet18"] == pytest.approx(2 * 1.82e9, rel=0.02)


def test_a_page_without_a_block_or_with_a_strange_one_is_an_error() -> None:
    text = page("resattnet3d")
    with pytest.raises(InputError, match="has no block 'accuracy'"):
        filled(
            text.replace(" accuracy -->", " other -->"),
            load_source("resattnet3d"),
            {},
            published_tables(PAGES / "data"),
        )
    with pytest.raises(InputError, match="'strange' that nothing fills"):
        strange = text + "<!-- begin strange -->\n<!-- end strange -->\n"
        filled(strange, load_source("resattnet3d"), {}, published_tables(PAGES / "data"))


def test_rebuilding_writes_what_was_changed_by_hand(tmp_path: Path) -> None:
    copy = tmp_path / "sources"
    shutil.copytree(PAGES, copy)
    changed = copy / "resattnet3d.md"
    changed.write_text(changed.read_text().replace("| filters | a | 75.65 |", "| filters | a | 99.99 |"))
    assert steplab.rebuild_pages(copy) == (changed,)
    assert changed.read_text() == page("resattnet3d")
    assert steplab.rebuild_pages(copy) == ()


def table(text: str, name: str, size: str) -> pd.DataFrame:
    """A block's table of one size as a reader sees it: its words and our numbers."""
    body = block(text, name)
    cells = rows(body.partition(f"Ours, at {size} size:")[2] or body)
    frame = pd.DataFrame(cells[1:], columns=cells[0])
    return frame.rename(columns=lambda column: column.removeprefix(f"{size} "))


def replayed(trials: pd.DataFrame, folder: Path) -> pd.Series:
    """The step times of stored trials of one configuration, run again by the framework `replay`.

    They become a study's folder, as `steplab import csv` makes one, and that is the recording.
    """
    # An imported table has text where a study has true and false; the trials are of one configuration anyway.
    known = [name for name in KEYS if name in trials.columns and trials[name].notna().all()]
    keys = [name for name in known if trials[name].dtype != bool]
    folder.mkdir()
    trials[[*keys, "replicate", "t_iter"]].to_csv(folder / "trials.csv", index=False)
    steplab.import_csv(folder / "trials.csv", folder / "recording", factors=keys)
    recorded = steplab.open(folder / "recording").trials
    study = folder / "again.toml"
    study.write_text(_replay_study(recorded.iloc[0], keys, folder / "recording", len(recorded)))
    again = steplab.run(study, folder / "again").trials
    assert list(again["status"]) == ["ok"] * len(trials)
    return again["t_iter"]


def _replay_study(trial: pd.Series, keys: list[str], recording: Path, replicates: int) -> str:
    levels = {key: trial[key] for key in keys if key != "framework"}
    plain = {key: value.item() if isinstance(value, np.generic) else value for key, value in levels.items()}
    plain = {
        key: int(value) if isinstance(value, float) and value == int(value) else value for key, value in plain.items()
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in plain.items()]
    factors = "\n".join(['framework = "replay"', f'of = "{trial["framework"]}"', f'recording = "{recording}"', *lines])
    measure = "[measure]\nwarmup = 0\niterations = 1\nphases = false\n"
    return f'[study]\nname = "again"\n[factors]\n{factors}\n[design]\nreplicates = {replicates}\n{measure}'


def alike(trials: pd.DataFrame, **levels: object) -> pd.DataFrame:
    """The trials at these levels that are of one configuration: that of the first."""
    chosen = trials[(trials[list(levels)].astype(str) == [str(level) for level in levels.values()]).all(axis="columns")]
    keys = [name for name in KEYS if name in trials.columns]
    levels_of = chosen[keys].map(str)  # a factor that does not apply is NaN, which equals nothing
    return chosen[(levels_of == levels_of.iloc[0]).all(axis="columns")]


def told_and_repeated(name: str, size: str, text: str, summary: Summary, folder: Path) -> tuple[float, float]:
    """A number as the page tells it, and the same from the stored trials by replay."""
    trials = summary.tables["trials"]
    if name == "ssgd-frameworks":
        row = table(text, "phases", size).query("phase == 't_iter' and mean_s != ''").iloc[0]
        own = alike(trials, framework=row["framework"], network=row["network"], workers=1)
        return float(row["mean_s"]), float(replayed(own, folder).mean())
    if name == "inference-engines":
        row = table(text, "samples", size).iloc[0]
        own = alike(trials, framework="torch", batch_size=row["samples"], threads=row["threads"], padding="valid")
        return float(row["torch"]), float(replayed(own, folder).median())
    if name == "alexnet-resnet18-roofline":
        row = table(text, "steps", size).iloc[0]
        levels = {key: row[key] for key in ("network", "batch_size", "threads", "device") if key in row.index}
        own = alike(trials, **levels, workers=1)
        return float(row["ms_per_image"]), 1000 * float(replayed(own, folder).median()) / int(own["batch_size"].iloc[0])
    if name == "tf-sync-vs-accumulate":
        row = table(text, "batch", size).iloc[0]
        levels = {key: row[key] for key in ("network", "strategy", "batch_size")}
        alone = alike(trials, **levels, workers=1)
        several = trials[
            (trials["workers"] > 1) & (trials[list(levels)].astype(str) == list(levels.values())).all(axis=1)
        ]
        return float(row["t_iter"]), float(pd.concat([replayed(alone, folder), several["t_iter"]]).median())
    if name == "torch-vs-tensorflow":  # the iterations of a training
        row = table(text, "time", size).query("workers == '1'").iloc[0]
        own = alike(trials, **{key: row[key] for key in ("dataset", "framework", "workers", "loader_workers")})
        return float(row["t_iter"]), float(replayed(own, folder).median())
    row = table(text, "steps", size).query("workers == '1'").iloc[0]
    own = trials[(trials["framework"] == row["framework"]) & (trials["workers"] == 1)]
    return float(row["slowest_s"]), float(replayed(own.nlargest(1, "t_iter"), folder).max())


@pytest.mark.parametrize("name", source_names())
def test_a_number_of_each_page_comes_back_from_the_stored_trials(
    name: str, summaries: dict[str, Summary], tmp_path: Path
) -> None:
    stored = read_summaries(PAGES / "data", load_source(name)) or {"laptop": summaries[name]}
    text = filled(page(name), load_source(name), stored, published_tables(PAGES / "data"))
    for size, summary in stored.items():
        told, repeated = told_and_repeated(name, size, text, summary, tmp_path / size)
        assert repeated == pytest.approx(told, rel=1e-3)  # a page has four digits


@pytest.mark.parametrize("name", ["generic-model", "resattnet3d"])
def test_an_error_of_a_model_comes_back_from_the_stored_predictions(name: str, summaries: dict[str, Summary]) -> None:
    stored = read_summaries(PAGES / "data", load_source(name)) or {"laptop": summaries[name]}
    text = filled(page(name), load_source(name), stored, published_tables(PAGES / "data"))
    for size, summary in stored.items():
        for row in table(text, "accuracy", size).to_dict("records"):
            errors = summary.tables["errors"].query("framework == @row['framework'] and model == @row['model']")
            trials = summary.tables["trials"].set_index("trial")["t_iter"]
            apart = (errors["predicted"] - errors["trial"].map(trials)).abs()
            assert apart.mean() == pytest.approx(float(row["mae"]), rel=1e-3)  # a page has four digits
