# jobq_wake: whose wait it ends and whose not, that no wake is lost, and what becomes of those who are woken.
#
# Waits last an hour here: one that ends has been ended.
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

# Lets a session wait for jobs of a queue under a name.
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

# The wait of a worker who was woken before it began: ended by what was left for it.
sub ends_at_once { my ($sleeper, $queue, $worker, $name) = @_; waits($sleeper, $queue, $worker); return ends($sleeper, $name); }

# ---- one of many

my @crowd = map { sleeper($node) } 0 .. 11;
waits($crowd[$_], 'queue ' . $_ % 3, "w$_") for 0 .. $#crowd;
asleep(@crowd);
is(wake('w7'), '1', 'one of twelve waits is ended');
ends($crowd[7], 'that of the worker who was meant');
is(wake('w1'), '1', 'another name');
ends($crowd[1], 'and its wait');
is(wake('W2'), '0', 'names are exact');
is(value($node, 'neighbour', q{SELECT jobq_wake('w2')}), '0', 'another database has workers of its own');
work(q{BEGIN; SELECT jobq_wake('w3'); ROLLBACK});
ends($crowd[3], 'a wake does not wait for a commit');
sleeps_on($_, 'the others sleep on') for @crowd[ 0, 2, 4 .. 6, 8 .. 11 ];
$other->query(q{SELECT jobq_enqueue('queue 2')});
ends($crowd[2], 'and are woken by jobs as ever');
work(q{SELECT count(jobq_complete(id, lease)) FROM jobq_claim('queue 2')});

# ---- several under one name

waits($crowd[$_], 'queue 0', 'twins') for 1, 2, 3;
asleep(@crowd[ 1, 2, 3 ]);
is(wake('twins'), '3', 'a name that three use');
ends($_, 'all three end') for @crowd[ 1, 2, 3 ];

# ---- a worker that does not wait yet

is(wake('early'), '0', 'nobody waits under that name');
ends_at_once($crowd[1], 'queue 0', 'early', 'the next wait ends at once');
waits($crowd[1], 'queue 0', 'early');
asleep($crowd[1]);
sleeps_on($crowd[1], 'and only that one');
is(wake('early'), '1', 'a wake that finds a sleeper');
ends($crowd[1], 'ends its wait');
waits($crowd[1], 'queue 0', 'early');
asleep($crowd[1]);
sleeps_on($crowd[1], 'and leaves nothing for the next');
wake($_) for qw(early early);
ends($crowd[1], 'two wakes, one sleeper');

# More than there is room for: the latest counts.
work(q{SELECT count(jobq_wake('unknown ' || i)) FROM generate_series(1, 3000) i});
is(wake('latest'), '0', 'after thousands of unknown names');
ends_at_once($crowd[1], 'queue 0', 'latest', 'the latest is remembered');

# Also more than there is room for, but in another database.
is(wake('kept'), '0', 'a wake before another database wakes thousands of unknown names');
value($node, 'neighbour', q{SELECT count(jobq_wake('unknown ' || i)) FROM generate_series(1, 3000) i});
ends_at_once($crowd[1], 'queue 0', 'kept', 'the other database has not evicted it');

# ---- unnamed ones

start($crowd[1], q{CALL jobq_wait('queue 0', '1 hour')});
$crowd[2]{session}->query(q{SET jobq.worker_id = 'by setting'});
start($crowd[2], q{CALL jobq_wait('queue 0', '1 hour')});
waits($crowd[3], 'queue 0', 'by name');
asleep(@crowd[ 1, 2, 3 ]);
is(wake('by setting'), '1', 'the setting jobq.worker_id is a name');
ends($crowd[2], 'by which a worker is woken');
is(sqlstate($node, 'work', "SELECT jobq_wake('backend:$crowd[1]{pid}')"), '22023', 'who did not name itself cannot be woken');
sleeps_on($crowd[1], 'and is not');
is(wake('by name'), '1', 'an argument is a name, too');
ends($crowd[3], 'by which a worker is woken');

# ---- who may

work(q{CREATE ROLE drudge LOGIN; CREATE ROLE boss LOGIN; CREATE ROLE shop LOGIN;
    SELECT jobq_grant('drudge', 'worker'), jobq_grant('boss', 'operator'), jobq_grant('shop', 'producer')});
is(sqlstate($node, 'work', q{SET ROLE shop; SELECT jobq_wake('w')}), '42501', 'not a producer');
my $drudge = sleeper($node, connect_as('drudge'));
for my $role (qw(drudge boss))
{
    waits($drudge, 'rights', 'drudge');
    asleep($drudge);
    is(work("SET ROLE $role; SELECT jobq_wake('drudge')"), '1', "a role like $role may");
    ends($drudge, 'and does');
}
is(sqlstate($node, 'work', q{SET default_transaction_read_only = on; SELECT jobq_wake('w')}), '25006', 'not in a read-only transaction');

# ---- no wake is lost, whenever it comes: before the wait, while it begins, while it sleeps

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
ends($waker, 'and all were sent');

# ---- a job for which somebody was woken who is told to stop goes to another

my ($first, $second) = map { sleeper($node) } 1, 2;
waits($first, 'handed', 'first');
asleep($first);
waits($second, 'handed', 'second');
asleep($second);
kill 'STOP', $first->{pid};
# Whose row is locked: nobody finds it by looking.
$other->query(q{SELECT jobq_enqueue('handed')});
$other->query(q{BEGIN; SELECT FROM jobq.jobs WHERE queue = 'handed' FOR UPDATE});
is(wake('first'), '1', 'the one who waits longest has a job, and is woken');
kill 'CONT', $first->{pid};
ends($first, 'it ends');
ends($second, 'the other is told of the job');
$other->query('ROLLBACK');

# ---- woken and cancelled, woken and terminated, woken and the client gone

for my $end (qw(pg_cancel_backend pg_terminate_backend lost))
{
    for my $woken_first (0, 1)
    {
        my $victim = sleeper($node);
        waits($victim, 'victims', 'victim');
        asleep($victim);
        kill 'STOP', $victim->{pid};
        is(wake('victim'), '1', "$end: woken") if $woken_first;
        $end eq 'lost' ? $victim->{session}{run}->signal('KILL') : work("SELECT $end($victim->{pid})");
        is(wake('victim'), '1', "$end: woken while it ends");
        kill 'CONT', $victim->{pid};
        if ($end eq 'pg_cancel_backend')
        {
            ends($victim, "$end: the call has ended");
            $victim->{session}{stderr} = '';
            is($victim->{session}->query('SELECT 1'), '1', 'the session goes on');
        }
        else
        {
            becomes_true($node, 'work', "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $victim->{pid})", "$end: it has gone");
        }
        eval { $victim->{session}{run}->kill_kill; };
        is(wake('victim'), '0', 'nobody is left in the list');
        ends_at_once($second, 'victims', 'victim', 'and its successor is woken in its place');
    }
}

# ---- where it does nothing

end_sessions($other, map { $_->{session} } $racer, $waker);
stops_fast($node);

my $plain = server('wake_unloaded');
database($plain, 'work');
is(sqlstate($plain, 'work', q{SELECT jobq_wake('w')}), '55000', 'without preload it says that it cannot');
is(sqlstate($plain, 'work', q{CALL jobq_wait('q', '10 ms', worker_id => 'w')}), '00000', 'a wait may be given a name all the same');

done_testing();
