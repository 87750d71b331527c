-- Other functions that routers call.

-- The result can be true although the worker cannot claim a job, but it is never false if the worker can claim a job: only a claim
-- finds out that a pending job is for other workers, or is held back by a limit. Reveals nothing about queues that the worker was
-- not granted.
--: return whether a queue has a pending job for a worker with these kinds, versions, and capabilities
CREATE FUNCTION jobq_shard.is_ready(queue text, kinds text[], versions integer[], capabilities text[]) RETURNS boolean
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
SELECT jobq.may_use($1, 'jobq_claim')
   AND EXISTS (SELECT FROM jobq.lane_directory l,
                   LATERAL (SELECT FROM jobq.jobs j
                            WHERE j._lane = l.lane AND j._ready AND j.run_at <= clock_timestamp() AND j.queue = $1 LIMIT 1) j
               WHERE l.queue = $1 AND ($2 IS NULL OR l.kind = ANY ($2)) AND ($3 IS NULL OR l.version = ANY ($3))
                 AND (l.requires IS NULL OR l.requires <@ coalesce($4, '{}')))
   AND NOT EXISTS (SELECT FROM jobq.queue_settings s WHERE s.queue = $1 AND s.paused)
$$;

--: return how many jobs have not finished, and how many schedules would enqueue more jobs
CREATE FUNCTION jobq_shard.still_has(OUT jobs bigint, OUT schedules bigint)
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
SELECT (SELECT count(*) FROM jobq.jobs j WHERE j.status NOT IN ('completed', 'failed', 'cancelled')), (SELECT count(*) FROM jobq.schedule_settings)
$$;

--: return the settings of the queues and kinds and the limits of this shard, for another shard
CREATE FUNCTION jobq_shard.settings() RETURNS jsonb
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT jsonb_build_object('queues', (SELECT coalesce(jsonb_agg(to_jsonb(q)), '[]') FROM jobq.queue_settings q),
                          'kinds', (SELECT coalesce(jsonb_agg(to_jsonb(k)), '[]') FROM jobq.kind_settings k),
                          'limits', (SELECT coalesce(jsonb_agg(to_jsonb(l)), '[]') FROM jobq.limit_settings l))
$$;

--: copy the settings of the queues and kinds and the limits of another shard; settings and limits that this shard already has do not change
CREATE FUNCTION jobq_shard.take_settings(settings jsonb) RETURNS void
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
INSERT INTO jobq.queue_settings SELECT * FROM jsonb_populate_recordset(NULL::jobq.queue_settings, $1 -> 'queues') ON CONFLICT DO NOTHING;
INSERT INTO jobq.kind_settings SELECT * FROM jsonb_populate_recordset(NULL::jobq.kind_settings, $1 -> 'kinds') ON CONFLICT DO NOTHING;
INSERT INTO jobq.limit_settings SELECT * FROM jsonb_populate_recordset(NULL::jobq.limit_settings, $1 -> 'limits') ON CONFLICT DO NOTHING;
$$;

-- Grants that jobq_grant has made through another router are taken into account.
--: allow a role to call this shard through a router; if let_in is false, no longer allow this, unless the role can still call a
--: function of jobq here; jobq_grant determines what the role can do
CREATE FUNCTION jobq_shard.admit(role text, let_in boolean) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    change text := CASE WHEN let_in THEN 'GRANT %s TO %I' ELSE 'REVOKE %s FROM %I' END;
BEGIN
    IF NOT let_in AND EXISTS (SELECT FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid JOIN pg_proc p ON p.oid = d.objid, aclexplode(p.proacl) a
                              WHERE d.classid = 'pg_proc'::regclass AND d.deptype = 'e' AND d.refclassid = 'pg_extension'::regclass
                                AND e.extname = 'jobq' AND a.grantee = quote_ident($1)::regrole)
    THEN
        RETURN;
    END IF;
    EXECUTE format(change, 'USAGE ON SCHEMA jobq_shard', role);
    EXECUTE format(change, 'EXECUTE ON FUNCTION jobq_shard.require_shard(integer), jobq_shard.require_map(bigint), jobq_shard.still_here(bigint, text, text, text, text), '
        'jobq_shard.is_ready(text, text[], integer[], text[]), jobq_shard.enqueue_known(bigint, text, text, text, text, jsonb)', role);
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA jobq_shard FROM PUBLIC;
