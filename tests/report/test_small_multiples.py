"""Many series: divided into panels that can be read, and what is left out is said."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

from steplab.core.trial import Level
from steplab.report.charts.labels import in_lines
from steplab.report.charts.small_multiples import MOST_LINES, MOST_PANELS, grid, some
from steplab.report.drawing import drawn, omission
from steplab.report.table import Column, PageTable


@dataclass(frozen=True)
class Series:
    levels: dict[str, Level] = field(default_factory=dict)


def every(**factors: list[Level]) -> list[Series]:
    return [Series(dict(zip(factors, levels, strict=True))) for levels in product(*factors.values())]


def test_few_series_stay_in_one_panel_without_a_title() -> None:
    made = grid(every(batch_size=[8, 16], strategy=["sync", "accumulate:4"]), ("batch_size", "strategy"))
    assert [panel.title for panel in made.panels] == [""]


def test_frameworks_make_the_panels_and_the_other_factors_the_lines() -> None:
    lines = every(batch_size=[8, 16], framework=["torch", "jax", "mxnet", "chainer", "tensorflow"], strategy=["a", "b"])
    made = grid(lines, ("batch_size", "framework", "strategy"))
    assert [panel.title for panel in made.panels] == [
        "framework=chainer", "framework=jax", "framework=mxnet", "framework=tensorflow", "framework=torch"
    ]  # fmt: skip
    assert made.inside == ("batch_size", "strategy")
    assert sum(len(panel.lines) for panel in made.panels) == 20


def test_panels_of_numbers_are_in_the_order_of_the_numbers() -> None:
    made = grid(every(batch_size=[128, 8, 16], seed=[1, 2, 3, 4]), ("batch_size", "seed"))
    assert [panel.title for panel in made.panels] == ["batch_size=8", "batch_size=16", "batch_size=128"]


def test_more_series_than_panels_can_hold_are_chosen_and_counted() -> None:
    lines = every(a=list(range(20)), b=list(range(20)))
    made = grid(lines, ("a", "b"))
    shown = sum(len(some(panel.lines)) for panel in made.panels)
    assert len(made.panels) <= MOST_PANELS
    assert all(len(some(panel.lines)) <= MOST_LINES for panel in made.panels)
    assert omission(shown, len(lines), "series") == f"{shown} of 400 series are shown."


def test_a_chart_that_shows_everything_has_no_remark() -> None:
    assert drawn(grid(every(a=[1]), ("a",)).figure(), omission(3, 3, "series")).remarks == ()


def test_a_long_name_is_broken_not_cut() -> None:
    levels: dict[str, Level] = {f"factor_{at}": "a-long-level-of-it" for at in range(6)} | {"deciding": 7}
    text = in_lines(levels, list(levels))
    assert text.endswith("deciding=7")
    assert max(map(len, text.split("<br>"))) <= 60


def test_a_column_in_which_nothing_is_known_is_left_out() -> None:
    table = PageTable("x", "X", (Column("a", "a"), Column("throughput", "samples/s")), [[1, None], [2, None]])
    assert [column.key for column in table.filled().columns] == ["a"]
    assert table.filled().rows == [[1], [2]]
