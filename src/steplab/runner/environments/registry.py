"""Framework environments: a venv of its own for each framework, or an interpreter that the user already has."""

from __future__ import annotations

import contextlib
import fcntl
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from steplab.core import catalogue
from steplab.core.errors import EnvironmentFault, InputError
from steplab.core.framework import Framework
from steplab.core.home import home
from steplab.runner.environments import worker
from steplab.runner.environments.installer import install
from steplab.runner.environments.variants import VERSION, Variant, failure

PROBE_S = 600.0  # the first import of a framework may take long


@dataclass(frozen=True)
class Environment:
    """An interpreter in which a framework runs."""

    name: str
    framework: str
    python: Path
    version: str
    lock: tuple[str, ...]


@dataclass(frozen=True)
class Listed:
    """One line of `steplab env list`."""

    name: str
    framework: str
    version: str
    ready: bool
    reason: str


def folder(name: str) -> Path:
    """Where the environment of that name lives; a path is no name."""
    if problem := catalogue.environment_problem(name):
        raise EnvironmentFault(f"{name!r} {problem}")
    return home() / "envs" / name


def _note(name: str) -> Path:
    """What steplab knows of an environment; written when it is whole."""
    return folder(name) / "steplab.json"


def _log(name: str) -> Path:
    """What the installers said."""
    return folder(name).with_name(f"{name}.log")


def find(framework: str, name: str = "") -> Environment:
    """The environment for a framework, ready to use."""
    declared = catalogue.framework(framework)
    if not declared.needs_environment:
        return _laboratory(framework)
    name = name or framework
    note = folder(name) / "steplab.json"
    if not note.exists():
        raise EnvironmentFault(f"there is no environment {name!r} for {declared.title}; {_way(framework, name)}")
    environment = _read(note)
    if environment.framework != framework:
        raise EnvironmentFault(f"the environment {name!r} is for {environment.framework}, not for {framework}")
    if not environment.python.exists():
        raise EnvironmentFault(f"{environment.python} of the environment {name!r} is gone; create or add it again")
    return environment


def _way(framework: str, name: str) -> str:
    """How an environment comes to be: made, or an interpreter registered."""
    if name == framework:
        return f"make it with `steplab env create {name}`"
    version = name.removeprefix(f"{framework}-")
    how = f"register it with `steplab env add {name} --framework {framework} --python PATH`"
    if not VERSION.fullmatch(version):
        return how
    return f"make it with `steplab env create {framework} --version {version}`, or {how}"


def _laboratory(framework: str) -> Environment:
    """The virtual frameworks run in the laboratory's own interpreter."""
    return Environment(framework, framework, Path(sys.executable), "1", _own_lock())


def _own_lock() -> tuple[str, ...]:
    import numpy

    return (f"numpy=={numpy.__version__}",)


def _read(note: Path) -> Environment:
    try:
        document = json.loads(note.read_text(encoding="utf-8"))
        texts = [document[field] for field in ("name", "framework", "python", "version")]
        if not all(isinstance(text, str) for text in texts):
            raise TypeError
        name, framework, python, version = texts
        return Environment(name, framework, Path(python), version, tuple(map(str, document["lock"])))
    except FileNotFoundError:
        raise EnvironmentFault(f"there is no environment {note.parent.name!r}") from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise EnvironmentFault(f"{note} cannot be read; remove it and create the environment again") from None


def create(variant: Variant, say: Callable[[str], None], name: str = "") -> Environment:
    """Make an environment from a framework's pins, as a variant changes them; nothing if it is there already."""
    declared, name, installs = variant.framework, name or variant.name, variant.installs
    if not declared.needs_environment:
        say(f"{declared.name}: needs no environment")
        return _laboratory(declared.name)
    _expect_own_name(variant, name)
    _require_debian(declared)
    sweep()
    with _alone(name) as lock:
        if _is_made_of(name, installs):
            say(f"{name}: ready in {folder(name)}")
            return find(declared.name, name)
        _discard(name)
        say(f"{name}: installing {', '.join(word for step in installs for word in step)}")
        python = _venv(name, installs, lock, lambda news: say(f"{name}: {news}"))
        environment = _register(name, declared.name, python, installs)
    say(f"{name}: {environment.version} ready in {folder(name)}")
    return environment


def _expect_own_name(variant: Variant, name: str) -> None:
    """Another variant must not take the place of a framework's own environment, nor of an interpreter registered."""
    plain = Variant(variant.framework)
    if name in catalogue.framework_names() and (name != variant.framework.name or variant != plain):
        raise EnvironmentFault(f"{name!r} is the name of a framework's own environment; choose another with --name")
    if _note(name).exists() and not (folder(name) / "bin").exists():
        raise EnvironmentFault(f"{name!r} is an interpreter that was registered; choose another name with --name")


def add(name: str, python: Path, framework: str) -> Environment:
    """Register an interpreter that the user already has."""
    catalogue.framework(framework)  # says so if there is none
    if not python.exists():
        raise EnvironmentFault(f"{python}: there is no such interpreter")
    if (folder(name) / "bin").exists():
        raise EnvironmentFault(f"{name!r} is an environment made by steplab; choose another name")
    with _alone(name):
        return _register(name, framework, python.absolute(), ())


def check(name: str) -> Listed:
    """Import the framework in its environment and say whether that works."""
    try:
        environment = _read(folder(name) / "steplab.json")
        version = probe(environment.python, environment.framework)["version"]
        return Listed(name, environment.framework, str(version), True, "")
    except (EnvironmentFault, InputError) as fault:
        return Listed(name, name, "", False, str(fault))


def listing() -> list[Listed]:
    """All environments, made or not, without starting any."""
    names = {path.parent.name for path in (home() / "envs").glob("*/steplab.json")}
    return [_listed(name) for name in sorted(names | set(catalogue.framework_names()))]


def _listed(name: str) -> Listed:
    try:
        known = name in catalogue.framework_names()
        environment = find(name) if known else _read(folder(name) / "steplab.json")
        catalogue.framework(environment.framework)  # an extension may have been removed, or be broken
        ready = environment.python.exists()
        return Listed(name, environment.framework, environment.version, ready, "" if ready else "interpreter is gone")
    except (EnvironmentFault, InputError) as fault:
        return Listed(name, name, "", False, str(fault))


def probe(python: Path, framework: str) -> dict[str, object]:
    """Import the framework in an interpreter; its version and the packages there."""
    module = catalogue.framework(framework).module or ""
    try:
        return worker.answer(python, "environment", {"module": module}, PROBE_S)
    except worker.HelperFailed as failed:
        raise EnvironmentFault(f"{python} cannot import {module or 'numpy'}: {failed}") from None


def _register(name: str, framework: str, python: Path, installs: tuple[tuple[str, ...], ...]) -> Environment:
    probed = probe(python, framework)
    document = {"name": name, "framework": framework, "installs": installs, **probed}
    document["python"] = str(python)
    folder(name).mkdir(parents=True, exist_ok=True)
    temporary = folder(name) / ".steplab.json"
    temporary.write_text(json.dumps(document, indent=1), encoding="utf-8")
    temporary.replace(folder(name) / "steplab.json")
    return _read(folder(name) / "steplab.json")


def _is_made_of(name: str, installs: tuple[tuple[str, ...], ...]) -> bool:
    note = folder(name) / "steplab.json"
    try:
        document = json.loads(note.read_text(encoding="utf-8"))
        # Environments made before there were several steps say `pins`.
        made_of = document["installs"] if "installs" in document else [document["pins"]]
        return tuple(map(tuple, made_of)) == installs and Path(document["python"]).exists()
    except (OSError, ValueError, KeyError, TypeError):
        return False


def sweep() -> None:
    """Remove what a killed `env create` left half-made; what is being made just now stays."""
    there = sorted(path.parent.name for path in (home() / "envs").glob("*/pyvenv.cfg"))
    for name in there:
        if not catalogue.environment_problem(name) and _half_made(name):
            # Looked at again, since it may have been finished before the lock was free.
            with contextlib.suppress(OSError), _alone(name, fcntl.LOCK_NB):
                if _half_made(name):
                    _discard(name)


def _half_made(name: str) -> bool:
    return _log(name).exists() and (folder(name) / "pyvenv.cfg").exists() and not _note(name).exists()


def _discard(name: str) -> None:
    """Remove an environment; its note goes first, so that half of one never looks ready."""
    _note(name).unlink(missing_ok=True)
    shutil.rmtree(folder(name), ignore_errors=True)


def _venv(name: str, installs: tuple[tuple[str, ...], ...], lock: int, say: Callable[[str], None]) -> Path:
    base = getattr(sys, "_base_executable", sys.executable)
    log = _log(name)
    python = folder(name) / "bin" / "python"
    # -P: nothing is imported from where we are.
    pip = [str(python), "-P", "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    for command in ([base, "-P", "-m", "venv", str(folder(name))], *([*pip, *step] for step in installs)):
        before = log.stat().st_size if log.exists() else 0
        # An installer that outlives this process keeps the lock, and nobody sweeps what it writes.
        if install(command, log, lock, say):
            _discard(name)
            why = failure(log.read_bytes()[before:].decode("utf-8", "replace").splitlines())
            raise EnvironmentFault(f"{name}: cannot be installed{f': {why}' if why else ''}; its log is {log}")
    return python


def _require_debian(declared: Framework) -> None:
    missing = [package for package in declared.debian if not _installed(package)]
    if missing:
        how = f"apt-get install {' '.join(missing)}"
        raise EnvironmentFault(f"{declared.title} needs {', '.join(missing)}; install with `{how}`")


def _installed(package: str) -> bool:
    query = ["dpkg-query", "--show", "--showformat=${Status}", package]
    try:
        status = subprocess.run(query, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return True  # not a Debian system: the framework's own import will tell
    return status.startswith("install ok installed")


@contextlib.contextmanager
def _alone(name: str, how: int = 0) -> Iterator[int]:
    """One process at a time makes an environment; the others wait, or with LOCK_NB are refused."""
    folder(name).parent.mkdir(parents=True, exist_ok=True)
    with folder(name).with_name(f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | how)
        yield file.fileno()
