# Jobs that kill their worker, with workers that are processes: each claims a batch, and is killed with SIGKILL by the first
# guilty job that it works on, while it holds the rest. In the end the guilty ones have failed, and all others have completed.
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

# A worker: one connection, which it has until it dies. What it holds is not reported on then.
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

# Keeps so many workers running until they find nothing more. One that has died comes back as a new process of the same name, or
# of another one. Returns how many died.
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
        # The silence of an hour.
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

# One guilty job among a hundred, the worker alone with it. The rescue takes the batch in four pieces.
work(q{SELECT jobq_create_queue('one', heartbeat_timeout => '1 hour'),
              jobq_create_queue('many', heartbeat_timeout => '1 hour', round_robin => true), jobq_set_limit('many', '*', max_running => 40)});
work(q{SELECT count(jobq_enqueue('one', CASE n WHEN 38 THEN '"guilty"' ELSE to_jsonb(n) END)) FROM generate_series(1, 100) n});
my $begin = time;
my $deaths = work_off('one', 1, 100, 0);
report_seconds('a batch of 100 with one guilty job', time - $begin);
is(fate('one'), '1 guilty failed, 99 innocent completed', 'of a hundred that were lost together only the guilty one fails');
is($deaths, 4, 'it took one worker with its batch, and three alone');
is(work(q{SELECT max(attempts), sum(lost_attempts) FROM jobq.jobs WHERE queue = 'one' AND status = 'completed'}), '2|0', 'the others ran once more, and none has a loss of its own');
is(work(q{SELECT count(*) FROM jobq.attempts a JOIN jobq.jobs j ON j.id = a.job_id WHERE j.queue = 'one' AND a.outcome = 'lost'}), '66', 'every attempt is on record: 63 lost in the batch, and three');

# Many workers, several guilty jobs, groups and limits.
work(q{SELECT count(jobq_enqueue('many', CASE WHEN n % 50 = 13 THEN '"guilty"' ELSE to_jsonb(n) END, concurrency_key => 'k' || n % 7,
                                 group_key => CASE WHEN n % 10 = 5 THEN 'g' || n % 3 END)) FROM generate_series(1, 300) n});
$begin = time;
$deaths = work_off('many', 4, 20, 1);
report_seconds('300 jobs, six of them guilty, four workers', time - $begin);
is(fate('many'), '6 guilty failed, 294 innocent completed', 'with four workers, limits, groups and round robin only the guilty ones fail');
cmp_ok($deaths, '<=', 6 * 4, 'none of them took more than four workers');
is(work(q{SELECT max(lost_attempts) FROM jobq.jobs WHERE queue = 'many' AND status = 'completed'}), '0', 'and no other job has a loss of its own');
is(work(q{SELECT count(*) FROM jobq.jobs WHERE _queue_slot IS NOT NULL OR _key_slot IS NOT NULL OR lease IS NOT NULL}), '0', 'nothing is held any more');

# What a claim costs while its worker is on trial, in rows read and in scans: it reads each suspect in front once, and nothing else for it.
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
# The least that one of many claims costs: what is known may be forgotten now and then.
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
is(take('crowd', 'w crowd'), 'normal normal normal', 'a worker on trial gets what is behind 2000 suspects');
cheap('crowd', 'idx_tup_fetch', 2100, 'and its next claims read each of them once');
work(q{SELECT jobq_enqueue('crowd', '"urgent"', priority => -1), jobq_enqueue('crowd', '"late"')});
is(take('crowd', 'w crowd') . ', ' . take('crowd', 'w crowd'), 'urgent, late', 'jobs that come in front of them and behind are there for it at once');
work(q{UPDATE jobq.jobs SET lost_attempts = 0 WHERE queue = 'crowd' AND payload = '1000'});
is(take('crowd', 'w crowd'), '1000', 'and one among them that is a suspect no more');
like(take('crowd', 'other crowd'), qr/^\d+$/, 'another worker gets a suspect');
work(q{SELECT count(jobq_complete(id, lease)) FROM jobq.jobs WHERE queue = 'crowd' AND status = 'processing'});
like(take('crowd', 'w crowd'), qr/^\d+$/, 'and the first one the next when its trial is over');

work(q{SELECT jobq_set_limit('limited crowd', max_running => 50), jobq_set_limit('limited crowd', '*', max_running => 20)});
crowd('limited crowd', 2000, q{'k' || n % 10});
is(take('limited crowd', 'w limited crowd'), 'normal normal normal', 'the same where the queue has limits');
cheap('limited crowd', 'idx_tup_fetch', 2100, 'it reads each of them once');
cheap('limited crowd', 'idx_scan', 200, 'and takes no permits for them');

work(q{SELECT jobq_create_queue('crowd of keys', round_robin => true)});
crowd('crowd of keys', 2000, q{'k' || n});
my $normal = 0;
seconds_until(sub { $normal += () = (take('crowd of keys', 'w crowd of keys') =~ /normal/g); return $normal == 3; });
is($normal, 3, 'where keys take turns a worker on trial comes to the others, too');
cheap('crowd of keys', 'idx_scan', 1500, 'and does not visit every key in one claim');

# A worker on trial does not hear of suspects.
my $waiting = sleeper($node);
work(q{SELECT count(jobq_enqueue('trial', to_jsonb(n))) FROM generate_series(1, 3) n});
work(q{UPDATE jobq.jobs SET lost_attempts = 1 WHERE queue = 'trial'});
is(take('trial', 'w trial'), '1', 'on trial');
start($waiting, q{CALL jobq_wait('trial', '2 min', worker_id => 'w trial')});
asleep($waiting);
work(q{SELECT jobq_enqueue('trial', '"normal"')});
wakes($waiting, 'a suspect that the worker cannot get does not end its wait; another job does');
is(take('trial', 'w trial'), 'normal', 'which it gets');
start($waiting, q{CALL jobq_wait('trial', '2 min', worker_id => 'other trial')});
wakes($waiting, 'for another worker the suspect is there');
start($waiting, q{CALL jobq_wait('trial', '2 min', worker_id => 'w trial')});
asleep($waiting);
work(q{SELECT count(jobq_complete(id, lease)) FROM jobq.jobs WHERE queue = 'trial' AND payload = '1'});
ok(seconds_to_end($waiting) < 1e9, 'and for the first one when its trial is over');
is(take('trial', 'w trial'), '2', 'which it gets then');
start($waiting, q{SET jobq.worker_id = 'w trial'}, q{CALL jobq_wait('trial', '2 min')});
asleep($waiting);
work(q{UPDATE jobq.jobs SET started_at = started_at - interval '1 hour' WHERE queue = 'trial' AND payload = '2'});
ok(seconds_to_end($waiting) < 1e9, 'by the setting too, and when it has outlived a timeout');
# Two claims of one worker a moment apart, with a timeout so short that only shared memory knows them.
work(q{SELECT jobq_create_queue('short', heartbeat_timeout => '1 s', max_lost => 1)});
work(q{SELECT count(jobq_enqueue('short')) FROM generate_series(1, 2)});
work(q{SELECT count(*) FROM jobq_claim('short', 'W'); SELECT pg_sleep(0.2); SELECT count(*) FROM jobq_claim('short', 'W')});
becomes_true($node, 'work', q{SELECT count(*) = 2 FROM jobq.attempts a JOIN jobq.jobs j ON j.id = a.job_id WHERE j.queue = 'short' AND a.outcome = 'lost'}, 'both are lost');
is(work(q{SELECT string_agg(status || ' ' || lost_attempts, ', ') FROM jobq.jobs WHERE queue = 'short'}), 'pending 0, pending 0', 'together');

# A batch of many is rescued in many pieces, at a cost that follows their number.
work(q{SELECT jobq_create_queue('large', heartbeat_timeout => '1 s')});
work(q{SELECT count(*) FROM jobq_enqueue_many('large', array_fill('{}'::jsonb, ARRAY[6000]))});
work(q{SELECT count(*) FROM jobq_claim('large', 'gone', batch => 6000)});
becomes_true($node, 'work', q{SELECT NOT EXISTS (SELECT FROM jobq.jobs WHERE queue = 'large' AND status = 'processing')}, '6,000 jobs of one worker are rescued');
is(work(q{SELECT sum(lost_attempts), count(_company_lease) FROM jobq.jobs WHERE queue = 'large'}), '0|6000', 'together');

unlike(log_since($node), qr/(?:PANIC|TRAP|terminated by signal)/, 'no crash of the server');

done_testing();
