# Tests lanes: a queue with many lanes, lanes that are retired while producers use them, and the effects on other queues.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqSleep;
use JobqTest;
use Test::More;

my $node = preloaded('lanes', conf => [ 'max_prepared_transactions = 10', q{jobq.tick_interval = '100ms'}, 'jobq.keep_lanes = 1s', 'autovacuum = off' ]);
database($node, 'work');
keep_in_use($node, 'work');

# ---- unused lanes are retired; the last lane of a queue keeps the name of the queue

value($node, 'work', q{SELECT count(jobq_enqueue('many', kind => 'k' || g)) FROM generate_series(1, 500) g});
my $lanes = q{SELECT count(DISTINCT kind) FROM jobq.lane_directory WHERE queue = 'many'};
is(value($node, 'work', $lanes), '500', 'there are 500 kinds');
is(value($node, 'work', q{SELECT count(jobq_complete(id, lease)) FROM jobq_claim('many', batch => 10000)}), '500', 'all jobs are completed');
becomes_true($node, 'work', "SELECT ($lanes) = 1", 'all but one of their lanes are retired');
is(value($node, 'work', q{SELECT count(*) FROM jobq.queues WHERE queue = 'many'}), '1', 'the queue is still known');

# ---- a prepared transaction that has used a lane keeps it

my $late = q{SELECT jobq_enqueue('prepared', kind => 'late', run_at => clock_timestamp() + interval '1 day')};
value($node, 'work', $late);
value($node, 'work', "BEGIN; $late; SELECT jobq_reschedule(id, clock_timestamp()) FROM jobq.jobs WHERE queue = 'prepared' AND status = 'scheduled'; PREPARE TRANSACTION 'late'");
value($node, 'work', q{SELECT count(jobq_enqueue('prepared', kind => 'p' || g, run_at => clock_timestamp() + interval '1 day')) FROM generate_series(1, 10) g});
becomes_true($node, 'work', q{SELECT count(*) > 0 FROM jobq.lane_directory WHERE retiring}, 'lanes are being retired');
value($node, 'work', q{SELECT count(*) FROM jobq.jobs});
is(value($node, 'work', q{COMMIT PREPARED 'late'; SELECT count(*) FROM jobq_claim('prepared', batch => 10)}), '2', 'the jobs of the prepared transaction are found at once');
value($node, 'work', q{SELECT jobq_drop_queue('prepared', force => true)});

# ---- producers use lanes while they are being retired: no job waits for a repair

value(
    $node, 'work', q{
    CREATE PROCEDURE churn(queue text, until timestamptz) LANGUAGE plpgsql AS $$
    DECLARE
        kind text;
    BEGIN
        WHILE clock_timestamp() < until LOOP
            kind := 'k' || (random() * 40)::integer;
            IF random() < 0.1 THEN
                BEGIN
                    PERFORM jobq_enqueue(queue, kind => kind);
                    RAISE division_by_zero;
                EXCEPTION WHEN division_by_zero THEN
                END;
            END IF;
            PERFORM jobq_enqueue(queue, kind => kind, run_at => CASE WHEN random() < 0.2 THEN clock_timestamp() + interval '200 ms' END);
            IF random() < 0.3 THEN PERFORM pg_sleep(random() * 0.2); END IF;
            COMMIT;
            PERFORM jobq_complete(id, lease) FROM jobq_claim(queue, batch => 3);
            COMMIT;
        END LOOP;
    END $$});
# Checks repeatedly that each claimable job has a lane.
value(
    $node, 'work', q{
    CREATE TABLE looks (missing bigint);
    CREATE PROCEDURE look(until timestamptz) LANGUAGE plpgsql AS $$ BEGIN
        WHILE clock_timestamp() < until LOOP
            INSERT INTO looks SELECT count(*) FROM jobq.jobs j WHERE j._ready
                AND NOT EXISTS (SELECT FROM jobq.lane_directory d WHERE d.lane = j._lane AND d.queue = j.queue);
            COMMIT;
            PERFORM pg_sleep(0.05);
        END LOOP;
    END $$});
my $watcher = sleeper($node);
start($watcher, q{CALL look(clock_timestamp() + interval '15 seconds')});
my @producers = map { sleeper($node) } 1 .. 6;
start($producers[$_], sprintf(q{CALL churn('churn%d', clock_timestamp() + interval '15 seconds')}, $_ % 2)) for 0 .. $#producers;
for my $producer (@producers)
{
    ok(seconds_to_end($producer, 120) < 120, 'a producer has ended');
    is($producer->{session}{stderr}, '', 'without an error');
}
cmp_ok(seconds_to_end($watcher, 120), '<', 120, 'the watcher has ended');
is(value($node, 'work', q{SELECT sum(missing), count(*) > 5 FROM looks}), '0|t', 'no lane was missing');
becomes_true($node, 'work', q{SELECT count(*) = 0 FROM jobq.jobs WHERE status = 'scheduled' AND queue LIKE 'churn%'}, 'delayed jobs are promoted');
value($node, 'work', q{SELECT count(jobq_complete(id, lease)) FROM (SELECT * FROM jobq_claim('churn0', batch => 10000) UNION ALL SELECT * FROM jobq_claim('churn1', batch => 10000)) c});
is(value($node, 'work', q{SELECT count(*) FROM jobq.jobs WHERE status <> 'completed' AND queue LIKE 'churn%'}), '0', 'every job was found');
cmp_ok(value($node, 'work', q{SELECT count(*) FROM jobq.lane_directory WHERE entered_at > (SELECT min(entered_at) + interval '3 s' FROM jobq.lane_directory)}), '>', 0, 'lanes were retired and entered again');

$node->stop;
done_testing();
