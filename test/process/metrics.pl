# Tests the totals of jobq_metrics across restarts, crashes of a session, a primary that becomes a standby, prepared transactions,
# dropped and renamed databases, an extension that is created again, and more queues than the table has entries. Under a random load
# in several sessions these laws must hold: rows = enqueued - deleted, running = claimed - ended.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqRandomLoad;
use JobqSleep;
use JobqTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = preloaded('metrics', init => { allows_streaming => 1 }, conf => [ 'max_prepared_transactions = 10', 'jobq.max_metric_series = 12', 'jobq.tick_interval = 100ms' ]);
database($node, 'work');

# Returns the sum of a metric, optionally for certain labels only.
sub total
{
    my ($name, $labels, $database) = @_;
    return value($node, $database // 'work', "SELECT coalesce(sum(value), 0) FROM jobq_metrics() WHERE name = 'jobq_$name' AND labels @> '" . ($labels // '{}') . "'");
}

# Selects the violations of the laws; the result is empty if there are none.
my $law = q{
    SELECT string_agg(text, '; ') FROM (
        SELECT format('%s %s, but %s rows', 'enqueued - deleted', t.there, r.there) FROM t, r WHERE t.there <> r.there
        UNION ALL SELECT format('%s %s, but %s rows', 'claimed - ended', t.running, r.running) FROM t, r WHERE t.running <> r.running) l(text)};
my $told = q{
    WITH m AS MATERIALIZED (SELECT name, sum(value) AS value FROM jobq_metrics() GROUP BY 1),
    v AS (SELECT coalesce((SELECT value FROM m WHERE name = 'jobq_jobs_enqueued_total'), 0) AS enqueued, coalesce((SELECT value FROM m WHERE name = 'jobq_jobs_deleted_total'), 0) AS deleted,
                 coalesce((SELECT value FROM m WHERE name = 'jobq_jobs_claimed_total'), 0) AS claimed, coalesce((SELECT value FROM m WHERE name = 'jobq_attempts_ended_total'), 0) AS ended),
    t AS (SELECT enqueued - deleted AS there, claimed - ended AS running FROM v),
    r AS (SELECT count(*) AS there, count(*) FILTER (WHERE status = 'processing') AS running FROM jobq.jobs)};

sub right
{
    my ($name, $database) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return is(value($node, $database // 'work', "$told $law"), '', $name);
}

# ---- a start of the server and a crash of a session reset the totals

value($node, 'work', q{SELECT count(*) FROM jobq_enqueue_many('q', array_fill('{}'::jsonb, ARRAY[5]), kind => 'k')});
value($node, 'work', q{SELECT jobq_complete(id, lease) FROM jobq_claim('q', batch => 2)});
my $since = total('stats_reset_timestamp_seconds');
cmp_ok($since, '>', 1.6e9, 'the time of the reset is known');
right('calls');
is(total('jobs_enqueued_total', '{"queue": "q", "kind": "k"}'), '5', 'enqueued jobs are counted');
is(total('job_run_seconds_count', '{"queue": "q"}'), '2', 'histograms are counted');
$node->restart;
is(total('jobs_enqueued_total'), '0', 'a restart resets the totals');
value($node, 'work', q{SELECT jobq_enqueue('q')});
cmp_ok(total('stats_reset_timestamp_seconds'), '>', $since, 'and the time of the reset advances');
my $victim = session($node, 'work');
my $pid = $victim->query('SELECT pg_backend_pid()');
kill 'KILL', $pid;
becomes_true($node, 'work', q{SELECT NOT EXISTS (SELECT FROM jobq_metrics() WHERE name = 'jobq_jobs_enqueued_total')}, 'a crash of a session resets the totals');
eval { $victim->quit };

# ---- a primary that becomes a standby and is promoted

value($node, 'work', q{SELECT jobq_enqueue('q', kind => 'switched')});
$since = total('stats_reset_timestamp_seconds');
$node->stop;
append_to_file($node->data_dir . '/standby.signal', '');
$node->start;
is(total('jobs_enqueued_total'), '0', 'a standby has no totals');
$node->promote;
value($node, 'work', q{SELECT jobq_enqueue('q', kind => 'promoted')});
is(total('jobs_enqueued_total'), '1', 'the promoted server counts');
cmp_ok(total('stats_reset_timestamp_seconds'), '>', $since, 'and reports the time of its reset');

# ---- prepared transactions

sub prepare { my ($name, $sql) = @_; return value($node, 'work', "BEGIN; $sql; PREPARE TRANSACTION '$name'"); }
my $begin = sub { value($node, 'work', 'DELETE FROM jobq.jobs'); value($node, 'work', 'SELECT jobq_reset_metrics()'); };

$begin->();
right('reset, with an empty table');
prepare('one', q{SELECT jobq_enqueue('q'), jobq_enqueue('q', kind => 'k')});
is(total('jobs_enqueued_total'), '0', 'a prepared transaction is not counted');
value($node, 'work', q{COMMIT PREPARED 'one'});
is(total('jobs_enqueued_total', '{"kind": "k"}'), '1', 'COMMIT PREPARED counts the transaction');
right('COMMIT PREPARED');
prepare('two', q{SELECT jobq_enqueue('q'); SELECT jobq_complete(id) FROM jobq_claim('q')});
value($node, 'work', q{ROLLBACK PREPARED 'two'});
right('ROLLBACK PREPARED');
prepare('many', q{SELECT jobq_enqueue('many', kind => 'k' || n) FROM generate_series(1, 6) n});
value($node, 'work', q{COMMIT PREPARED 'many'});
is(total('jobs_enqueued_total', '{"overflow": "true"}'), '4', 'a prepared transaction keeps only some queues and kinds; the others are counted as overflow');
right('all are counted');
prepare('restart', q{SELECT jobq_enqueue('q')});
$node->restart;
is(total('missed_transactions_total'), '0', 'a restart with a prepared transaction misses nothing');
value($node, 'work', q{COMMIT PREPARED 'restart'});
becomes_true($node, 'work', q{SELECT value = 1 FROM jobq_metrics() WHERE name = 'jobq_missed_transactions_total'}, 'its COMMIT PREPARED is counted as a missed transaction');

# ---- more queues and kinds than the table has entries, in two databases

database($node, 'other');
$begin->();
value($node, 'work', q{SELECT jobq_enqueue('crowd', kind => 'k' || n) FROM generate_series(1, 40) n});
is(total('shared_memory_entries', '{"part": "totals"}'), '12', 'all entries are taken');
is(total('jobs_enqueued_total', '{"overflow": "true"}'), '28', 'other kinds are counted as overflow');
is(value($node, 'work', q{SELECT string_agg(DISTINCT labels::text, ' ') FROM jobq_metrics() WHERE labels ? 'overflow' AND name = 'jobq_jobs_enqueued_total'}), '{"overflow": "true"}', 'with one label');
value($node, 'work', q{SELECT jobq_complete(id, lease) FROM jobq_claim('crowd', batch => 40)});
is(total('job_run_seconds_count', '{"overflow": "true"}'), '28', 'their histograms are counted as overflow, too');
right('nothing is lost');
value($node, 'other', q{SELECT jobq_enqueue('q') FROM generate_series(1, 3)});
is(total('jobs_enqueued_total', '{"overflow": "true"}', 'other'), '3', 'another database has an overflow entry of its own');
right('another database', 'other');
is(total('jobs_enqueued_total'), '40', 'each database has its own totals');
value($node, 'work', q{SELECT jobq_drop_queue('crowd', force => true)});
is(total('shared_memory_entries', '{"part": "totals"}'), '0', 'a dropped queue frees its entries');
value($node, 'other', q{SELECT jobq_enqueue('q')});
is(total('jobs_enqueued_total', '{"queue": "q"}', 'other'), '1', 'the free entries can be used by another database');
settings($node, 'jobq.max_metric_series = 0');
$node->restart;
value($node, 'work', q{SELECT jobq_enqueue('q')});
is(value($node, 'work', q{SELECT count(*) FROM jobq_metrics() WHERE name LIKE 'jobq_jobs\_%\_total' OR labels->>'part' = 'totals'}), '0', 'jobq.max_metric_series = 0 switches the totals off');
is(value($node, 'work', 'SELECT jobq_reset_metrics()'), '', 'there is nothing to reset then');
settings($node, 'jobq.max_metric_series = 12');
$node->restart;

# ---- databases that are renamed or dropped, and an extension that is created again

$begin->();
value($node, 'other', 'DELETE FROM jobq.jobs');
value($node, 'other', 'SELECT jobq_reset_metrics()');
value($node, 'other', q{SELECT jobq_enqueue('q', kind => 'k' || n) FROM generate_series(1, 3) n});
value($node, 'postgres', 'ALTER DATABASE other RENAME TO renamed');
is(total('jobs_enqueued_total', '{"queue": "q"}', 'renamed'), '3', 'a renamed database keeps its totals');
value($node, 'renamed', 'DROP EXTENSION jobq');
value($node, 'renamed', 'CREATE EXTENSION jobq');
is(total('jobs_enqueued_total', '{}', 'renamed'), '0', 'an extension that is created again starts with empty totals');
right('created again', 'renamed');
value($node, 'renamed', q{SELECT jobq_enqueue('q', kind => 'k' || n) FROM generate_series(1, 3) n});
value($node, 'renamed', q{BEGIN; SAVEPOINT s; DROP EXTENSION jobq; CREATE EXTENSION jobq; ROLLBACK TO s; COMMIT});
is(total('jobs_enqueued_total', '{}', 'renamed'), '3', 'the totals are kept if DROP EXTENSION is rolled back');
my $series = total('shared_memory_entries', '{"part": "totals"}');
value($node, 'postgres', 'DROP DATABASE renamed');
becomes_true($node, 'work', "SELECT value = $series - 3 FROM jobq_metrics() WHERE name = 'jobq_shared_memory_entries' AND labels->>'part' = 'totals'", 'a dropped database frees its entries');
# A database that is dropped while the launcher does not run.
database($node, 'other');
value($node, 'other', q{SELECT jobq_enqueue('q')});
$series = total('shared_memory_entries', '{"part": "totals"}');
settings($node, 'jobq.enabled = off');
$node->restart;
value($node, 'postgres', 'DROP DATABASE other');
settings($node, 'jobq.enabled = on');
$node->restart;
becomes_true($node, 'work', "SELECT value = $series - 1 FROM jobq_metrics() WHERE name = 'jobq_shared_memory_entries' AND labels->>'part' = 'totals'", 'a database that is dropped while the launcher is disabled frees its entries, too');

# ---- gauges

my $sleeper = sleeper($node);
start($sleeper, q{CALL jobq_wait('asleep', '5 min')});
becomes_true($node, 'work', q{SELECT value = 1 FROM jobq_metrics() WHERE name = 'jobq_waiting_sessions' AND labels = '{"queue": "asleep"}'}, 'a session sleeps in jobq_wait');
value($node, 'work', q{SELECT jobq_enqueue('asleep')});
becomes_true($node, 'work', q{SELECT NOT EXISTS (SELECT FROM jobq_metrics() WHERE name = 'jobq_waiting_sessions')}, 'until it is woken up');
is(total('launcher_up'), '1', 'the launcher runs');
is(total('shared_memory_capacity', '{"part": "databases"}'), '128', 'the number of databases that background workers can serve');
for my $step ([ undef, 1 ], [ sub { database($node, 'second') }, 2 ], [ sub { value($node, 'postgres', 'DROP DATABASE second') }, 1 ])
{
    my ($do, $count) = @$step;
    $do->() if $do;
    becomes_true($node, 'work', "SELECT value = $count FROM jobq_metrics() WHERE name = 'jobq_shared_memory_entries' AND labels->>'part' = 'databases'", "$count databases have a place in shared memory");
}
becomes_true($node, 'work', q{SELECT bool_and(CASE name WHEN 'jobq_rounds_total' THEN value > 0 ELSE value < 60 END) FROM jobq_metrics() WHERE name IN ('jobq_rounds_total', 'jobq_round_overdue_seconds')}, 'rounds are counted');
value($node, 'work', q{SELECT jobq_enqueue('q')});
value($node, 'work', q{ALTER TABLE jobq.tick_state RENAME TO mislaid});
becomes_true($node, 'work', q{SELECT sum(value) > 0 FROM jobq_metrics() WHERE name = 'jobq_duty_failures'}, 'a failing duty is counted');
value($node, 'work', q{ALTER TABLE jobq.mislaid RENAME TO tick_state});
becomes_true($node, 'work', q{SELECT sum(value) = 0 FROM jobq_metrics() WHERE name = 'jobq_duty_failures'}, 'until it succeeds again');

# ---- no query of a scrape gets slower with the number of kept jobs

# Returns the number of blocks that a scrape reads in a session that has cached its plans.
sub blocks
{
    my $reader = session($node, 'work');
    $reader->query('SELECT jobq_prometheus() IS NOT NULL') for 1 .. 2;
    my $explained = $reader->query('EXPLAIN (ANALYZE, BUFFERS, TIMING off, COSTS off) SELECT jobq_prometheus()');
    $reader->quit;
    my $blocks = 0;
    $blocks += $1 while $explained =~ /(?:hit|read)=(\d+)/g;
    return $blocks;
}
my $few = blocks();
cmp_ok($few, '>', 0, "a scrape reads $few blocks");
value($node, 'work', q{SET session_replication_role = replica;
    INSERT INTO jobq.jobs (queue, _lane, run_at, status, max_attempts, error, finished_at)
    SELECT 'bulk', 0, now(), 'completed', 1, repeat('x', 500), now() FROM generate_series(1, 30000)});
value($node, 'work', 'ANALYZE jobq.jobs');
my $more = blocks();
cmp_ok($more, '<', $few + 200, "and with 30,000 kept jobs it reads $more");
value($node, 'work', q{SET session_replication_role = replica; DELETE FROM jobq.jobs WHERE queue = 'bulk'});

# ---- random load

settings($node, 'jobq.max_metric_series = 6', 'jobq.enabled = on');
$node->restart;
$begin->();
my $until = time + ($ENV{JOBQ_METRICS_SECONDS} // 8);
my $act = q{
CREATE PROCEDURE pg_temp.act(seed int) LANGUAGE plpgsql AS $$
DECLARE
    q text := 'load ' || seed % 3;
    k text := 'k' || seed % 4;
    many int := 1 + floor(random() * 5)::int;
BEGIN
    CASE floor(random() * 12)::int
        WHEN 0, 1, 2 THEN PERFORM jobq_enqueue_many(q, array_fill('{}'::jsonb, ARRAY[many]), kind => k);
        WHEN 3 THEN PERFORM jobq_enqueue(q, kind => k, unique_key => 'u' || seed % 5, on_conflict => 'replace');
        WHEN 4, 5 THEN PERFORM jobq_complete(c.id, c.lease) FROM jobq_claim(q, batch => many) c;
        WHEN 6 THEN PERFORM jobq_fail(c.id, c.lease, 'e', random() * interval '1 s', random() < 0.7) FROM jobq_claim(q, batch => many) c;
        WHEN 7 THEN PERFORM jobq_release(c.id, c.lease) FROM jobq_claim(q, batch => many) c;
        WHEN 8 THEN PERFORM jobq_claim(q, batch => many, heartbeat_timeout => '200 ms');
        WHEN 9 THEN PERFORM jobq_cancel_jobs(q, max_jobs => many);
        WHEN 10 THEN PERFORM jobq_retry_jobs(q, statuses => '{failed,cancelled,completed}', max_jobs => many);
        ELSE DELETE FROM jobq.jobs WHERE id IN (SELECT id FROM jobq.jobs WHERE queue = q LIMIT many FOR UPDATE SKIP LOCKED);
    END CASE;
END $$;
};
my @clients = map { start_random_client($node, $act, $until) } 1 .. 6;
is(join('', end_random_clients(@clients)), '', 'no client reported an error');
settings($node, 'jobq.enabled = off');
$node->reload;
becomes_true($node, 'postgres', q{SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'jobq worker')}, 'all workers have exited');
right('the laws hold after a random load');
value($node, 'work', q{SELECT jobq_enqueue('overdue'); SELECT jobq_cancel(id) FROM jobq_claim('overdue')});
becomes_true($node, 'work', q{SELECT value BETWEEN 0 AND 1e6 FROM jobq_metrics() WHERE name = 'jobq_round_overdue_seconds'}, 'the round for a cancellation is overdue since the cancellation was requested');
is(value($node, 'work', q{SELECT next_round > now() - interval '1 day' FROM jobq.background_workers WHERE database = 'work'}), 't', 'jobq.background_workers shows the same time for the next round');
cmp_ok(total('jobs_enqueued_total', '{"overflow": "true"}'), '>', 0, 'some jobs are counted as overflow');
cmp_ok(total('jobs_claimed_total'), '>', 20, 'there was a load');
is(total('missed_transactions_total'), '0', 'no transaction was missed');
diag(sprintf '%d jobs enqueued, %d claimed', total('jobs_enqueued_total'), total('jobs_claimed_total'));

done_testing();
