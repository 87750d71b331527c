# Tests queues that have a max_depth, with many concurrent producers: how far the limit can be exceeded, that no job is lost or
# miscounted, that the depth is not found by counting rows, and that the limit survives a crash and a dump.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqLanes;
use JobqSleep;
use JobqTest;
use JobqTime;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $max_depth = 50;
my $node = preloaded('backpressure', conf => ['max_connections = 60']);
database($node, 'work');
value($node, 'work', qq{
    SELECT jobq_create_queue('rejects', max_depth => $max_depth), jobq_create_queue('drops', max_depth => $max_depth, on_full => 'drop_oldest');
    CREATE TABLE outcomes (queue text, accepted bigint, refused bigint);
    CREATE PROCEDURE produce(name text, jobs integer) LANGUAGE plpgsql AS \$\$
    DECLARE
        accepted bigint := 0;
        refused bigint := 0;
    BEGIN
        FOR i IN 1 .. jobs LOOP
            BEGIN
                PERFORM jobq_enqueue(name, priority => i % 3, kind => 'k' || i % 2);
                accepted := accepted + 1;
            EXCEPTION WHEN configuration_limit_exceeded THEN
                refused := refused + 1;
            END;
            COMMIT;
        END LOOP;
        INSERT INTO outcomes VALUES (name, accepted, refused);
    END \$\$;
    CREATE PROCEDURE work(name text, rounds integer) LANGUAGE plpgsql AS \$\$
    BEGIN
        FOR i IN 1 .. rounds LOOP
            PERFORM jobq_complete(id, lease) FROM jobq_claim(name, batch => 3);
            COMMIT;
        END LOOP;
    END \$\$});

# Runs the calls concurrently and returns when all have ended.
my @crowd = map { sleeper($node) } 1 .. 8;
sub together
{
    my (@calls) = @_;
    start($crowd[$_], $calls[$_]) for 0 .. $#calls;
    for my $sleeper (@crowd[ 0 .. $#calls ])
    {
        ok(seconds_to_end($sleeper, 120) < 120, 'the call ended');
        is($sleeper->{session}{stderr}, '', 'without an error');
    }
    return;
}
sub depth { my ($queue) = @_; return value($node, 'work', "SELECT count(*) FROM jobq.jobs WHERE queue = '$queue' AND status < 'processing'"); }

sub accounted_for
{
    my ($queue) = @_;
    is(value($node, 'work', "SELECT (SELECT sum(accepted) FROM outcomes WHERE queue = '$queue') = (SELECT count(*) FROM jobq.jobs WHERE queue = '$queue')"),
        't', "$queue: the table contains exactly the accepted jobs");
    is(value($node, 'work', qq{SELECT (s.pending, s.completed, s.cancelled) = (SELECT count(*) FILTER (WHERE status = 'pending'), count(*) FILTER (WHERE status = 'completed'), count(*) FILTER (WHERE status = 'cancelled') FROM jobq.jobs WHERE queue = '$queue')
           FROM jobq.queue_stats s WHERE queue = '$queue'}), 't', 'and the counters agree with the table');
    return;
}

becomes_true($node, 'work', q{SELECT jobq_enqueue('warm') > 0 AND (SELECT bool_and(source = 'counters') FROM jobq.queue_stats)}, 'the queue has counters');

# ---- eight producers and no workers

together(map { q{CALL produce('rejects', 200)} } 1 .. 8);
my $depth = depth('rejects');
diag("depth $depth of $max_depth after 8 producers");
cmp_ok($depth, '>=', $max_depth, 'rejects: the queue is full');
cmp_ok($depth, '<', $max_depth + 8, 'the excess is less than the number of producers');
cmp_ok(value($node, 'work', q{SELECT sum(refused) FROM outcomes}), '>=', 1600 - $max_depth - 8, 'all other jobs were rejected');
accounted_for('rejects');

together(map { q{CALL produce('drops', 200)} } 1 .. 8);
$depth = depth('drops');
diag("depth $depth of $max_depth after 8 producers");
cmp_ok($depth, '<', $max_depth + 8, 'drops: the excess is less than the number of producers');
is(value($node, 'work', q{SELECT count(*) FROM jobq.jobs WHERE queue = 'drops' AND status = 'cancelled' AND error NOT LIKE 'dropped:%'}), '0', 'the error of a dropped job says why');
accounted_for('drops');
my $newest = value($node, 'work', q{SELECT count(*) FROM jobq.jobs d WHERE queue = 'drops' AND status = 'cancelled'
    AND run_at > (SELECT max(run_at) FROM jobq.jobs WHERE queue = 'drops' AND status = 'pending')});
is($newest, '0', 'no dropped job is younger than all remaining jobs');

# ---- with workers

together((map { q{CALL produce('drops', 300)} } 1 .. 5), (map { q{CALL work('drops', 300)} } 1 .. 3));
cmp_ok(depth('drops'), '<', $max_depth + 8, 'with workers: the limit holds');
accounted_for('drops');
cmp_ok(value($node, 'work', q{SELECT count(*) FROM jobq.jobs WHERE queue = 'drops' AND status = 'completed'}), '>', 0, 'workers completed jobs');
is(value($node, 'work', q{SELECT count(*) FROM jobq.jobs WHERE queue = 'drops' AND status = 'processing'}), '0', 'no job is still running');

# ---- the cost of the depth check does not grow with the depth

value($node, 'work', q{SELECT jobq_create_queue('deep', max_depth => 1000000); SELECT count(*) FROM jobq_enqueue_many('deep', array_fill('{}'::jsonb, ARRAY[100000]))});
my $session = session($node, 'work');
$session->query(q{SELECT jobq_enqueue('deep'), jobq_enqueue('free')});
my %took;
for my $queue ('deep', 'free')
{
    my $begin = time;
    $session->query("SELECT count(jobq_enqueue('$queue')) FROM generate_series(1, 2000)");
    $took{$queue} = time - $begin;
}
report_seconds('2000 enqueues into a queue of 100,000 with a max_depth', $took{deep});
report_seconds('the same without', $took{free});
in_time($took{deep}, 3 * $took{free} + 0.2, 'the depth check does not count rows');
end_sessions($session, map { $_->{session} } @crowd);

# ---- an old snapshot keeps the index entries of dropped jobs, and no worker runs: later drops do not read these entries again

lane_database($node, 'old');
my $holder = hold_snapshot($node, 'old');
value($node, 'old', q{SELECT jobq_create_queue('drops', max_depth => 20, on_full => 'drop_oldest');
    DO $$ BEGIN FOR i IN 1..3000 LOOP PERFORM jobq_enqueue('drops'); COMMIT; END LOOP; END $$});
my $reads = index_reads($node, 'old', q{SELECT jobq_enqueue('drops')});
diag("$reads index entries read for one enqueue after 2980 drops under an old snapshot");
cmp_ok($reads, '<', 300, 'a drop starts its scan at the first position that can hold a job');
end_sessions($holder);

# ---- after a crash the depth check counts rows until the counters are back

kill_server($node);
starts_again($node);
is(sqlstate($node, 'work', q{SELECT jobq_enqueue('rejects')}), '53400', 'a full queue is still full after a crash');
becomes_true($node, 'work', q{SELECT bool_and(source = 'counters') FROM jobq.queue_stats}, 'the counters are back');
is(sqlstate($node, 'work', q{SELECT jobq_enqueue('rejects')}), '53400', 'the queue is still full with counters');

# ---- a dump of a queue that exceeds its max_depth can be restored

value($node, 'work', q{SELECT jobq_alter_queue('rejects', max_depth => 10)});
my $dump = "$PostgreSQL::Test::Utils::tmp_check/deep.sql";
$node->command_ok([ 'pg_dump', '-f', $dump, $node->connstr('work') ], 'pg_dump succeeds');
value($node, 'postgres', 'CREATE DATABASE restored');
$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', $dump, $node->connstr('restored') ], 'the restore succeeds');
is(value($node, 'restored', q{SELECT count(*) FROM jobq.jobs WHERE queue = 'rejects'}), depth('rejects'), 'all jobs were restored');
is(sqlstate($node, 'restored', q{SELECT jobq_enqueue('rejects')}), '53400', 'the restored queue is full');

$node->stop('fast');
unlike(log_since($node), qr/(?:PANIC|TRAP|terminated by signal 1[01]|XX000|cache lookup failed)/, 'no crash, no internal error');
done_testing();
