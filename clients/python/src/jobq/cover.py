"""Heartbeats for a worker whose interpreter is blocked. A handler in C that holds the global interpreter lock (GIL) stops all
threads, including the heartbeat thread. A separate process, which runs this file as a program, reads from shared memory which
jobs the worker holds and when the worker sent the last heartbeat of each. The process sends the heartbeats that are late, and
ends with the worker."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

ENTRY = struct.Struct("=qqdd")   # job ID, lease (0 if the entry is free), heartbeat interval in seconds, time of the last
                                 # heartbeat
COUNT = struct.Struct("=q")      # number of heartbeats that the separate process has sent
LATE = 1.5                       # in intervals: the worker sends a heartbeat every interval, and the lease expires after three
LOOK_EVERY = 0.5                 # seconds
COMMAND = [sys.executable, "-I", "-S", __file__]


class Cover:
    """The worker's side. The caller must hold a lock while it calls hold(), drop(), or beaten()."""

    def __init__(self, most: int, arguments: Mapping[str, Any]) -> None:
        """most: maximum number of jobs. arguments: parameters of psycopg.connect()."""
        self._file = tempfile.TemporaryFile()
        self._file.truncate(COUNT.size + most * ENTRY.size)
        self._table = mmap.mmap(self._file.fileno(), 0)
        self._free = list(range(most))
        self._places: Dict[int, Tuple[int, int, float]] = {}   # lease -> entry, job ID, interval
        plain = {name: value for name, value in arguments.items() if isinstance(value, (str, int, float, type(None)))}
        self._told = json.dumps({"arguments": plain, "path": [os.path.abspath(directory) for directory in sys.path]}).encode()
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._seen = self.starts = 0

    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        self.starts += 1
        self._process = subprocess.Popen([*COMMAND, str(os.getpid()), str(self._file.fileno())], pass_fds=[self._file.fileno()],
                                         stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError), self._process.stdin as pipe:
            pipe.write(self._told)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def sent(self) -> int:
        """Returns the number of heartbeats that the process has sent since the last call."""
        count: int = COUNT.unpack_from(self._table)[0]
        before, self._seen = self._seen, count
        return count - before

    def hold(self, job_id: int, lease: int, interval: float, at: float) -> None:
        if self._free:
            self._places[lease] = (self._free.pop(), job_id, interval)
            self.beaten([lease], at)

    def drop(self, lease: int) -> None:
        held = self._places.pop(lease, None)
        if held is not None:
            ENTRY.pack_into(self._table, COUNT.size + held[0] * ENTRY.size, 0, 0, 0.0, 0.0)
            self._free.append(held[0])

    def beaten(self, leases: Iterable[int], at: float) -> None:
        for lease in leases:
            if lease in self._places:
                place, job_id, interval = self._places[lease]
                ENTRY.pack_into(self._table, COUNT.size + place * ENTRY.size, job_id, lease, interval, at)


# ---- the separate process, which imports what a connection needs only when it connects

class _Covering:
    HEARTBEAT = """WITH briefly AS MATERIALIZED (SELECT set_config('lock_timeout', '50ms', true))
        SELECT jobq_heartbeat(%s::bigint, %s::bigint, NULL) FROM briefly"""

    def __init__(self, descriptor: int, told: Mapping[str, Any]) -> None:
        self.table = mmap.mmap(descriptor, 0)
        self.told = told
        self.last: Dict[int, float] = {}   # lease -> time of the last heartbeat that this process sent
        self.connection: Any = None

    def late(self, now: float) -> List[Tuple[int, int]]:
        found, last = [], {}
        for job_id, lease, interval, at in ENTRY.iter_unpack(self.table[COUNT.size:]):
            if lease == 0:
                continue
            if lease in self.last and self.last[lease] > at:
                last[lease] = self.last[lease]
                if now < self.last[lease] + interval:
                    continue
            elif now < at + LATE * interval:
                continue
            found.append((job_id, lease))
        self.last = last
        return found

    def send(self, jobs: List[Tuple[int, int]], parent: int) -> None:
        if self.connection is None:
            sys.path[:] = self.told["path"]
            import psycopg
            self.connection = psycopg.connect(**self.told["arguments"])
        for job_id, lease in jobs:
            if os.getppid() != parent:
                return
            try:
                self.connection.execute(self.HEARTBEAT, (job_id, lease))
            except Exception:
                if self.connection.closed:
                    raise
                continue   # another transaction has locked the row: try again later
            self.last[lease] = time.monotonic()
            COUNT.pack_into(self.table, 0, COUNT.unpack_from(self.table)[0] + 1)


def main() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):   # ignored, because the worker handles the signals and may use its grace
                                                     # period
        signal.signal(number, signal.SIG_IGN)
    parent, descriptor = int(sys.argv[1]), int(sys.argv[2])
    covering = _Covering(descriptor, json.load(sys.stdin))
    while os.getppid() == parent:
        late = covering.late(time.monotonic())
        if late:
            try:
                covering.send(late, parent)
            except Exception:   # no connection: try again later
                covering.connection = None
        time.sleep(LOOK_EVERY)


if __name__ == "__main__":
    main()
