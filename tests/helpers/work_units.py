"""Which tests one worker of pytest-xdist runs in one go, and which of these units begin first.

A unit is what shares something expensive: usually a file. The contracts of the frameworks share warm ranks over several
files, framework by framework; some long files share nothing and are handed out test by test.
"""

from __future__ import annotations

import re

from xdist.scheduler import LoadScopeScheduling

from steplab.core import catalogue

# Ranks are kept warm from file to file, but only a few groups of them: so framework by framework.
RANKS = tuple(
    f"tests/contract/test_{name}.py" for name in ("frameworks", "phases", "training", "torch_exchange", "torch_events")
)
BY_FRAMEWORK = ("tests/contract/test_doors.py", "tests/contract/test_exchange.py")
BY_TEST = (
    "tests/docs/test_sessions.py", "tests/docs/test_examples.py", "tests/e2e/test_faults.py",
    "tests/e2e/test_own_code.py", "tests/e2e/test_train.py",
)  # fmt: skip
# The units that take a minute or more, the longest first; a file's name stands for all of its units. xdist would begin
# them last, because they have few tests, and leave a core idle at the end.
LONG = (
    "tests/e2e/test_slurm.py", "ranks of tensorflow", "ranks of jax",
    "tests/e2e/test_faults.py::test_a_study_killed_thirty_times_is_complete_in_the_end",
    "tests/docs/test_sessions.py", "tests/docs/test_transformers_page.py", "tests/docs/test_pages_run.py",
    "ranks of torch", "ranks of mxnet",
    "ranks of chainer", "tests/docs/test_examples.py", "tests/extensions/test_contracts.py",
    "tests/contract/test_doors.py", "tests/contract/test_launchers.py", "tests/e2e/test_several_hosts.py",
    "tests/e2e/test_why.py", "tests/e2e/test_own_code.py", "tests/e2e/test_wheel.py", "tests/e2e/test_faults.py",
    "tests/e2e/test_train.py",
)  # fmt: skip
FRAMEWORK = re.compile(rf"\[({'|'.join(catalogue.framework_names())})\b")


def unit(test: str) -> str:
    """The unit of a test, by its id.

    >>> unit("tests/contract/test_phases.py::test_a_step_alone_is_one_without_exchange[jax]")
    'ranks of jax'
    >>> unit("tests/store/test_claims.py::test_a_trial_is_claimed_once[2]")
    'tests/store/test_claims.py'
    """
    file, _, name = test.partition("::")
    named = FRAMEWORK.search(name)
    framework = named[1] if named else "torch"
    if file in RANKS:
        return f"ranks of {framework}"
    if file in BY_FRAMEWORK:
        return f"{file} in {framework}"
    return test if file in BY_TEST else file


def place(test: str) -> tuple[int, str]:
    """Where a test stands in the order: long units first, each in one piece."""
    of_test = unit(test)
    for number, name in enumerate(LONG):
        if name in (of_test, test.partition("::")[0]):
            return number, of_test
    return len(LONG), ""


class ByUnit(LoadScopeScheduling):
    """Hands out unit by unit, in the order of the tests."""

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)
