"""A few damaged inputs for every reader; `benchmarks/fuzz.py` does the same with 20,000."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from _fuzz_readers import READERS, Reader
from fuzz import damaged, known, tried

SEED, DAMAGED = 7, 12  # another seed than that of the benchmark


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_a_damaged_input_is_read_or_refused_in_a_sentence(
    reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FUZZ_ROOT", str(tmp_path))
    chosen = [*known(reader), *itertools.islice(damaged(reader, SEED), DAMAGED)]
    faults = {name: said["fault"] for name, content in chosen if (said := tried(reader, content))["fault"]}
    assert not faults
