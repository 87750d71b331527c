"""The Cores of a worker of a cluster: one for each shard. They share the slots."""

from __future__ import annotations

import functools
import logging
import threading
from typing import Callable, Dict, List, Optional

import psycopg

from . import connect
from .cluster import Cluster
from .core import Core
from .hand import Load

LOOK_EVERY = 5.0   # seconds between two reads of the map
REFRESH_EVERY = 12   # number of reads after which the router asks the shards for a newer map
log = logging.getLogger("jobq")


class ClusterCore:
    """Has the interface of Core that workers use."""

    def __init__(self, cluster: Cluster, new_core: Callable[[connect.Conninfo, Optional[Load]], Core]) -> None:
        """new_core makes the Core of a shard from its connection string."""
        self.cluster, self.new_core, self.load = cluster, new_core, Load()
        self.error: Optional[BaseException] = None
        self.over = threading.Event()
        self.when_over: Callable[[], None] = lambda: None
        self.when_failed: Callable[[], None] = lambda: None
        self._lock = threading.Lock()
        self._cores: Dict[int, Core] = {}   # by shard
        self._clean = True                  # whether the cores that have ended have reported everything
        self._following = False
        self._stopping = threading.Event()

    def start(self) -> None:
        """Connects to all shards that can be reached. Raises an error if there is none, or after another error."""
        try:
            shards = self.cluster.refresh().shards
            if not shards:
                raise RuntimeError("the router has no shards")
            errors = [error for error in map(self._try_to_start_on, shards) if error is not None]
            if not self._cores:
                raise self.error or errors[0]
        except BaseException:
            self.stop()
            self.cluster.close()
            raise
        self._following = True
        threading.Thread(target=self._follow, name="jobq cluster", daemon=True).start()

    def stop(self) -> None:
        self._stopping.set()
        for core in self._current():
            core.stop()

    def _current(self) -> List[Core]:
        with self._lock:
            return list(self._cores.values())

    @property
    def has_running(self) -> bool:
        return any(hand.running for hand in self.load.hands)

    @property
    def clean(self) -> bool:
        return self.error is None and self._clean

    def _try_to_start_on(self, shard: int) -> Optional[psycopg.OperationalError]:
        """Returns the error if the shard cannot be reached."""
        try:
            self._start_on(shard)
        except psycopg.OperationalError as error:
            log.warning("shard %d is not served: %s", shard, error)
            return error
        return None

    def _start_on(self, shard: int) -> None:
        if self._stopping.is_set():
            return
        core = self.new_core(functools.partial(self.cluster.conninfo_of, shard), self.load)
        core.when_over = functools.partial(self._ended, shard, core)
        core.when_failed = functools.partial(self._failed, core)
        with self._lock:
            self._cores[shard] = core
        try:
            core.start()
        except BaseException:
            core.hand.leave()
            with self._lock:
                self._cores.pop(shard, None)
            raise
        if self._stopping.is_set():
            core.stop()

    def _follow(self) -> None:
        """Compares the running Cores with the map every few seconds: starts a Core for each shard that has none, and stops the Cores
        of shards that are no longer in the map."""
        looks = 0
        while not self._stopping.wait(LOOK_EVERY):
            looks += 1
            try:
                shards = (self.cluster.map() if looks % REFRESH_EVERY else self.cluster.refresh()).shards
                with self._lock:
                    gone = [core for shard, core in self._cores.items() if shard not in shards]
                    new = [shard for shard in shards if shard not in self._cores]
                _stop_once(gone)
                for shard in new:
                    self._try_to_start_on(shard)
            except Exception as error:
                log.warning("the worker does not serve all shards: %s", error)
        with self._lock:
            self._following = False
        self._check_over()

    def _ended(self, shard: int, core: Core) -> None:
        with self._lock:
            self._cores.pop(shard, None)
            self._clean = self._clean and core.clean
        self._check_over()

    def _failed(self, core: Core) -> None:
        self.error = self.error or core.error
        self._stopping.set()
        _stop_once(self._current())
        self.when_failed()

    def _check_over(self) -> None:
        with self._lock:
            is_over = self._stopping.is_set() and not self._cores and not self._following and not self.over.is_set()
            if is_over:
                self.over.set()
        if is_over:
            self.cluster.close()
            self.when_over()


def _stop_once(cores: List[Core]) -> None:
    """Stops the Cores that are not stopping yet. A second stop would end their grace period."""
    for core in cores:
        if not core.hand.stopping():
            core.stop()
