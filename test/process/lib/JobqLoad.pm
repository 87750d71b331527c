# Runs producers, workers, and monitoring clients, each with the privileges of its role and with prepared statements, so that they
# keep working whatever happens to the extension. The effects of the load can be checked afterward.
package JobqLoad;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use IPC::Run;
use JobqTest;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(prepare_load begin_load load_goes_on end_load check_load);

my %scripts = (
    producer => <<'SQL',
INSERT INTO load.enqueued SELECT jobq_enqueue('load', kind => 'k' || :client_id::int, priority => :client_id::int);
\sleep 2 ms
SQL
    # The worker sleeps between claim and completion, so that jobs are running when the extension changes.
    worker => <<'SQL',
INSERT INTO load.held SELECT id, lease, :client_id::int FROM jobq_claim('load', 'w' || :client_id::int, 3);
\sleep 5 ms
SELECT count(*) FROM load.held h, jobq_heartbeat_many(ARRAY[h.id], ARRAY[h.lease]) WHERE h.client = :client_id;
BEGIN;
INSERT INTO load.done SELECT id FROM load.held WHERE client = :client_id;
SELECT jobq_complete(id, lease, must_hold => true) FROM load.held WHERE client = :client_id;
DELETE FROM load.held WHERE client = :client_id;
END;
SQL
    monitor => <<'SQL',
SELECT count(*) FROM jobq.queue_stats;
SELECT count(*) FROM jobq.background_workers;
SELECT count(*) FROM jobq.queues;
\sleep 20 ms
SQL
);
my %clients = (producer => 2, worker => 4, monitor => 1);

# Creates the roles, once per server.
sub make_roles
{
    my ($node) = @_;
    value($node, 'postgres', "CREATE ROLE load_$_ LOGIN") for sort keys %scripts;
    return;
}

# Grants the privileges in a database with jobq and creates the tables in which the clients record what they have done.
sub prepare_load
{
    my ($node, $database) = @_;
    make_roles($node) if value($node, 'postgres', q{SELECT count(*) FROM pg_roles WHERE rolname = 'load_worker'}) eq '0';
    value($node, $database, <<'SQL');
SELECT jobq_grant('load_' || profile, profile) FROM unnest('{producer,worker,monitor}'::text[]) profile;
CREATE SCHEMA load;
CREATE TABLE load.enqueued (id bigint);
CREATE TABLE load.held (id bigint, lease bigint, client int);
CREATE TABLE load.done (id bigint PRIMARY KEY);
GRANT ALL ON SCHEMA load TO load_producer, load_worker;
GRANT ALL ON ALL TABLES IN SCHEMA load TO load_producer, load_worker;
SQL
    return;
}

sub begin_load
{
    my ($node, $database) = @_;
    my %load = (node => $node, database => $database, runs => []);
    my $directory = PostgreSQL::Test::Utils::tempdir();
    for my $role (sort keys %scripts)
    {
        append_to_file("$directory/$role.sql", $scripts{$role});
        my %run = (role => $role, out => '');
        my @command = ('pgbench', '-n', '-M', 'prepared', '-T', '100000', '-c', $clients{$role}, '-f', "$directory/$role.sql",
            '-h', $node->host, '-p', $node->port, '-U', "load_$role", $database);
        # Both outputs go to one file, because IPC::Run is pumped rarely.
        $run{file} = "$directory/$role.out";
        $run{handle} = IPC::Run::start(\@command, '<', \undef, '&>', $run{file});
        push @{ $load{runs} }, \%run;
    }
    load_goes_on(\%load, 'the load runs');
    return \%load;
}

sub done_so_far { my ($load) = @_; return value($load->{node}, $load->{database}, 'SELECT count(*) FROM load.done'); }

sub complaints
{
    my ($load) = @_;
    return join "\n", map { my $role = $_->{role}; map { "$role: $_" } grep { /error|fatal|aborted/i } split /\n/, slurp_file($_->{file}) } @{ $load->{runs} };
}

# Asserts that jobs are enqueued and completed from now on and that no client has reported an error.
sub load_goes_on
{
    my ($load, $name, $jobs) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $from = done_so_far($load);
    my $wanted = $from + ($jobs // 100);
    my $took = seconds_until(sub { return complaints($load) ne '' || done_so_far($load) >= $wanted; });
    ok(defined $took && complaints($load) eq '', $name) or diag(complaints($load));
    return;
}

# Stops the load and returns the errors that the clients reported.
sub end_load
{
    my ($load) = @_;
    for my $run (@{ $load->{runs} })
    {
        $run->{handle}->signal('TERM');
        eval { $run->{handle}->finish };
    }
    my $complaints = complaints($load);
    # Waits for the sessions, which may still execute a statement.
    seconds_until(sub { return value($load->{node}, 'postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE usename LIKE 'load\_%'}) eq 't' });
    return $complaints;
}

# Completes the remaining jobs and asserts that each job was done once.
sub check_load
{
    my ($load) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my ($node, $database) = @$load{qw(node database)};
    value($node, $database, <<'SQL');
INSERT INTO load.held SELECT id, lease, -1 FROM jobq_claim('load', 'last', 99999);
BEGIN;
INSERT INTO load.done SELECT id FROM load.held;
SELECT count(jobq_complete(id, lease, must_hold => true)) FROM load.held;
DELETE FROM load.held;
COMMIT;
SQL
    is( value($node, $database, q{
        SELECT (SELECT count(*) FROM (SELECT id FROM load.enqueued EXCEPT ALL SELECT id FROM load.done) lost) || ' lost, ' ||
               (SELECT count(*) FROM (SELECT id FROM load.done EXCEPT ALL SELECT id FROM load.enqueued) more) || ' done too often, ' ||
               (SELECT count(*) FROM jobq.jobs WHERE queue = 'load' AND status <> 'completed') || ' not completed'}),
        '0 lost, 0 done too often, 0 not completed', 'each job of the load was done once');
    diag("$database: " . done_so_far($load) . ' jobs under load');
    return;
}

1;
