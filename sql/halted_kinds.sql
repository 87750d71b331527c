-- Halted groups: the setting group_on_failure of a kind takes precedence over the setting of its queue.
\set VERBOSITY terse
SELECT jobq_create_queue('halt kinds');
SELECT jobq_alter_kind('halt kinds', 'strict', group_on_failure => 'halt');
SELECT count(jobq_enqueue('halt kinds', kind => k, group_key => k)) FROM unnest('{strict,strict,loose,loose}'::text[]) k;
SELECT settle();
SELECT count(jobq_fail(id, lease, 'broken', retry => false)) FROM jobq_claim('halt kinds', 'w', batch => 10, heartbeat_timeout => '1 hour');
SELECT settle();
SELECT kind, status FROM jobq.jobs WHERE queue = 'halt kinds' ORDER BY id;
SELECT labels, value FROM jobq_metrics() WHERE name = 'jobq_halted_groups';
SELECT detail FROM jobq_explain_queue('halt kinds') WHERE reason = 'halted';
-- When the setting of the kind becomes 'continue', its halted groups continue.
SELECT jobq_alter_kind('halt kinds', 'strict', group_on_failure => 'continue');
SELECT settle();
SELECT kind, status FROM jobq.jobs WHERE queue = 'halt kinds' ORDER BY id;
-- The groups of a kind can also continue in a queue whose groups halt.
SELECT jobq_alter_queue('halt kinds', group_on_failure => 'halt');
SELECT count(jobq_fail(id, lease, 'broken', retry => false)) FROM jobq_claim('halt kinds', 'w', batch => 10, heartbeat_timeout => '1 hour');
SELECT settle();
SELECT kind FROM jobq.halted_groups;
SELECT jobq_drop_queue('halt kinds', force => true);
-- When the only setting "halt" is removed, the halted groups continue.
SELECT jobq_alter_kind('halt kinds', 'strict', group_on_failure => 'halt');
SELECT count(*) FROM jobq.queue_settings WHERE group_on_failure IS NOT NULL;
SELECT count(jobq_enqueue('halt kinds', kind => 'strict', group_key => 'a')) FROM generate_series(1, 2);
SELECT settle();
SELECT jobq_fail(id, lease, 'broken', retry => false) FROM jobq_claim('halt kinds', 'w', heartbeat_timeout => '1 hour');
SELECT settle();
SELECT kind, status FROM jobq.jobs WHERE queue = 'halt kinds' ORDER BY id;
SELECT jobq_drop_kind('halt kinds', 'strict');
SELECT settle();
SELECT kind, status FROM jobq.jobs WHERE queue = 'halt kinds' ORDER BY id;
SELECT jobq_drop_queue('halt kinds', force => true);
