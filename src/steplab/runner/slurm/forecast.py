"""How long a trial will probably take, from those that ended: nothing is begun that an allocation has no time for."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice

from steplab.core.trial import Config, trial_id
from steplab.design.plan import Plan
from steplab.store import records
from steplab.store.paths import StudyFolder

MARGIN = 1.3  # a trial may take longer than the longest of its configuration so far
MOST_READ = 2000  # records that tell how long trials take


@dataclass
class Forecast:
    """The longest time of each configuration, and of all.

    >>> forecast = Forecast()
    >>> forecast.learn({"batch_size": 8}, 10.0)
    >>> forecast.learn({"batch_size": 64}, 60.0)
    >>> forecast.seconds({"batch_size": 8}), forecast.seconds({"batch_size": 16})
    (13.0, 78.0)
    """

    _longest: dict[str, float] = field(default_factory=dict, init=False)
    _of_all: float = field(default=0.0, init=False)

    @classmethod
    def of(cls, folder: StudyFolder, trials: Plan) -> Forecast:
        """What the records of these trials tell."""
        forecast = cls()
        done = sorted(trials.among(records.done(folder)))
        for head in records.read_heads(folder, islice(done, MOST_READ)):
            forecast.learn(head.config, head.seconds)
        return forecast

    def learn(self, config: Config, seconds: float) -> None:
        """A trial of that configuration has ended."""
        name = trial_id(config, 0)
        self._longest[name] = max(seconds, self._longest.get(name, 0.0))
        self._of_all = max(seconds, self._of_all)

    def seconds(self, config: Config) -> float:
        """What a trial will take at most, probably; nothing is known before the first has ended."""
        return MARGIN * self._longest.get(trial_id(config, 0), self._of_all)
