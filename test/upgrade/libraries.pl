# Tests two libraries, of the last release and of the current sources, with two versions of the SQL: each combination works or says
# what to do, and no job is lost. A server keeps the library that it has preloaded until it is restarted, even if the file is
# replaced.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../process/lib";

use JobqLoad;
use JobqTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $old         = $ENV{JOBQ_OLD_VERSION} // die 'JOBQ_OLD_VERSION is not set';
my $old_library = $ENV{JOBQ_OLD_LIBRARY} // die 'JOBQ_OLD_LIBRARY is not set';

my $node      = preloaded('libraries', stopped => 1);
my $installed = run_output('pg_config', '--pkglibdir') . '/jobq.so';
my $new_library = PostgreSQL::Test::Utils::tempdir() . '/new.so';
copy($installed, $new_library);

sub run_output { my ($out) = run_command([@_]); return $out; }
sub copy { PostgreSQL::Test::Utils::system_or_bail('cp', @_); return; }

# Replaces the library like a package manager: a new file with the same name, while the old file stays mapped.
sub install
{
    my ($library) = @_;
    copy($library, "$installed.new");
    rename "$installed.new", $installed or die "$installed: $!";
    return;
}

sub is_installed
{
    my ($database, $version, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return is(value($node, $database, q{SELECT extversion FROM pg_extension WHERE extname = 'jobq'}), $version, $name);
}

# Tests that SQL fails with 55000 and an error that says which library is needed and what to do.
sub refused
{
    my ($database, $sql, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my (undef, $errors) = run_sql($node, $database, "\\set VERBOSITY verbose\n$sql");
    return like($errors, qr/ERROR:  55000: .* requires version \S+ or newer of the jobq library, but this session has \Q$old\E.*HINT:  Install that version or a newer one\. Then restart/s, $name);
}

# ---- old library and old SQL; the package of the new version is installed while the server runs

install($old_library);
$node->start;
my $new = value($node, 'postgres', q{SELECT default_version FROM pg_available_extensions WHERE name = 'jobq'});
$node->safe_psql('postgres', "CREATE DATABASE work");
value($node, 'work', "CREATE EXTENSION jobq VERSION '$old'");
is(value($node, 'work', 'SELECT jobq_version()'), $old, "the server has the library $old");
# Columns of a DBA, most of which are dropped again, so that the columns of the next release have numbers beyond 64.
value($node, 'work', <<'SQL');
DO $$ BEGIN
    FOR n IN 1..30 LOOP EXECUTE format('ALTER TABLE jobq.jobs ADD COLUMN dba_%s text', n); END LOOP;
    FOR n IN 2..30 LOOP EXECUTE format('ALTER TABLE jobq.jobs DROP COLUMN dba_%s', n); END LOOP;
END $$;
SELECT jobq_enqueue('before') FROM generate_series(1, 30);
UPDATE jobq.jobs SET dba_1 = 'theirs' WHERE queue = 'before';
SQL
prepare_load($node, 'work');
my $load = begin_load($node, 'work');

install($new_library);
load_goes_on($load, 'the load continues after the library file is replaced');
is(value($node, 'work', 'SELECT jobq_version()'), $old, 'new sessions still use the old library');
value($node, 'work', q{SELECT jobq_enqueue('late', run_at => clock_timestamp() + interval '10 ms')});
becomes_true($node, 'work', q{SELECT NOT EXISTS (SELECT FROM jobq.jobs WHERE queue = 'late' AND status = 'scheduled')}, 'the background worker works with the old library');

refused('work', 'ALTER EXTENSION jobq UPDATE', 'the update fails with an error that says what to do');
is_installed('work', $old, 'the SQL is unchanged');
$node->safe_psql('postgres', 'CREATE DATABASE another');
refused('another', 'CREATE EXTENSION jobq', 'CREATE EXTENSION with the new version fails with such an error');
load_goes_on($load, 'the load continues all the time');
is(end_load($load), '', 'no client reported an error');
check_load($load);

# After a crash, the postmaster restarts all other processes with the library that it has in memory, not with the file.
my $victim = session($node, 'postgres');
my $pid = $victim->query('SELECT pg_backend_pid()');
my $since = log_size($node);
kill 'KILL', $pid;
eval { $victim->quit };
seconds_until(sub { return count_in_log($node, qr/database system is ready/, $since) > 0 });
becomes_true($node, 'work', "SELECT jobq_version() = '$old'", 'after a crash the server still has the old library');
is(value($node, 'work', q{SELECT jobq_enqueue('crash') > 0}), 't', 'with its shared memory');

# ---- new library, old SQL; then the update

$node->restart;
is(value($node, 'work', 'SELECT jobq_version()'), $new, 'after a restart the server has the new library');
is_installed('work', $old, 'the SQL is still the old version');
$load = begin_load($node, 'work');
load_goes_on($load, 'the new library works with the old SQL');
value($node, 'work', 'ALTER EXTENSION jobq UPDATE');
load_goes_on($load, 'the load continues after the update');
is_installed('work', $new, "the SQL is $new");

# The column that the update adds.
is(value($node, 'work', q{SELECT attnum > 64 FROM pg_attribute WHERE attrelid = 'jobq.jobs'::regclass AND attname = 'next_column'}), 't',
    'the new column comes after the columns of the DBA');
for my $access (qw(direct sql))
{
    my $with = "SET jobq.access = $access";
    is(value($node, 'work', "$with; SELECT jobq_enqueue('added $access') > 0"), 't', "$access: a job is enqueued");
    is(value($node, 'work', "SELECT next_column FROM jobq.jobs WHERE queue = 'added $access'"), 'enqueued', 'the new column has a value');
    is(value($node, 'work', "$with; SELECT jobq.next(id, '$access') FROM jobq.jobs WHERE queue = 'added $access'"), 'enqueued', 'the value can be read');
    is(value($node, 'work', "$with; SELECT jobq.next(id, NULL) FROM jobq.jobs WHERE queue = 'added $access'"), $access, 'a new value can be written and read');
    is(value($node, 'work', "SELECT count(*) FROM jobq.jobs WHERE queue = 'added $access' AND next_column IS NULL"), '1', 'the value can be cleared');
}
is(value($node, 'work', q{SELECT count(*), count(jobq.next(id, 'added')) FROM jobq.jobs WHERE queue = 'before'}), '30|0', 'jobs from before the update have no value');
becomes_true($node, 'work', q{SELECT count(jobq.next(id, 'touched')) > 0 FROM
    (SELECT id FROM jobq.jobs WHERE queue = 'load' AND next_column = 'enqueued' AND status IN ('pending', 'processing') LIMIT 100 FOR NO KEY UPDATE SKIP LOCKED) found},
    'jobs that the load enqueues and claims have a value');
value($node, 'work', 'GRANT INSERT, SELECT ON jobq.jobs TO load_producer');
value($node, 'work', q{SET ROLE load_producer; INSERT INTO jobq.jobs (queue, next_column) VALUES ('given', 'given')});
is(value($node, 'work', q{SELECT next_column IS NULL FROM jobq.jobs WHERE queue = 'given'}), 't', 'a producer cannot set the column');
load_goes_on($load, 'the load continues all the time');
is(end_load($load), '', 'no client reported an error');
check_load($load);
value($node, 'work', q{ALTER TABLE jobq.jobs ALTER next_column SET DEFAULT 'x'});
my (undef, $errors) = run_sql($node, 'work', q{SELECT jobq_enqueue('default')});
like($errors, qr/column "next_column" of table jobq\.jobs has a default, which jobq cannot apply/, 'a default of the DBA is rejected');
value($node, 'work', q{ALTER TABLE jobq.jobs ALTER next_column DROP DEFAULT, ALTER next_column TYPE varchar});
(undef, $errors) = run_sql($node, 'work', q{SELECT jobq_enqueue('type')});
like($errors, qr/column "next_column" of table jobq\.jobs has the type character varying/, 'another type is rejected, too');
value($node, 'work', q{ALTER TABLE jobq.jobs ALTER next_column TYPE text});

# ---- old library and new SQL: the old package was installed again, or a standby that still had it was promoted

install($old_library);
$node->restart;
is(value($node, 'work', 'SELECT jobq_version()'), $old, 'the server has the old library and the new SQL');
my $touched = value($node, 'work', q{SELECT count(*) FROM jobq.jobs WHERE next_column = 'touched'});
$load = begin_load($node, 'work');
load_goes_on($load, 'the old library works with a table that has an additional column');
is(end_load($load), '', 'no client reported an error');
check_load($load);
is(value($node, 'work', q{SELECT count(*) FROM jobq.jobs WHERE next_column = 'touched'}), $touched, 'the value of the additional column is kept');
is(value($node, 'work', q{SELECT count(jobq_complete(id, lease)) FROM jobq_claim('before', batch => 30)}), '30', 'also in jobs that the old library claims and completes');
is(value($node, 'work', q{SELECT DISTINCT next_column || ' ' || dba_1 || ' ' || status FROM jobq.jobs WHERE queue = 'before'}), 'added theirs completed', "together with the value of the DBA's column");

# The table may contain jobs that the old library would treat wrongly; see follow_job in src/sql/20_tables.sql.
value($node, 'work', qq{CREATE OR REPLACE TRIGGER follow_job AFTER UPDATE ON jobq.jobs FOR EACH ROW WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.follow_job('$new')});
refused('work', $_, "rejected: $_") for q{SELECT jobq_enqueue('back')}, q{SELECT jobq_claim('crash')}, q{SELECT jobq_tick()},
    q{UPDATE jobq.jobs SET priority = 1 WHERE queue = 'crash'};
becomes_true($node, 'work', qq{SELECT note LIKE 'the extension has version $new, but the library has version $old; install the newer library and restart%' FROM jobq.background_workers WHERE database = current_database()},
    'jobq.background_workers says what to do');
# Functions that the old library does not have.
my ($exported) = run_command([ 'nm', '-D', '--defined-only', $old_library ]);
my %exported = map { $_ => 1 } $exported =~ / T (\w+)$/gm;
my @missing = grep { !$exported{$_} } split /\n/, value($node, 'work', q{SELECT DISTINCT prosrc FROM pg_proc WHERE probin LIKE '%jobq'});
diag("not in the library $old: " . (@missing ? "@missing" : 'nothing'));
for my $symbol (@missing)
{
    my $call = value($node, 'work', qq{SELECT format('SELECT %s(%s)', oid::regproc, (SELECT string_agg('NULL::' || format_type(t, NULL), ', ') FROM unnest(proargtypes) t)) FROM pg_proc WHERE prosrc = '$symbol' LIMIT 1});
    my (undef, $errors) = run_sql($node, 'work', "\\set VERBOSITY verbose\n$call");
    like($errors, qr/42883: could not find function "$symbol" in file/, "$call says that the library lacks the function");
}
is(value($node, 'work', q{SELECT count(*) FROM jobq.jobs WHERE queue = 'crash'}), 1, 'no job is lost');
install($new_library);
$node->restart;
$load = begin_load($node, 'work');
is(end_load($load), '', 'the new library works again');
check_load($load);

# ---- without preload: each session has the library that it found

$node->stop;
install($old_library);
$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "''");
$node->start;
$node->safe_psql('postgres', "CREATE DATABASE apart");
value($node, 'apart', "CREATE EXTENSION jobq VERSION '$old'");
value($node, 'apart', q{SELECT jobq_enqueue('q') FROM generate_series(1, 20)});
my $early = session($node, 'apart');
is($early->query('SELECT jobq_version()'), $old, 'a session loads the old library');
$early->query(q{PREPARE claim AS SELECT id, lease FROM jobq_claim('q', 'early'); PREPARE done AS SELECT jobq_complete($1, $2)});
my ($id, $lease) = split /\|/, $early->query('EXECUTE claim');
install($new_library);
is(value($node, 'apart', 'SELECT jobq_version()'), $new, 'a later session loads the new library');
is($early->query('SELECT jobq_version()'), $old, 'the first session keeps the old library');
$early->{stderr} = '';
$early->query('ALTER EXTENSION jobq UPDATE');
like($early->{stderr}, qr/requires version \Q$new\E or newer of the jobq library.*HINT/s, 'the update is rejected in the first session');
value($node, 'apart', 'ALTER EXTENSION jobq UPDATE');
is_installed('apart', $new, 'the update succeeds in the other session');
is($early->query("EXECUTE done($id, $lease)"), 't', 'the session with the old library continues, because it supports later tables of its major version');
is(value($node, 'apart', q{SELECT string_agg(status || ' ' || count, ', ' ORDER BY status) FROM (SELECT status, count(*) FROM jobq.jobs GROUP BY 1) s}),
    'pending 19, completed 1', 'no job is lost');
end_sessions($early);

unlike(log_since($node, $since), qr/PANIC|TRAP|terminated by signal (?!9)/, 'no process crashed');

done_testing();
