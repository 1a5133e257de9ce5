"""The commands fit, predict and penalty, called as a user calls them."""

import json
import sys
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from steplab.cli import main


@pytest.fixture
def csv(tmp_path):
    rng = np.random.default_rng(0)
    workers, batch = rng.choice([1, 2, 4], 60), rng.choice([8, 16, 32], 60)
    t = (0.2 + 0.1 * batch) / workers + 1 + 0.01 * rng.standard_normal(60)
    path = tmp_path / "times.csv"
    pd.DataFrame({"Batch Size [images]": batch, "workers": workers, "Time (s)": t}).to_csv(path, index=False)
    return path


@dataclass(frozen=True)
class Done:
    stdout: str
    stderr: str


@pytest.fixture
def steplab(monkeypatch, capsys):
    def call(*arguments, code=0):
        monkeypatch.setattr(sys, "argv", ["steplab", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
            sys.exit(0)
        done = Done(*capsys.readouterr())
        assert (end.value.code or 0) == code, done.stderr
        return done

    return call


def test_fit_then_predict(steplab, csv, tmp_path):
    model = tmp_path / "model.json"
    told = steplab("fit", csv, "--target", "Time (s)", "--out", model, "--json")
    document = json.loads(told.stdout)
    assert document["model"] == "auto" and "was chosen" in document["why"]
    assert {"name", "symbol", "value", "low", "high", "identified"} <= set(document["parameters"][0])
    assert {"mae", "mape", "rmse", "r2"} == set(document["train"])
    assert "roles inferred: extrinsic batch_size, workers" in told.stderr
    asked = ("--at", "batch_size=16,workers=2", "--at", "batch_size=16,workers=8")
    near, far = json.loads(steplab("predict", model, *asked, "--json").stdout)["predictions"]
    assert near["low"] < 1.9 < near["high"]
    assert near["inside"] and not far["inside"]
    # From three counts of workers the interval beyond them is wide, and holds the law that the table was made of.
    assert far["low"] < (0.2 + 0.1 * 16) / 8 + 1 < far["high"] and far["note"] == ""
    told = steplab("predict", model, *asked)
    assert "OUTSIDE: workers" in told.stdout and "intervals there are learned by extrapolating inside" in told.stderr


def test_from_two_counts_the_prediction_has_no_interval_and_says_why(steplab, csv, tmp_path):
    few, model = tmp_path / "few.csv", tmp_path / "model.json"
    rows = pd.read_csv(csv)
    rows[rows["workers"] < 4].to_csv(few, index=False)
    steplab("fit", few, "--target", "Time (s)", "--model", "hybrid", "--out", model)
    asked = ("predict", model, "--at", "batch_size=16,workers=8")
    (far,) = json.loads(steplab(*asked, "--json").stdout)["predictions"]
    assert (far["low"], far["high"]) == (None, None) and "no interval can be given" in far["note"]
    told = steplab(*asked)
    assert "too few values of workers" in told.stderr and "intervals there are learned" not in told.stderr


def test_a_penalty_asks_for_the_generic_model(steplab, csv):
    told = steplab("fit", csv, "--target", "time", "--penalty", "l2:0.001", "--json")
    assert json.loads(told.stdout)["model"] == "generic"


def test_fit_prints_a_formula_without_out(steplab, csv):
    told = steplab("fit", csv, "--target", "time", "--model", "linear")
    assert "time = " in told.stdout
    assert max(map(len, told.stdout.splitlines())) <= 100


def test_predict_reads_a_grid(steplab, csv, tmp_path):
    model, grid = tmp_path / "m.json", tmp_path / "grid.csv"
    steplab("fit", csv, "--target", "time", "--model", "linear", "--out", model)
    grid.write_text("workers,Batch Size\n1,8\n2,16\n")
    assert len(json.loads(steplab("predict", model, "--grid", grid, "--json").stdout)["predictions"]) == 2


def test_penalty_scans_and_plots(steplab, csv, tmp_path):
    page = tmp_path / "scan.html"
    told = steplab("penalty", csv, "--target", "time", "--plot", page, "--json")
    rows = json.loads(told.stdout)["rows"]
    assert {row["penalty"] for row in rows} == {"l1", "l2"}
    assert "Plotly" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(("arguments", "sentence"), [
    (["--target", "tme"], "did you mean 'time'"),
    (["--target", "time", "--model", "genric"], "did you mean 'generic'"),
    (["--target", "time", "--penalty", "l5:1"], "penalty 'l5:1' is unknown"),
    (["--target", "time", "--loss", "cubic"], "loss 'cubic' is unknown"),
    (["--target", "time", "--model", "linear", "--loss", "squared"], "has no option 'loss'"),
])  # fmt: skip
def test_a_mistake_is_one_sentence_and_leaves_no_file(steplab, csv, tmp_path, arguments, sentence):
    out = tmp_path / "model.json"
    told = steplab("fit", csv, *arguments, "--out", out, code=1)
    assert sentence in told.stderr
    assert not out.exists()


def test_a_damaged_model_names_its_file(steplab, tmp_path):
    path = tmp_path / "model.json"
    path.write_text('{"model": "generic"}')
    assert "model.json" in steplab("predict", path, "--at", "a=1", code=1).stderr
    path.write_text("not json")
    assert "not a JSON document" in steplab("predict", path, "--at", "a=1", code=1).stderr


def test_predict_without_a_question_is_wrong_usage(steplab, tmp_path):
    steplab("predict", tmp_path / "m.json", code=2)


AWKWARD = """\
Batch Size [images], GPU type ,Workers,flag,"Step time, median (ms)"
"1,024",A100,1,x,12.5 ms
"2,048",A100,2,x,14.5 ms
"1,024",V100,2,x,n/a
"1,024",A100,1,x,12.5 ms
"4,096",V100,1,x,55 ms
"2,048",V100,2,x,0 ms
"4,096",A100,2,x,-1 ms
"1,024",V100,1,x,17 ms
"2,048",A100,1,x,22 ms
"4,096",V100,2,x,31 ms
"2,048",V100,1,x,29 ms
"""


@pytest.mark.parametrize("model", ["generic", "linear"])
def test_an_awkward_spreadsheet_is_fitted(steplab, tmp_path, model):
    path = tmp_path / "awkward.csv"
    path.write_text(AWKWARD)
    told = steplab("fit", path, "--target", "step_time_median", "--model", model, "--json")
    assert json.loads(told.stdout)["rows"] == 10
    assert "zero or negative" in told.stderr


@pytest.mark.parametrize(
    "options",
    [("generic", "seed=-1"), ("generic", "starts=1000000000"), ("generic-de", "seeds=0"), ("generic-de", "units=x"),
     ("generic-de", "popsize=1000000000"), ("symbolic", "candidates=0"), ("symbolic", "evaluations=-1"),
     ("hybrid", "correct=maybe"), ("ssgd", "workers=nope"), ("ssgd", "overlap=some"), ("generic", "penalty=l1:1e308")],
)  # fmt: skip
def test_an_option_that_cannot_be_is_refused(steplab, csv, options):
    model, option = options
    told = steplab("fit", csv, "--target", "time", "--model", model, "--option", option, code=1).stderr
    assert option.split("=")[0] in told and len(told.splitlines()[-1]) < 200


def test_a_prediction_below_its_interval_says_what_it_is_worth(steplab, tmp_path):
    rows = [(b, w, 0.02 * b / w) for b in (8, 16, 32) for w in (1, 2, 3, 4)]
    pd.DataFrame(rows, columns=["batch_size", "workers", "t_iter"]).to_csv(tmp_path / "t.csv", index=False)
    steplab("fit", tmp_path / "t.csv", "--model", "linear", "--out", tmp_path / "m.json")
    done = steplab("predict", tmp_path / "m.json", "--at", "batch_size=8,workers=6", "--json")
    (row,) = json.loads(done.stdout)["predictions"]
    assert row["value"] < 0 <= row["low"] and row["note"].startswith("the model falls below what can be")
    done = steplab("predict", tmp_path / "m.json", "--at", "batch_size=1e308,workers=1", code=1)
    assert "batch_size = 1e+308 cannot be run; allowed: whole numbers from 1 up to 1e+15" in done.stderr


@pytest.mark.parametrize(("field", "value"), [("power", 1e308), ("power", -1e308)])
def test_an_interval_with_an_absurd_power_is_damaged(steplab, csv, tmp_path, field, value):
    steplab("fit", csv, "--target", "time", "--model", "linear", "--out", tmp_path / "m.json")
    document = json.loads((tmp_path / "m.json").read_text())
    document["interval"][field] = value
    (tmp_path / "m.json").write_text(json.dumps(document))
    done = steplab("predict", tmp_path / "m.json", "--at", "batch_size=8,workers=2", code=1)
    assert "damaged" in done.stderr


def test_a_model_of_more_columns_than_can_be_is_damaged(steplab, csv, tmp_path):
    steplab("fit", csv, "--target", "time", "--model", "linear", "--out", tmp_path / "m.json")
    document = json.loads((tmp_path / "m.json").read_text()) | {"features": 3_000_000_000}
    (tmp_path / "m.json").write_text(json.dumps(document))
    assert "damaged" in steplab("predict", tmp_path / "m.json", "--at", "batch_size=8,workers=2", code=1).stderr


@pytest.mark.parametrize("formula", ["not " * 490 + "a", "~" * 400 + "a"])
def test_a_formula_nested_deeply_is_not_arithmetic(steplab, csv, formula):
    done = steplab("compare", csv, "--target", "time", "--models", "linear", "--formula", formula, code=1)
    assert "is not arithmetic" in done.stderr
