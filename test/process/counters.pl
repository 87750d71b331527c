# Compares the counters of jobq.queue_stats with the rows: after a crash, with prepared transactions, with terminated sessions,
# after changes that no trigger saw, with more queues than there are counters, and under a random load that includes recounts. The
# test has caught these planted defects: a rollback to a savepoint that keeps the changes, a recount that does not note concurrent
# commits, and prepared changes that are added at PREPARE.
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

# Selects the differences between the counters and the rows; the result is empty if there are none.
my $differs = counters_differ();
my $sources = q{SELECT string_agg(DISTINCT source, ' ') FROM jobq.queue_stats};
my $from_counters = "SELECT ($sources) = 'counters'";
my $pending = q{SELECT pending FROM jobq.queue_stats WHERE queue = '%s'};

sub right
{
    my ($name, $database) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is(value($node, $database // 'work', $sources), 'counters', "$name: the counters are used");
    return is(value($node, $database // 'work', $differs), '', "$name: the counters are right");
}

# ---- a new extension, a crash, a restart

value($node, 'work', q{SELECT count(*) FROM jobq_enqueue_many('q', array_fill('{}'::jsonb, ARRAY[50]))});
becomes_true($node, 'work', $from_counters, 'the worker counts the rows of a new database');
right('new');
value($node, 'work', q{SELECT jobq_complete(id, lease) FROM jobq_claim('q', batch => 10)});
right('calls');
is(value($node, 'work', q{SELECT enqueued_per_second > 0 AND claimed_per_second > 0 AND completed_per_second > 0 AND failed_per_second = 0
    FROM jobq.queue_stats WHERE queue = 'q'}), 't', 'the rates are right');

my $victim = session($node, 'work');
$victim->query(q{BEGIN; SELECT jobq_enqueue('q'); SELECT count(*) FROM jobq_claim('q', batch => 5)});
my $postmaster = $node->{_pid};
$node->stop('immediate');
$node->start;
is(value($node, 'work', $differs), '', 'the numbers are right at once after a crash of the server');
becomes_true($node, 'work', $from_counters, 'the rows are counted again after the crash');
right('crash of the server');
eval { $victim->quit };

$victim = session($node, 'work');
$victim->query(q{BEGIN; SELECT jobq_enqueue('q'); SELECT count(*) FROM jobq_claim('q', batch => 5)});
my $pid = $victim->query('SELECT pg_backend_pid()');
kill 'KILL', $pid;
becomes_true($node, 'work', "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $pid)", 'a session is killed and the server restarts');
becomes_true($node, 'work', $from_counters, 'the rows are counted again');
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
    FROM jobq.queue_stats WHERE queue = 'brief'}), '3|0|0|3|3', 'committed deletions are counted, and the attempts are deleted too');
value($node, 'work', q{SELECT jobq_drop_queue('brief', force => true)});
prepare('many', q{SELECT jobq_enqueue('many ' || n) FROM generate_series(1, 9) n});
value($node, 'work', q{COMMIT PREPARED 'many'});
is(value($node, 'work', $differs), '', 'more queues than counters: the numbers are right at once');
becomes_true($node, 'work', $from_counters, 'the counters are back');
prepare('restart', q{SELECT jobq_enqueue('q')});
$node->restart;
becomes_true($node, 'work', $from_counters, 'the rows are counted after a restart');
right('restart with a prepared transaction');
value($node, 'work', q{COMMIT PREPARED 'restart'});
is(value($node, 'work', $differs), '', 'COMMIT PREPARED of a transaction that was prepared before the restart');
becomes_true($node, 'work', $from_counters, 'the rows are counted again');
value($node, 'work', q{SELECT jobq_purge_queue(queue) FROM jobq.queues WHERE queue LIKE 'many%'});
right('purged');

# ---- changes that no trigger saw are found by the tick

sub unseen { return value($node, 'work', "SET session_replication_role = replica; $_[0]"); }

unseen(q{DELETE FROM jobq.jobs WHERE queue = 'q' AND status = 'completed'});
isnt(value($node, 'work', $differs), '', 'a change that no trigger saw is not counted');
is(value($node, 'work', q{SELECT done FROM jobq_tick() WHERE duty = 'reconcile'}), '1', 'the tick corrects the difference');
right('reconciled');
is(value($node, 'work', q{SELECT done FROM jobq_tick() WHERE duty = 'reconcile'}), '0', 'a second tick has nothing to correct');
unseen(q{DELETE FROM jobq.jobs WHERE queue = 'two phases'});
settings($node, 'jobq.reconcile_interval = 1s');
$node->reload;
becomes_true($node, 'work', "SELECT ($differs) IS NULL", 'the worker corrects the difference too');
cmp_ok(value($node, 'work', q{SELECT reconciled FROM jobq.background_workers WHERE database = 'work'}), '>=', 1, 'jobq.background_workers counts the correction');

# ---- a recount while transactions are open; sessions commit before and after the recount

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

# ---- another database that is dropped; an extension that is dropped and created again

database($node, 'other');
value($node, 'other', q{SELECT jobq_enqueue('q') FROM generate_series(1, 3)});
becomes_true($node, 'other', $from_counters, 'another database');
right('another database', 'other');
right('the first database');
value($node, 'other', 'DROP EXTENSION jobq');
value($node, 'other', 'CREATE EXTENSION jobq');
value($node, 'other', q{SELECT jobq_enqueue('q')});
is(value($node, 'other', $differs), '', 'the extension is created again');
becomes_true($node, 'other', $from_counters, 'the rows of the new extension are counted');
right('made again', 'other');
value($node, 'postgres', 'DROP DATABASE other');

# ---- more queues than jobq.max_counted_queues

becomes_true($node, 'work', $from_counters, 'the counters are used');
value($node, 'work', q{SELECT jobq_enqueue('crowd ' || n) FROM generate_series(1, 30) n});
is(value($node, 'work', $differs), '', 'more queues than jobq.max_counted_queues: all numbers are right');
is(value($node, 'work', $sources), 'counters rows', 'some of them are counted row by row');
my $rows = value($node, 'work', q{SELECT queue FROM jobq.queue_stats WHERE source = 'rows' AND queue LIKE 'crowd %' LIMIT 1});
is(value($node, 'work', qq{BEGIN; SELECT jobq_enqueue('$rows') > 0; SELECT pending FROM jobq.queue_stats WHERE queue = '$rows'; ROLLBACK}), "t\n2",
    'in a queue without counters, a transaction sees its own changes once');
value($node, 'work', q{SELECT jobq_tick()});
is(value($node, 'work', $differs), '', 'the numbers are right after a recount');
is(value($node, 'work', $sources), 'counters rows', 'some queues still have no counters');
value($node, 'work', q{SELECT jobq_enqueue('crowd ' || n), jobq_enqueue('more ' || n) FROM generate_series(1, 30) n});
is(value($node, 'work', $differs), '', 'the numbers are right with even more queues');
value($node, 'work', q{SELECT jobq_drop_queue(queue, force => true) FROM jobq.queues WHERE queue LIKE 'crowd%' OR queue LIKE 'more%'});
is(value($node, 'work', $differs), '', 'the numbers are right after the queues were dropped');
# jobq_tick() recounts only if that is cheap or if the last recount was long enough ago.
becomes_true($node, 'work', q{SELECT bool_and(s.source = 'counters') FROM (SELECT count(*) FROM jobq_tick()) t, jobq.queue_stats s},
    'after a recount, all queues have counters');
right('after the queues were dropped');
value($node, 'work', q{SELECT jobq_enqueue('newcomer ' || n) FROM generate_series(1, 5) n});
right('new queues');

# ---- a separate process counts a large table while the worker continues

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
    'the rows of a large table are counted');
right('a large table', 'large');
cmp_ok(count_in_log($node, qr/starting background worker process "jobq recount for large"/), '>=', 1, 'by a process of its own');
value($node, 'large', q{SELECT jobq_enqueue('bulk', run_at => clock_timestamp() + n * interval '50 ms') FROM generate_series(1, 100) n});
becomes_true($node, 'large', q{SELECT pending = 101 FROM jobq.queue_stats WHERE queue = 'bulk'}, 'the worker performs its duties during the recount');
right('a large table, later', 'large');
# A role that may not drop the extension cannot stop a recount. The recount is suspended with SIGSTOP while the role tries, so that
# a signal would take effect afterward.
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
is(count_in_log($node, qr/terminating background worker "jobq recount"/, 0), 0, 'the failed DROP EXTENSION did not terminate it');
my $begin = time;
value($node, 'large', 'DROP EXTENSION jobq');
in_time(time - $begin, 2, 'DROP EXTENSION does not wait for a recount');
$begin = time;
value($node, 'postgres', 'DROP DATABASE large');
in_time(time - $begin, 2, 'nor does DROP DATABASE');

# ---- everything at once

# In the first half of each round the table is counted again and again; in the second half no recount corrects anything. A big queue
# makes the recounts slow, so that other transactions commit during a recount.
settings($node, 'jobq.reconcile_interval = 1h', 'log_min_messages = warning');
$node->reload;
value($node, 'work', q{SELECT count(*) FROM jobq_enqueue_many('resting', array_fill('{}'::jsonb, ARRAY[40000]))});
# One of the queues keeps no finished jobs.
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
    # The counters show the current state and the rows that of a snapshot, so nothing may change during the comparison.
    settings($node, 'jobq.enabled = off');
    $node->reload;
    becomes_true($node, 'postgres', q{SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'jobq worker')}, 'all workers have exited');
    right("load $round, before a recount");
}
is($unexpected, '', 'no process reported an error');
diag(sprintf '%d jobs enqueued, %d recounts in %d s',
    value($node, 'work', q{SELECT last_value FROM jobq.jobs_id_seq}), $recounts, 4 * $seconds);
cmp_ok(value($node, 'work', q{SELECT count(*) FROM jobq.lane_directory WHERE queue LIKE 'load%'}), '>=', 3, 'the load used several lanes');
is(value($node, 'work', q{SELECT done FROM jobq_tick() WHERE duty = 'reconcile'}), '0', 'a recount finds nothing to correct');
is(value($node, 'work', q{SELECT count(*) FROM jobq.attempts WHERE job_id NOT IN (SELECT id FROM jobq.jobs)}), '0', 'no attempt is left of a deleted job');
right('after the load');

done_testing();
