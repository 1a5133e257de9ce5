"""Every command that the documentation shows is run, word by word, in a folder as the page presumes it."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from steplab.cli import command_files

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^```(\w*)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.M | re.S)
HANDMADE = sorted(page.stem for page in (DOCS / "commands").glob("*.md") if "console" in page.read_text())
OTHERS = ["index.md", "costs.md", "data.md", "transformers.md"]

# Examples of `--help` that cannot be run here, and why.
NOT_RUN = {
    "compare": "all models take a while; its page compares two",
    "env add": "registers an interpreter that only its owner has",
    "env check": "tries all six frameworks; its page tries one",
    "env create": "installs a second PyTorch for good; `test_variants.py` makes other versions of small packages",
    "import": "needs files of other programs",
    "roofline": "measures the machine for minutes",
    "serve": "never ends",
    "network": "needs a cluster in a box; its page measures this machine",
    "net down": "ends what its page makes",
    "net up": "stays until it is ended; its page makes and ends one",
    "run": "the same study as on its page",
}

DEMO = """\
[study]
name = "demo"
[factors]
framework = ["synthetic"]
network = ["lenet5"]
batch_size = [32, 64, 128]
workers = [1, 2]
strategy = ["sync", "accumulate:4"]
noise = 0.03
[design]
replicates = 2
[measure]
iterations = 8
warmup = 2
"""
NETWORK = """\
def make():
    from torch import nn

    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))
"""


def commands(text: str) -> Iterator[str]:
    """The commands in fenced blocks: lines that begin with `$ `, or with the program's name."""
    for kind, _, body in FENCE.findall(text):
        for line in body.splitlines():
            if line.startswith("$ "):
                yield line[2:]
            elif kind != "console" and line.startswith("steplab "):
                yield line


def files(text: str) -> Iterator[tuple[str, str]]:
    """The files that a page tells its reader to save."""
    return ((title, body) for _, title, body in FENCE.findall(text) if title)


def typed(line: str, folder: Path, timeout: float = 300) -> str:
    """What a command prints; it must end well."""
    paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    variables = {**os.environ, "PATH": paths, "NO_COLOR": "1", "COLUMNS": "80", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        ["bash", "-c", line], cwd=folder, env=variables, capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def table() -> str:
    """Times by a law, for more workers than this machine has cores."""
    grid = product([4, 8, 16], [32, 64, 128], [1, 2, 8, 32], ["sync", "accumulate:4"])
    rows = [(f, b, n, s, 1e-3 + 1e-5 * f * b + 1e-4 * n**0.5 / (4 if ":" in s else 1)) for f, b, n, s in grid]
    return "\n".join(["filters,batch_size,workers,strategy,t_iter", *(",".join(map(str, row)) for row in rows)]) + "\n"


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the pages of the commands presume: the ready studies, one that was run, its table, a model."""
    folder = tmp_path_factory.mktemp("shelf")
    shutil.copytree(ROOT / "studies", folder / "studies")
    (folder / "studies" / "demo.toml").write_text(DEMO)
    typed("steplab run studies/demo.toml --out runs/demo", folder)
    typed("cp -r runs/demo runs/upgraded", folder)
    (folder / "times.csv").write_text(table())
    roles = "--extrinsic batch_size,workers --categorical strategy"
    typed(f"steplab fit runs/demo --target t_iter {roles} --out model.json", folder)
    return folder


@pytest.fixture
def desk(shelf: Path, tmp_path: Path) -> Path:
    """A copy of that folder."""
    return Path(shutil.copytree(shelf, tmp_path / "desk"))


@pytest.mark.parametrize("name", HANDMADE)
def test_the_examples_of_a_commands_page(name: str, desk: Path) -> None:
    lines = list(commands((DOCS / "commands" / f"{name}.md").read_text()))
    assert any(line.startswith(f"steplab {name}") for line in lines)
    for line in lines:
        typed(line, desk)


def help_examples(name: str) -> list[str]:
    """The examples in a command's own help that its page does not show already, in their order."""
    page = DOCS / "commands" / f"{name}.md"
    shown = set(commands(page.read_text())) if page.exists() else set()
    found = re.findall(r"^    Example: (.+)$", command_files()[name].read_text(), re.M)
    return [one for one in found if one not in shown and not {name, " ".join(one.split()[1:3])} & set(NOT_RUN)]


@pytest.mark.parametrize("name", [name for name in command_files() if help_examples(name)])
def test_the_examples_of_help(name: str, desk: Path) -> None:
    if name in ("predict", "plan"):  # their examples ask a model of two factors
        typed("steplab fit times.csv --extrinsic batch_size,workers --out model.json", desk)
        link = {"bandwidth": "1 Gbit/s", "latency": "50 µs", "nodes": 3, "ranks_per_node": 1}
        (desk / "box.json").write_text(json.dumps({"name": "box", "link": link}))
    for line in help_examples(name):
        typed(line, desk)


@pytest.mark.parametrize("page", OTHERS)
def test_the_commands_of_a_page(page: str, desk: Path) -> None:
    (desk / "my_package").mkdir()
    (desk / "my_package" / "__init__.py").touch()
    (desk / "my_package" / "networks.py").write_text(NETWORK)
    onnx_file(desk / "mine.onnx")
    text = (DOCS / page).read_text()
    for name, body in files(text):
        (desk / name).write_text(body)
    lines = list(commands(text))
    assert lines
    for line in lines:
        typed(line, desk)


def onnx_file(path: Path) -> None:
    """A network of one dense layer."""
    import onnx
    from onnx import TensorProto, helper

    weight = helper.make_tensor("w", TensorProto.FLOAT, [4, 2], [0.0] * 8)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "dense",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])], [weight],
    )  # fmt: skip
    onnx.save(helper.make_model(graph), path)


def test_every_page_with_commands_is_run() -> None:
    """A new page with commands must be listed above, or be one of the pages that have tests of their own."""
    own = {"tutorial.md", "frameworks.md", "slurm.md", "hosts.md"}
    shown = {page.name for page in DOCS.glob("*.md") if list(commands(page.read_text()))}
    assert shown - own <= set(OTHERS)


@pytest.mark.framework("torch")
def test_the_tutorial_word_by_word_in_an_empty_folder(tmp_path: Path) -> None:
    text = (DOCS / "tutorial.md").read_text()
    for name, body in files(text):
        (tmp_path / name).write_text(body)
    said = {line: typed(line, tmp_path, timeout=900) for line in commands(text)}
    assert "18 trials: 6 configurations, 3 replicates" in said["steplab run workers.toml --dry-run"]
    assert "36 ok, 0 failed" in typed("steplab status runs/workers", tmp_path)
    assert "highest throughput" in said["steplab analyze runs/workers"]
    assert "OUTSIDE" in said['steplab predict model.json --at "batch_size=256,workers=2,strategy=sync"']
    assert (tmp_path / "report.html").stat().st_size > 100_000


@pytest.mark.framework("torch")
def test_the_session_of_the_readme(tmp_path: Path) -> None:
    lines = [line for line in commands((ROOT / "README.md").read_text()) if line.startswith("steplab")]
    assert len(lines) >= 9
    for line in lines:
        typed(line, tmp_path, timeout=900)


def test_the_hosts_page_makes_a_net_that_is_listed_and_ended(desk: Path) -> None:
    """Its only command stays until it is ended, which this test does."""
    (line,) = commands((DOCS / "hosts.md").read_text())
    try:
        typed(line, desk)
        assert "box" in typed("steplab net list", desk)
    finally:
        typed("steplab net down box", desk)


def test_the_frameworks_page_names_real_environments() -> None:
    """Its commands would install every framework; their words are checked instead."""
    for line in commands((DOCS / "frameworks.md").read_text()):
        words = shlex.split(line, comments=True)
        typed(" ".join([*words[:3], "--help"]), ROOT)
