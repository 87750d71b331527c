# Tests that a preloaded server performs every duty by itself, in a database that was not announced to it: rescue, forced
# cancellation, promotion, prune, and repair. No client calls jobq_tick().
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use JobqTime;
use Test::More;

my $node = preloaded('duties', conf => ["jobq.cancel_grace = '500ms'"]);

like(value($node, 'postgres', q{SELECT setting FROM pg_settings WHERE name = 'jobq.tick_interval'}),
    qr/^1000$/, 'the tick interval is the default');

# ---- the server finds the database by itself

database($node, 'alpha');
becomes_true(
    $node, 'alpha',
    q{SELECT EXISTS (SELECT FROM jobq.background_workers WHERE database = 'alpha' AND last_round IS NOT NULL)},
    'a worker visits the database after CREATE EXTENSION');
ok(launcher_pid($node), 'the launcher runs');
is( value($node, 'alpha', 'SELECT pid FROM jobq.background_workers WHERE database IS NULL'),
    launcher_pid($node), 'jobq.background_workers has the pid of the launcher');

# ---- rescue: with the default tick interval, within the heartbeat timeout + 2 s

value($node, 'alpha', q{SELECT jobq_create_queue('short', heartbeat_timeout => '1 s')});
value($node, 'alpha', q{SELECT jobq_create_queue('fragile', heartbeat_timeout => '1 s', max_lost => 1)});
value($node, 'alpha', q{SELECT jobq_enqueue('short'), jobq_enqueue('fragile')});
my ($lost_lease, $claimed_at) = split /\|/,
  value($node, 'alpha', q{SELECT lease, extract(epoch FROM clock_timestamp()) FROM jobq_claim('short', 'doomed')});
# Another worker claims this job, because if a worker loses several jobs at once, none of them counts as the cause.
value($node, 'alpha', q{SELECT id FROM jobq_claim('fragile', 'doomed alone')});

my $again = claim_when_ready($node, 'alpha', 'short');
ok($again, 'the job of a silent worker is claimable again');
SKIP:
{
    skip 'the job was not rescued', 5 unless $again;
    my $took = $again->{at} - $claimed_at;
    report_seconds('claimable again after its claim, heartbeat timeout 1 s', $took);
    cmp_ok($took, '>=', 1 - 0.2, 'not before the heartbeat timeout');
    in_time($took, 3, 'within the heartbeat timeout + 2 s');
    is($again->{attempt}, 2, 'the lost attempt counts');
    is( value($node, 'alpha', "SELECT outcome, worker_id FROM jobq.attempts WHERE lease = $lost_lease"),
        'lost|doomed', 'the lost attempt is recorded');
    is(value($node, 'alpha', "SELECT jobq_complete($again->{id}, $lost_lease)"), 'f', 'the lost lease cannot complete the job');
    value($node, 'alpha', "SELECT jobq_complete($again->{id}, $again->{lease})");
}
becomes_true(
    $node, 'alpha',
    q{SELECT status = 'failed' AND error ~ 'no heartbeat' FROM jobq.jobs WHERE queue = 'fragile'},
    'a job that has lost max_lost workers fails');

# ---- promotion: as punctual as the machine allows

# The jobs become due while a client claims every few milliseconds; the time of each claim shows how late the promotion was.
my $jobs = 100;
value(
    $node, 'alpha', qq{
    SELECT jobq_enqueue('delayed', run_at => clock_timestamp() + interval '500 ms' + n * interval '20 ms')
    FROM generate_series(1, $jobs) n});
value(
    $node, 'alpha', qq{
    CREATE TABLE claimed (id bigint, at timestamptz DEFAULT clock_timestamp());
    DO \$\$
    DECLARE
        found int := 0;
        new int;
        give_up timestamptz := clock_timestamp() + interval '30 s';
    BEGIN
        WHILE found < $jobs AND clock_timestamp() < give_up LOOP
            INSERT INTO claimed (id) SELECT id FROM jobq_claim('delayed', 'watch', batch => 100);
            GET DIAGNOSTICS new = ROW_COUNT;
            found := found + new;
            COMMIT;
            PERFORM pg_sleep(0.002);
        END LOOP;
    END \$\$});
my @late = split /\n/,
  value($node, 'alpha', q{SELECT extract(epoch FROM started_at - run_at) FROM jobq.jobs
    WHERE queue = 'delayed' AND started_at IS NOT NULL});
is(scalar @late, $jobs, 'every delayed job was promoted');
if (@late)
{
    my $max = report_spread('delayed jobs were late', @late);
    in_time($max, 0.5, 'promotion is less than 500 ms late', 30);
    # started_at is the time at which the claim began. Jobs that became due during the claim are not early.
    is(value($node, 'alpha', 'SELECT count(*) FROM claimed c JOIN jobq.jobs j USING (id) WHERE c.at < j.run_at'), '0', 'no job was promoted early');
}

# ---- forced cancel

value($node, 'alpha', q{SELECT jobq_enqueue('stubborn')});
my ($job, $lease) = split /\|/, value($node, 'alpha', q{SELECT id, lease FROM jobq_claim('stubborn', 'deaf')});
# The request and the heartbeat are in one transaction, so that the grace period cannot expire between them.
is(value($node, 'alpha', "BEGIN; SELECT jobq_cancel($job); SELECT jobq_heartbeat($job, $lease); COMMIT"),
    "processing\ncancel", 'the heartbeat of a running job reports the cancellation first');
becomes_true($node, 'alpha', "SELECT status = 'cancelled' FROM jobq.jobs WHERE id = $job",
    'the job is cancelled after the grace period');
is(value($node, 'alpha', "SELECT jobq_complete($job, $lease)"), 'f', 'the lease of the worker is lost');

# ---- prune

value($node, 'alpha', q{SELECT jobq_create_queue('brief', keep_completed => '100 ms', keep_failed => '100 ms')});
value($node, 'alpha', q{SELECT count(*) FROM jobq_enqueue_many('brief', array_fill('{}'::jsonb, ARRAY[20]))});
value($node, 'alpha', q{SELECT count(jobq_complete(id, lease)) FROM jobq_claim('brief', batch => 10)});
value($node, 'alpha', q{SELECT count(jobq_fail(id, lease, retry => false)) FROM jobq_claim('brief', batch => 10)});
becomes_true($node, 'alpha', q{SELECT NOT EXISTS (SELECT FROM jobq.jobs WHERE queue = 'brief')},
    'finished jobs are deleted after their retention time');
is( value($node, 'alpha', q{SELECT count(*) FROM jobq.attempts a
    WHERE NOT EXISTS (SELECT FROM jobq.jobs j WHERE j.id = a.job_id)}),
    '0', 'their attempts are deleted with them');

# ---- repair

value(
    $node, 'alpha', q{
    SET session_replication_role = replica;
    INSERT INTO jobq.jobs (queue, kind, run_at, _ready, status, max_attempts, _lane)
    VALUES ('applied', 'without triggers', now(), true, 'pending', 1, jobq.lane_of('applied', 'without triggers', 0, NULL))});
ok(claim_when_ready($node, 'alpha', 'applied'), 'a job that was inserted without triggers becomes claimable');

# ---- the contents of jobq.background_workers

is( value($node, 'alpha', q{SELECT state FROM jobq.background_workers WHERE database IS NULL}),
    'running', 'the launcher is reported as running');
my $totals = 'rounds > 0, rescued >= 2, cancelled, promoted, pruned, last_error IS NULL';
is( value($node, 'alpha', "SELECT $totals FROM jobq.background_workers WHERE database = 'alpha'"),
    "t|t|1|$jobs|20|t", 'the totals are right');
becomes_true(
    $node, 'alpha',
    q{SELECT w.state = 'running' AND w.last_round > clock_timestamp() - interval '5 s'
      AND w.next_round > clock_timestamp() - interval '5 s'
      FROM jobq.background_workers w JOIN pg_stat_activity a USING (pid)
      WHERE w.database = 'alpha' AND a.backend_type = 'jobq worker' AND a.datname = 'alpha'},
    'the worker is reported with its pid while jobs are unfinished');
value($node, 'alpha', 'CREATE ROLE watcher LOGIN IN ROLE pg_monitor');
is( value($node, 'alpha', q{SELECT count(*) FROM jobq.background_workers}, connect_as('watcher')),
    '2', 'pg_monitor can read jobq.background_workers');

# ---- young jobs that a transaction has locked delay neither the rescue of other jobs nor jobq_tick()

settings($node, 'jobq.rescue_batch = 1');
$node->reload;
my $holder = session($node, 'alpha');
$holder->query('BEGIN');
value($node, 'alpha', q{SELECT jobq_create_queue('held', heartbeat_timeout => '1 hour')});
my $hold = q{COMMIT; SELECT jobq_enqueue('held'), jobq_enqueue('held'); SELECT count(*) FROM jobq_claim('held', 'holder', batch => 2);
             BEGIN; SELECT 'so many: ' || count(*) FROM (SELECT FROM jobq.jobs WHERE queue = 'held' AND status = 'processing' AND _rescue_indexed IS NULL FOR UPDATE) h};
# Retried until the session gets its locks, because the worker may be first.
ok(defined seconds_until(sub { $holder->query($hold) =~ /so many: 2/ }), 'a session locks two jobs of the last second');
value($node, 'alpha', q{SELECT jobq_enqueue('short', kind => 'beside held'); SELECT id FROM jobq_claim('short', 'doomed beside', kinds => '{beside held}')});
becomes_true($node, 'alpha', q{SELECT EXISTS (SELECT FROM jobq.attempts WHERE worker_id = 'doomed beside' AND outcome = 'lost')}, 'a job that is not locked is rescued');
is(value($node, 'alpha', q{SET statement_timeout = '60s'; SELECT count(*) FROM jobq_tick()}), '10', 'jobq_tick() finishes');
is(value($node, 'alpha', q{SELECT count(*) FROM jobq.jobs WHERE queue = 'held' AND status = 'processing' AND _rescue_indexed IS NULL}) >= 2, 1, 'the locked jobs are not indexed for the rescue');
end_sessions($holder);
becomes_true($node, 'alpha', q{SELECT count(*) = count(_rescue_indexed) FROM jobq.jobs WHERE queue = 'held' AND status = 'processing'}, 'they are indexed after the locks are released');

# ---- a database becomes idle and active again

value($node, 'alpha',
    q{SELECT count(jobq_complete(id, lease)) FROM jobq.jobs WHERE status = 'processing'});
value($node, 'alpha', q{SELECT sum(jobq_purge_queue(queue)) FROM jobq.queues});
becomes_true(
    $node, 'postgres',
    q{SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'jobq worker')},
    'a database without jobs has no worker');
@late = ();
for (1 .. 3)
{
    value($node, 'alpha', q{SELECT jobq_enqueue('cold', run_at => clock_timestamp() + interval '300 ms')});
    my $cold = claim_when_ready($node, 'alpha', 'cold');
    last unless $cold;
    push @late, $cold->{at} - value($node, 'alpha', "SELECT extract(epoch FROM run_at) FROM jobq.jobs WHERE id = $cold->{id}");
    value($node, 'alpha', "SELECT jobq_complete($cold->{id}, $cold->{lease})");
}
is(scalar @late, 3, 'a delayed job starts a worker in an idle database');
in_time(report_spread('a delayed job of an idle database was late', @late), 0.5, 'and is promoted in time', 30) if @late;

unlike(log_since($node), qr/(?:ERROR|WARNING|PANIC|TRAP)/, 'no error and no warning in the log');

done_testing();
