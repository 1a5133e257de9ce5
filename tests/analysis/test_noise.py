"""The noise verdict of a study: replicates, the verdicts on its trials, what to do next."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from steplab.analysis.noise import REMEDIES, Noise, Reason, judge


def trials(between: float = 0.01, configurations: int = 6, replicates: int = 3, **columns: object) -> pd.DataFrame:
    """Trials of equal configurations whose replicates spread by `between`."""
    rng = np.random.default_rng(0)
    n = configurations * replicates
    made: dict[str, object] = {
        "status": "ok",
        "threads": np.repeat(np.arange(configurations), replicates),
        "t_iter": 0.01 * np.exp(between * rng.standard_normal(n)),
        "spread": 0.05,
        "drift": 0.0,
        "seconds": 2.0,
        "other_cpu_s": 0.0,
        "other_cpu_share": 0.0,
        "verdict": "clean",
        "doubts": "",
    }
    return pd.DataFrame(made | columns, index=range(n))


def verdict(frame: pd.DataFrame) -> Noise:
    return judge(frame, ["threads"])


def test_a_calm_study_needs_nothing() -> None:
    found = verdict(trials())
    assert (found.verdict, found.advice) == ("quiet", "Nothing needs to be done.")
    assert (found.doubtful, found.bad, found.reasons) == (0, 0, ())


@pytest.mark.parametrize(("between", "expected"), [(0.01, "quiet"), (0.06, "usable"), (0.3, "noisy")])
def test_replicates_decide_the_verdict(between: float, expected: str) -> None:
    assert verdict(trials(between)).verdict == expected


def test_doubtful_trials_are_counted_with_their_main_reason() -> None:
    doubts = ["drift: the step time rises by 9% …; spread: its iterations differ by 30%"] * 5
    doubts += ["spread: its iterations differ by 60%"] * 3 + [""] * 10
    verdicts = ["doubtful"] * 5 + ["bad"] * 3 + ["clean"] * 10
    found = verdict(trials(doubts=doubts, verdict=verdicts))
    assert (found.doubtful, found.bad) == (8, 3)
    assert found.reasons == (Reason("spread", 8), Reason("drift", 5))
    assert found.drifting == pytest.approx(5 / 18)
    assert "8 of 18 trials are doubtful, 3 of them bad, mainly because their iterations differ widely" in found.advice


def test_a_study_of_doubtful_trials_is_not_quiet() -> None:
    doubtful = trials(verdict="doubtful", doubts="others: other programs took 30% of the machine")
    assert verdict(doubtful).verdict == "usable"
    assert verdict(doubtful.assign(verdict="bad")).verdict == "noisy"


def test_a_few_doubtful_trials_are_not_worth_a_sentence() -> None:
    doubts = ["drift: …"] * 2 + [""] * 16
    assert (
        verdict(trials(doubts=doubts, verdict=["doubtful"] * 2 + ["clean"] * 16)).advice == "Nothing needs to be done."
    )


def test_what_others_took_is_weighted_by_time() -> None:
    seconds = [10.0] + [1.0] * 17
    share = [0.54] + [0.0] * 17
    found = verdict(trials(seconds=seconds, other_cpu_share=share, other_cpu_s=[10.8] + [0.0] * 17))
    assert found.others == pytest.approx(0.2)
    assert "Other programs took 20% of the machine" in found.advice


def test_others_are_blamed_once() -> None:
    text = "others: other programs took 40% of the machine"
    found = verdict(trials(other_cpu_share=0.4, other_cpu_s=1.6, verdict="doubtful", doubts=text))
    assert found.advice.lower().count("other programs") == 1


def test_one_replicate_is_unknown() -> None:
    found = verdict(trials(replicates=1))
    assert (found.verdict, found.between, found.detectable) == ("unknown", None, None)


def test_tables_without_verdicts_are_still_judged() -> None:
    old = trials(drift=[0.5] * 9 + [0.0] * 9).drop(columns=["verdict", "doubts", "other_cpu_share"])
    assert verdict(old).drifting == 0.5


def test_what_others_took_is_unknown_without_the_number_of_cpus() -> None:
    assert verdict(trials(other_cpu_s=0.4).drop(columns="other_cpu_share")).others is None


def test_trials_under_different_environment_variables_are_not_compared_silently() -> None:
    same = trials(variables="KMP_BLOCKTIME=0")
    mixed = trials(variables=["XLA_FLAGS='--a --b' KMP_BLOCKTIME=0"] * 9 + ["KMP_BLOCKTIME=0"] * 9)
    assert verdict(same).variables == ()
    assert verdict(mixed).variables == ("XLA_FLAGS",)
    assert "Environment variables differ between trials (XLA_FLAGS)" in verdict(mixed).advice
    assert "Environment variables" not in verdict(same).advice


def test_quiet_replicates_that_show_nothing_are_too_few() -> None:
    calm = verdict(trials())
    assert calm.advice == calm.advice_on(None) == calm.advice_on(0.1) == "Nothing needs to be done."
    assert "too few to know" in calm.advice_on(14.9)


def test_every_kind_of_doubt_has_a_remedy() -> None:
    import inspect
    import re

    from steplab.store import doubt

    kinds = set(re.findall(r'Doubt\(\s*"([a-z-]+)"', inspect.getsource(doubt)))
    assert kinds == set(REMEDIES)


def test_times_of_zero_tell_nothing_of_the_spread() -> None:
    frame = trials()
    zero = frame.assign(threads=99, t_iter=0.0)
    assert verdict(pd.concat([frame, zero], ignore_index=True)).between == verdict(frame).between
