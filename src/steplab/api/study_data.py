"""What the parts of the API need of an opened study."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from steplab.store.tables import Tables
    from steplab.study.sections import Study


class StudyData(Protocol):
    """A study's folder, its declaration and its tables; `Results` is one."""

    @property
    def folder(self) -> Path:
        """The study's folder."""

    @property
    def study(self) -> Study:
        """The study, as it was declared."""

    @property
    def tables(self) -> Tables:
        """Its tables."""
