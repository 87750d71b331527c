-- A session that claims from more and more queues evicts earlier queues from its cache, but not the queue of the current claim.
SELECT jobq_set_limit('held', key => k, max_running => 2) FROM unnest(ARRAY['a', 'b']) k;
SELECT count(jobq_enqueue('held', concurrency_key => CASE WHEN g % 2 = 0 THEN 'a' ELSE 'b' END)) FROM generate_series(1, 20) g;

-- Runs once, for the first claimed job.
CREATE FUNCTION ask_for_queues() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.queue = 'held' AND NEW.status = 'processing'
       AND NOT EXISTS (SELECT FROM jobq.jobs j WHERE j.queue = 'held' AND j.status = 'processing') THEN
        PERFORM count(*) FROM generate_series(1, 19900) g, LATERAL (SELECT FROM public.jobq_claim('name_' || g)) c;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER ask_for_queues BEFORE UPDATE ON jobq.jobs FOR EACH ROW EXECUTE FUNCTION ask_for_queues();
SELECT count(*) FROM jobq_claim('held', batch => 20);
SELECT concurrency_key, count(*) FROM jobq.jobs WHERE queue = 'held' AND status = 'processing' GROUP BY 1 ORDER BY 1;
DROP TRIGGER ask_for_queues ON jobq.jobs;
DROP FUNCTION ask_for_queues();
SELECT jobq_drop_queue('held', force => true);
