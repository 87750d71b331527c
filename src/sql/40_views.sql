-- Views for DBAs.

-- From here on, object names are schema-qualified, and operators are looked up only in pg_catalog. Otherwise, an operator in the
-- target schema whose argument types match exactly would take precedence over a pg_catalog operator that needs a coercion.
SET LOCAL search_path = pg_catalog, pg_temp;

-- Users write dependencies through this view. New rows get the default of the column "kind", which is "depends".
--: which jobs depend on which other jobs: the edges of kind "depends"
CREATE VIEW jobq.dependencies AS
    SELECT e.job_id, e.target AS depends_on, e.on_failure, e.active FROM jobq.edges e WHERE e.kind = 'depends';

--: all queues that are in use or have settings, with the effective settings
CREATE VIEW jobq.queues AS
SELECT n.queue,
       coalesce(s.paused, false) AS paused,
       s.queue IS NOT NULL AS has_settings,
       s.created_at,
       --@ each setting: {in_force} AS {name}
FROM (SELECT queue FROM jobq.lane_directory UNION SELECT queue FROM jobq.queue_settings) n
LEFT JOIN jobq.queue_settings s USING (queue);

-- A kind can store the value "none", which replaces the value of the queue. The view shows "none" as NULL.
--: all kinds that are in use or have settings, with the effective settings; "origins" shows for each setting whether its value comes
--: from the kind, the queue, or the default
CREATE VIEW jobq.kinds AS
SELECT n.queue,
       n.kind,
       k.queue IS NOT NULL AS has_settings,
       k.created_at,
       --@ each kind_setting: {in_force} AS {name},
       jsonb_build_object(
           --@ each kind_setting: '{name}', CASE WHEN k.{name} IS NOT NULL THEN 'kind' WHEN {of_queue} IS NOT NULL THEN 'queue' ELSE 'default' END
       ) AS origins
FROM (SELECT queue, kind FROM jobq.lane_directory UNION SELECT queue, kind FROM jobq.kind_settings) n
LEFT JOIN jobq.kind_settings k USING (queue, kind)
LEFT JOIN jobq.queue_settings s USING (queue);

-- The age of the oldest pending job and the oldest heartbeat cost time only if a query selects them. The planner knows that the
-- subquery h has one row per queue, and removes the join if the query does not need the oldest heartbeat.
--: statistics of each queue: number of jobs by status, age of the oldest claimable job, oldest heartbeat of a running job, and
--: rates over the last minute
CREATE VIEW jobq.queue_stats AS
SELECT c.queue,
       --@ each status: c.{name},
       jobq.oldest_pending_age(c.queue) AS oldest_pending_age,
       h.oldest_heartbeat,
       c.paused,
       c.enqueued_per_second,
       c.claimed_per_second,
       c.completed_per_second,
       c.failed_per_second,
       c.lost_per_second,
       c.source
FROM jobq.queue_counters() c
LEFT JOIN (SELECT o.queue, min(o.oldest_heartbeat) AS oldest_heartbeat FROM jobq.oldest_heartbeats() o
           GROUP BY o.queue) h ON h.queue = c.queue;

--: all lanes (sets of jobs that the same workers can claim), with the information in shared memory about the first claimable job of
--: each lane
CREATE VIEW jobq.lanes AS
SELECT d.queue, d.kind, d.version, d.requires, d.lane,
       h.lane IS NOT NULL AS tracked, h.known_empty, h.first_priority, h.first_run_at, h.first_id, h.ranges, h.refreshed_at, d.limits
FROM (SELECT DISTINCT l.queue, l.kind, l.version, l.requires, l.lane, l.limits FROM jobq.lane_directory l) d
LEFT JOIN jobq.tracked_lanes() h USING (lane);

--: the launcher and the background workers of the server: state, last round, last error, and totals
CREATE VIEW jobq.background_workers AS
SELECT * FROM jobq.background_workers();

--: the workers that have recently passed worker_info: queues, kinds, state, and number of running jobs
CREATE VIEW jobq.workers AS
SELECT * FROM @extschema@.jobq_workers();

--: all limits: the number of running jobs that count toward each limit, and the number of jobs that its rate allows to start now;
--: "key" and "kind" are NULL for the limit of a queue
CREATE VIEW jobq.limits AS
SELECT l.queue,
       n.key,
       l.max_running,
       CASE WHEN l.max_running IS NOT NULL THEN jobq.limit_running(l.queue, n.key, n.kind) END AS running,
       l.rate,
       l.per,
       t.tokens,
       t.next_token,
       n.kind
FROM jobq.limit_settings l
CROSS JOIN LATERAL (SELECT CASE WHEN NOT l.by_kind THEN nullif(l.key, '') END AS key, CASE WHEN l.by_kind THEN l.key END AS kind) n
LEFT JOIN LATERAL jobq.limit_tokens(l.queue, n.key, l.rate, l.per, n.kind) t ON l.key <> '*';

--: all named limits: the queues that share each limit, the number of running jobs that count toward it, and the number of jobs that
--: its rate allows to start now
CREATE VIEW jobq.named_limits AS
SELECT l.name,
       l.queues,
       l.max_running,
       CASE WHEN l.max_running IS NOT NULL THEN jobq.named_limit_running(l.name) END AS running,
       l.rate,
       l.per,
       t.tokens,
       t.next_token
FROM jobq.named_limit_settings l
LEFT JOIN LATERAL jobq.named_limit_tokens(l.name, l.rate, l.per) t ON true;

--: the groups that wait for an operator because their head has failed (setting group_on_failure): the failed job, its error, and the
--: number of jobs that wait in line
CREATE VIEW jobq.halted_groups AS
SELECT j.queue, j.group_key, j.id AS job_id, j.kind, j.error, j.finished_at AS halted_at,
       (SELECT count(*) FROM jobq.jobs w WHERE w._group_waiting = j._group_active) AS waiting
FROM jobq.jobs j
WHERE j._group_active IS NOT NULL AND j.status = 'failed';

-- The view omits the payload and the options, because monitoring does not need the data of the jobs.
--: all schedules: next and last run, last job, skipped runs with the reason, and last error
CREATE VIEW jobq.schedules AS
SELECT s.name, s.queue, s.kind, s.cron, s.timezone, s.next_run, s.last_run, s.last_job, s.paused,
       s.skipped, s.last_skipped, s.skip_reason,
       s.error, s.failures, CASE WHEN s.error IS NOT NULL THEN s._due_at END AS retry_at,
       s.missed, s.max_missed, s.overlap, s.deadline, s.jitter, s.starts_at, s.ends_at, s.source, s.created_at
FROM jobq.schedule_settings s;

-- The members that still exist are counted from their rows. jobq.batch_counts contains the numbers of the deleted members.
--: all batches: how many of their jobs wait, run, and have ended, and whether the batch is sealed and has finished
CREATE VIEW jobq.batches AS
SELECT b.id, b.name, n.total, n.pending, n.running, n.completed, n.failed, n.cancelled,
       CASE WHEN n.total > 0 THEN (n.completed + n.failed + n.cancelled)::double precision / n.total END AS progress,
       b.sealed_at IS NOT NULL AS sealed, b.finished_at, b.callbacks, b.error, b.metadata, b.created_by, b.created_at, b.sealed_at
FROM jobq.batch_settings b,
     LATERAL (SELECT (sum(m.pending + m.running + m.completed + m.failed + m.cancelled))::bigint AS total,
                     sum(m.pending)::bigint AS pending, sum(m.running)::bigint AS running, sum(m.completed)::bigint AS completed,
                     sum(m.failed)::bigint AS failed, sum(m.cancelled)::bigint AS cancelled
              FROM (SELECT count(*) FILTER (WHERE j.status < 'processing'), count(*) FILTER (WHERE j.status = 'processing'),
                           count(*) FILTER (WHERE j.status = 'completed'), count(*) FILTER (WHERE j.status = 'failed'),
                           count(*) FILTER (WHERE j.status = 'cancelled')
                    FROM jobq.jobs j WHERE j.batch_id = b.id
                    UNION ALL
                    SELECT 0, 0, coalesce(sum(c.completed), 0), coalesce(sum(c.failed), 0), coalesce(sum(c.cancelled), 0)
                    FROM jobq.batch_counts c WHERE c.batch_id = b.id) m(pending, running, completed, failed, cancelled)) n;

-- A role that has the SELECT privilege on the column of one of these views may use only the queues that jobq.queue_grants lists for
-- the role (queues/scope.h). If the rows of that table are lost, the role still has the privilege, so it cannot use any queue.
-- Without the privilege, the role could use all queues.
--: the queues that you may use as a producer
CREATE VIEW jobq.producer_queues WITH (security_barrier) AS
SELECT DISTINCT g.queue FROM jobq.queue_grants g WHERE g.profile = 'producer' AND pg_has_role(g.role, 'USAGE');
--: the queues from which you may claim jobs
CREATE VIEW jobq.worker_queues WITH (security_barrier) AS
SELECT DISTINCT g.queue FROM jobq.queue_grants g WHERE g.profile = 'worker' AND pg_has_role(g.role, 'USAGE');
--: the queues that you may use as an operator
CREATE VIEW jobq.operator_queues WITH (security_barrier) AS
SELECT DISTINCT g.queue FROM jobq.queue_grants g WHERE g.profile = 'operator' AND pg_has_role(g.role, 'USAGE');
