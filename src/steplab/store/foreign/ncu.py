"""Nsight Compute's CSV: kernels with their FLOPs, bytes and time, from whatever counters the file holds.

Two layouts are read: `ncu --csv --page raw` (a row per kernel, a column per metric, a row of units below the names) and
`ncu --csv` (a row per kernel and metric). Every floating-point instruction counts: an addition or a multiplication is
1 FLOP, a fused multiply-add 2, matrix instructions what the counters of operations say. Counters that are missing are
named: then the FLOPs are a lower bound. (Weights: NVIDIA, Nsight Compute documentation, roofline sections; C. Yang,
T. Kurth, S. Williams, "Hierarchical roofline analysis for GPUs", CCPE 32(20), 2020: 512 for a matrix instruction.)
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from steplab.core.errors import TableError
from steplab.core.files import read_regular
from steplab.core.parsing import parsing

MAX_BYTES = 128 << 20  # in memory ten times as much
MOST_NUMBERS = 1e30  # a counter beyond that was not counted
INSTRUCTIONS = {
    "fadd": 1, "fmul": 1, "ffma": 2, "hadd": 1, "hmul": 1, "hfma": 2, "dadd": 1, "dmul": 1, "dfma": 2,
}  # fmt: skip
TENSOR_FLOPS = 512  # of one matrix instruction of a warp on V100; later generations do more
_INSTRUCTION = re.compile(
    r"^sms?p?__sass_thread_inst_executed_op_([fhd](?:add|mul|fma))(?:_pred_on)?\.sum(\.per_cycle_elapsed)?$"
)
_TENSOR_OPS = re.compile(r"^sm__ops_path_tensor_src_(\w+?)(_sparsity_o(?:n|ff))?\.sum$")
_TENSOR_INSTRUCTIONS = re.compile(r"^sms?p?__inst_executed_pipe_tensor(\w*)\.sum$")
_PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_TIMES = {
    "second": 1.0,
    "msecond": 1e-3,
    "usecond": 1e-6,
    "nsecond": 1e-9,
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "ns": 1e-9,
}
_TIMES |= {"sec": 1.0, "minute": 60.0, "min": 60.0, "µs": 1e-6}


@dataclass(frozen=True)
class Kernel:
    """One launch of a kernel: FLOPs, bytes that main memory moved, seconds; none where the file does not say."""

    name: str
    flops: float
    dram_bytes: float | None
    l2_bytes: float | None
    l1_bytes: float | None
    seconds: float | None
    tensor_flops: float = 0.0


@dataclass(frozen=True)
class Profile:
    """The kernels of a file, and what must be known before its FLOPs are believed."""

    kernels: tuple[Kernel, ...]
    notes: tuple[str, ...]


Metrics = Mapping[str, float]  # in base units: bytes, seconds, plain counts


def read_ncu(path: Path, tensor_flops: int = TENSOR_FLOPS) -> Profile:
    """The kernels of a CSV file that Nsight Compute wrote."""
    rows = _rows(path)
    at = next((i for i, row in enumerate(rows) if "Kernel Name" in row), None)
    if at is None:
        hint = "write it with `ncu --csv --page raw`, or import the report with `ncu --import FILE --csv`"
        raise TableError(
            "there is no column 'Kernel Name': this is no CSV of Nsight Compute", where=str(path), hint=hint
        )
    header, body = rows[at], rows[at + 1 :]
    launches = _long(header, body) if "Metric Name" in header else _wide(header, body)
    if not launches:
        raise TableError("holds no kernel", where=str(path))
    seen = {name: any(metrics.get(name) for _, metrics in launches) for _, some in launches for name in some}
    kernels = tuple(_kernel(name, metrics, tensor_flops) for name, metrics in launches)
    return Profile(kernels, tuple(_notes(seen, kernels, tensor_flops)))


def _rows(path: Path) -> list[list[str]]:
    with parsing("is not CSV", str(path), TableError):
        text = read_regular(path, MAX_BYTES).decode("utf-8-sig", errors="replace").replace("\0", "")
        # What the profiled program printed, and ncu's own messages, stand between the rows.
        lines = [line for line in text.splitlines() if not line.startswith("==")]
        return [[cell.strip() for cell in row] for row in csv.reader(lines) if row]


def _wide(header: Sequence[str], body: Sequence[Sequence[str]]) -> list[tuple[str, Metrics]]:
    """One row per launch; the row of units is the one without an ID and a kernel's name."""
    name = header.index("Kernel Name")
    units = next((row for row in body[:1] if len(row) > name and not row[name]), [""] * len(header))
    kernels = []
    for row in body:
        if len(row) > name and row[name]:
            cells = zip(header, units, row, strict=False)
            kernels.append(
                (row[name], _metrics((metric, unit, text) for metric, unit, text in cells if "__" in metric))
            )
    return kernels


def _long(header: Sequence[str], body: Sequence[Sequence[str]]) -> list[tuple[str, Metrics]]:
    """One row per launch and metric; launches are told apart by ID, name and process."""
    place = {name: at for at, name in enumerate(header)}
    wanted = [place[name] for name in ("Metric Name", "Metric Unit", "Metric Value") if name in place]
    if len(wanted) < 3:
        return []
    keys = [place[name] for name in ("ID", "Process ID", "Kernel Name") if name in place]
    launches: dict[tuple[str, ...], list[tuple[str, str, str]]] = {}
    for row in body:
        if len(row) > max(*wanted, *keys) and row[place["Kernel Name"]]:
            cells = tuple(row[at] for at in wanted)
            launches.setdefault(tuple(row[at] for at in keys), []).append((cells[0], cells[1], cells[2]))
    return [(key[-1], _metrics(cells)) for key, cells in launches.items()]


def _metrics(cells: Iterable[tuple[str, str, str]]) -> Metrics:
    values = {metric: _value(text, unit) for metric, unit, text in cells}
    return {metric: value for metric, value in values.items() if value is not None}


def _value(text: str, unit: str) -> float | None:
    """A number with its unit in base units; none if it is no number, or cannot be one of a counter.

    >>> _value("1,234.5", "Kbyte"), _value("12", "usecond"), _value("n/a", "inst")
    (1234500.0, 1.2e-05, None)
    """
    try:
        number = float(text.replace(",", "").replace(" ", ""))
    except ValueError:
        return None
    scaled = number * _scale(unit.strip())
    return scaled if 0.0 <= scaled < MOST_NUMBERS else None


def _scale(unit: str) -> float:
    """What a unit is worth; Nsight Compute's prefixes are decimal."""
    unit, _, per = unit.lower().partition("/")
    if per:
        return _scale(unit) / _TIMES.get(per, 1.0)
    if unit in _TIMES:
        return _TIMES[unit]
    match = re.fullmatch(r"([kmgt]?)(?:byte|bytes|b|hz|inst|cycle|block)?", unit)
    return _PREFIXES[match.group(1)] if match else 1.0


def _kernel(name: str, metrics: Metrics, tensor_flops: int) -> Kernel:
    seconds = _first(metrics, "gpu__time_duration.sum", "gpu__time_duration.avg", "gpu__time_active.avg")
    cycles = _first(metrics, "smsp__cycles_elapsed.avg.per_second", "sm__cycles_elapsed.avg.per_second")
    counted = _instructions(metrics, (seconds or 0.0) * (cycles or 0.0))
    plain = sum(INSTRUCTIONS[op] * value for op, value in counted.items())
    matrix = _tensor(metrics, tensor_flops)
    levels = [_bytes(metrics, start, seconds) for start in ("dram__bytes", "lts__t_bytes", "l1tex__t_bytes")]
    return Kernel(name, plain + matrix, levels[0], levels[1], levels[2], seconds or None, matrix)


def _first(metrics: Metrics, *names: str) -> float | None:
    return next((metrics[name] for name in names if name in metrics), None)


def _instructions(metrics: Metrics, cycles: float) -> dict[str, float]:
    """Thread instructions by operation; the same count under two names (per SM, per partition) counts once."""
    counts: dict[str, float] = {}
    for metric, value in metrics.items():
        match = _INSTRUCTION.match(metric)
        if match:
            count = value * cycles if match.group(2) else value
            counts[match.group(1)] = max(counts.get(match.group(1), 0.0), count)
    return counts


def _tensor(metrics: Metrics, flops: int) -> float:
    """FLOPs of matrix instructions: counted operations if the file has them, otherwise instructions · `flops`."""
    whole, parts = 0.0, 0.0
    for metric, value in metrics.items():
        match = _TENSOR_OPS.match(metric)
        if match and not match.group(1).startswith(("int", "uint")):
            whole, parts = (whole, parts + value) if match.group(2) else (whole + value, parts)
    if whole or parts:
        return max(whole, parts)
    # The count of all matrix instructions, or the sum of those by kind (hmma, fp64, …); never both.
    counts = {match.group(1): value for match, value in _matched(_TENSOR_INSTRUCTIONS, metrics)}
    kinds = sum(value for kind, value in counts.items() if kind and "imma" not in kind)
    return flops * (kinds or counts.get("", 0.0))


def _matched(pattern: re.Pattern[str], metrics: Metrics) -> list[tuple[re.Match[str], float]]:
    return [(match, value) for metric, value in metrics.items() if (match := pattern.match(metric))]


def _bytes(metrics: Metrics, start: str, seconds: float | None) -> float | None:
    """Bytes of one level: counted, or read and written apart, or a rate times the time."""
    if f"{start}.sum" in metrics:
        return metrics[f"{start}.sum"]
    apart = [metrics[name] for name in (f"{start}_read.sum", f"{start}_write.sum") if name in metrics]
    if len(apart) == 2:
        return sum(apart)
    rate = metrics.get(f"{start}.sum.per_second")
    return rate * seconds if rate is not None and seconds else None


def _notes(seen: Mapping[str, bool], kernels: Sequence[Kernel], tensor_flops: int) -> Iterable[str]:
    """What is missing, and what was assumed; `seen` are the metrics of the file, and whether any kernel has some."""
    have = {match.group(1): used for name, used in seen.items() if (match := _INSTRUCTION.match(name))}
    exact = any(_TENSOR_OPS.match(name) for name in seen)
    counted = [used for name, used in seen.items() if _TENSOR_INSTRUCTIONS.match(name)]
    absent = [op.upper() for op in INSTRUCTIONS if op not in have] + ["tensor cores"] * (not exact and not counted)
    if absent:
        yield f"FLOPs are a lower bound: not in the file: {', '.join(absent)}"
    if any(counted) and not exact:
        yield (
            f"matrix instructions were taken as {tensor_flops} FLOPs each (V100: 512); later GPUs do more in one: "
            "record sm__ops_path_tensor_src_* or give --tensor-flops"
        )
    if any(have.get(op) for op in ("hadd", "hmul", "hfma")):
        yield "half precision: a packed instruction (HFMA2) does two operations and may have been counted as one"
    yield from _gaps(kernels)


def _gaps(kernels: Sequence[Kernel]) -> Iterable[str]:
    for what, count in (
        ("bytes of main memory (dram__bytes.sum)", sum(kernel.dram_bytes is None for kernel in kernels)),
        ("time (gpu__time_duration.sum)", sum(kernel.seconds is None for kernel in kernels)),
    ):
        if count:
            yield f"{count} of {len(kernels)} kernels have no {what}"
