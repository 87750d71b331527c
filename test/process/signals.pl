# Tests jobs that await signals while the server is killed, a standby is promoted, transactions are prepared, and many jobs wait:
# each job wakes up by its signal or its timeout.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use JobqTime;
use PostgreSQL::Test::Cluster;
use Test::More;
use Time::HiRes qw(time);

my $node = preloaded('signals', init => { allows_streaming => 1 }, conf => ['max_prepared_transactions = 10', 'max_connections = 20']);
database($node, 'work');
my $many = 20000;

# Makes a number of jobs wait for an event, with a timeout or without.
sub wait_for
{
    my ($on, $queue, $event, $count, $timeout) = @_;
    return value($on, 'work', qq{SELECT count(*) FROM jobq_enqueue_many('$queue', array_fill('{}'::jsonb, ARRAY[$count]));
        SELECT count(*) FROM jobq_claim('$queue', 'w', $count, heartbeat_timeout => '1 hour') c, jobq_await(c.id, c.lease, '$event', $timeout) a
        WHERE a.state = 'waiting'});
}
sub all_wake
{
    my ($on, $queue, $event, $state, $what) = @_;
    my $all = value($on, 'work', qq{SELECT count(*) FROM jobq.jobs WHERE queue = '$queue'});
    becomes_true($on, 'work', qq{SELECT count(*) = $all FROM jobq.jobs WHERE queue = '$queue' AND status = 'pending'}, "$what: all wake up");
    is(value($on, 'work', qq{SELECT string_agg(DISTINCT a.state, ' ') || count(*) FROM jobq_claim('$queue', 'w', 99999) c,
        jobq_await(c.id, c.lease, '$event') a}), "$state$all", "$what: $state");
}

# ---- the server is killed after the signal has been committed, and the worker was not notified

wait_for($node, 'crash', 'e', 3, 'NULL');
wait_for($node, 'late', 'e', 3, q{'1 s'});
value($node, 'work', q{ALTER SYSTEM SET jobq.enabled = off});
value($node, 'work', q{SELECT pg_reload_conf()});
becomes_true($node, 'work', q{SELECT count(pid) = 0 FROM jobq.background_workers WHERE database IS NOT NULL}, 'no worker is running');
is(value($node, 'work', q{SELECT jobq_signal('crash', 'e')}), 't', 'a signal is sent while no worker is running');
is(value($node, 'work', q{SELECT count(*) FROM jobq.jobs WHERE queue = 'crash' AND status = 'blocked'}), '3', 'the jobs are still blocked');
kill_server($node);
$node->append_conf('postgresql.auto.conf', 'jobq.enabled = on');
starts_again($node);
all_wake($node, 'crash', 'e', 'ready', 'after a crash');
all_wake($node, 'late', 'e', 'timeout', 'a timeout that has passed while the server was down');

# ---- prepared transactions: with the wait, with the signal, with both

value($node, 'work', q{SELECT jobq_enqueue('prepared') FROM generate_series(1, 2)});
value($node, 'work', q{BEGIN; SELECT a.state FROM jobq_claim('prepared', 'w', 2) c, jobq_await(c.id, c.lease, 'e') a; PREPARE TRANSACTION 'wait'});
value($node, 'work', q{BEGIN; SELECT jobq_signal('prepared', 'e'); PREPARE TRANSACTION 'signal'});
value($node, 'work', q{COMMIT PREPARED 'signal'});
value($node, 'work', q{COMMIT PREPARED 'wait'});
all_wake($node, 'prepared', 'e', 'ready', 'the signal first');
value($node, 'work', q{SELECT jobq_enqueue('other') FROM generate_series(1, 2)});
value($node, 'work', q{BEGIN; SELECT a.state FROM jobq_claim('other', 'w', 2) c, jobq_await(c.id, c.lease, 'e') a; PREPARE TRANSACTION 'wait'});
value($node, 'work', q{BEGIN; SELECT jobq_signal('other', 'e'); PREPARE TRANSACTION 'signal'});
value($node, 'work', q{COMMIT PREPARED 'wait'});
value($node, 'work', q{COMMIT PREPARED 'signal'});
all_wake($node, 'other', 'e', 'ready', 'the wait first');

# ---- many jobs wait, one gets a signal

is(wait_for($node, 'many', 'e', $many, q{'1 day'}), "$many\n$many", "$many jobs wait");
value($node, 'work', q{SELECT jobq_enqueue('one')});
value($node, 'work', q{SELECT a.state FROM jobq_claim('one', 'w') c, jobq_await(c.id, c.lease, 'e') a});
my $begun = time;
value($node, 'work', q{SELECT jobq_signal('one', 'e')});
becomes_true($node, 'work', q{SELECT status = 'pending' FROM jobq.jobs WHERE queue = 'one'}, 'a job wakes up by its signal');
report_seconds('until a job was free whose signal came', time - $begun);
value($node, 'work', q{SELECT jobq_signal('many', 'e')});
all_wake($node, 'many', 'e', 'ready', 'one signal for many jobs');

# ---- a standby is promoted

wait_for($node, 'promoted', 'e', 3, 'NULL');
$node->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'copy', has_streaming => 1);
$standby->start;
value($node, 'work', q{BEGIN; SELECT jobq_signal('promoted', 'e'); PREPARE TRANSACTION 'promised'});
$node->wait_for_catchup($standby);
is(sqlstate($standby, 'work', q{SELECT jobq_signal('promoted', 'e')}), '25006', 'a standby rejects signals');
kill_server($node);
$standby->promote;
value($standby, 'work', q{COMMIT PREPARED 'promised'});
all_wake($standby, 'promoted', 'e', 'ready', 'after a promotion');

done_testing();
