# Tests a group that has had thousands of heads whose entries an old snapshot keeps in the index: the commit that ends a head still
# makes the next one, and it reads no more than at first (src/groups/line_start.h).
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqLanes;
use JobqTest;
use Test::More;

my $node = lane_server('group_lines');
lane_database($node, 'work');
sub work { return value($node, 'work', $_[0]); }
work(q{
    ALTER TABLE jobq.jobs ALTER id RESTART WITH 100;
    -- Works off so many jobs one by one; returns how often there was none at once, and the blocks of the index of lines that were read.
    CREATE TABLE told (what text, n bigint);
    CREATE PROCEDURE take(jobs int, what text) LANGUAGE plpgsql AS $$
    DECLARE
        waiting_index oid := 'jobq.jobs_group_waiting_idx'::regclass;
        missed bigint := 0;
        got record;
    BEGIN
        WHILE jobs > 0 LOOP
            SELECT id, lease INTO got FROM jobq_claim('line', heartbeat_timeout => '1 day');
            IF got.id IS NULL THEN
                missed := missed + 1;
                COMMIT;
                CALL jobq_wait('line', '1 s');
                CONTINUE;
            END IF;
            PERFORM jobq_complete(got.id, got.lease);
            COMMIT;
            jobs := jobs - 1;
        END LOOP;
        INSERT INTO told VALUES (what, missed);
    END $$;
    SELECT count(*) FROM jobq_enqueue_many('line', array_fill('{}'::jsonb, '{10000}'), group_keys => array_fill('g'::text, '{10000}'))});
becomes_true($node, 'work', q{SELECT count(*) = 1 FROM jobq.jobs WHERE queue = 'line' AND status = 'pending'}, 'the group has a head');
my $holder = hold_snapshot($node, 'work');

# A session reports its statistics when it exits, at the latest.
sub blocks_read { return work(q{SELECT idx_blks_hit + idx_blks_read FROM pg_statio_user_indexes WHERE indexrelname = 'jobs_group_waiting_idx'}); }
my @blocks;
for my $piece (1 .. 5)
{
    my $before = blocks_read();
    work("CALL take(1000, 'piece $piece')");
    push @blocks, (blocks_read() - $before) / 1000;
}
diag('blocks of the index read for each job: ' . join ' ', @blocks);
cmp_ok((sort { $a <=> $b } @blocks)[-1], '<=', 6, 'the next head is found at the start of the line');
# For a few heads, the worker holds the lock of the group and makes the next head.
cmp_ok(work(q{SELECT max(n) FROM told}), '<', 20, 'the next head is made by the commit that ends its predecessor');

# ---- jobs that keep coming: the worker is notified of each and sees that the group has a head

work(q{CREATE PROCEDURE take_and_enqueue(jobs int) LANGUAGE plpgsql AS $$
    BEGIN
        FOR n IN 1..jobs LOOP
            PERFORM jobq_complete(id, lease) FROM jobq_claim('line', heartbeat_timeout => '1 day');
            PERFORM jobq_enqueue('line', group_key => 'g');
            COMMIT;
        END LOOP;
    END $$});
sub entries_read { return work(q{SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE indexrelname IN ('jobs_group_waiting_idx', 'jobs_group_active_idx')}); }
# If a commit is delayed while it makes the next head, the worker cannot use what it remembers. In that case the measurement is
# repeated.
my $entries;
for my $try (1 .. 3)
{
    my $before = entries_read();
    work(q{CALL take_and_enqueue(500)});
    # The worker has processed all notifications when it has made a head of the last job. It reports its statistics when it exits.
    work("SELECT jobq_enqueue('later', group_key => 'l$try')");
    becomes_true($node, 'work', "SELECT status = 'pending' FROM jobq.jobs WHERE queue = 'later' AND group_key = 'l$try'",
        'a later job of another group is its head');
    $node->stop('fast');
    $node->start;
    $holder = hold_snapshot($node, 'work');
    $entries = (entries_read() - $before) / 500;
    diag("entries of both indexes read for each job: $entries");
    last if $entries <= 50;
}
cmp_ok($entries, '<=', 50, 'the worker does not scan the entries of the former heads');

# ---- more groups than the memory has entries for, of two jobs each: they do not evict the entry of a line that has had 2,000 heads
# since

work(q{SELECT count(*) FROM jobq_enqueue_many('crowd', array_fill('{}'::jsonb, '{60000}'), group_keys => ARRAY(SELECT (n % 30000)::text FROM generate_series(1, 60000) n));
    CALL take(2000, 'held since')});
becomes_true($node, 'work', q{CALL drain('crowd', 1000); SELECT count(*) = 60000 FROM jobq.jobs WHERE queue = 'crowd' AND status = 'completed'}, 'the jobs of the many groups are completed');
work(q{CALL take(200, 'behind the crowd')});
# If the worker holds the lock of the group, a commit leaves the next head to it. If commits scanned all former heads, most heads
# would be left to the worker.
cmp_ok(work(q{SELECT n FROM told WHERE what = 'behind the crowd'}), '<', 20, 'the next head is still made by the commit that ends its predecessor');

# ---- jobs that are not published individually: by a prepared transaction, and by a transaction with too many groups

work(q{BEGIN; INSERT INTO jobq.jobs (id, queue, group_key) VALUES (12, 'line', 'g'); PREPARE TRANSACTION 'first'});
work(q{CALL take(2, 'before')});
work(q{COMMIT PREPARED 'first'});
work(q{CALL take(1, 'the head')});
is(work(q{SELECT status FROM jobq.jobs WHERE id = 12}), 'pending', 'a job with a lower id, committed by COMMIT PREPARED, is the next head');
work(q{CALL take(2, 'it and one')});
work(q{BEGIN; SELECT count(*) FROM jobq_enqueue_many('others', array_fill('{}'::jsonb, '{5000}'), group_keys => ARRAY(SELECT n::text FROM generate_series(1, 5000) n));
    INSERT INTO jobq.jobs (id, queue, group_key) VALUES (11, 'line', 'g'); COMMIT});
work(q{CALL take(1, 'the head')});
is(work(q{SELECT status FROM jobq.jobs WHERE id = 11}), 'pending', 'a job with a lower id, from a transaction with too many groups, is the next head');

# ---- with triggers disabled, a job is not published

work(q{CALL take(2, 'it and one')});
work(q{ALTER TABLE jobq.jobs DISABLE TRIGGER USER;
    INSERT INTO jobq.jobs SELECT (jsonb_populate_record(j, '{"id": 10}')).* FROM jobq.jobs j WHERE queue = 'line' AND status = 'blocked' LIMIT 1;
    ALTER TABLE jobq.jobs ENABLE TRIGGER USER; ALTER TABLE jobq.jobs ENABLE ALWAYS TRIGGER tell_job});
work(q{CALL take(1, 'the head')});
is(work(q{SELECT status FROM jobq.jobs WHERE id = 10}), 'pending', 'a job with a lower id, inserted with triggers disabled, is the next head');

end_sessions($holder);
$node->stop;
done_testing();
