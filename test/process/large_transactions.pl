# Transactions that do more than the log of a transaction has room for (src/log/transaction_log.h): what they tell
# others is less precise then, and never too little; and their memory does not grow.
#
# The tick interval of a minute keeps the repair out: whatever follows, follows from the commit.
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

# Before a round comes.
sub soon
{
    my ($condition, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return ok(defined seconds_until(sub { work("SELECT $condition") eq 't' }, 30), $name);
}

# A commit wakes who sleeps, before the look that a sleeper has once a second: once at least, since a busy machine may be
# later than that.
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

# ---- jobs that become claimable behind so many others: found where nothing was, and those who sleep are woken

my $snapshot = hold_snapshot($node, 'work');
for my $filler ('many_lanes', 'many_queues', 'many_ends')
{
    make_empty($node, 'work', $filler);
    work("BEGIN; SELECT $filler(); SELECT jobq_enqueue('$filler', '\"one\"'); COMMIT");
    claims_next($node, 'work', $filler, ['one'], "$filler: the next claim has the job");
    wakes_at_once($filler, "BEGIN; SELECT $filler(); SAVEPOINT s; SELECT jobq_enqueue('$filler', kind => 'two'); RELEASE s; COMMIT",
        "$filler: who sleeps is woken");
}

# ---- jobs that others depend on, and groups

my $first = work(q{SELECT jobq_enqueue('chain', kind => 'first')});
work(qq{SELECT jobq_enqueue('chain', kind => 'second', depends_on => '{$first}')});
work(q{BEGIN; SELECT many_ends(); SELECT jobq_complete(id, lease) FROM jobq_claim('chain'); COMMIT});
soon(q{status = 'pending' FROM jobq.jobs WHERE kind = 'second' AND queue = 'chain'}, 'a job that depends on one of too many that ended');
work(q{SELECT many_groups()});
soon(q{count(*) = 5000 FROM jobq.jobs WHERE _group_active IS NOT NULL AND status = 'pending'}, 'each of too many groups has its head');

# ---- slots

work(q{SELECT jobq_set_limit('slots', '*', max_running => 1);
    SELECT count(*) FROM jobq_enqueue_many('slots', array_fill('1'::jsonb, '{6000}'),
                                           concurrency_keys => ARRAY(SELECT 'key ' || n % 2000 FROM generate_series(1, 6000) n))});
my $claim_all = q{SELECT count(*) FROM jobq_claim('slots', 'w', batch => 6000, heartbeat_timeout => '1 day')};
is(work("BEGIN; $claim_all; ROLLBACK; $claim_all"), "2000\n2000", 'slots that were taken by a claim that was rolled back');
is(work($claim_all), '0', 'all keys run');
start($sleeper, q{CALL jobq_wait('slots', '3 min')});
asleep($sleeper);
my $complete_all = q{SELECT count(jobq_complete(id, lease)) FROM jobq.jobs WHERE queue = 'slots' AND status = 'processing'};
work("BEGIN; $complete_all; COMMIT");
wakes($sleeper, 'slots that were given back: who waits for one is woken');
is(work($claim_all), '2000', 'and they are free');
is(work("BEGIN; $complete_all; $claim_all; COMMIT"), "2000\n2000", 'the transaction that gives them back may have them at once');

# ---- the numbers of jobs, savepoints at many levels included. They are compared with rows that a snapshot sees, however long
# that takes: no job may change meanwhile, so no lease ends.

becomes_true($node, 'work', q{SELECT count(*) > 0 FROM jobq.queue_stats WHERE queue = 'slots' AND enqueued_per_second > 0}, 'the counters are known');
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
is(work("BEGIN; $nested; $wrong; COMMIT; $wrong"), "0\n0", 'exact after savepoints, within the transaction and after it');
is(work(qq{BEGIN; SELECT count(jobq_enqueue('n' || n)) FROM generate_series(1, 1100) n; $nested; $wrong; COMMIT; $wrong}),
    "1100\n0\n0", 'right with more queues than can be counted');

# ---- memory: of jobs by the hundred thousand, in many lanes, queues, slots and savepoints. No job changes twice in a
# transaction: the server remembers for each row that does when it was made.

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
    # A query may take only so long.
    $large->query(sprintf 'CALL change(%d, %d)', 20 + $_ * 74, 93 + $_ * 74) for 0 .. 19;
    my $grown = memory() - $before;
    $large->query('COMMIT');
    diag(sprintf '%s: %d kB more at the end of a transaction', $change, $grown / 1024);
    cmp_ok($grown, '<', 64 * 1024, "$change: the memory of a transaction does not grow with its jobs");
}
cmp_ok(work(q{SELECT count(*) FROM jobq.jobs j JOIN taken t USING (id) WHERE j.status = 'completed'}), '>=', 290_000, 'hundreds of thousands of jobs');
is(work(q{SELECT count(*) FROM jobq.jobs WHERE status = 'processing' AND _lease_timeout IS DISTINCT FROM interval '1 day'}), '0', 'no lease ends before the test');
is(work($wrong), '0', 'and the numbers are right');

end_sessions($sleeper->{session}, $snapshot, $large);
unlike(log_since($node), qr/(?:PANIC|TRAP|terminated by signal|XX000)/, 'no crash');
$node->stop;
done_testing();
