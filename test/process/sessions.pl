# Tests that every session sees the changes of other sessions at once. Sessions cache settings and lanes, and these caches must
# never be stale, whatever the isolation level, savepoints, or DROP EXTENSION do.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use Test::More;

my $node = preloaded('sessions', conf => ['jobq.enabled = off']);    # a worker could repair what a session has missed
database($node, 'work');
my ($a, $b, $c) = map { session($node, 'work') } 1 .. 3;

# Returns the max_attempts of a job that the session enqueues now.
sub max_attempts
{
    my ($session, $queue) = @_;
    $session->query("SELECT jobq_enqueue('$queue', kind => 'probe')");
    return $session->query("SELECT max_attempts FROM jobq.jobs WHERE queue = '$queue' ORDER BY id DESC LIMIT 1");
}

sub claimed
{
    my ($session, $arguments) = @_;
    return $session->query("SELECT kind FROM jobq_claim($arguments)");
}

# ---- settings

is(max_attempts($_, 'q'), 20, 'the default is used before there are settings') for $a, $b;
$a->query(q{SELECT jobq_create_queue('q', max_attempts => 5)});
is(max_attempts($b, 'q'), 5, 'settings of a queue that was created');
$a->query(q{SELECT jobq_alter_queue('q', max_attempts => 6)});
is(max_attempts($b, 'q'), 6, 'settings that were altered');
$a->query(q{UPDATE jobq.queue_settings SET max_attempts = 7 WHERE queue = 'q'});
is(max_attempts($b, 'q'), 7, 'settings that were changed with plain SQL');
$a->query(q{SET session_replication_role = replica; UPDATE jobq.queue_settings SET max_attempts = 8; RESET session_replication_role});
is(max_attempts($b, 'q'), 8, 'settings that were changed in replica role');
$a->query(q{TRUNCATE jobq.queue_settings});
is(max_attempts($b, 'q'), 20, 'settings that were truncated');
$a->query(q{INSERT INTO jobq.queue_settings (queue, max_attempts) VALUES ('q', 9)});
is(max_attempts($b, 'q'), 9, 'settings that were inserted with plain SQL');

$a->query('BEGIN');
$a->query(q{SELECT jobq_alter_queue('q', max_attempts => 10)});
is(max_attempts($a, 'q'), 10, 'the session itself sees its change before the commit');
is(max_attempts($b, 'q'), 9, 'other sessions do not see the change');
$a->query('ROLLBACK');
is(max_attempts($a, 'q'), 9, 'the change is gone after a rollback');
$a->query(q{BEGIN; SELECT jobq_alter_queue('q', max_attempts => 11); SAVEPOINT s; SELECT jobq_alter_queue('q', max_attempts => 12)});
is(max_attempts($a, 'q'), 12, 'a change in a savepoint');
$a->query('ROLLBACK TO s');
is(max_attempts($a, 'q'), 11, 'the change is gone after a rollback to the savepoint');
$a->query('COMMIT');
is(max_attempts($b, 'q'), 11, 'committed settings apply to other sessions');

$a->query(q{SELECT jobq_pause_queue('q')});
is(claimed($b, q{'q'}), '', 'a claim of a paused queue gets no job');
$a->query(q{SELECT jobq_resume_queue('q')});
is(claimed($b, q{'q'}), 'probe', 'a claim gets a job after the queue is resumed');

# ---- lanes

$a->query(q{SELECT jobq_enqueue('lanes', kind => 'one')});
is(claimed($b, q{'lanes'}), 'one', 'the first lane is found');
$a->query(q{SELECT jobq_enqueue('lanes', kind => 'two')});
is(claimed($b, q{'lanes'}), 'two', 'a new lane is seen at once');
$a->query(q{INSERT INTO jobq.jobs (queue, kind) VALUES ('lanes', 'three')});
is(claimed($b, q{'lanes'}), 'three', 'the lane of a plain INSERT is found');
value($node, 'work', "COPY jobq.jobs (queue, kind) FROM STDIN;\nlanes\tfour\n\\.\n");
is(claimed($b, q{'lanes'}), 'four', 'the lane of a COPY is found');
$a->query(q{SELECT jobq_enqueue('lanes', kind => 'first')});
$a->query(q{UPDATE jobq.jobs SET kind = 'moved' WHERE kind = 'first'});
is(claimed($b, q{'lanes'}), 'moved', 'the lane of an UPDATE is found');

# A lane whose creation was rolled back is created again.
$a->query(q{BEGIN; SELECT jobq_enqueue('lanes', kind => 'five'); ROLLBACK});
$a->query(q{SELECT jobq_enqueue('lanes', kind => 'five')});
is(claimed($b, q{'lanes'}), 'five', 'a lane that was rolled back is created again');
$a->query(q{BEGIN; SAVEPOINT s; SELECT jobq_enqueue('lanes', kind => 'six'); ROLLBACK TO s; SELECT jobq_enqueue('lanes', kind => 'six'); COMMIT});
is(claimed($b, q{'lanes'}), 'six', 'also in the same transaction');

# Two sessions that create the same lane concurrently do not wait for each other.
$a->query(q{BEGIN; SELECT jobq_enqueue('lanes', kind => 'seven')});
$b->query(q{SET lock_timeout = '2 s'});
is($b->query(q{SELECT count(*) FROM jobq_enqueue_many('lanes', '{1}', kind => 'seven')}), '1', 'a session uses a lane that another session is creating');
is(claimed($c, q{'lanes'}), 'seven', 'the lane can be used at once');
$a->query('ROLLBACK');
$b->query(q{SELECT jobq_enqueue('lanes', kind => 'seven')});
is(claimed($c, q{'lanes'}), 'seven', 'and after the other session has rolled back');

# ---- snapshots that are older than a change

# $c fills its caches with an old snapshot. What this snapshot hides must not stay hidden.
for my $level ('REPEATABLE READ', 'SERIALIZABLE')
{
    my $name = lc($level =~ s/ /_/r);
    $a->query("SELECT jobq_create_queue('$name', max_attempts => 5)");
    $a->query("SELECT jobq_enqueue('$name', kind => 'old')");
    $c->query("BEGIN ISOLATION LEVEL $level; SELECT count(*) FROM jobq.jobs");
    $a->query("SELECT jobq_alter_queue('$name', max_attempts => 6)");
    $a->query("SELECT jobq_enqueue('$name', kind => 'new')");
    is(max_attempts($c, $name), 6, "$level: settings that are newer than the snapshot apply");
    $c->query("SELECT count(*) FROM jobq_claim('$name', kinds => '{nothing}')");
    $c->query('COMMIT');
    is(max_attempts($c, $name), 6, "$level: they apply in the next transaction, too");
    is(claimed($c, "'$name', kinds => '{new}'"), 'new', "$level: a new lane is found");

    # The same with a change before the first look-up with this snapshot.
    $c->query("BEGIN ISOLATION LEVEL $level; SELECT count(*) FROM jobq.jobs");
    $a->query("SELECT jobq_pause_queue('$name')");
    $c->query("SELECT jobq_enqueue('$name', kind => 'late')");
    $c->query('ROLLBACK');
    is(claimed($c, "'$name'"), '', "$level: a pause applies in the next transaction");
    $a->query("SELECT jobq_resume_queue('$name')");
    is(claimed($c, "'$name', kinds => '{old}'"), 'old', "$level: the end of the pause applies, too");
}

# Each statement of a READ COMMITTED transaction sees what was committed before it.
$a->query(q{SELECT jobq_enqueue('long', kind => 'known')});
$c->query('BEGIN');
is(claimed($c, q{'long'}), 'known', 'a long transaction claims a job');
$a->query(q{SELECT jobq_enqueue('long', kind => 'new')});
is(claimed($c, q{'long'}), 'new', 'it finds a lane that is newer than its first snapshot');
$a->query(q{SELECT jobq_enqueue('long', kind => 'known')});
$a->query(q{SELECT jobq_pause_queue('long')});
is(claimed($c, q{'long'}), '', 'it sees that the queue was paused');
$c->query('COMMIT');

# The old snapshot of a cursor in a transaction must not affect later statements.
$c->query(q{BEGIN; DECLARE old CURSOR FOR SELECT (jobq_enqueue('q')) FROM generate_series(1, 3); FETCH 1 FROM old});
$a->query(q{SELECT jobq_alter_queue('q', max_attempts => 13)});
$c->query(q{FETCH 1 FROM old});
is(max_attempts($c, 'q'), 13, 'READ COMMITTED: a cursor that was opened before does not keep the old settings');
$c->query('COMMIT');
is(max_attempts($c, 'q'), 13, 'nor after the end of the transaction');

# ---- DROP EXTENSION and CREATE EXTENSION with open sessions

is(max_attempts($_, 'q'), 13, 'all sessions have cached plans and settings') for $a, $b, $c;
$a->query('DROP EXTENSION jobq');
my ($out, $failed) = $b->query(q{SELECT jobq_enqueue('q')});
ok($failed && $b->{stderr} =~ /function jobq_enqueue.* does not exist/, 'without the extension, a call fails with a normal error');
$b->{stderr} = '';
$a->query('CREATE EXTENSION jobq');
is(max_attempts($_, 'q'), 20, 'with a new extension, calls work and use no old settings') for $a, $b, $c;
is(claimed($b, q{'q', 'w'}), 'probe', 'claims work');
is($c->query(q{SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE status = 'processing'}), 't', 'completions work');
is($b->query(q{SELECT count(*) FROM jobq.queues}), '1', 'views work');
$a->query(q{BEGIN; DROP EXTENSION jobq; CREATE EXTENSION jobq; SELECT jobq_create_queue('q', max_attempts => 3); COMMIT});
is(max_attempts($b, 'q'), 3, 'DROP and CREATE EXTENSION in one transaction');
is(claimed($b, q{'q', 'w'}), 'probe', 'claims work');
is($c->query(q{SELECT count(*) FROM jobq_tick()}), '10', 'ticks work');

$_->quit for $a, $b, $c;
unlike(log_since($node), qr/(?:PANIC|TRAP|terminated by signal|XX000|cache lookup failed)/, 'no crash, no internal error');

done_testing();
