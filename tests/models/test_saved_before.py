"""Models that the version before saved (tests/data/models) load, and predict what they predicted then."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from steplab.models import model_from_document

SAVED = sorted((Path(__file__).parents[1] / "data" / "models").glob("*.json"))


@pytest.mark.parametrize("path", SAVED, ids=lambda path: path.stem)
def test_a_model_of_the_version_before_predicts_the_same(path):
    saved = json.loads(path.read_text())
    model, at = model_from_document(saved["document"]), pd.DataFrame(saved["at"])
    # The last bit may depend on the machine's arithmetic.
    np.testing.assert_allclose(model.predict(at), saved["predicted"], rtol=1e-12)
    np.testing.assert_allclose(model.predict_interval(at), [saved["low"], saved["high"]], rtol=1e-12)
    again, before = model.to_document(), saved["document"]
    again["options"] = {name: again["options"][name] for name in before["options"]}  # there may be more options since
    assert again == before


def test_there_is_one_of_each_model():
    assert len(SAVED) == 13
