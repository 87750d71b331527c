# Tests the gauges of the tables in shared memory: the entries in use, the capacity, and the evictions from a table that is too
# small. An eviction neither loses a job nor delays it forever.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqSleep;
use JobqTest;
use Test::More;

my $node = preloaded('shared_memory', conf => [
        'max_connections = 50', 'max_prepared_transactions = 10', 'jobq.max_tracked_lanes = 8', 'jobq.max_young_leases = 8', 'jobq.max_limits = 8',
        'jobq.max_counted_queues = 20', 'jobq.max_metric_series = 30' ]);
database($node, 'work');
sub work { return value($node, 'work', $_[0]); }
sub usage { my ($name, $part) = @_; return work(qq{SELECT value FROM jobq_metrics() WHERE name = 'jobq_shared_memory_$name' AND labels = '{"part": "$part"}'}); }
sub entries { return usage('entries', $_[0]); }
sub evictions { return usage('evictions_total', $_[0]); }

sub evicts
{
    my ($part, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return cmp_ok(evictions($part), '>', 0, "$part: $name");
}

# ---- the parts and their capacity

# The number of sessions also includes processes that PostgreSQL adds to max_connections.
my $sessions = work(q{SELECT setting::int + current_setting('autovacuum_max_workers')::int + 1 + current_setting('max_worker_processes')::int
    + current_setting('max_wal_senders')::int FROM pg_settings WHERE name = 'max_connections'});
my %capacity = (
    databases => 128, executors => 64, notices => 128 * 32, 'round robin' => 1024, 'line starts' => 8192, 'awaited jobs' => 16384, unblocked => 32768,
    'recent filters' => 512, 'connected workers' => 512, 'wake notes' => 1024, 'throttled ranges' => 64, waiters => $sessions, 'job waiters' => $sessions, prepared => 10 + $sessions,
    'empty ranges' => 8, 'young leases' => 8, limits => 8, counters => 20, totals => 30);
my $told = work(q{SELECT string_agg(concat_ws('=', labels->>'part', value), ', ' ORDER BY labels->>'part') FROM jobq_metrics() WHERE name = 'jobq_shared_memory_capacity'});
is($told, join(', ', map { "$_=$capacity{$_}" } sort keys %capacity), 'the capacity of each table follows from the settings');
is(work(q{SELECT string_agg(substr(name, 6), ', ' ORDER BY name) FROM pg_shmem_allocations a
          WHERE name LIKE 'jobq %' AND NOT EXISTS (SELECT FROM jobq_metrics() m WHERE m.name = 'jobq_shared_memory_entries' AND 'jobq ' || (m.labels->>'part') = a.name)}),
    'data directory, evictions, recent claims, successions', 'the other parts have no entries');
is(work(q{SELECT sum(value) FROM jobq_metrics() WHERE name = 'jobq_shared_memory_evictions_total'}), '0', 'there have been no evictions');

# ---- entries in use

is(entries('databases'), 1, 'databases: one entry');
my $sleeper = sleeper($node);
start($sleeper, q{CALL jobq_wait('asleep', '5 min')});
becomes_true($node, 'work', q{SELECT value = 1 FROM jobq_metrics() WHERE name = 'jobq_shared_memory_entries' AND labels->>'part' = 'waiters'}, 'waiters: one entry per session that waits for jobs');
work(q{SELECT jobq_enqueue('asleep')});
wakes($sleeper, 'the session is woken up');
$sleeper->{session}->quit;
is(entries('waiters'), 0, 'waiters: the entry is freed');
is(entries('counters'), 1, 'counters: one entry per queue');
is(entries('totals'), 1, 'totals: one entry per queue and kind');
work(q{BEGIN; SELECT jobq_enqueue('prepared'); PREPARE TRANSACTION 'one'});
is(entries('prepared'), 1, 'prepared: one entry per transaction');
work(q{COMMIT PREPARED 'one'});
becomes_true($node, 'work', q{SELECT value = 0 FROM jobq_metrics() WHERE name = 'jobq_shared_memory_entries' AND labels->>'part' = 'prepared'}, 'prepared: the entry is freed');
work(q{SELECT jobq_set_limit('limited', '*', rate => 1, per => '1 h')});
work(q{SELECT jobq_enqueue('limited', concurrency_key => 'k')});
work(q{SELECT count(*) FROM jobq_claim('limited')});
cmp_ok(entries('limits'), '>=', 1, 'limits: one entry per key');
work(q{SELECT jobq_wake('nobody')});
is(entries('wake notes'), 1, 'wake notes: one entry per worker that was woken and is not waiting');

# ---- tables that are too small

work(q{SELECT count(jobq_enqueue('limited', concurrency_key => 'k' || n)) FROM generate_series(1, 100) n});
work(q{SELECT count(*) FROM jobq_claim('limited', batch => 100)});
evicts('limits', 'buckets that are not full are evicted');
is(entries('limits'), 8, 'limits: all entries are used');

work(q{SELECT count(*) FROM jobq_enqueue_many('young', array_fill('{}'::jsonb, '{100}'))});
becomes_true($node, 'work', q{WITH c AS MATERIALIZED (SELECT count(*) FROM jobq_claim('young', batch => 20, heartbeat_timeout => '1 h'))
    SELECT value > 0 FROM c, jobq_metrics() WHERE name = 'jobq_shared_memory_evictions_total' AND labels->>'part' = 'young leases'}, 'young leases: more claims than entries');

work(q{SELECT count(jobq_enqueue('kinds', kind => 'k' || n % 20)) FROM generate_series(1, 2000) n});
work(qq{DO \$\$ BEGIN FOR n IN 1..400 LOOP PERFORM jobq_complete(id, lease) FROM jobq_claim('kinds', kinds => ARRAY['k' || n % 20], batch => 10); COMMIT; END LOOP; END \$\$});
evicts('empty ranges', 'more lanes than entries');
is(entries('empty ranges'), 8, 'empty ranges: all entries are used');

work(q{SELECT count(jobq_enqueue('queue ' || n)) FROM generate_series(1, 60) n});
evicts('counters', 'more queues than entries');
is(entries('counters'), 20, 'counters: all entries are used');
is(entries('totals'), 30, 'totals: all entries are used');
is(evictions('totals'), '', 'totals: nothing is evicted, because further kinds are counted together');
evicts('notices', 'more queues than a notification names');

work(q{SELECT count(jobq_wake('worker ' || n)) FROM generate_series(1, 1100) n});
evicts('wake notes', 'more workers than entries');
is(entries('wake notes'), 1024, 'wake notes: all entries are used');
work(q{SELECT count(*) FROM generate_series(1, 600) n, LATERAL jobq_claim('filters', kinds => ARRAY['k' || n])});
evicts('recent filters', 'more filters than entries');
is(work(q{SELECT count(b) FROM generate_series(1, 600) n LEFT JOIN LATERAL jobq_heartbeat_many('{}', '{}', jsonb_build_object('worker_id', 'w' || n, 'queues', '{q}'::text[], 'expires_in', '1 d')) b ON true}),
    '0', 'connected workers: more workers than entries');
evicts('connected workers', 'more workers than entries');
is(work(q{SELECT count(*) FROM jobq_workers()}), '512', 'connected workers: all entries are used');

is(work(q{SELECT string_agg(DISTINCT e.labels->>'part', ', ') FROM jobq_metrics() e JOIN jobq_metrics() c USING (labels)
          WHERE e.name = 'jobq_shared_memory_entries' AND c.name = 'jobq_shared_memory_capacity' AND e.value NOT BETWEEN 0 AND c.value}), '', 'no table has more entries than its capacity');

# ---- after a restart

settings($node, 'jobq.max_tracked_lanes = 1000');
$node->restart;
is(evictions('wake notes'), 0, 'a restart resets the evictions');

# ---- evictions after which claims and the background worker have to search

# Nine queues whose positions are in the same set, which has eight entries. Each claim needs the position of another queue.
work(q{CREATE TABLE turns AS SELECT 'turns ' || n AS queue FROM generate_series(1, 100000) n
    WHERE hashtextextended('turns ' || n, (SELECT oid::bigint FROM pg_database WHERE datname = 'work')) & 127 = 0 LIMIT 9});
work(q{SELECT jobq_create_queue(queue, round_robin => true) FROM turns});
work(q{SELECT count(jobq_enqueue(queue, concurrency_key => key)) FROM turns, unnest('{a,b,c}'::text[]) key, generate_series(1, 3)});
for my $claim (1 .. 3)
{
    is(work(q{SELECT string_agg(keys, ' ') FROM turns, LATERAL (SELECT string_agg(j.concurrency_key, '' ORDER BY j.concurrency_key) AS keys
        FROM jobq_claim(queue, batch => 3, heartbeat_timeout => '1 h') c JOIN jobq.jobs j USING (id)) k}), join(' ', ('abc') x 9),
        "round robin: claim $claim of each queue returns one job of each key");
}
evicts('round robin', 'more queues than entries in a set');
is(entries('round robin'), 8, 'round robin: all entries of the set are used');

# While a session holds the lock that a process needs to unblock jobs, the list of unblocked groups becomes longer than a database may
# make it.
my $promoter = session($node, 'work');
$promoter->query_safe('BEGIN');
$promoter->query_safe(q{DO $$ BEGIN LOOP
    PERFORM jobq_tick();
    EXIT WHEN EXISTS (SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'object' AND objid = 'jobq.jobs'::regclass AND mode = 'ExclusiveLock');
END LOOP; END $$});
# Every second time, the groups are in the opposite order, so that the jobs at the beginnings of two lines are in any order.
for my $job (1 .. 9)
{
    my $order = $job % 2 ? 'ASC' : 'DESC';
    work(qq{SELECT count(*) FROM jobq_enqueue_many('lines', array_fill('$job'::jsonb, '{1000}'), group_keys => ARRAY(SELECT 'g' || n FROM generate_series(1, 1000) n ORDER BY n $order))});
}
evicts('unblocked', 'more unblocked groups than one database may list');
cmp_ok(entries('unblocked'), '<=', 8192, 'unblocked: a database uses at most a quarter of the entries');
$promoter->query_safe('COMMIT');
end_sessions($promoter);
sub heads_are
{
    my ($job, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return becomes_true($node, 'work', qq{SELECT count(*) = 1000 AND bool_and(payload = '$job') FROM jobq.jobs WHERE queue = 'lines' AND status = 'pending'}, $name);
}
heads_are(1, 'unblocked: the first job of each group becomes the head');

# Several of the 1000 groups share an entry.
for my $job (2, 3)
{
    work(q{DO $$ BEGIN FOR n IN 1..10 LOOP PERFORM jobq_complete(id, lease) FROM jobq_claim('lines', batch => 100); COMMIT; END LOOP; END $$});
    heads_are($job, "line starts: job $job of each group becomes the head");
}
evicts('line starts', 'two groups that share an entry');

# A job awaits more jobs than the table has entries. Jobs that depend on further jobs find no room in it.
work(q{SELECT count(*) FROM jobq_enqueue_many('awaited', array_fill('{}'::jsonb, '{16500}'), run_at => '2100-01-01'); SELECT jobq_enqueue('awaits')});
is(work(q{SELECT state FROM jobq_claim('awaits', heartbeat_timeout => '1 h') c,
    LATERAL jobq_await_jobs(c.id, c.lease, ARRAY(SELECT id FROM jobq.jobs WHERE queue = 'awaited'), 'first', 'any')}), 'waiting', 'awaited jobs: a job waits');
sub gauge_becomes
{
    my ($gauge, $condition, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return becomes_true($node, 'work', qq{SELECT value $condition FROM jobq_metrics() WHERE name = 'jobq_shared_memory_$gauge' AND labels->>'part' = 'awaited jobs'}, "awaited jobs: $name");
}
gauge_becomes('entries', '= 16384 - 128', 'all entries are used, except those that are reserved for databases');
gauge_becomes('evictions_total', '>= 100', 'more jobs than entries');
my $before = evictions('awaited jobs');
work(q{SELECT count(*) FROM jobq_enqueue_jobs((SELECT jsonb_agg(spec) FROM generate_series(1, 200) n,
    LATERAL (VALUES (jsonb_build_object('queue', 'needed', 'ref', n::text)), (jsonb_build_object('queue', 'needs', 'depends_on', jsonb_build_array('@' || n)))) s(spec)))});
gauge_becomes('evictions_total', ">= $before + 200", 'there is no room for further jobs');
is(work(q{SELECT count(jobq_complete(id, lease)) FROM jobq_claim('needed', batch => 200)}), '200', 'awaited jobs: the further jobs are completed');
becomes_true($node, 'work', q{SELECT count(*) = 200 FROM jobq.jobs WHERE queue = 'needs' AND status = 'pending'}, 'awaited jobs: the jobs that depend on them can run');
# Another database still gets an entry, because otherwise the jobs of all databases would count as awaited until the next restart.
database($node, 'second');
value($node, 'second', q{SELECT count(*) FROM jobq_enqueue_jobs('[{"queue": "a", "ref": "first"}, {"queue": "b", "depends_on": ["@first"]}]')});
gauge_becomes('entries', '= 16384 - 128 + 1', 'another database finds room');
work(q{SELECT jobq_cancel(max(id)) FROM jobq.jobs WHERE queue = 'awaited'});
becomes_true($node, 'work', q{SELECT status = 'pending' FROM jobq.jobs WHERE queue = 'awaits'}, 'awaited jobs: the job that waited can run');

# The third claim in a lane stores a range, because the first takes a job and the second starts to record keys.
work(q{SELECT jobq_set_limit('throttled', '*', max_running => 1)});
work(q{SELECT count(*) FROM generate_series(1, 70) n, LATERAL jobq_enqueue_many('throttled', array_fill('{}'::jsonb, '{40}'), kind => 'k' || n, concurrency_keys => array_fill('k' || n, '{40}'))});
my $claims = q{SELECT count(*) FROM generate_series(1, 70) n, LATERAL jobq_claim('throttled', kinds => ARRAY['k' || n], heartbeat_timeout => '1 h')};
is(work($claims), '70', 'throttled ranges: one job of each key runs');
becomes_true($node, 'work', qq{WITH c AS MATERIALIZED ($claims) SELECT value > 0 FROM c, jobq_metrics() WHERE name = 'jobq_shared_memory_evictions_total' AND labels->>'part' = 'throttled ranges'},
    'throttled ranges: more lanes than entries');
is(work($claims), '0', 'throttled ranges: no other job can run');
is(entries('throttled ranges'), 64, 'throttled ranges: all entries are used');
is(work(q{SELECT count(jobq_complete(id, lease)) FROM jobq.jobs WHERE queue = 'throttled' AND status = 'processing'}), '70', 'throttled ranges: the jobs are completed');
is(work($claims), '70', 'throttled ranges: the next job of each key runs');

# ---- tables that settings switch off

settings($node, 'jobq.max_counted_queues = 0', 'jobq.max_metric_series = 0', 'max_prepared_transactions = 0');
$node->restart;
is(work(q{SELECT count(*) FROM jobq_metrics() WHERE labels->>'part' IN ('counters', 'totals', 'prepared')}), '0', 'tables that settings have switched off are not reported');

done_testing();
