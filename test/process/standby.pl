# A standby: what writes fails with 25006, nothing runs. After its promotion everything runs, and leases from before get
# their grace.
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

# Prepared when the standby runs already: nobody there has a callback for it.
value($primary, 'work', q{BEGIN; SELECT jobq_enqueue('promised'); PREPARE TRANSACTION 'promised'});
value($primary, 'work', q{SELECT jobq_set_limit('promised', max_running => 1), jobq_enqueue('promised', kind => 'held')});
value($primary, 'work', q{BEGIN; SELECT count(*) FROM jobq_claim('promised', kinds => '{held}'); PREPARE TRANSACTION 'held'});
value($primary, 'work', q{SELECT jobq_set_limit('rate', rate => 1000, per => '1000 s'), jobq_enqueue_many('rate', array_fill('{}'::jsonb, ARRAY[1000]))});
$primary->wait_for_catchup($standby);

# ---- on the standby

my @writes = (
    q{jobq_enqueue('q')}, q{jobq_enqueue_many('q', ARRAY['1'::jsonb])},
    q{jobq_enqueue_jobs('[{"queue": "q"}]')}, q{jobq_claim('q')}, q{jobq_claim('nothing')}, q{jobq_claim_any('{q}')},
    qq{jobq_complete($job, 1)}, qq{jobq_complete_many('{$job}', '{1}')}, q{jobq_complete_and_claim('{}', '{}', queue => 'q')},
    qq{jobq_fail($job, 1)}, qq{jobq_fail_many('{$job}', '{1}')}, qq{jobq_heartbeat($job, 1)},
    qq{jobq_heartbeat_many('{$job}', '{1}')}, q{jobq_heartbeat_worker('w')}, q{jobq_wake('w')}, qq{jobq_release($job, 1)},
    qq{jobq_release_many('{$job}', '{1}')}, qq{jobq_snooze($job, '1 s', 1)}, qq{jobq_cancel($job)}, qq{jobq_retry($job)},
    qq{jobq_reschedule($job, 'tomorrow')}, qq{jobq_delete($job)}, q{jobq_cancel_jobs('q')}, q{jobq_retry_jobs('q')},
    q{jobq_reschedule_jobs('q', 'tomorrow')}, q{jobq_delete_jobs('q')}, q{jobq_create_queue('r')},
    q{jobq_alter_queue('q', 3)}, q{jobq_drop_queue('q', force => true)}, q{jobq_pause_queue('q')}, q{jobq_resume_queue('q')},
    q{jobq_purge_queue('q')}, q{jobq_tick()}, q{jobq_grant('pg_monitor', 'monitor')}, q{jobq_revoke('pg_monitor', 'monitor')});
for my $call (@writes)
{
    is(sqlstate($standby, 'work', "SELECT $call"), '25006', $call);
}
is(sqlstate($standby, 'work', q{CALL jobq_wait('q', '0 s')}), '25006', 'jobq_wait');
is(value($standby, 'work', "SELECT queue, status FROM jobq_get($job)"), 'kept|pending', 'jobq_get reads there');
is(sqlstate($standby, 'work', "CALL jobq_wait_job($job, '300 ms')"), '00000', 'jobq_wait_job waits there');
is(value($standby, 'work', "SELECT jobq_result($job) IS NULL"), 't', 'jobq_result reads');
is(value($standby, 'work', q{SELECT pending, oldest_pending_age > '0' FROM jobq.queue_stats WHERE queue = 'q'}), '5|t', 'so do the views');
is( value($standby, 'postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'jobq%'}),
    '0', 'no background worker runs');
my $report = value($standby, 'work', q{SELECT state, pid IS NULL, note FROM jobq.workers});
like($report, qr/^standby\|t\|.*promoted/, 'jobq.workers says why');

is(value($standby, 'work', q{SELECT tokens FROM jobq.limits WHERE queue = 'rate'}), '0', 'no job may start for a token of here');

# ---- promotion

# While this transaction may have given turns, nobody else does: the group arrives without one.
my $ticker = session($primary, 'work');
$ticker->query('BEGIN');
$ticker->query('SELECT count(*) FROM jobq_tick()');
value($primary, 'work', q{SELECT count(*) FROM jobq_enqueue_many('grouped', '{1,2}', group_keys => '{g,g}')});
value($primary, 'work', q{SELECT jobq_enqueue('later', run_at => clock_timestamp() + interval '1 s')});
value($primary, 'work', q{SELECT count(*) FROM jobq_claim('q', 'w', batch => 3)});
my ($back, $lease, $claimed_at) = split /\|/,
  value($primary, 'work', q{SELECT id, lease, extract(epoch FROM last_heartbeat) FROM jobq.jobs WHERE worker_id = 'w' LIMIT 1});
$primary->wait_for_catchup($standby);
is(value($standby, 'work', q{SELECT blocked FROM jobq.queue_stats WHERE queue = 'grouped'}), '2', 'a group without a turn has arrived');
$primary->stop('immediate');
$ticker->{run}->finish;
seconds_until(sub { time > $claimed_at + $timeout + 0.1 });
# A bucket that fills from the standby's start on has tokens by now.
becomes_true($standby, 'work', q{SELECT pg_postmaster_start_time() < clock_timestamp() - interval '6 seconds'}, 'the standby has been up for a while');

my $promoted_at = time;
$standby->promote;
my ($tokens, $claimed_after) = split /\|/, value($standby, 'work', qq{
    SELECT count(*), extract(epoch FROM clock_timestamp()) - $promoted_at FROM jobq_claim('rate', batch => 1000)});
report_seconds('jobs of a rate were claimed after the promotion was asked for', $claimed_after);
cmp_ok($tokens, '<=', $claimed_after, "a token a second, from the promotion on: $tokens");
becomes_true($standby, 'work', q{SELECT EXISTS (SELECT FROM jobq.workers WHERE database = 'work' AND rounds > 0)},
    'launcher and workers are active after the promotion');
my $active = time - $promoted_at;
report_seconds('first round after the promotion was asked for', $active);
in_time($active, 5, 'soon');
is(value($standby, 'work', "SELECT jobq_heartbeat($back, $lease)"), 'held', 'a worker that comes back has its lease still');
becomes_true($standby, 'work', q{SELECT status = 'pending' FROM jobq.jobs WHERE queue = 'later'}, 'delayed jobs are promoted');
becomes_true($standby, 'work', q{SELECT string_agg(status::text, ' ' ORDER BY id) = 'pending blocked' FROM jobq.jobs WHERE queue = 'grouped'},
    'the group has its first turn');
becomes_true($standby, 'work', q{SELECT count(*) >= 2 FROM jobq.attempts WHERE outcome = 'lost' AND worker_id = 'w'},
    'the leases of those who do not come back are rescued');
my ($first, $last) = split /\|/, value($standby, 'work', qq{
    SELECT extract(epoch FROM min(finished_at)) - $promoted_at, extract(epoch FROM max(finished_at)) - $promoted_at
    FROM jobq.attempts WHERE outcome = 'lost' AND worker_id = 'w' AND job_id <> $back});
report_seconds("their leases were rescued after the promotion, heartbeat timeout $timeout s", $last);
cmp_ok($first, '>=', $timeout, 'but not before one heartbeat timeout of grace');
in_time($last, $timeout + 5, 'and soon after it');
ok(value($standby, 'work', q{SELECT jobq_enqueue('q')}) > $job, 'it takes jobs');

# ---- what was prepared on the primary

my $promised = q{FROM jobq.queue_stats WHERE queue = 'promised'};
becomes_true($standby, 'work', "SELECT source = 'counters' $promised", 'counted after the promotion');
is(value($standby, 'work', q{SELECT count(*) FROM jobq_claim('promised'); SELECT count(*) FROM jobq_claim('promised')}), "0\n0", 'nothing but what is prepared');
value($standby, 'work', q{COMMIT PREPARED 'promised'});
is(value($standby, 'work', "SELECT pending, processing $promised"), '2|0', 'committed after the promotion: the counters are right');
is(value($standby, 'work', q{SELECT count(*) FROM jobq_claim('promised')}), '0', 'its limit is full');
value($standby, 'work', q{ROLLBACK PREPARED 'held'});
is(value($standby, 'work', q{SELECT kind FROM jobq_claim('promised')}), '', 'rolled back after it, the place is free at once');
is(value($standby, 'work', "SELECT pending, processing $promised"), '1|1', 'and the counters are right');

unlike(log_since($standby), qr/(?:PANIC|TRAP|terminated by signal)/, 'no crash');

done_testing();
