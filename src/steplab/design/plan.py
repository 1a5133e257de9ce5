"""The plan of a study: its trials in the order in which they run."""

from __future__ import annotations

import importlib

import numpy as np

from steplab.core.errors import StudyError
from steplab.core.feasible import applicable, impossible
from steplab.core.study import Study
from steplab.core.trial import Config, Level, Trial, describe


def plan(study: Study) -> list[Trial]:
    """All trials: each replicate is a block that holds every configuration once, in its own random order."""
    if study.imported:
        what = f"was imported ({study.imported.format}): its times were measured elsewhere, so there is nothing to run"
        raise StudyError(what, where=str(study.path), hint="`steplab analyze` and `steplab report` read its folder")
    configs = configurations(study)
    trials = []
    for replicate in range(study.design.replicates):
        order = list(range(len(configs)))
        if study.design.order == "random":
            order = np.random.default_rng([study.design.seed, 1, replicate]).permutation(len(configs)).tolist()
        trials += [Trial(configs[position], replicate) for position in order]
    return trials


def configurations(study: Study) -> list[dict[str, Level]]:
    """The study's different configurations: excluded ones left out, factors that do not apply dropped."""
    design = importlib.import_module(f"steplab.design.{study.design.type}")
    rng = np.random.default_rng([study.design.seed, 0])

    def possible(config: dict[str, Level]) -> bool:
        return not _excluded(study, config) and not impossible(applicable(config))

    drawn = design.configurations(study, rng, possible)
    kept = [applicable(config) for config in drawn if not _excluded(study, config)]
    different = list({Trial(config, 0).id: config for config in kept}.values())
    _check(study, different)
    return different


def _excluded(study: Study, config: Config) -> bool:
    return any(all(config[name] in levels for name, levels in rule.items()) for rule in study.exclude)


def _check(study: Study, configs: list[dict[str, Level]]) -> None:
    """Nothing to run, or a combination that nothing could run, is the study's mistake."""
    if not configs:
        raise StudyError("no configuration is left to run", where=str(study.path), hint="loosen [[exclude]] or levels")
    reasons = [(config, reason) for config in configs if (reason := impossible(config))]
    if reasons:
        config, reason = reasons[0]
        more = f" (and {len(reasons) - 1} more such combinations)" if len(reasons) > 1 else ""
        hint = "leave it out with an [[exclude]] rule or change a level"
        raise StudyError(f"impossible: {describe(config)}: {reason}{more}", where=f"{study.path}, factors", hint=hint)
