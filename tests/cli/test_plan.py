"""`steplab plan`: tables, one JSON document, one sentence for what cannot be."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import steplab

Call = Callable[..., SimpleNamespace]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    grid = np.array([(b, w) for b in (8, 16, 32, 64) for w in (1, 2, 4, 8)] * 3, float)
    times = (0.01 + 0.001 * grid[:, 0] + 0.005 * grid[:, 1]) * np.exp(0.05 * rng.standard_normal(len(grid)))
    rows = pd.DataFrame({"batch_size": grid[:, 0], "workers": grid[:, 1], "t_iter": times})
    (tmp_path / "prices.toml").write_text(
        '[machine.node]\nprice_per_hour = 2\nworkers_per_node = 4\ncurrency = "EUR"\n'
    )
    return steplab.fit(rows, "linear").save(tmp_path / "model.json")


def test_workers_tells_where_one_more_stops_paying(in_process: Call, model: Path) -> None:
    told = in_process("plan", "workers", model, "--fix", "batch_size=16", "--workers", "1..8", "--json").json
    assert [row["workers"] for row in told["rows"]] == list(range(1, 9))
    assert set(told["rows"][0]["t_iter"]) == {"value", "low", "high"}
    assert 1 <= told["enough_low"] <= told["enough"] <= told["enough_high"] <= 8 and told["why"]
    shown = in_process("plan", "workers", model, "--fix", "batch_size=16", "--prices", "prices.toml")
    assert shown.code == 0 and "<- enough" in shown.out and "EUR/million" in shown.out


def test_workers_that_are_too_far_outside_to_plan_with_are_named(in_process: Call, model: Path) -> None:
    shown = in_process("plan", "workers", model, "--fix", "batch_size=16", "--workers", "1|2|4|5000", "--worth", "0.01")
    assert "4 workers still pay" in shown.out and "<- still pays" in shown.out
    assert "not planned with: 5000, too far outside (workers was measured at 1 to 8)" in " ".join(shown.out.split())


def test_deadline_gives_probabilities(in_process: Call, model: Path) -> None:
    words = ("plan", "deadline", model, "--samples", 60000, "--epochs", 2, "--by", "60s")
    told = in_process(*words, "--json").json
    assert all(0 < row["probability"] < 1 and "workers" in row["at"] for row in told["rows"])
    assert told["assumptions"] and told["why"]
    assert "assumed: " in in_process(*words).out


def test_best_ranks_within_limits_and_shows_the_front(in_process: Call, model: Path) -> None:
    words = ("plan", "best", model, "--minimise", "cost", "--samples", 60000, "--prices", "prices.toml")
    told = in_process(*words, "--within", "workers<=4", "--json").json
    costs = [row["cost"]["value"] for row in told["rows"]]
    assert costs == sorted(costs) and max(row["at"]["workers"] for row in told["rows"]) == 4
    assert told["front"] and told["currency"] == "EUR"
    shown = " ".join(in_process(*words).out.split())
    assert "cost EUR" in shown and "front" in shown
    assert re.search(r"the least cost is [\d.]+ EUR; ", shown)


@pytest.mark.parametrize(("words", "message"), [
    (("best", "--within", "workers<=2,workers>=4"), "contradict"),
    (("best", "--within", "t_iter<1us"), "nearest possible"),
    (("deadline", "--samples", "10", "--by", "0h"), "nothing to spend"),
    (("workers", "--fix", "batch_size=16", "--workers", "9999..10001"), "too far outside"),
    (("deadline", "--samples", "10", "--by", "1e400h"), "by: '1e400h' is not a finite number"),
    (("deadline", "--samples", "10", "--by", "1h", "--confidence", "1"), "allowed: a probability such as 0.9"),
    (("deadline", "--samples", "10", "--by", "1h", "--batch", "0"), "the batch of a worker is 0"),
    (("best", "--within", "t_iter<8GB"), "t_iter is not counted in GB; allowed: us, ms"),
    (("best", "--fix", "workers=2", "--vary", "workers=1|4"), "workers is both fixed and varied"),
    (("best", "--prices", "none.toml"), "no such file"),
])  # fmt: skip
def test_an_impossible_wish_is_one_sentence(
    in_process: Call, model: Path, words: tuple[str, ...], message: str
) -> None:
    ended = in_process("plan", words[0], model, *words[1:])
    assert ended.code == 1 and message in ended.err and len(ended.err.splitlines()) == 1 and not ended.out


@pytest.mark.parametrize("wish", [{"by": 10**400}, {"by": None}, {"by": 60, "startup": float("nan")}])
def test_times_that_are_no_numbers_are_one_sentence_in_python(model: Path, wish: dict[str, object]) -> None:
    with pytest.raises(steplab.InputError, match="no finite number"):
        steplab.plan_deadline(model, 1000, **wish)


def test_a_factor_without_values_is_one_sentence_in_python(model: Path) -> None:
    with pytest.raises(steplab.InputError, match="workers has no values to look at"):
        steplab.plan_best(model, vary={"workers": []})


def test_python_gives_what_the_command_prints(in_process: Call, model: Path) -> None:
    answer = steplab.plan_workers(model, {"batch_size": 16}, [1, 2, 4])
    told = in_process("plan", "workers", model, "--fix", "batch_size=16", "--workers", "1|2|4", "--json").json
    assert told["why"] == answer.why and len(answer.frame) == 3 and "<table" in answer._repr_html_()
    best = steplab.plan_best(model, samples=1000)
    assert best.plan.minimise == "t_epoch" and "<table" in best._repr_html_() and len(best.frame) == 16
    deadline = steplab.plan_deadline(model, 1000, 10.0)
    assert len(deadline.frame) == 16 and "<table" in deadline._repr_html_()


def test_next_tells_what_to_add(in_process: Call, tmp_path: Path) -> None:
    rows = pd.DataFrame({"batch_size": [8, 16, 32, 64, 8, 64], "workers": [1, 2, 1, 4, 4, 1]})
    rows.assign(t_iter=0.01 * rows["batch_size"] + 0.1, seconds=3.0).to_csv(tmp_path / "times.csv", index=False)
    told = in_process("plan", "next", "times.csv", "--extrinsic", "batch_size,workers", "--trials", "3", "--json").json
    assert len(told["rows"]) == 3 and set(told["rows"][0]["at"]) == {"batch_size", "workers"}
    assert told["minutes"] == pytest.approx(0.15, rel=0.1) and "can be expected" in told["why"]
    shown = in_process("plan", "next", "times.csv", "--extrinsic", "batch_size,workers")
    assert shown.code == 0 and "narrows" in shown.out
    refused = in_process("plan", "next", "times.csv", "--trials", "0")
    assert refused.code == 1 and "measures nothing" in refused.err
