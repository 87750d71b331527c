"""The cluster of a run: shards, their routers, and a standby of the first shard, on sockets in a directory of their own.

The server of the first router also has the database `app`, an application with an outbox.
"""

import os

from servers import Server, wait_for  # test/chaos

DATABASE = "jobs"
APP = "app"
FIRST_PORT = 5601
# Triggers record what the laws need on the shard of the job, in the same transaction. A completion records its report and lease in
# the result. The table has no constraints, so that violations can be found.
WITNESSES = """
CREATE TABLE effects (id bigint, lease bigint, key text, client text, number int);
CREATE FUNCTION witness_effect() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.effects VALUES (NEW.id, (NEW.result->>'l')::bigint, NEW.payload->>'k', NEW.result->>'c', (NEW.result->>'n')::int);
    RETURN NULL;
END $$;
CREATE TRIGGER effect AFTER UPDATE ON jobq.jobs FOR EACH ROW WHEN (OLD.status = 'processing' AND NEW.status = 'completed')
    EXECUTE FUNCTION witness_effect();
CREATE TABLE births (id bigint, at timestamptz);
CREATE FUNCTION witness_birth() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO public.births VALUES (NEW.id, clock_timestamp()); RETURN NULL; END $$;
CREATE TRIGGER birth AFTER INSERT ON jobq.jobs FOR EACH ROW WHEN (NEW.unique_key IS NOT NULL) EXECUTE FUNCTION witness_birth();
"""
# Short, so that jobs are rescued throughout a run of some minutes. Jobs are lost at random and must not fail because of that.
QUEUE = ("SELECT jobq_create_queue(%s, max_attempts => 1000, max_lost => 1000, heartbeat_timeout => %s, backoff_base => '20 ms',"
         " backoff_max => '200 ms')")


class Shard:
    def __init__(self, number, server, standby=None):
        self.number, self.server, self.standby = number, server, standby

    def connection(self):
        """The connection string for routers, which finds the server that accepts writes."""
        servers = [self.server] + ([self.standby] if self.standby else [])
        return (f"host={','.join(server.sockets for server in servers)} port={','.join(str(server.port) for server in servers)}"
                f" user=postgres dbname={DATABASE} target_session_attrs=read-write connect_timeout=5")

    def connect(self):
        return self.server.connect(DATABASE, connect_timeout=10)

    def await_standby(self):
        wait_for(lambda: self._streams(), f"the standby of shard {self.number} is synchronous")

    def _streams(self):
        with self.server.connect() as conn:
            return conn.execute("SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'").fetchone()[0]

    def promote_standby(self):
        """Kills the primary, which is not started again."""
        self.server.kill_all()
        self.server, self.standby = self.standby, None
        self.server.promote()
        self.server.up()
        with self.server.connect() as conn:
            conn.execute("ALTER SYSTEM SET synchronous_standby_names = ''")
            conn.execute("SELECT pg_reload_conf()")


class Topology:
    def __init__(self, bin_directory, directory, sockets):
        self.bin, self.directory, self.sockets = bin_directory, directory, sockets
        self.servers, self.shards, self.routers = [], {}, []

    def _server(self, name):
        server = Server(self.bin, self.directory, self.sockets, name, FIRST_PORT + len(self.servers))
        self.servers.append(server)
        return server

    def _start(self, name, conf="", database=DATABASE):
        server = self._server(name)
        server.create(conf)
        server.start()
        server.up()
        with server.connect() as conn:
            conn.execute(f"CREATE DATABASE {database}")
        return server

    def make(self, shards, routers, queues, timeout):
        """Makes one more shard than requested, for add_shard()."""
        self.queues, self.timeout = queues, timeout
        for number in range(1, shards + 1):
            self.shards[number] = self.new_shard(number)
        self.spare = self.new_shard(shards + 1)
        first = self.shards[1]
        first.standby = self._server("shard1_standby")
        first.standby.copy_of(first.server)
        first.standby.start()
        with first.server.connect() as conn:
            conn.execute("ALTER SYSTEM SET synchronous_standby_names = 'shard1_standby'")
            conn.execute("SELECT pg_reload_conf()")
        first.await_standby()
        for number in range(1, routers + 1):
            self.routers.append(self._start(f"router{number}"))
        self._set_up_routers()
        with self.routers[0].connect() as conn:
            conn.execute(f"CREATE DATABASE {APP}")
        with self.routers[0].connect(APP) as conn:
            conn.execute("CREATE EXTENSION jobq")
            conn.execute(QUEUE, ("outbox", f"{timeout} s"))

    def new_shard(self, number):
        shard = Shard(number, self._start(f"shard{number}"))
        with shard.connect() as conn:
            conn.execute("CREATE EXTENSION jobq")
            conn.execute("CREATE EXTENSION jobq_shard")
            conn.execute(WITNESSES)
        return shard

    def _set_up_routers(self):
        for router in self.routers:
            with router.connect(DATABASE) as conn:
                conn.execute("CREATE EXTENSION plproxy")
                conn.execute("CREATE EXTENSION jobq_router")
                conn.execute("CREATE TABLE hashes (text text, digest text)")     # the effect of examples/worker.py
        first = self.routers[0]
        with first.connect(DATABASE) as conn:
            for shard in self.shards.values():
                self._add(conn, shard)
            for queue, spread_by in self.queues.items():
                if spread_by is not None:
                    conn.execute("SELECT jobq_route_queue(%s, spread => true, spread_by => %s)", (queue, spread_by or None))
                conn.execute(QUEUE, (queue, f"{self.timeout} s"))
        for router in self.routers[1:]:     # they take over the map
            with router.connect(DATABASE) as conn:
                self._add(conn, self.shards[1])

    def _add(self, conn, shard):
        conn.execute("SELECT jobq_add_shard(%s, %s)", (shard.number, shard.connection()))

    def add_shard(self):
        shard = self.spare
        self.shards[shard.number] = shard
        with self.routers[0].connect(DATABASE) as conn:
            self._add(conn, shard)

    def drain_shard(self, number):
        with self.routers[-1].connect(DATABASE) as conn:
            conn.execute("SELECT jobq_drain_shard(%s)", (number,))

    def ask_shards(self, statement, parameters=None):
        """Returns the rows of all shards."""
        rows = []
        for shard in list(self.shards.values()):
            with shard.connect() as conn:
                rows += conn.execute(statement, parameters).fetchall()
        return rows

    def stop(self):
        for server in self.servers:
            server.stop()

    def logs(self):
        return [server.log for server in self.servers if os.path.exists(server.log)]
