-- The log of a job records which operator has retried, canceled, or rescheduled it.
CREATE FUNCTION pg_temp.log(job_id bigint) RETURNS TABLE (event text, attempt integer, detail text) LANGUAGE sql AS
    'SELECT l.event, l.attempt, l.detail FROM jobq_log(job_id) l';
CREATE ROLE operators_alice LOGIN SUPERUSER;
CREATE ROLE "operators Bob" LOGIN SUPERUSER;
SELECT jobq_create_queue('operators', max_attempts => 1);

-- The record contains the session's user, even if the session has changed its role, and the arguments that have changed the job.
SELECT jobq_enqueue('operators') AS job \gset
SELECT jobq_fail(id, lease, 'no such customer') FROM jobq_claim('operators', 'w');
SET SESSION AUTHORIZATION operators_alice;
SET ROLE pg_monitor;
RESET ROLE;
SELECT jobq_retry(:job, payload => '{"customer": 7}', run_at => '2100-01-01 00:00+00', max_attempts => 3);
SET SESSION AUTHORIZATION "operators Bob";
SELECT jobq_reschedule(:job, '2100-01-02 00:00+00'), jobq_retry(:job);
SELECT jobq_cancel(:job);
RESET SESSION AUTHORIZATION;
SELECT * FROM pg_temp.log(:job);
SELECT lease, number, attempt, level, line, late FROM jobq.log_lines WHERE job_id = :job ORDER BY number;

-- A retry from a step records the step.
SELECT jobq_enqueue('operators', kind => 'steps') AS steps \gset
SELECT lease FROM jobq_claim('operators', 'w', kinds => '{steps}') \gset
SELECT state FROM jobq_step(:steps, :lease, 'fetch');
SELECT state FROM jobq_step_done(:steps, :lease, 'fetch');
SELECT jobq_complete(:steps, :lease);
SET SESSION AUTHORIZATION operators_alice;
SELECT jobq_retry_from(:steps, 'fetch');
RESET SESSION AUTHORIZATION;
SELECT * FROM pg_temp.log(:steps) WHERE event = 'operator';

-- A call that changes nothing records nothing, and neither does a function that changes many jobs.
SELECT jobq_retry(:steps);
SELECT count(*) AS cancelled FROM jobq_cancel_jobs('operators');
SELECT jobq_cancel(:steps);
SELECT count(*) AS lines FROM pg_temp.log(:steps) WHERE event = 'operator';

-- The records are not lines of a worker: they do not count toward the limits of an attempt, and a worker cannot write one.
SELECT jobq_enqueue('operators', kind => 'lines') AS lines \gset
SELECT lease FROM jobq_claim('operators', 'w', kinds => '{lines}', heartbeat_timeout => '1 hour') \gset
SELECT stored FROM jobq_write_log(ARRAY[:lines], ARRAY[:lease], '{no}', '{operator}');
SELECT stored FROM jobq_write_log(ARRAY[:lines], ARRAY[0], '{no}');
SELECT jobq_cancel(:lines);
SELECT stored FROM jobq_write_log(array_fill(:lines, '{1001}'), array_fill(:lease, '{1001}'), array_fill('line'::text, '{1001}'));

-- A job keeps the last 100 records. They are deleted with the job.
SELECT count(jobq_cancel(:lines)) FROM generate_series(1, 150);
SELECT count(*), min(number), max(number) FROM jobq.log_lines WHERE job_id = :lines AND level = 'operator';
SELECT jobq_fail(:lines, :lease);
SELECT jobq_delete(:lines);
SELECT count(*) FROM jobq.log_lines WHERE job_id = :lines;

DROP ROLE operators_alice, "operators Bob";
SELECT jobq_drop_queue('operators', force => true);
