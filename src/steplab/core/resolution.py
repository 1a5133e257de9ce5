"""What a combination of levels means: its applicable factors, its defaults, its network, and why it is impossible."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from steplab.core import catalogue, placement
from steplab.core.own_code import SAMPLE, is_own, sample_spec
from steplab.core.trial import SHARDED, Config, Level, accumulation
from steplab_worker import data
from steplab_worker.graph import Graph, GraphError


@dataclass(frozen=True)
class Resolved:
    """A configuration with every default filled in, sorted by who needs what."""

    framework: str
    environment: str  # empty: the framework's own
    network: str
    dataset: str
    batch_size: int  # of each worker
    workers: int
    nodes: int
    ranks_per_node: int
    placement: str  # net:NAME, or empty: the executor's hosts
    rate: str  # of a net's lines; empty: as the net has it
    device: str
    threads: int
    strategy: str
    optimizer: str
    learning_rate: float
    augment: str
    loader_workers: int
    prefetch: int
    network_options: dict[str, Level]
    framework_options: dict[str, Level]
    precision: str = "float32"
    recompute: bool = False
    sample: str = ""  # of a data set of one's own: what its samples look like

    @property
    def processes(self) -> int:
        """How many rank processes serve the workers: one for each, or one for all where the framework does that."""
        single = catalogue.framework(self.framework).single_process
        return 1 if any(self.framework_options[name] in values for name, values in single.items()) else self.workers

    @property
    def shards(self) -> int:
        """Among how many workers the parameters are divided."""
        return self.workers if self.strategy == SHARDED else 1

    @property
    def accumulate(self) -> int:
        """Iterations per exchange of gradients."""
        return accumulation(self.strategy)


def applicable(config: Config) -> dict[str, Level]:
    """The configuration without factors that its framework and network do not know."""
    general = catalogue.general()
    framework, network = (str(config.get(name, general[name].default)) for name in ("framework", "network"))
    known = catalogue.known_factors([framework], [network])
    return {name: level for name, level in config.items() if name in known}


def resolve(config: Config) -> Resolved:
    """Fill in the defaults."""
    full: dict[str, Level] = {name: option.default for name, option in catalogue.general().items()} | dict(config)
    grid = placement.grid(config)
    workers = grid.workers
    if "global_batch_size" in config:
        full["batch_size"] = int(full["global_batch_size"]) // workers
    network, framework = str(full["network"]), str(full["framework"])

    def options(known: object) -> dict[str, Level]:
        assert isinstance(known, dict)
        return {name: _whole(config.get(name, option.default), option.default) for name, option in known.items()}

    return Resolved(
        framework=framework,
        environment=str(full["environment"]),
        network=network,
        dataset=str(full["dataset"]),
        batch_size=int(full["batch_size"]),
        workers=workers,
        nodes=grid.nodes,
        ranks_per_node=grid.ranks_per_node,
        placement=str(full["placement"]),
        rate=str(full["rate"]),
        device=str(full["device"]),
        threads=int(full["threads"]),
        strategy=str(full["strategy"]),
        optimizer=str(full["optimizer"]),
        learning_rate=float(full["learning_rate"]),
        augment=str(full["augment"]),
        loader_workers=int(full["loader_workers"]),
        prefetch=int(full["prefetch"]),
        network_options=options(catalogue.network_options(network)),
        framework_options=options(catalogue.framework(framework).factors),
        precision=str(full["precision"]),
        recompute=bool(full["recompute"]),
        sample=str(config.get(SAMPLE, "")),
    )


def _whole(level: Level, default: object) -> Level:
    """A level of an option of whole numbers; a table in which it does not apply everywhere holds it as another number.

    >>> _whole(32.0, 512), _whole(0.5, 512), _whole(1.0, 0.5)
    (32, 0.5, 1.0)
    """
    counts = isinstance(default, int) and not isinstance(default, bool)
    return int(level) if counts and isinstance(level, float) and level.is_integer() else level


def graph_of(resolved: Resolved) -> Graph | None:
    """The network's graph for the trial's data set; None for a user's own network, or data nobody has looked at yet."""
    if is_own(resolved.network) or (is_own(resolved.dataset) and not resolved.sample):
        return None
    spec = data_spec(resolved)
    if not spec.classes:
        raise GraphError(f"{resolved.dataset} does not say how many classes it has: give it an attribute `classes`")
    graph = _graph(resolved.network, tuple(resolved.network_options.items()), spec)
    if graph.loss not in spec.losses:
        learned = " and ".join(spec.losses)
        raise GraphError(f"{resolved.network} has the loss {graph.loss}, but {resolved.dataset} is for {learned}")
    return graph


def data_spec(resolved: Resolved) -> data.Spec:
    """What the trial's samples look like; a text is cut into as many tokens as the network takes."""
    if is_own(resolved.dataset):
        return sample_spec(resolved.sample)
    spec, length = data.spec(resolved.dataset), resolved.network_options.get("sequence")
    return spec.cut(int(length)) if spec.is_text and length else spec


@lru_cache(maxsize=4096)
def _graph(network: str, options: tuple[tuple[str, Level], ...], spec: data.Spec) -> Graph:
    return catalogue.build_network(network, dict(options), spec.shape, spec.classes)


def impossible(config: Config) -> str:
    """Why no framework could run this combination, or an empty string."""
    if reason := placement.impossible(config):
        return reason
    resolved = resolve(config)
    if "global_batch_size" in config and int(config["global_batch_size"]) % resolved.workers:
        return f"a global batch of {config['global_batch_size']} cannot be divided among {resolved.workers} workers"
    try:
        graph_of(resolved)
    except GraphError as error:
        return str(error)
    if resolved.augment != "none" and not is_own(resolved.dataset) and data_spec(resolved).is_text:
        return f"augment = {resolved.augment} varies images, and {resolved.dataset} are tokens"
    return ""
