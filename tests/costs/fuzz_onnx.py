"""Damages an ONNX file in many ways and reads each: `fuzz_onnx.py FILE TIMES`; prints how many were read and refused.

Runs in a process of its own, as the reader of untrusted files does.
"""

import json
import random
import sys
from pathlib import Path


def damaged(whole, rng):
    """The content with some bytes changed at both ends, where the structure stands; the middle is weights."""
    content = bytearray(whole[: rng.randrange(1, len(whole))] if rng.random() < 0.2 else whole)
    for _ in range(rng.randrange(1, 6)):
        place = rng.randrange(min(800, len(content)))
        content[rng.choice((place, -1 - place))] = rng.randrange(256)
    return bytes(content)


def outcome(content, path):
    from steplab.core.errors import InputError
    from steplab.costs.network import cost
    from steplab.costs.onnx_graph import from_model
    from steplab.costs.onnx_shapes import ModelFileError, answer

    path.write_bytes(content)
    try:
        inferred = answer({"path": str(path), "batch": 1, "shape": None})
    except (ModelFileError, UnicodeDecodeError):
        return "refused"
    try:
        cost(from_model(inferred, "file", 1))
    except InputError:
        return "refused"
    return "read"


def main():
    original, times = Path(sys.argv[1]), int(sys.argv[2])
    whole, rng = original.read_bytes(), random.Random(11)
    results = [outcome(damaged(whole, rng), original.with_suffix(".damaged")) for _ in range(times)]
    print(json.dumps({name: results.count(name) for name in ("read", "refused")}))


if __name__ == "__main__":
    main()
