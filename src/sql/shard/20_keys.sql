-- Keys that move to another shard: they stay while this one has an unfinished job of theirs.

-- Rows, as nobody but the owner can lock them; by bucket, as nobody can have a row for each key. Two keys of one bucket wait for each other for as
-- long as an enqueue takes, and an answer is a write; but only keys that move are asked for here.
--: what is locked in the name of a key, or of a queue: the row of its bucket (bucket_of)
CREATE TABLE jobq_shard.locks (
    bucket integer PRIMARY KEY
);
INSERT INTO jobq_shard.locks SELECT pg_catalog.generate_series(0, 1023);

--: whether there is a job of the queue that has not finished, or a schedule
CREATE FUNCTION jobq_shard.has_queue(queue text) RETURNS boolean
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
SELECT EXISTS (SELECT FROM jobq.lane_directory l, LATERAL (SELECT FROM jobq.jobs j WHERE j._lane = l.lane AND j._ready AND j.queue = $1 LIMIT 1) j
               WHERE l.queue = $1)
    OR EXISTS (SELECT FROM jobq.jobs j WHERE j.queue = $1 AND j.status NOT IN ('completed', 'failed', 'cancelled'))
    OR EXISTS (SELECT FROM jobq.schedule_settings s WHERE s.queue = $1)
$$;

-- Alone, as buckets_in_use. version NULL: nobody else enqueues just now.
--: whether a queue has unfinished jobs or schedules here, or keeps keys of finished ones
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

-- A queue that is limited as a whole stays as a whole: no shard knows how many of its jobs run on another.
--: whether an unfinished job has one of these keys, or a finished one keeps it; or the queue has a limit, and an unfinished job
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
        OR EXISTS (SELECT FROM jobq.limit_settings l WHERE l.queue = $1 AND l.key = '') AND jobq_shard.may_stay($1, '') AND jobq_shard.has_queue($1);
END
$$;

--: whether there may be an unfinished job of a concurrency key, or of the queue (key empty), that moves by this map
CREATE FUNCTION jobq_shard.may_stay(queue text, key text) RETURNS boolean
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
SELECT EXISTS (SELECT FROM jobq_shard.staying s WHERE s.queue = $1 AND s.key = $2)
$$;

--: whether a queue is limited as a whole
CREATE FUNCTION jobq_shard.is_limited(queue text) RETURNS boolean
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
SELECT EXISTS (SELECT FROM jobq.limit_settings l WHERE l.queue = $1 AND l.key = '')
$$;

-- Behind require_map, so that all that was enqueued by an older map is seen.
--: notes which concurrency keys and queues have unfinished jobs, unless somebody has done so by this map
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

-- Two who ask for one key: the second must see what the first has enqueued, or it would take the key elsewhere. Hence the locks. Those
-- of several keys, and of the queue where it is limited as a whole, are taken in one order. A transaction that stays open can hold them: hence the timeout.
--: has_key, for who enqueues in this transaction
CREATE FUNCTION jobq_shard.still_here(version bigint, queue text, unique_key text, group_key text, concurrency_key text) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '10s' AS $$
DECLARE
    limited boolean := jobq_shard.is_limited($2);
    noted   text[] := array_remove(ARRAY[$5, CASE WHEN limited THEN '' END], NULL);
BEGIN
    -- Of queues of others it tells nothing. Who enqueues is refused where the job would be; schedules are asked for, too.
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
        -- The job has another key that is here: so is this one from now on.
        INSERT INTO jobq_shard.staying (queue, key) SELECT $2, k FROM unnest(noted) k ON CONFLICT DO NOTHING;
        RETURN true;
    END IF;
    DELETE FROM jobq_shard.staying s WHERE s.queue = $2 AND s.key = ANY (noted);
    RETURN false;
END
$$;

--: enqueues jobs of a key that moves, if this shard has it; no row: it has not; specs NULL: only looks
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

-- Alone: what somebody has enqueued before is committed, and is seen; by that map, or an older one may have others enqueue here behind this
-- look. What is in use is so for all: only where something looks free all others wait.
--: which of these buckets this shard has unfinished jobs, schedules or kept keys of
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

-- queues: those of the map.
--: which of these buckets have unfinished jobs, schedules or kept keys
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
