# Tests executors with more work than jobq.max_executors allows: databases take turns, and so do the handlers of one role, for equal
# times. jobq_explain and jobq.handlers say that a handler waits for an executor.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use Test::More;

my $node = preloaded('turns', conf => [ 'jobq.max_executors = 2', 'jobq.max_workers = 5', 'max_worker_processes = 16' ]);
value($node, 'postgres', 'CREATE ROLE runner LOGIN');

# Creates a database with handlers that wait for the gate and then run for a number of seconds.
sub work_database
{
    my ($name, $seconds) = @_;
    database($node, $name);
    value($node, $name, <<"SQL");
CREATE FUNCTION work(job jsonb) RETURNS void LANGUAGE plpgsql AS \$\$
BEGIN PERFORM pg_advisory_xact_lock_shared(1); PERFORM pg_sleep($seconds); END \$\$;
SQL
    return;
}
sub close_gate
{
    my ($name) = @_;
    my $gate = session($node, $name);
    $gate->query('SELECT pg_advisory_lock(1)');
    return $gate;
}
sub enqueue { my ($name, $count, $kind) = @_; return value($node, $name, "SELECT max(jobq_enqueue('work', kind => '$kind')) FROM generate_series(1, $count)"); }
sub count_jobs { my ($name, $condition) = @_; return value($node, $name, "SELECT count(*) FROM jobq.jobs WHERE $condition"); }
sub becomes_state
{
    my ($name, $kind, $state, $reason) = @_;
    return becomes_true($node, $name, "SELECT state = '$state' AND reason IS NOT DISTINCT FROM $reason FROM jobq.handlers WHERE kind = '$kind'",
        "the handler of kind \"$kind\" in database \"$name\" is $state");
}
sub explains
{
    my ($name, $job, $detail) = @_;
    return becomes_true($node, $name, "SELECT EXISTS (SELECT FROM jobq_explain($job) WHERE reason = 'handler' AND detail = 'its handler waits for an executor: $detail')",
        "jobq_explain says so in database \"$name\"");
}

# ---- databases

work_database($_, 0.02) for qw(a b c);
value($node, $_, q{SELECT jobq_set_handler('work', 'x', 'work(jsonb)', 'runner')}) for qw(a b c);
my @gates = map { close_gate($_) } qw(a b);
for my $name (qw(a b))
{
    enqueue($name, 2000, 'x');
    becomes_state($name, 'x', 'running', 'NULL');
}
my $job = enqueue('c', 1, 'x');
my $busy = 'all executors are busy with other handlers; increase jobq.max_executors';
becomes_state('c', 'x', 'waiting', "'$busy'");
explains('c', $job, $busy);
end_sessions(@gates);
becomes_true($node, 'c', "SELECT status = 'completed' FROM jobq.jobs WHERE id = $job", 'the job of the third database runs');
cmp_ok(count_jobs($_, "status = 'pending'"), '>', 0, "while database \"$_\" still has jobs") for qw(a b);
is(value($node, 'c', "SELECT count(*) FROM jobq_explain($job) WHERE reason = 'handler'"), '0', 'jobq_explain no longer says that the handler waits');
value($node, $_, q{SELECT jobq_purge_queue('work')}) for qw(a b);

# ---- handlers of one role

work_database('d', 0.1);
settings($node, 'jobq.max_executors = 1');
$node->reload;
value($node, 'd', q{SELECT jobq_set_handler('work', k, 'work(jsonb)', 'runner') FROM unnest('{slow,other}'::text[]) k});
@gates = close_gate('d');
enqueue('d', 200, 'slow');
becomes_state('d', 'slow', 'running', 'NULL');
$job = enqueue('d', 1, 'other');
my $role = 'the executors of its role are busy with other handlers';
becomes_state('d', 'other', 'waiting', "'$role'");
explains('d', $job, $role);
end_sessions(@gates);
becomes_true($node, 'd', "SELECT status = 'completed' FROM jobq.jobs WHERE id = $job", 'the job of the other handler runs');
my $before = count_jobs('d', "kind = 'slow' AND started_at < (SELECT started_at FROM jobq.jobs WHERE id = $job)");
cmp_ok($before, '<', 60, "after $before jobs, and not only after 100");
is(count_in_log($node, 'PANIC|TRAP|was terminated by signal', 0), 0, 'no process crashed');

done_testing();
