# Whatever is killed, nothing is lost and work goes on: a client, a backend, a background worker, the launcher, and the
# whole server with kill -9.
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

# Something delayed is promoted: the background workers are at work. Returns the seconds it took.
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
is($client->query(q{SELECT count(*) FROM jobq_claim('q', 'killed', batch => 2)}), '2', 'a client holds two jobs');
$client->query(q{BEGIN});
is($client->query(q{SELECT count(*) FROM jobq_claim('q', 'killed')}), '1', 'and a third in an open transaction');
is(value($node, 'work', q{SELECT count(*) FROM jobq_claim('q')}), '0', 'nobody else gets one');
$client->{run}->signal('KILL');
eval { $client->{run}->finish };

my $first = claim_when_ready($node, 'work', 'q');
is($first->{attempt}, 1, 'the uncommitted claim is undone, its attempt not counted');
is(value($node, 'work', q{SELECT count(*) FROM jobq.jobs WHERE worker_id = 'killed' AND status = 'processing'}),
    '2', 'the others have their leases still');
my $one = claim_when_ready($node, 'work', 'q');
is($one->{attempt}, 2, 'one is rescued');
# They were lost together: the worker gets the second when it is done with the first.
value($node, 'work', "SELECT jobq_complete($one->{id}, $one->{lease})");
is(claim_when_ready($node, 'work', 'q')->{attempt}, 2, 'and the other');
my $late = value($node, 'work', q{
    SELECT max(extract(epoch FROM finished_at - started_at)) FROM jobq.attempts WHERE worker_id = 'killed'});
report_seconds("rescued after the claim, heartbeat timeout $timeout s", $late);
in_time($late, $timeout + 2, 'within the timeout + 2 s');
finish_all();

# ---- a backend terminated

enqueue(2);
my $doomed = session($node, 'work');
my $pid = $doomed->query('SELECT pg_backend_pid()');
my ($id, $lease) = split /\|/, $doomed->query(q{SELECT id, lease FROM jobq_claim('q', 'kept', heartbeat_timeout => '5 min')});
$doomed->query('BEGIN');
my $undone = $doomed->query(q{SELECT id FROM jobq_claim('q', 'undone')});
is(value($node, 'postgres', "SELECT pg_terminate_backend($pid, 10000)"), 't', 'a backend is terminated');
is(claim_when_ready($node, 'work', 'q')->{id}, $undone, 'its open claim is claimable at once');
is(value($node, 'work', "SELECT jobq_complete($id, $lease)"), 't', 'its committed claim is good in another session');
eval { $doomed->quit };
finish_all();

# ---- a background worker and the launcher, with SIGTERM: others come, nobody else notices

keep_in_use($node, 'work');
my $postmaster_start = value($node, 'postgres', 'SELECT pg_postmaster_start_time()');
my $witness = session($node, 'work');
my $worker = await_worker($node, 'work');
ok($worker, 'a worker runs');
kill 'TERM', $worker;
ok(seconds_until(sub { my $now = await_worker($node, 'work'); return $now && $now != $worker }),
    'after SIGTERM another worker comes');
report_seconds('duties after SIGTERM for the worker', duties_resume('and does the duties'));

my $launcher = launcher_pid($node);
kill 'TERM', $launcher;
ok(seconds_until(sub { my $now = launcher_pid($node); return $now && $now != $launcher }),
    'after SIGTERM another launcher comes');
report_seconds('duties after SIGTERM for the launcher', duties_resume('and the duties go on'));
is($witness->query('SELECT 1'), '1', 'other sessions live on');
eval { $witness->quit };

# ---- the same with SIGKILL: the server restarts itself

for my $victim ('worker', 'launcher')
{
    enqueue(1);
    my $jobs = value($node, 'work', 'SELECT count(*) FROM jobq.jobs');
    my $position = log_size($node);
    my $begin = time;
    kill 'KILL', $victim eq 'worker' ? await_worker($node, 'work') : launcher_pid($node);
    ok(seconds_until(sub { count_in_log($node, qr/all server processes terminated; reinitializing/, $position) }),
        "kill -9 of the $victim restarts the cluster");
    becomes_true($node, 'work', 'SELECT EXISTS (SELECT FROM jobq.workers WHERE database IS NULL AND pid IS NOT NULL)',
        'the launcher is back');
    becomes_true($node, 'work',
        q{SELECT EXISTS (SELECT FROM jobq.workers WHERE database = 'work' AND rounds > 0)},
        'the database is found again');
    my $took = time - $begin;
    report_seconds("first round after kill -9 of the $victim", $took);
    in_time($took, 5, 'soon');
    duties_resume('the duties go on');
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
cmp_ok(scalar @ids, '<', 20000, 'and the kill came in between');

# Down for longer than the leases last.
seconds_until(sub { time > $claimed_at + $timeout + 0.5 });
starts_again($node);
my $began = time;
is(value($node, 'work', "SELECT jobq_heartbeat($survivor, $survivor_lease)"),
    'held', 'a lease from before the crash is good after it');
becomes_true($node, 'work', q{SELECT EXISTS (SELECT FROM jobq.workers WHERE database = 'work' AND rounds > 0)},
    'launcher and workers are active');
my $active = time - $began;
report_seconds('first round after the start', $active);
in_time($active, 5, 'soon');

my $list = join ',', @ids;
is(value($node, 'work', "SELECT count(*) FROM jobq.jobs WHERE id IN ($list)"), scalar @ids,
    'every acknowledged job is there');
is(value($node, 'work', "SELECT count(*) FROM jobq.jobs WHERE id IN ($list) AND status <> 'pending'"),
    '0', 'and claimable');

becomes_true($node, 'work', q{SELECT count(*) = 5 FROM jobq.attempts WHERE outcome = 'lost' AND worker_id ~ '^w[2-6]$'},
    'the leases of those who do not come back are rescued');
my ($earliest, $latest) = split /\|/, value($node, 'work', q{
    SELECT extract(epoch FROM min(finished_at) - pg_postmaster_start_time()),
           extract(epoch FROM max(finished_at) - pg_postmaster_start_time())
    FROM jobq.attempts WHERE outcome = 'lost' AND worker_id ~ '^w[2-6]$'});
report_seconds("leases of before the crash rescued after the start, heartbeat timeout $timeout s", $latest);
cmp_ok($earliest, '>=', $timeout, 'but not before one heartbeat timeout of grace');
in_time($latest, $timeout + 5, 'and soon after it');

unlike(log_since($node), qr/(?:PANIC|TRAP)/, 'no panic in the log');

done_testing();
