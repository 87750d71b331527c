-- Claims and related calls.

-- A job that was retried, or inserted with plain SQL, can be on a shard that is not (or no longer) a home shard of its queue. From
-- time to time, claims look at such shards first. Otherwise, the job would wait as long as the home shards have jobs of the queue.
--: return whether this session must look for jobs of a queue on all shards now; returns true at most once a second
CREATE FUNCTION jobq_router.looks_everywhere(queue text) RETURNS boolean
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    look text := 'everywhere_' || jobq_router.bucket_of(queue);
BEGIN
    IF jobq_router.has_noted(look, '1 s') THEN
        RETURN false;
    END IF;
    PERFORM jobq_router.note(look);
    RETURN true;
END
$$;

-- A claim passes over shards that cannot be reached. It raises an error only if no home shard of the queue has answered. If a home
-- shard answers with an error, the claim raises this error only if no other shard has a job. After a shard has returned jobs, the
-- claim returns them whatever error another shard raises, because the first shard has committed, and no other session knows the
-- leases of these jobs.
--: do the work of jobq_claim; unlike that function, it is always in the schema jobq_router
CREATE FUNCTION jobq_router.claim(queue text, worker_id text, batch integer, kinds text[], versions integer[], capabilities text[], heartbeat_timeout interval,
        worker_info jsonb)
    RETURNS SETOF jobq_router.jobq_claim_row
    LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    _at       record;
    _left     integer := batch;
    _found    integer := 0;
    _n        integer;
    _answered boolean := false;
    _everywhere boolean := jobq_router.looks_everywhere($1);
    _faults   jobq_router.fault[] := '{}';
    _errors   jobq_router.fault[] := '{}';
    _fault    jobq_router.fault;
BEGIN
    FOR _at IN SELECT s.* FROM jobq_router.shards_of($1) WITH ORDINALITY s (shard, home, n) ORDER BY s.home = _everywhere, s.n LOOP
        IF _at.home THEN
            CONTINUE WHEN _answered AND jobq_router.is_doubtful(_at.shard);
            EXIT WHEN _found > 0 AND jobq_router.is_empty($1, _at.shard);
        ELSE
            EXIT WHEN NOT _everywhere;
            CONTINUE WHEN jobq_router.is_doubtful(_at.shard);
        END IF;
        FOR _try IN 1..10 LOOP
            EXIT WHEN _try > 1 AND NOT jobq_router.knows(_at.shard);
            BEGIN
                RETURN QUERY SELECT * FROM jobq_router.at_jobq_claim(_at.shard, (SELECT m.version FROM jobq_router.map m), $1, $2, _left, $4, $5, $6, $7, $8);
                GET DIAGNOSTICS _n = ROW_COUNT;
                _found := _found + _n;
                _left := _left - _n;
                _answered := _answered OR _at.home;
                IF _left > 0 THEN
                    PERFORM jobq_router.note_empty($1, _at.shard);
                END IF;
                EXIT;
            EXCEPTION WHEN OTHERS OR query_canceled THEN
                --@ caught _at.shard
                CASE jobq_router.meaning(_fault.state, _fault.message)
                WHEN 'unreached', 'lost' THEN
                    PERFORM jobq_router.note_down(_at.shard);
                    IF _at.home THEN
                        _faults := _faults || _fault;
                    END IF;
                    EXIT;
                WHEN 'map' THEN
                    EXIT WHEN _found > 0;
                    BEGIN
                        PERFORM jobq_router.try_again(_try, false, _fault);
                    EXCEPTION WHEN lock_not_available THEN
                        -- An open transaction on the shard keeps the shard from taking the map.
                        --@ caught _at.shard
                        PERFORM jobq_router.note_silent('shard_' || _at.shard);
                        IF _at.home THEN
                            _errors := _errors || _fault;
                        END IF;
                        EXIT;
                    END;
                ELSE
                    -- An invalid argument is invalid on all shards, and a caller that cancels the call must not wait for another
                    -- shard.
                    IF _fault.state LIKE '22%' OR jobq_router.is_silent(_fault) THEN
                        _errors := _fault || _errors;
                        _left := 0;
                    ELSIF _at.home OR _found > 0 THEN
                        _errors := _errors || _fault;
                        PERFORM jobq_router.note_empty($1, _at.shard);
                    ELSE
                        RAISE WARNING 'nothing was claimed on shard %: %', _at.shard, jobq_router.said(_fault.message) USING ERRCODE = _fault.state;
                    END IF;
                    EXIT;
                END CASE;
            END;
        END LOOP;
        EXIT WHEN _left <= 0;
    END LOOP;
    IF _found > 0 THEN
        FOREACH _fault IN ARRAY _errors LOOP
            IF jobq_router.is_silent(_fault) THEN
                PERFORM jobq_router.note_silent('shard_' || _fault.shard);
            END IF;
            RAISE WARNING 'nothing was claimed on shard %: %', _fault.shard, jobq_router.said(_fault.message) USING ERRCODE = _fault.state;
        END LOOP;
        RETURN;
    END IF;
    IF cardinality(_errors) > 0 THEN
        PERFORM jobq_router.raise_first(_errors, '{}');
    END IF;
    IF NOT _answered THEN
        PERFORM jobq_router.require_shards();
        PERFORM jobq_router.raise_first(_faults, '{}');
    END IF;
END
$$;

--@ function jobq_claim
BEGIN
    RETURN QUERY SELECT * FROM jobq_router.claim($1, $2, $3, $4, $5, $6, $7, $8);
END
--@ end

-- A shard does not tell a router the names of its queues, and a router claims from one queue at a time.
--: reject arguments of claims and waits for several queues that a router does not support
CREATE FUNCTION jobq_router.check_queue_arguments(patterns text[], oldest_first boolean) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF cardinality(patterns) > 0 THEN
        RAISE 'a router does not support the argument "patterns"' USING ERRCODE = 'feature_not_supported',
            DETAIL = 'A router does not know the names of all queues of its shards.', HINT = 'Name the queues with the argument "queues".';
    ELSIF oldest_first THEN
        RAISE 'a router does not support the argument "oldest_first"' USING ERRCODE = 'feature_not_supported',
            DETAIL = 'The queues may be on different shards, and a router claims from one queue at a time.', HINT = 'Use the argument "weights".';
    END IF;
END
$$;

--: return the queues from which a claim takes jobs, in this order, and the number of jobs that the claim may take from each
CREATE FUNCTION jobq_router.queues_to_claim(queues text[], batch integer, weights integer[], batches integer[]) RETURNS TABLE (name text, room integer)
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
SELECT q.name, CASE WHEN batches IS NULL THEN batch ELSE least(batch, batches[q.n]) END
FROM (SELECT DISTINCT ON (u.name) u.name, u.n FROM unnest(queues) WITH ORDINALITY u (name, n) ORDER BY u.name, u.n) q
WHERE batches IS NULL OR batches[q.n] > 0
ORDER BY CASE WHEN weights IS NULL THEN q.n ELSE -ln(1 - random()) / weights[q.n] END
$$;

-- If the shard of a queue cannot be reached, or answers with an error, the claim still tries the other queues. For a while, this
-- session tries the queue last. The claim raises the error only if no queue has a job.
--@ function jobq_claim_any
DECLARE
    _queue   record;
    _shard   integer;
    _found   integer := 0;
    _n       integer;
    _faults  jobq_router.fault[] := '{}';
    _fault   jobq_router.fault;
    -- A shard rejects such arguments.
    _is_wrong boolean := cardinality($9) <> cardinality($1) OR cardinality($11) <> cardinality($1) OR 0 >= ANY ($9) OR 0 > ANY ($11) OR $9 IS NOT NULL AND $10
                         OR $10 IS NULL OR array_position($9, NULL) > 0 OR array_position($11, NULL) > 0;
BEGIN
    PERFORM jobq_router.check_queue_arguments($8, $10 AND $9 IS NULL);
    IF cardinality($1) > 0 AND _is_wrong IS NOT TRUE THEN
        FOR _queue IN SELECT q.* FROM jobq_router.queues_to_claim($1, $3, $9, $11) WITH ORDINALITY q (name, room, n), jobq_router.bucket_of(q.name) b
                      ORDER BY jobq_router.has_noted('unreached_' || b, jobq_router.pass_over()) OR jobq_router.was_silent('queue_' || b), q.n LOOP
            EXIT WHEN _found >= $3 AND $3 > 0;
            BEGIN
                RETURN QUERY SELECT * FROM jobq_router.claim(_queue.name, $2, least(_queue.room, $3 - _found), $4, $5, $6, $7, $12);
                GET DIAGNOSTICS _n = ROW_COUNT;
                _found := _found + _n;
            EXCEPTION WHEN query_canceled THEN
                PERFORM jobq_router.note_silent('queue_' || jobq_router.bucket_of(_queue.name));
                IF _found = 0 THEN
                    RAISE;
                END IF;
                RAISE WARNING 'nothing more was claimed: %', SQLERRM USING ERRCODE = SQLSTATE;
                RETURN;
            WHEN OTHERS THEN
                --@ caught NULL
                IF _fault.state LIKE '22%' AND _found = 0 THEN
                    RAISE;
                END IF;
                PERFORM jobq_router.note('unreached_' || jobq_router.bucket_of(_queue.name));
                _faults := _faults || _fault;
            END;
        END LOOP;
        -- Raises only warnings, so that the caller gets the jobs that the claim has taken. No other session knows their leases.
        IF _found > 0 THEN
            FOREACH _fault IN ARRAY _faults LOOP
                RAISE WARNING 'nothing was claimed from another queue: %', jobq_router.said(_fault.message) USING ERRCODE = _fault.state;
            END LOOP;
            RETURN;
        END IF;
        PERFORM jobq_router.raise_first(_faults, '{}');
        RETURN;
    END IF;
    -- Without queues, leave it to a shard to answer or to reject the call.
    FOR _try IN 1..10 LOOP
        _shard := jobq_router.any_shard();
        BEGIN
            RETURN QUERY SELECT * FROM jobq_router.at_jobq_claim_any(_shard, (SELECT m.version FROM jobq_router.map m), $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12);
            RETURN;
        EXCEPTION WHEN OTHERS OR query_canceled THEN
            --@ caught _shard
            PERFORM jobq_router.try_again(_try, true, _fault);
        END;
    END LOOP;
END
--@ end

--: complete jobs; raise a warning for lost leases
CREATE FUNCTION jobq_router.complete_or_warn(job_ids bigint[], leases bigint[], results jsonb[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _lost bigint[] := ARRAY(SELECT c.job_id FROM @extschema@.jobq_complete_many($1, $2, $3) c WHERE NOT c.completed ORDER BY 1);
BEGIN
    IF cardinality(_lost) > 0 THEN
        RAISE WARNING USING MESSAGE = format(CASE cardinality(_lost) WHEN 1 THEN '%s of %s leases was lost' ELSE '%s of %s leases were lost' END, cardinality(_lost), cardinality($1)),
            ERRCODE = 'JQ001', DETAIL = format('These jobs were not completed: %s.', array_to_string(_lost, ', '));
    END IF;
END
$$;

-- Usually, the call completes and claims in one round trip, on the shard of the completed jobs. From time to time, it claims from
-- all shards, because jobs on other shards would otherwise wait as long as this shard has jobs. If the claim from another shard
-- fails, the call still returns what it has claimed and completed until then.
--@ function jobq_complete_and_claim
DECLARE
    _shards  integer[] := ARRAY(SELECT DISTINCT jobq_router.any_shard(id) FROM unnest($1) id WHERE id IS NOT NULL);
    _shard   integer;
    -- A shard rejects such arguments before it completes anything.
    _is_wrong boolean := $4 IS NULL OR $6 IS NULL OR $6 < 0;
    _found   integer := 0;
    _fault   jobq_router.fault;
BEGIN
    IF _is_wrong THEN
        _shards := _shards[1:1];
    END IF;
    IF _is_wrong OR cardinality(_shards) <= 1 AND (cardinality(_shards) = 0 OR random() < 0.9 AND EXISTS (SELECT FROM jobq_router.shards_of($4) s WHERE s.shard = _shards[1] AND s.home)) THEN
        -- Without jobs to complete, another shard can take the call if a shard cannot be reached.
        FOR _try IN 1..10 LOOP
            _shard := coalesce(_shards[1], jobq_router.any_shard());
            BEGIN
                RETURN QUERY SELECT * FROM jobq_router.at_jobq_complete_and_claim(_shard, (SELECT m.version FROM jobq_router.map m), $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11);
                GET DIAGNOSTICS _found = ROW_COUNT;
                EXIT;
            EXCEPTION WHEN OTHERS OR query_canceled THEN
                --@ caught _shard
                -- Another shard may have a job.
                EXIT WHEN _shards[1] IS NULL AND _fault.state NOT LIKE '22%' AND NOT jobq_router.is_silent(_fault) AND jobq_router.meaning(_fault.state, _fault.message) IN ('busy', 'error');
                PERFORM jobq_router.try_again(_try, _shards[1] IS NULL, _fault);
            END;
        END LOOP;
    ELSE
        PERFORM jobq_router.complete_or_warn($1, $2, $3);
    END IF;
    IF _found < $6 THEN
        BEGIN
            RETURN QUERY SELECT * FROM jobq_router.claim($4, $5, $6 - _found, $7, $8, $9, $10, $11);
        EXCEPTION WHEN OTHERS OR query_canceled THEN
            IF _found > 0 OR cardinality($1) > 0 AND SQLSTATE NOT LIKE '22%' THEN
                RAISE WARNING 'nothing more was claimed: %', SQLERRM USING ERRCODE = SQLSTATE;
            ELSE
                RAISE;
            END IF;
        END;
    END IF;
END
--@ end

-- If the claim fails, the call still completes the jobs.
--@ function jobq_complete_and_claim_any
DECLARE
    _fault   jobq_router.fault;
BEGIN
    IF (cardinality($1) + cardinality($2) = 0) IS NOT TRUE THEN
        PERFORM jobq_router.check_queue_arguments($11, $13);
        -- Rejects invalid arguments before it completes anything. All shards check arguments in the same way, so it asks only one.
        BEGIN
            PERFORM FROM jobq_router.at_jobq_claim_any(jobq_router.any_shard(), 0, $4, $5, CASE WHEN $6 > 0 THEN 0 ELSE $6 END, $7, $8, $9, $10, NULL, $12, $13, $14, NULL);
        EXCEPTION WHEN OTHERS OR query_canceled THEN
            --@ caught NULL
            IF left(_fault.state, 2) IN ('22', '42') THEN
                PERFORM jobq_router.raise(_fault);
            END IF;
        END;
        PERFORM jobq_router.complete_or_warn($1, $2, $3);
    END IF;
    BEGIN
        RETURN QUERY SELECT * FROM @extschema@.jobq_claim_any($4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15);
    EXCEPTION WHEN OTHERS OR query_canceled THEN
        IF cardinality($1) = 0 OR SQLSTATE LIKE '22%' THEN
            RAISE;
        END IF;
        RAISE WARNING 'nothing more was claimed: %', SQLERRM USING ERRCODE = SQLSTATE;
    END;
END
--@ end

--@ function jobq_claim_json
DECLARE
    _is_one    boolean := cardinality($1) = 1 AND num_nonnulls($12, $13, $15) = 0 AND $14 IS FALSE;
    _completes boolean := num_nonnulls($9, $10, $11) > 0;
BEGIN
    RETURN (SELECT coalesce(json_agg(json_build_object('id', c.id::text, 'lease', c.lease::text, 'queue', c.queue, 'kind', c.kind, 'payload', c.payload,
                                                       'attempt', c.attempt, 'max_attempts', c.max_attempts, 'priority', c.priority, 'version', c.version,
                                                       'run_at', extract(epoch FROM c.run_at), 'created_at', extract(epoch FROM c.created_at),
                                                       'progress', c.progress, 'metadata', c.metadata, 'heartbeat_seconds', c.heartbeat_seconds)), '[]')
            FROM (SELECT * FROM @extschema@.jobq_claim($1[1], $2, $3, $4, $5, $6, $7, $8) WHERE _is_one AND NOT _completes
                  UNION ALL
                  SELECT * FROM @extschema@.jobq_complete_and_claim($9, $10, $11, $1[1], $2, $3, $4, $5, $6, $7, $8) WHERE _is_one AND _completes
                  UNION ALL
                  SELECT * FROM @extschema@.jobq_claim_any($1, $2, $3, $4, $5, $6, $7, $12, $13, $14, $15, $8) WHERE _is_one IS NOT TRUE AND NOT _completes
                  UNION ALL
                  SELECT * FROM @extschema@.jobq_complete_and_claim_any($9, $10, $11, $1, $2, $3, $4, $5, $6, $7, $12, $13, $14, $15, $8)
                  WHERE _is_one IS NOT TRUE AND _completes) c);
END
--@ end

-- Children are on the shard of their parent.
--@ function jobq_spawn
DECLARE
    _shard   integer := jobq_router.any_shard($1);
    _place   jobq_router.place;
    _fault   jobq_router.fault;
BEGIN
    IF jsonb_typeof(specs) = 'array' AND NOT EXISTS (SELECT FROM jsonb_array_elements(specs) s WHERE jsonb_typeof(s.value) <> 'object') THEN
        FOREACH _place IN ARRAY jobq_router.places_of(specs) LOOP
            IF NOT _place.free AND _place.shard <> _shard AND _shard <> ALL (_place.was_on) THEN
                RAISE 'a child in queue "%" would be on shard %, but its parent is on shard %', _place.queue, _place.shard, _shard USING ERRCODE = 'feature_not_supported',
                    HINT = 'Children must be on the shard of their parent. Put the children into the queue of the parent, or into a spread queue without keys.';
            END IF;
        END LOOP;
    END IF;
    RETURN QUERY SELECT * FROM jobq_router.at_jobq_spawn(_shard, 0, $1, $2, $3, $4);
EXCEPTION WHEN OTHERS THEN
    --@ caught _shard
    PERFORM jobq_router.raise(_fault);
END
--@ end

--@ function jobq_await_jobs
DECLARE
    _shard   integer := jobq_router.any_shard($1);
    _fault   jobq_router.fault;
BEGIN
    PERFORM jobq_router.one_shard($3 || $1, 'ids');
    RETURN QUERY SELECT * FROM jobq_router.at_jobq_await_jobs(_shard, 0, $1, $2, $3, $4, $5, $6);
EXCEPTION WHEN OTHERS THEN
    --@ caught _shard
    PERFORM jobq_router.raise(_fault);
END
--@ end

--@ function jobq_shard_id sql
SELECT NULL::integer
--@ end
