"""The server and the pooler of the scenarios, which are killed and restarted. scripts/clients.sh starts the server; this module
starts the pooler."""

import os
import signal
import socket
import subprocess
import tempfile
import time

import psycopg

CONFIG = """[databases]
narrow = host={host} port={port} dbname=work pool_size=5
* = host={host} port={port}
[pgbouncer]
pool_mode = transaction
listen_addr = 127.0.0.1
listen_port = {own_port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {directory}/users
default_pool_size = 40
max_client_conn = 400
server_login_retry = 1
ignore_startup_parameters = extra_float_digits, options
logfile = {directory}/pgbouncer.log
"""


class Place:
    """The address to which a program connects."""

    def __init__(self, host, port, password):
        self.host, self.port, self.password = host, port, password

    def environment(self, user, database):
        return {"PGHOST": self.host, "PGPORT": str(self.port), "PGUSER": user, "PGPASSWORD": self.password, "PGDATABASE": database}


class Server(Place):
    """The server. JOBQ_SERVER_DATA is its data directory. It listens on the port JOBQ_SERVER_PORT, and for its owner on a socket
    in PGHOST."""

    def __init__(self):
        super().__init__("127.0.0.1", int(os.environ["JOBQ_SERVER_PORT"]), os.environ["JOBQ_PASSWORD"])
        self.data = os.environ["JOBQ_SERVER_DATA"]

    def _control(self, *arguments):
        subprocess.run(["pg_ctl", "-D", self.data, "-s", "-w", "-t", "120", "-l", f"{self.data}.log", *arguments], check=True)

    def stop(self):
        self._control("stop", "-m", "fast")

    def start(self):
        self._control("start")

    def restart(self):
        self.stop()
        self.start()


class Pooler(Place):
    def __init__(self, server, users, directory):
        super().__init__("127.0.0.1", free_port(), server.password)
        self.directory, self.process = directory, None
        with open(f"{directory}/users", "w", encoding="utf-8") as users_file:
            for user in users:
                users_file.write(f'"{user}" "{server.password}"\n')
        with open(f"{directory}/pgbouncer.ini", "w", encoding="utf-8") as config:
            config.write(CONFIG.format(host=server.host, port=server.port, own_port=self.port, directory=directory))

    def start(self):
        environment = {**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin"}
        self.process = subprocess.Popen(["pgbouncer", "-q", f"{self.directory}/pgbouncer.ini"], env=environment,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        becomes_true(lambda: listens(self.port), "the pooler listens")

    def stop(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def restart(self):
        self.stop()
        self.start()


class Starving:
    """A preloaded library that prevents a program from creating threads and processes as soon as a certain file exists."""

    SOURCE = r'''
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <errno.h>
        #include <pthread.h>
        #include <stdlib.h>
        #include <unistd.h>
        static int starved(void) { return access(getenv("JOBQ_STARVED"), F_OK) == 0; }
        int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*work)(void *), void *with)
        {
            int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = dlsym(RTLD_NEXT, "pthread_create");
            return starved() ? EAGAIN : real(thread, how, work, with);
        }
        pid_t fork(void)
        {
            pid_t (*real)(void) = dlsym(RTLD_NEXT, "fork");
            if (!starved())
                return real();
            errno = EAGAIN;
            return -1;
        }
    '''

    def __init__(self):
        self.directory = tempfile.TemporaryDirectory(prefix="starving")
        self.object, self.file = f"{self.directory.name}/starving.so", f"{self.directory.name}/starved"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", self.object, "-x", "c", "-", "-ldl"], input=self.SOURCE.encode(), check=True)

    def environment(self):
        return {"LD_PRELOAD": self.object, "JOBQ_STARVED": self.file}

    def begin(self):
        with open(self.file, "w", encoding="utf-8"):
            pass

    def end(self):
        self.directory.cleanup()


def free_port():
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        return any_port.getsockname()[1]


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
        return True
    except OSError:
        return False


def becomes_true(condition, what, limit=120):
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.05)


def set_up(users, password):
    """Creates databases, tables, and roles as the superuser that PGHOST and PGUSER select."""
    with psycopg.connect(dbname="postgres", autocommit=True) as connection:
        connection.execute("CREATE DATABASE work")
        connection.execute("CREATE DATABASE no_jobq")
        connection.execute("CREATE DATABASE unwoken")
        connection.execute("ALTER DATABASE unwoken SET search_path = unwoken, public")
    with psycopg.connect(dbname="work", autocommit=True) as connection:
        connection.execute("CREATE EXTENSION jobq")
        connection.execute("""
            CREATE SCHEMA scenario;
            CREATE TABLE scenario.gates (name text PRIMARY KEY);
            CREATE TABLE scenario.events (job_id bigint, attempt int, event text, at timestamptz DEFAULT clock_timestamp());
            CREATE TABLE scenario.effects (job_id bigint, attempt int, name text);
            CREATE SEQUENCE scenario.collisions;
            -- A job {"collides": STATUS, "gate": GATE} does not get that status before the gate is open; a job {"refuses": STATUS}
            -- never; a job {"refuses": "message", "message": TEXT} no error with that text; a job {"refuses": "characters"} no error
            -- with a character that is not ASCII, as in a database whose encoding lacks the character.
            CREATE FUNCTION scenario.collides() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
            BEGIN
                IF NEW.status::text = NEW.payload ->> 'collides'
                        AND NOT EXISTS (SELECT FROM scenario.gates WHERE name = NEW.payload ->> 'gate') THEN
                    PERFORM nextval('scenario.collisions');
                    RAISE serialization_failure;
                END IF;
                IF NEW.payload ->> 'refuses' IN (NEW.status::text,
                        CASE WHEN position(NEW.payload ->> 'message' IN NEW.error) > 0 THEN 'message' END) THEN
                    RAISE 'refused on purpose' USING HINT = 'Open the gate.';
                END IF;
                IF NEW.payload ->> 'refuses' = 'characters' AND NEW.error ~ '[^\x01-\x7f]' THEN
                    RAISE untranslatable_character;
                END IF;
                RETURN NEW;
            END $$;
            -- The first N effects of jobs {"conflicts": N} end in 40001 or 40P01.
            CREATE SEQUENCE scenario.conflicts;
            CREATE FUNCTION scenario.conflicts() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
            DECLARE
                most integer = (SELECT payload ->> 'conflicts' FROM jobq.jobs WHERE id = NEW.job_id);
                here bigint = CASE WHEN most IS NOT NULL THEN nextval('scenario.conflicts') END;
            BEGIN
                IF here <= most AND here % 2 = 0 THEN RAISE deadlock_detected; END IF;
                IF here <= most THEN RAISE serialization_failure; END IF;
                RETURN NEW;
            END $$;
            CREATE TRIGGER conflicts BEFORE INSERT ON scenario.effects FOR EACH ROW EXECUTE FUNCTION scenario.conflicts();
            CREATE FUNCTION scenario.run(command text) RETURNS boolean LANGUAGE plpgsql AS $$
            BEGIN
                -- Scenarios that run at the same time must not change the privileges on a table concurrently (XX000).
                PERFORM pg_catalog.pg_advisory_xact_lock(1);
                EXECUTE command;
                RETURN true;
            END $$;
            CREATE ROLE workers;
            GRANT USAGE ON SCHEMA scenario TO workers;
            GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA scenario TO workers;
            SELECT jobq_grant('workers', 'worker')""")
        # Behave like a server on which jobq is not preloaded.
        with psycopg.connect(dbname="unwoken", autocommit=True) as unwoken:
            unwoken.execute("""
                CREATE EXTENSION jobq;
                SELECT jobq_grant('workers', 'worker');
                CREATE SCHEMA unwoken;
                GRANT USAGE ON SCHEMA unwoken TO workers;
                CREATE FUNCTION unwoken.jobq_wake(text) RETURNS boolean LANGUAGE plpgsql AS $$
                BEGIN RAISE object_not_in_prerequisite_state USING MESSAGE = 'jobq is not preloaded'; END $$""")
        for user in users:
            connection.execute(f"CREATE ROLE {user} LOGIN PASSWORD '{password}' IN ROLE workers")
