# Tests claims during which a limit or a pause is committed. The backend of the claim is stopped at different points, the claim or the
# limit is a prepared transaction, or an executor claims for a handler. If the claim gets its lock after the commit, it obeys the
# change. Otherwise its jobs count toward the limit as soon as its transaction has ended.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqSleep;
use JobqTest;
use Test::More;

# Until the handlers, the extension is not preloaded, so that no worker ticks; only this test does.
my $node = server('changed_settings', conf => ['max_prepared_transactions = 10']);
database($node, 'work');
my $tick = q{SELECT count(*) FROM jobq_tick()};
my $claim = q{SELECT count(*) FROM jobq_claim('q', 'w1', 5, heartbeat_timeout => '1 hour')};
my $other = q{SELECT count(*) FROM jobq_claim('q', 'w2', 5, heartbeat_timeout => '1 hour')};

sub begin_anew
{
    value($node, 'work', q{SELECT jobq_drop_queue('q', force => true); DELETE FROM jobq.unslotted;
        SELECT jobq_enqueue_many('q', array_fill('1'::jsonb, ARRAY[20]))});
    return;
}

sub tick_often { value($node, 'work', $tick) for 1 .. 5; return; }

# Starts the claim, waits until it waits for a lock, and stops its backend.
sub stopped_claim
{
    my $worker = sleeper($node);
    my $pid = $worker->{session}->query_safe('SELECT pg_backend_pid()');
    start($worker, "DO \$\$ BEGIN PERFORM jobq_claim('q', 'w1', 5, heartbeat_timeout => '1 hour'); END \$\$");
    becomes_true($node, 'work', "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $pid", 'the claim waits for a lock');
    kill 'STOP', $pid or die;
    return ($worker, $pid);
}

sub goes_on
{
    my ($worker, $pid) = @_;
    kill 'CONT', $pid or die;
    cmp_ok(seconds_to_end($worker, 180), '<', 180, 'the claim ends');
    end_sessions($worker->{session});
    return;
}

# ---- the backend is stopped before it has the lock

for my $change (q{SELECT jobq_pause_queue('q')}, q{SELECT jobq_set_limit('q', max_running => 2)})
{
    begin_anew();
    my $dba = session($node, 'work');
    $dba->query_safe('BEGIN');
    $dba->query_safe('LOCK TABLE jobq.jobs IN SHARE MODE');
    my @stopped = stopped_claim();
    value($node, 'work', $change);
    $dba->query_safe('COMMIT');
    tick_often();
    goes_on(@stopped);
    end_sessions($dba);
    cmp_ok(value($node, 'work', q{SELECT count(*) FROM jobq.jobs WHERE status = 'processing'}), '<=', $change =~ /pause/ ? 0 : 2, "the claim obeys $change");
}

# ---- the backend is stopped after it has read the settings and before it has written a job

begin_anew();
value($node, 'work', q{CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(77); RETURN new; END $$;
    CREATE TRIGGER stall BEFORE UPDATE ON jobq.jobs FOR EACH ROW WHEN (new.worker_id = 'w1' AND old.status = 'pending') EXECUTE FUNCTION stall()});
my $dba = session($node, 'work');
$dba->query_safe('BEGIN');
$dba->query_safe('SELECT pg_advisory_xact_lock(77)');
my @stopped = stopped_claim();
value($node, 'work', q{SELECT jobq_set_limit('q', max_running => 2)});
$dba->query_safe('COMMIT');
end_sessions($dba);
tick_often();
is(value($node, 'work', 'SELECT count(*) FROM jobq.unslotted WHERE before_xid IS NOT NULL'), '1', 'the limit waits for the stopped claim');
goes_on(@stopped);
tick_often();
is(value($node, 'work', 'SELECT count(*) FROM jobq.unslotted'), '0', 'the limit is settled when the claim has ended');
is(value($node, 'work', $other), '0', 'the jobs of the claim count toward the limit');
is(value($node, 'work', q{SELECT running FROM jobq.limits WHERE queue = 'q'}), '5', 'all five jobs of the claim are counted');
value($node, 'work', 'DROP TRIGGER stall ON jobq.jobs; DROP FUNCTION stall()');

# ---- a prepared claim

begin_anew();
value($node, 'work', "BEGIN; $claim; PREPARE TRANSACTION 'claim'");
value($node, 'work', q{SELECT jobq_set_limit('q', max_running => 2)});
tick_often();
is(value($node, 'work', 'SELECT count(*) FROM jobq.unslotted'), '1', 'the limit waits for the prepared claim');
value($node, 'work', q{COMMIT PREPARED 'claim'});
tick_often();
is(value($node, 'work', 'SELECT count(*) FROM jobq.unslotted'), '0', 'the limit is settled when the claim has ended');
is(value($node, 'work', $other), '0', 'the jobs of the claim count toward the limit');

# ---- a prepared limit

begin_anew();
value($node, 'work', q{BEGIN; SELECT jobq_set_limit('q', max_running => 2); PREPARE TRANSACTION 'limit'});
is(value($node, 'work', $claim), '5', 'a prepared limit does not apply before its commit');
value($node, 'work', q{COMMIT PREPARED 'limit'});
tick_often();
is(value($node, 'work', 'SELECT count(*) FROM jobq.unslotted'), '0', 'the limit is settled');
is(value($node, 'work', $other), '0', 'jobs that were claimed before the commit of the limit count');

$node->stop;

# ---- an executor waits for the lock

$node = preloaded('handlers', conf => ['jobq.max_executors = 1']);
database($node, 'work');
value($node, 'work', q{CREATE ROLE runner LOGIN; CREATE TABLE ran (queue text); GRANT ALL ON ran TO runner;
    CREATE FUNCTION runs(job jsonb) RETURNS void LANGUAGE plpgsql AS $$ BEGIN INSERT INTO ran VALUES (job->>'queue'); END $$;
    SELECT jobq_set_handler(q, '', 'runs(jsonb)', 'runner') FROM unnest('{q,other}'::text[]) q});

# The executor runs a job of another queue, which shows that it has ended the claim for which it waited.
sub runs_another
{
    my ($name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $id = value($node, 'work', q{SELECT jobq_enqueue('other')});
    return becomes_true($node, 'work', "SELECT status = 'completed' FROM jobq.jobs WHERE id = $id", $name);
}

for my $change (q{SELECT jobq_pause_queue('q')}, q{SELECT jobq_set_limit('q', max_running => 0)})
{
    $dba = session($node, 'work');
    # Keeps an executor alive that looks for jobs in all of its queues.
    runs_another("$change: an executor runs");
    value($node, 'work', q{TRUNCATE ran; SELECT jobq_pause_queue('q'); SELECT jobq_enqueue('q') FROM generate_series(1, 3)});
    $dba->query_safe('BEGIN');
    $dba->query_safe('LOCK TABLE jobq.jobs IN SHARE MODE');
    value($node, 'work', q{SELECT jobq_resume_queue('q')});
    becomes_true($node, 'work', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'jobq executor' AND wait_event_type = 'Lock'}, "$change: the executor waits for the lock");
    value($node, 'work', $change);
    $dba->query_safe('COMMIT');
    runs_another("$change: the executor continues");
    is(value($node, 'work', q{SELECT count(*) FROM ran WHERE queue = 'q'}), '0', "the claim of an executor obeys $change");
    value($node, 'work', q{SELECT jobq_resume_queue('q'); SELECT jobq_set_limit('q')});
    becomes_true($node, 'work', q{SELECT count(*) = 3 FROM ran WHERE queue = 'q'}, "$change: the jobs run later");
    end_sessions($dba);
}

$node->stop;
done_testing();
