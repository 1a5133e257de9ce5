"""A network measured and used, in the synthetic framework, whose exchange has a known law."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import steplab
from steplab.planning.network.buckets import exchanged_graph
from steplab.planning.network.compute import Tables, measured_compute
from steplab.planning.network.profile import Profile
from steplab.study.file import parse_study

STEPS = """
[study]
name = "steps"
[factors]
framework = "synthetic"
network = ["mlp", "lenet5"]
batch_size = 16
workers = [1, 2]
compute_s = 0.01
latency_s = 0.001
bandwidth_bytes_s = 1e8
[design]
replicates = 1
[measure]
iterations = 20
"""
SIZES = [1024 * 4**power for power in range(7)]
LATENCY, SPEED = 1e-4, 1e9  # of the synthetic framework's law, unless a study says otherwise


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> steplab.MeasuredNetwork:
    folder = tmp_path_factory.mktemp("network")
    planned = steplab.plan_network(framework="synthetic", ranks=[2], sizes=SIZES, out=folder / "exchanges")
    assert steplab.run_plan(planned).counts.ok == len(SIZES)
    return steplab.network_profile(folder / "exchanges", folder / "profile.json")


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> steplab.Results:
    return steplab.run(parse_study(STEPS, Path("steps.toml")), tmp_path_factory.mktemp("steps") / "steps")


def test_the_profile_has_the_frameworks_law(measured: steplab.MeasuredNetwork) -> None:
    (entry,) = measured.profile.ranks
    assert [point.bytes for point in entry.sizes] == SIZES
    assert [point.seconds for point in entry.sizes] == pytest.approx([LATENCY + size / SPEED for size in SIZES])
    assert [piece.bytes_per_s for name, piece in measured.pieces if name == "2 ranks"] == pytest.approx([SPEED])
    assert measured.profile.pairs, "the plain line was looked at, too"
    assert all(point.seconds > 0 for point in measured.profile.pairs[0].sizes)


def test_its_file_is_what_was_measured(measured: steplab.MeasuredNetwork) -> None:
    assert steplab.read_network(measured.file) == measured.profile


def test_the_document_has_what_the_design_fixes(measured: steplab.MeasuredNetwork) -> None:
    document = json.loads(json.dumps(measured.document()))
    assert document["profile"] == str(measured.file)
    assert document["ranks"][0]["ranks"] == 2
    assert {"bytes", "seconds", "low", "high"} <= set(document["ranks"][0]["sizes"][0])


def test_a_step_is_predicted_from_one_worker_and_the_profile(
    measured: steplab.MeasuredNetwork, steps: steplab.Results
) -> None:
    (row,) = steplab.predict_network(steps, measured.profile, "network=mlp,workers=2,nodes=1")
    # Nothing overlaps in the synthetic framework unless it is told to, so all of the exchange is exposed.
    assert row.step.exposed == pytest.approx(LATENCY + 4 * 669706 / SPEED, rel=1e-3)
    alone = steps.trials.query("network == 'mlp' and workers == 1")["t_iter"].iloc[0]
    assert row.step.seconds == pytest.approx(alone + row.step.exposed, rel=1e-3)
    slower = steplab.predict_network(steps, measured.file, "network=mlp,workers=2,nodes=1,times_bandwidth=0.1")[0]
    assert slower.step.exposed == pytest.approx(LATENCY + 4 * 669706 / SPEED * 10, rel=1e-3)
    assert slower.hiding > row.hiding


def test_a_hand_written_profile_is_used_alike(tmp_path: Path, steps: steplab.Results) -> None:
    file = tmp_path / "cloud.json"
    link = {"bandwidth": "25 Gbit/s", "latency": "10 us", "nodes": 8, "ranks_per_node": 4}
    file.write_text(json.dumps({"name": "cloud", "link": link}))
    inside, crowded, outside = steplab.predict_network(
        steps,
        file,
        [
            "network=lenet5,nodes=8,ranks_per_node=2",
            "network=lenet5,nodes=8,ranks_per_node=4",
            "network=lenet5,nodes=16",
        ],
    )
    # Two workers of one host were measured, four were not.
    assert (inside.step.inside, crowded.step.inside, outside.step.inside) == (True, False, False)
    assert crowded.step.layout.workers == 32
    assert inside.step.low < inside.step.seconds < inside.step.high


@pytest.mark.parametrize(
    ("at", "told"),
    [
        ("network=mlp", "nodes or workers must be given"),
        ("network=mlp,nodes=two", "nodes = 'two' is no whole number above 0"),
        ("network=mlp,nodes=2,colour=red", "no factor 'colour'"),
        ("network=mlp,nodes=2,strategy=ps-async", "cannot be predicted"),
        ("network=mlp,nodes=2,strategy=accumulate:0", "cannot be predicted"),
        ("network=mlp,nodes=2,strategy=accumulate:1000000000", "cannot be predicted"),
        ("network=mlp,nodes=2,strategy=sync,accumulate=4", "both given"),
        ("network=mlp,nodes=2,times_bandwidth=1e9", "below 1000000"),
        ("network=mlp,nodes=2,strategy=sharded", "synthetic has no strategy 'sharded'"),
        ("network=mlp,nodes=2,strategy=sharded,accumulate=4", "not for strategy = sharded"),
        ("network=mlp,nodes=2,workers=3", "cannot be divided"),
        ("network=alexnet,nodes=2", "alexnet was not measured on one host"),
        ("nodes=2", "network must be given"),
        ("network=mlp,nodes=2,times_latency=-1", "times_latency"),
        ("network=mlp,workers=2,nodes=1,rate=1gbit", "no rate '1gbit'"),
    ],
)
def test_what_cannot_be_predicted_is_one_sentence(
    measured: steplab.MeasuredNetwork, steps: steplab.Results, at: str, told: str
) -> None:
    with pytest.raises(steplab.SteplabError) as refused:
        steplab.predict_network(steps, measured.profile, at)
    assert told in str(refused.value)


def test_another_frameworks_exchange_tells_nothing(measured: steplab.MeasuredNetwork, steps: steplab.Results) -> None:
    other = measured.profile.model_copy(update={"framework": "torch"})
    with pytest.raises(steplab.InputError, match="torch's exchange, the study of synthetic"):
        steplab.predict_network(steps, other, "network=mlp,nodes=2")


def test_one_rank_alone_is_refused_before_anything_runs() -> None:
    with pytest.raises(steplab.InputError, match="1 rank alone exchanges nothing"):
        steplab.plan_network(framework="synthetic", ranks=[1, 2])


def test_rates_belong_to_a_box() -> None:
    with pytest.raises(steplab.InputError, match="only the lines of a cluster in a box"):
        steplab.plan_network(framework="synthetic", rates=["1gbit"])


def test_steps_of_two_hosts_are_not_looked_at(steps: steplab.Results) -> None:
    trials = steps.trials.assign(nodes=steps.trials["workers"])
    found = measured_compute(Tables(trials, steps.iterations, steps.layers, steps.factors), {"network": "mlp"})
    assert not found.beside


def test_the_report_has_sliders_for_the_network(
    measured: steplab.MeasuredNetwork, steps: steplab.Results, tmp_path: Path
) -> None:
    steps.report(tmp_path / "report.html", models="linear", network=measured.file)
    text = (tmp_path / "report.html").read_text()
    for name in ("times_bandwidth", "times_latency", "steplab predict --network"):
        assert name in text


def _slower(profile: Profile, times: float, nodes: int = 1) -> Profile:
    """The profile of wires that are so many times as slow."""
    ranks = []
    for entry in profile.ranks:
        sizes = [
            point.model_copy(update={"seconds": times * point.seconds, "low": None, "high": None})
            for point in entry.sizes
        ]
        ranks.append(entry.model_copy(update={"sizes": sizes, "nodes": nodes}))
    return profile.model_copy(update={"ranks": ranks})


def test_a_fitted_model_takes_the_terms_of_a_profile(
    measured: steplab.MeasuredNetwork, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = STEPS.replace("workers = [1, 2]", "workers = [1, 2]\nunits = [32, 128, 512]").replace(
        'network = ["mlp", "lenet5"]', 'network = "mlp"'
    )
    text = text.replace("latency_s = 0.001\nbandwidth_bytes_s = 1e8\n", "")  # as the profile has it
    study = steplab.run(parse_study(text, Path("steps.toml")), tmp_path_factory.mktemp("wires") / "steps")
    fitted = steplab.fit(study, "hybrid", network=measured.file, extrinsic=["workers"])
    assert "exchange_s" in fitted.estimator.roles_.extrinsic
    slower = _slower(measured.profile, 5)
    usual, other = (
        fitted.predict("workers=2,units=512", network=profile, study=study)[0] for profile in (measured.profile, slower)
    )
    alone = fitted.predict("workers=1,units=512", network=slower, study=study)[0]
    exchange = float(usual.at["exchange_s"])
    assert other.at["exchange_s"] == pytest.approx(5 * exchange)
    # The law knows no noise; what is not exact is the prior's pull on six rows.
    assert other.value == pytest.approx(alone.value + 5 * exchange, rel=0.2)
    assert not other.inside


@pytest.mark.parametrize(
    ("at", "told"),
    [
        ("workers=abc", "workers = 'abc' must be of the kind of 1"),
        ("workers=nan", "must be of the kind of 1"),
        ("workers=2,strategy=accumulate:x", "strategy = 'accumulate:x' must be one of"),
        ("workers=3,nodes=2", "nodes"),
    ],
)
def test_wrong_levels_of_a_model_with_a_profile_are_one_sentence(
    measured: steplab.MeasuredNetwork, steps: steplab.Results, at: str, told: str
) -> None:
    fitted = steplab.fit(steps, "linear", network=measured.file, extrinsic=["workers"])
    with pytest.raises(steplab.ModelError, match=told):
        fitted.predict(f"network=mlp,{at}", network=measured.file, study=steps)
    with pytest.raises(steplab.ModelError, match="go together"):
        fitted.predict(f"network=mlp,{at}", network=measured.file)


def test_options_that_only_some_networks_have_are_whole_numbers_still(
    measured: steplab.MeasuredNetwork, steps: steplab.Results
) -> None:
    from steplab.core import resolution

    trials = steps.trials.assign(units=steps.trials["network"].map({"mlp": 64.0}))
    mixed = Tables(trials, steps.iterations, steps.layers, (*steps.factors, "units"))
    resolution._graph.cache_clear()  # an equal number of another kind would be found in it
    told = measured_compute(mixed, {"network": "mlp", "units": "64"})
    assert exchanged_graph(told.resolved).parameters > 0


def test_more_ranks_than_were_measured_are_not_faster_than_those(steps: steplab.Results) -> None:
    tables = Tables(steps.trials.assign(cpus=2), steps.iterations, steps.layers, steps.factors)
    compute = measured_compute(tables, {"network": "mlp"})
    crowded = replace(compute, beside={2: [2.5 * one for one in compute.beside[2]]})
    slower = [crowded.slowdown(ranks, 1, 1) for ranks in (1, 2, 3, 4, 8)]
    assert slower == sorted(slower) and slower[1] > 2
    assert slower[3] == pytest.approx(2 * slower[1], rel=0.01)  # two cores that two ranks have filled


def test_sharded_workers_are_no_measure_of_others(steps: steplab.Results) -> None:
    def slowdown(at: dict[str, str], times: float) -> float:
        """Of two workers, if sharded ones compute so many times as long."""
        trials = steps.trials.copy()
        copied = trials[(trials["workers"] == 2) & (trials["network"] == "mlp")]
        again = copied.assign(trial=copied["trial"] + "s", strategy="sharded")
        own = steps.iterations[steps.iterations["trial"].isin(copied["trial"])]
        slow = own.assign(trial=own["trial"] + "s", t_f=own["t_f"] * times, t_b=own["t_b"] * times, t_u=0.5)
        tables = Tables(pd.concat([trials, again]), pd.concat([steps.iterations, slow]), steps.layers, steps.factors)
        compute = measured_compute(tables, {"network": "mlp", **at})
        assert compute.sharded_update == 0.5 and compute.sharded_slower > times / 2
        return compute.slowdown(2, 1, 1)

    usual = measured_compute(Tables(steps.trials, steps.iterations, steps.layers, steps.factors), {"network": "mlp"})
    assert slowdown({}, 9.0) == usual.slowdown(2, 1, 1)
    assert slowdown({"strategy": "sharded"}, 9.0) > 4 * usual.slowdown(2, 1, 1)


def test_terms_of_a_profile_need_a_study(measured: steplab.MeasuredNetwork, steps: steplab.Results) -> None:
    with pytest.raises(steplab.ModelError, match="only a study's folder tells"):
        steplab.fit(steps.trials, "hybrid", network=measured.file)
    plain = steplab.fit(steps, "linear", extrinsic=["workers"])
    with pytest.raises(steplab.ModelError, match="no terms of a network"):
        plain.predict("workers=2", network=measured.file, study=steps)


def test_what_other_programs_took_is_doubt(steps: steplab.Results) -> None:
    tables = [
        Tables(steps.trials.assign(other_cpu_share=share), steps.iterations, steps.layers, steps.factors)
        for share in (0.0, 0.4)
    ]
    calm, busy = (measured_compute(table, {"network": "mlp"}).doubt for table in tables)
    assert (calm, busy) == (0.02, 0.4)


def test_the_table_tells_the_workers_that_follow(measured: steplab.MeasuredNetwork, steps: steplab.Results) -> None:
    predicted = steplab.predict_network(steps, measured.profile, "network=mlp,nodes=1,ranks_per_node=2")
    assert predicted.cells[0][0].startswith("workers=2, ")


def test_a_few_steps_of_several_hosts_correct_a_prediction(
    measured: steplab.MeasuredNetwork, steps: steplab.Results
) -> None:
    from steplab.api.modelling.network_calibration import calibration_of

    tables = Tables(steps.trials, steps.iterations, steps.layers, steps.factors)
    # The exchange dominates, so that a longer step can only be the wires' doing.
    profile = _slower(measured.profile, 50, nodes=2)
    plain = steplab.predict_network(steps, profile, "network=mlp,nodes=2")[0].step
    row = steps.trials.query("network == 'mlp' and workers == 2").assign(nodes=2)
    slow = row.assign(t_iter=plain.seconds + plain.exposed, t_iter_low=None, t_iter_high=None)
    told = calibration_of(tables, profile, slow)
    assert told.wires > 1.2, "an exchange that takes twice as long is seen"
    unsure = slow.assign(t_iter_low=0.2 * slow["t_iter"], t_iter_high=1.8 * slow["t_iter"])
    assert calibration_of(tables, profile, unsure).wires < told.wires, "a trial that is hardly known says little"
    with pytest.raises(steplab.NotEnoughData, match="no finished step of several hosts"):
        steplab.predict_network(steps, measured.profile, "network=mlp,workers=2,nodes=1", calibrate=steps)


def test_what_no_accumulation_hides_is_said(measured: steplab.MeasuredNetwork, steps: steplab.Results) -> None:
    (row,) = steplab.predict_network(steps, _slower(measured.profile, 10_000), "network=mlp,workers=2,nodes=1")
    assert row.hiding is None
    assert row.sentence.endswith("even accumulate:64 would not hide the exchange")
    assert steplab.predict_network(steps, measured.profile, "network=mlp,workers=2,nodes=1")[0].hiding is not None


def test_larger_messages_than_any_measured_are_a_warning(
    measured: steplab.MeasuredNetwork, steps: steplab.Results
) -> None:
    (entry,) = measured.profile.ranks
    small = measured.profile.model_copy(update={"ranks": [entry.model_copy(update={"sizes": entry.sizes[:2]})]})
    predicted = steplab.predict_network(steps, small, "network=mlp,workers=2,nodes=1")
    assert "messages as large were not measured" in predicted.warnings[0]
    assert predicted.document()["warnings"] == list(predicted.warnings)


def test_accumulated_trials_have_the_same_compute(tmp_path: Path) -> None:
    text = STEPS.replace('network = ["mlp", "lenet5"]', 'network = "mlp"\nstrategy = {}').replace("[1, 2]", "1")
    told = []
    for name, strategy in (("sync", '"sync"'), ("accumulated", '"accumulate:4"'), ("both", '["sync", "accumulate:4"]')):
        study = steplab.run(parse_study(text.format(strategy), Path("steps.toml")), tmp_path / name)
        told.append(measured_compute(Tables(study.trials, study.iterations, study.layers, study.factors), {}))
    for part in ("forward", "backward", "update"):
        first, *others = (getattr(compute, part) for compute in told)
        assert others == pytest.approx([first, first], rel=0.02), part
