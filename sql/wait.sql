-- jobq_wait: its arguments, where it may be called, and that it ends. test/process/waits.pl tests the wake-ups.
\set VERBOSITY default
\set SHOW_CONTEXT never
SELECT prokind, prorettype::regtype FROM pg_proc WHERE proname = 'jobq_wait';

CALL jobq_wait(timeout => '0 s');
CALL jobq_wait('wait', '50 ms');
CALL jobq_wait('wait', '10 ms', '{}', '{}', '{}');
CALL jobq_wait('wait', '0 s', '{a,b}', '{1,-1}', '{gpu,gpu}');
CALL jobq_wait('wait', '0 s', '{a,b}', '{1,-1}', '{gpu}', 'worker');
CALL jobq_wait('wait', '0 s', worker_id => 'worker');

-- A claimable job ends the wait at once.
SELECT jobq_enqueue('wait', kind => 'a') > 0 AS enqueued;
CALL jobq_wait('wait');
CALL jobq_wait('wait', '100000 years', kinds => '{a}', versions => '{0}', capabilities => '{gpu}');
SELECT kind FROM jobq_claim('wait');

-- Arguments
\set VERBOSITY sqlstate
CALL jobq_wait(NULL);
CALL jobq_wait('');
CALL jobq_wait(repeat('x', 64));
CALL jobq_wait('wait', NULL);
CALL jobq_wait('wait', '-1 ms');
CALL jobq_wait('wait', '0 s', ARRAY[NULL]::text[]);
CALL jobq_wait('wait', '0 s', '{{a},{b}}');
CALL jobq_wait('wait', '0 s', ARRAY[repeat('x', 256)]);
CALL jobq_wait('wait', '0 s', versions => ARRAY[NULL]::int[]);
CALL jobq_wait('wait', '0 s', versions => array_fill(1, ARRAY[1001]));
CALL jobq_wait('wait', '0 s', capabilities => ARRAY[repeat('x', 64)]);
CALL jobq_wait('wait', '0 s', worker_id => '');
CALL jobq_wait('wait', '0 s', worker_id => repeat('x', 256));
CALL jobq_wait('wait', '0 s', worker_id => 'backend:1');
SELECT jobq_wake(NULL);
SELECT jobq_wake('');
SELECT jobq_wake(repeat('x', 256));
SELECT jobq_wake('backend:1');
SET jobq.require_queues = on;
CALL jobq_wait('wait', '0 s');
RESET jobq.require_queues;
SELECT jobq_wait('wait');

-- Calls that fail because jobq_wait cannot end the transaction
\set VERBOSITY default
BEGIN;
CALL jobq_wait('wait');
ROLLBACK;
\set VERBOSITY sqlstate
BEGIN;
SAVEPOINT s;
CALL jobq_wait('wait');
ROLLBACK;
DO $$ BEGIN CALL jobq_wait('wait'); EXCEPTION WHEN division_by_zero THEN NULL; END $$;
CREATE FUNCTION wait_within() RETURNS void LANGUAGE plpgsql AS $$ BEGIN CALL jobq_wait('wait'); END $$;
SELECT wait_within();
DROP FUNCTION wait_within();
SET default_transaction_read_only = on;
CALL jobq_wait('wait', '0 s');
RESET default_transaction_read_only;
\set VERBOSITY default

-- A call in which jobq_wait can end the transaction: it commits the work before it.
CREATE PROCEDURE wait_and_fail() LANGUAGE plpgsql AS $$
BEGIN
    PERFORM jobq_enqueue('wait', kind => 'committed');
    CALL jobq_wait('wait');
    RAISE EXCEPTION 'after the wait';
END $$;
CALL wait_and_fail();
SELECT kind FROM jobq_claim('wait');
DROP PROCEDURE wait_and_fail();
DO $$ BEGIN CALL jobq_wait('wait', '0 s'); END $$;

-- The transaction's defaults do not matter
SET default_transaction_isolation = serializable;
SET default_transaction_deferrable = on;
SET search_path = pg_temp, public, pg_catalog;
CALL jobq_wait('wait', '1 ms');
SHOW transaction_isolation;
SHOW search_path;
RESET ALL;
SELECT jobq_pause_queue('wait');
SELECT jobq_enqueue('wait') > 0 AS enqueued;
CALL jobq_wait('wait', '1 ms');
SELECT jobq_drop_queue('wait', force => true);
