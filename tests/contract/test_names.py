"""Things are named by what they are in the field (`trial`, `median`, `placement`), not by how they came to be there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
SAYS_NOTHING = {"one", "made", "found", "said"}


def defined(tree: ast.AST) -> Iterator[str]:
    """The names that a file gives: to variables, parameters, attributes, functions and classes."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name


def empty_names(tree: ast.AST) -> set[str]:
    return {name for name in defined(tree) if name.strip("_").lower() in SAYS_NOTHING}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("one = 1", {"one"}),
        ("[made.x for made in x]", {"made"}),
        ("def _found(said=1): pass", {"_found", "said"}),
        ("class Said: pass", {"Said"}),
        ("x.ONE = 1", {"ONE"}),
        ("one_row = x.found", set()),
    ],
)
def test_the_look_sees_every_way_of_naming(text: str, named: set[str]) -> None:
    assert empty_names(ast.parse(text)) == named


def test_no_name_tells_only_how_a_thing_came() -> None:
    named = {path.relative_to(SOURCE): empty_names(ast.parse(path.read_text())) for path in SOURCE.rglob("*.py")}
    assert len(named) > 100
    assert {path: names for path, names in named.items() if names} == {}
