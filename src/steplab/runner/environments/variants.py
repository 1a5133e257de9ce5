"""Environments that differ from a framework's own: another version of it, further packages, or both."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from steplab.core.errors import InputError
from steplab.core.framework import Framework

VERSION = re.compile(r"\d[0-9A-Za-z.+!-]{0,40}")
# What pip would take for an option, a file or an address is none.
REQUIREMENT = re.compile(r"[A-Za-z0-9][\w.-]*(\[[\w.,-]+\])?( ?(==|>=|<=|~=|!=|<|>) ?[\w.*+!-]+(, ?|$))*")
_PIN = re.compile(r"([\w.-]+)==([^,;]+)")
_LONGEST = 64

Installs = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Variant:
    """What an environment is to hold: a version instead of the pinned one, and packages beside the framework."""

    framework: Framework
    version: str = ""
    packages: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.version and not VERSION.fullmatch(self.version):
            raise InputError(f"{self.version!r} is not a version", where="--version", hint="write it like 2.12.0")
        for package in self.packages:
            if not REQUIREMENT.fullmatch(package):
                raise InputError(f"{package!r} is not a package", where="--with", hint='write it like "name==1.2"')

    @property
    def name(self) -> str:
        """What the environment is called unless told: framework, version and packages, joined by dashes.

        >>> from steplab.core.catalogue import framework
        >>> Variant(framework("torch"), "2.12", ("einops>=0.8",)).name
        'torch-2.12-einops-0.8'
        """
        words = [self.framework.name, self.version, *self.packages]
        return "-".join(filter(None, (re.sub(r"[^A-Za-z0-9.]+", "-", word).strip("-.") for word in words)))[:_LONGEST]

    @property
    def installs(self) -> Installs:
        """What pip is called with, one call after the other.

        Further packages come last and with the framework's own pin: what needs another version of it is refused,
        instead of bringing another build of the framework.

        >>> from steplab.core.catalogue import framework
        >>> Variant(framework("torch"), "2.12.0", ("einops",)).installs[-1]
        ('torch==2.12.0', 'einops')
        """
        steps = self.framework.installs
        changed = tuple(tuple(map(self._changed, step)) for step in steps) if self.version else steps
        return (*changed, (*self._kept(changed[0]), *self.packages)) if self.packages else changed

    def _kept(self, step: Sequence[str]) -> list[str]:
        """Of the first call, the pins of the framework's own version; none where a package is to replace one."""
        wanted = {re.split(r"[^\w.-]", package)[0].lower() for package in self.packages}
        pins = [pin for word in step if (pin := _PIN.fullmatch(word))]
        version = self.version or self._pinned
        return [pin[0] for pin in pins if pin[2] == version and pin[1].lower() not in wanted]

    def _changed(self, word: str) -> str:
        """A pin of the framework's own version, and what goes with it at the same version, at the wanted one."""
        pin = _PIN.fullmatch(word)
        return f"{pin[1]}=={self.version}" if pin and pin[2] == self._pinned else word

    @property
    def _pinned(self) -> str:
        """The version in the pin of the package that is the framework.

        >>> from steplab.core.catalogue import framework
        >>> Variant(framework("jax"), "0.9").installs[0][:2]
        ('jax==0.9', 'jaxlib==0.9')
        """
        module = (self.framework.module or self.framework.name).replace("_", "-")
        pins = [pin for step in self.framework.installs for word in step if (pin := _PIN.fullmatch(word))]
        for pin in sorted(pins, key=lambda pin: pin[1] != module):
            if module in pin[1]:
                return pin[2]
        raise InputError(f"{self.framework.title} pins no version of its own", where="--version")


def failure(log: Sequence[str]) -> str:
    """Why pip failed, from what it printed: in its own words, with the versions that there are.

    >>> failure(["ERROR: Could not find a version that satisfies the requirement x==9 (from versions: 1.0, 1.1)"])
    'there is no x==9; there are 1.0, 1.1'
    """
    for line in log:
        missing = re.search(r"satisfies the requirement (.+?) \(from versions: (.*)\)", line)
        if missing:
            versions = [] if missing[2] == "none" else missing[2].split(", ")
            newest = ", ".join((["…"] if len(versions) > 8 else []) + versions[-8:])
            return f"there is no {missing[1]}" + (f"; there are {newest}" if newest else "")
    errors = [line.removeprefix("ERROR: ") for line in log if line.startswith("ERROR: ")]
    return errors[0] if errors else ""
