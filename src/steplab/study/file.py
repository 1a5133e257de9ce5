"""Reads a study file; a mistake becomes one sentence with file, line, field and what is allowed."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from steplab import kinds
from steplab.core import catalogue, own_code, placement
from steplab.core.errors import InputError, StudyError, allowed, nearest
from steplab.core.files import read_regular
from steplab.core.home import profile_file
from steplab.core.measurement import Data, Measure, Section
from steplab.core.own_code import ONNX, RUNS_IN, is_file, is_own
from steplab.core.parsing import parsing
from steplab.core.trial import STRATEGIES, Level
from steplab.study.executors import SETTINGS
from steplab.study.sections import About, Design, Factor, Imported, Levels, Range, Study
from steplab_worker.options import Option

_OWN_CHECKS = {"placement": placement.placement_problem, "rate": placement.rate_problem}
OF_KINDS = tuple(kind.name for kind in kinds.every() if kind.has_section())
SECTIONS = ("study", "factors", "design", "measure", *OF_KINDS, "data", "executor", "exclude", "imported")
_MAX_BYTES = 10_000_000
S = TypeVar("S", bound=BaseModel)


def read_study(path: Path, read: Callable[[Path, int], bytes] = read_regular) -> Study:
    """Read and check a study file; `read` gives a file's content, at most so many bytes of it."""
    return parse_study(_text(path, read), path)


def _text(path: Path, read: Callable[[Path, int], bytes]) -> str:
    try:
        return read(path, _MAX_BYTES).decode()
    except FileNotFoundError:
        raise StudyError(
            "there is no such file", where=str(path), hint="`steplab init DIR` writes a starter study"
        ) from None
    except IsADirectoryError:
        raise StudyError("is a folder, not a study file", where=str(path), hint="give the .toml file in it") from None
    except UnicodeDecodeError as error:
        raise StudyError(f"is not UTF-8 text (byte {error.start})", where=str(path)) from None
    except InputError as error:
        raise StudyError(error.what, where=str(path), hint=error.hint) from None
    except OSError as error:
        raise StudyError(f"cannot be read ({error.strerror})", where=str(path)) from None


def read_profile() -> dict[str, Section]:
    """The settings of executors in the user's profile file; nothing without one."""
    path = profile_file()
    if not path.exists():
        return {}
    reader = _Reader(_text(path, read_regular), path)
    return reader.executors(reader.toml(("executor",), ()))


def parse_study(text: str, path: Path) -> Study:
    """Check the text of a study file."""
    return _Reader(text, path).study()


def locate(text: str, section: str, field: str = "", index: int = 0) -> int:
    r"""The line of a field in a section (of the index-th `[[section]]`); 0 if it is not there.

    >>> locate("[study]\nname = 'x'\n[design]\nseed = 1", "design", "seed")
    4
    """
    here, seen = "", -1
    for number, line in enumerate(text.splitlines(), start=1):
        header = re.match(r"\[\[?([^\[\]]+)\]\]?\s*(#.*)?$", line.strip())
        if header:
            here = header.group(1).strip().strip("\"'")
            seen += here == section
            if here == section and not field and seen == index:
                return number
            continue
        key = field if here == section and seen == index else "" if here else section
        if key and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[=.]", line):
            return number
    return 0


class _Reader:
    """One pass over one file; `fail` knows where a field stands."""

    def __init__(self, text: str, path: Path) -> None:
        self.text, self.path = text, path

    def fail(self, what: str, hint: str = "", section: str = "", field: str = "", index: int = 0) -> StudyError:
        line = (locate(self.text, section, field, index) or locate(self.text, section)) if section else 0
        name = ".".join(part for part in (section, field) if part)
        where = ", ".join(part for part in (str(self.path), f"line {line}" if line else "", name) if part)
        return StudyError(what, where=where, hint=hint)

    def study(self) -> Study:
        tables = self.toml(SECTIONS, ("study", "factors"))
        about = self._section(About, tables, "study")
        measure = self._section(Measure, tables, "measure")
        design = self._section(Design, tables, "design")
        data = self._section(Data, tables, "data")
        imported = self._section(Imported, tables, "imported") if "imported" in tables else None
        factors = self._foreign(tables["factors"]) if imported else self._factors(tables.get("factors"), design)
        self._pairs(factors)
        self._together(design, factors)
        if not imported:
            self._files(factors, about.kind)
        exclude, own = self._exclude(tables, factors), self._of_kind(tables, about.kind)
        executors = self.executors(tables)
        return Study(about, factors, design, measure, data, exclude, self.text, self.path, own, imported, executors)

    def executors(self, tables: Mapping[str, Any]) -> dict[str, Section]:
        """What each section [executor.NAME] says."""
        sections = tables.get("executor", {})
        if not isinstance(sections, dict):
            raise self.fail("must hold sections", f"write [executor.{next(iter(SETTINGS))}]", "executor")
        for name in sections:
            if name not in SETTINGS:
                what = f"there are no settings of an executor {name!r}"
                raise self.fail(what, nearest(name, SETTINGS), f"executor.{name}")
        named = {f"executor.{name}": fields for name, fields in sections.items()}
        return {name: self._section(SETTINGS[name], named, f"executor.{name}") for name in sections}

    def _of_kind(self, tables: Mapping[str, Any], kind: str) -> Section:
        """The section of the study's kind; another kind's must not be there."""
        for name in OF_KINDS:
            if name in tables and name != kind:
                hint = f"write kind = {name!r} in [study], or take the section out"
                raise self.fail(f"the section [{name}] does not go with kind {kind!r}", hint, name)
        return self._section(kinds.named(kind).fields, tables, kind)

    def toml(self, known: Sequence[str], needed: Sequence[str]) -> dict[str, Any]:
        """The file's sections, all of them known and none of the needed ones missing."""
        with parsing("is not valid TOML", str(self.path), StudyError):
            tables = tomllib.loads(self.text)
        for name in tables:
            if name not in known:
                raise self.fail(f"unknown section {name!r}", nearest(name, known), section=name)
        for name in needed:
            if name not in tables:
                raise self.fail(f"the section [{name}] is missing", allowed(known))
        return tables

    def _section(self, kind: type[S], tables: Mapping[str, Any], name: str) -> S:
        try:
            return kind.model_validate(tables.get(name, {}))
        except ValidationError as errors:
            raise self._explain(kind, name, errors) from None

    def _explain(self, kind: type[BaseModel], section: str, errors: ValidationError) -> StudyError:
        error = errors.errors(include_url=False)[0]
        field = str(error["loc"][0]) if error["loc"] else ""
        if error["type"] == "extra_forbidden":
            return self.fail(f"unknown field {field!r}", nearest(field, kind.model_fields), section, field)
        if error["type"] == "missing":
            return self.fail(f"the field {field!r} is missing", allowed(kind.model_fields), section)
        if error["type"] in ("model_type", "model_attributes_type", "dict_type"):
            return self.fail("must be a section with fields", f"write [{section}] on a line of its own", section)
        messages = [fault["msg"] for fault in errors.errors(include_url=False) if fault["loc"][:1] == error["loc"][:1]]
        message = " or ".join(dict.fromkeys(text.removeprefix("Value error, ") for text in messages))
        value = f" (it is {_shown(error['input'])})" if field else ""
        return self.fail(_decapitalised(message) + value, self._default(kind, field), section, field)

    def _default(self, kind: type[BaseModel], field: str) -> str:
        if not field or kind.model_fields[field].is_required():
            return ""
        return f"the default is {kind.model_fields[field].default!r}"

    def _factors(self, section: Any, design: Design) -> dict[str, Factor]:
        if not isinstance(section, dict) or not section:
            raise self.fail("must list at least one factor", "e.g. batch_size = [32, 64]", "factors")
        known = self._known(section)
        factors: dict[str, Factor] = {}
        for name, value in section.items():
            if name not in known:
                raise self.fail(f"unknown factor {name!r}", nearest(name, known), "factors", name)
            factors[name] = self._factor(name, value, known[name], design)
        return factors

    def _foreign(self, section: Any) -> dict[str, Factor]:
        """The factors of an imported study: whatever its source varied, known here or not."""
        if not isinstance(section, dict):
            raise self.fail("must be a section with fields", "write [factors] on a line of its own", "factors")
        return {name: self._levels(name, value) for name, value in section.items()}

    def _known(self, section: Mapping[str, Any]) -> dict[str, Option]:
        """The factors that the study's own frameworks and networks know."""
        names = {}
        for name in ("framework", "network"):
            option = catalogue.general()[name]
            levels = self._levels(name, section[name]) if name in section else (option.default,)
            for level in levels:
                self._check(name, level, option)
            names[name] = [str(level) for level in levels]
        return catalogue.known_factors(names["framework"], names["network"])

    def _levels(self, name: str, value: Any) -> Levels:
        levels = value if isinstance(value, list) else [value]
        if not levels:
            raise self.fail("has no levels", "give at least one, e.g. [1, 2]", "factors", name)
        for level in levels:
            if not isinstance(level, bool | int | float | str):
                hint = "allowed: numbers, text, true, false"
                raise self.fail(f"the level {_shown(level)} is not a plain value", hint, "factors", name)
        twice = [level for level, times in Counter((type(level), level) for level in levels).items() if times > 1]
        if twice:
            raise self.fail(f"the level {twice[0][1]!r} stands twice", "levels must differ", "factors", name)
        return tuple(levels)

    def _factor(self, name: str, value: Any, option: Option, design: Design) -> Factor:
        if isinstance(value, dict):
            return self._range(name, value, option, design)
        return tuple(self._check(name, level, option) for level in self._levels(name, value))

    def _range(self, name: str, value: dict[str, Any], option: Option, design: Design) -> Range:
        if design.type == "factorial":
            hint = "list levels, or use type = 'random', 'latin' or 'adaptive'"
            raise self.fail("a range needs a random, latin or adaptive design", hint, "factors", name)
        try:
            span = Range.model_validate(value)
        except ValidationError as errors:
            problem = _decapitalised(errors.errors(include_url=False)[0]["msg"].removeprefix("Value error, "))
            hint = "write { low = 8, high = 128, scale = 'log' }"
            raise self.fail(f"is not a range: {problem}", hint, "factors", name) from None
        for end in (span.low, span.high):
            self._check(name, end, option)
        return span

    def _check(self, name: str, level: Level, option: Option) -> Level:
        """The level as the option wants it, or one sentence on what is wrong with it."""
        problem = self._problem(name, level, option)
        if broken := catalogue.broken_extension(name, level):
            raise self.fail(broken, "", "factors", name)
        if problem:
            close = nearest(level, map(str, option.levels)) if isinstance(level, str) and option.levels else ""
            raise self.fail(f"the level {_shown(level)} {problem}", close.partition(" allowed")[0], "factors", name)
        return float(level) if isinstance(option.default, float) else level

    def _problem(self, name: str, level: Level, option: Option) -> str:
        if name in own_code.FACTORS and is_own(level) and (name == "network" or not is_file(level)):
            return own_code.form_problem(str(level))
        if name == "step" and level != option.default:
            return "must look like 'module:file:function'"
        if name == "environment" and level != option.default:
            return catalogue.environment_problem(level)
        if name in _OWN_CHECKS:
            return _OWN_CHECKS[name](level)
        if name == "strategy":
            return strategy_problem(level)
        problem: str = option.problem(level)
        return problem

    def _pairs(self, factors: Mapping[str, Factor]) -> None:
        if "batch_size" in factors and "global_batch_size" in factors:
            hint = "give batch_size (per worker) or global_batch_size (of all workers)"
            raise self.fail("two factors set the batch", hint, "factors", "global_batch_size")
        if all(name in factors for name in placement.FACTORS):
            hint = "give two of workers, nodes and ranks_per_node; they give the third"
            raise self.fail("three factors set the number of workers", hint, "factors", "ranks_per_node")

    def _together(self, design: Design, factors: Mapping[str, Factor]) -> None:
        for name in design.together:
            if name not in factors:
                raise self.fail(f"{name!r} is not a factor of this study", nearest(name, factors), "design", "together")

    def _files(self, factors: Mapping[str, Factor], kind: str) -> None:
        """A network in a file is run by one framework, which only infers."""
        networks, frameworks = (factors.get(name, ()) for name in ("network", "framework"))
        assert isinstance(networks, tuple) and isinstance(frameworks, tuple)  # they have no ranges
        able, file = RUNS_IN[ONNX], next((str(level) for level in networks if is_file(level)), "")
        if file and (able not in frameworks or kind not in catalogue.framework(able).kinds):
            what = f"the level {_shown(file)} is a file that only {able} runs, in studies of kind 'infer'"
            hint = f"`steplab inspect {file}` counts it, `steplab roofline {file}` places it"
            raise self.fail(what, hint, "factors", "network")

    def _exclude(self, tables: Mapping[str, Any], factors: Mapping[str, Factor]) -> tuple[dict[str, Levels], ...]:
        rules = tables.get("exclude", [])
        if not isinstance(rules, list) or not all(isinstance(rule, dict) and rule for rule in rules):
            raise self.fail("must be rules with at least one factor each", "write [[exclude]]", "exclude")
        return tuple(self._rule(index, rule, factors) for index, rule in enumerate(rules))

    def _rule(self, index: int, rule: Mapping[str, Any], factors: Mapping[str, Factor]) -> dict[str, Levels]:
        checked = {}
        for name, value in rule.items():
            if name not in factors:
                raise self.fail(f"unknown factor {name!r}", nearest(name, factors), "exclude", name, index)
            levels = tuple(value) if isinstance(value, list) else (value,)
            had = factors[name]
            for level in levels:
                if not _is_level(level, had):
                    hint = allowed(had) if isinstance(had, tuple) else "give a number"
                    raise self.fail(f"{level!r} is not a level of {name}", hint, "exclude", name, index)
            checked[name] = levels
        return checked


def _is_level(level: object, had: Factor) -> bool:
    """Whether a factor has that level, or a range could have it; to Python true equals 1, to a study it does not."""
    if isinstance(had, tuple):
        return any(level == known and isinstance(level, bool) == isinstance(known, bool) for known in had)
    return isinstance(level, int | float) and not isinstance(level, bool)


_STRATEGIES = ", ".join(repr("accumulate:k" if name == "accumulate" else name) for name in STRATEGIES)


def strategy_problem(level: Level) -> str:
    """What is wrong with a strategy, or an empty string."""
    name, colon, count = str(level).partition(":")
    counted = re.fullmatch(r"[1-9]\d{0,5}", count) is not None
    right = name in STRATEGIES and (counted if name == "accumulate" else not colon)
    return "" if right and isinstance(level, str) else f"must be one of {_STRATEGIES}"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _decapitalised(text: str) -> str:
    return text[:1].lower() + text[1:]
