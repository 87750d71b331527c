# A wall clock for servers that a test can set; see clock.c.
package JobqClock;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use File::Basename qw(dirname);
use PostgreSQL::Test::Utils;
use Time::Local qw(timegm);

our @EXPORT = qw(set_clock with_clock);

my $directory = PostgreSQL::Test::Utils::tempdir;
my $clock     = "$directory/clock";
my $library   = "$directory/clock.so";
system($ENV{CC} // 'cc', '-shared', '-fPIC', '-O2', '-o', $library, dirname(__FILE__) . '/clock.c') == 0 or die 'the clock cannot be compiled';

# Sets the clock to 'DAY HH:MM:SS' of January 2030, UTC. The clock continues from there.
sub set_clock
{
    my ($day, $hour, $minute, $second) = $_[0] =~ /^(\d+) (\d+):(\d+):(\d+)$/ or die $_[0];
    my $ahead = timegm($second, $minute, $hour, $day, 0, 2030) - time;
    # The file is overwritten in place, because the servers have mapped it.
    open(my $file, -e $clock ? '+<' : '>', $clock) or die "$clock: $!";
    syswrite($file, pack('q', 1e6 * $ahead)) == 8 or die "$clock: $!";
    close $file;
    return;
}

# Calls $what->(). Servers that it starts use this clock.
sub with_clock
{
    my ($what) = @_;
    local $ENV{LD_PRELOAD}      = $library;
    local $ENV{JOBQ_TEST_CLOCK} = $clock;
    return $what->();
}

1;
