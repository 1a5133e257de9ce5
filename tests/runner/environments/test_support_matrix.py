"""The table of what each framework can do."""

from steplab.core import catalogue
from steplab.core.trial import STRATEGIES
from steplab.runner.environments.support_matrix import INFERENCE, SEVERAL, SINGLE, summarised, support_matrix


def test_every_real_framework_and_network_has_a_row_for_each_strategy():
    rows = support_matrix()
    real = {name for name in catalogue.framework_names() if catalogue.framework(name).needs_environment}
    expected = {(f, n, s) for f in real for n in catalogue.network_names() for s in (*STRATEGIES, INFERENCE)}
    assert {(row.framework, row.network, row.strategy) for row in rows} == expected


def test_a_strategy_that_is_not_declared_is_answered_with_the_reason():
    answers = {(r.framework, r.strategy, r.distribution): r.answer for r in support_matrix() if r.network == "lenet5"}
    assert answers["mxnet", "ps-async", SEVERAL] == "yes"
    assert answers["chainer", "ps-async", SEVERAL] == "Chainer has no strategy 'ps-async' here, only sync, accumulate"


def test_networks_for_volumes_are_judged_with_volumes():
    rows = [row for row in support_matrix() if (row.framework, row.network) == ("mxnet", "resattnet3d18")]
    assert {row.answer for row in rows if row.strategy == "sync"} == {"yes"}


def test_a_summary_joins_the_networks_of_one_answer():
    rows = [row for row in support_matrix() if row.framework == "chainer" and row.distribution == SINGLE]
    joined = {one.strategy: one for one in summarised(rows)}
    assert joined["sync"].networks == tuple(catalogue.network_names())
    assert sum(len(one.networks) for one in summarised(rows)) == len(rows)
