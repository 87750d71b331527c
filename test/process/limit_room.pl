# The room for limits in shared memory: a full token bucket makes room for another limit without loss. If the table is too small, the
# server says so in jobq_metrics() and in its log, and jobq.max_limits makes it larger. The database with the most limits makes room.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use Test::More;

my $node = preloaded('room', conf => ['jobq.max_limits = 512']);
database($node, 'work');
sub work { return value($node, 'work', $_[0]); }
# A bucket of queue "long" is full again after 20 s, one of queue "short" after 1 ms.
work(q{SELECT jobq_set_limit('long', '*', rate => 1, per => '20 s'), jobq_set_limit('short', '*', rate => 1000, per => '1 s')});

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

# ---- full buckets go first

enqueue('long', '1, 32');
all_start('long', 32, 'when the buckets have filled, each key starts a job');
enqueue('short', '1, 2000');
all_start('short', 2000, 'more keys than there is room for start their jobs');
is(forgotten(), '0', 'only full buckets have made room');
enqueue('long', '33, 64');
is(claim('long'), '32', 'new keys of the first queue start their jobs at once');

# ---- too small

database($node, 'neighbour');
value($node, 'neighbour', q{SELECT jobq_set_limit('long', '*', rate => 1, per => '20 s')});
enqueue('long', '1, 24', 'neighbour');
all_start('long', 24, 'keys of another database start their jobs', 'neighbour');

my $position = log_size($node);
enqueue('long', '1001, 3000');
my $line = qr/LOG:  more limits with a rate are in use than "jobq.max_limits" \(512\) allows/;
ok(defined seconds_until(sub { claim('long'); return count_in_log($node, $line, $position) > 0; }), 'the log says that there are too many');
like(log_since($node, $position), qr/HINT:  Increase "jobq.max_limits" and restart the server/, 'with a hint');
cmp_ok(forgotten(), '>', 0, 'jobq_metrics() counts the buckets');
claim('long') for 1 .. 5;
is(count_in_log($node, $line, $position), 1, 'the log says it once');

# The buckets of the first database have made room for each other. New keys of the other database start their jobs at once, except where
# chance has put five of its keys into one set of eight.
enqueue('long', '25, 48', 'neighbour');
cmp_ok(claim('long', 'neighbour'), '>=', 22, 'too many keys in one database do not delay the jobs of another');

# ---- large enough

settings($node, 'jobq.max_limits = 65536');
$node->restart;
my $left = work(q{SELECT count(*) FROM jobq.jobs WHERE queue = 'long' AND status = 'pending'});
cmp_ok($left, '>', 0, 'jobs have waited for room');
all_start('long', $left, 'after a restart with more room all of them start');
is(forgotten(), '0', 'and no bucket has made room');

done_testing();
