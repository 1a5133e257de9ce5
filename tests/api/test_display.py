"""What a notebook shows: tables and a picture, never a script, whatever a stranger's study is called."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pandas as pd

import steplab
from steplab.api import display

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'"
ALLOWED = {"div", "p", "strong", "pre", "table", "thead", "tbody", "tr", "th", "td", "svg", "text", "rect", "line"}


class Tags(HTMLParser):
    """The tags of a text, and how deep they still are open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def assert_harmless(thing: object) -> str:
    text: str = thing._repr_html_()  # type: ignore[attr-defined]
    seen = Tags(text)
    assert seen.tags <= ALLOWED
    assert not seen.open
    assert not any(name.startswith("on") or name in ("href", "src") for name in seen.attributes)
    assert len(repr(thing)) < 400
    return text


def test_a_study_shows_its_factors_and_counts(folder: Path) -> None:
    text = assert_harmless(steplab.open(folder))
    assert "demo" in text
    assert "16 ok, 0 failed, 0 left of 16 trials" in text
    assert "8, 16, 32, 64" in text


def test_findings_show_sentences_bars_and_a_table(folder: Path) -> None:
    text = assert_harmless(steplab.open(folder).analyze())
    assert "The highest throughput is" in text
    assert text.count("<rect") == 8
    assert "batch_size=64, workers=2" in text


def test_a_model_shows_its_formula_and_errors(folder: Path) -> None:
    text = assert_harmless(steplab.open(folder).fit("linear"))
    assert "t_iter = " in text
    assert "MAPE" in text
    assert "1 to 2" in text


def test_a_prediction_shows_its_interval_and_range(folder: Path) -> None:
    predicted = steplab.open(folder).fit("linear").predict("batch_size=16,workers=9")
    text = assert_harmless(predicted)
    assert "OUTSIDE: workers" in text
    assert "OUTSIDE" in repr(predicted)


def test_comparisons_plans_networks_and_rooflines_show_tables(folder: Path, study_toml: Path) -> None:
    assert "linear" in assert_harmless(steplab.open(folder).compare("linear"))
    assert "16 trials" in assert_harmless(steplab.plan(study_toml))
    assert "conv1" in assert_harmless(steplab.inspect("lenet5"))
    assert "FLOP/s" in assert_harmless(steplab.roofline("lenet5", "a100"))
    assert "16 ok" in assert_harmless(steplab.open(folder).status())


def test_a_strangers_names_are_text() -> None:
    rows = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0] * 3, "level": [EVIL, "b", "c"] * 4, "t_iter": range(1, 13)})
    model = steplab.fit(rows, "linear", categorical="level", extrinsic="x")
    assert "&lt;script&gt;" in assert_harmless(model)
    assert_harmless(model.predict({"x": 2, "level": EVIL}))


def test_a_strangers_study_is_text(tmp_path: Path) -> None:
    rows = pd.DataFrame({"network": [EVIL, "b"] * 2, "workers": 1, "t_iter": [0.5, 0.7, 0.6, 0.8]})
    rows.to_csv(tmp_path / "t.csv", index=False)
    study = steplab.import_csv(tmp_path / "t.csv", tmp_path / "out", factors=["network"]).open()
    for thing in (study, study.analyze(), study.status()):
        assert_harmless(thing)
    assert "&lt;script&gt;" in study.analyze()._repr_html_()


def test_controls_and_halves_of_signs_are_left_out() -> None:
    assert display.sentence("a\x1b[31m\u202eb\udcff") == "<p>a [31mb </p>"
