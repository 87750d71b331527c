# Tests the token buckets of rate limits when the server stops. A restart keeps the tokens. After a crash, a promotion, a restored
# copy, or a backward step of the clock, the buckets are empty. A bucket never has more tokens than before. lib/JobqClock.pm sets
# the clock of the server.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use File::Copy qw(copy);
use JobqClock;
use JobqTest;
use PostgreSQL::Test::Utils;
use Test::More;

set_clock('7 12:00:00');
my $node = preloaded('kept', stopped => 1, conf => [q{timezone = 'UTC'}, 'wal_level = replica']);
my $file = $node->data_dir . '/pg_stat_tmp/jobq.buckets';
with_clock(sub { $node->start });
database($node, 'work');
sub work { return value($node, 'work', $_[0]); }

sub begin { return with_clock(sub { $node->start }); }

# Returns the tokens of the two limits. Jobs of queue "used" have been claimed, none of queue "unused".
sub tokens { return work(q{SELECT string_agg(queue || ' ' || tokens, ', ' ORDER BY queue DESC) FROM jobq.limits WHERE queue IN ('used', 'unused')}); }
sub claimed { return work(q{SELECT count(jobq_complete(id, lease)) FROM jobq_claim('used', batch => 100)}); }

# Sets the clock to a time at which both buckets are full and claims one job.
sub spend_one
{
    my ($time) = @_;
    set_clock($time);
    is(tokens(), 'used 2, unused 2', "$time: the buckets are full");
    is(work(q{SELECT count(jobq_complete(id, lease)) FROM jobq_claim('used')}), '1', 'one job starts');
    is(tokens(), 'used 1, unused 2', 'one token is spent');
    return;
}

work(q{SELECT jobq_set_limit('used', rate => 2, per => '1 hour'), jobq_set_limit('unused', rate => 2, per => '1 hour'),
    jobq_enqueue_many('used', array_fill('{}'::jsonb, ARRAY[100])),
    jobq_set_limit('replaced', rate => 60, per => '1 min'), jobq_enqueue_many('replaced', array_fill('{}'::jsonb, ARRAY[9]))});
is(tokens(), 'used 0, unused 0', 'the buckets of a new server are empty');

# ---- a restart

spend_one('7 14:00:00');
is(work(q{SELECT count(jobq_complete(id, lease)) FROM jobq_claim('replaced')}), '1', 'one job starts under another rate');
set_clock('7 14:02:00');
is(work(q{SELECT jobq_set_limit('replaced', rate => 1, per => '1 hour')}), 't', 'a rate is changed after its bucket is full');
$node->stop('fast');
ok(-e $file, 'a server that was shut down leaves the file of buckets');
begin();
ok(!-e $file, 'a running server has no such file');
is(tokens(), 'used 1, unused 2', 'a restart keeps the tokens');
is(work(q{SELECT count(*) FROM jobq_claim('replaced')}), '0', 'the new rate begins with an empty bucket');
is(claimed(), '1', 'one job can be claimed, although 99 wait');
is(claimed(), '0', 'then no other job can be claimed');
with_clock(sub { $node->restart });
is(tokens(), 'used 0, unused 2', 'a second restart creates no token');
is(claimed(), '0', 'no job can be claimed after it');
is(work(q{SELECT date_trunc('minute', next_token) FROM jobq.limits WHERE queue = 'used'}), '2030-01-07 14:30:00+00', 'the next token arrives when it would have arrived without restarts');
$node->stop('fast');
set_clock('7 14:40:00');
begin();
is(tokens(), 'used 1, unused 2', 'the bucket fills while the server is down');

# ---- a crash

spend_one('7 16:00:00');
$node->stop('immediate');
begin();
is(tokens(), 'used 0, unused 0', 'after a crash of the server the buckets are empty');
spend_one('7 18:00:00');
my $session = session($node, 'work');
my $pid = $session->query('SELECT pg_backend_pid()');
kill 'KILL', $pid;
becomes_true($node, 'work', q{SELECT sum(tokens) = 0 FROM jobq.limits}, 'after a crash of one session, the buckets are empty too');

# ---- a file of another shutdown

set_clock('7 20:00:00');
is(tokens(), 'used 2, unused 2', 'the buckets are full');
$node->stop('fast');
link($file, "$file.old") or die "$file: $!";
begin();
is(claimed(), '2', 'two jobs start after the restart');
$node->stop('immediate');
rename("$file.old", $file) or die "$file: $!";
begin();
is(tokens(), 'used 0, unused 0', 'after a crash, the file of an earlier shutdown is ignored');
set_clock('7 22:00:00');
$node->stop('fast');
link($file, "$file.old") or die "$file: $!";
begin();
is(claimed(), '2', 'two jobs start after the restart');
$node->stop('fast');
rename("$file.old", $file) or die "$file: $!";
begin();
is(tokens(), 'used 0, unused 0', 'after a later shutdown, the file of an earlier shutdown is ignored');

# ---- a copy of the data directory

spend_one('8 00:00:00');
$node->stop('fast');
copy($file, "$file.copy") or die "$file: $!";
rename("$file.copy", $file) or die "$file: $!";
begin();
is(tokens(), 'used 0, unused 0', 'a copied server starts with empty buckets');

# ---- a clock that stepped back

spend_one('8 02:00:00');
$node->stop('fast');
set_clock('8 01:00:00');
begin();
is(tokens(), 'used 0, unused 0', 'a backward step of the clock while the server was down creates no token');

# ---- evicted buckets

set_clock('8 06:00:00');
is(tokens(), 'used 2, unused 2', 'the buckets are full');
$node->stop('fast');
settings($node, 'jobq.max_limits = 8');
begin();
is(tokens(), 'used 0, unused 0', 'another jobq.max_limits empties the buckets');
work(q{SELECT jobq_set_limit('crowd', '*', rate => 1, per => '1 hour'), jobq_enqueue_many('crowd', array_fill('{}'::jsonb, ARRAY[40]),
    concurrency_keys => ARRAY(SELECT 'k' || n % 20 FROM generate_series(1, 40) n))});
set_clock('8 08:00:00');
my $crowd = q{SELECT count(jobq_complete(id, lease)) FROM jobq_claim('crowd', batch => 40)};
my $started = work($crowd);
cmp_ok($started, '>=', 8, 'at least as many jobs can be claimed as the table has entries');
is(work($crowd), '0', 'then no other job can be claimed');
with_clock(sub { $node->restart });
is(work($crowd), '0', 'nor after a restart: the keys whose buckets were evicted have no token');
set_clock('8 10:00:00');
isnt(work($crowd), '0', 'two hours later they have tokens');
# ---- a server that was a standby

spend_one('8 12:00:00');
$node->stop('fast');
$node->append_conf('standby.signal', '');
begin();
$node->promote;
becomes_true($node, 'work', q{SELECT NOT pg_is_in_recovery()}, 'the server is promoted');
is(tokens(), 'used 0, unused 0', 'after a promotion the buckets are empty');

is(count_in_log($node, 'PANIC|TRAP|was terminated by signal 11', 0), 0, 'no process crashed by itself');
with_clock(sub { $node->stop });

done_testing();
