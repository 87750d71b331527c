# Tests that the extension works if its files are in a directory of their own, as in an image volume: PostgreSQL 18 finds the
# control file, the scripts, and the library there, for sessions and background workers, preloaded or not. The server's own
# directories contain jobq, too.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use Cwd qw(abs_path);
use File::Copy;
use File::Path qw(make_path);
use JobqTest;
use PostgreSQL::Test::Utils;
use Test::More;

sub pg_config { return qx(pg_config --$_[0]) =~ s/\s+\z//r; }

my ($major) = pg_config('version') =~ /^PostgreSQL (\d+)/;
plan skip_all => "PostgreSQL $major has no extension_control_path, which came with 18" if $major < 18;

my $mounted = abs_path(PostgreSQL::Test::Utils::tempdir());
my $library = "$mounted/lib/jobq.so";
make_path("$mounted/share/extension", "$mounted/lib");
copy($_, "$mounted/share/extension") or die "$_: $!" for glob pg_config('sharedir') . '/extension/jobq*';
copy(pg_config('pkglibdir') . '/jobq.so', $library) or die "jobq.so: $!";

# Marks this control file, to distinguish it from that of the server.
my $control = "$mounted/share/extension/jobq.control";
my $text = slurp_file($control) =~ s/^comment = .*/comment = 'mounted'/mr;
open(my $file, '>', $control) or die "$control: $!";
print $file $text;
close $file;

my @paths = ("extension_control_path = '$mounted/share:\$system'", "dynamic_library_path = '$mounted/lib:\$libdir'");

# Returns the libraries of jobq that a process has loaded.
sub libraries
{
    my ($pid) = @_;
    my %found = map { $_ => 1 } slurp_file("/proc/$pid/maps") =~ m{(/\S*/jobq\.so)$}mg;
    return join ' ', sort keys %found;
}

sub session_libraries
{
    my ($node, $sql) = @_;
    my $session = session($node, 'work');
    $session->query($sql);
    my $found = libraries($session->query('SELECT pg_backend_pid()'));
    end_sessions($session);
    return $found;
}

my $node = preloaded('mounted', conf => \@paths);
is(value($node, 'postgres', q{SELECT comment FROM pg_available_extensions WHERE name = 'jobq'}), 'mounted', 'the server finds the control file in the directory');
isnt(
    value(
        $node, 'postgres', q{SET extension_control_path = '$system'; SELECT comment FROM pg_available_extensions WHERE name = 'jobq'}),
    'mounted', 'without the path, the server finds its own control file');
database($node, 'work');
is( value($node, 'work', q{SELECT obj_description(oid, 'pg_extension') FROM pg_extension WHERE extname = 'jobq'}),
    'mounted', 'CREATE EXTENSION uses the control file in the directory');
is(libraries(launcher_pid($node)), $library, 'the launcher has loaded the library from the directory');
is(session_libraries($node, 'SELECT jobq_version()'), $library, 'a session has loaded the library from the directory and no other');

my $job = value($node, 'work', q{SELECT jobq_enqueue('q', run_at => clock_timestamp() + interval '300 ms')});
keep_in_use($node, 'work');
becomes_true($node, 'work', "SELECT status = 'pending' FROM jobq.jobs WHERE id = $job", 'a background worker promotes a job');
is(libraries(await_worker($node, 'work')), $library, 'the worker has loaded the library from the directory');
$node->stop;

my $plain = server('not_preloaded', conf => \@paths);
database($plain, 'work');
is(session_libraries($plain, q{SELECT jobq_enqueue('q')}), $library, 'without preload, a session loads the library from the directory');
is(value($plain, 'work', q{SELECT count(*) FROM jobq_claim('q')}), '1', 'the session can claim the job');

done_testing();
