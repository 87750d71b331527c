# Tests that a copy of a database does not run its jobs until the copy is adopted, whether it was made from a template, a dump, or a
# base backup. A promoted standby is not a copy, nor is a server that was rewound, has crashed, or was moved to another disk.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $directory = PostgreSQL::Test::Utils::tempdir;
my @conf = ('max_connections = 30', 'wal_log_hints = on', 'wal_keep_size = 256MB', 'jobq.tick_interval = 100ms');
my $node = preloaded('original', init => { allows_streaming => 'logical', has_archiving => 1 }, conf => \@conf);
database($node, 'work');

# Every copy contains a pending job, a job that is not due, and two running jobs.
value($node, 'work', <<'SQL');
SELECT jobq_enqueue('mail', '"waits"'), jobq_enqueue('later', run_at => now() + interval '1 day'),
       jobq_enqueue('runs', kind => 'silent', options => '{"heartbeat_timeout": "2 s"}'), jobq_enqueue('runs', kind => 'lively');
SELECT count(*) FROM jobq_claim('runs', 'w1', batch => 9, heartbeat_timeout => '1 day');
SQL
my ($held, $lease) = split /\|/, value($node, 'work', q{SELECT id, lease FROM jobq.jobs WHERE kind = 'lively'});
# Makes the job of kind 'silent' overdue for a rescue, as if its worker had long been silent.
my $silence = q{UPDATE jobq.jobs SET last_heartbeat = now() - interval '1 hour', _lease_timeout = '2 s' WHERE kind = 'silent'};
my $statuses = q{SELECT string_agg(status::text, ' ' ORDER BY id) FROM jobq.jobs WHERE queue <> 'load'};

sub claims { return sqlstate($_[0], $_[1], q{SELECT count(*) FROM jobq_claim('nothing')}) }

sub is_own
{
    my ($where, $database, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is(claims($where, $database), '00000', "$name: the database is not a copy");
    is(value($where, $database, 'SELECT jobq_adopt()'), 'f', "$name: there is nothing to adopt");
    return;
}

# Tests that the calls of workers are rejected, that the duties are suspended, and that the log and jobq.background_workers say so.
sub is_copy
{
    my ($where, $database, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my (undef, $error) = run_sql($where, $database, q{SELECT jobq_claim('mail')});
    like($error, qr/"$database" is a copy.*\nDETAIL: .*\nHINT: .*jobq_adopt/, "$name: a claim is rejected");
    for my $call (q{SELECT jobq_claim('mail')}, "SELECT jobq_complete($held, $lease)", "SELECT jobq_heartbeat($held, $lease)", q{CALL jobq_wait('mail')})
    {
        is(sqlstate($where, $database, $call), '55000', "$name: $call");
    }
    becomes_true($where, $database,
        q{SELECT state = 'copy' AND note ~ 'jobq_adopt' FROM jobq.background_workers WHERE database = current_database()}, "$name: jobq.background_workers says that the database is a copy");
    value($where, $database, $silence);
    my $rounds = value($where, $database, 'SELECT rounds FROM jobq.background_workers WHERE database = current_database()');
    # On a slow machine run_at has already passed when the job is enqueued, so the job starts as pending.
    my ($own) = value($where, $database, q{BEGIN; SELECT jobq_enqueue('own', '"new"', run_at => now() + interval '500 ms');
        SELECT status FROM jobq.jobs WHERE queue = 'own'; COMMIT}) =~ /(\w+)$/;
    becomes_true($where, $database, qq{SELECT rounds > $rounds AND (SELECT run_at < clock_timestamp() FROM jobq.jobs WHERE queue = 'own')
        FROM jobq.background_workers WHERE database = current_database()}, "$name: a worker connects");
    becomes_true($where, $database, q{SELECT pid IS NULL FROM jobq.background_workers WHERE database = current_database()}, "$name: and disconnects");
    (undef, $error) = run_sql($where, $database, 'SELECT count(*) FROM jobq_tick()');
    like($error, qr/WARNING: .*did nothing because the database is a copy/, "$name: a tick does nothing but warn");
    is(value($where, $database, $statuses), "pending scheduled processing processing $own", "$name: all jobs are unchanged");
    is(value($where, $database, q{SELECT string_agg(reason, ' ') FROM jobq_explain_queue('mail') WHERE reason = 'copy'}), 'copy', "$name: jobq_explain_queue reports the copy");
    return;
}

# Tests that an adopted copy works like any other database. Its leases get a grace period that begins with the adoption; the lease
# of the silent worker expires after it.
sub adopts
{
    my ($where, $database, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is(value($where, $database, 'SELECT jobq_adopt()'), 't', "$name: jobq_adopt adopts the copy");
    is_own($where, $database, "$name, adopted");
    is(value($where, $database, "SELECT jobq_heartbeat($held, $lease)"), 'held', "$name: leases from before the copy hold");
    becomes_true($where, $database, qq{SELECT ($statuses) = 'pending scheduled pending processing pending'}, "$name: the duties run again");
    is( value($where, $database, q{SELECT a.finished_at > i.adopted_at + interval '2 s' FROM jobq.attempts a, jobq.identity i WHERE a.outcome = 'lost'}),
        't', "$name: the silent worker had its grace period");
    is(value($where, $database, q{SELECT payload FROM jobq_claim('mail')}), '"waits"', "$name: a job can be claimed");
    return;
}

# Returns a server that is restored from a base backup.
sub restored
{
    my ($name, $backup, %option) = @_;
    my $copy = PostgreSQL::Test::Cluster->new($name);
    $copy->init_from_backup($option{from} // $node, $backup, standby => 0, %option);
    settings($copy, 'archive_mode = off');
    $copy->start;
    return $copy;
}

is_own($node, 'work', 'the original');

# ---- a template copy

# The identity is updated by the adoption itself, even if no worker connects.
value($node, 'postgres', 'CREATE DATABASE unattended TEMPLATE work');
is_copy($node, 'unattended', 'unattended copy');
settings($node, 'jobq.enabled = off');
$node->reload;
becomes_true($node, 'unattended', q{SELECT current_setting('jobq.enabled') = 'off'}, 'no worker connects');
value($node, 'unattended', 'SELECT jobq_adopt()');
becomes_true($node, 'unattended', q{SELECT state = 'disabled' FROM jobq.background_workers WHERE database = current_database()}, 'the adopted database is no longer reported as a copy');
settings($node, 'jobq.enabled = on');
$node->reload;

# CREATE DATABASE runs in a session of the original, so the worker of the original must disconnect for it.
value($node, 'work', 'CREATE DATABASE twin TEMPLATE work');
is_copy($node, 'twin', 'template copy');
is_own($node, 'work', 'its original');
value($node, 'postgres', 'CREATE DATABASE grandchild TEMPLATE twin');
is(claims($node, 'grandchild'), '55000', 'a copy of a copy is a copy');
adopts($node, 'twin', 'template copy');
value($node, 'postgres', 'DROP DATABASE grandchild');

# The contents of a template database are meant to be copied.
value($node, 'postgres', 'CREATE DATABASE pattern');
value($node, 'pattern', q{CREATE EXTENSION jobq; SELECT jobq_enqueue('mail')});
value($node, 'postgres', 'ALTER DATABASE pattern IS_TEMPLATE true');
value($node, 'postgres', 'CREATE DATABASE made TEMPLATE pattern');
is(claims($node, 'made'), '00000', 'a database made from a template database is not a copy');
becomes_true($node, 'made', q{SELECT database = (SELECT oid FROM pg_database WHERE datname = 'made') FROM jobq.identity}, 'and soon records its own identity');
value($node, 'postgres', 'ALTER DATABASE pattern IS_TEMPLATE false');
is_own($node, 'made', 'a database made from a template, after the template flag was removed');

# ---- a restored dump

my $dump = "$directory/dump";
$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, $node->connstr('work') ], 'pg_dump');
sub restores
{
    my ($where, $database, @how) = @_;
    $where->command_ok([ 'pg_restore', '--exit-on-error', @how, '-d', $where->connstr($database), $dump ], "pg_restore @how into $database");
    becomes_true($where, 'postgres', qq{SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = '$database' AND backend_type = 'client backend')},
        'the restore has ended');
    return;
}

value($node, 'postgres', 'CREATE DATABASE staging');
restores($node, 'staging', '-j2');
is_copy($node, 'staging', 'dump in the same server');
adopts($node, 'staging', 'dump in the same server');

my $other = preloaded('other', conf => \@conf);
value($other, 'postgres', 'CREATE DATABASE work');
restores($other, 'work');
is_copy($other, 'work', 'dump in another server');
adopts($other, 'work', 'dump in another server');

# A dump that is restored by mistake into a database that has jobs of its own: these jobs do not run either.
value($other, 'postgres', 'CREATE DATABASE mixed');
value($other, 'mixed', 'CREATE EXTENSION jobq');
is_own($other, 'mixed', 'an empty database');
value($other, 'mixed', 'SELECT jobq_tick()');
restores($other, 'mixed', '--data-only', '--disable-triggers');
is(value($other, 'mixed', counters_differ()), '', 'restored with triggers disabled: queue_stats includes the jobs at once');
is(claims($other, 'mixed'), '55000', 'claims are rejected when the jobs of another database have been restored');

# The identity row also arrives by replication. Sessions that have read another identity before must notice it.
database($other, 'subscriber');
value($other, 'subscriber', 'SELECT jobq_tick()');
my $knows = session($other, 'subscriber');
is($knows->query(q{SELECT count(*) FROM jobq_claim('nothing')}), '0', 'claims work in a subscriber before it subscribes');
value($node, 'work', 'CREATE PUBLICATION everything FOR TABLE jobq.jobs, jobq.identity');
value($other, 'subscriber', sprintf q{CREATE SUBSCRIPTION everything CONNECTION $c$%s$c$ PUBLICATION everything}, $node->connstr('work'));
becomes_true($other, 'subscriber', 'SELECT count(*) = 2 FROM jobq.identity', 'the subscriber gets the identity row of the publisher');
is(claims($other, 'subscriber'), '55000', 'the subscriber is a copy');
$knows->query(q{SELECT count(*) FROM jobq_claim('nothing')});
like($knows->{stderr}, qr/is a copy/, 'sessions that claimed before notice the copy');
end_sessions($knows);
value($other, 'subscriber', 'DROP SUBSCRIPTION everything');
value($node, 'work', 'DROP PUBLICATION everything');
cmp_ok(value($other, 'subscriber', 'SELECT count(*) FROM jobq.jobs'), '>', 0, 'the subscriber has the jobs of the publisher');
is(value($other, 'subscriber', 'SELECT jobq_adopt()'), 't', 'jobq_adopt adopts the subscriber after the switchover');
is(value($other, 'subscriber', counters_differ()), '', 'queue_stats includes its jobs at once');
is_own($other, 'subscriber', 'an adopted subscriber');

# A dump restored into its own database, which has lost all its jobs.
value($node, 'work', 'DROP EXTENSION jobq');
restores($node, 'work');
is_own($node, 'work', 'a dump in its own database');
is(value($node, 'work', $statuses), 'pending scheduled processing processing', 'all jobs were restored');

# ---- the setting jobq.adopt

my $log = log_size($other);
settings($other, 'jobq.adopt = auto');
$other->reload;
becomes_true($other, 'mixed', q{SELECT count(*) = 1 AND NOT bool_or(copied) FROM jobq.identity}, 'auto: a copy adopts itself');
is(claims($other, 'mixed'), '00000', 'auto: claims work');
like(log_since($other, $log), qr/adopted the jobs of another database because "jobq\.adopt" is "auto"/, 'auto: the log reports the adoption');
$other->adjust_conf('postgresql.conf', 'jobq.adopt', 'manual');
$other->reload;
is_own($other, 'mixed', 'auto, then manual again');

# ---- the files of a stopped server, as when a data directory is moved to another disk

value($node, 'postgres', 'DROP DATABASE staging');
$node->stop;
$node->backup_fs_cold('cold');
$node->start;
is_own($node, 'work', 'the server whose files were copied');
my $cold = restored('cold', 'cold');
is_own($cold, 'work', 'files that were copied while the server was stopped');
is(value($cold, 'work', $statuses), 'pending scheduled processing processing', 'all jobs are in the copied files');
$cold->stop;

# ---- a base backup

$node->backup('base');
my $beside = restored('beside', 'base');
is_copy($beside, 'work', 'base backup');
is(value($beside, 'work', q{SELECT bool_and(copied) FROM jobq.identity}), 't', 'base backup: jobq.identity is marked as copied');
# A standby of the copy is a copy after its promotion.
$beside->backup('of_copy');
my $standby_of_copy = PostgreSQL::Test::Cluster->new('standby_of_copy');
$standby_of_copy->init_from_backup($beside, 'of_copy', has_streaming => 1);
$standby_of_copy->start;
$beside->wait_for_catchup($standby_of_copy);
$standby_of_copy->promote;
is(claims($standby_of_copy, 'work'), '55000', 'base backup: the promoted standby of a copy is a copy');
$standby_of_copy->stop;
adopts($beside, 'work', 'base backup');
$beside->stop;

# ---- point-in-time recovery under load: the jobs that were acknowledged before the point exist and can run

my @producers = map { session($node, 'work') } 1 .. 2;
for my $producer (@producers)
{
    $producer->query_until(qr/begun/, <<'SQL');
\echo begun
DO $$ BEGIN LOOP PERFORM jobq_enqueue('load'); COMMIT; PERFORM pg_sleep(0.002); EXIT WHEN EXISTS (SELECT FROM pg_class WHERE relname = 'enough'); END LOOP; END $$;
SQL
}
my $worker = session($node, 'work');
$worker->query_until(qr/begun/, <<'SQL');
\echo begun
DO $$ BEGIN LOOP PERFORM jobq_complete(id, lease) FROM jobq_claim('load', 'w2', 3); COMMIT; PERFORM pg_sleep(0.005); EXIT WHEN EXISTS (SELECT FROM pg_class WHERE relname = 'enough'); END LOOP; END $$;
SQL
becomes_true($node, 'work', q{SELECT count(*) > 300 AND count(*) FILTER (WHERE status = 'completed') > 100 FROM jobq.jobs WHERE queue = 'load'}, 'the load has enqueued and completed jobs');
my $known = value($node, 'work', q{SELECT array_agg(id) FROM jobq.jobs WHERE queue = 'load'});
my $completed = value($node, 'work', q{SELECT array_agg(id) FROM jobq.jobs WHERE queue = 'load' AND status = 'completed'});
value($node, 'work', q{SELECT pg_create_restore_point('the point')});
my $more = value($node, 'work', q{SELECT count(*) FROM jobq.jobs WHERE queue = 'load'});
becomes_true($node, 'work', "SELECT count(*) > $more + 100 FROM jobq.jobs WHERE queue = 'load'", 'the load continues after the restore point');
value($node, 'work', 'CREATE TABLE enough ()');
end_sessions(@producers, $worker);
my $segment = value($node, 'postgres', 'SELECT pg_walfile_name(pg_current_wal_lsn())');
value($node, 'postgres', 'SELECT pg_switch_wal()');
becomes_true($node, 'postgres', "SELECT last_archived_wal >= '$segment' FROM pg_stat_archiver", 'the WAL is archived');
my $last = value($node, 'work', 'SELECT max(id) FROM jobq.jobs');

my $point = PostgreSQL::Test::Cluster->new('point');
$point->init_from_backup($node, 'base', has_restoring => 1, standby => 0);
settings($point, 'archive_mode = off', q{recovery_target_name = 'the point'}, q{recovery_target_action = 'promote'});
$point->start;
becomes_true($point, 'work', 'SELECT NOT pg_is_in_recovery()', 'recovery reaches the point');
is_copy($point, 'work', 'point in time');
adopts($point, 'work', 'point in time');
is(value($point, 'work', "SELECT count(*) FROM unnest('$known'::bigint[]) k(id) WHERE NOT EXISTS (SELECT FROM jobq.jobs j WHERE j.id = k.id)"), 0,
    'no job from before the point is lost');
is(value($point, 'work', "SELECT count(*) FROM jobq.jobs j WHERE j.id = ANY ('$completed') AND status <> 'completed'"), 0, 'no completion from before the point is lost');
cmp_ok(value($point, 'work', 'SELECT max(id) FROM jobq.jobs'), '<', $last, 'jobs from after the point do not exist');
my $unfinished = value($point, 'work', q{SELECT count(*) FROM jobq.jobs WHERE queue = 'load' AND status = 'pending'});
is( value($point, 'work', q{SELECT count(*) FROM (SELECT jobq_complete(id, lease) AS done FROM jobq_claim('load', 'w3', 9999)) d WHERE done}),
    $unfinished, 'each unfinished job can be claimed');
$point->stop;
is_own($node, 'work', 'the original, after all these copies');

# ---- a standby is not a copy

$node->backup('followed');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'followed', has_streaming => 1);
settings($standby, 'archive_mode = off');
$standby->start;
$node->wait_for_catchup($standby);
is(claims($standby, 'work'), '25006', 'a standby rejects claims because it is read-only');
$node->stop('immediate');
$standby->promote;
is_own($standby, 'work', 'a promoted standby');
is(claims($standby, 'made'), '00000', 'the other databases of the standby are not copies either');
value($standby, 'postgres', 'CREATE DATABASE twin2 TEMPLATE work');
is(claims($standby, 'twin2'), '55000', 'a template copy made on the promoted standby is a copy');

# The old primary continues for a moment, is rewound, and becomes the primary again.
$standby->safe_psql('postgres', 'CHECKPOINT');
$standby->stop;
command_ok([ 'pg_rewind', '--target-pgdata', $node->data_dir, '--source-pgdata', $standby->data_dir, '--no-sync', '--config-file', $node->data_dir . '/postgresql.conf' ],
    'pg_rewind');
settings($node, 'port = ' . $node->port, 'archive_mode = off', "unix_socket_directories = '" . $node->host . "'");
$standby->start;
$node->enable_streaming($standby);
$node->start;
$standby->wait_for_catchup($node);
$standby->stop;
$node->promote;
is_own($node, 'work', 'a server that was rewound and promoted');
is(claims($node, 'twin2'), '55000', 'a database that was a copy is still a copy');
kill_server($node);
starts_again($node);
is_own($node, 'work', 'a server after a crash');

unlike(log_since($_), qr/(?:PANIC|TRAP|terminated by signal 1[01]|XX000|cache lookup failed)/, $_->name . ': no crash, no internal error')
  for $node, $other, $standby, $point, $beside, $cold;
done_testing();
