# Tests that pg_dump and a restore, as text and as an archive, keep every job, attempt, and setting, and that the restored queue
# works.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = preloaded('dump');
database($node, 'source');

# ---- jobs in every status; none of them becomes due during the test

value($node, 'source', <<'SQL');
SELECT jobq_create_queue('mail', max_attempts => 5, heartbeat_timeout => '2 h', keep_completed => '30 days');
SELECT jobq_create_queue('idle', backoff_base => '5 s');
SELECT jobq_alter_kind('idle', 'news', max_runtime => '0', dead_letter_queue => '', backoff => '{1s,1min}');
SELECT jobq_create_queue('fair', round_robin => true, priority_ageing => '1 min');
SELECT jobq_enqueue('fair', to_jsonb(coalesce(k, 'none')), concurrency_key => k) FROM unnest('{b,a,NULL,a}'::text[]) k;
SELECT jobq_create_queue('timed', max_runtime => '3 h', on_max_runtime => 'cancel', expires_in => '9 h');
SELECT jobq_pause_queue('idle');
SELECT jobq_create_queue('orders', dead_letter_queue => 'dead letters');
SELECT jobq_enqueue('orders', kind => 'ship');
SELECT jobq_fail(id, lease, 'no such street', retry => false, details => '{"class": "LookupError"}') FROM jobq_claim('orders', 'w1');
SELECT jobq_enqueue('mail', jsonb_build_object('n', n), kind => (ARRAY['a', 'B', 'ü', ''])[n % 4 + 1],
                    priority => n % 3 - 1, metadata => '{"from": "dump"}',
                    options => jsonb_build_object('version', n % 2, 'requires', CASE WHEN n % 5 = 0 THEN '{gpu}'::text[] END))
FROM generate_series(1, 40) n;
SELECT jobq_enqueue('mail', run_at => now() + interval '30 days');
SELECT jobq_enqueue('idle', kind => 'waits');
INSERT INTO jobq.jobs (queue, status) VALUES ('mail', 'blocked');
SELECT count(jobq_complete(id, lease, '{"ok": true}')) FROM jobq_claim('mail', 'w1', batch => 3);
SELECT count(jobq_fail(id, lease, 'no good', retry => false)) FROM jobq_claim('mail', 'w1', batch => 3);
SELECT count(jobq_fail(id, lease, 'try later', retry_in => '10 h')) FROM jobq_claim('mail', 'w1', batch => 2);
SELECT count(jobq_release(id, lease)) FROM jobq_claim('mail', 'w2', batch => 2);
SELECT count(*) FROM jobq_claim('mail', 'w3', batch => 4);
SELECT jobq_enqueue('timed', options => jsonb_build_object('max_runtime', v)) FROM unnest('{NULL,2 h}'::interval[]) v;
SELECT count(*) FROM jobq_claim('timed', 'w4', batch => 2, heartbeat_timeout => '10 h');
SELECT jobq_heartbeat(id, lease, '{"percent": 10}') FROM jobq.jobs WHERE status = 'processing';
SELECT jobq_write_log(ARRAY[id, id], ARRAY[lease, lease], '{one,two}', '{info,error}') FROM jobq.jobs WHERE status = 'processing';
SELECT jobq_cancel(id) FROM jobq.jobs WHERE status = 'pending' ORDER BY id DESC LIMIT 2;
SELECT jobq_enqueue('graph', kind => k) FROM unnest('{a,b}'::text[]) k;
SELECT jobq_enqueue('graph', kind => 'after', depends_on => ARRAY(SELECT id FROM jobq.jobs WHERE queue = 'graph'));
SELECT jobq_complete(id, lease, '7') FROM jobq_claim('graph');
SELECT jobq_delete(id) FROM jobq.jobs WHERE queue = 'graph' AND kind = 'a';
SELECT jobq_create_batch('dumped', on_complete => '{"queue": "mail"}', metadata => '{"n": 1}');
SELECT jobq_enqueue('mail', kind => k, run_at => now() + interval '30 days', options => jsonb_build_object('batch_id', b.id))
FROM jobq.batches b, unnest('{kept,deleted}'::text[]) k;
SELECT jobq_delete(id) FROM jobq.jobs WHERE kind = 'deleted';
SELECT jobq_seal_batch(id) FROM jobq.batches;
SELECT jobq_set_limit('limited', max_running => 3), jobq_set_limit('limited', '*', max_running => 2), jobq_set_limit('limited', kind => '*', max_running => 9), jobq_set_named_limit('shared', '{limited}', max_running => 5);
SELECT jobq_enqueue('limited', concurrency_key => 'k' || n % 2) FROM generate_series(1, 9) n;
SELECT count(*) FROM jobq_claim('limited', 'w4', 2, heartbeat_timeout => '1 hour');
SELECT jobq_enqueue('timed', kind => 'expires');
SELECT jobq_enqueue('mail', unique_key => 'waits', unique_for => '1 day', run_at => now() + interval '30 days');
SELECT jobq_cancel(jobq_enqueue('mail', unique_key => 'kept', unique_for => '1 day', run_at => now() + interval '30 days'));
SELECT count(*) FROM jobq_enqueue_many('steps', '{1,2,3,4,5}', group_keys => '{a,a,a,b,b}');
SELECT count(*) FROM jobq_tick();
SELECT count(*) FROM jobq_claim('steps', 'w1', heartbeat_timeout => '2 h');
SELECT jobq_create_queue('halting', group_on_failure => 'halt');
SELECT count(*) FROM jobq_enqueue_many('halting', '{1,2}', group_keys => '{g,g}');
SELECT count(*) FROM jobq_tick();
SELECT jobq_fail(id, lease, 'broken', retry => false) FROM jobq_claim('halting', 'w1');
SELECT jobq_enqueue('waits', kind => k, group_key => 'g' || k) FROM unnest('{signalled,told,late,runs}'::text[]) k;
SELECT count(*) FROM jobq_tick();
SELECT jobq_step_done(id, lease, 'a', '1') FROM jobq_claim('waits', 'w1', batch => 4, heartbeat_timeout => '2 h');
SELECT jobq_await(id, lease, CASE kind WHEN 'late' THEN 'nothing' ELSE 'e' END, CASE kind WHEN 'late' THEN interval '10 h' END)
FROM jobq.jobs WHERE queue = 'waits' AND kind <> 'runs';
SELECT jobq_signal('elsewhere', 'kept', '7'), jobq_signal_job(id, 'kept', '8') FROM jobq.jobs WHERE queue = 'waits' AND kind = 'told';
-- A parent that awaits two children, of which one has ended in a queue that keeps nothing.
SELECT jobq_create_queue('children', keep_completed => '0'), jobq_enqueue('parents');
SELECT s.state FROM jobq_claim('parents', 'w1', heartbeat_timeout => '2 h') c,
     jobq_spawn(c.id, c.lease, 'split', '[{"queue": "children", "payload": 1}, {"queue": "children", "payload": 2}]') s;
SELECT a.state FROM jobq.jobs j, jobq.steps s, jobq_await_jobs(j.id, j.lease, s.jobs, 'joined') a WHERE j.queue = 'parents' AND s.job_id = j.id;
SELECT jobq_complete(id, lease, payload) FROM jobq_claim('children', 'w1');
-- As only replication can leave it: no INSERT is allowed this, but a dump has it.
SET session_replication_role = replica;
UPDATE jobq.jobs SET created_at = '-infinity', attempts = -5, _lease_timeout = '0', worker_id = repeat('w', 300) WHERE queue = 'idle';
SQL
# A role that is restricted to one queue and has been renamed since, and the row that a dropped role has left.
value($node, 'source', <<'SQL');
CREATE ROLE mailer;
CREATE ROLE gone;
SELECT jobq_grant('mailer', 'worker', '{mail}'), jobq_grant('gone', 'worker', '{mail}');
ALTER ROLE mailer RENAME TO postman;
DROP OWNED BY gone;
DROP ROLE gone;
SQL
is(value($node, 'source', 'SELECT count(*) FROM jobq.queue_grants'), 2, 'the row of a dropped role is still there');
is( value($node, 'source', 'SELECT string_agg(DISTINCT status::text, chr(32) ORDER BY status::text) FROM jobq.jobs'),
    'blocked cancelled completed failed pending processing scheduled', 'there is a job in every status');

sub claims_as_postman
{
    my ($database, $queue) = @_;
    my ($code, undef, $error) =
        $node->psql($database, "\\set VERBOSITY sqlstate\nSET ROLE postman; SELECT jobq_claim('$queue', batch => 0)");
    return $error =~ /ERROR:  (\w+)/ ? $1 : 'may';
}

my @contents = (
    # All columns except _claim_xid, which refers to a transaction of the other cluster and must not be restored; _rescue_indexed,
    # which becomes true late for a young lease and at once for a restored one; and the slots of limits, which the tick assigns.
    # Hashes differ between databases, because each database has its own secret: the query compares them with the hashes of the
    # names.
    [ 'jobs', q{SELECT j.id, to_jsonb(j) - '{_claim_xid,_rescue_indexed,_queue_slot,_key_slot,_kind_slot,_limit_slot1,_limit_slot2,_slot_seq,_lane,_group_waiting,_group_active,_round_robin_key}'::text[],
                       j._lane = jobq.lane_of(queue, kind, version, requires, limits), j._group_waiting = jobq.group_of(queue, group_key),
                       j._group_active = jobq.group_of(queue, group_key), j._round_robin_key = jobq.round_robin_key_of(concurrency_key)
                FROM jobq.jobs j ORDER BY id} ],
    [ 'attempts', 'SELECT * FROM jobq.attempts ORDER BY job_id, lease' ],
    [ 'batches', 'SELECT * FROM jobq.batch_settings ORDER BY id' ],
    [ 'deleted members of batches', 'SELECT batch_id, sum(completed), sum(failed), sum(cancelled) FROM jobq.batch_counts GROUP BY 1 ORDER BY 1' ],
    [ 'log lines', 'SELECT * FROM jobq.log_lines ORDER BY job_id, lease, number' ],
    [ 'queue settings', 'SELECT * FROM jobq.queue_settings ORDER BY queue' ],
    [ 'settings of kinds', 'SELECT * FROM jobq.kind_settings ORDER BY queue, kind' ],
    [ 'limits', 'SELECT queue, key, by_kind, max_running, rate, per, created_at FROM jobq.limit_settings ORDER BY queue, key, by_kind' ],
    [ 'named limits', 'SELECT name, queues, max_running, rate, per, created_at FROM jobq.named_limit_settings ORDER BY name' ],
    [ 'kept keys', 'SELECT * FROM jobq.kept_keys ORDER BY job_id' ],
    [ 'edges', 'SELECT job_id, kind, target, on_failure, active OR kind = $$awaits$$ FROM jobq.edges ORDER BY job_id, kind, target' ],
    [ 'deleted dependencies', 'SELECT * FROM jobq.deleted_dependencies ORDER BY job_id' ],
    [ 'steps', 'SELECT * FROM jobq.steps ORDER BY job_id, number' ],
    [ 'signals', 'SELECT * FROM jobq.signals ORDER BY queue, event' ],
    [ 'signals to jobs', 'SELECT * FROM jobq.job_signals ORDER BY job_id, event' ],
    [ 'lanes', 'SELECT DISTINCT queue, kind, version, requires, lane = jobq.lane_of(queue, kind, version, requires, limits) FROM jobq.lane_directory ORDER BY 1, 2, 3, 4' ],
    [ 'queues', 'SELECT * FROM jobq.queues ORDER BY queue' ],
    [ 'queues of roles', 'SELECT * FROM jobq.queue_grants WHERE role::oid IN (SELECT oid FROM pg_roles)' ],
    [ 'sequence', 'SELECT last_value, is_called FROM jobq.jobs_id_seq' ],
);
my %before = map { $_->[0] => value($node, 'source', $_->[1]) } @contents;

# ---- the ways to copy a database

my $directory = PostgreSQL::Test::Utils::tempdir;
my %restore = (
    text => sub {
        $node->command_ok([ 'pg_dump', '-f', "$directory/text", $node->connstr('source') ], 'pg_dump');
        $node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', "$directory/text", $node->connstr('text') ], 'psql');
    },
    archive => sub {
        $node->command_ok([ 'pg_dump', '-Fc', '-f', "$directory/archive", $node->connstr('source') ], 'pg_dump -Fc');
        $node->command_ok([ 'pg_restore', '--exit-on-error', '-d', $node->connstr('archive'), "$directory/archive" ],
            'pg_restore');
    },
    parallel => sub {
        $node->command_ok([ 'pg_dump', '-Fd', '-j2', '-f', "$directory/parallel", $node->connstr('source') ],
            'pg_dump -Fd -j2');
        $node->command_ok([ 'pg_restore', '--exit-on-error', '-j2', '-d', $node->connstr('parallel'), "$directory/parallel" ],
            'pg_restore -j2');
    },
    # With pg_dump -C, the restore sets such a default of the database before it loads the data.
    strict => sub {
        value($node, 'postgres', q{ALTER DATABASE strict SET default_transaction_isolation = 'repeatable read'});
        $node->command_ok([ 'pg_dump', '-f', "$directory/strict", $node->connstr('source') ], 'pg_dump');
        $node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', "$directory/strict", $node->connstr('strict') ],
            'psql in REPEATABLE READ');
        value($node, 'postgres', 'ALTER DATABASE strict RESET default_transaction_isolation');
    });

for my $way (sort keys %restore)
{
    value($node, 'postgres', "CREATE DATABASE $way");
    $restore{$way}->();
    is(value($node, $way, q{SELECT count(*) FROM jobq.jobs WHERE _claim_xid IS NOT NULL}), 0,
        "$way: no job refers to a transaction of the other cluster");
    for my $part (@contents)
    {
        my ($name, $query) = @$part;
        is(value($node, $way, $query), $before{$name}, "$way: the $name are the same");
    }
    # The sessions of pg_restore exit shortly after pg_restore.
    becomes_true($node, $way, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'},
        "$way: the restore has ended");
    is(value($node, $way, 'SELECT jobq_adopt()'), 't', "$way: jobq_adopt adopts the copy");
    value($node, $way, 'SELECT count(*) FROM jobq_tick()');
    is(value($node, $way, 'SELECT count(*) FROM jobq.queue_grants'), 1, "$way: the row of the dropped role is gone");
    is(claims_as_postman($way, 'idle'), '42501', "$way: a role that is restricted to one queue cannot use another");
    is(claims_as_postman($way, 'mail'), 'may', "$way: the role can use its own queue");
    is(value($node, $way, q{SELECT count(*) FROM jobq_claim('limited', batch => 9)}), 1, "$way: limits apply and include the running jobs");
}
is(value($node, 'source', $contents[0][1]), $before{jobs}, 'the source has not changed in the meantime');

# ---- the copies work

for my $way (sort keys %restore)
{
    is( value($node, $way, q{SELECT jobq_enqueue('mail', '"new"', priority => -5) - max(id) FROM jobq.jobs}),
        '1', "$way: the ids continue");
    is( value($node, $way, q{SELECT payload FROM jobq_claim('mail', 'n')}),
        '"new"', "$way: a new job in an old lane is claimable");
    value($node, $way, q{SELECT jobq_enqueue('mail', '"other"', kind => 'new lane')});
    is( value($node, $way, q{SELECT payload FROM jobq_claim('mail', 'n', kinds => '{new lane}')}),
        '"other"', "$way: a job in a new lane is claimable");

    my ($id, $lease) = split /\|/,
      value($node, $way, q{SELECT id, lease FROM jobq.jobs WHERE worker_id = 'w3' ORDER BY id LIMIT 1});
    is(value($node, $way, "SELECT jobq_heartbeat($id, $lease)"), 'held', "$way: a lease from before the dump is held");
    is(value($node, $way, "SELECT jobq_complete($id, $lease)"), 't', "$way: the job of this lease can be completed");
    is(value($node, $way, q{SELECT count(*) FROM jobq_claim('idle')}), '0', "$way: a paused queue is paused");

    my $order = q{SELECT string_agg(id::text, ' ' ORDER BY priority, run_at, id) FROM jobq.jobs
        WHERE queue = 'mail' AND status = 'pending'};
    my $expected = value($node, $way, "$order AND requires IS NULL");
    my $number = split / /, $expected;
    my $claimed = join ' ', map { value($node, $way, q{SELECT id FROM jobq_claim('mail', 'n')}) } 1 .. $number;
    is($claimed, $expected, "$way: jobs are claimed in order");
    my $rest = value($node, $way, q{SELECT count(*) FROM jobq.jobs
        WHERE status = 'pending' AND queue = 'mail' AND requires = '{gpu}'});
    cmp_ok($rest, '>', 0, "$way: jobs that require a capability remain");
    is( value($node, $way, q{SELECT count(*) FROM jobq_claim('mail', 'g', batch => 100, capabilities => '{gpu}')}),
        $rest, "$way: a worker with the capability claims them");

    is(value($node, $way, q{SELECT string_agg((_must_end_at - started_at)::text, ' ' ORDER BY id) FROM jobq.jobs WHERE queue = 'timed'}),
        '03:00:00 02:00:00', "$way: running jobs keep their maximum run time");

    is(value($node, $way, q{SELECT count(DISTINCT payload), (SELECT count(*) FROM jobq_claim('fair', 'f', batch => 10)) FROM jobq_claim('fair', 'f', batch => 3)}),
        '3|1', "$way: concurrency keys take turns");

    is(value($node, $way, q{SELECT jobq_redrive('dead letters')}), '1', "$way: a dead letter is redriven");
    is( value($node, $way, q{SELECT kind || ' ' || attempt FROM jobq_claim('orders', 'n')}),
        'ship 1', "$way: the redriven job is claimable in its original queue");

    is( value($node, $way, q{SELECT string_agg(kind || ' ' || status, ', ' ORDER BY id) FROM jobq.jobs WHERE queue = 'graph'}),
        'b pending, after blocked', "$way: a job waits for its dependencies");
    value($node, $way, q{SELECT jobq_complete(id, lease, '8') FROM jobq_claim('graph')});
    becomes_true($node, $way, q{SELECT status = 'pending' FROM jobq.jobs WHERE queue = 'graph' AND kind = 'after'},
        "$way: the job is unblocked when they have completed");
    is( value($node, $way, q{SELECT string_agg(result::text, ' ') FROM jobq_claim('graph') c, jobq_dependency_results(c.id)}),
        '7 8', "$way: the job gets the results of all its dependencies");

    my $steps = q{SELECT string_agg(format('%s %s', payload, status), ', ' ORDER BY id) FROM jobq.jobs WHERE queue = 'steps'};
    is(value($node, $way, $steps), '1 processing, 2 blocked, 3 blocked, 4 pending, 5 blocked', "$way: each group has its head");
    value($node, $way, q{SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE queue = 'steps' AND status = 'processing'});
    becomes_true($node, $way, "SELECT ($steps) = '1 completed, 2 pending, 3 blocked, 4 pending, 5 blocked'", "$way: the next job of a group follows its completed head");

    my $halting = q{SELECT string_agg(format('%s %s', payload, status), ', ' ORDER BY id) FROM jobq.jobs WHERE queue = 'halting'};
    is(value($node, $way, $halting), '1 failed, 2 blocked', "$way: a halted group stays halted");
    is(value($node, $way, q{SELECT jobq_skip(job_id) FROM jobq.halted_groups}), 't', "$way: the failed job is skipped");
    becomes_true($node, $way, "SELECT ($halting) = '1 failed, 2 pending'", "$way: the group continues");

    my $waits = q{SELECT string_agg(format('%s %s', kind, status), ', ' ORDER BY id) FROM jobq.jobs WHERE queue = 'waits'};
    is(value($node, $way, $waits), 'signalled blocked, told blocked, late blocked, runs processing', "$way: jobs still await their signals");
    is(value($node, $way, q{SELECT count(*) FROM jobq.jobs WHERE queue = 'waits' AND _group_active IS NOT NULL}), '4', "$way: the waiting jobs keep their turns in their groups");
    value($node, $way, q{SELECT jobq_signal_job(id, 'e', '9') FROM jobq.jobs WHERE queue = 'waits' AND kind = 'told'});
    becomes_true($node, $way, "SELECT ($waits) = 'signalled blocked, told pending, late blocked, runs processing'", "$way: a signal to a job wakes up the job");
    value($node, $way, q{SELECT jobq_signal('waits', 'e', '10')});
    becomes_true($node, $way, "SELECT ($waits) = 'signalled pending, told pending, late blocked, runs processing'", "$way: a signal to the queue wakes up a job");
    is(value($node, $way, q{SELECT string_agg(format('%s %s %s', a.state, a.payload, s.result), ', ' ORDER BY c.id) FROM jobq_claim('waits', 'n', 3) c,
        jobq_await(c.id, c.lease, 'e') a, jobq_step(c.id, c.lease, 'a') s}), 'ready 10 1, ready 9 1', "$way: the jobs continue after their completed steps");
    is(value($node, $way, q{SELECT a.state, a.payload FROM jobq.jobs j, jobq_await(j.id, j.lease, 'kept') a WHERE queue = 'waits' AND kind = 'told'}),
        'ready|8', "$way: a signal from before the dump is delivered");
    value($node, $way, q{UPDATE jobq.steps SET until = now() WHERE event = 'nothing'; UPDATE jobq.jobs SET run_at = now() WHERE queue = 'waits' AND kind = 'late'});
    becomes_true($node, $way, q{SELECT status = 'pending' FROM jobq.jobs WHERE queue = 'waits' AND kind = 'late'}, "$way: a job wakes up when its wait times out");
    is(value($node, $way, q{SELECT a.state FROM jobq_claim('waits', 'n') c, jobq_await(c.id, c.lease, 'nothing') a}), 'timeout', "$way: the wait returns a timeout");

    is(value($node, $way, q{SELECT string_agg(status::text, ' ' ORDER BY id) FROM jobq.jobs WHERE queue IN ('parents', 'children')}), 'blocked completed pending',
        "$way: a job awaits its children");
    value($node, $way, q{SELECT jobq_complete(id, lease, payload) FROM jobq_claim('children', 'n')});
    becomes_true($node, $way, q{SELECT status = 'pending' FROM jobq.jobs WHERE queue = 'parents'}, "$way: the end of the last child wakes up the parent");
    is(value($node, $way, q{SELECT a.state, a.results->0->'result', a.results->1->'result' FROM jobq_claim('parents', 'n') c, jobq.steps s,
        jobq_await_jobs(c.id, c.lease, s.jobs, 'joined') a WHERE s.job_id = c.id AND s.kind = 'spawn'}), 'ready|1|2', "$way: the parent gets the results of both children");

    # The restored database was not announced to the server.
    value($node, $way, q{UPDATE jobq.jobs SET run_at = clock_timestamp() + interval '50 ms' WHERE status = 'scheduled'});
    value($node, $way, q{SELECT jobq_enqueue('soon', run_at => clock_timestamp() + interval '50 ms')});
    becomes_true($node, $way, q{SELECT NOT EXISTS (SELECT FROM jobq.jobs WHERE status = 'scheduled')},
        "$way: its delayed jobs are promoted");
}

# ---- after a dump without rows, a restricted role has no queue at all, instead of all queues

for my $case ([ 0 ], [ 1, '--extension=jobq' ])
{
    my ($has_jobs, @options) = @$case;
    $node->command_ok([ 'pg_dump', '-n', 'public', @options, '-f', "$directory/part", $node->connstr('source') ], "pg_dump -n @options");
    is((slurp_file("$directory/part") =~ /^COPY jobq\.jobs /m) ? 1 : 0, $has_jobs, 'the dump has the jobs only if it names the extension');
}
$node->command_ok([ 'pg_dump', '-s', '-f', "$directory/schema", $node->connstr('source') ], 'pg_dump -s');
value($node, 'postgres', 'CREATE DATABASE empty');
$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', "$directory/schema", $node->connstr('empty') ], 'psql');
is(claims_as_postman('empty', 'mail'), '42501', 'without the rows, the role has no queue');
value($node, 'empty', q{SELECT jobq_grant('postman', 'worker', '{mail}')});
is(claims_as_postman('empty', 'mail'), 'may', 'until a queue is granted to it');
is(claims_as_postman('empty', 'idle'), '42501', 'another queue is still forbidden');

# ---- a restored dump in which only jobq_adopt() is called: leases expire and jobs become due

value($node, 'source', q{SELECT jobq_enqueue('dead')});
value($node, 'source', q{SELECT id FROM jobq_claim('dead', 'w', heartbeat_timeout => '1 s')});
$node->command_ok([ 'pg_dump', '-f', "$directory/late", $node->connstr('source') ], 'pg_dump with a lease that runs out');
value($node, 'postgres', 'CREATE DATABASE late');
$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', "$directory/late", $node->connstr('late') ], 'psql');
value($node, 'late', 'SELECT jobq_adopt()');
becomes_true($node, 'late', q{SELECT status = 'pending' FROM jobq.jobs WHERE queue = 'dead'},
    'the job is rescued in the copy without any other call');

done_testing();
