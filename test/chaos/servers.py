"""The servers of the chaos run: a primary that is killed and started again, and standbys that are promoted.

Each has a directory and a port; all share a directory of sockets. Commits are durable: fsync and synchronous_commit are on.
"""

import os
import re
import signal
import subprocess
import time

import psycopg

CONF = """
listen_addresses = ''
unix_socket_directories = '{sockets}'
port = {port}
cluster_name = '{name}'
max_connections = 120
max_wal_senders = 5
wal_level = replica
min_wal_size = 32MB
max_wal_size = 128MB
wal_recycle = off
shared_buffers = 128MB
shared_preload_libraries = 'jobq'
restart_after_crash = on
log_line_prefix = '%m [%p] %b '
fsync = on
synchronous_commit = on
"""


def alive(pid):
    try:
        os.kill(pid, 0)
        return True
    except ProcessLookupError:
        return False


def wait_for(condition, what, seconds=120):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        result = condition()
        if result:
            return result
        time.sleep(0.02)
    raise TimeoutError(f"{what} within {seconds} s")


class Server:
    def __init__(self, bin_directory, base, sockets, name, port):
        self.bin, self.sockets, self.name, self.port = bin_directory, sockets, name, port
        self.data = os.path.join(base, name)
        self.log = os.path.join(sockets, f"{name}.log")
        self.postmaster = None

    def program(self, name):
        return os.path.join(self.bin, name)

    def create(self, conf=""):
        subprocess.run([self.program("initdb"), "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8",
                        "--no-sync"], check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(self.data, "postgresql.conf"), "a", encoding="utf-8") as file:
            file.write(CONF.format(sockets=self.sockets, port=self.port, name=self.name) + conf)

    def copy_of(self, primary):
        """A standby that streams from the primary, or from another standby."""
        subprocess.run([self.program("pg_basebackup"), "-D", self.data, "-h", primary.sockets, "-p", str(primary.port), "-U", "postgres",
                        "-R", "--checkpoint=fast", "--no-sync"], check=True)
        self._differ()

    def _differ(self):
        """Overrides settings that it must not share with the server from which its configuration was copied."""
        with open(os.path.join(self.data, "postgresql.conf"), "a", encoding="utf-8") as file:
            file.write(f"port = {self.port}\ncluster_name = '{self.name}'\n")

    def rewind_to(self, primary):
        """Uses pg_rewind to make a stopped server a standby of the server that has replaced it."""
        with open(self.log, "ab") as log:
            subprocess.run([self.program("pg_rewind"), "-D", self.data, "-R", "--no-sync", "--source-server",
                            f"host={primary.sockets} port={primary.port} user=postgres dbname=postgres"], check=True, stdout=log, stderr=log)
        self._differ()

    def start(self):
        """Starts the postmaster without waiting for it."""
        with open(self.log, "ab") as log:
            child = subprocess.Popen([self.program("postgres"), "-D", self.data], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                     start_new_session=True)
        self.postmaster = child

    def connect(self, database="postgres", **options):
        return psycopg.connect(host=self.sockets, port=self.port, user="postgres", dbname=database, autocommit=True, **options)

    def answers(self):
        try:
            with self.connect(connect_timeout=5) as conn:
                return conn.execute("SELECT NOT pg_is_in_recovery()").fetchone()[0]
        except psycopg.Error:
            return False

    def up(self):
        """Waits until the server accepts writes; starts a postmaster that has ended again."""
        def works():
            if self.postmaster.poll() is not None:
                # Dying processes may still use the shared memory, so the postmaster exits at once and is started again.
                self.start()
                time.sleep(0.2)
            return self.answers()
        wait_for(works, f"server {self.data} answers")

    def processes(self):
        """The child processes of the postmaster, according to the kernel, because the server may not respond."""
        pid = str(self.postmaster.pid)
        children = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                    fields = file.read().rpartition(")")[2].split()
                if fields[1] == pid:
                    with open(f"/proc/{entry}/cmdline", encoding="utf-8", errors="replace") as file:
                        children.append((int(entry), file.read().strip("\0 ")))
            except (FileNotFoundError, ProcessLookupError):
                continue
        return children

    def kill_all(self):
        """kill -9 of the postmaster and all its children. It is stopped first, so that it starts no child that this misses."""
        self.postmaster.send_signal(signal.SIGSTOP)
        children = [pid for pid, _ in self.processes()]
        self.postmaster.send_signal(signal.SIGKILL)
        self.postmaster.wait()
        for pid in children:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        wait_for(lambda: not any(alive(pid) for pid in children), "the processes are gone")

    def promote(self):
        subprocess.run([self.program("pg_ctl"), "-D", self.data, "-s", "promote", "-W"], check=True)

    def stop(self, how=signal.SIGQUIT):
        """Stops the server, immediately by default."""
        if self.postmaster is not None and self.postmaster.poll() is None:
            self.postmaster.send_signal(how)
            self.postmaster.wait(120)

    def log_size(self):
        return os.path.getsize(self.log) if os.path.exists(self.log) else 0

    def log_since(self, position=0):
        with open(self.log, "rb") as file:
            file.seek(position)
            return file.read().decode("utf-8", "replace")

    def became_ready(self, position):
        return re.search(r"database system is ready to accept connections", self.log_since(position)) is not None
