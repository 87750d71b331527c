# Tests examples/forward.py, the outbox: jobs that are enqueued in transactions on the source server become jobs on the target
# server, and each of them takes effect exactly once.
#
# A trigger holds up completions on the source. A forwarder is killed when its batch is committed on the target and not yet
# completed on the source. In the meantime, the jobs are run on the target. The test must catch a forwarder that lets the target
# forget the keys of finished jobs.
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

# ---- the forwarder

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
        'the completions of the killed forwarder are rolled back');
}

sub sent_and_not_completed
{
    my ($forwarder) = @_;
    return becomes_true($here, 'app', q{SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted},
        'a batch has been sent and is not completed on the source');
}

# Runs every job on the target and records its effect.
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

# Runs forwarders that are killed, one after the other, while jobs are run, and finally one that is not. Returns the number of
# effects that occurred more than once.
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
        'all jobs are sent and completed on the source');
    ends($last);
    work_there();
    is(there("SELECT count(DISTINCT n) FROM effects WHERE queue = '$queue'"), $jobs, 'each job has run on the target');
    return there("SELECT count(*) - count(DISTINCT n) FROM effects WHERE queue = '$queue'");
}

# ---- exactly once

here(q{BEGIN; SELECT jobq_enqueue('outbox', '{"n": -1}'); ROLLBACK});
my $rounds = 4;
is(attack('outbox', $rounds), 0, 'no job has run twice, although its forwarder was killed and the job had already finished');
cmp_ok(here(q{SELECT max(attempts) FROM jobq.jobs WHERE queue = 'outbox'}), '>', 1, 'some jobs were sent more than once');
is(there(q{SELECT count(*) FROM jobq.jobs WHERE queue = 'outbox'}), $rounds * $a_round, 'no other job was sent, in particular no job that was rolled back');
is( here(q{SELECT string_agg(result->>'job', ' ' ORDER BY payload->>'n') FROM jobq.jobs WHERE queue = 'outbox' AND status = 'completed'}),
    there(q{SELECT string_agg(id::text, ' ' ORDER BY payload->>'n') FROM jobq.jobs WHERE queue = 'outbox'}),
    'the result on the source is the id on the target');

# A planted defect: the target forgets a key when its job has finished.
my $careless = "$ENV{TESTDATADIR}/careless.py";
my $text     = slurp_file($program);
is($text =~ s/'unique_for', %\(keep\)s::text,//g, 1, 'the planted forwarder does not keep keys');
append_to_file($careless, $text);
cmp_ok(attack('careless', 1, program => $careless), '>', 0, 'the planted forwarder runs jobs twice, and this test catches it');

# ---- jobs of which it is unknown whether they were sent

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
    'the keys may have been forgotten');
$forwarder = forwarder('doubtful', keep => '5 s');
becomes_true($here, 'app', "SELECT count(*) = $a_round FROM jobq.jobs WHERE queue = 'doubtful' AND status = 'failed' AND error LIKE 'first sent at %'",
    'a job that may have been sent and whose key may be forgotten is not sent again, but fails');
is(there(q{SELECT count(*) FROM jobq.jobs WHERE queue = 'doubtful'}), $a_round, 'no job was sent twice');
# If the target still kept a key, a retry would not create a second job.
becomes_true($there, 'jobs', q{SELECT bool_and(finished_at < clock_timestamp() - interval '5 s') FROM jobq.jobs WHERE queue = 'doubtful'}, 'the target keeps no key');
here(q{SELECT jobq_retry(min(id)) FROM jobq.jobs WHERE queue = 'doubtful'});
becomes_true($there, 'jobs', "SELECT count(*) = $a_round + 1 FROM jobq.jobs WHERE queue = 'doubtful'", 'a failed job is sent when it is retried');
ends($forwarder);

# ---- the attributes of a job

here(
    q{SELECT jobq_enqueue('whole', '{"n": null}', kind => 'k', priority => 7, metadata => '{"m": 1}',
                          group_key => 'g', concurrency_key => 'c',
                          options => '{"version": 3, "requires": ["gpu"], "heartbeat_timeout": "7 s", "max_runtime": "8 min"}')});
my $columns = q{(kind, priority, version, requires, payload, metadata, group_key, concurrency_key, heartbeat_timeout, max_runtime)};
$forwarder = forwarder('whole');
becomes_true($there, 'jobs', q{SELECT count(*) = 1 FROM jobq.jobs WHERE queue = 'whole'}, 'a job with all attributes arrives');
is(there("SELECT $columns FROM jobq.jobs WHERE queue = 'whole'"), here("SELECT $columns FROM jobq.jobs WHERE queue = 'whole'"), 'all attributes are kept');
ends($forwarder);

# ---- a part of the target that does not answer

# Each attempt takes two seconds, so that attempts one after the other would outlast the leases.
there(
    q{
    CREATE FUNCTION vanished() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(2); RAISE ''vanished'' USING ERRCODE = ''08001''; END';
    CREATE TRIGGER vanished BEFORE INSERT ON jobq.jobs FOR EACH ROW WHEN (NEW.queue = 'partial' AND (NEW.payload->>'n')::int <= 14) EXECUTE FUNCTION vanished()});
here(q{SELECT jobq_create_queue('partial', heartbeat_timeout => '25 s', max_attempts => 1)});
here(q{SELECT jobq_enqueue('partial', jsonb_build_object('n', n)) FROM generate_series(1, 17) n});
$forwarder = forwarder('partial');
becomes_true($here, 'app', q{SELECT count(*) = 3 FROM jobq.jobs WHERE queue = 'partial' AND status = 'completed'}, 'jobs after those that cannot be sent are forwarded');
is(here(q{SELECT count(*) FROM jobq.attempts a JOIN jobq.jobs j ON j.id = a.job_id WHERE j.queue = 'partial' AND a.outcome IN ('failed', 'lost')}),
    '0', 'no lease has expired and no attempt has been used up');
there(q{DROP TRIGGER vanished ON jobq.jobs});
ends($forwarder);

# ---- jobs that the target rejects, and a target that is down

there(q{ALTER SYSTEM SET jobq.max_payload = '1kB'});
there(q{SELECT pg_reload_conf()});
here(q{SELECT jobq_create_queue('picky', max_attempts => 1)});
here(q{SELECT jobq_enqueue('picky', jsonb_build_object('n', n, 'fill', repeat('x', CASE n WHEN 2 THEN 2000 ELSE 1 END))) FROM generate_series(1, 3) n});
$forwarder = forwarder('picky');
becomes_true($here, 'app', q{SELECT string_agg(status::text, ' ' ORDER BY id) = 'completed failed completed' FROM jobq.jobs WHERE queue = 'picky'},
    'a job that the target rejects fails, and the other jobs of its batch are forwarded');
like(here(q{SELECT error FROM jobq.jobs WHERE queue = 'picky' AND status = 'failed'}), qr/payload/, 'the error of the job says why it was rejected');
my $said = -s $output;
$there->stop('immediate');
here(q{SELECT jobq_enqueue('picky')});
ok(defined seconds_until(sub { return substr(slurp_file($output), $said) =~ /trying/ }), 'the forwarder retries while the target is down');
is(here(q{SELECT count(*) FROM jobq.jobs WHERE queue = 'picky' AND status IN ('pending', 'scheduled', 'processing')}), '1', 'the job waits');
$there->start;
becomes_true($here, 'app', q{SELECT count(*) = 3 FROM jobq.jobs WHERE queue = 'picky' AND status = 'completed' AND attempts = 1}, 'the jobs are forwarded without using up an attempt');
ends($forwarder);

done_testing();
