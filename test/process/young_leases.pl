# Tests young leases. The leases of the last second are kept in shared memory (src/leases/young_leases.h), so that a job that is
# completed soon never enters the rescue's index. Whatever happens to such a job, its worker, or its server, the job is rescued in
# time and not early.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use JobqTime;
use Test::More;
use Time::HiRes qw(time usleep);

my $timeout = 5;
my $node = preloaded('young', conf => [ 'max_prepared_transactions = 10', 'autovacuum = off' ]);

# Waits for the first round of the worker, which scans jobs from before the start of the server. From then on, claims leave young
# jobs to the worker.
sub served
{
    my ($name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    value($node, $name, q{SELECT jobq_enqueue('kept', run_at => clock_timestamp() + interval '1 day')
                          WHERE NOT EXISTS (SELECT FROM jobq.jobs WHERE queue = 'kept')});
    return becomes_true($node, $name, "SELECT rounds > 0 FROM jobq.background_workers WHERE database = '$name'", "a worker runs in $name");
}
database($node, 'work');
value($node, 'work', qq{SELECT jobq_create_queue('q', heartbeat_timeout => '$timeout s', max_lost => 1000)});
served('work');
sub work { return value($node, 'work', $_[0]); }
sub enqueue { return work("SELECT jobq_enqueue('q') FROM generate_series(1, $_[0])"); }
my $running = q{FROM jobq.jobs WHERE queue = 'q' AND status = 'processing'};

sub finish_all
{
    return work(qq{SELECT count(jobq_complete(id, lease)) $running; SELECT jobq_purge_queue('q');
                   DELETE FROM jobq.jobs WHERE queue = 'q'});
}

# Tests that the given number of running jobs of the queue are rescued in time.
sub rescued_in_time
{
    my ($jobs, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    becomes_true($node, 'work', qq{SELECT NOT EXISTS (SELECT $running)}, "$name: no job is running");
    my ($lost, $first, $last) = split /\|/, work(q{
        SELECT count(*), coalesce(min(extract(epoch FROM a.finished_at - a.started_at)), 0),
               coalesce(max(extract(epoch FROM a.finished_at - a.started_at)), 0)
        FROM jobq.attempts a JOIN jobq.jobs j ON j.id = a.job_id WHERE j.queue = 'q' AND a.outcome = 'lost'});
    is($lost, $jobs, "$name: all jobs are rescued");
    cmp_ok($first, '>=', $timeout, "$name: after the timeout");
    in_time($last, $timeout + 2, "$name: within the timeout + 2 s");
    finish_all();
    return;
}

# ---- a young job is not in the rescue's index, and a job that keeps running is

enqueue(20);
is(work(qq{SELECT count(*) FROM jobq_claim('q', 'w', batch => 5, heartbeat_timeout => '1 h'); SELECT count(*), count(_rescue_indexed) $running}),
    "5\n5|0", "a claim does not enter its jobs into the rescue's index");
becomes_true($node, 'work', qq{SELECT count(*) = count(_rescue_indexed) AND count(*) = 5 $running}, 'jobs that keep running are entered');
is(work(q{SELECT bool_and(jobq_complete(id, lease)) FROM jobq.jobs WHERE status = 'processing'}), 't', 'the jobs are completed');
is(work(q{SELECT count(_rescue_indexed) FROM jobq.jobs}), '0', 'completed jobs are not in the index');
finish_all();

# ---- the completion of a short job is a HOT update

work(q{SELECT jobq_create_queue('short'); SELECT count(*) FROM jobq_enqueue_many('short', array_fill('{}'::jsonb, ARRAY[1000]))});
work(q{VACUUM jobq.jobs});
my $stats = q{SELECT pg_stat_force_next_flush(); SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'jobs'};
my (undef, $before) = split /\n/, work($stats);
work(q{DO $$ BEGIN FOR n IN 1..500 LOOP PERFORM jobq_complete(c.id, c.lease) FROM jobq_claim('short') c; COMMIT; END LOOP; PERFORM pg_stat_force_next_flush(); END $$});
my (undef, $after) = split /\n/, work($stats);
my ($updates, $hot) = map { (split /\|/, $after)[$_] - (split /\|/, $before)[$_] } 0, 1;
diag("500 claims and completions: $updates updates, $hot of them HOT");
cmp_ok($updates, '>=', 1000, 'a claim and a completion are one update each');
cmp_ok($hot, '>=', 400, 'most completions of young jobs are HOT');
work(q{DELETE FROM jobq.jobs WHERE queue = 'short'});

# ---- a worker that is gone

enqueue(3);
work(q{SELECT count(*) FROM jobq_claim('q', 'gone', batch => 3)});
rescued_in_time(3, 'a silent worker');

enqueue(2);
my $doomed = session($node, 'work');
my $pid = $doomed->query('SELECT pg_backend_pid()');
$doomed->query(q{SELECT id FROM jobq_claim('q', 'gone'); BEGIN; SELECT id FROM jobq_claim('q', 'gone')});
work("SELECT pg_terminate_backend($pid, 10000)");
is(work(q{SELECT count(*) FROM jobq.jobs WHERE queue = 'q' AND attempts > 0}), '1', 'the open claim of a terminated session is rolled back, and its committed claim stands');
rescued_in_time(1, 'a terminated worker');
eval { $doomed->quit };

# ---- claims and completions that are rolled back

my $session = session($node, 'work');
enqueue(3);
$session->query(q{BEGIN; SELECT id FROM jobq_claim('q', batch => 3); ROLLBACK});
is(work(qq{SELECT count(*) FROM jobq.jobs WHERE queue = 'q' AND status = 'pending' AND attempts = 0}), '3', 'a claim is rolled back');
work(q{SELECT count(*) FROM jobq_claim('q', 'again', batch => 3)});
rescued_in_time(3, 'a claim after the rollback');

enqueue(3);
work(q{SELECT count(*) FROM jobq_claim('q', 'w', batch => 3)});
$session->query(q{BEGIN; SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE status = 'processing'; ROLLBACK});
rescued_in_time(3, 'a completion that is rolled back');

enqueue(3);
$session->query(q{SELECT count(*) FROM jobq_claim('q', 'w', batch => 3); BEGIN; SAVEPOINT s; SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE status = 'processing'; ROLLBACK TO s;
                  SELECT jobq_complete(min(id), (array_agg(lease ORDER BY id))[1]) FROM jobq.jobs WHERE status = 'processing'; COMMIT});
rescued_in_time(2, 'completions that are rolled back to a savepoint, one of which is repeated');

enqueue(4);
my $claimers = $session->query(qq{BEGIN; SELECT id FROM jobq_claim('q', 'outer'); SAVEPOINT s; SELECT id FROM jobq_claim('q', 'inner', batch => 2); ROLLBACK TO s;
                  SAVEPOINT t; SELECT id FROM jobq_claim('q', 'kept'); RELEASE t; COMMIT; SELECT string_agg(worker_id, ' ' ORDER BY worker_id) $running});
like($claimers, qr/^kept outer\z/m, 'a claim in a savepoint is rolled back, and other claims are kept');
rescued_in_time(2, 'the claims that were kept');

enqueue(2);
$session->query(q{BEGIN; SELECT id FROM jobq_claim('q', 'w', batch => 2); SAVEPOINT s; SELECT jobq_complete(id) FROM jobq.jobs WHERE status = 'processing'; ROLLBACK TO s; COMMIT});
rescued_in_time(2, 'a completion in a savepoint that is rolled back');

# An open claim does not affect the worker, however long it takes.
enqueue(1);
$session->query(q{BEGIN; SELECT id FROM jobq_claim('q', 'slow', heartbeat_timeout => '100 ms')});
my $rounds = work(q{SELECT rounds FROM jobq.background_workers WHERE database = 'work'});
becomes_true($node, 'work', "SELECT rounds > $rounds + 3 FROM jobq.background_workers WHERE database = 'work'", 'the worker ignores an open claim');
is($session->query(qq{SELECT jobq_complete(id) $running; COMMIT}), 't', 'the claim completes its job');
finish_all();

# ---- jobs that are ended by other calls while young

for my $way (
    [ 'jobq_fail',   q{SELECT jobq_fail(id, lease, retry_in => '0 s') FROM jobq.jobs WHERE status = 'processing'}, 'pending' ],
    [ 'jobq_release', q{SELECT jobq_release(id, lease) FROM jobq.jobs WHERE status = 'processing'}, 'pending' ],
    [ 'jobq_snooze', q{SELECT jobq_snooze(id, '1 day', lease) FROM jobq.jobs WHERE status = 'processing'}, 'scheduled' ],
    [ 'DELETE',      q{DELETE FROM jobq.jobs WHERE queue = 'q'}, '' ],
    [ 'UPDATE',      q{UPDATE jobq.jobs SET status = 'failed' WHERE queue = 'q'}, 'failed' ])
{
    my ($name, $sql, $status) = @$way;
    enqueue(1);
    work(q{SELECT id FROM jobq_claim('q', 'w', heartbeat_timeout => '1 h')});
    work($sql);
    is(work(q{SELECT status, lease IS NULL, _rescue_indexed IS NULL FROM jobq.jobs WHERE queue = 'q'}), $status eq '' ? '' : "$status|t|t", "$name of a young job");
    my $next = '';
    if ($status eq 'pending')
    {
        my ($attempt, $new, $old) = split /\n/, work(q{SELECT attempt FROM jobq_claim('q', 'next'); SELECT count(*) FROM jobq_heartbeat_worker('next');
                                                       SELECT count(*) FROM jobq_heartbeat_worker('w')});
        is($attempt, $name eq 'jobq_fail' ? '2' : '1', "$name: the job is claimed again while it is young");
        is($new, '1', "$name: its new worker holds it once");
        is($old, '0', "$name: its old worker does not hold it");
        rescued_in_time(1, "$name: the second lease");
    }
    finish_all();
}
enqueue(1);
my $id = work(q{SELECT id FROM jobq_claim('q', 'w', heartbeat_timeout => '1 h')});
is(work("SELECT jobq_cancel($id); SELECT _rescue_indexed FROM jobq.jobs WHERE id = $id"), "processing\nt", "jobq_cancel of a young job enters it into the rescue's index");
is(work("SELECT jobq_heartbeat(id, lease) FROM jobq.jobs WHERE id = $id"), 'cancel', 'its worker is told to cancel');
finish_all();

# ---- heartbeats of a worker for all its jobs

enqueue(20);
is(work(q{SELECT count(*) FROM jobq_claim('q', 'beating', batch => 6, heartbeat_timeout => '20 s'); SELECT count(*), count(DISTINCT job_id), min(state), max(state) FROM jobq_heartbeat_worker('beating')}),
    "6\n6|6|held|held", 'jobq_heartbeat_worker finds each young job once');
becomes_true($node, 'work', qq{SELECT count(_rescue_indexed) = 6 $running}, 'the jobs are no longer young');
is(work(q{SELECT count(*) FROM jobq_claim('q', 'beating', batch => 4, heartbeat_timeout => '20 s'); SELECT count(*), count(DISTINCT job_id) FROM jobq_heartbeat_worker('beating')}),
    "4\n10|10", 'it finds young and older jobs together');
is($session->query(q{BEGIN; SELECT count(*) FROM jobq_claim('q', 'beating', batch => 2, heartbeat_timeout => '20 s'); SAVEPOINT s; SELECT count(*) FROM jobq_claim('q', 'beating', batch => 2, heartbeat_timeout => '20 s');
                     SELECT count(*), count(DISTINCT job_id) FROM jobq_heartbeat_worker('beating'); ROLLBACK TO s;
                     SELECT count(*), count(DISTINCT job_id) FROM jobq_heartbeat_worker('beating'); COMMIT}),
    "2\n2\n14|14\n12|12", 'it finds them in the transaction that claims, and after a rollback to a savepoint');
is(work(q{SELECT count(*), count(DISTINCT job_id) FROM jobq_heartbeat_worker('beating')}), '12|12', 'and in other transactions');
is(work(q{SELECT count(*) FROM jobq_heartbeat_worker('nobody')}), '0', 'it does not find jobs of other workers');
my $beats_end = time + 21;
while (time < $beats_end) { work(q{SELECT count(*) FROM jobq_heartbeat_worker('beating')}); usleep(200_000); }
is(work(qq{SELECT count(*) $running}), '12', 'with heartbeats, all jobs are kept longer than the timeout');
finish_all();

# ---- prepared transactions with a restart

sub prepare
{
    my ($name, $sql) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return is(sqlstate($node, 'work', "BEGIN; $sql; PREPARE TRANSACTION '$name'"), '00000', "$name: the transaction is prepared");
}
enqueue(4);
prepare('claim', q{SELECT id FROM jobq_claim('q', 'prepared')});
prepare('claim undone', q{SELECT id FROM jobq_claim('q', 'undone')});
prepare('claim in a savepoint', q{SAVEPOINT s; SELECT id FROM jobq_claim('q', 'saved'); RELEASE s});
is(sqlstate($node, 'work', qq{SELECT id FROM jobq_claim('q', 'young'); BEGIN; SELECT jobq_complete(id, lease) $running AND worker_id = 'young';
            PREPARE TRANSACTION 'complete'}), '00000', 'complete: the transaction is prepared');
end_sessions($session);
$node->restart;
served('work');
work(qq{COMMIT PREPARED '$_'}) for 'claim', 'claim in a savepoint';
work(q{ROLLBACK PREPARED 'claim undone'});
is(work(q{SELECT count(*) FROM jobq.jobs WHERE status = 'pending' AND attempts = 0 AND worker_id IS NULL}), '1', 'a prepared claim is rolled back');
becomes_true($node, 'work', q{SELECT count(*) = 2 FROM jobq.attempts WHERE outcome = 'lost' AND worker_id IN ('prepared', 'saved')}, 'prepared claims are rescued after a restart');
is(work(qq{SELECT worker_id $running}), 'young', 'a job whose completion is prepared is not rescued');
work(q{COMMIT PREPARED 'complete'});
is(work(q{SELECT status FROM jobq.jobs WHERE worker_id = 'young'}), 'completed', 'the job is completed by COMMIT PREPARED');
work(q{SELECT id FROM jobq_claim('q', 'young')});
prepare('complete again', qq{SELECT jobq_complete(id, lease) $running AND worker_id = 'young'});
$node->restart;
served('work');
work(q{ROLLBACK PREPARED 'complete again'});
becomes_true($node, 'work', q{SELECT count(*) = 1 FROM jobq.attempts WHERE outcome = 'lost' AND worker_id = 'young'}, 'a job whose prepared completion is rolled back is rescued');
finish_all();

# Deferred triggers fire before the jobs of a prepared transaction enter the rescue's index. Triggers of that change must fire, too,
# and may claim other jobs.
work(q{CREATE TABLE told (job bigint, was boolean, became boolean);
       CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$
       DECLARE
           left_open refcursor;
       BEGIN
           INSERT INTO public.told VALUES (NEW.id, OLD._rescue_indexed, NEW._rescue_indexed);
           OPEN left_open FOR SELECT 1;
           IF NEW._rescue_indexed THEN PERFORM public.jobq_claim('q', 'trigger', heartbeat_timeout => '1 h'); END IF;
           RETURN NULL;
       END $$;
       CREATE CONSTRAINT TRIGGER told AFTER UPDATE ON jobq.jobs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tell()});
enqueue(3);
prepare('told', q{SELECT id FROM jobq_claim('q', 'told', heartbeat_timeout => '1 h')});
work(q{COMMIT PREPARED 'told'});
is(work(q{SELECT count(*), count(DISTINCT job), count(became) FROM told}), '6|3|3', 'a deferred trigger fires for each change of each job');
is(work(qq{SELECT count(_rescue_indexed) $running}), '3', 'all jobs are in the index, including those that the trigger has claimed');
work(q{DROP TRIGGER told ON jobq.jobs; DROP TABLE told});
finish_all();

# ---- REPEATABLE READ snapshots, which cannot update a newer version of a row

enqueue(1);
is(work(qq{SET default_transaction_isolation = 'repeatable read'; SELECT count(*) FROM jobq_claim('q', 'w', heartbeat_timeout => '1 h'); SELECT count(_rescue_indexed) $running}),
    "1\n1", 'if REPEATABLE READ is the default, the claim enters the job into the index');
finish_all();
enqueue(1);
my $older = session($node, 'work');
my ($reported, $under) = split /\|/, work(q{SELECT id, lease FROM jobq_claim('q', 'w', heartbeat_timeout => '1 h')});
$older->query(q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1});
is(work("SELECT jobq_heartbeat($reported, $under)"), 'held', 'a heartbeat is sent in another session');
$older->query("SELECT jobq_complete($reported, $under)");
like($older->{stderr}, qr/could not serialize access.*\nHINT:  [^\n]*may have been changed after the snapshot/s, 'an older snapshot cannot complete the job, and the error says why');
$older->{stderr} = '';
$older->query('ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ');
is($older->query("SELECT jobq_complete($reported, $under)"), 't', 'a new snapshot can complete it');
$older->query('COMMIT');
end_sessions($older);
finish_all();

# ---- a second database

database($node, 'second');
value($node, 'second', qq{SELECT jobq_create_queue('q', heartbeat_timeout => '$timeout s'), jobq_enqueue('q')});
served('second');
enqueue(1);
like(value($node, $_, q{SELECT id FROM jobq_claim('q', 'same name'); SELECT count(*) FROM jobq_heartbeat_worker('same name')}), qr/^\d+\n1\z/, "$_: a worker with the same name holds only its own job") for 'second', 'work';
rescued_in_time(1, 'the first of two databases');
becomes_true($node, 'second', q{SELECT count(*) = 1 FROM jobq.attempts WHERE outcome = 'lost'}, 'the job in the second database is rescued');

# ---- workers are switched off and on

enqueue(2);
work(q{SELECT id FROM jobq_claim('q', 'before', heartbeat_timeout => '30 min')});
settings($node, 'jobq.enabled = off');
$node->reload;
becomes_true($node, 'work', q{SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'jobq worker')}, 'the workers are switched off');
is(work(qq{SELECT count(*) FROM jobq_claim('q', 'off'); SELECT _rescue_indexed $running AND worker_id = 'off'}), "1\nt", 'a claim enters its job into the index itself');
is(work(q{SELECT count(*) FROM jobq_heartbeat_worker('before'); SELECT count(*) FROM jobq_heartbeat_worker('off')}), "1\n1", 'heartbeats find both jobs');
is(work(q{SELECT done FROM jobq_tick(clock_timestamp() + interval '1 hour') WHERE duty = 'rescue'}), '2', 'jobq_tick() rescues both');
work(q{SELECT count(*) FROM jobq_claim('q', 'off', batch => 2)});
settings($node, 'jobq.enabled = on');
$node->reload;
becomes_true($node, 'work', qq{SELECT NOT EXISTS (SELECT $running)}, 'the jobs are rescued after the workers are switched on');
finish_all();

# ---- a crash

my $crashed = 3 * $timeout;
enqueue(30);
is(work(qq{SELECT count(*) FROM jobq_claim('q', 'crashed', batch => 20, heartbeat_timeout => '$crashed s'); SELECT count(*), count(_rescue_indexed) $running}), "20\n20|0", 'twenty young jobs are claimed');
my $kept = work(qq{SELECT id || ', ' || lease $running LIMIT 1});
kill_server($node);
starts_again($node);
is(work("SELECT jobq_heartbeat($kept)"), 'held', 'a young lease from before the crash is held');
becomes_true($node, 'work', q{SELECT count(*) = 20 FROM jobq.attempts WHERE outcome = 'lost' AND worker_id = 'crashed'}, 'all other jobs are rescued');
my ($no_earlier, $latest) = split /\|/, work(qq{SELECT min(finished_at - pg_postmaster_start_time()) >= '$crashed s', max(extract(epoch FROM finished_at - pg_postmaster_start_time()))
           FROM jobq.attempts WHERE outcome = 'lost' AND worker_id = 'crashed'});
is($no_earlier, 't', 'not before a grace period of one timeout');
in_time($latest, $crashed + 6, 'and soon after it');
is(work(q{SELECT last_error FROM jobq.background_workers WHERE database = 'work'}), '', 'no duty failed');
$node->stop;

# ---- hundreds of running jobs, with entries for eight young leases

my $small = preloaded('few', conf => [ 'jobq.max_young_leases = 8', 'max_prepared_transactions = 10', 'autovacuum = off' ]);
$node = $small;
database($node, 'work');
work(qq{SELECT jobq_create_queue('q', heartbeat_timeout => '$timeout s', max_lost => 1000)});
served('work');
enqueue(300);
is(work(qq{SELECT count(*) FROM jobq_claim('q', 'w', batch => 300); SELECT count(_rescue_indexed) $running;
           SELECT count(*), count(DISTINCT job_id) FROM jobq_heartbeat_worker('w')}),
    "300\n292\n300|300", 'eight leases stay young, the other jobs enter the index at once, and one heartbeat finds them all');
becomes_true($node, 'work', qq{SELECT NOT EXISTS (SELECT $running)}, 'no job is running');
my ($rescues, $of, $longest) = split /\|/, work(q{SELECT count(*), count(DISTINCT job_id), max(extract(epoch FROM finished_at - started_at)) FROM jobq.attempts WHERE outcome = 'lost'});
is("$rescues|$of", '300|300', 'all jobs are rescued once');
in_time($longest, $timeout + 4, 'within the timeout + 4 s');
work(q{DO $$ BEGIN FOR n IN 1..100 LOOP PERFORM jobq_complete(c.id, c.lease) FROM jobq_claim('q') c; COMMIT; END LOOP; END $$});
is(work(q{SELECT count(_rescue_indexed), count(*) FROM jobq.jobs WHERE status = 'completed'}), '0|100', 'completed jobs free their entries for the next ones');

# A database that is dropped while it has young leases does not keep their entries. Claims in other databases can use them as soon
# as the launcher has noticed the drop.
database($node, 'dropped');
served('dropped');
value($node, 'dropped', q{SELECT jobq_enqueue('room') FROM generate_series(1, 20)});
my $is_young = q{SELECT count(*) - count(_rescue_indexed) FROM jobq.jobs WHERE queue = 'room' AND status = 'processing'};
is(value($node, 'dropped', qq{BEGIN; SELECT count(*) FROM jobq_claim('room', batch => 20); $is_young; COMMIT}), "20\n8", 'all entries are used');
value($node, 'postgres', 'DROP DATABASE dropped WITH (FORCE)');
ok(defined seconds_until(sub { return work(qq{SELECT count(jobq_enqueue('room')); BEGIN; SELECT count(*) FROM jobq_claim('room'); $is_young; SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE queue = 'room' AND status = 'processing'; COMMIT}) eq "1\n1\n1\nt" }),
    'the entries are free after the database has been dropped');

# After a restart, all these leases are young for the server, which has fewer entries; another transaction has locked one job. Each
# try uses other jobs, because jobs that were lost together are handed out one at a time.
my ($restarted, $held);
for my $try (1 .. 20)
{
    work(q{DELETE FROM jobq.jobs WHERE status = 'pending'});
    enqueue(200);
    $restarted = "restarted $try";
    work(qq{SELECT count(*) FROM jobq_claim('q', '$restarted', batch => 200, heartbeat_timeout => '15 s')});
    work(q{SET session_replication_role = replica; UPDATE jobq.jobs SET _rescue_indexed = NULL WHERE status = 'processing'});
    $held = work(qq{SELECT string_agg(id::text, ', ' ORDER BY id) FROM (SELECT id, row_number() OVER (ORDER BY id) AS n $running) r WHERE n % 20 = 1});
    prepare('holds', "SELECT id FROM jobq.jobs WHERE id IN (0$held) FOR UPDATE");
    # On a slow machine, their leases may have expired.
    last if work(qq{SELECT count(*) $running}) == 200 || $try == 20;
    work(q{ROLLBACK PREPARED 'holds'});
    becomes_true($node, 'work', qq{SELECT NOT EXISTS (SELECT $running)}, 'the machine was too slow, so the test is repeated');
}
is(work(qq{SELECT count(*) $running}), '200', '200 jobs are claimed');
$node->restart;
becomes_true($node, 'work', qq{SELECT count(*) = 10 $running}, 'after a restart, more jobs than there are entries are rescued without being in the index');
is(work(qq{SELECT string_agg(id::text, ', ' ORDER BY id) $running}), $held, 'except the locked ones');
is(work(qq{SELECT count(*) FROM jobq.attempts WHERE outcome = 'lost' AND worker_id = '$restarted'}), '190', 'each of them once');
work(q{ROLLBACK PREPARED 'holds'});
becomes_true($node, 'work', qq{SELECT NOT EXISTS (SELECT $running)}, 'the locked jobs are rescued after their locks are released');
is(work(qq{SELECT count(*) FROM jobq.attempts WHERE outcome = 'lost' AND worker_id = '$restarted'}), '200', 'each of them once');
$node->stop;
done_testing();
