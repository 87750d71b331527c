# pg_restore -j commits the tables of a dump in any order. While a session that restores is connected the tick leaves all
# jobs alone: none is cancelled for a dependency that comes later, or pruned before its queue says how long it is kept.
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

# ---- the dump as SQL, its tables in an order of our own

my $directory = PostgreSQL::Test::Utils::tempdir;
$node->command_ok([ 'pg_dump', '-Fc', '-f', "$directory/dump", $node->connstr('source') ], 'pg_dump');
my %part;
my ($contents) = run_command([ 'pg_restore', '-l', "$directory/dump" ]);
for my $item (split /\n/, $contents)
{
    push @{ $part{ $item =~ /TABLE DATA jobq (\w+)/ ? $1 : 'rest' } }, $item;
}

# The SQL that restores these tables; 'rest' is everything that is no table of jobq's.
sub script_of
{
    append_to_file("$directory/list", join("\n", map { @{ $part{$_} } } @_) . "\n");
    my ($sql) = run_command([ 'pg_restore', '-f', '-', '-L', "$directory/list", "$directory/dump" ]);
    unlink "$directory/list";
    return $sql;
}

# A session that restores those tables, and stays.
sub restore_into
{
    my ($session, @tables) = @_;
    my $file = "$directory/@tables.sql";
    append_to_file($file, script_of(@tables));
    $session->query_safe("\\i '$file'");
    return;
}

my @late = grep { !/^(rest|jobs|edges)$/ } sort keys %part;
is("@late", 'attempts deleted_dependencies handler_settings identity job_signals kept_keys lane_directory limit_settings queue_grants queue_settings schedule_settings shard signals steps', 'the other tables');

# ---- jobs first, then their edges, and what else there is when ticks have run

value($node, 'postgres', 'CREATE DATABASE copy');
my $restores = session($node, 'copy');
restore_into($restores, 'rest');
restore_into($restores, 'jobs');
restore_into($restores, 'edges');
await_worker($node, 'copy');
my $note = q{SELECT note FROM jobq.workers WHERE database = 'copy'};
becomes_true($node, 'copy', "SELECT ($note) LIKE 'a dump is being restored%'", 'the worker rests');
my $rounds = value($node, 'copy', q{SELECT rounds FROM jobq.workers WHERE database = 'copy'});
becomes_true($node, 'copy', "SELECT rounds > $rounds + 1 FROM jobq.workers WHERE database = 'copy'", 'round after round');
my ($none, $notice) = run_sql($node, 'copy', 'SELECT count(*) FILTER (WHERE done <> 0) FROM jobq_tick()');
is($none, '0', 'jobq_tick() does nothing');
like($notice, qr/NOTICE:  jobq_tick\(\) did nothing because a dump is being restored/, 'and says why');
is(value($node, 'copy', $jobs), $before, 'all jobs are as they were');

my $second = session($node, 'copy');
restore_into($second, @late);
is(value($node, 'copy', $jobs), $before, 'all jobs are as they were, with the rest of the dump');
end_sessions($second);
end_sessions($restores);

# ---- the restore has ended

value($node, 'copy', 'SELECT jobq_adopt()');
becomes_true($node, 'copy', "SELECT ($note) IS NULL", 'it goes on when the session has disconnected');
value($node, 'copy', 'SELECT FROM jobq_tick()');
is(value($node, 'copy', $jobs), $before, 'there was nothing to do');
value($node, 'copy', q{SELECT jobq_complete(id, lease, '8') FROM jobq_claim('graph', batch => 9)});
becomes_true($node, 'copy', q{SELECT status = 'pending' FROM jobq.jobs WHERE kind = 'after'}, 'a job runs when its dependencies have completed');
is( value($node, 'copy', q{SELECT string_agg(result::text, ' ') FROM jobq_claim('graph') c, jobq_dependency_results(c.id)}),
    '7 8', 'with the results of them all');
is(count_in_log($node, qr/pauses while a dump is being restored/), 1, 'the log tells once that the worker rests');

# ---- a session that has restored and is kept open holds nothing up

my $forgotten = session($node, 'copy');
$forgotten->query_safe('SET check_function_bodies = off');
$forgotten->query_safe(q{INSERT INTO jobq.jobs (queue, run_at) VALUES ('soon', clock_timestamp() + interval '1 s')});
my $idle_since = time;
becomes_true($node, 'copy', "SELECT ($note) IS NOT NULL", 'the worker rests again');
my $runs = q{SELECT count(*) FROM pg_sleep(1), jobq.jobs WHERE queue = 'soon' AND status = 'pending'};
my $waited = seconds_until(sub { value($node, 'copy', $runs) eq '1' }, 90);
in_time($waited // 1e9, 75, 'it goes on when the session was idle for a minute');
cmp_ok(time - $idle_since, '>=', 59, 'and not before');
end_sessions($forgotten);

# ---- a restore with triggers disabled, which says nothing by them

value($node, 'postgres', 'CREATE DATABASE untold');
value($node, 'untold', 'CREATE EXTENSION jobq; SELECT jobq_enqueue(); SELECT FROM jobq_tick()');
await_worker($node, 'untold');
my $untold = session($node, 'untold');
$untold->query_safe('SET check_function_bodies = off; BEGIN; ALTER TABLE jobq.jobs DISABLE TRIGGER ALL');
$untold->query_safe(q{UPDATE jobq.jobs SET status = 'completed', _ready = NULL, finished_at = now() - interval '60 days'});
$untold->query_safe('ALTER TABLE jobq.jobs ENABLE TRIGGER ALL; COMMIT');
my $of_untold = q{FROM jobq.workers WHERE database = 'untold'};
becomes_true($node, 'copy', "SELECT note LIKE 'a dump is being restored%' $of_untold", 'the worker rests');
$rounds = value($node, 'copy', "SELECT rounds $of_untold");
becomes_true($node, 'copy', "SELECT rounds > $rounds + 1 $of_untold", 'round after round');
is(value($node, 'untold', q{SELECT count(*) FROM jobq.jobs}), '1', 'an old job is not pruned before its queue has said how long it is kept');
end_sessions($untold);
becomes_true($node, 'untold', q{SELECT count(*) = 0 FROM jobq.jobs}, 'but afterwards');

# ---- who does not own the tables restores nothing, whatever it sets

value($node, 'copy', 'CREATE ROLE inserter LOGIN; GRANT USAGE ON SCHEMA jobq TO inserter; GRANT INSERT ON jobq.jobs, jobq.edges, jobq.deleted_dependencies TO inserter');
my $hostile = session($node, 'copy', connect_as('inserter'));
$hostile->query('SET check_function_bodies = off');
$hostile->query("INSERT INTO $_ SELECT WHERE false") for 'jobq.jobs (queue)', 'jobq.edges (job_id)', 'jobq.deleted_dependencies (job_id)';
is($hostile->query('INSERT INTO jobq.edges (job_id, target) VALUES (9000000001, 9000000000)'), '', 'an edge between jobs that are not there');
is(value($node, 'copy', q{SELECT count(*) FROM jobq.edges WHERE job_id > 9000000000}), '0', 'is refused, as to anybody');
is(value($node, 'copy', q{SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE a.usename = 'inserter' AND l.locktype = 'advisory'}),
    '0', 'the session of a role with INSERT does not count as a restore');
is(value($node, 'copy', q{SELECT jobq_enqueue('hostile'); SELECT id > 0 FROM jobq_claim('hostile', heartbeat_timeout => '10 ms')}) =~ s/^\d+\n//r, 't', 'a job is lost');
becomes_true($node, 'copy', q{SELECT status = 'pending' FROM jobq.jobs WHERE queue = 'hostile'}, 'and rescued meanwhile');
end_sessions($hostile);

done_testing();
