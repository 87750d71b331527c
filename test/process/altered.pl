# Alters jobq.jobs repeatedly, with commands that take only a weak lock, while sessions and the background worker look up the
# triggers and indexes of the table: what they have looked up may be rebuilt in the meantime. Also tests that no table can inherit
# from jobq.jobs.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use Test::More;

my $alters = 4000;

my $node = preloaded('altered', conf => ['jobq.tick_interval = 50ms']);
database($node, 'work');
value($node, 'work', q{
    CREATE TABLE ended (n int);
    CREATE PROCEDURE alter_it(times int) LANGUAGE plpgsql AS $$
    BEGIN
        FOR i IN 1 .. times LOOP
            EXECUTE 'ALTER TABLE jobq.jobs ALTER payload SET STATISTICS ' || i % 100;
            COMMIT;
        END LOOP;
        INSERT INTO ended VALUES (times);
    END $$;
    CREATE PROCEDURE work_on() LANGUAGE plpgsql AS $$
    BEGIN
        WHILE NOT EXISTS (SELECT FROM ended) LOOP
            PERFORM jobq_enqueue('q');
            COMMIT;
            PERFORM jobq_complete(id, lease) FROM jobq_claim('q');
            COMMIT;
        END LOOP;
    END $$});

my @workers = map { session($node, 'work') } 1 .. 2;
$_->query_until(qr/begun/, "\\echo begun\nCALL work_on();\n") for @workers;
my (undef, $error, $altered) = run_sql($node, 'work', "CALL alter_it($alters)");
ok($altered, "altered $alters times") or diag($error);
unlike(log_since($node), qr/(?:PANIC|TRAP|terminated by signal|XX000)/, 'no process has used data that was rebuilt');
is(value($node, 'work', q{SELECT count(*) > 0 FROM jobq.jobs WHERE status = 'completed'}), 't', 'jobs were completed in the meantime');
end_sessions(@workers) if $altered;

value($node, 'work', 'CREATE TABLE public.twin (LIKE jobq.jobs); CREATE TABLE public.parted (LIKE jobq.jobs) PARTITION BY LIST (queue);
    CREATE EXTENSION postgres_fdw; CREATE SERVER other FOREIGN DATA WRAPPER postgres_fdw');
for my $child (
    'CREATE TABLE public.child () INHERITS (public.twin, jobq.jobs)', 'SET search_path = jobq; CREATE TABLE public.child () INHERITS (jobs)',
    'CREATE SCHEMA family CREATE TABLE child () INHERITS (jobq.jobs)', 'CREATE FOREIGN TABLE public.child () INHERITS (jobq.jobs) SERVER other',
    'ALTER TABLE public.twin INHERIT jobq.jobs', 'ALTER TABLE public.parted ATTACH PARTITION jobq.jobs DEFAULT',
    q{DO $$ BEGIN CREATE TABLE public.child () INHERITS (jobq.jobs); END $$})
{
    is(sqlstate($node, 'work', $child), '0A000', "rejected: $child");
}
is(sqlstate($node, 'work', 'CREATE TABLE public.child () INHERITS (public.twin)'), '00000', 'other tables may have child tables');
$node->stop;
done_testing();
