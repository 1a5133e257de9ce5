import numpy as np
import pandas as pd

from steplab.models.judging.misfit import misfit


def measured(noise=0.01):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        [(n, b) for n in (1, 2, 4, 8) for b in (32, 64) for _ in range(3)], columns=["workers", "batch"]
    )
    truth = 0.01 * frame["batch"] + 0.5 * (frame["workers"] > 1)
    return frame, (truth * np.exp(noise * rng.standard_normal(len(frame)))).to_numpy(), truth.to_numpy()


def test_a_right_form_is_not_complained_about():
    frame, y, truth = measured()
    assert misfit(frame, y, truth) is None


def test_a_wrong_form_is_told_with_the_factor_along_which_it_bends():
    frame, y, _ = measured()
    wrong = 0.01 * frame["batch"].to_numpy() + 0.2 * np.log2(frame["workers"].to_numpy())
    found = misfit(frame, y, wrong)
    assert found is not None and found.factor == "workers"
    assert found.error > 2.5 * found.noise
    assert "residuals bend along workers" in found.sentence


def test_without_replicates_nothing_can_be_told():
    frame, y, _ = measured()
    once = ~frame.duplicated().to_numpy()
    assert misfit(frame[once], y[once], 2 * y[once]) is None


def test_an_error_that_no_factor_explains_names_none():
    frame, y, _ = measured()
    off = np.where(np.arange(len(y)) % 2 == 0, 0.7, 1.3)
    found = misfit(frame, y, y * off)
    assert found is not None and found.factor == "" and "bend" not in found.sentence
