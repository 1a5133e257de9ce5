"""What every framework's adapter does, as the loop sees it.

An adapter file in `adapters/` holds `DECLARATION`, a literal that the laboratory reads without importing the file, and
a class `Adapter`. The declaration's keys: `title`; `pins` (what pip installs); `further_pins` (installed after them, a
list of {"flags": […], "packages": […]}); `module` (the package whose version is the framework's); `debian` (packages
it needs); `kinds`, `strategies`, `layers` ("all" or a list of kinds) it can do; `precisions`, if there are others than
float32; `recomputes`, if blocks can run forward again instead of keeping what they compute; `factors` (its own, each an
`Option`); `unsupported` (a list of {"when": {…}, "because": "…"}); `single_process` (the values of its factors for
which one process serves all workers); `reads_data`.

For several ranks it may also declare: `roles` (auxiliary processes and how many of each, e.g. {"server": 1}, or the
name of a factor that says it, 0 being one for each rank; the module's function `serve(group, rendezvous)` is such a
process's life); `launcher` (what starts several ranks, if they cannot be started one by one: "mpiexec");
`strategies_apart` (a group of ranks serves one strategy only); `exchange` (how gradients travel: {"by": what moves
them, "grouping": "buckets", "arrays" or "whole", "overlaps": whether while backward runs, "in_flight": messages at a
time, "buffers": whether rank 0's buffers are copied to all}; without it all are one message after backward).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from steplab_worker import data, devices
from steplab_worker.augment import AUGMENTATIONS
from steplab_worker.graph import Graph
from steplab_worker.job import GroupJob, TrialJob
from steplab_worker.loader import Loader, Prepare
from steplab_worker.messages import Compiled, Held
from steplab_worker.placement import Placement
from steplab_worker.rendezvous import Rendezvous
from steplab_worker.weights import Key

if TYPE_CHECKING:
    from steplab_worker.kinds.train import Examination


class Unsupported(Exception):
    """This framework cannot do this trial; the message says why."""


class Within(NamedTuple):
    """What a pass spent in its collectives, each of which all ranks begin together."""

    waited: float = 0.0  # seconds for the slowest rank, the barriers' own cost included
    moving: float = 0.0  # seconds
    meetings: int = 0  # barriers


class Session:
    """One trial in one rank: the network built, ready to run iterations.

    `step` is the iteration as a good user of the framework would write it. The methods after it are the same
    iteration in parts, for phased measurements; each returns only when its work is done.
    """

    # How layers are told apart: `hooks` around each in the running network, `pieces` (each compiled and run alone), or
    # `none`, then with the reason after a colon. Both methods go into the trial's record.
    layer_method = "none"
    # How communication in flight is seen: by a `hook` where the framework exchanges (`communication` tells), by the
    # `difference` of steps with and without it (`step_alone`), or `none`: one worker, or it cannot be seen.
    overlap_method = "none"
    has_phases = True  # whether an iteration can be run in parts
    exchanges_within = False  # whether the passes hold the collectives (`within` tells of them), so that none follows
    splits = False  # whether this process serves several replicas: `load` is then `bring` and `split`
    placement = Placement("", 0, "127.0.0.1")  # where the rank is; the rank says so itself

    def clock(self) -> float:
        """Seconds on the clock that the iterations are timed with."""
        return time.perf_counter()

    def stamp(self) -> Any:
        """The moment at which all work asked for so far is done; `seconds` tells how far such moments are apart.

        Where the device can note it by itself (a GPU's events), nothing waits for it: that would keep the host from
        queueing the next step meanwhile.
        """
        self.synchronize()
        return self.clock()

    def seconds(self, stamps: List[Any]) -> List[float]:
        """Seconds from each stamp to the next."""
        return [after - before for before, after in zip(stamps, stamps[1:])]

    def enter(self, mode: str) -> None:
        """The mode that is measured from now on: `native`, `phased` or `overlap`."""

    def source(self) -> "Source":
        """Where the batches come from."""
        raise NotImplementedError

    def step(self, batch: Any, last: bool) -> None:
        """One iteration; `last` of an accumulation exchanges gradients and updates."""
        raise NotImplementedError

    def synchronize(self) -> None:
        """Return when the device has done all its work."""

    def load(self, batch: Any) -> None:
        """Bring a batch to the device (t_h2d)."""
        raise NotImplementedError

    def bring(self, batch: Any) -> None:
        """Where a process serves several replicas: bring the batch of all to the device (t_h2d)."""
        raise NotImplementedError

    def split(self) -> None:
        """Where a process serves several replicas: split the batch over them (part of t_md)."""
        raise NotImplementedError

    def forward(self) -> None:
        """Compute the loss of the loaded batch (t_f)."""
        raise NotImplementedError

    def backward(self) -> None:
        """Compute this rank's gradients, exchanging nothing (t_b)."""
        raise NotImplementedError

    def meet(self) -> None:
        """Return when all ranks are here: a barrier."""

    def wait(self) -> None:
        """Wait for the slowest rank (the first part of t_c)."""
        self.meet()

    def exchange(self) -> None:
        """Average the gradients over the ranks (the second part of t_c)."""

    def within(self) -> "Within":
        """What the last part of a phased step spent in collectives; it is forgotten then."""
        return Within()

    def update(self) -> None:
        """Let the optimiser change the weights (t_u)."""
        raise NotImplementedError

    def communication(self) -> Tuple[float, float]:
        """Of the last step in mode `overlap`: seconds with a collective in flight, and those no compute hid."""
        raise NotImplementedError

    def step_alone(self, batch: Any, last: bool) -> None:
        """The step without its exchange; from then on the ranks' weights may differ."""
        raise NotImplementedError

    def layer_times(self, batch: Any) -> Optional[Dict[str, Dict[str, float]]]:
        """Seconds of each layer, forward and backward, for one iteration; None if this framework cannot tell."""
        return None

    def kernels(self) -> Dict[str, str]:
        """Which of several kernels computed, by what it computes, for the record: `attention` is `fused: …` or `plain`.

        Nothing where the network leaves no choice.
        """
        return {}

    def compiled(self) -> Optional[Compiled]:
        """What was compiled in this trial so far, where the framework can tell it."""
        return None

    def held(self) -> Optional[Held]:
        """What this rank's network and optimiser have in memory, by the framework's own arrays and counters."""
        return None

    def gradients(self) -> Dict[Key, np.ndarray]:
        """This rank's gradients after `backward` (or their average after `exchange`), in the graph's layout."""
        raise NotImplementedError

    def parameters(self) -> Dict[Key, np.ndarray]:
        """The weights now, in the graph's layout."""
        raise NotImplementedError

    def count_exchanges(self) -> Callable[[], int]:
        """Begin to count the native steps that exchange gradients; the function given tells how many so far.

        Counted where the framework exchanges (a hook, the collectives in the program that ran), not where we ask it to.
        """
        raise NotImplementedError

    def infer(self) -> None:
        """Run the network forward on the loaded batch, for inference (t_f)."""
        raise NotImplementedError

    def outputs(self) -> np.ndarray:
        """What the last inference gave, (batch, *output shape), in the graph's layout."""
        raise NotImplementedError

    def loss(self) -> float:
        """The loss of the last batch."""
        raise NotImplementedError

    def pending_loss(self) -> Any:
        """The same, perhaps still being computed; `float` waits for it."""
        return self.loss()

    def reseed(self, seed: int) -> None:
        """Begin the random numbers of dropout anew, so that an epoch does not depend on those before it."""

    def predictor(self) -> Callable[[np.ndarray], np.ndarray]:
        """The network as it is now, for inference: samples in the graph's layout to outputs.

        Running means, no dropout, and no word to the other ranks: only one of them may call it.
        """
        raise NotImplementedError

    def examine(self, examination: "Examination") -> float:
        """The share of the examination's samples that the network now classifies rightly."""
        return examination.accuracy(self.predictor())

    def state(self) -> Dict[str, np.ndarray]:
        """All that further training depends on: weights, running means, the optimiser's memory, counters."""
        raise NotImplementedError

    def restore(self, state: Dict[str, np.ndarray]) -> None:
        """Go on from a state, which may be another rank's."""
        raise NotImplementedError

    def close(self) -> None:
        """Free what the trial held."""


class Source:
    """Batches for one rank."""

    def divide(self) -> None:
        """Divide the next global batch: this rank's part of it is what `next` reads (t_md).

        May be left out; `next` then does it first.
        """

    def next(self) -> Any:
        """The next batch, really read."""
        raise NotImplementedError

    def begin(self, epoch: int) -> int:
        """Go to the start of an epoch (0 is the first); how many batches it has."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop background work."""


class FileSource(Source):
    """Batches read through the loader; `prepare` makes of them what the framework takes.

    From the data set's files, unless a split is given.
    """

    def __init__(
        self,
        job: TrialJob,
        rank: int,
        workers: int,
        prepare: Optional[Prepare] = None,
        split: Optional[data.Dataset] = None,
    ):
        self.loader = Loader(
            data.open_split(job.data_folder, job.dataset, shape=job.input_shape) if split is None else split,
            job.batch_size,
            rank,
            workers,
            job.seed,
            background=job.loader_workers,
            prefetch=job.prefetch,
            augment=AUGMENTATIONS[job.augment],
            prepare=prepare,
        )

    def divide(self) -> None:
        """Choose the samples of the next batch."""
        self.loader.divide()

    def next(self) -> Any:
        """The next batch: samples and labels."""
        return self.loader.next()

    def begin(self, epoch: int) -> int:
        """Go to the start of an epoch; its order depends on the seed and its number alone."""
        self.loader.begin(epoch)
        return self.loader.batches_per_epoch

    def close(self) -> None:
        """Stop the loader."""
        self.loader.close()


class Adapter:
    """A framework in one rank, for as long as the process lives."""

    # How the phases are told apart: `eager` (the calls are the phases) or `separate-compilation` (a compiled step is
    # compiled again in parts). It goes into each record.
    computes = True  # False: a framework on a virtual clock, which needs no weights
    phase_method = "eager"

    def __init__(self, group: GroupJob, rendezvous: Rendezvous):
        self.group, self.rendezvous = group, rendezvous

    def expect_device(self, seen: bool) -> None:
        """Refuse to run without the GPU that the placement gives; `seen` is whether the framework sees one."""
        reason = devices.missing(self.group.placement.device, seen)
        if reason:
            raise Unsupported(reason)

    def versions(self) -> Dict[str, str]:
        """The framework's version and those it depends on, and the device it runs on."""
        return {"numpy": np.__version__, "phase_method": self.phase_method}

    def session(self, job: TrialJob, graph: Optional[Graph], weights: Dict[Key, np.ndarray]) -> Session:
        """Build the network for one trial; there is no graph for a user's own network."""
        raise NotImplementedError

    def close(self) -> None:
        """Leave the group of ranks."""
