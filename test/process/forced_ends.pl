# Jobs that are taken from workers which live and go on heartbeating: a cancellation whose grace is over, a max_runtime
# that has passed. The background worker does it, on time, in any state the claim is in; a worker may report before.
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

# Heartbeats every few ms until the lease is lost, after a first statement: no session need begin between the two. Returns the
# answers that came, each once, and leaves what happened when in `heard`.
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

# ---- the grace of a cancellation

my ($id, $lease) = claim('cancelled');
is(heartbeat_until_lost($id, $lease, "jobq_cancel($id)"), 'cancel lost', 'a worker that does not stop is told until the lease is void');
is(work("SELECT status, lease IS NULL, error FROM jobq.jobs WHERE id = $id"), 'cancelled|t|cancelled while running: its worker did not stop in time', 'then the job is cancelled');
is(attempts($id), 'cancelled', 'and so is the attempt');
my $took = work("SELECT extract(epoch FROM finished_at - cancel_requested_at) FROM jobq.jobs WHERE id = $id");
report_seconds("cancelled after, grace $grace s", $took);
cmp_ok($took, '>=', $grace, 'not before the grace is over');
in_time($took, $grace + 2, 'within the grace + 2 s');

# A grace that is lowered holds from the reload on, for cancellations that were asked for before, too.
settings($node, "jobq.cancel_grace = '1h'");
$node->reload;
becomes_true($node, 'work', q{SELECT current_setting('jobq.cancel_grace') = '1h'}, 'the grace is long');
# Many at once, some of which report in time: nothing but they can end them meanwhile.
work("SELECT count(*) FROM jobq_enqueue_many('many', array_fill('{}'::jsonb, ARRAY[40]))");
work(q{CREATE TABLE many AS SELECT id, lease, row_number() OVER () AS n FROM jobq_claim('many', 'w', batch => 40)});
is(work(q{SELECT jobq_cancel_jobs('many')}), '40', 'forty running jobs are asked');
work(q{SELECT CASE n % 4 WHEN 0 THEN jobq_complete(id, lease)::text WHEN 1 THEN jobq_fail(id, lease)::text WHEN 2 THEN jobq_release(id, lease)::text END FROM many});
is(work(q{SELECT count(*) FROM jobq.jobs WHERE queue = 'many' AND status = 'processing'}), '10', 'ten do not report');
($id, $lease) = claim('long grace');
work("SELECT jobq_cancel($id)");
is(work("SELECT pg_sleep(1.5)") . work("SELECT status FROM jobq.jobs WHERE id = $id"), 'processing', 'so it still runs');
# The worker is waiting for the end of its hour; a tick by hand looks by its session's grace.
is(work("SET jobq.cancel_grace = 0; BEGIN; SELECT done FROM jobq_tick() WHERE duty = 'cancel'; ROLLBACK"), '11', 'but not for a session with another grace');
settings($node, "jobq.cancel_grace = '$grace s'");
my $lowered = time;
$node->reload;
becomes_true($node, 'work', "SELECT status = 'cancelled' FROM jobq.jobs WHERE id = $id", 'when it is lowered, the job is cancelled');
report_seconds('cancelled after the reload', time - $lowered);
in_time(time - $lowered, 2, 'within 2 s');
becomes_true($node, 'work', q{SELECT NOT EXISTS (SELECT FROM jobq.jobs WHERE queue = 'many' AND status = 'processing')}, 'all have ended');
is(work(q{SELECT string_agg(n % 4 || j.status::text || coalesce(a.outcome, ''), ' ' ORDER BY n) FROM many JOIN jobq.jobs j USING (id) LEFT JOIN jobq.attempts a ON a.job_id = j.id WHERE n <= 4}),
    '1cancelledcancelled 2cancelledreleased 3cancelledcancelled 0completed', 'completed if the worker said so, else cancelled');
is(work(q{SELECT sum(completed), sum(cancelled), sum(processing) FROM jobq.queue_stats WHERE queue = 'many'}), '10|30|0', 'the counters agree');

# A cancellation that is prepared counts from its COMMIT PREPARED, whatever session that comes from.
($id, $lease) = claim('prepared');
work("BEGIN; SELECT jobq_cancel($id); PREPARE TRANSACTION 'asked'");
is(work("SELECT pg_sleep($grace + 1); SELECT status FROM jobq.jobs WHERE id = $id"), "\nprocessing", 'a prepared cancellation forces nothing');
work("COMMIT PREPARED 'asked'");
becomes_true($node, 'work', "SELECT status = 'cancelled' FROM jobq.jobs WHERE id = $id", 'once it is committed it does');

# ---- max_runtime

# So long, on either side of the second after which a running job enters the rescue's index.
for my $limit (0.3, 1.7)
{
    my $queue = "limited $limit";
    work("SELECT jobq_create_queue('$queue', max_runtime => '$limit s', backoff_base => '1 hour')");
    my ($job, $held) = claim($queue);
    # The first heartbeat may come too late where the time is short.
    like(heartbeat_until_lost($job, $held), $limit < 1 ? qr/^(?:held )?lost$/ : qr/^held lost$/, "$limit s: held until the time is over");
    is(work("SELECT status, _must_end_at IS NULL, error FROM jobq.jobs WHERE id = $job"), "scheduled|t|ran longer than max_runtime ($limit s)", "$limit s: then the attempt has failed");
    is(attempts($job), 'failed', "$limit s: on record");
    my $ran = work("SELECT extract(epoch FROM finished_at - started_at) FROM jobq.attempts WHERE job_id = $job");
    report_seconds("max_runtime $limit s, taken after", $ran);
    cmp_ok($ran, '>=', $limit, "$limit s: not before");
    in_time($ran, $limit + 2, "$limit s: within it + 2 s");
}

# Among jobs without a limit, which nobody touches; with one lease for the whole batch's transaction.
work(q{SELECT jobq_create_queue('mixed', on_max_runtime => 'cancel')});
work(q{SELECT jobq_enqueue('mixed', to_jsonb(n), options => jsonb_build_object('max_runtime', CASE WHEN n % 2 = 0 THEN interval '500 ms' END)) FROM generate_series(1, 40) n});
# In one transaction, so that the time of those that complete cannot be over before.
is(work(q{BEGIN; CREATE TEMP TABLE taken ON COMMIT DROP AS SELECT id, lease, payload FROM jobq_claim('mixed', 'w', batch => 40);
    SELECT count(*), count(*) FILTER (WHERE payload IN ('2', '4') AND jobq_complete(id, lease)) FROM taken; COMMIT}), '40|2',
    'forty are claimed, twenty of them with a max_runtime, two of which complete');
becomes_true($node, 'work', q{SELECT count(*) = 20 FROM jobq.jobs WHERE queue = 'mixed' AND status = 'processing'}, 'the others run on');
is(work(q{SELECT string_agg(status || ' ' || n, ', ' ORDER BY status) FROM (SELECT status, count(*) AS n FROM jobq.jobs WHERE queue = 'mixed' GROUP BY status) s}),
    'processing 20, completed 2, cancelled 18', 'those that had not completed are cancelled');
is(work(q{SELECT bool_and(payload::int % 2 = 1) FROM jobq.jobs WHERE queue = 'mixed' AND status = 'processing'}), 't', 'none without a max_runtime is among them');

# A claim whose transaction stays open longer than the job may run: nobody sees it run. It may complete the job.
work(q{SELECT jobq_create_queue('open', max_runtime => '200 ms', on_max_runtime => 'cancel'); SELECT jobq_enqueue('open'), jobq_enqueue('open')});
my $session = session($node, 'work');
$session->query(q{BEGIN; SELECT id FROM jobq_claim('open', 'slow'); SELECT pg_sleep(1)});
is($session->query(q{SELECT jobq_complete(id) FROM jobq.jobs WHERE queue = 'open' AND status = 'processing'; COMMIT}), 't', 'completed in the transaction that claimed it, however late');
$session->query(q{BEGIN; SELECT id FROM jobq_claim('open', 'slow'); SELECT pg_sleep(1); COMMIT});
becomes_true($node, 'work', q{SELECT count(*) = 1 FROM jobq.jobs WHERE queue = 'open' AND status = 'cancelled'}, 'else its time is over as soon as the claim has committed');
$session->query(q{SELECT jobq_retry(id) FROM jobq.jobs WHERE queue = 'open' AND status = 'cancelled'; BEGIN; SELECT id FROM jobq_claim('open', 'slow'); PREPARE TRANSACTION 'claim'});
is(work(q{SELECT pg_sleep(1); SELECT status FROM jobq.jobs WHERE queue = 'open' AND status <> 'completed'}), "\npending", 'a prepared claim is left alone');
work(q{COMMIT PREPARED 'claim'});
becomes_true($node, 'work', q{SELECT count(*) = 1 FROM jobq.jobs WHERE queue = 'open' AND status = 'cancelled'}, 'until it commits');
$session->quit;

# After a crash a worker has one heartbeat timeout to report what it did meanwhile, whatever its max_runtime.
work(q{SELECT jobq_create_queue('crash', max_runtime => '1 s')});
# Nobody is there who could find the time over before the crash.
settings($node, 'jobq.enabled = off');
$node->reload;
becomes_true($node, 'postgres', q{SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'jobq worker')}, 'no worker is there');
my ($crashed, $crashed_lease) = claim('crash', q{, heartbeat_timeout => '15 s'});
my ($deaf, $deaf_lease) = claim('crash', q{, heartbeat_timeout => '15 s'});
$node->stop('immediate');
settings($node, 'jobq.enabled = on');
$node->start;
is(work("SELECT pg_sleep(1.5); SELECT jobq_complete($crashed, $crashed_lease)"), "\nt", 'a report after a crash of the server counts, although the time is over');
becomes_true($node, 'work', "SELECT status <> 'processing' FROM jobq.jobs WHERE id = $deaf", 'without one the job is taken in the end');
is(attempts($deaf), 'lost', 'from a worker that was not heard of since');

# After a crash of the server the cancellation stands.
($id, $lease) = claim('crashed');
work("SELECT jobq_cancel($id)");
$node->stop('immediate');
$node->start;
becomes_true($node, 'work', "SELECT status = 'cancelled' FROM jobq.jobs WHERE id = $id", 'a crash does not forget it');
is(work("SELECT jobq_heartbeat($id, $lease), jobq_complete($id, $lease)"), 'lost|f', 'nor does it revive the lease');

unlike(log_since($node), qr/(?:PANIC|TRAP|terminated by signal)/, 'no crash of its own');

done_testing();
