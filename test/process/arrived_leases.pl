# Tests running jobs that were not claimed in this server: they arrive by logical replication, in replica role, or in a dump that is
# restored with triggers disabled, and may be in the rescue's index or not. Each is rescued when its lease expires, and no later.
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

# Creates a database with a worker that has scanned all running jobs. The lease of the only running job is long, so the horizon is
# far in the future.
sub looked_after
{
    my ($name) = @_;
    database($node, $name);
    value($node, $name, q{SELECT jobq_create_queue('q', heartbeat_timeout => '1 s', max_lost => 1000), jobq_create_queue('long', heartbeat_timeout => '1 day'), jobq_enqueue('long')});
    becomes_true($node, $name, "SELECT rounds > 0 FROM jobq.background_workers WHERE database = '$name'", "$name: a worker runs");
    value($node, $name, q{SELECT id FROM jobq_claim('long', 'slow')});
    becomes_true($node, $name, q{SELECT _rescue_indexed FROM jobq.jobs WHERE queue = 'long'}, "$name: a running job is in the rescue's index");
    return;
}

# Returns an INSERT of a running job whose lease has expired, with all columns set, as another server would have left it.
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
    my $took = becomes_true($node, $database, "SELECT EXISTS (SELECT FROM jobq.attempts WHERE worker_id = '$worker' AND outcome = 'lost')", "$name: the job is rescued");
    in_time($took, 10, "$name: within 10 s");    # long before the next scan of all running jobs, which is due in a minute
    return;
}
my $replica = 'SET session_replication_role = replica;';
my $off = 'ALTER TABLE jobq.jobs DISABLE TRIGGER ALL;';
my $on = 'ALTER TABLE jobq.jobs ENABLE TRIGGER ALL;';

# ---- with plain SQL

looked_after('work');
for my $indexed ('NULL', 'true')
{
    value($node, 'work', $replica . running("replica $indexed", $indexed));
    rescued('work', "replica $indexed", "in replica role, indexed for the rescue: $indexed");
    value($node, 'work', $replica . running("no lease $indexed", $indexed, 'NULL'));
    rescued('work', "no lease $indexed", "without a lease, indexed for the rescue: $indexed");
    value($node, 'work', $off . running("disabled $indexed", $indexed) . $on);
    rescued('work', "disabled $indexed", "with triggers disabled, indexed for the rescue: $indexed");
    value($node, 'work', "BEGIN; $off " . running("at once $indexed", $indexed) . "$on COMMIT");
    rescued('work', "at once $indexed", "with triggers disabled in one transaction, indexed for the rescue: $indexed");
}
value($node, 'work', $replica . 'BEGIN; ' . running('prepared', 'NULL') . q{PREPARE TRANSACTION 'p'});
value($node, 'work', q{COMMIT PREPARED 'p'});
rescued('work', 'prepared', 'prepared in replica role');

# A job that is claimed in another server arrives as an UPDATE, and a heartbeat from there prolongs its lease.
value($node, 'work', q{SELECT jobq_enqueue('q', kind => 'claimed')});
value($node, 'work', $replica . q{UPDATE jobq.jobs SET status = 'processing', _ready = NULL, attempts = 1, lease = 5, worker_id = 'elsewhere', started_at = now(), last_heartbeat = now(), _lease_timeout = '3 s'
                                  WHERE kind = 'claimed'});
# On a slow machine the lease may expire first.
my $indexed = q{SELECT _rescue_indexed IS TRUE OR status <> 'processing' FROM jobq.jobs WHERE kind = 'claimed'};
becomes_true($node, 'work', $indexed, "claimed elsewhere: the job enters the rescue's index when its lease is no longer young");
value($node, 'work', $replica . q{UPDATE jobq.jobs SET _rescue_indexed = NULL, last_heartbeat = clock_timestamp() WHERE kind = 'claimed'});
becomes_true($node, 'work', $indexed, 'a replicated heartbeat removes it from the index, and it enters the index again');
rescued('work', 'elsewhere', 'claimed elsewhere');
is(value($node, 'work', q{SELECT finished_at - started_at > interval '3 s' FROM jobq.attempts WHERE worker_id = 'elsewhere'}), 't', 'it is not rescued before its lease has expired');

# With triggers that stay disabled, the worker still searches for such jobs, but less often.
value($node, 'work', $off . running('still disabled', 'NULL'));
{
    local $ENV{PG_TEST_TIMEOUT_DEFAULT} = 150;
    becomes_true($node, 'work', q{SELECT EXISTS (SELECT FROM jobq.attempts WHERE worker_id = 'still disabled')}, 'with triggers disabled for long, the job is rescued');
}
value($node, 'work', $on);

# ---- a locked job is retried at intervals

value($node, 'work', $off);
my $holder = session($node, 'work');
my $hold = 'COMMIT; BEGIN; ' . running('held', 'NULL', 'NULL') . q{COMMIT; BEGIN; SELECT count(*) FROM (SELECT FROM jobq.jobs WHERE worker_id = 'held' AND _rescue_indexed IS NULL FOR UPDATE) h};
# Retried until the session gets the lock, because the worker may be first.
ok(defined seconds_until(sub { $holder->query($hold) =~ /[1-9]\s*\z/ }), "a session has locked a running job that is not in the rescue's index");
value($node, 'work', $on);
my $effort = q{SELECT extract(epoch FROM clock_timestamp()), rounds FROM jobq.background_workers WHERE database = 'work'};
my ($begin, $rounds_before) = split /\|/, value($node, 'work', $effort);
becomes_true($node, 'work', "SELECT extract(epoch FROM clock_timestamp()) > $begin + 4 AND rounds > $rounds_before + 2 FROM jobq.background_workers WHERE database = 'work'", 'the worker runs rounds while the job is locked');
my ($end, $rounds_after) = split /\|/, value($node, 'work', $effort);
cmp_ok($rounds_after - $rounds_before, '<', 20 * ($end - $begin), 'a few rounds per second');
is(value($node, 'work', q{SELECT status, _rescue_indexed FROM jobq.jobs WHERE worker_id = 'held'}), 'processing|', 'the job is unchanged');
end_sessions($holder);
becomes_true($node, 'work', q{SELECT count(*) = 0 FROM jobq.jobs WHERE worker_id = 'held' AND status = 'processing'}, 'the job is rescued after the lock is released');

# ---- a database without jobs and without a worker

database($node, 'idle');
becomes_true($node, 'idle', q{SELECT state = 'idle' FROM jobq.background_workers WHERE database = 'idle'}, 'no worker is running');
value($node, 'idle', "$off " . running('restored', 'NULL'));
value($node, 'idle', $on);
rescued('idle', 'restored', 'in an idle database');

# ---- a dump that was made within a second of a claim, restored with triggers disabled

value($node, 'work', q{SELECT jobq_enqueue('q', kind => 'dumped') FROM generate_series(1, 3)});
value($node, 'work', q{SELECT count(*) FROM jobq_claim('q', 'dumped', kinds => '{dumped}', batch => 3)});
$node->command_ok([ 'pg_dump', '-a', '--disable-triggers', '-Fc', '-f', "$directory/dump", $node->connstr('work') ], 'pg_dump -a');
database($node, 'copy');
$node->command_ok([ 'pg_restore', '-a', '--disable-triggers', '-d', $node->connstr('copy'), "$directory/dump" ], 'pg_restore -a --disable-triggers');
value($node, 'copy', 'SELECT jobq_adopt()');
becomes_true($node, 'copy', q{SELECT count(*) = 3 FROM jobq.attempts WHERE worker_id = 'dumped' AND outcome = 'lost'}, 'all jobs are rescued in the copy');

# ---- logical replication and a switchover

looked_after('standby');
value($node, 'work', q{CREATE PUBLICATION jobs FOR TABLE jobq.jobs; SELECT pg_create_logical_replication_slot('jobs', 'pgoutput')});
value($node, 'standby', 'DELETE FROM jobq.jobs');
value($node, 'standby', sprintf q{CREATE SUBSCRIPTION jobs CONNECTION $c$%s$c$ PUBLICATION jobs WITH (create_slot = false, slot_name = 'jobs', copy_data = false)}, $node->connstr('work'));
value($node, 'work', q{SELECT jobq_enqueue('long', kind => 'moved'); SELECT id FROM jobq_claim('long', 'publisher', kinds => '{moved}', heartbeat_timeout => '2 s')});
becomes_true($node, 'standby', q{SELECT EXISTS (SELECT FROM jobq.jobs WHERE worker_id = 'publisher')}, 'a claim is replicated');
value($node, 'standby', 'ALTER SUBSCRIPTION jobs DISABLE; ALTER SUBSCRIPTION jobs SET (slot_name = NONE); DROP SUBSCRIPTION jobs');
rescued('standby', 'publisher', 'after the switchover');
is(value($node, $_, q{SELECT last_error FROM jobq.background_workers WHERE database = current_database()}), '', "$_: no duty failed") for 'work', 'idle', 'copy', 'standby';
$node->stop;

# ---- more leases than shared memory has entries, and no preload

$node = preloaded('few', conf => [ 'jobq.max_young_leases = 8' ]);
looked_after('work');
value($node, 'work', $replica . join '', map { running("many $_", 'NULL', $_) } 1 .. 60);
becomes_true($node, 'work', q{SELECT count(*) = 60 FROM jobq.attempts WHERE worker_id LIKE 'many%' AND outcome = 'lost'}, 'more leases than entries: all jobs are rescued');
$node->stop;

$node = server('alone', conf => [ 'autovacuum = off' ]);
database($node, 'work');
my $tick = q{SELECT sum(done) FROM jobq_tick(clock_timestamp() + interval '1 hour') WHERE duty = 'rescue'};
value($node, 'work', $tick);
value($node, 'work', $replica . running('replica', 'NULL'));
is(value($node, 'work', $tick), '1', 'without preload: a job inserted in replica role is rescued');
value($node, 'work', $off . running('disabled', 'NULL') . $on);
is(value($node, 'work', $tick), '1', 'without preload: a job inserted with triggers disabled is rescued');
is(value($node, 'work', $tick), '0', 'no other job is rescued');
done_testing();
