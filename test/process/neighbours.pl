# Tests jobq together with other preloaded libraries, before and after each of them in shared_preload_libraries, and together with
# all of them: a job of each kind runs, with both ways of accessing the rows; what the other library reports about it is right; and
# DROP EXTENSION works. Libraries that are not installed are reported; `make setup` installs those that Debian packages.
# JOBQ_NEIGHBOURS='pg_cron pgaudit' selects libraries.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $claims = 7;    # of them as many get a job as are there:
my $jobs   = 5;
my $claim  = q{SELECT jobq_complete(id, lease) FROM jobq_claim('counted')};

# conf: settings; extension: its name for CREATE EXTENSION; before: SQL to run in a new database; shows: a function that checks what
# the library reports about the jobs of a database, given the position in the log at which they began.
my %neighbours = (
    pg_stat_statements => {
        conf      => [ 'pg_stat_statements.track = all', 'pg_stat_statements.max = 5000' ],
        extension => 'pg_stat_statements',
        shows     => \&statements_are_counted,
    },
    auto_explain => {
        conf => [
            'auto_explain.log_min_duration = 0',         'auto_explain.log_analyze = on',
            'auto_explain.log_nested_statements = on',   'auto_explain.log_buffers = on',
            'auto_explain.log_triggers = on',            'auto_explain.log_verbose = on'
        ],
        shows => \&plans_are_logged,
    },
    pgaudit => {
        conf      => [ q{pgaudit.log = 'all'}, 'pgaudit.log_catalog = off', 'pgaudit.log_relation = on', 'pgaudit.log_parameter = on', q{pgaudit.role = 'auditor'} ],
        extension => 'pgaudit',
        before    => q{DO 'BEGIN CREATE ROLE auditor; EXCEPTION WHEN duplicate_object THEN END'},
        shows     => \&calls_are_audited,
    },
    pg_cron => {
        conf  => [ q{cron.database_name = 'cron'}, q{cron.host = '@host@'} ],
        shows => \&cron_enqueues,
    },
    pg_partman_bgw => {
        conf  => [ 'pg_partman_bgw.interval = 1', q{pg_partman_bgw.dbname = 'partman'}, q{pg_partman_bgw.role = '@user@'} ],
        shows => \&partitions_are_kept,
    },
    timescaledb => { conf => ['timescaledb.telemetry_level = off'], extension => 'timescaledb' },
);

my $libraries = `pg_config --pkglibdir`;
chomp $libraries;
my @wanted  = $ENV{JOBQ_NEIGHBOURS} ? split / /, $ENV{JOBQ_NEIGHBOURS} : sort keys %neighbours;
my @there   = grep { -e "$libraries/$_.so" } @wanted;
my @missing = grep { !-e "$libraries/$_.so" } @wanted;
diag("not installed, left out: @missing") if @missing;

my $node = server('neighbours', conf => [ 'max_worker_processes = 16', 'jobq.tick_interval = 100ms', 'log_min_messages = log' ]);
my $user = value($node, 'postgres', 'SELECT current_user');
my $tried = 0;
value($node, 'postgres', 'CREATE DATABASE empty');
value($node, 'empty', q{
    CREATE PROCEDURE await(condition text) LANGUAGE plpgsql AS $$
    DECLARE
        give_up timestamptz := clock_timestamp() + interval '90 s';
        holds boolean;
    BEGIN
        LOOP
            EXECUTE 'SELECT ' || condition INTO holds;
            COMMIT;
            EXIT WHEN holds;
            IF clock_timestamp() > give_up THEN RAISE EXCEPTION 'never: %', condition; END IF;
            PERFORM pg_sleep(0.02);
        END LOOP;
    END $$});
# Some libraries connect to every database when the server starts, which would prevent copying this one.
value($node, 'postgres', 'ALTER DATABASE empty ALLOW_CONNECTIONS false');

for my $name (@there)
{
    beside([ $name, 'jobq' ], 'direct');
    beside([ 'jobq', $name ], 'sql');
}
beside([ @there, 'jobq' ], 'sql');
beside([ 'jobq', reverse @there ], 'direct');
$node->stop;
done_testing();

# Starts a server with these libraries and runs all checks in a database of its own.
sub beside
{
    my ($preload, $way) = @_;
    my @names = grep { $_ ne 'jobq' } @$preload;
    my $order = join ',', @$preload;
    my $host = $node->host;
    settings($node, "shared_preload_libraries = '$order'", "jobq.access = $way",
        map { s/\@host\@/$host/r =~ s/\@user\@/$user/r } map { @{ $neighbours{$_}{conf} } } @names);
    $node->restart;
    my $log = log_size($node);
    my $database = 'beside_' . ++$tried;
    value($node, 'postgres', "CREATE DATABASE $database TEMPLATE empty");
    value($node, $database, $neighbours{$_}{before} // '') for @names;
    my @extensions = grep { $_ } map { $neighbours{$_}{extension} } @names;
    # The order of CREATE EXTENSION alternates, too.
    my @create = map { "CREATE EXTENSION $_" } $tried % 2 ? (@extensions, 'jobq') : ('jobq', @extensions);
    value($node, $database, join ';', @create);
    lives($database, $order);
    for my $name (@names)
    {
        $neighbours{$name}{shows}->($database, $order, $log, $way) if $neighbours{$name}{shows};
    }
    value($node, $database, 'DROP EXTENSION jobq; CREATE EXTENSION jobq');
    is(value($node, $database, q{SELECT jobq_enqueue('again')}), '1', "$order: the extension can be dropped and created again");
    value($node, $database, "DROP EXTENSION $_") for @extensions, 'jobq';
    value($node, 'postgres', "DROP DATABASE $database");
    unlike(log_since($node, $log), qr/PANIC|TRAP|terminated by signal|XX000|exited with exit code [^01]/, "$order: no crash");
    return;
}

# Runs jobs of each kind: jobs that complete, fail and are retried, lose their worker, wait for others, for their turn, or for a
# slot.
sub lives
{
    my ($database, $order) = @_;
    my $seen = value(
        $node, $database, qq{
        \\o /dev/null
        SELECT count(*) FROM jobq_enqueue_many('counted', array_fill('{}'::jsonb, ARRAY[$jobs]));
        @{[ join '', ("$claim;\n") x $claims ]}
        SELECT jobq_enqueue('retried');
        SELECT jobq_fail(id, lease, 'once more', '50 ms') FROM jobq_claim('retried');
        CALL jobq_wait('retried', '90 s');
        SELECT jobq_heartbeat(id, lease), jobq_complete(id, lease, '7') FROM jobq_claim('retried');
        SELECT jobq_enqueue('lost');
        SELECT count(*) FROM jobq_claim('lost', heartbeat_timeout => '50 ms');
        CALL await('status = ''pending'' FROM jobq.jobs WHERE queue = ''lost''');
        SELECT jobq_cancel(id) FROM jobq.jobs WHERE queue = 'lost';
        SELECT jobq_set_limit('limited', max_running => 2);
        SELECT jobq_enqueue('limited', unique_key => 'once') FROM generate_series(1, 2);
        SELECT jobq_enqueue('limited', depends_on => ARRAY(SELECT id FROM jobq.jobs WHERE queue = 'limited'));
        SELECT count(*) FROM jobq_enqueue_many('limited', '{1,2,3}', group_keys => '{a,a,b}');
        CALL await('count(*) = 3 FROM jobq.jobs WHERE queue = ''limited'' AND status = ''pending''');
        SELECT count(jobq_complete(id, lease)) FROM jobq_claim('limited', batch => 9);
        CALL await('count(*) = 3 FROM jobq.jobs WHERE queue = ''limited'' AND status = ''pending''');
        SELECT count(jobq_complete(id, lease)) FROM jobq_claim('limited', batch => 9);
        SELECT count(jobq_complete(id, lease)) FROM jobq_claim('limited', batch => 9);
        INSERT INTO jobq.jobs (queue) VALUES ('by hand');
        \\o
        SELECT queue, status, count(*) FROM jobq.jobs GROUP BY 1, 2 ORDER BY 1, 2;
        SELECT outcome, count(*) FROM jobq.attempts GROUP BY 1 ORDER BY 1});
    is($seen, "by hand|pending|1\ncounted|completed|$jobs\nlimited|completed|5\nlost|cancelled|1\nretried|completed|1\nfailed|1\nlost|1",
        "$order: jobs of each kind run");
    becomes_true($node, $database, q{SELECT bool_and(source = 'counters') FROM jobq.queue_stats}, "$order: the counters are used");
    is(value($node, $database, counters_differ()), '', "$order: the counters are right");
    is(value($node, $database, q{SELECT last_error FROM jobq.background_workers WHERE last_error IS NOT NULL}), '', "$order: no duty failed");
    return;
}

# ---- what the other libraries report

sub statements_are_counted
{
    my ($database, $order, $log, $way) = @_;
    my $ours = q{FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())};
    is( value($node, $database, qq{SELECT calls, rows $ours AND toplevel AND query = 'SELECT jobq_complete(id, lease) FROM jobq_claim(\$1)'}),
        "$claims|$jobs", "$order: the calls and rows of claims are counted");
    return if $way ne 'sql';
    is( value($node, $database, qq{SELECT sum(rows) >= 2 * $jobs $ours AND NOT toplevel AND query ~ 'UPDATE jobq.jobs'}),
        't', "$order: nested statements are counted");
    return;
}

sub plans_are_logged
{
    my ($database, $order, $log, $way) = @_;
    is(count_in_log($node, qr/Query Text: \Q$claim\E/, $log), $claims, "$order: the plan of each claim is logged");
    cmp_ok(count_in_log($node, qr/Update on jobq\.jobs [^\n]*\(actual/, $log), '>=', 2 * $jobs, "$order: the plans of nested statements are logged") if $way eq 'sql';
    return;
}

sub calls_are_audited
{
    my ($database, $order, $log, $way) = @_;
    is(count_in_log($node, qr/AUDIT: SESSION,[^\n]*,FUNCTION,EXECUTE,FUNCTION,public\.jobq_claim,"?\Q$claim\E/, $log), $claims, "$order: each claim is audited");
    return if $way ne 'sql';
    value($node, $database, q{GRANT UPDATE ON jobq.jobs TO auditor; SELECT jobq_enqueue('audited')});
    my $here = log_size($node);
    value($node, $database, q{SELECT count(*) FROM jobq_claim('audited')});
    cmp_ok(count_in_log($node, qr/AUDIT: OBJECT,[^\n]*,WRITE,UPDATE,TABLE,jobq\.jobs,/, $here), '>=', 1, "$order: the writes of claims to the table are audited");
    return;
}

# Jobs of pg_cron that run when the server starts; others run once a minute at most. pg_cron uses a connection or a background
# worker.
sub cron_enqueues
{
    my ($database, $order, $log, $way) = @_;
    if (value($node, 'postgres', q{SELECT count(*) FROM pg_database WHERE datname = 'cron'}) eq '0')
    {
        value($node, 'postgres', 'CREATE DATABASE cron');
        value($node, 'cron', q{CREATE EXTENSION pg_cron; CREATE EXTENSION jobq; SELECT cron.schedule('@reboot', $$SELECT jobq_enqueue('cron')$$)});
    }
    my $before = value($node, 'cron', q{SELECT count(*) FROM jobq.jobs});
    settings($node, 'cron.use_background_workers = ' . ($way eq 'sql' ? 'on' : 'off'));
    $node->restart;
    becomes_true($node, 'cron', "SELECT count(*) > $before FROM jobq.jobs WHERE queue = 'cron'", "$order: pg_cron enqueues");
    becomes_true($node, 'cron', q{SELECT count(DISTINCT backend_type) = 2 FROM pg_stat_activity WHERE backend_type IN ('pg_cron launcher', 'jobq launcher')},
        "$order: both launchers are running");
    return;
}

# Jobs write their effects to a table whose partitions pg_partman creates. pg_partman creates more partitions when it is called.
sub partitions_are_kept
{
    my ($database, $order, $log, $way) = @_;
    if (value($node, 'postgres', q{SELECT count(*) FROM pg_database WHERE datname = 'partman'}) eq '0')
    {
        value($node, 'postgres', 'CREATE DATABASE partman');
        value($node, 'partman', q{CREATE SCHEMA partman; CREATE EXTENSION pg_partman SCHEMA partman; CREATE EXTENSION jobq;
            CREATE TABLE effects (job_id bigint, at timestamptz NOT NULL) PARTITION BY RANGE (at)});
        my $native = value($node, 'partman', q{SELECT extversion < '5' FROM pg_extension WHERE extname = 'pg_partman'}) eq 't';
        value($node, 'partman', q{SELECT partman.create_parent('public.effects', 'at', } . ($native ? q{'native', 'daily')} : q{'1 day')}));
    }
    my $partitions = q{SELECT count(*) FROM pg_inherits WHERE inhparent = 'public.effects'::regclass};
    my $before = value($node, 'partman', $partitions);
    value($node, 'partman', q{SELECT jobq_enqueue('partitioned');
        INSERT INTO effects SELECT id, now() FROM jobq_claim('partitioned') WHERE jobq_complete(id, lease, must_hold => true);
        UPDATE partman.part_config SET premake = premake + 2});
    # If its process for a database has ended before its master sees it start, the master waits for ten minutes. In that case the
    # server is restarted.
    my $gave_up = "Could not start dynamic pg_partman background process";
    my $enough  = "SELECT ($partitions) >= $before + 2";
    for (1 .. 10)
    {
        seconds_until(sub { (run_sql($node, 'partman', $enough))[0] eq 't' || count_in_log($node, qr/$gave_up/, $log) > 0 });
        last if value($node, 'partman', $enough) eq 't';
        $log = log_size($node);
        $node->restart;
    }
    becomes_true($node, 'partman', $enough, "$order: pg_partman makes partitions");
    is(value($node, 'partman', q{SELECT (SELECT count(*) FROM effects) - count(*) FROM jobq.jobs JOIN effects ON job_id = id WHERE status = 'completed'}),
        '0', "$order: the effects of jobs are in these partitions");
    return;
}
