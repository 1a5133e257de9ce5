"""Extensions: what other distributions add to steplab by entry points, found without importing any of it.

Each kind has its group, `steplab.frameworks` and so on, and each extension is one file: the module that its entry point
names. Finding them must cost `steplab --help` next to nothing, so only those files are opened that installers write for
distributions with entry points, and only those that name a group of steplab are parsed.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

from steplab.core.errors import InputError
from steplab.core.files import read_regular
from steplab.core.parsing import parsing

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# What the file of each kind must define.
DEFINES: Mapping[str, tuple[str, ...]] = {
    "framework": ("DECLARATION", "Adapter"),
    "network": ("OPTIONS", "PARAMETERS", "INPUT", "CLASSES", "build"),
    "model": ("MODEL",),
    "command": ("app",),
    "launcher": ("LAUNCHER",),
}
LOADED_BY_FILE = ("framework", "network")  # in the framework's environment, which does not have their package
NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_MAX_BYTES = 10_000_000
_OURS = re.compile(rb"^\s*\[\s*steplab\.", re.MULTILINE)


@dataclass(frozen=True)
class Extension:
    """What a distribution adds under a name: its file, or why it cannot be used."""

    kind: str
    name: str
    distribution: str
    file: Path | None
    problem: str = ""

    def usable_file(self) -> Path:
        """The file; one sentence if the extension is broken."""
        if self.problem or self.file is None:
            raise InputError(self.problem)
        return self.file

    def broken(self, why: str) -> Extension:
        """The same extension with the reason why it cannot be used."""
        sentence = f"the {self.kind} {self.name!r} of {self.distribution} cannot be used: {why}"
        return Extension(self.kind, self.name, self.distribution, self.file, sentence)


@cache
def extensions(kind: str, builtin: tuple[str, ...] = ()) -> Mapping[str, Extension]:
    """All extensions of a kind by name, those that cannot be used with their reason; `builtin` names are taken."""
    points = sorted(entry_points(f"steplab.{kind}s").values(), key=lambda point: point.name)
    return {point.name: _extension(kind, point, builtin) for point in points}


def _extension(kind: str, point: EntryPoint, builtin: Iterable[str]) -> Extension:
    file = source_of(point)
    extension = Extension(kind, point.name, _distribution(point), file)
    if not NAME.fullmatch(point.name):
        return extension.broken("a name has lower-case letters, digits, dashes and underscores")
    if point.name in builtin:
        return extension.broken(f"steplab has a {kind} of that name; choose another one")
    if point.attr and kind in LOADED_BY_FILE:
        return extension.broken(f"its entry point must name a module, not {point.value!r}")
    if file is None:
        return extension.broken(f"there is no module {point.module!r}")
    why = _lacking(file, (point.attr.partition(".")[0],) if point.attr else DEFINES[kind])
    return extension.broken(why) if why else extension


def _distribution(point: EntryPoint) -> str:
    # `dist` is none only where an entry point was made by hand.
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown distribution"


def _lacking(file: Path, names: Iterable[str]) -> str:
    """Why a file cannot be what it should be, or an empty string."""
    try:
        defined = set(_defined(parsed(file)))
    except InputError as error:
        return str(error)
    missing = [name for name in names if name not in defined]
    return f"{file} does not define {', '.join(missing)}" if missing else ""


def parsed(file: Path) -> ast.Module:
    """The syntax of a Python file, which is not run."""
    with parsing("is not valid Python", str(file)):
        return ast.parse(read_regular(file, _MAX_BYTES), file.name)


def _defined(tree: ast.Module) -> Iterator[str]:
    """The names that a module defines on its top level."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            targets = (part for target in node.targets for part in ast.walk(target))
            yield from (target.id for target in targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)


@cache
def entry_points(group: str) -> Mapping[str, EntryPoint]:
    """The entry points of a group by name; of two with one name the first on the path."""
    points: dict[str, EntryPoint] = {}
    for point in _all_points():
        if point.group == group:
            points.setdefault(point.name, point)
    return points


@cache
def _all_points() -> tuple[EntryPoint, ...]:
    """Of every installed distribution that names one of our groups."""
    folders = list(_extending(sys.path))
    if not folders:
        return ()
    from importlib.metadata import Distribution

    distributions: dict[str, Distribution] = {}
    for folder in folders:
        distribution = Distribution.at(folder)
        distributions.setdefault(distribution.name.lower(), distribution)  # the first on the path is the one imported
    return tuple(point for distribution in distributions.values() for point in distribution.entry_points)


def _extending(path: Iterable[str]) -> Iterator[Path]:
    """The metadata folders, on a path for imports, of distributions with entry points for steplab."""
    here = _current_folder()
    for entry in dict.fromkeys(path):
        # What lies in the current folder is not installed: `python -m steplab` must be safe in a stranger's folder.
        if entry and entry != here:
            yield from (Path(folder) for folder in _metadata_folders(entry) if _names_us(f"{folder}/entry_points.txt"))


def _current_folder() -> str:
    try:
        return str(Path.cwd())
    except OSError:
        return ""  # it has been removed


def _metadata_folders(entry: str) -> list[str]:
    try:
        names = sorted(os.listdir(entry))  # noqa: PTH208 - a Path for each name would cost more than all the rest
    except OSError:
        return []  # an archive, or nothing at all
    return [f"{entry}/{name}" for name in names if name.endswith((".dist-info", ".egg-info"))]


def _names_us(path: str) -> bool:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return _OURS.search(file.read()) is not None
    except OSError:
        return False


def source_of(point: EntryPoint) -> Path | None:
    """The file of an entry point's module, or none; neither it nor the packages around it are imported."""
    first, *rest = point.module.split(".")
    try:
        spec = importlib.util.find_spec(first)
        name = first
        for part in rest:
            if spec is None:
                return None
            name = f"{name}.{part}"
            spec = PathFinder.find_spec(name, spec.submodule_search_locations or [])
    except (ImportError, ValueError):
        return None
    return Path(spec.origin) if spec is not None and spec.has_location and spec.origin else None
