"""What a rank is told of its trial."""

from __future__ import annotations

from dataclasses import replace

from steplab_worker.job import TrialJob

JOB = TrialJob(
    "t", 0, "step", {}, "mlp", {}, (1, 28, 28), 10, "mnist", "", 4, 1, "sync", "sgd", 0.1, 0, 1, {}, False, 0, 1
)


class Loss(float):
    """A loss that is another one once it was divided, whatever by."""

    def __truediv__(self, number: float) -> Loss:
        return Loss(float(self) / number)


def test_a_loss_is_divided_only_where_batches_are_accumulated() -> None:
    loss = Loss(6.0)
    assert JOB.share(loss) is loss
    assert replace(JOB, accumulate=4).share(loss) == 1.5
