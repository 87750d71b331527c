# Tests the table of limits in shared memory: a full token bucket can be evicted without loss. If the table is too small,
# jobq_metrics() and the log say so, and jobq.max_limits enlarges it. Entries of the database with the most limits are evicted
# first.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use Test::More;

my $node = preloaded('room', conf => ['jobq.max_limits = 512']);
database($node, 'work');
sub work { return value($node, 'work', $_[0]); }
# A bucket of queue "long" is full again after 20 s, and a bucket of queue "short" after 1 us, so that it is full when the next job of
# the same claim needs its entry.
work(q{SELECT jobq_set_limit('long', '*', rate => 1, per => '20 s'), jobq_set_limit('short', '*', rate => 1000000, per => '1 s')});

sub enqueue
{
    my ($queue, $keys, $database) = @_;
    return value($node, $database // 'work', "SELECT count(jobq_enqueue('$queue', concurrency_key => 'k' || n)) FROM generate_series($keys) n");
}
sub claim
{
    my ($queue, $database) = @_;
    return value($node, $database // 'work', "SELECT count(*) FROM jobq_claim('$queue', batch => 5000, heartbeat_timeout => '1 h')");
}
sub forgotten { return work(q{SELECT value FROM jobq_metrics() WHERE name = 'jobq_shared_memory_evictions_total' AND labels->>'part' = 'limits'}); }
sub all_start
{
    my ($queue, $count, $name, $database) = @_;
    my $started = 0;
    return ok(defined seconds_until(sub { return ($started += claim($queue, $database)) == $count; }), $name) || diag("$started of $count jobs have started");
}

# ---- full buckets are evicted first

enqueue('long', '1, 32');
all_start('long', 32, 'a job of each key can be claimed when the buckets are full');
enqueue('short', '1, 2000');
all_start('short', 2000, 'jobs of more keys than the table has entries can be claimed');
is(forgotten(), '0', 'only full buckets were evicted');
enqueue('long', '33, 64');
is(claim('long'), '32', 'jobs of new keys of the first queue can be claimed at once');

# ---- a table that is too small

database($node, 'neighbour');
value($node, 'neighbour', q{SELECT jobq_set_limit('long', '*', rate => 1, per => '20 s')});
enqueue('long', '1, 24', 'neighbour');
all_start('long', 24, 'jobs in another database can be claimed', 'neighbour');

my $position = log_size($node);
enqueue('long', '1001, 3000');
my $line = qr/LOG:  more rate limits are in use than "jobq.max_limits" \(512\) allows/;
ok(defined seconds_until(sub { claim('long'); return count_in_log($node, $line, $position) > 0; }), 'the log says that there are too many limits');
like(log_since($node, $position), qr/HINT:  Increase "jobq.max_limits" and restart the server/, 'the message has a hint');
cmp_ok(forgotten(), '>', 0, 'jobq_metrics() counts the evicted buckets');
claim('long') for 1 .. 5;
is(count_in_log($node, $line, $position), 1, 'the log says it once');

# The buckets of the first database have evicted each other. New keys of the other database can be claimed at once, unless five of
# its keys happen to be in one set of eight.
enqueue('long', '25, 48', 'neighbour');
cmp_ok(claim('long', 'neighbour'), '>=', 22, 'too many keys in one database do not delay the jobs of another one');

# ---- a table that is large enough

settings($node, 'jobq.max_limits = 65536');
$node->restart;
my $left = work(q{SELECT count(*) FROM jobq.jobs WHERE queue = 'long' AND status = 'pending'});
cmp_ok($left, '>', 0, 'jobs wait because of evicted buckets');
all_start('long', $left, 'after a restart with a larger table, all of them can be claimed');
is(forgotten(), '0', 'no bucket was evicted');

done_testing();
