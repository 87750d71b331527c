# Tests that examples/worker.sh hides payloads, results, errors, and leases from other users of the machine: its files are in a
# directory that only its user can enter, and no command that it runs gets these values as arguments.
use strict;
use warnings FATAL => 'all';

use File::Temp qw(tempdir);
use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use Test::More;

my $node = preloaded('worker_sh');
database($node, 'shell');
@ENV{qw(PGHOST PGPORT PGDATABASE)} = ($node->host, $node->port, 'shell');

# A shared directory with the mode of /tmp.
my $shared = tempdir(CLEANUP => 1);
chmod 01777, $shared;

# Each command that the worker calls is replaced by a program that records its arguments first.
my $bin = tempdir(CLEANUP => 1);
my $arguments = "$bin/arguments";
for my $command (qw(psql env mktemp cat rm head tail tr iconv sleep))
{
    my ($program) = grep { -x } map { "$_/$command" } split /:/, $ENV{PATH};
    open my $file, '>', "$bin/$command" or die "$command: $!";
    print {$file} qq{#!/bin/bash\nprintf '%s\\n' "$command" "\$@" >>"$arguments"\nexec "$program" "\$@"\n};
    close $file;
    chmod 0755, "$bin/$command";
}

# Completes the job if the payload is "yes". Standard output and standard error contain the modes of the directories in which they
# are stored.
my $command = <<'SH';
for fd in 1 2; do
    file=$(readlink /proc/$$/fd/$fd)
    modes="$modes $(stat -c %a "${file%/*}")"
done
read -r payload
echo "secret-$payload$modes"
echo "secret-$payload$modes" >&2
[ "$payload" = '"yes"' ]
SH
value($node, 'shell', q{SELECT jobq_create_queue('shell', max_attempts => 1)});
my ($yes, $no) = split /\n/, value($node, 'shell', q{SELECT jobq_enqueue('shell', to_jsonb(p)) FROM unnest('{yes,no}'::text[]) p});
my $worker = fork // die "fork: $!";
if ($worker == 0)
{
    $ENV{PATH} = "$bin:$ENV{PATH}";
    $ENV{TMPDIR} = $shared;
    exec "$FindBin::RealBin/../../examples/worker.sh", 'shell', 'bash', '-c', $command or die "worker.sh: $!";
}
becomes_true($node, 'shell', q{SELECT count(*) = 2 FROM jobq.jobs WHERE status IN ('completed', 'failed')}, 'both jobs have run');
kill 'TERM', $worker;
waitpid $worker, 0;
is($?, 0, 'the worker exits with success');

my $result = value($node, 'shell', "SELECT result #>> '{}' FROM jobq.jobs WHERE id = $yes");
my $error = value($node, 'shell', "SELECT error FROM jobq.jobs WHERE id = $no");
like($result, qr/^secret-"yes"/, 'the standard output of the command is stored as the result');
like($error, qr/^exit status 1: secret-"no"/, 'the standard error of the command is stored as the error');
is_deeply([ $result =~ /(\d+)/g ], [ 700, 700 ], 'only the user of the worker can enter the directory of its files');
is_deeply([ glob "$shared/*" ], [], 'the worker has removed the directory');

open my $file, '<', $arguments or die "$arguments: $!";
my @arguments = <$file>;
chomp @arguments;
cmp_ok(scalar(grep { $_ eq 'psql' } @arguments), '>=', 4, 'the worker has called psql');
is_deeply([ grep { /secret-/ } @arguments ], [], 'no argument has a result or an error');
my $lease = qr/\d{12}/;
like(value($node, 'shell', "SELECT lease FROM jobq.attempts WHERE job_id = $no"), $lease, 'a lease has many digits, so it cannot match by chance');
is_deeply([ grep { /$lease/ } @arguments ], [], 'no argument has a lease');
$node->stop;
done_testing();
