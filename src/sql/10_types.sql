-- Types. Runs once: an upgrade never re-runs this fragment.

--: a job's state: scheduled and blocked wait, pending is claimable now, processing is leased, the rest are final
CREATE TYPE jobq.job_status AS ENUM (
    'scheduled', 'blocked', 'pending', 'processing', 'completed', 'failed', 'cancelled');
