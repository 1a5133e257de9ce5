"""Trials run on this machine, one after the other: on the machine itself, or in a cluster in a box."""

from __future__ import annotations

from dataclasses import replace

from steplab.core.errors import InputError
from steplab.design.plan import Plan
from steplab.runner.campaign import Campaign
from steplab.runner.cluster import ThisMachine
from steplab.runner.interrupts import Stop
from steplab.runner.jobs import shapes
from steplab.study.sections import Study


class LocalExecutor:
    """Runs a campaign in this process."""

    def __init__(self, study: Study) -> None:
        self.study = study

    def check(self, trials: Plan) -> None:
        """Several hosts are not here."""
        for shape in shapes(trials):
            if shape.nodes > 1 and not shape.placement:
                what = f"trials on {shape.nodes} nodes cannot run on this machine alone"
                hint = "use --executor hosts or slurm, or placement = 'net:NAME' for a cluster in a box"
                raise InputError(what, where=str(self.study.path), hint=hint)

    def run(self, campaign: Campaign, stop: Stop, limit: int | None = None) -> None:
        """Run it here."""
        replace(campaign, cluster=ThisMachine()).run(stop, limit)


EXECUTOR = LocalExecutor
