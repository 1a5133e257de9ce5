"""The pages' charts: every point is drawn where it belongs, and the same table gives the same picture."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pandas as pd

from steplab.sources.drawing import chart, speedups_chart

POINTS = pd.DataFrame({"x": [1, 10, 100, 1, 10, 100], "y": [1.0, 10.0, 100.0, 2.0, 20.0, 200.0], "who": list("aaabbb")})


def drawn(points: pd.DataFrame, *, log: bool = True, joined: bool = True) -> str:
    return chart(points, "x", "y", "who", labels=("samples & more", "seconds"), log=log, joined=joined)


def test_a_chart_is_an_svg_that_loads_nothing() -> None:
    picture = ElementTree.fromstring(drawn(POINTS))
    assert picture.tag.endswith("svg")
    assert not re.search(r"href|script|url\(", drawn(POINTS))
    assert "samples &amp; more" in drawn(POINTS)


def test_every_point_is_there_and_a_power_law_is_a_straight_line() -> None:
    circles = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)" r="3"', drawn(POINTS))
    assert len(circles) == len(POINTS)
    (x0, y0), (x1, y1), (x2, y2) = ((float(a), float(b)) for a, b in circles[:3])
    assert x0 < x1 < x2
    assert y0 > y1 > y2
    assert abs((x1 - x0) - (x2 - x1)) < 0.2  # pixels, written with one digit
    assert abs((y1 - y0) - (y2 - y1)) < 0.2


def test_only_scattered_points_have_the_line_of_right_predictions() -> None:
    assert "stroke-dasharray" in drawn(POINTS, joined=False)
    assert "stroke-dasharray" not in drawn(POINTS)


def test_the_same_table_gives_the_same_picture_whatever_its_order() -> None:
    assert drawn(POINTS) == drawn(POINTS.iloc[::-1])


def test_nothing_to_show_is_no_picture() -> None:
    assert drawn(POINTS.head(0)) == ""


def test_one_value_is_no_reason_to_fail() -> None:
    ElementTree.fromstring(drawn(POINTS.head(1), log=False))
    ElementTree.fromstring(drawn(POINTS.head(1)))


def test_few_values_are_the_ticks_of_joined_points() -> None:
    workers = POINTS.assign(x=[1, 2, 3, 1, 2, 3])
    ticks = re.findall(r'y="328" text-anchor="middle">([^<]+)<', drawn(workers, log=False))
    assert ticks == ["1", "2", "3"]


def test_a_short_logarithmic_axis_has_ticks_between_the_powers_of_ten() -> None:
    near = POINTS.assign(y=[1.5, 2.5, 3.0, 4.0, 6.0, 7.0])
    assert [f">{tick}<" in drawn(near, joined=False) for tick in (2, 5)] == [True, True]


def test_a_guide_is_a_dashed_line_through_its_points_and_the_axes_have_room_for_it() -> None:
    guide = pd.DataFrame({"x": [1, 1000], "y": [1.0, 1.0]})
    picture = chart(POINTS, "x", "y", "who", labels=("a", "b"), log=True, joined=False, guide=guide)
    ((start, end),) = re.findall(r'points="(\S+) (\S+)" fill="none" stroke="#888888" stroke-dasharray', picture)
    assert start.split(",")[1] == end.split(",")[1]
    assert max(float(x) for x in re.findall(r'cx="([\d.]+)" cy="[\d.]+" r="3"', picture)) < float(end.split(",")[0])


def test_speedups_begin_at_one_worker_and_are_seen_against_as_many_times() -> None:
    own = pd.DataFrame({"who": ["a", "a"], "workers": [2, 3], "speedup": [1.5, 1.8]})
    picture = speedups_chart(own, "who", "workers")
    assert len(re.findall('r="3"', picture)) == 3
    assert "stroke-dasharray" in picture
    assert speedups_chart(own.head(0), "who", "workers") == ""
