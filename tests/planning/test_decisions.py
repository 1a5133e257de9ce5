"""Plans over a model of a known law: numbers that can be checked by hand, wishes that cannot be granted."""

import numpy as np
import pandas as pd
import pytest
from known_law import fitted, law

from steplab.core.errors import InputError, ModelError
from steplab.models.linear import Linear
from steplab.planning.best import plan_best
from steplab.planning.candidates import candidates, parse_values, spread_values
from steplab.planning.chance import chance_below
from steplab.planning.deadline import plan_deadline
from steplab.planning.job import FORWARD_SHARE, Job
from steplab.planning.machines import parse_prices
from steplab.planning.quantities import parse_limits
from steplab.planning.workers import plan_workers

PRICES = {"machine": {"node": {"price_per_hour": 2.0, "workers_per_node": 4, "watts": 100.0, "currency": "EUR"}}}


@pytest.fixture(scope="module")
def model():
    return fitted()


@pytest.fixture
def prices():
    return parse_prices(PRICES, "prices.toml")


def test_speed_up_and_efficiency_follow_the_law(model):
    plan = plan_workers(model, {"batch_size": "64"}, [1, 2, 4, 8])
    wanted = [w * law(64, 1) / law(64, w) for w in (1, 2, 4, 8)]
    assert [row.speedup for row in plan.rows] == pytest.approx(wanted, rel=0.05)
    assert [row.efficiency * row.workers for row in plan.rows] == pytest.approx([row.speedup for row in plan.rows])
    assert all(row.speedup_low <= row.speedup <= row.speedup_high for row in plan.rows)


def test_one_more_stops_paying_where_the_law_says(model):
    # The gain of the steps 1→2→4→8 at batch 64 is 0.87, 0.74, 0.54 of a worker each; at batch 8 it is 0.57, 0.35.
    assert plan_workers(model, {"batch_size": "64"}, [1, 2, 4, 8], worth=0.65).enough == 4
    plan = plan_workers(model, {"batch_size": "8"}, [1, 2, 4, 8], worth=0.5)
    assert plan.enough == 2 and plan.enough_low <= 2 <= plan.enough_high
    assert "2 workers are enough" in plan.why


def test_money_decides_if_an_hour_has_a_price(model, prices):
    cheap = plan_workers(model, {"batch_size": "8"}, [1, 2, 4, 8], prices=prices, hour_worth=0.01)
    dear = plan_workers(model, {"batch_size": "8"}, [1, 2, 4, 8], prices=prices, hour_worth=1000.0)
    # Up to four workers stand on one node: they cost nothing more.
    assert (cheap.enough, dear.enough) == (4, 8)


def test_what_cannot_be_planned_with_is_named(model):
    given = {"batch_size": ["64"], "workers": ["1", "2", "500"]}
    for plan in (plan_best(model, given, minimise="t_iter"), plan_deadline(model, Job(64_000), 1e6, given)):
        assert len(plan.rows) == 2
        (told,) = (text for text in plan.assumptions if "left out" in text)
        assert told.startswith("1 of 3 configurations are left out, with workers 500 all of them")


def test_a_step_becomes_an_epoch_and_a_job(model):
    job = Job(1000, epochs=3, validation_samples=100, startup_s=5.0, checkpoint_s=2.0)
    frame = candidates(model, {"batch_size": ["32"], "workers": ["2"]})
    # 1000 samples in batches of 2·32 are 16 iterations, 100 are 2 forward passes.
    assert job.steps(model, frame).tolist() == [16 + FORWARD_SHARE * 2]
    total = job.total_s(np.array([0.1]), job.steps(model, frame))
    assert total[0] == pytest.approx(5 + 3 * 2 + 3 * 0.1 * (16 + FORWARD_SHARE * 2))
    assert any("third" in text for text in job.assumptions(model))
    assert any("checkpoint" in text for text in job.assumptions(model))


def test_a_deadline_is_met_with_a_probability(model):
    job = Job(64_000)
    middle = 64_000 / 64 * float(law(64, 1))
    given = {"batch_size": ["64"], "workers": ["1"]}
    (row,) = plan_deadline(model, job, middle, given).rows
    assert 0.2 < row.probability < 0.8
    assert plan_deadline(model, job, 2 * middle, given).rows[0].probability > 0.99
    assert row.total_s.low < middle < row.total_s.high


def test_what_is_sure_comes_first_with_the_fewest_workers(model):
    plan = plan_deadline(model, Job(64_000), 60.0, {"batch_size": ["64"]})
    sure = [row for row in plan.rows if row.probability >= 0.9]
    assert sure and list(plan.rows[: len(sure)]) == sure
    assert [row.workers for row in sure] == sorted(row.workers for row in sure)


def test_probabilities_hold_on_data_from_a_known_law():
    """Of jobs that are promised with some probability, about that share is in time."""
    rng, promised, kept = np.random.default_rng(5), [], []
    for seed in range(40):
        model = fitted(0.1, seed)
        frame = candidates(model, {})
        truth = law(frame["batch_size"].to_numpy(), frame["workers"].to_numpy())
        bound = truth * np.exp(rng.uniform(-0.2, 0.2, len(frame)))
        promised.append(chance_below(model, frame, bound))
        kept.append(truth * np.exp(0.1 * rng.standard_normal(len(frame))) <= bound)
    chance, true = np.concatenate(promised), np.concatenate(kept)
    for low, high in ((0.05, 0.35), (0.35, 0.65), (0.65, 0.95)):
        some = (chance >= low) & (chance < high)
        # 150 and more jobs a class: their share is known to about 4 %, and a model adds its own error.
        assert some.sum() >= 100 and abs(true[some].mean() - chance[some].mean()) < 0.1


def test_the_best_is_the_least_and_limits_are_kept(model, prices):
    plan = plan_best(model, {}, minimise="cost", within=parse_limits("workers<=4,batch_size>8"), job=Job(6400),
                     prices=prices)  # fmt: skip
    costs = [row.estimates["cost"].value for row in plan.rows]
    assert costs == sorted(costs) and plan.feasible == 9 and plan.looked_at == 16
    assert all(row.at["workers"] <= 4 and row.at["batch_size"] > 8 for row in plan.rows)
    assert plan.rows[0].at == {"batch_size": 64.0, "workers": 4.0} and plan.rows[0].tied


def test_energy_follows_from_watts_and_is_said_to_be_estimated(model, prices):
    plan = plan_best(model, {}, minimise="energy", job=Job(6400), prices=prices)
    row = plan.rows[0]
    nodes = np.ceil(row.at["workers"] / 4)
    assert row.estimates["energy"].value == pytest.approx(row.estimates["t_epoch"].value * 100 * nodes)
    assert any("estimated" in text for text in plan.assumptions)


def test_nothing_on_the_front_is_both_slower_and_dearer(model, prices):
    plan = plan_best(model, {}, minimise="t_epoch", job=Job(6400), prices=prices)
    pairs = [(row.estimates["t_epoch"].value, row.estimates["cost"].value) for row in plan.rows]
    for row, (time, cost) in zip(plan.rows, pairs, strict=True):
        better = any(t <= time and c <= cost and (t, c) != (time, cost) for t, c in pairs)
        assert row.pareto == (not better)
    assert 1 <= len(plan.front) < len(plan.rows)


def test_a_further_model_tells_memory(model):
    frame = candidates(model, {})
    memory = Linear((), (), ("batch_size",)).fit(frame[["batch_size"]], pd.Series(1e9 + 1e8 * frame["batch_size"]))
    memory.target_ = "memory_bytes"
    plan = plan_best(model, {}, minimise="t_iter", within=parse_limits("memory<5GB"), also=[memory])
    assert {row.at["batch_size"] for row in plan.rows} == {8.0, 16.0, 32.0}


def test_a_machine_can_be_a_factor_of_the_model():
    rows = pd.DataFrame({"machine": ["a", "b"] * 8, "workers": np.repeat([1.0, 2.0, 4.0, 8.0], 4)})
    model = Linear((), ("machine",), ("workers",)).fit(rows, 0.1 + 0.01 * rows["workers"])
    both = parse_prices({"machine": {"a": {"price_per_hour": 1.0}, "b": {"price_per_hour": 3.0}}}, "p.toml")
    plan = plan_best(model, {}, minimise="cost", job=Job(1000, batch_size=10), prices=both)
    assert plan.rows[0].at["machine"] == "a"


IMPOSSIBLE = {
    "nothing keeps both": lambda m: plan_best(m, {}, minimise="t_iter", within=parse_limits("workers>4,workers<2")),
    "nearest possible t_iter is": lambda m: plan_best(m, {}, minimise="t_iter", within=parse_limits("t_iter<1ms")),
    "of those that keep workers<=2, the nearest possible t_epoch":
        lambda m: plan_best(m, {}, within=parse_limits("workers<=2,t_epoch<1s"), job=Job(6400)),
    "too far outside of what was measured": lambda m: plan_best(m, {"workers": ["4096"]}, minimise="t_iter"),
    "with nothing to spend": lambda m: plan_deadline(m, Job(100), 0.0, {}),
    "the soonest is": lambda m: plan_deadline(m, Job(10**6), 0.5, {}),
    "start-up and checkpoints alone": lambda m: plan_deadline(m, Job(100, startup_s=60), 30.0, {}),
    "batch_size must be fixed": lambda m: plan_workers(m, {}),
    "workers is fixed": lambda m: plan_workers(m, {"batch_size": "8", "workers": "2"}),
    "no workers to plan with": lambda m: plan_workers(m, {"batch_size": "8"}, [0, 1]),
    "alone has no speed-up": lambda m: plan_workers(m, {"batch_size": "8"}, [4]),
    "needs prices": lambda m: plan_workers(m, {"batch_size": "8"}, hour_worth=3.0),
    "cost cannot be told; give a price list": lambda m: plan_best(m, {}, minimise="cost", job=Job(100)),
    "memory cannot be counted: the model file does not say":
        lambda m: plan_best(m, {}, minimise="t_iter", within=parse_limits("memory<8GB")),
    "nothing tells 'power'": lambda m: plan_best(m, {}, minimise="t_iter", within=parse_limits("power<8")),
    "nothing to minimise called 'speed'": lambda m: plan_best(m, {}, minimise="speed"),
    "the number of samples is 0": lambda m: Job(0),
    "samples is 'many'; give a number": lambda m: Job("many"),
    "the batch of a worker is 0": lambda m: Job(100, batch_size=0),
    "nothing is promised more surely": lambda m: plan_deadline(m, Job(100), 60.0, {}, confidence=0.9999),
    "workers is not counted in GB; write a plain number":
        lambda m: plan_best(m, {}, minimise="t_iter", within=parse_limits("workers<8GB")),
    "t_iter is not counted in GB; allowed: us, ms":
        lambda m: plan_best(m, {}, minimise="t_iter", within=parse_limits("t_iter<8GB")),
    "keeps workers>9: the nearest possible workers is 8; nothing keeps t_iter<1us: the nearest":
        lambda m: plan_best(m, {}, minimise="t_iter", within=parse_limits("workers>9,t_iter<1us,batch_size>900")),
    "the number of epochs is -1": lambda m: Job(10, epochs=-1),
    "'q' was not|no factor 'padding'": lambda m: plan_best(m, {"padding": ["q"]}, minimise="t_iter"),
}  # fmt: skip


@pytest.mark.parametrize("message", IMPOSSIBLE)
def test_an_impossible_wish_is_one_sentence(model, message):
    with pytest.raises(InputError, match=message) as told:
        IMPOSSIBLE[message](model)
    assert "\n" not in str(told.value)


def test_a_model_of_what_may_be_zero_is_no_step_time():
    X = pd.DataFrame({"workers": np.arange(1.0, 13.0)})
    model = Linear((), (), ("workers",)).fit(X, X["workers"] - 1)
    with pytest.raises(ModelError, match="no step time"):
        plan_workers(model, {})


def test_a_price_list_with_a_mistake_names_the_field():
    for document in ({}, {"machine": {}}, {"machine": {"a": {"price": 3}}}, {"machine": {"a": {"price_per_hour": -1}}}):
        with pytest.raises(InputError, match=r"prices\.toml: machine"):
            parse_prices(document, "prices.toml")
    with pytest.raises(InputError, match="did you mean 'node'"):
        parse_prices(PRICES, "prices.toml", "nod")


def test_values_are_lists_and_ranges():
    assert parse_values("workers=1..3|8,pad=same") == {"workers": ["1", "2", "3", "8"], "pad": ["same"]}
    assert spread_values(0.1, 0.5)[0] == 0.1 and spread_values(0.1, 0.5)[-1] == 0.5
    for text in ("workers", "workers=4..1", "workers=1..x", "a=1,a=2", "n=0..999999999"):
        with pytest.raises(ModelError):
            parse_values(text)


@pytest.mark.parametrize("field", ["samples", "epochs", "validation_samples"])
def test_more_than_any_job_has_is_refused(field):
    with pytest.raises(ModelError, match=f"{field} is more than any job has; allowed: at most 1e"):
        Job(**{"samples": 1, field: 10**400})
