-- Wide payloads are moved to TOAST at the enqueue, with all functions, and are returned unchanged.
SET client_min_messages = warning;
CREATE FUNCTION pg_temp.noise(bytes int) RETURNS jsonb LANGUAGE sql AS
    $$ SELECT to_jsonb(left(string_agg(md5(i::text), ''), bytes)) FROM generate_series(1, bytes / 32 + 1) i $$;
-- Size of a row in the table itself, in bytes.
CREATE EXTENSION IF NOT EXISTS pageinspect;
CREATE FUNCTION pg_temp.row_bytes(job bigint) RETURNS int LANGUAGE sql AS $$
    SELECT p.lp_len FROM jobq.jobs j, LATERAL heap_page_items(get_raw_page('jobq.jobs', (j.ctid::text::point)[0]::int)) p
    WHERE j.id = job AND p.lp = (j.ctid::text::point)[1]::int $$;
CREATE FUNCTION pg_temp.enqueue(how text, bytes int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    job bigint;
BEGIN
    CASE how
        WHEN 'enqueue' THEN job := jobq_enqueue('small', pg_temp.noise(bytes));
        WHEN 'unique' THEN job := jobq_enqueue('small', pg_temp.noise(bytes), unique_key => 'u' || bytes);
        WHEN 'many' THEN SELECT m.job_id INTO job FROM jobq_enqueue_many('small', ARRAY[pg_temp.noise(bytes)]) m;
        WHEN 'jobs' THEN SELECT m.job_id INTO job FROM jobq_enqueue_jobs(jsonb_build_array(jsonb_build_object('queue', 'small', 'payload', pg_temp.noise(bytes)))) m;
        ELSE INSERT INTO jobq.jobs (queue, payload) VALUES ('small', pg_temp.noise(bytes)) RETURNING id INTO job;
    END CASE;
    RETURN job;
END $$;
CREATE TEMP TABLE jobs AS
    SELECT how, bytes, pg_temp.enqueue(how, bytes) AS job
    FROM unnest('{enqueue,unique,many,jobs,by hand}'::text[]) WITH ORDINALITY h(how, n), unnest('{100,500,1500,3000}'::int[]) bytes
    ORDER BY n, bytes;
SELECT how, bytes, pg_temp.row_bytes(job) < 300 AS small, payload = pg_temp.noise(bytes) AS whole
FROM jobs JOIN jobq.jobs j ON j.id = job ORDER BY job;
-- Later versions of the row contain the TOAST pointer. The worker gets the whole payload.
CREATE TEMP TABLE held AS SELECT id, lease, payload FROM jobq_claim('small', 'w', batch => 100);
SELECT count(*) AS claimed, bool_and(payload = pg_temp.noise(length(payload #>> '{}'))) AS whole,
       count(*) FILTER (WHERE pg_temp.row_bytes(id) > 400) AS wide FROM held;
SELECT bool_and(jobq_complete(id, lease, payload)) AS completed FROM held;
SELECT count(*) AS completed, bool_and(payload = result) AS whole FROM jobq.jobs WHERE queue = 'small';
-- Wide metadata are moved to TOAST, too, with and without a unique key.
CREATE TEMP TABLE told AS
    SELECT key, jobq_enqueue('small', unique_key => key, metadata => pg_temp.noise(1500)) AS job FROM unnest('{meta,NULL}'::text[]) key;
SELECT key, pg_temp.row_bytes(job) < 300 AS small, metadata = pg_temp.noise(1500) AS whole FROM told JOIN jobq.jobs j ON j.id = job ORDER BY job;
-- For a job with keys, only the payload is moved to TOAST. Later versions write no TOAST data again, except for a wide result.
CREATE FUNCTION pg_temp.values_apart() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    n bigint;
BEGIN
    EXECUTE (SELECT format('SELECT count(DISTINCT chunk_id) FROM %s', reltoastrelid::regclass) FROM pg_class
             WHERE oid = 'jobq.jobs'::regclass) INTO n;
    RETURN n;
END $$;
CREATE FUNCTION pg_temp.more_apart() RETURNS bigint LANGUAGE sql AS $$
    WITH b AS (SELECT pg_temp.values_apart() AS now, current_setting('small.apart')::bigint AS before)
    SELECT now - before FROM b WHERE set_config('small.apart', now::text, false) IS NOT NULL $$;
SELECT set_config('small.apart', pg_temp.values_apart()::text, false) IS NOT NULL AS begun;
SELECT count(jobq_enqueue('small keyed jobs', pg_temp.noise(400 + n), kind => 'a kind ' || md5('a'), unique_key => 'unique ' || md5('u' || n),
    concurrency_key => 'customer ' || md5('c' || n))) FROM generate_series(1, 10) n;
SELECT pg_temp.more_apart() AS payloads;
CREATE TEMP TABLE keyed AS SELECT id, lease FROM jobq_claim('small keyed jobs', 'worker ' || md5('w'), batch => 100);
SELECT count(jobq_heartbeat(id, lease)) AS heartbeats FROM keyed;
SELECT pg_temp.more_apart() AS more;
SELECT count(jobq_complete(id, lease, pg_temp.noise(400))) AS completed FROM keyed;
SELECT pg_temp.more_apart() AS results;
-- A trigger that copies inserted rows to another table gets complete values.
CREATE TABLE public.seen (payload jsonb);
CREATE FUNCTION public.keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.seen SELECT payload FROM fresh; RETURN NULL; END $$;
CREATE TRIGGER keep AFTER INSERT ON jobq.jobs REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION public.keep();
SELECT jobq_enqueue('small', pg_temp.noise(1500), unique_key => 'seen') > 0 AS enqueued;
SELECT payload = pg_temp.noise(1500) AS whole FROM public.seen;
DROP TRIGGER keep ON jobq.jobs;
-- The function of an index does not get a value that it could keep beyond the call either. A cursor copies its arguments.
CREATE FUNCTION public.leak(p jsonb) RETURNS int IMMUTABLE LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS
    $$ DECLARE c refcursor := 'leaked' || length(p #>> '{}'); BEGIN OPEN c FOR SELECT p FROM generate_series(1, 1); RETURN 1; END $$;
CREATE INDEX leaks ON jobq.jobs (public.leak(payload)) WHERE queue = 'leaks';
BEGIN;
SELECT jobq_enqueue('leaks', pg_temp.noise(1500)) > 0 AS enqueued;
SELECT jobq_enqueue('leaks', pg_temp.noise(1501), unique_key => 'leaks') > 0 AS enqueued;
SELECT count(pg_temp.noise(1500 + i)) FROM generate_series(1, 100) i;
CREATE FUNCTION pg_temp.fetched(c refcursor) RETURNS jsonb LANGUAGE plpgsql AS $$ DECLARE p jsonb; BEGIN FETCH c INTO p; RETURN p; END $$;
SELECT pg_temp.fetched('leaked1500') = pg_temp.noise(1500) AS whole, pg_temp.fetched('leaked1501') = pg_temp.noise(1501) AS whole;
COMMIT;
DROP INDEX jobq.leaks;
DROP FUNCTION public.leak;
-- If a session calls the function itself, the value is unchanged.
WITH x AS MATERIALIZED (SELECT jobq.apart(pg_temp.noise(1500)) AS p) SELECT p = pg_temp.noise(1500) AS whole FROM x;
DROP FUNCTION public.keep;
DROP TABLE public.seen;
SELECT jobq_drop_queue('small', force => true), jobq_drop_queue('small keyed jobs', force => true), jobq_drop_queue('leaks', force => true);
DROP EXTENSION pageinspect;
