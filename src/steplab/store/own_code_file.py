"""What identified a study's own code when it was last run, kept in its folder: `status` runs no code."""

from __future__ import annotations

import orjson

from steplab.core.errors import RecordError
from steplab.core.own_code import NO_CODE, CodeIdentity, CodeUse, OwnCode
from steplab.core.parsing import parsing
from steplab.store.paths import StudyFolder
from steplab.store.records import write_file

MAX_BYTES = 10_000_000


def write_own_code(folder: StudyFolder, own_code: OwnCode) -> None:
    """Keep the identities; nothing is written for a study that never had code of its own."""
    if not own_code.identities and not folder.has(folder.own_code):
        return
    rows = [
        {
            "network": use.network,
            "dataset": use.dataset,
            "step": use.step,
            "environment": use.environment,
            "code": identity.code,
            "files": dict(identity.files),
            "graph": identity.graph,
            "sample": identity.sample,
        }
        for use, identity in own_code.identities.items()
    ]
    write_file(folder.own_code, orjson.dumps({"own_code": rows}, option=orjson.OPT_INDENT_2))


def read_own_code(folder: StudyFolder) -> OwnCode:
    """The identities of the last run; none if there was no code."""
    if not folder.has(folder.own_code):
        return NO_CODE
    hint = "the next `steplab run` writes it again"
    with parsing("is not what identifies the study's own code", str(folder.own_code), RecordError, hint):
        rows = orjson.loads(folder.read(folder.own_code, MAX_BYTES))["own_code"]
        return OwnCode(None, dict(map(_read, rows)))


def _read(row: dict[str, object]) -> tuple[CodeUse, CodeIdentity]:
    use = CodeUse(*(str(row[name]) for name in ("network", "dataset", "step", "environment")))
    files = row["files"]
    if not isinstance(files, dict):
        raise TypeError("files must be an object")
    plain = {str(name): str(digest) for name, digest in files.items()}
    return use, CodeIdentity(plain, str(row["graph"]), str(row["sample"]))
