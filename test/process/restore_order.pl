# Tests restores that commit the tables of a dump in any order, as pg_restore -j does. While a restoring session is connected, the
# tick changes no job: no job is cancelled because its dependency is restored later, or pruned before the retention time of its
# queue is restored.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use JobqTime;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = preloaded('order');
database($node, 'source');
value($node, 'source', <<'SQL');
SELECT jobq_create_queue('kept', keep_completed => '90 days');
SELECT jobq_enqueue('kept');
SELECT jobq_complete(id, lease) FROM jobq_claim('kept');
UPDATE jobq.jobs SET finished_at = now() - interval '60 days' WHERE queue = 'kept';
SELECT jobq_enqueue('graph', kind => k) FROM unnest('{a,b}'::text[]) k;
SELECT jobq_enqueue('graph', kind => 'after', depends_on => ARRAY(SELECT id FROM jobq.jobs WHERE queue = 'graph'));
SELECT jobq_enqueue('graph', kind => 'forced', depends_on => ARRAY(SELECT id FROM jobq.jobs WHERE kind = 'b'));
UPDATE jobq.jobs SET status = 'pending' WHERE kind = 'forced';
SELECT jobq_complete(id, lease, '7') FROM jobq_claim('graph', kinds => '{a}');
SELECT jobq_delete(id) FROM jobq.jobs WHERE kind = 'a';
SQL
my $jobs = 'SELECT id, kind, status, _ready, error, finished_at FROM jobq.jobs ORDER BY id';
my $before = value($node, 'source', $jobs);

# ---- the dump as SQL, split by table

my $directory = PostgreSQL::Test::Utils::tempdir;
$node->command_ok([ 'pg_dump', '-Fc', '-f', "$directory/dump", $node->connstr('source') ], 'pg_dump');
my %part;
my ($contents) = run_command([ 'pg_restore', '-l', "$directory/dump" ]);
for my $item (split /\n/, $contents)
{
    push @{ $part{ $item =~ /TABLE DATA jobq (\w+)/ ? $1 : 'rest' } }, $item;
}

# Returns the SQL that restores these tables; 'rest' means everything except the tables of jobq.
sub script_of
{
    append_to_file("$directory/list", join("\n", map { @{ $part{$_} } } @_) . "\n");
    my ($sql) = run_command([ 'pg_restore', '-f', '-', '-L', "$directory/list", "$directory/dump" ]);
    unlink "$directory/list";
    return $sql;
}

# Restores the tables in this session, which stays connected.
sub restore_into
{
    my ($session, @tables) = @_;
    my $file = "$directory/@tables.sql";
    append_to_file($file, script_of(@tables));
    $session->query_safe("\\i '$file'");
    return;
}

my @late = grep { !/^(rest|jobs|edges)$/ } sort keys %part;
is("@late", 'attempts batch_counts batch_settings deleted_dependencies handler_settings identity job_signals kept_keys kind_settings lane_directory limit_settings log_lines named_limit_settings queue_grants queue_settings schedule_settings shard signals steps', 'the other tables are known');

# ---- the jobs are restored first, then their edges, and the other tables after some ticks

value($node, 'postgres', 'CREATE DATABASE copy');
my $restores = session($node, 'copy');
restore_into($restores, 'rest');
restore_into($restores, 'jobs');
restore_into($restores, 'edges');
await_worker($node, 'copy');
my $note = q{SELECT note FROM jobq.background_workers WHERE database = 'copy'};
becomes_true($node, 'copy', "SELECT ($note) LIKE 'a dump is being restored%'", 'the worker pauses');
my $rounds = value($node, 'copy', q{SELECT rounds FROM jobq.background_workers WHERE database = 'copy'});
becomes_true($node, 'copy', "SELECT rounds > $rounds + 1 FROM jobq.background_workers WHERE database = 'copy'", 'it pauses in each round');
my ($none, $notice) = run_sql($node, 'copy', 'SELECT count(*) FILTER (WHERE done <> 0) FROM jobq_tick()');
is($none, '0', 'jobq_tick() does nothing');
like($notice, qr/NOTICE:  jobq_tick\(\) did nothing because a dump is being restored/, 'and says why');
is(value($node, 'copy', $jobs), $before, 'all jobs are unchanged');

my $second = session($node, 'copy');
restore_into($second, @late);
is(value($node, 'copy', $jobs), $before, 'all jobs are unchanged after the other tables were restored');
end_sessions($second);
end_sessions($restores);

# ---- the restore has ended

value($node, 'copy', 'SELECT jobq_adopt()');
becomes_true($node, 'copy', "SELECT ($note) IS NULL", 'the worker continues after the session has disconnected');
value($node, 'copy', 'SELECT FROM jobq_tick()');
is(value($node, 'copy', $jobs), $before, 'no job is changed');
value($node, 'copy', q{SELECT jobq_complete(id, lease, '8') FROM jobq_claim('graph', batch => 9)});
becomes_true($node, 'copy', q{SELECT status = 'pending' FROM jobq.jobs WHERE kind = 'after'}, 'a job is unblocked when its dependencies have completed');
is( value($node, 'copy', q{SELECT string_agg(result::text, ' ') FROM jobq_claim('graph') c, jobq_dependency_results(c.id)}),
    '7 8', 'it gets the results of all its dependencies');
is(count_in_log($node, qr/pauses while a dump is being restored/), 1, 'the log says once that the worker pauses');

# ---- a session that has restored and stays open does not pause the worker permanently

my $forgotten = session($node, 'copy');
$forgotten->query_safe('SET check_function_bodies = off');
$forgotten->query_safe(q{INSERT INTO jobq.jobs (queue, run_at) VALUES ('soon', clock_timestamp() + interval '1 s')});
my $idle_since = time;
becomes_true($node, 'copy', "SELECT ($note) IS NOT NULL", 'the worker pauses again');
my $runs = q{SELECT count(*) FROM pg_sleep(1), jobq.jobs WHERE queue = 'soon' AND status = 'pending'};
my $waited = seconds_until(sub { value($node, 'copy', $runs) eq '1' }, 90);
in_time($waited // 1e9, 75, 'the worker continues when the session has been idle for a minute');
cmp_ok(time - $idle_since, '>=', 59, 'and not before');
end_sessions($forgotten);

# ---- a restore with triggers disabled, which the triggers cannot detect

value($node, 'postgres', 'CREATE DATABASE untold');
value($node, 'untold', 'CREATE EXTENSION jobq; SELECT jobq_enqueue(); SELECT FROM jobq_tick()');
await_worker($node, 'untold');
my $untold = session($node, 'untold');
$untold->query_safe('SET check_function_bodies = off; BEGIN; ALTER TABLE jobq.jobs DISABLE TRIGGER ALL');
$untold->query_safe(q{UPDATE jobq.jobs SET status = 'completed', _ready = NULL, finished_at = now() - interval '60 days'});
$untold->query_safe('ALTER TABLE jobq.jobs ENABLE TRIGGER ALL; COMMIT');
my $of_untold = q{FROM jobq.background_workers WHERE database = 'untold'};
becomes_true($node, 'copy', "SELECT note LIKE 'a dump is being restored%' $of_untold", 'the worker pauses');
$rounds = value($node, 'copy', "SELECT rounds $of_untold");
becomes_true($node, 'copy', "SELECT rounds > $rounds + 1 $of_untold", 'it pauses in each round');
is(value($node, 'untold', q{SELECT count(*) FROM jobq.jobs}), '1', 'an old job is not pruned before the retention time of its queue is restored');
end_sessions($untold);
becomes_true($node, 'untold', q{SELECT count(*) = 0 FROM jobq.jobs}, 'it is pruned afterward');

# ---- the session of a role that does not own the tables never counts as a restore

value($node, 'copy', 'CREATE ROLE inserter LOGIN; GRANT USAGE ON SCHEMA jobq TO inserter; GRANT INSERT ON jobq.jobs, jobq.edges, jobq.deleted_dependencies TO inserter');
my $hostile = session($node, 'copy', connect_as('inserter'));
$hostile->query('SET check_function_bodies = off');
$hostile->query("INSERT INTO $_ SELECT WHERE false") for 'jobq.jobs (queue)', 'jobq.edges (job_id)', 'jobq.deleted_dependencies (job_id)';
is($hostile->query('INSERT INTO jobq.edges (job_id, target) VALUES (9000000001, 9000000000)'), '', 'the role inserts an edge between jobs that do not exist');
is(value($node, 'copy', q{SELECT count(*) FROM jobq.edges WHERE job_id > 9000000000}), '0', 'the edge is rejected, as for any other role');
is(value($node, 'copy', q{SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE a.usename = 'inserter' AND l.locktype = 'advisory'}),
    '0', 'the session of a role with INSERT does not count as a restore');
is(value($node, 'copy', q{SELECT jobq_enqueue('hostile'); SELECT id > 0 FROM jobq_claim('hostile', heartbeat_timeout => '10 ms')}) =~ s/^\d+\n//r, 't', 'a job is lost');
becomes_true($node, 'copy', q{SELECT status = 'pending' FROM jobq.jobs WHERE queue = 'hostile'}, 'the job is rescued while the session is connected');
end_sessions($hostile);

done_testing();
