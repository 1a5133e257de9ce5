"""Studies that are hard to show: one trial, only failures, six frameworks, hostile names."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from steplab.api.results.report_data import report_data
from steplab.api.results.results import Results
from steplab.report.html import content, render

Watch = Callable[..., Any]
EVIL = (
    "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>\"'\n\u202eעברית مرحبا 🚀 ${hacked=1}"
)


def shown(watch: Watch, folder: Path) -> Any:
    page = folder / "report.html"
    page.write_text(render(content(report_data(Results(folder)))), encoding="utf-8")
    seen = watch(page.as_uri(), offline=True)
    assert seen.complaints == []
    assert seen.page.evaluate("window.hacked") is None
    return seen.page


def test_one_trial(watch: Watch, single: Path) -> None:
    page = shown(watch, single)
    assert page.locator("[data-table=trials] tbody tr").count() == 1
    assert "No readable model could be fitted" in page.locator("#what-if").inner_text()
    assert page.locator("#missing li").count() >= 4


def test_only_failures(
    watch: Watch, single: Path, copy_of: Callable[[Path], Path], rewrite: Callable[..., None]
) -> None:
    folder = copy_of(single)
    rewrite(folder, lambda old: [old | {"status": "failed", "reason": "it broke", "log_tail": "the end", "ranks": []}])
    page = shown(watch, folder)
    assert "No trial of this study has been measured" in page.locator("#answer").inner_text()
    assert "it broke" in page.locator("[data-table=failed]").inner_text()
    assert "the end" in page.locator("[data-table=failed]").inner_text()
    assert page.locator("[data-chart]").count() == 0


def test_six_frameworks(watch: Watch, six_frameworks_page: str) -> None:
    seen = watch(six_frameworks_page, offline=True)
    assert seen.complaints == []
    labels = seen.page.locator("[data-chart=phases] .ytick text").all_text_contents()
    names = ("torch", "tensorflow", "jax", "mxnet", "chainer", "velox")
    assert all(any(f"framework={name}" in label for label in labels) for name in names)


def test_hostile_names_are_shown_and_nothing_runs(
    watch: Watch, rich: Path, copy_of: Callable[[Path], Path], rewrite: Callable[..., None]
) -> None:
    folder = copy_of(rich)
    text = (folder / "study.toml").read_text().replace('"Everything at once"', json.dumps(EVIL, ensure_ascii=False))
    (folder / "study.toml").write_text(text)

    def hostile(old: dict[str, Any]) -> list[dict[str, Any]]:
        old["config"]["environment"] = EVIL if old["replicate"] else "__proto__"
        old["machine"]["cpu"] = EVIL
        old["versions"]["</dd><script>window.hacked=1</script>"] = EVIL
        if old["config"]["batch_size"] == 16 and old["config"]["workers"] == 3:
            old |= {"status": "failed", "reason": EVIL, "log_tail": EVIL * 3, "ranks": []}
        return [old]

    rewrite(folder, hostile)
    page = shown(watch, folder)
    assert EVIL.split("\n")[0] in page.locator(".lead").inner_text()
    assert "window.hacked=1" in page.locator("[data-table=failed]").inner_text()
    page.select_option("select[data-factor=environment]", EVIL)
    assert float(page.locator("#result-time").get_attribute("data-value") or "nan") > 0
    page.select_option("select[data-factor=environment]", "__proto__")
    assert float(page.locator("#result-time").get_attribute("data-value") or "nan") > 0
    assert page.evaluate("window.hacked") is None
    assert page.locator("main img, main script").count() == 0
