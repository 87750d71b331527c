-- The database of pg_upgrade.pl before an upgrade, with jobs in every state. No background worker runs during this script, so that
-- it alone determines the contents. The worker "alive" reports on its jobs after the upgrade, "dead" does not, and "hangs" only
-- sends heartbeats.
\set ON_ERROR_STOP 1
\set VERBOSITY verbose
\o /dev/null

-- ---- settings: one queue has values other than the defaults for all of them

SELECT jobq_create_queue('set', max_attempts => 7, backoff_base => '2 s', backoff_max => '5 min', heartbeat_timeout => '3 h',
    max_lost => 2, keep_completed => '40 days', keep_failed => '50 days', max_depth => 500, on_full => 'drop_oldest',
    dead_letter_queue => 'dead letters', max_runtime => '6 h', on_max_runtime => 'cancel', priority_ageing => '90 s',
    round_robin => true, group_on_failure => 'halt');
SELECT jobq_enqueue('set', concurrency_key => k) FROM unnest('{a,a,b}'::text[]) k;
SELECT jobq_create_queue('mail', max_attempts => 5);
SELECT jobq_create_queue('fair', round_robin => true, priority_ageing => '1 min');
SELECT jobq_enqueue('fair', to_jsonb(coalesce(k, 'none')), concurrency_key => k) FROM unnest('{b,a,NULL,a}'::text[]) k;
SELECT jobq_create_queue('paused');
SELECT jobq_pause_queue('paused');
SELECT jobq_enqueue('paused') FROM generate_series(1, 3);

-- ---- all statuses, and all ways in which an attempt ends

SELECT jobq_enqueue('mail', jsonb_build_object('n', n, 'text', CASE WHEN n % 7 = 0 THEN
        (SELECT string_agg(md5(i::text || n), '') FROM generate_series(1, 100) i) END),
    kind => (ARRAY['a', 'B', 'ü', ''])[n % 4 + 1], priority => n % 3 - 1, metadata => '{"from": "before"}',
    options => jsonb_build_object('version', n % 2, 'requires', CASE WHEN n % 5 = 0 THEN '{gpu}'::text[] END))
FROM generate_series(1, 60) n;
SELECT jobq_enqueue('mail', '"due during the upgrade"', run_at => clock_timestamp() + interval '1 s');
SELECT jobq_enqueue('mail', '"far"', run_at => now() + interval '30 days');
SELECT count(jobq_complete(id, lease, '{"ok": true}')) FROM jobq_claim('mail', 'w1', batch => 5);
SELECT count(jobq_fail(id, lease, 'no good', retry => false)) FROM jobq_claim('mail', 'w1', batch => 3);
SELECT count(jobq_fail(id, lease, 'try later', retry_in => '10 h')) FROM jobq_claim('mail', 'w1', batch => 2);
SELECT count(jobq_release(id, lease)) FROM jobq_claim('mail', 'w1', batch => 2);
SELECT count(jobq_snooze(id, '10 h', lease)) FROM jobq_claim('mail', 'w1', batch => 2);
SELECT jobq_cancel(id) FROM jobq.jobs WHERE queue = 'mail' AND status = 'pending' ORDER BY id DESC LIMIT 2;
SELECT id AS cancelled FROM jobq_claim('mail', 'w1') \gset
SELECT jobq_cancel(:cancelled);
SELECT jobq_fail(id, lease, 'stopped') FROM jobq.jobs WHERE id = :cancelled;
-- Lost jobs: two are lost together, then one alone.
SELECT jobq_enqueue('lost') FROM generate_series(1, 3);
SELECT count(*) FROM jobq_claim('lost', 'w1', batch => 2, heartbeat_timeout => '10 ms');
SELECT pg_sleep(0.05);
SELECT count(*) FROM jobq_tick();
SELECT count(*) FROM jobq_claim('lost', 'w1', heartbeat_timeout => '10 ms');
SELECT pg_sleep(0.05);
SELECT count(*) FROM jobq_tick();
INSERT INTO jobq.jobs (queue, status) VALUES ('by hand', 'blocked');

-- ---- running jobs: their workers continue after the upgrade or not

SELECT jobq_enqueue('held', options => jsonb_build_object('max_runtime', v)) FROM unnest('{NULL,2 h,NULL,NULL}'::interval[]) v;
SELECT count(*) FROM jobq_claim('held', 'alive', batch => 4, heartbeat_timeout => '1 h');
SELECT jobq_heartbeat(id, lease, '{"percent": 10}') FROM jobq.jobs WHERE queue = 'held';
SELECT jobq_cancel(max(id)) FROM jobq.jobs WHERE queue = 'held';
SELECT jobq_enqueue('silent') FROM generate_series(1, 4);
SELECT count(*) FROM jobq_claim('silent', 'dead', batch => 3, heartbeat_timeout => '2 s');
SELECT jobq_enqueue('overdue', max_attempts => 1, options => '{"max_runtime": "500 ms"}');
SELECT count(*) FROM jobq_claim('overdue', 'hangs', heartbeat_timeout => '10 s');

-- ---- unique keys of a waiting job, of a running job, and of completed jobs with and without unique_for

SELECT jobq_enqueue('unique', kind => 'waits', unique_key => 'waits'), jobq_enqueue('unique', kind => 'runs', unique_key => 'runs'),
    jobq_enqueue('unique', kind => 'kept', unique_key => 'kept', unique_for => '1 day'),
    jobq_enqueue('unique', kind => 'free', unique_key => 'free');
SELECT count(*) FROM jobq_claim('unique', 'alive', kinds => '{runs}', heartbeat_timeout => '1 h');
SELECT count(jobq_complete(id, lease)) FROM jobq_claim('unique', 'w1', batch => 2, kinds => '{kept,free}');

-- ---- limits: two of three slots are in use, both by one key, whose limit is two

SELECT jobq_set_limit('limited', max_running => 3), jobq_set_limit('limited', '*', max_running => 2),
    jobq_set_limit('rated', rate => 1000, per => '1 s');
SELECT jobq_enqueue('limited', concurrency_key => 'k' || n / 6) FROM generate_series(0, 17) n;
SELECT count(*) FROM jobq_claim('limited', 'alive', batch => 2, heartbeat_timeout => '1 h');
SELECT jobq_enqueue('rated') FROM generate_series(1, 5);

-- ---- groups: the heads of some are running, and the heads of the others are claimable

SELECT count(*) FROM jobq_enqueue_many('steps', array_fill('{}'::jsonb, ARRAY[48]),
    group_keys => ARRAY(SELECT 'g' || n % 8 FROM generate_series(1, 48) n));
SELECT count(*) FROM jobq_tick();
SELECT count(*) FROM jobq_claim('steps', 'alive', batch => 1, heartbeat_timeout => '1 h');
SELECT count(*) FROM jobq_claim('steps', 'dead', batch => 1, heartbeat_timeout => '2 s');

-- ---- dependencies on a waiting job, on a running job, on a completed job that was deleted, and on a job that fails

SELECT jobq_enqueue('graph', kind => k) FROM unnest('{waits,runs,gone,fails}'::text[]) k;
SELECT jobq_complete(id, lease, '7') FROM jobq_claim('graph', kinds => '{gone}');
SELECT jobq_enqueue('graph', kind => 'after', depends_on => ARRAY(SELECT id FROM jobq.jobs WHERE queue = 'graph' AND kind <> 'fails'));
SELECT jobq_enqueue('graph', kind => 'anyway', depends_on => ARRAY(SELECT id FROM jobq.jobs WHERE queue = 'graph' AND kind = 'fails'),
    on_dependency_failure => 'run');
SELECT jobq_delete(id) FROM jobq.jobs WHERE queue = 'graph' AND kind = 'gone';
SELECT count(*) FROM jobq_claim('graph', 'alive', kinds => '{runs}', heartbeat_timeout => '1 h');

-- ---- dead letters

SELECT jobq_create_queue('orders', dead_letter_queue => 'dead letters');
SELECT jobq_enqueue('orders', kind => k) FROM unnest('{ship,bill}'::text[]) k;
SELECT jobq_fail(id, lease, 'no such street', retry => false) FROM jobq_claim('orders', 'w1', batch => 2);

-- ---- many jobs, most of them finished

SELECT count(*) FROM jobq_enqueue_many('bulk', array_fill('{}'::jsonb, ARRAY[2000]));
SELECT count(*) FROM jobq_claim('bulk', 'w1', batch => 1500) c, jobq_complete(c.id, c.lease) WHERE jobq_complete;
VACUUM ANALYZE jobq.jobs;

-- ---- prepared transactions, which end before the upgrade

BEGIN;
SELECT jobq_enqueue('prepared', '"committed"');
PREPARE TRANSACTION 'committed';
BEGIN;
SELECT count(*) FROM jobq_claim('mail', 'w1', batch => 3);
SELECT jobq_enqueue('prepared', '"rolled back"');
PREPARE TRANSACTION 'rolled back';
COMMIT PREPARED 'committed';
ROLLBACK PREPARED 'rolled back';

-- ---- roles: for all queues, for one queue and then renamed, and one that was dropped and has left a row

\ir roles.sql
CREATE ROLE gone;
SELECT jobq_grant('gone', 'worker', '{mail}');
DROP OWNED BY gone;
DROP ROLE gone;

-- ---- recent claims: with a background worker, they are not in the index of the rescue for a second

SELECT jobq_enqueue('young') FROM generate_series(1, 2);
SELECT count(*) FROM jobq_claim('young', 'dead', batch => 2, heartbeat_timeout => '2 s');
ALTER TABLE jobq.jobs DISABLE TRIGGER USER;
UPDATE jobq.jobs SET _rescue_indexed = NULL WHERE queue = 'young';
ALTER TABLE jobq.jobs ENABLE TRIGGER USER;
ALTER TABLE jobq.jobs ENABLE REPLICA TRIGGER tell_job;

-- ---- tables that pg_upgrade.pl compares with later, and the code of its workers

CREATE TABLE unfinished AS SELECT id, queue, group_key FROM jobq.jobs WHERE status <= 'processing';
CREATE TABLE effects (job_id bigint, began timestamptz, ended timestamptz);
CREATE TABLE peaks (limited text, running bigint);
CREATE PROCEDURE drain(worker text, give_up timestamptz) LANGUAGE plpgsql AS $$
DECLARE
    queue text;
    ids bigint[];
    leases bigint[];
    claimed_at timestamptz;
BEGIN
    WHILE clock_timestamp() < give_up AND EXISTS (SELECT FROM jobq.jobs j WHERE j.status <= 'processing') LOOP
        FOREACH queue IN ARRAY ARRAY(SELECT DISTINCT j.queue FROM jobq.jobs j) LOOP
            SELECT array_agg(c.id), array_agg(c.lease), clock_timestamp() INTO ids, leases, claimed_at
            FROM jobq_claim(queue, worker, batch => 9, capabilities => '{gpu}') c;
            COMMIT;
            CONTINUE WHEN ids IS NULL;
            IF queue = 'limited' THEN
                INSERT INTO peaks SELECT coalesce(j.concurrency_key, 'queue'), count(*) FROM jobq.jobs j
                WHERE j.queue = 'limited' AND j.status = 'processing' GROUP BY ROLLUP (j.concurrency_key);
            END IF;
            INSERT INTO effects SELECT id, claimed_at, clock_timestamp() FROM unnest(ids) id;
            PERFORM jobq_complete_many(ids, leases, must_hold => true);
            COMMIT;
        END LOOP;
    END LOOP;
END $$;
