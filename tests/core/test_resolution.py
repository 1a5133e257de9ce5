"""What a configuration means, also one that no study could have had."""

import pytest

from steplab.analysis.scaling.gradients import gradient_bytes
from steplab.core.resolution import graph_of, resolve
from steplab_worker.graph import GraphError

GPT = {"framework": "torch", "network": "gpt2", "dataset": "bytes", "vocabulary": 256, "sequence": 64}


@pytest.mark.parametrize(
    ("option", "level", "problem"),
    [("layers", 10**9, "at most 1024"), ("layers", "many", "of the kind of 12"), ("width", 0, "at least 1")],
)
def test_options_that_a_study_would_refuse_build_nothing(option, level, problem):
    """A stranger's record may have them: it must neither be built for ever nor fail in the middle."""
    with pytest.raises(GraphError, match=f"{option} = .* must be {problem}"):
        graph_of(resolve(GPT | {option: level}))
    assert gradient_bytes(GPT | {option: level}) is None
