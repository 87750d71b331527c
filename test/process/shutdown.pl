# Tests that a worker does not delay a shutdown, whatever it is doing, and that jobq.enabled stops and starts the workers on a
# reload.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use JobqTime;
use Test::More;
use Time::HiRes qw(time);

my $limit = 3;    # seconds; 1 is the aim
my $node = preloaded('shutdown', init => { allows_streaming => 1 }, conf => ['max_connections = 20']);
database($node, 'work');
keep_in_use($node, 'work');

sub stopped_in_time
{
    my ($mode, $what) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $begin = time;
    $node->stop($mode);
    my $took = time - $begin;
    report_seconds("$mode shutdown $what", $took);
    in_time($took, $limit, "$mode shutdown $what takes less than $limit s");
    return;
}

sub enqueue_delayed { return value($node, 'work', q{SELECT jobq_enqueue('q', run_at => clock_timestamp() + interval '50 ms')}); }
my $promoted = q{SELECT NOT EXISTS (SELECT FROM jobq.jobs WHERE queue = 'q' AND status = 'scheduled')};

# ---- fast and smart shutdown with a worker that is connected

for my $mode ('fast', 'smart', 'fast')
{
    ok(await_worker($node, 'work'), 'a worker is connected');
    # The worker is waiting for its next round.
    becomes_true($node, 'work', q{SELECT EXISTS (SELECT FROM pg_stat_activity
        WHERE backend_type = 'jobq worker' AND state = 'idle')}, 'and waits for its next round') if $mode eq 'fast';
    stopped_in_time($mode, 'with a live worker');
    $node->start;
}

# ---- shutdown while the worker waits for a lock

my $holder = session($node, 'work');
$holder->query('BEGIN; LOCK TABLE jobq.jobs IN ACCESS EXCLUSIVE MODE');
becomes_true($node, 'postgres', q{SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid)
    WHERE a.backend_type = 'jobq worker' AND NOT l.granted)}, 'a worker waits for a lock');
stopped_in_time('fast', 'with a worker that waits for a lock');
eval { $holder->quit };

# ---- shutdown while a synchronous standby is missing

$ENV{PGOPTIONS} = '-c synchronous_commit=local';    # for the sessions of this test
settings($node, q{synchronous_standby_names = 'missing'}, q{synchronous_commit = on});
$node->start;
enqueue_delayed();
becomes_true($node, 'work', $promoted, 'a missing synchronous standby does not delay the duties');
stopped_in_time('fast', 'without the synchronous standby');
settings($node, q{synchronous_standby_names = ''});
delete $ENV{PGOPTIONS};
$node->start;

# ---- jobq.enabled

ok(await_worker($node, 'work'), 'a worker is connected');
settings($node, 'jobq.enabled = off');
$node->reload;
my $gone = becomes_true($node, 'work',
    q{SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'jobq worker')}, 'jobq.enabled = off: the worker exits');
report_seconds('worker gone after jobq.enabled = off', $gone);
enqueue_delayed();
becomes_true($node, 'work', q{SELECT clock_timestamp() > max(run_at) + interval '1500 ms' FROM jobq.jobs WHERE queue = 'q'}, 'a job has been due for a while');
is(value($node, 'work', $promoted), 'f', 'the job is not promoted');
is( value($node, 'work', q{SELECT string_agg(state, ' ') FROM jobq.background_workers}),
    'disabled disabled', 'jobq.background_workers says that the workers are disabled');
like(value($node, 'work', q{SELECT note FROM jobq.background_workers WHERE database IS NULL}),
    qr/jobq\.enabled.*jobq_tick/, 'jobq.background_workers says what to do');
is(value($node, 'work', q{SELECT done FROM jobq_tick() WHERE duty = 'promote'}), '1', 'jobq_tick() promotes the job');

enqueue_delayed();
settings($node, 'jobq.enabled = on');
$node->reload;
my $back = becomes_true($node, 'work', $promoted, 'jobq.enabled = on: the job is promoted');
report_seconds('promoted after jobq.enabled = on', $back);
stopped_in_time('immediate', 'at the end');

unlike(log_since($node), qr/(?:PANIC|TRAP|terminated by signal)/, 'no crash');

done_testing();
