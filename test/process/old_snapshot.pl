# Tests an old snapshot, which keeps the index entries of jobs, keys, and schedules that have changed since. The background worker
# must not scan these entries in each of its rounds. The test counts entries and measures no time.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqLanes;
use JobqTest;
use Test::More;

# With few entries for young leases, most claims enter their jobs into the rescue's index.
my $node = lane_server('old_snapshot', conf => ['jobq.max_young_leases = 8']);
lane_database($node, 'work');
sub work { return value($node, 'work', $_[0]); }
sub done { my ($query, $name) = @_; return becomes_true($node, 'work', $query, $name); }

work(q{
    SELECT jobq_create_queue('late', keep_completed => '0', keep_failed => '0');
    CREATE PROCEDURE delay(jobs int) LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM jobq_enqueue_many('late', array_fill('{}'::jsonb, ARRAY[jobs]),
            run_ats => ARRAY(SELECT clock_timestamp() + n * interval '100 us' FROM generate_series(1, jobs) n));
    END $$;
    CREATE PROCEDURE move_schedule(times int) LANGUAGE plpgsql AS $$
    BEGIN
        FOR n IN 1..times LOOP
            UPDATE jobq.schedule_settings SET next_run = timestamptz '2100-01-01' + n * interval '1 s' WHERE name = 'moved';
            COMMIT;
        END LOOP;
    END $$;
    SELECT jobq_schedule('moved', '@every 1h', 'moved', starts_at => '2100-01-01')});
my $holder = hold_snapshot($node, 'work');

# ---- thousands of dead entries

my $entries = 3000;
work("CALL delay($entries)");
done(q{SELECT count(*) = 0 FROM jobq.jobs WHERE queue = 'late' AND status = 'scheduled'}, 'delayed jobs are promoted');
work(q{CALL drain('late', 100)});
work("CALL move_schedule($entries)");
is(work(q{SELECT count(*) FROM jobq.jobs WHERE queue = 'late'}), '0', 'all jobs are completed and deleted');

# ---- the number of entries that the worker reads in a round

my @indexes = qw(jobs_due_idx jobs_running_idx jobs_rescue_idx jobs_ready_idx jobs_pkey schedule_settings_due_idx);
sub entries_read
{
    my %read = map { split /\|/ } split /\n/, work(q{SELECT indexrelname, idx_tup_read FROM pg_stat_user_indexes WHERE schemaname = 'jobq'});
    return \%read;
}

# Makes the worker run a round, or more, for each promoted job.
sub rounds
{
    my ($times, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    for my $n (1 .. $times)
    {
        work("SELECT jobq_enqueue('one by one', kind => 'k$n', run_at => clock_timestamp() + interval '5 ms')");
        done("SELECT status = 'pending' FROM jobq.jobs WHERE queue = 'one by one' AND kind = 'k$n'", "$name: job $n is promoted");
    }
    return;
}

# Makes the rescue scan all running jobs, for each job of a silent worker.
sub looks
{
    my ($times) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    for my $n (1 .. $times)
    {
        work("SELECT jobq_enqueue('silent', kind => 's$n'); SELECT count(*) FROM jobq_claim('silent', kinds => '{s$n}', heartbeat_timeout => '1 s')");
        done("SELECT status = 'pending' FROM jobq.jobs WHERE queue = 'silent' AND kind = 's$n'", "rescue: job $n is lost");
    }
    return $times;
}

my $before = entries_read();
my $rounds = work(q{SELECT rounds FROM jobq.background_workers WHERE database = 'work'});
rounds(20, 'promotion');
$rounds = work(q{SELECT rounds FROM jobq.background_workers WHERE database = 'work'}) - $rounds;
my $looks = looks(8);
# A process reports its statistics when it exits, at the latest.
$node->stop('fast');
$node->start;
my $after = entries_read();
for my $index (@indexes)
{
    my $times = $index =~ /running|rescue/ ? $looks : $rounds;
    my $read = (($after->{$index} // 0) - ($before->{$index} // 0)) / $times;
    diag("$index: $read entries each time, $times times");
    # The first scan reads all the entries; so does the repair from time to time.
    cmp_ok($read, '<', $entries * 0.75, "the worker does not read the old entries of $index in each round");
}

# ---- kept keys

my $keys = 10000;
# The worker deletes expired keys once per tick interval, all of them with one statement.
settings($node, "jobq.tick_interval = '20 ms'", "jobq.prune_batch = $keys");
$node->reload;
sub key_scans { return split /\|/, work(q{SELECT idx_scan, idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'kept_keys_until_idx'}); }
sub keep_key
{
    my ($key, $unique_for) = @_;
    return work(qq{SELECT jobq_enqueue('keyed', unique_key => '$key', unique_for => '$unique_for'); CALL drain('keyed')});
}
sub expires
{
    my ($key, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return done("SELECT count(*) = 0 FROM jobq.kept_keys WHERE unique_key = '$key'", $name);
}

sub reads_few_keys
{
    my ($name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my ($scans, $read) = key_scans();
    my $enough = $scans + 30;
    done("SELECT idx_scan >= $enough FROM pg_stat_user_indexes WHERE indexrelname = 'kept_keys_until_idx'", "$name: the worker looks for expired keys");
    my ($scans_after, $read_after) = key_scans();
    my $each = ($read_after - $read) / (($scans_after - $scans) || 1);
    diag("$name: $each entries each time, @{[$scans_after - $scans]} times");
    return cmp_ok($each, '<', $keys * 0.75, "$name: the worker does not read the old entries each time");
}

$holder = hold_snapshot($node, 'work');
work(qq{INSERT INTO jobq.kept_keys SELECT 'keyed', 'short', n, now() + n * interval '1 us' FROM generate_series(1, $keys) n});
expires('short', 'expired keys are deleted');
reads_few_keys('without a kept key');
keep_key('first', '1 s');
expires('first', 'a key that is kept for a second is deleted');
keep_key('long', '1 day');
reads_few_keys('with a kept key');
keep_key('second', '1 s');
expires('second', 'a key that expires before another key, but was kept later, is deleted');
is(work(q{SELECT string_agg(unique_key, ', ') FROM jobq.kept_keys}), 'long', 'the other key is kept');
settings($node, "jobq.tick_interval = '60 s'");
$node->reload;

# ---- jobs before the position at which the scan starts are found

my $other = session($node, 'work');
my $number = 0;
# Promotes later delayed jobs before and after such a job becomes visible, so that the scan starts after it.
sub overtake
{
    $number++;
    work("SELECT jobq_enqueue('others', kind => 'o$number', run_at => clock_timestamp() + interval '20 ms')");
    return done("SELECT status = 'pending' FROM jobq.jobs WHERE queue = 'others' AND kind = 'o$number'", "a later job, $number, is promoted");
}
sub is_promoted
{
    my ($kind, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return done("SELECT status = 'pending' FROM jobq.jobs WHERE queue = 'overtaken' AND kind = '$kind'", $name);
}
my $soon = q{clock_timestamp() + interval '10 ms'};

overtake();
$other->query("BEGIN; SELECT jobq_enqueue('overtaken', kind => 'late', run_at => $soon)");
overtake() for 1 .. 3;
$other->query('COMMIT');
is_promoted('late', 'a job whose transaction commits late');

$other->query("BEGIN; SELECT jobq_enqueue('overtaken', kind => 'prepared', run_at => $soon); PREPARE TRANSACTION 'late'");
overtake() for 1 .. 3;
work(q{COMMIT PREPARED 'late'});
is_promoted('prepared', 'a job that is committed by COMMIT PREPARED');

work(q{SELECT jobq_enqueue('overtaken', kind => 'moved', run_at => clock_timestamp() + interval '1 hour')});
overtake();
work(q{UPDATE jobq.jobs SET run_at = '2001-01-01' WHERE queue = 'overtaken' AND kind = 'moved'});
is_promoted('moved', 'a job that plain SQL moves to an earlier time');

$other->query(q{BEGIN; INSERT INTO jobq.jobs (queue, kind, run_at, status) VALUES ('overtaken', 'inserted', clock_timestamp() + interval '10 ms', 'scheduled')});
overtake() for 1 .. 2;
$other->query('COMMIT');
is_promoted('inserted', 'a job that plain SQL inserts');

$other->query(q{SET session_replication_role = replica});
$other->query(q{INSERT INTO jobq.jobs SELECT (jsonb_populate_record(j, '{"id": 1000000, "kind": "replicated", "run_at": "2001-01-01", "status": "scheduled", "_due": true, "_ready": null}')).*
    FROM jobq.jobs j WHERE queue = 'overtaken' LIMIT 1});
$other->query(q{RESET session_replication_role});
is_promoted('replicated', 'a job that is inserted like a replicated one');

work(q{BEGIN; ALTER TABLE jobq.jobs DISABLE TRIGGER USER;
    INSERT INTO jobq.jobs SELECT (jsonb_populate_record(j, '{"id": 1000001, "kind": "untold", "run_at": "2001-01-01", "status": "scheduled", "_due": true, "_ready": null}')).*
    FROM jobq.jobs j WHERE queue = 'overtaken' LIMIT 1;
    ALTER TABLE jobq.jobs ENABLE TRIGGER USER; ALTER TABLE jobq.jobs ENABLE REPLICA TRIGGER tell_job; COMMIT});
is_promoted('untold', 'a job that is inserted with triggers disabled');

# A locked job is skipped; later jobs are promoted, and it is promoted after the lock is released.
work(q{SELECT jobq_enqueue('overtaken', kind => 'held', run_at => clock_timestamp() + interval '10 ms')});
$other->query(q{BEGIN; SELECT FROM jobq.jobs WHERE queue = 'overtaken' AND kind = 'held' FOR UPDATE});
overtake() for 1 .. 3;
$other->query('COMMIT');
is_promoted('held', 'a job that a session had locked');

work(q{SELECT jobq_schedule('moved', '@every 1h', 'fired', starts_at => '2100-01-01')});
overtake();
work(q{UPDATE jobq.schedule_settings SET next_run = now() WHERE name = 'moved'});
done(q{SELECT count(*) > 0 FROM jobq.jobs WHERE queue IN ('fired', 'moved')}, 'a schedule that plain SQL moves to an earlier time fires');

$other->query("BEGIN; SELECT jobq_schedule('late', '\@every 1h', 'fired late', starts_at => clock_timestamp() + interval '10 ms')");
overtake() for 1 .. 2;
$other->query('COMMIT');
done(q{SELECT count(*) > 0 FROM jobq.jobs WHERE queue = 'fired late'}, 'a schedule whose transaction commits late fires');

# A running job that becomes visible late. Its worker sends no heartbeats, and its lease has expired.
work(q{SELECT jobq_enqueue('overtaken', kind => 'lost')});
$other->query(q{BEGIN; SELECT count(*) FROM jobq_claim('overtaken', kinds => '{lost}', heartbeat_timeout => '1 s')});
overtake() for 1 .. 2;
$other->query('COMMIT');
is_promoted('lost', 'a job whose claim commits late is rescued');

end_sessions($holder, $other);
$node->stop;
done_testing();
