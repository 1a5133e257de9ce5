"""A study's step over a network as a formula, for the sliders of its report."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from steplab.api.modelling.network_file import read_network
from steplab.api.study_data import StudyData
from steplab.planning.network.compute import LAYOUT, Tables, measured_compute
from steplab.planning.network.formula import ACCUMULATE, BANDWIDTH, LATENCY, step_formula
from steplab.planning.network.profile import Profile
from steplab.planning.network.step import MODEL_DOUBT, Layout, expect_same_framework
from steplab.planning.network.wires import Wires
from steplab.report.data import NetworkSliders


def network_sliders(study: StudyData, file: Path, at: Mapping[str, str]) -> NetworkSliders:
    """A configuration of a study over the most ranks of a profile, as a formula of bandwidth, latency, accumulation."""
    profile = read_network(file)
    tables = study.tables
    own = {name: level for name, level in at.items() if name not in LAYOUT}
    compute = measured_compute(
        Tables(tables.trials, tables.iterations.to_pandas(), tables.layers.to_pandas(), tables.factors), own
    )
    expect_same_framework(profile, compute)
    rate = profile.ranks[0].rate if profile.ranks else ""
    ranks, nodes = _most(profile, rate)
    layout = Layout(ranks, nodes, one_machine=profile.one_machine)
    step = step_formula(compute, Wires(profile, rate), layout)
    there = ",".join([f"nodes={nodes}", f"workers={ranks}", *([f"rate={rate}"] if rate else [])])
    there = ",".join([there, *(f"{name}={level}" for name, level in own.items())])
    command = f"steplab predict --network {shlex.quote(str(file))} --from {shlex.quote(str(study.folder))} --at {there}"
    name = f"{profile.name}: {ranks} workers on {nodes} hosts {rate}".rstrip()
    ranges = {BANDWIDTH: (0.25, 4.0), LATENCY: (0.25, 4.0), ACCUMULATE: (1, 16)}
    return NetworkSliders(name, step.formula, ranges, MODEL_DOUBT, command)


def _most(profile: Profile, rate: str) -> tuple[int, int]:
    """The most ranks that were measured, or that the data sheet has, and their hosts."""
    if profile.ranks:
        return max((entry.ranks, entry.nodes) for entry in profile.ranks if entry.rate == rate)
    assert profile.link is not None
    return profile.link.nodes * profile.link.ranks_per_node, profile.link.nodes
