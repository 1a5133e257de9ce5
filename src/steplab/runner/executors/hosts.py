"""Trials run on a few hosts that `ssh` reaches, named in `[executor.hosts]`; no scheduler, no shared folder needed."""

from __future__ import annotations

from dataclasses import replace

from steplab.core import catalogue
from steplab.core.errors import InputError
from steplab.core.home import profile_file
from steplab.design.plan import Plan
from steplab.runner.campaign import Campaign
from steplab.runner.environments import registry
from steplab.runner.executors import settings
from steplab.runner.interrupts import Stop
from steplab.runner.jobs import GROUP_FACTORS, hosts_wanted
from steplab.runner.ssh_hosts import SshHosts
from steplab.study.executors import HostsSettings
from steplab.study.sections import Study


class HostsExecutor:
    """Runs a campaign in this process, with its ranks on other hosts."""

    def __init__(self, study: Study) -> None:
        own = settings(study, "hosts")
        assert isinstance(own, HostsSettings)
        self.study, self.names = study, own.names
        self._hosts: SshHosts | None = None

    def check(self, trials: Plan) -> None:
        """Every host is there, is another one, and has what the trials need."""
        if not self.names:
            hint = f"write names = ['a', 'b'] into [executor.hosts] of the study or of {profile_file()}"
            raise InputError("the executor 'hosts' knows no hosts", where=str(self.study.path), hint=hint)
        wanted = hosts_wanted(trials)
        if elsewhere := next((placement for placement, _ in wanted if placement), ""):
            hint = "leave placement out, or use --executor local"
            raise InputError(f"{elsewhere} is on this machine, not on other hosts", hint=hint)
        self._hosts = self._of(trials)
        self._hosts.check(max(nodes for _, nodes in wanted))

    def run(self, campaign: Campaign, stop: Stop, limit: int | None = None) -> None:
        """Run it here; the ranks are there."""
        hosts = self._hosts or self._of(campaign.trials)
        replace(campaign, cluster=hosts).run(stop, limit)

    def _of(self, trials: Plan) -> SshHosts:
        """The hosts with what these trials need there."""
        rows = trials.configurations.distinct(GROUP_FACTORS).first
        needed = {(resolved.framework, resolved.environment) for resolved in map(trials.resolved, map(int, rows))}
        environments = [registry.find(framework, name) for framework, name in sorted(needed)]
        pythons = {environment.name: str(environment.python) for environment in environments}
        launchers = {catalogue.framework(framework).launcher for framework, _ in needed}
        return SshHosts(self.names, pythons, ["orted"] if "mpiexec" in launchers else [])


EXECUTOR = HostsExecutor
