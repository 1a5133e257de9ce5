"""The settings of executors, `[executor.NAME]` in a study or in the user's profile file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from steplab.core.measurement import Section
from steplab.study.slurm_settings import SlurmSettings

# What `ssh` takes for a destination, and never for an option.
HostName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@:-]{0,252}$")]


class HostsSettings(Section):
    """[executor.hosts]: machines that `ssh` reaches without a password."""

    names: list[HostName] = Field(default=[])  # as `ssh` knows them; the first holds rank 0


SETTINGS: Mapping[str, type[Section]] = {"hosts": HostsSettings, "slurm": SlurmSettings}


def merged(kind: type[Section], profile: Section | None, study: Section | None) -> Section:
    """The settings of an executor: what the study says, else what the profile says, else the defaults."""
    fields: dict[str, object] = {}
    for settings in (profile, study):
        fields |= settings.model_dump(exclude_unset=True) if settings else {}
    return kind.model_validate(fields)
