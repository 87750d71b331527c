"""Creates and seals batches on the caller's connection. A batch is a set of jobs; when it has been sealed and all of its jobs have
ended, jobq enqueues its callbacks. Jobs join a batch with the parameter batch_id of the functions in enqueue.py. These functions
take the same connections, and neither begin nor end a transaction."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple

from .enqueue import arun_on, run_on
from .parameters import id_of, spec_of, text_of
from .statements import as_json, specs_as_json

Spec = Mapping[str, Any]
_COLUMNS = ("id", "name", "total", "pending", "running", "completed", "failed", "cancelled", "progress", "sealed", "finished_at",
            "callbacks", "error", "metadata", "created_by", "created_at", "sealed_at")
_SEAL = "SELECT jobq_seal_batch(%s::bigint)"
_GET = f"SELECT {', '.join(_COLUMNS)} FROM jobq_get_batch(%s::bigint)"


def create_batch(connection: Any, name: str = "", *, on_complete: Optional[Spec] = None, on_success: Optional[Spec] = None,
                 on_failure: Optional[Spec] = None, metadata: Any = None) -> int:
    """Creates a batch and returns its ID. Each callback is an object whose keys are parameters of enqueue()."""
    return int(run_on(connection, *_create(name, on_complete, on_success, on_failure, metadata))[0][0])


async def acreate_batch(connection: Any, name: str = "", *, on_complete: Optional[Spec] = None, on_success: Optional[Spec] = None,
                        on_failure: Optional[Spec] = None, metadata: Any = None) -> int:
    """Creates a batch on an async connection. See create_batch()."""
    return int((await arun_on(connection, *_create(name, on_complete, on_success, on_failure, metadata)))[0][0])


def seal_batch(connection: Any, batch_id: int) -> Optional[bool]:
    """Seals a batch, so that no more jobs can join it. Returns False if it was already sealed, and None if it does not exist."""
    sealed: Optional[bool] = run_on(connection, _SEAL, [id_of("batch_id", batch_id)])[0][0]
    return sealed


async def aseal_batch(connection: Any, batch_id: int) -> Optional[bool]:
    """Seals a batch on an async connection. See seal_batch()."""
    sealed: Optional[bool] = (await arun_on(connection, _SEAL, [id_of("batch_id", batch_id)]))[0][0]
    return sealed


def get_batch(connection: Any, batch_id: int) -> Optional[Dict[str, Any]]:
    """Returns the columns of the view jobq.batches, or None if the batch does not exist."""
    return _batch(run_on(connection, _GET, [id_of("batch_id", batch_id)]))


async def aget_batch(connection: Any, batch_id: int) -> Optional[Dict[str, Any]]:
    """Returns a batch on an async connection. See get_batch()."""
    return _batch(await arun_on(connection, _GET, [id_of("batch_id", batch_id)]))


def _create(name: str, on_complete: Optional[Spec], on_success: Optional[Spec], on_failure: Optional[Spec], metadata: Any) -> Tuple[str, List[Any]]:
    callbacks = {"on_complete": on_complete, "on_success": on_success, "on_failure": on_failure}
    specs = [None if spec is None else specs_as_json([spec_of(argument, spec)])[1:-1] for argument, spec in callbacks.items()]
    return ("SELECT jobq_create_batch(%s::text, %s::jsonb, %s::jsonb, %s::jsonb, %s::jsonb)",
            [text_of("name", name), *specs, None if metadata is None else as_json(metadata)])


def _batch(rows: List[Any]) -> Optional[Dict[str, Any]]:
    return dict(zip(_COLUMNS, rows[0])) if rows else None
