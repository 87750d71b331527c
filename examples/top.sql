-- jobq top: shows the queues of a database in a terminal, the busiest first, every two seconds until Ctrl-C.
--
--   psql -X -f examples/top.sql
--   psql -X -v every=10 -v rows=40 -f examples/top.sql
--   psql -X -v once=1 -f examples/top.sql
--
-- "workers" counts the connected workers that claim from the queue.
--
-- Needs the privileges of an operator or a monitor (jobq_grant). If jobq is preloaded, the cost does not depend on the number of
-- kept jobs.
\set QUIET 1
\if :{?rows} \else \set rows 20 \endif
\if :{?every} \else \set every 2 \endif
\pset pager off
\pset footer off
\pset null ''
SELECT CASE WHEN q.paused THEN q.queue || ' (paused)' ELSE q.queue END AS queue,
       q.pending, q.processing AS running, q.scheduled, q.blocked, q.failed, q.completed,
       date_trunc('second', CASE WHEN q.queue IS NOT NULL THEN q.oldest_pending_age END) AS oldest,
       round(q.enqueued_per_second::numeric, 1) AS "in/s", round(q.claimed_per_second::numeric, 1) AS "claimed/s",
       round(q.completed_per_second::numeric, 1) AS "done/s",
       round((q.failed_per_second + q.lost_per_second)::numeric, 1) AS "bad/s", w.workers, w.busy
FROM (SELECT s.*, s.pending + s.processing AS busy FROM jobq.queue_stats s) q
LEFT JOIN (SELECT u.queue, count(*) AS workers, count(*) FILTER (WHERE w.state = 'busy') AS busy
           FROM jobq.workers w, unnest(w.queues) u(queue) GROUP BY u.queue) w USING (queue)
ORDER BY q.busy DESC, q.claimed_per_second DESC NULLS LAST, q.queue
LIMIT :rows
\if :{?once} \g \else \watch :every \endif
