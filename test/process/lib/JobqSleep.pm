# Functions for the tests of jobq_wait and jobq_wait_job: sessions that call one of them asynchronously.
package JobqSleep;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use JobqTest;
use JobqTime;
use Test::More;
use Time::HiRes qw(time usleep);

our @EXPORT = qw($slack sleeper start ended seconds_to_end wakes sleeps_on asleep sleeps stops_fast);

our $slack = 0.5;    # a wake-up takes about a millisecond, and longer on a noisy machine

my $calls = 0;

sub sleeper
{
    my ($node, @options) = @_;
    return { session => session($node, 'work', @options), node => $node, pid => undef };
}

# Sends a call, and optionally a statement to execute after it, and returns at once.
sub start
{
    my ($sleeper, $call, $then) = @_;
    my $session = $sleeper->{session};
    $sleeper->{pid} //= $session->query('SELECT pg_backend_pid()');
    $sleeper->{tag} = ++$calls;
    my $printed = $session->query_until(qr/begin-$calls\n/, "\\echo begin-$calls\n$call;\n" . ($then ? "$then;\n" : '') . "\\echo end-$calls\n");
    # The call may already have ended.
    $sleeper->{early} = $printed =~ s/^.*begin-$calls\n//sr;
    $sleeper->{begin} = time;
    return $sleeper;
}

sub ended
{
    my ($sleeper) = @_;
    return 1 if $sleeper->{ended} && $sleeper->{ended} == $sleeper->{tag};
    my $session = $sleeper->{session};
    $session->{run}->pump_nb;
    return 0 unless "$sleeper->{early}$session->{stdout}" =~ /^(.*)end-$sleeper->{tag}\n/s;
    $sleeper->{output} = $1;
    $sleeper->{ended} = $sleeper->{tag};
    $sleeper->{took} = time - $sleeper->{begin};
    $session->{stdout} = '';
    return 1;
}

# Returns the seconds until the call has ended.
sub seconds_to_end { my ($sleeper, $limit) = @_; return seconds_until(sub { ended($sleeper) }, $limit) // 1e9; }

sub wakes
{
    my ($sleeper, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return in_time(seconds_to_end($sleeper, 10), $slack, $name);
}

sub sleeps_on
{
    my ($sleeper, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    usleep(200_000);
    return ok(!ended($sleeper), $name);
}

sub asleep
{
    my (@sleepers) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $pids = join ',', map { $_->{pid} } @sleepers;
    my $event = $sleepers[0]{node}->pg_version >= 17 ? q{wait_event IN ('JobqWait', 'JobqWaitJob')} : q{wait_event = 'Extension'};
    return becomes_true($sleepers[0]{node}, 'work',
        "SELECT count(*) = @{[scalar @sleepers]} FROM pg_stat_activity WHERE pid IN ($pids) AND $event",
        @sleepers . ' asleep');
}

# Returns how often the session has gone to sleep.
sub sleeps
{
    my ($sleeper) = @_;
    open(my $status, '<', "/proc/$sleeper->{pid}/status") or return 0;
    my ($count) = join('', <$status>) =~ /^voluntary_ctxt_switches:\s+(\d+)/m;
    return $count;
}

# Tests a fast shutdown while sessions sleep.
sub stops_fast
{
    my ($node) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $begin = time;
    $node->stop('fast');
    my $took = time - $begin;
    report_seconds('fast shutdown with sleepers', $took);
    in_time($took, 2, 'a fast shutdown does not wait for sleepers');
    unlike(log_since($node), qr/(?:PANIC|TRAP|terminated by signal|XX000|cache lookup failed)/, 'no crash, no internal error');
    return;
}

1;
