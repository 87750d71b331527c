-- A graph of dependencies in one call: an element names itself with ref, and later elements depend on it.
SET client_min_messages = warning;
CREATE TEMPORARY TABLE enqueued AS SELECT row_number() OVER () AS n, j.* FROM jobq_enqueue_jobs('[
    {"queue": "refs", "kind": "charge", "ref": "a"},
    {"queue": "refs", "kind": "pack", "ref": "b", "depends_on": ["@a"]},
    {"queue": "refs", "kind": "invoice", "ref": "c", "depends_on": ["@a", "@a"], "unique_key": "k"},
    {"queue": "refs", "kind": "ship", "depends_on": ["@c", "@b"], "on_dependency_failure": "run"}]') j;
CREATE VIEW pg_temp.edges AS
SELECT j.kind, j.status, string_agg(o.kind || ' ' || d.on_failure, ', ' ORDER BY o.id) AS depends_on
FROM jobq.jobs j LEFT JOIN jobq.dependencies d ON d.job_id = j.id LEFT JOIN jobq.jobs o ON o.id = d.depends_on
WHERE j.queue = 'refs' GROUP BY j.id ORDER BY j.id;
SELECT * FROM pg_temp.edges;
-- If the unique key of an element belongs to an existing job, its ref means that job. A job outside of the call is given by its
-- ID.
SELECT n, job_id = (SELECT job_id FROM enqueued WHERE n = 3) AS invoice, is_new FROM (SELECT row_number() OVER () AS n, j.*
FROM jobq_enqueue_jobs(jsonb_build_array('{"queue": "refs", "ref": "c", "unique_key": "k"}'::jsonb,
    jsonb_build_object('queue', 'refs', 'kind', 'mail', 'depends_on', jsonb_build_array('@c', (SELECT job_id FROM enqueued WHERE n = 1))))) j) j;
SELECT * FROM pg_temp.edges WHERE kind = 'mail';
-- A ref is valid in its call only, for later elements, and must be unique.
SELECT jobq_enqueue_jobs('[{"queue": "refs", "depends_on": ["@a"]}]');
SELECT jobq_enqueue_jobs('[{"queue": "refs", "ref": "a", "depends_on": ["@a"]}]');
SELECT jobq_enqueue_jobs('[{"queue": "refs", "depends_on": ["@b"]}, {"queue": "refs", "ref": "b"}]');
SELECT jobq_enqueue_jobs('[{"queue": "refs", "ref": "a"}, {"queue": "refs", "ref": "a"}]');
SELECT jobq_enqueue_jobs('[{"queue": "refs", "ref": ""}]');
SELECT jobq_enqueue_jobs('[{"queue": "refs", "ref": 1}]');
SELECT jobq_enqueue_jobs('[{"queue": "refs", "depends_on": ["@"]}]');
SELECT jobq_enqueue_jobs(jsonb_build_array(jsonb_build_object('queue', 'refs', 'ref', repeat('x', 64))));
-- A very low ID is reported as unknown.
\set VERBOSITY sqlstate
SELECT jobq_enqueue_jobs('[{"queue": "refs"}, {"queue": "refs", "depends_on": ["-9223372036854775807"]}]');
SELECT jobq_enqueue_jobs('[{"queue": "refs"}, {"queue": "refs", "depends_on": [-1]}]');
\set VERBOSITY default
-- If the job that keeps the key has finished and was deleted, dependents do not wait for it.
SELECT jobq_create_queue('refs kept', keep_completed => '0');
SELECT jobq_enqueue('refs kept', unique_key => 'k', unique_for => '1 hour') > 0 AS enqueued;
SELECT jobq_complete(id, lease) FROM jobq_claim('refs kept');
SELECT string_agg(is_new::text, ' ') AS is_new FROM jobq_enqueue_jobs('[
    {"queue": "refs kept", "ref": "gone", "unique_key": "k"},
    {"queue": "refs kept", "kind": "there", "ref": "there"},
    {"queue": "refs kept", "kind": "free", "depends_on": ["@gone"]},
    {"queue": "refs kept", "kind": "later", "depends_on": ["@gone"], "run_at": "2100-01-01"},
    {"queue": "refs kept", "kind": "both", "depends_on": ["@there", "@gone"]}]');
SELECT j.kind, j.status, count(d.job_id) AS edges FROM jobq.jobs j LEFT JOIN jobq.dependencies d ON d.job_id = j.id
WHERE j.queue = 'refs kept' GROUP BY j.id ORDER BY j.id;
SELECT jobq_drop_queue('refs kept', force => true);
SELECT count(*) FROM jobq.jobs WHERE queue = 'refs';
SELECT jobq_drop_queue('refs', force => true);
