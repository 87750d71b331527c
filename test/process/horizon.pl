# The horizon: what a look at all running jobs has found is known to every later tick, by hand too, until it has come. It
# must not be told of by a tick that could not see all of them.
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

# ---- known

my $looked = '0 rescued, 0 cancelled, looked';
my $knew = '0 rescued, 0 cancelled, knew';
is(work('SELECT tick()'), $looked, 'the first tick looks at all of them');
is(work('SELECT tick()'), $knew, 'the next knows');
is(work('BEGIN; SELECT tick(); SELECT tick(); ROLLBACK'), "$knew\n$knew", 'so does one in a transaction');
is(work(q{SELECT tick('2 minutes')}), $looked, 'when the horizon has come, one looks again');
work(q{SELECT jobq_enqueue('short'); SELECT jobq_claim('short')});
is(work(q{SELECT pg_sleep(0.05); SELECT tick()}), "\n1 rescued, 0 cancelled, looked", 'a claim lowers it');
work('SELECT tick()');
is(work('SELECT tick()'), $knew, 'known again');

# ---- not known to all: what was seen was not what is there

sub expired { return work(q{SELECT pg_sleep(0.05); SELECT tick()}); }

work(q{SELECT jobq_retry_jobs('short'); SELECT jobq_reschedule_jobs('short', clock_timestamp()); SELECT jobq_claim('short')});
work(q{SELECT pg_sleep(0.05); BEGIN; SAVEPOINT s; SELECT tick(); ROLLBACK TO s; COMMIT});
is(work('SELECT tick()'), '1 rescued, 0 cancelled, looked', 'a tick that is rolled back to a savepoint tells nothing');
work('SELECT tick()');

work(q{BEGIN; SELECT tick('2 minutes'); SAVEPOINT s; SELECT 1; ROLLBACK TO s; COMMIT});
is(work('SELECT tick()'), $knew, 'a savepoint that began after it does not matter');
work(q{BEGIN; SELECT tick('2 minutes'); ROLLBACK});
is(work('SELECT tick()'), $looked, 'nor does a tick tell anything that is rolled back');
is(work('SELECT tick()'), $knew, 'but the next one does');

my $old = session($node, 'work');
$old->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
work(q{SELECT jobq_enqueue('short'); SELECT jobq_claim('short')});
like($old->query('SELECT tick()'), qr/0 rescued/, 'a tick in REPEATABLE READ does not see what was claimed after it began');
$old->query('COMMIT');
like(expired(), qr/1 rescued/, 'and says nothing of it');
work('SELECT tick()');

my $open = session($node, 'work');
$open->query(q{BEGIN; SELECT jobq_enqueue('short'); SELECT id FROM jobq_claim('short')});
work('SELECT tick()');
is(work('SELECT tick()'), $knew, 'a claim that has not been committed is not seen');
$open->query('COMMIT');
like(expired(), qr/1 rescued/, 'and lowers the horizon when it is');

$open->query(q{BEGIN; SELECT jobq_enqueue('short'); SELECT id FROM jobq_claim('short')});
$old->query('BEGIN');
like($old->query(q{SELECT tick('2 minutes')}), qr/looked/, 'a tick looks while another is open');
$open->query('COMMIT');
$old->query('COMMIT');
like(expired(), qr/1 rescued/, 'and, committed after that, does not raise the horizon again');
work('SELECT tick(); SELECT tick()');

# ---- a heartbeat from the future is pulled back: the lease runs out earlier than the tick has seen

# After a start heartbeats are doubted.
end_sessions($old, $open);
$node->restart;
work(q{SELECT jobq_enqueue('short'); SELECT jobq_claim('short'); UPDATE jobq.jobs SET last_heartbeat = now() + interval '1 day' WHERE queue = 'short' AND status = 'processing'});
work('SELECT tick()');
is(work(q{SELECT last_heartbeat <= clock_timestamp() FROM jobq.jobs WHERE queue = 'short' AND status = 'processing'}), 't', 'pulled back');
like(expired(), qr/1 rescued/, 'and rescued in time');
work('SELECT tick(); SELECT tick()');

# ---- cancellations: the time is known at which they were asked for, the grace is the reader's

work(q{SELECT jobq_cancel(min(id)) FROM jobq.jobs WHERE queue = 'q'});
is(work(q{SET jobq.cancel_grace = '1 h'; SELECT tick()}), $looked, 'one is asked to cancel');
is(work(q{SET jobq.cancel_grace = '1 h'; SELECT tick()}), $knew, 'which ends an hour later');
is(work(q{SET jobq.cancel_grace = 0; BEGIN; SELECT tick(); ROLLBACK}), '0 rescued, 1 cancelled, looked', 'at once for a session with another grace');
is(work(q{SET jobq.cancel_grace = 0; SELECT tick()}), '0 rescued, 1 cancelled, looked', 'and again, since it was rolled back');
work('SET jobq.cancel_grace = 0; SELECT tick()');
is(work(q{SET jobq.cancel_grace = 0; SELECT tick()}), $knew, 'when it has ended, no tick looks for it');

unlike(log_since($node), qr/(?:PANIC|TRAP|terminated by signal|XX000|cache lookup failed)/, 'no crash, no internal error');
done_testing();
