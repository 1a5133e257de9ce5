"""The pages' charts: every point is drawn where it belongs, and the same table gives the same picture."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pandas as pd

from steplab.sources.drawing import chart

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
