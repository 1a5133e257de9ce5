"""The worked examples: every page is typed word by word, shows what it says, and ends in a decision of one sentence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import FENCE, commands, files, typed

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
PAGES = sorted(page.stem for page in EXAMPLES.glob("*.md") if page.stem != "index")


def output_of(page: str, folder: Path) -> str:
    """What the commands of a page print, in a folder with its files."""
    text = (EXAMPLES / f"{page}.md").read_text()
    for title, body in files(text):
        (folder / title).write_text(body)
    return "".join(typed(line, folder) for line in commands(text))


def flat(text: str) -> str:
    """Words with single blanks: a terminal breaks lines where it must."""
    return " ".join(text.split())


def shown(page: str) -> list[str]:
    """The lines of output that a page shows."""
    text = (EXAMPLES / f"{page}.md").read_text()
    return [line for kind, _, body in FENCE.findall(text) if kind == "text" for line in body.splitlines()]


def test_there_are_five_examples_and_the_index_names_them() -> None:
    assert len(PAGES) == 5
    assert set(re.findall(r"\]\(([\w-]+)\.md\)", (EXAMPLES / "index.md").read_text())) == set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_ends_in_a_decision_of_one_sentence(page: str) -> None:
    *_, last = (EXAMPLES / f"{page}.md").read_text().strip().split("\n\n")
    assert re.fullmatch(r"\*\*Decision\.\*\* [^.]+(\.\d[^.]*)*\.", flat(last)), last
    assert len(shown(page)) >= 3


def test_a_table_from_a_cluster(tmp_path: Path) -> None:
    output = flat(output_of("cluster", tmp_path))
    assert [line for line in shown("cluster") if line not in output] == []
    assert (tmp_path / "cluster.html").stat().st_size > 100_000


@pytest.mark.framework("torch")
def test_an_own_network(tmp_path: Path) -> None:
    output = flat(output_of("own-network", tmp_path))
    assert "module:networks:separable" in output and "sha-" not in output  # the code is no factor beside the network
    assert [line for line in shown("own-network") if "FLOP" in line and line not in output] == []


@pytest.mark.framework("torch")
def test_trainings_to_a_target(tmp_path: Path) -> None:
    output = flat(output_of("train", tmp_path))
    assert "The target accuracy of 90 % was reached" in output
    assert "Never reached it in 8 epochs: batch_size 256" in output


@pytest.mark.framework("torch")
@pytest.mark.framework("mxnet")
@pytest.mark.parametrize(("page", "words"), [("frameworks", ("torch", "mxnet")), ("inference", ("p50", "p95", "p99"))])
def test_two_frameworks(page: str, words: tuple[str, ...], tmp_path: Path) -> None:
    output = flat(output_of(page, tmp_path))
    assert all(word in output for word in words)
