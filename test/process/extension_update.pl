# Tests ALTER EXTENSION jobq UPDATE from every released version whose script is installed, with jobs in every status and with
# running producers, workers, and monitoring: nothing is lost or done twice, and the catalog equals that of a fresh install. Before
# the update, the new library works with the old SQL.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqCatalogue;
use JobqLoad;
use JobqTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node    = preloaded('update');
my $current = value($node, 'postgres', q{SELECT default_version FROM pg_available_extensions WHERE name = 'jobq'});
my @released = split /\n/, value($node, 'postgres',
    q{SELECT version FROM pg_available_extension_versions WHERE name = 'jobq' AND version <> } . "'$current' ORDER BY string_to_array(version, '.')::int[]");

# After an update and another jobq_grant, a role that had been granted something must have the same privileges as after a fresh
# install.
my $grants = q{SELECT jobq_grant('grantee_' || profile, profile) FROM unnest('{producer,worker,operator,monitor}'::text[]) profile;
    SELECT jobq_grant('grantee_some', 'worker', '{mail}')};
value($node, 'postgres', "CREATE ROLE grantee_$_") for qw(producer worker operator monitor some);

database($node, 'fresh');
is(value($node, 'fresh', q{SELECT extversion FROM pg_extension WHERE extname = 'jobq'}), $current, "a fresh install has version $current");
value($node, 'fresh', $grants);
my $fresh = catalogue($node, 'fresh', rows => 1);
cmp_ok(scalar @$fresh, '>', 5000, 'the description of the catalog is not empty');
diag(scalar @$fresh . " facts, released before $current: " . (@released ? "@released" : 'nothing'));

# ---- the comparison finds planted differences

database($node, 'again');
value($node, 'again', $grants);
is_deeply([ differences($fresh, catalogue($node, 'again', rows => 1)) ], [], 'the catalogs of two fresh installs are equal');

my @changes = (
    q{COMMENT ON FUNCTION jobq_version() IS NULL},
    q{COMMENT ON COLUMN jobq.jobs.id IS 'another'},
    q{COMMENT ON TYPE jobq.job_status IS NULL},
    q{COMMENT ON VIEW jobq.queues IS NULL},
    q{GRANT EXECUTE ON FUNCTION jobq_version() TO PUBLIC},
    q{REVOKE EXECUTE ON FUNCTION jobq_version() FROM grantee_monitor},
    q{GRANT USAGE ON SCHEMA jobq TO PUBLIC},
    q{REVOKE SELECT ON jobq.queues FROM pg_monitor},
    q{GRANT SELECT (id) ON jobq.jobs TO grantee_some},
    q{ALTER DEFAULT PRIVILEGES IN SCHEMA jobq GRANT SELECT ON TABLES TO PUBLIC},
    q{DELETE FROM pg_init_privs WHERE objoid = 'jobq_version'::regproc},
    q{ALTER FUNCTION jobq_version() IMMUTABLE},
    q{ALTER FUNCTION jobq_version() PARALLEL UNSAFE},
    q{ALTER FUNCTION jobq_version() SET search_path = public},
    q{ALTER FUNCTION jobq.queue_counters() SECURITY INVOKER},
    q{CREATE OR REPLACE FUNCTION jobq_version() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE RETURN '1'},
    q{ALTER EXTENSION jobq DROP FUNCTION jobq_version()},
    q{CREATE FUNCTION jobq.more() RETURNS int LANGUAGE sql RETURN 1},
    q{ALTER TABLE jobq.jobs SET (fillfactor = 61)},
    q{ALTER TABLE jobq.jobs ALTER queue SET STORAGE EXTENDED},
    q{ALTER TABLE jobq.jobs ALTER priority SET DEFAULT 1},
    q{ALTER TABLE jobq.jobs ALTER priority DROP NOT NULL},
    q{ALTER TABLE jobq.jobs ADD COLUMN more int},
    q{ALTER TABLE jobq.jobs RENAME COLUMN error TO errors},
    q{ALTER TABLE jobq.jobs DISABLE TRIGGER fill_job},
    q{ALTER TABLE jobq.jobs ADD CONSTRAINT more CHECK (id > 0)},
    q{ALTER TABLE jobq.jobs OWNER TO grantee_worker},
    q{ALTER TABLE jobq.kept_keys REPLICA IDENTITY DEFAULT},
    q{ALTER TABLE jobq.limit_settings DROP CONSTRAINT limit_settings_rate_positive},
    q{CREATE INDEX more ON jobq.jobs (priority)},
    q{DROP INDEX jobq.jobs_due_idx},
    q{DROP INDEX jobq.jobs_due_idx; CREATE INDEX jobs_due_idx ON jobq.jobs (run_at, id) WHERE NOT _due},
    q{ALTER SEQUENCE jobq.jobs_id_seq CACHE 2},
    q{ALTER TYPE jobq.job_status RENAME VALUE 'pending' TO 'waits'},
    q{CREATE OR REPLACE RULE more AS ON DELETE TO jobq.jobs DO ALSO NOTHING},
    q{ALTER VIEW jobq.queues SET (security_barrier = true)},
    q{UPDATE pg_extension SET extcondition[1] = 'WHERE true' WHERE extname = 'jobq'},
    q{DELETE FROM jobq.tick_state},
);
for my $change (@changes)
{
    my @found = differences($fresh, catalogue($node, 'again', rows => 1, before => $change));
    ok(@found > 0, "found: $change") or next;
    note(join "\n", map { '    ' . substr $_, 0, 160 } @found > 4 ? (@found[ 0 .. 3 ], '...') : @found);
}

# ---- what SQL can require of the library

my $lib_copy = PostgreSQL::Test::Utils::tempdir() . '/another.so';
my $library = value($node, 'postgres', q{SELECT setting FROM pg_config WHERE name = 'PKGLIBDIR'}) . '/jobq.so';
PostgreSQL::Test::Utils::system_or_bail('cp', $library, $lib_copy);
is(sqlstate($node, 'again', "SELECT jobq_version(); LOAD '$lib_copy'"), '55000', 'a second library in one process is rejected');
like((run_sql($node, 'again', "LOAD '$lib_copy'"))[1], qr/already loaded from another file.*\n.*HINT/, 'the error names the reason and has a hint');

my $demand = q{CREATE OR REPLACE TRIGGER follow_job AFTER UPDATE ON jobq.jobs FOR EACH ROW WHEN (jobq.by_hand())
    EXECUTE FUNCTION jobq.follow_job('%s')};
my $session = session($node, 'again');
$session->query(q{SELECT jobq_enqueue('demand')});
value($node, 'again', sprintf $demand, '999.1');
my (undef, $refusal) = run_sql($node, 'again', q{SELECT jobq_enqueue('demand')});
like($refusal, qr/table "jobq.jobs" requires version 999\.1 or newer of the jobq library, but this session has loaded version \Q$current\E/, 'SQL that requires a newer library fails with that message');
$session->{stderr} = '';
$session->query(q{SELECT jobq_enqueue('demand')});
like($session->{stderr}, qr/requires version 999\.1 or newer/, 'it also fails in a session that has used the library before');
value($node, 'again', sprintf $demand, $current);
is($session->query(q{SELECT count(*) FROM jobq_claim('demand')}), '1', 'SQL that requires this version works');
end_sessions($session);

# ---- the update from each release

# Creates a job in every status, of all kinds; none of them becomes due during the test.
my $fill = <<'SQL';
SELECT jobq_create_queue('mail', heartbeat_timeout => '5 h', max_attempts => 4, keep_completed => '30 days', dead_letter_queue => 'dead');
SELECT jobq_enqueue('mail', jsonb_build_object('n', n), kind => 'k' || n % 3, priority => n % 2, options => jsonb_build_object('requires', CASE WHEN n % 4 = 0 THEN '{gpu}'::text[] END))
FROM generate_series(1, 40) n;
SELECT jobq_enqueue('mail', run_at => now() + interval '30 days', unique_key => 'waits', unique_for => '1 day');
SELECT jobq_cancel(jobq_enqueue('mail', unique_key => 'kept', unique_for => '1 day', run_at => now() + interval '30 days'));
SELECT count(*) FROM jobq_enqueue_many('steps', '{1,2,3}', group_keys => '{a,a,b}');
SELECT jobq_set_limit('limited', max_running => 2);
SELECT jobq_enqueue('limited', concurrency_key => 'k' || n % 2) FROM generate_series(1, 5) n;
SELECT count(*) FROM jobq_claim('limited', 'w0', 2, heartbeat_timeout => '5 h');
SELECT jobq_enqueue('parent', run_at => now() + interval '30 days') AS parent \gset
SELECT jobq_enqueue('child', depends_on => ARRAY[:parent]);
SELECT count(jobq_complete(id, lease, '{"ok": true}')) FROM jobq_claim('mail', 'w1', batch => 3);
SELECT count(jobq_fail(id, lease, 'no good', retry => false)) FROM jobq_claim('mail', 'w1', batch => 3);
SELECT count(jobq_fail(id, lease, 'later', retry_in => '10 h')) FROM jobq_claim('mail', 'w1', batch => 2);
SELECT count(*) FROM jobq_claim('mail', 'w2', batch => 4);
SELECT jobq_pause_queue('mail');
SQL
# The columns that the update must not change; it may add others. The worker enters young leases into the rescue's index by itself.
my $kept = q{SELECT to_jsonb(j) - '_rescue_indexed' FROM jobq.jobs j WHERE queue <> 'load' ORDER BY id};

# These functions match the calls better than those of the server, which take any array. An update must not use them.
my %theirs = map { ("array_length($_\[], integer)" => 'array_length', "array_position($_\[], $_)" => 'array_position') } qw(integer text);

for my $version (@released)
{
    my $db = "from $version";
    $node->safe_psql('postgres', qq{CREATE DATABASE "$db"});
    value($node, $db, "CREATE FUNCTION $_ RETURNS integer LANGUAGE sql RETURN pg_catalog.$theirs{$_}(\$1, \$2)") for keys %theirs;
    value($node, $db, "CREATE EXTENSION jobq VERSION '$version'");
    value($node, $db, $grants);
    value($node, $db, $fill);
    is( value($node, $db, q{SELECT string_agg(s::text, ' ') FROM unnest(enum_range(NULL::jobq.job_status)) s WHERE s NOT IN (SELECT status FROM jobq.jobs)}),
        '', "$version: there is a job in every status");
    keep_in_use($node, $db);
    becomes_true($node, $db, qq{SELECT note LIKE 'the extension has version $version, but the library has version $current; run ALTER EXTENSION%' FROM jobq.background_workers WHERE database = current_database()},
        "$version: jobq.background_workers says that an update is needed");

    prepare_load($node, $db);
    my @before = split /\n/, value($node, $db, $kept);
    my $load = begin_load($node, $db);
    value($node, $db, 'ALTER EXTENSION jobq UPDATE');
    load_goes_on($load, "$version: the load continues after the update");
    my $complaints = end_load($load);
    is($complaints, '', "$version: no client reported an error");
    check_load($load);

    is(value($node, $db, q{SELECT extversion FROM pg_extension WHERE extname = 'jobq'}), $current, "$version: updated to $current");
    is(sqlstate($node, $db, 'DROP FUNCTION ' . join(', ', keys %theirs)), '00000', "$version: no object depends on functions that a user created in the schema of the extension");
    my @after = split /\n/, value($node, $db, $kept);
    is(scalar @after, scalar @before, "$version: the number of jobs is unchanged");
    is( value($node, $db, 'SELECT count(*) FROM (VALUES ' . join(', ', map { my ($b, $a) = ($before[$_], $after[$_]); s/'/''/g for $b, $a; "('$a'::jsonb, '$b'::jsonb)" } 0 .. $#before)
          . ') v(after, before) WHERE NOT after @> before'), 0, "$version: the jobs are unchanged");
    is( value($node, $db, q{SELECT string_agg(DISTINCT held::text, ' ') FROM (SELECT jobq_complete(id, lease) AS held FROM jobq.jobs WHERE worker_id = 'w2' AND status = 'processing') c}),
        'true', "$version: leases from before the update are valid");
    becomes_true($node, $db, q{SELECT note IS NULL FROM jobq.background_workers WHERE database = current_database()}, "$version: jobq.background_workers has no note after the update");

    value($node, $db, 'DROP SCHEMA load CASCADE');
    value($node, $db, q{SELECT jobq_revoke('load_' || profile, profile) FROM unnest('{producer,worker,monitor}'::text[]) profile});
    # Only the owner can use what the update adds. After jobq_grant is repeated, a role has all privileges that it has after a fresh
    # install.
    value($node, $db, $grants);
    # A fresh install has almost no rows. Tables that have rows there must have some here.
    my @found = grep { !/^- rows: .* none$/ && !/^\+ rows: / } differences($fresh, catalogue($node, $db, rows => 1));
    is(scalar @found, 0, "$version: the catalog equals that of a fresh install") or diag(join "\n", '', @found);

    value($node, $db, 'DROP EXTENSION jobq');
}

done_testing();
