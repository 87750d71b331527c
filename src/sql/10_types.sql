-- Types. Runs once: an upgrade never re-runs this fragment.

CREATE TYPE jobq.job_status AS ENUM (
    'scheduled', 'blocked', 'pending', 'processing', 'completed', 'failed', 'cancelled');
COMMENT ON TYPE jobq.job_status IS
    'a job''s state: scheduled and blocked wait, pending is claimable now, processing is leased, the rest are final';
