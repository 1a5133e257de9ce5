"""Real ranks of real frameworks for the contract tests, kept warm from test to test."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steplab import kinds
from steplab.core import catalogue
from steplab.kinds.director import Undirected
from steplab.runner.environments import worker
from steplab.runner.ranks.conversation import Conversation, Failure
from steplab.runner.ranks.group_key import GroupKey
from steplab.runner.ranks.pool import Pool
from steplab_worker.job import TrialJob

PROBE = Path(__file__).with_name("probe.py")
START_S, PROOF_S = 600.0, 600.0


class Ranks:
    """Runs proofs (tests/contract/probe.py) in groups of ranks, as the laboratory runs trials."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.pool = folder, Pool([])
        self.references: dict[str, dict[str, Any]] = {}
        self.alone: dict[str, dict[str, Any]] = {}  # weights of ranks that train alone

    def run(self, framework: str, proof: dict[str, Any], workers: int = 1, **said: Any) -> list[dict[str, Any]]:
        """What each rank found; a rank or an environment that fails, fails the test."""
        options = {name: option.default for name, option in catalogue.framework(framework).factors.items()}
        options |= said.pop("options", {})
        single = catalogue.framework(framework).single_process
        processes = 1 if any(options[name] in values for name, values in single.items()) else workers
        counting = catalogue.framework(framework).roles.values() if workers > 1 else ()
        counts = tuple((name, value) for name, value in options.items() if name in counting)
        key = GroupKey(framework, "", workers, 1, processes, options=counts)
        with pytest.MonkeyPatch.context() as patch:  # while they start: other tests' ranks are the product's own
            patch.setattr(worker, "WORKER", PROBE)
            group = self.pool.group(key, None, START_S, lambda: None)
        if isinstance(group, Failure):
            pytest.fail(f"{group.reason}\n{group.log_tail}", pytrace=False)
        job = trial_job(proof | {"processes": processes}, options, **said)
        outcome = Conversation(group, time.monotonic() + PROOF_S, lambda: None).trial(job, Undirected())
        if outcome.failure is not None:
            self.pool.discard(key)
            pytest.fail(f"{outcome.failure.reason}\n{outcome.failure.log_tail}", pytrace=False)
        return [_found(result.measurement.methods) for _, result in sorted(outcome.results.items())]

    def against_torch(self, framework: str, proof: str, **said: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """What PyTorch found (once) and what a framework found in comparison."""
        path = self.folder / f"{proof}-{said['network']}.npz"
        if str(path) not in self.references:
            asked = {"proof": proof, "reference": str(path), "write": True}
            (self.references[str(path)],) = self.run(
                "torch", asked, **{**said, "precision": "float32", "recompute": False}
            )
        (found,) = self.run(framework, {"proof": proof, "reference": str(path), "write": False}, **said)
        return self.references[str(path)], found


def _found(methods: dict[str, str]) -> dict[str, Any]:
    """What a proof found, and what the rank notes beside it for the record."""
    return {**json.loads(methods["proof"]), "attention": methods.get("attention", "")}


def trial_job(
    proof: dict[str, Any],
    options: dict[str, Any],
    network: str,
    kind: str = "step",
    shape: tuple[int, ...] | None = None,
    network_options: dict[str, Any] | None = None,
    batch_size: int = 4,
    accumulate: int = 1,
    optimizer: str = "sgd",
    learning_rate: float = 0.002,
    precision: str = "float32",
    recompute: bool = False,
    strategy: str = "",
) -> TrialJob:
    """The job of a proof, at a network's usual input unless a shape is given."""
    known = None if network.startswith("every-kind") else catalogue.network_module(network)
    return TrialJob(
        trial="proof",
        replicate=1,
        kind=kind,
        config=proof,
        network=network,
        network_options=network_options or {},
        network_file=catalogue.network_file(network) if known else "",
        input_shape=shape or (known.INPUT if known else (1,)),
        classes=10,
        dataset="",
        data_folder="",
        batch_size=batch_size,
        accumulate=accumulate,
        strategy=strategy or ("sync" if accumulate == 1 else f"accumulate:{accumulate}"),
        optimizer=optimizer,
        learning_rate=learning_rate,
        loader_workers=0,
        prefetch=2,
        options=options,
        phases=True,
        memory_limit_bytes=0,
        seed=1,
        precision=precision,
        recompute=recompute,
        learns=kinds.named(kind).learns,
    )


@pytest.fixture(scope="session")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    """The groups of ranks; all are ended after the last test."""
    made = Ranks(tmp_path_factory.mktemp("contract"))
    try:
        yield made
    finally:
        made.pool.close()
