# Tests jobq_wake: which waits it ends, that no wake is lost, and what happens to sessions that are woken.
#
# Waits last an hour here, so a wait that ends has been ended by a wake or a job.
use strict;
use warnings FATAL => 'all';

BEGIN { $ENV{PG_TEST_TIMEOUT_DEFAULT} //= 180; }

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqSleep;
use JobqTest;
use Test::More;

my $node = preloaded('wake', conf => ['max_connections = 60']);
database($node, 'work');
database($node, 'neighbour');
my $other = session($node, 'work');
sub work { my ($sql) = @_; return value($node, 'work', $sql); }
sub wake { my ($worker) = @_; return work("SELECT jobq_wake('$worker')"); }

# Makes a session wait for jobs of a queue with a worker id.
sub waits
{
    my ($sleeper, $queue, $worker, $then) = @_;
    return start($sleeper, "CALL jobq_wait('$queue', '1 hour', worker_id => '$worker')", $then);
}

sub ends
{
    my ($sleeper, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return ok(seconds_to_end($sleeper, 60) < 60, $name);
}

# Tests a wait whose worker was woken before it began: it ends at once.
sub ends_at_once { my ($sleeper, $queue, $worker, $name) = @_; waits($sleeper, $queue, $worker); return ends($sleeper, $name); }

# ---- one of many workers

my @crowd = map { sleeper($node) } 0 .. 11;
waits($crowd[$_], 'queue ' . $_ % 3, "w$_") for 0 .. $#crowd;
asleep(@crowd);
is(wake('w7'), '1', 'one of twelve waits is ended');
ends($crowd[7], 'the wait of the named worker ends');
is(wake('w1'), '1', 'another worker is woken');
ends($crowd[1], 'its wait ends');
is(wake('W2'), '0', 'names are case-sensitive');
is(value($node, 'neighbour', q{SELECT jobq_wake('w2')}), '0', 'workers of another database are not woken');
work(q{BEGIN; SELECT jobq_wake('w3'); ROLLBACK});
ends($crowd[3], 'a wake takes effect before its transaction commits');
sleeps_on($_, 'the other sessions still sleep') for @crowd[ 0, 2, 4 .. 6, 8 .. 11 ];
$other->query(q{SELECT jobq_enqueue('queue 2')});
ends($crowd[2], 'jobs wake up the other sessions as usual');
work(q{SELECT count(jobq_complete(id, lease)) FROM jobq_claim('queue 2')});

# ---- several sessions with the same worker id

waits($crowd[$_], 'queue 0', 'twins') for 1, 2, 3;
asleep(@crowd[ 1, 2, 3 ]);
is(wake('twins'), '3', 'three sessions have the worker id');
ends($_, 'all three waits end') for @crowd[ 1, 2, 3 ];

# ---- a worker that is not waiting yet

is(wake('early'), '0', 'no session waits with this worker id');
ends_at_once($crowd[1], 'queue 0', 'early', 'its next wait ends at once');
waits($crowd[1], 'queue 0', 'early');
asleep($crowd[1]);
sleeps_on($crowd[1], 'the wait after that does not end');
is(wake('early'), '1', 'a wake finds the sleeping session');
ends($crowd[1], 'and ends its wait');
waits($crowd[1], 'queue 0', 'early');
asleep($crowd[1]);
sleeps_on($crowd[1], 'the next wait does not end');
wake($_) for qw(early early);
ends($crowd[1], 'two wakes end one wait');

# More wakes than can be remembered. The latest ones are kept.
work(q{SELECT count(jobq_wake('unknown ' || i)) FROM generate_series(1, 3000) i});
is(wake('latest'), '0', 'a wake after thousands of unknown worker ids');
ends_at_once($crowd[1], 'queue 0', 'latest', 'the latest wake is remembered');

# More wakes than can be remembered, but in another database.
is(wake('kept'), '0', 'a wake before another database wakes thousands of unknown names');
value($node, 'neighbour', q{SELECT count(jobq_wake('unknown ' || i)) FROM generate_series(1, 3000) i});
ends_at_once($crowd[1], 'queue 0', 'kept', 'the other database has not evicted the wake');

# ---- sessions without a worker id

start($crowd[1], q{CALL jobq_wait('queue 0', '1 hour')});
$crowd[2]{session}->query(q{SET jobq.worker_id = 'by setting'});
start($crowd[2], q{CALL jobq_wait('queue 0', '1 hour')});
waits($crowd[3], 'queue 0', 'by name');
asleep(@crowd[ 1, 2, 3 ]);
is(wake('by setting'), '1', 'jobq.worker_id names a worker');
ends($crowd[2], 'the wait of this worker ends');
is(sqlstate($node, 'work', "SELECT jobq_wake('backend:$crowd[1]{pid}')"), '22023', 'a session without a worker id cannot be woken');
sleeps_on($crowd[1], 'its wait does not end');
is(wake('by name'), '1', 'the argument worker_id names a worker');
ends($crowd[3], 'the wait of this worker ends');

# ---- privileges

work(q{CREATE ROLE drudge LOGIN; CREATE ROLE boss LOGIN; CREATE ROLE shop LOGIN;
    SELECT jobq_grant('drudge', 'worker'), jobq_grant('boss', 'operator'), jobq_grant('shop', 'producer')});
is(sqlstate($node, 'work', q{SET ROLE shop; SELECT jobq_wake('w')}), '42501', 'a producer cannot wake workers');
my $drudge = sleeper($node, connect_as('drudge'));
for my $role (qw(drudge boss))
{
    waits($drudge, 'rights', 'drudge');
    asleep($drudge);
    is(work("SET ROLE $role; SELECT jobq_wake('drudge')"), '1', "a role with the privileges of $role can wake workers");
    ends($drudge, 'the wait of the worker ends');
}
is(sqlstate($node, 'work', q{SET default_transaction_read_only = on; SELECT jobq_wake('w')}), '25006', 'rejected in a read-only transaction');

# ---- no wake is lost, whether it comes before the wait, when the wait begins, or while the session sleeps

work(q{CREATE UNLOGGED TABLE rounds (waits int); INSERT INTO rounds VALUES (0)});
my $rounds = 6000;
my $racer = sleeper($node);
start($racer, qq{DO \$\$ BEGIN FOR i IN 1 .. $rounds LOOP
    UPDATE rounds SET waits = i;
    COMMIT;
    CALL jobq_wait('race', '1 hour', worker_id => 'racer');
END LOOP; END \$\$});
my $waker = sleeper($node);
start($waker, qq{DO \$\$ DECLARE until timestamptz; BEGIN FOR i IN 1 .. $rounds LOOP
    WHILE (SELECT waits FROM rounds) < i LOOP PERFORM pg_sleep(0.0001); COMMIT; END LOOP;
    until := clock_timestamp() + random() * interval '200 us';
    WHILE clock_timestamp() < until LOOP END LOOP;
    PERFORM jobq_wake('racer');
    COMMIT;
END LOOP; END \$\$});
ok(seconds_to_end($racer, 180) < 180, "each of $rounds waits was ended by its wake")
  or diag('stopped at round ' . work('SELECT waits FROM rounds'));
ends($waker, 'all wakes were sent');

# ---- if a session is woken for a job and told to stop at the same time, the job wakes up another session

my ($first, $second) = map { sleeper($node) } 1, 2;
waits($first, 'handed', 'first');
asleep($first);
waits($second, 'handed', 'second');
asleep($second);
kill 'STOP', $first->{pid};
# Its row is locked, so no session finds the job by checking the table.
$other->query(q{SELECT jobq_enqueue('handed')});
$other->query(q{BEGIN; SELECT FROM jobq.jobs WHERE queue = 'handed' FOR UPDATE});
is(wake('first'), '1', 'the session that has waited longest is woken for a job and told to stop');
kill 'CONT', $first->{pid};
ends($first, 'its wait ends');
ends($second, 'the job wakes up the other session');
$other->query('ROLLBACK');

# ---- a session that is woken and cancelled, woken and terminated, or woken while its client goes away

for my $end (qw(pg_cancel_backend pg_terminate_backend lost))
{
    for my $woken_first (0, 1)
    {
        my $victim = sleeper($node);
        waits($victim, 'victims', 'victim');
        asleep($victim);
        kill 'STOP', $victim->{pid};
        is(wake('victim'), '1', "$end: the session is woken") if $woken_first;
        $end eq 'lost' ? $victim->{session}{run}->signal('KILL') : work("SELECT $end($victim->{pid})");
        is(wake('victim'), '1', "$end: the session is woken while it ends");
        kill 'CONT', $victim->{pid};
        if ($end eq 'pg_cancel_backend')
        {
            ends($victim, "$end: the wait has ended");
            $victim->{session}{stderr} = '';
            is($victim->{session}->query('SELECT 1'), '1', 'the session can be used afterward');
        }
        else
        {
            becomes_true($node, 'work', "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $victim->{pid})", "$end: the session has exited");
        }
        eval { $victim->{session}{run}->kill_kill; };
        is(wake('victim'), '0', 'no session with the worker id is registered');
        ends_at_once($second, 'victims', 'victim', 'the next wait with this worker id ends at once');
    }
}

# ---- without preload

end_sessions($other, map { $_->{session} } $racer, $waker);
stops_fast($node);

my $plain = server('wake_unloaded');
database($plain, 'work');
is(sqlstate($plain, 'work', q{SELECT jobq_wake('w')}), '55000', 'jobq_wake is rejected without preload');
is(sqlstate($plain, 'work', q{CALL jobq_wait('q', '10 ms', worker_id => 'w')}), '00000', 'a wait may have a worker id without preload');

done_testing();
