"""The bound of decision 50: what any design can save where noise limits, computed anew from the published factors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

DOCS = Path(__file__).parents[2] / "docs"
DECISION = (DOCS / "decisions" / "0050-what-economy-means.md").read_text()
FACTORS = pd.read_csv(DOCS / "sources" / "data" / "published" / "mmu_4_1_parameters.csv")
Array = np.ndarray


def codes(kind: str, levels: str) -> Array:
    """The columns of a factor, a row for each level: uncorrelated over all levels, and zero on average."""
    values = levels.split(";")
    columns = np.eye(len(values))[:, 1:] if kind == "categorical" else np.log([[float(v)] for v in values])
    centred = columns - columns.mean(0)
    return np.asarray(np.linalg.qr(centred)[0] * np.sqrt(len(values)))


CODES = [codes(kind, levels) for kind, levels in FACTORS[["kind", "levels"]].itertuples(index=False)]
# The variance of a column over all levels is 1; a design can give it no more than half of its span, squared. Levels of
# a category are all equally far from each other: equal shares are the best.
SPANS = [1.0 if kind == "categorical" else float(np.ptp(columns) / 2) ** 2
         for kind, columns in zip(FACTORS["kind"], CODES, strict=True)]  # fmt: skip
COEFFICIENTS = 1 + sum(columns.shape[1] for columns in CODES)
BEST = 1 + sum(columns.shape[1] / span for columns, span in zip(CODES, SPANS, strict=True))


def variance(chosen: list[Array]) -> float:
    """The mean variance over the region that chosen levels of each factor give, in units of noise over trials."""
    design = np.column_stack([np.ones(len(chosen[0])), *(c[at] for c, at in zip(CODES, chosen, strict=True))])
    return float(np.trace(np.linalg.inv(design.T @ design / len(design))))


def test_the_numbers_of_the_decision() -> None:
    assert (
        f"is {BEST:.1f}\n  against {COEFFICIENTS}: the same error takes {int(100 * BEST / COEFFICIENTS)} %" in DECISION
    )


def test_no_design_is_better_than_the_bound_and_trials_at_both_ends_reach_it() -> None:
    rng = np.random.default_rng(0)
    for trials in (40, 200, 2000):
        uneven = [rng.dirichlet(np.full(len(columns), rng.choice([0.5, 2.0, 50.0]))) + 1e-3 for columns in CODES]
        drawn = [rng.choice(len(share), trials, p=share / share.sum()) for share in uneven]
        assert variance(drawn) >= BEST
    rows = 40_000
    everywhere = [rng.integers(len(columns), size=rows) for columns in CODES]
    assert variance(everywhere) == pytest.approx(COEFFICIENTS, rel=0.01)
    ends = [rng.integers(len(c), size=rows) if kind == "categorical"
            else rng.choice([int(np.argmin(c)), int(np.argmax(c))], rows)
            for kind, c in zip(FACTORS["kind"], CODES, strict=True)]  # fmt: skip
    assert variance(ends) == pytest.approx(BEST, rel=0.01)
