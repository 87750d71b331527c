# Tests which databases workers serve: every database that has the extension, even if only one worker may run; only the databases in
# jobq.databases if it is set; no template databases. Also tests that a lack of worker slots is a warning and not a failure.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use JobqTime;
use Test::More;

my $node = preloaded('databases', conf => [ 'max_logical_replication_workers = 0', 'max_worker_processes = 5' ]);
my @databases = ('one', 'two', 'Drei, bitte');
database($node, $_) for @databases;

sub enqueue_delayed
{
    my ($database) = @_;
    return value($node, $database, q{SELECT jobq_enqueue('q', run_at => clock_timestamp() + interval '50 ms')});
}

sub promoted
{
    my ($database, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return becomes_true($node, $database, q{SELECT NOT EXISTS (SELECT FROM jobq.jobs WHERE status = 'scheduled')}, $name);
}

sub rounds { return value($node, 'one', "SELECT rounds FROM jobq.background_workers WHERE database = '$_[0]'"); }

sub reload
{
    my (@lines) = @_;
    settings($node, @lines);
    $node->reload;
    return;
}

# ---- all databases, with one worker and with several

for my $workers (1, 3)
{
    reload("jobq.max_workers = $workers");
    becomes_true($node, 'one', "SELECT current_setting('jobq.max_workers') = '$workers'", "jobq.max_workers is $workers");
    for my $round (1 .. 2)
    {
        enqueue_delayed($_) for @databases;
        promoted($_, "round $round in $_") for @databases;
    }
    next if $workers > 1;

    # Each database has unfinished jobs now, and none may be starved.
    my %before = map { $_ => rounds($_) } @databases;
    becomes_true($node, 'one', "SELECT rounds > $before{$_} + 1 FROM jobq.background_workers WHERE database = '$_'",
        "the only worker also visits $_") for @databases;
    is( value($node, 'one', q{SELECT count(*) <= 1 FROM pg_stat_activity WHERE backend_type = 'jobq worker'}),
        't', 'only one worker runs');

    # Delayed jobs in all databases become due at the same instant. A worker that has just started must also learn that another
    # database needs its slot.
    for my $turn (1 .. 4)
    {
        my $instant = value($node, 'one', q{SELECT clock_timestamp() + interval '300 ms'});
        value($node, $_, "SELECT jobq_enqueue('q', run_at => '$instant')") for @databases;
        my $late = seconds_until(sub {
            !grep { value($node, $_, q{SELECT EXISTS (SELECT FROM jobq.jobs WHERE status = 'scheduled')}) eq 't' } @databases;
        });
        report_seconds('three jobs due at the same instant, all promoted after', $late // 1e9);
        in_time($late // 1e9, 2.3, "turn $turn: a worker visited all three databases within 2 s of the instant");
    }

    # A rescue is in time even if databases take turns.
    value($node, 'two', q{SELECT jobq_enqueue('short')});
    value($node, 'two', q{SELECT id FROM jobq_claim('short', 'w', heartbeat_timeout => '1 s')});
    ok(claim_when_ready($node, 'two', 'short'), 'a job is rescued with only one worker');
    my $took = value($node, 'two', q{SELECT extract(epoch FROM finished_at - started_at) FROM jobq.attempts});
    report_seconds('three databases, one worker: rescued after the claim, heartbeat timeout 1 s', $took);
    in_time($took, 3, 'the rescue is within the timeout + 2 s');
}
ok(await_worker($node, $_), "a worker stays in $_") for @databases;
reload('jobq.max_workers = 1');
becomes_true($node, 'one', q{SELECT count(*) <= 1 FROM pg_stat_activity WHERE backend_type = 'jobq worker'},
    'when jobq.max_workers is lowered, surplus workers exit');

# ---- jobq.databases

reload('jobq.max_workers = 3', q{jobq.databases = 'one, "Drei, bitte"'});
ok(seconds_until(sub { worker_pid($node, 'two') eq '' }), 'the worker leaves a database that is not in the list');
enqueue_delayed($_) for 'two', 'one', 'Drei, bitte';
promoted('one', 'a listed database is served');
promoted('Drei, bitte', 'a listed database whose name must be quoted is served');
becomes_true($node, 'two', q{SELECT clock_timestamp() > run_at + interval '1500 ms' FROM jobq.jobs WHERE status = 'scheduled'},
    'the job has been due for some time');
is( value($node, 'two', q{SELECT count(*) FROM jobq.jobs WHERE status = 'scheduled'}),
    '1', 'the job of a database that is not listed waits');
is( value($node, 'two', q{SELECT state || ': ' || note FROM jobq.background_workers WHERE database = 'two'}),
    'disabled: the database is not in jobq.databases', 'jobq.background_workers says that the database is not listed');
reload(q{jobq.databases = ''});
promoted('two', 'a database is served again when all are');

my ($out, $err) = run_sql($node, 'postgres', q{ALTER SYSTEM SET jobq.databases = 'a,,"b'});
like($err, qr/invalid value for parameter "jobq.databases"/, 'a malformed list is rejected');

# ---- a template database has no worker

value($node, 'postgres', q{CREATE DATABASE pattern});
value($node, 'pattern', 'CREATE EXTENSION jobq');
# A template whose extension no worker has seen is not reported.
becomes_true($node, 'one', q{SELECT EXISTS (SELECT FROM jobq.background_workers WHERE database = 'pattern' AND rounds > 0)}, 'a worker has visited the database');
becomes_true($node, 'postgres', q{SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = 'pattern')}, 'no worker is connected to the template');
value($node, 'postgres', q{ALTER DATABASE pattern IS_TEMPLATE true});
is(value($node, 'one', q{SELECT state FROM jobq.background_workers WHERE database = 'pattern'}), 'template', 'jobq.background_workers says that the database is a template');
value($node, 'template1', 'CREATE EXTENSION jobq');
is(value($node, 'one', q{SELECT count(*) FROM jobq.background_workers WHERE database = 'template1'}), '0', 'a template that was never served is not in jobq.background_workers');
value($node, 'template1', 'DROP EXTENSION jobq');
value($node, 'postgres', q{CREATE DATABASE made TEMPLATE pattern});
enqueue_delayed('made');
promoted('made', 'a database made from a template with the extension is served');

# ---- no free worker slot: a warning, not a failure

# There is one slot besides that of the launcher, and a parallel query occupies it.
settings($node, 'max_worker_processes = 2', 'jobq.enabled = off');
$node->restart;
my $greedy = session($node, 'postgres');
# The setting was renamed in PostgreSQL 16.
$greedy->query(q{SELECT set_config(name, 'on', false) FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query')});
$greedy->query_until(qr/started/, "\\echo started\nSELECT pg_sleep(600);\n");
my $slot_taken = q{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'parallel worker')};
becomes_true($node, 'postgres', $slot_taken, 'the only worker slot is taken');
my $position = log_size($node);
reload('jobq.enabled = on');
is(enqueue_delayed('one') > 0 ? 1 : 0, 1, 'an enqueue works without a worker slot');
my $warning = qr/WARNING:  [^\n]*all background worker slots are in use/;
ok(seconds_until(sub { count_in_log($node, $warning, $position) }), 'the log contains a warning');
like(log_since($node, $position), qr/HINT:  [^\n]*max_worker_processes/, 'the warning has a hint');
is(sqlstate($node, 'one', q{SELECT jobq_claim('nothing')}), '00000', 'a claim works without a worker slot');
like(value($node, 'one', q{SELECT note FROM jobq.background_workers WHERE database IS NULL}),
    qr/max_worker_processes/, 'jobq.background_workers shows the warning');
becomes_true($node, 'one', q{SELECT clock_timestamp() > run_at + interval '2500 ms' FROM jobq.jobs WHERE status = 'scheduled'},
    'the launcher keeps retrying');
is(count_in_log($node, $warning, $position), 1, 'the warning is not repeated');
is(value($node, 'postgres', $slot_taken), 't', 'the slot was occupied the whole time');

run_sql($node, 'postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity
    WHERE query LIKE '%pg_sleep(600)%' AND backend_type = 'client backend' AND pid <> pg_backend_pid()});
my $recovered = promoted('one', 'a job is promoted when a slot is free');
report_seconds('time from the free worker slot to the promotion', $recovered);
$greedy->quit;

# Now all databases share the only slot.
keep_in_use($node, $_) for @databases;
for my $round (1 .. 3)
{
    my %before = map { $_ => rounds($_) } @databases;
    becomes_true($node, 'one', "SELECT rounds > $before{$_} FROM jobq.background_workers WHERE database = '$_'",
        "turn $round: the worker in the only slot serves $_") for @databases;
}
cmp_ok(count_in_log($node, $warning, $position), '<=', 2, 'databases that take turns do not flood the log');

settings($node, 'max_worker_processes = 8');
$node->restart;
keep_in_use($node, $_) for @databases;
becomes_true($node, 'one', "SELECT rounds > 1 FROM jobq.background_workers WHERE database = '$_'", "$_ is served") for @databases;
is(value($node, 'one', q{SELECT note FROM jobq.background_workers WHERE database IS NULL}), '', 'with enough slots, the launcher has no note');

unlike(log_since($node), qr/(?:PANIC|TRAP|terminated by signal)/, 'no crash');

done_testing();
