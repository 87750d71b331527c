# Tests the search for blocked jobs whose changes were not published: it completes although workers take turns and each stays for a
# moment only, it does not lock the rows of jobs that are rightly blocked, and it does not delay others.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = preloaded('search', conf => ['jobq.max_workers = 1', "jobq.tick_interval = '200 ms'"]);
database($node, $_) for qw(work other third);

# ---- 40,000 blocked jobs, and after them a job whose dependency has completed without being published

value($node, 'work', <<'SQL');
SELECT jobq_enqueue('root');
SELECT count(jobq_enqueue('waits', depends_on => '{1}')) FROM generate_series(1, 40000);
SELECT jobq_enqueue('quiet', kind => 'a');
SELECT jobq_enqueue('quiet', kind => 'b', depends_on => ARRAY(SELECT id FROM jobq.jobs WHERE queue = 'quiet'));
SQL
my $inactive = q{SELECT NOT EXISTS (SELECT FROM jobq.dependencies d WHERE active IS NOT TRUE)};
becomes_true($node, 'work', $inactive, 'each job has an active dependency');
keep_in_use($node, $_) for qw(other third);

# The number of rounds of a database shows how often it has had a turn.
my $rounds = q{SELECT rounds FROM jobq.background_workers WHERE database = 'third'};
my $before = value($node, 'third', $rounds);
becomes_true($node, 'third', "SELECT ($rounds) > $before + 2", 'three databases share one worker');

value($node, 'work', <<'SQL');
BEGIN;
ALTER TABLE jobq.jobs DISABLE TRIGGER USER;
UPDATE jobq.jobs SET status = 'completed', finished_at = now(), _ready = NULL WHERE queue = 'quiet' AND kind = 'a';
ALTER TABLE jobq.jobs ENABLE TRIGGER USER;
COMMIT;
INSERT INTO jobq.jobs (queue) VALUES ('gone');
SELECT jobq_purge_queue('gone');
SQL
my $b_is = q{SELECT status FROM jobq.jobs WHERE queue = 'quiet' AND kind = 'b'};
# The search visits 40,000 jobs in short turns, in addition to the other load of the machine.
my $took = seconds_until(sub { value($node, 'work', $b_is) eq 'pending' }, 300);
ok(defined $took, 'the search finds the job although each worker stays for a moment only');
report_seconds('found after', $took) if defined $took;

# ---- rows of jobs that are rightly blocked are neither locked nor written

is(value($node, 'work', q{SELECT count(*) FROM jobq.jobs WHERE queue = 'waits' AND xmax <> 0}), 0, 'no blocked job was locked by the search');

done_testing();
