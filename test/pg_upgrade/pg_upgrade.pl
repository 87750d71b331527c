# Tests pg_upgrade of a server with jobs in every state, by copying its files and by linking them: everything is kept, and the
# queues work. JOBQ_OLD_TREE and JOBQ_NEW_TREE name two installations of PostgreSQL with jobq; scripts/pg_upgrade.sh makes them.
# Each check is itself checked: it must fail in a database in which its object has been damaged.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../process/lib";

use IPC::Run qw(start);
use JobqTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my ($old_tree, $new_tree) = @ENV{qw(JOBQ_OLD_TREE JOBQ_NEW_TREE)};
my $here = $FindBin::RealBin;
# The workers are disabled until the test enables them.
my @rests = ('max_prepared_transactions = 10', 'jobq.tick_interval = 100ms', 'jobq.cancel_grace = 1h', 'jobq.enabled = off');
my $preload = "shared_preload_libraries = 'jobq'";

sub psql_file
{
    my ($node, $database, $file) = @_;
    return $node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', "$here/$file", $node->connstr($database) ],
        "$file in $database");
}

# ---- the old server

my $old = preloaded('old', cluster => { install_path => $old_tree }, conf => \@rests);
database($old, 'work');
psql_file($old, 'work', 'fill.sql');
value($old, 'postgres', 'CREATE DATABASE attached');
psql_file($old, 'attached', 'attached.sql');
my $statuses = q{SELECT string_agg(DISTINCT status::text, ' ') FROM jobq.jobs};
is(value($old, 'work', $statuses), 'blocked cancelled completed failed pending processing scheduled', 'there is a job in every status');
is(value($old, 'work', q{SELECT string_agg(DISTINCT outcome, ' ') FROM jobq.attempts}), 'cancelled failed lost released snoozed',
    'there is an attempt with every outcome');
is(value($old, 'work', q{SELECT count(*) FROM jobq.jobs WHERE status = 'processing' AND _rescue_indexed IS NULL}), '2',
    "there are claims whose jobs are not in the rescue's index");

# The leases that the workers hold in their memory.
my $leases = 'VALUES '
  . join ', ', map { s/\|/, /r =~ s/.*/($&)/r } split /\n/,
  value($old, 'work', q{SELECT id, lease FROM jobq.jobs WHERE worker_id = 'alive' AND status = 'processing' ORDER BY id});
my $held = () = $leases =~ /\(/g;
my $existing = join ' ', split /\n/, value($old, 'work', q{SELECT id FROM jobq.jobs WHERE queue = 'unique' AND kind <> 'free' ORDER BY kind});
my $catalog = slurp_file("$here/catalog.sql");
my $tables = q{SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'jobq'::regnamespace AND c.relkind = 'r' ORDER BY c.relname};
my @tables = split /\n/, value($old, 'work', $tables);
cmp_ok(scalar @tables, '>=', 12, 'tables to be compared: ' . join ' ', @tables);

sub as_postman
{
    my ($queue) = @_;
    return qq{SET ROLE postman;
        DO \$\$ BEGIN PERFORM jobq_claim('$queue', batch => 0); PERFORM set_config('test.may', 'may', true);
        EXCEPTION WHEN insufficient_privilege THEN PERFORM set_config('test.may', 'may not', true); END \$\$;
        RESET ROLE; SELECT current_setting('test.may')};
}

# Facts: a query and its expected result; undef: its result before the upgrade. The catalog is compared with that of a new database.
my %facts = (
    (map { ("table $_" => [qq{SELECT t::text FROM jobq.$_ t ORDER BY t::text COLLATE "C"}]) } @tables),
    catalog  => [$catalog],
    tables   => [$tables],
    sequence => ['SELECT last_value, is_called FROM jobq.jobs_id_seq'],
    queues   => ['SELECT q FROM jobq.queues q ORDER BY queue'],
    limits   => [ q{SELECT string_agg(format('%s %s', key, running), ', ' ORDER BY key COLLATE "C") FROM jobq.limits WHERE queue = 'limited'}, '* 2,  2' ],
    numbers  => [ 'SELECT jobq_enqueue($$new$$) > max(id) FROM jobq.jobs', 't' ],
    ways     => [ 'SELECT way FROM jobq_access()', 'direct' ],
    versions => [ q{SELECT jobq_version() = extversion FROM pg_extension WHERE extname = 'jobq'}, 't' ],
    slots    => [ q{SELECT count(*) FROM jobq_claim('limited', 'n', batch => 9)}, '1' ],
    heads    => [ q{SELECT count(*) FROM jobq_claim('steps', 'n', batch => 99)}, '6' ],
    paused   => [ q{SELECT count(*) FROM jobq_claim('paused', 'n')}, '0' ],
    leases   => [ "SELECT string_agg(h, ' ' ORDER BY h) FROM (SELECT jobq_heartbeat(id, lease) AS h FROM ($leases) l(id, lease)) l", join ' ', 'cancel', ('held') x ($held - 1) ],
    others   => [ "SELECT string_agg(DISTINCT jobq_heartbeat(id, lease + 1), ' ') FROM ($leases) l(id, lease)", 'lost' ],
    keys     => [ q{SELECT string_agg(jobq_enqueue('unique', unique_key => k)::text, ' ' ORDER BY k) FROM unnest('{kept,runs,waits}'::text[]) k}, $existing ],
    free     => [ q{SELECT jobq_enqueue('unique', unique_key => 'free') > max(id) FROM jobq.jobs}, 't' ],
    stats    => [ counters_differ(), '' ],
    copy     => [ 'SELECT jobq_adopt()', 'f' ],
    own      => [ as_postman('mail'), 'may' ],
    foreign  => [ as_postman('limited'), 'may not' ],
);

# Returns a fact after damage in the same transaction, which is rolled back.
sub fact
{
    my ($node, $name, $spoil, $database) = @_;
    $spoil = $spoil ? "SET LOCAL session_replication_role = replica; $spoil; SET LOCAL session_replication_role = origin;" : '';
    return value($node, $database // 'work', "BEGIN; $spoil $facts{$name}[0]; ROLLBACK");
}

my %spoilt = (
    'a job is gone'              => [ q{DELETE FROM jobq.jobs WHERE queue = 'young'}, 'table jobs' ],
    'an attempt is gone'         => [ q{DELETE FROM jobq.attempts WHERE outcome = 'snoozed'}, 'table attempts' ],
    'a dependency is gone'       => [ q{DELETE FROM jobq.dependencies}, 'table edges' ],
    'a grant is gone'            => [ q{DELETE FROM jobq.queue_grants}, 'own' ],
    'a grant is wider'           => [ q{GRANT EXECUTE ON FUNCTION jobq_claim TO PUBLIC}, 'foreign' ],
    'a slot is free'             => [ q{UPDATE jobq.jobs SET _queue_slot = NULL WHERE queue = 'limited'}, 'slots' ],
    'a limit has changed'        => [ q{UPDATE jobq.limit_settings SET max_running = 4 WHERE queue = 'limited' AND key = ''}, 'slots' ],
    'a group has two heads'      => [ q{UPDATE jobq.jobs SET status = 'pending', _ready = true WHERE id = (SELECT max(id) FROM jobq.jobs WHERE queue = 'steps')}, 'heads' ],
    'a queue is not paused'      => [ q{UPDATE jobq.queue_settings SET paused = false}, 'paused' ],
    'a lease has changed'        => [ q{UPDATE jobq.jobs SET lease = lease + 1 WHERE queue = 'held'}, 'leases' ],
    'a key is free'              => [ q{DELETE FROM jobq.kept_keys}, 'keys' ],
    'a key is held'              => [ q{UPDATE jobq.jobs SET unique_key = 'free' WHERE queue = 'unique' AND kind = 'waits'}, 'free' ],
    'the sequence starts over'   => [ q{ALTER SEQUENCE jobq.jobs_id_seq RESTART WITH 1000000}, 'sequence' ],
    'a comment is gone'          => [ q{COMMENT ON COLUMN jobq.jobs.lease IS NULL}, 'catalog' ],
    'a privilege is gone'        => [ q{REVOKE SELECT ON jobq.queue_stats FROM pg_monitor}, 'catalog' ],
    'a trigger is off'           => [ q{ALTER TABLE jobq.jobs DISABLE TRIGGER tell_job}, 'catalog' ],
    'a function is not a member' => [ q{ALTER EXTENSION jobq DROP FUNCTION jobq_tick}, 'catalog' ],
    'a table is not dumped'      => [ q{UPDATE pg_extension SET extconfig = extconfig[2:], extcondition = extcondition[2:] WHERE extname = 'jobq'}, 'catalog' ],
    'storage has changed'        => [ q{ALTER TABLE jobq.jobs ALTER queue SET STORAGE EXTENDED}, 'catalog' ],
    'an index is gone'           => [ q{DROP INDEX jobq.jobs_ready_idx}, 'ways' ],
);

my %before = map { $_ => fact($old, $_) } grep { !defined $facts{$_}[1] && $_ ne 'catalog' } keys %facts;

# ---- pg_upgrade rejects prepared transactions

sub new_server
{
    my ($name, @conf) = @_;
    my $checksums = value($old, 'postgres', 'SHOW data_checksums');
    my ($major) = `$new_tree/bin/pg_config --version` =~ /(\d+)/;
    my @extra = $checksums eq 'on' ? '--data-checksums' : $major >= 18 ? '--no-data-checksums' : ();
    return server($name, cluster => { install_path => $new_tree }, init => { extra => \@extra }, stopped => 1, conf => [ @rests, @conf ]);
}

sub upgrade_command
{
    my ($new, @options) = @_;
    return [ 'pg_upgrade', '--no-sync', '-j', '2', '-b', "$old_tree/bin", '-B', "$new_tree/bin", '-d', $old->data_dir, '-D', $new->data_dir,
        '-s', $new->host, '-p', $old->port, '-P', $new->port, @options ];
}

my %new = (copy => new_server('copied', $preload), link => new_server('linked'));
value($old, 'work', q{BEGIN; SELECT jobq_enqueue('late'); PREPARE TRANSACTION 'late'});
$old->stop;
chdir $PostgreSQL::Test::Utils::tmp_check;
$new{copy}->command_checks_all(upgrade_command($new{copy}, '--check'), 1, [qr/prepared transactions/], [], 'prepared transactions must be ended before');
$old->start;
value($old, 'work', q{ROLLBACK PREPARED 'late'});
# Its id has been used.
$before{sequence} = fact($old, 'sequence');
$old->stop;

# ---- by copying, which leaves the old server unchanged, and then by linking

for my $mode (qw(copy link))
{
    my $new = $new{$mode};
    my $begin = time;
    $new->command_ok(upgrade_command($new, $mode eq 'link' ? '--link' : ()), "$mode: pg_upgrade");
    report_seconds("$mode: pg_upgrade", time - $begin);
    settings($new, $preload) if $mode eq 'link';
    $new->start;
    is_unchanged($mode, $new);
    goes_on($mode, $new);
    is_dumped($mode, $new);
    unlike(log_since($new), qr/PANIC|TRAP|terminated by signal|XX000|cache lookup failed/, "$mode: no crash, no internal error");
    $new->stop;
}
done_testing();

# Tests, before any worker runs, that everything is kept and has the same meaning.
sub is_unchanged
{
    my ($mode, $new) = @_;
    database($new, 'fresh');
    psql_file($new, 'fresh', 'roles.sql');
    my %expected = map { $_ => $facts{$_}[1] // $before{$_} } keys %facts;
    $expected{catalog} = value($new, 'fresh', $catalog);
    # The sequence is compared before anything draws ids from it.
    is_text(fact($new, $_), $expected{$_}, "$mode: $_") for 'sequence', sort grep { $_ ne 'sequence' } keys %facts;
    for my $what (sort keys %spoilt)
    {
        my ($spoil, $name) = @{ $spoilt{$what} };
        isnt(fact($new, $name, $spoil), $expected{$name}, "$mode: $what: the check fails");
    }
    is(value($new, 'attached', q{SELECT count(*), count(tenant), (SELECT reloptions && '{fillfactor=50}' FROM pg_class WHERE oid = 'jobq.jobs'::regclass),
            (SELECT count(*) FROM queue.notes n JOIN jobq.jobs j ON j.id = n.job_id), to_regclass('jobq.jobs_tenant_idx') IS NOT NULL FROM jobq.jobs}),
        '5|5|t|5|t', "$mode: attached objects are kept");
    return;
}

# For long texts, prints the lines that differ.
sub is_text
{
    my ($got, $wanted, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my %wanted = map { $_ => 1 } split /\n/, $wanted;
    my %got = map { $_ => 1 } split /\n/, $got;
    return ok($got eq $wanted, $name)
      || diag(join "\n", (map { "- $_" } grep { !$got{$_} } sort keys %wanted), (map { "+ $_" } grep { !$wanted{$_} } sort keys %got));
}

# Tests that every job ends correctly when background workers and workers run again.
sub goes_on
{
    my ($mode, $new) = @_;
    my %lived = (
        'silent'    => 'failed 1 ran longer than max_runtime (0.5 s); attempts exhausted (1 of 1), lost 6 no heartbeat for 2 s, together with other jobs of its worker',
        'grace'     => 't',
        'reports'   => ($held - 1) . '|cancelled|0',
        'redriven'  => '2',
        'not ended' => '',
        'not once'  => '',
        'limited'   => 'k0 2, k1 2, k2 2, queue 3',
        'order'     => '',
        'graph'     => 't|after 7',
        'stats'     => '',
        'errors'    => '',
    );
    if ($mode eq 'copy')
    {
        value($new, 'postgres', 'CREATE DATABASE spoilt TEMPLATE work');
        is(value($new, 'spoilt', 'SELECT jobq_adopt()'), 't', "$mode: a template copy is a copy");
        value($new, 'spoilt', q{SET session_replication_role = replica;
            DELETE FROM jobq.jobs WHERE id = (SELECT max(id) FROM jobq.jobs WHERE queue = 'bulk');
            UPDATE jobq.limit_settings SET max_running = 4 WHERE queue = 'limited' AND key = '';
            UPDATE jobq.jobs SET status = 'pending', _ready = true WHERE id = (SELECT max(id) FROM jobq.jobs WHERE queue = 'steps')});
    }
    my @databases = ('work', $mode eq 'copy' ? 'spoilt' : ());
    is(value($new, $_, q{SELECT jobq_heartbeat(id, lease) FROM jobq.jobs WHERE worker_id = 'hangs'}), 'held', "$mode: $_: a heartbeat") for @databases;
    settings($new, 'jobq.enabled = on');
    $new->reload;
    is_deeply({ life($new, 'work', $mode) }, \%lived, "$mode: every job ends");
    if ($mode eq 'copy')
    {
        my %seen = life($new, 'spoilt', 'spoilt');
        isnt($seen{$_}, $lived{$_}, "$mode: spoilt: $_: seen") for 'not ended', 'limited', 'order';
    }
    is(value($new, 'attached', q{SET search_path = queue; SELECT count(jobq_complete(id, lease)) FROM jobq.jobs WHERE worker_id = 'alive';
            SELECT count(jobq_complete(id, lease)) FROM jobq_claim('attached', batch => 9);
            SELECT status, count(*) FROM archive GROUP BY status ORDER BY status}), "1\n4\ncompleted|5\nprocessing|5", "$mode: attached objects follow the changes");
    return;
}

# Completes the jobs from before and after the upgrade until none is left. Returns what happened to them.
sub life
{
    my ($node, $database, $name) = @_;
    my $work = sub { return value($node, $database, @_) };
    my %seen;
    my $begin = time;
    becomes_true($node, $database, q{SELECT NOT EXISTS (SELECT FROM jobq.jobs WHERE worker_id IN ('dead', 'hangs') AND status = 'processing')},
        "$name: jobs of dead and hanging workers are rescued or cancelled");
    report_seconds("$name: until they are", time - $begin);
    my $taken = q{FROM jobq.attempts WHERE worker_id IN ('dead', 'hangs') AND NOT reported};
    $seen{silent} = $work->(qq{SELECT string_agg(format('%s %s %s', outcome, n, error), ', ' ORDER BY outcome)
        FROM (SELECT outcome, error, count(*) AS n $taken GROUP BY 1, 2) a});
    $seen{grace} = $work->("SELECT min(finished_at) >= pg_postmaster_start_time() + interval '2 s' $taken");
    becomes_true($node, $database, q{SELECT status = 'pending' FROM jobq.jobs WHERE payload = '"due during the upgrade"'}, "$name: a job that became due during the upgrade is promoted");
    # Each report is made twice; the second finds nothing to report on.
    $seen{reports} = $work->(qq{CREATE TABLE held AS SELECT id, lease, jobq_heartbeat(id, lease) AS state FROM ($leases) l(id, lease);
        SELECT count(*) FILTER (WHERE state = 'held' AND jobq_complete(id, lease)),
            min(CASE state WHEN 'cancel' THEN jobq_fail(id, lease, 'stopped')::text END),
            count(*) FILTER (WHERE jobq_complete(id, lease)) FROM (SELECT * FROM held ORDER BY id) h});
    $seen{redriven} = $work->(q{SELECT jobq_redrive('dead letters')});
    # Jobs that wait for an operator.
    $work->(q{SELECT jobq_resume_queue('paused'), jobq_reschedule_jobs('mail', now());
        UPDATE jobq.jobs SET status = 'pending' WHERE queue = 'by hand'});

    my (@clients, @out);
    my $until = time + 180;
    for my $client (0 .. 3)
    {
        push @clients, start([ 'psql', '-XqAt', '-c', "CALL drain('after $client', to_timestamp($until))", $node->connstr($database) ], '>&', \$out[$client]);
    }
    $_->finish for @clients;
    $seen{errors} = join '', @out, $work->(q{SELECT string_agg(last_error, ' ') FROM jobq.background_workers});

    # Jobs that were unfinished before and are not completed now.
    $seen{'not ended'} = $work->(q{SELECT string_agg(format('%s %s', u.queue, coalesce(j.status::text, 'lost')), ', ' ORDER BY u.queue, j.id)
        FROM unfinished u LEFT JOIN jobq.jobs j USING (id)
        WHERE j.status IS DISTINCT FROM 'completed' AND (j.queue, j.status::text) NOT IN (('held', 'cancelled'), ('overdue', 'failed')) IS NOT FALSE});
    $seen{'not once'} = $work->(q{SELECT string_agg(format('%s %s: %s', j.queue, j.id, n), ', ' ORDER BY j.id)
        FROM (SELECT job_id AS id, count(*) AS n FROM (SELECT job_id FROM effects UNION ALL SELECT id FROM held WHERE state = 'held') e GROUP BY 1) e
        FULL JOIN (SELECT * FROM jobq.jobs WHERE id IN (SELECT id FROM unfinished) AND status = 'completed') j USING (id)
        WHERE n IS DISTINCT FROM 1 AND id IN (SELECT id FROM unfinished)});
    $seen{limited} = $work->(q{SELECT string_agg(format('%s %s', limited, most), ', ' ORDER BY limited) FROM (SELECT limited, max(running) AS most FROM peaks GROUP BY 1) p});
    $seen{order} = $work->(q{SELECT string_agg(id::text, ' ' ORDER BY id)
        FROM (SELECT u.id, e.began < max(e.ended) OVER (PARTITION BY u.group_key ORDER BY u.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS early
              FROM unfinished u JOIN effects e ON e.job_id = u.id WHERE u.queue = 'steps') g WHERE early});
    $seen{graph} = $work->(q{SELECT bool_and(a.began >= e.ended), (SELECT j.kind || ' ' || r.result FROM jobq.jobs j, jobq_dependency_results(j.id) r WHERE r.result = '7')
        FROM jobq.dependencies d JOIN effects a ON a.job_id = d.job_id JOIN effects e ON e.job_id = d.depends_on});
    becomes_true($node, $database, q{SELECT bool_and(source = 'counters') FROM jobq.queue_stats}, "$name: the table has been counted");
    $seen{stats} = $work->(counters_differ());
    return %seen;
}

# Tests that a dump of it is like a dump of any other database.
sub is_dumped
{
    my ($mode, $new) = @_;
    my $dump = PostgreSQL::Test::Utils::tempdir . '/dump';
    $new->command_ok([ 'pg_dump', '-Fc', '-f', $dump, $new->connstr('work') ], "$mode: pg_dump");
    value($new, 'postgres', 'CREATE DATABASE restored');
    $new->command_ok([ 'pg_restore', '--exit-on-error', '-d', $new->connstr('restored'), $dump ], "$mode: pg_restore");
    is(value($new, 'restored', 'SELECT jobq_adopt()'), 't', "$mode: a restored dump is a copy");
    is_text(value($new, 'restored', $catalog), value($new, 'fresh', $catalog), "$mode: the restored catalog is that of a fresh install");
    is(fact($new, 'own', '', 'restored'), 'may', "$mode: a role can use its queue there");
    is(fact($new, 'foreign', '', 'restored'), 'may not', "$mode: and no other queue");
    return;
}
