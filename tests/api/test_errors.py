"""A mistake raises one of the documented errors, with one sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import steplab
from steplab.errors import InputError, ModelError, NotEnoughData, RecordError, StudyError, TableError

ROWS = pd.DataFrame({"workers": [1, 2, 4, 8] * 3, "t_iter": [1.0, 2.1, 3.9, 8.2] * 3})
Call = Callable[[Path], object]

WRONG: list[tuple[Call, type[Exception], str]] = [
    (lambda room: steplab.open(room / "none"), RecordError, "there is no such folder"),
    (lambda room: steplab.open(room), RecordError, "holds no records"),
    (lambda room: steplab.read_study(room / "none.toml"), StudyError, "there is no such file"),
    (lambda room: steplab.run(room / "none.toml"), StudyError, "there is no such file"),
    (lambda room: steplab.load_model(room / "none.json"), ModelError, "there is no such file"),
    (lambda room: steplab.fit(room / "none.csv"), TableError, "there is no such file"),
    (lambda room: steplab.fit(ROWS, "liner"), ModelError, "did you mean 'linear'"),
    (lambda room: steplab.fit(ROWS, "linear", "t"), TableError, "there is no column 't'"),
    (lambda room: steplab.fit(ROWS[:2], "linear"), NotEnoughData, "needs at least"),
    (lambda room: steplab.fit(ROWS, "linear", options={"depth": 3}), ModelError, "has no option 'depth'"),
    (lambda room: steplab.fit(ROWS.iloc[:0]), TableError, "the table has no rows"),
    (lambda room: steplab.compare(ROWS, "linear", holdout="workers=8"), TableError, "is not a comparison"),
    (lambda room: steplab.fit(ROWS, "linear").predict({"batch": 3}), ModelError, "has no factor 'batch'"),
    (lambda room: steplab.fit(ROWS, "linear").predict({"workers": 3}, level=2), ModelError, "level is 2"),
    (lambda room: steplab.fit(ROWS, "linear").predict([]), ModelError, "no configuration"),
    (lambda room: steplab.inspect("resnet"), InputError, "there is no network 'resnet'"),
    (lambda room: steplab.init(room, kind="tran"), InputError, "there is no kind 'tran'"),
    (lambda room: steplab.roofline("lenet5", "a1000"), InputError, "a1000"),
    (lambda room: steplab.make_dataset("mnits", room / "m"), InputError, "did you mean 'mnist'"),
    (lambda room: steplab.create_environment("troch"), InputError, "did you mean 'torch'"),
    (lambda room: steplab.import_csv(room / "none.csv"), TableError, "there is no such file"),
]


@pytest.mark.parametrize(("call", "kind", "words"), WRONG, ids=[words for _, _, words in WRONG])
def test_a_mistake_is_one_sentence(call: Call, kind: type[Exception], words: str, tmp_path: Path) -> None:
    with pytest.raises(kind) as caught:
        call(tmp_path)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, steplab.SteplabError)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda study: study.export("x.doc"), "no known ending"),
        (lambda study: study.export("x.csv", "trails"), "did you mean 'trials'"),
        (lambda study: study.report("away/page.html"), "there is no such folder"),
        (lambda study: study.report(models="liner"), "there is no model 'liner'"),
        (lambda study: study.analyze().figure("step-times"), "did you mean 'step-time'"),
        (lambda study: steplab.run(study.study, study.folder, limit=-1), "limit is -1"),
        (lambda study: steplab.run(study.study, study.folder, trials=["abc"]), "the study has no trial 'abc'"),
    ],
)
def test_a_mistake_about_a_study_is_one_sentence(
    call: Callable[[steplab.Results], object], words: str, folder: Path
) -> None:
    with pytest.raises(InputError, match=words):
        call(steplab.open(folder))
