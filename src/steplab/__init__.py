"""steplab: a laboratory for the time of a deep-learning step.

    import steplab

    study = steplab.run("study.toml")        # or steplab.open("runs/demo")
    study.trials                             # a pandas table
    study.analyze()                          # where the time goes, with intervals
    model = study.fit("auto")                # a formula
    model.predict("batch_size=64,workers=4")
    study.report("report.html")

It does what the command line does, without printing. Nothing is imported before it is asked for.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # as in `typing`, which takes longer to import than all of this

# What steplab offers. Type checkers and editors read these lines; so does `__getattr__`, when a name is asked for.
if TYPE_CHECKING:
    from steplab import errors
    from steplab.api.deciding.best import BestAnswer, plan_best
    from steplab.api.deciding.deadline import DeadlineAnswer, plan_deadline
    from steplab.api.deciding.next_trials import NextAnswer, plan_next
    from steplab.api.deciding.workers import WorkersAnswer, plan_workers
    from steplab.api.machine.datasets import check_dataset, list_datasets, make_dataset
    from steplab.api.machine.doctor import Checkup, doctor, support_matrix
    from steplab.api.machine.environments import (
        add_environment,
        check_environments,
        create_environment,
        environments,
    )
    from steplab.api.machine.nets import NetInfo, net_down, net_up, nets
    from steplab.api.measuring.job_status import JobStatus
    from steplab.api.measuring.jobs import CancelledJobs, JobsPlan, cancel, plan_jobs
    from steplab.api.measuring.network import (
        MeasuredNetwork,
        network,
        network_profile,
        plan_network,
    )
    from steplab.api.measuring.plan import StudyPlan, plan, read_study
    from steplab.api.measuring.run import RunObserver, RunSummary, pilot, run, run_pilot, run_plan
    from steplab.api.measuring.starter import init
    from steplab.api.measuring.status import StudyStatus
    from steplab.api.modelling.comparison import ModelComparison, compare
    from steplab.api.modelling.fitting import FittedModel, fit, load_model
    from steplab.api.modelling.network_file import read_network
    from steplab.api.modelling.network_predictions import NetworkPrediction, NetworkPredictions, predict_network
    from steplab.api.modelling.penalty import PenaltyScan, scan_penalty
    from steplab.api.modelling.predictions import Predictions
    from steplab.api.reproduction.sources import (
        Reproduction,
        SourcePlan,
        expect_source_table,
        rebuild_pages,
        reproduce,
        source_plans,
        source_table,
    )
    from steplab.api.results.difference import StudyDifference, diff
    from steplab.api.results.export import Export
    from steplab.api.results.findings import Findings
    from steplab.api.results.live_page import serve
    from steplab.api.results.report import WrittenReport
    from steplab.api.results.results import Results, open
    from steplab.api.results.rooflines import Rooflines, ceilings, roofline
    from steplab.api.sources.imports import ImportedStudy, import_csv, import_extrap, import_kineto
    from steplab.api.sources.kernels import ProfiledKernels, import_ncu
    from steplab.api.sources.memory import MemoryReport, memory
    from steplab.api.sources.networks import NetworkReport, inspect
    from steplab.errors import (
        EnvironmentFault,
        InputError,
        ModelError,
        NotEnoughData,
        RecordError,
        SteplabError,
        StoreError,
        StudyError,
        TableError,
    )
    from steplab.runner.interrupts import Stop
    from steplab.study.sections import Study

__version__ = "0.3.0.dev0"

__all__ = [
    "BestAnswer", "CancelledJobs", "Checkup", "DeadlineAnswer", "EnvironmentFault", "Export", "Findings",
    "FittedModel", "ImportedStudy", "InputError", "JobStatus", "JobsPlan", "MeasuredNetwork", "MemoryReport",
    "ModelComparison", "ModelError", "NetInfo", "NetworkPrediction", "NetworkPredictions", "NetworkReport",
    "NextAnswer", "NotEnoughData", "PenaltyScan", "Predictions", "ProfiledKernels", "RecordError",
    "Reproduction", "Results",
    "Rooflines", "RunObserver", "RunSummary", "SourcePlan", "SteplabError", "Stop", "StoreError", "Study",
    "StudyDifference", "StudyError", "StudyPlan", "StudyStatus", "TableError", "WorkersAnswer",
    "WrittenReport", "__version__",
    "add_environment", "cancel", "ceilings", "check_dataset", "check_environments", "compare", "create_environment",
    "diff", "doctor", "environments", "errors", "expect_source_table", "fit", "import_csv", "import_extrap",
    "import_kineto", "import_ncu", "init", "inspect", "list_datasets", "load_model", "make_dataset", "memory",
    "net_down", "net_up", "nets",
    "network", "network_profile", "open", "pilot", "plan", "plan_best", "plan_deadline", "plan_jobs", "plan_network",
    "plan_next", "plan_workers", "predict_network", "read_network", "read_study",
    "rebuild_pages", "reproduce", "roofline", "run", "run_pilot", "run_plan",
    "scan_penalty", "serve", "source_plans", "source_table", "support_matrix",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """Import what is offered when it is asked for."""
    if name not in __all__:
        raise AttributeError(f"module 'steplab' has no attribute {name!r}")
    home = _homes()[name]
    if home == __name__:
        return importlib.import_module(f"{__name__}.{name}")
    offered = globals()[name] = getattr(importlib.import_module(home), name)
    return offered


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


_modules: dict[str, str] = {}


def _homes() -> dict[str, str]:
    """The module of each name that is offered, from the imports above, which are read once."""
    if not _modules:
        _modules.update(_read_homes())
    return _modules


def _read_homes() -> dict[str, str]:
    import ast
    from pathlib import Path

    tree = ast.parse(Path(__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = (node for node in block.body if isinstance(node, ast.ImportFrom))
    return {alias.name: str(node.module) for node in imports for alias in node.names}
