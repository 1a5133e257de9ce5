"""Trials run on this machine, one after the other: on the machine itself, or in a cluster in a box."""

from __future__ import annotations

import os
from dataclasses import replace

from steplab.core.errors import InputError
from steplab.design.plan import Plan
from steplab.runner.box import Box
from steplab.runner.campaign import Campaign
from steplab.runner.interrupts import Stop
from steplab.runner.jobs import hosts_wanted
from steplab.runner.nets.net import find
from steplab.study.sections import Study


class LocalExecutor:
    """Runs a campaign in this process."""

    def __init__(self, study: Study) -> None:
        self.study = study

    def check(self, trials: Plan) -> None:
        """Several hosts are only in a net that is up and large enough."""
        for placement, nodes in hosts_wanted(trials):
            if nodes > 1 and not placement:
                what = f"trials on {nodes} nodes cannot run on this machine alone"
                hint = "use --executor hosts or slurm, or placement = 'net:NAME' for a cluster in a box"
                raise InputError(what, where=str(self.study.path), hint=hint)
            if placement:
                os.close(find(placement).occupy())
            if placement and len(hosts := find(placement).hosts) < nodes:
                what = f"{placement} has {len(hosts)} hosts, but there are trials on {nodes} nodes"
                raise InputError(what, where=str(self.study.path), hint="make a larger net, or use fewer nodes")

    def run(self, campaign: Campaign, stop: Stop, limit: int | None = None) -> None:
        """Run it here."""
        box = Box()
        try:
            self._occupy(box, campaign.trials)
            replace(campaign, cluster=box).run(stop, limit)
        finally:
            box.close()

    def _occupy(self, box: Box, trials: Plan) -> None:
        """Have the nets of these trials: two laboratories in one would set each other's rates."""
        for placement, _ in hosts_wanted(trials):
            if placement:
                box.occupy(placement)


EXECUTOR = LocalExecutor
