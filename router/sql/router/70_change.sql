-- Changes of the map. Each change makes a complete new map, which the shards take over one after the other. If a router calls with
-- an older map, the shard rejects the call. The router then takes over the newer map from that shard and calls again (agree).

--: return the map in the format in which shards store it
CREATE FUNCTION jobq_router.content() RETURNS jsonb
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT jsonb_build_object('cluster', (SELECT m.cluster FROM jobq_router.map m),
                          'shards', (SELECT jsonb_agg(to_jsonb(s)) FROM jobq_router.shards s),
                          'queues', (SELECT coalesce(jsonb_agg(to_jsonb(q)), '[]') FROM jobq_router.queues q),
                          'buckets', (SELECT jsonb_agg(to_jsonb(b)) FROM jobq_router.buckets b))
$$;

--: call jobq_shard.get_map on a shard
CREATE FUNCTION jobq_router.at_get_map(integer, OUT version bigint, OUT content jsonb)
    LANGUAGE plproxy VOLATILE AS $$ CLUSTER jobq_router.server($1); SELECT r.version, r.content FROM jobq_shard.require_shard($1) s, jobq_shard.get_map() r; $$;
--: call jobq_shard.join on a database that becomes a shard
CREATE FUNCTION jobq_router.at_join(integer, OUT version bigint, OUT content jsonb)
    LANGUAGE plproxy VOLATILE AS $$ CLUSTER jobq_router.server($1); SELECT r.version, r.content FROM jobq_shard.join($1) r; $$;
--: call jobq_shard.lock_map on a shard; the lock is released when the call ends
CREATE FUNCTION jobq_router.at_lock_map(integer) RETURNS integer
    LANGUAGE plproxy VOLATILE AS $$ CLUSTER jobq_router.server($1); SELECT 1 FROM jobq_shard.require_shard($1) s, jobq_shard.lock_map(); $$;
--: call jobq_shard.take_map on a shard
CREATE FUNCTION jobq_router.at_take_map(integer, bigint, jsonb, bigint) RETURNS bigint
    LANGUAGE plproxy VOLATILE AS $$ CLUSTER jobq_router.server($1); SELECT r FROM jobq_shard.require_shard($1) s, jobq_shard.take_map($2, $3, $4) r; $$;
--: call jobq_shard.buckets_in_use on a shard
CREATE FUNCTION jobq_router.at_buckets_in_use(integer, bigint, integer[], jsonb) RETURNS SETOF integer
    LANGUAGE plproxy VOLATILE AS $$ CLUSTER jobq_router.server($1); SELECT r FROM jobq_shard.require_shard($1) s, jobq_shard.buckets_in_use($2, $3, $4) r; $$;
--: call jobq_shard.queue_in_use on a shard
CREATE FUNCTION jobq_router.at_queue_in_use(integer, bigint, text) RETURNS boolean
    LANGUAGE plproxy VOLATILE AS $$ CLUSTER jobq_router.server($1); SELECT r FROM jobq_shard.require_shard($1) s, jobq_shard.queue_in_use($2, $3) r; $$;
--: call jobq_shard.still_has on a shard
CREATE FUNCTION jobq_router.at_still_has(integer, OUT jobs bigint, OUT schedules bigint)
    LANGUAGE plproxy VOLATILE AS $$ CLUSTER jobq_router.server($1); SELECT r.jobs, r.schedules FROM jobq_shard.require_shard($1) s, jobq_shard.still_has() r; $$;
--: call jobq_shard.settings on a shard
CREATE FUNCTION jobq_router.at_settings(integer) RETURNS jsonb
    LANGUAGE plproxy VOLATILE AS $$ CLUSTER jobq_router.server($1); SELECT r FROM jobq_shard.require_shard($1) s, jobq_shard.settings() r; $$;
--: call jobq_shard.take_settings on a shard
CREATE FUNCTION jobq_router.at_take_settings(integer, jsonb) RETURNS integer
    LANGUAGE plproxy VOLATILE AS $$ CLUSTER jobq_router.server($1); SELECT 1 FROM jobq_shard.require_shard($1) s, jobq_shard.take_settings($2); $$;
--: call jobq_shard.admit on a shard
CREATE FUNCTION jobq_router.at_admit(integer, text, boolean) RETURNS integer
    LANGUAGE plproxy VOLATILE AS $$ CLUSTER jobq_router.server($1); SELECT 1 FROM jobq_shard.require_shard($1) s, jobq_shard.admit($2, $3); $$;

-- jobq_shard.require_map requires READ COMMITTED, whatever the defaults of the server, database, and role are. libpq removes one
-- of the two backslashes, and the server removes the other.
--: return a connection string with defaults for the parameters that it does not set: how long to wait for a dead host, how to find
--: the primary among several hosts, the application name, and the isolation level
CREATE FUNCTION jobq_router.bounded(connection text) RETURNS text
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT connection || array_to_string(ARRAY(
    SELECT format(' %s=%s', d.name, d.value)
    FROM (VALUES ('target_session_attrs', 'read-write'), ('tcp_user_timeout', '5000'), ('keepalives_idle', '5'), ('keepalives_interval', '2'),
                 ('keepalives_count', '3'), ('application_name', 'jobq_router'),
                 ('options', E'''-c default_transaction_isolation=read\\\\ committed''')) d (name, value)
    WHERE connection !~ ('[[:<:]]' || d.name || '[[:space:]]*=')), '')
$$;

--: make the foreign servers, which PL/Proxy reads, match jobq_router.shards
CREATE FUNCTION jobq_router.make_servers() RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s record;
    r record;
BEGIN
    FOR s IN SELECT coalesce(jobq_router.server(h.shard_id), f.srvname::text) AS name, jobq_router.bounded(h.connection) AS wanted, f.oid AS server, f.srvoptions,
                    EXISTS (SELECT FROM pg_user_mapping u WHERE u.umserver = f.oid AND u.umuser = 0) AS is_mapped
             FROM jobq_router.shards h FULL JOIN (SELECT f.* FROM pg_foreign_server f JOIN pg_foreign_data_wrapper w ON w.oid = f.srvfdw
                 WHERE w.fdwname = 'plproxy' AND f.srvname ~ '^jobq_shard_[0-9]+$') f ON f.srvname = jobq_router.server(h.shard_id)
    LOOP
        IF s.wanted IS NULL THEN
            EXECUTE format('DROP SERVER %I CASCADE', s.name);
            CONTINUE;
        ELSIF s.server IS NULL THEN
            EXECUTE format('CREATE SERVER %I FOREIGN DATA WRAPPER plproxy OPTIONS (p0 %L)', s.name, s.wanted);
        ELSIF s.srvoptions IS DISTINCT FROM ARRAY['p0=' || s.wanted] THEN
            EXECUTE format('ALTER SERVER %I OPTIONS (SET p0 %L)', s.name, s.wanted);
        END IF;
        IF NOT s.is_mapped THEN
            EXECUTE format('CREATE USER MAPPING FOR PUBLIC SERVER %I', s.name);
        END IF;
        -- Skips roles that have been dropped since the grant.
        FOR r IN SELECT DISTINCT o.rolname FROM jobq_router.grants g JOIN pg_roles o ON o.oid = g.role WHERE NOT has_server_privilege(o.oid, s.name, 'USAGE') LOOP
            EXECUTE format('GRANT USAGE ON FOREIGN SERVER %I TO %I', s.name, r.rolname);
        END LOOP;
    END LOOP;
END
$$;

-- The lock timeout is needed because a client can keep a transaction open that has taken over a map.
--: make this map the map of the router, unless the router has a newer map by now; raises 55000 if it is the map of another cluster
CREATE FUNCTION jobq_router.adopt(version bigint, content jsonb) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET lock_timeout = '10s' AS $$
BEGIN
    PERFORM FROM jobq_router.map m FOR UPDATE;
    IF (SELECT m.version FROM jobq_router.map m) >= $1 THEN
        RETURN;
    ELSIF (SELECT m.cluster::text FROM jobq_router.map m) <> $2 ->> 'cluster' THEN
        RAISE 'a shard has the map of another cluster' USING ERRCODE = 'object_not_in_prerequisite_state',
            HINT = 'Check the connections in jobq_router.shards.';
    END IF;
    DELETE FROM jobq_router.shards;
    DELETE FROM jobq_router.queues;
    DELETE FROM jobq_router.buckets;
    INSERT INTO jobq_router.shards SELECT * FROM jsonb_populate_recordset(NULL::jobq_router.shards, $2 -> 'shards');
    INSERT INTO jobq_router.queues SELECT * FROM jsonb_populate_recordset(NULL::jobq_router.queues, $2 -> 'queues');
    INSERT INTO jobq_router.buckets SELECT * FROM jsonb_populate_recordset(NULL::jobq_router.buckets, $2 -> 'buckets');
    UPDATE jobq_router.map m SET version = $1, cluster = ($2 ->> 'cluster')::uuid;
    PERFORM jobq_router.make_servers();
END
$$;

-- The function runs with the privileges and the user mapping of the owner, whatever role calls it.
--: make the router and a shard use the newer of their two maps
CREATE FUNCTION jobq_router.agree(shard integer) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    theirs record;
    mine   bigint;
BEGIN
    SELECT * INTO theirs FROM jobq_router.at_get_map(shard);
    SELECT m.version INTO mine FROM jobq_router.map m;
    IF theirs.version > mine THEN
        PERFORM jobq_router.adopt(theirs.version, theirs.content);
    ELSIF theirs.version < mine THEN
        -- One statement reads the version and the content. Between two statements, another session could take over a newer map,
        -- and its content would be sent with the older version.
        PERFORM jobq_router.at_take_map(shard, m.version, jobq_router.content(), NULL) FROM jobq_router.map m;
    END IF;
EXCEPTION WHEN OTHERS THEN
    -- If the shard has been removed, possibly during this call, it has already given the router the newer map.
    IF jobq_router.knows(shard) THEN
        RAISE;
    END IF;
END
$$;

--: call agree for every shard that can be reached
CREATE FUNCTION jobq_router.refresh() RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    shard integer;
BEGIN
    FOR shard IN SELECT s.shard_id FROM jobq_router.shards s ORDER BY 1 LOOP
        BEGIN
            PERFORM jobq_router.agree(shard);
        EXCEPTION WHEN OTHERS THEN
            IF jobq_router.meaning(SQLSTATE, SQLERRM) = 'error' THEN
                RAISE;
            END IF;
            PERFORM jobq_router.note_down(shard);
        END;
    END LOOP;
END
$$;

-- Of two changes to the same map, the deciding shard takes over only one, so that each version has only one map. The other shards
-- take over the new map immediately or when they can be reached. Until then, they use an older map, and enqueues of keys that move
-- ask these shards first. A shard that leaves the cluster gets the new map, too, because a router that does not know the change
-- could otherwise continue to use the old map. A shard that has not taken over the new map rejects calls that use it. Therefore
-- publish first checks whether all shards can take over a map now. If a transaction holds a lock on the map of a shard, nothing is
-- changed.
--: send a changed map to the shards, first to the shard "decides"; "leaves" is a shard that is no longer in the cluster, and whose
--: foreign server the caller drops
CREATE FUNCTION jobq_router.publish(decides integer, leaves integer DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _shard   integer := decides;
    _others  integer[] := ARRAY(SELECT s.shard_id FROM jobq_router.shards s WHERE s.shard_id <> decides UNION SELECT leaves WHERE leaves <> decides ORDER BY 1);
    _version bigint;
    _fault   jobq_router.fault;
BEGIN
    FOREACH _shard IN ARRAY _others LOOP
        BEGIN
            PERFORM jobq_router.at_lock_map(_shard);
        EXCEPTION WHEN OTHERS THEN
            IF jobq_router.meaning(SQLSTATE, SQLERRM) NOT IN ('unreached', 'lost') THEN
                RAISE;
            END IF;
            PERFORM jobq_router.note_down(_shard);
            _others := array_remove(_others, _shard);
        END;
    END LOOP;
    _shard := decides;
    UPDATE jobq_router.map m SET version = m.version + 1, cluster = coalesce(m.cluster, gen_random_uuid()) RETURNING m.version INTO _version;
    PERFORM jobq_router.at_take_map(decides, _version, jobq_router.content(), _version - 1);
    FOREACH _shard IN ARRAY _others LOOP
        BEGIN
            PERFORM jobq_router.at_take_map(_shard, _version, jobq_router.content(), NULL);
        EXCEPTION WHEN OTHERS THEN
            --@ caught _shard
            CASE jobq_router.meaning(_fault.state, _fault.message)
            WHEN 'unreached', 'lost' THEN
                PERFORM jobq_router.note_down(_shard);
            WHEN 'busy' THEN
                RAISE WARNING 'shard % does not have the new map yet because open transactions keep its map locked', _shard USING ERRCODE = _fault.state, DETAIL = regexp_replace(_fault.detail, '^Remote detail: ', ''),
                    HINT = 'Wait until these transactions have ended, or end them with pg_terminate_backend(). Until then, the shard rejects calls that name a queue.';
            ELSE
                RAISE;
            END CASE;
        END;
    END LOOP;
    IF leaves IS NULL THEN
        PERFORM jobq_router.make_servers();
    END IF;
EXCEPTION WHEN OTHERS THEN
    --@ caught _shard
    PERFORM jobq_router.raise(_fault);
END
$$;

-- Rendezvous hashing: for each bucket, each shard has a fixed pseudorandom number, and the shard with the highest number, adjusted
-- by weight, gets the bucket. So a new shard takes its share from all other shards, and no bucket moves from one of the other
-- shards to another.
--: assign each bucket to the active shard that it belongs to; buckets that move remember their previous shards in was_on
CREATE FUNCTION jobq_router.deal() RETURNS void
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
INSERT INTO jobq_router.buckets AS b (bucket, shard_id)
SELECT DISTINCT ON (n) n, s.shard_id FROM generate_series(0, 1023) n, jobq_router.shards s,
    LATERAL (SELECT sha256(convert_to(n || '/' || s.shard_id, 'UTF8')) AS h) d,
    LATERAL (SELECT (get_byte(h, 0) * 16777216::bigint + get_byte(h, 1) * 65536 + get_byte(h, 2) * 256 + get_byte(h, 3) + 1) / 4294967297.0::double precision AS drawn) u
WHERE s.state = 'active'
ORDER BY n, -ln(u.drawn) / s.weight
ON CONFLICT (bucket) DO UPDATE SET shard_id = excluded.shard_id, was_on = array_remove(b.was_on, excluded.shard_id) || b.shard_id
    WHERE b.shard_id <> excluded.shard_id
$$;

--: begin a change: take over the newest map of all shards and lock it against other changes on this router; returns the deciding
--: shard, which is the shard with the lowest number
CREATE FUNCTION jobq_router.begin_change() RETURNS integer
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM jobq_router.refresh();
    PERFORM FROM jobq_router.map m FOR UPDATE;
    RETURN (SELECT min(s.shard_id) FROM jobq_router.shards s);
END
$$;

--: check which keys and queues have moved to their new shards; returns how many buckets and queues still move
CREATE FUNCTION jobq_router.settle() RETURNS integer
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _decides integer := jobq_router.begin_change();
    _shard   integer;
    _busy    integer[];
    _moved   boolean := false;
BEGIN
    FOR _shard IN SELECT DISTINCT s FROM (SELECT unnest(b.was_on) FROM jobq_router.buckets b UNION SELECT unnest(q.was_on) FROM jobq_router.queues q) w (s) LOOP
        BEGIN
            _busy := ARRAY(SELECT * FROM jobq_router.at_buckets_in_use(_shard, (SELECT m.version FROM jobq_router.map m), ARRAY(SELECT b.bucket FROM jobq_router.buckets b WHERE _shard = ANY (b.was_on)),
                jobq_router.content() -> 'queues'));
            UPDATE jobq_router.buckets b SET was_on = array_remove(b.was_on, _shard) WHERE _shard = ANY (b.was_on) AND b.bucket <> ALL (_busy);
            _moved := _moved OR FOUND;
            UPDATE jobq_router.queues q SET was_on = array_remove(q.was_on, _shard)
            WHERE _shard = ANY (q.was_on) AND NOT jobq_router.at_queue_in_use(_shard, (SELECT m.version FROM jobq_router.map m), q.queue);
            _moved := _moved OR FOUND;
        EXCEPTION WHEN OTHERS THEN
            -- The next settle() asks this shard again.
            IF jobq_router.meaning(SQLSTATE, SQLERRM) = 'error' THEN
                RAISE;
            END IF;
        END;
    END LOOP;
    IF _moved THEN
        PERFORM jobq_router.publish(_decides);
    END IF;
    RETURN (SELECT count(*) FROM jobq_router.buckets b WHERE cardinality(b.was_on) > 0) + (SELECT count(*) FROM jobq_router.queues q WHERE cardinality(q.was_on) > 0);
END
$$;

--: reject passwords, other secrets, and URIs in a connection string, because every role can read the string
CREATE FUNCTION jobq_router.check_connection(shard_id integer, connection text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF $2 ~ '^[[:space:]]*postgres(ql)?://' THEN
        RAISE 'argument "connection" must not be a URI' USING ERRCODE = 'invalid_parameter_value', HINT = 'Use keywords and values such as ''host=a.example dbname=shard1''.';
    ELSIF $2 ~ '(password|scram_client_key|scram_server_key|oauth_client_secret)[[:space:]]*=' THEN
        RAISE 'argument "connection" must not contain a password' USING ERRCODE = 'invalid_parameter_value',
            HINT = format('Every role can read the connection. Put the password into a user mapping for each role: CREATE USER MAPPING FOR CURRENT_USER SERVER %1$I OPTIONS (user ..., password ...). For a new shard, first run CREATE SERVER %1$I FOREIGN DATA WRAPPER plproxy OPTIONS (p0 ''host=... dbname=...'').', jobq_router.server($1));
    END IF;
END
$$;

--: add a database with jobq and jobq_shard to the cluster as a shard, which gets its share of the keys, queues, and jobs without
--: keys; the first shard of a new router can be a shard of an existing cluster, whose map the router takes over
CREATE FUNCTION jobq_add_shard(shard_id integer, connection text, weight integer DEFAULT 1) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _decides integer;
    _other   integer;
    _theirs  record;
    _grant   record;
    _fault   jobq_router.fault;
BEGIN
    PERFORM jobq_router.check_connection($1, $2);
    _decides := coalesce(jobq_router.begin_change(), $1);
    IF EXISTS (SELECT FROM jobq_router.shards s WHERE s.shard_id = $1) THEN
        RAISE 'shard % already exists', $1 USING ERRCODE = 'duplicate_object', HINT = 'Use jobq_alter_shard() to change the connection or weight of the shard.';
    END IF;
    _other := (SELECT s.shard_id FROM jobq_router.shards s ORDER BY s.state, random() LIMIT 1);
    INSERT INTO jobq_router.shards (shard_id, connection, weight) VALUES ($1, $2, $3);
    PERFORM jobq_router.make_servers();
    BEGIN
        SELECT * INTO _theirs FROM jobq_router.at_join($1);
    EXCEPTION WHEN OTHERS THEN
        --@ caught $1
        PERFORM jobq_router.raise(_fault);
    END;
    IF EXISTS (SELECT FROM jsonb_to_recordset(_theirs.content -> 'shards') s (shard_id integer) WHERE s.shard_id = $1) AND _other IS NULL THEN
        PERFORM jobq_router.adopt(_theirs.version, _theirs.content);
        PERFORM jobq_router.refresh();
        RETURN;
    ELSIF EXISTS (SELECT FROM jobq_router.map m WHERE _theirs.version > m.version OR _theirs.content ->> 'cluster' IS DISTINCT FROM m.cluster::text AND _theirs.version > 0) THEN
        RAISE 'the database belongs to another cluster' USING ERRCODE = 'object_not_in_prerequisite_state', DETAIL = format('The database has seen version %s of a map.', _theirs.version),
            HINT = 'To reset the database, run DROP EXTENSION jobq_shard and CREATE EXTENSION jobq_shard there.';
    END IF;
    IF _other IS NOT NULL THEN
        PERFORM jobq_router.at_take_settings($1, jobq_router.at_settings(_other));
    END IF;
    FOR _grant IN SELECT o.rolname::text AS role, g.profile, CASE WHEN count(g.queue) = count(*) THEN array_agg(g.queue) END AS queues
                  FROM jobq_router.grants g JOIN pg_roles o ON o.oid = g.role GROUP BY 1, 2 LOOP
        PERFORM jobq_router.at_jobq_grant($1, 0, _grant.role, _grant.profile, _grant.queues), jobq_router.at_admit($1, _grant.role, true);
    END LOOP;
    PERFORM jobq_router.deal();
    PERFORM jobq_router.publish(_decides);
    BEGIN
        PERFORM jobq_router.settle();
    EXCEPTION WHEN lock_not_available THEN
        -- The shard has been added. The next settle() finds out what has moved.
        NULL;
    END;
END
$$;

--: give a shard no new keys, queues, or jobs without keys; it finishes the jobs that it has
CREATE FUNCTION jobq_drain_shard(shard_id integer) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _decides integer := jobq_router.begin_change();
BEGIN
    PERFORM jobq_router.require_shard($1);
    IF NOT EXISTS (SELECT FROM jobq_router.shards s WHERE s.shard_id <> $1 AND s.state = 'active') THEN
        RAISE 'shard % is the last active shard', $1 USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Use jobq_add_shard() to add another shard.';
    END IF;
    UPDATE jobq_router.shards s SET state = 'draining' WHERE s.shard_id = $1;
    PERFORM jobq_router.deal();
    UPDATE jobq_router.queues q SET shard_id = b.shard_id, was_on = array_remove(q.was_on, b.shard_id) || q.shard_id
    FROM jobq_router.buckets b WHERE q.shard_id = $1 AND b.bucket = jobq_router.bucket_of(q.queue);
    PERFORM jobq_router.publish(_decides);
END
$$;

-- A call that was in progress under the previous map may have added a job after the first check. Once the shard has taken over the
-- new map, no such call is in progress. If the shard has jobs or schedules then, it stays in the cluster.
--: remove a drained shard from the cluster; fails if it still has unfinished jobs or schedules
CREATE FUNCTION jobq_remove_shard(shard_id integer) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _decides integer;
    _left    record;
    _was     jobq_router.shards;
BEGIN
    PERFORM jobq_router.settle();
    _decides := (SELECT min(s.shard_id) FROM jobq_router.shards s);
    PERFORM jobq_router.require_shard($1);
    IF (SELECT s.state FROM jobq_router.shards s WHERE s.shard_id = $1) <> 'draining' THEN
        RAISE 'shard % is active', $1 USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'First drain the shard with jobq_drain_shard().';
    END IF;
    SELECT * INTO _left FROM jobq_router.at_still_has($1);
    IF _left.jobs > 0 OR _left.schedules > 0 OR EXISTS (SELECT FROM jobq_router.buckets b WHERE $1 = ANY (b.was_on)) OR EXISTS (SELECT FROM jobq_router.queues q WHERE $1 = ANY (q.was_on)) THEN
        RAISE 'shard % is not empty', $1 USING ERRCODE = 'object_not_in_prerequisite_state', DETAIL = format('Unfinished jobs: %s, schedules: %s.', _left.jobs, _left.schedules),
            HINT = 'Wait until its jobs have finished and its unique keys are no longer kept. Move schedules with jobq_unschedule() and jobq_schedule().';
    END IF;
    DELETE FROM jobq_router.shards s WHERE s.shard_id = $1 RETURNING * INTO _was;
    PERFORM jobq_router.publish(_decides, $1);
    BEGIN
        SELECT * INTO _left FROM jobq_router.at_still_has($1);
    EXCEPTION WHEN OTHERS THEN
        RAISE WARNING 'could not check again whether shard % is empty', $1 USING DETAIL = jobq_router.said(SQLERRM),
            HINT = 'Check the database of the shard before you drop the database.';
    END;
    IF _left.jobs > 0 OR _left.schedules > 0 THEN
        INSERT INTO jobq_router.shards SELECT _was.*;
        PERFORM jobq_router.publish(_decides);
        RAISE WARNING 'shard % was not removed because it has just received a job', $1 USING HINT = 'Call jobq_remove_shard() again when the job has finished.';
    ELSE
        PERFORM jobq_router.make_servers();
    END IF;
END
$$;

--: raise 42704 if the shard does not exist
CREATE FUNCTION jobq_router.require_shard(shard_id integer) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM jobq_router.shards s WHERE s.shard_id = $1) THEN
        RAISE 'shard % does not exist', coalesce($1::text, 'NULL') USING ERRCODE = 'undefined_object', HINT = 'Query the table jobq_router.shards to list the existing shards.';
    END IF;
END
$$;

-- The new connection must lead to the shard before other routers learn about the connection.
--: change the connection or the weight of a shard; an argument that is NULL leaves the value unchanged; the weight applies to new
--: keys, new queues, and jobs without keys
CREATE FUNCTION jobq_alter_shard(shard_id integer, connection text DEFAULT NULL, weight integer DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _decides integer;
    _fault   jobq_router.fault;
BEGIN
    PERFORM jobq_router.check_connection($1, $2);
    _decides := jobq_router.begin_change();
    PERFORM jobq_router.require_shard($1);
    UPDATE jobq_router.shards s SET connection = coalesce($2, s.connection), weight = coalesce($3, s.weight) WHERE s.shard_id = $1;
    PERFORM jobq_router.make_servers();
    IF $2 IS NOT NULL THEN
        BEGIN
            PERFORM jobq_router.at_require_shard($1);
        EXCEPTION WHEN OTHERS THEN
            --@ caught $1
            PERFORM jobq_router.raise(_fault);
        END;
    END IF;
    PERFORM jobq_router.deal();
    PERFORM jobq_router.publish(_decides);
END
$$;

--: set where the jobs of a queue are: spread over all shards, with all jobs of one key on the same shard, or all on one shard;
--: spread_by is the kind of key that decides where a job of a spread queue goes
CREATE FUNCTION jobq_route_queue(queue text, spread boolean DEFAULT NULL, spread_by text DEFAULT NULL, shard_id integer DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _decides integer;
    _was     jobq_router.queues;
    _shard   integer;
BEGIN
    IF (coalesce($2, false)) = ($4 IS NOT NULL) THEN
        RAISE 'exactly one of the arguments "spread" and "shard_id" must be given' USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Specify either spread => true or a "shard_id".';
    END IF;
    _decides := jobq_router.begin_change();
    IF $4 IS NOT NULL THEN
        PERFORM jobq_router.require_shard($4);
        IF (SELECT s.state FROM jobq_router.shards s WHERE s.shard_id = $4) = 'draining' THEN
            RAISE 'shard % is being drained', $4 USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Choose an active shard.';
        END IF;
    END IF;
    SELECT * INTO _was FROM jobq_router.queues q WHERE q.queue = $1;
    IF _was.spread AND $2 AND _was.spread_by IS NOT DISTINCT FROM $3 THEN
        RETURN;
    ELSIF $2 OR _was.spread THEN
        FOR _shard IN SELECT s.shard_id FROM jobq_router.shards s ORDER BY 1 LOOP
            IF jobq_router.at_queue_in_use(_shard, NULL, $1) THEN
                RAISE 'queue "%" has unfinished jobs, schedules, or kept keys on shard %', $1, _shard USING ERRCODE = 'object_not_in_prerequisite_state',
                    HINT = 'Their keys would be on two shards. Stop the producers of the queue until it is empty, or spread another queue.';
            END IF;
        END LOOP;
    END IF;
    INSERT INTO jobq_router.queues AS q (queue, spread, spread_by, shard_id, was_on)
    SELECT $1, coalesce($2, false), $3, $4, CASE WHEN $4 IS NOT NULL AND NOT coalesce(_was.spread, false)
        THEN array_remove(coalesce(_was.was_on, b.was_on) || coalesce(_was.shard_id, b.shard_id), $4) ELSE '{}' END
    FROM jobq_router.buckets b WHERE b.bucket = jobq_router.bucket_of($1)
    ON CONFLICT ON CONSTRAINT queues_pkey DO UPDATE SET spread = excluded.spread, spread_by = excluded.spread_by, shard_id = excluded.shard_id, was_on = excluded.was_on;
    PERFORM jobq_router.publish(_decides);
END
$$;

--: check which keys and queues have moved to their new shards; returns how many buckets of keys and how many queues, in total,
--: still move
CREATE FUNCTION jobq_settle() RETURNS integer
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$ SELECT jobq_router.settle() $$;
