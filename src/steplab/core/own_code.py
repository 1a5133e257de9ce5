"""A study's own code: which functions and ONNX files of the user's a trial names, and what identifies them.

A trial that runs what is one's own has two more entries in its configuration, which no study writes: `code`, the hash
of that code, and with a data set of one's own `sample`, what its samples look like. So another network is another
trial, and how a data set's samples look is known from a record without running code.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from steplab.core.errors import InputError
from steplab.core.trial import Config, Level
from steplab_worker.data import Spec

MODULE = "module:"  # the prefix of a user's own function, module:package.module:function
FORM = re.compile(r"module:[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
ONNX = "onnx:"  # the prefix of a user's own network in a file, onnx:FILE
RUNS_IN = {MODULE: "torch", ONNX: "onnxruntime"}  # the framework that runs what is one's own
FACTORS = ("network", "dataset", "step")  # of which a level may be one's own
CODE, SAMPLE = "code", "sample"
INSTALLED = "installed:"  # before the name of a module that is not in the study's folder
_DIGITS = 12


def is_own(level: object) -> bool:
    """Whether a level names code, or a file, of the user's.

    >>> is_own("module:net:make"), is_own("onnx:net.onnx"), is_own("lenet5")
    (True, True, False)
    """
    return isinstance(level, str) and level.startswith(tuple(RUNS_IN))


def is_file(level: object) -> bool:
    """Whether a level names a network in an ONNX file."""
    return isinstance(level, str) and level.startswith(ONNX)


def runs_in(level: str) -> str:
    """The framework that runs what a level of one's own names.

    >>> runs_in("onnx:net.onnx")
    'onnxruntime'
    """
    return next(framework for prefix, framework in RUNS_IN.items() if level.startswith(prefix))


def form_problem(level: str) -> str:
    """What is wrong with how a level names a function or a file, or an empty string.

    >>> form_problem("module:net.py:make")
    "must look like 'module:file:function', without '.py'"
    >>> form_problem("onnx:../net.onnx")
    "must name a file in the study's folder, 'onnx:net.onnx'"
    """
    if is_file(level):
        path = PurePosixPath(level.removeprefix(ONNX))
        inside = path.name and not path.is_absolute() and ".." not in path.parts
        return "" if inside else "must name a file in the study's folder, 'onnx:net.onnx'"
    if FORM.fullmatch(level) and ".py:" not in level:
        return ""
    return "must look like 'module:file:function', " + ("without '.py'" if ".py:" in level else "dots between folders")


@dataclass(frozen=True)
class CodeUse:
    """What a trial names, of which at least one is the user's own, and the environment in which it runs."""

    network: str
    dataset: str
    step: str
    environment: str

    @property
    def own(self) -> tuple[str, ...]:
        """The functions of the user's."""
        return tuple(level for level in (self.network, self.dataset, self.step) if is_own(level))

    @property
    def framework(self) -> str:
        """The one that runs it."""
        return runs_in(self.own[0])


def code_use(config: Config) -> CodeUse | None:
    """The code of the user's that a trial runs; None if it runs none, or names some that its framework does not run.

    >>> code_use({"framework": "torch", "network": "module:net:make"}).own
    ('module:net:make',)
    """
    levels = {"network": "lenet5", "dataset": "mnist", "step": "", "environment": "", "framework": RUNS_IN[MODULE]}
    levels |= {name: str(config[name]) for name in levels if name in config}
    use = CodeUse(*(levels[name] for name in (*FACTORS, "environment")))
    return use if {runs_in(level) for level in use.own} == {levels["framework"]} else None


@dataclass(frozen=True)
class CodeIdentity:
    """What code consists of: the hashes of its files by their paths, and of the network's graph."""

    files: Mapping[str, str]
    graph: str = ""
    sample: str = ""  # of a data set of one's own: shape, classes, number of samples

    @property
    def code(self) -> str:
        """One hash of it all; its first letters keep a spreadsheet from taking it for a number.

        >>> CodeIdentity({"net.py": "00"}).code
        'sha-b2c97f26d5dd'
        """
        text = json.dumps([dict(self.files), self.graph], sort_keys=True)
        return "sha-" + hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]

    @property
    def entries(self) -> dict[str, Level]:
        """What it adds to a trial's configuration."""
        entries: dict[str, Level] = {CODE: self.code}
        return entries | {SAMPLE: self.sample} if self.sample else entries


@dataclass(frozen=True)
class OwnCode:
    """The code of one study, examined; without any it is `NO_CODE`."""

    folder: Path | None = None
    identities: Mapping[CodeUse, CodeIdentity] = field(default_factory=dict)

    def entries(self, config: Config) -> dict[str, Level]:
        """What the code adds to a configuration; nothing where there is none, or none that was examined."""
        identity = self._identity(config)
        return identity.entries if identity else {}

    def parts(self, config: Config) -> dict[str, str]:
        """The hashes behind a configuration's `code`: each file's, and the graph's."""
        identity = self._identity(config)
        if identity is None:
            return {}
        return dict(identity.files) | ({"graph": identity.graph} if identity.graph else {})

    def _identity(self, config: Config) -> CodeIdentity | None:
        use = code_use(config)
        return None if use is None else self.identities.get(use)

    def expect_unchanged(self) -> None:
        """Say so if a file has changed since it was examined: its trials would bear the name of other code."""
        for name, digest in {part for identity in self.identities.values() for part in identity.files.items()}:
            file = Path(self.folder or "") / name
            if not name.startswith(INSTALLED) and _digest(file) != digest:
                hint = "finished trials stay; run the study again to measure the new code"
                raise InputError("has changed while the study ran", where=str(file), hint=hint)


NO_CODE = OwnCode()


def _digest(file: Path) -> str:
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError:
        return ""


def sample_text(spec: Spec) -> str:
    """What samples look like, as one level: shape, classes, how many.

    >>> sample_text(sample_spec("3x32x32/10/5000"))
    '3x32x32/10/5000'
    """
    return f"{'x'.join(map(str, spec.shape))}/{spec.classes}/{spec.train}"


def sample_spec(text: str) -> Spec:
    """The same, read."""
    if not re.fullmatch(r"[1-9]\d{0,8}(x[1-9]\d{0,8}){0,7}/\d{1,9}/\d{1,15}", text):
        raise InputError(f"{text[:60]!r} does not say what a sample looks like", where=SAMPLE)
    shape, classes, samples = text.split("/")
    extents = tuple(map(int, shape.split("x")))
    return Spec(extents, int(classes), int(samples), 0, int(samples), (0.0,), (1.0,))
