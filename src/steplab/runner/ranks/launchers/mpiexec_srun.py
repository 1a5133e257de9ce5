"""All ranks are one MPI job over the nodes of a Slurm allocation."""

from __future__ import annotations

from steplab.runner.ranks.launchers.srun import SrunLauncher
from steplab.runner.ranks.mpi_elsewhere import MpiJob


class MpiexecSrunLauncher(MpiJob, SrunLauncher):
    """Starts Open MPI's daemons by `srun`, as steps of the allocation."""


LAUNCHER = MpiexecSrunLauncher
