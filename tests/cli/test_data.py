import json

import pytest
from typer.testing import CliRunner

from steplab.cli.data import app
from steplab.core.errors import InputError, StoreError
from steplab_worker import data


@pytest.fixture(autouse=True)
def places(monkeypatch, tmp_path):
    monkeypatch.setenv("STEPLAB_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("STEPLAB_DATA", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run():
    """Runs a command, gives its JSON document; an error is raised as the command line would meet it."""

    def invoke(*arguments):
        result = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return invoke


def test_the_list_has_every_data_set(run):
    rows = run("list")["datasets"]
    assert {row["name"] for row in rows} == set(data.datasets())
    assert all(row["source"] == "none" for row in rows)
    mnist = next(row for row in rows if row["name"] == "mnist")
    assert (mnist["shape"], mnist["classes"], mnist["train"], mnist["test"]) == ([1, 28, 28], 10, 60000, 10000)


def test_the_list_says_which_files_a_trial_would_read(run, monkeypatch, tmp_path):
    monkeypatch.setenv("STEPLAB_DATA", str(tmp_path))
    run("make", "mnist", "--samples", "20", "--out", "mnist")
    (tmp_path / "cifar10").mkdir()
    (tmp_path / "cifar10" / "readme.html").write_text("")
    sources = {row["name"]: row["source"] for row in run("list")["datasets"]}
    assert (sources["mnist"], sources["cifar10"], sources["cifar100"]) == ("real", "incomplete", "none")


@pytest.mark.parametrize("name", ["fashion-mnist", "cifar100", "tinyimagenet", "adni"])
def test_what_is_made_is_recognised_and_checked(run, name):
    made = run("make", name, "--samples", "12", "--out", f"{name}-small")
    found = run("check", f"{name}-small")
    assert found["name"] == name and not found["original"]
    assert [split["samples"] for split in found["splits"]] == [made["train"], made["test"]]
    assert len(found["sha256"]) == 64 and found["files"] >= len(found["checksums"]) > 0


def test_the_checksum_tells_other_bytes(run):
    for folder, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        run("make", "mnist", "--samples", "20", "--out", folder, "--seed", seed)
    first, same, other = (run("check", folder)["sha256"] for folder in "abc")
    assert first == same != other


def test_damage_anywhere_is_found(run, tmp_path):
    run("make", "cifar10", "--samples", "50", "--out", "cifar10")
    with (tmp_path / "cifar10" / "cifar-10-batches-bin" / "data_batch_5.bin").open("r+b") as file:
        file.seek(9 * 3073)
        file.write(b"\xc8")
    with pytest.raises(InputError, match=r"data_batch_5.bin: label 200 at offset 27657, but there are 10 classes"):
        run("check", "cifar10")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["make", "minst", "--out", "x"], "did you mean 'mnist'"),
        (["make", "cifar10", "--samples", "2", "--out", "x"], "cannot make 2 samples for 5 files"),
        (["make", "mnist", "--samples", "9", "--out", "."], "already exists"),
        (["check", "nowhere"], "nowhere: there is no such folder"),
        (["check", "home", "--name", "nist"], "did you mean 'mnist'"),
        (["check", "home"], "no data set that is known"),
    ],
)
def test_a_mistake_gets_one_sentence(run, tmp_path, arguments, says):
    (tmp_path / "home").mkdir()
    with pytest.raises(InputError, match=says):
        run(*arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def test_a_place_that_cannot_be_written_is_named(run, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"file/mnist: cannot be written "):
        run("make", "mnist", "--samples", "9", "--out", "file/mnist")


def test_the_tables_fit_a_terminal():
    runner = CliRunner(env={"COLUMNS": "80"})
    runner.invoke(app, ["make", "cifar10", "--samples", "50", "--out", "c"])
    for arguments in (["list"], ["check", "c"]):
        result = runner.invoke(app, arguments)
        assert result.exit_code == 0
        assert max(map(len, result.stdout.splitlines())) <= 80
