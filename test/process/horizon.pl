# Tests the horizon: after a scan of all running jobs, all later ticks, including jobq_tick(), know the time until which there is
# nothing to do. A tick that could not see all running jobs must not publish a horizon.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = preloaded('horizon', conf => [ 'jobq.enabled = off', 'autovacuum = off', 'max_prepared_transactions = 10' ]);
database($node, 'work');
sub work { return value($node, 'work', shift); }

my $jobs = 500;
work(<<'SQL');
CREATE FUNCTION tick(later interval DEFAULT '0') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    rescue_index oid := 'jobq.jobs_running_idx'::regclass;
    before bigint := pg_stat_get_xact_tuples_returned(rescue_index);
    rescued bigint;
    cancelled bigint;
    reads bigint;
BEGIN
    SELECT sum(done) FILTER (WHERE duty = 'rescue'), sum(done) FILTER (WHERE duty = 'cancel') INTO rescued, cancelled
    FROM jobq_tick(clock_timestamp() + later);
    reads := pg_stat_get_xact_tuples_returned(rescue_index) - before;
    RETURN format('%s rescued, %s cancelled, %s', rescued, cancelled, CASE WHEN reads >= 500 THEN 'looked' ELSE 'knew' END);
END $$;
SELECT jobq_create_queue('q', max_lost => 1000), jobq_create_queue('short', heartbeat_timeout => '10 ms', max_lost => 1000);
SQL
work("SELECT count(*) FROM jobq_enqueue_many('q', array_fill('{}'::jsonb, ARRAY[$jobs]))");
is(work(q{SELECT count(*), count(j._rescue_indexed) FROM jobq_claim('q', 'w', batch => 1000, heartbeat_timeout => '1 hour') c JOIN jobq.jobs j USING (id)}),
    "$jobs|0", 'jobs are running');

# ---- a known horizon

my $looked = '0 rescued, 0 cancelled, looked';
my $knew = '0 rescued, 0 cancelled, knew';
is(work('SELECT tick()'), $looked, 'the first tick scans all running jobs');
is(work('SELECT tick()'), $knew, 'the next tick knows the horizon');
is(work('BEGIN; SELECT tick(); SELECT tick(); ROLLBACK'), "$knew\n$knew", 'ticks in a transaction know the horizon');
is(work(q{SELECT tick('2 minutes')}), $looked, 'when the horizon has passed, a tick scans again');
work(q{SELECT jobq_enqueue('short'); SELECT jobq_claim('short')});
is(work(q{SELECT pg_sleep(0.05); SELECT tick()}), "\n1 rescued, 0 cancelled, looked", 'a claim lowers the horizon');
work('SELECT tick()');
is(work('SELECT tick()'), $knew, 'the horizon is known again');

# ---- a horizon that must not be published because the tick did not see the current state

sub expired { return work(q{SELECT pg_sleep(0.05); SELECT tick()}); }

work(q{SELECT jobq_retry_jobs('short'); SELECT jobq_reschedule_jobs('short', clock_timestamp()); SELECT jobq_claim('short')});
work(q{SELECT pg_sleep(0.05); BEGIN; SAVEPOINT s; SELECT tick(); ROLLBACK TO s; COMMIT});
is(work('SELECT tick()'), '1 rescued, 0 cancelled, looked', 'a tick that is rolled back to a savepoint publishes no horizon');
work('SELECT tick()');

work(q{BEGIN; SELECT tick('2 minutes'); SAVEPOINT s; SELECT 1; ROLLBACK TO s; COMMIT});
is(work('SELECT tick()'), $knew, 'a later savepoint that is rolled back does not affect the horizon of a tick');
work(q{BEGIN; SELECT tick('2 minutes'); ROLLBACK});
is(work('SELECT tick()'), $looked, 'a tick whose transaction is rolled back publishes no horizon');
is(work('SELECT tick()'), $knew, 'the next tick publishes its horizon');

my $old = session($node, 'work');
$old->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
work(q{SELECT jobq_enqueue('short'); SELECT jobq_claim('short')});
like($old->query('SELECT tick()'), qr/0 rescued/, 'a tick in REPEATABLE READ does not see claims that are newer than its snapshot');
$old->query('COMMIT');
like(expired(), qr/1 rescued/, 'and publishes no horizon');
work('SELECT tick()');

my $open = session($node, 'work');
$open->query(q{BEGIN; SELECT jobq_enqueue('short'); SELECT id FROM jobq_claim('short')});
work('SELECT tick()');
is(work('SELECT tick()'), $knew, 'a tick does not see an uncommitted claim');
$open->query('COMMIT');
like(expired(), qr/1 rescued/, 'the claim lowers the horizon when it commits');

$open->query(q{BEGIN; SELECT jobq_enqueue('short'); SELECT id FROM jobq_claim('short')});
$old->query('BEGIN');
like($old->query(q{SELECT tick('2 minutes')}), qr/looked/, 'a tick scans while a claim is open');
$open->query('COMMIT');
$old->query('COMMIT');
like(expired(), qr/1 rescued/, 'the tick commits after the claim and does not raise the horizon');
work('SELECT tick(); SELECT tick()');

# ---- a heartbeat in the future is corrected, so the lease expires earlier than the tick has seen

# The tick checks heartbeats after a restart.
end_sessions($old, $open);
$node->restart;
work(q{SELECT jobq_enqueue('short'); SELECT jobq_claim('short'); UPDATE jobq.jobs SET last_heartbeat = now() + interval '1 day' WHERE queue = 'short' AND status = 'processing'});
work('SELECT tick()');
is(work(q{SELECT last_heartbeat <= clock_timestamp() FROM jobq.jobs WHERE queue = 'short' AND status = 'processing'}), 't', 'the heartbeat is corrected');
like(expired(), qr/1 rescued/, 'the job is rescued in time');
work('SELECT tick(); SELECT tick()');

# ---- cancellations: the horizon stores the time of the request, and each tick adds the grace period of its session

work(q{SELECT jobq_cancel(min(id)) FROM jobq.jobs WHERE queue = 'q'});
is(work(q{SET jobq.cancel_grace = '1 h'; SELECT tick()}), $looked, 'the cancellation of a running job is requested');
is(work(q{SET jobq.cancel_grace = '1 h'; SELECT tick()}), $knew, 'its grace period ends an hour later');
is(work(q{SET jobq.cancel_grace = 0; BEGIN; SELECT tick(); ROLLBACK}), '0 rescued, 1 cancelled, looked', 'a session with another grace period cancels the job at once');
is(work(q{SET jobq.cancel_grace = 0; SELECT tick()}), '0 rescued, 1 cancelled, looked', 'the job is cancelled again after a rollback');
work('SET jobq.cancel_grace = 0; SELECT tick()');
is(work(q{SET jobq.cancel_grace = 0; SELECT tick()}), $knew, 'after the job has ended, ticks do not look for it');

unlike(log_since($node), qr/(?:PANIC|TRAP|terminated by signal|XX000|cache lookup failed)/, 'no crash, no internal error');
done_testing();
