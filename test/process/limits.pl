# Tests limits with 64 concurrent claiming sessions: limits are never exceeded, whatever is rolled back, terminated, killed, or
# prepared; every slot is released, so that the queue can be drained; claims do not wait; rates are kept; jobs without a free slot
# do not slow down the claims of jobs after them.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use List::Util qw(sum);
use JobqSleep;
use JobqTest;
use JobqTime;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my ($in_queue, $of_key, $of_kind, $keys, $jobs) = (7, 2, 4, 5, 4000);
my $node = preloaded('limits', conf => ['max_connections = 100', 'max_prepared_transactions = 10', 'deadlock_timeout = 10ms', 'log_lock_waits = on']);
database($node, 'work');
value($node, 'work', qq{
    SELECT jobq_set_limit('q', max_running => $in_queue), jobq_set_limit('q', '*', max_running => $of_key), jobq_set_limit('q', kind => '*', max_running => $of_kind);
    CREATE TABLE looks (claims bigint, looks bigint, most int);
    -- What a snapshot shows is what was true at one moment.
    CREATE FUNCTION look() RETURNS int LANGUAGE plpgsql AS \$\$
    DECLARE
        running int;
        of_key int;
        of_kind int;
    BEGIN
        SELECT sum(n) FILTER (WHERE key IS NOT NULL), max(n) FILTER (WHERE key IS NOT NULL), max(n) FILTER (WHERE kind IS NOT NULL)
        INTO running, of_key, of_kind
        FROM (SELECT concurrency_key AS key, kind, count(*) AS n FROM jobq.jobs WHERE queue = 'q' AND status = 'processing'
              GROUP BY GROUPING SETS (concurrency_key, kind)) k;
        IF running > $in_queue OR of_key > $of_key OR of_kind > $of_kind THEN
            RAISE EXCEPTION 'exceeded: % run, % of one key, % of one kind', running, of_key, of_kind USING ERRCODE = 'XX001';
        END IF;
        RETURN coalesce(running, 0);
    END \$\$;
    -- Claims in all ways: kept, rolled back, in savepoints, with completions in one call, in long transactions.
    CREATE PROCEDURE claim_and_look(seed int, until timestamptz) LANGUAGE plpgsql AS \$\$
    DECLARE
        r float8;
        claims bigint := 0;
        looked bigint := 0;
        most int := 0;
        ids bigint[] := '{}';
        leases bigint[] := '{}';
        own text := 'worker ' || seed;
    BEGIN
        PERFORM setseed(seed / 1000.0);
        WHILE clock_timestamp() < until LOOP
            r := random();
            BEGIN
                SELECT coalesce(array_agg(id), '{}'), coalesce(array_agg(lease), '{}') INTO ids, leases FROM jobq.jobs WHERE worker_id = own AND status = 'processing';
                IF r < 0.5 THEN
                    PERFORM jobq_complete_and_claim(ids, leases, queue => 'q', worker_id => own, batch => 1 + (random() * 3)::int);
                ELSIF r < 0.6 THEN
                    PERFORM jobq_release_many(ids, leases);
                    PERFORM jobq_claim('q', own, 2);
                ELSIF r < 0.7 THEN
                    PERFORM jobq_fail_many(ids, leases, retry_in => '0');
                    PERFORM jobq_claim('q', own, 1);
                ELSE
                    PERFORM jobq_claim('q', own, 3);
                    PERFORM jobq_heartbeat(j.id, j.lease, to_jsonb(repeat('x', (random() * 2000)::int))) FROM jobq.jobs j WHERE j.worker_id = own AND j.status = 'processing';
                    IF random() < 0.2 THEN PERFORM pg_sleep(random() * 0.02); END IF;
                    IF random() < 0.5 THEN RAISE EXCEPTION 'savepoint' USING ERRCODE = 'XX002'; END IF;
                END IF;
                claims := claims + 1;
            EXCEPTION WHEN SQLSTATE 'XX002' THEN
                PERFORM jobq_claim('q', own, 1);
            END;
            IF random() < 0.2 THEN ROLLBACK; ELSE COMMIT; END IF;
            most := greatest(most, look());
            looked := looked + 1;
            COMMIT;
        END LOOP;
        PERFORM jobq_complete_many(array_agg(id), array_agg(lease)) FROM jobq.jobs WHERE worker_id = own AND status = 'processing' HAVING count(*) > 0;
        INSERT INTO looks VALUES (claims, looked, most);
    END \$\$;
    CREATE PROCEDURE drain(until timestamptz) LANGUAGE plpgsql AS \$\$
    BEGIN
        WHILE clock_timestamp() < until AND EXISTS (SELECT FROM jobq.jobs WHERE _ready) LOOP
            PERFORM jobq_complete(id, lease) FROM jobq_claim('q', batch => 5);
            PERFORM look();
            COMMIT;
        END LOOP;
    END \$\$});
sub fill { return value($node, 'work', qq{SELECT count(jobq_enqueue('q', concurrency_key => 'k' || n % $keys, priority => n % 3, kind => 'k' || n % 2)) FROM generate_series(1, $jobs) n}); }
sub running { return value($node, 'work', q{SELECT count(*) FROM jobq.jobs WHERE status = 'processing'}); }

# ---- 64 claiming sessions

fill();
my $log = log_size($node);
my @claimers = map { sleeper($node) } 1 .. 64;
my $seconds = 12;
start($claimers[ $_ - 1 ], "CALL claim_and_look($_, clock_timestamp() + interval '$seconds seconds')") for 1 .. 64;
# Eight of them are terminated.
for my $victim (@claimers[ 0 .. 7 ])
{
    usleep(500_000);
    value($node, 'postgres', "SELECT pg_terminate_backend($victim->{pid})");
}
for my $claimer (@claimers[ 8 .. 63 ])
{
    cmp_ok(seconds_to_end($claimer, 120), '<', 120, 'a claiming session has ended');
    is($claimer->{session}{stderr}, '', 'it has never seen an exceeded limit');
}
my ($claims, $looks, $most) = split /\|/, value($node, 'work', 'SELECT sum(claims), sum(looks), max(most) FROM looks');
note("$claims claims, $looks looks, at most $most at once");
cmp_ok($looks, '>', 1000, 'the limit was checked often enough');
is($most, $in_queue, 'the limit was reached');
# Only claims must not wait for a lock. A completion may wait for the background worker, which enters the job into the rescue's
# index.
my $claim_waits = qr/still waiting for \w+ on (?!extension)[^\n]*\n[^\n]*DETAIL:[^\n]*\n[^\n]*CONTEXT:(?:[^\n]*\n\t)*?[^\n]*jobq_claim\(/;
is(count_in_log($node, qr/$claim_waits|deadlock detected/, $log), 0, 'no claim waited for a lock');

# The rescue takes the jobs of the terminated sessions.
value($node, 'work', q{UPDATE jobq.jobs SET last_heartbeat = last_heartbeat - interval '1 day', started_at = clock_timestamp() + interval '1 second' WHERE status = 'processing'});
becomes_true($node, 'work', q{SELECT count(*) = 0 FROM jobq.jobs WHERE status = 'processing'}, 'no job is running');
is(value($node, 'work', q{SELECT count(*) FROM jobq.jobs WHERE _queue_slot IS NOT NULL OR _key_slot IS NOT NULL OR _kind_slot IS NOT NULL}), '0', 'no slot is taken');
# Lost jobs are handed out one at a time, which this test is not about.
value($node, 'work', q{DELETE FROM jobq.jobs WHERE _company_lease IS NOT NULL OR lost_attempts > 0});
fill();    # on a fast machine, all jobs are completed by now
is(value($node, 'work', qq{SELECT least($in_queue, count(DISTINCT concurrency_key) * $of_key) - (SELECT count(*) FROM jobq_claim('q', batch => 100)) FROM jobq.jobs WHERE status = 'pending'}),
    '0', 'all slots can be taken again');
value($node, 'work', q{SELECT jobq_release_many(array_agg(id), array_agg(lease)) FROM jobq.jobs WHERE status = 'processing'});

# ---- a crash of the server during claims, and a prepared claim

value($node, 'work', q{TRUNCATE looks; SELECT jobq_retry_jobs('q', statuses => '{completed}', max_jobs => 2000)});
is(sqlstate($node, 'work', q{BEGIN; SELECT count(*) FROM jobq_claim('q', 'prepared', 3); PREPARE TRANSACTION 'claim'}), '00000', 'a claim is prepared');
$_->{session}{run}->kill_kill for @claimers;
@claimers = map { sleeper($node) } 1 .. 20;
start($claimers[ $_ - 1 ], "CALL claim_and_look($_, clock_timestamp() + interval '60 seconds')") for 1 .. 20;
usleep(2_000_000);
kill_server($node);
$_->{session}{run}->kill_kill for @claimers;
starts_again($node);
is(value($node, 'work', 'SELECT look() >= 0'), 't', 'no limit is exceeded after the crash');
my $visible = running();
cmp_ok(value($node, 'work', q{SELECT count(*) FROM jobq_claim('q', 'after', 100)}), '<=', $in_queue - 3 - $visible, 'the prepared claim counts toward the limit');
value($node, 'work', q{COMMIT PREPARED 'claim'});
is(value($node, 'work', 'SELECT look() >= 0'), 't', 'no limit is exceeded after COMMIT PREPARED');

# All slots are released in the end: twenty sessions drain the queue.
value($node, 'work', q{SELECT jobq_release_many(array_agg(id), array_agg(lease)) FROM jobq.jobs WHERE status = 'processing'});
@claimers = map { sleeper($node) } 1 .. 20;
start($_, q{CALL drain(clock_timestamp() + interval '180 seconds')}) for @claimers;
cmp_ok(seconds_to_end($_, 200), '<', 200, 'a draining session ends') for @claimers;
is(join('', map { $_->{session}{stderr} } @claimers), '', 'drained without an error');
is(value($node, 'work', q{SELECT count(*) FROM jobq.jobs WHERE _ready}), '0', 'no claimable job is left');
end_sessions(map { $_->{session} } @claimers);

# ---- jobq_complete_and_claim gets the slot that it releases, whatever is assumed about the limit

value($node, 'work', q{SELECT jobq_set_limit('fused', max_running => 1), jobq_enqueue_many('fused', array_fill('1'::jsonb, ARRAY[100]))});
becomes_true($node, 'work', q{SELECT count(*) = 0 FROM jobq.unslotted}, 'the limit is settled');
is(value($node, 'work', q{DO $$ DECLARE held record; BEGIN
        SELECT id, lease INTO held FROM jobq_claim('fused');
        FOR i IN 1 .. 50 LOOP
            COMMIT;
            IF EXISTS (SELECT FROM jobq_claim('fused')) THEN RAISE 'two at once'; END IF;
            SELECT id, lease INTO held FROM jobq_complete_and_claim(ARRAY[held.id], ARRAY[held.lease], queue => 'fused');
            IF held.id IS NULL THEN RAISE 'nothing the %th time', i; END IF;
        END LOOP; END $$; SELECT count(*) FROM jobq.jobs WHERE queue = 'fused' AND status = 'completed'}), '50', 'fifty times in a row');

# ---- sleeping sessions are woken up by a released slot, by the next token, and by a change of the limit

value($node, 'work', q{SELECT jobq_set_limit('w', max_running => 1), jobq_enqueue('w'), jobq_enqueue('w'), jobq_enqueue('w')});
my ($id, $lease) = split /\|/, value($node, 'work', q{SELECT id, lease FROM jobq_claim('w')});
my $sleeper = sleeper($node);

# A full limit is assumed to be full for ten seconds. After that, a wait returns once so that a claim can check the limit.
sub sleeps_at_limit
{
    my ($name, $arguments) = (@_, q{'w'});
    my $sleeps = 0;
    for my $try (1 .. 20)
    {
        value($node, 'work', "SELECT count(*) FROM jobq_claim($arguments)");
        start($sleeper, "CALL jobq_wait($arguments, timeout => '120 s')");
        usleep(400_000);
        last if $sleeps = !ended($sleeper);
    }
    return ok($sleeps, $name);
}
sleeps_at_limit('a session sleeps while the limit is full');
value($node, 'work', "SELECT jobq_complete($id, $lease)");
wakes($sleeper, 'a released slot wakes up the session');
sleeps_at_limit('a session sleeps while the limit is full again');
value($node, 'work', q{SELECT jobq_set_limit('w', max_running => 2)});
wakes($sleeper, 'a raised limit wakes up the session');
# The limit of a kind holds back only the sessions that wait for this kind.
value($node, 'work', q{SELECT jobq_set_limit('k', kind => 'a', max_running => 1), jobq_enqueue('k', kind => 'a'), jobq_enqueue('k', kind => 'a')});
($id, $lease) = split /\|/, value($node, 'work', q{SELECT id, lease FROM jobq_claim('k')});
sleeps_at_limit('a session sleeps while the limit of its kind is full', q{'k', kinds => '{a}'});
value($node, 'work', "SELECT jobq_complete($id, $lease)");
wakes($sleeper, 'a released slot of the kind wakes up the session');
($id, $lease) = split /\|/, value($node, 'work', q{SELECT id, lease FROM jobq_claim('k')});
value($node, 'work', q{SELECT jobq_enqueue('k', kind => 'a')});
sleeps_at_limit('a session that waits for any kind sleeps, too', q{'k'});
value($node, 'work', q{SELECT jobq_enqueue('k', kind => 'b')});
wakes($sleeper, 'a job of another kind wakes up the session');
# A named limit holds back the sessions of all its queues. A slot that is released in one queue wakes up a session of another, and so
# does a claim that is rolled back.
value($node, 'work', q{SELECT jobq_set_named_limit('n', '{n1,n2}', max_running => 1), jobq_enqueue('n1', options => '{"limits": ["n"]}'), jobq_enqueue('n1', options => '{"limits": ["n"]}'), jobq_enqueue('n2', options => '{"limits": ["n"]}')});
($id, $lease) = split /\|/, value($node, 'work', q{SELECT id, lease FROM jobq_claim('n1')});
sleeps_at_limit('a session sleeps while a job of another queue holds the only slot', q{'n2'});
value($node, 'work', "SELECT jobq_complete($id, $lease)");
wakes($sleeper, 'a slot that is released in another queue wakes up the session');
my $holder = session($node, 'work');
$holder->query(q{BEGIN; SELECT count(*) FROM jobq_claim('n1')});
start($sleeper, q{CALL jobq_wait('n2', timeout => '120 s')});
sleeps_on($sleeper, 'a session sleeps while an open claim of another queue holds the slot');
$holder->query('ROLLBACK');
wakes($sleeper, 'a claim that is rolled back in another queue wakes up the session');
end_sessions($holder);
# A queue that is added to the limit is woken up, too.
($id, $lease) = split /\|/, value($node, 'work', q{SELECT id, lease FROM jobq_claim('n1')});
value($node, 'work', q{SELECT jobq_set_named_limit('n', '{n1,n2,n3}', max_running => 1), jobq_enqueue('n3', options => '{"limits": ["n"]}')});
sleeps_at_limit('a session of an added queue sleeps', q{'n3'});
value($node, 'work', q{SELECT jobq_set_named_limit('n', '{n2,n3}', max_running => 1)});
sleeps_at_limit('a session sleeps while a job of a queue that was removed holds the slot', q{'n3'});
value($node, 'work', "SELECT jobq_complete($id, $lease)");
wakes($sleeper, 'the end of this job wakes up the session');
value($node, 'work', q{SELECT jobq_set_limit('rate', rate => 1, per => '6 s'), jobq_enqueue('rate'), jobq_enqueue('rate')});
value($node, 'work', q{SELECT count(*) FROM jobq_claim('rate', batch => 5)}) for 1 .. 2;
becomes_true($node, 'work', q{SELECT count(*) = 1 FROM jobq.jobs WHERE queue = 'rate' AND status = 'processing' OR (SELECT count(*) > 9 FROM jobq_claim('rate'))}, 'one job has started');
my $due = value($node, 'work', q{SELECT coalesce(extract(epoch FROM next_token - clock_timestamp()), 0) FROM jobq.limits WHERE queue = 'rate'});
start($sleeper, q{CALL jobq_wait('rate', '3 min')});
my $took = seconds_to_end($sleeper, 10);
note(sprintf 'the next token is due in %.2f s, and wakes after %.2f', $due, $took);
cmp_ok($took, '>=', $due - $slack, 'the next token wakes up the session, and not early');
in_time($took, $due + $slack, 'and not late');

# ---- rates are kept

# The leases are long enough that none expires during the test. A claim takes a job whose lease has expired alone, so a batch would
# be smaller.
value($node, 'work', q{SELECT jobq_set_limit('fast', rate => 200, per => '1 s'); SELECT jobq_enqueue_many('fast', array_fill('1'::jsonb, ARRAY[5000]));
    CREATE PROCEDURE take(until timestamptz) LANGUAGE plpgsql AS $$ BEGIN
        WHILE clock_timestamp() < until LOOP PERFORM jobq_claim('fast', batch => 7, heartbeat_timeout => '1 day'); COMMIT; PERFORM jobq_claim('fast'); ROLLBACK; END LOOP; END $$});
my @takers = map { sleeper($node) } 1 .. 8;
my $began = time;
start($_, q{CALL take(clock_timestamp() + interval '3 seconds')}) for @takers;
seconds_to_end($_) for @takers;
my $elapsed = time - $began;
my $started = value($node, 'work', q{SELECT count(*) FROM jobq.jobs WHERE queue = 'fast' AND status = 'processing'});
note(sprintf('%d jobs started in %.1f s at 200 a second', $started, $elapsed));
cmp_ok($started, '<=', 200 + 200 * $elapsed, 'the number of started jobs is at most the rate plus a full bucket');
cmp_ok($started, '>', 100, 'the rate is used');
end_sessions(map { $_->{session} } @takers);
# Jobs of a key that has no token are skipped. When it has tokens again, the next batch contains as many of its jobs as there are
# tokens.
value($node, 'work', q{SELECT jobq_set_limit('batches', '*', rate => 100, per => '1 s'); SELECT jobq_enqueue_many('batches', array_fill('1'::jsonb, ARRAY[1000]), concurrency_keys => array_fill('k'::text, ARRAY[1000]))});
value($node, 'work', q{SELECT count(*) FROM jobq_claim('batches', batch => 200)}) for 1 .. 5;
becomes_true($node, 'work', q{SELECT tokens = 100 FROM jobq.limit_tokens('batches', 'k', 100, '1 s')}, 'the bucket is full again');
is(value($node, 'work', q{SELECT count(*) >= 100 FROM jobq_claim('batches', batch => 200)}), 't', 'a batch uses all tokens');
# After a start of the server the bucket is empty.
$node->restart;
value($node, 'work', q{SELECT jobq_set_limit('slow', rate => 5, per => '1 day'), jobq_enqueue('slow')});
is(value($node, 'work', q{SELECT count(*) FROM jobq_claim('slow')}), '0', 'a bucket is empty after a start of the server');

# ---- a key whose own limit has only a rate, when this limit is removed

value($node, 'work', q{SELECT jobq_set_limit('rated', '*', max_running => 2), jobq_set_limit('rated', 'own', rate => 1000),
    jobq_enqueue_many('rated', array_fill('{}'::jsonb, ARRAY[10]), concurrency_keys => array_fill('own'::text, ARRAY[10]))});
becomes_true($node, 'work', q{SELECT count(*) = 0 FROM jobq.unslotted}, 'the limit is settled');
becomes_true($node, 'work', q{SELECT tokens >= 3 FROM jobq.limits WHERE queue = 'rated' AND key = 'own'}, 'the key has tokens');
is(value($node, 'work', q{SELECT count(*) FROM jobq_claim('rated', batch => 3, heartbeat_timeout => '1 hour')}), '3', 'three jobs of the key are running');
is(value($node, 'work', q{SELECT jobq_set_limit('rated', 'own')}), 't', 'the limit of the key is removed');
is(value($node, 'work', q{SELECT count(*) FROM jobq_claim('rated', batch => 9)}), '0', 'the running jobs count toward the limit for each key');
is(value($node, 'work', q{SELECT count(_key_slot) FROM jobq.jobs WHERE queue = 'rated' AND status = 'processing'}), '3', 'and have slots');

# ---- more keys of one queue than the table has entries evict no bucket of another queue

value($node, 'work', q{SELECT jobq_set_limit('calm', rate => 5), jobq_set_limit('crowd', '*', rate => 1, per => '365 days'),
                              jobq_enqueue_many('calm', array_fill('{}'::jsonb, ARRAY[6]))});
becomes_true($node, 'work', q{SELECT tokens = 5 FROM jobq.limits WHERE queue = 'calm'}, 'a bucket is full');
value($node, 'work', qq{SELECT count(*) FROM jobq_enqueue_many('crowd', array_fill('{}'::jsonb, ARRAY[10000]),
    concurrency_keys => ARRAY(SELECT '$_ ' || n FROM generate_series(1, 10000) n)); SELECT count(*) FROM jobq_claim('crowd', batch => 10000)}) for 1, 2;
is(value($node, 'work', q{SELECT tokens FROM jobq.limits WHERE queue = 'calm'}), '5', 'the bucket is still full');
is(value($node, 'work', q{SELECT count(*) FROM jobq_claim('calm', batch => 6)}), '5', 'a batch gets all its tokens');
value($node, 'work', q{SELECT jobq_set_limit('calm'), jobq_set_limit('calm', '*', rate => 5), jobq_enqueue('calm', concurrency_key => 'new')});
is(value($node, 'work', q{SELECT count(*) FROM jobq_claim('calm', batch => 6)}), '2', 'a new key of the queue starts with a full bucket');
value($node, 'work', q{SELECT jobq_drop_queue('crowd', force => true)});

# ---- 100,000 jobs of a key without a free slot before other jobs

value($node, 'work', q{SELECT jobq_set_limit('front', 'big', max_running => 1);
    SELECT jobq_enqueue_many('front', array_fill('1'::jsonb, ARRAY[100000]), concurrency_keys => array_fill('big'::text, ARRAY[100000]));
    SELECT jobq_enqueue_many('front', array_fill('2'::jsonb, ARRAY[1000]), concurrency_keys => array_fill('small'::text, ARRAY[1000]))});
is(value($node, 'work', q{SELECT payload FROM jobq_claim('front')}), '1', 'one job of the key can be claimed');
becomes_true($node, 'work', q{SELECT count(*) = 0 FROM jobq.unslotted}, 'the limit is settled');
value($node, 'work', q{SELECT count(*) FROM jobq_claim('front')}) for 1 .. 3;
my $session = session($node, 'work');
my @times;
for (1 .. 50)
{
    my $begin = time;
    is($session->query(q{SELECT payload FROM jobq_claim('front')}), '2', 'a job of another key can be claimed');
    push @times, time - $begin;
}
report_spread('claim behind 100,000 jobs without room', @times);
in_time((sort { $a <=> $b } @times)[25], 0.02, 'at once', sum(@times));
# The first job of the key can be claimed as soon as there is a free slot.
is($session->query(q{WITH c AS (SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE queue = 'front' AND status = 'processing' AND concurrency_key = 'big') SELECT count(*) FROM c}), '1', 'the running job of the key is completed');
is($session->query(q{SELECT payload FROM jobq_claim('front')}), '1', 'the next job of the key keeps its position');

# ---- without preload: rates are rejected with an error, but the number of running jobs is still limited

settings($node, "shared_preload_libraries = ''");
$node->restart;
is(sqlstate($node, 'work', q{SELECT count(*) FROM jobq_claim('fast')}), '55000', 'a claim from a queue with a rate is rejected');
is(sqlstate($node, 'work', q{SELECT jobq_set_limit('new', rate => 1)}), '55000', 'a new rate is rejected');
is(value($node, 'work', q{SELECT jobq_set_limit('fast')}), 't', 'the rate is removed');
is(value($node, 'work', q{SELECT count(*) FROM jobq_claim('fast', batch => 3)}), '3', 'claims work after the rate is removed');
is(value($node, 'work', q{SELECT count(*) FROM jobq_claim('front', batch => 3) WHERE payload = '1'}), '0', 'running jobs still count toward the limit');

# ---- without a background worker: a request to settle a limit counts from the end of its transaction, and only ticks complete it

value($node, 'work', q{DELETE FROM jobq.unslotted; BEGIN; SELECT jobq_set_limit('front', max_running => 1);
    SELECT count(*) FROM jobq_tick(); COMMIT});
is(value($node, 'work', q{SELECT count(*) FROM jobq.unslotted WHERE before_xid IS NULL}), '1', 'a tick within the transaction does not assign a transaction id to the request');
value($node, 'work', q{SELECT count(*) FROM jobq_tick()});
is(value($node, 'work', q{SELECT count(*) FROM jobq.unslotted WHERE before_xid IS NOT NULL}), '1', 'the next tick assigns one');
value($node, 'work', q{SELECT count(*) FROM jobq_tick()});
is(value($node, 'work', q{SELECT count(*) FROM jobq.unslotted}), '0', 'the tick after it completes the request');

$node->stop;
done_testing();
