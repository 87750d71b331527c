"""Checks the functions that are registered as handlers."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable

from .errors import OptionError


def must_be_function(kind: str, function: Any) -> None:
    if not callable(function):
        raise OptionError(f"the handler of kind {kind!r} must be a function; it is {function!r}")


def is_coroutine_function(function: Callable[..., Any]) -> bool:
    """Returns whether a call to the function certainly only creates a coroutine. Other functions may return one, too."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(type(function), "__call__", None))
