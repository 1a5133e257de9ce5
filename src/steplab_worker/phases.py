"""The phases of an iteration: the one table of their names, words, order and wholes, for worker and laboratory.

Rows stand in the order of a step (S-SGD model: MMU thesis, chapter 3), a whole before its parts. A phase is added here
and nowhere else: columns of tables, sentences, legends, importers and exporters take theirs from this table.
"""

from typing import Collection, Dict, Literal, NamedTuple, Optional, Tuple

Pass = Literal["forward", "backward", "update"]


class Phase(NamedTuple):
    """A named part of an iteration; its seconds stand in the column of that name."""

    name: str
    words: str  # what a sentence or a legend calls it
    part_of: str  # the phase that it is a part of; empty for the iteration itself
    aliases: str  # what columns of foreign tables are called that hold it
    computes: Optional[Pass] = None  # the pass whose FLOPs it takes


TABLE = (
    Phase(
        "t_iter", "the whole iteration", "",
        "iter_time iteration_time step_time time_per_step time_per_iteration t_step "
        "total_time wall_time walltime runtime latency time duration elapsed total seconds milliseconds microseconds",
    ),
    Phase("t_io", "reading data", "t_iter", "io io_time data_time data_loading loading load dataloader read"),
    Phase("t_h2d", "moving data to the device", "t_iter", "h2d host_to_device copy memcpy transfer"),
    Phase("t_md", "dividing the batch", "t_iter", "divide division"),
    Phase("t_f", "the forward pass", "t_iter", "fwd forward forward_time t_forward t_fwd", "forward"),
    Phase("t_b", "the backward pass", "t_iter", "bwd backward backward_time t_backward t_bwd", "backward"),
    Phase(
        "t_c", "exchanging gradients (waiting included)", "t_iter",
        "comm communication comm_time t_comm allreduce all_reduce aggregation sync",
    ),
    Phase("t_wait", "waiting for the slowest rank", "t_c", "wait waiting"),
    Phase("t_move", "moving bytes", "t_c", "move moving"),
    Phase("t_u", "the update", "t_iter", "update optimizer_time optimizer_step update_time t_update", "update"),
    Phase("t_other", "what no phase explains", "t_iter", ""),
)  # fmt: skip

ITERATION = "t_iter"
EXCHANGE = "t_c"
REST = "t_other"  # follows from the others; nobody measures it
WORDS: Dict[str, str] = {phase.name: phase.words for phase in TABLE}
# What an iteration's time is divided into: these sum to it.
SHARES: Tuple[str, ...] = tuple(phase.name for phase in TABLE if phase.part_of == ITERATION)
PHASES: Tuple[str, ...] = tuple(name for name in SHARES if name != REST)
EXCHANGE_PARTS: Tuple[str, ...] = tuple(phase.name for phase in TABLE if phase.part_of == EXCHANGE)
# What a record, or somebody's table, may hold.
MEASURED: Tuple[str, ...] = tuple(phase.name for phase in TABLE if phase.name != REST)
# What a rank times itself: no phase that has parts.
TIMED: Tuple[str, ...] = tuple(name for name in MEASURED if name not in {phase.part_of for phase in TABLE})
# What a rank does before it meets the others.
BEFORE_EXCHANGE: Tuple[str, ...] = PHASES[: PHASES.index(EXCHANGE)]
PASSES: Dict[str, Pass] = {phase.name: phase.computes for phase in TABLE if phase.computes}
# What is timed layer by layer, too.
LAYERED: Tuple[str, ...] = tuple(name for name in PASSES if name in BEFORE_EXCHANGE)


def addends(columns: Collection[str]) -> Tuple[str, ...]:
    """Those of the columns whose sum is the part of an iteration that phases explain.

    Of a phase and its parts only the parts count if all are there, otherwise only the whole.

    >>> addends(["t_iter", "t_f", "t_c", "t_wait", "lif"])
    ('t_f', 't_c')
    >>> addends(["t_c", "t_wait", "t_move"])
    ('t_wait', 't_move')
    """
    have = set(PHASES) & set(columns)
    parts = set(EXCHANGE_PARTS) & set(columns)
    if EXCHANGE not in have:
        have |= parts
    elif parts == set(EXCHANGE_PARTS):
        have = have - {EXCHANGE} | parts
    return tuple(name for name in MEASURED if name in have)
