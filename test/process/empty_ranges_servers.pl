# Tests empty ranges while processes and servers end: backends that are terminated at random, restarts, a crash, a promotion, and
# more lanes than shared memory has entries. Also tests changes that are not published because triggers are disabled, in databases
# that are idle or have no worker.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use IPC::Run;
use JobqLanes;
use JobqTest;
use JobqTime;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

# The time within which the repair, which runs once a second, must find a job, on a busy machine.
my $moment = 6;

my $node = lane_server('servers', conf => ['max_connections = 40'], init => { allows_streaming => 1 });
lane_database($node, 'work');
my $holder = hold_snapshot($node, 'work');
sub work { return value($node, 'work', $_[0]); }

# ---- backends are terminated at random moments while they enqueue

make_empty($node, 'work', 'killed');
my %acknowledged;
my $terminated = 0;
for my $round (1 .. 12)
{
    my ($out, $err) = ('', '');
    my $script = join ";\n", (q{SELECT jobq_enqueue('killed', run_at => '2001-01-01') FROM generate_series(1, 2)}) x 3000;
    my $producer = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('work') . " application_name=producer" ],
        '<', \$script, '>', \$out, '2>', \$err);
    # Another session claims in the meantime, so that empty ranges are learned.
    my $claimed = session($node, 'work');
    seconds_until(sub { $producer->pump_nb; return $out =~ /\n.*\n/ });
    my $until = time + rand 0.3;
    while (time < $until) { $producer->pump_nb; $claimed->query(q{SELECT count(jobq_complete(id, lease)) FROM jobq_claim('killed', batch => 100)}); }
    $terminated += work(q{SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'producer'});
    eval { $producer->finish };
    $acknowledged{$1} = 1 while $out =~ /^(\d+)\n/mg;
    $claimed->query(q{CALL drain('killed', 100)});
    my $left = work(q{SELECT count(*) FROM jobq.jobs WHERE queue = 'killed' AND status = 'pending'});
    is($left, 0, "round $round: a job that was committed before the termination is claimed") if $left ne '0';
    end_sessions($claimed);
}
cmp_ok($terminated, '>', 6, 'backends were terminated while they worked');
cmp_ok(scalar(keys %acknowledged), '>', 100, 'they had enqueued jobs before');
my $ids = join ',', keys %acknowledged;
is(work("SELECT count(*) FROM jobq.jobs WHERE id IN ($ids) AND status <> 'completed'"), '0', 'each acknowledged job has been claimed');
is(work(q{SELECT count(*) FROM jobq.jobs WHERE queue = 'killed' AND status = 'pending'}), '0', 'and so has each committed job that was not acknowledged');

# ---- a restart with prepared transactions

make_empty($node, 'work', 'again');
work(q{SELECT jobq_enqueue('again', '"kept"'), jobq_enqueue('again', '"held"', priority => -1)});
work(q{BEGIN; SELECT id FROM jobq_claim('again'); PREPARE TRANSACTION 'claim'});
work(q{BEGIN; SELECT jobq_enqueue('again', '"prepared"', priority => -2); PREPARE TRANSACTION 'enqueue'});
end_sessions($holder);
$node->restart;
claims_next($node, 'work', 'again', ['kept'], 'a job that was enqueued before the restart is claimed after it');
becomes_true($node, 'work', q{SELECT rounds > 0 FROM jobq.background_workers WHERE database = 'work'}, 'the worker has run');
make_empty($node, 'work', 'other');
is(work(q{SELECT count(*) FROM jobq_claim('again'); SELECT count(*) FROM jobq_claim('again')}), "0\n0", 'prepared jobs cannot be claimed');
work(q{COMMIT PREPARED 'enqueue'});
claims_next($node, 'work', 'again', ['prepared'], 'a job whose enqueue was prepared before the restart is claimed');
work(q{ROLLBACK PREPARED 'claim'});
claims_next($node, 'work', 'again', ['held'], 'a job whose claim was prepared before the restart and rolled back is claimed');

# ---- kill -9 with an open claim

make_empty($node, 'work', 'crash');
work(q{SELECT jobq_enqueue('crash', '"one"'), jobq_enqueue('crash', '"two"')});
my $open = session($node, 'work');
$open->query(q{BEGIN; SELECT id FROM jobq_claim('crash')});
is(work(q{BEGIN; SELECT payload FROM jobq_claim('crash'); ROLLBACK; SELECT count(*) FROM jobq_claim('again')}), "\"two\"\n0", 'other sessions skip the claimed job');
kill_server($node);
eval { $open->quit };
starts_again($node);
claims_next($node, 'work', 'crash', [ 'one', 'two' ], 'after a crash both jobs are claimed');

# ---- a crash of one backend, after which the server reinitializes its shared memory

becomes_true($node, 'work', q{SELECT rounds > 0 FROM jobq.background_workers WHERE database = 'work'}, 'the worker has run');
make_empty($node, 'work', 'backend');
work(q{SELECT jobq_enqueue('backend', '"job"')});
$open = session($node, 'work');
my $pid = $open->query('SELECT pg_backend_pid()');
$open->query(q{BEGIN; SELECT id FROM jobq_claim('backend')});
is(work(q{SELECT count(*) FROM jobq_claim('backend')}), '0', 'other sessions do not find the job of an open claim');
my $position = log_size($node);
kill 'KILL', $pid;
ok(seconds_until(sub { count_in_log($node, qr/reinitializing/, $position) }), 'its backend is killed');
eval { $open->quit };
becomes_true($node, 'work', 'SELECT true', 'the server accepts connections again');
claims_next($node, 'work', 'backend', ['job'], 'the job is claimed');

# ---- promotion

becomes_true($node, 'work', q{SELECT rounds > 0 FROM jobq.background_workers WHERE database = 'work'}, 'the worker has run');
make_empty($node, 'work', 'promoted');
$node->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('servers_standby');
$standby->init_from_backup($node, 'copy', has_streaming => 1);
$standby->start;
work(q{SELECT jobq_enqueue('promoted', '"before"'), jobq_enqueue('promoted', '"old"', run_at => '2001-01-01')});
$open = session($node, 'work');
$open->query(q{BEGIN; SELECT id FROM jobq_claim('promoted')});
work(q{SELECT count(*) FROM jobq_claim('again')});
$node->wait_for_catchup($standby);
$standby->promote;
claims_next($standby, 'work', 'promoted', [ 'old', 'before' ], 'after a promotion the jobs are claimed');
becomes_true($standby, 'work', q{SELECT rounds > 0 FROM jobq.background_workers WHERE database = 'work'}, 'a worker runs on the promoted server');
my $old = hold_snapshot($standby, 'work');
make_empty($standby, 'work', 'promoted');
value($standby, 'work', q{SELECT jobq_enqueue('promoted', '"after"')});
claims_next($standby, 'work', 'promoted', ['after'], 'a job that is enqueued there is claimed');
end_sessions($old);
$standby->stop;
end_sessions($open);
$node->stop;

# ---- more lanes than the table has entries, in several databases

my $small = lane_server('small', tick => '1 s', conf => [ 'jobq.max_tracked_lanes = 8', "jobq.databases = 'one, two, three, idle'" ]);
my @databases = ('one', 'two', 'three');
lane_database($small, $_) for @databases;
my @holders = map { hold_snapshot($small, $_) } @databases;
my $kinds = 200;
for my $turn (1 .. 2)
{
    for my $name (@databases)
    {
        value($small, $name, qq{
            SELECT count(*) FROM jobq_enqueue_jobs((SELECT jsonb_agg(jsonb_build_object('queue', 'lanes', 'kind', 'k' || n % $kinds)) FROM generate_series(1, 600) n));
            CALL drain('lanes', 7);
            SELECT count(c.id) FROM generate_series(1, $kinds) n, LATERAL jobq_claim('lanes', kinds => ARRAY['k' || n]) c});
    }
    for my $name (@databases)
    {
        is( value($small, $name, qq{
                SELECT count(*) FROM jobq_enqueue_jobs((SELECT jsonb_agg(jsonb_build_object('queue', 'lanes', 'kind', 'k' || n % $kinds)) FROM generate_series(1, $kinds) n));
                SELECT count(jobq_complete(c.id, c.lease)) FROM generate_series(1, $kinds) n, LATERAL jobq_claim('lanes', kinds => ARRAY['k' || n % $kinds]) c}),
            "$kinds\n$kinds",
            "turn $turn: with 200 lanes and empty ranges for 8, each lane in database $name has its job");
    }
}
end_sessions(@holders);

# ---- jobs that are not published

my $unseen = q{INSERT INTO jobq.jobs (queue, payload, run_at, status, _ready, max_attempts, _lane)
    SELECT 'unseen', to_jsonb(n), '2001-01-01', 'pending', true, 20, jobq.lane_of('unseen', '', 0, NULL) FROM generate_series(1, %d) n};
my $silently = "BEGIN; ALTER TABLE jobq.jobs DISABLE TRIGGER fill_job; $unseen; ALTER TABLE jobq.jobs ENABLE TRIGGER fill_job; COMMIT";
my $applied = "SET session_replication_role = replica; $unseen";

# Drains the queue repeatedly until the given number of jobs have been completed.
sub all_claimed_soon
{
    my ($name, $count, $what) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $begin = time;
    my $done = 0;
    seconds_until(sub {
            $done += value($small, $name, q{SELECT count(jobq_complete(id, lease)) FROM jobq_claim('unseen', batch => 100)});
            return $done >= $count });
    report_seconds($what, time - $begin);
    is($done, $count, "$what: all jobs are claimed");
    return in_time(time - $begin, $moment, "$what: within $moment s");
}

my $old_snapshot = hold_snapshot($small, 'one');
for my $way ([ 'triggers disabled', $silently ], [ 'in replica role', $applied ])
{
    my ($what, $sql) = @$way;
    for my $count (1, 1000)
    {
        make_empty($small, 'one', 'unseen');
        value($small, 'one', sprintf $sql, $count);
        all_claimed_soon('one', $count, "$what, $count jobs");
    }
}

# Jobs that are not at the head of the queue, because an open claim holds the head.
value($small, 'one', q{SELECT count(*) FROM jobq_enqueue_many('unseen', array_fill('{}'::jsonb, ARRAY[300]), priority => 5); CALL drain('unseen', 10)});
my $first = session($small, 'one');
value($small, 'one', q{SELECT jobq_enqueue('unseen', '"held"', priority => -5)});
$first->query(q{BEGIN; SELECT id FROM jobq_claim('unseen')});
is(value($small, 'one', q{SELECT count(*) FROM jobq_claim('unseen'); SELECT count(*) FROM jobq_claim('unseen')}), "0\n0", 'an open claim holds the head of the queue');
value($small, 'one', sprintf $applied, 5);
all_claimed_soon('one', 5, 'after a job that is claimed');
end_sessions($first);
value($small, 'one', q{CALL drain('unseen')});

# A worker that has nothing to do exits. It starts again when claims rely on empty ranges that it must repair.
sub database_without_work
{
    my ($name, $how) = @_;
    database($small, $name);
    value($small, $name, q{SELECT jobq_create_queue('unseen', keep_completed => '0 s')});
    value($small, $name, q{SELECT count(jobq_enqueue('unseen')) FROM generate_series(1, 40)});
    becomes_true($small, $name, q{SELECT rounds > 0 FROM jobq.background_workers WHERE database = 'idle'}, 'a worker runs') if $how eq 'served';
    value($small, $name, q{SELECT count(jobq_complete(id, lease)) FROM jobq_claim('unseen', batch => 100)});
    value($small, $name, q{SELECT count(*) FROM jobq_claim('unseen')});
    # For longer than it takes until a round starts that is already due.
    my $seen = time;
    ok( seconds_until(
            sub {
                $seen = time if worker_pid($small, $name) ne '';
                return time > $seen + 3;
            }),
        "$name: no worker starts");
    value($small, $name, sprintf $silently, 3);
    return all_claimed_soon($name, 3, "in a database without work, $how");
}
database_without_work('idle', 'served');
database_without_work('alone', 'not served');

# ---- empty ranges are used only in databases that have a worker

my $kept_two = hold_snapshot($small, 'two');
make_empty($small, 'two', 'unserved');
sub ranges_are_used
{
    my ($used, $what) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $reads = $used ? '= 0' : '>= 40';
    return becomes_true($small, 'two', qq{SELECT index_reads('SELECT count(*) FROM jobq_claim(''unserved'')') $reads}, $what);
}
for my $way ([ "jobq.databases = 'one, three'", "jobq.databases = 'one, two, three, idle'" ],
    [ "jobq.databases = 'one, three'", "jobq.databases = ''" ], [ 'jobq.enabled = off', 'jobq.enabled = on' ])
{
    my ($without, $with) = @$way;
    settings($small, $without);
    $small->reload;
    ranges_are_used(0, "$without: claims in database two use no empty ranges");
    value($small, 'two', q{SELECT jobq_enqueue('unserved', '"alone"')});
    claims_next($small, 'two', 'unserved', ['alone'], "$without: the next claim finds a new job");
    is(value($small, 'two', q{SELECT count(*) FROM jobq_claim('unserved', 'w'); SELECT jobq_enqueue('unserved', '"watched"') > 0;
            SELECT count(*) FROM jobq_claim('unserved', 'w'); SELECT _rescue_indexed FROM jobq.jobs WHERE payload = '"watched"' AND status = 'processing'}),
        "0\nt\n1\nt", "$without: leases enter the rescue's index at once");
    value($small, 'two', q{SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE queue = 'unserved' AND status = 'processing'});
    settings($small, $with);
    $small->reload;
    ranges_are_used(1, "$with: empty ranges are used again");
}
settings($small, "jobq.databases = 'one, two, three, idle'");
$small->reload;
is( value($small, 'two', q{
        CREATE FUNCTION reads_without_launcher() RETURNS bigint LANGUAGE plpgsql AS $$
        DECLARE
            reads bigint := 0;
        BEGIN
            PERFORM pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'jobq launcher';
            FOR n IN 1 .. 100000 LOOP
                reads := index_reads('SELECT count(*) FROM jobq_claim(''unserved'')');
                EXIT WHEN reads > 0;
            END LOOP;
            RETURN reads;
        END $$;
        SELECT reads_without_launcher() >= 40}), 't', 'claims use no empty ranges while the launcher is not running');
ranges_are_used(1, 'empty ranges are used when another launcher is running');
end_sessions($kept_two);

# ---- workers are switched off and on

make_empty($small, 'one', 'switch');
settings($small, 'jobq.enabled = off');
$small->reload;
becomes_true($small, 'one', q{SELECT state = 'disabled' OR pid IS NULL FROM jobq.background_workers WHERE database = 'one'}, 'the workers are switched off');
value($small, 'one', sprintf $silently, 2);
value($small, 'one', q{SELECT jobq_enqueue('switch', '"off"')});
claims_next($small, 'one', 'switch', ['off'], 'jobs are claimed without workers');
is(value($small, 'one', q{SELECT count(jobq_complete(id, lease)) FROM jobq_claim('unseen', batch => 5)}), '2', 'jobs that were not published are claimed, too');
value($small, 'one', sprintf $silently, 2);
settings($small, 'jobq.enabled = on');
$small->reload;
all_claimed_soon('one', 2, 'enqueued while the workers were off');
end_sessions($old_snapshot);
$small->stop;
done_testing();
