import json
import sys
from dataclasses import dataclass

import numpy as np
import pytest

from steplab.api.modelling import comparison, judging
from steplab.api.modelling.comparison import ComparedModel, ModelComparison, extrapolates
from steplab.cli import main
from steplab.cli.compare import _recommended

AWKWARD = "Batch Size [images],Workers,note,constant,t iter (ms)\n"


@pytest.fixture
def times(tmp_path):
    rng = np.random.default_rng(0)
    lines = [AWKWARD]
    for i in range(60):
        batch, workers = rng.choice([8, 16, 32, 64]), rng.choice([1, 2, 4, 8])
        time = (5 + 0.3 * batch + 2 * np.log2(workers)) * (1 + 0.02 * rng.standard_normal())
        lines.append(f'"{batch}",{workers},row {i},7,{time if i != 3 else ""}\n')
    path = tmp_path / "times.csv"
    path.write_text("".join(lines))
    return path


@dataclass
class Told:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def compare(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["steplab", "compare", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        said = capsys.readouterr()
        return Told(int(stop.value.code or 0), said.out, said.err)

    return run


COLUMNS = ("--target", "t iter (ms)", "--extrinsic", "Batch Size [images],Workers")


def test_random_folds_as_json(compare, times):
    told = compare(times, *COLUMNS, "--models", "linear,ssgd", "--folds", 3, "--json")
    assert told.returncode == 0, told.stderr
    document = json.loads(told.stdout)
    assert document["test_rows"] == 59
    assert {"model", "mae", "mape", "rmse", "r2", "fit_seconds", "coverage"} <= set(document["rows"][0])
    assert document["noise"]["configurations"] > 5
    assert "fitting" not in told.stderr  # a bar is for a terminal


def test_held_out_ranges_and_a_formula_of_ones_own(compare, times):
    told = compare(
        times, *COLUMNS, "--models", "linear", "--formula", "a0 + a1*batch_size + a2*log2(Workers)",
        "--holdout", "Workers>4", "--holdout", "Batch Size [images]>32", "--json",
    )  # fmt: skip
    document = json.loads(told.stdout)
    rows = {row["model"]: row for row in document["rows"]}
    assert rows["formula"]["mape"] < 4 < rows["linear"]["mape"] + 4
    assert document["train_rows"] + document["test_rows"] == 59
    assert [part["holdout"] for part in document["holdouts"]] == ["Workers>4", "batch_size>32"]


def test_a_model_that_cannot_be_fitted_has_a_row_with_the_reason(compare, times):
    told = compare(times, *COLUMNS, "--models", "linear,load-imbalance", "--json")
    rows = {row["model"]: row for row in json.loads(told.stdout)["rows"]}
    assert rows["load-imbalance"]["mae"] is None
    assert "lif" in rows["load-imbalance"]["reason"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--models", "lineer"), "did you mean 'linear'"),
        (("--holdout", "Workers>99"), "no row"),
        (("--formula", "open('x')"), "no function"),
        (("--folds", "1"), "at least 2"),
    ],
)
def test_a_mistake_is_one_sentence(compare, times, arguments, told):
    result = compare(times, *COLUMNS, *arguments)
    assert result.returncode == 1
    assert told in result.stderr
    assert "Traceback" not in result.stderr


def test_the_table_fits_a_terminal(compare, times):
    told = compare(times, *COLUMNS, "--models", "linear", "--folds", 3)
    assert "MAPE %" in told.stdout
    assert max(map(len, told.stdout.splitlines())) <= 100


def test_a_model_that_fails_on_some_folds_is_not_the_best(compare, times):
    times.write_text(times.read_text() + '"16",2,zero,7,0\n')
    document = json.loads(compare(times, "--target", "t iter (ms)", "--models", "hybrid,linear", "--json").stdout)
    linear, hybrid = document["rows"]
    assert (linear["model"], hybrid["model"]) == ("linear", "hybrid")
    assert 0 < hybrid["predicted_rows"] < linear["predicted_rows"]


def test_the_next_command_repeats_the_options(compare, times):
    told = compare(times, "--target", "t iter (ms)", "--extrinsic", "Workers", "--models", "linear")
    assert f"next: steplab fit {times} --target 't iter (ms)' --extrinsic Workers --model linear" in told.stderr


def test_what_is_recommended_can_extrapolate_where_the_question_lies_outside() -> None:
    def row(model, mape):
        return ComparedModel(model, 1.0, mape, 1.0, 1.0, 0.9, 9, 0.1, None, extrapolates(model))

    def compared(holdout):
        rows = (row("random-forest", 1.0), row("ssgd", 2.0), row("linear", 3.0))
        return ModelComparison("t", rows, 9, 9, holdout, (), None, None, False, ())

    assert [text.split()[0] for text in _recommended(compared(()))] == ["random-forest", "ssgd"]
    assert [text.split()[0] for text in _recommended(compared(("workers>2",)))] == ["ssgd"]


def test_a_further_process_judges_as_this_one_does(monkeypatch, times) -> None:
    there, shares = [], []
    do = judging.BackgroundProcess.do
    monkeypatch.setattr(judging.BackgroundProcess, "do", lambda process, work: there.append(work) or do(process, work))
    monkeypatch.setattr(comparison, "FEW", 1)
    scores = []
    for cores in (1, 2):
        monkeypatch.setattr(comparison, "_cores", lambda cores=cores: cores)
        compared = comparison.compare(
            times, ["linear", "quadratic", "svr"], "t iter (ms)", extrinsic=["Workers"], folds=2,
            progress=lambda name, done: shares.append(done),
        )  # fmt: skip
        scores.append([(row.model, row.mape, row.coverage) for row in compared.rows])
        assert bool(there) == (cores == 2)
    assert scores[0] == scores[1]
    assert shares[0] == 0.0
    assert all(0 <= share < 1 for share in shares)
