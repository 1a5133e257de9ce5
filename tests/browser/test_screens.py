"""What a person sees of the charts on a phone (400 pixels wide) and on a screen (1280)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

WIDTHS = (400, 1280)
PATIENCE_MS = 180_000  # other programs may have the machine
# Everything that could be moved sideways, by its class or its name.
SIDEWAYS = """[...document.querySelectorAll("*")].filter(part => part.scrollWidth > part.clientWidth + 1 &&
    ["auto", "scroll"].includes(getComputedStyle(part).overflowX)).map(part => part.className || part.tagName)"""
# The names of a chart's rows, beside or above them, and by how much each leaves its chart.
NAMES = """box => {
    const all = box.getBoundingClientRect();
    const leaves = (own) => Math.max(all.left - own.left, own.right - all.right);
    const texts = [...box.querySelectorAll(".ytick text, .annotation-text")];
    return texts.map(text => [text.textContent, leaves(text.getBoundingClientRect())]);
}"""
PANELS = "box => box.querySelectorAll('.cartesianlayer > .subplot').length"


Pages = dict[int, Page]


def shown(browser: Browser, address: str) -> Iterator[Pages]:
    """The page at both widths, drawn."""
    contexts = {width: browser.new_context(viewport={"width": width, "height": 900}) for width in WIDTHS}
    pages = {width: context.new_page() for width, context in contexts.items()}
    for page in pages.values():
        page.set_default_timeout(PATIENCE_MS)
        page.goto(address)
        page.wait_for_selector("html[data-ready]", state="attached")
    yield pages
    for context in contexts.values():
        context.close()


@pytest.fixture(scope="module")
def six(browser: Browser, six_frameworks_page: str) -> Iterator[Pages]:
    """A report of six frameworks, 108 configurations and 36 series."""
    yield from shown(browser, six_frameworks_page)


@pytest.fixture(scope="module")
def trained(browser: Browser, trained_page: str) -> Iterator[Pages]:
    """A report of trainings to a target."""
    yield from shown(browser, trained_page)


@pytest.fixture(scope="module")
def inferred(browser: Browser, inferred_page: str) -> Iterator[Pages]:
    """A report of an inference."""
    yield from shown(browser, inferred_page)


@pytest.mark.parametrize("study", ["six", "trained", "inferred"])
def test_nothing_scrolls_sideways_on_a_phone(study: str, request: pytest.FixtureRequest) -> None:
    page = request.getfixturevalue(study)[400]
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert page.evaluate(SIDEWAYS) == []
    assert max(page.eval_on_selector_all("svg.main-svg", "all => all.map(one => one.clientWidth)")) <= 400


@pytest.mark.parametrize("width", WIDTHS)
def test_a_row_is_named_by_all_factors_that_vary_and_its_name_is_not_cut(six: Pages, width: int) -> None:
    page = six[width]
    names = page.locator("[data-chart=step-time]").evaluate(NAMES)
    assert len(names) == 20
    factors = ("framework=", "batch_size=", "workers=", "strategy=")
    assert all(factor in name for name, _ in names for factor in factors)
    assert len({name for name, _ in names}) == 20
    assert max(beyond for _, beyond in names) <= 1


@pytest.mark.parametrize("width", WIDTHS)
def test_legends_cover_nothing(six: Pages, width: int) -> None:
    page = six[width]
    assert page.locator("svg .legend").count() == 0
    for name in ("phases", "speed-up", "communication", "predicted", "forecast"):
        legend, chart = page.locator(f"[data-legend={name}]"), page.locator(f"[data-chart={name}]")
        assert legend.locator("button").count() >= 2
        above, below = legend.bounding_box(), chart.bounding_box()
        assert above is not None and below is not None
        assert above["y"] + above["height"] <= below["y"] + 1
        assert above["width"] <= width


def test_an_entry_of_a_legend_hides_its_series(six: Pages) -> None:
    page = six[1280]
    drawn = "document.querySelectorAll('[data-chart=speed-up] .scatterlayer .trace').length"
    before = page.evaluate(drawn)
    entry = page.locator("[data-legend=speed-up] button", has_text="batch_size=16, strategy=sync")
    entry.click()
    page.wait_for_function(f"{drawn} === {before - 6}")
    assert entry.get_attribute("aria-pressed") == "false"
    entry.click()
    page.wait_for_function(f"{drawn} === {before}")


@pytest.mark.parametrize("width", WIDTHS)
def test_many_series_are_small_multiples_and_none_is_left_out(six: Pages, width: int) -> None:
    page = six[width]
    chart = page.locator("[data-chart=speed-up]")
    assert chart.evaluate(PANELS) == 6
    assert chart.locator(".scatterlayer .trace").count() == 36 + 6  # and the ideal in each panel
    titles = [name for name, _ in chart.evaluate(NAMES) if name.startswith("framework=")]
    assert len(titles) == 6
    columns = len({round(box["x"]) for box in (one.bounding_box() for one in _panels(page)) if box})
    assert columns == (1 if width == 400 else 3)


def _panels(page: Page) -> list[Any]:
    return (
        page.locator("[data-chart=speed-up] .bglayer .bg").all()
        or page.locator("[data-chart=speed-up] .cartesianlayer > .subplot .gridlayer").all()
    )


def test_a_chart_says_what_it_leaves_out(six: Pages) -> None:
    page = six[1280]
    assert "20 of 108 configurations are shown" in page.locator("#step-time").inner_text()
    assert "are shown" not in page.locator("#speed-up").inner_text()


def test_headings_of_tables_are_whole_words_and_the_machine_has_units(six: Pages) -> None:
    page = six[1280]
    heads = "all => all.map(head => [head.innerText, head.clientHeight])"
    assert [text for text, height in page.eval_on_selector_all("thead th", heads) if height > 60] == []
    machine = page.locator("#provenance").inner_text()
    assert "memory_bytes" not in machine and " GHz" in machine and "iB" in machine


def test_the_answer_keeps_its_findings_beside_the_models(six: Pages) -> None:
    page = six[1280]
    answer = page.locator("#answer")
    assert page.locator("#answer a[href='#frameworks']").count() == 1
    assert page.locator("#answer a[href='#speed-up']").count() == 1
    assert "torch" in answer.inner_text()
    assert "predicts" in page.locator("#predicted .note").inner_text()


def test_every_sentence_below_a_chart_names_its_configuration(six: Pages) -> None:
    page = six[1280]
    notes = page.locator("#speed-up .note, #imbalance .note").all_inner_texts()
    assert notes
    assert all("framework=" in note and "workers=" in note for note in notes)


def test_frameworks_stand_in_order_with_those_that_cannot_be_told_apart(six: Pages) -> None:
    page = six[1280]
    cells = page.locator("[data-table=frameworks] tbody td:first-child").all_inner_texts()
    assert cells == ["torch", "tensorflow", "jax", "mxnet", "chainer", "velox"]
    assert "velox" in page.locator("[data-table=frameworks] tbody tr").first.inner_text()


def test_frameworks_are_compared_in_pairs(six: Pages) -> None:
    page = six[1280]
    assert page.locator("[data-chart=frameworks] .ytick text").count() == 15
    rows = page.locator("[data-table=framework-pairs] tbody tr").all_inner_texts()
    throughput = [row for row in rows if row.startswith("throughput")]
    assert len(throughput) == 15
    assert any("torch" in row and "velox" in row and "torch is better" in row for row in throughput)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_training_shows_who_reached_the_target_and_who_did_not(trained: Pages, width: int) -> None:
    page = trained[width]
    first = page.locator("#answer li").first
    assert "90 %" in first.inner_text()
    assert first.locator("a[href='#time-to-accuracy']").count() == 1
    assert page.locator("[data-chart]").first.get_attribute("data-chart") == "time-to-accuracy"
    assert page.locator("[data-chart=time-to-accuracy] .scatterlayer .point").count() == 3
    assert page.locator("[data-chart=accuracy-curves] .scatterlayer .trace").count() == 6
    rows = page.locator("[data-table=time-to-accuracy] tbody tr").all_inner_texts()
    assert len(rows) == 3
    assert "soonest" in rows[0] and "not reached" in rows[2] and "0.7" in rows[2]


@pytest.mark.parametrize("width", WIDTHS)
def test_an_inference_shows_p50_p95_p99_and_the_throughput(inferred: Pages, width: int) -> None:
    page = inferred[width]
    assert "p50" in page.locator("#answer li").first.inner_text()
    assert page.locator("[data-legend=latency] button").all_inner_texts() == ["p50", "p95", "p99"]
    assert page.locator("[data-chart=latency] .scatterlayer .point").count() == 6
    table = page.locator("[data-table=latencies]")
    assert table.locator("tbody tr").count() == 2
    heads = " ".join(table.locator("th").all_inner_texts())
    assert all(word in heads for word in ("p50 [ms]", "p95 [ms]", "p99 [ms]", "throughput [samples/s]"))
