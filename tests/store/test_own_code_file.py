"""What identified a study's own code, kept in its folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from steplab.core.errors import RecordError
from steplab.core.own_code import NO_CODE, CodeIdentity, CodeUse, OwnCode
from steplab.store.own_code_file import read_own_code, write_own_code
from steplab.store.paths import StudyFolder

USE = CodeUse("module:net:make", "module:data:make", "", "nightly")


def test_it_comes_back_as_it_was(tmp_path: Path) -> None:
    own_code = OwnCode(tmp_path, {USE: CodeIdentity({"net.py": "00"}, "11", "3x8x8/10/96")})
    write_own_code(StudyFolder(tmp_path), own_code)
    assert read_own_code(StudyFolder(tmp_path)).identities == own_code.identities


def test_a_study_without_code_of_its_own_has_no_such_file(tmp_path: Path) -> None:
    write_own_code(StudyFolder(tmp_path), NO_CODE)
    assert list(tmp_path.iterdir()) == []
    assert read_own_code(StudyFolder(tmp_path)) == NO_CODE


def test_code_that_a_study_no_longer_has_is_forgotten(tmp_path: Path) -> None:
    write_own_code(StudyFolder(tmp_path), OwnCode(tmp_path, {USE: CodeIdentity({"net.py": "00"})}))
    write_own_code(StudyFolder(tmp_path), NO_CODE)
    assert read_own_code(StudyFolder(tmp_path)) == NO_CODE


@pytest.mark.parametrize("content", [b"", b"[]", b'{"own_code": [{}]}', b'{"own_code": [{"network": 1, "files": 2}]}'])
def test_a_damaged_one_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    StudyFolder(tmp_path).own_code.write_bytes(content)
    with pytest.raises(RecordError, match="the next `steplab run` writes it again"):
        read_own_code(StudyFolder(tmp_path))


def test_a_link_in_its_place_is_refused(tmp_path: Path) -> None:
    StudyFolder(tmp_path).own_code.symlink_to("/etc/passwd")
    with pytest.raises(RecordError, match="is a symbolic link"):
        StudyFolder(tmp_path).must_hold_no_links()
