# Tests queues whose keys take turns or whose priorities age: with long backlogs, many concurrent workers, an old snapshot, and a
# crash. The workers are sessions that claim and complete one job per transaction.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqSleep;
use JobqTest;
use JobqTime;
use Test::More;
use Time::HiRes qw(time);

my $node = preloaded('fairness');
database($node, 'work');
await_worker($node, 'work');
sub work { return value($node, 'work', $_[0]); }

# Enqueues a number of jobs of one key.
sub enqueue
{
    my ($queue, $key, $jobs) = @_;
    return work(qq{SELECT count(*) FROM jobq_enqueue_many('$queue', array_fill('{}'::jsonb, ARRAY[$jobs]), concurrency_keys => array_fill('$key'::text, ARRAY[$jobs]))});
}

# Claims and completes a number of jobs, each in a transaction of its own, and records the order in `taken`.
work(q{CREATE TABLE taken (place bigint GENERATED ALWAYS AS IDENTITY, queue text, key text, priority int);
       CREATE PROCEDURE take(q text, jobs int) LANGUAGE plpgsql AS $$
       DECLARE
           c record;
       BEGIN
           FOR n IN 1 .. jobs LOOP
               SELECT id, lease, priority INTO c FROM jobq_claim(q);
               EXIT WHEN NOT FOUND;
               INSERT INTO taken (queue, key, priority) SELECT q, concurrency_key, c.priority FROM jobq.jobs WHERE id = c.id;
               PERFORM jobq_complete(c.id, c.lease);
               COMMIT;
           END LOOP;
       END $$});

# ---- one job after 100,000 jobs of another key

work(q{SELECT jobq_create_queue('long', round_robin => true)});
is(enqueue('long', 'big', 100000), '100000', '100,000 jobs of one key are enqueued');
enqueue('long', 'small', 1);
work(q{CALL take('long', 4)});
is(work(q{SELECT count(*) FILTER (WHERE key = 'small'), min(place) FILTER (WHERE key = 'small') <= 2 FROM taken WHERE queue = 'long'}), '1|t', 'a job of another key is claimed first or second');
# A key that is added later is served in the next round.
enqueue('long', "late $_", 1) for 1 .. 3;
work(q{TRUNCATE taken RESTART IDENTITY; CALL take('long', 8)});
is(work(q{SELECT count(*), max(place) <= 5 FROM taken WHERE key LIKE 'late %'}), '3|t', 'jobs of three keys that are added later are claimed within five claims');
is(work(q{SELECT jobq_drop_queue('long', force => true)}), 't', 'the queue is dropped');

# ---- many concurrent workers

work(q{TRUNCATE taken RESTART IDENTITY; SELECT jobq_create_queue('many', round_robin => true)});
enqueue('many', "k$_", 400 * $_) for 1 .. 5;
my @sessions = map { sleeper($node) } 1 .. 8;

# Runs eight sessions concurrently and waits until all have ended.
sub together
{
    my ($call) = @_;
    start($_, $call) for @sessions;
    seconds_to_end($_, 300) for @sessions;
    return;
}
together(q{CALL take('many', 200)});
my $served = work(q{SELECT string_agg(n::text, ' ') FROM (SELECT count(*) AS n FROM taken WHERE queue = 'many' GROUP BY key ORDER BY key) s});
diag("1600 jobs of five keys, taken by eight workers: $served");
my @counts = sort { $a <=> $b } split / /, $served;
is(scalar @counts, 5, 'all keys are served');
cmp_ok($counts[-1] - $counts[0], '<=', 40, 'all keys are served equally, whatever their backlogs');
is(work(q{SELECT count(*) FROM taken}), '1600', 'every claim found a job');
# When the jobs of some keys are finished, the other keys continue until all jobs are done.
together(q{CALL take('many', 10000)});
is(work(q{SELECT count(*), count(*) FILTER (WHERE status = 'completed') FROM jobq.jobs WHERE queue = 'many'}), '6000|6000', 'every job is done, and no job is done twice');

# Claims of batches, some of which are rolled back, while other sessions claim between the jobs of a batch: a claim must not meet a
# job twice.
work(q{CREATE PROCEDURE drain(q text) LANGUAGE plpgsql AS $$
       DECLARE
           got int := 1;
       BEGIN
           FOR n IN 1 .. 100000 LOOP
               SELECT count(jobq_complete(id, lease)) INTO got FROM jobq_claim(q, batch => 1 + n % 60);
               EXIT WHEN got = 0;
               IF n % 5 = 0 THEN ROLLBACK; ELSE COMMIT; END IF;
           END LOOP;
       END $$;
       SELECT jobq_create_queue('batches', round_robin => true, priority_ageing => '1 s')});
enqueue('batches', "k$_", 3000) for 1 .. 12;
my $before = log_size($node);
together(q{CALL drain('batches')});
unlike(log_since($node, $before), qr/ERROR/, 'no batch claim fails');
is(work(q{SELECT count(*), count(*) FILTER (WHERE status = 'completed' AND attempts = 1) FROM jobq.jobs WHERE queue = 'batches'}), '36000|36000', 'every job is claimed once');
$_->{session}->quit for @sessions;

# ---- a crash

work(q{TRUNCATE taken RESTART IDENTITY; SELECT jobq_create_queue('crashes', round_robin => true)});
enqueue('crashes', $_, 50) for qw(a b c);
work(q{CALL take('crashes', 10)});
$node->stop('immediate');
$node->start;
work(q{CALL take('crashes', 20)});
is(work(q{SELECT max(n) - min(n) <= 2 FROM (SELECT count(*) AS n FROM taken WHERE queue = 'crashes' GROUP BY key) s}), 't', 'after a crash the keys still take turns');

# ---- an old snapshot keeps the index entries of claimed jobs, at the front of the queue or scattered between other jobs

work(q{TRUNCATE taken RESTART IDENTITY; SELECT jobq_create_queue('held', round_robin => true); SELECT jobq_create_queue('held aged', priority_ageing => '1 min')});
work(q{SELECT count(*) FROM jobq_enqueue_many('held', (SELECT array_agg('{}'::jsonb) FROM generate_series(1, 6000)), concurrency_keys => (SELECT array_agg('k' || n % 10) FROM generate_series(1, 6000) n))});
work(q{SELECT count(*) FROM jobq_enqueue_many('held aged', (SELECT array_agg('{}'::jsonb) FROM generate_series(1, 6000)), priorities => (SELECT array_agg(n % 5) FROM generate_series(1, 6000) n))});
work(q{SELECT jobq_create_queue('held apart', round_robin => true)});
enqueue('held apart', $_, 6000) for qw(a b);
my $old = session($node, 'work');
$old->query(q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM jobq.jobs});
for my $queue ('held', 'held aged', 'held apart')
{
    my @spent = map {
        my $begin = time;
        work("CALL take('$queue', $_)");
        time - $begin;
    } 500, 4500, 500;
    diag(sprintf '%s: the first 500 claims took %.2f s, after 5000 claimed jobs %.2f s', $queue, @spent[ 0, 2 ]);
    in_time($spent[2], 3 * $spent[0] + 0.5, "$queue: 5,000 entries of claimed jobs do not slow down claims");
}
is(work(qq{SELECT max(n) - min(n) <= 1 FROM (SELECT count(*) AS n FROM taken WHERE queue = '$_' GROUP BY key) s}), 't', "$_: the keys take turns") for 'held', 'held apart';
is(work(q{SELECT count(*) FROM (SELECT priority, lag(priority) OVER (ORDER BY place) AS before FROM taken WHERE queue = 'held aged') s WHERE priority < before}), '0', 'jobs that have waited equally long are claimed by priority');
$old->quit;

unlike(log_since($node), qr/(?:PANIC|TRAP|terminated by signal)/, 'no process crashed by itself');

done_testing();
