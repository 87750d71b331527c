# Tests ten priorities with ageing, with jobs that arrive as fast as they are claimed, for so long that all priorities mix. The
# number of blocks that a claim reads must not grow. No old snapshot keeps the entries of finished jobs visible, so a scan skips
# whole pages of dead entries without reporting them. The empty ranges before the first job of each priority
# (src/lanes/empty_ranges_policy.h) must survive the time gaps between the jobs of one transaction and those of the next.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqLanes;
use JobqTest;
use Test::More;

# The worker runs every two seconds, because the claims of a version that did not refresh gaps before empty ranges read too much
# only if rounds of the worker occurred during the test. Its snapshots probably keep the index from marking entries in the ranges as
# dead.
my $node = lane_server('mixed_priorities', tick => '2 s');
lane_database($node, 'work');
sub work { return value($node, 'work', $_[0]); }
work(q{
    SELECT jobq_create_queue('mixed', priority_ageing => '15 s');
    -- Three transactions every five seconds, as their jobs tell it.
    CREATE PROCEDURE enqueue_mixed(round int, jobs int) LANGUAGE plpgsql AS $$
    BEGIN
        FOR part IN 1..3 LOOP
            PERFORM count(*) FROM jobq_enqueue_many('mixed', array_fill('{}'::jsonb, ARRAY[jobs / 3]),
                run_at => '2001-01-01'::timestamptz + round * interval '5 s' + part * interval '0.1 s',
                priorities => ARRAY(SELECT n % 10 FROM generate_series(1, jobs / 3) n));
            COMMIT;
        END LOOP;
    END $$});
sub blocks_read { return work(q{SELECT idx_blks_hit + idx_blks_read FROM pg_statio_user_indexes WHERE indexrelname = 'jobs_ready_idx'}); }

local $ENV{PGDATABASE} = 'work';
my ($clients, $calls) = (16, 750);
work("CALL enqueue_mixed(0, 24000)");
my @blocks;
for my $round (1 .. 8)
{
    work("CALL enqueue_mixed($round, 12000)");
    my $before = blocks_read();
    # The sessions of pgbench report their statistics when they exit.
    $node->pgbench("-n -M prepared -c $clients -j 2 -t $calls", 0, [qr{processed: 12000/12000}], [qr{^$}], "round $round",
        { "mixed_$round" => q{SELECT id, lease FROM jobq_claim('mixed') \gset
SELECT jobq_complete(:id, :lease)} });
    push @blocks, (blocks_read() - $before) / ($clients * $calls);
}
diag(sprintf "blocks of the index read for each job: %s", join ' ', map { sprintf '%.0f', $_ } @blocks);
cmp_ok((sort { $a <=> $b } @blocks)[-1], '<=', 60, 'a claim reads few blocks in any state of the queue');
$node->stop;
done_testing();
