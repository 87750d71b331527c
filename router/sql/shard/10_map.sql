-- The map of the cluster assigns keys and queues to shards. Routers send the map, and a shard stores the newest map that it has
-- received.

--: the newest map of the cluster that this shard has received; one row
CREATE TABLE jobq_shard.map (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    version  bigint NOT NULL DEFAULT 0,  --: version of the map, which increases with each change
    content  jsonb NOT NULL DEFAULT '{}',  --: shards, queues, and buckets, as returned by jobq_router.content() of a router
    noted    boolean NOT NULL DEFAULT false  --: whether jobq_shard.staying has been filled since the last change
);
-- A dump does not include the map, because the first router that calls a restored shard sends the map.
INSERT INTO jobq_shard.map DEFAULT VALUES;

-- If a key moves to another shard, this shard enqueues jobs with the key only while it has unfinished jobs with the key. No index
-- finds unfinished jobs by concurrency key or by queue, and reading all jobs for each enqueue would take too long. Therefore the
-- first session that needs this information under a map reads all jobs, and later sessions use the result.
--: concurrency keys and queues that move under this map and may have unfinished jobs here; keys and queues that move but are not in
--: the table have none here
CREATE TABLE jobq_shard.staying (
    queue text COLLATE "C" NOT NULL,
    key   text COLLATE "C" NOT NULL,  --: the concurrency key; empty: the queue
    PRIMARY KEY (queue, key)
);

-- The following functions are in the library of jobq (src/admin/shard_map.cpp), because each call to a shard calls them.

--: raise 25001 in a transaction that keeps its first snapshot (REPEATABLE READ or SERIALIZABLE)
CREATE FUNCTION jobq_shard.require_read_committed() RETURNS void
    AS 'MODULE_PATHNAME', 'jobq_shard_require_read_committed' LANGUAGE C STABLE;

-- A router can have the address of the wrong shard, by mistake or because two shards have exchanged their addresses. The wrong
-- shard must not answer, because it does not have the jobs that the router asks about, and a key that it accepted would be on two
-- shards.
--: raise JQR03 unless this database is the shard that the router expects
CREATE FUNCTION jobq_shard.require_shard(shard_id integer) RETURNS void
    AS 'MODULE_PATHNAME', 'jobq_shard_require_shard' LANGUAGE C VOLATILE;

-- Each call that uses a map locks the table in ROW SHARE mode, and each change of the map locks it in EXCLUSIVE mode (lock_map). So
-- no call uses an old map after the shard has taken over a new map. The lock is not an advisory lock, because every role that can
-- connect could acquire the advisory lock and block all calls. The lock that pg_dump acquires conflicts with neither mode. The lock
-- of autovacuum conflicts only with EXCLUSIVE mode, and autovacuum gives way.
--: raise JQR01 if the map of a router is older than the map of this shard, and JQR02 if it is newer
CREATE FUNCTION jobq_shard.require_map(version bigint) RETURNS void
    AS 'MODULE_PATHNAME', 'jobq_shard_require_map' LANGUAGE C VOLATILE;

-- While a session waits for an EXCLUSIVE lock, all calls queue behind it, and a transaction that stays open can hold its ROW SHARE
-- lock for any length of time. Therefore each wait is short, and calls continue between the waits. The waits become longer, because
-- a call on a busy shard can take longer than the first wait.
--: lock the map against all calls; raises 55P03 if transactions still hold it after about 15 seconds
CREATE FUNCTION jobq_shard.lock_map() RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET lock_timeout = '50ms' AS $$
BEGIN
    FOR _try IN 1..20 LOOP
        BEGIN
            PERFORM set_config('lock_timeout', least(_try, 10) * 50 || 'ms', true);
            LOCK TABLE jobq_shard.map IN EXCLUSIVE MODE;
            RETURN;
        EXCEPTION WHEN lock_not_available THEN
            PERFORM pg_sleep(least(_try, 10) * 0.1 * random());
        END;
    END LOOP;
    RAISE 'open transactions keep the map of the shard locked' USING ERRCODE = 'lock_not_available',
        DETAIL = format('Process IDs of their sessions: %s.', (SELECT string_agg(DISTINCT l.pid::text, ', ') FROM pg_locks l
            WHERE l.relation = 'jobq_shard.map'::regclass AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()) AND l.mode = 'RowShareLock' AND l.granted)),
        HINT = 'Try again when these transactions have ended, or end them with pg_terminate_backend().';
END
$$;

--: return the newest map that this shard has received
CREATE FUNCTION jobq_shard.get_map() RETURNS TABLE (version bigint, content jsonb)
    LANGUAGE sql STABLE AS $$ SELECT m.version, m.content FROM jobq_shard.map m $$;

-- The shard number of a database does not change, because two shards of the map could otherwise be the same database. If two
-- routers call at the same time, the lock makes one of them wait.
--: make this database a shard; returns the newest map that it has received; raises 55000 if it already is another shard
CREATE FUNCTION jobq_shard.join(shard_id integer) RETURNS TABLE (version bigint, content jsonb)
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    mine integer;
BEGIN
    PERFORM jobq_shard.require_read_committed();
    PERFORM jobq_shard.lock_map();
    mine := (SELECT s.shard_id FROM jobq.shard s);
    IF mine <> $1 THEN
        RAISE 'the database is already shard %', mine USING ERRCODE = 'object_not_in_prerequisite_state',
            HINT = format('Add it as shard %s. If it does not belong to a cluster, run jobq_set_shard(%s) there to change its number.', mine, $1);
    END IF;
    PERFORM jobq_set_shard($1);
    RETURN QUERY SELECT m.version, m.content FROM jobq_shard.map m;
END
$$;

-- Waits for all transactions that use the old map.
--: take over a newer map; returns the version of the map that this shard then has; "changes" is the version from which the new map
--: was made, or NULL; raises 40001 if this shard has a newer map than "changes", and 55000 if the map belongs to another cluster
CREATE FUNCTION jobq_shard.take_map(version bigint, content jsonb, changes bigint DEFAULT NULL) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    mine bigint;
BEGIN
    PERFORM jobq_shard.require_read_committed();
    PERFORM jobq_shard.lock_map();
    SELECT m.version INTO STRICT mine FROM jobq_shard.map m;
    IF (SELECT m.content ->> 'cluster' FROM jobq_shard.map m) <> take_map.content ->> 'cluster' THEN
        RAISE 'the database is a shard of another cluster' USING ERRCODE = 'object_not_in_prerequisite_state',
            HINT = 'To reset the database, run DROP EXTENSION jobq_shard and CREATE EXTENSION jobq_shard there.';
    END IF;
    IF mine > take_map.changes THEN
        RAISE 'the map was changed concurrently; the shard has version %', mine
            USING ERRCODE = 'serialization_failure', HINT = 'Call jobq_settle() to get the new map, and try again.';
    END IF;
    IF mine < take_map.version THEN
        UPDATE jobq_shard.map m SET version = take_map.version, content = take_map.content, noted = false;
        DELETE FROM jobq_shard.staying;
        mine := take_map.version;
    END IF;
    RETURN mine;
END
$$;
