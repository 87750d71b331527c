# Tests that jobq_grant gives each kind of role exactly the table privileges that docs/reference/administration.md states (test/docs/functions.py
# tests the functions), and that roles can be granted and revoked concurrently.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = server('grants');
database($node, 'work');
sub work { return value($node, 'work', $_[0]); }

# Returns the names in a cell of the table.
sub names_in { return $_[0] =~ /`([\w.]+)`/g; }
sub sorted { return join "\n", sort @_; }

my $reference = slurp_file("$FindBin::RealBin/../../docs/reference/administration.md");
my ($table) = $reference =~ /^\| profile \| can read \|\n\|---\|---\|\n((?:\|.*\n)+)/m;
ok(defined $table, 'the reference has a table of grants');
# The views that mark a role as restricted to some queues (jobq.worker_queues ...) are not readable by any role. The table names
# jobq.dependencies separately, because monitors may not read it.
my @views = split /\n/, work(q{SELECT oid::regclass FROM pg_class WHERE relnamespace = 'jobq'::regnamespace AND relkind = 'v' AND relname !~ '_queues$' AND relname <> 'dependencies'});
my %kinds;
for my $line (split /\n/, $table // '')
{
    my (undef, $rows, $reads) = split /\s*\|\s*/, $line;
    may_read($_, $reads) for split /, /, $rows;
}
is(join(' ', sort keys %kinds), 'monitor operator producer worker', 'the table has every kind of role');

sub may_read
{
    my ($kind, $reads) = @_;
    $kinds{$kind} = 1;
    work("CREATE ROLE a_$kind; SELECT jobq_grant('a_$kind', '$kind')");
    my @reads = names_in($reads);
    push @reads, @views if $reads =~ /the views/;
    my @deletes = $reads =~ /`([\w.]+)` \(and delete from it\)/g;
    for ([ 'SELECT', @reads ], [ 'DELETE', @deletes ], ['INSERT'], ['UPDATE'], ['TRUNCATE'])
    {
        my ($privilege, @expected) = @$_;
        is(work(qq{SELECT c.oid::regclass::text COLLATE "C" FROM pg_class c
                   WHERE c.relnamespace = 'jobq'::regnamespace AND c.relkind IN ('r', 'v', 'S')
                     AND has_table_privilege('a_$kind', c.oid, '$privilege') ORDER BY 1}),
            sorted(@expected), "$privilege: a $kind has it exactly where the reference says");
    }
    return;
}

# Eight sessions grant and revoke the same roles concurrently.
my @sessions = map { session($node, 'work') } 1 .. 8;
work('CREATE ROLE r0; CREATE ROLE r1');
my @handles;
for my $n (0 .. $#sessions)
{
    my @calls = map { my $kind = (qw(producer worker operator monitor))[ ($_ + $n) % 4 ]; "PERFORM jobq_grant('r" . ($_ % 2) . "', '$kind'); COMMIT; PERFORM jobq_revoke('r" . ($_ % 2) . "', '$kind'); COMMIT;" } 0 .. 19;
    $sessions[$n]->query_until(qr/started/, "\\echo started\nDO \$\$ BEGIN @calls END \$\$;\n");
}
for my $session (@sessions)
{
    is($session->query('SELECT 1'), '1', 'a session has finished');
    is($session->{stderr}, '', 'without an error');
}
work("SELECT jobq_grant('r0', 'producer')");
is(work(q{SELECT has_function_privilege('r0', oid, 'EXECUTE') FROM pg_proc WHERE proname = 'jobq_enqueue'}), 't', 'the last grant is in effect');
end_sessions(@sessions);

done_testing();
