"""The page on extending shows the files that the tests install."""

from __future__ import annotations

import pytest

from .conftest import ACME, shown

FILES = sorted(title for title in shown() if title.startswith("acme/"))


@pytest.mark.parametrize("title", FILES)
def test_a_file_on_the_page_is_the_one_that_is_tested(title: str) -> None:
    assert shown()[title] == (ACME.parent / title).read_text()


def test_the_page_shows_a_network_a_command_and_a_launcher() -> None:
    assert FILES == ["acme/bottleneck.py", "acme/niced.py", "acme/slowest.py"]
