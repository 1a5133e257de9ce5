"""Framework environments: which there are, making one, registering an interpreter, trying them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from steplab.core import catalogue
from steplab.core.files import expanded
from steplab.core.home import home
from steplab.runner.environments import registry
from steplab.runner.environments.registry import Listed
from steplab.runner.environments.variants import Variant

__all__ = ["Listed", "add_environment", "check_environments", "create_environment", "environments", "expect_framework"]


def environments() -> list[Listed]:
    """All environments, ready or not, with the reason."""
    return registry.listing()


def expect_framework(name: str) -> None:
    """Say so if there is no framework of that name, or if an extension of that name cannot be used."""
    catalogue.framework(name)


def create_environment(
    framework: str,
    progress: Callable[[str], None] = lambda text: None,
    *,
    version: str = "",
    packages: Sequence[str] = (),
    name: str = "",
) -> Listed:
    """Make the environment of a framework from the pins that its adapter declares; this can take minutes.

    Args:
        framework: Which.
        progress: Hears what is being done.
        version: Another version of the framework than the pinned one.
        packages: Further packages, such as `"einops==0.8"`.
        name: What to call the environment; by default the framework with version and packages, `torch-2.12`.
    """
    variant = Variant(catalogue.framework(framework), version, tuple(packages))
    return _named(registry.create(variant, progress, name).name)


def add_environment(name: str, python: Path | str, framework: str = "") -> Listed:
    """Register an interpreter that you already have; the framework's own name makes it the default."""
    registry.add(name, expanded(python), framework or name)
    return _named(name)


def check_environments(names: Sequence[str] = ()) -> list[Listed]:
    """Import each framework in its environment and say whether that works; by default in all that were made."""
    there = sorted(path.parent.name for path in (home() / "envs").glob("*/steplab.json"))
    return [registry.check(name) for name in names or there]


def _named(name: str) -> Listed:
    return next(row for row in registry.listing() if row.name == name)
