"""All trials of a study in brief, whatever its size: what is cached is not read again, and times only as far as needed.

Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from steplab.core.errors import RecordError
from steplab.core.record import Record, parse_head, parse_record
from steplab.store import cache, records
from steplab.store.brief import Brief, counted
from steplab.store.paths import StudyFolder
from steplab.store.records import H, OutOfReach, Parse, Signature

LOOKED_THROUGH_BYTES = 1 << 26  # records that are read as a whole; of more than that, only the heads


@dataclass(frozen=True)
class Overview:
    """The records of a folder in brief, by trial."""

    signatures: Mapping[str, Signature]
    briefs: Mapping[str, Brief]
    damaged: Mapping[str, str]  # what has the name of a trial's record and is none, with a sentence
    unreachable: Mapping[str, str]  # what cannot be read, though it may be a record, with a sentence
    strangers: tuple[str, ...]  # a sentence on each file among the records that has not even the name of one
    unjudged: int  # of how many records only the head was read

    @property
    def problems(self) -> tuple[str, ...]:
        """A sentence on each file that was left out."""
        return (*self.damaged.values(), *self.unreachable.values(), *self.strangers)


def overview(
    folder: StudyFolder, brief: Callable[[Record], Brief] = counted, before: Overview | None = None
) -> Overview:
    """Look over the records of a folder; `brief` is made of those that are new to the cache, unless these are many.

    What was seen `before` is not read again.
    """
    listing = records.listing(folder)
    briefs = _known(folder, listing.records, before)
    fresh = sorted(listing.records.keys() - briefs.keys())
    few = sum(listing.records[trial].size for trial in fresh) <= LOOKED_THROUGH_BYTES
    damaged: dict[str, str] = {}
    unreachable: dict[str, str] = {}
    outcomes = _read(folder, fresh, parse_record, brief) if few else _read(folder, fresh, parse_head, counted)
    for trial, outcome in outcomes:
        if isinstance(outcome, RecordError):
            (unreachable if isinstance(outcome, OutOfReach) else damaged)[trial] = str(outcome)
        else:
            briefs[trial] = outcome
    return Overview(listing.records, briefs, damaged, unreachable, listing.strangers, 0 if few else len(fresh))


def _known(folder: StudyFolder, signatures: Mapping[str, Signature], before: Overview | None) -> dict[str, Brief]:
    """What need not be read: the records that were seen before, otherwise those that are cached."""
    if before is not None:
        seen = before.briefs.items()
        return {trial: brief for trial, brief in seen if signatures.get(trial) == before.signatures[trial]}
    return {trial: brief for segment in cache.segments(folder, signatures) for trial, brief in segment.briefs.items()}


def _read(
    folder: StudyFolder, trials: Sequence[str], parse: Parse[H], brief: Callable[[H], Brief]
) -> Iterator[tuple[str, Brief | RecordError]]:
    """Each record's brief, or what is wrong with it."""
    if not trials:
        return
    with folder.opened(folder.records) as place:
        for trial in trials:
            try:
                yield trial, brief(records.read_from(place, trial, parse))
            except RecordError as error:
                yield trial, error
