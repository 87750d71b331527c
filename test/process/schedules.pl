# Tests that the background worker fires schedules on time, at most once, and without losing a run, whatever process is killed,
# restarted, or promoted. Missed runs are handled as `missed` says. After a restore, in a copy, and after the clock was wrong,
# schedules continue from the current time.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use IPC::Run ();
use JobqTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $directory = PostgreSQL::Test::Utils::tempdir;
my $node = preloaded('first', init => { allows_streaming => 1 }, conf => ['max_connections = 40']);
database($node, 'work');
database($node, 'idle');

# ---- the laws of schedules that lose no run: each row of this view is a violation

value($node, 'work', <<'SQL');
CREATE VIEW runs AS
SELECT j.id, s.name, s.missed, s.starts_at, (j.metadata->>'scheduled_for')::timestamptz AS run, j.created_at
FROM jobq.schedules s JOIN jobq.jobs j ON j.metadata->>'schedule' = s.name;
CREATE VIEW broken AS
SELECT 'fired twice' AS law, name || ' ' || run AS what FROM runs GROUP BY name, run HAVING count(*) > 1
UNION ALL
SELECT 'lost', s.name || ' ' || g FROM jobq.schedules s, generate_series(s.starts_at, s.last_run, interval '1 second') g
WHERE s.missed = 'all' AND NOT EXISTS (SELECT FROM runs r WHERE r.name = s.name AND r.run = g)
UNION ALL
SELECT 'no run of it', name || ' ' || run FROM runs WHERE run < starts_at OR extract(epoch FROM run - starts_at) % 1 <> 0
UNION ALL
SELECT 'too early', name || ' ' || run FROM runs WHERE run > created_at
UNION ALL
SELECT 'out of order', name || ' ' || run FROM (SELECT name, run, lag(run) OVER (PARTITION BY name ORDER BY id) > run AS back FROM runs) r WHERE back
UNION ALL
SELECT 'next before last', name FROM jobq.schedules WHERE next_run <= last_run;
SQL

sub keeps_laws
{
    my ($where, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is(value($where, 'work', q{SELECT DISTINCT law FROM broken ORDER BY 1}), '', "$name: no law is broken")
        or diag(value($where, 'work', 'SELECT law, count(*), min(what) FROM broken GROUP BY 1'));
    return;
}

my $schedules = 12;
my $put = qq{SELECT count(jobq_schedule('s' || n, '\@every 1s', 'q' || n %% 3, missed => 'all', max_missed => 1000,
    starts_at => %s)) FROM generate_series(1, $schedules) n};
# Created in one statement, because a new schedule never fires runs from before its creation.
value($node, 'work', sprintf $put, q{date_trunc('second', now()) + interval '2 s'});
my $start = value($node, 'work', q{SELECT quote_literal(starts_at) FROM jobq.schedules WHERE name = 's1'});
value($node, 'work', q{SELECT jobq_schedule('once', '@every 1s', 'once'), jobq_schedule('skip', '@every 1s', 'skip', missed => 'skip', deadline => '500 ms')});

# Waits until all schedules have fired at least two runs after the current time.
sub goes_on
{
    my ($where, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $since = sprintf 'to_timestamp(%.3f)', time;    # the time of this process, because the server may be down
    becomes_true($where, 'work', qq{SELECT count(*) = $schedules FROM (SELECT name FROM runs WHERE missed = 'all' AND run > $since
        GROUP BY name HAVING count(*) >= 2) r}, "$name: all schedules continue");
    return;
}

goes_on($node, 'without faults');
diag('late by: ' . value($node, 'work', q{SELECT format('median %s, most %s, of %s runs', percentile_disc(0.5) WITHIN GROUP (ORDER BY created_at - run), max(created_at - run), count(*)) FROM runs}));

# A database in which nothing else happens.
value($node, 'idle', q{SELECT jobq_schedule('alone', '@every 2s', 'alone')});
becomes_true($node, 'idle', q{SELECT count(*) >= 2 FROM jobq.jobs WHERE queue = 'alone'}, 'the schedules of an idle database fire');

# ---- faults, while other sessions call jobq_tick() and put the same set of schedules again and again

my @beside;
sub begin_beside
{
    my $ticks = q{DO $$ BEGIN LOOP PERFORM jobq_tick(); COMMIT; PERFORM pg_sleep(0.01); END LOOP; END $$};
    my $deploys = sprintf q{DO $$ BEGIN LOOP PERFORM (%s); COMMIT; PERFORM pg_sleep(0.03); END LOOP; END $$}, sprintf $put, $start;
    for my $sql ($ticks, $ticks, $deploys)
    {
        my ($out, $err) = ('', '');
        push @beside, IPC::Run::start([ 'psql', '-X', '-q', '-d', $node->connstr('work'), '-c', $sql ], '<', \undef, '>', \$out, '2>', \$err);
    }
    return;
}
sub end_beside
{
    my $theirs = q{FROM pg_stat_activity WHERE query ~ '^DO .*LOOP' AND pid <> pg_backend_pid()};
    becomes_true($node, 'postgres', "SELECT count(pg_terminate_backend(pid)) = 0 $theirs", 'no other session calls jobq_tick()');
    $_->kill_kill(grace => 5) for @beside;
    @beside = ();
    return;
}

$node->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('second');
$standby->init_from_backup($node, 'copy', has_streaming => 1);
$standby->start;

my %fault = (
    'a worker that is terminated' => sub { $node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'jobq worker'}) },
    'a worker that is killed' => sub {
        my $pid = await_worker($node, 'work');
        kill 'KILL', $pid if $pid;
    },
    'ticks that are terminated' => sub { $node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ~ 'jobq_tick' AND pid <> pg_backend_pid()}) },
    'a server that stops at once' => sub { $node->stop('immediate'); starts_again($node) },
    'a server that restarts' => sub { $node->restart },
);
# With JOBQ_FAULTS, only that number of faults and nothing else.
my @faults = sort keys %fault;
for my $name ($ENV{JOBQ_FAULTS} ? splice(@faults, 0, $ENV{JOBQ_FAULTS}) : @faults)
{
    begin_beside();
    goes_on($node, "before $name");
    $fault{$name}->();
    goes_on($node, $name);
    end_beside();
    keeps_laws($node, $name);
}

if ($ENV{JOBQ_FAULTS})
{
    done_testing();
    exit;
}

begin_beside();
goes_on($node, 'before the promotion');
end_beside();
$node->stop('fast');
$standby->promote;
$node = $standby;
begin_beside();
goes_on($node, 'a promotion');
end_beside();
keeps_laws($node, 'a promotion');

# ---- schedules are switched off for some seconds, as if the server were down

settings($node, 'jobq.schedules = off');
$node->reload;
becomes_true($node, 'work', q{SELECT NOT current_setting('jobq.schedules')::boolean}, 'schedules are switched off');
my $quiet = value($node, 'work', 'SELECT clock_timestamp()');
becomes_true($node, 'work', qq{SELECT min(next_run) + interval '4 s' < clock_timestamp() AND clock_timestamp() > '$quiet'::timestamptz + interval '5 s'
    FROM jobq.schedules WHERE next_run IS NOT NULL}, 'runs are overdue by seconds');
is(value($node, 'work', qq{SELECT count(*) FROM runs WHERE created_at > '$quiet'::timestamptz + interval '2 s'}), '0', 'the worker fires no run');
is(value($node, 'work', q{SELECT done FROM jobq_tick() WHERE duty = 'schedules'}), '0', 'jobq_tick() fires no run');
my $once = value($node, 'work', q{SELECT skipped FROM jobq.schedules WHERE name = 'once'});
settings($node, 'jobq.schedules = on');
$node->reload;
goes_on($node, 'schedules on again');
keeps_laws($node, 'schedules on again');
is(value($node, 'work', qq{SELECT skipped >= $once + 3 AND last_skipped > '$quiet' AND skip_reason = 'missed' FROM jobq.schedules WHERE name = 'once'}), 't', 'once: only the latest missed run is fired');
is(value($node, 'work', q{SELECT count(*) FROM runs WHERE name = 'skip' AND created_at > run + interval '500 ms'}), '0', 'skip: no late run is fired');
is(value($node, 'work', q{SELECT skipped > 2 AND skip_reason = 'deadline' FROM jobq.schedules WHERE name = 'skip'}), 't', 'skip: the skipped runs are counted with the reason');

# ---- a schedule that fails is reported, does not delay others, and recovers

my $position = log_size($node);
value($node, 'work', q{SELECT jobq_create_queue('full', max_depth => 1), jobq_schedule('full', '@every 1s', 'full')});
becomes_true($node, 'work', q{SELECT failures >= 2 AND error ~ 'full' AND retry_at > now() FROM jobq.schedules WHERE name = 'full'}, 'jobq.schedules reports the error of a schedule whose queue is full');
becomes_true($node, 'work', q{SELECT last_error ~ 'schedule "full": queue "full" is full' FROM jobq.background_workers WHERE database = 'work'}, 'jobq.background_workers reports the error, too');
goes_on($node, 'with a full queue');
becomes_true($node, 'work', q{SELECT failures >= 4 FROM jobq.schedules WHERE name = 'full'}, 'the schedule keeps failing while others fire');
is(count_in_log($node, qr/recovered from an error in duty schedules/, $position), 0, 'the log does not report a recovery');
is(count_in_log($node, qr/schedules skipped/, $position), 1, 'the log reports the error once');
is(value($node, 'work', q{SELECT last_error_over_at FROM jobq.background_workers WHERE database = 'work'}), '', 'jobq.background_workers does not report a recovery');
value($node, 'work', q{SELECT jobq_purge_queue('full'), jobq_alter_queue('full', max_depth => 1000)});
becomes_true($node, 'work', q{SELECT failures = 0 AND error IS NULL FROM jobq.schedules WHERE name = 'full'}, 'the schedule recovers when the queue has room');
becomes_true($node, 'work', q{SELECT last_error_over_at > last_error_at FROM jobq.background_workers WHERE database = 'work'}, 'jobq.background_workers reports the recovery');

# ---- unique keys that an open transaction holds: the waits for them do not add up. The runs are hours ahead, so the worker does not fire
# them.

database($node, 'held');
my $many = 450;    # with 50 ms for each, the statement would time out
my $holder = session($node, 'held');
$holder->query('BEGIN');
$holder->query(qq{SELECT count(*) FROM jobq_enqueue_many('held', array_fill('{}'::jsonb, ARRAY[$many]), unique_keys => (SELECT array_agg('c' || n) FROM generate_series(1, $many) n))});
value($node, 'held', qq{SELECT count(jobq_schedule('s' || n, '\@every 1h', 'held', starts_at => date_trunc('hour', now()) + interval '3 hours', options => jsonb_build_object('unique_key', 'c' || n)))
    FROM generate_series(1, $many) n});
my $due = value($node, 'held', q{SELECT next_run FROM jobq.schedules WHERE name = 's1'});
value($node, 'held', qq{SELECT jobq_schedule('behind', '\@every 1h', 'free', starts_at => '$due'::timestamptz + interval '1 s')});
my $tick = q{SET statement_timeout = '20 s'; SELECT done FROM jobq_tick('%s'::timestamptz + interval '%s') WHERE duty = 'schedules'};
is((run_sql($node, 'held', sprintf $tick, $due, '1 s'))[0], '1', 'a schedule after many whose keys are held fires');
is(value($node, 'held', q{SELECT string_agg(queue, ',') FROM jobq.jobs}), 'free', 'its job is enqueued while the keys are held');
is(value($node, 'held', q{SELECT count(*) FROM jobq.schedules WHERE failures = 1 AND error ~ 'lock timeout'}), $many, 'each of the other schedules has been tried');
end_sessions($holder);
is((run_sql($node, 'held', sprintf $tick, $due, '1 minute'))[0], $many, 'all of them fire when the keys are free');

# ---- the clock was wrong, or time zones have changed: next_run is recomputed when a worker starts

value($node, 'work', q{SELECT jobq_schedule('ahead', '@every 1s', 'ahead'), jobq_schedule('back', '@every 1s', 'back')});
becomes_true($node, 'work', q{SELECT count(*) = 2 FROM jobq.schedules WHERE name IN ('ahead', 'back') AND last_run IS NOT NULL}, 'both schedules have fired');
value($node, 'work', <<'SQL');
UPDATE jobq.schedule_settings SET next_run = now() + interval '3 days', last_run = now() + interval '2 days' WHERE name = 'ahead';
UPDATE jobq.schedule_settings SET next_run = now() + interval '3 hours 1 s', last_run = now() + interval '3 hours' WHERE name = 'back';
SQL
$node->restart;
becomes_true($node, 'work', q{SELECT next_run < clock_timestamp() + interval '1 minute' FROM jobq.schedules WHERE name = 'ahead'}, 'next_run is corrected after a clock that was days ahead');
is(value($node, 'work', q{SELECT next_run > last_run AND last_run > clock_timestamp() + interval '2 hours' FROM jobq.schedules WHERE name = 'back'}), 't', 'runs of hours that occur again are not fired again');
value($node, 'work', q{SELECT jobq_unschedule('ahead'), jobq_unschedule('back')});

# ---- copies continue from their adoption, restored databases from their restore

value($node, 'postgres', q{ALTER DATABASE work ALLOW_CONNECTIONS false});
value($node, 'postgres', q{SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = 'work'});
becomes_true($node, 'postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = 'work'}, 'no session is connected');
value($node, 'postgres', q{CREATE DATABASE copied TEMPLATE work});
value($node, 'postgres', q{ALTER DATABASE work ALLOW_CONNECTIONS true});
goes_on($node, 'the original');
$node->command_ok([ 'pg_dump', '-f', "$directory/dump", $node->connstr('work') ], 'pg_dump');
value($node, 'postgres', q{CREATE DATABASE restored});
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', "$directory/dump", $node->connstr('restored') ], 'the dump is restored');
for my $copy ('copied', 'restored')
{
    my $until = value($node, $copy, q{SELECT max(run) FROM runs});
    becomes_true($node, $copy, q{SELECT state = 'copy' FROM jobq.background_workers WHERE database = current_database()}, "$copy: the database is a copy");
    value($node, $copy, q{SELECT jobq_adopt()});
    my $adopted = value($node, $copy, q{SELECT max(adopted_at) FROM jobq.identity});
    becomes_true($node, $copy, qq{SELECT count(*) = $schedules FROM (SELECT name FROM runs WHERE missed = 'all' AND run > '$adopted' GROUP BY name HAVING count(*) >= 2) r}, "$copy: all schedules continue");
    is(value($node, $copy, qq{SELECT count(*) FROM runs WHERE run > '$until' AND run <= '$adopted'}), '0', "$copy: no run from before the adoption is fired");
}
goes_on($node, 'beside its copies');
keeps_laws($node, 'in the end');
diag('late by: ' . value($node, 'work', q{SELECT format('median %s, p99 %s, of %s runs', percentile_disc(0.5) WITHIN GROUP (ORDER BY created_at - run), percentile_disc(0.99) WITHIN GROUP (ORDER BY created_at - run), count(*)) FROM runs}));

done_testing();
