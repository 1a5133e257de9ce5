"""The example on the page of the models runs as it stands."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "models.md"


def test_the_scikit_learn_example_runs():
    (block,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    exec(compile(block, str(PAGE), "exec"), {})
