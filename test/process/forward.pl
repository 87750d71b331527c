# examples/forward.py, the outbox: jobs enqueued in transactions here become jobs of another server, exactly once in effect.
#
# A trigger holds completions here back, so a forwarder is killed when what it has sent is committed there and nothing of that is known
# here. Jobs are run there meanwhile. One that has the other side forget the keys of finished jobs must be found out.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use IPC::Run ();
use JobqTest;
use PostgreSQL::Test::Utils qw(slurp_file append_to_file);
use Test::More;

my $a_round = 20;    # jobs
my $program = "$FindBin::RealBin/../../examples/forward.py";
my $python  = $ENV{PYTHON} // '/usr/bin/python3';

my $here  = preloaded('here');
my $there = preloaded('there');
sub here  { my ($sql) = @_; return value($here,  'app',  $sql); }
sub there { my ($sql) = @_; return value($there, 'jobs', $sql); }

database($here,  'app');
database($there, 'jobs');
here(
    q{
    CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END';
    CREATE TRIGGER hold AFTER UPDATE ON jobq.jobs FOR EACH ROW WHEN (NEW.status = 'completed') EXECUTE FUNCTION hold();
    SELECT jobq_create_queue(q, heartbeat_timeout => '1 hour', max_lost => 1000, max_attempts => 1000)
    FROM unnest('{outbox,careless,doubtful}'::text[]) q});
there('CREATE TABLE effects (queue text, n int)');

# ---- what runs

my $output = "$ENV{TESTDATADIR}/forward_output";

sub forwarder
{
    my ($queue, %option) = @_;
    local $ENV{PGHOST}     = $here->host;
    local $ENV{PGPORT}     = $here->port;
    local $ENV{PGUSER}     = 'postgres';
    local $ENV{PGDATABASE} = 'app';
    local $ENV{JOBQ_TO}    = sprintf 'host=%s port=%s user=postgres dbname=jobs', $there->host, $there->port;
    local $ENV{JOBQ_KEEP}  = $option{keep} // '1 day';
    return IPC::Run::start([ $python, $option{program} // $program, $queue ], '>>', $output, '2>>', $output);
}

sub ends
{
    my ($forwarder) = @_;
    $forwarder->signal('TERM');
    IPC::Run::finish($forwarder);
    return;
}

sub killed
{
    my ($forwarder) = @_;
    IPC::Run::kill_kill($forwarder, grace => 0);
    here(q{SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted});
    return becomes_true($here, 'app', q{SELECT count(*) = 0 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted},
        'what it wanted to complete here is rolled back');
}

sub sent_and_not_completed
{
    my ($forwarder) = @_;
    return becomes_true($here, 'app', q{SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted},
        'a batch has been sent, and is not complete here');
}

# Every job that is there, with its effect.
sub work_there
{
    there(q{WITH c AS MATERIALIZED (SELECT c.* FROM unnest('{outbox,careless,doubtful}'::text[]) q,
                                    jobq_claim(q, 'worker', 1000, capabilities => '{gpu}') c)
            INSERT INTO effects SELECT queue, (payload->>'n')::int FROM c WHERE jobq_complete(c.id, c.lease)});
    return;
}

sub rescue { here(q{SELECT jobq_tick(clock_timestamp() + interval '2 hours')}); return; }

sub enqueue
{
    my ($queue, $from) = @_;
    here(
        sprintf q{SELECT count(*) FROM jobq_enqueue_many('%s', ARRAY(SELECT jsonb_build_object('n', n) FROM generate_series(%d, %d) n))},
        $queue, $from, $from + $a_round - 1);
    return;
}

# Forwarders that are killed, one after the other, while jobs are run; then one that is not. Returns how many effects there are too many.
sub attack
{
    my ($queue, $rounds, %option) = @_;
    my $jobs = $rounds * $a_round;
    my $gate = session($here, 'app');
    $gate->query_safe('SELECT pg_advisory_lock(1)');
    for my $round (0 .. $rounds - 1)
    {
        enqueue($queue, $round * $a_round);
        my $forwarder = forwarder($queue, %option);
        sent_and_not_completed($forwarder);
        killed($forwarder);
        work_there();
        rescue();
    }
    $gate->query_safe('SELECT pg_advisory_unlock(1)');
    end_sessions($gate);
    my $last = forwarder($queue, %option);
    becomes_true($here, 'app', "SELECT count(*) = $jobs FROM jobq.jobs WHERE queue = '$queue' AND status = 'completed'",
        'all are sent and complete here');
    ends($last);
    work_there();
    is(there("SELECT count(DISTINCT n) FROM effects WHERE queue = '$queue'"), $jobs, 'each has run there');
    return there("SELECT count(*) - count(DISTINCT n) FROM effects WHERE queue = '$queue'");
}

# ---- exactly once

here(q{BEGIN; SELECT jobq_enqueue('outbox', '{"n": -1}'); ROLLBACK});
my $rounds = 4;
is(attack('outbox', $rounds), 0, 'none has run twice, though its forwarder was killed and the job had been finished');
cmp_ok(here(q{SELECT max(attempts) FROM jobq.jobs WHERE queue = 'outbox'}), '>', 1, 'some were sent more than once');
is(there(q{SELECT count(*) FROM jobq.jobs WHERE queue = 'outbox'}), $rounds * $a_round, 'nor is there a job too many: what was rolled back was not sent');
is( here(q{SELECT string_agg(result->>'job', ' ' ORDER BY payload->>'n') FROM jobq.jobs WHERE queue = 'outbox' AND status = 'completed'}),
    there(q{SELECT string_agg(id::text, ' ' ORDER BY payload->>'n') FROM jobq.jobs WHERE queue = 'outbox'}),
    'the result here is the id there');

# A planted defect: the other side forgets a key when its job has finished.
my $careless = "$ENV{TESTDATADIR}/careless.py";
my $text     = slurp_file($program);
is($text =~ s/'unique_for', %\(keep\)s::text,//g, 1, 'a forwarder that has no key kept');
append_to_file($careless, $text);
cmp_ok(attack('careless', 1, program => $careless), '>', 0, 'runs jobs twice, and this test finds them');

# ---- in doubt

my $gate = session($here, 'app');
$gate->query_safe('SELECT pg_advisory_lock(1)');
enqueue('doubtful', 0);
my $forwarder = forwarder('doubtful', keep => '5 s');
sent_and_not_completed($forwarder);
killed($forwarder);
work_there();
rescue();
end_sessions($gate);
becomes_true($here, 'app', q{SELECT bool_and((progress->>'first_sent')::timestamptz < clock_timestamp() - interval '5 s') FROM jobq.jobs WHERE queue = 'doubtful'},
    'a key may be forgotten by now');
$forwarder = forwarder('doubtful', keep => '5 s');
becomes_true($here, 'app', "SELECT count(*) = $a_round FROM jobq.jobs WHERE queue = 'doubtful' AND status = 'failed' AND error LIKE 'first sent at %'",
    'what may be there, and may be forgotten there, is not sent again: it fails and says so');
is(there(q{SELECT count(*) FROM jobq.jobs WHERE queue = 'doubtful'}), $a_round, 'and there is no second job');
# A key that is still kept there would bring no second job.
becomes_true($there, 'jobs', q{SELECT bool_and(finished_at < clock_timestamp() - interval '5 s') FROM jobq.jobs WHERE queue = 'doubtful'}, 'no key is kept there');
here(q{SELECT jobq_retry(min(id)) FROM jobq.jobs WHERE queue = 'doubtful'});
becomes_true($there, 'jobs', "SELECT count(*) = $a_round + 1 FROM jobq.jobs WHERE queue = 'doubtful'", 'who retries one has it sent');
ends($forwarder);

# ---- what a job takes along

here(
    q{SELECT jobq_enqueue('whole', '{"n": null}', kind => 'k', priority => 7, metadata => '{"m": 1}',
                          group_key => 'g', concurrency_key => 'c',
                          options => '{"version": 3, "requires": ["gpu"], "heartbeat_timeout": "7 s", "max_runtime": "8 min"}')});
my $columns = q{(kind, priority, version, requires, payload, metadata, group_key, concurrency_key, heartbeat_timeout, max_runtime)};
$forwarder = forwarder('whole');
becomes_true($there, 'jobs', q{SELECT count(*) = 1 FROM jobq.jobs WHERE queue = 'whole'}, 'a job with everything arrives');
is(there("SELECT $columns FROM jobq.jobs WHERE queue = 'whole'"), here("SELECT $columns FROM jobq.jobs WHERE queue = 'whole'"), 'as it was');
ends($forwarder);

# ---- a part of the other side that does not answer

# Each try takes two seconds: all of them one after the other would outlast the leases.
there(
    q{
    CREATE FUNCTION vanished() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(2); RAISE ''vanished'' USING ERRCODE = ''08001''; END';
    CREATE TRIGGER vanished BEFORE INSERT ON jobq.jobs FOR EACH ROW WHEN (NEW.queue = 'partial' AND (NEW.payload->>'n')::int <= 14) EXECUTE FUNCTION vanished()});
here(q{SELECT jobq_create_queue('partial', heartbeat_timeout => '25 s', max_attempts => 1)});
here(q{SELECT jobq_enqueue('partial', jsonb_build_object('n', n)) FROM generate_series(1, 17) n});
$forwarder = forwarder('partial');
becomes_true($here, 'app', q{SELECT count(*) = 3 FROM jobq.jobs WHERE queue = 'partial' AND status = 'completed'}, 'jobs behind those that cannot be sent go');
is(here(q{SELECT count(*) FROM jobq.attempts a JOIN jobq.jobs j ON j.id = a.job_id WHERE j.queue = 'partial' AND a.outcome IN ('failed', 'lost')}),
    '0', 'and no lease has run out meanwhile, nor has an attempt been used up');
there(q{DROP TRIGGER vanished ON jobq.jobs});
ends($forwarder);

# ---- refused, and down

there(q{ALTER SYSTEM SET jobq.max_payload = '1kB'});
there(q{SELECT pg_reload_conf()});
here(q{SELECT jobq_create_queue('picky', max_attempts => 1)});
here(q{SELECT jobq_enqueue('picky', jsonb_build_object('n', n, 'fill', repeat('x', CASE n WHEN 2 THEN 2000 ELSE 1 END))) FROM generate_series(1, 3) n});
$forwarder = forwarder('picky');
becomes_true($here, 'app', q{SELECT string_agg(status::text, ' ' ORDER BY id) = 'completed failed completed' FROM jobq.jobs WHERE queue = 'picky'},
    'a job that is refused there fails with the reason, and the others of its batch go');
like(here(q{SELECT error FROM jobq.jobs WHERE queue = 'picky' AND status = 'failed'}), qr/payload/, 'which is its error');
my $said = -s $output;
$there->stop('immediate');
here(q{SELECT jobq_enqueue('picky')});
ok(defined seconds_until(sub { return substr(slurp_file($output), $said) =~ /trying/ }), 'while the other side is down a forwarder tries again');
is(here(q{SELECT count(*) FROM jobq.jobs WHERE queue = 'picky' AND status IN ('pending', 'scheduled', 'processing')}), '1', 'and the job waits');
$there->start;
becomes_true($here, 'app', q{SELECT count(*) = 3 FROM jobq.jobs WHERE queue = 'picky' AND status = 'completed' AND attempts = 1}, 'and use no attempt up');
ends($forwarder);

done_testing();
