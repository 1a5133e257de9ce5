"""A network profile's terms for fitted models: the column `exchange_s` beside the factors of a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from steplab.api.modelling.network_file import read_network
from steplab.core import catalogue, placement
from steplab.core.errors import ModelError
from steplab.core.resolution import applicable, resolve
from steplab.core.trial import Level, plain_level
from steplab.models.columns.meaning import EXCHANGE
from steplab.models.columns.roles import Roles
from steplab.planning.network.profile import Profile
from steplab.planning.network.terms import REPLACED, exchange_seconds
from steplab.store.source import Source
from steplab.study.file import strategy_problem

ProfileSource = Profile | Path | str


@dataclass(frozen=True)
class NetworkTerms:
    """A profile, and the factors that tell what a configuration exchanges."""

    profile: Profile
    factors: tuple[str, ...]  # of the study
    fixed: Mapping[str, Level]  # those with one level, which a configuration need not name

    def of(self, config: Mapping[str, Level]) -> float:
        """The exchange of a configuration, in seconds of an iteration."""
        whole = applicable({**self.fixed, **config})
        if problem := _problem(whole) or placement.impossible(whole):
            raise ModelError(problem)
        return exchange_seconds(resolve(whole), self.profile)


def _problem(config: Mapping[str, Level]) -> str:
    """What is wrong with a level, or an empty string; those of a study were looked at when it was read."""
    known = catalogue.known_factors([str(config.get("framework", "torch"))], [str(config.get("network", "lenet5"))])
    for name, level in config.items():
        option = known[name]
        counted = isinstance(level, float) and level.is_integer() and isinstance(option.default, int)
        if problem := option.problem(int(level) if counted else level):
            return f"{name} = {level!r} {problem}"
    strategy = config.get("strategy", "sync")
    problem = strategy_problem(strategy)
    return problem and f"strategy = {strategy!r} {problem}"


def network_terms(study: Source, profile: ProfileSource) -> NetworkTerms:
    """The terms of a study's network; a table of another origin has no factors that tell what is exchanged."""
    if not study.factors:
        raise ModelError("only a study's folder tells what its trials exchange over a network")
    known = profile if isinstance(profile, Profile) else read_network(profile)
    levels = {name: study.frame[name].dropna().unique() for name in study.factors}
    fixed = {name: plain_level(values[0]) for name, values in levels.items() if len(values) == 1}
    framework = fixed.get("framework")
    if framework is None:
        raise ModelError("the trials are of several frameworks, and a profile is of one's exchange")
    if known.framework and known.framework != framework:
        raise ModelError(f"the profile {known.name!r} is of {known.framework}'s exchange, the study of {framework}")
    return NetworkTerms(known, study.factors, fixed)


def with_exchange(table: Source, terms: NetworkTerms) -> Source:
    """The table with the column, which stands for the factors that only name the network."""
    factors = [name for name in table.factors if name in table.frame]
    configs = table.frame[factors].to_dict("records")
    exchange = [terms.of({str(n): plain_level(v) for n, v in row.items() if pd.notna(v)}) for row in configs]
    kept = tuple(name for name in factors if name not in REPLACED)
    return replace(table, frame=table.frame.assign(**{EXCHANGE: exchange}), factors=(*kept, EXCHANGE))


def asked_roles(asked: Roles) -> Roles:
    """The roles that a user asked for, with the column instead of the factors that it stands for."""
    if not asked.columns:
        return asked
    categorical = tuple(name for name in asked.categorical if name not in REPLACED)
    return Roles(asked.intrinsic, categorical, (*asked.extrinsic, EXCHANGE))


def filled(configs: Sequence[Mapping[str, str]], terms: NetworkTerms, wanted: Sequence[str]) -> list[dict[str, str]]:
    """Configurations as a model reads them: what names the network becomes its exchange."""
    if EXCHANGE not in wanted:
        raise ModelError("the model has no terms of a network", hint="fit it with `steplab fit --network PROFILE`")
    telling = {*terms.factors, *placement.FACTORS, *REPLACED}  # what is exchanged, whether the model reads it or not
    return [
        {name: value for name, value in config.items() if name in wanted or name not in telling}
        | {EXCHANGE: repr(terms.of({name: _level(value) for name, value in config.items()}))}
        for config in configs
    ]


def _level(text: str) -> Level:
    """A level as a study file would have it."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
