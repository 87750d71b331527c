# Lets a server under load pass the ends of the 32-bit transaction IDs, multixact IDs, and multixact members. Also brings it to the point
# at which it accepts no more transactions, where calls must fail with a clear error and lose nothing.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqLoad;
use JobqRandomLoad;
use JobqTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

# IDs per file of 32 pages of 8 kB: two bits per transaction; four bytes per multixact; groups of 4 members in 20 bytes, 409 per page.
my %files = ('pg_xact' => 32 * 8192 * 4, 'pg_multixact/offsets' => 32 * 8192 / 4, 'pg_multixact/members' => 32 * 409 * 4);
my $before = 150;           # distance from a boundary at which the load begins
my $half   = 1 << 31;       # XIDs that are this far apart compare as equally old
my $whole  = 1 << 32;
my $stop   = 3_000_000;     # The server accepts no transactions if fewer XIDs than this are left.

my $node = preloaded('server', conf => [
    'autovacuum = off', 'autovacuum_freeze_max_age = 2000000000', 'autovacuum_multixact_freeze_max_age = 2000000000',
    'max_prepared_transactions = 5', 'max_connections = 40', 'fsync = off', 'wal_level = logical' ]);
$node->safe_psql('postgres', q{ALTER DATABASE template0 ALLOW_CONNECTIONS true});
database($node, 'work');
prepare_load($node, 'work');
value($node, 'work', q{
    SELECT jobq_create_queue('load', keep_completed => '100 ms', backoff_base => '10 ms'),
           jobq_set_limit('load', max_running => 8), jobq_set_limit('grouped', '*', max_running => 1);
    SELECT jobq_create_queue('random', keep_completed => '0');
    CREATE TABLE kept (name text PRIMARY KEY, id bigint, lease bigint)});

# What each random client does, in transactions and savepoints that are partly rolled back, so that many subtransactions get XIDs.
my $act = q{
CREATE PROCEDURE pg_temp.act(seed int) LANGUAGE plpgsql AS $$
DECLARE
    job record;
BEGIN
    CASE seed % 4
        WHEN 0 THEN PERFORM jobq_enqueue('random', group_key => 'g' || seed % 3, unique_key => 'u' || seed);
        WHEN 1 THEN PERFORM jobq_enqueue('random', concurrency_key => 'c' || seed % 3);
        WHEN 2 THEN
            FOR job IN SELECT id, lease FROM jobq_claim('random', batch => 3) LOOP
                IF random() < 0.3 THEN PERFORM jobq_fail(job.id, job.lease, 'at random'); ELSE PERFORM jobq_complete(job.id, job.lease); END IF;
            END LOOP;
        ELSE PERFORM * FROM jobq_tick();
    END CASE;
END $$;
};

# The control file shows the next XID of the last checkpoint.
sub position
{
    value($node, 'postgres', 'CHECKPOINT');
    my %found;
    @found{qw(xid oldest)} = split /\|/, value($node, 'postgres', q{
        SELECT split_part(next_xid, ':', 1)::bigint << 32 | split_part(next_xid, ':', 2)::bigint, oldest_xid
        FROM pg_control_checkpoint()});
    return %found;
}

# Creates the file that contains the state of this ID, with zeros, as far as it is missing.
sub make_file
{
    my ($directory, $id) = @_;
    my $path = sprintf '%s/%s/%04X', $node->data_dir, $directory, int($id / $files{$directory});
    return if -e $path;
    open my $file, '>', $path or die "$path: $!";
    binmode $file;
    print $file "\0" x (32 * 8192);
    close $file or die "$path: $!";
    return;
}

# Restarts the server with these next IDs. Reads the others after the shutdown, because the background worker uses IDs until then.
sub advance
{
    my (%next) = @_;
    $node->stop;
    my ($control) = run_command([ 'pg_controldata', $node->data_dir ]);
    my %now;
    @now{qw(multi offset oldest_multi)} = map { $control =~ /^Latest checkpoint's $_: +(\d+)$/m ? $1 : die "no $_: $control" } qw(NextMultiXactId NextMultiOffset oldestMultiXid);
    %next = (multi => $now{multi}, offset => $now{offset}, %next);
    make_file('pg_xact', $next{xid});
    make_file('pg_multixact/offsets', $next{multi});
    make_file('pg_multixact/members', $next{offset});
    system_or_bail('pg_resetwal', '-x', $next{xid}, '-m', "$next{multi},$now{oldest_multi}", '-O', $next{offset}, '-D', $node->data_dir);
    $node->start;
    return;
}

sub freeze
{
    for my $name (split /\n/, value($node, 'postgres', 'SELECT datname FROM pg_database'))
    {
        value($node, $name, 'VACUUM (FREEZE, TRUNCATE off)');
    }
    return;
}

# Locks jobs in two sessions at a time, so that each row gets a multixact with two members. A third session claims some of the jobs.
sub make_multixacts
{
    my ($count) = @_;
    value($node, 'work', "SELECT count(*) FROM jobq_enqueue_many('multi', array_fill('{}'::jsonb, ARRAY[$count]))");
    my @lockers = map { session($node, 'work') } 1 .. 2;
    $_->query(q{BEGIN; SELECT count(*) FROM (SELECT id FROM jobq.jobs WHERE queue = 'multi' FOR KEY SHARE) l}) for @lockers;
    my $claimed = value($node, 'work', q{SELECT count(*) FROM jobq_claim('multi', 'multi', 10) c, jobq_complete(c.id, c.lease) d WHERE d});
    my $explained = value($node, 'work', q{SELECT count(*) FROM jobq.jobs j, jobq_explain(j.id) WHERE j.queue = 'multi' AND j.status = 'pending'});
    end_sessions(@lockers);
    my $rest = value($node, 'work', q{SELECT count(*) FROM jobq_claim('multi', 'multi', 1000) c, jobq_complete(c.id, c.lease) d WHERE d});
    is($claimed + $rest, $count, "all $count jobs whose rows had multixacts were claimed, $claimed of them while they were locked");
    cmp_ok($explained, '>=', $count - $claimed, 'jobq_explain reads these rows');
    return;
}

# Runs the load until the server has passed the boundary.
sub cross
{
    my ($name, %next) = @_;
    my $boundary = delete $next{boundary};
    value($node, 'work', q{SELECT jobq_enqueue_many('grouped', '{1,2,3}', group_keys => '{g,g,g}'), jobq_enqueue('silent', max_attempts => 5)});
    advance(%next);
    diag "$name: next XID " . { position() }->{xid};
    # Begun on this side, ended on the other: a lease, a prepared transaction with a claim, and an open transaction.
    value($node, 'work', q{
        INSERT INTO kept SELECT 'lease', c.id, c.lease FROM jobq_enqueue('long') e, jobq_claim('long', 'keeper', heartbeat_timeout => '1 hour') c;
        INSERT INTO kept SELECT 'silent', c.id, c.lease FROM jobq_claim('silent', 'lost', heartbeat_timeout => '1 second') c});
    value($node, 'work', q{BEGIN; SELECT jobq_enqueue('prepared'); SELECT count(*) FROM jobq_claim('grouped', 'prepared', heartbeat_timeout => '1 hour'); PREPARE TRANSACTION 'p'});
    my $open = session($node, 'work');
    $open->query(q{BEGIN; SELECT jobq_enqueue('open'); SAVEPOINT s; SELECT jobq_enqueue('open')});

    my $load = begin_load($node, 'work');
    my @random = map { start_random_client($node, $act, time + 3) } 1 .. 2;
    make_multixacts(100);
    ok(defined seconds_until(sub { my %now = position(); return $now{xid} > $boundary; }), "$name: the load passes the boundary");
    load_goes_on($load, "$name: the load goes on after the boundary");
    is(join('', end_random_clients(@random)), '', "$name: no error in transactions with savepoints");
    end_load($load);

    $open->query('COMMIT');
    end_sessions($open);
    value($node, 'work', q{COMMIT PREPARED 'p'});
    is(value($node, 'work', q{SELECT jobq_heartbeat(id, lease) FROM kept WHERE name = 'lease'}), 'held', "$name: a lease from before the boundary is held");
    is(value($node, 'work', q{SELECT jobq_complete(id, lease) FROM kept WHERE name = 'lease'}), 't', "$name: it completes its job");
    becomes_true($node, 'work', q{SELECT status = 'pending' FROM jobq.jobs j JOIN kept k ON k.id = j.id AND k.name = 'silent'}, "$name: the job of a lost worker is rescued");
    settled($name);
    freeze();
    settled("$name, frozen");
    value($node, 'work', q{DELETE FROM kept});
    return;
}

# Asserts that claims find every job, in the order of groups, and that counters and rows agree.
sub settled
{
    my ($name) = @_;
    becomes_true($node, 'work', 'SELECT (' . counters_differ() . ') IS NULL', "$name: the counters agree with the rows");
    is(value($node, 'work', q{SELECT done FROM jobq_tick() WHERE duty = 'reconcile'}), '0', "$name: a recount corrects nothing");
    is(value($node, 'work', q{SELECT count(*) FROM jobq_claim('open', 'w', 10)}), $name =~ /frozen/ ? '0' : '2', "$name: the jobs of a transaction that was open are claimed once");
    is(value($node, 'work', q{SELECT count(*) FROM jobq_claim('prepared', 'w', 10)}), $name =~ /frozen/ ? '0' : '1', "$name: so is the job of a prepared transaction");
    is(value($node, 'work', q{SELECT count(*) FROM jobq_claim('grouped', 'w', 10)}), '0', "$name: no job of a group runs next to its head");
    my $complete = q{SELECT bool_and(jobq_complete(id, lease)) FROM jobq.jobs WHERE queue IN ('open', 'prepared') AND status = 'processing'};
    is(value($node, 'work', $complete), 't', "$name: they are completed") unless $name =~ /frozen/;
    if ($name =~ /frozen/)
    {
        for my $step (1 .. 3)
        {
            value($node, 'work', q{SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE queue = 'grouped' AND status = 'processing'});
            becomes_true($node, 'work', q{SELECT count(*) = 1 FROM jobq_claim('grouped', 'w', 10)}, "$name: the group goes on, job " . ($step + 1)) if $step < 3;
        }
    }
    return;
}

# The server accepts only IDs that are less than half of all IDs away from the oldest, so that other IDs lie between.
sub approach
{
    my ($id) = @_;
    freeze();
    advance(xid => $id, multi => $id, offset => $id);
    freeze();
    return;
}

approach(1_000_000_000);
cross('half of all IDs', xid => $half - $before, multi => $half - 50, offset => $half - 100, boundary => $half + $before);
approach(3_000_000_000);
cross('all IDs', xid => $whole - $before, multi => $whole - 50, offset => $whole - 100, boundary => $whole + $before);
value($node, 'work', q{SELECT jobq_set_limit('load')});
check_load({ node => $node, database => 'work' });

# ---- no more transactions

# An unused replication slot, which is a common cause, keeps autovacuum from freezing the catalog.
value($node, 'work', q{SELECT pg_create_logical_replication_slot('unused', 'pgoutput')});
freeze();
value($node, 'work', q{
    CREATE PROCEDURE fill() LANGUAGE plpgsql AS $$
    BEGIN FOR n IN 1..5000 LOOP PERFORM jobq_enqueue('last', to_jsonb(n)); COMMIT; END LOOP; END $$});
my %now = position();
advance(xid => ($now{oldest} + $half - $stop - 100) % $whole);
my (undef, $error) = run_sql($node, 'work', 'CALL fill()');
like($error, qr/not accepting commands.*to avoid wraparound/, 'an enqueue fails with the error of the server');
my ($count, $last) = split /\|/, value($node, 'work', q{SELECT count(*), max(payload::int) FROM jobq.jobs WHERE queue = 'last'});
is($last, $count, "all $count jobs that were committed before exist");
is(sqlstate($node, 'work', q{SELECT * FROM jobq_claim('last')}), '54000', 'a claim fails with the same error');
is(sqlstate($node, 'work', q{SELECT * FROM jobq_claim('nothing')}), '00000', 'a claim that finds no job works');
is(value($node, 'work', q{SELECT pending FROM jobq.queue_stats WHERE queue = 'last'}), $count, 'the counters are right');
becomes_true($node, 'work', q{SELECT last_error LIKE '%wraparound%' FROM jobq.background_workers WHERE database = 'work'}, 'jobq.background_workers shows the error');
value($node, 'work', q{SELECT pg_drop_replication_slot('unused')});
freeze();
is(value($node, 'work', q{SELECT count(*) FROM jobq_claim('last', 'w', 10000) c, jobq_complete(c.id, c.lease) d WHERE d}), $count, 'after VACUUM, all jobs run');
value($node, 'work', q{SELECT jobq_enqueue('delayed', run_at => clock_timestamp() + interval '100 ms')});
becomes_true($node, 'work', q{SELECT status = 'pending' FROM jobq.jobs WHERE queue = 'delayed'}, 'the background worker works again');
is(count_in_log($node, 'TRAP|PANIC|XX000|could not access status'), 0, 'no alarm in the log');
done_testing();
