"""The report in a real browser: offline, without complaint, the same numbers as the command line, safe."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import Page

from steplab.api.results.report_data import report_data
from steplab.api.results.results import Results
from steplab.models import load_model_class
from steplab.planning.predict import parse_configuration, predict_table
from steplab.report.modelling import Judged
from steplab.report.whatif import offer

STEPLAB = Path(sys.executable).with_name("steplab")
Watch = Callable[..., Any]


def number(page: Page, name: str, end: str = "value") -> float:
    return float(page.locator(f"#{name}").get_attribute(f"data-{end}") or "nan")


def given(end: float | None) -> Any:
    """What the page must show: the same number, or none."""
    return pytest.approx(float("nan") if end is None else end, rel=1e-12, nan_ok=True)


def column(page: Page, table: str, at: int) -> list[str]:
    return page.locator(f"[data-table={table}] tbody tr td:nth-child({at})").all_inner_texts()


def test_the_page_asks_no_network_and_complains_of_nothing(watch: Watch, rich_page: str) -> None:
    seen = watch(rich_page, offline=True)
    assert [url for url in seen.requests if not url.startswith(("data:", "blob:"))] == [rich_page]
    assert seen.complaints == []


def test_every_chart_of_a_rich_study_is_drawn(watch: Watch, rich_page: str) -> None:
    page = watch(rich_page).page
    drawn = page.eval_on_selector_all("[data-chart]", "all => all.map(one => one.dataset.chart)")
    wanted = {"step-time", "factors", "phases", "speed-up", "communication", "imbalance", "timeline", "layers",
              "effects", "interactions", "predicted", "penalty", "forecast"}  # fmt: skip
    assert set(drawn) >= wanted
    assert page.locator("[data-chart] svg.main-svg").count() >= len(drawn)
    # The CPU's ceilings are known, and bound nothing on a virtual clock.
    assert page.locator("#missing").inner_text().count("steplab roofline") == 1


def test_a_study_of_this_cpu_with_known_ceilings_has_a_roofline(watch: Watch, roofed_page: str) -> None:
    page = watch(roofed_page).page
    assert page.locator("[data-chart=roofline] svg.main-svg").count() >= 1
    assert page.locator("#missing").count() == 0


def test_each_answer_links_to_its_evidence(watch: Watch, rich_page: str) -> None:
    page = watch(rich_page).page
    assert 3 <= page.locator("#answer li").count() <= 8
    links = page.eval_on_selector_all("#answer a", "all => all.map(one => one.getAttribute('href').slice(1))")
    assert len(links) == page.locator("#answer li").count()
    assert all(page.locator(f"[id='{name}']").count() == 1 for name in links)


def test_a_moved_slider_gives_the_numbers_of_predict(watch: Watch, rich: Path, rich_page: str, tmp_path: Path) -> None:
    page = watch(rich_page).page
    page.select_option("#model", "hybrid")
    page.select_option("select[data-factor=strategy]", "accumulate:2")
    page.fill("input[data-factor=batch_size]", "24")
    page.locator("input[data-slider=workers]").focus()
    before = number(page, "result-time")
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    workers = page.input_value("input[data-factor=workers]")
    assert number(page, "result-time") != before
    saved = tmp_path / "model.json"
    _steplab("fit", rich, "--model", "hybrid", "--out", saved)
    at = f"strategy=accumulate:2,batch_size=24,workers={workers}"
    told = json.loads(_steplab("predict", saved, "--at", at, "--json"))["predictions"][0]
    for end in ("value", "low", "high"):
        assert number(page, "result-time", end) == given(told[end])
    words = page.locator("#result-range").inner_text()
    assert told["outside"] == (["workers"] if "Outside the measured range: workers" in words else [])


def test_every_offered_model_predicts_as_in_python(watch: Watch, rich: Path, rich_page: str) -> None:
    page = watch(rich_page).page
    names = page.eval_on_selector_all("#model option", "all => all.map(one => one.value)")
    assert {"hybrid", "generic", "pmnf", "quadratic", "linear"} <= set(names)
    judged = {one.name: one.model for one in report_data(Results(rich)).models.judged}
    for name in names:
        page.select_option("#model", name)
        for strategy, batch_size, workers in (("sync", 16, 1), ("accumulate:2", 40, 2), ("sync", 1000, 17)):
            page.select_option("select[data-factor=strategy]", strategy)
            page.fill("input[data-factor=batch_size]", str(batch_size))
            page.fill("input[data-factor=workers]", str(workers))
            row = pd.DataFrame([{"strategy": strategy, "batch_size": batch_size, "workers": workers}])
            (told,) = predict_table(judged[name], row)
            for end in ("value", "low", "high"):
                assert number(page, "result-time", end) == given(getattr(told, end))
            assert ("no interval can be given" in page.locator("#result-time").inner_text()) == (told.low is None)
            assert page.locator("#result-range").inner_text().startswith("Inside" if told.inside else "Outside")


def test_another_interval_is_that_of_predict_too(watch: Watch, rich: Path, rich_page: str) -> None:
    page = watch(rich_page).page
    page.select_option("#model", "generic")
    page.select_option("#level", "0.8")
    page.select_option("select[data-factor=strategy]", "sync")
    page.fill("input[data-factor=workers]", "40")
    page.fill("input[data-factor=batch_size]", "500")
    model = next(one.model for one in report_data(Results(rich), "generic").models.judged)
    row = pd.DataFrame([{"strategy": "sync", "batch_size": 500, "workers": 40}])
    (told,) = predict_table(model, row, 0.8)
    # Three values of each factor give an interval beyond them, the same here and there.
    assert number(page, "result-time", "low") == given(told.low) and told.low is not None
    page.fill("input[data-factor=workers]", "2")
    page.fill("input[data-factor=batch_size]", "48")
    (told,) = predict_table(model, row.assign(workers=2, batch_size=48), 0.8)
    assert number(page, "result-time", "low") == given(told.low)
    assert number(page, "result-time", "high") == given(told.high)
    page.fill("input[data-factor=batch_size]", "500")
    assert "batch_size (measured 16 to 64)" in page.locator("#result-range").inner_text()


def test_forecast_sliders_and_predict_agree_and_no_interval_begins_at_zero(
    watch: Watch, rich: Path, rich_page: str, tmp_path: Path
) -> None:
    modelled, page = report_data(Results(rich)).models, watch(rich_page).page
    band = modelled.forecasts[0]
    saved, grid = tmp_path / "model.json", tmp_path / "grid.csv"
    _steplab("fit", rich, "--model", band.name, "--out", saved)
    others = parse_configuration(modelled.forecast_of)
    pd.DataFrame([{**others, "workers": count} for count in band.workers]).to_csv(grid, index=False)
    told = json.loads(_steplab("predict", saved, "--grid", grid, "--json"))["predictions"]
    offered = offer(next(judged for judged in modelled.judged if judged.name == band.name))
    assert len(told) == len(band.workers) and not all(row["inside"] for row in told)
    for at, row in enumerate(told):
        shown = page.evaluate("([model, row]) => predict(model, row, '0.9')", [offered, row["at"]])
        for end, drawn in (("value", band.value), ("low", band.low), ("high", band.high)):
            assert drawn[at] == pytest.approx(row[end], rel=1e-9) and shown[end] == pytest.approx(row[end], rel=1e-9)
        assert 0 < row["low"] < row["value"] < row["high"]


@pytest.mark.parametrize(("name", "shift"), [("auto", 0.0), ("generic", 0.0), ("linear", 0.0), ("linear", -1.0)])
def test_outside_intervals_of_the_page_are_those_of_python(
    watch: Watch, rich_page: str, name: str, shift: float
) -> None:
    cells = [(n, b) for n in (1, 2, 4, 8) for b in (16, 32, 64, 128)]
    X = pd.DataFrame(cells, columns=["workers", "batch_size"]).astype(float)
    y = 0.01 + 1e-3 * X["batch_size"] + 0.02 * np.log2(X["workers"]) + 0.003 * (np.arange(16) % 3)
    model = load_model_class(name)(extrinsic=("workers", "batch_size")).fit(X, y + shift)
    offered = offer(Judged(name, model, np.empty(0), 1.0, 1.0, 1.0, 0.0))
    page = watch(rich_page).page
    for workers, batch_size in ((3, 48), (64, 48), (2, 1000), (1, 2048)):
        row = {"workers": workers, "batch_size": batch_size}
        (told,) = predict_table(model, pd.DataFrame([row]))
        shown = page.evaluate("([model, row]) => predict(model, row, '0.9')", [offered, row])
        for end in ("value", "low", "high"):
            assert shown[end] == pytest.approx(getattr(told, end), rel=1e-9)
        assert shift or told.low > 0


def test_speed_up_and_epoch_follow_from_the_step_time(watch: Watch, rich_page: str) -> None:
    page = watch(rich_page).page
    page.fill("input[data-factor=batch_size]", "32")
    page.fill("input[data-factor=workers]", "1")
    alone = number(page, "result-time")
    assert number(page, "result-speedup") == 1.0
    page.fill("input[data-factor=workers]", "3")
    page.fill("#samples", "1000")
    now = number(page, "result-time")
    assert number(page, "result-speedup") == pytest.approx(3 * alone / now, rel=1e-12)
    assert number(page, "result-epoch") == pytest.approx(11 * now, rel=1e-12)  # 1000 samples, 96 in a step
    assert (
        number(page, "result-speedup", "low") < number(page, "result-speedup") < number(page, "result-speedup", "high")
    )


def test_tables_sort_and_filter(watch: Watch, rich_page: str) -> None:
    page = watch(rich_page).page
    box = page.locator("[data-table=configurations]")
    times = [float(text) for text in column(page, "configurations", 5)]
    assert times != sorted(times)
    box.locator("th button", has_text="t_iter [ms]").click()
    assert [float(text) for text in column(page, "configurations", 5)] == sorted(times)
    box.locator("th button", has_text="t_iter [ms]").press("Enter")
    assert [float(text) for text in column(page, "configurations", 5)] == sorted(times, reverse=True)
    assert box.locator("th[aria-sort=descending]").count() == 1
    box.locator("input[type=search]").fill("strategy=sync batch_size=64")
    assert set(column(page, "configurations", 3)) == {"sync"}
    assert set(column(page, "configurations", 1)) == {"64"}
    box.locator("input[type=search]").fill("accumulate")
    assert set(column(page, "configurations", 3)) == {"accumulate:2"}


def test_a_table_is_saved_as_csv(watch: Watch, rich_page: str, tmp_path: Path) -> None:
    page = watch(rich_page).page
    with page.expect_download() as waiting:
        page.locator("[data-table=trials] button", has_text="CSV").click()
    waiting.value.save_as(tmp_path / "trials.csv")
    rows = list(csv.DictReader((tmp_path / "trials.csv").read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 36
    assert all(0 < float(row["t_iter"]) < 1 for row in rows)


def test_the_page_is_dark_where_the_system_is_and_by_its_button(watch: Watch, rich_page: str) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    ink = "document.querySelector('[data-chart=step-time] .xtick text').style.fill"
    light, dark = watch(rich_page, color_scheme="light").page, watch(rich_page, color_scheme="dark").page
    assert light.evaluate(ground) == "rgb(255, 255, 255)"
    assert dark.evaluate(ground) == "rgb(20, 23, 27)"
    assert light.evaluate(ink) != dark.evaluate(ink)
    for _ in range(2):
        light.locator("#theme").click()
    assert light.evaluate(ground) == dark.evaluate(ground)
    assert light.evaluate(ink) == dark.evaluate(ink)


def test_everything_is_reached_by_keyboard(watch: Watch, rich_page: str) -> None:
    page = watch(rich_page).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    reached = set()
    for _ in range(160):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.dataset.slider ?? document.activeElement.id"))
    assert {"theme", "model", "level", "batch_size", "workers"} <= reached


def _steplab(*arguments: object) -> str:
    done = subprocess.run([STEPLAB, *map(str, arguments)], capture_output=True, text=True, check=True)
    return done.stdout
