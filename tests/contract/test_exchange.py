"""Every training framework's own collective can be measured alone, among two ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

import steplab
from steplab.core import catalogue

FRAMEWORKS = [
    name
    for name in catalogue.framework_names()
    if catalogue.framework(name).needs_environment and "step" in catalogue.framework(name).kinds
]
SIZES = (1024, 2**20)


@pytest.mark.parametrize("framework", [pytest.param(name, marks=pytest.mark.framework(name)) for name in FRAMEWORKS])
def test_its_exchange_becomes_a_profile(framework: str, tmp_path: Path) -> None:
    planned = steplab.plan_network(framework=framework, ranks=[2], sizes=SIZES, seconds=0.1, out=tmp_path / "exchanges")
    ended = steplab.run_plan(planned)
    assert ended.counts.ok == len(SIZES), steplab.open(tmp_path / "exchanges").trials["reason"].tolist()
    profile = steplab.network_profile(tmp_path / "exchanges").profile
    (entry,) = profile.ranks
    assert [point.bytes for point in entry.sizes] == list(SIZES)
    assert all(point.seconds > 0 and point.cpu_seconds > 0 for point in entry.sizes)
    assert profile.backend
    assert profile.pairs[0].sizes[0].seconds > 0
