"""A network measured: exchanges of many sizes as a study of kind `exchange`, and the profile that they make."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from steplab.api.measuring.plan import StudyPlan, plan
from steplab.api.measuring.run import RunObserver, run_plan
from steplab.api.results.results import Results
from steplab.core import catalogue
from steplab.core.errors import InputError
from steplab.core.placement import NET
from steplab.planning.network.curve import Piece, fit_curve
from steplab.planning.network.measured import profile_of
from steplab.planning.network.profile import Collective, Profile
from steplab.runner.executors import LOCAL, expect_executor
from steplab.runner.executors import settings as executor_settings
from steplab.runner.interrupts import Stop
from steplab.runner.nets import net as nets
from steplab.store.records import write_file
from steplab.study.executors import HostsSettings
from steplab.study.file import parse_study

__all__ = ["Collective", "MeasuredNetwork", "network", "network_profile", "plan_network"]
SIZES = tuple(1024 * 4**power for power in range(9))  # 1 KiB to 64 MiB
HERE = "here"
STUDY = """\
[study]
name = {name}
kind = "exchange"
[factors]
framework = {framework}
network = "array"
message_bytes = {sizes}
batch_size = 1
{layout}
[design]
replicates = {replicates}
[measure]
iterations = 50
phases = false
timeout_s = 900
[exchange]
seconds = {seconds}
[data]
samples = 256
"""


@dataclass(frozen=True)
class MeasuredNetwork:
    """A profile, the file it was written to, and the folder of the records that it was made of."""

    profile: Profile
    file: Path
    folder: Path

    def document(self) -> dict[str, Any]:
        """What `steplab network --json` prints."""
        told = {"profile": str(self.file), "folder": str(self.folder), **self.profile.document()}
        for entry, collective in zip(told["ranks"], self.profile.ranks, strict=True):
            entry["pieces"] = [asdict(piece) for piece in fit_curve(collective.sizes).pieces]
        return told

    @property
    def pieces(self) -> list[tuple[str, Piece]]:
        """Latency and bandwidth from size to size: of the plain line, then of each collective."""
        lines = [(_named("one way", pair.rate), pair.sizes) for pair in self.profile.pairs]
        lines += [(_named(f"{entry.ranks} ranks", entry.rate), entry.sizes) for entry in self.profile.ranks]
        return [(name, piece) for name, sizes in lines for piece in fit_curve(sizes).pieces]


def _named(what: str, rate: str) -> str:
    return f"{what}, {rate}" if rate else what


def plan_network(
    net: str = "",
    *,
    framework: str = "torch",
    ranks: Sequence[int] = (),
    rates: Sequence[str] = (),
    sizes: Sequence[int] = SIZES,
    largest: int = SIZES[-1],
    replicates: int = 1,
    seconds: float = 2.0,
    executor: str = LOCAL,
    out: Path | str | None = None,
) -> StudyPlan:
    """The exchanges that measure a network, as a study; nothing is run.

    Args:
        net: The name of a cluster in a box; without it this machine, or the executor's hosts.
        framework: Whose collective is measured.
        ranks: How many ranks exchange; by default as many as there are hosts, or CPUs here, from 2 on.
        rates: Of the net's lines; by default as they are.
        sizes: Bytes of the messages.
        largest: Leaves out larger ones: slow lines take long.
        replicates: How often each is measured.
        seconds: Of measuring after which five exchanges of a size are enough.
        executor: Where the ranks run: `local`, `hosts`, `slurm`.
        out: The folder of the records, by default a new one under `runs`; another call goes on in the same.
    """
    catalogue.framework(framework)
    expect_executor(executor)
    chosen = [size for size in sizes if size <= largest]
    if not chosen:
        raise InputError(f"no message has at most {largest} bytes", hint=f"the smallest has {min(sizes, default=0)}")
    if 1 in ranks:
        raise InputError("1 rank alone exchanges nothing", where="ranks", hint="allowed: whole numbers from 2 on")
    name = f"network-{net or (HERE if executor == LOCAL else executor)}"
    layout = _layout(net, tuple(ranks), tuple(rates), executor)
    text = STUDY.format(
        name=json.dumps(name), framework=json.dumps(framework), sizes=chosen, replicates=replicates,
        seconds=float(seconds), layout=layout,
    )  # fmt: skip
    when = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    folder = Path(out) if out is not None else Path("runs") / f"{name}-{when}"
    return plan(parse_study(text, Path("network.toml")), folder, executor=executor)


def _layout(net: str, ranks: tuple[int, ...], rates: tuple[str, ...], executor: str) -> str:
    """The factors that say where ranks are."""
    if net:
        counts = ranks or _counts(len(nets.find(net).hosts))
        rate = f"rate = {json.dumps(rates)}" if rates else ""
        return f"workers = {list(counts)}\nplacement = {json.dumps(NET + net)}\n{rate}"
    if rates:
        hint = "name it: steplab network box"
        raise InputError("only the lines of a cluster in a box have a rate to choose", hint=hint)
    if executor == LOCAL:
        return f"workers = {list(ranks or _counts(max(2, len(os.sched_getaffinity(0)))))}"
    counts = ranks or _counts(_hosts_named(executor))
    return f"nodes = {list(counts)}\nranks_per_node = 1"


def _hosts_named(executor: str) -> int:
    """How many hosts the user's settings name; Slurm's are not counted beforehand."""
    bare = parse_study('[study]\nname = "network"\n[factors]\nframework = "synthetic"\n', Path("network.toml"))
    settings = executor_settings(bare, executor)
    return len(settings.names) if isinstance(settings, HostsSettings) and settings.names else 2


def _counts(most: int) -> tuple[int, ...]:
    """2, 3 and 4, then powers of 2, and all of them.

    >>> _counts(2), _counts(3), _counts(12)
    ((2,), (2, 3), (2, 3, 4, 8, 12))
    """
    few = {count for count in (2, 3, 4, 8, 16, 32, 64, 128, 256, 512, 1024) if count <= most}
    return tuple(sorted(few | {max(2, most)}))


def network(
    net: str = "",
    *,
    framework: str = "torch",
    ranks: Sequence[int] = (),
    rates: Sequence[str] = (),
    executor: str = LOCAL,
    profile: Path | str | None = None,
    observer: RunObserver | None = None,
    stop: Stop | None = None,
) -> MeasuredNetwork:
    """Measure a network and write its profile; see `plan_network` for the arguments."""
    planned = plan_network(net, framework=framework, ranks=ranks, rates=rates, executor=executor)
    run_plan(planned, observer=observer, stop=stop, executor=executor)
    return network_profile(planned.folder, profile)


def network_profile(folder: Path | str, profile: Path | str | None = None, name: str = "") -> MeasuredNetwork:
    """Write the profile of exchanges that were run, by default beside their folder."""
    folder = Path(folder)
    file = Path(profile) if profile is not None else folder.with_name(f"{folder.name}.json")
    measured = profile_of(Results(folder).trials, name or folder.name)
    write_file(file, measured.text().encode())
    return MeasuredNetwork(measured, file, folder)
