-- A retry can change the payload, run_at, and max_attempts of a job.
SET client_min_messages = warning;
SELECT jobq_create_queue('bulk mail', max_attempts => 2, backoff_base => '0', heartbeat_timeout => '1 hour') AS created;
CREATE FUNCTION pg_temp.job(job_id bigint) RETURNS TABLE (status jobq.job_status, payload jsonb, attempts integer, max_attempts integer, run_at text) LANGUAGE sql AS $$
    SELECT status, payload, attempts, max_attempts, CASE WHEN run_at > now() THEN to_char(run_at, 'YYYY-MM-DD') ELSE 'now' END FROM jobq.jobs WHERE id = job_id
$$;
-- Claims the job, saves the steps "prepare" and "send", and lets the attempt fail permanently.
CREATE FUNCTION pg_temp.fail_after_steps(queue text) RETURNS jobq.job_status LANGUAGE sql AS $$
    SELECT jobq_fail(c.id, c.lease, 'mailbox full', retry => false)
    FROM jobq_claim(queue) c, jobq_step_done(c.id, c.lease, 'prepare', '1') p, jobq_step_done(c.id, c.lease, 'send', '2') s
$$;
-- Returns the error of a call, without the number of the job.
CREATE FUNCTION pg_temp.error_of(call text) RETURNS TABLE (code text, message text, detail text, hint text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'SELECT ' || call;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    code := SQLSTATE;
    message := regexp_replace(sqlerrm, 'job \d+', 'job ...');
    RETURN NEXT;
END $$;

-- The address was wrong. The operator corrects it and retries the job. Its id, its attempts, and its error stay.
SELECT jobq_enqueue('bulk mail', '{"to": "ada@exmaple.com"}', max_attempts => 1) AS job \gset
SELECT jobq_fail(id, lease, 'no such host') FROM jobq_claim('bulk mail');
SELECT jobq_retry(:job, payload => '{"to": "ada@example.com"}');
SELECT * FROM pg_temp.job(:job);
SELECT id = :job AS same_id, payload, attempt, max_attempts FROM jobq_claim('bulk mail');
SELECT attempt, outcome, error FROM jobq.attempts WHERE job_id = :job;
SELECT jobq_fail(id, lease, 'greylisted') FROM jobq.jobs WHERE id = :job;
-- It runs later, and has three more attempts.
SELECT jobq_retry(:job, run_at => '2100-01-01', max_attempts => 5);
SELECT * FROM pg_temp.job(:job);
-- Arguments that are NULL leave the values as they are, except that the job runs now. The job is scheduled, so that it can be
-- retried again.
SELECT jobq_retry(:job, payload => NULL, run_at => NULL, max_attempts => NULL);
SELECT * FROM pg_temp.job(:job);
-- A time in the past makes the job claimable. JSON null is a payload.
SELECT jobq_cancel(:job), jobq_retry(:job, payload => 'null', run_at => '2001-01-01');
SELECT status, payload, run_at = '2001-01-01' AS run_at FROM jobq.jobs WHERE id = :job;
-- A retried job has at least one more attempt, even if max_attempts is lower.
SELECT jobq_cancel(:job), jobq_retry(:job, max_attempts => 1);
SELECT * FROM pg_temp.job(:job);
SELECT attempt, max_attempts, jobq_complete(id, lease) FROM jobq_claim('bulk mail');

-- A new payload deletes the saved steps, because they belong to the old payload.
SELECT jobq_enqueue('bulk mail', '{"to": "bob"}') AS job \gset
SELECT pg_temp.fail_after_steps('bulk mail');
BEGIN;
SELECT jobq_retry(:job, payload => '{"to": "bob@example.com"}');
SELECT name FROM jobq.steps WHERE job_id = :job;
SELECT _steps FROM jobq.jobs WHERE id = :job;
ROLLBACK;
-- keep_steps keeps them: the next attempt continues after the last step.
SELECT jobq_retry(:job, payload => '{"to": "bob@example.com"}', keep_steps => true);
SELECT c.payload, s.name, s.state, s.result FROM jobq_claim('bulk mail') c, jobq_steps(ARRAY[c.id], ARRAY[c.lease]) s;
-- So do changes of other values, but a completed job starts from the beginning unless keep_steps is true.
SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE id = :job;
SELECT jobq_retry(:job, keep_steps => true, run_at => '2100-01-01');
SELECT count(*) FROM jobq.steps WHERE job_id = :job;
SELECT jobq_retry(:job, max_attempts => 7);
SELECT count(*) FROM jobq.steps WHERE job_id = :job;
SELECT jobq_complete(id, lease) FROM jobq_claim('bulk mail');
SELECT jobq_retry(:job, max_attempts => 7);
SELECT count(*) FROM jobq.steps WHERE job_id = :job;
-- A job whose steps are deleted no longer awaits the jobs that it has spawned, and the children no longer belong to it.
SELECT id, lease FROM jobq_claim('bulk mail') \gset
SELECT state, cardinality(job_ids) AS children FROM jobq_spawn(:id, :lease, 'split', '[{"queue": "mail parts"}]');
SELECT state FROM jobq_await_jobs(:id, :lease, (SELECT jobs FROM jobq.steps WHERE job_id = :id AND name = 'split'), 'parts', timeout => '0.001 s');
SELECT count(*) > 0 AS ticked FROM tick_alone(now() + interval '1 second');
SELECT settle();
SELECT jobq_fail(id, lease, 'one part is missing', retry_in => '1 day') FROM jobq_claim('bulk mail');
SELECT kind FROM jobq.edges WHERE job_id = :job ORDER BY kind;
SELECT jobq_retry(:job, payload => '{"to": "carol@example.com"}');
SELECT kind FROM jobq.edges WHERE job_id = :job;
SELECT status FROM jobq.jobs WHERE queue = 'mail parts';

-- Jobs that a retry cannot change. A retry without changes returns the status. A retry with changes raises an error, because the
-- status alone would not show that the changes were not made.
SELECT jobq_retry(:job);
SELECT * FROM pg_temp.error_of(format($$jobq_retry(%s, payload => '1')$$, :job)) \gx
SELECT id, lease FROM jobq_claim('bulk mail') \gset
SELECT code, message FROM pg_temp.error_of(format($$jobq_retry(%s, run_at => '2100-01-01')$$, :job));
SELECT code, message FROM pg_temp.error_of(format($$jobq_retry(%s, max_attempts => 3)$$, :job));
SELECT jobq_retry(:job, keep_steps => true);
SELECT * FROM pg_temp.job(:job);
SELECT jobq_complete(:id, :lease);
SELECT jobq_retry(-1, payload => '1') IS NULL AS unknown;

-- Invalid arguments change nothing.
SELECT jobq_retry(NULL, payload => '1');
SELECT jobq_retry(:job, run_at => 'infinity');
SELECT jobq_retry(:job, max_attempts => 0);
SELECT jobq_retry(:job, payload => '1', keep_steps => NULL);
SET jobq.max_payload = '1kB';
SELECT jobq_retry(:job, payload => to_jsonb(repeat('x', 1025)));
RESET jobq.max_payload;
SELECT * FROM pg_temp.job(:job);

-- A dead letter returns to its queue with the new payload.
SELECT jobq_create_queue('letters to fix', dead_letter_queue => 'unsent', max_attempts => 1) AS created;
SELECT jobq_enqueue('letters to fix', '"illegible"', group_key => 'g') AS letter \gset
SELECT jobq_enqueue('letters to fix', '"next"', group_key => 'g') AS next \gset
SELECT settle();
SELECT jobq_fail(id, lease, 'cannot read') FROM jobq_claim('letters to fix');
SELECT settle();
SELECT queue, status FROM jobq.jobs WHERE id = :letter;
-- It waits for its turn in the group first, and then for run_at.
SELECT jobq_retry(:letter, payload => '"legible"', run_at => '2100-01-01');
SELECT queue, dead_from, status, payload, run_at = '2100-01-01' AS run_at FROM jobq.jobs WHERE id = :letter;
SELECT payload, jobq_complete(id, lease) FROM jobq_claim('letters to fix');
SELECT settle();
SELECT status, payload FROM jobq.jobs WHERE id = :letter;

-- The unique key stays. If another job has it in the meantime, the retry changes nothing.
SELECT jobq_enqueue('keyed mail', '"first"', unique_key => 'k') AS first \gset
SELECT jobq_cancel(:first);
SELECT jobq_enqueue('keyed mail', '"second"', unique_key => 'k') AS second \gset
\set VERBOSITY sqlstate
SELECT jobq_retry(:first, payload => '"first again"', max_attempts => 3);
\set VERBOSITY default
SELECT status, payload, max_attempts FROM jobq.jobs WHERE id = :first;
SELECT jobq_delete(:second), jobq_retry(:first, payload => '"first again"');
SELECT status, payload, unique_key, _holds_key FROM jobq.jobs WHERE id = :first;

-- An operator may retry jobs and change their run_at and max_attempts. To change the payload, the role must also be allowed to
-- enqueue jobs into the queue, because a new payload makes the workers do other work.
SELECT jobq_cancel(:first);
CREATE ROLE regress_jobq_helpdesk;
GRANT USAGE ON SCHEMA public TO regress_jobq_helpdesk;
SELECT jobq_grant('regress_jobq_helpdesk', 'operator', '{keyed mail,unsent}');
SELECT jobq_grant('regress_jobq_helpdesk', 'producer', '{unsent}');
BEGIN;
SET ROLE regress_jobq_helpdesk;
SELECT jobq_retry(:first, run_at => '2100-01-01', max_attempts => 9);
SELECT * FROM pg_temp.error_of(format($$jobq_retry(%s, payload => '"mine"')$$, :first)) \gx
ROLLBACK;
-- It does not learn whether a job of another queue exists, not even if the job is pending.
SET ROLE regress_jobq_helpdesk;
SELECT jobq_retry(:letter, payload => '"mine"') IS NULL AS unknown, jobq_retry(:job, payload => '"mine"') IS NULL AS unknown_too;
RESET ROLE;
SELECT jobq_grant('regress_jobq_helpdesk', 'producer', '{keyed mail}');
SET ROLE regress_jobq_helpdesk;
SELECT jobq_retry(:first, payload => '"mine"');
RESET ROLE;
SELECT status, payload FROM jobq.jobs WHERE id = :first;
SELECT jobq_revoke('regress_jobq_helpdesk', 'operator'), jobq_revoke('regress_jobq_helpdesk', 'producer');
REVOKE USAGE ON SCHEMA public FROM regress_jobq_helpdesk;
DROP ROLE regress_jobq_helpdesk;

SELECT jobq_drop_queue(q, force => true) FROM unnest('{bulk mail,mail parts,letters to fix,unsent,keyed mail}'::text[]) q;
