# Tests a standby: functions that write fail with 25006, and no worker runs. After its promotion everything works, and leases from
# before the promotion get a grace period.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use JobqTime;
use PostgreSQL::Test::Cluster;
use Test::More;
use Time::HiRes qw(time);

my $timeout = 15;
my $primary = preloaded('primary', init => { allows_streaming => 1 }, conf => ['max_connections = 20', 'max_prepared_transactions = 10']);
database($primary, 'work');
value($primary, 'work', qq{SELECT jobq_create_queue('q', heartbeat_timeout => '$timeout s')});
value($primary, 'work', q{SELECT count(*) FROM jobq_enqueue_many('q', array_fill('{}'::jsonb, ARRAY[5]))});

$primary->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'copy', has_streaming => 1);
$standby->start;
my $job = value($primary, 'work', q{SELECT jobq_enqueue('kept')});
$primary->wait_for_catchup($standby);

# These transactions are prepared while the standby is running, so no process on the standby has a callback for them.
value($primary, 'work', q{BEGIN; SELECT jobq_enqueue('promised'); PREPARE TRANSACTION 'promised'});
value($primary, 'work', q{SELECT jobq_set_limit('promised', max_running => 1), jobq_enqueue('promised', kind => 'held')});
value($primary, 'work', q{BEGIN; SELECT count(*) FROM jobq_claim('promised', kinds => '{held}'); PREPARE TRANSACTION 'held'});
value($primary, 'work', q{SELECT jobq_set_limit('rate', rate => 1000, per => '1000 s'), jobq_enqueue_many('rate', array_fill('{}'::jsonb, ARRAY[1000]))});
$primary->wait_for_catchup($standby);

# ---- on the standby

# Every function and procedure with arguments for a call, and whether it may write. The functions in @reads are volatile but do not
# write.
my @reads = qw(jobq_explain jobq_explain_queue jobq_access jobq_workers jobq_workers_wanted jobq_metrics jobq_prometheus jobq_wait_job);
my @functions = split /\n/, value($standby, 'work', qq{
    SELECT p.proname, p.provolatile = 'v', CASE p.prokind WHEN 'p' THEN 'CALL ' ELSE 'SELECT ' END || p.proname || '(' ||
           coalesce(string_agg(format('%s => %L::%s', a.name, CASE WHEN a.name = 'queue' THEN 'q' WHEN a.name = 'job_id' THEN '$job' WHEN a.name = 'timeout' THEN '300 ms'
                                      WHEN a.name = 'cron' THEN '\@daily' WHEN a.name = 'role' THEN 'pg_monitor' WHEN a.name = 'profile' THEN 'monitor' WHEN a.name = 'specs' THEN '[{"queue": "q"}]'
                                      WHEN a.name = 'options' THEN '{}' WHEN t.type = 'timestamp with time zone' THEN 'tomorrow' WHEN t.type = 'interval' THEN '1 s'
                                      WHEN t.type LIKE '%[]' THEN '{1}' WHEN t.type = 'regprocedure' THEN 'now()' ELSE '1' END, t.type), ', ' ORDER BY a.n) FILTER (WHERE a.n IS NOT NULL), '') || ')'
    FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid
         LEFT JOIN LATERAL unnest(p.proargnames[:p.pronargs], p.proargtypes::oid[]) WITH ORDINALITY a(name, oid, n) ON a.n <= p.pronargs - p.pronargdefaults OR a.name = 'timeout'
         LEFT JOIN LATERAL format_type(a.oid, NULL) t(type) ON true
    WHERE d.classid = 'pg_proc'::regclass AND d.deptype = 'e' AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'jobq') AND p.pronamespace <> 'jobq'::regnamespace
    GROUP BY p.oid ORDER BY p.proname});
cmp_ok(scalar @functions, '>', 40, scalar(@functions) . ' functions are called');
for my $line (@functions)
{
    my ($name, $volatile, $call) = split /\|/, $line, 3;
    my $writes = $volatile eq 't' && !grep { $_ eq $name } @reads;
    is(sqlstate($standby, 'work', $call), $writes ? '25006' : '00000', $call);
}
for my $view (split /\n/, value($standby, 'work', q{SELECT oid::regclass FROM pg_class WHERE relnamespace = 'jobq'::regnamespace AND relkind = 'v' ORDER BY 1}))
{
    is(sqlstate($standby, 'work', "SELECT * FROM $view"), '00000', "$view can be read");
}
is(value($standby, 'work', "SELECT queue, status FROM jobq_get($job)"), 'kept|pending', 'jobq_get works on a standby');
is(value($standby, 'work', "SELECT jobq_result($job) IS NULL"), 't', 'jobq_result works on a standby');
is(value($standby, 'work', q{SELECT pending, oldest_pending_age > '0' FROM jobq.queue_stats WHERE queue = 'q'}), '5|t', 'the views work on a standby');
is( value($standby, 'postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'jobq%'}),
    '0', 'no background worker runs');
my $report = value($standby, 'work', q{SELECT state, pid IS NULL, note FROM jobq.background_workers});
like($report, qr/^standby\|t\|.*promoted/, 'jobq.background_workers says why');

is(value($standby, 'work', q{SELECT tokens FROM jobq.limits WHERE queue = 'rate'}), '0', 'a standby has no tokens of its own, so no job may start because of them');

# ---- promotion

# While this transaction may have made heads, no other session makes any, so the standby gets the group without a head.
my $ticker = session($primary, 'work');
$ticker->query('BEGIN');
$ticker->query('SELECT count(*) FROM jobq_tick()');
value($primary, 'work', q{SELECT count(*) FROM jobq_enqueue_many('grouped', '{1,2}', group_keys => '{g,g}')});
value($primary, 'work', q{SELECT jobq_enqueue('later', run_at => clock_timestamp() + interval '1 s')});
value($primary, 'work', q{SELECT count(*) FROM jobq_claim('q', 'w', batch => 3)});
my ($back, $lease, $claimed_at) = split /\|/,
  value($primary, 'work', q{SELECT id, lease, extract(epoch FROM last_heartbeat) FROM jobq.jobs WHERE worker_id = 'w' LIMIT 1});
$primary->wait_for_catchup($standby);
is(value($standby, 'work', q{SELECT blocked FROM jobq.queue_stats WHERE queue = 'grouped'}), '2', 'the standby gets a group without a head');
$primary->stop('immediate');
$ticker->{run}->finish;
seconds_until(sub { time > $claimed_at + $timeout + 0.1 });
# A bucket that filled from the start of the standby on would have tokens by now.
becomes_true($standby, 'work', q{SELECT pg_postmaster_start_time() < clock_timestamp() - interval '6 seconds'}, 'the standby has been up for a while');

my $promoted_at = time;
$standby->promote;
my ($tokens, $claimed_after) = split /\|/, value($standby, 'work', qq{
    SELECT count(*), extract(epoch FROM clock_timestamp()) - $promoted_at FROM jobq_claim('rate', batch => 1000)});
report_seconds('jobs of a rate were claimed after the promotion was asked for', $claimed_after);
cmp_ok($tokens, '<=', $claimed_after, "the bucket fills at one token per second, starting with the promotion: $tokens");
becomes_true($standby, 'work', q{SELECT EXISTS (SELECT FROM jobq.background_workers WHERE database = 'work' AND rounds > 0)},
    'launcher and workers are active after the promotion');
my $active = time - $promoted_at;
report_seconds('first round after the promotion was asked for', $active);
in_time($active, 5, 'within 5 s');
is(value($standby, 'work', "SELECT jobq_heartbeat($back, $lease)"), 'held', 'the lease of a worker that returns is held');
becomes_true($standby, 'work', q{SELECT status = 'pending' FROM jobq.jobs WHERE queue = 'later'}, 'delayed jobs are promoted');
becomes_true($standby, 'work', q{SELECT string_agg(status::text, ' ' ORDER BY id) = 'pending blocked' FROM jobq.jobs WHERE queue = 'grouped'},
    'the group has its first head');
becomes_true($standby, 'work', q{SELECT count(*) >= 2 FROM jobq.attempts WHERE outcome = 'lost' AND worker_id = 'w'},
    'the jobs of the silent workers are rescued');
my ($first, $last) = split /\|/, value($standby, 'work', qq{
    SELECT extract(epoch FROM min(finished_at)) - $promoted_at, extract(epoch FROM max(finished_at)) - $promoted_at
    FROM jobq.attempts WHERE outcome = 'lost' AND worker_id = 'w' AND job_id <> $back});
report_seconds("their leases were rescued after the promotion, heartbeat timeout $timeout s", $last);
cmp_ok($first, '>=', $timeout, 'not before a grace period of one heartbeat timeout');
in_time($last, $timeout + 5, 'and within 5 s after it');
ok(value($standby, 'work', q{SELECT jobq_enqueue('q')}) > $job, 'jobs can be enqueued');

# ---- transactions that were prepared on the primary

my $promised = q{FROM jobq.queue_stats WHERE queue = 'promised'};
becomes_true($standby, 'work', "SELECT source = 'counters' $promised", 'the jobs are counted after the promotion');
is(value($standby, 'work', q{SELECT count(*) FROM jobq_claim('promised'); SELECT count(*) FROM jobq_claim('promised')}), "0\n0", 'no other job is in the queue');
value($standby, 'work', q{COMMIT PREPARED 'promised'});
is(value($standby, 'work', "SELECT pending, processing $promised"), '2|0', 'the counters are right after COMMIT PREPARED on the promoted server');
is(value($standby, 'work', q{SELECT count(*) FROM jobq_claim('promised')}), '0', 'the prepared claim counts toward the limit');
value($standby, 'work', q{ROLLBACK PREPARED 'held'});
is(value($standby, 'work', q{SELECT kind FROM jobq_claim('promised')}), '', 'after ROLLBACK PREPARED, its slot is free at once');
is(value($standby, 'work', "SELECT pending, processing $promised"), '1|1', 'the counters are right after ROLLBACK PREPARED');

unlike(log_since($standby), qr/(?:PANIC|TRAP|terminated by signal)/, 'no crash');

done_testing();
