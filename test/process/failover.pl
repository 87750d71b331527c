# A short run of `make failover` (test/chaos/README.md): JOBQ_FAILOVERS promotions (default 2) under load, and then a promotion of
# the last of three servers. No acknowledged change is lost, and no stale lease is accepted.
use strict;
use warnings FATAL => 'all';

use FindBin;
use File::Copy;
use PostgreSQL::Test::Utils;
use Test::More;

local $ENV{JOBQ_FAILOVERS} = $ENV{JOBQ_FAILOVERS} // 2;
my $directory = PostgreSQL::Test::Utils::tempdir;
open(my $run, '-|', $ENV{PYTHON} // '/usr/bin/python3', '-B', "$FindBin::RealBin/../chaos/failover.py", $directory) or die "python3: $!";
while (my $line = <$run>)
{
    chomp $line;
    if ($line =~ /^(not )?ok - (.*)/) { ok(!$1, $2); }
    else                              { diag($line); }
}
close $run;
if (!is($?, 0, 'the run succeeds'))
{
    copy($_, $PostgreSQL::Test::Utils::log_path) for glob("$directory/sockets/*.log $directory/*.err $directory/history/*");
}
done_testing();
