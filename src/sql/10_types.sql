-- Types. CREATE EXTENSION runs this file; upgrades do not run it again.

--: the status of a job; possible values:
--@ each status: --: {name} (the job {text})
CREATE TYPE jobq.job_status AS ENUM (
    --@ row status: '{name}'
);
