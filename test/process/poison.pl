# Tests jobs that kill their worker. Each worker is a process that claims a batch and is killed with SIGKILL by the first guilty job
# that it runs, while it holds the other jobs of the batch. In the end all guilty jobs have failed and all others have completed.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqSleep;
use JobqTest;
use POSIX ();
use Test::More;
use Time::HiRes qw(time usleep);

my $node = preloaded('poison', conf => [ 'jobq.rescue_batch = 30', 'fsync = off' ]);
database($node, 'work');
sub work { return value($node, 'work', $_[0]); }

# Runs a worker with one connection until it dies. The jobs that it holds then are not reported.
sub run_worker
{
    my ($name, $queue, $batch) = @_;
    my $session = session($node, 'work');
    my $found_at = time;
    for (;;)
    {
        my $held = $session->query("SELECT id || '/' || lease || '/' || (payload #>> '{}') FROM jobq_claim('$queue', '$name', batch => $batch)");
        last if $held eq '' && $session->query("SELECT EXISTS (SELECT FROM jobq.jobs WHERE queue = '$queue' AND status IN ('blocked', 'pending', 'processing'))") eq 'f';
        $found_at = time if $held ne '';
        POSIX::_exit(1) if time - $found_at > 90;
        usleep(50_000) if $held eq '';
        for my $job (split /\n/, $held)
        {
            my ($id, $lease, $does) = split m{/}, $job;
            if ($does eq 'guilty')
            {
                $session->{run}->signal('KILL');
                POSIX::_exit(9);
            }
            $session->query("SELECT jobq_complete($id, $lease)");
        }
    }
    $session->{run}->signal('KILL');
    POSIX::_exit(0);
}

# Keeps a number of workers running until they find no more jobs. A worker that has died is replaced by a process with the same name
# or another one. Returns the number of deaths.
sub work_off
{
    my ($queue, $workers, $batch, $renamed) = @_;
    my (%running, %known_as);
    my ($number, $deaths) = (0, 0);
    my @names = map { "worker $_" } 1 .. $workers;
    my $start = sub {
        my ($name) = @_;
        my $as = $renamed ? $name . ' ' . $number++ : $name;
        my $pid = fork // die "fork: $!";
        run_worker($as, $queue, $batch) if $pid == 0;
        $running{$pid} = $name;
        $known_as{$pid} = $as;
    };
    $start->($_) for @names;
    while (%running)
    {
        my $pid = waitpid(-1, 0);
        die 'no worker left' if $pid < 0;
        my $name = delete $running{$pid} // next;
        next if $? == 0;
        if ($? >> 8 == 1)
        {
            kill 'KILL', keys %running;
            die "$queue: a worker has found no job for 90 s, but there are unfinished jobs";
        }
        $deaths++;
        # Makes the leases of the dead worker look an hour overdue.
        work("UPDATE jobq.jobs SET last_heartbeat = last_heartbeat - interval '2 hours' WHERE worker_id = '$known_as{$pid}' AND status = 'processing'");
        BAIL_OUT("$queue: more than 500 workers have died") if $deaths > 500;
        $start->($name);
    }
    return $deaths;
}

sub fate
{
    my ($queue) = @_;
    return work(qq{SELECT string_agg(n || ' ' || job || ' ' || status, ', ' ORDER BY job, status)
                   FROM (SELECT count(*) AS n, CASE payload WHEN '"guilty"' THEN 'guilty' ELSE 'innocent' END AS job, status
                         FROM jobq.jobs WHERE queue = '$queue' GROUP BY 2, 3) f});
}

# One guilty job among a hundred, and one worker. The rescue takes the batch in four pieces.
work(q{SELECT jobq_create_queue('one', heartbeat_timeout => '1 hour'),
              jobq_create_queue('many', heartbeat_timeout => '1 hour', round_robin => true), jobq_set_limit('many', '*', max_running => 40)});
work(q{SELECT count(jobq_enqueue('one', CASE n WHEN 38 THEN '"guilty"' ELSE to_jsonb(n) END)) FROM generate_series(1, 100) n});
my $begin = time;
my $deaths = work_off('one', 1, 100, 0);
report_seconds('a batch of 100 with one guilty job', time - $begin);
is(fate('one'), '1 guilty failed, 99 innocent completed', 'of a hundred jobs that were lost together, only the guilty one fails');
is($deaths, 4, 'one worker died with its batch, and three with the guilty job alone');
is(work(q{SELECT max(attempts), sum(lost_attempts) FROM jobq.jobs WHERE queue = 'one' AND status = 'completed'}), '2|0', 'the other jobs ran at most once more and have no lost attempt');
is(work(q{SELECT count(*) FROM jobq.attempts a JOIN jobq.jobs j ON j.id = a.job_id WHERE j.queue = 'one' AND a.outcome = 'lost'}), '66', 'each lost attempt is recorded: 63 in the batch and three alone');

# Many workers and several guilty jobs, with groups and limits.
work(q{SELECT count(jobq_enqueue('many', CASE WHEN n % 50 = 13 THEN '"guilty"' ELSE to_jsonb(n) END, concurrency_key => 'k' || n % 7,
                                 group_key => CASE WHEN n % 10 = 5 THEN 'g' || n % 3 END)) FROM generate_series(1, 300) n});
$begin = time;
$deaths = work_off('many', 4, 20, 1);
report_seconds('300 jobs, six of them guilty, four workers', time - $begin);
is(fate('many'), '6 guilty failed, 294 innocent completed', 'with four workers, limits, groups, and round robin, only the guilty jobs fail');
cmp_ok($deaths, '<=', 6 * 4, 'no guilty job killed more than four workers');
is(work(q{SELECT max(lost_attempts) FROM jobq.jobs WHERE queue = 'many' AND status = 'completed'}), '0', 'no other job has a lost attempt');
is(work(q{SELECT count(*) FROM jobq.jobs WHERE _queue_slot IS NOT NULL OR _key_slot IS NOT NULL OR _kind_slot IS NOT NULL OR _limit_slot1 IS NOT NULL OR lease IS NOT NULL}), '0', 'no lease or slot is held anymore');

# Measures the cost of a claim by a worker that is on trial, in rows read and in scans: it reads each suspect before the other jobs
# once, and does nothing else for it.
sub crowd
{
    my ($queue, $count, $key) = @_;
    work(qq{SELECT count(jobq_enqueue('$queue', to_jsonb(n), concurrency_key => $key)) FROM generate_series(1, $count) n});
    work(qq{UPDATE jobq.jobs SET lost_attempts = 1 WHERE queue = '$queue'});
    work(qq{SELECT count(jobq_enqueue('$queue', '"normal"', concurrency_key => 'normal')) FROM generate_series(1, 3)});
    is(work(qq{SELECT payload FROM jobq_claim('$queue', 'w $queue', 9, heartbeat_timeout => '1 hour')}) =~ s/"normal"//gr =~ /^\d+$/, 1,
        "$queue: a suspect is handed out alone");
}
sub take { my ($queue, $who) = @_; return work(qq{SELECT string_agg(payload #>> '{}', ' ') FROM jobq_claim('$queue', '$who', 9, heartbeat_timeout => '1 hour')}); }
# Tests that the cheapest of several claims is cheap enough. Remembered state may be evicted from time to time.
sub cheap
{
    my ($queue, $column, $below, $name) = @_;
    my $cost;
    my $took = seconds_until(
        sub {
            my @lines = split /\n/, work(qq{BEGIN; SELECT count(*) FROM jobq_claim('$queue', 'w $queue', 9);
                                            SELECT $column FROM pg_stat_xact_user_tables WHERE relid = 'jobq.jobs'::regclass; COMMIT});
            $cost = $lines[-1];
            return $lines[0] == 0 && $cost < $below;
        });
    ok(defined $took, $name) or diag("$column: $cost");
}
crowd('crowd', 2000, 'NULL');
is(take('crowd', 'w crowd'), 'normal normal normal', 'a worker on trial gets the jobs after 2,000 suspects');
cheap('crowd', 'idx_tup_fetch', 2100, 'its next claims read each suspect once');
work(q{SELECT jobq_enqueue('crowd', '"urgent"', priority => -1), jobq_enqueue('crowd', '"late"')});
is(take('crowd', 'w crowd') . ', ' . take('crowd', 'w crowd'), 'urgent, late', 'it gets new jobs before and after the suspects at once');
work(q{UPDATE jobq.jobs SET lost_attempts = 0 WHERE queue = 'crowd' AND payload = '1000'});
is(take('crowd', 'w crowd'), '1000', 'it gets a job among them that is no longer a suspect');
like(take('crowd', 'other crowd'), qr/^\d+$/, 'another worker gets a suspect');
work(q{SELECT count(jobq_complete(id, lease)) FROM jobq.jobs WHERE queue = 'crowd' AND status = 'processing'});
like(take('crowd', 'w crowd'), qr/^\d+$/, 'the first worker gets a suspect when its trial is over');

work(q{SELECT jobq_set_limit('limited crowd', max_running => 50), jobq_set_limit('limited crowd', '*', max_running => 20)});
crowd('limited crowd', 2000, q{'k' || n % 10});
is(take('limited crowd', 'w limited crowd'), 'normal normal normal', 'limited crowd: a worker on trial gets the jobs after 2,000 suspects');
cheap('limited crowd', 'idx_tup_fetch', 2100, 'limited crowd: it reads each suspect once');
cheap('limited crowd', 'idx_scan', 200, 'limited crowd: it takes no slots for suspects');

work(q{SELECT jobq_create_queue('crowd of keys', round_robin => true)});
crowd('crowd of keys', 2000, q{'k' || n});
my $normal = 0;
seconds_until(sub { $normal += () = (take('crowd of keys', 'w crowd of keys') =~ /normal/g); return $normal == 3; });
is($normal, 3, 'with round robin, a worker on trial gets the other jobs, too');
cheap('crowd of keys', 'idx_scan', 1500, 'a claim does not visit every key');

# The wait of a worker on trial does not end because of suspects.
my $waiting = sleeper($node);
work(q{SELECT count(jobq_enqueue('trial', to_jsonb(n))) FROM generate_series(1, 3) n});
work(q{UPDATE jobq.jobs SET lost_attempts = 1 WHERE queue = 'trial'});
is(take('trial', 'w trial'), '1', 'the worker is on trial');
start($waiting, q{CALL jobq_wait('trial', '2 min', worker_id => 'w trial')});
asleep($waiting);
work(q{SELECT jobq_enqueue('trial', '"normal"')});
wakes($waiting, 'a suspect does not end the wait of a worker on trial, but another job does');
is(take('trial', 'w trial'), 'normal', 'the worker gets this job');
start($waiting, q{CALL jobq_wait('trial', '2 min', worker_id => 'other trial')});
wakes($waiting, 'a suspect ends the wait of another worker');
start($waiting, q{CALL jobq_wait('trial', '2 min', worker_id => 'w trial')});
asleep($waiting);
work(q{SELECT count(jobq_complete(id, lease)) FROM jobq.jobs WHERE queue = 'trial' AND payload = '1'});
ok(seconds_to_end($waiting) < 1e9, 'a suspect ends the wait of the first worker when its trial is over');
is(take('trial', 'w trial'), '2', 'the worker gets the suspect');
start($waiting, q{SET jobq.worker_id = 'w trial'}, q{CALL jobq_wait('trial', '2 min')});
asleep($waiting);
work(q{UPDATE jobq.jobs SET started_at = started_at - interval '1 hour' WHERE queue = 'trial' AND payload = '2'});
ok(seconds_to_end($waiting) < 1e9, 'also if the worker is named by jobq.worker_id and its last wait timed out');
# Two claims of one worker within a moment, with a timeout so short that the leases are known only in shared memory.
work(q{SELECT jobq_create_queue('short', heartbeat_timeout => '1 s', max_lost => 1)});
work(q{SELECT count(jobq_enqueue('short')) FROM generate_series(1, 2)});
work(q{SELECT count(*) FROM jobq_claim('short', 'W'); SELECT pg_sleep(0.2); SELECT count(*) FROM jobq_claim('short', 'W')});
becomes_true($node, 'work', q{SELECT count(*) = 2 FROM jobq.attempts a JOIN jobq.jobs j ON j.id = a.job_id WHERE j.queue = 'short' AND a.outcome = 'lost'}, 'both jobs are lost');
is(work(q{SELECT string_agg(status || ' ' || lost_attempts, ', ') FROM jobq.jobs WHERE queue = 'short'}), 'pending 0, pending 0', 'neither has a lost attempt, because they were lost together');

# A large batch is rescued in many pieces, and the cost grows linearly with their number.
work(q{SELECT jobq_create_queue('large', heartbeat_timeout => '1 s')});
work(q{SELECT count(*) FROM jobq_enqueue_many('large', array_fill('{}'::jsonb, ARRAY[6000]))});
work(q{SELECT count(*) FROM jobq_claim('large', 'gone', batch => 6000)});
becomes_true($node, 'work', q{SELECT NOT EXISTS (SELECT FROM jobq.jobs WHERE queue = 'large' AND status = 'processing')}, '6,000 jobs of one worker are rescued');
is(work(q{SELECT sum(lost_attempts), count(_company_lease) FROM jobq.jobs WHERE queue = 'large'}), '0|6000', 'none has a lost attempt, because they were lost together');

unlike(log_since($node), qr/(?:PANIC|TRAP|terminated by signal)/, 'the server has not crashed');

done_testing();
