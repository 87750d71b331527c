"""The faults of the chaos run. Each fault is a function of the run that returns when the server accepts writes again. The final
state is judged at the end, and the time until the first claim at once."""

import os
import random
import re
import signal
import subprocess
import time

import handled_jobs
import psycopg

from servers import Server, wait_for

# The weight of each fault.
WEIGHTS = {
    "kill -9 of a session": 3,
    "kill -9 of a background worker": 3,
    "kill -9 of the launcher": 2,
    "kill -9 of an executor": 3,
    "executors terminated": 3,
    "kill -9 of the server": 3,
    "kill -9 of a client": 4,
    "client stopped past its timeout": 4,
    "sessions terminated": 6,
    "statements cancelled": 6,
    "disk full": 2,
    "promotion": 1,
}


class Faults:
    def __init__(self, run):
        self.run = run
        self.random = random.Random(run.seed)
        self.ready = []      # seconds from "ready to accept connections" to the first claim, and to the first SELECT
        self.port = run.primary.port

    def choose(self, done):
        """Yields each fault once, and then faults by weight."""
        names = [name for name in WEIGHTS if name != "disk full" or self.run.can_fill]
        new = [name for name in names if name not in done]
        return self.random.choice(new) if new else self.random.choices(names, [WEIGHTS[name] for name in names])[0]

    def do(self, name):
        {
            "kill -9 of a session": lambda: self._kill_process("jobq audit|jobq_chaos .*(idle|SELECT|INSERT|COMMIT|BEGIN)"),
            "kill -9 of a background worker": lambda: self._kill_process("jobq worker"),
            "kill -9 of the launcher": lambda: self._kill_process("jobq launcher"),
            "kill -9 of an executor": self._kill_executor,
            "executors terminated": self._terminate_executors,
            "kill -9 of the server": self._kill_server,
            "kill -9 of a client": self._kill_client,
            "client stopped past its timeout": self._stop_client,
            "sessions terminated": lambda: self._signal_sessions("pg_terminate_backend"),
            "statements cancelled": lambda: self._signal_sessions("pg_cancel_backend"),
            "disk full": self._fill_disk,
            "promotion": self._promote,
        }[name]()

    # ---- single processes

    def _kill_process(self, pattern):
        found = wait_for(lambda: [pid for pid, title in self.run.primary.processes() if re.search(pattern, title)], f"a process {pattern}", 60)
        position = self.run.primary.log_size()
        try:
            os.kill(self.random.choice(found), signal.SIGKILL)
        except ProcessLookupError:
            return
        # The postmaster restarts all processes.
        wait_for(lambda: self.run.primary.became_ready(position) or self.run.primary.postmaster.poll() is not None, "the restart")
        self._await_claim(position)

    def _executor(self):
        """Waits until there is an executor."""
        handled_jobs.add_one(lambda: self.run.primary.connect(self.run.database, connect_timeout=10))
        wait_for(lambda: any("jobq executor" in title for _, title in self.run.primary.processes()), "an executor", 60)

    def _kill_executor(self):
        self._executor()
        self._kill_process("jobq executor")

    def _terminate_executors(self):
        self._executor()
        for _ in range(5):
            try:
                with self.run.primary.connect(connect_timeout=10) as conn:
                    conn.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'jobq executor'")
            except psycopg.Error:
                pass
            time.sleep(0.1)

    def _kill_server(self):
        self.run.primary.kill_all()
        position = self.run.primary.log_size()
        self.run.primary.start()
        self._await_claim(position)

    def _await_claim(self, position):
        """Claims as soon as the server is ready; records the times until the first SELECT and the first claim."""
        primary = self.run.primary

        def ready():
            if primary.postmaster.poll() is not None:
                primary.start()
                time.sleep(0.1)
            return primary.became_ready(position)
        wait_for(ready, "ready to accept connections")
        begun = time.monotonic()
        selected = claimed = None
        while claimed is None:
            if time.monotonic() - begun > 60:
                raise TimeoutError("no claim within 60 s of being ready")
            try:
                with primary.connect(self.run.database, connect_timeout=10) as conn:
                    if selected is None:
                        conn.execute("SELECT 1")
                        selected = time.monotonic() - begun
                    if conn.execute("SELECT jobq_complete(id, lease) FROM jobq_claim('probe', 'probe')").fetchall():
                        claimed = time.monotonic() - begun
            except psycopg.Error:
                time.sleep(0.005)
        self.ready.append((claimed, selected))

    # ---- clients

    def _kill_client(self):
        name = self.random.choice([n for n in self.run.clients if n.startswith("w")])
        self.run.clients[name].kill()
        self.run.clients[name].wait()
        self.run.replace(name)

    def _stop_client(self):
        """The client resumes long after its jobs have been handed out to others."""
        running = [n for n, p in self.run.clients.items() if n.startswith("w") and p.poll() is None]
        stopped = [self.run.clients[name] for name in self.random.sample(running, min(2, len(running)))]
        for process in stopped:
            process.send_signal(signal.SIGSTOP)
        time.sleep(self.run.timeout + 2.5)
        for process in stopped:
            process.send_signal(signal.SIGCONT)

    def _signal_sessions(self, function):
        for _ in range(5):
            try:
                with self.run.primary.connect(connect_timeout=10) as conn:
                    conn.execute(f"SELECT {function}(pid) FROM pg_stat_activity WHERE application_name LIKE 'jobq audit %%'"
                                 f" AND random() < 0.3 AND pid <> pg_backend_pid()")
            except psycopg.Error:
                pass
            time.sleep(0.1)

    # ---- the disk

    def _fill_disk(self):
        run = self.run
        position = run.primary.log_size()
        filler = os.path.join(run.disk, "filler")

        def noticed():
            return run.primary.log_since(position).count("No space left on device")

        def write_and_look():
            """The clients may find enough free space, but a new segment of the log certainly needs more."""
            try:
                with run.primary.connect(run.database, connect_timeout=10) as conn:
                    conn.execute("SELECT pg_logical_emit_message(false, 'chaos', 'full'), pg_switch_wal()")
            except psycopg.Error:
                pass
            return noticed()
        try:
            with open(filler, "wb", buffering=0) as file:
                size, step = 0, 64 << 20
                while step >= 4096:
                    try:
                        os.posix_fallocate(file.fileno(), size, step)
                        size += step
                    except OSError:
                        step //= 2
            try:
                time.sleep(1)
                wait_for(write_and_look, "the server notices", 20)
            except TimeoutError:
                pass
        finally:
            os.remove(filler)
        run.primary.up()
        run.full_errors += noticed()

    # ---- promotion

    def _promote(self):
        """A standby that has confirmed each commit replaces a primary that is killed."""
        run = self.run
        self.port += 1
        standby = Server(run.primary.bin, run.disk, run.primary.sockets, f"server{self.port}", self.port)
        run.set_flag("calm", True)
        time.sleep(0.5)
        standby.copy_of(run.primary)
        standby.start()
        try:
            with run.primary.connect() as conn:
                wait_for(lambda: conn.execute("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'").fetchone()[0] > 0,
                         "the standby streams")
                conn.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
                conn.execute("SELECT pg_reload_conf()")
                wait_for(lambda: conn.execute("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'").fetchone()[0] > 0,
                         "the standby is synchronous")
            # Waits until the standby also has what was committed before.
            time.sleep(2)
            run.primary.kill_all()
            old, run.primary = run.primary, standby
            position = standby.log_size()
            standby.promote()
            standby.up()
            run.set_endpoint(standby.port)
            self._await_claim_after_promotion()
            subprocess.run(["rm", "-rf", old.data], check=True)
            run.check_log(standby, position)
        finally:
            run.set_flag("calm", False)

    def _await_claim_after_promotion(self):
        def claims():
            try:
                with self.run.primary.connect(self.run.database, connect_timeout=10) as conn:
                    return conn.execute("SELECT jobq_complete(id, lease) FROM jobq_claim('probe', 'probe')").fetchall()
            except psycopg.Error:
                return None
        wait_for(claims, "a claim after the promotion")
