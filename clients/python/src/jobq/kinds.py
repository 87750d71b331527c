"""Kinds of jobs whose payload and result have types, which the code that enqueues the jobs and the handler share. Type checkers know
the types, and jobq checks them at run time, on both sides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Awaitable, Callable, Dict, Generic, Iterable, List, Type, TypeVar, overload

from .enqueue import Enqueued, aenqueue, aenqueue_many, check_names, enqueue, enqueue_many
from .errors import Fail, OptionError
from .handlers import is_coroutine_function, must_be_function
from .job import BaseJob
from .parameters import payloads_of, text_of
from .schemas import Mismatch, schema_of

if TYPE_CHECKING:
    from .aio import AsyncJob
    from .worker import Job

Payload = TypeVar("Payload")
Result = TypeVar("Result")


class Kind(Generic[Payload, Result]):
    """A kind of jobs. payload and result are types: a dataclass, a TypedDict, a pydantic model, or another type that JSON can represent.
    The other arguments are parameters of enqueue() for all jobs of the kind, which each call can override."""

    @overload
    def __init__(self, name: str, payload: Type[Payload], *, result: Type[Result], retry_invalid: bool = ..., **attributes: Any) -> None: ...
    @overload
    def __init__(self: "Kind[Payload, Any]", name: str, payload: Type[Payload], *, retry_invalid: bool = ..., **attributes: Any) -> None: ...
    @overload   # for types that are no classes, such as unions: the kind needs an annotation
    def __init__(self, name: str, payload: Any, *, result: Any = ..., retry_invalid: bool = ..., **attributes: Any) -> None: ...
    def __init__(self, name: str, payload: Any, *, result: Any = Any, retry_invalid: bool = True, queue: str = "default", **attributes: Any) -> None:
        """retry_invalid: whether jobs whose payload is invalid are retried, because a later version of the worker may accept it."""
        check_names("Kind", attributes, enqueue)
        self.name, self.retry_invalid = text_of("name", name), retry_invalid
        self._attributes = {"queue": queue, **attributes}
        self._payload, self._result = schema_of(payload), schema_of(result)

    def __repr__(self) -> str:
        return f"<kind {self.name!r}>"

    def spec(self, payload: Payload, **attributes: Any) -> Dict[str, Any]:
        """Returns a job for enqueue_jobs(), Job.spawn(), or the callbacks of a batch. As keyword arguments, it is also one for a
        CombinedEnqueue."""
        return dict(**self._with(attributes), payload=self._dump(payload))

    def enqueue(self, connection: Any, payload: Payload, **attributes: Any) -> int:
        """Enqueues one job and returns its ID. attributes: see enqueue()."""
        return enqueue(connection, **self.spec(payload, **attributes))

    async def aenqueue(self, connection: Any, payload: Payload, **attributes: Any) -> int:
        """Enqueues one job on an async connection. See enqueue()."""
        return await aenqueue(connection, **self.spec(payload, **attributes))

    def enqueue_many(self, connection: Any, payloads: Iterable[Payload], **attributes: Any) -> List[Enqueued]:
        """Enqueues one job per payload, in one statement. attributes: see enqueue_many()."""
        return enqueue_many(connection, payloads=self._dump_all(payloads), **self._with(attributes))

    async def aenqueue_many(self, connection: Any, payloads: Iterable[Payload], **attributes: Any) -> List[Enqueued]:
        """Enqueues one job per payload on an async connection. See enqueue_many()."""
        return await aenqueue_many(connection, payloads=self._dump_all(payloads), **self._with(attributes))

    @overload
    def handler(self, function: "Callable[[Job[Payload]], Result]") -> "Dict[str, Callable[[Job[Any]], Any]]": ...
    @overload
    def handler(self, function: "Callable[[AsyncJob[Payload]], Awaitable[Result]]") -> "Dict[str, Callable[[AsyncJob[Any]], Awaitable[Any]]]": ...
    def handler(self, function: Callable[[Any], Any]) -> Dict[str, Callable[[Any], Any]]:
        """Returns the function as the handler of this kind, for a worker's handlers and for the test kit."""
        must_be_function(self.name, function)

        def handle(job: BaseJob) -> Any:
            self._receive(job)
            return function(job)

        async def ahandle(job: BaseJob) -> Any:
            self._receive(job)
            return await function(job)

        return {self.name: ahandle if is_coroutine_function(function) else handle}

    def _receive(self, job: BaseJob) -> None:
        try:
            job.payload = self._payload.load(job.payload, "")
        except Mismatch as error:
            raise Fail(self._says("payload", error), retry=self.retry_invalid) from None
        job._dump_result = self._dump_result

    def _dump_result(self, value: Any) -> Any:
        try:
            return self._result.dump(value, "")
        except Mismatch as error:
            raise ValueError(self._says("result", error)) from None

    def _dump(self, payload: Any) -> Any:
        try:
            dumped = self._payload.dump(payload, "")
            if dumped is None:   # enqueue() would enqueue {}
                raise Mismatch("", "must not be null")
        except Mismatch as error:
            raise OptionError(self._says("payload", error)) from None
        return dumped

    def _dump_all(self, payloads: Any) -> List[Any]:
        return [self._dump(payload) for payload in payloads_of(payloads)]

    def _with(self, attributes: Dict[str, Any]) -> Dict[str, Any]:
        return dict(**{**self._attributes, **attributes}, kind=self.name)

    def _says(self, what: str, error: Mismatch) -> str:
        return f"the {what} of kind {self.name!r} is invalid: {error}"
