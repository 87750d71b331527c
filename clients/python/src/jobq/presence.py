"""The description of a worker that the server shows in the view jobq.workers. Needs no server."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, Dict, Optional, Sequence

from . import __version__, statements
from .options import Options

MOST_BYTES = 3000   # the server accepts 4 kB of jsonb, which needs a few more bytes than the JSON text


class Presence:
    """The argument worker_info of claims, waits, and heartbeats. now: passed to the statements as long as the worker works. last:
    passed when the worker has stopped."""

    def __init__(self, options: Options, kinds: Sequence[str]) -> None:
        info: Dict[str, Any] = {"worker_id": options.worker_id, "queues": options.named_queues, "slots": options.slots,
                                "client": f"jobq-python {__version__}", "started_at": datetime.now(timezone.utc).isoformat()}
        if options.patterns:
            info["patterns"] = options.given_patterns
        self.last: Optional[str] = statements.as_json({**info, "expires_in": "0"})
        with_kinds = statements.as_json({**info, "kinds": list(kinds)})
        # A worker with very many kinds does not list them, and a worker with very many queues is not shown.
        fitting = (text for text in (with_kinds, statements.as_json(info)) if len(text.encode()) <= MOST_BYTES)
        self.now = next(fitting, None)
        if self.now is None:
            self.last = None
