# Time limits on a machine that other processes use, too. A separate process reads the clock every 10 ms and writes a page of a
# file. If it is late, the machine has stalled for all processes, and limits are extended by that time. It also counts the runnable
# processes, because with ten of them on two processors everything takes five times as long.
package JobqTime;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use IO::Handle;
use List::Util qw(max min sum);
use PostgreSQL::Test::Utils;
use POSIX ();
use Test::More;
use Time::HiRes qw(clock_gettime usleep CLOCK_MONOTONIC);

our @EXPORT = qw(in_time);

my $look_pause = 10_000;    # microseconds
my $noticed    = 0.05;      # seconds; shorter delays are caused by the scheduler

my $count_every = 10;        # readings of the clock between two counts of the processes

my ($watcher, $reports, $unread, @stalls) = (undef, undef, '');    # each stall: its end and its duration
my @crowds;                                                        # each count: its time and the runnable processes per processor

sub now { return clock_gettime(CLOCK_MONOTONIC); }

# Returns the number of runnable processes per processor, at least 1.
sub crowd
{
    open(my $stat, '<', '/proc/stat') or return 1;
    my ($processors, $running) = (0, 1);
    while (<$stat>)
    {
        $processors++ if /^cpu\d/;
        $running = $1 if /^procs_running (\d+)/;
    }
    return max(1, $running / max(1, $processors));
}

# Runs until its parent process has ended.
sub watch
{
    my ($parent, $to) = @_;
    open(my $page, '+>', "$PostgreSQL::Test::Utils::tmp_check/clock.$$") or POSIX::_exit(1);
    my $looks = 0;
    while (getppid() == $parent)
    {
        my $begin = now();
        last if $looks++ % $count_every == 0 && !syswrite($to, sprintf("crowd %.6f %.2f\n", $begin, crowd()));
        usleep($look_pause);
        sysseek($page, 0, 0);
        syswrite($page, "\0" x 8192);
        my $late = now() - $begin - $look_pause / 1e6;
        last if $late > $noticed && !syswrite($to, sprintf("stall %.6f %.6f\n", now(), $late));
    }
    POSIX::_exit(0);
}

sub start_watching
{
    my $parent = $$;
    pipe($reports, my $to) or die "pipe: $!";
    $watcher = fork() // die "fork: $!";
    watch($parent, $to) if $watcher == 0;
    close $to;
    $reports->blocking(0);
    return;
}

# Returns for the last $seconds: the total and the longest time for which the machine has stalled, and the average number of
# runnable processes per processor.
sub machine
{
    my ($seconds) = @_;
    usleep(3 * $look_pause);    # so that a stall that has just ended is reported, too
    while (sysread($reports, $unread, 4096, length $unread)) { }
    while ($unread =~ s/^(\w+) (\S+) (\S+)\n//)
    {
        if ($1 eq 'stall') { push @stalls, [ $2, $3 ]; }
        else               { push @crowds, [ $2, $3 ]; }
    }
    my $since = now() - $seconds;
    my @within = map { min($_->[1], $_->[0] - $since) } grep { $_->[0] > $since } @stalls;
    # If there was no count in this time, the last one is used.
    my @counts = map { $_->[1] } grep { $_->[0] > $since } @crowds;
    @counts = ($crowds[-1][1]) if !@counts && @crowds;
    return (sum(0, @within), max(0, @within), @counts ? sum(@counts) / @counts : 1);
}

# Asserts that something that has just ended took at most $limit seconds. With $within, it must be the longest of several
# measurements in the last $within seconds.
sub in_time
{
    my ($took, $limit, $name, $within) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my ($sum, $longest, $crowd) = machine($within // $took + 0.5);
    my $stalled = $within ? $longest : $sum;
    diag(sprintf '%s: the machine stalled for %.3f s in the meantime', $name, $stalled) if $stalled > 0;
    diag(sprintf '%s: %.1f runnable processes per processor', $name, $crowd) if $crowd > 1.5;
    return cmp_ok($took, '<=', $limit * $crowd + $stalled, $name);
}

# Runs after the INIT block of PostgreSQL::Test::Utils, which creates the directories.
INIT { start_watching(); }

# The watcher exits with _exit, so it does not run the END blocks that stop clusters.
END { kill 'KILL', $watcher if $watcher; }

1;
