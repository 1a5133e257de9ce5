"""From frozen dataclasses to JSON and back; what comes back has exactly the types that its fields declare.

The rules of decoding:

- Every field without a default must be there, and no other: both ends are of one version of the protocol.
- A whole number serves as a float, nothing else is converted; True is no number.
- A float is finite unless its field says otherwise; `Limits` in a field's metadata hold for every number within it.
- What several fields have to do with each other a dataclass checks itself, raising a ValueError in `__post_init__`.

Whatever is wrong is one `ProtocolError` of one line that names the place.
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from functools import lru_cache
from typing import (
    Any,
    Callable,
    Dict,
    List,
    Literal,
    Type,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

T = TypeVar("T")
Decoder = Callable[[Any], Any]
LONGEST_TEXT = 1 << 20  # characters
LARGEST_WHOLE = (1 << 63) - 1  # what tables hold
LARGEST = sys.float_info.max  # infinities are beyond it, and NaN is within nothing


class ProtocolError(Exception):
    """What was sent is not what the protocol expects; the message says why, in one line."""


class _Wrong(Exception):
    """A value that does not fit, with the way to it."""

    def __init__(self, what: str, *way: str):
        super().__init__(what)
        self.what, self.way = what, way

    def within(self, step: str) -> "_Wrong":
        return _Wrong(self.what, step, *self.way)

    def __str__(self) -> str:
        return "%s: %s" % (".".join(self.way), self.what) if self.way else self.what


@dataclasses.dataclass(frozen=True)
class Limits:
    """What the numbers of a field may be."""

    least: float = -math.inf
    most: float = math.inf
    finite: bool = True

    def allow(self, number: float) -> bool:
        """Whether a number is within them."""
        return not self.finite or (self.least <= number <= self.most and math.isfinite(number))


ANY_FINITE = Limits()


# For `dataclasses.field(metadata=…)`.
COUNT = {"limits": Limits(0, (1 << 31) - 1)}  # the tables hold 32 bits
POSITIVE = {"limits": Limits(1, (1 << 31) - 1)}
PORT = {"limits": Limits(0, 65535)}
SECONDS = {"limits": Limits(0.0, 1e12)}  # sums of as many as a table holds stay finite
DIFFERENCE = {"limits": Limits(-1e12, 1e12)}  # of times
ANY_FLOAT = {"limits": Limits(finite=False)}  # NaN and infinities, too


def encoded(value: Any) -> bytes:
    """A dataclass, or plain values, as one line of JSON without its end."""
    return _ENCODER.encode(value).encode()


def fields(value: Any) -> Dict[str, Any]:
    """The fields of a dataclass by name, as they are."""
    if not dataclasses.is_dataclass(value):
        raise TypeError("%s cannot be sent" % type(value).__name__)
    return {name: getattr(value, name) for name in _names(type(value))}


@lru_cache(maxsize=None)
def _names(kind: Any) -> List[str]:
    return [field.name for field in dataclasses.fields(kind)]


_ENCODER = json.JSONEncoder(default=fields, separators=(",", ":"))


def document(value: Any) -> Dict[str, Any]:
    """A dataclass as the plain values that JSON has."""
    return cast(Dict[str, Any], json.loads(encoded(value)))


def decoded(kind: Type[T], value: Any) -> T:
    """A dataclass of that kind from the plain values that JSON has."""
    try:
        return cast(T, _dataclass(kind)(value))
    except _Wrong as wrong:
        raise ProtocolError(str(wrong)) from None


def parsed(line: Union[bytes, str]) -> Dict[str, Any]:
    """The JSON object in a line."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise ProtocolError("sent what is no JSON") from None
    if type(value) is not dict:
        raise ProtocolError("sent what is no JSON object")
    return value


@lru_cache(maxsize=None)
def _dataclass(kind: Any) -> Decoder:
    """The decoder of a dataclass, made once from its fields."""
    hints, declared = get_type_hints(kind), dataclasses.fields(kind)
    decoders = {field.name: _decoder(hints[field.name], field.metadata.get("limits", ANY_FINITE)) for field in declared}
    needed = [field.name for field in declared if field.default is field.default_factory is dataclasses.MISSING]

    def decode(value: Any) -> Any:
        _expect(type(value) is dict, value, "an object")
        if value.keys() != decoders.keys():
            check_names(value)
        fitting, name = {}, ""
        try:
            for name, inner in value.items():
                fitting[name] = decoders[name](inner)
        except _Wrong as wrong:
            raise wrong.within(name) from None
        try:
            return kind(**fitting)
        except ValueError as error:
            raise _Wrong(str(error)) from None

    def check_names(value: Any) -> None:
        for name in value:
            if name not in decoders:
                raise _Wrong("%s is no field of %s" % (_short(name), kind.__name__))
        for name in needed:
            if name not in value:
                raise _Wrong("is missing", name)

    return decode


def _decoder(hint: Any, limits: Limits) -> Decoder:
    """The decoder of a field's type."""
    if dataclasses.is_dataclass(hint):
        return _dataclass(hint)
    if hint in _PLAIN:
        return _PLAIN[hint](limits)
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Union:
        return _union(inner, limits)
    if origin is Literal:
        return _literal(inner)
    if origin is dict and inner[0] is str:
        return _mapping(_decoder(inner[1], limits))
    if origin is list:
        return _list(_decoder(inner[0], limits), _glance(inner[0], limits))
    if origin is tuple and inner[1:] == (...,):
        items = _list(_decoder(inner[0], limits), _glance(inner[0], limits))
        return lambda value: tuple(items(value))
    raise TypeError("a message has no field of type %r" % (hint,))


def _text(limits: Limits) -> Decoder:
    def decode(value: Any) -> Any:
        _expect(type(value) is str, value, "a text")
        if len(value) > LONGEST_TEXT:
            raise _Wrong("is a text of %d characters, at most %d are allowed" % (len(value), LONGEST_TEXT))
        return value

    return decode


def _flag(limits: Limits) -> Decoder:
    return lambda value: _expect(type(value) is bool, value, "true or false")


def _whole(limits: Limits) -> Decoder:
    least, most = max(limits.least, -LARGEST_WHOLE), min(limits.most, LARGEST_WHOLE)

    def decode(value: Any) -> Any:
        if type(value) is int and least <= value <= most:
            return value
        _expect(type(value) is int, value, "a whole number")
        raise _Wrong("is %s, which is not from %s to %s" % (_short(value), least, most))

    return decode


def _float(limits: Limits) -> Decoder:
    least, most = max(limits.least, -LARGEST), min(limits.most, LARGEST)

    def decode(value: Any) -> Any:
        if type(value) is float and least <= value <= most:
            return value
        _expect(type(value) in (float, int), value, "a number")
        try:
            return _limited(float(value), limits)
        except OverflowError:
            raise _Wrong("is too large a number") from None

    return decode


_PLAIN: Dict[Any, Callable[[Limits], Decoder]] = {str: _text, bool: _flag, int: _whole, float: _float}


def _limited(number: Any, limits: Limits) -> Any:
    if limits.allow(number):
        return number
    if not math.isfinite(number):
        raise _Wrong("is %s, where a finite number is due" % number)
    raise _Wrong("is %s, which is not from %s to %s" % (_short(number), limits.least, limits.most))


def _literal(allowed: Any) -> Decoder:
    words = " or ".join(map(repr, allowed))
    return lambda value: _expect(type(value) is str and value in allowed, value, words)


def _union(kinds: Any, limits: Limits) -> Decoder:
    """One of several plain types, kept as it is; or an optional value of any type."""
    inner = [kind for kind in kinds if kind is not type(None)]
    if len(inner) == 1:
        required = _decoder(inner[0], limits)
        return lambda value: None if value is None else required(value)
    decoders = {kind: _PLAIN[kind](limits) for kind in inner}
    names = ", ".join(kind.__name__ for kind in inner)

    def decode(value: Any) -> Any:
        _expect(type(value) in decoders, value, "one of %s" % names)
        return decoders[type(value)](value)

    return decode


def _mapping(inner: Decoder) -> Decoder:
    def decode(value: Any) -> Any:
        _expect(type(value) is dict, value, "an object")
        fitting, name = {}, ""
        try:
            for name, item in value.items():
                fitting[name] = inner(item)
        except _Wrong as wrong:
            raise wrong.within(_short(name)) from None
        return fitting

    return decode


def _list(inner: Decoder, at_a_glance: Callable[[List[Any]], bool]) -> Decoder:
    """A list; where a glance cannot tell that it is right, it is checked one by one, to say which is wrong."""

    def decode(value: Any) -> List[Any]:
        _expect(type(value) is list, value, "a list")
        if at_a_glance(value):
            return cast(List[Any], value)
        fitting: List[Any] = []
        try:
            for item in value:
                fitting.append(inner(item))
        except _Wrong as wrong:
            raise wrong.within(str(len(fitting))) from None
        return fitting

    return decode


def _glance(kind: Any, limits: Limits) -> Callable[[List[Any]], bool]:
    """Whether a list of times or of flags, which may be long, is as it should be."""
    if kind is bool:
        return lambda values: set(map(type, values)) == {bool}
    if kind is not float:
        return lambda values: False
    least, most = max(limits.least, -LARGEST), min(limits.most, LARGEST)

    def right(values: List[Any]) -> bool:
        # The sum is NaN if any of them is.
        plain = set(map(type, values)) == {float}
        return plain and least <= min(values) and max(values) <= most and not math.isnan(sum(values))

    return right


def _expect(right: bool, value: Any, due: str) -> Any:
    if not right:
        raise _Wrong("is %s, where %s is due" % (_short(value), due))
    return value


def _short(value: Any) -> str:
    """A value as a message can show it."""
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    text = repr(value[:40] + "…") if isinstance(value, str) and len(value) > 40 else repr(value)
    return text if len(text) <= 60 else text[:60] + "…"
