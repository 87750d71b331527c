# Tests that claims skip the ranges that are known to hold no claimable job (src/lanes/empty_ranges.h), but no others. Each test
# makes a lane known to be empty and then makes a job in it claimable in some way. The very next claim must find the job.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqLanes;
use JobqTest;
use Test::More;

my $node = lane_server('empty_ranges', init => { allows_streaming => 'logical' });
lane_database($node, 'work');
my $holder = hold_snapshot($node, 'work');
my $dba = session($node, 'work');
my $worker = session($node, 'work');
my $nothing = q{SELECT count(*) FROM jobq_claim('%s', batch => 100)};

sub work { return value($node, 'work', $_[0]); }
sub known_empty { make_empty($node, 'work', $_[0]); return; }

sub claims
{
    my ($queue, $payloads, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return claims_next($node, 'work', $queue, $payloads, $name);
}

# Tests that other sessions claim nothing. Their claims learn which ranges are empty.
sub others_find_nothing
{
    my ($queue, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return is(work(join ';', (sprintf $nothing, $queue) x 3), "0\n0\n0", $name);
}

# ---- the empty range exists, and it saves reads

known_empty('use');
is(index_reads($node, 'work', q{SELECT count(*) FROM jobq_claim('use')}), '0', 'a claim reads nothing in a lane known to be empty');
cmp_ok(work(q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT index_reads('SELECT count(*) FROM jobq_claim(''use'')'); COMMIT}),
    '>=', 40, 'a claim that uses no empty ranges reads the entries of all jobs that the lane has had');

# ---- jobs are enqueued, in every way

known_empty('enqueue');
work(q{SELECT jobq_enqueue('enqueue', '"a"')});
claims('enqueue', ['a'], 'jobq_enqueue');
work(q{SELECT job_id FROM jobq_enqueue_many('enqueue', '{"\"b\"", "\"c\""}')});
claims('enqueue', [ 'b', 'c' ], 'jobq_enqueue_many');
work(q{SELECT job_id FROM jobq_enqueue_jobs('[{"queue": "enqueue", "payload": "d", "priority": 7},
                                              {"queue": "enqueue", "payload": "e", "priority": -7}]')});
claims('enqueue', [ 'e', 'd' ], 'jobq_enqueue_jobs with priorities');
work(q{SELECT jobq_enqueue('enqueue', '"old"', run_at => '2001-01-01')});
claims('enqueue', ['old'], 'a run_at that is long past');
work(q{SELECT jobq_enqueue('enqueue', '"least"', priority => 32767, run_at => '2001-01-01'),
              jobq_enqueue('enqueue', '"first"', priority => -32768, run_at => '2001-01-01')});
claims('enqueue', [ 'first', 'least' ], 'the lowest and the highest key');
work(q{SELECT jobq_enqueue('enqueue', '"soon"', run_at => clock_timestamp() + interval '100 ms')});
becomes_true($node, 'work', q{SELECT status = 'pending' FROM jobq.jobs WHERE queue = 'enqueue' AND payload = '"soon"'}, 'a delayed job is promoted');
claims('enqueue', ['soon'], 'the promoted job is claimed');

known_empty('open');
$dba->query(q{BEGIN; SELECT jobq_enqueue('open', '"late"')});
others_find_nothing('open', 'other sessions do not claim a job before its enqueue commits');
$dba->query('COMMIT');
claims('open', ['late'], 'the job is claimed after the commit');
$dba->query(q{BEGIN; SELECT jobq_enqueue('open', '"never"'); ROLLBACK});
others_find_nothing('open', 'a job whose enqueue was rolled back is not claimed');
work(q{SELECT jobq_enqueue('open', '"after"')});
claims('open', ['after'], 'a job that is enqueued after the rollback is claimed');

is($dba->query(q{BEGIN; SELECT jobq_enqueue('open', '"own"') > 0; SELECT payload FROM jobq_claim('open'); SELECT count(*) FROM jobq_claim('open')}),
    "t\n\"own\"\n0", 'a transaction claims what it has enqueued itself');
others_find_nothing('open', 'other sessions do not claim the job of the open transaction');
$dba->query('COMMIT');
is(work(q{SELECT count(jobq_complete(id, lease)) FROM jobq.jobs WHERE queue = 'open' AND status = 'processing'}), '1', 'the transaction keeps its claim');

# One transaction that uses more lanes than it publishes individually at commit.
known_empty('many');
$dba->query(q{BEGIN; SELECT count(*) FROM jobq_enqueue_jobs((SELECT jsonb_agg(jsonb_build_object('queue', 'many', 'kind', 'k' || n / 10, 'priority', n % 10)) FROM generate_series(1, 6000) n))});
others_find_nothing('many', 'other sessions claim none of 6,000 jobs before their enqueue commits');
$dba->query(q{SELECT jobq_enqueue('many', '"one more"', priority => 100); COMMIT});
is(work(q{SELECT count(jobq_complete(id, lease)) FROM jobq_claim('many', batch => 7000)}), '6001', 'all jobs are claimed after the commit');

# ---- savepoints

known_empty('save');
$dba->query(q{BEGIN; SELECT jobq_enqueue('save', '"before"'); SAVEPOINT s; SELECT jobq_enqueue('save', '"undone"', priority => 5); ROLLBACK TO s;
              SAVEPOINT t; SELECT jobq_enqueue('save', '"released"', priority => -5); RELEASE t});
others_find_nothing('save', 'other sessions do not claim jobs that were enqueued in savepoints of an open transaction');
$dba->query('COMMIT');
claims('save', [ 'released', 'before' ], 'the jobs that were not rolled back are claimed after the commit');

work(q{SELECT jobq_enqueue('save', '"job"')});
$dba->query(q{BEGIN; SAVEPOINT s});
is($dba->query(q{SELECT payload FROM jobq_claim('save')}), '"job"', 'a transaction claims a job in a savepoint');
is($dba->query(sprintf $nothing, 'save'), '0', 'the same session finds no other job');
others_find_nothing('save', 'other sessions find no other job');
$dba->query('ROLLBACK TO s');
claims('save', ['job'], 'other sessions claim the job after the rollback to the savepoint, while the transaction is open');
$dba->query('ROLLBACK');

work(q{SELECT jobq_enqueue('save', '"mine"')});
is($dba->query(q{BEGIN; SAVEPOINT s; SELECT payload FROM jobq_claim('save'); SELECT count(*) FROM jobq_claim('save');
                 ROLLBACK TO s; SELECT payload FROM jobq_claim('save')}), "\"mine\"\n0\n\"mine\"", 'after a rollback to a savepoint, the same transaction claims the job again');
$dba->query('ROLLBACK');
claims('save', ['mine'], 'other sessions claim the job after the rollback of the transaction');

# ---- claims rolled back

known_empty('back');
work(q{SELECT jobq_enqueue('back', '"one"')});
is($dba->query(q{BEGIN; SELECT payload FROM jobq_claim('back')}), '"one"', 'a transaction claims a job');
others_find_nothing('back', 'other sessions find no job');
is($dba->query(sprintf $nothing, 'back'), '0', 'the transaction finds no other job');
$dba->query('ROLLBACK');
claims('back', ['one'], 'the job is claimed after the rollback');

work(q{SELECT jobq_enqueue('back', '"done"')});
is($dba->query(q{BEGIN; SELECT jobq_complete(id, lease) FROM jobq_claim('back'); SELECT count(*) FROM jobq_claim('back')}), "t\n0", 'a transaction claims and completes a job');
others_find_nothing('back', 'other sessions find no job');
$dba->query('ROLLBACK');
claims('back', ['done'], 'the job is claimed after the rollback');

# More claimed jobs than one claim examines to find empty ranges, before and among other jobs.
work(q{SELECT count(*) FROM jobq_enqueue_many('back', (SELECT array_agg(to_jsonb(n)) FROM generate_series(1, 300) n))});
is($dba->query(q{BEGIN; SELECT count(*) FROM jobq_claim('back', batch => 200)}), '200', 'a transaction claims 200 jobs');
$worker->query(q{CALL drain('back')});
others_find_nothing('back', 'the hundred jobs after them are completed');
$dba->query('ROLLBACK');
claims('back', [ 1 .. 200 ], 'the 200 jobs are claimed after the rollback');

work(q{SELECT jobq_enqueue('back', '"deleted"'), jobq_enqueue('back', '"moved"')});
$dba->query(q{BEGIN; DELETE FROM jobq.jobs WHERE queue = 'back' AND payload = '"deleted"';
              UPDATE jobq.jobs SET run_at = run_at + interval '1 hour' WHERE queue = 'back' AND payload = '"moved"'});
is($dba->query(sprintf $nothing, 'back'), '0', 'a transaction that has deleted and postponed all jobs finds none');
others_find_nothing('back', 'other sessions find none');
$dba->query('ROLLBACK');
claims('back', [ 'deleted', 'moved' ], 'the jobs are claimed after the rollback');

# ---- a transaction truncates or rewrites the table

work(q{SELECT jobq_enqueue('anew', '"kept"')});
is($dba->query(q{BEGIN; TRUNCATE jobq.jobs; SELECT count(*) FROM jobq_claim('anew'); SELECT count(*) FROM jobq_claim('anew')}), "0\n0", 'a transaction that has truncated the table finds no job');
$dba->query('ROLLBACK');
claims('anew', ['kept'], 'the jobs are claimed after the rollback');
work(q{SELECT jobq_enqueue('anew', '"rewritten"')});
$dba->query(q{BEGIN; ALTER TABLE jobq.jobs ADD COLUMN extra uuid DEFAULT gen_random_uuid(); SAVEPOINT s});
is($dba->query(q{SELECT payload FROM jobq_claim('anew'); SELECT count(*) FROM jobq_claim('anew')}), "\"rewritten\"\n0", 'a transaction that has rewritten the table claims the job');
$dba->query('ROLLBACK TO s; COMMIT');
claims('anew', ['rewritten'], 'the job is claimed after the rollback of the claim and the commit of the rewrite');
work('ALTER TABLE jobq.jobs DROP COLUMN extra');

# ---- prepared transactions

known_empty('phases');
$dba->query(q{BEGIN; SELECT jobq_enqueue('phases', '"prepared"'); PREPARE TRANSACTION 'enqueue'});
others_find_nothing('phases', 'a prepared enqueue is not claimed');
work(q{COMMIT PREPARED 'enqueue'});
claims('phases', ['prepared'], 'a prepared enqueue is claimed after COMMIT PREPARED in another session');
$dba->query(q{BEGIN; SELECT jobq_enqueue('phases', '"never"'); PREPARE TRANSACTION 'no'});
work(q{ROLLBACK PREPARED 'no'});
others_find_nothing('phases', 'a prepared enqueue is not claimed after ROLLBACK PREPARED');

work(q{SELECT jobq_enqueue('phases', '"held"')});
$dba->query(q{BEGIN; SELECT id FROM jobq_claim('phases'); PREPARE TRANSACTION 'claim'});
others_find_nothing('phases', 'the job of a prepared claim is not claimed');
work(q{ROLLBACK PREPARED 'claim'});
claims('phases', ['held'], 'the job of a prepared claim is claimed after ROLLBACK PREPARED');
$dba->query(q{BEGIN; INSERT INTO jobq.jobs (queue, payload, run_at) VALUES ('phases', '"by hand"', '2001-01-01'); PREPARE TRANSACTION 'insert'});
others_find_nothing('phases', 'a prepared INSERT is not claimed');
work(q{COMMIT PREPARED 'insert'});
claims('phases', ['by hand'], 'a prepared INSERT is claimed after COMMIT PREPARED');

# ---- jobs whose rows another session has locked

known_empty('held');
for my $strength ('FOR UPDATE', 'FOR NO KEY UPDATE', 'FOR SHARE')
{
    for my $end ('COMMIT', 'ROLLBACK')
    {
        work(q{SELECT jobq_enqueue('held', '"row"'), jobq_enqueue('held', '"next"')});
        $dba->query(qq{BEGIN; SELECT id FROM jobq.jobs WHERE queue = 'held' AND payload = '"row"' AND status = 'pending' $strength});
        is($worker->query(q{SELECT jobq_complete(c.id, c.lease), c.payload FROM jobq_claim('held') c}), 't|"next"', "$strength: a claim skips the locked row");
        others_find_nothing('held', "$strength: no other job is left");
        is(work(q{CALL drain('held'); SELECT count(*) FROM jobq_claim('held')}), '0', "$strength: repeated claims do not find the locked row");
        $dba->query($end);
        claims('held', ['row'], "$strength: the row is claimed after $end");
    }
}
work(q{SELECT jobq_enqueue('held', '"shared"')});
my $share = q{BEGIN; SELECT id FROM jobq.jobs WHERE queue = 'held' AND status = 'pending' FOR SHARE};
$dba->query($share);
$worker->query($share);
others_find_nothing('held', 'a row that two sessions have locked is not claimed');
$dba->query('COMMIT');
others_find_nothing('held', 'a row that one of them still has locked is not claimed');
is($worker->query(sprintf $nothing, 'held'), '1', 'the session that still has the lock claims the row');
$worker->query('ROLLBACK');
claims('held', ['shared'], 'the row is claimed after the rollback');

# ---- changes with plain SQL

known_empty('hand');
work(q{INSERT INTO jobq.jobs (queue, payload) VALUES ('hand', '"insert"')});
claims('hand', ['insert'], 'INSERT');
work(q{INSERT INTO jobq.jobs (queue, payload, run_at, priority) VALUES ('hand', '"old"', '2001-01-01', -3)});
claims('hand', ['old'], 'INSERT with a run_at that is long past');
work(qq{COPY jobq.jobs (queue, payload, priority) FROM stdin;\nhand\t"copy 1"\t1\nhand\t"copy 2"\t2\n\\.\n});
claims('hand', [ 'copy 1', 'copy 2' ], 'COPY');
my $job = q{queue = 'hand' AND payload = '"copy 1"'};
work(qq{UPDATE jobq.jobs SET status = 'pending' WHERE $job});
claims('hand', ['copy 1'], 'UPDATE of the status');
work(qq{SELECT jobq_enqueue('hand', '"later"', run_at => 'tomorrow'); UPDATE jobq.jobs SET run_at = '2001-01-01' WHERE queue = 'hand' AND payload = '"later"'});
claims('hand', ['later'], 'UPDATE of run_at');
work(q{SELECT jobq_enqueue('elsewhere', '"moved"'); UPDATE jobq.jobs SET queue = 'hand' WHERE queue = 'elsewhere'});
claims('hand', ['moved'], 'UPDATE of the queue');
work(q{SELECT jobq_enqueue('hand', '"of a kind"', kind => 'odd')});
is(work(q{SELECT count(*) FROM jobq_claim('hand', kinds => '{""}'); UPDATE jobq.jobs SET kind = '' WHERE kind = 'odd'}), '0', 'a claim of another kind finds nothing');
claims('hand', ['of a kind'], 'UPDATE of the kind');

work(q{SELECT jobq_enqueue('hand', '"a"'), jobq_enqueue('hand', '"b"')});
is($worker->query(q{BEGIN; SELECT payload FROM jobq_claim('hand')}), '"a"', 'a transaction claims the first of two jobs');
is($worker->query(q{SELECT jobq_complete(id) FROM jobq.jobs WHERE queue = 'hand' AND status = 'processing'; COMMIT}), 't', 'the job is completed in the same transaction');
is(work(q{BEGIN; SELECT count(*) FROM jobq_claim('hand', batch => 2); ROLLBACK; SELECT count(*) FROM jobq_claim('hand', kinds => '{nothing}')}), "1\n0", 'one job is left');
$dba->query(q{BEGIN; SELECT id FROM jobq.jobs WHERE queue = 'hand' AND payload = '"b"' FOR UPDATE});
others_find_nothing('hand', 'claims find nothing before and after the locked row');
$dba->query(q{UPDATE jobq.jobs SET priority = -5 WHERE queue = 'hand' AND payload = '"b"'; COMMIT});
claims('hand', ['b'], 'UPDATE of the priority alone');
work(q{SELECT jobq_enqueue('hand', '"c"')});
$dba->query(q{BEGIN; SELECT id FROM jobq.jobs WHERE queue = 'hand' AND payload = '"c"' FOR UPDATE});
others_find_nothing('hand', 'claims find nothing before and after the locked row, again');
$dba->query(q{UPDATE jobq.jobs SET id = -7 WHERE queue = 'hand' AND payload = '"c"'; COMMIT});
claims('hand', ['c'], 'UPDATE of the id');
is(work(q{SELECT count(*) FROM jobq.jobs WHERE queue = 'hand' AND status <> 'completed'}), '0', 'no job is left');

# A trigger of the DBA that runs after those of jobq changes the position of the job.
work(q{CREATE FUNCTION favour() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.priority := -100; RETURN NEW; END $$;
       CREATE TRIGGER zz_favour BEFORE INSERT ON jobq.jobs FOR EACH ROW WHEN (NEW.queue = 'favoured') EXECUTE FUNCTION favour()});
known_empty('favoured');
work(q{SELECT jobq_enqueue('favoured', '"call"')});
claims('favoured', ['call'], 'a trigger changes the priority of a job that jobq_enqueue inserts');
work(q{SELECT job_id FROM jobq_enqueue_many('favoured', '{"\"many\""}')});
claims('favoured', ['many'], 'a trigger changes the priority of jobs that jobq_enqueue_many inserts');
work('DROP TRIGGER zz_favour ON jobq.jobs');

# ---- triggers that do not fire: logical replication and DISABLE TRIGGER

sub unseen
{
    return sprintf q{INSERT INTO jobq.jobs (queue, payload, run_at, status, _ready, max_attempts, _lane)
        VALUES ('unseen', '"%s"', '2001-01-01', 'pending', true, 20, jobq.lane_of('unseen', '', 0, NULL));}, shift;
}
my $applied = 'SET session_replication_role = replica;';
known_empty('unseen');
work($applied . unseen('applied'));
claims('unseen', ['applied'], 'INSERT in replica role');
known_empty('unseen');
work("$applied COPY jobq.jobs (queue, payload, run_at, status, _ready, max_attempts, _lane) FROM stdin;\n"
    . "unseen\t\"copied\"\t2001-01-01\tpending\tt\t20\t" . work(q{SELECT jobq.lane_of('unseen', '', 0, NULL)}) . "\n\\.\n");
claims('unseen', ['copied'], 'COPY in replica role');
known_empty('unseen');
work("$applied UPDATE jobq.jobs SET status = 'pending', _ready = true WHERE queue = 'unseen' AND payload = '\"applied\"'");
claims('unseen', ['applied'], 'UPDATE in replica role');

for my $trigger ('count_job', 'follow_job', 'tell_job', 'USER', 'ALL')
{
    my $off = "ALTER TABLE jobq.jobs DISABLE TRIGGER $trigger;";
    my $on = 'ALTER TABLE jobq.jobs ENABLE ' . ($trigger eq 'tell_job' ? 'REPLICA ' : '') . "TRIGGER $trigger;";
    # The replica role silences the other triggers, which would publish the job.
    my $silently = $trigger eq 'count_job' ? '' : $applied;
    for my $how ("BEGIN; $off $silently %s $on COMMIT", "$off $silently %s $on")
    {
        known_empty('unseen');
        work(sprintf $how, unseen($trigger));
        claims('unseen', [$trigger], "$trigger off" . ($how =~ /BEGIN/ ? ', in one transaction' : ''));
        # ENABLE TRIGGER USER makes tell_job fire in the wrong role. A tick corrects this unless another session has locked the table.
        becomes_true($node, 'work', q{SELECT (SELECT count(*) FROM jobq_tick()) >= 0 AND (SELECT string_agg(tgenabled::text, '' ORDER BY tgname) = 'OOR'
            FROM pg_trigger WHERE tgrelid = 'jobq.jobs'::regclass AND tgname ~ '(count|follow|tell)_job')}, "$trigger: the triggers are enabled as before");
    }
}

known_empty('unseen');
$worker->query('BEGIN; SELECT 1');
is($worker->query(sprintf $nothing, 'unseen'), '0', 'a transaction finds nothing');
work('ALTER TABLE jobq.jobs DISABLE TRIGGER count_job; ' . unseen('while off'));
is($worker->query(q{SELECT payload FROM jobq_claim('unseen')}), '"while off"', 'the transaction finds a job that was inserted while a trigger is disabled');
$worker->query('ROLLBACK');
cmp_ok(work(q{BEGIN; SELECT index_reads('SELECT count(*) FROM jobq_claim(''unseen'', batch => 100)'); ROLLBACK}), '>=', 40, 'claims use no empty ranges while a trigger is disabled');
work('ALTER TABLE jobq.jobs ENABLE TRIGGER count_job');
claims('unseen', ['while off'], 'the job is claimed after the trigger is enabled again');

# Replication from a database of the same server, which needs a slot that exists before the subscription.
database($node, 'source');
value($node, 'source', q{ALTER TABLE jobq.jobs ALTER id RESTART WITH 1000000000; CREATE PUBLICATION jobs FOR TABLE jobq.jobs;
    SELECT pg_create_logical_replication_slot('jobs', 'pgoutput')});
work(q{CREATE SUBSCRIPTION jobs CONNECTION $c$} . $node->connstr('source') . q{$c$ PUBLICATION jobs
    WITH (create_slot = false, slot_name = 'jobs', copy_data = false)});
for my $way ([ 'enqueued', q{SELECT jobq_enqueue('replicated', '"far"')} ],
    [ 'claimed and released', q{SELECT jobq_release(id, lease) FROM jobq_claim('replicated')} ])
{
    known_empty('replicated');
    value($node, 'source', $way->[1]);
    becomes_true($node, 'work', q{SELECT EXISTS (SELECT FROM jobq.jobs WHERE queue = 'replicated' AND status = 'pending')}, "$way->[0] in the publisher");
    claims('replicated', ['far'], "$way->[0] in the publisher: the next claim finds the job");
}
work(q{ALTER SUBSCRIPTION jobs DISABLE; ALTER SUBSCRIPTION jobs SET (slot_name = NONE); DROP SUBSCRIPTION jobs});

# A transaction that has disabled and enabled the trigger must not share the empty ranges that it learns.
known_empty('unseen');
$dba->query('BEGIN; ALTER TABLE jobq.jobs DISABLE TRIGGER count_job; ' . unseen('own') . 'ALTER TABLE jobq.jobs ENABLE TRIGGER count_job');
is($dba->query(q{SAVEPOINT s; SELECT payload FROM jobq_claim('unseen'); SELECT count(*) FROM jobq_claim('unseen'); ROLLBACK TO s; COMMIT}),
    "\"own\"\n0", 'a transaction claims the job that it has inserted without the trigger');
claims('unseen', ['own'], 'other sessions claim the job after the rollback of the claim');

# ---- jobs return to the queue

known_empty('again');
work(q{SELECT jobq_enqueue('again', '"job"', run_at => '2001-01-01')});
my $id = work(q{SELECT id FROM jobq.jobs WHERE queue = 'again' AND payload = '"job"'});
my @ways = (
    [ 'jobq_release', "SELECT jobq_release(id, lease) FROM jobq.jobs WHERE id = $id" ],
    [ 'jobq_fail', "SELECT jobq_fail(id, lease, retry_in => '0 s') FROM jobq.jobs WHERE id = $id" ],
    [ 'jobq_snooze', "SELECT jobq_snooze(id, '0 s', lease) FROM jobq.jobs WHERE id = $id" ],
    [ 'the rescue', q{SELECT sum(done) > 0 FROM jobq_tick(clock_timestamp() + interval '1 hour')} ],
    [ 'jobq_retry', "SELECT jobq_complete(id, lease), jobq_retry(id) FROM jobq.jobs WHERE id = $id" ],
    [ 'jobq_retry_jobs', "SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE id = $id; SELECT jobq_retry_jobs('again', statuses => '{completed}')" ],
);
for my $way (@ways)
{
    my ($name, $sql) = @$way;
    is(work(q{SELECT payload FROM jobq_claim('again')}), '"job"', "$name: claimed");
    others_find_nothing('again', "$name: no other job is claimed");
    work($sql);
}
is(work(q{SELECT count(jobq_complete(id, lease)) FROM jobq_claim('again', batch => 1000)}), '41', 'all jobs that have been completed there are claimed');
work(q{SELECT jobq_enqueue('again', '"put off"', run_at => 'tomorrow')});
others_find_nothing('again', 'a job of tomorrow is not claimed');
work(q{SELECT jobq_reschedule(id, '2001-01-01') FROM jobq.jobs WHERE queue = 'again' AND payload = '"put off"'});
claims('again', ['put off'], 'a job rescheduled into the past is claimed');
work(q{SELECT jobq_enqueue('again', '"put off again"', run_at => 'tomorrow')});
work(q{SELECT jobq_reschedule_jobs('again', '2001-01-01', statuses => '{scheduled}')});
claims('again', ['put off again'], 'jobs rescheduled into the past by one call are claimed');
work(q{SELECT jobq_pause_queue('again'), jobq_enqueue('again', '"paused"')});
others_find_nothing('again', 'a paused queue has no claimable job');
work(q{SELECT jobq_resume_queue('again')});
claims('again', ['paused'], 'a job in a resumed queue is claimed');
work(q{SELECT jobq_enqueue('again', '"finished"'); CALL drain('again'); SELECT jobq_purge_queue('again')});
work(q{SELECT jobq_enqueue('again', '"purged"')});
claims('again', ['purged'], 'a job enqueued after a purge is claimed');

# ---- older snapshots

known_empty('older');
for my $level ('REPEATABLE READ', 'SERIALIZABLE')
{
    $dba->query("BEGIN ISOLATION LEVEL $level; SELECT count(*) FROM jobq.jobs");
    work(q{SELECT jobq_enqueue('older', '"new"')});
    is($dba->query(join ';', (sprintf $nothing, 'older') x 3), "0\n0\n0", "$level: an older snapshot sees no job, and its claims do not mark the lane as empty");
    claims('older', ['new'], "$level: other sessions see the job");
    $dba->query('ROLLBACK');
    work(q{SELECT jobq_enqueue('older', '"first"')});
    is($dba->query(qq{BEGIN ISOLATION LEVEL $level; SELECT payload FROM jobq_claim('older'); SELECT count(*) FROM jobq_claim('older')}),
        "\"first\"\n0", "$level: the first job is claimed");
    others_find_nothing('older', "$level: other sessions find no job");
    $dba->query('ROLLBACK');
    claims('older', ['first'], "$level: the job is claimed after the rollback");
}

# ---- a claim does not read more because of thousands of jobs that an old snapshot keeps in the index

# Returns the median and the maximum number of index entries that a claim reads. Each claim is followed by a completion.
sub reads_of_claims
{
    my ($queue, $claims) = @_;
    my $once = qq{SELECT index_reads('SELECT jobq_complete(c.id, c.lease) FROM jobq_claim(''$queue'') c')};
    my @reads = sort { $a <=> $b } split /\n/, work(join ";\n", ($once) x $claims);
    return ($reads[ @reads / 2 ], $reads[-1]);
}

work(q{SELECT count(*) FROM jobq_enqueue_many('long', array_fill('{}'::jsonb, ARRAY[6000]))});
reads_of_claims('long', 200);
my ($median_before, $most_before) = reads_of_claims('long', 400);
work(q{DO $$ BEGIN FOR n IN 1..4500 LOOP PERFORM jobq_complete(c.id, c.lease) FROM jobq_claim('long') c; COMMIT; END LOOP; END $$});
my ($median_after, $most_after) = reads_of_claims('long', 400);
diag("entries read by a claim behind 600 finished jobs: $median_before (most $most_before), behind 5500: $median_after (most $most_after)");
cmp_ok($median_after, '<=', 150, 'a claim reads at most the entries of the jobs claimed since the last claim that learned');
cmp_ok($most_after, '<=', $most_before + 100, 'the maximum does not grow with thousands of finished jobs');
is(work(q{SELECT count(*) FROM jobq.jobs WHERE queue = 'long' AND status = 'pending'}), '500', '500 jobs are left');
cmp_ok(work(q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT index_reads('SELECT count(*) FROM jobq_claim(''long'')'); ROLLBACK}), '>=', 5000, 'a claim without empty ranges reads the entries of all finished jobs');
cmp_ok(index_reads($node, 'work', q{SELECT jobq.oldest_pending_age('long')}), '<=', 250, 'jobq.oldest_pending_age reads no more');
is(work(q{SELECT jobq.oldest_pending_age('long') - (now() - min(run_at)) BETWEEN '-1 s' AND '1 s' FROM jobq.jobs WHERE queue = 'long' AND status = 'pending'}), 't', 'jobq.oldest_pending_age returns the right age');
work(q{CALL drain('long', 100); SELECT count(*) FROM jobq_claim('long')});
is(index_reads($node, 'work', q{SELECT jobq.oldest_pending_age('long')}), '0', 'jobq.oldest_pending_age reads nothing in an empty queue');
is(work(q{SELECT jobq.oldest_pending_age('long') IS NULL}), 't', 'an empty queue has no oldest job');
is(work(q{BEGIN; SELECT jobq_enqueue('long', run_at => '2001-01-01') > 0; SELECT jobq.oldest_pending_age('long') > '20 years';
          SELECT jobq_enqueue('long', run_at => '1999-01-01', priority => 7) > 0; SELECT jobq.oldest_pending_age('long') > '22 years'; COMMIT;
          SELECT jobq.oldest_pending_age('long') > '22 years'}), "t\nt\nt\nt\nt", 'jobs that the transaction itself has enqueued count, with any priority');
$dba->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
work(q{CALL drain('long', 100); SELECT count(*) FROM jobq_claim('long')});
is($dba->query(q{SELECT jobq.oldest_pending_age('long') > '22 years'; COMMIT; SELECT jobq.oldest_pending_age('long') IS NULL}), "t\nt", 'an older snapshot gets the age that it sees');

# ---- statistics and plans do not matter

for my $mode ('force_generic_plan', 'force_custom_plan')
{
    for my $rows (0, 2000)
    {
        my $queue = "plans $mode $rows";
        value($node, 'work', qq{DELETE FROM jobq.jobs WHERE status = 'completed'; ANALYZE jobq.jobs}) if $rows == 0;
        work(qq{SELECT count(*) FROM jobq_enqueue_many('$queue', array_fill('{}'::jsonb, ARRAY[2000]))});
        work('ANALYZE jobq.jobs') if $rows > 0;
        my $scans = q{SELECT pg_stat_get_xact_numscans('jobq.jobs'::regclass), pg_stat_get_xact_tuples_returned('jobq.jobs'::regclass)};
        my $session = session($node, 'work');
        $session->query("SET plan_cache_mode = $mode");
        $session->query(q{SET enable_indexscan = off; SET random_page_cost = 1000; SET jit_above_cost = 0});
        my @got = split /\n/, $session->query("BEGIN; $scans;" . join(';', ("SELECT jobq_complete(c.id, c.lease) FROM jobq_claim('$queue') c") x 12)
            . ";SELECT jobq_fail(c.id, c.lease, retry_in => '1 hour') FROM jobq_claim('$queue') c; SELECT jobq_release(c.id, c.lease) FROM jobq_claim('$queue') c; $scans; COMMIT");
        is($got[-1], $got[0], "$mode, analyzed with $rows jobs: no claim, completion, failure or release scans the table");
        is(join(' ', @got[ 1 .. 14 ]), join(' ', ('t') x 12, 'scheduled', 't'), 'all calls succeed');
        end_sessions($session);
        work(qq{SELECT jobq_purge_queue('$queue')});
    }
}

is(work(q{SELECT count(*) FROM jobq.jobs WHERE status = 'pending'}), '0', 'no job is left pending');

# ---- the repair also checks the empty ranges, one piece per tick

work(q{SELECT count(*) FROM jobq_enqueue_many('pieces', array_fill('{}'::jsonb, ARRAY[50000])); CALL drain('pieces', 1000)});
is(work(q{SELECT count(*) FROM jobq_claim('pieces'); SELECT known_empty FROM jobq.lanes WHERE queue = 'pieces'}), "0\nt", 'a lane that is known to be empty has 50,000 index entries');
my @reads = map { index_reads($node, 'work', 'SELECT count(*) FROM jobq_tick()') } 1 .. 8;
diag("entries read by ticks: @reads");
my ($least, $most) = (sort { $a <=> $b } @reads)[ 0, -1 ];
cmp_ok($most, '<=', 22000, 'a tick reads no more than one piece');
cmp_ok($least, '<', 18000, 'the next tick, in another session, continues after the piece, until the rest is smaller than a piece');

# ---- a key with a running limit and a rate limit: a free slot takes one of the skipped jobs back, not as many as the rate permits

work(q{SELECT jobq_set_limit('both', '*', max_running => 1, rate => 1000, per => '1 s');
    SELECT count(*) FROM jobq_enqueue_many('both', array_fill('{}'::jsonb, ARRAY[20000]), concurrency_keys => ARRAY(SELECT 'k' || n % 200 FROM generate_series(1, 20000) n))});
is(work(q{SELECT count(*) FROM jobq_claim('both', batch => 1000)}), '200', 'a job of each key is claimed');
others_find_nothing('both', 'no other job can run');
my @both = map { work(q{SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE queue = 'both' AND status = 'processing' ORDER BY id LIMIT 1});
    index_reads($node, 'work', q{SELECT count(*) FROM jobq_claim('both')}) } 1 .. 21;
diag("entries read by claims: @both");
cmp_ok((sort { $a <=> $b } @both)[10], '<=', 2000, 'a claim after a completion reads few of the 20,000 entries');
end_sessions($holder, $dba, $worker);
done_testing();
