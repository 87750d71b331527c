-- Finds the shard of a job.

--: where jobs go: to the shard "shard", unless a shard in "was_on" already has one of their keys; if "free" is true, they can go to
--: any other shard, too; the keys are those that decide
CREATE TYPE jobq_router.place AS (version bigint, shard integer, was_on integer[], free boolean, queue text, unique_key text, group_key text, concurrency_key text);

--: return the shard of a job, by its id
CREATE FUNCTION jobq_router.shard_of(job_id bigint) RETURNS integer
    LANGUAGE sql IMMUTABLE AS $$ SELECT ($1 OPERATOR(pg_catalog.&) 1023)::pg_catalog.int4 $$;

--: raise 55000 if the router has no shards
CREATE FUNCTION jobq_router.require_shards() RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM jobq_router.shards) THEN
        RAISE 'the router has no shards' USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Use jobq_add_shard() to add a shard.';
    END IF;
END
$$;

--: return the shard of a job, by its id; if no shard has such ids, return a shard that can report that the job does not exist;
--: NULL if job_id is NULL
CREATE FUNCTION jobq_router.known_shard(job_id bigint) RETURNS integer
    LANGUAGE sql STABLE AS $$
SELECT CASE WHEN $1 IS NOT NULL THEN coalesce((SELECT s.shard_id FROM jobq_router.shards s WHERE s.shard_id = ($1 & 1023)::integer),
                                              (SELECT min(s.shard_id) FROM jobq_router.shards s)) END
$$;

--: return whether a shard with this number exists
CREATE FUNCTION jobq_router.knows(shard integer) RETURNS boolean
    LANGUAGE sql STABLE AS $$ SELECT EXISTS (SELECT FROM jobq_router.shards s WHERE s.shard_id = $1) $$;

--: ask all shards of the map for a newer map if one of these ids belongs to a shard that the router does not know
CREATE FUNCTION jobq_router.know(job_ids bigint[]) RETURNS void
    LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF EXISTS (SELECT FROM unnest(job_ids) id WHERE id IS NOT NULL AND NOT EXISTS (SELECT FROM jobq_router.shards s WHERE s.shard_id = (id & 1023)::integer)) THEN
        PERFORM jobq_router.require_shards();
        PERFORM jobq_router.refresh();
    END IF;
END
$$;

--: return a shard for a call that can go to any shard: chosen at random, by weight, from the active shards that this session does
--: not pass over, with doubtful shards last (is_doubtful); with job_id, return the shard of that job
CREATE FUNCTION jobq_router.any_shard(job_id bigint DEFAULT NULL) RETURNS integer
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found_shard integer;
BEGIN
    IF job_id IS NOT NULL THEN
        SELECT s.shard_id INTO found_shard FROM jobq_router.shards s WHERE s.shard_id = (job_id & 1023)::integer;
        IF FOUND THEN
            RETURN found_shard;
        END IF;
        PERFORM jobq_router.know(ARRAY[job_id]);
        RETURN jobq_router.known_shard(job_id);
    END IF;
    SELECT s.shard_id INTO found_shard FROM jobq_router.shards s WHERE s.state = 'active' AND NOT jobq_router.is_down(s.shard_id)
    ORDER BY jobq_router.is_doubtful(s.shard_id), ln(1 - random()) / s.weight DESC LIMIT 1;
    IF found_shard IS NULL THEN
        PERFORM jobq_router.require_shards();
        RAISE 'no shard can be reached' USING ERRCODE = 'sqlclient_unable_to_establish_sqlconnection',
            DETAIL = 'All active shards have just failed to answer.';
    END IF;
    RETURN found_shard;
END
$$;

--: return the shard of all these jobs; NULL if there are none; raises 0A000 if they are on several shards
CREATE FUNCTION jobq_router.one_shard(job_ids bigint[], argument text) RETURNS integer
    LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    shards integer[] := ARRAY(SELECT DISTINCT jobq_router.shard_of(id) FROM unnest(job_ids) id WHERE id IS NOT NULL ORDER BY 1);
BEGIN
    IF cardinality(shards) > 1 THEN
        RAISE 'the jobs of argument "%" are on different shards: %', argument, array_to_string(shards, ', ') USING ERRCODE = 'feature_not_supported',
            HINT = 'Jobs that depend on each other must be on one shard. Put them into one queue that is not spread, or enqueue them with one call to jobq_enqueue_jobs().';
    END IF;
    RETURN shards[1];
END
$$;

--: return the key that decides where a job of a spread queue goes, and its kind; the key is NULL if the job has no keys; raises
--: 0A000 if the keys do not determine the shard
CREATE FUNCTION jobq_router.deciding_key(queue text, spread_by text, unique_key text, group_key text, concurrency_key text, OUT kind text, OUT key text)
    LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    kind := coalesce(spread_by, CASE WHEN group_key IS NOT NULL THEN 'group_key' WHEN concurrency_key IS NOT NULL THEN 'concurrency_key'
                                     WHEN unique_key IS NOT NULL THEN 'unique_key' END);
    key := CASE kind WHEN 'group_key' THEN group_key WHEN 'concurrency_key' THEN concurrency_key ELSE unique_key END;
    IF key IS NULL AND num_nonnulls(unique_key, group_key, concurrency_key) > 0 THEN
        RAISE 'the job has keys but no "%", which determines the shard of each job of queue "%"', kind, queue USING ERRCODE = 'feature_not_supported',
            HINT = format('Specify "%s", or omit all keys.', kind);
    ELSIF spread_by IS NULL AND (unique_key <> key OR group_key <> key OR concurrency_key <> key) THEN
        RAISE 'the job has several keys, which may be on different shards' USING ERRCODE = 'feature_not_supported',
            HINT = format('Use jobq_route_queue(%L, spread => true, spread_by => ...) to choose the key that determines the shard, or do not spread the queue.', queue);
    END IF;
END
$$;

--: raise 0A000 if the argument or option "limits" names a limit, because each shard would count only its own jobs
CREATE FUNCTION jobq_router.refuse_limits(named boolean) RETURNS void
    LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF named THEN
        RAISE 'jobq_router does not support named limits' USING ERRCODE = 'feature_not_supported',
            DETAIL = 'A named limit counts the jobs of one server, and the jobs of its queues can be on several shards.',
            HINT = 'Omit "limits", and limit a concurrency key with jobq_set_limit().';
    END IF;
END
$$;

--: return the ids of the jobs on which a job depends, and of the batch in its options, if any, because the job must be on their shard;
--: raises 0A000 if the options name limits
CREATE FUNCTION jobq_router.tied_to(depends_on bigint[], options jsonb) RETURNS bigint[]
    LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF jsonb_typeof(options) = 'object' THEN
        PERFORM jobq_router.refuse_limits(jsonb_typeof(options -> 'limits') = 'array' AND options -> 'limits' <> '[]');
        IF options ->> 'batch_id' ~ '^[0-9]{1,18}$' THEN
            RETURN depends_on || (options ->> 'batch_id')::bigint;
        END IF;
    END IF;
    RETURN depends_on;
END
$$;

--: return where a job with these keys goes; raises 0A000 if it depends on jobs of another shard
CREATE FUNCTION jobq_router.place_of(queue text, unique_key text DEFAULT NULL, group_key text DEFAULT NULL, concurrency_key text DEFAULT NULL, depends_on bigint[] DEFAULT NULL)
    RETURNS jobq_router.place
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    p      jobq_router.place;
    spread boolean;
    chosen text;
    kind   text;
    key    text;
    needed integer := CASE WHEN depends_on IS NOT NULL THEN jobq_router.one_shard(depends_on, 'depends_on') END;
BEGIN
    -- If the shard does not exist, any shard can report that the job does not exist.
    IF needed IS NOT NULL AND NOT jobq_router.knows(needed) THEN
        PERFORM jobq_router.know(depends_on);
        needed := CASE WHEN jobq_router.knows(needed) THEN needed END;
    END IF;
    FOR _try IN 1..10 LOOP
        SELECT m.version, coalesce(q.shard_id, b.shard_id), CASE WHEN q.shard_id IS NULL THEN b.was_on ELSE q.was_on END, coalesce(q.spread, false), q.spread_by
        INTO p.version, p.shard, p.was_on, spread, chosen
        FROM jobq_router.map m LEFT JOIN jobq_router.buckets b ON b.bucket = jobq_router.bucket_of($1) LEFT JOIN jobq_router.queues q ON q.queue = $1;
        p.free := false;
        p.queue := $1;
        IF p.shard IS NULL THEN
            PERFORM jobq_router.require_shards();
        ELSIF NOT spread THEN
            p.unique_key := $2;
            p.group_key := $3;
            p.concurrency_key := $4;
        ELSE
            SELECT d.kind, d.key INTO kind, key FROM jobq_router.deciding_key($1, chosen, $2, $3, $4) d;
            p.was_on := '{}';
            IF key IS NULL THEN
                p.free := needed IS NULL;
                p.shard := coalesce(needed, jobq_router.any_shard());
            ELSE
                -- Both lookups must use the same map. The router may have taken over a newer map since the lookup above.
                SELECT b.shard_id, b.was_on INTO p.shard, p.was_on
                FROM jobq_router.map m, jobq_router.buckets b WHERE b.bucket = jobq_router.bucket_of($1, key) AND m.version = p.version;
                IF NOT FOUND THEN
                    CONTINUE WHEN _try < 10;
                    PERFORM jobq_router.give_up();
                END IF;
                p.unique_key := CASE kind WHEN 'unique_key' THEN key END;
                p.group_key := CASE kind WHEN 'group_key' THEN key END;
                p.concurrency_key := CASE kind WHEN 'concurrency_key' THEN key END;
            END IF;
        END IF;
        EXIT;
    END LOOP;
    IF needed = ANY (p.was_on) AND num_nonnulls(p.unique_key, p.group_key, p.concurrency_key) = 0 THEN
        p.shard := needed;
        p.was_on := '{}';
    ELSIF needed <> p.shard OR needed IS NOT NULL AND cardinality(p.was_on) > 0 THEN
        RAISE 'the job would be on shard %, but its dependencies or its batch are on shard %', p.shard, needed USING ERRCODE = 'feature_not_supported',
            HINT = 'Jobs that depend on each other, and the members of a batch, must be on one shard. Put them into one queue that is not spread, or omit their keys.';
    END IF;
    RETURN p;
END
$$;

-- The note is made for the bucket of the queue. Two queues in one bucket share the note, which costs or saves one lookup.
--: note in this session that a shard had no job of a queue, so that the session looks at other shards first for half a second
CREATE FUNCTION jobq_router.note_empty(queue text, shard integer) RETURNS void
    LANGUAGE sql VOLATILE AS $$
SELECT jobq_router.note(format('empty_%s_%s', jobq_router.bucket_of($1), $2))
$$;

--: return whether this session found no job of a queue on a shard within the last half second
CREATE FUNCTION jobq_router.is_empty(queue text, shard integer) RETURNS boolean
    LANGUAGE sql VOLATILE AS $$
SELECT jobq_router.has_noted(format('empty_%s_%s', jobq_router.bucket_of($1), $2), '0.5 s')
$$;

-- Home shards come first. Among the home shards and among the other shards, the order is random, but shards that were found empty
-- come after the others, and shards that have not answered recently come last. The function is not written in SQL, because
-- PostgreSQL would then plan the query again for each call.
--: return the shards that may have jobs of a queue, in the order in which to look at them; "home" is true if new jobs of the queue
--: can be on the shard
CREATE FUNCTION jobq_router.shards_of(queue text) RETURNS TABLE (shard integer, home boolean)
    LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN QUERY
    SELECT s.shard_id, h.home
    FROM jobq_router.buckets b LEFT JOIN jobq_router.queues q ON q.queue = $1
    CROSS JOIN jobq_router.shards s
    CROSS JOIN LATERAL (SELECT coalesce(q.spread, false) OR s.shard_id = coalesce(q.shard_id, b.shard_id)
                            OR s.shard_id = ANY (CASE WHEN q.shard_id IS NULL THEN b.was_on ELSE q.was_on END) AS home) h
    WHERE b.bucket = jobq_router.bucket_of($1)
    ORDER BY NOT h.home, jobq_router.is_doubtful(s.shard_id), jobq_router.is_empty($1, s.shard_id), random();
END
$$;
