-- Keys that move to another shard. A key stays on this shard as long as this shard has an unfinished job with the key.

-- The locks are row locks, because only the owner can lock these rows. There is one row per bucket, because there cannot be one row
-- per key. Enqueues with two keys of one bucket wait for each other, and each lock writes its row, but sessions lock only keys that
-- move.
--: one row per bucket; to lock a key or a queue, a session locks the row of its bucket (bucket_of)
CREATE TABLE jobq_shard.locks (
    bucket integer PRIMARY KEY
);
INSERT INTO jobq_shard.locks SELECT pg_catalog.generate_series(0, 1023);

--: return whether a queue has unfinished jobs or schedules
CREATE FUNCTION jobq_shard.has_queue(queue text) RETURNS boolean
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
SELECT EXISTS (SELECT FROM jobq.lane_directory l, LATERAL (SELECT FROM jobq.jobs j WHERE j._lane = l.lane AND j._ready AND j.queue = $1 LIMIT 1) j
               WHERE l.queue = $1)
    OR EXISTS (SELECT FROM jobq.jobs j WHERE j.queue = $1 AND j.status NOT IN ('completed', 'failed', 'cancelled'))
    OR EXISTS (SELECT FROM jobq.schedule_settings s WHERE s.queue = $1)
$$;

-- If the first check finds nothing, the function locks the map and checks again, like buckets_in_use. If "version" is NULL, it
-- checks only once, because the caller knows that no session enqueues into the queue.
--: return whether a queue has unfinished jobs or schedules here, or keeps unique keys of finished jobs
CREATE FUNCTION jobq_shard.queue_in_use(version bigint, queue text) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    FOR _look IN 1..2 LOOP
        IF jobq_shard.has_queue($2) OR EXISTS (SELECT FROM jobq.kept_keys k WHERE k.queue = $2 AND k.kept_until > clock_timestamp()) THEN
            RETURN true;
        END IF;
        EXIT WHEN _look = 2 OR $1 IS NULL;
        PERFORM jobq_shard.lock_map();
        PERFORM jobq_shard.require_map($1);
    END LOOP;
    RETURN false;
END
$$;

-- If a limit applies to a whole queue or to a kind, the queue stays as a whole, because no shard knows how many jobs of the queue or
-- kind run on another shard.
--: return whether an unfinished job has one of these keys, or a finished job keeps the unique key, or the queue has both a limit
--: for the whole queue or a kind, and an unfinished job or schedule
CREATE FUNCTION jobq_shard.has_key(queue text, unique_key text, group_key text, concurrency_key text) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN $2 IS NOT NULL AND (EXISTS (SELECT FROM jobq.jobs j WHERE j.unique_key = $2 AND j.queue COLLATE "C" = $1 AND j._holds_key)
            OR EXISTS (SELECT FROM jobq.kept_keys k WHERE k.unique_key = $2 AND k.queue = $1 AND k.kept_until > clock_timestamp()))
        OR $3 IS NOT NULL AND (EXISTS (SELECT FROM jobq.jobs j WHERE j._group_active = jobq.group_of($1, $3))
            OR EXISTS (SELECT FROM jobq.jobs j WHERE j._group_waiting = jobq.group_of($1, $3)))
        OR $4 IS NOT NULL AND jobq_shard.may_stay($1, $4) AND (
            EXISTS (SELECT FROM jobq.lane_directory l, LATERAL (SELECT FROM jobq.jobs j
                WHERE j._lane = l.lane AND j.concurrency_key COLLATE "C" = $4 AND j._ready AND j.queue = $1 LIMIT 1) j WHERE l.queue = $1)
            OR EXISTS (SELECT FROM jobq.jobs j
                WHERE j.concurrency_key = $4 AND j.queue = $1 AND j.status NOT IN ('completed', 'failed', 'cancelled')))
        OR jobq_shard.is_limited($1) AND jobq_shard.may_stay($1, '') AND jobq_shard.has_queue($1);
END
$$;

--: return whether a concurrency key, or the queue (empty key), that moves under this map may have an unfinished job
CREATE FUNCTION jobq_shard.may_stay(queue text, key text) RETURNS boolean
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
SELECT EXISTS (SELECT FROM jobq_shard.staying s WHERE s.queue = $1 AND s.key = $2)
$$;

--: return whether a queue has a limit for the whole queue or for a kind
CREATE FUNCTION jobq_shard.is_limited(queue text) RETURNS boolean
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
SELECT EXISTS (SELECT FROM jobq.limit_settings l WHERE l.queue = $1 AND (l.key = '' OR l.by_kind))
$$;

-- Called after require_map, so that it sees everything that was enqueued under an older map.
--: note which concurrency keys and queues have unfinished jobs, unless another session has already done so under this map
CREATE FUNCTION jobq_shard.note_staying() RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (SELECT m.noted FROM jobq_shard.map m) THEN
        RETURN;
    END IF;
    UPDATE jobq_shard.map m SET noted = true WHERE NOT m.noted;
    IF FOUND THEN
        INSERT INTO jobq_shard.staying (queue, key)
        SELECT j.queue, k.key FROM jobq.jobs j, LATERAL (VALUES (j.concurrency_key), ('')) k (key)
        WHERE j.status NOT IN ('completed', 'failed', 'cancelled') AND k.key IS NOT NULL
        UNION SELECT s.queue, '' FROM jobq.schedule_settings s;
    END IF;
END
$$;

-- If two sessions ask for the same key, the second session must see what the first session has enqueued, because it would otherwise
-- enqueue the key on another shard. The locks ensure this. All sessions acquire the locks of several keys, and of the queue if it
-- has a limit for the whole queue, in the same order. The lock timeout is needed because a transaction that stays open can hold the
-- locks.
--: return what has_key returns, for a session that enqueues in this transaction; locks the keys until the transaction ends
CREATE FUNCTION jobq_shard.still_here(version bigint, queue text, unique_key text, group_key text, concurrency_key text) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '10s' AS $$
DECLARE
    limited boolean := jobq_shard.is_limited($2);
    noted   text[] := array_remove(ARRAY[$5, CASE WHEN limited THEN '' END], NULL);
BEGIN
    -- Reveals nothing about queues that the role may not use. An enqueue without the privilege is rejected on the shard where the
    -- job would be. jobq_schedule calls this function, too.
    IF NOT jobq.may_use($2, 'jobq_enqueue_jobs') AND NOT jobq.may_use($2, 'jobq_schedule') THEN
        RETURN false;
    END IF;
    PERFORM FROM jobq_shard.locks l
    WHERE l.bucket = ANY (ARRAY(SELECT jobq_shard.bucket_of($2, k) FROM unnest(ARRAY[$3, $4, $5, CASE WHEN limited THEN '' END]) k WHERE k IS NOT NULL))
    ORDER BY l.bucket FOR UPDATE;
    PERFORM jobq_shard.require_map($1);
    IF cardinality(noted) > 0 THEN
        PERFORM jobq_shard.note_staying();
    END IF;
    IF jobq_shard.has_key($2, $3, $4, $5) THEN
        -- The job stays here because of one of its keys. So from now on, its concurrency key is here, too, and so is its queue if
        -- the queue has a limit.
        INSERT INTO jobq_shard.staying (queue, key) SELECT $2, k FROM unnest(noted) k ON CONFLICT DO NOTHING;
        RETURN true;
    END IF;
    DELETE FROM jobq_shard.staying s WHERE s.queue = $2 AND s.key = ANY (noted);
    RETURN false;
END
$$;

--: enqueue jobs with a key that moves, if this shard has the key; returns no rows if it does not; if "specs" is NULL, only checks
--: whether it has the key
CREATE FUNCTION jobq_shard.enqueue_known(version bigint, queue text, unique_key text, group_key text, concurrency_key text, specs jsonb)
    RETURNS TABLE (job_id bigint, is_new boolean)
    LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF NOT jobq_shard.still_here($1, $2, $3, $4, $5) THEN
        RETURN;
    ELSIF specs IS NULL THEN
        RETURN QUERY SELECT NULL::bigint, NULL::boolean;
    ELSE
        RETURN QUERY SELECT e.job_id, e.is_new FROM jobq_enqueue_jobs(specs) e;
    END IF;
END
$$;

--@ bucket_of jobq_shard

-- The first check takes no lock, so that other sessions wait only if a bucket seems to be free. Once the map is locked, everything
-- that was enqueued before is committed and visible. The map must have this version, because under an older map, other sessions
-- could enqueue here after the second check.
--: return the buckets in this list for which this shard has unfinished jobs, schedules, or kept unique keys
CREATE FUNCTION jobq_shard.buckets_in_use(version bigint, buckets integer[], queues jsonb) RETURNS SETOF integer
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    busy integer[] := jobq_shard.busy_buckets($2, $3);
BEGIN
    IF NOT busy @> $2 THEN
        PERFORM jobq_shard.lock_map();
        PERFORM jobq_shard.require_map($1);
        busy := jobq_shard.busy_buckets($2, $3);
    END IF;
    RETURN QUERY SELECT unnest(busy);
END
$$;

--: return what buckets_in_use returns, but without a lock; "queues" contains the queues of the map
CREATE FUNCTION jobq_shard.busy_buckets(buckets integer[], queues jsonb) RETURNS integer[]
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN ARRAY(WITH route AS MATERIALIZED (
        SELECT q.* FROM jsonb_to_recordset(queues) q (queue text, spread boolean, spread_by text, shard_id integer)),
    held AS (
        SELECT j.queue, j.unique_key, j.group_key, j.concurrency_key FROM jobq.jobs j WHERE j.status NOT IN ('completed', 'failed', 'cancelled')
        UNION ALL SELECT k.queue, k.unique_key, NULL, NULL FROM jobq.kept_keys k WHERE k.kept_until > clock_timestamp()
        UNION ALL SELECT s.queue, NULL, NULL, NULL FROM jobq.schedule_settings s),
    keyed AS (
        SELECT h.queue, coalesce(r.spread, false) AS spread, r.shard_id,
               CASE coalesce(r.spread_by, '') WHEN 'unique_key' THEN h.unique_key WHEN 'group_key' THEN h.group_key
                   WHEN 'concurrency_key' THEN h.concurrency_key ELSE coalesce(h.group_key, h.concurrency_key, h.unique_key) END AS key
        FROM held h LEFT JOIN route r ON r.queue = h.queue)
    SELECT DISTINCT b.bucket
    FROM keyed k, LATERAL (SELECT jobq_shard.bucket_of(k.queue, CASE WHEN k.spread THEN k.key END) AS bucket) b
    WHERE CASE WHEN k.spread THEN k.key IS NOT NULL ELSE k.shard_id IS NULL END AND b.bucket = ANY (buckets));
END
$$;
