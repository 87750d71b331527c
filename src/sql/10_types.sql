-- Types. Runs once: an upgrade never re-runs this fragment.

--: where a job is in its life: it
--@ each status: --: {text} ({name})
CREATE TYPE jobq.job_status AS ENUM (
    --@ row status: '{name}'
);
