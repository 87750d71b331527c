# Tests groups: how soon the next job becomes the head, and that it does so even if the server, the worker, or the remembered state
# of the groups is lost. One job of a group runs at a time, in the order of the ids.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use Test::More;
use Time::HiRes qw(time usleep);

my $node = preloaded('groups', conf => [ 'max_prepared_transactions = 10', 'max_connections = 60', 'autovacuum = off' ]);
database($node, 'work');

# Works until the queue has no unfinished job, with one transaction per step, like a worker. `pause` is the time between claim and
# completion. Records the times from the commit of each completion to the next claim.
value($node, 'work', <<'SQL');
CREATE TABLE gaps (queue text, seconds float);
-- What was done for each job: not before its claim had returned, and before its completion was called.
CREATE TABLE ran (id bigint, began timestamptz, ended timestamptz);
CREATE PROCEDURE work(q text, batch int DEFAULT 1, pause float DEFAULT 0, give_up float DEFAULT 25) LANGUAGE plpgsql AS $$
DECLARE
    until timestamptz := clock_timestamp() + work.give_up * interval '1 s';
    began timestamptz;
    ended timestamptz;
    ids bigint[];
    leases bigint[];
BEGIN
    WHILE clock_timestamp() < until LOOP
        SELECT array_agg(c.id), array_agg(c.lease) INTO ids, leases
        FROM jobq_claim(q, batch => work.batch, heartbeat_timeout => '5 s') c;
        COMMIT;
        IF ids IS NULL THEN
            EXIT WHEN NOT EXISTS (SELECT FROM jobq.jobs WHERE queue = q AND finished_at IS NULL);
            CALL jobq_wait(q, '200 ms');
            CONTINUE;
        END IF;
        began := clock_timestamp();
        IF ended IS NOT NULL THEN INSERT INTO gaps VALUES (q, extract(epoch FROM began - ended)); END IF;
        IF pause > 0 THEN PERFORM pg_sleep(pause); END IF;
        INSERT INTO ran SELECT unnest(ids), began, clock_timestamp();
        PERFORM count(*) FROM jobq_complete_many(ids, leases);
        COMMIT;
        ended := clock_timestamp();
    END LOOP;
END $$;
-- Each job began after the one before it in its group had ended; NULL while jobs are unfinished.
CREATE FUNCTION in_order(q text) RETURNS boolean LANGUAGE sql AS $$
    SELECT CASE WHEN bool_and(status = 'completed') THEN bool_and(began > coalesce(before, '-infinity')) END
    FROM (SELECT j.status, r.began, lag(r.ended) OVER (PARTITION BY j.group_key ORDER BY j.id) AS before
          FROM jobq.jobs j LEFT JOIN ran r USING (id) WHERE j.queue = q) g $$;
CREATE PROCEDURE enqueue_groups(q text, groups int, jobs int) LANGUAGE sql AS $$
    SELECT count(*) FROM jobq_enqueue_many(q, array_fill('{}'::jsonb, ARRAY[groups * jobs]),
                                           group_keys => (SELECT array_agg((i % groups)::text) FROM generate_series(1, groups * jobs) i)) $$;
SQL

# Starts concurrent sessions; wait_for_them ends them.
my @working;
sub work
{
    my ($count, $call) = @_;
    for (1 .. $count)
    {
        my $session = session($node, 'work');
        $session->query_until(qr/begun/, "\\echo begun\nCALL $call;\n");
        push @working, $session;
    }
    return;
}
sub wait_for_them { $_->query('SELECT 1') for @working; $_->quit for @working; @working = (); return; }
sub blocked { my ($queue) = @_; return value($node, 'work', "SELECT count(*) FROM jobq.jobs WHERE queue = '$queue' AND status = 'blocked'"); }

# ---- latency

value($node, 'work', q{CALL enqueue_groups('chain', 1, 300); CALL work('chain')});
is(value($node, 'work', q{SELECT in_order('chain')}), 't', 'a chain of 300 jobs ran in order');
report_spread('completion of a job to the claim of the next one of its group',
    split /\n/, value($node, 'work', q{SELECT seconds FROM gaps WHERE queue = 'chain'}));
is(value($node, 'work', q{SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) < 0.1 FROM gaps WHERE queue = 'chain'}),
    't', 'the worker is notified at once');

# ---- many workers

value($node, 'work', q{CALL enqueue_groups('many', 40, 25)});
work(8, q{work('many', 3)});
wait_for_them();
is(value($node, 'work', q{SELECT in_order('many')}), 't', '8 workers, 40 groups of 25 jobs: in order, and one job of a group at a time');

# ---- a job that commits late, with a lower id than the jobs that the worker remembers of its group

# The repair would find the job in any case, so it must not run.
settings($node, q{jobq.tick_interval = '60 s'});
$node->reload;
my $late = session($node, 'work');
$late->query('BEGIN');
my $first = $late->query(q{SELECT jobq_enqueue('late', group_key => '0')});
value($node, 'work', q{CALL enqueue_groups('late', 1, 3)});
for my $place (1 .. 4)
{
    my $got = claim_when_ready($node, 'work', 'late');
    is($got && $got->{id} == $first ? 'late' : 'other', $place == 3 ? 'late' : 'other', "the job claimed at place $place is the right one");
    if ($place == 2)
    {
        $late->query('COMMIT');
        # The worker has processed the notification of that commit when it has made a head of a job that was committed after it.
        value($node, 'work', q{CALL enqueue_groups('after late', 1, 1)});
        becomes_true($node, 'work', q{SELECT status = 'pending' FROM jobq.jobs WHERE queue = 'after late'}, 'a later job of another group is its head');
        is(value($node, 'work', "SELECT status FROM jobq.jobs WHERE id = $first"), 'blocked', 'the late job is blocked while another job of the group runs');
    }
    value($node, 'work', "SELECT jobq_complete($got->{id}, $got->{lease})");
}
end_sessions($late);
settings($node, q{jobq.tick_interval = '1 s'});
$node->reload;

# ---- heads that commits have made without the worker

value($node, 'work', q{CALL enqueue_groups('chained', 1, 3)});
becomes_true($node, 'work', q{SELECT count(*) = 1 FROM jobq.jobs WHERE queue = 'chained' AND status = 'pending'}, 'the worker has made a head');
value($node, 'work', q{SELECT jobq_complete(id, lease) FROM jobq_claim('chained')}) for 1 .. 2;
is(value($node, 'work', q{SELECT string_agg(status::text, ' ' ORDER BY id) FROM jobq.jobs WHERE queue = 'chained'}),
    'completed completed pending', 'the commits that ended a head have made the next one at once');
# The worker is notified of the new job. It must not assume that the group has no head because the head that the worker made has
# ended.
value($node, 'work', q{CALL enqueue_groups('chained', 1, 2); CALL enqueue_groups('after chained', 1, 1)});
becomes_true($node, 'work', q{SELECT status = 'pending' FROM jobq.jobs WHERE queue = 'after chained'}, 'the worker has processed the notifications');
is(value($node, 'work', q{SELECT count(_group_active) FROM jobq.jobs WHERE queue = 'chained'}), '1', 'the group has one head');
value($node, 'work', q{CALL work('chained')});
is(value($node, 'work', q{SELECT in_order('chained')}), 't', 'all jobs have run, in order');

# ---- a transaction with more groups than can be published individually

value($node, 'work', q{CALL enqueue_groups('alone', 2, 20)});
becomes_true($node, 'work', q{SELECT count(*) = 2 FROM jobq.jobs WHERE queue = 'alone' AND status = 'pending'}, 'two groups have heads');
value($node, 'work', q{CALL enqueue_groups('wide', 6000, 2)});
becomes_true($node, 'work', q{SELECT count(*) FILTER (WHERE status = 'pending') = 6000 AND count(*) FILTER (WHERE status = 'blocked') = 6000
    FROM jobq.jobs WHERE queue = 'wide'}, 'after a transaction with jobs of 6,000 groups, one job of each is the head');
settings($node, 'jobq.enabled = off');
$node->reload;
becomes_true($node, 'postgres', q{SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'jobq worker')}, 'no worker is running');
value($node, 'work', q{CALL work('alone')});
is(value($node, 'work', q{SELECT in_order('alone')}), 't', 'groups that have heads continue without the worker');

# A commit does not fail because of the next job or of a change of the table. In these cases the worker has to make the head.
my $end_of = sub { my ($queue) = @_; return "SELECT jobq_complete(id, lease) FROM jobq_claim('$queue')" };
my %left = (
    'an index on an expression' => [ q{CREATE INDEX strict ON jobq.jobs (((payload->>'n')::int)) WHERE status = 'pending'}, 'END', 'DROP INDEX jobq.strict' ],
    'a unique index' => [ 'CREATE UNIQUE INDEX strict ON jobq.jobs (id, status)', 'END', 'DROP INDEX jobq.strict' ],
    'a trigger made after the end' => [ 'SELECT 1', 'BEGIN; END; CREATE TRIGGER strict BEFORE UPDATE ON jobq.jobs FOR EACH ROW EXECUTE FUNCTION strict(); COMMIT', 'DROP TRIGGER strict ON jobq.jobs' ],
    'a trigger in the same message' => [ 'SELECT 1', 'END\; CREATE TRIGGER strict BEFORE UPDATE ON jobq.jobs FOR EACH ROW EXECUTE FUNCTION strict()', 'DROP TRIGGER strict ON jobq.jobs' ],
    'a transaction that becomes read-only' => [ 'SELECT 1', 'BEGIN; END; SET TRANSACTION READ ONLY; COMMIT', 'SELECT 1' ],
    'a lane that must be inserted again' => [
        q{SELECT count(*) FROM jobq_claim('left', heartbeat_timeout => '1 hour'); DELETE FROM jobq.lane_directory WHERE queue = 'left';
          CREATE TRIGGER strict BEFORE INSERT ON jobq.lane_directory FOR EACH ROW EXECUTE FUNCTION strict()},
        q{SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE queue = 'left' AND status = 'processing'},
        'DROP TRIGGER strict ON jobq.lane_directory'
    ],
    'a savepoint that was rolled back' => [ 'SELECT 1', 'BEGIN; END; SAVEPOINT s; ROLLBACK TO s; COMMIT', 'SELECT 1' ],
);
value($node, 'work', q{CREATE FUNCTION strict() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'strict'; END $$});
for my $what (sort keys %left)
{
    my ($before, $end, $after) = @{ $left{$what} };
    value($node, 'work', q{SELECT count(jobq_enqueue('left', payload, group_key => 'l')) FROM unnest('{"{\"n\": 1}","{\"n\": \"x\"}"}'::jsonb[]) AS payload});
    value($node, 'work', 'SELECT count(*) FROM jobq_tick()');
    value($node, 'work', $before);
    is(sqlstate($node, 'work', $end =~ s/END/$end_of->('left')/er), '00000', "$what: the head has ended");
    is(blocked('left'), '1', 'the next job is still blocked');
    value($node, 'work', $after);
    value($node, 'work', q{SELECT count(*) FROM jobq_tick(); SELECT jobq_complete(id, lease) FROM jobq_claim('left')});
    is(value($node, 'work', q{SELECT count(*) FROM jobq.jobs WHERE queue = 'left' AND finished_at IS NULL}), '0', 'a tick makes the next job the head');
}
# A group with two heads. Triggers prevent that, so the row is changed with triggers disabled, as by a restore.
value($node, 'work', q{SELECT count(jobq_enqueue('twins', group_key => 't')) FROM generate_series(1, 4)});
value($node, 'work', 'SELECT count(*) FROM jobq_tick()');
value($node, 'work', q{SET session_replication_role = replica;
    UPDATE jobq.jobs SET status = 'pending', _ready = true, _group_active = _group_waiting, _group_waiting = NULL
    WHERE id = (SELECT min(id) FROM jobq.jobs WHERE queue = 'twins' AND status = 'blocked')});
is(sqlstate($node, 'work', q{WITH c AS (SELECT * FROM jobq_claim('twins', batch => 2))
    SELECT count(*) FROM jobq_complete_many((SELECT array_agg(id ORDER BY id) FROM c), (SELECT array_agg(lease ORDER BY id) FROM c))}),
    '00000', 'two heads end in one transaction');
is(value($node, 'work', q{SELECT string_agg(status::text, ' ' ORDER BY id) FROM jobq.jobs WHERE queue = 'twins'}),
    'completed completed pending blocked', 'and make one head');
database($node, 'gone');
value($node, 'gone', q{SELECT count(jobq_enqueue('left', group_key => 'l')) FROM generate_series(1, 2); SELECT count(*) FROM jobq_tick()});
is(sqlstate($node, 'gone', 'BEGIN; ' . $end_of->('left') . '; DROP EXTENSION jobq; COMMIT'), '00000', 'an extension can be dropped in the transaction that ends a head');

value($node, 'work', "CALL enqueue_groups('wide $_', 4000, 1)") for 1 .. 5;
is(blocked('wide 3'), '4000', 'without the worker the jobs stay blocked');
settings($node, 'jobq.enabled = on');
$node->reload;
becomes_true($node, 'work', q{SELECT NOT EXISTS (SELECT FROM jobq.jobs WHERE queue LIKE 'wide _' AND status = 'blocked')},
    'the restarted worker finds 20,000 jobs that could not be published');

# ---- a worker that is terminated repeatedly

value($node, 'work', q{CALL enqueue_groups('terminated', 5, 40)});
work(3, q{work('terminated', 1, 0.005)});
for (1 .. 10)
{
    usleep(40_000);
    value($node, 'postgres', q{SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE backend_type = 'jobq worker' AND datname = 'work'});
}
wait_for_them();
is(value($node, 'work', q{SELECT in_order('terminated')}), 't', 'the worker is terminated 10 times, all jobs have run, in order');

# ---- a blocked job that is locked or that cannot be changed delays only its own group

value($node, 'work', q{CALL enqueue_groups('held', 1, 2)});
becomes_true($node, 'work', q{SELECT count(*) = 1 FROM jobq.jobs WHERE queue = 'held' AND status = 'pending'}, 'a group of two');
my $holder = session($node, 'work');
$holder->query('BEGIN');
$holder->query(q{SELECT FROM jobq.jobs WHERE queue = 'held' AND status = 'blocked' FOR UPDATE});
value($node, 'work', q{SELECT count(jobq_complete(id, lease)) FROM jobq_claim('held')});
value($node, 'work', q{CALL enqueue_groups('beside', 3, 3); CALL work('beside')});
is(value($node, 'work', q{SELECT in_order('beside')}), 't', 'other groups continue while a session has locked the next job of one group');
is(blocked('held'), '1', 'the locked job is still blocked');
$holder->query('COMMIT');
my $job = claim_when_ready($node, 'work', 'held');
ok($job, 'the job becomes the head after the lock is released');

value($node, 'work', q{
    CREATE FUNCTION not_this_one() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$;
    CREATE TRIGGER not_this_one BEFORE UPDATE ON jobq.jobs FOR EACH ROW WHEN (new.queue = 'stuck' AND new.status = 'pending' AND new.group_key = '0') EXECUTE FUNCTION not_this_one();
    CALL enqueue_groups('stuck', 3, 3)});
becomes_true($node, 'work', q{SELECT count(*) = 2 FROM jobq.jobs WHERE queue = 'stuck' AND status = 'pending'}, 'a job that cannot be changed is left out');
becomes_true($node, 'work', q{SELECT last_error LIKE 'unblock: the next job of group %: not this one' FROM jobq.background_workers WHERE database = 'work'}, 'jobq.background_workers reports the error');
value($node, 'work', q{DROP TRIGGER not_this_one ON jobq.jobs});
becomes_true($node, 'work', q{SELECT count(*) = 3 FROM jobq.jobs WHERE queue = 'stuck' AND status = 'pending'}, 'the job becomes the head when it can be changed');
value($node, 'work', q{CALL work('stuck')});
is(value($node, 'work', q{SELECT in_order('stuck')}), 't', 'then the other jobs of its group run');

# ---- an old snapshot keeps the index entries of former heads: a new head must not cost more than its predecessor

my $old = session($node, 'work');
$old->query('BEGIN ISOLATION LEVEL REPEATABLE READ');
$old->query('SELECT 1');
my $reads = q{SELECT coalesce(sum(idx_tup_read), 0) FROM pg_stat_all_indexes WHERE indexrelname IN ('jobs_group_waiting_idx', 'jobs_group_active_idx')};
value($node, 'work', q{CALL enqueue_groups('long', 1, 2000); CALL work('long', give_up => 60)});
is(value($node, 'work', q{SELECT in_order('long')}), 't', '2,000 jobs of one group run in order under an old snapshot');
usleep(1_500_000);    # until the worker has reported its statistics
my $read = value($node, 'work', $reads);
diag("index entries read for 2000 heads: $read");
# The repair scans all of them from time to time.
cmp_ok($read, '<', 1_000_000, 'making a head does not scan the entries of former heads');
end_sessions($old, $holder);

# ---- the directory of lanes is locked, and the session would have to read it to make the next head

value($node, 'work', q{CALL enqueue_groups('locked', 1, 2)});
becomes_true($node, 'work', q{SELECT count(*) = 1 FROM jobq.jobs WHERE queue = 'locked' AND status = 'pending'}, 'a group of two');
my ($id, $lease) = split /\|/, value($node, 'work', q{SELECT id, lease FROM jobq_claim('locked', heartbeat_timeout => '1 hour')});
for my $lock (q{LOCK TABLE jobq.lane_directory}, q{REINDEX TABLE jobq.lane_directory})
{
    my $dba = session($node, 'work');
    $dba->query('BEGIN');
    $dba->query($lock);
    is(sqlstate($node, 'work', qq{SET lock_timeout = '1s'; SELECT jobq_complete($id, $lease)}), '00000', "the end of a head does not wait for $lock");
    end_sessions($dba);
    becomes_true($node, 'work', q{SELECT count(*) = 1 FROM jobq.jobs WHERE queue = 'locked' AND status = 'pending'}, 'the worker makes the next head');
    last if $lock =~ /REINDEX/;
    value($node, 'work', q{SELECT jobq_enqueue('locked', group_key => '0')});
    ($id, $lease) = split /\|/, value($node, 'work', q{SELECT id, lease FROM jobq_claim('locked', heartbeat_timeout => '1 hour')});
}

# ---- prepared transactions

value($node, 'work', q{CALL enqueue_groups('prepared', 1, 3)});
becomes_true($node, 'work', q{SELECT count(*) = 1 FROM jobq.jobs WHERE queue = 'prepared' AND status = 'pending'}, 'a group of three');
is(sqlstate($node, 'work', q{BEGIN; SELECT jobq_complete(id, lease) FROM jobq_claim('prepared'); PREPARE TRANSACTION 'end'}), '00000', 'the end of a head is prepared');
is(blocked('prepared'), '2', 'the other jobs are blocked');
value($node, 'work', q{COMMIT PREPARED 'end'});
ok(claim_when_ready($node, 'work', 'prepared'), 'COMMIT PREPARED in another session makes the next head');
# The tick does nothing if the background worker holds the lock for longer than the tick waits, so it is repeated.
ok(defined seconds_until(
        sub {
            my $state = sqlstate($node, 'work', q{BEGIN; SELECT count(*) FROM jobq_tick(); PREPARE TRANSACTION 'tick'});
            return 1 if $state eq '00000' && value($node, 'work', q{SELECT count(*) FROM pg_locks WHERE locktype = 'object' AND objid = 'jobq.jobs'::regclass AND pid IS NULL}) > 0;
            value($node, 'work', q{ROLLBACK PREPARED 'tick'});
            return 0;
        }), 'a prepared tick holds the lock of groups');
value($node, 'work', q{DELETE FROM jobq.jobs WHERE queue = 'prepared' AND status = 'processing'});
value($node, 'work', q{SELECT count(*) FROM jobq_tick()});
is(blocked('prepared'), '1', 'no other process makes a head while the prepared tick may have made one');
value($node, 'work', q{ROLLBACK PREPARED 'tick'});
ok(claim_when_ready($node, 'work', 'prepared'), 'after ROLLBACK PREPARED the next job becomes the head');
value($node, 'work', q{SELECT count(jobq_complete(id, lease)) FROM jobq.jobs WHERE queue = 'prepared' AND status = 'processing'});

# ---- a crash of the server

value($node, 'work', q{CALL enqueue_groups('crash', 20, 60)});
work(3, q{work('crash', 2, 0.02)});
usleep(300_000);
kill_server($node);
$_->{run}->finish for @working;
@working = ();
starts_again($node);
cmp_ok(value($node, 'work', q{SELECT count(*) FROM jobq.jobs WHERE queue = 'crash' AND finished_at IS NULL}), '>', 100, 'most jobs are unfinished');
is(value($node, 'work', q{SELECT count(*) FROM (SELECT _group_active FROM jobq.jobs WHERE _group_active IS NOT NULL GROUP BY 1 HAVING count(*) > 1) g}),
    '0', 'after a crash no group has two heads');
work(3, q{work('crash', 2)});
wait_for_them();
is(value($node, 'work', q{SELECT in_order('crash')}), 't', 'all jobs have run, in order');

# ---- jobq_tick() and the worker both make heads

value($node, 'work', q{CALL enqueue_groups('mixed', 3, 60)});
work(3, q{work('mixed')});
value($node, 'work', q{SELECT count(*) FROM jobq_tick()}) for 1 .. 15;
wait_for_them();
is(value($node, 'work', q{SELECT in_order('mixed')}), 't', 'jobs run in order with concurrent ticks');

done_testing();
