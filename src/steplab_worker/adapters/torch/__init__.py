"""PyTorch: eager (or compiled) steps, DistributedDataParallel over gloo on CPUs and NCCL on GPUs.

Native mode is the loop a PyTorch user writes: DDP overlaps the exchange with backward, `no_sync` leaves it out on the
intermediate batches of an accumulation. Phased mode computes local gradients first, waits for the slowest rank at a
barrier, then averages them in DDP's buckets, all in flight at once, and copies rank 0's buffers to all, as DDP does
before the next forward pass.
"""

from __future__ import annotations

import contextlib
import datetime
import os
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple, Union

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

from steplab_worker import adapter as base
from steplab_worker import data
from steplab_worker.adapters.torch import attention, compilation
from steplab_worker.adapters.torch.blocks import BlockwiseModule
from steplab_worker.adapters.torch.buckets import average, buckets
from steplab_worker.adapters.torch.data_loader import DataLoaderSource
from steplab_worker.adapters.torch.factory import is_own, load_factory, make_module
from steplab_worker.adapters.torch.layer_clock import LayerClock
from steplab_worker.adapters.torch.layers import GraphModule, build_module, filled, named_arrays
from steplab_worker.adapters.torch.memory import forget_peaks, held, whole
from steplab_worker.adapters.torch.named_samples import call, each, labels_of, loss_in, scores_in, unlabelled
from steplab_worker.adapters.torch.overlap import BucketClock
from steplab_worker.adapters.torch.own_data import OwnSplit, ReadSamples
from steplab_worker.adapters.torch.saved_state import restore, saved
from steplab_worker.adapters.torch.stamps import elapsed, stamp
from steplab_worker.graph import Graph
from steplab_worker.job import GroupJob, TrialJob
from steplab_worker.messages import Compiled, Held
from steplab_worker.placement import Placement
from steplab_worker.rendezvous import Rendezvous
from steplab_worker.transport import host_and_port

if TYPE_CHECKING:  # FSDP2 takes time to import, and not every PyTorch has it
    from steplab_worker.adapters.torch.sharded import ShardClock

DECLARATION = {
    "title": "PyTorch",
    "pins": ["torch==2.13.0", "numpy>=2,<3", "pillow>=11,<14", "nibabel>=5.3,<6"],
    "module": "torch",
    "doors": "rank 0's store and each rank's gloo or NCCL on 127.0.0.1",
    "caches": ["TORCHINDUCTOR_CACHE_DIR"],
    "kinds": ["step", "train", "infer"],
    "strategies": ["sync", "accumulate", "sharded"],
    "layers": "all",
    # DistributedDataParallel; gloo has two threads, NCCL one stream.
    "exchange": {
        "by": "DistributedDataParallel over gloo, on GPUs NCCL",
        "grouping": "buckets",
        "overlaps": True,
        "in_flight": 2,
        "buffers": True,
    },
    "precisions": ["float32", "bfloat16", "float16"],
    "recomputes": True,
    "factors": {
        "compile": {"default": False, "help": "compile the network with torch.compile", "levels": [False, True]},
        "bucket_mb": {
            "default": 0.0,
            "help": "size of DDP's gradient buckets in MiB; 0 leaves it to PyTorch (25 after a first one of 1)",
            "low": 0.0,
            "high": 100000.0,
        },
        "loader": {
            "default": "steplab",
            "help": "what reads batches: steplab's threads, or DataLoader, of which loader_workers are processes",
            "levels": ["steplab", "dataloader"],
        },
        "step": {"default": "", "help": "a training step of one's own, module:FILE:FUNCTION; empty is the usual one"},
    },
    "unsupported": [
        {
            "when": {"compile": True, "recompute": True},
            "because": "torch.compile chooses by itself what it computes again in backward",
        },
        {
            "when": {"compile": True, "strategy": "sharded"},
            "because": "its sharded networks run eagerly: FSDP gathers parameters between the calls",
        },
        {
            "when": {"precision": "float16", "strategy": "sharded"},
            "because": "losses in float16 are scaled, and what the scale has to be is not shared by sharded ranks here",
        },
        {
            "when": {"kind": "train", "strategy": "sharded"},
            "because": "one rank alone looks at the accuracy, and it has only its part of the parameters",
        },
    ],
}

START_DEADLINE_S = 120


class Session(base.Session):
    """One trial in PyTorch."""

    layer_method = "hooks"

    def __init__(self, job: TrialJob, graph: Optional[Graph], weights: Any, group: GroupJob, device: torch.device):
        self.job, self.group, self.device = job, group, device
        forget_peaks(device)
        torch.manual_seed(job.seed)
        self.sharded = job.strategy == "sharded" and group.workers > 1 and job.learns
        module = make_module(job.network) if graph is None else self._built(graph, weights)
        self.module = module.to(device).train(job.learns)
        if job.options["compile"]:
            compilation.begin()
        self.net = self._wrapped()
        # FSDP's collectives are inside of both passes; those of a GPU run beside the calls.
        watched = device.type == "cpu" if self.sharded else isinstance(self.net, nn.parallel.DistributedDataParallel)
        self.overlap_method = "hook" if watched else "none"
        self.collectives: Union[BucketClock, ShardClock, None] = None
        self.criterion = _criterion("cross-entropy" if graph is None else graph.loss)
        self.optimizer = _optimizer(job, self.module.parameters())
        # Small gradients would vanish in float16: the loss is scaled up, the gradients down again.
        self.scaler = torch.amp.GradScaler(device.type) if job.precision == "float16" and job.learns else None
        # What a step of one's own does inside is not ours to take apart.
        self.own_step = load_factory(str(job.options["step"])) if job.options.get("step") else None
        self.has_phases = self.own_step is None and (watched or not self.sharded)
        if self.own_step is not None:
            self.overlap_method = "none"
        self.exchanges_within = self.sharded
        if self.sharded:
            self.layer_method = "none: parameters are gathered block by block"
        self.batch: Tuple[Any, Any] = (None, None)  # samples (a tensor, or several by name) and labels
        self.value: Optional[torch.Tensor] = None

    def _built(self, graph: Graph, weights: Any) -> nn.Module:
        if self.job.recompute or self.sharded:
            return filled(BlockwiseModule(graph, self.job.recompute), weights)
        return build_module(graph, weights)

    def _wrapped(self) -> nn.Module:
        if self.sharded:
            from steplab_worker.adapters.torch.sharded import shard

            return shard(self.module, self.device)
        net: Any = torch.compile(self.module) if self.job.options["compile"] else self.module
        if self.group.workers == 1 or not self.job.learns:
            return net
        devices = [self.device.index] if self.device.type == "cuda" else None
        # An explicit size would do away with the small first bucket.
        size = self.job.options["bucket_mb"] or None
        return nn.parallel.DistributedDataParallel(net, device_ids=devices, bucket_cap_mb=size)

    def _precision(self) -> Any:
        """A context in which products are computed in the trial's precision."""
        if self.job.precision == "float32":
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, getattr(torch, self.job.precision))

    def _quiet(self, exchange: bool) -> Any:
        """A context in which DDP exchanges gradients, or leaves them alone."""
        silent = not exchange and isinstance(self.net, nn.parallel.DistributedDataParallel)
        return self.net.no_sync() if silent else contextlib.nullcontext()

    def enter(self, mode: str) -> None:
        """For mode `overlap`, have DDP call a hook; it cannot be taken away again, so that mode comes last.

        FSDP's collectives are timed in mode `phased`, too.
        """
        if self.sharded:
            self._time_shards(mode)
        elif mode == "overlap" and self.collectives is None:
            self.collectives = BucketClock(self.device)
            self.net.register_comm_hook(None, self.collectives.hook)

    def _time_shards(self, mode: str) -> None:
        if self.collectives is None and mode != "native":
            from steplab_worker.adapters.torch.sharded import ShardClock

            self.collectives = ShardClock(self.module)
        if self.collectives is not None:
            self.collectives.meets = mode == "phased"

    def communication(self) -> Tuple[float, float]:
        """From the hook."""
        return self.collectives.take()

    def within(self) -> base.Within:
        """From FSDP's collectives."""
        return self.collectives.within() if self.sharded else base.Within()

    def source(self) -> base.Source:
        """Batches from the data set's files or from a data set of one's own, for a GPU in pinned memory."""
        job, rank, workers, cuda = self.job, self.group.rank, self.group.workers, self.device.type == "cuda"
        split = self._split("train")
        if job.augment != "none" and getattr(split, "named", False):
            raise base.Unsupported("augment varies images, and a sample of %s has arrays by name" % job.dataset)
        if job.options.get("loader") == "dataloader":
            samples = split.dataset if isinstance(split, OwnSplit) else ReadSamples(split)
            return DataLoaderSource(job, samples, rank, workers, cuda)
        return base.FileSource(job, rank, workers, _pinned if cuda else None, split)

    def _split(self, split: str) -> data.Dataset:
        """A split of the data set: the user's own, or from files."""
        if is_own(self.job.dataset):
            return OwnSplit(self.job.dataset, split)
        return data.open_split(self.job.data_folder, self.job.dataset, split, self.job.input_shape)

    def examine(self, examination: Any) -> float:
        """As always, also on a data set of one's own."""
        examination.dataset = self._split(examination.split)
        return super().examine(examination)

    def synchronize(self) -> None:
        """Wait for the GPU; the CPU is done when it returns."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def stamp(self) -> Any:
        """A clock read, or an event of the GPU."""
        return stamp(self.device)

    def seconds(self, stamps: List[Any]) -> List[float]:
        """From each stamp to the next, once the device has reached the last."""
        self.synchronize()
        return [elapsed(before, after) for before, after in zip(stamps, stamps[1:])]

    def step(self, batch: Any, last: bool) -> None:
        """One iteration as a PyTorch user writes it."""
        self.load(batch)
        if self.own_step is not None:
            with self._precision():
                self.value = self.own_step(self.net, self.optimizer, *self.batch).detach()
            return
        with self._quiet(exchange=last):
            self.forward_now()
            self._backward_now()
        if last:
            self.update()

    def load(self, batch: Any) -> None:
        """Host to device."""
        samples, labels = (each(part, self._moved) for part in batch)
        self.batch = samples, labels_of(samples, labels)

    def _moved(self, part: Any) -> torch.Tensor:
        tensor = part if torch.is_tensor(part) else torch.from_numpy(part)
        return tensor.to(self.device, non_blocking=True)

    def forward_now(self) -> None:
        """The loss of the loaded batch, scaled for accumulation."""
        with self._precision():
            self.value = self.job.share(self._loss(self.net))

    def _loss(self, net: nn.Module) -> torch.Tensor:
        """The loss of the loaded batch: the network's own if it computes one, else ours of its scores."""
        samples, labels = self.batch
        output = call(net, samples)
        own = loss_in(output)
        return self.criterion(scores_in(output), samples, labels) if own is None else own

    def forward(self) -> None:
        """Forward; no exchange will follow from it."""
        with self._quiet(exchange=False):
            self.forward_now()

    def backward(self) -> None:
        """Local gradients."""
        with self._quiet(exchange=False):
            self._backward_now()

    def _backward_now(self) -> None:
        (self.value if self.scaler is None else self.scaler.scale(self.value)).backward()

    def meet(self) -> None:
        """A barrier."""
        if self.group.workers > 1:
            dist.barrier()

    def exchange(self) -> None:
        """Average the gradients bucket by bucket, the last layers' first, and copy rank 0's buffers to all."""
        if self.group.workers == 1:
            return
        gradients = [p.grad for p in self.module.parameters() if p.grad is not None]
        average(buckets(gradients[::-1], self.job.options["bucket_mb"]), self.group.workers)
        if any(True for _ in self.module.buffers()):
            self.net._sync_buffers()

    def update(self) -> None:
        """Optimiser step, gradients to zero."""
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        self.optimizer.zero_grad()

    def layer_times(self, batch: Any) -> Optional[Dict[str, Dict[str, float]]]:
        """Seconds per layer from hooks around each layer's forward and backward; None where blocks are gathered."""
        if self.sharded:
            return None
        self.load(batch)
        with LayerClock(self.module, self.synchronize) as timed:
            with self._precision():
                loss = self._loss(self.module)
            loss.backward()
        self.optimizer.zero_grad()
        return timed.seconds

    def kernels(self) -> Dict[str, str]:
        """Which of PyTorch's kernels serves an attention of this size."""
        graph = self.module.description if isinstance(self.module, GraphModule) else None
        if graph is None or not graph.has_attention:
            return {}
        return {"attention": attention.kernel(graph, self.job.batch_size, self.device, self.job.learns)}

    def compiled(self) -> Optional[Compiled]:
        """By torch.compile."""
        return compilation.compiled() if self.job.options["compile"] else None

    def held(self) -> Held:
        """By the tensors that there are and, on a GPU, PyTorch's counters."""
        return held(self.module, self.optimizer, self.device)

    def gradients(self) -> Dict[Any, np.ndarray]:
        """The gradients as arrays."""
        arrays = named_arrays(self.module).items()
        return {key: whole(parameter.grad).cpu().numpy().copy() for key, parameter in arrays}

    def parameters(self) -> Dict[Any, np.ndarray]:
        """The weights as arrays."""
        arrays = named_arrays(self.module).items()
        return {key: whole(tensor.detach()).cpu().numpy().copy() for key, tensor in arrays}

    def count_exchanges(self) -> Callable[[], int]:
        """Count by a communication hook, which DDP calls for each bucket of gradients it exchanges."""
        counted = [0]

        def hook(state, bucket):  # DDP looks at annotations and would refuse those that are strings
            counted[0] += int(bucket.is_last())
            return default_hooks.allreduce_hook(state, bucket)

        self.net.register_comm_hook(None, hook)
        return lambda: counted[0]

    def infer(self) -> None:
        """Forward without gradients, and without a loss."""
        with torch.inference_mode(), self._precision():
            self.value = scores_in(call(self.net, unlabelled(self.batch[0])))

    def outputs(self) -> np.ndarray:
        """The last inference's outputs as an array."""
        return self.value.float().cpu().numpy().copy()

    def reseed(self, seed: int) -> None:
        """Seed PyTorch's generators."""
        torch.manual_seed(seed)

    def predictor(self) -> Callable[[np.ndarray], np.ndarray]:
        """The module itself in evaluation mode; DistributedDataParallel would speak to the other ranks."""

        def predict(samples: np.ndarray) -> np.ndarray:
            self.module.eval()
            with torch.inference_mode(), self._precision():
                outputs = scores_in(self.module(torch.from_numpy(samples).to(self.device))).float().cpu().numpy()
            self.module.train()
            return outputs

        return predict

    def state(self) -> Dict[str, np.ndarray]:
        """The module's tensors, the optimiser's and the scale of losses, by their names in PyTorch."""
        return saved(self.module, self.optimizer, self.job.optimizer, self.scaler)

    def restore(self, state: Dict[str, np.ndarray]) -> None:
        """Into the module, the optimiser and the scaler."""
        restore(state, self.module, self.optimizer, self.scaler)

    def pending_loss(self) -> Any:
        """The last batch's loss where it is."""
        return self.value.detach() * self.job.accumulate

    def loss(self) -> float:
        """The last batch's loss (of an inference: the mean of its outputs)."""
        return float(self.value.float().mean()) * (self.job.accumulate if self.job.learns else 1)


def _criterion(loss: str) -> Any:
    if loss == "reconstruction":
        return lambda output, samples, labels: nn.functional.mse_loss(output, samples.flatten(1))
    # The labels of sequences are one per position; PyTorch leaves out those that are UNTOLD by itself.
    return lambda output, samples, labels: nn.functional.cross_entropy(
        output.flatten(0, labels.dim() - 1), labels.flatten()
    )


def _optimizer(job: TrialJob, parameters: Any) -> torch.optim.Optimizer:
    if job.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=job.learning_rate)
    return torch.optim.SGD(parameters, lr=job.learning_rate, momentum=0.9 if job.optimizer == "momentum" else 0.0)


def _pinned(batch: Any) -> Any:
    """A batch in memory from which a GPU copies while the host goes on."""
    return tuple(each(part, lambda array: torch.from_numpy(array).pin_memory()) for part in batch)


def _device(place: Placement) -> torch.device:
    """The GPU of a rank: the only one that it sees if its placement names one, else the one of its number here."""
    number, there = 0 if place.device else place.local_rank, torch.cuda.device_count()
    if number >= there:
        raise base.Unsupported("rank %d of its host has no GPU of its own: there are %d" % (place.local_rank, there))
    return torch.device("cuda:%d" % number)


def _store(group: GroupJob, rendezvous: Rendezvous) -> dist.Store:
    """The key-value store in which the process group meets: in rank 0, which listens before the others hear of it."""
    patience = datetime.timedelta(seconds=START_DEADLINE_S)
    if group.rank == 0:
        listener = rendezvous.listener()
        host, port = host_and_port(rendezvous.meet(listener.getsockname()[1])[0])
        return dist.TCPStore(host, port, group.workers, True, patience, master_listen_fd=listener.detach())
    host, port = host_and_port(rendezvous.meet()[0])
    return dist.TCPStore(host, port, group.workers, False, patience)


class Adapter(base.Adapter):
    """PyTorch in one rank."""

    def __init__(self, group: GroupJob, rendezvous: Rendezvous):
        super().__init__(group, rendezvous)
        torch.set_num_threads(group.threads)
        cuda = torch.cuda.is_available()
        self.expect_device(cuda)
        self.device = _device(rendezvous.place) if cuda else torch.device("cpu")
        if cuda:
            torch.cuda.set_device(self.device)
        if group.workers > 1:
            # Ranks listen where their placement says and nowhere else, whatever the host's name stands for.
            os.environ["GLOO_SOCKET_IFNAME"] = os.environ["NCCL_SOCKET_IFNAME"] = rendezvous.interface
            store = _store(group, rendezvous)
            dist.init_process_group("nccl" if cuda else "gloo", store=store, rank=group.rank, world_size=group.workers)

    def versions(self) -> Dict[str, str]:
        """PyTorch, its CUDA, and the device."""
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "cpu"
        return dict(super().versions(), torch=torch.__version__, cuda=torch.version.cuda or "", device=name)

    def session(self, job: TrialJob, graph: Optional[Graph], weights: Dict[Any, np.ndarray]) -> Session:
        """Build the network and its optimiser."""
        if job.precision == "float16" and self.device.type != "cuda":
            raise base.Unsupported("products in float16 are for GPUs, and this rank has none; bfloat16 is for both")
        return Session(job, graph, weights, self.group, self.device)

    def close(self) -> None:
        """Leave the process group."""
        if dist.is_initialized():
            dist.destroy_process_group()
