# Tests that a broken database or a row that cannot be changed does not stop others. jobq.background_workers shows the error, the log reports
# each change of state once, and the error ends when its cause is gone.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use Test::More;

my $node = preloaded('broken', conf => ['jobq.max_workers = 2']);
database($node, 'good');
database($node, 'bad');

sub enqueue_delayed
{
    my ($database, $queue) = @_;
    return value($node, $database, qq{SELECT jobq_enqueue('$queue', run_at => clock_timestamp() + interval '50 ms')});
}

sub promoted
{
    my ($database, $queue, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return becomes_true($node, $database,
        qq{SELECT count(*) > 0 AND bool_and(status = 'pending') FROM jobq.jobs WHERE queue = '$queue'}, $name);
}

# Waits until the worker of the bad database has reported the error several times.
sub keeps_failing
{
    my ($times, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my %seen;
    return ok(
        defined seconds_until(
            sub {
                my ($at) = run_sql($node, 'good', q{SELECT last_error_at FROM jobq.background_workers WHERE database = 'bad'});
                $seen{$at}++ if $at ne '';
                return keys %seen >= $times;
            }),
        $name);
}

# Returns how often an error of the bad database has been logged since $position, by duty.
sub times_logged
{
    my ($pattern, $position) = @_;
    my ($error, %times) = (0);
    for my $line (split /\n/, log_since($node, $position))
    {
        # For a row that is left out, the log has a warning on one line. For a duty that fails, it has an error with a context.
        if ($line =~ /WARNING:  jobq worker for bad: duty (\w+) (skipped .*)/)
        {
            my ($duty, $text) = ($1, $2);
            $times{$duty}++ if $text =~ $pattern;
        }
        $error = $1 =~ $pattern if $line =~ /ERROR:  (.*)/;
        next unless $error && $line =~ /jobq worker for bad, (?:duty|step) (\w+)$/;
        $times{$1}++;
        $error = 0;
    }
    return %times;
}

# ---- a row that a trigger refuses to change

value($node, 'bad', <<'SQL');
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'this row is poison' USING ERRCODE = 'P0042'; END $$;
CREATE TRIGGER refuse BEFORE UPDATE ON jobq.jobs FOR EACH ROW
    WHEN (OLD.queue = 'poison' AND OLD.status <> 'pending') EXECUTE FUNCTION refuse();
SQL
my $position = log_size($node);
value($node, 'bad', q{SELECT jobq_create_queue('poison', heartbeat_timeout => '500 ms')});
value($node, 'bad', q{SELECT jobq_create_queue('sound', heartbeat_timeout => '500 ms')});

# The rescue: the row that cannot be changed comes first.
value($node, 'bad', q{SELECT jobq_enqueue('poison')});
value($node, 'bad', q{SELECT id FROM jobq_claim('poison', 'a worker')});
keeps_failing(1, 'the error is recorded');
like(value($node, 'bad', q{SELECT last_error FROM jobq.background_workers WHERE database = 'bad'}),
    qr/rescue: .*this row is poison/, 'with the duty and the error message');
value($node, 'bad', q{SELECT count(*) FROM jobq_enqueue_many('sound', array_fill('{}'::jsonb, ARRAY[3]))});
value($node, 'bad', q{SELECT count(*) FROM jobq_claim('sound', 'b worker', batch => 3)});

enqueue_delayed('good', 'q');
promoted('good', 'q', 'the other database is served');
enqueue_delayed('bad', 'other duty');
promoted('bad', 'other duty', 'other duties of the bad database continue');
promoted('bad', 'sound', 'other rows of the same duty are rescued');

# The promotion.
value($node, 'bad', q{SELECT jobq_enqueue('poison', kind => 'p', run_at => clock_timestamp() + interval '10 ms')});
becomes_true($node, 'bad', q{SELECT _due AND run_at < clock_timestamp() FROM jobq.jobs WHERE kind = 'p'}, 'the job that cannot be changed is due');
enqueue_delayed('bad', 'sound again');
promoted('bad', 'sound again', 'a job that cannot be changed does not stop the promotion of others');

keeps_failing(3, 'the error is reported repeatedly');
my %times = times_logged(qr/this row is poison/, $position);
is(join(' ', map { "$_ $times{$_}" } sort keys %times), 'promote 1 rescue 1', 'the log reports the error once per duty');

is(value($node, 'bad', q{SELECT last_error_over_at FROM jobq.background_workers WHERE database = 'bad'}), '', 'jobq.background_workers does not report that the error is over');

value($node, 'bad', 'DROP TRIGGER refuse ON jobq.jobs');
promoted('bad', 'poison', 'without the trigger the job is rescued');
my $over = q{SELECT last_error IS NOT NULL AND last_error_over_at > last_error_at FROM jobq.background_workers WHERE database = 'bad'};
becomes_true($node, 'bad', $over, 'the error is over and still shown');
enqueue_delayed('bad', 'after');
promoted('bad', 'after', 'other jobs are promoted');

# ---- a missing table

value($node, 'bad', q{SELECT sum(jobq_purge_queue(queue)) FROM jobq.queues});
keep_in_use($node, 'bad');
$position = log_size($node);
value($node, 'bad', 'ALTER TABLE jobq.jobs RENAME TO hidden');
keeps_failing(2, 'a missing table is reported repeatedly');
like(value($node, 'good', q{SELECT last_error FROM jobq.background_workers WHERE database = 'bad'}),
    qr/"jobq.jobs" does not exist/, 'jobq.background_workers shows the error to sessions in other databases');
keeps_failing(3, 'the error persists');
my $missing = qr/relation "jobq.jobs" does not exist/;
ok(seconds_until(
        sub {
            %times = times_logged($missing, $position);
            return $times{promote} && $times{rescue} && $times{planning};
        }),
    'the log reports the error of each duty') or diag(join ' ', %times);
is(join(' ', grep { $_ ne '1' } values %times), '', 'once per duty');
enqueue_delayed('good', 'meanwhile');
promoted('good', 'meanwhile', 'the other database is served');

value($node, 'bad', 'ALTER TABLE jobq.hidden RENAME TO jobs');
enqueue_delayed('bad', 'back');
promoted('bad', 'back', 'the duties continue when the table is back');
my @silent;
seconds_until(sub { @silent = grep { !count_in_log($node, qr/bad recovered from an error in (?:duty|step) $_\b/, $position) } keys %times; return !@silent });
is("@silent", '', 'the log reports the recovery of each duty');

# An error that occurs again is logged again.
$position = log_size($node);
value($node, 'bad', 'ALTER TABLE jobq.tick_state RENAME TO hidden');
ok(seconds_until(sub { count_in_log($node, qr/ERROR:  relation "jobq.tick_state" does not exist/, $position) }),
    'an error of another duty is logged');
value($node, 'bad', 'ALTER TABLE jobq.hidden RENAME TO tick_state');
ok(seconds_until(sub { count_in_log($node, qr/recovered from an error in duty prune/, $position) }), 'its end is logged');
value($node, 'bad', 'ALTER TABLE jobq.tick_state RENAME TO hidden');
ok(seconds_until(sub { count_in_log($node, qr/ERROR:  relation "jobq.tick_state" does not exist/, $position) == 2 }),
    'the same error is logged again when it reoccurs');
value($node, 'bad', 'ALTER TABLE jobq.hidden RENAME TO tick_state');

# ---- a database that allows no connections

value($node, 'postgres', q{CREATE DATABASE shut});
value($node, 'shut', 'CREATE EXTENSION jobq');
keep_in_use($node, 'shut');
await_worker($node, 'shut');
my $inside = session($node, 'shut');
value($node, 'postgres', q{ALTER DATABASE shut ALLOW_CONNECTIONS false});
$inside->query_safe(q{SELECT jobq_enqueue('q', run_at => clock_timestamp() + interval '100 ms')});
becomes_true($node, 'good', q{SELECT note LIKE 'the database allows no connections%' FROM jobq.background_workers WHERE database = 'shut'}, 'jobq.background_workers says that the database allows no connections');
end_sessions($inside);
enqueue_delayed('good', 'last');
promoted('good', 'last', 'a database without connections does not stop the others');

unlike(log_since($node), qr/(?:PANIC|TRAP|terminated by signal)/, 'no crash');

done_testing();
