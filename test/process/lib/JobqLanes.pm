# Functions for the tests of empty ranges: lanes that are known to be empty, and the number of entries that a claim reads.
#
# A session with an old snapshot prevents index entries of finished jobs from being removed, so the number of index entries that a
# claim reads shows whether it knew where to start. With a tick interval of one minute the repair does not run in time: the very
# next claim must find a claimable job without it.
package JobqLanes;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use JobqTest;
use Test::More;

our @EXPORT = qw(lane_server lane_database hold_snapshot make_empty claims_next index_reads);

sub lane_server
{
    my ($name, %option) = @_;
    my $tick = delete $option{tick} // '60 s';
    $option{conf} = [
        "jobq.tick_interval = '$tick'", 'autovacuum = off', 'max_prepared_transactions = 10',
        @{ $option{conf} // [] }
    ];
    return preloaded($name, %option);
}

# Creates a database with jobq in which a worker has run.
sub lane_database
{
    my ($node, $name) = @_;
    database($node, $name);
    value(
        $node, $name, q{
        CREATE PROCEDURE drain(queue text, batch integer DEFAULT 1) LANGUAGE plpgsql AS $$
        DECLARE
            taken integer;
        BEGIN
            LOOP
                SELECT count(jobq_complete(c.id, c.lease)) INTO taken FROM jobq_claim(drain.queue, batch => batch) c;
                COMMIT;
                EXIT WHEN taken = 0;
            END LOOP;
        END $$;
        CREATE FUNCTION index_reads(statement text) RETURNS bigint LANGUAGE plpgsql AS $$
        DECLARE
            claim_index oid := 'jobq.jobs_ready_idx'::regclass;
            before bigint := pg_stat_get_xact_tuples_returned(claim_index);
        BEGIN
            EXECUTE statement;
            RETURN pg_stat_get_xact_tuples_returned(claim_index) - before;
        END $$;
        SELECT jobq_enqueue('kept', run_at => clock_timestamp() + interval '1 day')});
    return becomes_true($node, $name, "SELECT rounds > 0 FROM jobq.background_workers WHERE database = '$name'",
        "a worker has been in database $name");
}

# Opens a session with a snapshot; end_sessions ends it.
sub hold_snapshot
{
    my ($node, $database) = @_;
    my $holder = session($node, $database);
    $holder->query('BEGIN ISOLATION LEVEL REPEATABLE READ');
    $holder->query('SELECT 1');
    return $holder;
}

# Returns the number of entries of the claim index that a statement reads.
sub index_reads
{
    my ($node, $database, $statement) = @_;
    return value($node, $database, "SELECT index_reads(\$\$$statement\$\$)");
}

# Makes a lane (queue, kind '') that has had jobs and is known to be empty from its first key to its last. A claim learns that only
# if a worker has run recently, so on a slow machine this can take several claims.
sub make_empty
{
    my ($node, $database, $queue) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    value(
        $node, $database, qq{
        SELECT count(*) FROM jobq_enqueue_many('$queue', array_fill('{}'::jsonb, ARRAY[40]));
        CALL drain('$queue')});
    my $reads;
    seconds_until(
        sub {
            $reads = value($node, $database, qq{
                SELECT 'learned' FROM jobq_claim('$queue') HAVING count(*) > 0;
                SELECT index_reads(\$\$SELECT count(*) FROM jobq_claim('$queue')\$\$)});
            return $reads eq '0';
        });
    return 1 if $reads eq '0';
    return is($reads, 0, "$queue is known to be empty");
}

# Tests that the next claims return jobs with these payloads in this order, each claimed in a transaction of its own, and that no
# other job is left. The jobs are completed.
sub claims_next
{
    my ($node, $database, $queue, $payloads, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $once = "SELECT count(jobq_complete(c.id, c.lease)), min(c.payload #>> '{}') FROM jobq_claim('$queue', 'w') c";
    my @got = split /\n/, value($node, $database, join ";\n", ($once) x (@$payloads + 1));
    my @wanted = ((map { "1|$_" } @$payloads), '0|');
    return is_deeply(\@got, \@wanted, $name);
}

1;
