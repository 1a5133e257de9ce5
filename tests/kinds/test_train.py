"""Trials of kind train: the section, what cannot be trained, the director, the columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from steplab.core.errors import StudyError
from steplab.core.resolution import resolve
from steplab.kinds.train import Train, TrainKind
from steplab.study.file import parse_study
from steplab.study.sections import Study


def study(train: str, kind: str = "train") -> Study:
    text = f'[study]\nname = "x"\nkind = "{kind}"\n[factors]\nframework = ["synthetic"]\n{train}'
    return parse_study(text, Path("study.toml"))


def test_it_may_be_left_out() -> None:
    assert study("").section == Train(epochs=10, target_accuracy=None)


WRONG = {
    "epochs = 0": "line 7, train.epochs",
    "epochs = 2.5": "train.epochs",
    "epoch = 3": "did you mean 'epochs'?",
    "target_accuracy = 95": "less than or equal to 1",
    "target_accuracy = nan": "train.target_accuracy",
    "checkpoint_every = -1": "train.checkpoint_every",
    "every = 20": "line 7, train.every: the accuracy would be looked at after the last of 10 epochs only (it is 20)",
    "validation_samples = 0": "train.validation_samples",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_mistake_is_one_sentence(line: str) -> None:
    with pytest.raises(StudyError) as caught:
        study(f"[train]\n{line}")
    assert WRONG[line] in str(caught.value)
    assert "\n" not in str(caught.value)


def test_it_goes_with_training_only() -> None:
    with pytest.raises(StudyError, match=r"does not go with kind 'step'.*kind = 'train'"):
        study("[train]\nepochs = 3", kind="step")


def test_it_is_part_of_the_protocol_but_for_how_often_is_saved() -> None:
    assert study("[train]\nepochs = 3").protocol != study("[train]\nepochs = 4").protocol
    assert study("").protocol == study("[train]\ncheckpoint_every = 5").protocol
    assert study("").protocol != study("", kind="step").protocol


REFUSED = {
    "velox": ({"framework": "velox"}, "no trials of kind 'train'"),
    "replay": ({"framework": "replay"}, "no trials of kind 'train'"),
    "fit": ({"framework": "tensorflow", "loop": "fit"}, "loop = custom"),
    "asynchronous": ({"framework": "mxnet", "strategy": "ps-async", "workers": 2}, "the servers"),
    "no classes": ({"framework": "torch", "network": "autoencoder"}, "does not classify"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_trained_says_why(name: str) -> None:
    config, reason = REFUSED[name]
    assert reason in TrainKind.unsupported(resolve(config))
    assert TrainKind.unsupported(resolve({"framework": "torch"})) == ""
