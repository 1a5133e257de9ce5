"""Code of one's own is part of its trials' ids, and of nobody else's."""

from __future__ import annotations

from pathlib import Path

from steplab.core.own_code import CodeIdentity, CodeUse, OwnCode
from steplab.core.trial import trial_id
from steplab.design.plan import plan
from steplab.study.file import parse_study

STUDY = """
[study]
name = "own"
[factors]
framework = ["torch", "jax"]
network = ["module:net:make", "lenet5"]
batch_size = [8, 16]
[design]
replicates = 2
"""
USE = CodeUse("module:net:make", "mnist", "", "")


def code(digest: str) -> OwnCode:
    return OwnCode(Path(), {USE: CodeIdentity({"net.py": digest}, "graph")})


def test_the_ids_of_other_trials_do_not_change() -> None:
    study = parse_study(STUDY, Path("study.toml"))
    before, after = set(plan(study).ids()), set(plan(study, code("a")).ids())
    own = {trial.id for trial in plan(study, code("a")) if "code" in trial.config}
    assert len(own) == 4, "in PyTorch alone"
    assert after - before == own


def test_changed_code_is_other_trials_and_the_same_code_the_same_ones() -> None:
    study = parse_study(STUDY, Path("study.toml"))
    first, again, other = (list(plan(study, code(digest)).ids()) for digest in "aab")
    assert first == again
    assert len(set(first) - set(other)) == 4


def test_an_id_belongs_to_the_configuration_with_its_code() -> None:
    for trial in plan(parse_study(STUDY, Path("study.toml")), code("a")):
        assert trial.id == trial_id(trial.config, trial.replicate)


def test_a_plan_knows_which_code_it_uses() -> None:
    assert plan(parse_study(STUDY, Path("study.toml"))).code_uses() == [USE]
