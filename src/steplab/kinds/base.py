"""What a kind of trials is: its section of the study, what it cannot do, how it is directed, what it adds to tables.

What is common to all kinds is here, as the defaults of `TrialKind`; a kind's file says only what it does otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from steplab.core import catalogue, own_code
from steplab.core.framework import Framework
from steplab.core.measurement import Data, Measure, Section
from steplab.core.record import Record
from steplab.core.resolution import Resolved, graph_of
from steplab.core.trial import Level
from steplab.kinds.blocks import BlockDirector
from steplab.kinds.director import Director
from steplab_worker.graph import Graph

WARMUP_ITERATIONS = 15  # about as many as a trial takes to get warm

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Table:
    """A further table over the records: its columns, and each record's rows as objects with these attributes."""

    columns: Mapping[str, type[int] | type[float] | type[str]]
    rows: Callable[[Record], Sequence[object]]


@dataclass(frozen=True)
class TrialKind:
    """A kind of trials, with what a study declares of them."""

    name: ClassVar[str]  # of its file
    summary: ClassVar[str]  # what it tells, in a few words
    ability: ClassVar[str]  # what a framework must declare among its `kinds`
    learns: ClassVar[bool] = True  # whether weights change; ranks that only infer have nothing to exchange
    validates: ClassVar[bool] = False  # whether the test split is read, too
    fields: ClassVar[type[Section]] = Section  # of its own section of the study, which has its name
    free: ClassVar[frozenset[str]] = frozenset()  # the fields that may change from run to run into one folder
    starter: ClassVar[str] = ""  # its section in a starter study
    native_phases: ClassVar[tuple[str, ...]] = ()  # phases that native iterations tell already
    columns: ClassVar[tuple[str, ...]] = ()  # its own ones of `trials`
    tables: ClassVar[Mapping[str, Table]] = {}  # its own ones, by name

    measure: Measure
    data: Data
    section: Section

    @classmethod
    def has_section(cls) -> bool:
        """Whether a study can say something about it."""
        return bool(cls.fields.model_fields)

    @classmethod
    def shares_period(cls, strategy: str) -> bool:
        """Whether the ranks of a trial step together; asynchronous ranks and those that only infer do not."""
        return cls.learns and strategy != "ps-async"

    @classmethod
    def unsupported(cls, resolved: Resolved) -> str:
        """Why the framework cannot run the combination, or an empty string."""
        framework = catalogue.framework(resolved.framework)
        strategy = resolved.strategy.partition(":")[0]
        if cls.ability not in framework.kinds:
            return f"{framework.title} has no trials of kind {cls.name!r} here, only {', '.join(framework.kinds)}"
        if cls.learns and strategy not in framework.strategies:
            return f"{framework.title} has no strategy {strategy!r} here, only {', '.join(framework.strategies)}"
        if resolved.precision not in framework.precisions:
            known = ", ".join(framework.precisions)
            return f"{framework.title} has no precision {resolved.precision!r} here, only {known}"
        if resolved.recompute and (reason := _not_recomputed(framework, resolved, cls.learns)):
            return reason
        for refusal in framework.unsupported:
            if _matches(refusal.when, resolved, cls.ability):
                return f"{framework.title}: {refusal.because}"
        if refused := own_code_refused(resolved, cls.learns):
            return refused
        graph = graph_of(resolved)
        return "" if graph is None else cls.refused(resolved.network, graph) or _missing_layers(framework, graph)

    @classmethod
    def refused(cls, network: str, graph: Graph) -> str:
        """Why this kind of trials cannot be run with a network, in any framework; or an empty string."""
        return ""

    @classmethod
    def row(cls, record: Record) -> dict[str, Any]:
        """Its own columns of `trials`, for a record of this kind."""
        return {}

    @property
    def fixed(self) -> dict[str, object]:
        """What its section says that must not change between runs into one folder."""
        return self.section.model_dump(exclude=set(self.free))

    @property
    def deadlines(self) -> int:
        """How often a trial's deadline can be set, at most."""
        return 1

    def iterations(self, resolved: Resolved) -> int:
        """About how many iterations a trial takes, for a guess at its time."""
        return self.warmup_iterations + self.measure.iterations * (2 if self.measure.phases else 1)

    @property
    def warmup_iterations(self) -> int:
        """How many iterations come first: as many as the study says, or about as many as it usually takes."""
        return WARMUP_ITERATIONS if self.measure.warmup == "auto" else self.measure.warmup

    def job_part(self, resolved: Resolved, samples: int | None, checkpoints: Path) -> dict[str, Level]:
        """What only ranks of this kind are told: the size of the training split, if files are read, and a folder."""
        return {}

    def director(self, resolved: Resolved, tell: Tell) -> Director:
        """Who directs a trial; `tell` takes news of it for whoever waits."""
        return BlockDirector(self.measure, resolved.accumulate, self.shares_period(resolved.strategy))


def own_code_refused(resolved: Resolved, learns: bool) -> str:
    """Why code of one's own cannot be run with a framework and a strategy, or an empty string."""
    for what, level in (("network", resolved.network), ("data set", resolved.dataset)):
        if own_code.is_own(level) and (able := own_code.runs_in(level)) != resolved.framework:
            owned = "an ONNX file" if own_code.is_file(level) else f"a {what} of one's own"
            return f"{owned} runs in {catalogue.framework(able).title} only"
    if learns and resolved.strategy == "sharded" and own_code.is_own(resolved.network):
        return "which blocks a network of one's own has is not known, so its parameters are not sharded"
    if learns and resolved.framework_options.get("step") and resolved.accumulate > 1:
        return "a training step of one's own updates the weights itself, so steps cannot be accumulated"
    if learns and resolved.framework_options.get("step") and resolved.precision == "float16":
        return "a training step of one's own does not scale its loss, which float16 needs"
    return ""


def _not_recomputed(framework: Framework, resolved: Resolved, learns: bool) -> str:
    """Why no block can run forward again in backward, or an empty string."""
    if not learns:
        return "an inference keeps nothing for backward, so there is nothing to recompute"
    if not framework.recomputes:
        return f"{framework.title} recomputes no blocks here, only {' and '.join(_recomputing())} do"
    if own_code.is_own(resolved.network):
        return "which blocks a network of one's own has is not known: it can recompute them itself"
    graph = graph_of(resolved)
    return "" if graph is None or graph.has_blocks else f"{resolved.network} has no blocks that could be recomputed"


def _recomputing() -> list[str]:
    frameworks = map(catalogue.framework, catalogue.framework_names())
    return [framework.title for framework in frameworks if framework.recomputes]


def _missing_layers(framework: Framework, graph: Graph) -> str:
    used = {layer.kind for layer in graph.layers}
    missing = used - set(framework.layers) if framework.layers else set()
    return f"{framework.title} has no layer of kind {', '.join(sorted(missing))} here" if missing else ""


def _matches(when: Mapping[str, tuple[Level, ...]], resolved: Resolved, ability: str) -> bool:
    have: dict[str, Level] = {
        **resolved.framework_options,
        "kind": ability,
        "network": resolved.network,
        "optimizer": resolved.optimizer,
        "precision": resolved.precision,
        "strategy": resolved.strategy.partition(":")[0],
        "workers": "several" if resolved.workers > 1 else "one",
        "nodes": "several" if resolved.nodes > 1 else "one",
        "device": resolved.device,
        "recompute": resolved.recompute,
    }
    return all(have[name] in values for name, values in when.items())
