"""Phases are one table: no other list and no other wording of them stands in the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from steplab_worker.phases import BEFORE_EXCHANGE, LAYERED, MEASURED, PHASES, SHARES, TABLE, TIMED, WORDS, addends

ROOT = Path(__file__).parents[2]
HOME = ROOT / "src/steplab_worker/phases.py"
PAGES = sorted((ROOT / "src").rglob("*.js")) + sorted((ROOT / "src").rglob("*.html"))
FEWEST = 3  # two phases in a row are a formula, three a list
ALLOWED = {
    "src/steplab/models/ssgd.py": "REGRESSORS",  # what each phase depends on: the S-SGD model itself
    "src/steplab/kinds/infer.py": "native_phases",  # which of them a native inference times
}


def trees() -> Iterator[tuple[Path, ast.AST]]:
    """Every file of the source but the table's own."""
    return ((path, ast.parse(path.read_text())) for path in sorted((ROOT / "src").rglob("*.py")) if path != HOME)


def lists_of_phases(tree: ast.AST) -> Iterator[ast.expr]:
    """Literals with several names of phases: as elements, as first elements of pairs, as keys of plain values."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            heads = [element.elts[0] if _is_plain_row(element) else element for element in node.elts]
        elif isinstance(node, ast.Dict) and all(_is_plain(value) for value in node.values):
            heads = [key for key in node.keys if key is not None]
        else:
            continue
        if len({text for text in map(_text, heads) if text in WORDS}) >= FEWEST:
            yield node


def _text(node: ast.expr) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def _is_plain(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True


def _is_plain_row(node: ast.expr) -> bool:
    return isinstance(node, ast.Tuple | ast.List) and bool(node.elts) and _is_plain(node)


def texts(tree: ast.Module) -> Iterator[ast.Constant]:
    """Text that is no docstring."""
    documented = [tree, *(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef))]
    docstrings = [id(n.body[0].value) for n in documented if n.body and isinstance(n.body[0], ast.Expr)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def allowed(path: Path, tree: ast.Module) -> list[ast.expr]:
    name = ALLOWED.get(name_of(path))
    assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    return [node.value for node in assigned if ast.unparse(node.targets[0]) == name]


def test_no_other_list_of_phases_stands_in_the_source() -> None:
    found = {
        f"{name_of(path)}:{node.lineno}": ast.unparse(node)
        for path, tree in trees()
        for node in lists_of_phases(tree)
        if node not in allowed(path, tree)
    }
    assert found == {}


def test_no_other_wording_of_phases_stands_in_the_source() -> None:
    found = {
        f"{name_of(path)}:{node.lineno}": node.value
        for path, tree in trees()
        for node in texts(tree)
        if node.value in WORDS.values() or len(set(re.findall(r"\w+", node.value)) & set(WORDS)) >= FEWEST
    }
    assert found == {}


def test_the_report_page_lists_no_phases_itself() -> None:
    named = {name_of(path): set(re.findall(r"\w+", path.read_text())) & set(WORDS) for path in PAGES}
    assert [path for path, names in named.items() if len(names) >= FEWEST] == []


@pytest.mark.parametrize(
    "source",
    [
        'A = ("t_io", "t_f", "t_b")',
        'A = {"t_io": "reading", "t_f": "forward", "t_b": "backward"}',
        'A = (("t_io", "reading"), ("t_f", "forward"), ("t_b", "backward"))',
        'A = frozenset({"trial", "t_io", "t_f", *OTHERS, "t_b"})',
    ],
)
def test_a_list_of_phases_is_seen_in_each_of_its_forms(source: str) -> None:
    assert list(lists_of_phases(ast.parse(source)))


def test_seconds_under_the_names_of_phases_are_no_list() -> None:
    assert not list(lists_of_phases(ast.parse('A = {"t_io": read - start, "t_f": done - loaded, "t_b": 0.0}')))


def test_the_documentation_shows_the_table() -> None:
    text = (ROOT / "docs/records.md").read_text()
    rows = re.findall(r"^\| `(t_\w+)` \| (.+?) \| (?:`(t_\w+)` )?\|$", text, re.M)
    assert rows == [(phase.name, phase.words, phase.part_of) for phase in TABLE]


def test_a_whole_stands_before_its_parts() -> None:
    names = [phase.name for phase in TABLE]
    assert len(set(names)) == len(names)
    assert all(phase.part_of in names[:at] for at, phase in enumerate(TABLE) if at)


def test_no_word_of_a_foreign_table_means_two_phases() -> None:
    aliases = [alias for phase in TABLE for alias in phase.aliases.split()]
    assert len(set(aliases)) == len(aliases)
    assert not set(aliases) & set(WORDS)


def test_the_selections_follow_from_the_table() -> None:
    assert (*PHASES, "t_other") == SHARES
    assert PHASES == ("t_io", "t_h2d", "t_md", "t_f", "t_b", "t_c", "t_u")
    assert TIMED == ("t_io", "t_h2d", "t_md", "t_f", "t_b", "t_wait", "t_move", "t_u")
    assert set(MEASURED) == {"t_iter", *PHASES, *TIMED}
    assert BEFORE_EXCHANGE == ("t_io", "t_h2d", "t_md", "t_f", "t_b")
    assert LAYERED == ("t_f", "t_b")


def test_a_phase_and_its_parts_are_never_added_both() -> None:
    assert addends(MEASURED) == TIMED
    assert addends(["t_f", "t_c", "t_move"]) == ("t_f", "t_c")
    assert addends(["t_f", "t_move"]) == ("t_f", "t_move")
