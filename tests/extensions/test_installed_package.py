"""What another distribution adds is listed, used from the command line, and kept apart if it is broken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from steplab.store.paths import StudyFolder
from steplab.store.records import all_records

from .conftest import install

Run = Callable[..., Any]


def test_each_extension_is_one_file_and_listed_by_doctor(extended: Run) -> None:
    rows = extended("doctor", "--json").json["extensions"]
    listed = {(row["kind"], row["name"], row["distribution"], row["ready"]) for row in rows}
    assert listed == {
        ("command", "slowest", "acme 1.0", True),
        ("framework", "plain", "acme 1.0", True),
        ("launcher", "niced", "acme 1.0", True),
        ("model", "saturating", "acme 1.0", True),
        ("network", "bottleneck", "acme 1.0", True),
    }
    assert "bottleneck" in extended("doctor").out


def test_a_command_is_listed_with_its_sentence_and_has_help(extended: Run) -> None:
    assert "The slowest trial of a study." in extended("--help").out
    assert "Example: steplab slowest runs/demo" in extended("slowest", "--help").out


def test_a_framework_is_among_the_environments(extended: Run) -> None:
    rows = {row["name"]: row for row in extended("env", "list", "--json").json["environments"]}
    assert rows["plain"]["ready"]
    assert rows["plain"]["framework"] == "plain"


def test_a_network_is_inspected(extended: Run) -> None:
    assert (
        extended("inspect", "bottleneck", "--set", "width=2", "--json").json["parameters"] == 784 * 2 + 2 + 2 * 10 + 10
    )
    assert "'bottleneck'" in extended("inspect", "no-such-network").err


def test_a_study_of_them_runs_in_two_ranks_and_is_analysed(extended: Run, study_file: Callable[..., Path]) -> None:
    factors = {"framework": ["plain"], "network": ["bottleneck"], "width": [4, 8], "workers": [1, 2]}
    path = study_file("extended", design="seed = 1\n[data]\nsamples = 500", batch_size=[8], **factors)
    assert extended("run", path, "--out", "out", "--json").json["ok"] == 8
    assert len(extended("analyze", "out", "--json").json["groups"]) == 4
    assert extended("slowest", "out", "--json").json["t_iter"] > 0


def test_a_model_is_compared_fitted_saved_and_asked(extended: Run, tmp_path: Path) -> None:
    rows = ["workers,batch_size,t_iter", *(f"{w},{b},{b**0.5 / w}" for w in (1, 2, 4) for b in (8, 16, 32, 64))]
    (tmp_path / "times.csv").write_text("\n".join(rows) + "\n")
    roles = ("times.csv", "--target", "t_iter", "--extrinsic", "workers,batch_size")
    compared = extended("compare", *roles, "--models", "saturating,linear", "--json").json["rows"]
    assert {row["model"] for row in compared} >= {"saturating", "linear"}
    assert extended("fit", *roles, "--model", "saturating", "--out", "model.json", "--json").json["formula"]
    assert extended("predict", "model.json", "--at", "workers=2,batch_size=16", "--json").json["predictions"]


def test_a_saved_model_says_what_is_missing_where_its_distribution_is_not(
    extended: Run, steplab: Run, tmp_path: Path
) -> None:
    (tmp_path / "times.csv").write_text("x,t\n" + "".join(f"{x},{x}\n" for x in range(1, 13)))
    fit = ("fit", "times.csv", "--target", "t", "--extrinsic", "x", "--model", "saturating", "--out", "model.json")
    assert extended(*fit).code == 0
    ran = steplab("predict", "model.json", "--at", "x=2")
    assert ran.code == 1
    assert "model 'saturating' comes from the package 'acme', which is not installed here" in ran.err


def test_several_ranks_are_started_by_the_launcher_that_their_framework_names(
    extended: Run, study_file: Callable[..., Path], tmp_path: Path
) -> None:
    path = study_file("niced", framework=["plain"], network=["bottleneck"], workers=[1, 2], batch_size=[8])
    assert extended("run", path, "--out", "out", "--json").json["ok"] == 4
    records = list(all_records(StudyFolder(tmp_path / "out")))
    alone, together = ({r.versions["priority"] for r in records if len(r.ranks) == ranks} for ranks in (1, 2))
    assert {int(priority) + 5 for priority in alone} == set(map(int, together))


def test_a_record_names_the_distributions_that_its_trial_ran(
    extended: Run, study_file: Callable[..., Path], tmp_path: Path
) -> None:
    path = study_file("named", framework=["synthetic", "plain"], network=["bottleneck", "mlp"], batch_size=[8])
    assert extended("run", path, "--out", "out", "--json").json["ok"] == 8
    for record in all_records(StudyFolder(tmp_path / "out")):
        ours = {"framework": "synthetic", "network": "mlp"}
        named = {kind: record.versions.get(f"{kind}_distribution", "") for kind in ours}
        assert named == {kind: "" if record.config[kind] == own else "acme 1.0" for kind, own in ours.items()}


def test_an_environment_of_a_removed_distribution_is_listed_and_not_ready(
    extended: Run, steplab: Run, installed: Mapping[str, str]
) -> None:
    without = {"STEPLAB_HOME": installed["STEPLAB_HOME"]}
    for command in (("env", "list"), ("doctor",)):
        rows = {row["name"]: row for row in steplab(*command, "--json", env=without).json["environments"]}
        assert not rows["plain"]["ready"]
        assert "there is no framework 'plain'" in rows["plain"]["reason"]
    assert "there is no framework 'plain'" in steplab("env", "check", "plain", env=without).out


def test_nothing_of_it_is_known_where_it_is_not_installed(steplab: Run, study_file: Callable[..., Path]) -> None:
    path = study_file("alone", framework=["plain"])
    assert "must be one of" in steplab("run", path, "--dry-run").err
    assert "slowest" not in steplab("--help").out


BROKEN = """\
[steplab.commands]
run = broken.missing
explode = broken.explode
lost = broken.missing
[steplab.frameworks]
torch = broken.missing
half = broken.half
[steplab.networks]
lenet5 = broken.missing
wrong = broken.wrong
"""


@pytest.fixture
def broken(steplab: Run, tmp_path: Path) -> Run:
    """Run `steplab` beside a distribution in which nothing works."""
    site = tmp_path / "site"
    install(site, "broken", BROKEN)
    (site / "broken").mkdir()
    (site / "broken" / "__init__.py").touch()
    (site / "broken" / "explode.py").write_text("raise KeyError('powder')\napp = None\n")
    (site / "broken" / "half.py").write_text("DECLARATION = {'title': 'Half'}\nclass Adapter: pass\n")
    (site / "broken" / "wrong.py").write_text("def build(:\n")
    (tmp_path / "half.toml").write_text('[study]\nname = "half"\n[factors]\nframework = ["half"]\n')
    variables: Mapping[str, str] = {"PYTHONPATH": str(site)}
    return lambda *arguments: steplab(*arguments, env=variables)


def test_broken_extensions_are_listed_with_one_sentence_each(broken: Run) -> None:
    rows = {(row["kind"], row["name"]): row for row in broken("doctor", "--json").json["extensions"]}
    words = {
        ("command", "run"): "steplab has a command of that name",
        ("command", "lost"): "there is no module 'broken.missing'",
        ("framework", "torch"): "steplab has a framework of that name",
        ("framework", "half"): "lacks 'pins'",
        ("network", "lenet5"): "steplab has a network of that name",
        ("network", "wrong"): "is not valid Python",
    }
    for key, sentence in words.items():
        assert sentence in rows[key]["reason"]
        assert "of broken 1.0" in rows[key]["reason"]
        assert not rows[key]["ready"]


def test_broken_extensions_leave_all_else_as_it_was(broken: Run, study_file: Callable[..., Path]) -> None:
    assert broken("--help").code == 0
    assert {row["name"] for row in broken("env", "list", "--json").json["environments"]} >= {"torch", "synthetic"}
    assert broken("inspect", "lenet5", "--json").json["parameters"] == 61706
    assert broken("run", study_file("whole", network=["lenet5"]), "--json").json["ok"] == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("lost",), "the command 'lost' of broken 1.0 cannot be used: there is no module 'broken.missing'"),
        (("explode",), "cannot be used as a command: KeyError: 'powder'"),
        (("env", "create", "half"), "the framework 'half' of broken 1.0 cannot be used"),
        (("inspect", "wrong"), "the network 'wrong' of broken 1.0 cannot be used"),
        (
            ("run", "half.toml"),
            "half.toml, line 4, factors.framework: the framework 'half' of broken 1.0 cannot be used",
        ),
    ],
)
def test_a_broken_extension_that_is_used_says_one_sentence(broken: Run, arguments: tuple[str, ...], words: str) -> None:
    ran = broken(*arguments)
    assert ran.code == 1
    assert words in ran.err
    assert len(ran.err.splitlines()) == 1
