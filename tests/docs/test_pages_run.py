"""Every command that the documentation shows is run, word by word, in a folder as the page presumes it."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from itertools import product
from pathlib import Path

import pytest
from pages import commands, files, typed

from steplab.cli import command_files

DOCS = Path(__file__).parents[2] / "docs"
HANDMADE = sorted(page.stem for page in (DOCS / "commands").glob("*.md") if "console" in page.read_text())
OTHERS = ["index.md", "costs.md", "data.md"]

# Examples of `--help` that cannot be run here, and why.
NOT_RUN = {
    "compare": "all models take a while; its page compares two",
    "env add": "registers an interpreter that only its owner has",
    "env check": "tries all seven frameworks; its page tries one",
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


def table() -> str:
    """Times by a law, for more workers than this machine has cores."""
    grid = product([4, 8, 16], [32, 64, 128], [1, 2, 8, 32], ["sync", "accumulate:4"])
    rows = [(f, b, n, s, 1e-3 + 1e-5 * f * b + 1e-4 * n**0.5 / (4 if ":" in s else 1)) for f, b, n, s in grid]
    return "\n".join(["filters,batch_size,workers,strategy,t_iter", *(",".join(map(str, row)) for row in rows)]) + "\n"


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the pages of the commands presume: the ready studies, one that was run, its table, a model."""
    folder = tmp_path_factory.mktemp("shelf")
    shutil.copytree(DOCS.parent / "studies", folder / "studies")
    (folder / "studies" / "demo.toml").write_text(DEMO)
    typed("steplab run studies/demo.toml --out runs/demo", folder)
    typed("cp -r runs/demo runs/upgraded", folder)
    (folder / "times.csv").write_text(table())
    link = {"bandwidth": "1 Gbit/s", "latency": "50 µs", "nodes": 3, "ranks_per_node": 1}
    (folder / "box.json").write_text(json.dumps({"name": "box", "link": link}))
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
    if name == "predict":  # and one over a network, which the help of fit makes
        typed(next(line for line in help_examples("fit") if "--network" in line), desk)
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
    own = {"tutorial.md", "frameworks.md", "slurm.md", "hosts.md", "transformers.md"}
    shown = {page.name for page in DOCS.glob("*.md") if list(commands(page.read_text()))}
    assert shown - own <= set(OTHERS)


def test_the_hosts_page_makes_a_net_that_is_listed_and_ended(desk: Path) -> None:
    """Its only command stays until it is ended, which this test does."""
    (line,) = commands((DOCS / "hosts.md").read_text())
    try:
        typed(line, desk)
        assert "box" in typed("steplab net list", desk)
    finally:
        typed("steplab net down box", desk)


def test_the_frameworks_page_names_real_environments(tmp_path: Path) -> None:
    """Its commands would install every framework; their words are checked instead."""
    for line in commands((DOCS / "frameworks.md").read_text()):
        words = shlex.split(line, comments=True)
        typed(" ".join([*words[:3], "--help"]), tmp_path)
