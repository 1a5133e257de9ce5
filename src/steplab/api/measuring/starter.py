"""A starter study with a comment on every line."""

from __future__ import annotations

import os
import re
from pathlib import Path

from steplab import kinds
from steplab.core import catalogue
from steplab.core.errors import InputError, allowed
from steplab.core.trial import kind_names
from steplab.store.records import write_file

STARTER = """\
# A study: what is varied, which combinations are run, how each is measured.
# `steplab run study.toml --dry-run` shows the plan; `steplab run study.toml` runs it.

[study]
name = "{name}"
{kind:<37}# {kinds}
description = ""

[factors]                            # every factor takes one or several levels
{framework:<37}# `steplab env list` shows what is ready
network = ["lenet5"]                 # `steplab inspect lenet5` shows its layers and options
dataset = ["mnist"]                  # `steplab data list`
batch_size = [32, 64, 128]           # per worker (weak scaling); global_batch_size for strong scaling
workers = [1, 2]                     # rank processes
strategy = ["sync"]                  # sync | accumulate:k
{threads}# optimizer = ["sgd", "adam"]        # options of training, of the network and of the framework are factors too
# filters = [6, 12]

[design]
type = "factorial"                   # factorial | random | latin (with n = number of configurations) | adaptive
replicates = 3                       # each replicate is a block with processes of its own
order = "random"
seed = 1

[measure]
warmup = "auto"                      # or a number of iterations
iterations = 50
phases = true                        # also measure where the time goes
timeout_s = 300
# precision = 0.02                   # go on until the median is known to ±2 %, at most max_iterations
# isolation = "process"              # fresh processes for every trial
# memory_limit_mb = 4000             # of each rank

{sections}
{exclude}"""
THREADS = """\
{threads:<37}# of each rank; the last one is all cores of this machine, so that several
                                     # workers can be compared with one that uses the same cores
"""
EXCLUDE = """\
[[exclude]]                          # combinations to leave out: these would be more threads than cores
workers = 2
threads = {cores}
"""
NO_THREADS = """\
# threads = [1]                      # threads of each rank
"""
NO_EXCLUDE = """\
# [[exclude]]                        # combinations to leave out
# workers = 2
# batch_size = 128
"""


def init(folder: Path | str, kind: str = "step", framework: str = "torch") -> Path:
    """Write a commented starter study into a folder; the path of its `study.toml`.

    `kind` is step, train or infer; the framework `synthetic` needs no install.
    """
    if kind not in kind_names():
        raise InputError(f"there is no kind {kind!r}", hint=allowed(kind_names()))
    catalogue.framework(framework)  # says so if there is none
    place = Path(folder)
    path = place / "study.toml"
    if path.exists():
        raise InputError("is there already", where=str(path), hint="choose another folder")
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", place.absolute().name).strip("-._") or "study"
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be made ({error.strerror})", where=str(place)) from None
    write_file(path, starter(name[:100], kind, framework).encode())
    return path


def starter(name: str, kind: str, framework: str, cores: int | None = None) -> str:
    """The text of a starter study; `cores` are those of this machine unless given.

    >>> [line.split("  ")[0] for line in starter("mine", "step", "torch", 8).splitlines() if "threads = " in line]
    ['threads = [4, 8]', 'threads = 8']
    """
    cores = cores or os.cpu_count() or 1
    # Two workers share the cores that one of them may have alone.
    levels = f"threads = [{cores // 2}, {cores}]"
    return STARTER.format(
        threads=THREADS.format(threads=levels) if cores > 1 else NO_THREADS,
        exclude=EXCLUDE.format(cores=cores) if cores > 1 else NO_EXCLUDE,
        name=name,
        kind=f'kind = "{kind}"',
        kinds=" | ".join(f"{known.name} ({known.summary})" for known in kinds.every()),
        framework=f'framework = ["{framework}"]',
        # What only another kind has stands there as a comment.
        sections="".join(known.starter if known.name == kind else _commented(known.starter) for known in kinds.every()),
    )


def _commented(text: str) -> str:
    return "".join(f"# {line.replace('   #', ' #')}\n" for line in text.splitlines())
