"""The verdict on two configurations that differ in the framework is found whoever asks, and for no other pair."""

from __future__ import annotations

import pandas as pd

from steplab.analysis.configurations import configurations
from steplab.analysis.framework_verdicts import framework_verdicts
from steplab.analysis.frameworks import compare_frameworks
from steplab.analysis.same_configuration import SameConfiguration

FACTORS = ["framework", "batch_size", "workers", "compile"]
STEPS = {
    ("a", None): (0.99, 1.0, 1.01),
    ("b", "no"): (1.2, 1.21, 1.19),
    ("b", "yes"): (1.011, 0.991, 1.001),  # not in step with a
}


def asked(*batches: int) -> SameConfiguration:
    """Framework a, and b with an own factor, at these batch sizes; three replicates with 1 % of noise."""
    rows = [
        {"framework": framework, "compile": own, "batch_size": batch, "workers": 1, "replicate": at, "status": "ok",
         "t_iter": step * batch}
        for batch in batches for (framework, own), steps in STEPS.items() for at, step in enumerate(steps)
    ]  # fmt: skip
    trials = pd.DataFrame(rows)
    return framework_verdicts(configurations(trials, FACTORS), compare_frameworks(trials, FACTORS), "step time")


def test_variants_of_frameworks_have_the_verdicts_of_their_pairs() -> None:
    for batches in ((8,), (8, 16)):
        verdicts = asked(*batches)
        a = {"framework": "a", "batch_size": 8, "workers": 1}
        plain, compiled = ({**a, "framework": "b", "compile": own} for own in ("no", "yes"))
        assert (verdicts.surely_better(a, plain), verdicts.surely_better(plain, a)) == (True, False)
        assert verdicts.surely_better(a, compiled) is verdicts.surely_better(compiled, a) is False


def test_configurations_that_differ_in_more_than_the_framework_have_none() -> None:
    one = {"framework": "a", "batch_size": 8, "workers": 1}
    assert asked(8, 16).surely_better(one, {**one, "framework": "b", "compile": "no", "batch_size": 16}) is None
