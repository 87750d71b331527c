# Tests which commits wait for the disk. A commit that contains only heartbeats does not wait. A commit that contains only claims
# does not wait if jobq.async_claims is on. A commit with any other change waits.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use Test::More;

# The WAL writer must run rarely, because its flushes are counted too.
my $node = preloaded('async', conf => [ 'fsync = on', 'synchronous_commit = on', 'wal_writer_delay = 10s',
    'jobq.tick_interval = 60s', 'autovacuum = off' ]);
database($node, 'work');
my $session = session($node, 'work');
$session->query('CREATE TABLE seen (id bigint, state text)');
$session->query(q{SELECT count(*) FROM jobq_enqueue_many('q', array_fill('{}'::jsonb, ARRAY[600]))});
$session->query(q{CREATE TABLE held AS SELECT id, lease FROM jobq_claim('q', 'w', heartbeat_timeout => '1 hour')});
my ($id, $lease) = split /\|/, $session->query('SELECT id, lease FROM held');

# Returns the number of WAL flushes that 40 runs of a statement cause. Each run is a transaction.
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
does_not("$heartbeat, jobq_heartbeat($id, $lease)", 'two heartbeats in one transaction do not wait');
does_not("SELECT * FROM jobq_heartbeat_many(ARRAY[$id], ARRAY[$lease])", 'jobq_heartbeat_many does not wait');
does_not(q{SELECT * FROM jobq_heartbeat_worker('w')}, 'jobq_heartbeat_worker does not wait');
waits("INSERT INTO seen SELECT $id, jobq_heartbeat($id, $lease)", 'a statement that stores the result of a heartbeat waits');
waits("BEGIN; INSERT INTO seen VALUES (1); $heartbeat; COMMIT", 'a heartbeat waits if its transaction wrote before');
waits("BEGIN; $heartbeat; INSERT INTO seen VALUES (1); COMMIT", 'a heartbeat waits if its transaction writes afterward');
$session->query('SET jobq.async_heartbeats = off');
waits($heartbeat, 'with jobq.async_heartbeats off, a heartbeat waits');

my $claim = q{SELECT id FROM jobq_claim('q', 'w')};
waits($claim, 'a claim waits for the disk');
$session->query('SET jobq.async_claims = on');
does_not($claim, 'with jobq.async_claims on, a claim does not wait');
does_not(q{SELECT id FROM jobq_claim_any(ARRAY['p', 'q'], 'w')}, 'with jobq.async_claims on, jobq_claim_any does not wait');
does_not(q{SELECT jobq_claim_json(ARRAY['q'], 'w')}, 'with jobq.async_claims on, jobq_claim_json does not wait');
waits("SELECT jobq_claim_json(ARRAY['q'], 'w', job_ids => ARRAY[$id], leases => ARRAY[$lease])", 'jobq_claim_json waits if it completes jobs');
waits("INSERT INTO seen $claim", 'a statement that stores the claimed job waits');
waits("BEGIN; $claim; INSERT INTO seen VALUES (1); COMMIT", 'a transaction that writes after its claim waits');
waits("SELECT jobq_complete(id, lease) FROM jobq_claim('q', 'w')", 'a completion always waits');
is($session->query('SHOW synchronous_commit'), 'on', 'the setting of the session is unchanged');

done_testing();
