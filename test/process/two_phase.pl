# Tests a logical subscriber with two_phase: the apply worker prepares, commits, and rolls back transactions without SQL commands.
# The sessions of the subscriber must know the changes of a prepared transaction as soon as it ends. A session that counts as a
# restore keeps the worker from its duties, so nothing is repaired in the meantime.
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

# Publisher and subscriber are databases of one server, so the slot must be created before the subscription.
source(q{ALTER TABLE jobq.jobs ALTER id RESTART WITH 1000000000; CREATE PUBLICATION jobs FOR TABLE jobq.jobs;
    SELECT pg_create_logical_replication_slot('jobs', 'pgoutput', twophase => true)});
work(q{CREATE SUBSCRIPTION jobs CONNECTION $c$} . $node->connstr('source') . q{$c$ PUBLICATION jobs
    WITH (create_slot = false, slot_name = 'jobs', copy_data = false, two_phase = true)});
becomes_true($node, 'work', q{SELECT subtwophasestate = 'e' FROM pg_subscription}, 'two-phase replication is on');

my $snapshot = hold_snapshot($node, 'work');
my $restorer = session($node, 'work');
$restorer->query(q{SET check_function_bodies = off; INSERT INTO jobq.jobs (queue) SELECT 'none' WHERE false; BEGIN; SELECT 1});

my $replicated = q{SELECT count(*) FROM pg_prepared_xacts WHERE database = 'work'};

# Prepares a transaction on the publisher and waits until the apply worker has prepared it.
sub prepare
{
    my ($name, $sql) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    source("BEGIN; $sql; PREPARE TRANSACTION '$name'");
    return becomes_true($node, 'work', "SELECT ($replicated) = 1", "$name: prepared by the apply worker");
}

# Ends the transaction on the publisher and waits until the apply worker has ended it and has committed its own transaction.
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

# ---- a transaction that a command on the subscriber ends

work(q{SELECT jobq_set_limit('here', max_running => 1), jobq_enqueue('here', '"one"'), jobq_enqueue('here', '"two"')});
for my $way ([ 'ROLLBACK', q{SELECT id FROM jobq_claim('here', 'two phases')}, '"one"' ],
    [ 'COMMIT', q{SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE queue = 'here' AND status = 'processing'}, '"two"' ])
{
    my ($end, $sql, $next) = @$way;
    work("BEGIN; $sql; PREPARE TRANSACTION 'here'");
    is(work(sprintf $nothing, 'here'), "0\n0", "prepared for $end: the limit is full");
    work("$end PREPARED 'here'");
    is(work(q{SELECT payload FROM jobq_claim('here', 'next')}), $next, "$end PREPARED: the slot is free");
}

# ---- empty ranges

make_empty($node, 'work', 'far');
work(q{BEGIN; CREATE TABLE other (); PREPARE TRANSACTION 'other'; COMMIT PREPARED 'other'});
is(index_reads($node, 'work', q{SELECT count(*) FROM jobq_claim('far')}), '0', 'a prepared transaction that does not change jobs does not affect empty ranges');
prepare('enqueue', q{SELECT jobq_enqueue('far', '"new"')});
is(work(sprintf $nothing, 'far'), "0\n0", 'a prepared job cannot be claimed');
is(index_reads($node, 'work', q{SELECT count(*) FROM jobq_claim('far')}) <= 1 ? 'marked' : '', 'marked', 'and a claim does not scan for it');
finish('COMMIT', 'enqueue');
claims_next($node, 'work', 'far', ['new'], 'COMMIT PREPARED by the apply worker: the next claim finds the job');

# ---- a claim that is rolled back: its job and its slot of the limit are free

for my $database ('work', 'source')
{
    # Lanes are not replicated, so each database has already had a job in this lane.
    value($node, $database, q{SELECT jobq_set_limit('limited', max_running => 1), jobq_enqueue('limited');
        SELECT count(jobq_complete(id, lease)) FROM jobq_claim('limited')});
}
source(q{SELECT jobq_enqueue('limited', '"one"'), jobq_enqueue('limited', '"two"')});
becomes_true($node, 'work', q{SELECT count(*) = 2 FROM jobq.jobs WHERE queue = 'limited' AND status = 'pending'}, 'two jobs are pending, and the limit is one');
prepare('claim', q{SELECT id FROM jobq_claim('limited')});
is(work(sprintf $nothing, 'limited'), "0\n0", 'the prepared claim holds the only slot');
start($sleeper, q{CALL jobq_wait('limited', '120 s')});
asleep($sleeper);
finish('ROLLBACK', 'claim');
is(work(q{SELECT payload FROM jobq_claim('limited', 'near')}), '"one"', 'ROLLBACK PREPARED by the apply worker: the slot is free');
is(work(q{SELECT jobq_release(id, lease) FROM jobq.jobs WHERE worker_id = 'near'}), 't', 'the job is released');
cmp_ok(seconds_to_end($sleeper, 60), '<', 60, 'a session that waits for a slot is woken up');

# ---- a completion that is committed

source(q{SELECT id FROM jobq_claim('limited', 'far away')});
becomes_true($node, 'work', q{SELECT count(*) = 1 FROM jobq.jobs WHERE worker_id = 'far away'}, 'a job is claimed on the publisher');
is(work(sprintf $nothing, 'limited'), "0\n0", 'the claim holds the slot');
prepare('completion', q{SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE worker_id = 'far away'});
my ($running) = split /\n/, work(q{SELECT id FROM jobq.jobs WHERE worker_id = 'far away'});
is(work(sprintf $nothing, 'limited'), "0\n0", 'the slot is still held while the completion is prepared');
start($sleeper, "CALL jobq_wait_job($running, '120 s')");
asleep($sleeper);
finish('COMMIT', 'completion');
is(work(q{SELECT payload FROM jobq_claim('limited', 'near')}), '"two"', 'COMMIT PREPARED by the apply worker: the slot is free');
cmp_ok(seconds_to_end($sleeper, 60), '<', 60, 'a session that waits for the job is woken up');

end_sessions($sleeper->{session}, $restorer, $snapshot);
work(q{ALTER SUBSCRIPTION jobs DISABLE; ALTER SUBSCRIPTION jobs SET (slot_name = NONE); DROP SUBSCRIPTION jobs});
unlike(log_since($node), qr/(?:PANIC|TRAP|terminated by signal)/, 'no crash');
$node->stop;
done_testing();
