# The clock of a running server steps forward by days and back by hours, with schedules: no run is fired twice, and none is lost but
# what `missed` says. lib/JobqClock.pm gives the server its clock.
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
is(value($node, 'postgres', q{SELECT date_trunc('minute', clock_timestamp())}), '2030-01-07 12:30:00+00', 'the server has the clock of the file');
database($node, 'work');
sub work { return value($node, 'work', $_[0]); }

# ---- the laws, each with what breaks it

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

# The clock is told, the server has noticed, and has fired what was due then.
sub step
{
    my ($to, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $position = log_size($node);
    set_clock($to);
    ok(defined seconds_until(sub { count_in_log($node, 'jobq: the clock stepped by', $position) }), "$name: the server notices");
    settles($name);
    return;
}
# Two looks of the schedule of each second, where it is not waiting for its own last run; and nothing is due any more.
sub settles
{
    my ($name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $since = work('SELECT clock_timestamp()');
    becomes_true($node, 'work', qq{SELECT clock_timestamp() > '$since'::timestamptz + interval '3 s' AND NOT EXISTS (SELECT FROM jobq.schedules
        WHERE next_run < clock_timestamp() - interval '2 s') AND EXISTS (SELECT FROM jobq.schedules WHERE name = 'seconds' AND (last_run > '$since' OR last_run > clock_timestamp()))},
        "$name: all that was due is fired");
    return;
}
# What has no schedule goes by the same clock.
sub promotes
{
    my ($name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    work(q{SELECT jobq_enqueue('later', run_at => clock_timestamp() + interval '300 ms')});
    my $job = claim_when_ready($node, 'work', 'later');
    ok($job && work("SELECT jobq_complete($job->{id}, $job->{lease})") eq 't', "$name: a delayed job comes");
    return;
}
sub next_of { return work("SELECT next_run FROM jobq.schedules WHERE name = '$_[0]'"); }

becomes_true($node, 'work', q{SELECT count(*) >= 2 FROM runs WHERE name = 'seconds'}, 'schedules run');
is(work(q{SELECT count(*) FROM jobq_claim('running', 'worker')}), '1', 'a job runs, whose worker is silent');
keeps_laws('at first');

# ---- forward by days

step('9 17:30:00', 'two days ahead');
is(fired(), 'all 53, all by cron 53, few 10, once 1', 'all, the last ten, the last one, none that late');
is(work(q{SELECT string_agg(name || ' ' || skipped || ' ' || skip_reason, ', ' ORDER BY name) FROM jobq.schedules WHERE name IN ('few', 'once', 'skip')}),
    'few 43 missed, once 52 missed, skip 53 deadline', 'what was left out is counted, with the reason');
is(work(q{SELECT min(run), max(run) FROM runs WHERE name = 'few'}), '2030-01-09 08:00:00+00|2030-01-09 17:00:00+00', 'the latest are fired');
is(work(q{SELECT count(*) BETWEEN 1 AND 1000 FROM runs WHERE name = 'seconds' AND run BETWEEN '2030-01-08' AND '2030-01-09 17:30'}), 't', 'never more than max_missed');
is(work(q{SELECT status, attempts FROM jobq.jobs WHERE queue = 'running'}), 'processing|1', 'the lease has its grace');
promotes('two days ahead');
keeps_laws('two days ahead');

# ---- back by hours: what was fired is not fired again, the next run comes when the clock has caught up

my $fired  = fired();
my $last   = work(q{SELECT max(run) FROM runs WHERE name = 'seconds'});
my $second = work(q{SELECT count(*) FROM runs WHERE name = 'seconds'});
step('9 14:30:00', 'three hours back');
is(fired(), $fired, 'nothing is fired again');
is(work(qq{SELECT count(*) FROM runs WHERE name = 'seconds' AND created_at < '2030-01-09 17:00' AND created_at > '2030-01-09'}), '0', 'nor is that of each second');
is(next_of('all'), '2030-01-09 18:00:00+00', 'the next run is the one behind the last');
promotes('three hours back');
keeps_laws('three hours back');

# A worker that starts there computes all runs anew.
with_clock(sub { $node->restart });
settles('restarted in the past');
is(fired(), $fired, 'restarted in the past: nothing is fired again');
keeps_laws('restarted in the past');

# ---- and forward again, over the place where it was before

step('9 17:35:00', 'caught up');
is(fired(), $fired, 'nothing is fired again');
is(work(qq{SELECT count(*) FROM generate_series('$last'::timestamptz, '2030-01-09 17:35:00', '1 s') g WHERE NOT EXISTS (SELECT FROM runs r WHERE r.name = 'seconds' AND r.run = g)}),
    '0', 'and no second between is lost');
keeps_laws('caught up');
step('9 18:30:00', 'an hour ahead');
is(fired(), 'all 54, all by cron 54, few 11, once 2', 'one run each; the one that must not be late is dropped');
step('9 19:00:05', 'a few seconds late');
is(fired(), 'all 55, all by cron 55, few 12, once 3, skip 1', 'that one is fired, too');
keeps_laws('a few seconds late');

# ---- back by more than a day: the clock was wrong before

step('6 10:59:50', 'three days back');
becomes_true($node, 'work', q{SELECT count(*) = 4 FROM runs WHERE run = '2030-01-06 11:00' AND run <= created_at}, 'by more than a day: those by cron go on from now');
is(next_of('all'), '2030-01-07 13:00:00+00', 'the others from their beginning');
promotes('three days back');
is(work(q{SELECT last_error FROM jobq.workers WHERE database = 'work'}), '', 'no duty has failed');
is(count_in_log($node, 'PANIC|TRAP|was terminated by signal', 0), 0, 'nothing has gone wrong');
with_clock(sub { $node->stop });

done_testing();
