"""All ranks are one MPI job over hosts that the system's `ssh` reaches."""

from __future__ import annotations

from steplab.runner.ranks.launchers.ssh import SshLauncher
from steplab.runner.ranks.mpi_elsewhere import MpiJob


class MpiexecSshLauncher(MpiJob, SshLauncher):
    """Starts Open MPI's daemons through `ssh`."""


LAUNCHER = MpiexecSshLauncher
