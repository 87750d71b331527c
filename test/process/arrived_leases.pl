# Running jobs that no claim of this server knows of: they come by logical replication, in replica role, or from a dump that
# is restored with triggers disabled, rescue-indexed or not. Each is rescued when its lease has run out, and no later.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use JobqTime;
use PostgreSQL::Test::Utils;
use Test::More;

my $directory = PostgreSQL::Test::Utils::tempdir;
my $node = preloaded('arrived', init => { allows_streaming => 'logical' }, conf => [ 'autovacuum = off', 'max_prepared_transactions = 10' ]);

# A database with a worker that has looked at all running jobs, one of which has much time: the horizon is far away.
sub looked_after
{
    my ($name) = @_;
    database($node, $name);
    value($node, $name, q{SELECT jobq_create_queue('q', heartbeat_timeout => '1 s', max_lost => 1000), jobq_create_queue('long', heartbeat_timeout => '1 day'), jobq_enqueue('long')});
    becomes_true($node, $name, "SELECT rounds > 0 FROM jobq.workers WHERE database = '$name'", "$name: a worker comes");
    value($node, $name, q{SELECT id FROM jobq_claim('long', 'slow')});
    becomes_true($node, $name, q{SELECT _rescue_indexed FROM jobq.jobs WHERE queue = 'long'}, "$name: a job runs that is rescue-indexed");
    return;
}

# An INSERT of a running job, its lease run out: `lane` and all, as another server has left it.
sub running
{
    my ($worker, $indexed, $lease) = @_;
    $lease //= 4711;
    return qq{INSERT INTO jobq.jobs (queue, run_at, status, attempts, max_attempts, lease, worker_id, started_at, last_heartbeat, _lease_timeout, _rescue_indexed, _lane)
              SELECT 'q', now(), 'processing', 1, 9, $lease, '$worker', now(), now(), '100 ms', $indexed, jobq.lane_of('q', '', 0, NULL);};
}

sub rescued
{
    my ($database, $worker, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $took = becomes_true($node, $database, "SELECT EXISTS (SELECT FROM jobq.attempts WHERE worker_id = '$worker' AND outcome = 'lost')", "$name: rescued");
    in_time($took, 10, "$name: soon");    # not when the next look at all jobs is due, in a minute
    return;
}
my $replica = 'SET session_replication_role = replica;';
my $off = 'ALTER TABLE jobq.jobs DISABLE TRIGGER ALL;';
my $on = 'ALTER TABLE jobq.jobs ENABLE TRIGGER ALL;';

# ---- by hand

looked_after('work');
for my $indexed ('NULL', 'true')
{
    value($node, 'work', $replica . running("replica $indexed", $indexed));
    rescued('work', "replica $indexed", "in replica role, rescue-indexed $indexed");
    value($node, 'work', $replica . running("no lease $indexed", $indexed, 'NULL'));
    rescued('work', "no lease $indexed", "without a lease, rescue-indexed $indexed");
    value($node, 'work', $off . running("disabled $indexed", $indexed) . $on);
    rescued('work', "disabled $indexed", "with triggers disabled, rescue-indexed $indexed");
    value($node, 'work', "BEGIN; $off " . running("at once $indexed", $indexed) . "$on COMMIT");
    rescued('work', "at once $indexed", "with triggers disabled in one transaction, rescue-indexed $indexed");
}
value($node, 'work', $replica . 'BEGIN; ' . running('prepared', 'NULL') . q{PREPARE TRANSACTION 'p'});
value($node, 'work', q{COMMIT PREPARED 'p'});
rescued('work', 'prepared', 'prepared in replica role');

# Claimed elsewhere: an UPDATE; a heartbeat from there keeps it.
value($node, 'work', q{SELECT jobq_enqueue('q', kind => 'claimed')});
value($node, 'work', $replica . q{UPDATE jobq.jobs SET status = 'processing', _ready = NULL, attempts = 1, lease = 5, worker_id = 'elsewhere', started_at = now(), last_heartbeat = now(), _lease_timeout = '3 s'
                                  WHERE kind = 'claimed'});
# A machine that stands still may let its time run out first.
my $indexed = q{SELECT _rescue_indexed IS TRUE OR status <> 'processing' FROM jobq.jobs WHERE kind = 'claimed'};
becomes_true($node, 'work', $indexed, 'claimed elsewhere: rescue-indexed when it has grown up');
value($node, 'work', $replica . q{UPDATE jobq.jobs SET _rescue_indexed = NULL, last_heartbeat = clock_timestamp() WHERE kind = 'claimed'});
becomes_true($node, 'work', $indexed, 'a heartbeat comes, not rescue-indexed there: indexed again');
rescued('work', 'elsewhere', 'claimed elsewhere');
is(value($node, 'work', q{SELECT finished_at - started_at > interval '3 s' FROM jobq.attempts WHERE worker_id = 'elsewhere'}), 't', 'and not before its time was over');

# Triggers that stay disabled: looked for all the same, if less often.
value($node, 'work', $off . running('still disabled', 'NULL'));
{
    local $ENV{PG_TEST_TIMEOUT_DEFAULT} = 150;
    becomes_true($node, 'work', q{SELECT EXISTS (SELECT FROM jobq.attempts WHERE worker_id = 'still disabled')}, 'with triggers disabled for long: rescued');
}
value($node, 'work', $on);

# ---- a row that a session holds is looked for again, but at intervals

value($node, 'work', $off);
my $holder = session($node, 'work');
my $hold = 'COMMIT; BEGIN; ' . running('held', 'NULL', 'NULL') . q{COMMIT; BEGIN; SELECT count(*) FROM (SELECT FROM jobq.jobs WHERE worker_id = 'held' AND _rescue_indexed IS NULL FOR UPDATE) h};
# The worker may be there first.
ok(defined seconds_until(sub { $holder->query($hold) =~ /[1-9]\s*\z/ }), 'a session holds a running job that the rescue index lacks');
value($node, 'work', $on);
my $effort = q{SELECT extract(epoch FROM clock_timestamp()), rounds FROM jobq.workers WHERE database = 'work'};
my ($begin, $rounds_before) = split /\|/, value($node, 'work', $effort);
becomes_true($node, 'work', "SELECT extract(epoch FROM clock_timestamp()) > $begin + 4 AND rounds > $rounds_before + 2 FROM jobq.workers WHERE database = 'work'", 'it holds it for seconds, the worker comes by');
my ($end, $rounds_after) = split /\|/, value($node, 'work', $effort);
cmp_ok($rounds_after - $rounds_before, '<', 20 * ($end - $begin), 'a few times a second');
is(value($node, 'work', q{SELECT status, _rescue_indexed FROM jobq.jobs WHERE worker_id = 'held'}), 'processing|', 'it is as it was');
end_sessions($holder);
becomes_true($node, 'work', q{SELECT count(*) = 0 FROM jobq.jobs WHERE worker_id = 'held' AND status = 'processing'}, 'released: rescued');

# ---- into a database that has no job, and no worker

database($node, 'idle');
becomes_true($node, 'idle', q{SELECT state = 'idle' FROM jobq.workers WHERE database = 'idle'}, 'no worker');
value($node, 'idle', "$off " . running('restored', 'NULL'));
value($node, 'idle', $on);
rescued('idle', 'restored', 'into an idle database');

# ---- a dump of a second after a claim, restored with triggers disabled

value($node, 'work', q{SELECT jobq_enqueue('q', kind => 'dumped') FROM generate_series(1, 3)});
value($node, 'work', q{SELECT count(*) FROM jobq_claim('q', 'dumped', kinds => '{dumped}', batch => 3)});
$node->command_ok([ 'pg_dump', '-a', '--disable-triggers', '-Fc', '-f', "$directory/dump", $node->connstr('work') ], 'pg_dump -a');
database($node, 'copy');
$node->command_ok([ 'pg_restore', '-a', '--disable-triggers', '-d', $node->connstr('copy'), "$directory/dump" ], 'pg_restore -a --disable-triggers');
value($node, 'copy', 'SELECT jobq_adopt()');
becomes_true($node, 'copy', q{SELECT count(*) = 3 FROM jobq.attempts WHERE worker_id = 'dumped' AND outcome = 'lost'}, 'all are rescued in the copy');

# ---- logical replication, then the switchover

looked_after('standby');
value($node, 'work', q{CREATE PUBLICATION jobs FOR TABLE jobq.jobs; SELECT pg_create_logical_replication_slot('jobs', 'pgoutput')});
value($node, 'standby', 'DELETE FROM jobq.jobs');
value($node, 'standby', sprintf q{CREATE SUBSCRIPTION jobs CONNECTION $c$%s$c$ PUBLICATION jobs WITH (create_slot = false, slot_name = 'jobs', copy_data = false)}, $node->connstr('work'));
value($node, 'work', q{SELECT jobq_enqueue('long', kind => 'moved'); SELECT id FROM jobq_claim('long', 'publisher', kinds => '{moved}', heartbeat_timeout => '2 s')});
becomes_true($node, 'standby', q{SELECT EXISTS (SELECT FROM jobq.jobs WHERE worker_id = 'publisher')}, 'a claim is replicated');
value($node, 'standby', 'ALTER SUBSCRIPTION jobs DISABLE; ALTER SUBSCRIPTION jobs SET (slot_name = NONE); DROP SUBSCRIPTION jobs');
rescued('standby', 'publisher', 'after the switchover');
is(value($node, $_, q{SELECT last_error FROM jobq.workers WHERE database = current_database()}), '', "$_: no duty failed") for 'work', 'idle', 'copy', 'standby';
$node->stop;

# ---- without room for leases, and without preload

$node = preloaded('few', conf => [ 'jobq.max_young_leases = 8' ]);
looked_after('work');
value($node, 'work', $replica . join '', map { running("many $_", 'NULL', $_) } 1 .. 60);
becomes_true($node, 'work', q{SELECT count(*) = 60 FROM jobq.attempts WHERE worker_id LIKE 'many%' AND outcome = 'lost'}, 'more than there is room for: rescued');
$node->stop;

$node = server('alone', conf => [ 'autovacuum = off' ]);
database($node, 'work');
my $tick = q{SELECT sum(done) FROM jobq_tick(clock_timestamp() + interval '1 hour') WHERE duty = 'rescue'};
value($node, 'work', $tick);
value($node, 'work', $replica . running('replica', 'NULL'));
is(value($node, 'work', $tick), '1', 'without preload: in replica role');
value($node, 'work', $off . running('disabled', 'NULL') . $on);
is(value($node, 'work', $tick), '1', 'without preload: with triggers disabled');
is(value($node, 'work', $tick), '0', 'and no more');
done_testing();
