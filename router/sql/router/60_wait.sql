-- On a router, a wait is a loop of checks with short pauses, because one connection cannot sleep on many servers, and PL/Proxy
-- cannot CALL a procedure.

-- To stop a worker, call jobq_wake on the router that the worker uses. The table has no unique key, because sessions that wake up
-- the same worker would then wait for each other. Deletes skip locked rows, so that they do not wait for a transaction that stays
-- open.
--: workers whose next wait ends immediately
CREATE UNLOGGED TABLE jobq_router.wakes (
    worker_id text NOT NULL,
    at        timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX wakes_worker_id ON jobq_router.wakes (worker_id);

-- Also deletes rows that no worker has taken for an hour.
--: record that the wait of a worker must end
CREATE FUNCTION jobq_router.note_wake(worker_id text) RETURNS void
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
INSERT INTO jobq_router.wakes (worker_id) VALUES ($1);
DELETE FROM jobq_router.wakes w
WHERE w.ctid = ANY (ARRAY(SELECT o.ctid FROM jobq_router.wakes o WHERE o.at < clock_timestamp() - interval '1 hour' FOR UPDATE SKIP LOCKED));
$$;

--: return whether a session has woken up this worker; returns true only once
CREATE FUNCTION jobq_router.take_wake(worker_id text) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM jobq_router.wakes w WHERE w.worker_id = $1) THEN
        RETURN false;
    END IF;
    DELETE FROM jobq_router.wakes w WHERE w.ctid = ANY (ARRAY(SELECT o.ctid FROM jobq_router.wakes o WHERE o.worker_id = $1 FOR UPDATE SKIP LOCKED));
    RETURN FOUND;
END
$$;

--: call jobq_shard.is_ready on a shard
CREATE FUNCTION jobq_router.at_is_ready(integer, text, text[], integer[], text[]) RETURNS boolean
    LANGUAGE plproxy VOLATILE AS $$ CLUSTER jobq_router.server($1); SELECT r FROM jobq_shard.require_shard($1) s, jobq_shard.is_ready($2, $3, $4, $5) r; $$;

--: return whether a shard that can be reached has a pending job for a worker with these kinds, versions, and capabilities
CREATE FUNCTION jobq_router.is_ready(queue text, kinds text[], versions integer[], capabilities text[]) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _at      record;
    _all     boolean := jobq_router.looks_everywhere(queue);
    _answered boolean := false;
    _fault   jobq_router.fault;
BEGIN
    FOR _at IN SELECT * FROM jobq_router.shards_of($1) LOOP
        EXIT WHEN NOT _at.home AND NOT _all;
        CONTINUE WHEN jobq_router.is_down(_at.shard) OR _answered AND jobq_router.is_doubtful(_at.shard);
        BEGIN
            IF jobq_router.at_is_ready(_at.shard, $1, $2, $3, $4) THEN
                IF NOT _at.home THEN
                    PERFORM set_config('jobq_router.everywhere_' || jobq_router.bucket_of(queue), '', false);
                END IF;
                RETURN true;
            END IF;
            _answered := true;
        EXCEPTION WHEN OTHERS THEN
            --@ caught _at.shard
            IF jobq_router.meaning(_fault.state, _fault.message) IN ('unreached', 'lost') THEN
                PERFORM jobq_router.note_down(_at.shard);
            ELSIF _at.home AND jobq_router.knows(_at.shard) THEN
                PERFORM jobq_router.raise(_fault);
            END IF;
        END;
    END LOOP;
    RETURN false;
END
$$;

--: return when a wait ends: after the timeout, or after half of statement_timeout if that is sooner; raises an error if the
--: timeout is NULL or negative
CREATE FUNCTION jobq_router.wait_until(timeout interval) RETURNS timestamptz
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    longest interval := current_setting('statement_timeout')::interval;
BEGIN
    IF timeout IS NULL THEN
        RAISE 'argument "timeout" must not be NULL' USING ERRCODE = 'null_value_not_allowed', HINT = 'Pass a value, or omit the argument if it has a default.';
    ELSIF timeout < interval '0' THEN
        RAISE 'argument "timeout" must not be negative' USING ERRCODE = 'invalid_parameter_value', HINT = 'Use an interval such as ''30 seconds''.';
    END IF;
    RETURN clock_timestamp() + CASE WHEN longest > interval '0' THEN least(timeout, longest / 2) ELSE timeout END;
END
$$;

-- The router only checks the argument, because only a server keeps a list of waiting workers, in which "batch" is used.
--: raise the error that a server raises for an invalid argument "batch" of jobq_wait and jobq_wait_any
CREATE FUNCTION jobq_router.check_wait_batch(batch integer) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF batch IS NULL THEN
        RAISE 'argument "batch" must not be NULL' USING ERRCODE = 'null_value_not_allowed', HINT = 'Pass a value, or omit the argument if it has a default.';
    ELSIF batch < 1 THEN
        RAISE 'argument "batch" must be at least 1, not %', batch USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Specify the maximum number of jobs to claim after the wait.';
    END IF;
END
$$;

--: return the next pause between two checks, in seconds
CREATE FUNCTION jobq_router.next_pause(pause double precision) RETURNS double precision
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$ SELECT least(pause * 1.5, 0.25) $$;

-- A wait that claims nothing would not tell the shards that the worker is still connected.
--: pass what a worker says about itself to all shards that can be reached
CREATE FUNCTION jobq_router.tell_shards(worker_info jsonb) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _shard    integer;
    _answered boolean := false;
    _faults   jobq_router.fault[] := '{}';
    _fault    jobq_router.fault;
BEGIN
    FOR _shard IN SELECT s.shard_id FROM jobq_router.shards s ORDER BY jobq_router.is_doubtful(s.shard_id), 1 LOOP
        CONTINUE WHEN _answered AND jobq_router.is_doubtful(_shard);
        BEGIN
            PERFORM FROM jobq_router.at_jobq_heartbeat_many(_shard, 0, '{}', '{}', $1);
            _answered := true;
        EXCEPTION WHEN OTHERS THEN
            --@ caught _shard
            IF jobq_router.meaning(_fault.state, _fault.message) IN ('unreached', 'lost') THEN
                PERFORM jobq_router.note_down(_shard);
                _faults := _faults || _fault;
            ELSE
                PERFORM jobq_router.raise(_fault);
            END IF;
        END;
    END LOOP;
    IF NOT _answered THEN
        PERFORM jobq_router.require_shards(), jobq_router.raise_first(_faults, '{}');
    END IF;
END
$$;

-- A shard forgets a worker after a minute without a call.
--: pass what a waiting worker says about itself to the shards, unless this was done at "told" and in the last 20 seconds; returns
--: when it was done
CREATE FUNCTION jobq_router.tell_at_times(worker_info jsonb, told timestamptz) RETURNS timestamptz
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF worker_info IS NULL OR clock_timestamp() - told < interval '20 s' THEN
        RETURN told;
    END IF;
    PERFORM jobq_router.tell_shards(worker_info);
    RETURN clock_timestamp();
END
$$;

-- The first check comes after a pause, because the worker has just found nothing to claim, and what prevents claims of a pending
-- job, such as a limit, may last for some time.
--@ function jobq_wait
DECLARE
    _until timestamptz := jobq_router.wait_until(timeout);
    _pause double precision := 0.01;
    _told timestamptz;
BEGIN
    PERFORM jobq_router.require_shards(), jobq_router.check_wait_batch(batch);
    LOOP
        _told := jobq_router.tell_at_times(worker_info, _told);
        EXIT WHEN jobq_router.take_wake(worker_id);
        COMMIT;
        EXIT WHEN clock_timestamp() >= _until;
        PERFORM pg_sleep(least(_pause, extract(epoch FROM _until - clock_timestamp())));
        _pause := jobq_router.next_pause(_pause);
        EXIT WHEN jobq_router.is_ready(queue, kinds, versions, capabilities);
    END LOOP;
END
--@ end

-- Each shard is asked about one queue at a time.
--@ function jobq_wait_any
DECLARE
    _until timestamptz := jobq_router.wait_until(timeout);
    _pause double precision := 0.01;
    _told timestamptz;
BEGIN
    PERFORM jobq_router.check_queue_arguments(patterns, false);
    PERFORM FROM @extschema@.jobq_claim_any(queues, worker_id, 0, kinds, versions, capabilities, batches => batches);
    PERFORM jobq_router.require_shards(), jobq_router.check_wait_batch(batch);
    LOOP
        _told := jobq_router.tell_at_times(worker_info, _told);
        EXIT WHEN jobq_router.take_wake(worker_id);
        COMMIT;
        EXIT WHEN clock_timestamp() >= _until;
        PERFORM pg_sleep(least(_pause, extract(epoch FROM _until - clock_timestamp())));
        _pause := jobq_router.next_pause(_pause);
        EXIT WHEN EXISTS (SELECT FROM jobq_router.queues_to_claim(queues, batch, NULL, batches) q WHERE jobq_router.is_ready(q.name, kinds, versions, capabilities));
    END LOOP;
END
--@ end

--: return whether a job has finished or does not exist
CREATE FUNCTION jobq_router.has_ended(job_id bigint) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _shard   integer := jobq_router.any_shard($1);
    _fault   jobq_router.fault;
BEGIN
    RETURN NOT EXISTS (SELECT FROM jobq_router.at_jobq_get(_shard, 0, $1) g WHERE g.finished_at IS NULL);
EXCEPTION WHEN OTHERS THEN
    --@ caught _shard
    PERFORM jobq_router.raise(_fault);
END
$$;

--@ function jobq_wait_job
DECLARE
    _until timestamptz := jobq_router.wait_until(timeout);
    _pause double precision := 0.01;
BEGIN
    LOOP
        EXIT WHEN jobq_router.has_ended(job_id);
        COMMIT;
        EXIT WHEN clock_timestamp() >= _until;
        PERFORM pg_sleep(least(_pause, extract(epoch FROM _until - clock_timestamp())));
        _pause := jobq_router.next_pause(_pause);
    END LOOP;
END
--@ end

--@ function jobq_wake sql
SELECT jobq_router.note_wake($1);
SELECT 0
--@ end
