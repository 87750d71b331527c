# Tests schedules while the clock of the running server steps forward by days and back by hours: no run is fired twice, and no run
# is lost except those that `missed` allows to be skipped. lib/JobqClock.pm sets the clock of the server.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqClock;
use JobqTest;
use PostgreSQL::Test::Utils;
use Test::More;

set_clock('7 12:30:00');
my $node = preloaded('first', stopped => 1, conf => [q{timezone = 'UTC'}]);
with_clock(sub { $node->start });
is(value($node, 'postgres', q{SELECT date_trunc('minute', clock_timestamp())}), '2030-01-07 12:30:00+00', 'the server uses the clock from the file');
database($node, 'work');
sub work { return value($node, 'work', $_[0]); }

# ---- the laws: each row of this view is a violation

work(<<'SQL');
CREATE VIEW runs AS SELECT j.id, j.metadata->>'schedule' AS name, (j.metadata->>'scheduled_for')::timestamptz AS run, j.created_at FROM jobq.jobs j WHERE j.metadata ? 'schedule';
CREATE VIEW broken AS
SELECT 'fired twice' AS law, name || ' ' || run AS what FROM runs GROUP BY name, run HAVING count(*) > 1
UNION ALL
SELECT 'lost', s.name || ' ' || g FROM jobq.schedules s, generate_series('2030-01-07 13:00', s.last_run, interval '1 hour') g
WHERE s.name LIKE 'all%' AND NOT EXISTS (SELECT FROM runs r WHERE r.name = s.name AND r.run = g)
UNION ALL
SELECT 'neither fired nor skipped', s.name || ': ' || count(r.id) || ' fired, ' || s.skipped || ' skipped' FROM jobq.schedules s LEFT JOIN runs r USING (name)
WHERE s.name NOT IN ('seconds', 'skip') GROUP BY s.name, s.skipped, s.next_run
HAVING count(r.id) + s.skipped <> extract(epoch FROM s.next_run - '2030-01-07 13:00') / 3600
UNION ALL
SELECT 'too early', name || ' ' || run FROM runs WHERE run > created_at
UNION ALL
SELECT 'next before last', name FROM jobq.schedules WHERE next_run <= last_run;
SELECT jobq_schedule('all', '@every 1h', 'q', missed => 'all', max_missed => 1000, starts_at => '2030-01-07 13:00'),
       jobq_schedule('all by cron', '0 * * * *', 'q', missed => 'all', max_missed => 1000),
       jobq_schedule('few', '0 * * * *', 'q', missed => 'all', max_missed => 10), jobq_schedule('once', '0 * * * *', 'q'),
       jobq_schedule('skip', '0 * * * *', 'q', missed => 'skip', deadline => '20 min'),
       jobq_schedule('seconds', '@every 1s', 'seconds', missed => 'all', max_missed => 1000);
SELECT jobq_create_queue('running', heartbeat_timeout => '1 min'), jobq_enqueue('running');
SQL
sub keeps_laws
{
    my ($name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is(work(q{SELECT string_agg(law || ': ' || what, '; ') FROM broken}), '', "$name: no law is broken");
    return;
}
sub fired { return work(q{SELECT string_agg(name || ' ' || n, ', ' ORDER BY name) FROM (SELECT name, count(*) AS n FROM runs WHERE name <> 'seconds' GROUP BY 1) f}); }

# Sets the clock and waits until the server has noticed the step and has fired the runs that were due at the new time.
sub step
{
    my ($to, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $position = log_size($node);
    set_clock($to);
    ok(defined seconds_until(sub { count_in_log($node, 'jobq: the clock stepped by', $position) }), "$name: the server notices the step");
    settles($name);
    return;
}
# Waits at least 3 s, until no run is overdue and the schedule that runs every second has run again or waits for the clock to
# reach its last run.
sub settles
{
    my ($name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $since = work('SELECT clock_timestamp()');
    becomes_true($node, 'work', qq{SELECT clock_timestamp() > '$since'::timestamptz + interval '3 s' AND NOT EXISTS (SELECT FROM jobq.schedules
        WHERE next_run < clock_timestamp() - interval '2 s') AND EXISTS (SELECT FROM jobq.schedules WHERE name = 'seconds' AND (last_run > '$since' OR last_run > clock_timestamp()))},
        "$name: all due runs are fired");
    return;
}
# Tests that the promotion of delayed jobs, which have no schedule, follows the same clock.
sub promotes
{
    my ($name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    work(q{SELECT jobq_enqueue('later', run_at => clock_timestamp() + interval '300 ms')});
    my $job = claim_when_ready($node, 'work', 'later');
    ok($job && work("SELECT jobq_complete($job->{id}, $job->{lease})") eq 't', "$name: a delayed job is promoted");
    return;
}
sub next_of { return work("SELECT next_run FROM jobq.schedules WHERE name = '$_[0]'"); }

becomes_true($node, 'work', q{SELECT count(*) >= 2 FROM runs WHERE name = 'seconds'}, 'schedules run');
is(work(q{SELECT count(*) FROM jobq_claim('running', 'worker')}), '1', 'a worker claims a job and sends no heartbeats');
keeps_laws('at first');

# ---- forward by days

step('9 17:30:00', 'two days ahead');
is(fired(), 'all 53, all by cron 53, few 10, once 1', 'missed => all fires all runs, few the last ten, once the last run, and skip no run that is too late');
is(work(q{SELECT string_agg(name || ' ' || skipped || ' ' || skip_reason, ', ' ORDER BY name) FROM jobq.schedules WHERE name IN ('few', 'once', 'skip')}),
    'few 43 missed, once 52 missed, skip 53 deadline', 'skipped runs are counted with the reason');
is(work(q{SELECT min(run), max(run) FROM runs WHERE name = 'few'}), '2030-01-09 08:00:00+00|2030-01-09 17:00:00+00', 'max_missed keeps the latest runs');
is(work(q{SELECT count(*) BETWEEN 1 AND 1000 FROM runs WHERE name = 'seconds' AND run BETWEEN '2030-01-08' AND '2030-01-09 17:30'}), 't', 'max_missed is never exceeded');
is(work(q{SELECT status, attempts FROM jobq.jobs WHERE queue = 'running'}), 'processing|1', 'the running job keeps its lease during the grace period');
promotes('two days ahead');
keeps_laws('two days ahead');

# ---- back by hours: runs are not fired again, and the next run follows when the clock has caught up

my $fired  = fired();
my $last   = work(q{SELECT max(run) FROM runs WHERE name = 'seconds'});
my $second = work(q{SELECT count(*) FROM runs WHERE name = 'seconds'});
step('9 14:30:00', 'three hours back');
is(fired(), $fired, 'nothing is fired again');
is(work(qq{SELECT count(*) FROM runs WHERE name = 'seconds' AND created_at < '2030-01-09 17:00' AND created_at > '2030-01-09'}), '0', 'the schedule that runs every second fires nothing again');
is(next_of('all'), '2030-01-09 18:00:00+00', 'the next run is the one after the last fired run');
promotes('three hours back');
keeps_laws('three hours back');

# A worker that starts now recomputes all runs.
with_clock(sub { $node->restart });
settles('restarted in the past');
is(fired(), $fired, 'restarted in the past: nothing is fired again');
keeps_laws('restarted in the past');

# ---- forward again, past the time from which it stepped back

step('9 17:35:00', 'caught up');
is(fired(), $fired, 'nothing is fired again');
is(work(qq{SELECT count(*) FROM generate_series('$last'::timestamptz, '2030-01-09 17:35:00', '1 s') g WHERE NOT EXISTS (SELECT FROM runs r WHERE r.name = 'seconds' AND r.run = g)}),
    '0', 'no run between the two steps is lost');
keeps_laws('caught up');
step('9 18:30:00', 'an hour ahead');
is(fired(), 'all 54, all by cron 54, few 11, once 2', 'each schedule fires one run, and the schedule with a deadline skips a late run');
step('9 19:00:05', 'a few seconds late');
is(fired(), 'all 55, all by cron 55, few 12, once 3, skip 1', 'the schedule with a deadline fires a run that is only a few seconds late');
keeps_laws('a few seconds late');

# ---- back by more than a day: the clock was wrong before

step('6 10:59:50', 'three days back');
becomes_true($node, 'work', q{SELECT count(*) = 4 FROM runs WHERE run = '2030-01-06 11:00' AND run <= created_at}, 'after a step back by more than a day, cron schedules continue from the current time');
is(next_of('all'), '2030-01-07 13:00:00+00', 'interval schedules start again at their starts_at');
promotes('three days back');
is(work(q{SELECT last_error FROM jobq.background_workers WHERE database = 'work'}), '', 'no duty failed');
is(count_in_log($node, 'PANIC|TRAP|was terminated by signal', 0), 0, 'no process crashed');
with_clock(sub { $node->stop });

done_testing();
