# Sessions that act at random until a given time, at least fifty times, in savepoints and transactions that are committed or rolled
# back. Afterward, a test compares counters with rows.
package JobqRandomLoad;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use IPC::Run;
use JobqTest;
use PostgreSQL::Test::Utils;

our @EXPORT = qw(start_random_client end_random_clients);

my $procedures = q{
CREATE PROCEDURE pg_temp.savepoints(seed int, depth int) LANGUAGE plpgsql AS $$
BEGIN
    CALL pg_temp.act(seed);
    IF depth > 0 THEN
        CALL pg_temp.savepoints(seed + 1, depth - 1);
        CALL pg_temp.act(seed + depth);
    END IF;
    IF random() < 0.3 THEN RAISE EXCEPTION 'expected'; END IF;
EXCEPTION WHEN raise_exception OR deadlock_detected OR unique_violation THEN NULL;
END $$;
CREATE PROCEDURE pg_temp.load(until timestamptz) LANGUAGE plpgsql AS $$
BEGIN
    FOR n IN 1..1000000000 LOOP
        EXIT WHEN n > 50 AND clock_timestamp() > until;
        CALL pg_temp.savepoints(floor(random() * 100)::int, floor(random() * 3)::int);
        IF random() < 0.3 THEN ROLLBACK; ELSE COMMIT; END IF;
    END LOOP;
END $$;
};

# act: SQL that creates the procedure pg_temp.act(seed int), which does one action. until: the end, in seconds like time().
sub start_random_client
{
    my ($node, $act, $until, %options) = @_;
    my $file = PostgreSQL::Test::Utils::tempdir() . '/client.sql';
    my $name = $options{application_name} // 'random';
    append_to_file($file, "SET application_name = '$name';\n$act\n$procedures" . sprintf "CALL pg_temp.load(to_timestamp(%f));\n", $until);
    my $out = '';
    return { out => \$out, run => IPC::Run::start([ 'psql', '-XqAt', '-f', $file, $node->connstr('work') ], '>&', \$out) };
}

# Waits until the sessions end; returns the errors that they reported.
sub end_random_clients
{
    my @clients = @_;
    $_->{run}->finish for @clients;
    return grep { /ERROR|FATAL/ } map { split /^/, ${ $_->{out} } } @clients;
}

1;
