#!/usr/bin/python3
"""The functions of the router are those of jobq: names, arguments, defaults, and results; and only admitted roles can call them."""

import sys

from cluster import SERVERS, connect, connection, fails, make_cluster, make_database, make_role, one, router, run, shard

# The catalog lists the columns of a function that returns a table as arguments. If a function returns a row type, its columns are
# the columns of that type.
CALLS = """
    SELECT p.proname AS name, p.prokind::text AS kind,
           (SELECT array_agg(concat_ws(' ', coalesce(p.proargnames[i], ''), format_type(t, NULL)) ORDER BY i)
            FROM unnest(p.proargtypes::oid[]) WITH ORDINALITY a(t, i)) AS arguments,
           pg_get_expr(p.proargdefaults, 0) AS defaults, p.proretset AS many,
           CASE WHEN p.proallargtypes IS NOT NULL AND p.proretset THEN
                    (SELECT array_agg(concat_ws(' ', p.proargnames[i], format_type(t, NULL)) ORDER BY i)
                     FROM unnest(p.proallargtypes) WITH ORDINALITY a(t, i) WHERE p.proargmodes[i] = 't')
                WHEN y.typrelid <> 0 THEN
                    (SELECT array_agg(concat_ws(' ', a.attname, format_type(a.atttypid, NULL)) ORDER BY a.attnum)
                     FROM pg_attribute a WHERE a.attrelid = y.typrelid AND a.attnum > 0)
                ELSE ARRAY[format_type(y.oid, NULL)] END AS result
    FROM pg_proc p JOIN pg_type y ON y.oid = p.prorettype
    WHERE p.proname LIKE 'jobq\\_%%' AND p.pronamespace = 'public'::regnamespace
"""
# Without a secret, the hash of this kind in queue "grants mine" would equal that of kind "twin" in queue "grants theirs".
TWIN = "\x0f,\x1a\x08\x1a\x16r\x16\x0e\x16\x04\x136)\x1c\x06x\x05\x09\x0c61\x16\x08"
OF_THE_ROUTER = {"jobq_add_shard", "jobq_alter_shard", "jobq_drain_shard", "jobq_remove_shard", "jobq_route_queue", "jobq_settle"}
VIEWS = """
    SELECT c.relname AS name, array_agg(concat_ws(' ', a.attname, format_type(a.atttypid, NULL)) ORDER BY a.attnum) AS columns
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE c.relnamespace = 'jobq'::regnamespace AND c.relkind IN ('r', 'v') GROUP BY 1
"""


def test_the_calls_are_those_of_jobq():
    with router() as conn, shard(1) as direct:
        ours = {row.name: row for row in conn.execute(CALLS)}
        theirs = {row.name: row for row in direct.execute(CALLS)}
    assert set(ours) - set(theirs) == OF_THE_ROUTER, set(ours) - set(theirs)
    assert not set(theirs) - set(ours), f"not in the router: {set(theirs) - set(ours)}"
    different = [f"{ours[name]}\n{theirs[name]}" for name in theirs if ours[name] != theirs[name]]
    assert not different, "\n".join(different)


def test_the_views_are_those_of_jobq():
    with router() as conn, shard(1) as direct:
        ours = {row.name: row.columns for row in conn.execute(VIEWS)}
        theirs = {row.name: row.columns for row in direct.execute(VIEWS)}
    for name, columns in ours.items():
        assert columns == theirs[name] + ["shard integer"], f"{name}:\n{columns}\n{theirs[name]}"


def test_only_who_is_let_in_can_call():
    make_role("regress_stranger")
    make_role("regress_producer")
    with router() as conn, router(user="regress_stranger") as stranger, router(user="regress_producer") as producer:
        # A role that has not been admitted can call nothing, and no connection string is readable by all roles.
        assert one(conn, "SELECT count(*) FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid JOIN pg_extension e ON e.oid = d.refobjid"
                         " WHERE d.deptype = 'e' AND e.extname = 'jobq_router' AND has_function_privilege('regress_stranger', p.oid, 'EXECUTE')") == 0
        fails(stranger, "42501", "SELECT jobq_enqueue('q')")
        fails(stranger, "42501", "SELECT * FROM jobq_router.shards")
        conn.execute("SELECT jobq_grant('regress_producer', 'producer', '{mine}')")
        assert one(producer, "SELECT jobq_enqueue('mine')") > 0
        fails(producer, "42501", "SELECT jobq_enqueue('theirs')")
        fails(producer, "42501", "SELECT * FROM jobq_claim('mine')")
        wakes = ("SELECT jobq_wake('w')", "SELECT jobq_router.note_wake('w')")
        waits = ("CALL jobq_wait('mine', '0.1 s')", "SELECT jobq_router.take_wake('w')")
        for call in wakes + waits:
            fails(producer, "42501", call)
        for call in ("jobq_settle()", "jobq_drain_shard(1)", "jobq_add_shard(9, 'dbname=x')", "jobq_router.deal()", "jobq_router.adopt(99, '{}')"):
            fails(producer, "42501", f"SELECT {call}")
        fails(producer, "42501", "DELETE FROM jobq_router.shards")
        fails(producer, "42501", "SELECT jobq_router.at_take_map(1, 99, '{}', NULL)")
        # A producer takes over a newer map with the privileges of the router.
        conn.execute("UPDATE jobq_router.map SET version = version - 1")
        assert one(producer, "SELECT jobq_enqueue('mine')") > 0
        conn.execute("SELECT jobq_grant('regress_producer', 'operator', '{mine}')")
        for call in wakes:
            producer.execute(call)
        for call in waits:
            fails(producer, "42501", call)
        conn.execute("SELECT jobq_revoke('regress_producer', 'operator')")
        for call in wakes + waits:
            fails(producer, "42501", call)
        conn.execute("SELECT jobq_grant('regress_producer', 'worker')")
        conn.execute("SELECT jobq_revoke('regress_producer', 'producer')")
        fails(producer, "42501", "SELECT jobq_enqueue('mine')")
        for call in wakes + waits:
            producer.execute(call)
        assert producer.execute("SELECT * FROM jobq_claim('none')").fetchall() == []
        conn.execute("SELECT jobq_revoke('regress_producer', 'worker')")
        for query in ("SELECT * FROM jobq_claim('none')", "SELECT connection FROM jobq_router.shards", "SELECT jobq_wake('w')", "SELECT * FROM jobq.jobs"):
            fails(producer, "42501", query)
        fails(conn, "22023", "SELECT jobq_add_shard(9, 'dbname=x password=secret')", says="must not contain a password")
        fails(conn, "22023", "SELECT jobq_alter_shard(1, 'dbname=x sslpassword = secret')", says="must not contain a password")
        fails(conn, "22023", "SELECT jobq_add_shard(9, 'postgresql://u:secret@x/x')", says="must not be a URI")
        conn.execute("ALTER USER MAPPING FOR PUBLIC SERVER jobq_shard_1 OPTIONS (ADD password 'secret')")
        assert one(stranger, "SELECT count(*) FROM pg_user_mappings WHERE umoptions IS NOT NULL") == 0
        conn.execute("ALTER USER MAPPING FOR PUBLIC SERVER jobq_shard_1 OPTIONS (DROP password)")
        # A role cannot map itself to another role on a shard; only the owner can.
        conn.execute("GRANT USAGE ON FOREIGN SERVER jobq_shard_2 TO regress_producer")
        fails(producer, "42501", "CREATE USER MAPPING FOR regress_producer SERVER jobq_shard_2 OPTIONS (user 'postgres')", says="only the owner of the servers")
        conn.execute("CREATE USER MAPPING FOR regress_producer SERVER jobq_shard_2 OPTIONS (user 'regress_producer')")
        fails(producer, "42501", "ALTER USER MAPPING FOR regress_producer SERVER jobq_shard_2 OPTIONS (SET user 'postgres')", says="only the owner of the servers")
        for drop in ("DROP USER MAPPING FOR regress_producer SERVER jobq_shard_2", "DROP OWNED BY CURRENT_USER"):
            fails(producer, "42501", drop, says="only the owner of the servers")
        # Whatever the settings of the session. A new session each time, because settings that were read once may be cached.
        conn.execute("GRANT USAGE ON FOREIGN SERVER jobq_shard_1 TO regress_producer")
        conn.execute("GRANT SET ON PARAMETER session_replication_role TO regress_producer")
        for setting in ("standard_conforming_strings = off", "session_replication_role = replica"):
            for change in ("CREATE USER MAPPING FOR CURRENT_USER SERVER jobq_shard_1 OPTIONS (user 'postgres')",
                           "ALTER USER MAPPING FOR CURRENT_USER SERVER jobq_shard_2 OPTIONS (SET user 'postgres')",
                           "DROP USER MAPPING FOR CURRENT_USER SERVER jobq_shard_2", "DROP OWNED BY CURRENT_USER"):
                with router(user="regress_producer") as sets:
                    sets.execute(f"SET {setting}")
                    fails(sets, "42501", change, says="only the owner of the servers")
        conn.execute("REVOKE SET ON PARAMETER session_replication_role FROM regress_producer")
        conn.execute("DROP USER MAPPING FOR regress_producer SERVER jobq_shard_2")
        with shard(1, user="regress_producer") as behind:
            fails(behind, "42501", "SELECT jobq_shard.note_gone('theirs', 'k')")
            fails(behind, "42501", "SELECT jobq_shard.take_map(99, '{}')")


def test_a_shard_reveals_nothing_about_queues_of_others():
    """The functions of jobq_shard that routers call are SECURITY DEFINER, so they must check the grants of the role themselves."""
    queues = ("grants mine", "grants theirs")
    make_database(SERVERS[0], "asked", "jobq", "jobq_shard")
    with connect(SERVERS[0], "asked") as conn:
        for profile in ("producer", "worker", "operator"):
            make_role(f"regress_asking_{profile}")
            conn.execute("SELECT jobq_grant(%s, %s, %s)", (f"regress_asking_{profile}", profile, [queues[0]]))
            conn.execute("SELECT jobq_shard.admit(%s, true)", (f"regress_asking_{profile}",))
        for queue in queues:
            conn.execute("SELECT jobq_enqueue(%s, kind => 'ready', unique_key => 'key')", (queue,))
        # Tests whether a role learns that a queue has a ready job, and a job with the key.
        asks = "SELECT jobq_shard.is_ready(q, '{ready}', NULL, NULL), jobq_shard.still_here(0, q, 'key', NULL, NULL) FROM unnest(%s::text[]) q"
        for user, of_mine, of_theirs in (("postgres", (True, True), (True, True)), ("regress_asking_producer", (False, True), (False, False)),
                                         ("regress_asking_worker", (True, False), (False, False)),
                                         ("regress_asking_operator", (False, True), (False, False))):
            with connect(SERVERS[0], "asked", user) as asking:
                answers = asking.execute(asks, (list(queues),)).fetchall()
                assert answers == [of_mine, of_theirs], f"{user}: {answers}"
        # A ready job of another queue does not count, whatever its kind.
        ready = "SELECT jobq_shard.is_ready('grants theirs', '{twin}', NULL, NULL)"
        conn.execute("SELECT jobq_enqueue('grants theirs', kind => 'twin')")
        assert one(conn, ready) is True
        conn.execute("DELETE FROM jobq.jobs WHERE queue = 'grants theirs'")
        conn.execute("SELECT jobq_enqueue('grants mine', kind => %s)", (TWIN,))
        assert one(conn, ready) is False
        assert one(conn, "SELECT jobq_shard.has_queue('grants theirs')") is False


def test_settings_of_a_session_change_no_call():
    """The settings that affect how function bodies are parsed."""
    with router() as conn:
        conn.execute("SET standard_conforming_strings = off")
        fails(conn, "22023", "SELECT jobq_add_shard(9, 'dbname=x password =y')", says="must not contain a password")
        fails(conn, "22023", "SELECT jobq_add_shard(9, ' postgresql://u:y@x/x')", says="must not be a URI")
        conn.execute("SELECT jobq_alter_shard(1, connection || ' connect_timeout = 7') FROM jobq_router.shards WHERE shard_id = 1")
        assert "tcp_user_timeout=" not in one(conn, "SELECT jobq_router.bounded('dbname=x tcp_user_timeout = 1')")
        conn.execute("SELECT jobq_alter_shard(1, %s)", (connection(1),))
        # PL/Proxy prefixes the error, and the prefix is not shown.
        error = fails(conn, "22023", "SELECT jobq_enqueue('q', max_attempts => -1)")
        assert error.diag.message_primary.startswith("argument "), error
        assert one(conn, "SELECT jobq_router.meaning('XX000', 'PL/Proxy function jobq_router.at_jobq_get(2): [shard1] PQconnectPoll: no')") == "unreached"


def test_only_a_superuser_makes_the_extensions():
    """Otherwise an operator who may create objects in a database could own and change functions that the owners of routers call."""
    make_role("regress_stranger")
    make_database(SERVERS[0], "bare", "jobq", "plproxy")
    with connect(SERVERS[0], "bare") as conn, connect(SERVERS[0], "bare", "regress_stranger") as stranger:
        conn.execute("GRANT CREATE ON DATABASE bare TO regress_stranger")
        conn.execute("SELECT jobq_grant('regress_stranger', 'operator')")
        for extension in ("jobq_shard", "jobq_router"):
            fails(stranger, "42501", f"CREATE EXTENSION {extension}", says="permission denied to create extension")
        conn.execute("SELECT jobq_revoke('regress_stranger', 'operator')")


def test_who_is_let_out_can_be_dropped():
    """Nothing is left of the privileges that were granted to a role, on any server."""
    make_role("regress_leaver")
    with router() as conn:
        conn.execute("SELECT jobq_grant('regress_leaver', 'worker', '{a,b}')")
        conn.execute("SELECT jobq_grant('regress_leaver', 'operator')")
        conn.execute("SELECT jobq_revoke('regress_leaver', 'operator')")
        conn.execute("SELECT jobq_revoke('regress_leaver', 'worker')")
    for server in SERVERS:
        with connect(server, "postgres") as conn:
            conn.execute("DROP ROLE regress_leaver")


def test_what_others_put_into_a_schema_is_not_called():
    with router() as conn:
        assert one(conn, "SELECT count(*) FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid JOIN pg_extension e ON e.oid = d.refobjid"
                         " WHERE d.deptype = 'e' AND e.extname = 'jobq_router' AND p.pronamespace = 'public'::regnamespace AND p.prokind = 'f'"
                         " AND 'search_path=pg_catalog, pg_temp' <> ALL (coalesce(p.proconfig, '{}'))") == 0
        conn.execute("SELECT jobq_route_queue('spread', spread => true)")
        conn.execute("CREATE FUNCTION public.num_nonnulls(text, text, text) RETURNS integer LANGUAGE plpgsql AS $$ BEGIN RAISE 'called'; END $$")
        fails(conn, "P0001", "SELECT num_nonnulls('a'::text, 'b'::text, 'c'::text)")
        assert one(conn, "SELECT jobq_enqueue('spread')") > 0
        conn.execute("CALL jobq_wait('spread', '1 s')")


def test_a_new_shard_knows_the_roles():
    """Whatever the names of the roles; also if an admitted role has been dropped."""
    name = 'regress "odd" Name'
    make_role(name)
    allowed = "SELECT bool_and(has_function_privilege(%s, p.oid, 'EXECUTE')) FROM pg_proc p WHERE p.proname = 'jobq_enqueue'"
    with router() as conn, shard(3) as third:
        conn.execute("SELECT jobq_grant(%s, 'producer')", (name,))
        conn.execute("INSERT INTO jobq_router.grants VALUES (4711, 'producer')")
        conn.execute("SELECT jobq_drain_shard(3)")
        conn.execute("SELECT jobq_cancel_jobs(q) FROM unnest('{mine,spread}'::text[]) q")
        conn.execute("SELECT jobq_remove_shard(3)")
        third.execute("SELECT jobq_revoke(%s, 'producer')", (name,))
        assert one(third, allowed, name) is False
        # As a role that needs a password for the first connection.
        conn.execute("CREATE SERVER jobq_shard_3 FOREIGN DATA WRAPPER plproxy OPTIONS (p0 'dbname=x')")
        conn.execute("CREATE USER MAPPING FOR CURRENT_USER SERVER jobq_shard_3 OPTIONS (user 'postgres', password 'secret')")
        conn.execute("SELECT jobq_add_shard(3, %s)", (connection(3),))
        assert one(third, allowed, name) is True
        assert one(conn, "SELECT has_server_privilege(%s, 'jobq_shard_3', 'USAGE')", name) is True


if __name__ == "__main__":
    make_cluster()
    sys.exit(run(globals()))
