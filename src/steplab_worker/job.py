"""The jobs: all that a rank is told. Nothing it does depends on ambient state."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Tuple, Union

from steplab_worker import codec
from steplab_worker.placement import Placement

Level = Union[bool, int, float, str]


@dataclass(frozen=True)
class GroupJob:
    """What a rank, or an auxiliary process of the group, is for as long as it lives."""

    framework: str
    rank: int
    workers: int
    threads: int
    placements: Tuple[Placement, ...]  # of all members of the group, by number
    python_path: List[str] = field(default_factory=list)  # where the study's own networks are
    strategy: str = ""  # without its count; empty where one group serves all strategies
    role: str = "rank"  # or one of the auxiliary roles that the framework declares
    roles: Dict[str, int] = field(default_factory=dict)  # how many processes of each there are
    adapter_file: str = ""  # where the framework's adapter is, if it is an extension

    @property
    def placement(self) -> Placement:
        """Where this member is."""
        return self.placements[self.rank]


@dataclass(frozen=True)
class TrainingPlan:
    """How a trial of kind `train` trains; when it ends is the laboratory's to say."""

    epochs: int  # at most
    samples: int  # of the training split
    validation_samples: int  # of the test split, 0: all
    every: int  # epochs from one look at the accuracy to the next
    warmup: int  # iterations after each start that do not count as measured
    folder: str  # of the checkpoints

    @classmethod
    def of(cls, job: "TrialJob") -> "TrainingPlan":
        """That of a training trial."""
        return codec.decoded(cls, job.own)


@dataclass(frozen=True)
class TrialJob:
    """One trial, as one rank sees it. Times are in seconds."""

    trial: str
    replicate: int
    kind: str
    config: Dict[str, Level]  # the factors as the study gives them
    network: str
    network_options: Dict[str, Level]
    input_shape: Tuple[int, ...]
    classes: int
    dataset: str
    data_folder: str
    batch_size: int  # of this rank
    accumulate: int
    strategy: str
    optimizer: str
    learning_rate: float
    loader_workers: int
    prefetch: int
    options: Dict[str, Level]  # of the framework
    phases: bool
    memory_limit_bytes: int  # 0: none
    seed: int
    augment: str = "none"
    precision: str = "float32"  # of products; weights, their updates and the loss are float32 in any case
    recompute: bool = False  # whether blocks keep their inputs only and run forward again in backward
    learns: bool = True  # whether weights change; if not, nothing is exchanged
    own: Dict[str, Level] = field(default_factory=dict)  # what only its kind is told
    network_file: str = ""  # where the network is described, if it is an extension

    def share(self, loss: Any) -> Any:
        """A batch's loss as its share of an accumulation; without one the loss itself, for dividing by 1 costs time."""
        return loss / self.accumulate if self.accumulate > 1 else loss
