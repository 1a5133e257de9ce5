"""Where the replicas of a TensorFlow trial are, and how values go to them and come back."""

from __future__ import annotations

from typing import Any, List

import tensorflow as tf


class Place:
    """Where a trial's replicas are: `workers` of them work together, `replicas` are in this process.

    `rank` of `ranks` is this process's share of the data; ranks that infer do not work together.
    """

    def __init__(self, strategy: Any, rank: int, ranks: int, workers: int, replicas: int = 1):
        self.strategy, self.rank, self.ranks, self.workers, self.replicas = strategy, rank, ranks, workers, replicas
        self.processes = workers // replicas
        self.gpus = bool(tf.config.list_physical_devices("GPU"))

    def spread(self, tensor: Any) -> Any:
        """A part of the batch for each replica of this process."""
        if self.replicas == 1:
            return tensor
        return self._values(tf.split(tensor, self.replicas))

    def gather(self, by_replica: List[List[Any]]) -> List[Any]:
        """Lists by replica as one list of values that each replica sees its own of."""
        return by_replica[0] if self.replicas == 1 else [self._values(parts) for parts in zip(*by_replica)]

    def local(self, value: Any) -> Any:
        """The values of the replicas of this process."""
        return self.strategy.experimental_local_results(value)

    def _values(self, parts: Any) -> Any:
        return self.strategy.experimental_distribute_values_from_function(
            lambda context: parts[context.replica_id_in_sync_group]
        )


def devices(number: int) -> List[str]:
    """Names of that many devices: GPUs if there are enough, else logical CPUs."""
    gpus = tf.config.list_physical_devices("GPU")
    if len(gpus) >= number:
        return ["/gpu:%d" % i for i in range(number)]
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * number)
    return ["/cpu:%d" % i for i in range(number)]
