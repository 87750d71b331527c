# Tests that no job is lost and work continues after a process is killed: a client, a backend, a background worker, the launcher,
# and the whole server with kill -9.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use IPC::Run;
use JobqTest;
use JobqTime;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $node = preloaded('kills');
database($node, 'work');
my $timeout = 10;   # longer than it takes to look at what was claimed, also on a slow machine
value($node, 'work', qq{SELECT jobq_create_queue('q', heartbeat_timeout => '$timeout s', max_lost => 1000)});

sub enqueue { return value($node, 'work', "SELECT jobq_enqueue('q') FROM generate_series(1, $_[0])"); }

sub finish_all
{
    return value($node, 'work', q{
        SELECT count(jobq_complete(id, lease)) FROM jobq.jobs WHERE status = 'processing';
        SELECT jobq_purge_queue('q')});
}

# Waits until a delayed job is promoted, which shows that the background workers work. Returns the seconds it took.
sub duties_resume
{
    my ($name) = @_;
    value($node, 'work', q{SELECT jobq_enqueue('alive', run_at => clock_timestamp() + interval '10 ms')});
    return becomes_true($node, 'work',
        q{SELECT NOT EXISTS (SELECT FROM jobq.jobs WHERE queue = 'alive' AND status = 'scheduled')}, $name);
}

# ---- a client killed with SIGKILL while it holds jobs

enqueue(3);
my $client = session($node, 'work');
is($client->query(q{SELECT count(*) FROM jobq_claim('q', 'killed', batch => 2)}), '2', 'a client claims two jobs');
$client->query(q{BEGIN});
is($client->query(q{SELECT count(*) FROM jobq_claim('q', 'killed')}), '1', 'and a third in an open transaction');
is(value($node, 'work', q{SELECT count(*) FROM jobq_claim('q')}), '0', 'no other session can claim one of them');
$client->{run}->signal('KILL');
eval { $client->{run}->finish };

my $first = claim_when_ready($node, 'work', 'q');
is($first->{attempt}, 1, 'the uncommitted claim is rolled back, and its attempt is not counted');
is(value($node, 'work', q{SELECT count(*) FROM jobq.jobs WHERE worker_id = 'killed' AND status = 'processing'}),
    '2', 'the other jobs still have their leases');
my $one = claim_when_ready($node, 'work', 'q');
is($one->{attempt}, 2, 'one of them is rescued');
# The two jobs were lost together, so this session gets the second one only after it has completed the first.
value($node, 'work', "SELECT jobq_complete($one->{id}, $one->{lease})");
is(claim_when_ready($node, 'work', 'q')->{attempt}, 2, 'the other job is rescued');
my $late = value($node, 'work', q{
    SELECT max(extract(epoch FROM finished_at - started_at)) FROM jobq.attempts WHERE worker_id = 'killed'});
report_seconds("rescued after the claim, heartbeat timeout $timeout s", $late);
in_time($late, $timeout + 2, 'the rescue is within the timeout + 2 s');
finish_all();

# ---- a backend terminated

enqueue(2);
my $doomed = session($node, 'work');
my $pid = $doomed->query('SELECT pg_backend_pid()');
my ($id, $lease) = split /\|/, $doomed->query(q{SELECT id, lease FROM jobq_claim('q', 'kept', heartbeat_timeout => '5 min')});
$doomed->query('BEGIN');
my $undone = $doomed->query(q{SELECT id FROM jobq_claim('q', 'undone')});
is(value($node, 'postgres', "SELECT pg_terminate_backend($pid, 10000)"), 't', 'a backend is terminated');
is(claim_when_ready($node, 'work', 'q')->{id}, $undone, 'the job of its open claim is claimable at once');
is(value($node, 'work', "SELECT jobq_complete($id, $lease)"), 't', 'the lease of its committed claim is valid in another session');
eval { $doomed->quit };
finish_all();

# ---- SIGTERM for a background worker and the launcher: they are replaced, and other sessions are not affected

keep_in_use($node, 'work');
my $postmaster_start = value($node, 'postgres', 'SELECT pg_postmaster_start_time()');
my $witness = session($node, 'work');
my $worker = await_worker($node, 'work');
ok($worker, 'a worker runs');
kill 'TERM', $worker;
ok(seconds_until(sub { my $now = await_worker($node, 'work'); return $now && $now != $worker }),
    'another worker starts after SIGTERM');
report_seconds('duties after SIGTERM for the worker', duties_resume('the new worker performs the duties'));

my $launcher = launcher_pid($node);
kill 'TERM', $launcher;
ok(seconds_until(sub { my $now = launcher_pid($node); return $now && $now != $launcher }),
    'another launcher starts after SIGTERM');
report_seconds('duties after SIGTERM for the launcher', duties_resume('the duties continue'));
is($witness->query('SELECT 1'), '1', 'other sessions are not affected');
eval { $witness->quit };

# ---- SIGKILL for a background worker and the launcher: the server restarts itself

for my $victim ('worker', 'launcher')
{
    enqueue(1);
    my $jobs = value($node, 'work', 'SELECT count(*) FROM jobq.jobs');
    my $position = log_size($node);
    my $begin = time;
    kill 'KILL', $victim eq 'worker' ? await_worker($node, 'work') : launcher_pid($node);
    ok(seconds_until(sub { count_in_log($node, qr/all server processes terminated; reinitializing/, $position) }),
        "kill -9 of the $victim restarts the server");
    becomes_true($node, 'work', 'SELECT EXISTS (SELECT FROM jobq.background_workers WHERE database IS NULL AND pid IS NOT NULL)',
        'the launcher is back');
    becomes_true($node, 'work',
        q{SELECT EXISTS (SELECT FROM jobq.background_workers WHERE database = 'work' AND rounds > 0)},
        'a worker serves the database again');
    my $took = time - $begin;
    report_seconds("first round after kill -9 of the $victim", $took);
    in_time($took, 5, 'within 5 s');
    duties_resume('the duties continue');
    cmp_ok(value($node, 'work', 'SELECT count(*) FROM jobq.jobs'), '>=', $jobs, 'no job is lost');
}

# ---- kill -9 of the whole server while a client enqueues

value($node, 'work', q{SELECT sum(jobq_purge_queue(queue)) FROM jobq.queues});
my $acknowledged = '';
my $statements = "SELECT jobq_enqueue('acked');\n" x 20000;
my $producer = IPC::Run::start(
    [ $node->installed_command('psql'), '-XAtq', '-d', $node->connstr('work'), '-f', '-' ],
    '<', \$statements, '>', \$acknowledged, '2>', \my $producer_errors);

seconds_until(sub { $producer->pump_nb; return ($acknowledged =~ tr/\n//) > 500 });

$timeout = 5;
value($node, 'work', "SELECT jobq_alter_queue('q', heartbeat_timeout => '$timeout s')");
enqueue(6);
value($node, 'work', join ';', map { qq{SELECT id FROM jobq_claim('q', 'w$_')} } 1 .. 6);
my ($survivor, $survivor_lease, $claimed_at) = split /\|/,
  value($node, 'work', q{SELECT id, lease, extract(epoch FROM last_heartbeat) FROM jobq.jobs WHERE worker_id = 'w1'});
seconds_until(sub { my $before = length $acknowledged; $producer->pump; return length $acknowledged > $before });
kill_server($node);
eval { $producer->finish };
my @ids = $acknowledged =~ /^(\d+)\n/mg;
cmp_ok(scalar @ids, '>', 100, 'jobs were acknowledged before the kill') or diag $producer_errors;
cmp_ok(scalar @ids, '<', 20000, 'the server was killed before all jobs were enqueued');

# The server is down until the leases have expired.
seconds_until(sub { time > $claimed_at + $timeout + 0.5 });
starts_again($node);
my $began = time;
is(value($node, 'work', "SELECT jobq_heartbeat($survivor, $survivor_lease)"),
    'held', 'a lease from before the crash is valid after it');
becomes_true($node, 'work', q{SELECT EXISTS (SELECT FROM jobq.background_workers WHERE database = 'work' AND rounds > 0)},
    'launcher and workers are active');
my $active = time - $began;
report_seconds('first round after the start', $active);
in_time($active, 5, 'within 5 s of the start');

my $list = join ',', @ids;
is(value($node, 'work', "SELECT count(*) FROM jobq.jobs WHERE id IN ($list)"), scalar @ids,
    'every acknowledged job exists');
is(value($node, 'work', "SELECT count(*) FROM jobq.jobs WHERE id IN ($list) AND status <> 'pending'"),
    '0', 'every acknowledged job is claimable');

becomes_true($node, 'work', q{SELECT count(*) = 5 FROM jobq.attempts WHERE outcome = 'lost' AND worker_id ~ '^w[2-6]$'},
    'the jobs of the silent workers are rescued');
my ($earliest, $latest) = split /\|/, value($node, 'work', q{
    SELECT extract(epoch FROM min(finished_at) - pg_postmaster_start_time()),
           extract(epoch FROM max(finished_at) - pg_postmaster_start_time())
    FROM jobq.attempts WHERE outcome = 'lost' AND worker_id ~ '^w[2-6]$'});
report_seconds("leases of before the crash rescued after the start, heartbeat timeout $timeout s", $latest);
cmp_ok($earliest, '>=', $timeout, 'not before a grace period of one heartbeat timeout');
in_time($latest, $timeout + 5, 'and within 5 s after it');

unlike(log_since($node), qr/(?:PANIC|TRAP)/, 'no panic in the log');

done_testing();
