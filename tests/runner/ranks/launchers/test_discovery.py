"""Launchers are found by the names of their files."""

from __future__ import annotations

import pytest

from steplab.core import catalogue
from steplab.core.errors import InputError
from steplab.runner.ranks.launchers import launcher_names, load_launcher


def test_an_unknown_launcher_is_one_sentence_with_the_nearest_name() -> None:
    with pytest.raises(InputError, match=r"there is no launcher 'mpiexe'.*mpiexec"):
        load_launcher("mpiexe")


@pytest.mark.parametrize("framework", catalogue.framework_names())
def test_every_framework_names_a_launcher_that_is_there(framework: str) -> None:
    assert catalogue.framework(framework).launcher in launcher_names()
