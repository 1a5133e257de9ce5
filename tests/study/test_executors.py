"""The settings of executors: the study's own, else those of the user's profile file."""

from __future__ import annotations

from pathlib import Path

import pytest

from steplab.core.errors import StudyError
from steplab.study.executors import HostsSettings, merged
from steplab.study.file import parse_study, read_profile

STUDY = """
[study]
name = "x"
[factors]
framework = "synthetic"
[executor.hosts]
names = ["a", "b"]
"""


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STEPLAB_PROFILE", str(tmp_path / "profile.toml"))
    return tmp_path / "profile.toml"


def test_a_study_says_its_hosts() -> None:
    assert parse_study(STUDY, Path("study.toml")).executors == {"hosts": HostsSettings(names=["a", "b"])}


def test_hosts_are_no_part_of_the_protocol_so_that_a_study_may_go_on_elsewhere() -> None:
    other = STUDY.replace('"b"', '"c"')
    assert parse_study(STUDY, Path("a")).protocol == parse_study(other, Path("a")).protocol


def test_without_a_profile_there_is_nothing(profile: Path) -> None:
    assert read_profile() == {}


def test_what_the_study_does_not_say_the_profile_does(profile: Path) -> None:
    profile.write_text('[executor.hosts]\nnames = ["p"]\n')
    study = parse_study(STUDY, Path("study.toml"))
    assert merged(HostsSettings, read_profile()["hosts"], study.executors["hosts"]) == HostsSettings(names=["a", "b"])
    assert merged(HostsSettings, read_profile()["hosts"], None) == HostsSettings(names=["p"])


def test_a_mistake_in_the_profile_is_told_with_its_line(profile: Path) -> None:
    profile.write_text("\n[executor.hosts]\nnames = 3\n")
    with pytest.raises(StudyError, match=r"profile\.toml, line 3, executor\.hosts\.names"):
        read_profile()


def test_a_profile_has_no_other_sections(profile: Path) -> None:
    profile.write_text("[study]\n")
    with pytest.raises(StudyError, match="unknown section 'study'"):
        read_profile()
