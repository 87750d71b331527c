# Tests logical subscribers of jobq.jobs under load: a plain table, a database with jobq but without background workers, and a
# database whose background workers change the replicated jobs. With PostgreSQL 17 and later, also a slot that fails over with the
# publisher.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use IPC::Run;
use JobqTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my @conf = ('max_connections = 50', 'wal_level = logical', 'max_wal_senders = 10', 'max_replication_slots = 10');
my $publisher = preloaded('publisher', init => { allows_streaming => 'logical' }, conf => [@conf]);
my $subscriber = preloaded('subscriber', init => { allows_streaming => 'logical' },
    conf => [ @conf, 'max_logical_replication_workers = 8', 'wal_retrieve_retry_interval = 200ms', q{jobq.databases = 'awake'} ]);
my $since17 = $publisher->pg_version >= 17;

database($publisher, 'work');
value($publisher, 'work', q{SELECT jobq_create_queue('q', heartbeat_timeout => '1 hour', backoff_base => '10 ms'), jobq_create_queue('short', heartbeat_timeout => '5 s')});
value($publisher, 'work', q{SELECT jobq_set_limit('q', max_running => 1000), count(*) FROM jobq_enqueue_many('q', array_fill('{"x": 1}'::jsonb, ARRAY[300]))});

# ---- a load with every possible change of a job

my $script = PostgreSQL::Test::Utils::tempdir . '/load.sql';
append_to_file($script, q{
\set n random(1, 1000)
SELECT jobq_enqueue('q', jsonb_build_object('n', :n), kind => 'k' || :n % 3, priority => :n % 5, unique_key => CASE :n % 4 WHEN 0 THEN 'u' || :n END,
                    concurrency_key => 'c' || :n % 7, group_key => CASE :n % 9 WHEN 0 THEN 'g' || :n % 2 END, metadata => '{"m": null}',
                    options => jsonb_build_object('requires', CASE :n % 50 WHEN 0 THEN '{gpu}'::text[] END));
SELECT jobq_complete(id, lease, payload) FROM jobq_claim('q', 'w', batch => 2);
SELECT jobq_fail(id, lease, E'tab\t' || id, retry => :n % 2 = 0) FROM jobq_claim('q', 'w');
SELECT jobq_heartbeat(id, lease, jsonb_build_object('percent', :n)) FROM jobq_claim('q', 'w', batch => :n % 2);
SELECT jobq_cancel(id), jobq_snooze(id, '20 ms', lease) FROM jobq_claim('q', 'w', batch => :n % 2);
SELECT jobq_delete(j.id) FROM (SELECT id FROM jobq.jobs WHERE queue = 'q' AND status = 'completed' ORDER BY id LIMIT 1) j;
UPDATE jobq.jobs SET priority = 3 WHERE id = (SELECT max(id) FROM jobq.jobs WHERE queue = 'q');
});

my ($pgbench, $said);
sub load
{
    my ($node) = @_;
    $said = '';
    $pgbench = IPC::Run::start([ 'pgbench', '-n', '-c', '3', '-T', '3600', '-f', $script, $node->connstr('work') ], '<', \undef, '>', \$said, '2>', \$said);
    return;
}

sub loaded
{
    my ($node, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $before = value($node, 'work', q{SELECT last_value FROM jobq.jobs_id_seq});
    becomes_true($node, 'work', "SELECT last_value > $before + 60 FROM jobq.jobs_id_seq", "$name: jobs come and go") > 1000 and diag($said);
    return;
}

sub rest
{
    my ($node) = @_;
    $pgbench->kill_kill(grace => 5);
    # After the clients have stopped and the due jobs are promoted, jobs no longer change.
    becomes_true($node, 'work', q{SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'pgbench')
        AND NOT EXISTS (SELECT FROM jobq.jobs WHERE status = 'scheduled' AND queue = 'q')}, 'no job changes anymore');
    return;
}

# ---- comparing the tables

# As JSON, rows are equal whatever the types of their columns. A database with jobq computes its own hashes and slots.
my $row = q{(to_jsonb(j) - '{_lane,_group_waiting,_group_active,_round_robin_key,_queue_slot,_key_slot,_kind_slot,_limit_slot1,_limit_slot2}'::text[])::text};
my $digest = qq{SELECT count(*), md5(string_agg($row, '|' ORDER BY id)) FROM jobq.jobs j WHERE queue <> 'short'};
sub same
{
    my ($node, $from, @databases) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    for my $database (@databases)
    {
        # The publisher's worker may still change jobs, so the comparison is repeated.
        my ($wanted, $found);
        seconds_until(sub { $wanted = value($from, 'work', $digest); $found = value($node, $database, $digest); return $found eq $wanted });
        next if is($found, $wanted, "$database: all columns of all jobs except hashes and slots are equal");
        my $rows = qq{SELECT $row FROM jobq.jobs j WHERE queue <> 'short' ORDER BY id};
        my %there = map { $_ => 1 } split /\n/, value($from, 'work', $rows);
        my @other = grep { !delete $there{$_} } split /\n/, value($node, $database, $rows);
        diag(join "\n", 'there:', sort(keys %there), 'here:', @other);
    }
    return;
}

sub subscribe
{
    my ($database, $options) = @_;
    value($subscriber, $database, "CREATE SUBSCRIPTION $database CONNECTION \$c\$" . $publisher->connstr('work') . "\$c\$ PUBLICATION jobs $options");
    return;
}

# ---- a plain table and two databases with jobq, one of which has background workers

value($publisher, 'work', q{CREATE PUBLICATION jobs FOR TABLE jobq.jobs});
my $columns = value($publisher, 'work', q{SELECT string_agg(format('%I %s', attname, CASE atttypid WHEN 'jobq.job_status'::regtype THEN 'text' ELSE format_type(atttypid, atttypmod) END), ', ' ORDER BY attnum)
    FROM pg_attribute WHERE attrelid = 'jobq.jobs'::regclass AND attnum > 0 AND NOT attisdropped});
$subscriber->safe_psql('postgres', 'CREATE DATABASE plain');
value($subscriber, 'plain', "CREATE SCHEMA jobq; CREATE TABLE jobq.jobs ($columns, PRIMARY KEY (id))");
database($subscriber, $_) for 'asleep', 'awake';
becomes_true($subscriber, 'awake', q{SELECT state IN ('running', 'idle') FROM jobq.background_workers WHERE database = 'awake'}, 'background workers serve one of the databases');

load($publisher);
loaded($publisher, 'before the copy');
subscribe($_, $since17 ? 'WITH (failover = true)' : '') for 'plain', 'asleep', 'awake';
loaded($publisher, 'during the copy');
becomes_true($subscriber, $_, q{SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel WHERE srsubid = (SELECT oid FROM pg_subscription WHERE subname = current_database())}, "$_: the initial copy is complete")
  for 'plain', 'asleep', 'awake';
loaded($publisher, 'after the copy');
rest($publisher);
same($subscriber, $publisher, 'plain', 'asleep');

# A running job whose worker sends heartbeats to the publisher, and a job that becomes due. A background worker of the subscriber
# rescues and promotes them. The background worker of the publisher is off, so that these changes come from the subscriber.
value($publisher, 'work', q{ALTER SYSTEM SET jobq.enabled = off; SELECT pg_reload_conf()});
becomes_true($publisher, 'postgres', q{SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'jobq worker')}, 'the publisher has no background worker');
value($publisher, 'work', q{SELECT jobq_enqueue('short', kind => 'due', run_at => clock_timestamp() + interval '3 s'), jobq_enqueue('short', kind => 'runs'); SELECT id FROM jobq_claim('short', 'far away')});
my $state = q{SELECT string_agg(kind || ' ' || status, ', ' ORDER BY kind) FROM jobq.jobs WHERE queue = 'short'};
becomes_true($subscriber, 'awake', "SELECT ($state) = 'due pending, runs pending'", 'the background worker of a subscriber rescues the job of a foreign worker and promotes the other');
becomes_true($subscriber, 'asleep', q{SELECT count(*) = 2 AND bool_and(clock_timestamp() > coalesce(last_heartbeat + interval '6 s', run_at)) FROM jobq.jobs WHERE queue = 'short'}, 'the lease of the job has expired, and the other job is due');
is(value($subscriber, 'asleep', $state), 'due scheduled, runs processing', 'without a background worker, the replicated jobs are unchanged');
is(value($publisher, 'work', $state), 'due scheduled, runs processing', 'they are unchanged on the publisher, too');
# The next change of the job on the publisher overwrites the whole row.
is(value($publisher, 'work', q{SELECT jobq_heartbeat(id, lease) FROM jobq.jobs WHERE kind = 'runs'}), 'held', 'the job is still running on the publisher');
becomes_true($subscriber, 'awake', q{SELECT count(*) = 1 FROM jobq.attempts WHERE outcome = 'lost' AND job_id = (SELECT id FROM jobq.jobs WHERE kind = 'runs')}, 'only the subscriber has recorded a lost attempt');
becomes_true($subscriber, 'awake', q{SELECT status = 'processing' FROM jobq.jobs WHERE kind = 'runs'}, 'the next change on the publisher overwrites the row on the subscriber');
# It overwrites a claim on the subscriber, too.
my $early = value($publisher, 'work', q{SELECT jobq_enqueue('early')});
my ($id, $lease) = @{ claim_when_ready($subscriber, 'asleep', 'early') }{qw(id lease)};
is($id, $early, 'a job can be claimed on the subscriber');
value($publisher, 'work', qq{UPDATE jobq.jobs SET metadata = '{"changed": true}' WHERE id = $id});
becomes_true($subscriber, 'asleep', qq{SELECT metadata IS NOT NULL AND lease IS NULL AND status = 'pending' FROM jobq.jobs WHERE id = $id AND metadata = '{"changed": true}'}, 'the claim on the subscriber is overwritten by the next change on the publisher');
is(value($subscriber, 'asleep', "SELECT jobq_complete($id, $lease)"), 'f', 'its lease is lost');
is(value($subscriber, 'asleep', q{SELECT count(*) FROM jobq.attempts}), '0', 'attempts are not replicated with the jobs');

# ---- the publisher fails over with the slot

SKIP:
{
    skip 'the slots of subscriptions can fail over in PostgreSQL 17 and later', 1 unless $since17;
    value($publisher, 'work', q{ALTER SYSTEM RESET jobq.enabled; SELECT pg_reload_conf()});
    value($subscriber, $_, "DROP SUBSCRIPTION $_") for 'plain', 'awake';
    value($publisher, 'postgres', q{SELECT pg_create_physical_replication_slot('standby')});
    $publisher->backup('copy');
    my $standby = PostgreSQL::Test::Cluster->new('standby');
    $standby->init_from_backup($publisher, 'copy', has_streaming => 1);
    my $from = $publisher->connstr('postgres') =~ s/'/''/gr;
    settings($standby, 'sync_replication_slots = on', 'hot_standby_feedback = on', q{primary_slot_name = 'standby'},
        "primary_conninfo = '$from'");
    $standby->start;
    # The subscriber must not get changes that the standby does not have.
    value($publisher, 'postgres', q{ALTER SYSTEM SET synchronized_standby_slots = 'standby'; SELECT pg_reload_conf()});
    load($publisher);
    loaded($publisher, 'with a standby');
    becomes_true($standby, 'postgres', q{SELECT count(*) = 1 FROM pg_replication_slots WHERE slot_name = 'asleep' AND synced AND NOT temporary AND invalidation_reason IS NULL}, 'the slot is synchronized to the standby');
    loaded($publisher, 'before the failover');
    $publisher->stop('immediate');
    $pgbench->finish;
    $standby->promote;
    load($standby);
    value($subscriber, 'asleep', 'ALTER SUBSCRIPTION asleep CONNECTION $c$' . $standby->connstr('work') . '$c$');
    loaded($standby, 'after the failover');
    rest($standby);
    same($subscriber, $standby, 'asleep');
}

unlike(log_since($_), qr/(?:PANIC|TRAP|terminated by signal)/, $_->name . ': no crash') for $publisher, $subscriber;
done_testing();
