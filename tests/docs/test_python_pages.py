"""What the documentation shows of Python runs: the page's examples, and the notebook."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import steplab

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLE = re.compile(r"^```python[^\n]*\n(.*?)^```$", re.M | re.S)
EXECUTE = """
import sys, nbclient, nbformat
notebook = nbformat.read(sys.argv[1], 4)
nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[2])
"""


def test_the_examples_of_the_page_run_in_their_order(tmp_path: Path) -> None:
    code = "\n".join(EXAMPLE.findall((DOCS / "python.md").read_text()))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "t_iter" in {*steplab.open(tmp_path / "runs" / "rehearsal").trials.columns}
    assert (tmp_path / "report.html").exists()


def executed(folder: Path) -> list[dict[str, Any]]:
    """The outputs of the notebook's cells, run in a folder of its own."""
    places = {name: str(folder / name) for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR")}
    command = [sys.executable, "-c", EXECUTE, str(DOCS / "notebook.ipynb"), str(folder / "out.ipynb")]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **places}, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    cells = json.loads((folder / "out.ipynb").read_text())["cells"]
    return [output for cell in cells for output in cell.get("outputs", ())]


def test_the_notebook_runs_and_shows_tables_without_scripts(tmp_path: Path, no_orphans: Callable[[], None]) -> None:
    outputs = executed(tmp_path)
    shown = ["".join(output["data"]["text/html"]) for output in outputs if "text/html" in output.get("data", {})]
    assert len(shown) >= 8
    assert all("<script" not in text for text in shown)
    assert any("<svg" in text for text in shown)
    assert not any(output["output_type"] == "stream" for output in outputs)


def test_the_notebook_is_kept_without_outputs() -> None:
    cells = json.loads((DOCS / "notebook.ipynb").read_text())["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
