# Two libraries, that of the last release and that of now, and two versions of the SQL: each pair works or says what to do, and loses
# nothing. A server keeps the library that it has preloaded until it is restarted, whatever becomes of the file.
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

# As a package manager does it: another file of the name, the old one lives on where it is mapped.
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

# A refusal with 55000 that says which library is needed, and what to do.
sub refused
{
    my ($database, $sql, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my (undef, $errors) = run_sql($node, $database, "\\set VERBOSITY verbose\n$sql");
    return like($errors, qr/ERROR:  55000: .* requires version \S+ or newer of the jobq library, but this session has \Q$old\E.*HINT:  Install that version\. Then restart/s, $name);
}

# ---- old library, old SQL; the package of the new version arrives, the server goes on

install($old_library);
$node->start;
my $new = value($node, 'postgres', q{SELECT default_version FROM pg_available_extensions WHERE name = 'jobq'});
$node->safe_psql('postgres', "CREATE DATABASE work");
value($node, 'work', "CREATE EXTENSION jobq VERSION '$old'");
is(value($node, 'work', 'SELECT jobq_version()'), $old, "the server has the library $old");
# Columns of a DBA, most of which are gone again: those of the next release come after them, with numbers beyond 64.
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
load_goes_on($load, 'a new library in the place of the old one disturbs nobody');
is(value($node, 'work', 'SELECT jobq_version()'), $old, 'new sessions have the old library still');
value($node, 'work', q{SELECT jobq_enqueue('late', run_at => clock_timestamp() + interval '10 ms')});
becomes_true($node, 'work', q{SELECT NOT EXISTS (SELECT FROM jobq.jobs WHERE queue = 'late' AND status = 'scheduled')}, 'and so has the background worker, which works');

refused('work', 'ALTER EXTENSION jobq UPDATE', 'the update is refused, with what to do');
is_installed('work', $old, 'and nothing has changed');
$node->safe_psql('postgres', 'CREATE DATABASE another');
refused('another', 'CREATE EXTENSION jobq', 'so is an install of the new version');
load_goes_on($load, 'all that time the load goes on');
is(end_load($load), '', 'no client met an error');
check_load($load);

# A crash starts all processes but the postmaster anew: from its memory, not from the file.
my $victim = session($node, 'postgres');
my $pid = $victim->query('SELECT pg_backend_pid()');
my $since = log_size($node);
kill 'KILL', $pid;
eval { $victim->quit };
seconds_until(sub { return count_in_log($node, qr/database system is ready/, $since) > 0 });
becomes_true($node, 'work', "SELECT jobq_version() = '$old'", 'after a crash it is the old library as well');
is(value($node, 'work', q{SELECT jobq_enqueue('crash') > 0}), 't', 'with its shared memory');

# ---- new library, old SQL; then the update

$node->restart;
is(value($node, 'work', 'SELECT jobq_version()'), $new, 'after a restart it is the new one');
is_installed('work', $old, 'with the old SQL');
$load = begin_load($node, 'work');
load_goes_on($load, 'which it serves');
value($node, 'work', 'ALTER EXTENSION jobq UPDATE');
load_goes_on($load, 'the load goes on after the update');
is_installed('work', $new, "the SQL is $new");

# The column that the update has added.
is(value($node, 'work', q{SELECT attnum > 64 FROM pg_attribute WHERE attrelid = 'jobq.jobs'::regclass AND attname = 'next_column'}), 't',
    'the new column comes after those of the DBA');
for my $access (qw(direct sql))
{
    my $with = "SET jobq.access = $access";
    is(value($node, 'work', "$with; SELECT jobq_enqueue('added $access') > 0"), 't', "$access: a job is enqueued");
    is(value($node, 'work', "SELECT next_column FROM jobq.jobs WHERE queue = 'added $access'"), 'enqueued', 'with a value in the new column');
    is(value($node, 'work', "$with; SELECT jobq.next(id, '$access') FROM jobq.jobs WHERE queue = 'added $access'"), 'enqueued', 'which is read');
    is(value($node, 'work', "$with; SELECT jobq.next(id, NULL) FROM jobq.jobs WHERE queue = 'added $access'"), $access, 'written, and read again');
    is(value($node, 'work', "SELECT count(*) FROM jobq.jobs WHERE queue = 'added $access' AND next_column IS NULL"), '1', 'and cleared');
}
is(value($node, 'work', q{SELECT count(*), count(jobq.next(id, 'added')) FROM jobq.jobs WHERE queue = 'before'}), '30|0', 'jobs from before the update have none');
becomes_true($node, 'work', q{SELECT count(jobq.next(id, 'touched')) > 0 FROM
    (SELECT id FROM jobq.jobs WHERE queue = 'load' AND next_column = 'enqueued' AND status IN ('pending', 'processing') LIMIT 100 FOR NO KEY UPDATE SKIP LOCKED) found},
    'those that the load makes and takes have it');
value($node, 'work', 'GRANT INSERT, SELECT ON jobq.jobs TO load_producer');
value($node, 'work', q{SET ROLE load_producer; INSERT INTO jobq.jobs (queue, next_column) VALUES ('given', 'given')});
is(value($node, 'work', q{SELECT next_column IS NULL FROM jobq.jobs WHERE queue = 'given'}), 't', 'a producer cannot fill it');
load_goes_on($load, 'all that time the load goes on');
is(end_load($load), '', 'no client met an error');
check_load($load);
value($node, 'work', q{ALTER TABLE jobq.jobs ALTER next_column SET DEFAULT 'x'});
my (undef, $errors) = run_sql($node, 'work', q{SELECT jobq_enqueue('default')});
like($errors, qr/column "next_column" of table jobq\.jobs has a default, which jobq cannot apply/, 'a default of the DBA is refused');
value($node, 'work', q{ALTER TABLE jobq.jobs ALTER next_column DROP DEFAULT, ALTER next_column TYPE varchar});
(undef, $errors) = run_sql($node, 'work', q{SELECT jobq_enqueue('type')});
like($errors, qr/column "next_column" of table jobq\.jobs has the type character varying/, 'so is another type');
value($node, 'work', q{ALTER TABLE jobq.jobs ALTER next_column TYPE text});

# ---- old library, new SQL: somebody went back to the old package, or promoted a standby that still had it

install($old_library);
$node->restart;
is(value($node, 'work', 'SELECT jobq_version()'), $old, 'the old library, and the new SQL');
my $touched = value($node, 'work', q{SELECT count(*) FROM jobq.jobs WHERE next_column = 'touched'});
$load = begin_load($node, 'work');
load_goes_on($load, 'it serves the table that has a column more');
is(end_load($load), '', 'no client met an error');
check_load($load);
is(value($node, 'work', q{SELECT count(*) FROM jobq.jobs WHERE next_column = 'touched'}), $touched, 'and keeps what the column has');
is(value($node, 'work', q{SELECT count(jobq_complete(id, lease)) FROM jobq_claim('before', batch => 30)}), '30', 'also in jobs that it claims and completes');
is(value($node, 'work', q{SELECT DISTINCT next_column || ' ' || dba_1 || ' ' || status FROM jobq.jobs WHERE queue = 'before'}), 'added theirs completed', 'next to what the DBA wrote');

# A table may have jobs that it would get wrong: src/sql/20_tables.sql, follow_job.
value($node, 'work', qq{CREATE OR REPLACE TRIGGER follow_job AFTER UPDATE ON jobq.jobs FOR EACH ROW WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.follow_job('$new')});
refused('work', $_, "refused: $_") for q{SELECT jobq_enqueue('back')}, q{SELECT jobq_claim('crash')}, q{SELECT jobq_tick()},
    q{UPDATE jobq.jobs SET priority = 1 WHERE queue = 'crash'};
becomes_true($node, 'work', qq{SELECT note LIKE 'the extension has version $new, and the library $old; install that library and restart%' FROM jobq.workers WHERE database = current_database()},
    'jobq.workers says what to do');
# What it does not know.
my ($exported) = run_command([ 'nm', '-D', '--defined-only', $old_library ]);
my %exported = map { $_ => 1 } $exported =~ / T (\w+)$/gm;
my @missing = grep { !$exported{$_} } split /\n/, value($node, 'work', q{SELECT DISTINCT prosrc FROM pg_proc WHERE probin LIKE '%jobq'});
diag("not in the library $old: " . (@missing ? "@missing" : 'nothing'));
for my $symbol (@missing)
{
    my $call = value($node, 'work', qq{SELECT format('SELECT %s(%s)', oid::regproc, (SELECT string_agg('NULL::' || format_type(t, NULL), ', ') FROM unnest(proargtypes) t)) FROM pg_proc WHERE prosrc = '$symbol' LIMIT 1});
    my (undef, $errors) = run_sql($node, 'work', "\\set VERBOSITY verbose\n$call");
    like($errors, qr/42883: could not find function "$symbol" in file/, "$call says that the library has it not");
}
is(value($node, 'work', q{SELECT count(*) FROM jobq.jobs WHERE queue = 'crash'}), 1, 'nothing is lost');
install($new_library);
$node->restart;
$load = begin_load($node, 'work');
is(end_load($load), '', 'with the new library again, all is well');
check_load($load);

# ---- not preloaded: each session has the library that it found

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
is(value($node, 'apart', 'SELECT jobq_version()'), $new, 'a later one the new library');
is($early->query('SELECT jobq_version()'), $old, 'the first keeps its own');
$early->{stderr} = '';
$early->query('ALTER EXTENSION jobq UPDATE');
like($early->{stderr}, qr/requires version \Q$new\E or newer of the jobq library.*HINT/s, 'there the update is refused');
value($node, 'apart', 'ALTER EXTENSION jobq UPDATE');
is_installed('apart', $new, 'and done in the other');
is($early->query("EXECUTE done($id, $lease)"), 't', 'the session with the old library goes on, because it serves later tables of its major version');
is(value($node, 'apart', q{SELECT string_agg(status || ' ' || count, ', ' ORDER BY status) FROM (SELECT status, count(*) FROM jobq.jobs GROUP BY 1) s}),
    'pending 19, completed 1', 'nothing is lost');
end_sessions($early);

unlike(log_since($node, $since), qr/PANIC|TRAP|terminated by signal (?!9)/, 'and nothing crashed');

done_testing();
