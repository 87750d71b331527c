# Uses the last numbers of sequences: jobs with the largest ids are ordinary jobs, and the next call fails with a clear error and changes
# nothing.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use Test::More;

my $last = '9223372036854775806';    # The largest bigint is the end of all ids.
my $node = preloaded('server');
database($node, 'work');
my $all = 'SELECT count(*) FROM jobq.jobs';

# Makes the next number of a sequence the one that is this far from the last.
sub leave
{
    my ($sequence, $count) = @_;
    value($node, 'work', "SELECT setval('$sequence', $last - $count)");
    return;
}

is(value($node, 'work', q{SELECT string_agg(sequencename, ' ' ORDER BY sequencename) FROM pg_sequences WHERE schemaname = 'jobq' AND max_value >= 9223372036854775806}),
    'jobs_id_seq signals_id_seq', 'the sequences of jobq');

# ---- ids of jobs

my $jobs = value($node, 'work', q{SELECT pg_get_serial_sequence('jobq.jobs', 'id')});
value($node, 'work', q{
    SELECT jobq_create_queue('q', keep_completed => '100 ms', keep_failed => '100 ms', heartbeat_timeout => '1 s'), jobq_create_queue('kept'), jobq_set_limit('q', '*', max_running => 5)});
my $earlier = value($node, 'work', q{SELECT jobq_enqueue('kept')});
leave($jobs, 8);
is(sqlstate($node, 'work', q{SELECT * FROM jobq_enqueue_many('q', array_fill('{}'::jsonb, ARRAY[9]))}), '2200H', 'a call that needs more ids than there are fails');
is(value($node, 'work', $all), 1, 'it has added no job');

leave($jobs, 8);
value($node, 'work', q{
    SELECT jobq_enqueue('q', kind => 'late', run_at => clock_timestamp() + interval '300 ms', concurrency_key => 'c');
    SELECT count(*) FROM jobq_enqueue_many('q', array_fill('{}'::jsonb, ARRAY[3]), kind => 'grouped', group_keys => '{g,g,g}', unique_keys => '{a,b,c}');
    SELECT jobq_enqueue('q', kind => 'first') AS first, jobq_enqueue('q', kind => 'silent', max_attempts => 9) AS silent});
is(value($node, 'work', q{SELECT jobq_enqueue('q', kind => 'last', group_key => 'g', depends_on => ARRAY[id]) FROM jobq.jobs WHERE kind = 'first'}), $last - 1,
    'the job before the last is enqueued');
is(value($node, 'work', qq{SELECT jobq_enqueue('q', kind => 'last', depends_on => ARRAY[$last - 1])}), $last, 'the last id is given');
for my $call (q{SELECT jobq_enqueue('q')}, q{INSERT INTO jobq.jobs (queue) VALUES ('q')}, q{SELECT * FROM jobq_enqueue_jobs('[{"queue": "q"}]')},
    q{SELECT jobq_enqueue('q', unique_key => 'new')}, q{SELECT jobq_fork(} . $earlier . q{)})
{
    is(sqlstate($node, 'work', $call), '2200H', "no more ids: $call");
}
is(value($node, 'work', q{SELECT jobq_enqueue('q', unique_key => 'b') = id FROM jobq.jobs WHERE unique_key = 'b'}), 't', 'a call that needs no id finds the job with its unique key');
is(value($node, 'work', $all), 9, 'these calls have added no job');
is(sqlstate($node, 'work', q{INSERT INTO jobq.jobs (id, queue) VALUES (9223372036854775807, 'q')}), '22003', 'plain SQL cannot insert a job after the last id');
is(sqlstate($node, 'work', q{SELECT jobq_create_batch('', '{"queue": "q"}')}), '2200H', 'batches have ids of the same sequence');
like((run_sql($node, 'work', q{SELECT jobq_enqueue('q')}))[1], qr/reached maximum value of sequence/, 'the error names the sequence');

# The worker of one job disappears. All others are completed; the jobs of the group and the dependents follow.
is(value($node, 'work', q{SELECT count(*) FROM jobq_claim('q', 'lost', kinds => '{silent}')}), 1, 'a worker disappears');
my $complete = q{SELECT count(*) FROM (SELECT jobq_complete(c.id, c.lease, must_hold => true) FROM jobq_claim('q', 'w', 10) c) d};
my $done = 0;
ok(defined seconds_until(sub { $done += value($node, 'work', $complete); return $done == 8; }), 'all jobs run, also the last two, after their dependencies')
  or diag(value($node, 'work', q{SELECT string_agg(format('%s %s %s', id, kind, status), ', ') FROM jobq.jobs}));
becomes_true($node, 'work', q{SELECT count(*) = 1 FROM jobq.jobs}, 'the finished jobs are deleted, also the last');
is(value($node, 'work', q{SELECT done FROM jobq_tick() WHERE duty = 'reconcile'}), 0, 'the counters are right');
is(value($node, 'work', qq{SELECT jobq_cancel($earlier)}), 'cancelled', 'an earlier job is not affected');

# ---- signals

sub signal_sent { my ($event) = @_; return "SELECT jobq_signal('waiting', '$event')"; }
leave('jobq.signals_id_seq', 0);
is(value($node, 'work', signal_sent('one')), 't', 'the signal with the last number is sent');
is(sqlstate($node, 'work', signal_sent('two')), '2200H', 'the next signal fails');
is(value($node, 'work', q{SELECT count(*) FROM jobq.signals}), 1, 'it is not stored');

# ---- the ids of a shard

database($node, 'shard');
value($node, 'shard', q{SELECT jobq_set_shard(7)});
value($node, 'shard', q{SELECT setval('jobq.jobs_id_seq', 9007199254740991 - 1023 - 1024 + 7, false)});
is(value($node, 'shard', q{SELECT jobq_enqueue('q') % 1024}), 7, 'a shard uses its last ids');
is(value($node, 'shard', q{SELECT jobq_enqueue('q') % 1024}), 7, 'up to the last');
is(sqlstate($node, 'shard', q{SELECT jobq_enqueue('q')}), '2200H', 'the next call fails');
is(value($node, 'shard', q{SELECT count(*) FROM jobq_claim('q', 'w', 10) c, jobq_complete(c.id, c.lease) d WHERE d}), 2, 'the last jobs run');

done_testing();
