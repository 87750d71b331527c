# pg_dump and its restore, as text and as an archive, keep every job, attempt and setting; the restored queue works.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = preloaded('dump');
database($node, 'source');

# ---- jobs in every status, nothing of which is due while the test runs

value($node, 'source', <<'SQL');
SELECT jobq_create_queue('mail', max_attempts => 5, heartbeat_timeout => '2 h', keep_completed => '30 days');
SELECT jobq_create_queue('idle', backoff_base => '5 s');
SELECT jobq_pause_queue('idle');
SELECT jobq_enqueue('mail', jsonb_build_object('n', n), kind => (ARRAY['a', 'B', 'ü', ''])[n % 4 + 1],
                    priority => n % 3 - 1, version => n % 2, requires => CASE WHEN n % 5 = 0 THEN '{gpu}'::text[] END,
                    metadata => '{"from": "dump"}')
FROM generate_series(1, 40) n;
SELECT jobq_enqueue('mail', run_at => now() + interval '30 days');
SELECT jobq_enqueue('idle', kind => 'waits');
INSERT INTO jobq.jobs (queue, status) VALUES ('mail', 'blocked');
SELECT count(jobq_complete(id, lease, '{"ok": true}')) FROM jobq_claim('mail', 'w1', batch => 3);
SELECT count(jobq_fail(id, lease, 'no good', retry => false)) FROM jobq_claim('mail', 'w1', batch => 3);
SELECT count(jobq_fail(id, lease, 'try later', retry_in => '10 h')) FROM jobq_claim('mail', 'w1', batch => 2);
SELECT count(jobq_release(id, lease)) FROM jobq_claim('mail', 'w2', batch => 2);
SELECT count(*) FROM jobq_claim('mail', 'w3', batch => 4);
SELECT jobq_heartbeat(id, lease, '{"percent": 10}') FROM jobq.jobs WHERE status = 'processing';
SELECT jobq_cancel(id) FROM jobq.jobs WHERE status = 'pending' ORDER BY id DESC LIMIT 2;
SQL
is( value($node, 'source', 'SELECT string_agg(DISTINCT status::text, chr(32) ORDER BY status::text) FROM jobq.jobs'),
    'blocked cancelled completed failed pending processing scheduled', 'there is a job in every status');

my @contents = (
    # All but claim_xid, a transaction of the other cluster, which means nothing here and must not, and watched, which a
    # young lease gets late, and a restored one at once.
    [ 'jobs', q{SELECT j.id, to_jsonb(j) - 'claim_xid' - 'watched' FROM jobq.jobs j ORDER BY id} ],
    [ 'attempts', 'SELECT * FROM jobq.attempts ORDER BY job_id, lease' ],
    [ 'queue settings', 'SELECT * FROM jobq.queue_settings ORDER BY queue' ],
    [ 'lanes', 'SELECT DISTINCT * FROM jobq.lane_directory ORDER BY lane' ],
    [ 'queues', 'SELECT * FROM jobq.queues ORDER BY queue' ],
    [ 'sequence', 'SELECT last_value, is_called FROM jobq.jobs_id_seq' ],
);
my %before = map { $_->[0] => value($node, 'source', $_->[1]) } @contents;

# ---- the ways to make a copy

my $directory = PostgreSQL::Test::Utils::tempdir;
my %restore = (
    text => sub {
        $node->command_ok([ 'pg_dump', '-f', "$directory/text", $node->connstr('source') ], 'pg_dump');
        $node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', "$directory/text", $node->connstr('text') ], 'psql');
    },
    archive => sub {
        $node->command_ok([ 'pg_dump', '-Fc', '-f', "$directory/archive", $node->connstr('source') ], 'pg_dump -Fc');
        $node->command_ok([ 'pg_restore', '--exit-on-error', '-d', $node->connstr('archive'), "$directory/archive" ],
            'pg_restore');
    },
    parallel => sub {
        $node->command_ok([ 'pg_dump', '-Fd', '-j2', '-f', "$directory/parallel", $node->connstr('source') ],
            'pg_dump -Fd -j2');
        $node->command_ok([ 'pg_restore', '--exit-on-error', '-j2', '-d', $node->connstr('parallel'), "$directory/parallel" ],
            'pg_restore -j2');
    });

for my $way (sort keys %restore)
{
    value($node, 'postgres', "CREATE DATABASE $way");
    $restore{$way}->();
    is(value($node, $way, q{SELECT count(*) FROM jobq.jobs WHERE claim_xid IS NOT NULL}), 0,
        "$way: no job belongs to a transaction of the other cluster");
    for my $part (@contents)
    {
        my ($name, $query) = @$part;
        is(value($node, $way, $query), $before{$name}, "$way: the $name are the same");
    }
}
is(value($node, 'source', $contents[0][1]), $before{jobs}, 'nothing changed in the source meanwhile');

# ---- life goes on in each copy

for my $way (sort keys %restore)
{
    is( value($node, $way, q{SELECT jobq_enqueue('mail', '"new"', priority => -5) - max(id) FROM jobq.jobs}),
        '1', "$way: the ids go on");
    is( value($node, $way, q{SELECT payload FROM jobq_claim('mail', 'n')}),
        '"new"', "$way: a new job in an old lane is claimable");
    value($node, $way, q{SELECT jobq_enqueue('mail', '"other"', kind => 'new lane')});
    is( value($node, $way, q{SELECT payload FROM jobq_claim('mail', 'n', kinds => '{new lane}')}),
        '"other"', "$way: and one in a new lane");

    my ($id, $lease) = split /\|/,
      value($node, $way, q{SELECT id, lease FROM jobq.jobs WHERE worker_id = 'w3' ORDER BY id LIMIT 1});
    is(value($node, $way, "SELECT jobq_heartbeat($id, $lease)"), 'held', "$way: a lease of before the dump holds");
    is(value($node, $way, "SELECT jobq_complete($id, $lease)"), 't', "$way: and completes");
    is(value($node, $way, q{SELECT count(*) FROM jobq_claim('idle')}), '0', "$way: a paused queue is paused");

    my $order = q{SELECT string_agg(id::text, ' ' ORDER BY priority, ready_at, id) FROM jobq.jobs
        WHERE queue = 'mail' AND status = 'pending'};
    my $expected = value($node, $way, "$order AND requires IS NULL");
    my $number = split / /, $expected;
    my $claimed = join ' ', map { value($node, $way, q{SELECT id FROM jobq_claim('mail', 'n')}) } 1 .. $number;
    is($claimed, $expected, "$way: jobs are claimed in their order");
    my $rest = value($node, $way, q{SELECT count(*) FROM jobq.jobs
        WHERE status = 'pending' AND queue = 'mail' AND requires = '{gpu}'});
    cmp_ok($rest, '>', 0, "$way: but for those that need more");
    is( value($node, $way, q{SELECT count(*) FROM jobq_claim('mail', 'g', batch => 100, capabilities => '{gpu}')}),
        $rest, "$way: which a worker that has it gets");

    # The server found the restored database by itself.
    value($node, $way, q{UPDATE jobq.jobs SET run_at = clock_timestamp() + interval '50 ms' WHERE status = 'scheduled'});
    value($node, $way, q{SELECT jobq_enqueue('soon', run_at => clock_timestamp() + interval '50 ms')});
    becomes_true($node, $way, q{SELECT NOT EXISTS (SELECT FROM jobq.jobs WHERE status = 'scheduled')},
        "$way: its delayed jobs are promoted");
}

# ---- a restored dump alone, before anybody calls anything: leases run out and jobs come due

value($node, 'source', q{SELECT jobq_enqueue('dead')});
value($node, 'source', q{SELECT id FROM jobq_claim('dead', 'w', heartbeat_timeout => '1 s')});
$node->command_ok([ 'pg_dump', '-f', "$directory/late", $node->connstr('source') ], 'pg_dump with a lease that runs out');
value($node, 'postgres', 'CREATE DATABASE late');
$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', "$directory/late", $node->connstr('late') ], 'psql');
becomes_true($node, 'late', q{SELECT status = 'pending' FROM jobq.jobs WHERE queue = 'dead'},
    'it is rescued in the copy, though nothing was called there');

done_testing();
