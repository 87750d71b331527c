"""Checks and converts the caller's arguments for SQL. Rejects values that would silently become something else: a string used as
a list of its characters, or a fraction used as an integer."""

from __future__ import annotations

import operator
import re
from datetime import datetime, timedelta
from typing import Any, List, Mapping, Optional, Union

from .errors import Delay, OptionError, seconds_of

TYPES = {
    "kind": "text", "priority": "int", "run_at": "timestamptz", "max_attempts": "int", "unique_key": "text", "on_conflict": "text",
    "unique_for": "interval", "group_key": "text", "concurrency_key": "text", "depends_on": "bigint[]",
    "on_dependency_failure": "text", "version": "int", "requires": "text[]", "heartbeat_timeout": "interval",
    "max_runtime": "interval", "expires_at": "timestamptz", "expires_in": "interval", "metadata": "jsonb", "batch_id": "bigint", "limits": "text[]", "unique_keys": "text[]", "group_keys": "text[]", "concurrency_keys": "text[]",
    "run_ats": "timestamptz[]", "priorities": "int[]",
}
OPTIONS = frozenset(("version", "requires", "heartbeat_timeout", "max_runtime", "expires_at", "expires_in", "batch_id", "limits"))
"""Keys of the parameter options of jobq_enqueue."""
OPTIONS_OF_MANY = OPTIONS | {"on_conflict", "unique_for", "metadata"}
"""Keys of the parameter options of jobq_enqueue_many."""
_LISTS = {"text[]": "a list of texts", "timestamptz[]": "a list of times", "int[]": "a list of whole numbers",
          "bigint[]": "a list of IDs"}


def value_of(name: str, value: Any) -> Any:
    """Returns the SQL value of the named parameter, which is not None."""
    kind = TYPES[name]
    if kind == "interval":
        return interval(value, name)
    if kind == "int":
        return _whole(name, value, "be a whole number")
    if kind == "bigint":
        return id_of(name, value)
    if kind == "int[]":
        return [one if one is None else _whole(name, one, "be a list of whole numbers", "has") for one in _listed(name, value, _LISTS[kind])]
    if kind == "bigint[]":   # "@ref" names another object of the same call
        return [one if isinstance(one, str) and one.startswith("@") else _listed_id(name, one) for one in _listed(name, value, _LISTS[kind])]
    if kind == "timestamptz":
        return moment(name, value)
    if kind == "timestamptz[]":
        return [moment(name, one) for one in _listed(name, value, _LISTS[kind])]
    return _listed(name, value, _LISTS[kind]) if kind in _LISTS else value


def interval(delay: Optional[Union[Delay, str]], name: str = "delay") -> Optional[Union[timedelta, str]]:
    """Accepts seconds, a timedelta, or text that PostgreSQL reads as an interval."""
    if delay is None or isinstance(delay, (timedelta, str)):
        return delay
    seconds = None if isinstance(delay, bool) else seconds_of(delay)
    if seconds is None:
        raise _wrong(name, "be a number of seconds, a timedelta, or an interval's text", f"is {delay!r}")
    return timedelta(seconds=seconds)


def moment(name: str, value: Any) -> Optional[Union[datetime, str]]:
    """Accepts a datetime with a time zone, or text that PostgreSQL reads as a timestamp. A datetime without a time zone is
    rejected because the server would use the time zone of its session."""
    if value is None or isinstance(value, str) or isinstance(value, datetime) and value.utcoffset() is not None:
        return value
    raise _wrong(name, "be a datetime with a time zone (tzinfo), or a timestamp's text", f"is {value!r}")


def text_of(name: str, value: Any) -> str:
    """Returns the text. The error message does not show other values, because they may be misplaced payloads."""
    if not isinstance(value, str):
        raise _wrong(name, "be a text", f"is of type {type(value).__name__}")
    return value


def queue_of(queue: Any) -> str:
    return text_of("queue", queue)


def id_of(name: str, value: Any, rule: str = "be an ID", verb: str = "is") -> Any:
    """Returns an ID, which can also be a text of digits."""
    found = _whole(name, value, rule, verb)
    if isinstance(found, str) and not re.fullmatch("[0-9]{1,19}", found, re.ASCII) or not 0 <= int(found) < 2**63:
        raise _wrong(name, rule, f"{verb} {value!r}")
    return found


def _listed_id(name: str, value: Any) -> Any:
    return id_of(name, value, "be a list of IDs", "has")


def ids_of(name: str, values: Any) -> List[Any]:
    return [_listed_id(name, value) for value in _listed(name, values, "a list of IDs")]


def payloads_of(payloads: Any) -> List[Any]:
    """Returns the payloads as a list. The error message does not show them."""
    if not _is_list(payloads):
        raise _wrong("payloads", "be a list", f"is of type {type(payloads).__name__}")
    return list(payloads)


def specs_of(specs: Any) -> List[Mapping[str, Any]]:
    """Returns the specs as a list. The error message does not show them."""
    if not _is_list(specs):
        raise _wrong("specs", "be a list of dicts", f"is of type {type(specs).__name__}")
    found = list(specs)
    for spec in found:
        if not isinstance(spec, Mapping):
            raise _wrong("specs", "be a list of dicts", f"has one of type {type(spec).__name__}")
    return found


def spec_of(name: str, spec: Any) -> Mapping[str, Any]:
    if not isinstance(spec, Mapping):
        raise _wrong(name, "be a dict", f"is of type {type(spec).__name__}")
    return spec


def _whole(name: str, value: Any, rule: str, verb: str = "is") -> Any:
    """Returns an integer. Accepts text, which the server does not round."""
    if isinstance(value, str):
        return value
    try:
        if not isinstance(value, bool):
            return int(operator.index(value))   # also accepts integer types of other libraries
    except TypeError:
        pass
    raise _wrong(name, rule, f"{verb} {value!r}")


def _listed(name: str, values: Any, wanted: str) -> List[Any]:
    if not _is_list(values):
        raise _wrong(name, f"be {wanted}", f"is {values!r}")
    return list(values)


def _is_list(values: Any) -> bool:
    if isinstance(values, (str, bytes, bytearray, memoryview, Mapping)):
        return False
    try:
        iter(values)
    except TypeError:
        return False
    return True


def _wrong(name: str, rule: str, found: str) -> OptionError:
    return OptionError(f'argument "{name}" must {rule}; it {found}')
