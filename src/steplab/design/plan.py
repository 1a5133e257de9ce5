"""The plan of a study: its trials in the order in which they run, each made when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np

from steplab.core.errors import StudyError
from steplab.core.own_code import FACTORS, NO_CODE, CodeUse, OwnCode, code_use
from steplab.core.resolution import Resolved, impossible, resolve
from steplab.core.trial import Trial, describe
from steplab.design.configurations import Configurations
from steplab.design.order import Blocks, Chosen, Order
from steplab.design.possible import Possible
from steplab.study.sections import Design, Study

CODE_FACTORS = ("framework", "environment", *FACTORS)  # they decide which code of one's own a trial runs


@dataclass(frozen=True)
class PlannedTrial(Trial):
    """A trial of a plan, with its configuration resolved: once, when it is first asked for."""

    @cached_property
    def resolved(self) -> Resolved:
        """The configuration with every default filled in."""
        return resolve(self.config)


@dataclass(frozen=True)
class Plan(Sequence[PlannedTrial]):
    """The trials of a study, or some of them: how many there are is known, which ones is found out when needed."""

    configurations: Configurations
    order: Order
    note: str = ""  # what a person should know about it

    def __len__(self) -> int:
        return sum(map(self.order.size, range(self.order.replicates)))

    @overload
    def __getitem__(self, at: int) -> PlannedTrial: ...
    @overload
    def __getitem__(self, at: slice) -> list[PlannedTrial]: ...
    def __getitem__(self, at: int | slice) -> PlannedTrial | list[PlannedTrial]:
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(len(self)))]
        number = range(len(self))[at]
        for replicate in range(self.order.replicates):
            if number < self.order.size(replicate):
                return PlannedTrial(self.configurations[int(self.order.rows(replicate)[number])], replicate)
            number -= self.order.size(replicate)
        raise IndexError(at)

    def __iter__(self) -> Iterator[PlannedTrial]:
        for replicate in range(self.order.replicates):
            for row in self.order.rows(replicate):
                yield PlannedTrial(self.configurations[int(row)], replicate)

    def ids(self) -> Iterator[str]:
        """The ids of all trials, faster than from the trials themselves."""
        for _, _, trial in self.numbered():
            yield trial

    def among(self, ids: Collection[str]) -> set[str]:
        """Those of these ids that belong to the plan; ends when all are found."""
        wanted, trials = set(ids), set[str]()
        for trial in self.ids() if wanted else ():
            if trial in wanted:
                trials.add(trial)
                if len(trials) == len(wanted):
                    break
        return trials

    def without(self, ids: Collection[str]) -> Iterator[PlannedTrial]:
        """The trials of other ids than these, in their order."""
        for replicate, row, trial in self.numbered():
            if trial not in ids:
                yield self.planned(replicate, row)

    def planned(self, replicate: int, row: int) -> PlannedTrial:
        """The trial of that replicate and row, as `numbered` tells them."""
        return PlannedTrial(self.configurations[row], replicate)

    def selected(self, ids: Collection[str]) -> Plan:
        """The part of the plan that has these ids."""
        wanted = set(ids)
        rows: dict[int, list[int]] = {}
        for replicate, row, trial in self.numbered():
            if trial in wanted:
                rows.setdefault(replicate, []).append(row)
                wanted.discard(trial)
                if not wanted:
                    break
        kept = np.unique(np.array([row for block in rows.values() for row in block], np.intp))
        blocks = {replicate: np.searchsorted(kept, block) for replicate, block in rows.items()}
        return Plan(self.configurations.take(kept), Chosen(blocks, self.order.replicates), self.note)

    def code_uses(self) -> list[CodeUse]:
        """The different ways in which trials use code of one's own."""
        rows = self.configurations.distinct(CODE_FACTORS).first
        uses = [code_use(self.configurations[int(row)]) for row in np.sort(rows)]
        return list(dict.fromkeys(use for use in uses if use is not None))

    def resolved(self, row: int) -> Resolved:
        """The configuration in that row, resolved."""
        return resolve(self.configurations[row])

    def numbered(self) -> Iterator[tuple[int, int, str]]:
        """Replicate, row and id of every trial."""
        for replicate in range(self.order.replicates):
            rows = self.order.rows(replicate)
            for row, trial in zip(rows, self.configurations.ids(rows, replicate), strict=True):
                yield replicate, int(row), trial


def plan(study: Study, own_code: OwnCode = NO_CODE) -> Plan:
    """All trials, of an adaptive design all that it may choose from.

    Each replicate is a block that holds every configuration once, in its own random order.

    Code of the study's own is part of its trials once it has been examined.
    """
    if study.imported:
        what = f"was imported ({study.imported.format}): its times were measured elsewhere, so there is nothing to run"
        raise StudyError(what, where=str(study.path), hint="`steplab analyze` and `steplab report` read its folder")
    design = importlib.import_module(f"steplab.design.{study.design.type}")
    rng = np.random.default_rng([study.design.seed, 0])
    drawn: Configurations = design.configurations(study, rng, Possible(study))
    allowed = drawn.take(~drawn.excluded(study.exclude)) if study.exclude else drawn
    kept = allowed.applied()
    if kept is not allowed:
        kept = kept.different()
    if own_code.identities:
        kept = kept.extended(CODE_FACTORS, own_code.entries)
    _check(study, kept)
    together = study.design.together
    plots = kept.distinct(together).which if together else None
    order = Blocks(len(kept), study.design, _replicates(study.design), plots)
    return Plan(kept, order, _shortage(study, len(drawn), len(kept)))


def _replicates(design: Design) -> int:
    """Blocks of a design; an adaptive one has as many as it may choose from."""
    return design.most_replicates if design.type == "adaptive" else design.replicates


def _shortage(study: Study, drawn: int, kept: int) -> str:
    """A word on a draw that gives fewer configurations than were asked for."""
    n = study.design.n or 0
    asked = f"{study.path}, design.n: {n:,} different configurations were asked for"
    if drawn < n:
        return f"{asked}, but only {drawn:,} can be drawn"
    if kept < n:
        why = "the others are excluded, or equal without the factors that their framework or network does not know"
        return f"{asked}, {kept:,} are planned: {why}"
    return ""


def _check(study: Study, configurations: Configurations) -> None:
    """Nothing to run, or a combination that nothing could run, is the study's mistake."""
    if not len(configurations):
        raise StudyError("no configuration is left to run", where=str(study.path), hint="loosen [[exclude]] or levels")
    alike = configurations.distinct(study.deciding)
    reasons = [(int(row), impossible(configurations[int(row)])) for row in alike.first]
    bad = np.array([bool(reason) for _, reason in reasons])
    if bad.any():
        row, reason = min(pair for pair in reasons if pair[1])
        others = int(alike.counts[bad].sum()) - 1
        more = f" (and {others} more such combinations)" if others else ""
        what = f"impossible: {describe(configurations[row])}: {reason}{more}"
        hint = "leave it out with an [[exclude]] rule or change a level"
        raise StudyError(what, where=f"{study.path}, factors", hint=hint)
