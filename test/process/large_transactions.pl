# Tests transactions that exceed the capacity of their log (src/log/transaction_log.h): they publish their changes less precisely
# but never incompletely, and their memory does not grow.
#
# With a tick interval of one minute, the repair does not run in time, so every effect must follow from the commit.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqLanes;
use JobqSleep;
use JobqTest;
use Test::More;

my $node = lane_server('large_transactions');
lane_database($node, 'work');
sub work { return value($node, 'work', $_[0]); }
work(q{
    -- Each is beyond a bound: lanes, queues, jobs that end, groups.
    CREATE FUNCTION many_lanes() RETURNS bigint LANGUAGE sql AS $$
        SELECT count(jobq_enqueue('lanes', kind => 'kind ' || n)) FROM generate_series(1, 1200) n $$;
    CREATE FUNCTION many_queues() RETURNS bigint LANGUAGE sql AS $$
        SELECT count(jobq_enqueue('queue ' || n)) FROM generate_series(1, 300) n $$;
    CREATE FUNCTION many_ends() RETURNS bigint LANGUAGE sql AS $$
        SELECT count(jobq_cancel(job_id)) FROM jobq_enqueue_many('ends', array_fill('1'::jsonb, '{5000}')) $$;
    CREATE FUNCTION many_groups() RETURNS bigint LANGUAGE sql AS $$
        SELECT count(*) FROM jobq_enqueue_many('groups', array_fill('1'::jsonb, '{5000}'),
                                               group_keys => ARRAY(SELECT 'g' || n FROM generate_series(1, 5000) n)) $$});

# Waits for a condition, for less than the tick interval.
sub soon
{
    my ($condition, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return ok(defined seconds_until(sub { work("SELECT $condition") eq 't' }, 30), $name);
}

# Tests that a commit wakes up a sleeping session before the check that the session makes once a second. On a busy machine the
# session can be late, so one success in five suffices.
my $sleeper = sleeper($node);
sub wakes_at_once
{
    my ($queue, $sql, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    for (1 .. 5)
    {
        work("SELECT count(*) FROM jobq_claim('$queue', batch => 10000, heartbeat_timeout => '1 day')");
        start($sleeper, "CALL jobq_wait('$queue', '3 min')");
        asleep($sleeper);
        work($sql);
        return pass($name) if seconds_to_end($sleeper, 60) < 0.1;
    }
    return fail($name);
}

# ---- jobs that become claimable together with many others: they are found in an empty lane, and sleeping sessions are woken up

my $snapshot = hold_snapshot($node, 'work');
for my $filler ('many_lanes', 'many_queues', 'many_ends')
{
    make_empty($node, 'work', $filler);
    work("BEGIN; SELECT $filler(); SELECT jobq_enqueue('$filler', '\"one\"'); COMMIT");
    claims_next($node, 'work', $filler, ['one'], "$filler: the next claim finds the job");
    wakes_at_once($filler, "BEGIN; SELECT $filler(); SAVEPOINT s; SELECT jobq_enqueue('$filler', kind => 'two'); RELEASE s; COMMIT",
        "$filler: a sleeping session is woken up");
}

# ---- dependencies and groups

my $first = work(q{SELECT jobq_enqueue('chain', kind => 'first')});
work(qq{SELECT jobq_enqueue('chain', kind => 'second', depends_on => '{$first}')});
work(q{BEGIN; SELECT many_ends(); SELECT jobq_complete(id, lease) FROM jobq_claim('chain'); COMMIT});
soon(q{status = 'pending' FROM jobq.jobs WHERE kind = 'second' AND queue = 'chain'}, 'a job is unblocked whose dependency is one of too many finished jobs');
work(q{SELECT many_groups()});
soon(q{count(*) = 5000 FROM jobq.jobs WHERE _group_active IS NOT NULL AND status = 'pending'}, 'each of too many groups gets its head');

# ---- slots of limits

work(q{SELECT jobq_set_limit('slots', '*', max_running => 1);
    SELECT count(*) FROM jobq_enqueue_many('slots', array_fill('1'::jsonb, '{6000}'),
                                           concurrency_keys => ARRAY(SELECT 'key ' || n % 2000 FROM generate_series(1, 6000) n))});
my $claim_all = q{SELECT count(*) FROM jobq_claim('slots', 'w', batch => 6000, heartbeat_timeout => '1 day')};
is(work("BEGIN; $claim_all; ROLLBACK; $claim_all"), "2000\n2000", 'the slots of a claim that was rolled back are free');
is(work($claim_all), '0', 'a job of each key is running');
start($sleeper, q{CALL jobq_wait('slots', '3 min')});
asleep($sleeper);
my $complete_all = q{SELECT count(jobq_complete(id, lease)) FROM jobq.jobs WHERE queue = 'slots' AND status = 'processing'};
work("BEGIN; $complete_all; COMMIT");
wakes($sleeper, 'released slots wake up a waiting session');
is(work($claim_all), '2000', 'the slots are free');
is(work("BEGIN; $complete_all; $claim_all; COMMIT"), "2000\n2000", 'a transaction can claim jobs with the slots that it has released');

# ---- the counters, with savepoints at many levels. They are compared with the rows that a snapshot sees, which may take long. No job
# may change in the meantime, so the leases are long.

becomes_true($node, 'work', q{SELECT count(*) > 0 FROM jobq.queue_stats WHERE queue = 'slots' AND enqueued_per_second > 0}, 'the queue has counters');
my $wrong = q{SELECT count(*) FROM (SELECT queue, count(*) FROM jobq.jobs WHERE status = 'pending' GROUP BY 1) j (queue, n)
    FULL JOIN jobq.queue_stats s USING (queue) WHERE coalesce(j.n, 0) IS DISTINCT FROM coalesce(s.pending, 0)};
my $nested = q{DO $$
    BEGIN
        FOR n IN 1..200 LOOP
            PERFORM jobq_enqueue('numbers ' || n % 40);
            BEGIN
                PERFORM jobq_enqueue('numbers ' || n % 40);
                BEGIN
                    PERFORM jobq_enqueue('numbers ' || n % 30);
                    IF n % 3 = 0 THEN RAISE division_by_zero; END IF;
                EXCEPTION WHEN division_by_zero THEN NULL;
                END;
                IF n % 5 = 0 THEN RAISE division_by_zero; END IF;
            EXCEPTION WHEN division_by_zero THEN NULL;
            END;
        END LOOP;
    END $$};
is(work("BEGIN; $nested; $wrong; COMMIT; $wrong"), "0\n0", 'the counters are right within the transaction and after it');
is(work(qq{BEGIN; SELECT count(jobq_enqueue('n' || n)) FROM generate_series(1, 1100) n; $nested; $wrong; COMMIT; $wrong}),
    "1100\n0\n0", 'the counters are right with more queues than the log can hold');

# ---- the memory for hundreds of thousands of jobs in many lanes, queues, slots, and savepoints. No job changes twice in a transaction,
# because the server keeps a combo command id for each row that does.

work(q{CREATE TABLE taken (id bigint, lease bigint, n int); CREATE INDEX ON taken (n)});
my $large = session($node, 'work');
my %changes = (
    '1 enqueue' => q{
        PERFORM jobq_enqueue_many('large ' || i % 300, array_fill('1'::jsonb, '{160}'), kind => 'kind ' || i);
        BEGIN
            PERFORM jobq_enqueue_many('slots', array_fill('1'::jsonb, '{50}'),
                                      concurrency_keys => ARRAY(SELECT format('key %s %s', i, m) FROM generate_series(1, 50) m));
            IF i % 10 = 0 THEN RAISE division_by_zero; END IF;
        EXCEPTION WHEN division_by_zero THEN NULL;
        END;},
    '2 claim' => q{INSERT INTO taken SELECT c.id, c.lease, i FROM unnest(ARRAY['slots', 'large ' || i % 300]) q, jobq_claim(q, batch => 160, heartbeat_timeout => '1 day') c;},
    '3 complete' => q{PERFORM jobq_complete(t.id, t.lease) FROM taken t WHERE t.n = i;});
sub memory { return $large->query(q{SELECT sum(used_bytes) FROM pg_backend_memory_contexts WHERE name IN ('TopMemoryContext', 'TopTransactionContext')}); }
for my $change (sort keys %changes)
{
    $large->query("CREATE OR REPLACE PROCEDURE change(first int, last int) LANGUAGE plpgsql AS \$\$
        BEGIN FOR i IN first..last LOOP $changes{$change} END LOOP; END \$\$");
    $large->query('BEGIN; CALL change(0, 19)');
    my $before = memory();
    # The changes are made in several calls, because the duration of a query is limited.
    $large->query(sprintf 'CALL change(%d, %d)', 20 + $_ * 74, 93 + $_ * 74) for 0 .. 19;
    my $grown = memory() - $before;
    $large->query('COMMIT');
    diag(sprintf '%s: %d kB more at the end of a transaction', $change, $grown / 1024);
    cmp_ok($grown, '<', 64 * 1024, "$change: the memory of a transaction does not grow with its jobs");
}
cmp_ok(work(q{SELECT count(*) FROM jobq.jobs j JOIN taken t USING (id) WHERE j.status = 'completed'}), '>=', 290_000, 'hundreds of thousands of jobs were completed');
is(work(q{SELECT count(*) FROM jobq.jobs WHERE status = 'processing' AND _lease_timeout IS DISTINCT FROM interval '1 day'}), '0', 'no lease expires during the test');
is(work($wrong), '0', 'the counters are right');

end_sessions($sleeper->{session}, $snapshot, $large);
unlike(log_since($node), qr/(?:PANIC|TRAP|terminated by signal|XX000)/, 'no crash');
$node->stop;
done_testing();
