-- Functions for operators whose route in router/sql/router/routes is "own", and functions that check calls.

--: raise 0A000 for a limit of a whole queue or of a kind if the queue is spread, because each shard would apply the limit separately
CREATE FUNCTION jobq_router.check_jobq_set_limit(queue text, key text, max_running integer, rate integer, per interval, kind text)
    RETURNS void
    LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF $2 IS NULL AND num_nonnulls($3, $4) > 0 AND EXISTS (SELECT FROM jobq_router.queues q WHERE q.queue = $1 AND q.spread) THEN
        RAISE 'queue "%" cannot have a limit% because it is spread over several shards', $1, CASE WHEN $6 IS NULL THEN '' ELSE ' of a kind' END
            USING ERRCODE = 'feature_not_supported',
            HINT = 'Limit its concurrency keys, each of which is on one shard, or do not spread the queue.';
    END IF;
END
$$;

--: return the shard for a schedule: the shard that has the jobs of its queue and of the keys in its options; if the queue is
--: spread and there are no keys, the name of the schedule decides
CREATE FUNCTION jobq_router.shard_of_schedule(name text, queue text, options jsonb) RETURNS integer
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    p     jobq_router.place := jobq_router.place_of($2, $3 ->> 'unique_key', $3 ->> 'group_key', $3 ->> 'concurrency_key', jobq_router.tied_to(NULL, $3));
    shard integer;
BEGIN
    IF p.free THEN
        RETURN (SELECT b.shard_id FROM jobq_router.buckets b WHERE b.bucket = jobq_router.bucket_of($2, $1));
    END IF;
    FOREACH shard IN ARRAY p.was_on LOOP
        IF EXISTS (SELECT FROM jobq_router.at_enqueue_known(shard, p.version, $2, p.unique_key, p.group_key, p.concurrency_key, NULL)) THEN
            RETURN shard;
        END IF;
    END LOOP;
    RETURN p.shard;
END
$$;
-- Another shard may have a schedule with this name, for another queue, so the call removes it there. Shards without such a
-- schedule raise a NOTICE, which "quiet" suppresses.
--@ function jobq_schedule quiet
DECLARE
    _shard   integer;
    _other   integer;
    _next    timestamptz;
    _version bigint;
    _fault   jobq_router.fault;
BEGIN
    FOR _try IN 1..10 LOOP
        _version := (SELECT m.version FROM jobq_router.map m);
        _shard := jobq_router.shard_of_schedule($1, $3, $16);
        _other := NULL;
        BEGIN
            _next := jobq_router.at_jobq_schedule(_shard, _version, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16);
            FOR _other IN SELECT s.shard_id FROM jobq_router.shards s WHERE s.shard_id <> _shard LOOP
                PERFORM jobq_router.at_jobq_unschedule(_other, _version, $1);
            END LOOP;
            RETURN _next;
        EXCEPTION WHEN OTHERS THEN
            --@ caught coalesce(_other, _shard)
            PERFORM jobq_router.try_again(_try, false, _fault);
        END;
    END LOOP;
    PERFORM jobq_router.give_up();
END
--@ end

--@ function jobq_metrics
DECLARE
    _shard   integer;
    _fault   jobq_router.fault;
BEGIN
    FOR _shard IN SELECT s.shard_id FROM jobq_router.shards s ORDER BY 1 LOOP
        RETURN QUERY SELECT r.name, r.labels || jsonb_build_object('shard', _shard::text), r.value FROM jobq_router.at_jobq_metrics(_shard, 0) r;
    END LOOP;
EXCEPTION WHEN OTHERS THEN
    --@ caught _shard
    PERFORM jobq_router.raise(_fault);
END
--@ end

-- A call reaches the shards as the role that makes the call, so the shards check its privileges. jobq_wait, jobq_wait_any, and
-- jobq_wake do not reach the shards, so the router grants these according to the profiles of the role, as src/queues/roles.cpp does.
--: grant a role the privileges that it needs on the router, or revoke them, according to its current grants
CREATE FUNCTION jobq_router.admit(role text) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    mine    text[] := ARRAY(SELECT g.profile FROM jobq_router.grants g WHERE g.role = quote_ident($1)::regrole);
    let_in  text := 'GRANT %s ON %s TO %I';
    let_out text := 'REVOKE %s ON %s FROM %I';
    change  text := CASE WHEN cardinality(mine) > 0 THEN let_in ELSE let_out END;
    o       record;
BEGIN
    EXECUTE format(change, 'USAGE', 'SCHEMA jobq, jobq_router', role);
    EXECUTE format(change, 'SELECT', 'jobq_router.map, jobq_router.shards, jobq_router.buckets, jobq_router.queues', role);
    FOR o IN SELECT p.oid::regprocedure::text AS name, CASE p.prokind WHEN 'p' THEN 'PROCEDURE' ELSE 'FUNCTION' END AS kind, c.profiles && mine AS is_mine
             FROM jobq_router.calls() c JOIN pg_proc p ON p.oid = c.oid WHERE NOT c.of_owner LOOP
        EXECUTE format(CASE o.is_mine WHEN true THEN let_in WHEN false THEN let_out ELSE change END, 'EXECUTE', concat_ws(' ', o.kind, o.name), role);
    END LOOP;
    FOR o IN SELECT jobq_router.server(s.shard_id) AS name FROM jobq_router.shards s LOOP
        EXECUTE format(change, 'USAGE', format('FOREIGN SERVER %I', o.name), role);
    END LOOP;
    FOR o IN SELECT c.oid::regclass::text AS name FROM pg_class c WHERE c.relnamespace = 'jobq'::regnamespace AND c.relkind = 'v' LOOP
        EXECUTE format(change, 'SELECT', o.name, role);
    END LOOP;
END
$$;

--: return the functions and procedures of the extension; "of_owner" is true if only the owner can call the function; "profiles" are
--: the profiles that can call a function that no shard checks
CREATE FUNCTION jobq_router.calls() RETURNS TABLE (oid oid, of_owner boolean, profiles text[])
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT p.oid, p.proname IN ('jobq_settle', 'jobq_add_shard', 'jobq_drain_shard', 'jobq_remove_shard', 'jobq_alter_shard', 'jobq_route_queue', 'jobq_grant',
    'jobq_revoke', 'admit', 'adopt', 'begin_change', 'deal', 'make_servers', 'publish', 'settle'),
    CASE WHEN p.proname IN ('jobq_wait', 'jobq_wait_any', 'take_wake') THEN '{worker}'::text[] WHEN p.proname IN ('jobq_wake', 'note_wake') THEN '{worker,operator}'::text[] END
FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid JOIN pg_extension e ON e.oid = d.refobjid
WHERE d.classid = 'pg_proc'::regclass AND d.deptype = 'e' AND d.refclassid = 'pg_extension'::regclass AND e.extname = 'jobq_router'
$$;

--@ function jobq_grant
DECLARE
    _shard   integer;
    _fault   jobq_router.fault;
BEGIN
    PERFORM jobq_router.require_shards();
    FOR _shard IN SELECT s.shard_id FROM jobq_router.shards s ORDER BY 1 LOOP
        PERFORM jobq_router.at_jobq_grant(_shard, 0, $1, $2, $3), jobq_router.at_admit(_shard, $1, true);
    END LOOP;
    INSERT INTO jobq_router.grants (role, profile, queue)
    SELECT quote_ident($1)::regrole, $2, q FROM unnest(coalesce($3, ARRAY[NULL::text])) q ON CONFLICT DO NOTHING;
    PERFORM jobq_router.admit($1);
EXCEPTION WHEN OTHERS THEN
    --@ caught _shard
    PERFORM jobq_router.raise(_fault);
END
--@ end

--@ function jobq_revoke
DECLARE
    _shard   integer;
    _fault   jobq_router.fault;
BEGIN
    PERFORM jobq_router.require_shards();
    FOR _shard IN SELECT s.shard_id FROM jobq_router.shards s ORDER BY 1 LOOP
        PERFORM jobq_router.at_jobq_revoke(_shard, 0, $1, $2, $3), jobq_router.at_admit(_shard, $1, false);
    END LOOP;
    DELETE FROM jobq_router.grants g WHERE g.role = quote_ident($1)::regrole AND g.profile = $2 AND ($3 IS NULL OR g.queue = ANY ($3));
    PERFORM jobq_router.admit($1);
EXCEPTION WHEN OTHERS THEN
    --@ caught _shard
    PERFORM jobq_router.raise(_fault);
END
--@ end
