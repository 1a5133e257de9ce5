"""The time left is learned from what trials took: most from those alike, and from earlier studies on this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import steplab
from steplab.api.measuring.durations import DURATIONS, Took
from steplab.api.measuring.estimate import STARTS, Expectation, trials_per_start
from steplab.api.measuring.run import _Learning
from steplab.api.measuring.shape_memory import Shape
from steplab.core.record import Head
from steplab.design.plan import plan
from steplab.study.file import parse_study

SLOW = {"framework": "jax", "network": "lenet5", "workers": 2}
QUICK = {"framework": "torch", "network": "lenet5", "workers": 1}


@pytest.fixture
def expected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, study_file: Callable[..., Path]) -> Expectation:
    """Nothing is known yet."""
    monkeypatch.setenv("STEPLAB_HOME", str(tmp_path / "home"))
    study = steplab.read_study(study_file(framework=["torch", "jax"], network=["lenet5"], workers=[1, 2]))
    return Expectation(study)


def seconds(expected: Expectation, config: dict[str, object]) -> float:
    """Of one trial."""
    return expected.seconds([expected.guess(config)])  # type: ignore[arg-type]


def test_a_slow_framework_is_expected_to_stay_slow_and_a_quick_one_quick(expected: Expectation) -> None:
    for _ in range(5):
        expected.learn(SLOW, 60.0, 20.0)
        expected.learn(QUICK, 2.0, 1.0)
    assert seconds(expected, SLOW) > 45
    assert seconds(expected, QUICK) < 6
    assert seconds(expected, SLOW | {"workers": 1}) > 3 * seconds(expected, QUICK | {"workers": 2})


def test_the_first_trial_moves_the_estimate_already(expected: Expectation) -> None:
    before = seconds(expected, SLOW)
    expected.learn(SLOW, 10 * before)
    assert seconds(expected, SLOW) > 4 * before


def test_the_start_of_ranks_between_two_records_counts(expected: Expectation) -> None:
    heads = [
        Head(study="s", trial=f"{n:016x}", replicate=0, kind="step", status="ok", config=SLOW, seconds=2.0,
             started=f"2026-11-17T10:00:{12 * n:02d}+00:00")
        for n in range(4)
    ]  # fmt: skip
    expected.learn_from(reversed(heads))
    trials, starts = (expected.took[Shape("jax", name, 2)] for name in ("lenet5", STARTS))
    assert (trials.trials, trials.seconds) == (4.0, 8.0)
    assert (starts.trials, starts.seconds) == (3.0, 30.0)


def test_the_start_of_ranks_that_serve_many_trials_is_shared_among_them(expected: Expectation) -> None:
    expected.learn(SLOW, 2.0, 100.0)
    alone = seconds(expected, SLOW)
    expected.per_start = 10.0
    assert seconds(expected, SLOW) < alone / 3


@pytest.mark.parametrize(
    ("together", "per_start"),
    [("", 1.0), ('together = ["framework"]', 3.0), ('together = ["framework", "network"]', 1.0)],
)
def test_trials_that_run_together_share_the_starts_of_their_ranks(together: str, per_start: float) -> None:
    """Three frameworks and two numbers of workers are six groups, of which four are kept warm."""
    factors = 'framework = ["torch", "jax", "mxnet"]\nnetwork = ["lenet5", "mlp", "autoencoder"]\nworkers = [1, 2]\n'
    study = parse_study(f'[study]\nname = "x"\n[factors]\n{factors}[design]\n{together}\n', Path("s.toml"))
    assert trials_per_start(study, plan(study)) == per_start


@pytest.mark.parametrize("kind", ["step", "infer"])
def test_a_short_warm_up_is_expected_to_be_short(kind: str) -> None:
    def guessed(warmup: str) -> float:
        factors = '[factors]\nframework = "torch"\nnetwork = "alexnet"\nbatch_size = 64\n'
        text = f'[study]\nname = "x"\nkind = "{kind}"\n{factors}[measure]\niterations = 8\nwarmup = {warmup}\n'
        study = parse_study(text, Path("s.toml"))
        return Expectation(study, before={}).guess({"framework": "torch", "network": "alexnet"}).seconds

    assert guessed("1") < guessed('"auto"') / 1.5
    assert guessed("30") > guessed('"auto"')


def test_what_trials_took_is_remembered_for_the_next_study(expected: Expectation) -> None:
    shape = Shape("jax", "lenet5", 2)
    DURATIONS.add({shape: Took(4, 4000.0, 40.0)})
    DURATIONS.add({shape: Took(40, 40000.0, 400.0)})
    assert DURATIONS.read() == {shape: Took(20.0, 20000.0, 200.0)}
    later = Expectation(expected.study)
    assert seconds(later, SLOW) > 5 * seconds(expected, SLOW)
    assert later.basis == "earlier studies on this machine"


@pytest.mark.parametrize(
    "content",
    [
        "", "{}", "[[1]]", '[["jax", "lenet5", 2, -1, 0, 0]]', "\x00",
        '[["jax", "lenet5", 1e999, 1, 1, 1]]', f'[["jax", "lenet5", 2, 1{"0" * 400}, 1, 1]]', "[" * 100_000,
    ],
)  # fmt: skip
def test_a_damaged_memory_is_an_empty_one(expected: Expectation, content: str) -> None:
    path = DURATIONS.file
    path.parent.mkdir(parents=True)
    path.write_text(content)
    assert DURATIONS.read() == {}


def test_a_run_tells_a_new_estimate_after_each_trial(study_file: Callable[..., Path], tmp_path: Path) -> None:
    told: list[float] = []

    class Watching(steplab.RunObserver):
        def on_estimate(self, left_s: float) -> None:
            told.append(left_s)

    steplab.run(study_file(batch_size=[1, 2]), tmp_path / "out", observer=Watching())
    assert len(told) == 4
    assert told[-1] == 0.0 < told[0]


def test_what_a_campaign_tells_of_its_jobs_reaches_who_watches(expected: Expectation) -> None:
    heard: list[str] = []

    class Watching(steplab.RunObserver):
        def on_jobs(self, text: str) -> None:
            heard.append(text)

        def on_note(self, text: str) -> None:
            heard.append(text)

    learning = _Learning(Watching(), expected, {}, 0)
    learning.on_jobs("2 jobs wait")
    learning.on_note("job 1 lost a node")
    assert heard == ["2 jobs wait", "job 1 lost a node"]
