"""An adaptive study at work: from its records to the next batch of trials, again and again.

The state is the records. A batch that has begun is finished first; the next one is a function of all that was measured
before it, the study and its seed. Whoever kills the study and runs it again gets the same choices.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from steplab.api.measuring.budget import terms
from steplab.core.errors import StudyError
from steplab.core.record import Head
from steplab.core.trial import MEASURED, Config, trial_id
from steplab.design.plan import Plan
from steplab.planning.adaptive.chooser import Aim, Batch, Choice, Observed, next_batch, start_size
from steplab.planning.adaptive.space import Space
from steplab.store import records
from steplab.store.choices import ChosenBatch, read_batches, write_batch
from steplab.store.paths import StudyFolder
from steplab.store.tables import trials_frame
from steplab.study.sections import Study

BATCH = 4  # trials that are chosen together, if the study does not say
TOLERANCES = {"predict": 0.05, "scaling": 0.05, "best": 0.005, "compare": 0.05}
DIFFERENCE = 0.05
PER_SAMPLE = "t_sample"


def aim_of(study: Study) -> Aim:
    """What the study is for and may cost, defaults filled in."""
    design = study.design
    kind = design.aim or "predict"
    return Aim(
        kind=kind,
        tolerance=design.tolerance or TOLERANCES[kind],
        matters=design.difference or DIFFERENCE,
        trials=design.trials,
        minutes=design.minutes,
        batch=design.batch or BATCH,
        start=design.start,
        replicates=design.most_replicates,
        seed=design.seed,
    )


@dataclass(frozen=True)
class AdaptiveStudy:
    """A study whose trials are chosen on the way, and its folder."""

    study: Study
    trials: Plan  # all that it may choose from
    folder: StudyFolder

    @cached_property
    def space(self) -> Space:
        """The configurations to choose from."""
        space = Space(pd.DataFrame(list(self.trials.configurations)))
        if self.aim.kind == "scaling" and not space.workers:
            hint = "give several numbers of workers, or take aim 'predict'"
            raise StudyError("aim 'scaling' needs workers that vary", where=f"{self.study.path}, design", hint=hint)
        return space

    @cached_property
    def aim(self) -> Aim:
        """What the study is for."""
        return aim_of(self.study)

    def following(self) -> Batch:
        """What is to be measured now; nothing is written."""
        heads = self._heads()
        observed = self._observed(heads)
        begun = self._begun(heads, observed)
        return begun or next_batch(self.space, self.aim, observed)

    def next(self) -> Plan | None:
        """The trials to run now, noted in the folder; None if the study has ended."""
        batch = self.following()
        write_batch(self.folder, self._chosen(batch))
        if batch.ended:
            return None
        return self.trials.selected([self._id(choice.row, choice.replicate) for choice in batch.choices])

    def plan_of(self, batch: Batch) -> Plan:
        """The trials of a batch."""
        return self.trials.selected([self._id(choice.row, choice.replicate) for choice in batch.choices])

    @property
    def start(self) -> int:
        """Trials of the first block."""
        return start_size(self.space, self.aim)

    def _chosen(self, batch: Batch) -> ChosenBatch:
        """As the folder keeps it; a batch that has begun keeps the trials that are done."""
        whys = {self._id(choice.row, choice.replicate): choice.why for choice in batch.choices}
        before = next((b.trials for b in read_batches(self.folder) if b.batch == batch.number), {}) if whys else {}
        return ChosenBatch(
            batch=batch.number, why=batch.why, uncertainty=batch.uncertainty, trials={**before, **whys},
            terms=terms(self.study),
        )  # fmt: skip

    def _begun(self, heads: Mapping[str, Head], observed: list[Observed]) -> Batch | None:
        """What is left of a batch that was begun; by its file, or where that is lost, chosen again as it was."""
        kept = [batch for batch in read_batches(self.folder) if batch.trials]
        if kept:
            left = {trial: why for trial, why in kept[-1].trials.items() if trial not in heads}
            return self._rest(kept[-1], left)
        last = max((trial.batch for trial in observed), default=-1)
        if last < 0:
            return None
        again = next_batch(self.space, self.aim, [trial for trial in observed if trial.batch < last])
        return self._rest(self._chosen(again), {
            trial: why for trial, why in self._chosen(again).trials.items() if trial not in heads
        })  # fmt: skip

    def _rest(self, batch: ChosenBatch, left: Mapping[str, str]) -> Batch | None:
        numbered = (
            [(replicate, row, trial) for replicate, row, trial in self.trials.numbered() if trial in left]
            if left
            else []
        )
        choices = tuple(Choice(row, replicate, left[trial]) for replicate, row, trial in numbered)
        within = self.aim.trials is None or len(self._heads()) < self.aim.trials
        return Batch(batch.batch, choices, batch.why, batch.uncertainty) if choices and within else None

    def _heads(self) -> dict[str, Head]:
        done = sorted(records.done(self.folder))
        return {head.trial: head for head in records.read_heads(self.folder, done)} if done else {}

    def _observed(self, heads: Mapping[str, Head]) -> list[Observed]:
        """The trials of this space that have ended, in the order in which they began."""
        times = self._times() if any(head.status == MEASURED for head in heads.values()) else {}
        observed = []
        for head in sorted(heads.values(), key=lambda head: (head.started, head.trial)):
            row = self._rows.get(_key(head.config))
            if row is not None:
                batch = head.choice.batch if head.choice else -1
                time = times.get(head.trial, math.nan)
                log = math.log(time) if time > 0 else math.nan
                observed.append(Observed(row, head.replicate, log, max(head.seconds, 1e-3), batch))
        return observed

    def _times(self) -> dict[str, float]:
        """What is to be known of each trial: the time of an iteration, or of a sample."""
        frame = trials_frame(self.folder.root)
        target = self.study.design.target or (PER_SAMPLE if self.aim.kind == "best" else "t_iter")
        values = 1 / frame["throughput"] if target == PER_SAMPLE else frame["t_iter"]
        return dict(zip(frame["trial"], values.astype(float), strict=True))

    @cached_property
    def _rows(self) -> dict[tuple[tuple[str, object], ...], int]:
        return {_key(config): row for row, config in enumerate(self.trials.configurations)}

    def _id(self, row: int, replicate: int) -> str:
        return trial_id(self.trials.configurations[row], replicate)


def _key(config: Config) -> tuple[tuple[str, object], ...]:
    return tuple(sorted((name, repr(level)) for name, level in config.items()))
