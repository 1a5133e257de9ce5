"""The analytical model of synchronous data-parallel training: phases of an iteration, added or overlapped.

t_iter = t_io + t_h2d + t_md + max_i(t_f + t_b + t_c) + t_u, with I/O overlapped max(t_io + t_h2d + t_md, the
rest), with communication overlapped max(t_b, t_c) in place of their sum (MMU thesis, chapter 3). Each phase is a line
in the batch per worker; aggregation has a latency and a bandwidth share of a ring, (N − 1) and (N − 1)/N.

Where waiting for the slowest rank is known apart (`t_wait`), it is never hidden, only the rest of t_c is: a rank waits
when it has nothing left to compute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy.optimize import nnls

from steplab.core.errors import ModelError, NotEnoughData, allowed
from steplab.models.base import Array, Parameter, PerformanceModel, numbers
from steplab.models.columns.meaning import BATCH, GLOBAL_BATCH, WORKERS, plain
from steplab.models.columns.roles import Names
from steplab.models.formulas.formula import Formula, Node, column, number, op
from steplab.models.formulas.step_composition import OVERLAPS, composed
from steplab.models.refusals import Possible
from steplab_worker.phases import EXCHANGE, ITERATION, LAYERED, PHASES

OFFERED = {"auto": 15, "compare": 0, "report": 30}
LAWS = (*PHASES, "t_wait")  # waiting has a law of its own; t_c is then what is left of it
ALIKE = (0.3, 1.2)  # a step's time over the sum of its phases
# What a phase depends on: 1, batch b, b/N where the batch is that of all workers, b·N where one process
# serves all workers, latency N − 1, bandwidth (N − 1)/N, 1 or b with several workers.
REGRESSORS = {
    "t_io": ("one", "b", "bN"), "t_h2d": ("one", "b", "b/N"), "t_md": ("many", "bN"),
    "t_f": ("one", "b", "b/N"), "t_b": ("one", "b", "b/N"), "t_c": ("latency", "bandwidth"), "t_u": ("one",),
    "t_wait": ("many", "latency", "b many"),
    "t_rest": ("one", "b", "b/N", "bN"),
}  # fmt: skip


# How a table calls them: what the parameter is multiplied by.
FACTORS = {
    "one": "1", "b": "batch", "bN": "batch·N", "b/N": "batch/N", "many": "[N > 1]", "b many": "batch·[N > 1]",
    "latency": "N − 1", "bandwidth": "(N − 1)/N",
}  # fmt: skip


def _regressor(name: str, b: Array, n: Array) -> Array:
    regressors = {
        "one": np.ones(len(b)), "many": (n > 1).astype(float), "b": b, "bN": b * n, "b/N": b / n,
        "latency": n - 1, "bandwidth": (n - 1) / n, "b many": b * (n > 1),
    }  # fmt: skip
    return np.asarray(regressors[name])


def _alike(whole: Any, y: Array) -> bool:
    """Whether a target of another name is a step's time: about what its phases add up to, overlapped or not."""
    low, high = ALIKE
    return bool(low * np.median(whole) <= np.median(y) <= high * np.median(whole))


class SSGD(PerformanceModel):
    """The S-SGD model: `batch` and `workers` name columns; where they are not there, usual names are recognised.

    Combinations of categories have their own laws.

    Where the table has phase columns (`t_io` … `t_u`) and the target is what they make up, every phase is fitted by
    itself and `overlap` is one of none, io, communication, both, or `auto`: whichever explains the target best. Without
    them the target is one line plus the aggregation. Other numeric columns are not part of this model.
    """

    fit_columns: ClassVar[tuple[str, ...]] = LAWS
    ignores_columns: ClassVar[str] = "numeric columns other than batch and workers are not part of it"
    without_formula: ClassVar[str] = "each combination of levels has laws of its own"
    array_options: ClassVar[Mapping[str, Any]] = {"batch": "x0"}
    possible_options: ClassVar[Possible] = {"overlap": (*OVERLAPS, "auto")}

    laws_: dict[str, dict[str, Array]]
    overlap_: str

    def __init__(
        self, intrinsic: Names = (), categorical: Names = (), extrinsic: Names = (),
        batch: str = "batch_size", workers: str = "workers", overlap: str = "auto",
    ) -> None:  # fmt: skip
        super().__init__(intrinsic, categorical, extrinsic)
        self.batch, self.workers, self.overlap = batch, workers, overlap

    def _axes(self, frame: pd.DataFrame) -> tuple[Array, Array]:
        """Batch per worker and number of workers; a missing one counts as 1."""
        batch, workers = self._columns()
        if not (batch or workers):
            what = f"the ssgd model needs column {self.workers!r} or {self.batch!r}"
            raise ModelError(what, hint="name yours with the options `workers` and `batch`")
        b, n = (frame[c].to_numpy(float) if c else np.ones(len(frame)) for c in (batch, workers))
        if (n < 1).any():
            raise ModelError(f"column {workers!r} holds numbers below 1", hint="it counts workers")
        return b, n

    def _columns(self) -> tuple[str, str]:
        """The columns of the batch and of the workers: as told, else by their usual names; empty if there is none."""
        known = (self.batch, BATCH | GLOBAL_BATCH), (self.workers, WORKERS)
        batch, workers = (_named(told, usual, self.roles_.numeric) for told, usual in known)
        return batch, workers

    def _cases(self, frame: pd.DataFrame) -> Array:
        """The combination of categories of each row, as text."""
        names = [frame[c].tolist() for c in self.roles_.categorical]
        cases = ["|".join(row) for row in zip(*names, strict=True)] if names else [""] * len(frame)
        # Plain text: NumPy's own strings cannot be keys of a saved document.
        return np.array(cases, dtype=object)

    def _fit(self, frame: pd.DataFrame, y: Array, groups: Array | None) -> None:
        for option, usual in (("batch", "batch_size"), ("workers", "workers")):
            if getattr(self, option) not in (usual, *self.roles_.numeric):
                what = f"there is no column {getattr(self, option)!r}"
                raise ModelError(what, where=f"option {option}", hint=allowed(self.roles_.numeric))
        measured = self._measured(frame, y)
        b, n = self._axes(frame)
        cases = self._cases(frame)
        self.laws_ = {"": _laws(measured, b, n)}
        for case in sorted(set(cases) - {""}):
            rows = cases == case
            if rows.sum() >= 3:
                self.laws_[case] = _laws({k: v[rows] for k, v in measured.items()}, b[rows], n[rows])
        self.overlap_ = self._best_overlap(frame, y)

    def _measured(self, frame: pd.DataFrame, y: Array) -> dict[str, Array]:
        """Phases where the table has all of them and they make up the target, otherwise the target as the only one."""
        have = [c for c in LAWS if c in frame.columns and np.isfinite(frame[c].to_numpy(float)).all()]
        if {*LAYERED, EXCHANGE} <= set(have):
            zero = np.zeros(len(y))
            phases = {c: frame[c].to_numpy(float) if c in have else zero for c in LAWS}
            if self.target_ == ITERATION or (self.target_ not in LAWS and _alike(sum(phases[c] for c in PHASES), y)):
                return phases | {"t_c": np.maximum(phases["t_c"] - phases["t_wait"], 0.0)}
        return {"total": y}

    def _best_overlap(self, frame: pd.DataFrame, y: Array) -> str:
        if "t_rest" in self.laws_[""]:
            return "none"
        choices = OVERLAPS if self.overlap == "auto" else (self.overlap,)

        def error(overlap: str) -> float:
            self.overlap_ = overlap
            return float(np.mean(np.abs(self._predict(frame) - y)))

        return min(choices, key=error)

    def _predict(self, frame: pd.DataFrame) -> Array:
        b, n = self._axes(frame)
        cases, times = self._cases(frame), np.empty(len(frame))
        for case in set(cases.tolist()):
            rows = cases == case
            laws = self.laws_.get(case, self.laws_[""])
            times[rows] = composed(_evaluated(laws, b[rows], n[rows]), self.overlap_)
        return times

    def formula(self) -> Formula | None:
        """The composed laws; with several combinations of categories there is no single formula."""
        if len(self.laws_) > 1:
            return None
        parts = {phase: self._law_node(phase, coef) for phase, coef in self.laws_[""].items()}
        return Formula(_composed_node(parts, self.overlap_))

    def _law_node(self, phase: str, coef: Array) -> Node:
        terms = [op("mul", number(a), *self._regressor_nodes(name))
                 for name, a in zip(REGRESSORS[phase], coef, strict=True) if a]  # fmt: skip
        return op("add", *terms) if terms else number(0)

    def _regressor_nodes(self, name: str) -> list[Node]:
        b, n = (column(name) if name else number(1) for name in self._columns())
        rest = op("sub", n, number(1))
        regressors = {
            "one": [], "b": [b], "bN": [b, n], "b/N": [op("div", b, n)],
            "latency": [rest], "bandwidth": [op("div", rest, n)], "many": [op("min", rest, number(1))],
            "b many": [b, op("min", rest, number(1))],
        }  # fmt: skip
        return regressors[name]

    def parameters(self) -> list[Parameter]:
        """The coefficients of every phase, in seconds per unit of what each is multiplied by."""
        return [
            Parameter(f"{phase}{'' if not case else f'[{case}]'}", FACTORS[name], float(value))
            for case, laws in self.laws_.items() if case or len(self.laws_) == 1
            for phase, coef in laws.items() for name, value in zip(REGRESSORS[phase], coef, strict=True)
        ]  # fmt: skip

    def _state(self) -> dict[str, Any]:
        laws = {case: {phase: coef.tolist() for phase, coef in own.items()} for case, own in self.laws_.items()}
        return {"laws": laws, "overlap": self.overlap_}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.laws_ = {
            str(case): {phase: numbers(coef, len(REGRESSORS[phase])) for phase, coef in own.items()}
            for case, own in state["laws"].items()
        }
        for own in self.laws_.values():  # files of before do not know waiting apart
            if "t_rest" not in own:
                own.setdefault("t_wait", np.zeros(len(REGRESSORS["t_wait"])))
        complete = ({"t_rest", "t_c"}, set(LAWS))
        if "" not in self.laws_ or not all(set(own) in complete for own in self.laws_.values()):
            raise ValueError("the laws are incomplete")
        if state["overlap"] not in OVERLAPS:
            raise ValueError("the overlap is unknown")
        self.overlap_ = state["overlap"]


def _named(told: str, usual: frozenset[str], columns: Sequence[str]) -> str:
    return told if told in columns else next((c for c in columns if plain(c) in usual), "")


def _composed_node(parts: Mapping[str, Node], overlap: str) -> Node:
    if "t_rest" in parts:
        return _added(parts["t_rest"], parts["t_c"])
    loading = _added(parts["t_io"], parts["t_h2d"], parts["t_md"])
    hidden = overlap in ("communication", "both")
    back = op("max", parts["t_b"], parts["t_c"]) if hidden else _added(parts["t_b"], parts["t_c"])
    working = _added(parts["t_f"], parts["t_wait"], back, parts["t_u"])
    return op("max", loading, working) if overlap in ("io", "both") else _added(loading, working)


def _added(*parts: Node) -> Node:
    """The sum of what is not nothing."""
    something = [part for part in parts if part != number(0)]
    return op("add", *something) if something else number(0)


def _evaluated(laws: Mapping[str, Array], b: Array, n: Array) -> dict[str, Array]:
    return {
        phase: np.column_stack([_regressor(name, b, n) for name in REGRESSORS[phase]]) @ coef
        for phase, coef in laws.items()
    }


def _laws(measured: Mapping[str, Array], b: Array, n: Array) -> dict[str, Array]:
    """Non-negative coefficients of every phase; relative errors count, as phases span decades."""
    if "total" not in measured:
        return {phase: _law(REGRESSORS[phase], t, b, n) for phase, t in measured.items()}
    names = REGRESSORS["t_rest"] + REGRESSORS["t_c"]
    coef = _law(names, measured["total"], b, n)
    split = len(REGRESSORS["t_rest"])
    return {"t_rest": coef[:split], "t_c": coef[split:]}


def _law(names: Sequence[str], t: Array, b: Array, n: Array) -> Array:
    matrix = np.column_stack([_regressor(name, b, n) for name in names])
    if len(t) < 3:
        raise NotEnoughData(f"a phase needs at least 3 rows and has {len(t)}")
    floor = 0.05 * float(np.median(np.abs(t))) or float(np.max(np.abs(t))) or 1.0
    weight = 1 / np.maximum(np.abs(t), floor)
    norms = np.sqrt(((matrix * weight[:, None]) ** 2).sum(axis=0))
    norms[norms == 0] = 1.0
    return np.asarray(nnls(matrix * weight[:, None] / norms, t * weight)[0] / norms)


MODEL = SSGD
