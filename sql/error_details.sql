-- Errors with details: jobq_fail and jobq_fail_many keep a JSON object, such as the error class and the stack trace, with the attempt
-- in jobq.attempts.
SELECT jobq_create_queue('details', max_attempts => 3, dead_letter_queue => 'details dead');
CREATE VIEW pg_temp.recorded AS
    SELECT a.job_id, a.attempt, a.outcome, a.error, a.details FROM jobq.attempts a JOIN jobq.jobs j ON j.id = a.job_id
    WHERE j.queue LIKE 'details%' ORDER BY a.job_id, a.finished_at;

-- A worker passes what it knows about the error. The error text stays a short text for lists.
SELECT jobq_enqueue('details') AS id \gset
SELECT lease FROM jobq_claim('details', 'w') \gset
SELECT jobq_fail(:id, :lease, 'ValueError: no address', retry_in => '0',
                 details => '{"class": "ValueError", "stack": "mail.py:7 in send", "tenant": 12}');
SELECT attempt, outcome, error, details FROM recorded WHERE job_id = :id;
SELECT details->>'class' AS class, count(*) FROM recorded GROUP BY 1;
SELECT event, attempt, detail, details->>'class' AS class FROM jobq_log(:id);

-- Details are optional. Releases and snoozes have none. The next attempt has its own details.
SELECT jobq_release(id, lease) FROM jobq_claim('details', 'w');
SELECT jobq_snooze(id, '0', lease) FROM jobq_claim('details', 'w');
SELECT jobq_fail(id, lease, 'no details', retry_in => '0') FROM jobq_claim('details', 'w');
SELECT attempt, outcome, error, details IS NOT NULL AS has_details FROM recorded WHERE job_id = :id;

-- A permanent failure. A dead letter keeps the details of all its attempts, and so does a redrive.
SELECT jobq_fail(id, lease, 'hopeless', retry => false, details => '{"class": "Hopeless"}') FROM jobq_claim('details', 'w');
SELECT attempt, outcome, error, details->>'class' AS class FROM recorded WHERE job_id = :id;
SELECT jobq_redrive('details dead');
SELECT count(details) AS kept FROM recorded WHERE job_id = :id;

-- A canceled job whose worker stops with an error.
SELECT id, lease FROM jobq_claim('details', 'w') \gset
SELECT jobq_cancel(:id), jobq_fail(:id, :lease, 'cancelled', details => '{"class": "Cancelled"}');
SELECT outcome, details FROM recorded WHERE job_id = :id AND outcome = 'cancelled';

-- The details are deleted with the job.
SELECT jobq_delete(:id);
SELECT count(*) FROM jobq.attempts WHERE job_id = :id;

-- A worker that has lost its lease records nothing. The attempt that jobq has ended has no details.
SELECT jobq_enqueue('details') AS id \gset
SELECT lease FROM jobq_claim('details', 'w', heartbeat_timeout => '1 hour') \gset
SELECT jobq_fail(:id, :lease + 1, 'not mine', details => '{"class": "Stranger"}') IS NULL AS lost;
BEGIN;
UPDATE jobq.jobs SET last_heartbeat = last_heartbeat - interval '2 hours' WHERE id = :id;
SELECT done > 0 AS rescued FROM jobq_tick() WHERE duty = 'rescue';
COMMIT;
SELECT jobq_fail(:id, :lease, 'too late', details => '{"class": "Late"}') IS NULL AS lost;
SELECT outcome, details FROM recorded WHERE job_id = :id;
SELECT jobq_cancel(:id), jobq_delete(:id);

-- Many jobs: each element belongs to the job at the same position, in whatever order the jobs are given. NULL means no details.
SELECT count(*) FROM jobq_enqueue_many('details', '{1,2,3}');
SELECT f.status, count(*)
FROM (SELECT array_agg(id ORDER BY id DESC) AS ids, array_agg(lease ORDER BY id DESC) AS leases FROM jobq_claim('details', 'w', batch => 3)) c,
     jobq_fail_many(ids, leases, '{three,two,one}', details => ARRAY['{"class": "Three"}', NULL, '{"class": "One"}']::jsonb[]) f GROUP BY 1;
SELECT j.payload, r.error, r.details FROM recorded r JOIN jobq.jobs j ON j.id = r.job_id ORDER BY j.payload;

-- Changes with plain SQL: the column can be read and changed as any other.
UPDATE jobq.attempts SET details = details - 'class' || '{"seen": true}' WHERE details->>'class' = 'One';
SELECT error, details FROM recorded WHERE details ? 'seen';

-- Details must be an object of at most 128 kB. Larger details are an error and not truncated, because only the worker knows which of
-- its keys the reader can do without. The worker still holds the job, so it can report again with smaller details.
SELECT jobq_enqueue('details') AS id \gset
SELECT id, lease FROM jobq_claim('details', 'w') \gset
SELECT jobq_fail(:id, :lease, 'e', details => '"ValueError"');
SELECT jobq_fail(:id, :lease, 'e', details => 'null');
SELECT jobq_fail_many(ARRAY[:id], ARRAY[:lease], '{e}', details => ARRAY['[]']::jsonb[]);
SELECT jobq_fail_many(ARRAY[:id], ARRAY[:lease], '{e}', details => '{}');
SELECT jobq_fail(:id, :lease, 'e', details => jsonb_build_object('stack', repeat('x', 131072)));
SELECT jobq_fail_many(ARRAY[:id], ARRAY[:lease], '{e}', details => ARRAY[jsonb_build_object('stack', repeat('x', 131072))]);
-- jobq.max_payload does not change this limit. The libraries send at most 16 kB of JSON text, which always fits.
SET jobq.max_payload = '1kB';
SELECT pg_column_size(few) AS few, octet_length(many::text) > 16384 AS longer_than_sent, pg_column_size(many) < 131072 AS fits
FROM (SELECT jsonb_build_object('stack', repeat('x', 16384)) AS few, ('{"a": [' || repeat('1,', 8190) || '1]}')::jsonb AS many) d;
SELECT status, (SELECT count(*) FROM recorded r WHERE r.job_id = j.id) AS attempts FROM jobq.jobs j WHERE id = :id;
SELECT jobq_fail(:id, :lease, 'e', details => jsonb_build_object('stack', repeat('x', 131000)));
RESET jobq.max_payload;
SELECT length(details->>'stack') FROM recorded WHERE job_id = :id;

SELECT jobq_drop_queue('details', force => true), jobq_drop_queue('details dead', force => true);
