# Tests PREPARE TRANSACTION with enqueues, claims, and completions that are ended by another session or after a restart.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use JobqTime;
use Test::More;
use Time::HiRes qw(time);

my $node = preloaded('prepared', init => { allows_streaming => 1 }, conf => ['max_prepared_transactions = 10']);
database($node, 'work');
my $timeout = 3;
value($node, 'work', qq{SELECT jobq_create_queue('q', heartbeat_timeout => '$timeout s')});

sub prepare
{
    my ($name, $sql) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return is(sqlstate($node, 'work', "BEGIN; $sql; PREPARE TRANSACTION '$name'"), '00000', "$name: the transaction is prepared");
}

my $idle = q{SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'jobq worker')};

# ---- enqueue

my $other = session($node, 'work');
is($other->query(q{SELECT count(*) FROM jobq_claim('q')}), '0', 'a session knows the queue');
prepare('enqueue', q{SELECT jobq_enqueue('q', kind => 'new lane'), jobq_enqueue('q')});
is($other->query(q{SELECT count(*) FROM jobq_claim('q', batch => 5)}), '0', 'the jobs of a prepared transaction cannot be claimed');
is(value($node, 'work', 'SELECT count(*) FROM jobq.jobs'), '0', 'and are not visible in the table');
value($node, 'work', q{COMMIT PREPARED 'enqueue'});
is($other->query(q{SELECT count(*) FROM jobq_claim('q', 'w', batch => 5)}), '2', 'after COMMIT PREPARED in another session, they can be claimed');
is($other->query(q{SELECT count(jobq_complete(id, lease)) FROM jobq.jobs WHERE status = 'processing'}), '2', 'and completed');

# ---- a delayed job whose transaction is committed while the database is idle

prepare('delayed', q{SELECT jobq_enqueue('later', run_at => clock_timestamp() + interval '100 ms')});
value($node, 'work', q{SELECT jobq_purge_queue('q')});
becomes_true($node, 'postgres', $idle, 'no worker is running');
my $committed_at = time;
value($node, 'work', q{COMMIT PREPARED 'delayed'});
my $job = claim_when_ready($node, 'work', 'later');
ok($job, 'the delayed job is promoted after COMMIT PREPARED');
if ($job)
{
    report_seconds('claimable after COMMIT PREPARED', $job->{at} - $committed_at);
    in_time($job->{at} - $committed_at, 2, 'within 2 s');
    value($node, 'work', "SELECT jobq_complete($job->{id}, $job->{lease})");
}

# ---- a claim that is committed by another session, and whose worker is gone

value($node, 'work', q{SELECT jobq_enqueue('q')});
prepare('claim', q{SELECT id FROM jobq_claim('q', 'two phases')});
is(value($node, 'work', q{SELECT count(*) FROM jobq_claim('q')}), '0', 'other sessions neither get the job nor wait for it');
value($node, 'work', q{COMMIT PREPARED 'claim'});
$committed_at = time;
# The job may already have been rescued on a slow machine.
is( value($node, 'work', q{SELECT worker_id FROM jobq.jobs WHERE queue = 'q' AND status = 'processing'
        UNION SELECT a.worker_id FROM jobq.attempts a JOIN jobq.jobs j ON j.id = a.job_id WHERE j.queue = 'q'}),
    'two phases', 'the claim is committed');
$job = claim_when_ready($node, 'work', 'q');
ok($job, 'the job is rescued');
if ($job)
{
    report_seconds("rescued after COMMIT PREPARED, heartbeat timeout $timeout s", $job->{at} - $committed_at);
    in_time($job->{at} - $committed_at, $timeout + 2, 'within the timeout + 2 s');
    is($job->{attempt}, 2, 'the lost attempt counts');

    # ---- a prepared completion
    prepare('complete', "SELECT jobq_complete($job->{id}, $job->{lease}, must_hold => true)");
    becomes_true($node, 'work', qq{SELECT last_heartbeat + interval '$timeout s' + interval '500 ms' < clock_timestamp() FROM jobq.jobs WHERE id = $job->{id}},
        'the lease expires in the meantime');
    value($node, 'work', q{COMMIT PREPARED 'complete'});
    is(value($node, 'work', "SELECT status, attempts FROM jobq.jobs WHERE id = $job->{id}"),
        'completed|2', 'the job is completed by COMMIT PREPARED; the rescue skips its locked row');
}

# ---- a claim that is rolled back by another session

value($node, 'work', q{SELECT jobq_enqueue('q', kind => 'undone')});
prepare('undone', q{SELECT id FROM jobq_claim('q', 'two phases')});
value($node, 'work', q{ROLLBACK PREPARED 'undone'});
$job = claim_when_ready($node, 'work', 'q');
is($job && $job->{attempt}, 1, 'after ROLLBACK PREPARED the job is claimable at once');
value($node, 'work', "SELECT jobq_complete($job->{id}, $job->{lease})") if $job;

# ---- prepared settings

prepare('settings', q{SELECT jobq_alter_queue('q', max_attempts => 7)});
is($other->query(q{SELECT max_attempts FROM jobq.jobs WHERE id = jobq_enqueue('q')}) // '', '', 'a session enqueues');
is($other->query(q{SELECT max_attempts FROM jobq.jobs ORDER BY id DESC LIMIT 1}), '20', 'the job has the old settings');
value($node, 'work', q{COMMIT PREPARED 'settings'});
$other->query(q{SELECT jobq_enqueue('q')});
is($other->query(q{SELECT max_attempts FROM jobq.jobs ORDER BY id DESC LIMIT 1}), '7', 'after COMMIT PREPARED, the job has the new settings');
value($node, 'work', q{SELECT jobq_purge_queue('q')});

# ---- ended by a session that is terminated before its own transaction commits, so that the worker must publish the end

# Ends a prepared transaction in a session that fails afterward.
sub end_and_fail
{
    my ($server, $database, $statement) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $ending = session($server, $database);
    my $pid = $ending->query('SELECT pg_backend_pid()');
    # A session that writes a message to the log notices that it has been terminated. The server writes one before each commit.
    $ending->query(q{SET synchronous_commit = on; SET log_min_messages = debug5});
    $ending->query_until(qr/sent/, "\\echo sent\n$statement;\n");
    becomes_true($server, 'postgres', "SELECT wait_event = 'SyncRep' FROM pg_stat_activity WHERE pid = $pid", "$statement waits for a standby");
    value($server, 'postgres', "SELECT pg_terminate_backend($pid)");
    becomes_true($server, 'postgres', "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $pid)", 'its session is terminated');
    $ending->{run}->finish;
    return is(value($server, 'postgres', "SELECT count(*) FROM pg_prepared_xacts WHERE database = '$database'"), '0', 'the statement has taken effect');
}

my @nobody = (q{synchronous_commit = local}, q{synchronous_standby_names = 'nobody'});
settings($node, @nobody);
$node->reload;
becomes_true($node, 'work', q{SELECT current_setting('synchronous_standby_names') = 'nobody'}, 'commits wait for a standby if their session requires it');
database($node, 'ended');
value($node, 'ended', q{SELECT jobq_create_queue('left')});
value($node, 'ended', q{BEGIN; SELECT jobq_enqueue('left'); PREPARE TRANSACTION 'left'});
end_and_fail($node, 'ended', q{COMMIT PREPARED 'left'});
# Sessions that only read do not publish the end, so only the worker can do it.
becomes_true($node, 'ended', q{SELECT pending = 1 AND source = 'counters' FROM jobq.queue_stats WHERE queue = 'left'}, 'the worker adds the changes of the transaction to the counters');
value($node, 'ended', q{SELECT jobq_purge_queue('left')});
settings($node, q{synchronous_standby_names = ''});
$node->reload;

# ---- handlers: idle executors are notified; otherwise they would find the job only by the check that they make once a second

value($node, 'work', <<'SQL');
CREATE ROLE runner LOGIN;
CREATE FUNCTION work(job jsonb) RETURNS void LANGUAGE sql AS $$ $$;
SELECT jobq_set_handler('handled', '', 'work(jsonb)', 'runner'), jobq_set_handler('limited', 'handled', 'work(jsonb)', 'runner'),
       jobq_set_limit('limited', max_running => 1);
SQL
my $times = 10;
my $runs  = q{SELECT count(*) FROM jobq.jobs WHERE status = 'completed' AND queue = '%s'};

# Measures ten times how long a job takes to run. $way prepares a job that an executor can claim as soon as a certain statement is
# executed; it returns this statement and, optionally, the session for it. The times are measured with the server's clock.
sub called
{
    my ($queue, $name, $way) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    value($node, 'work', "SELECT jobq_enqueue('$queue', kind => CASE '$queue' WHEN 'limited' THEN 'handled' ELSE '' END)");
    becomes_true($node, 'work', 'SELECT (' . sprintf($runs, $queue) . ') > 0', "$name: an executor is running");
    my ($took, $clock) = (0, 'SELECT extract(epoch FROM clock_timestamp())');
    for my $n (1 .. $times)
    {
        my ($last, $session) = $way->("$queue $n");
        my $sql = "$clock; $last; DO \$\$ DECLARE job bigint; BEGIN LOOP SELECT max(id) INTO job FROM jobq.jobs WHERE queue = '$queue' AND kind <> 'other';"
          . " EXIT WHEN (SELECT status = 'completed' FROM jobq.jobs WHERE id = job); COMMIT; PERFORM pg_sleep(0.002); END LOOP; END \$\$; $clock";
        my ($began, $ended) = split /\n/, $session ? $session->query($sql) : value($node, 'work', $sql);
        $took += $ended - $began;
    }
    report_seconds("$name, $times times", $took);
    return in_time($took, $times / 2, "$name: executors are notified");
}

called('handled', 'COMMIT PREPARED', sub {
    prepare($_[0], q{SELECT jobq_enqueue('handled')});
    return "COMMIT PREPARED '$_[0]'";
});
my $take = q{SELECT jobq_enqueue('limited', kind => 'other'); SELECT id FROM jobq_claim('limited', 'two phases', kinds => '{other}')};
my $waits = q{SELECT jobq_enqueue('limited', kind => 'handled')};
called('limited', 'ROLLBACK PREPARED of a claim', sub {
    prepare($_[0], $take);
    value($node, 'work', $waits);
    return "ROLLBACK PREPARED '$_[0]'";
});
my $claimer = session($node, 'work');
called('limited', 'ROLLBACK of a claim', sub {
    $claimer->query("BEGIN; $take");
    value($node, 'work', $waits);
    return ('ROLLBACK', $claimer);
});
$claimer->quit;

# ---- a transaction whose end no process has noticed, when its entry is needed for another transaction

my $small = preloaded('small', init => { allows_streaming => 1 }, conf => [ 'max_prepared_transactions = 1', 'jobq.enabled = off', @nobody ]);
database($small, $_) for 'first', 'second', 'third';
for my $name ('first', 'second')
{
    value($small, $name, q{SELECT jobq_create_queue('q'), count(*) FROM jobq_tick()});
    is(value($small, $name, q{SELECT source FROM jobq.queue_stats}), 'counters', "$name: the queue has counters");
    value($small, $name, "BEGIN; SELECT jobq_enqueue('q'); PREPARE TRANSACTION '$name'");
    end_and_fail($small, $name, "COMMIT PREPARED '$name'");
}
value($small, 'third', q{BEGIN; SELECT jobq_enqueue('q'); PREPARE TRANSACTION 'third'});
is(value($small, $_, q{SELECT pending FROM jobq.queue_stats}), '1', "$_: counters that lack the changes are not used") for 'first', 'second';
value($small, 'third', q{COMMIT PREPARED 'third'});
is(value($small, 'third', q{SELECT pending FROM jobq.queue_stats}), '1', 'the third transaction has an entry');
$small->stop;

# ---- prepared transactions across a restart

value($node, 'work', q{SELECT jobq_enqueue('q', kind => 'held')});
prepare('claim again', q{SELECT id FROM jobq_claim('q', 'two phases')});
prepare('enqueue again', q{SELECT jobq_enqueue('q', kind => 'over the restart', run_at => clock_timestamp() + interval '50 ms')});
$other->quit;
$node->restart;
becomes_true($node, 'work', q{SELECT EXISTS (SELECT FROM jobq.background_workers WHERE database = 'work' AND rounds > 0)}, 'a worker has run');
value($node, 'work', qq{COMMIT PREPARED '$_'}) for 'claim again', 'enqueue again';
my @kinds = sort map { my $row = claim_when_ready($node, 'work', 'q', q{, heartbeat_timeout => '1 h'}); $row ? value($node, 'work', "SELECT kind FROM jobq_get($row->{id})") : 'none' } 1 .. 2;
is("@kinds", 'held over the restart', 'the claimed job is rescued, and the delayed job is promoted');

is(value($node, 'work', q{SELECT last_error FROM jobq.background_workers WHERE database = 'work'}), '', 'no duty failed');

done_testing();
