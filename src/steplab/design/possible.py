"""Which configurations a study may run: none of its rules excludes them, and some framework could run them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from steplab.core.resolution import impossible
from steplab.design.configurations import Configurations
from steplab.study.sections import Study


@dataclass(frozen=True)
class Possible:
    """The study's own answer, for many configurations at once."""

    study: Study

    def __call__(self, configurations: Configurations) -> npt.NDArray[np.bool_]:
        """Where a configuration may run."""
        applied = configurations.applied()
        bad = applied.where(self.study.deciding, lambda config: bool(impossible(config)))
        return ~(bad | configurations.excluded(self.study.exclude))
