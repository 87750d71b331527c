# Tests what a session remembers of lanes while other sessions invalidate it: a claim must always find the jobs that exist.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqSleep;
use JobqTest;
use Test::More;

my $node = preloaded('known_lanes');
database($node, 'work');

# ---- claims without a kind in a queue with many lanes, while other queues are created and dropped

is(value($node, 'work', q{SELECT count(jobq_enqueue('many', kind => 'k' || g)) FROM generate_series(1, 3000) g}), '3000', 'jobs of 3,000 kinds are enqueued');
value(
    $node, 'work', q{
    CREATE TABLE claiming ();
    INSERT INTO claiming DEFAULT VALUES;
    CREATE SEQUENCE drops;
    CREATE SEQUENCE empty_claims MINVALUE 0;
    SELECT setval('drops', 1), setval('empty_claims', 0);
    CREATE PROCEDURE drop_queues() LANGUAGE plpgsql AS $$
    BEGIN
        WHILE EXISTS (SELECT FROM claiming) LOOP
            PERFORM jobq_create_queue('short');
            PERFORM jobq_enqueue('short');
            COMMIT;
            PERFORM jobq_drop_queue('short', force => true);
            PERFORM nextval('drops');
            COMMIT;
        END LOOP;
    END $$;
    CREATE PROCEDURE claim_many() LANGUAGE plpgsql AS $$
    DECLARE
        first constant bigint := (SELECT last_value FROM drops);
    BEGIN
        FOR n IN 1 .. 2000 LOOP
            PERFORM FROM jobq_claim('many');
            IF NOT FOUND THEN PERFORM nextval('empty_claims'); END IF;
            COMMIT;
            EXIT WHEN n >= 300 AND (SELECT last_value FROM drops) >= first + 50;
        END LOOP;
    END $$});
my $dropper = sleeper($node);
start($dropper, 'CALL drop_queues()');
becomes_true($node, 'work', q{SELECT last_value > 3 FROM drops}, 'queues are created and dropped');
my $claimer = sleeper($node);
start($claimer, 'CALL claim_many()');
ok(seconds_to_end($claimer, 300) < 300, 'the claims have ended');
is($claimer->{session}{stderr}, '', 'without an error');
value($node, 'work', 'DELETE FROM claiming');
ok(seconds_to_end($dropper, 120) < 120, 'the other session has ended');
is($dropper->{session}{stderr}, '', 'without an error');
cmp_ok(value($node, 'work', q{SELECT count(*) FROM jobq.jobs WHERE queue = 'many' AND status = 'pending'}), '>', 0, 'jobs are left');
is(value($node, 'work', q{SELECT last_value FROM empty_claims}), '0', 'no claim was empty');

# ---- the view jobq.lanes, on which the messages about new lanes depend, is replaced

my $recreate_view = q{
    DO $$
    DECLARE
        definition constant text := pg_get_viewdef('jobq.lanes');
    BEGIN
        ALTER EXTENSION jobq DROP VIEW jobq.lanes;
        DROP VIEW jobq.lanes;
        EXECUTE 'CREATE VIEW jobq.lanes AS ' || definition;
        ALTER EXTENSION jobq ADD VIEW jobq.lanes;
    END $$};
value($node, 'work', q{SELECT jobq_enqueue('told', kind => 'first')});
my ($listener, $producer) = map { session($node, 'work') } 1 .. 2;
my $claim = q{SELECT count(*) FROM jobq_claim('told', batch => 10)};
is($listener->query($claim), '1', 'a session knows the lanes of the queue');
$producer->query(q{SELECT count(jobq_enqueue('elsewhere', kind => 'first'))});
value($node, 'work', $recreate_view);
$producer->query(q{SELECT count(jobq_enqueue('told', kind => 'second'))});
is($listener->query($claim), '1', 'after the view was replaced, it learns of a new kind from a session that knew the old view');
value($node, 'work', q{SELECT jobq_enqueue('told', kind => 'third')});
is($listener->query($claim), '1', 'it learns of a new kind from a new session');
my $definition = value($node, 'work', q{SELECT pg_get_viewdef('jobq.lanes')});
value($node, 'work', q{ALTER EXTENSION jobq DROP VIEW jobq.lanes; DROP VIEW jobq.lanes});
is($listener->query($claim), '0', 'a claim finds nothing');
$producer->query(q{SELECT count(jobq_enqueue('told', kind => 'fourth'))});
is($listener->query($claim), '1', 'it learns of a new kind without the view');
value($node, 'work', "CREATE VIEW jobq.lanes AS $definition");
$producer->query(q{SELECT count(jobq_enqueue('told', kind => 'fifth'))});
is($listener->query($claim), '1', 'it learns of a new kind after the view was created again');
end_sessions($listener, $producer);

# ---- a lane that is not in the directory and has only dead entries, which an old snapshot keeps, does not delay other lanes

database($node, 'gone');
my $old = session($node, 'gone');
$old->query(q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1});
value($node, 'gone', q{SELECT count(*) FROM jobq_enqueue_many('gone', array_fill('{}'::jsonb, ARRAY[50000]))});
value($node, 'gone', q{DELETE FROM jobq.jobs; DELETE FROM jobq.lane_directory});
# Inserts jobs into a lane before it and a lane after it, with triggers disabled.
value($node, 'gone', q{
    CREATE TABLE missing AS
    SELECT k AS kind, jobq.lane_of('missing', k, 0, NULL) AS lane
    FROM (SELECT min('k' || g) FROM generate_series(1, 999) g WHERE jobq.lane_of('missing', 'k' || g, 0, NULL) < jobq.lane_of('gone', '', 0, NULL)
          UNION ALL
          SELECT min('k' || g) FROM generate_series(1, 999) g WHERE jobq.lane_of('missing', 'k' || g, 0, NULL) > jobq.lane_of('gone', '', 0, NULL)) k(k);
    ALTER TABLE jobq.jobs DISABLE TRIGGER ALL;
    INSERT INTO jobq.jobs (queue, kind, run_at, _ready, max_attempts, status, _lane)
    SELECT 'missing', kind, now(), true, 20, 'pending', lane FROM missing;
    ALTER TABLE jobq.jobs ENABLE TRIGGER ALL});
becomes_true($node, 'gone', q{SELECT count(*) = 2 FROM jobq.lane_directory WHERE queue = 'missing'}, 'the repair enters the lanes before and after it');
is(value($node, 'gone', q{SELECT count(*) FROM jobq_claim('missing', batch => 2)}), '2', 'the jobs of both lanes are claimed');
is(value($node, 'gone', q{SELECT last_error FROM jobq.background_workers WHERE database = 'gone'}), '', 'no duty failed');
end_sessions($old);

# ---- the memory that a session uses for each queue that it has named once

value($node, 'work', q{SELECT count(jobq_enqueue('of tenant ' || n)) FROM generate_series(1, 500) n});
my $kept = value($node, 'work', q{
    DO $$BEGIN FOR n IN 1 .. 1000 LOOP PERFORM jobq_claim('of tenant ' || n); END LOOP; END$$;
    SELECT sum(total_bytes) / 1000 FROM pg_backend_memory_contexts WHERE name LIKE 'jobq %'});
cmp_ok($kept, '<', 4000, 'a session keeps less than 4 kB per queue');

# ---- a session forgets its queues when there are too many, also after a look-up that failed

my ($locker, $asker) = map { session($node, 'work') } 1 .. 2;
$locker->query('BEGIN; LOCK TABLE jobq.lane_directory IN ACCESS EXCLUSIVE MODE');
is($asker->query(q{SET lock_timeout = '10ms'; DO $$BEGIN PERFORM jobq_claim('locked'); RAISE 'not locked';
    EXCEPTION WHEN lock_not_available THEN NULL; END$$; RESET lock_timeout; SELECT 'caught'}), 'caught', 'the directory cannot be read');
end_sessions($locker);
cmp_ok($asker->query(q{DO $$BEGIN FOR n IN 1 .. 10100 LOOP PERFORM jobq_claim('name ' || n); END LOOP; END$$;
    SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'jobq lanes'}), '<', 1000, 'a session does not remember 10,000 queues');
end_sessions($asker);

$node->stop;
done_testing();
