"""Tells the probes of Kubernetes and systemd whether the workers of this process are alive: see "Liveness" in clients/README.md of
the source tree. A probe restarts the whole process, so the file, the port, and systemd's watchdog cover all of its workers."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Dict, Optional, Set, Tuple

from .errors import OptionError
from .hand import Hand
from .options import Options

if TYPE_CHECKING:
    from .port import Port

EVERY = 2.0   # seconds between two touches of the file
log = logging.getLogger("jobq")


class Liveness:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._workers: Dict[Hand, str] = {}   # the values are worker IDs
        self._files: Set[Path] = set()
        self._ports: Dict[Tuple[str, int], "Port"] = {}
        self._watchdog: Optional[float] = None
        self._thread: Optional[threading.Thread] = None

    def watch(self, options: Options, hand: Hand) -> None:
        """Covers a worker, until leave(). Raises OptionError if the file cannot be touched or the port cannot be opened."""
        address, file = options.liveness_address, options.liveness_file
        if address is None and file is None and "NOTIFY_SOCKET" not in os.environ:
            return
        with self._changed:
            self._workers[hand] = options.worker_id
            option = "liveness_port"
            try:
                if address is not None and address not in self._ports:
                    from .port import Port   # imported here, because few workers need an HTTP server
                    self._ports[address] = Port(address, self._answer)
                option = "liveness_file"
                if file is not None:
                    Path(file).touch()
                    self._files.add(Path(file))
            except OSError as error:
                self.leave(hand)
                raise OptionError(f'option "{option}" cannot be used: {error}') from error
            if self._thread is None:
                self._thread = threading.Thread(target=self._tell_all, name="jobq liveness", daemon=True)
                self._thread.start()

    def leave(self, hand: Hand) -> None:
        with self._changed:
            self._workers.pop(hand, None)
            if not self._workers:
                while self._ports:
                    self._ports.popitem()[1].close()
                self._files.clear()
                self._watchdog = None
                self._changed.notify_all()

    def ready(self) -> None:
        """Tells systemd that all workers have started. From now on, systemd expects its watchdog to be told, too."""
        notify("READY=1")
        with self._changed:
            self._watchdog = watchdog()
            self._changed.notify_all()

    def reason(self) -> Optional[str]:
        """Returns why the process should be restarted, or None if it is alive."""
        for hand, worker_id in list(self._workers.items()):
            stuck = hand.stuck()
            if stuck is not None:
                return f"{worker_id}: {stuck} are stuck"
        return None

    def _answer(self) -> Tuple[int, str]:
        reason = self.reason()
        return 200 if reason is None else 503, f"{reason or 'ok'}\n"

    def _tell_all(self) -> None:
        said = None
        with self._changed:
            while self._workers:
                reason = self.reason() or self._tell()
                if reason is not None and reason != said:
                    log.error("liveness probes fail: %s", reason)
                said = reason
                self._changed.wait(EVERY if self._watchdog is None else min(EVERY, self._watchdog / 2))
            self._thread = None

    def _tell(self) -> Optional[str]:
        if self._watchdog is not None:
            notify("WATCHDOG=1")
        try:
            for file in self._files:
                file.touch()
        except OSError as error:
            return str(error)
        return None


def notify(state: str) -> None:
    """Sends a state to systemd, if the unit expects states (sd_notify(3))."""
    name = os.environ.get("NOTIFY_SOCKET", "")
    if not name:
        return
    try:
        with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as sender:
            sender.settimeout(1)
            sender.connect("\0" + name[1:] if name.startswith("@") else name)
            sender.send(state.encode())
    except OSError as error:
        log.warning("could not send %s to systemd: %s", state, error)


def watchdog() -> Optional[float]:
    """Returns after how many seconds of silence systemd ends this process, or None."""
    microseconds, process = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", "")
    if not microseconds.isdecimal() or process not in ("", str(os.getpid())):
        return None
    return int(microseconds) / 1e6 or None


PROCESS = Liveness()
