-- Log lines: a worker writes lines of text about the job that it runs, and jobq_log() shows them with the other events.
SELECT jobq_create_queue('lines', max_lost => 3);
CREATE FUNCTION pg_temp.log(job_id bigint) RETURNS TABLE (event text, attempt integer, detail text) LANGUAGE sql AS
    'SELECT l.event, l.attempt, l.detail FROM jobq_log(job_id) l';

-- One call writes lines of several jobs. The lines of a job keep their order. The level is info if the call passes no levels.
SELECT jobq_enqueue('lines') AS first \gset
SELECT jobq_enqueue('lines') AS second \gset
SELECT lease AS first_lease FROM jobq_claim('lines', heartbeat_timeout => '1 hour') \gset
SELECT lease AS second_lease FROM jobq_claim('lines', heartbeat_timeout => '1 hour') \gset
SELECT job_id = :first AS is_first, stored
FROM jobq_write_log(ARRAY[:first, :second, :first], ARRAY[:first_lease, :second_lease, :first_lease], '{one,other,two}');
SELECT stored FROM jobq_write_log(ARRAY[:first, :first], ARRAY[:first_lease, :first_lease], ARRAY['disk is full', E'two\nlines'], '{error,debug}');
SELECT * FROM pg_temp.log(:first);
SELECT number, attempt, level, line, late, dropped FROM jobq.log_lines WHERE job_id = :first ORDER BY number;
SELECT * FROM pg_temp.log(:second);

-- A worker that sends lines later passes the age of each line, but no line is older than its attempt or than an earlier line.
UPDATE jobq.jobs SET started_at = started_at - interval '1 hour' WHERE id = :second;
SELECT stored FROM jobq_write_log(ARRAY[:second, :second], ARRAY[:second_lease, :second_lease], '{earlier,"just now"}', seconds_ago => '{60,0.5}');
SELECT l.line, l.written_at >= f.written_at AS in_order FROM jobq.log_lines l, jobq.log_lines f
WHERE l.job_id = :second AND f.job_id = :second AND f.number = 1 ORDER BY l.number;
SELECT jobq_enqueue('lines') AS aged \gset
SELECT lease AS aged_lease FROM jobq_claim('lines', heartbeat_timeout => '1 hour') \gset
UPDATE jobq.jobs SET started_at = started_at - interval '10 min' WHERE id = :aged;
SELECT stored FROM jobq_write_log(ARRAY[:aged, :aged, :aged], ARRAY[:aged_lease, :aged_lease, :aged_lease], '{a,b,c}', seconds_ago => '{1e300,60,0}');
SELECT l.line, l.written_at = j.started_at AS at_start, clock_timestamp() - l.written_at < interval '1 min' AS is_new
FROM jobq.log_lines l JOIN jobq.jobs j ON j.id = l.job_id WHERE l.job_id = :aged ORDER BY l.number;

-- Lines change nothing else: neither the job nor its lease. (The background worker may add the job to the rescue index.)
SELECT to_jsonb(j) - '_rescue_indexed' AS before FROM jobq.jobs j WHERE j.id = :first \gset
SELECT stored FROM jobq_write_log(ARRAY[:first], ARRAY[:first_lease], '{five}');
SELECT to_jsonb(j) - '_rescue_indexed' = :'before' AS unchanged FROM jobq.jobs j WHERE j.id = :first;

-- After the attempt has ended, lines of its lease are kept as late. Each attempt has its own lines.
SELECT jobq_fail(:first, :first_lease, 'failed', retry_in => '0');
SELECT stored FROM jobq_write_log(ARRAY[:first], ARRAY[:first_lease], '{"after the failure"}');
SELECT id = :first AS again, lease AS new_lease FROM jobq_claim('lines', heartbeat_timeout => '1 hour') \gset
SELECT stored FROM jobq_write_log(ARRAY[:first, :first], ARRAY[:new_lease, :first_lease], '{"second attempt","still the first"}');
SELECT jobq_complete(:first, :new_lease);
SELECT stored FROM jobq_write_log(ARRAY[:first], ARRAY[:new_lease], '{"after the completion"}', '{warning}');
SELECT attempt, number, level, line, late FROM jobq.log_lines WHERE job_id = :first ORDER BY written_at, number;
SELECT status, attempts FROM jobq.jobs WHERE id = :first;
-- An attempt that a rescue has ended is also known.
BEGIN;
SELECT done > 0 AS rescued FROM tick_alone(clock_timestamp() + interval '10 hours') WHERE duty = 'rescue';
COMMIT;
SELECT stored FROM jobq_write_log(ARRAY[:second], ARRAY[:second_lease], '{"I was only slow"}');
SELECT line, late FROM jobq.log_lines WHERE job_id = :second ORDER BY number DESC LIMIT 1;
-- Lines under a lease that never existed, or of a job that does not exist, are dropped.
SELECT job_id < 0 AS unknown, stored FROM jobq_write_log(ARRAY[-1, :first], ARRAY[1, 4711], '{no,no}');
SELECT * FROM jobq_write_log('{}', '{}', '{}');
SELECT count(*) AS lines FROM jobq.log_lines WHERE line = 'no';

-- An attempt can store 1000 lines and 256 kB. Further lines are dropped, and a last line counts them.
SELECT jobq_enqueue('lines', kind => 'long') AS many \gset
SELECT jobq_enqueue('lines', kind => 'wide') AS wide \gset
SELECT lease AS many_lease FROM jobq_claim('lines', kinds => '{long}', heartbeat_timeout => '1 hour') \gset
SELECT lease AS wide_lease FROM jobq_claim('lines', kinds => '{wide}', heartbeat_timeout => '1 hour') \gset
SELECT stored FROM jobq_write_log(array_fill(:many, '{1005}'), array_fill(:many_lease, '{1005}'), ARRAY(SELECT n::text FROM generate_series(1, 1005) n));
SELECT stored FROM jobq_write_log(ARRAY[:many, :many], ARRAY[:many_lease, :many_lease], '{too,late}');
SELECT number, level, line, dropped FROM jobq.log_lines WHERE job_id = :many AND number IN (1, 999, 1000, 1001, 1002) ORDER BY number;
-- A line of more than 8 kB is cut off at a character.
SELECT stored FROM jobq_write_log(array_fill(:wide, '{40}'), array_fill(:wide_lease, '{40}'), array_fill(repeat('é', 5000), '{40}'));
SELECT count(*) AS lines, max(octet_length(line)) AS longest, max(_bytes) AS bytes, max(dropped) AS dropped FROM jobq.log_lines WHERE job_id = :wide;
-- The next attempt has room again.
SELECT jobq_release(:many, :many_lease);
SELECT lease AS many_lease FROM jobq_claim('lines', kinds => '{long}', heartbeat_timeout => '1 hour') \gset
SELECT stored FROM jobq_write_log(ARRAY[:many], ARRAY[:many_lease], '{fresh}');

-- The lines are deleted with the job, in whatever way it is deleted.
CREATE FUNCTION pg_temp.a_job_with_lines(queue text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    id bigint;
    lease bigint;
BEGIN
    PERFORM jobq_enqueue(queue);
    SELECT c.id, c.lease INTO id, lease FROM jobq_claim(queue, heartbeat_timeout => '1 hour') c;
    PERFORM jobq_write_log(ARRAY[id], ARRAY[lease], '{line}');
    PERFORM jobq_complete(id, lease);
    RETURN id;
END $$;
CREATE FUNCTION pg_temp.lines_left() RETURNS bigint LANGUAGE sql AS
    $$ SELECT count(*) FROM jobq.log_lines l WHERE NOT EXISTS (SELECT FROM jobq.jobs j WHERE j.id = l.job_id) $$;
SELECT jobq_create_queue('lines gone', keep_completed => '0');
SELECT count(*) AS jobs, pg_temp.lines_left() FROM jobq.jobs WHERE id = pg_temp.a_job_with_lines('lines gone');
SELECT jobq_delete(:many), jobq_delete(:wide);
SELECT pg_temp.a_job_with_lines('lines') AS plain \gset
DELETE FROM jobq.jobs WHERE id = :plain;
SELECT pg_temp.a_job_with_lines('lines') AS old \gset
BEGIN;
UPDATE jobq.jobs SET finished_at = finished_at - interval '1 year' WHERE id = :old;
SELECT settle() \g /dev/null
COMMIT;
SELECT count(*) AS old_job, pg_temp.lines_left() FROM jobq.jobs WHERE id = :old;
-- Plain SQL can give a job another id, and its lines follow.
SELECT pg_temp.a_job_with_lines('lines') AS moved \gset
UPDATE jobq.jobs SET id = id + 1000000 WHERE id = :moved;
SELECT count(*) AS moved FROM jobq.log_lines WHERE job_id = :moved + 1000000;
-- A line can be committed after its job has been deleted. The prune deletes such lines.
INSERT INTO jobq.log_lines (job_id, lease, number, attempt, level, line) SELECT 1 + n % 2, 1, n, 1, 'info', 'orphan' FROM generate_series(1, 100) n;
SELECT settle() \g /dev/null
SELECT pg_temp.lines_left();
BEGIN;
TRUNCATE jobq.jobs;
SELECT count(*) AS lines_after_truncate FROM jobq.log_lines;
-- This does not depend on the jobs that are left, or on their ids. A tick also deletes lines that are replicated or restored before their
-- jobs, unless the database is a copy or pg_restore is running.
INSERT INTO jobq.log_lines (job_id, lease, number, attempt, level, line) SELECT id, 1, 1, 1, 'info', 'orphan' FROM unnest('{1,9000000000000000000}'::bigint[]) id;
SELECT count(*) > 0 AS ticked FROM tick_alone(now());
SELECT count(*) AS lines_after_tick FROM jobq.log_lines;
ROLLBACK;

-- Bad input changes nothing.
\set VERBOSITY default
SELECT jobq_write_log(NULL, '{1}', '{a}');
SELECT jobq_write_log('{1}', '{1}', '{NULL}');
SELECT jobq_write_log('{1}', '{1,2}', '{a}');
SELECT jobq_write_log('{1}', '{1}', '{a,b}');
SELECT jobq_write_log('{1}', '{1}', '{a}', '{}');
SELECT jobq_write_log('{1}', '{1}', '{a}', '{fatal}');
SELECT jobq_write_log('{1}', '{1}', '{a}', '{NULL}');
SELECT jobq_write_log('{1}', '{1}', '{a}', seconds_ago => '{-1}');
SELECT jobq_write_log('{1,1}', '{1,1}', '{a,b}', seconds_ago => '{0,NaN}');
SELECT jobq_write_log('{1}', '{1}', '{a}', seconds_ago => '{Infinity}');
SELECT jobq_write_log('{1}', '{1}', '{{a}}');

SELECT jobq_drop_queue('lines gone', force => true), jobq_drop_queue('lines', force => true);
SELECT pg_temp.lines_left();
