"""Trials run in Slurm's allocations: a job is a laboratory that takes trial after trial of one shape."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from steplab.core.errors import InputError
from steplab.core.files import real
from steplab.design.plan import Plan, plan
from steplab.runner.campaign import Campaign
from steplab.runner.executors import settings
from steplab.runner.interrupts import Stop
from steplab.runner.jobs import hosts_wanted
from steplab.runner.slurm.executor import NAME, SlurmCampaign, require_commands
from steplab.store import records
from steplab.store.paths import StudyFolder
from steplab.study.sections import Study
from steplab.study.slurm_settings import SlurmSettings


class SlurmExecutor:
    """Submits jobs and follows them."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.settings = cast(SlurmSettings, settings(study, NAME))

    def check(self, trials: Plan) -> None:
        """Slurm's commands are needed here, and its nodes are no boxes."""
        require_commands()
        if any(placement for placement, _ in hosts_wanted(trials)):
            hint = "use --executor local, or take the factor placement out"
            raise InputError("a cluster in a box is not Slurm's", where=str(self.study.path), hint=hint)

    def run(self, campaign: Campaign, stop: Stop, limit: int | None = None) -> None:
        """Submit, follow, and submit again what jobs did not finish; then what an adaptive design chooses next."""
        before = len(records.done(campaign.folder))
        self._campaign(campaign).run(stop, limit)
        while campaign.more is not None and not stop.asked:
            left = None if limit is None else limit - (len(records.done(campaign.folder)) - before)
            chosen = campaign.more() if left is None or left > 0 else None
            if chosen is None:
                break
            self._campaign(replace(campaign, trials=chosen)).run(stop, left)

    def submit(self, campaign: Campaign, limit: int | None = None) -> None:
        """Only submit."""
        self._campaign(campaign).run(Stop(), limit, detach=True)

    def _campaign(self, campaign: Campaign) -> SlurmCampaign:
        folder = StudyFolder(real(campaign.folder.root))  # jobs begin in another place
        partial = len(campaign.trials) < len(plan(campaign.study, campaign.own_code))
        return SlurmCampaign(
            campaign.study, campaign.trials, folder, self.settings, campaign.modules, campaign.observer, partial,
            campaign.own_code,
        )  # fmt: skip


EXECUTOR = SlurmExecutor
