"""Code that mypy --strict must accept, except for the lines with "type: ignore", which it must reject. Is not run."""

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Union

import jobq
from jobq.testing import drain, run_inline


@dataclass
class SendMail:
    to: str


@dataclass
class Receipt:
    number: int


send_mail = jobq.Kind("send_mail", SendMail, result=Receipt, queue="emails", priority=3)
resize = jobq.Kind("resize", SendMail)
worker, async_worker, connection = jobq.Worker("emails"), jobq.AsyncWorker("emails"), object()


@worker.handler(send_mail)
def send(job: jobq.Job[SendMail]) -> Receipt:
    return Receipt(len(job.payload.to))


@worker.handler(resize)
def resizes(job: jobq.Job[SendMail]) -> Dict[str, int]:
    return {"length": len(job.payload.to)}


@worker.handler("untyped")
def untyped(job: jobq.Job[Dict[str, int]]) -> int:
    return job.payload["n"]


@async_worker.handler(send_mail)
async def asend(job: jobq.AsyncJob[SendMail]) -> Receipt:
    return Receipt(len(job.payload.to))


one: int = send_mail.enqueue(connection, SendMail("ada"), priority=4)
many: List[jobq.Enqueued] = send_mail.enqueue_many(connection, [SendMail("ada")])
other: int = asyncio.run(send_mail.aenqueue(connection, SendMail("ada")))
ended = drain(connection, {**send_mail.handler(send), **resize.handler(resizes), "untyped": untyped})
result = run_inline(send, SendMail("ada"), kind=send_mail).result
handlers = send_mail.handler(asend)

send_mail.enqueue(connection, {"to": "ada"})   # type: ignore[arg-type]
send_mail.enqueue_many(connection, [Receipt(1)])   # type: ignore[list-item]
send_mail.enqueue(connection)   # type: ignore[call-arg]


@worker.handler(send_mail)   # type: ignore[arg-type]
def wrong_payload(job: jobq.Job[Receipt]) -> Receipt:
    return job.payload


@worker.handler(send_mail)   # type: ignore[arg-type]
def wrong_result(job: jobq.Job[SendMail]) -> int:
    return 1


@async_worker.handler(send_mail)   # type: ignore[arg-type]
async def wrong_async_result(job: jobq.AsyncJob[SendMail]) -> int:
    return 1


@worker.handler(send_mail)
def wrong_key(job: jobq.Job[SendMail]) -> Receipt:
    return Receipt(job.payload.length)   # type: ignore[attr-defined]


either: jobq.Kind[Union[SendMail, Receipt], List[int]] = jobq.Kind("either", Union[SendMail, Receipt], result=List[int])


def store_tenant(enqueuing: jobq.Enqueuing) -> None:
    for spec in enqueuing.specs:
        spec["metadata"] = {"tenant": 7}


@contextlib.contextmanager
def around(job: jobq.Job[Any]) -> Iterator[None]:
    yield


remove: Callable[[], None] = jobq.use(enqueue=store_tenant, handle=around)
