# Tests jobs that are taken from workers that still send heartbeats: a cancellation whose grace period is over, or a max_runtime
# that has passed. The background worker ends these jobs on time, whatever the state of their claim; the worker may report before.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use JobqTime;
use Test::More;
use Time::HiRes qw(time);

my $grace = 1;
my $node = preloaded('forced', conf => [ "jobq.cancel_grace = '$grace s'", 'max_prepared_transactions = 10' ]);
database($node, 'work');
await_worker($node, 'work');
sub work { return value($node, 'work', $_[0]); }
sub attempts { return work("SELECT string_agg(outcome, ' ' ORDER BY finished_at) FROM jobq.attempts WHERE job_id = $_[0]"); }

# Executes a first statement and then sends a heartbeat every few milliseconds until the lease is lost, all in one session. Returns
# the distinct results of the heartbeats and records their times in `heard`.
sub heartbeat_until_lost
{
    my ($id, $lease, $first) = @_;
    $first = defined $first ? "PERFORM $first; COMMIT;" : '';
    return work(qq{
        CREATE TEMP TABLE heard (state text, at timestamptz);
        DO \$\$
        DECLARE
            state text;
        BEGIN
            $first
            FOR n IN 1 .. 4000 LOOP
                state := jobq_heartbeat($id, $lease);
                INSERT INTO heard VALUES (state, clock_timestamp());
                COMMIT;
                EXIT WHEN state = 'lost';
                PERFORM pg_sleep(0.005);
            END LOOP;
        END \$\$;
        SELECT string_agg(state, ' ' ORDER BY first) FROM (SELECT state, min(at) AS first FROM heard GROUP BY state) h});
}

sub claim
{
    my ($queue, $more) = @_;
    work("SELECT jobq_enqueue('$queue')");
    return split /\|/, work(sprintf "SELECT id, lease FROM jobq_claim('%s', 'w'%s)", $queue, $more // '');
}

# ---- the grace period of a cancellation

my ($id, $lease) = claim('cancelled');
is(heartbeat_until_lost($id, $lease, "jobq_cancel($id)"), 'cancel lost', 'the heartbeats of a worker that does not stop report the cancellation until the lease is lost');
is(work("SELECT status, lease IS NULL, error FROM jobq.jobs WHERE id = $id"), 'cancelled|t|cancelled while running: its worker did not stop in time', 'then the job is cancelled');
is(attempts($id), 'cancelled', 'the attempt is cancelled');
my $took = work("SELECT extract(epoch FROM finished_at - cancel_requested_at) FROM jobq.jobs WHERE id = $id");
report_seconds("cancelled after, grace $grace s", $took);
cmp_ok($took, '>=', $grace, 'not before the end of the grace period');
in_time($took, $grace + 2, 'within the grace period + 2 s');

# A shorter grace period applies from the reload on, also to cancellations that were requested before.
settings($node, "jobq.cancel_grace = '1h'");
$node->reload;
becomes_true($node, 'work', q{SELECT current_setting('jobq.cancel_grace') = '1h'}, 'the grace period is long');
# Many jobs, some of which are reported in time. Until the grace period is shortened, only these reports can end a job.
work("SELECT count(*) FROM jobq_enqueue_many('many', array_fill('{}'::jsonb, ARRAY[40]))");
work(q{CREATE TABLE many AS SELECT id, lease, row_number() OVER () AS n FROM jobq_claim('many', 'w', batch => 40)});
is(work(q{SELECT jobq_cancel_jobs('many')}), '40', 'cancellation of 40 running jobs is requested');
work(q{SELECT CASE n % 4 WHEN 0 THEN jobq_complete(id, lease)::text WHEN 1 THEN jobq_fail(id, lease)::text WHEN 2 THEN jobq_release(id, lease)::text END FROM many});
is(work(q{SELECT count(*) FROM jobq.jobs WHERE queue = 'many' AND status = 'processing'}), '10', 'ten jobs are not reported');
($id, $lease) = claim('long grace');
work("SELECT jobq_cancel($id)");
is(work("SELECT pg_sleep(1.5)") . work("SELECT status FROM jobq.jobs WHERE id = $id"), 'processing', 'a job keeps running during the long grace period');
# The worker sleeps until the end of the hour. jobq_tick() uses the grace period of its session.
is(work("SET jobq.cancel_grace = 0; BEGIN; SELECT done FROM jobq_tick() WHERE duty = 'cancel'; ROLLBACK"), '11', 'a session with another grace period cancels the jobs');
settings($node, "jobq.cancel_grace = '$grace s'");
my $lowered = time;
$node->reload;
becomes_true($node, 'work', "SELECT status = 'cancelled' FROM jobq.jobs WHERE id = $id", 'the job is cancelled after the grace period was shortened');
report_seconds('cancelled after the reload', time - $lowered);
in_time(time - $lowered, 2, 'within 2 s of the reload');
becomes_true($node, 'work', q{SELECT NOT EXISTS (SELECT FROM jobq.jobs WHERE queue = 'many' AND status = 'processing')}, 'all jobs have ended');
is(work(q{SELECT string_agg(n % 4 || j.status::text || coalesce(a.outcome, ''), ' ' ORDER BY n) FROM many JOIN jobq.jobs j USING (id) LEFT JOIN jobq.attempts a ON a.job_id = j.id WHERE n <= 4}),
    '1cancelledcancelled 2cancelledreleased 3cancelledcancelled 0completed', 'a job is completed if its worker completed it, otherwise cancelled');
is(work(q{SELECT sum(completed), sum(cancelled), sum(processing) FROM jobq.queue_stats WHERE queue = 'many'}), '10|30|0', 'the counters agree');

# A prepared cancellation counts from its COMMIT PREPARED on, whichever session executes that.
($id, $lease) = claim('prepared');
work("BEGIN; SELECT jobq_cancel($id); PREPARE TRANSACTION 'asked'");
is(work("SELECT pg_sleep($grace + 1); SELECT status FROM jobq.jobs WHERE id = $id"), "\nprocessing", 'a prepared cancellation does not end the job');
work("COMMIT PREPARED 'asked'");
becomes_true($node, 'work', "SELECT status = 'cancelled' FROM jobq.jobs WHERE id = $id", 'the committed cancellation ends the job');

# ---- max_runtime

# One limit is shorter and one is longer than the second after which a running job enters the rescue's index.
for my $limit (0.3, 1.7)
{
    my $queue = "limited $limit";
    work("SELECT jobq_create_queue('$queue', max_runtime => '$limit s', backoff_base => '1 hour')");
    my ($job, $held) = claim($queue);
    # With a short limit, the first heartbeat may already be too late.
    like(heartbeat_until_lost($job, $held), $limit < 1 ? qr/^(?:held )?lost$/ : qr/^held lost$/, "$limit s: the lease is held until the limit");
    is(work("SELECT status, _must_end_at IS NULL, error FROM jobq.jobs WHERE id = $job"), "scheduled|t|ran longer than max_runtime ($limit s)", "$limit s: then the attempt fails");
    is(attempts($job), 'failed', "$limit s: the failed attempt is recorded");
    my $ran = work("SELECT extract(epoch FROM finished_at - started_at) FROM jobq.attempts WHERE job_id = $job");
    report_seconds("max_runtime $limit s, taken after", $ran);
    cmp_ok($ran, '>=', $limit, "$limit s: not before the limit");
    in_time($ran, $limit + 2, "$limit s: within the limit + 2 s");
}

# Jobs with and without a limit in one batch, which share a lease because one transaction claims them.
work(q{SELECT jobq_create_queue('mixed', on_max_runtime => 'cancel')});
work(q{SELECT jobq_enqueue('mixed', to_jsonb(n), options => jsonb_build_object('max_runtime', CASE WHEN n % 2 = 0 THEN interval '500 ms' END)) FROM generate_series(1, 40) n});
# The jobs are claimed and completed in one transaction, so that their limit cannot expire before.
is(work(q{BEGIN; CREATE TEMP TABLE taken ON COMMIT DROP AS SELECT id, lease, payload FROM jobq_claim('mixed', 'w', batch => 40);
    SELECT count(*), count(*) FILTER (WHERE payload IN ('2', '4') AND jobq_complete(id, lease)) FROM taken; COMMIT}), '40|2',
    'forty jobs are claimed, twenty of them with a max_runtime, and two of these are completed');
becomes_true($node, 'work', q{SELECT count(*) = 20 FROM jobq.jobs WHERE queue = 'mixed' AND status = 'processing'}, 'the jobs without a max_runtime keep running');
is(work(q{SELECT string_agg(status || ' ' || n, ', ' ORDER BY status) FROM (SELECT status, count(*) AS n FROM jobq.jobs WHERE queue = 'mixed' GROUP BY status) s}),
    'processing 20, completed 2, cancelled 18', 'the other jobs with a max_runtime are cancelled');
is(work(q{SELECT bool_and(payload::int % 2 = 1) FROM jobq.jobs WHERE queue = 'mixed' AND status = 'processing'}), 't', 'no job without a max_runtime is ended');

# The transaction of a claim stays open for longer than max_runtime. Other sessions do not see the claim, and it may complete the
# job.
work(q{SELECT jobq_create_queue('open', max_runtime => '200 ms', on_max_runtime => 'cancel'); SELECT jobq_enqueue('open'), jobq_enqueue('open')});
my $session = session($node, 'work');
$session->query(q{BEGIN; SELECT id FROM jobq_claim('open', 'slow'); SELECT pg_sleep(1)});
is($session->query(q{SELECT jobq_complete(id) FROM jobq.jobs WHERE queue = 'open' AND status = 'processing'; COMMIT}), 't', 'the transaction that claimed the job may complete it, however late');
$session->query(q{BEGIN; SELECT id FROM jobq_claim('open', 'slow'); SELECT pg_sleep(1); COMMIT});
becomes_true($node, 'work', q{SELECT count(*) = 1 FROM jobq.jobs WHERE queue = 'open' AND status = 'cancelled'}, 'otherwise the limit ends the job as soon as the claim has committed');
$session->query(q{SELECT jobq_retry(id) FROM jobq.jobs WHERE queue = 'open' AND status = 'cancelled'; BEGIN; SELECT id FROM jobq_claim('open', 'slow'); PREPARE TRANSACTION 'claim'});
is(work(q{SELECT pg_sleep(1); SELECT status FROM jobq.jobs WHERE queue = 'open' AND status <> 'completed'}), "\npending", 'the limit does not end a job whose claim is prepared');
work(q{COMMIT PREPARED 'claim'});
becomes_true($node, 'work', q{SELECT count(*) = 1 FROM jobq.jobs WHERE queue = 'open' AND status = 'cancelled'}, 'it ends the job after COMMIT PREPARED');
$session->quit;

# After a crash, a worker has one heartbeat timeout to report the work done during the crash, whatever its max_runtime.
work(q{SELECT jobq_create_queue('crash', max_runtime => '1 s')});
# No background worker runs that could end the jobs before the crash.
settings($node, 'jobq.enabled = off');
$node->reload;
becomes_true($node, 'postgres', q{SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'jobq worker')}, 'no worker is running');
my ($crashed, $crashed_lease) = claim('crash', q{, heartbeat_timeout => '15 s'});
my ($deaf, $deaf_lease) = claim('crash', q{, heartbeat_timeout => '15 s'});
$node->stop('immediate');
settings($node, 'jobq.enabled = on');
$node->start;
is(work("SELECT pg_sleep(1.5); SELECT jobq_complete($crashed, $crashed_lease)"), "\nt", 'after a crash of the server, a completion is accepted although max_runtime has passed');
becomes_true($node, 'work', "SELECT status <> 'processing' FROM jobq.jobs WHERE id = $deaf", 'a job without a report is rescued');
is(attempts($deaf), 'lost', 'the attempt of the silent worker is lost');

# After a crash of the server, the cancellation is still in effect.
($id, $lease) = claim('crashed');
work("SELECT jobq_cancel($id)");
$node->stop('immediate');
$node->start;
becomes_true($node, 'work', "SELECT status = 'cancelled' FROM jobq.jobs WHERE id = $id", 'the job is cancelled after a crash');
is(work("SELECT jobq_heartbeat($id, $lease), jobq_complete($id, $lease)"), 'lost|f', 'the crash does not revive the lease');

unlike(log_since($node), qr/(?:PANIC|TRAP|terminated by signal)/, 'no process crashed by itself');

done_testing();
