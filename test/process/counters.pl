# The counters behind jobq.queue_stats, against the rows: after a crash, with prepared transactions, terminated
# sessions, changes that no trigger saw, more queues than there is room for, and under a random load of everything at
# once, recounts included. Planted defects that it was seen to catch: a rollback to a savepoint that keeps the changes, a
# recount that does not note the commits beside it, prepared changes that are added at PREPARE.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqRandomLoad;
use JobqTest;
use JobqTime;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = preloaded('counters', conf => ['max_prepared_transactions = 10', 'jobq.max_counted_queues = 20', 'jobq.reconcile_interval = 1h',
    'jobq.tick_interval = 100ms']);
database($node, 'work');

# What the counters say differently from the rows; empty: nothing.
my $differs = counters_differ();
my $sources = q{SELECT string_agg(DISTINCT source, ' ') FROM jobq.queue_stats};
my $from_counters = "SELECT ($sources) = 'counters'";
my $pending = q{SELECT pending FROM jobq.queue_stats WHERE queue = '%s'};

sub right
{
    my ($name, $database) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is(value($node, $database // 'work', $sources), 'counters', "$name: from counters");
    return is(value($node, $database // 'work', $differs), '', "$name: right");
}

# ---- a new extension, a crash, a restart

value($node, 'work', q{SELECT count(*) FROM jobq_enqueue_many('q', array_fill('{}'::jsonb, ARRAY[50]))});
becomes_true($node, 'work', $from_counters, 'the worker counts a new database');
right('new');
value($node, 'work', q{SELECT jobq_complete(id, lease) FROM jobq_claim('q', batch => 10)});
right('calls');
is(value($node, 'work', q{SELECT enqueued_per_second > 0 AND claimed_per_second > 0 AND completed_per_second > 0 AND failed_per_second = 0
    FROM jobq.queue_stats WHERE queue = 'q'}), 't', 'rates');

my $victim = session($node, 'work');
$victim->query(q{BEGIN; SELECT jobq_enqueue('q'); SELECT count(*) FROM jobq_claim('q', batch => 5)});
my $postmaster = $node->{_pid};
$node->stop('immediate');
$node->start;
is(value($node, 'work', $differs), '', 'right at once after a crash of the whole server');
becomes_true($node, 'work', $from_counters, 'counted again after a crash');
right('crash of the server');
eval { $victim->quit };

$victim = session($node, 'work');
$victim->query(q{BEGIN; SELECT jobq_enqueue('q'); SELECT count(*) FROM jobq_claim('q', batch => 5)});
my $pid = $victim->query('SELECT pg_backend_pid()');
kill 'KILL', $pid;
becomes_true($node, 'work', "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $pid)", 'a session is killed, everything restarts');
becomes_true($node, 'work', $from_counters, 'counted again');
right('crash of a session');
eval { $victim->quit };

$victim = session($node, 'work');
$victim->query(q{BEGIN; SELECT jobq_enqueue('q'); SAVEPOINT a; SELECT count(*) FROM jobq_claim('q', batch => 5)});
$pid = $victim->query('SELECT pg_backend_pid()');
value($node, 'work', "SELECT pg_terminate_backend($pid)");
becomes_true($node, 'work', "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $pid)", 'a session is terminated');
right('a terminated session');
eval { $victim->quit };

# ---- prepared transactions

sub prepare { my ($name, $sql) = @_; return value($node, 'work', "BEGIN; $sql; PREPARE TRANSACTION '$name'"); }

prepare('one', q{SELECT jobq_enqueue('q'), jobq_enqueue('two phases'); SELECT count(*) FROM jobq_claim('q', batch => 2)});
right('prepared');
value($node, 'work', q{SELECT jobq_tick()});
right('recounted while prepared');
value($node, 'work', q{COMMIT PREPARED 'one'});
right('COMMIT PREPARED');
prepare('two', q{SELECT jobq_enqueue('q'); SAVEPOINT a; SELECT jobq_enqueue('q'); ROLLBACK TO a});
value($node, 'work', q{ROLLBACK PREPARED 'two'});
right('ROLLBACK PREPARED');
prepare('two', q{SELECT jobq_enqueue('q')});
value($node, 'work', q{COMMIT PREPARED 'two'});
right('the same name again');
value($node, 'work', q{SELECT jobq_create_queue('brief', keep_completed => '0')});
value($node, 'work', q{SELECT jobq_enqueue('brief') FROM generate_series(1, 5)});
value($node, 'work', q{SELECT jobq_release(id, lease) FROM jobq_claim('brief', batch => 5)});
for my $end ('ROLLBACK', 'COMMIT')
{
    prepare('brief', q{SELECT jobq_complete(id) FROM jobq_claim('brief', batch => 2)});
    right("deleted on completion, prepared for $end");
    value($node, 'work', "$end PREPARED 'brief'");
    right("deleted on completion, $end PREPARED");
}
is(value($node, 'work', q{SELECT pending, processing, completed, (SELECT count(*) FROM jobq.jobs WHERE queue = 'brief'), (SELECT count(*) FROM jobq.attempts a LEFT JOIN jobq.jobs j ON j.id = a.job_id WHERE coalesce(j.queue, 'brief') = 'brief')
    FROM jobq.queue_stats WHERE queue = 'brief'}), '3|0|0|3|3', 'what was committed is gone, its attempts too');
value($node, 'work', q{SELECT jobq_drop_queue('brief', force => true)});
prepare('many', q{SELECT jobq_enqueue('many ' || n) FROM generate_series(1, 9) n});
value($node, 'work', q{COMMIT PREPARED 'many'});
is(value($node, 'work', $differs), '', 'more queues than are kept: right at once');
becomes_true($node, 'work', $from_counters, 'and counted again');
prepare('restart', q{SELECT jobq_enqueue('q')});
$node->restart;
becomes_true($node, 'work', $from_counters, 'counted after a restart');
right('restart with a prepared transaction');
value($node, 'work', q{COMMIT PREPARED 'restart'});
is(value($node, 'work', $differs), '', 'COMMIT PREPARED of what was prepared before the restart');
becomes_true($node, 'work', $from_counters, 'counted again');
value($node, 'work', q{SELECT jobq_purge_queue(queue) FROM jobq.queues WHERE queue LIKE 'many%'});
right('purged');

# ---- changes that nobody told of: the tick finds them

sub unseen { return value($node, 'work', "SET session_replication_role = replica; $_[0]"); }

unseen(q{DELETE FROM jobq.jobs WHERE queue = 'q' AND status = 'completed'});
isnt(value($node, 'work', $differs), '', 'a change that no trigger saw is not counted');
is(value($node, 'work', q{SELECT done FROM jobq_tick() WHERE duty = 'reconcile'}), '1', 'the tick finds it');
right('reconciled');
is(value($node, 'work', q{SELECT done FROM jobq_tick() WHERE duty = 'reconcile'}), '0', 'once');
unseen(q{DELETE FROM jobq.jobs WHERE queue = 'two phases'});
settings($node, 'jobq.reconcile_interval = 1s');
$node->reload;
becomes_true($node, 'work', "SELECT ($differs) IS NULL", 'the worker finds it too');
cmp_ok(value($node, 'work', q{SELECT reconciled FROM jobq.workers WHERE database = 'work'}), '>=', 1, 'and says so');

# ---- a recount while transactions are open, committed by sessions before and after it

my @open = map { session($node, 'work') } 1 .. 4;
for my $n (0 .. 3)
{
    $open[$n]->query("BEGIN; SELECT jobq_enqueue('open $n'); SELECT jobq_enqueue('q')");
    value($node, 'work', q{SELECT jobq_tick()});
    right("recount with open transactions, $n");
}
for my $session (reverse @open)
{
    $session->query('COMMIT');
    right('commit after the recount');
    value($node, 'work', q{SELECT jobq_tick()});
    right('recount after the commit');
}
$_->quit for @open;
value($node, 'work', q{SELECT jobq_purge_queue(queue) FROM jobq.queues WHERE queue LIKE 'open%'});

# ---- another database, dropped; the extension, dropped and made again

database($node, 'other');
value($node, 'other', q{SELECT jobq_enqueue('q') FROM generate_series(1, 3)});
becomes_true($node, 'other', $from_counters, 'another database');
right('another database', 'other');
right('the first one');
value($node, 'other', 'DROP EXTENSION jobq');
value($node, 'other', 'CREATE EXTENSION jobq');
value($node, 'other', q{SELECT jobq_enqueue('q')});
is(value($node, 'other', $differs), '', 'made again');
becomes_true($node, 'other', $from_counters, 'made again: counted');
right('made again', 'other');
value($node, 'postgres', 'DROP DATABASE other');

# ---- more queues than there is room for

becomes_true($node, 'work', $from_counters, 'counters');
value($node, 'work', q{SELECT jobq_enqueue('crowd ' || n) FROM generate_series(1, 30) n});
is(value($node, 'work', $differs), '', 'more queues than jobq.max_counted_queues: all of them right');
is(value($node, 'work', $sources), 'counters rows', 'some of them counted row by row');
my $rows = value($node, 'work', q{SELECT queue FROM jobq.queue_stats WHERE source = 'rows' AND queue LIKE 'crowd %' LIMIT 1});
is(value($node, 'work', qq{BEGIN; SELECT jobq_enqueue('$rows') > 0; SELECT pending FROM jobq.queue_stats WHERE queue = '$rows'; ROLLBACK}), "t\n2",
    'there a transaction sees what it has done once');
value($node, 'work', q{SELECT jobq_tick()});
is(value($node, 'work', $differs), '', 'also after a recount');
is(value($node, 'work', $sources), 'counters rows', 'for which there is no more room');
value($node, 'work', q{SELECT jobq_enqueue('crowd ' || n), jobq_enqueue('more ' || n) FROM generate_series(1, 30) n});
is(value($node, 'work', $differs), '', 'still right');
value($node, 'work', q{SELECT jobq_drop_queue(queue, force => true) FROM jobq.queues WHERE queue LIKE 'crowd%' OR queue LIKE 'more%'});
is(value($node, 'work', $differs), '', 'gone again');
# A tick by hand counts only when that is cheap, or the last count was long enough ago.
becomes_true($node, 'work', q{SELECT bool_and(s.source = 'counters') FROM (SELECT count(*) FROM jobq_tick()) t, jobq.queue_stats s},
    'after a recount');
right('there is room again');
value($node, 'work', q{SELECT jobq_enqueue('newcomer ' || n) FROM generate_series(1, 5) n});
right('and new queues have counters');

# ---- a large table: a process of its own counts it, and the worker goes on meanwhile

settings($node, 'log_min_messages = debug1');
$node->reload;
database($node, 'large');
value($node, 'large', q{SET session_replication_role = replica;
    INSERT INTO jobq.jobs (queue, _lane, run_at, status, max_attempts, error)
    SELECT 'bulk', 0, now(), 'completed', 1, repeat('x', 1500) FROM generate_series(1, 30000)});
value($node, 'large', q{SELECT jobq_enqueue('bulk')});
settings($node, 'jobq.reconcile_interval = 1s');
$node->reload;
becomes_true($node, 'large', "SELECT completed = 30000 AND source = 'counters' FROM jobq.queue_stats WHERE queue = 'bulk'",
    'a large table is counted');
right('a large table', 'large');
cmp_ok(count_in_log($node, qr/starting background worker process "jobq recount for large"/), '>=', 1, 'by a process of its own');
value($node, 'large', q{SELECT jobq_enqueue('bulk', run_at => clock_timestamp() + n * interval '50 ms') FROM generate_series(1, 100) n});
becomes_true($node, 'large', q{SELECT pending = 101 FROM jobq.queue_stats WHERE queue = 'bulk'}, 'the worker does its duties beside it');
right('a large table, later', 'large');
# Who may not drop the extension stops no count. It is stopped meanwhile, so that what it was told shows afterwards.
value($node, 'large', q{
    CREATE ROLE stranger LOGIN;
    CREATE PROCEDURE catch_recount(INOUT pid int = NULL) LANGUAGE plpgsql AS $$
    BEGIN
        LOOP
            PERFORM pg_stat_clear_snapshot();
            SELECT a.pid INTO pid FROM pg_stat_activity a WHERE a.backend_type = 'jobq recount' AND a.datname = 'large';
            EXIT WHEN pid IS NOT NULL;
            PERFORM pg_sleep(0.001);
        END LOOP;
    END $$});
my $counting;
do
{
    $counting = value($node, 'large', 'CALL catch_recount()');
    kill 'STOP', $counting;
} until value($node, 'large', "SELECT count(*) FROM pg_stat_activity WHERE pid = $counting");
value($node, 'large', 'SET SESSION AUTHORIZATION stranger; DROP EXTENSION IF EXISTS jobq_of_nobody');
isnt(sqlstate($node, 'large', 'SET SESSION AUTHORIZATION stranger; SET lock_timeout = 100; DROP EXTENSION jobq'), '00000', 'a stranger cannot drop the extension');
kill 'CONT', $counting;
becomes_true($node, 'large', "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $counting", 'a recount ends');
is(count_in_log($node, qr/terminating background worker "jobq recount"/, 0), 0, 'by itself, whatever a stranger has tried');
my $begin = time;
value($node, 'large', 'DROP EXTENSION jobq');
in_time(time - $begin, 2, 'DROP EXTENSION does not wait for a recount');
$begin = time;
value($node, 'postgres', 'DROP DATABASE large');
in_time(time - $begin, 2, 'nor does DROP DATABASE');

# ---- everything at once

# Rounds: in the first half of each, the table is counted again and again; in the second nothing corrects anything. A
# big queue makes the counts last, so that others commit meanwhile.
settings($node, 'jobq.reconcile_interval = 1h', 'log_min_messages = warning');
$node->reload;
value($node, 'work', q{SELECT count(*) FROM jobq_enqueue_many('resting', array_fill('{}'::jsonb, ARRAY[40000]))});
# One of the queues keeps nothing.
value($node, 'work', q{SELECT jobq_create_queue('load 1', keep_completed => '0', keep_failed => '0')});
my $act = q{
CREATE PROCEDURE pg_temp.act(seed int) LANGUAGE plpgsql AS $$
DECLARE
    q text := 'load ' || seed % 3;
    many int := 1 + floor(random() * 5)::int;
    what int := floor(random() * 15)::int;
BEGIN
    CASE what
        WHEN 0, 1, 2 THEN PERFORM jobq_enqueue_many(q, array_fill('{}'::jsonb, ARRAY[many]));
        WHEN 3 THEN PERFORM jobq_enqueue(q, run_at => clock_timestamp() + random() * interval '1 s');
        WHEN 4, 5 THEN PERFORM jobq_complete(c.id, c.lease) FROM jobq_claim(q, batch => many) c;
        WHEN 6 THEN PERFORM jobq_fail(c.id, c.lease, 'e', random() * interval '1 s', random() < 0.7) FROM jobq_claim(q, batch => many) c;
        WHEN 7 THEN PERFORM jobq_release(c.id, c.lease) FROM jobq_claim(q, batch => many) c;
        WHEN 8 THEN PERFORM jobq_claim(q, batch => many, heartbeat_timeout => '200 ms');
        WHEN 9 THEN PERFORM jobq_cancel_jobs(q, max_jobs => many);
        WHEN 10 THEN PERFORM jobq_retry_jobs(q, statuses => '{failed,cancelled,completed}', max_jobs => many);
        WHEN 11 THEN PERFORM jobq_delete_jobs(q, max_jobs => many);
        WHEN 12 THEN INSERT INTO jobq.jobs (queue, status) SELECT q, (ARRAY['pending','completed','blocked'])[1 + n % 3]::jobq.job_status FROM generate_series(1, many) n;
        WHEN 13 THEN UPDATE jobq.jobs SET status = 'pending', queue = 'load ' || (seed + 1) % 3
            WHERE id IN (SELECT id FROM jobq.jobs WHERE queue = q AND status IN ('blocked', 'failed') LIMIT many FOR UPDATE SKIP LOCKED);
        ELSE DELETE FROM jobq.jobs WHERE id IN (SELECT id FROM jobq.jobs WHERE queue = q LIMIT many FOR UPDATE SKIP LOCKED);
    END CASE;
END $$;
};
my $seconds = ($ENV{JOBQ_COUNTERS_SECONDS} // 10) / 4;
my ($recounts, $unexpected) = (0, '');
for my $round (1 .. 4)
{
    settings($node, 'jobq.enabled = on');
    $node->reload;
    my $begin = time;
    my @clients = map { start_random_client($node, $act, $begin + $seconds, application_name => "client $_") } 1 .. 6;
    do
    {
        $recounts++;
        run_sql($node, 'work', 'SELECT jobq_tick()');
    } while (time < $begin + $seconds / 2);
    run_sql($node, 'work', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'client 1'});
    $unexpected .= join '', grep { !/terminating connection/ } end_random_clients(@clients);
    # The counters are of now, the rows of a snapshot: nothing may change while they are compared.
    settings($node, 'jobq.enabled = off');
    $node->reload;
    becomes_true($node, 'postgres', q{SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'jobq worker')}, 'nobody is left');
    right("load $round, before a recount");
}
is($unexpected, '', 'no errors');
diag(sprintf '%d jobs enqueued, %d recounts in %d s',
    value($node, 'work', q{SELECT last_value FROM jobq.jobs_id_seq}), $recounts, 4 * $seconds);
cmp_ok(value($node, 'work', q{SELECT count(*) FROM jobq.lane_directory WHERE queue LIKE 'load%'}), '>=', 3, 'there was a load');
is(value($node, 'work', q{SELECT done FROM jobq_tick() WHERE duty = 'reconcile'}), '0', 'a recount finds nothing to correct');
is(value($node, 'work', q{SELECT count(*) FROM jobq.attempts WHERE job_id NOT IN (SELECT id FROM jobq.jobs)}), '0', 'no attempt of a job that is gone');
right('after the load');

done_testing();
