# Which commits wait for the disk: heartbeats do not, claims when jobq.async_claims says so, and neither does when the
# transaction has done anything else.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use Test::More;

# The writer of the WAL must not come by too often: its own flushes count as well.
my $node = preloaded('async', conf => [ 'fsync = on', 'synchronous_commit = on', 'wal_writer_delay = 10s',
    'jobq.tick_interval = 60s', 'autovacuum = off' ]);
database($node, 'work');
my $session = session($node, 'work');
$session->query('CREATE TABLE seen (id bigint, state text)');
$session->query(q{SELECT count(*) FROM jobq_enqueue_many('q', array_fill('{}'::jsonb, ARRAY[600]))});
$session->query(q{CREATE TABLE held AS SELECT id, lease FROM jobq_claim('q', 'w', heartbeat_timeout => '1 hour')});
my ($id, $lease) = split /\|/, $session->query('SELECT id, lease FROM held');

# The flushes of the WAL that 40 runs of a statement cost, each its own transaction.
my $runs = 40;
sub flushes
{
    my ($sql) = @_;
    my $count = sub {
        $session->query('SELECT pg_stat_force_next_flush()');
        return $session->query($node->pg_version < 18 ? 'SELECT wal_sync FROM pg_stat_wal' : q{SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal'});
    };
    my $before = $count->();
    $session->query($sql) for 1 .. $runs;
    return $count->() - $before;
}

sub waits { my ($sql, $name) = @_; return cmp_ok(flushes($sql), '>=', $runs, $name); }
sub does_not { my ($sql, $name) = @_; return cmp_ok(flushes($sql), '<=', $runs / 4, $name); }

my $heartbeat = "SELECT jobq_heartbeat($id, $lease)";
does_not($heartbeat, 'a heartbeat does not wait for the disk');
does_not("$heartbeat, jobq_heartbeat($id, $lease)", 'nor do two in one transaction');
does_not("SELECT * FROM jobq_heartbeat_many(ARRAY[$id], ARRAY[$lease])", 'nor does jobq_heartbeat_many');
does_not(q{SELECT * FROM jobq_heartbeat_worker('w')}, 'nor jobq_heartbeat_worker');
waits("INSERT INTO seen SELECT $id, jobq_heartbeat($id, $lease)", 'a statement that stores the answer does');
waits("BEGIN; INSERT INTO seen VALUES (1); $heartbeat; COMMIT", 'and a transaction that wrote before');
waits("BEGIN; $heartbeat; INSERT INTO seen VALUES (1); COMMIT", 'or after');
$session->query('SET jobq.async_heartbeats = off');
waits($heartbeat, 'and any heartbeat without jobq.async_heartbeats');

my $claim = q{SELECT id FROM jobq_claim('q', 'w')};
waits($claim, 'a claim waits for the disk');
$session->query('SET jobq.async_claims = on');
does_not($claim, 'with jobq.async_claims it does not');
does_not(q{SELECT id FROM jobq_claim_any(ARRAY['p', 'q'], 'w')}, 'nor does jobq_claim_any');
waits("INSERT INTO seen $claim", 'but a statement that stores the job does');
waits("BEGIN; $claim; INSERT INTO seen VALUES (1); COMMIT", 'and so does a transaction that goes on writing');
waits("SELECT jobq_complete(id, lease) FROM jobq_claim('q', 'w')", 'a completion always waits');
is($session->query('SHOW synchronous_commit'), 'on', 'the setting of the session is as it was');

done_testing();
