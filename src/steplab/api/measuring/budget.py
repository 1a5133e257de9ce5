"""How many trials a study has or may have; counting needs none of the libraries with which trials are chosen."""

from __future__ import annotations

from steplab.design.plan import Plan
from steplab.store.choices import Plain, read_batches
from steplab.store.paths import StudyFolder
from steplab.study.sections import Study

TYPE = "adaptive"


def is_adaptive(study: Study) -> bool:
    """Whether its trials are chosen on the way."""
    return study.design.type == TYPE


def terms(study: Study) -> dict[str, Plain]:
    """Aim and budget of a study, as its batches keep them."""
    design = study.design
    names = ("aim", "trials", "minutes", "tolerance", "difference", "target")
    return {name: getattr(design, name) for name in names} | {"replicates": design.most_replicates}


def planned_number(study: Study, trials: Plan, folder: StudyFolder, done: int, *, partial: bool = False) -> int:
    """How many trials a study has; of an adaptive one, as many as it may have, and once it ended, those it had."""
    if not is_adaptive(study) or partial:
        return len(trials)
    batches = read_batches(folder)
    if batches and batches[-1].ended(terms(study)):
        return done
    if study.design.trials is not None:
        return max(done, min(study.design.trials, len(trials)))
    chosen = sum(len(batch.trials) for batch in batches)
    return max(done, chosen, study.design.start or 1)
