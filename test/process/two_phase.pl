# A logical subscriber with two_phase: the apply worker prepares, commits and rolls back by itself, without any SQL
# command. What a prepared transaction has done must be known to the subscriber's own sessions as soon as it ends. A
# session that counts as restoring a dump keeps all duties away, so nothing is repaired meanwhile.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqLanes;
use JobqSleep;
use JobqTest;
use Test::More;

my $node = lane_server('two_phase', init => { allows_streaming => 'logical' }, conf => ['max_connections = 40']);
lane_database($node, 'work');
database($node, 'source');
sub work { return value($node, 'work', $_[0]); }
sub source { return value($node, 'source', $_[0]); }

# The databases of one server: the slot must be there before.
source(q{ALTER TABLE jobq.jobs ALTER id RESTART WITH 1000000000; CREATE PUBLICATION jobs FOR TABLE jobq.jobs;
    SELECT pg_create_logical_replication_slot('jobs', 'pgoutput', twophase => true)});
work(q{CREATE SUBSCRIPTION jobs CONNECTION $c$} . $node->connstr('source') . q{$c$ PUBLICATION jobs
    WITH (create_slot = false, slot_name = 'jobs', copy_data = false, two_phase = true)});
becomes_true($node, 'work', q{SELECT subtwophasestate = 'e' FROM pg_subscription}, 'two-phase replication is on');

my $snapshot = hold_snapshot($node, 'work');
my $restorer = session($node, 'work');
$restorer->query(q{SET check_function_bodies = off; INSERT INTO jobq.jobs (queue) SELECT 'none' WHERE false; BEGIN; SELECT 1});

my $replicated = q{SELECT count(*) FROM pg_prepared_xacts WHERE database = 'work'};

# Prepares on the publisher, and waits until the subscriber has done so.
sub prepare
{
    my ($name, $sql) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    source("BEGIN; $sql; PREPARE TRANSACTION '$name'");
    return becomes_true($node, 'work', "SELECT ($replicated) = 1", "$name: prepared by the apply worker");
}

# Ends it on the publisher, and waits until the apply worker has ended it and its own transaction.
sub finish
{
    my ($end, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    source("$end PREPARED '$name'");
    return becomes_true($node, 'work', qq{SELECT ($replicated) = 0 AND bool_and(xact_start IS NULL)
        FROM pg_stat_activity WHERE backend_type LIKE 'logical replication%worker'}, "$name: ended by the apply worker");
}

my $sleeper = sleeper($node);
my $nothing = q{SELECT count(*) FROM jobq_claim('%1$s'); SELECT count(*) FROM jobq_claim('%1$s')};

# ---- ended here, by a command

work(q{SELECT jobq_set_limit('here', max_running => 1), jobq_enqueue('here', '"one"'), jobq_enqueue('here', '"two"')});
for my $way ([ 'ROLLBACK', q{SELECT id FROM jobq_claim('here', 'two phases')}, '"one"' ],
    [ 'COMMIT', q{SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE queue = 'here' AND status = 'processing'}, '"two"' ])
{
    my ($end, $sql, $next) = @$way;
    work("BEGIN; $sql; PREPARE TRANSACTION 'here'");
    is(work(sprintf $nothing, 'here'), "0\n0", "prepared for $end: the limit is full");
    work("$end PREPARED 'here'");
    is(work(q{SELECT payload FROM jobq_claim('here', 'next')}), $next, "$end PREPARED: the place is free");
}

# ---- empty ranges

make_empty($node, 'work', 'far');
work(q{BEGIN; CREATE TABLE other (); PREPARE TRANSACTION 'other'; COMMIT PREPARED 'other'});
is(index_reads($node, 'work', q{SELECT count(*) FROM jobq_claim('far')}), '0', 'one that has nothing to do with jobs leaves them alone');
prepare('enqueue', q{SELECT jobq_enqueue('far', '"new"')});
is(work(sprintf $nothing, 'far'), "0\n0", 'what is prepared is not there');
is(index_reads($node, 'work', q{SELECT count(*) FROM jobq_claim('far')}) <= 1 ? 'marked' : '', 'marked', 'and not looked at');
finish('COMMIT', 'enqueue');
claims_next($node, 'work', 'far', ['new'], 'COMMIT PREPARED by the apply worker: the next claim has the job');

# ---- a claim that is rolled back: the job and the place under its limit are free

for my $database ('work', 'source')
{
    # The lanes are not replicated: each database has had such a job.
    value($node, $database, q{SELECT jobq_set_limit('limited', max_running => 1), jobq_enqueue('limited');
        SELECT count(jobq_complete(id, lease)) FROM jobq_claim('limited')});
}
source(q{SELECT jobq_enqueue('limited', '"one"'), jobq_enqueue('limited', '"two"')});
becomes_true($node, 'work', q{SELECT count(*) = 2 FROM jobq.jobs WHERE queue = 'limited' AND status = 'pending'}, 'two jobs under a limit of one');
prepare('claim', q{SELECT id FROM jobq_claim('limited')});
is(work(sprintf $nothing, 'limited'), "0\n0", 'the prepared claim holds the only place');
start($sleeper, q{CALL jobq_wait('limited', '120 s')});
asleep($sleeper);
finish('ROLLBACK', 'claim');
is(work(q{SELECT payload FROM jobq_claim('limited', 'near')}), '"one"', 'ROLLBACK PREPARED by the apply worker: the place is free');
is(work(q{SELECT jobq_release(id, lease) FROM jobq.jobs WHERE worker_id = 'near'}), 't', 'given back');
cmp_ok(seconds_to_end($sleeper, 60), '<', 60, 'who waits for a place is told');

# ---- a completion that is committed

source(q{SELECT id FROM jobq_claim('limited', 'far away')});
becomes_true($node, 'work', q{SELECT count(*) = 1 FROM jobq.jobs WHERE worker_id = 'far away'}, 'a claim elsewhere');
is(work(sprintf $nothing, 'limited'), "0\n0", 'holds the place');
prepare('completion', q{SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE worker_id = 'far away'});
my ($running) = split /\n/, work(q{SELECT id FROM jobq.jobs WHERE worker_id = 'far away'});
is(work(sprintf $nothing, 'limited'), "0\n0", 'a prepared completion holds it still');
start($sleeper, "CALL jobq_wait_job($running, '120 s')");
asleep($sleeper);
finish('COMMIT', 'completion');
is(work(q{SELECT payload FROM jobq_claim('limited', 'near')}), '"two"', 'COMMIT PREPARED by the apply worker: the place is free');
cmp_ok(seconds_to_end($sleeper, 60), '<', 60, 'who waits for the job is told');

end_sessions($sleeper->{session}, $restorer, $snapshot);
work(q{ALTER SUBSCRIPTION jobs DISABLE; ALTER SUBSCRIPTION jobs SET (slot_name = NONE); DROP SUBSCRIPTION jobs});
unlike(log_since($node), qr/(?:PANIC|TRAP|terminated by signal)/, 'no crash');
$node->stop;
done_testing();
