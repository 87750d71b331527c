# Tests what jobq.workers shows of workers that wait, run jobs, and fall silent, and how databases share the table of workers.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqSleep;
use JobqTest;
use Test::More;

my $node = preloaded('workers');
database($node, $_) for qw(work neighbour);
sub work { return value($node, 'work', $_[0]); }

# Returns the worker_info of a worker.
sub info { my ($worker, $more) = @_; return qq({"worker_id": "$worker", "queues": ["q"], "slots": 1, "client": "jobq-test 1.0.0") . ($more ? ", $more" : '') . '}'; }
sub calls { my ($worker, $more) = @_; return work("SELECT count(*) FROM jobq_heartbeat_many('{}', '{}', '" . info($worker, $more) . q{')}); }
my $shown = q{SELECT string_agg(concat_ws(' ', worker_id, state, running), ', ' ORDER BY worker_id) FROM jobq.workers};
sub shows { my ($expected, $name) = @_; local $Test::Builder::Level = $Test::Builder::Level + 1; return is(work($shown), $expected, $name); }
sub becomes
{
    my ($expected, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return becomes_true($node, 'work', "SELECT ($shown) IS NOT DISTINCT FROM " . ($expected eq '' ? 'NULL' : "'$expected'"), $name);
}

# ---- waiting and working

shows('', 'at first, no worker is connected');
my $sleeper = sleeper($node);
my $one = info('one', '"expires_in": "1 day"');
start($sleeper, "CALL jobq_wait('q', '5 min', worker_id => 'one', worker_info => '$one')");
becomes('one waiting 0', 'a worker waits');
like(work(q{SELECT detail FROM jobq_explain_queue('q')}), qr/^queue "q" has neither jobs nor settings$/, 'the queue is unknown');
work(q{SELECT jobq_enqueue('q')});
wakes($sleeper, 'the worker is woken up');
is(work("SELECT count(*) FROM jobq_claim('q', 'one', heartbeat_timeout => '1 h', worker_info => '$one')"), '1', 'the worker claims the job');
shows('one busy 1', 'the worker is busy');
work(q{SELECT jobq_enqueue('q')});
like(work(q{SELECT detail FROM jobq_explain_queue('q') WHERE reason = 'claimable'}), qr/, and no session waits for jobs of this queue; connected workers that take jobs of this queue: 1 \(it is busy\)$/,
    'jobq_explain_queue says that the worker is busy');
calls('two', '"kinds": ["other"], "expires_in": "1 day"');
like(work(q{SELECT detail FROM jobq_explain((SELECT max(id) FROM jobq.jobs)) WHERE reason = 'claimable'}), qr/; connected workers that take jobs of this kind: 1 \(it is busy\)$/,
    'jobq_explain counts only workers that take jobs of the kind');
like(work(q{SELECT detail FROM jobq_explain_queue('q') WHERE reason = 'claimable'}), qr/; connected workers that take jobs of this queue: 2 \(1 busy\)$/, 'jobq_explain_queue counts both workers');
is(work(q{SELECT value FROM jobq_metrics() WHERE name = 'jobq_connected_workers'}), '2', 'the metric counts both workers');
is(work(q{SELECT last_claim IS NOT NULL FROM jobq.workers WHERE worker_id = 'one'}), 't', 'the time of the last claim is known');
is(value($node, 'neighbour', 'SELECT count(*) FROM jobq.workers'), '0', 'another database does not show the workers');
work(q{SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE status = 'processing'});
shows('one idle 0, two idle 0', 'the worker is between two calls');

# ---- expiry

calls($_, '"expires_in": "0"') for qw(one two);
shows('', 'workers that stop disappear at once');
calls('silent', '"expires_in": "200 ms"');
becomes('', 'a worker that is silent disappears');
is(work("SELECT count(*) FROM jobq_claim('q', 'quiet', heartbeat_timeout => '1 h', worker_info => '" . info('quiet', '"expires_in": "1 ms"') . q{')}), '1', 'a worker claims a job and falls silent');
shows('quiet busy 1', 'a worker that runs a job does not disappear');
work(q{SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE status = 'processing'});
becomes('', 'it disappears after the job has ended');
# A wait longer than expires_in does not make the worker disappear, but the end of its connection does.
my $short = info('short', '"expires_in": "5 s"');
start($sleeper, "CALL jobq_wait('empty', '5 min', worker_id => 'short', worker_info => '$short')");
becomes('short waiting 0', 'a worker with a short expiry waits');
my $since = work(q{SELECT last_seen FROM jobq.workers});
becomes_true($node, 'work', "SELECT last_seen > '$since'::timestamptz + interval '5 s' FROM jobq.workers", 'the wait itself shows that the worker is connected');
shows('short waiting 0', 'the worker is still shown');
work("SELECT pg_terminate_backend($sleeper->{pid})");
becomes('', 'the worker disappears after its connection has ended');

# ---- many workers of several databases

my $crowd = q{SELECT count(b) FROM generate_series(1, 600) n LEFT JOIN LATERAL jobq_heartbeat_many('{}', '{}', jsonb_build_object('worker_id', 'w' || n, 'queues', '{q}'::text[], 'expires_in', '1 d')) b ON true};
value($node, 'neighbour', q{SELECT jobq_heartbeat_many('{}', '{}', '{"worker_id": "mine", "queues": ["q"], "expires_in": "1 d"}')});
work($crowd);
is(work('SELECT count(*) FROM jobq.workers'), '511', 'the table is full');
is(work(q{SELECT string_agg(worker_id, ' ') FROM jobq.workers WHERE worker_id IN ('w1', 'w600')}), 'w600', 'the workers that were silent for the longest time are missing');
is(value($node, 'neighbour', 'SELECT worker_id FROM jobq.workers'), 'mine', 'a database with many workers does not evict the workers of another database');

# ---- a restart

$node->restart;
shows('', 'a restart empties the view');
calls('one');
shows('one idle 0', 'workers that call again are shown');

done_testing();
