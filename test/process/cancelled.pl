# Tests cancellation: a call for many jobs ends promptly, and a canceled background worker continues.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;

my $node = preloaded('cancelled');
database($node, 'work');

# ---- a call for many jobs: the timeout is far shorter than the call, but longer than the evaluation of its arguments

value($node, 'work', q{SELECT count(*) FROM jobq_enqueue_many('many', array_fill('{}'::jsonb, ARRAY[99999]))});
value($node, 'work', q{CREATE TABLE held AS SELECT array_agg(id ORDER BY id) AS ids, array_agg(lease ORDER BY id) AS leases
    FROM jobq_claim('many', 'w', 99999, heartbeat_timeout => '1 hour')});
for my $call ('jobq_heartbeat_many(ids, leases)', 'jobq_complete_many(ids, leases)', 'jobq_fail_many(ids, leases)', 'jobq_release_many(ids, leases)')
{
    is(sqlstate($node, 'work', "SET statement_timeout = '30ms'; SELECT count(*) FROM held, $call"), '57014', "$call ends in the middle");
}
is(sqlstate($node, 'work', q{SET statement_timeout = '30ms'; SELECT count(*) FROM jobq_heartbeat_worker('w')}), '57014', 'jobq_heartbeat_worker ends in the middle');
is(value($node, 'work', q{SELECT count(*) FROM jobq.jobs WHERE queue = 'many' AND status = 'processing'}), '99999', 'the canceled calls changed nothing');

# ---- the launcher and a worker: cancellation ends the current step with an error, but not the process

ok(await_worker($node, 'work'), 'the database has a worker');
my @pids = (launcher_pid($node), worker_pid($node, 'work'));
my $log_size = log_size($node);
is(value($node, 'postgres', "SELECT pg_cancel_backend($_)"), 't', "pg_cancel_backend() signals a process of jobq") for @pids;
value($node, 'work', q{SELECT jobq_enqueue('later', run_at => clock_timestamp() + interval '0.1 s')});
becomes_true($node, 'work', q{SELECT count(*) = 1 FROM jobq.jobs WHERE queue = 'later' AND status = 'pending'}, 'a job that becomes due afterward is promoted');
is_deeply([ launcher_pid($node), worker_pid($node, 'work') ], \@pids, 'the same processes still run');
unlike(slurp_file($node->logfile, $log_size), qr/exited unexpectedly/, 'no process exited unexpectedly');

done_testing();
