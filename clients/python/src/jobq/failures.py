"""What a worker does with the error of a failed attempt: it adds details to the report, such as the class and the stack trace, and
calls the hook of the application. Needs no server."""

from __future__ import annotations

import inspect
import logging
import traceback
from dataclasses import replace
from typing import Any, Callable, Dict, Optional, Union

from .errors import OptionError
from .outcome import FAIL, VERIFY, Outcome, is_failure
from .statements import as_json, as_text

Details = Dict[str, Any]
Filter = Callable[[Details], Optional[Details]]
MOST_BYTES = 16384   # of the details as JSON
# Lengths to which the texts are shortened until the details fit. The last length fits even if each character of two texts takes six
# bytes.
LENGTHS = (12288, 3072, 768)
log = logging.getLogger("jobq")


class Failures:
    """error_details: True, False, or a function that receives the details and returns those that may be stored. on_error: called
    with the error and the job after each failed attempt, or None."""

    def __init__(self, error_details: Union[bool, Filter] = True, on_error: Optional[Callable[[BaseException, Any], Any]] = None) -> None:
        if not isinstance(error_details, bool) and not callable(error_details):
            raise OptionError(f'option "error_details" must be True, False, or a function; it is {error_details!r}')
        if on_error is not None and (not callable(on_error) or inspect.iscoroutinefunction(on_error)):
            raise OptionError(f'option "on_error" must be a plain function; it is {on_error!r}')
        self.error_details, self.on_error = error_details, on_error

    def ended(self, job: Any, outcome: Outcome, error: Optional[BaseException]) -> Outcome:
        """Returns the outcome with details if it is a failure, and calls the hook. An error in the filter or in the hook is logged
        and does not change the report."""
        cause = ValueError(outcome.text) if error is None and outcome.what == FAIL else error
        if outcome.what not in (FAIL, VERIFY) or cause is None or not is_failure(cause):
            return outcome
        if self.error_details:
            outcome = replace(outcome, details=self._unless_it_fails("error_details", job, self._details_of, cause))
        if self.on_error is not None:
            self._unless_it_fails("on_error", job, self.on_error, cause, job)
        return outcome

    def _details_of(self, error: BaseException) -> Optional[str]:
        stack = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        details: Optional[Details] = {"class": type(error).__name__, "stack": stack}
        if callable(self.error_details):
            details = self.error_details(details)   # type: ignore[arg-type]
        return None if details is None else bounded(details)

    @staticmethod
    def _unless_it_fails(name: str, job: Any, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except BaseException as error:   # noqa: B902: even SystemExit, because the attempt must be reported
            log.error("job %d of kind %r: %s has failed: %s", job.id, job.kind, name, "".join(
                traceback.format_exception_only(type(error), error)).strip())
            return None


def bounded(details: Details) -> str:
    """Returns the details as JSON of at most MOST_BYTES, with shorter texts if necessary. Raises an error if the details are no JSON
    object, or if they are too large without their texts."""
    if not isinstance(details, dict):
        raise TypeError(f"the details must be a dict or None, but are {type(details).__name__}")
    for length in LENGTHS:
        text = as_json({key: shortened(as_text(value), length) if isinstance(value, str) else value for key, value in details.items()})
        if len(text.encode()) <= MOST_BYTES:
            return text
    raise ValueError(f"the details take more than {MOST_BYTES} bytes as JSON")


def shortened(text: str, most: int) -> str:
    """Returns the text, or its beginning and its end, because a stack trace names the error at one of them."""
    if len(text) <= most:
        return text
    half = most // 2 - 20   # leaves room for the mark
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"
