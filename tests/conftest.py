"""What tests of several folders share: the command line, study files, the real PyTorch environment."""

from __future__ import annotations

import os

# Before NumPy is there: two tests at a time have two cores, and threads on small matrices only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# A thousand processes are started: with this one set, each would compile the same files again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

import contextlib
import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import psutil
import pytest
import work_units
from terminal import Screen, Terminal

from steplab.core.errors import EnvironmentFault
from steplab.runner.environments.registry import find

ROOT = Path(__file__).parents[1]
InTorch = Callable[[str, Any], Any]
PATIENCE_S = 120.0  # ends a hang; nothing takes that long, however busy the machine

# Added to the profile that Hypothesis has chosen: in continuous integration that is its own, `ci`.
hypothesis.settings.register_profile(
    "busy machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("busy machine")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long work comes first, and what shares warm ranks together."""
    items.sort(key=lambda item: work_units.place(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadfile`, as in the Makefile, workers get a unit of tests at a time."""
    return work_units.ByUnit(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def torch_python() -> Path:
    """The interpreter of the PyTorch environment; without it the tests fail, they are not left out."""
    named = os.environ.get("STEPLAB_TEST_TORCH")
    if named:
        return Path(named)
    try:
        return find("torch").python
    except EnvironmentFault as fault:
        pytest.fail(f"these tests need the PyTorch environment: {fault}", pytrace=False)


@pytest.fixture(scope="session")
def in_torch(torch_python: Path, tmp_path_factory: pytest.TempPathFactory) -> InTorch:
    """Run `tests/torch_scripts/NAME.py` on a job inside the PyTorch environment; its answer."""

    def run(name: str, job: Any) -> Any:
        answer = tmp_path_factory.mktemp(name) / "answer.json"
        script = Path(__file__).parent / "torch_scripts" / f"{name}.py"
        variables = {
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        done = subprocess.run(
            [str(torch_python), str(script), str(answer)], input=json.dumps(job), text=True, capture_output=True,
            env=variables, timeout=600, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(answer.read_text())

    return run


STEPLAB = Path(sys.executable).with_name("steplab")


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The document on stdout."""
        return json.loads(self.out)


Steplab = Callable[..., Ran]


@pytest.fixture
def program(tmp_path: Path) -> Steplab:
    """Run the command `steplab` in a fresh folder, as a person would: a process of its own."""

    def run(
        *arguments: object, cwd: Path = tmp_path, env: Mapping[str, str] | None = None, timeout: float = 300
    ) -> Ran:
        variables = {**os.environ, "NO_COLOR": "1", "COLUMNS": "100", **(env or {})}
        done = subprocess.run(
            [STEPLAB, *map(str, arguments)],
            cwd=cwd,
            env=variables,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Ran(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def at_terminal(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    """Begin a command on a terminal of 80 columns; by default `steplab`."""
    terminals: list[Terminal] = []

    def begin(*arguments: object, command: Sequence[object] = (STEPLAB,), env: Mapping[str, str] | None = None,
              cwd: Path = tmp_path, columns: int = 80) -> Terminal:  # fmt: skip
        terminals.append(Terminal([*command, *arguments], cwd, env or {}, columns))
        return terminals[-1]

    yield begin
    for terminal in terminals:
        if terminal.process.poll() is None:
            terminal.kill()


@pytest.fixture
def on_terminal(at_terminal: Callable[..., Terminal]) -> Callable[..., Screen]:
    """Run the command `steplab` on a terminal of 80 columns to its end."""

    def run(*arguments: object, **options: Any) -> Screen:
        screen = at_terminal(*arguments, **options).ended()
        assert "Traceback" not in screen.text
        return screen

    return run


@pytest.fixture
def in_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Steplab:
    """Call a command in this process: to start an interpreter with its libraries takes longer than most commands."""
    from steplab.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def call(*arguments: object, env: Mapping[str, str] | None = None) -> Ran:
        capsys.readouterr()
        with monkeypatch.context() as patch, pytest.raises(SystemExit) as ended:
            patch.setattr(sys, "argv", ["steplab", *map(str, arguments)])
            for name, value in (env or {}).items():
                patch.setenv(name, value)
            main()
        output = capsys.readouterr()
        assert "Traceback" not in output.err, output.err
        return Ran(int(ended.value.code or 0), output.out, output.err)

    return call


@pytest.fixture
def steplab(program: Steplab) -> Steplab:
    """The command, by default as a program; where many are called and nothing depends on it, in the test's process."""
    return program


@pytest.fixture
def study_file(tmp_path: Path) -> Callable[..., Path]:
    """Write a study file from factors and sections; synthetic and small unless told otherwise."""

    def write(
        name: str = "rehearsal", *, kind: str = "step", measure: str = "", design: str = "", **factors: object
    ) -> Path:
        levels = {"framework": ["synthetic"], **factors}
        lines = [f'[study]\nname = "{name}"\nkind = "{kind}"\n[factors]']
        lines += [f"{factor} = {json.dumps(value)}" for factor, value in levels.items()]
        lines += [f"[design]\nreplicates = 2\n{design}", f"[measure]\niterations = 8\nwarmup = 2\n{measure}"]
        path = tmp_path / f"{name}.toml"
        path.write_text("\n".join(lines) + "\n")
        return path

    return write


def marked_processes(mark: str) -> list[psutil.Process]:
    """All processes of this machine that descend from a test, however they were orphaned."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get("STEPLAB_TEST_MARK") == mark:
                found.append(process)
    return found


@pytest.fixture
def no_orphans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Check that no process started during the test is left; also at the test's end."""
    mark = uuid.uuid4().hex
    monkeypatch.setenv("STEPLAB_TEST_MARK", mark)

    def check(patience_s: float = PATIENCE_S) -> None:
        deadline = time.monotonic() + patience_s
        while left := marked_processes(mark):
            assert time.monotonic() < deadline, f"left running: {left}"
            time.sleep(0.05)

    yield check
    check()
