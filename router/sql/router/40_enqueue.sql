-- Enqueues jobs on the shards.

--: return the arguments and options of an enqueue as an object for jobq_enqueue_jobs, or NULL if a shard must reject the options;
--: if "keyless" is true, only other jobs of the call have unique keys, so the options for unique keys are left out
CREATE FUNCTION jobq_router.spec(arguments jsonb, options jsonb, keyless boolean DEFAULT false) RETURNS jsonb
    LANGUAGE sql IMMUTABLE AS $$
SELECT CASE
    WHEN options IS NULL THEN s.spec
    WHEN jsonb_typeof(options) = 'object'
        AND NOT options ?| (ARRAY(SELECT jsonb_object_keys(arguments)) || '{depends_on,on_dependency_failure,ref}'::text[])
    THEN s.spec || CASE WHEN keyless THEN options - '{on_conflict,unique_for}'::text[] ELSE options END
    END
FROM (SELECT jsonb_object_agg(a.key, a.value) AS spec FROM jsonb_each(arguments) a WHERE a.value <> 'null' OR a.key = 'payload') s
$$;
--@ calls

--: enqueue jobs with the same keys on the shard in was_on that has unfinished jobs with these keys or, if there is none, on the
--: shard where the keys belong; returns no rows if the map was out of date, so that the caller tries again
CREATE FUNCTION jobq_router.enqueue_moving(p jobq_router.place, specs jsonb) RETURNS SETOF jobq_router.jobq_enqueue_jobs_row
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    _shard   integer;
    _fault   jobq_router.fault;
BEGIN
    FOREACH _shard IN ARRAY p.was_on LOOP
        RETURN QUERY SELECT * FROM jobq_router.at_enqueue_known(_shard, p.version, p.queue, p.unique_key, p.group_key, p.concurrency_key, specs);
        IF FOUND THEN
            RETURN;
        END IF;
    END LOOP;
    _shard := p.shard;
    RETURN QUERY SELECT * FROM jobq_router.at_jobq_enqueue_jobs(_shard, p.version, specs);
EXCEPTION WHEN OTHERS OR query_canceled THEN
    --@ caught _shard
    PERFORM jobq_router.try_again(1, false, _fault);
END
$$;

--: call jobq_shard.enqueue_known on a shard
CREATE FUNCTION jobq_router.at_enqueue_known(integer, bigint, text, text, text, text, jsonb) RETURNS SETOF jobq_router.jobq_enqueue_jobs_row
    LANGUAGE plproxy VOLATILE AS $$ CLUSTER jobq_router.server($1); SELECT r.job_id, r.is_new FROM jobq_shard.require_shard($1) s, jobq_shard.enqueue_known($2, $3, $4, $5, $6, $7) r; $$;

--@ function jobq_enqueue
DECLARE
    _place   jobq_router.place;
    _spec    jsonb;
    _job     bigint;
    _fault   jobq_router.fault;
BEGIN
    FOR _try IN 1..2000 LOOP
        _place := jobq_router.place_of(queue, unique_key, group_key, concurrency_key, jobq_router.tied_to(depends_on, options));
        _spec := NULL;
        -- If an argument that must not be NULL is NULL, leave it to a shard to reject the call.
        IF cardinality(_place.was_on) > 0 AND num_nulls(payload, kind, priority, on_conflict, on_dependency_failure) = 0 THEN
            _spec := jobq_router.spec(jsonb_build_object(
                'queue', queue, 'payload', payload, 'kind', kind, 'priority', priority, 'run_at', run_at, 'max_attempts', max_attempts,
                'unique_key', unique_key, 'on_conflict', on_conflict, 'unique_for', unique_for, 'group_key', group_key,
                'concurrency_key', concurrency_key, 'depends_on', depends_on, 'on_dependency_failure', on_dependency_failure,
                'metadata', metadata), options);
        END IF;
        IF _spec IS NOT NULL THEN
            SELECT e.job_id INTO _job FROM jobq_router.enqueue_moving(_place, jsonb_build_array(_spec)) e;
            IF FOUND THEN
                RETURN _job;
            END IF;
        ELSE
            BEGIN
                RETURN jobq_router.at_jobq_enqueue(_place.shard, _place.version, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15);
            EXCEPTION WHEN OTHERS OR query_canceled THEN
                --@ caught _place.shard
                PERFORM jobq_router.try_again(_try, _place.free, _fault);
            END;
        END IF;
    END LOOP;
    PERFORM jobq_router.give_up();
END
--@ end

--: raise 55P03, because the map of the cluster changed again and again
CREATE FUNCTION jobq_router.give_up() RETURNS void
    LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RAISE 'the map of the cluster keeps changing' USING ERRCODE = 'lock_not_available', HINT = 'Retry the call.';
END
$$;

-- If the queue alone decides where the jobs go, the call is passed on as it is. Otherwise, the router looks up the shard of each
-- job.
--@ function jobq_enqueue_many
DECLARE
    _n       integer := cardinality(payloads);
    _place   jobq_router.place;
    _specs   jsonb;
    _fault   jobq_router.fault;
BEGIN
    FOR _try IN 1..2000 LOOP
        _place := jobq_router.place_of(queue, depends_on => jobq_router.tied_to(NULL, options));
        IF cardinality(_place.was_on) > 0 OR _place.free AND num_nonnulls(unique_keys, group_keys, concurrency_keys) > 0 THEN
            IF _n > 0 AND array_ndims(payloads) = 1 AND coalesce(cardinality(unique_keys) = _n, true) AND coalesce(cardinality(group_keys) = _n, true)
                AND coalesce(cardinality(concurrency_keys) = _n, true) AND coalesce(cardinality(run_ats) = _n, true) AND coalesce(cardinality(priorities) = _n, true)
                AND num_nulls(kind, priority) = 0 AND NOT EXISTS (SELECT FROM unnest(payloads) p WHERE p IS NULL)
                AND NOT EXISTS (SELECT FROM unnest(run_ats) r WHERE r IS NULL) AND NOT EXISTS (SELECT FROM unnest(priorities) p WHERE p IS NULL)
            THEN
                _specs := (SELECT jsonb_agg(jobq_router.spec(jsonb_build_object('queue', queue, 'payload', j.payload, 'kind', kind,
                        'priority', coalesce(j.priority, jobq_enqueue_many.priority), 'run_at', coalesce(j.run_at, jobq_enqueue_many.run_at), 'max_attempts', max_attempts,
                        'unique_key', j.unique_key, 'group_key', j.group_key, 'concurrency_key', j.concurrency_key),
                        options, j.unique_key IS NULL AND unique_keys IS NOT NULL) ORDER BY j.n)
                    FROM unnest(payloads, unique_keys, group_keys, concurrency_keys, run_ats, priorities)
                        WITH ORDINALITY j (payload, unique_key, group_key, concurrency_key, run_at, priority, n));
                IF _specs -> 0 <> 'null' THEN
                    RETURN QUERY SELECT e.job_id, e.is_new FROM jobq_router.enqueue_jobs(_specs) e;
                    RETURN;
                END IF;
            END IF;
        END IF;
        BEGIN
            RETURN QUERY SELECT * FROM jobq_router.at_jobq_enqueue_many(_place.shard, _place.version, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12);
            RETURN;
        EXCEPTION WHEN OTHERS OR query_canceled THEN
            --@ caught _place.shard
            PERFORM jobq_router.try_again(_try, _place.free, _fault);
        END;
    END LOOP;
    PERFORM jobq_router.give_up();
END
--@ end

--: return where each of these jobs goes, according to one version of the map; all jobs that can go to any shard get the same shard
CREATE FUNCTION jobq_router.places_of(specs jsonb) RETURNS jobq_router.place[]
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    spec   jsonb;
    p      jobq_router.place;
    places jobq_router.place[];
    free   integer;
BEGIN
    FOR _try IN 1..10 LOOP
        places := '{}';
        free := NULL;
        FOR spec IN SELECT value FROM jsonb_array_elements(specs) LOOP
            p := jobq_router.place_of(coalesce(spec ->> 'queue', 'default'), spec ->> 'unique_key', spec ->> 'group_key', spec ->> 'concurrency_key',
                jobq_router.tied_to(CASE WHEN jsonb_typeof(spec -> 'depends_on') = 'array' THEN
                    ARRAY(SELECT d.value::text::bigint FROM jsonb_array_elements(spec -> 'depends_on') d WHERE jsonb_typeof(d.value) = 'number') END, spec));
            IF p.free THEN
                free := coalesce(free, p.shard);
                p.shard := free;
            END IF;
            places := places || p;
        END LOOP;
        IF NOT EXISTS (SELECT FROM unnest(places) t WHERE t.version <> p.version) THEN
            RETURN places;
        END IF;
    END LOOP;
    PERFORM jobq_router.give_up();
END
$$;

--: return one place for jobs that depend on each other; raises 0A000 if they belong on several shards
CREATE FUNCTION jobq_router.common_place(places jobq_router.place[]) RETURNS jobq_router.place
    LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    p     jobq_router.place;
    bound jobq_router.place[] := ARRAY(SELECT DISTINCT ROW(t.version, t.shard, t.was_on, t.free, t.queue, t.unique_key, t.group_key, t.concurrency_key)::jobq_router.place
                                       FROM unnest(places) t WHERE NOT t.free);
BEGIN
    IF cardinality(bound) = 0 THEN
        RETURN places[1];
    ELSIF cardinality(bound) > 1 THEN
        FOREACH p IN ARRAY bound LOOP
            IF p.shard <> (bound[1]).shard OR cardinality(p.was_on) > 0 THEN
                RAISE 'the jobs depend on each other, but would be on several shards' USING ERRCODE = 'feature_not_supported',
                    HINT = 'Put the jobs into one queue that is not spread, or into a spread queue without keys.';
            END IF;
        END LOOP;
    END IF;
    RETURN bound[1];
END
$$;

--: do the work of jobq_enqueue_jobs; unlike that function, it is always in the schema jobq_router
CREATE FUNCTION jobq_router.enqueue_jobs(specs jsonb) RETURNS SETOF jobq_router.jobq_enqueue_jobs_row
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    _places  jobq_router.place[];
    _place   jobq_router.place;
    _tied    boolean;
    _left    integer[];
    _now     integer[];
    _ids     bigint[];
    _news    boolean[];
    _answers jobq_router.jobq_enqueue_jobs_row[];
    _try     integer := 0;
    _fault   jobq_router.fault;
BEGIN
    -- Leave it to a shard to reject an invalid argument.
    IF jsonb_typeof(specs) IS DISTINCT FROM 'array' OR jsonb_array_length(specs) = 0
        OR EXISTS (SELECT FROM jsonb_array_elements(specs) s WHERE jsonb_typeof(s.value) <> 'object')
    THEN
        _places := ARRAY[ROW((SELECT m.version FROM jobq_router.map m), jobq_router.any_shard(), '{}', false, NULL, NULL, NULL, NULL)::jobq_router.place];
        _tied := true;
        _left := '{1}';
    ELSE
        _tied := EXISTS (SELECT FROM jsonb_array_elements(specs) s WHERE s.value ? 'ref' OR s.value ? 'depends_on');
        _left := ARRAY(SELECT generate_series(1, jsonb_array_length(specs)));
    END IF;
    WHILE cardinality(_left) > 0 LOOP
        _try := _try + 1;
        IF _try > 2000 THEN
            PERFORM jobq_router.give_up();
        END IF;
        _places := coalesce(_places, jobq_router.places_of(specs));
        IF _tied THEN
            _place := jobq_router.common_place(_places);
            _now := _left;
        ELSE
            _place := _places[_left[1]];
            _now := CASE WHEN cardinality(_place.was_on) > 0 THEN _left[1:1]
                    ELSE ARRAY(SELECT i FROM unnest(_left) i WHERE (_places[i]).shard = _place.shard AND cardinality((_places[i]).was_on) = 0 ORDER BY i) END;
        END IF;
        BEGIN
            IF cardinality(_place.was_on) > 0 THEN
                _answers := ARRAY(SELECT e FROM jobq_router.enqueue_moving(_place, CASE WHEN _tied THEN specs ELSE jsonb_build_array(specs -> _now[1] - 1) END) e);
                IF cardinality(_answers) = 0 THEN
                    _places := NULL;
                    CONTINUE;
                END IF;
            ELSE
                _answers := ARRAY(SELECT e FROM jobq_router.at_jobq_enqueue_jobs(_place.shard, _place.version,
                    CASE WHEN _tied THEN specs ELSE (SELECT jsonb_agg(specs -> i - 1 ORDER BY i) FROM unnest(_now) i) END) e);
            END IF;
            FOR i IN 1..cardinality(_now) LOOP
                _ids[_now[i]] := (_answers[i]).job_id;
                _news[_now[i]] := (_answers[i]).is_new;
            END LOOP;
            _left := ARRAY(SELECT unnest(_left) EXCEPT SELECT unnest(_now) ORDER BY 1);
            _try := 0;
        EXCEPTION WHEN OTHERS OR query_canceled THEN
            --@ caught _place.shard
            IF cardinality(_ids) > 0 THEN
                _fault.detail := concat_ws(' ', nullif(_fault.detail, ''), 'Other jobs of the call have been enqueued.');
            END IF;
            PERFORM jobq_router.try_again(_try, _place.free, _fault);
            _place.version := (SELECT m.version FROM jobq_router.map m);
            _places := CASE WHEN _place.queue IS NULL THEN ARRAY[_place] END;
        END;
    END LOOP;
    RETURN QUERY SELECT * FROM unnest(_ids, _news);
END
$$;

--@ function jobq_enqueue_jobs
BEGIN
    RETURN QUERY SELECT * FROM jobq_router.enqueue_jobs($1);
END
--@ end

-- The batch is on the shard of the queues of its callbacks, because the shard enqueues the callbacks. Its members must be there, too.
--@ function jobq_create_batch
DECLARE
    _places  jobq_router.place[];
    _place   jobq_router.place;
    _batch   bigint;
    _fault   jobq_router.fault;
BEGIN
    FOR _try IN 1..10 LOOP
        _places := jobq_router.places_of((SELECT coalesce(jsonb_agg(c), '[]') FROM unnest(ARRAY[$2, $3, $4]) c WHERE jsonb_typeof(c) = 'object'));
        IF EXISTS (SELECT FROM unnest(_places) p, unnest(_places) q WHERE NOT p.free AND NOT q.free AND p.shard <> q.shard) THEN
            RAISE 'the callbacks of the batch would be on several shards' USING ERRCODE = 'feature_not_supported',
                HINT = 'Put the callbacks into one queue that is not spread, or into a spread queue without keys.';
        END IF;
        SELECT p.* INTO _place FROM unnest(_places) p ORDER BY p.free LIMIT 1;
        IF NOT FOUND THEN
            _place := ROW((SELECT m.version FROM jobq_router.map m), jobq_router.any_shard(), '{}', true, NULL, NULL, NULL, NULL)::jobq_router.place;
        END IF;
        BEGIN
            RETURN jobq_router.at_jobq_create_batch(_place.shard, _place.version, $1, $2, $3, $4, $5);
        EXCEPTION WHEN OTHERS OR query_canceled THEN
            --@ caught _place.shard
            PERFORM jobq_router.try_again(_try, _place.free, _fault);
        END;
    END LOOP;
    PERFORM jobq_router.give_up();
END
--@ end
