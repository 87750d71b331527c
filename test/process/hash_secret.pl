# Tests that each database hashes lanes, groups, limits, and round-robin keys with its own secret. Jobs of another database get the
# hashes of this database when a dump is restored (also with triggers disabled) and when logical replication inserts them. All jobs
# get new hashes after the secret has been lost.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $directory = PostgreSQL::Test::Utils::tempdir;
my $node = preloaded('secrets', init => { allows_streaming => 'logical' });
database($node, 'source');
value($node, 'source', <<'SQL');
SELECT jobq_create_queue('turns', round_robin => true);
SELECT jobq_enqueue('turns', kind => 'turn', concurrency_key => k) FROM unnest('{a,b}'::text[]) k;
SELECT jobq_enqueue('lines', kind => 'done');
SELECT jobq_complete(id, lease) FROM jobq_claim('lines');
SELECT count(*) FROM jobq_enqueue_many('lines', '{1,2,3}', group_keys => '{g,g,g}');
SELECT jobq_set_limit('limited', max_running => 2), jobq_set_limit('limited', '*', max_running => 1);
SELECT jobq_enqueue('limited', concurrency_key => 'k', options => '{"requires": ["gpu", "disk"]}') FROM generate_series(1, 3);
SQL
becomes_true($node, 'source', q{SELECT count(*) = 1 FROM jobq.jobs WHERE _group_active IS NOT NULL}, 'a group has its head');
value($node, 'source', q{SELECT count(*) FROM jobq_claim('limited', 'w', capabilities => '{gpu,disk}', heartbeat_timeout => '1 day')});

my $foreign = q{SELECT count(*) FROM jobq.jobs j WHERE j._lane <> jobq.lane_of(j.queue, j.kind, j.version, j.requires, j.limits)
    OR coalesce(j._group_waiting, j._group_active) <> jobq.group_of(j.queue, j.group_key)
    OR j._round_robin_key <> jobq.round_robin_key_of(j.concurrency_key)};
my $foreign_lanes = q{SELECT count(*) FROM jobq.lane_directory d WHERE d.lane <> jobq.lane_of(d.queue, d.kind, d.version, d.requires, d.limits)};

# Tests the jobs in a copy of 'source': keys that take turns, a limit that a running job has used up, and the order of a group.
sub works
{
    my ($database) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is(value($node, $database, q{SELECT count(*) FROM jobq_claim('turns', batch => 9)}), '2', "$database: keys take turns");
    is(value($node, $database, q{SELECT count(*) FROM jobq_claim('limited', batch => 9, capabilities => '{gpu,disk}')}), '0',
        "$database: the running job uses up the limit of its key");
    for my $n (1 .. 3)
    {
        my $claimed = claim_when_ready($node, $database, 'lines');
        is(value($node, $database, "SELECT payload FROM jobq.jobs WHERE id = $claimed->{id}"), $n, "$database: job $n of the group is next");
        is(value($node, $database, q{SELECT count(*) FROM jobq_claim('lines', batch => 9)}), '0', "$database: no other job of the group runs");
        value($node, $database, "SELECT jobq_complete($claimed->{id}, $claimed->{lease})");
    }
    return;
}

# ---- two databases have different secrets

database($node, 'other');
isnt(value($node, 'source', 'SELECT secret FROM jobq.hash_secret'), value($node, 'other', 'SELECT secret FROM jobq.hash_secret'), 'two databases have different secrets');
my $lane = q{SELECT jobq.lane_of('q', 'k', 0, NULL)};
isnt(value($node, 'source', $lane), value($node, 'other', $lane), 'and different hashes of the same lane');

# ---- a dump that is restored with triggers disabled

$node->command_ok([ 'pg_dump', '-a', '--disable-triggers', '-Fc', '-f', "$directory/dump", $node->connstr('source') ], 'pg_dump -a');
database($node, 'disabled');
$node->command_ok([ 'pg_restore', '-a', '--disable-triggers', '-d', $node->connstr('disabled'), "$directory/dump" ], 'pg_restore -a --disable-triggers');
cmp_ok(value($node, 'disabled', $foreign), '>', 0, 'disabled: jobs have hashes of another database');
# A row that cannot be changed does not stop other duties.
value($node, 'disabled', q{CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not now'; END $$;
    CREATE TRIGGER refuse BEFORE UPDATE ON jobq.jobs FOR EACH ROW WHEN (OLD.queue = 'turns') EXECUTE FUNCTION refuse()});
is(value($node, 'disabled', 'SELECT jobq_adopt()'), 't', 'disabled: the copy is adopted');
becomes_true($node, 'disabled', q{SELECT last_error LIKE '%numbers of jobq.jobs: not now' FROM jobq.background_workers WHERE database = current_database()},
    'disabled: a job that cannot be changed is reported');
value($node, 'disabled', q{SELECT jobq_enqueue('later', run_at => now() + interval '10 ms')});
becomes_true($node, 'disabled', q{SELECT status = 'pending' FROM jobq.jobs WHERE queue = 'later'}, 'disabled: other duties continue');
value($node, 'disabled', 'DROP TRIGGER refuse ON jobq.jobs');
becomes_true($node, 'disabled', "SELECT ($foreign) = 0 AND ($foreign_lanes) = 0", 'disabled: the repair rehashes jobs and lanes');
works('disabled');

# ---- logical replication

database($node, 'subscriber');
value($node, 'subscriber', q{SELECT jobq_create_queue('turns', round_robin => true), jobq_set_limit('limited', max_running => 2), jobq_set_limit('limited', '*', max_running => 1)});
value($node, 'source', q{CREATE PUBLICATION jobs FOR TABLE jobq.jobs, jobq.lane_directory});
value($node, 'source', q{SELECT pg_create_logical_replication_slot('jobs', 'pgoutput')});
value($node, 'subscriber', sprintf q{CREATE SUBSCRIPTION jobs CONNECTION $c$%s$c$ PUBLICATION jobs WITH (create_slot = false, slot_name = 'jobs')}, $node->connstr('source'));
becomes_true($node, 'subscriber', q{SELECT (SELECT count(*) FROM jobq.jobs) = 9 AND NOT EXISTS (SELECT FROM pg_subscription_rel WHERE srsubstate <> 'r')}, 'subscriber: has all jobs');
is(value($node, 'subscriber', $foreign), '0', 'subscriber: jobs have its own hashes');
is(value($node, 'subscriber', $foreign_lanes), '0', 'subscriber: lanes have its own hashes');
value($node, 'source', q{UPDATE jobq.jobs SET metadata = '{"changed": true}' WHERE queue <> 'limited'});
becomes_true($node, 'subscriber', q{SELECT count(*) = 6 FROM jobq.jobs WHERE metadata IS NOT NULL}, 'subscriber: updates are replicated');
is(value($node, 'subscriber', $foreign), '0', 'subscriber: updated jobs keep its own hashes');
value($node, 'subscriber', 'ALTER SUBSCRIPTION jobs DISABLE; ALTER SUBSCRIPTION jobs SET (slot_name = NONE); DROP SUBSCRIPTION jobs');
works('subscriber');

# ---- the secret is lost

is(sqlstate($node, 'source', 'DELETE FROM jobq.hash_secret'), '55000', 'the secret cannot be deleted');
value($node, 'source', q{ALTER TABLE jobq.hash_secret DISABLE TRIGGER ALL; DELETE FROM jobq.hash_secret; ALTER TABLE jobq.hash_secret ENABLE ALWAYS TRIGGER keep_secret,
    ENABLE ALWAYS TRIGGER keep_secret_on_truncate, ENABLE ALWAYS TRIGGER invalidate_caches});
is(sqlstate($node, 'source', q{SELECT jobq_enqueue('lines')}), '55000', 'no job can be enqueued without the secret');
my $before = value($node, 'source', 'SELECT min(lane) FROM jobq.lane_directory');
value($node, 'source', 'INSERT INTO jobq.hash_secret DEFAULT VALUES');
becomes_true($node, 'source', "SELECT ($foreign) = 0 AND ($foreign_lanes) = 0", 'all jobs and lanes are hashed with the new secret');
isnt(value($node, 'source', 'SELECT min(lane) FROM jobq.lane_directory'), $before, 'the hashes are different');
works('source');
is(sqlstate($node, 'source', 'INSERT INTO jobq.hash_secret DEFAULT VALUES'), '23505', 'there can be only one secret');
is(value($node, $_, q{SELECT last_error FROM jobq.background_workers WHERE database = current_database()}), '', "$_: no duty failed") for 'source', 'subscriber';
$node->stop;
done_testing();
