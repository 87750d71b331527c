# Tests workers that connect through PgBouncer in transaction mode, so that each of their calls may use another server connection.
# Claims, heartbeats, and reports work through any connection, and settings of a transaction do not leak. jobq_wake ends the wait of
# the right worker, called through the pooler or directly, and the pooler keeps running.
#
# Waits last an hour here, so a wait that ends has been ended by a wake. The test is skipped if PgBouncer is not installed; `make
# setup` installs it.
use strict;
use warnings FATAL => 'all';

BEGIN { $ENV{PG_TEST_TIMEOUT_DEFAULT} //= 180; }

use FindBin;
use lib "$FindBin::RealBin/lib";

use IPC::Run ();
use JobqSleep;
use JobqTest;
use PostgreSQL::Test::Utils;
use Test::More;

my ($bouncer) = grep { -x } map { "$_/pgbouncer" } split(/:/, $ENV{PATH}), '/usr/sbin';
plan skip_all => 'there is no pgbouncer: apt-get install pgbouncer' unless $bouncer;

my ($major, $minor) = `$bouncer --version` =~ /PgBouncer (\d+)\.(\d+)/;
my $prepares  = $major > 1 || $minor >= 21;
my $pool_size = 5;
my $node = preloaded('pooled', conf => ['max_connections = 60']);
database($node, 'work');

# The server as seen through the pooler. The object is a copy of the node whose destructor does not stop the server.
my $directory = PostgreSQL::Test::Utils::tempdir_short();
my $pooled    = bless { %$node, _host => $directory, _port => PostgreSQL::Test::Cluster::get_free_port() }, ref $node;
delete $pooled->{_pid};
my $host = $node->host;
my $port = $node->port;
my $user = $node->safe_psql('postgres', 'SELECT current_user');
PostgreSQL::Test::Utils::append_to_file("$directory/pgbouncer.ini", <<"INI");
[databases]
work = host=$host port=$port user=$user
[pgbouncer]
pool_mode = transaction
default_pool_size = $pool_size
max_client_conn = 100
listen_addr =
listen_port = $pooled->{_port}
unix_socket_dir = $directory
auth_type = any
@{[ $prepares ? 'max_prepared_statements = 50' : '' ]}
admin_users = $user
ignore_startup_parameters = extra_float_digits,options
logfile = $directory/log
INI
my $pooler = IPC::Run::start([ $bouncer, '-q', "$directory/pgbouncer.ini" ], '<', \undef, '>', '/dev/null', '2>', '/dev/null');
END { my $status = $?; $pooler->kill_kill if $pooler; $? = $status; }
ok(seconds_until(sub { -S "$directory/.s.PGSQL.$pooled->{_port}" }, 60), 'the pooler listens');

sub wake { my ($through, $worker) = @_; return value($through, 'work', "SELECT jobq_wake('$worker')"); }
sub waits
{
    my ($sleeper, $worker, $then) = @_;
    return start($sleeper, "CALL jobq_wait('pooled', '1 hour', worker_id => '$worker')", $then);
}
sub ends
{
    my ($sleeper, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return ok(seconds_to_end($sleeper, 60) < 60, $name);
}
sub waiting
{
    my ($count, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return becomes_true($node, 'work',
        "SELECT count(*) = $count FROM pg_stat_activity WHERE query ~* '^call jobq_wait' AND wait_event_type = 'Extension'", $name);
}

my @workers = map { sleeper($pooled) } 0 .. 3;
is($workers[0]{session}->query('SHOW port'), $port, 'sessions use the pooler');

# ---- twenty workers over five connections, with each protocol that the pooler supports
# Each client has a thread of its own: while pgbench prepares a statement for one client, it does not serve other clients of its
# thread, which may hold all connections.

value($node, 'work', 'CREATE TABLE effects (job bigint, claimed_by int, completed_by int)');
PostgreSQL::Test::Utils::append_to_file("$directory/worker.sql", <<'SQL');
SELECT jobq_enqueue('many');
SELECT coalesce(max(id), -1) AS id, coalesce(max(lease), 1) AS lease, pg_backend_pid() AS pid FROM jobq_claim('many', 'c' || :client_id::text) \gset
SELECT jobq_heartbeat(:id, :lease);
BEGIN;
INSERT INTO effects SELECT :id::bigint, :pid::int, pg_backend_pid() WHERE jobq_complete(:id, :lease);
END;
SQL
my @protocols = ('simple', 'extended', $prepares ? 'prepared' : ());
for my $protocol (@protocols)
{
    $pooled->command_ok([ qw(pgbench -n -c 20 -j 20 -t 15 -M), $protocol, '-f', "$directory/worker.sql", '-h', $directory, '-p', $pooled->{_port}, 'work' ],
        "protocol $protocol");
}
# Completes the jobs that no worker has claimed because other workers were about to claim them.
value($pooled, 'work', q{INSERT INTO effects SELECT id, 0, 1 FROM jobq_claim('many', batch => 1000) WHERE jobq_complete(id, lease)});
is(value($node, 'work', q{SELECT count(*), count(DISTINCT e.job), count(*) FILTER (WHERE j.status = 'completed' AND j.attempts = 1)
        FROM effects e FULL JOIN jobq.jobs j ON j.id = e.job WHERE j.queue = 'many'}),
    join('|', (300 * @protocols) x 3), 'each job is claimed and completed once');
cmp_ok(value($node, 'work', 'SELECT count(*) FROM effects WHERE claimed_by <> completed_by'), '>', 100, 'many jobs are completed by another connection than the one that claimed them');

# ---- settings of a transaction do not leak into others

value($pooled, 'work', q{SELECT jobq_enqueue('named') FROM generate_series(1, 11)});
value($pooled, 'work', q{BEGIN; SET LOCAL jobq.worker_id = 'local'; SELECT count(*) FROM jobq_claim('named'); COMMIT});
value($pooled, 'work', q{SELECT count(*) FROM jobq_claim('named')}) for 1 .. 10;
is(value($node, 'work', q{SELECT count(*) FILTER (WHERE worker_id = 'local'), count(*) FILTER (WHERE worker_id LIKE 'backend:%') FROM jobq.jobs WHERE queue = 'named'}),
    '1|10', 'jobq.worker_id applies to one transaction');
is(value($pooled, 'work', q{SELECT count(*) FROM jobq_heartbeat_worker('local')}), '1', 'heartbeats can be sent for this worker');

# ---- a wake through the pooler and a wake past it

waits($workers[$_], "w$_", q{SELECT count(jobq_complete(id, lease)) FROM jobq_claim('pooled')}) for 0 .. $#workers;
waiting(scalar @workers, 'all workers wait');
is(wake($pooled, 'w1'), '1', 'jobq_wake works through the remaining connection');
ends($workers[1], 'the wait of the right worker ends');
is($workers[1]{output}, "0\n", 'the worker continues with its next statement');
sleeps_on($_, 'the other workers still wait') for @workers[ 0, 2, 3 ];
is(wake($node, 'w2'), '1', 'jobq_wake works on a direct connection');
ends($workers[2], 'the wait of the right worker ends');
wake($node, 'w3');
ends($workers[3], 'the wait of another worker ends');
value($pooled, 'work', q{SELECT jobq_enqueue('pooled')});
ends($workers[0], 'a new job ends the wait of a worker');
is($workers[0]{output}, "1\n", 'and the worker claims the job');

# ---- all connections wait, so a worker is woken before it has got a connection

waits($workers[$_], "w$_") for 0 .. 3;
waiting($pool_size - 1, 'all connections but one wait');
my ($last, $queued) = map { sleeper($pooled) } 1, 2;
waits($last, 'last');
waiting($pool_size, 'no connection is left');
$queued->{pid} = 0;    # looking it up would need a connection
waits($queued, 'queued');
sleeps_on($queued, 'another worker waits for a connection');
is(wake($node, 'queued'), '0', 'its wait has not begun when it is woken');
is(wake($node, 'last'), '1', 'the wake of another worker frees a connection');
ends($last, 'the wait of that worker ends');
ends($queued, 'the wait that begins now ends at once');

# ---- many waits

is(wake($pooled, "w$_"), '1', "w$_ is woken") for 0 .. 3;
ends($_, 'and its wait ends') for @workers;
my $rounds = 300;
for my $round (1 .. $rounds)
{
    waits($workers[0], 'again');
    wake($round % 2 ? $pooled : $node, 'again') if $round % 10 == 0;
    $workers[1]{session}->query(q{SELECT jobq_wake('again')}) if $round % 10;
    last if seconds_to_end($workers[0], 60) >= 60;
}
ok(ended($workers[0]), "each of $rounds waits was ended by its wake");
ok($pooler->pumpable, 'the pooler has not been restarted');
is(value($node, 'work', q{SELECT count(*) FROM pg_stat_activity WHERE query ~* '^call jobq_wait' AND state = 'active'}), '0',
    'no connection is left in a wait');

end_sessions(map { $_->{session} } @workers, $last, $queued);
$pooler->kill_kill;
stops_fast($node);
done_testing();
