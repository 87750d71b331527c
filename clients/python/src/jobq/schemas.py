"""Converts values to JSON and back, as their types require. Dataclasses, TypedDicts, and the types of the standard library are
converted strictly: nothing is rounded, guessed, or left out. pydantic converts its models and all types that are not known here.

The texts of errors contain the names and types of values, but not the values, because they may be confidential."""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import json
import math
import types
import typing
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union
from uuid import UUID

from .errors import OptionError
from .statements import as_json

Convert = Callable[[Any, str], Any]
"""Converts a value. The second argument is the place of the value in the payload, such as "to[0].name", and is empty for the payload."""


class Mismatch(Exception):
    """A value does not have its type."""

    def __init__(self, where: str, rule: str, found: str = "") -> None:
        super().__init__(f'"{where}" {rule}{found}' if where else f"the value {rule}{found}")
        self.where, self.rule, self.found = where, rule, found


class Schema(NamedTuple):
    dump: Convert   # to what JSON represents
    load: Convert   # from what JSON represents


def schema_of(annotation: Any, known: Optional[Dict[Any, Schema]] = None) -> Schema:
    """Returns the schema of a type. known: the schemas of the classes that contain it, because a class can contain itself."""
    known = {} if known is None else known
    while hasattr(annotation, "__supertype__"):   # typing.NewType
        annotation = annotation.__supertype__
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return _literal(arguments)
    if origin in (Union, getattr(types, "UnionType", Union)):   # UnionType: A | B
        return _union([schema_of(member, known) for member in arguments])
    if origin in (list, collections.abc.Sequence) or origin is tuple and arguments[1:] == (...,):
        return _list(tuple if origin is tuple else list, schema_of(arguments[0], known))
    if origin is tuple:
        return _tuple([schema_of(element, known) for element in arguments])
    if origin in (dict, collections.abc.Mapping) and arguments[0] is str:
        return _dict(schema_of(arguments[1], known))
    if origin is None and isinstance(annotation, type):
        if issubclass(annotation, enum.Enum):
            return _enum(annotation)
        if dataclasses.is_dataclass(annotation) or issubclass(annotation, dict) and hasattr(annotation, "__required_keys__"):
            return known[annotation] if annotation in known else _Class(annotation, known).schema
    return _PLAIN[annotation] if _is_plain(annotation) else _of_pydantic(annotation)


def _wrong(where: str, rule: str, value: Any) -> Mismatch:
    return Mismatch(where, f"must be {rule}", f"; it is of type {type(value).__name__}")


# ---- types of the standard library

def _plain(rule: str, dump: Callable[[Any], Any], load: Callable[[Any], Any]) -> Schema:
    def convert(change: Callable[[Any], Any]) -> Convert:
        def converted(value: Any, where: str) -> Any:
            try:
                return change(value)
            except (TypeError, ValueError, ArithmeticError):
                raise _wrong(where, rule, value) from None
        return converted
    return Schema(convert(dump), convert(load))


def _only(kind: Any, but: Any = ()) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if isinstance(value, kind) and not isinstance(value, but):
            return value
        raise TypeError
    return check


def _finite(value: Any) -> Any:
    if math.isfinite(value):
        return value
    raise ValueError


def _number(value: Any) -> float:
    return float(_finite(float(_only((int, float), but=bool)(value))))


def _with_zone(value: datetime) -> datetime:
    if value.utcoffset() is not None:
        return value
    raise ValueError


_text, _integer, _truth, _null = _only(str), _only(int, but=bool), _only(bool), _only(type(None))
_PLAIN: Dict[Any, Schema] = {
    Any: _plain("a value", lambda value: value, lambda value: value),
    str: _plain("a text", _text, _text),
    int: _plain("an integer", _integer, _integer),
    float: _plain("a finite number", _number, _number),
    bool: _plain("true or false", _truth, _truth),
    type(None): _plain("null", _null, _null),
    Decimal: _plain("a finite decimal number", lambda value: str(_finite(_only(Decimal)(value))), lambda text: _finite(Decimal(_text(text)))),
    datetime: _plain("a time with a time zone", lambda value: _with_zone(_only(datetime)(value)).isoformat(),
                     lambda text: _with_zone(datetime.fromisoformat(_zulu(_text(text))))),
    date: _plain("a date", lambda value: _only(date, but=datetime)(value).isoformat(), lambda text: date.fromisoformat(_text(text))),
    UUID: _plain("a UUID", lambda value: str(_only(UUID)(value)), lambda text: UUID(_text(text))),
}


def _zulu(text: str) -> str:
    """Returns the text of a time in a format that Python 3.9 and 3.10 also read."""
    return f"{text[:-1]}+00:00" if text.endswith("Z") else text


def _is_plain(annotation: Any) -> bool:
    try:
        return annotation in _PLAIN
    except TypeError:   # not hashable
        return False


def _literal(values: Sequence[Any]) -> Schema:
    def converted(value: Any, where: str) -> Any:
        if any(value == one and type(value) is type(one) for one in values):
            return value
        raise _wrong(where, " or ".join(map(repr, values)), value)
    return Schema(converted, converted)


def _enum(members: Any) -> Schema:
    def load(value: Any, where: str) -> Any:
        for member in members:
            if member.value == value and type(member.value) is type(value):
                return member
        raise _wrong(where, f"the value of a {members.__name__}", value)
    return _plain(f"a {members.__name__}", lambda value: _only(members)(value).value, lambda value: value)._replace(load=load)


def _union(members: Sequence[Schema]) -> Schema:
    def convert(which: Callable[[Schema], Convert]) -> Convert:
        def converted(value: Any, where: str) -> Any:
            errors: List[Mismatch] = []
            for member in members:
                try:
                    return which(member)(value, where)
                except Mismatch as error:
                    errors.append(error)
            inmost = max(errors, key=lambda error: len(error.where))   # of the member that fits best
            rules = dict.fromkeys(error.rule for error in errors if error.where == inmost.where)
            raise Mismatch(inmost.where, " or ".join(rules), inmost.found) from None
        return converted
    return Schema(convert(lambda member: member.dump), convert(lambda member: member.load))


def _list(kind: Any, element: Schema) -> Schema:
    def convert(change: Convert, wanted: Any, result: Any) -> Convert:
        def converted(value: Any, where: str) -> Any:
            if not isinstance(value, wanted):
                raise _wrong(where, "a list", value)
            return result(change(one, f"{where}[{place}]") for place, one in enumerate(value))
        return converted
    return Schema(convert(element.dump, kind, list), convert(element.load, list, kind))


def _tuple(elements: Sequence[Schema]) -> Schema:
    def convert(changes: Sequence[Convert], wanted: Any, result: Any) -> Convert:
        def converted(value: Any, where: str) -> Any:
            if not isinstance(value, wanted) or len(value) != len(changes):
                raise _wrong(where, f"a list with {len(changes)} elements", value)
            return result(change(one, f"{where}[{place}]") for place, (change, one) in enumerate(zip(changes, value)))
        return converted
    return Schema(convert([element.dump for element in elements], tuple, list), convert([element.load for element in elements], list, tuple))


def _dict(element: Schema) -> Schema:
    def convert(change: Convert) -> Convert:
        def converted(value: Any, where: str) -> Any:
            if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
                raise _wrong(where, "a dict whose keys are texts", value)
            return {key: change(one, _member(where, key)) for key, one in value.items()}
        return converted
    return Schema(convert(element.dump), convert(element.load))


def _member(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


_PLAIN.update({None: _PLAIN[type(None)], object: _PLAIN[Any], list: _list(list, _PLAIN[Any]), dict: _dict(_PLAIN[Any])})


# ---- dataclasses and TypedDicts

class _Class:
    def __init__(self, made: Any, known: Dict[Any, Schema]) -> None:
        self.made, self.is_dataclass = made, dataclasses.is_dataclass(made)
        self.schema = known[made] = Schema(self._dump, self._load)
        hints = typing.get_type_hints(made, include_extras=True)
        if self.is_dataclass:
            fields = [field for field in dataclasses.fields(made) if field.init]
            self.required = {field.name for field in fields if field.default is field.default_factory is dataclasses.MISSING}
            self.members = {field.name: schema_of(hints[field.name], known) for field in fields}
        else:
            self.required = set(made.__required_keys__)
            self.members = {name: self._member_of_dict(name, hint, known) for name, hint in hints.items()}

    def _member_of_dict(self, name: str, hint: Any, known: Dict[Any, Schema]) -> Schema:
        """Returns the schema of a key of a TypedDict. __required_keys__ does not reflect the markers if annotations are postponed."""
        marker = getattr(typing.get_origin(hint), "_name", "")
        if marker in ("Required", "NotRequired"):
            (self.required.add if marker == "Required" else self.required.discard)(name)
            hint, = typing.get_args(hint)
        return schema_of(hint, known)

    def _dump(self, value: Any, where: str) -> Any:
        if not self.is_dataclass:
            return self._converted(value, where, "dump")
        if type(value) is not self.made:   # the fields of a subclass would be lost
            raise _wrong(where, f"a {self.made.__name__}", value)
        return self._converted({name: getattr(value, name) for name in self.members}, where, "dump")

    def _load(self, value: Any, where: str) -> Any:
        members = self._converted(value, where, "load")
        if not self.is_dataclass:
            return members
        try:
            return self.made(**members)
        except (TypeError, ValueError) as error:   # of __post_init__()
            raise Mismatch(where, f"must be a valid {self.made.__name__}", f": {error}") from None

    def _converted(self, value: Any, where: str, how: str) -> Dict[str, Any]:
        if not isinstance(value, dict):
            raise _wrong(where, f"an object with the keys {', '.join(self.members)}", value)
        for name in value:
            if name not in self.members:
                raise Mismatch(where, f"must have only the keys {', '.join(self.members)}", f'; it has "{name}"')
        for name in self.members:
            if name in self.required and name not in value:
                raise Mismatch(where, f'must have the key "{name}"')
        return {name: getattr(self.members[name], how)(one, _member(where, name)) for name, one in value.items()}


# ---- pydantic

def _of_pydantic(annotation: Any) -> Schema:
    try:
        import pydantic
    except ImportError:
        raise OptionError(f"a payload or result of the type {annotation!r} needs the package pydantic, which is not installed") from None
    dump, load = _pydantic_2(pydantic, annotation) if hasattr(pydantic, "TypeAdapter") else _pydantic_1(pydantic, annotation)

    def convert(change: Callable[[Any], Any]) -> Convert:
        def converted(value: Any, where: str) -> Any:
            try:
                return change(value)
            except pydantic.ValidationError as error:
                raise _of_validation(where, error.errors()) from None
        return converted

    def checked(value: Any) -> Any:
        """Returns the value in JSON, from which the worker can make the value again."""
        dumped = dump(value)
        load(dumped)
        return dumped

    return Schema(convert(checked), convert(load))


def _pydantic_2(pydantic: Any, annotation: Any) -> Tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    adapter = pydantic.TypeAdapter(annotation)
    return (lambda value: adapter.dump_python(adapter.validate_python(value), mode="json", by_alias=True),
            lambda value: adapter.validate_json(as_json(value)))


def _pydantic_1(pydantic: Any, annotation: Any) -> Tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    root = pydantic.create_model("Root", __root__=(annotation, ...))
    return (lambda value: json.loads(root(__root__=value).json(by_alias=True)), lambda value: root(__root__=value).__root__)


def _of_validation(where: str, errors: Sequence[Mapping[str, Any]]) -> Mismatch:
    found = []
    for error in errors:
        place = where
        for name in error["loc"]:
            if name != "__root__":
                place = f"{place}[{name}]" if isinstance(name, int) else _member(place, str(name))
        found.append(f'"{place}": {error["msg"]}' if place else error["msg"])
    return Mismatch("", f"does not have its type: {'; '.join(found)}")
