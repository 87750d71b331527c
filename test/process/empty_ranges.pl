# Claims skip what is known to hold no claimable job (src/lanes/empty_ranges.h). Every way in which such knowledge could be
# wrong: each time a lane is known to be empty, something makes a job of it claimable, and the very next claim has it.
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

# Others claim, and learn what there is to be learned.
sub others_find_nothing
{
    my ($queue, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return is(work(join ';', (sprintf $nothing, $queue) x 3), "0\n0\n0", $name);
}

# ---- the mark is there, and it is worth having

known_empty('use');
is(index_reads($node, 'work', q{SELECT count(*) FROM jobq_claim('use')}), '0', 'a claim reads nothing in a lane known to be empty');
cmp_ok(work(q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT index_reads('SELECT count(*) FROM jobq_claim(''use'')'); COMMIT}),
    '>=', 40, 'one that uses no empty ranges reads the entries of all jobs that were there');

# ---- enqueued, in every way

known_empty('enqueue');
work(q{SELECT jobq_enqueue('enqueue', '"a"')});
claims('enqueue', ['a'], 'jobq_enqueue');
work(q{SELECT job_id FROM jobq_enqueue_many('enqueue', '{"\"b\"", "\"c\""}')});
claims('enqueue', [ 'b', 'c' ], 'jobq_enqueue_many');
work(q{SELECT job_id FROM jobq_enqueue_jobs('[{"queue": "enqueue", "payload": "d", "priority": 7},
                                              {"queue": "enqueue", "payload": "e", "priority": -7}]')});
claims('enqueue', [ 'e', 'd' ], 'jobq_enqueue_jobs with priorities');
work(q{SELECT jobq_enqueue('enqueue', '"old"', run_at => '2001-01-01')});
claims('enqueue', ['old'], 'with a time long past');
work(q{SELECT jobq_enqueue('enqueue', '"least"', priority => 32767, run_at => '2001-01-01'),
              jobq_enqueue('enqueue', '"first"', priority => -32768, run_at => '2001-01-01')});
claims('enqueue', [ 'first', 'least' ], 'at the ends of the range of keys');
work(q{SELECT jobq_enqueue('enqueue', '"soon"', run_at => clock_timestamp() + interval '100 ms')});
becomes_true($node, 'work', q{SELECT status = 'pending' FROM jobq.jobs WHERE queue = 'enqueue' AND payload = '"soon"'}, 'a delayed job is promoted');
claims('enqueue', ['soon'], 'and claimed');

known_empty('open');
$dba->query(q{BEGIN; SELECT jobq_enqueue('open', '"late"')});
others_find_nothing('open', 'an enqueue that has not committed');
$dba->query('COMMIT');
claims('open', ['late'], 'after its commit');
$dba->query(q{BEGIN; SELECT jobq_enqueue('open', '"never"'); ROLLBACK});
others_find_nothing('open', 'an enqueue rolled back');
work(q{SELECT jobq_enqueue('open', '"after"')});
claims('open', ['after'], 'and one after that');

is($dba->query(q{BEGIN; SELECT jobq_enqueue('open', '"own"') > 0; SELECT payload FROM jobq_claim('open'); SELECT count(*) FROM jobq_claim('open')}),
    "t\n\"own\"\n0", 'a transaction claims what it has enqueued itself');
others_find_nothing('open', 'others do not');
$dba->query('COMMIT');
is(work(q{SELECT count(jobq_complete(id, lease)) FROM jobq.jobs WHERE queue = 'open' AND status = 'processing'}), '1', 'its claim counts');

# More lanes in one transaction than are told apart at its commit.
known_empty('many');
$dba->query(q{BEGIN; SELECT count(*) FROM jobq_enqueue_jobs((SELECT jsonb_agg(jsonb_build_object('queue', 'many', 'kind', 'k' || n / 10, 'priority', n % 10)) FROM generate_series(1, 6000) n))});
others_find_nothing('many', 'six thousand places in one transaction');
$dba->query(q{SELECT jobq_enqueue('many', '"one more"', priority => 100); COMMIT});
is(work(q{SELECT count(jobq_complete(id, lease)) FROM jobq_claim('many', batch => 7000)}), '6001', 'all are claimed');

# ---- savepoints

known_empty('save');
$dba->query(q{BEGIN; SELECT jobq_enqueue('save', '"before"'); SAVEPOINT s; SELECT jobq_enqueue('save', '"undone"', priority => 5); ROLLBACK TO s;
              SAVEPOINT t; SELECT jobq_enqueue('save', '"released"', priority => -5); RELEASE t});
others_find_nothing('save', 'enqueues in savepoints');
$dba->query('COMMIT');
claims('save', [ 'released', 'before' ], 'those that were not rolled back');

work(q{SELECT jobq_enqueue('save', '"job"')});
$dba->query(q{BEGIN; SAVEPOINT s});
is($dba->query(q{SELECT payload FROM jobq_claim('save')}), '"job"', 'a claim in a savepoint');
is($dba->query(sprintf $nothing, 'save'), '0', 'the same session looks for more');
others_find_nothing('save', 'and so do others');
$dba->query('ROLLBACK TO s');
claims('save', ['job'], 'the savepoint rolled back, the transaction open: others claim it');
$dba->query('ROLLBACK');

work(q{SELECT jobq_enqueue('save', '"mine"')});
is($dba->query(q{BEGIN; SAVEPOINT s; SELECT payload FROM jobq_claim('save'); SELECT count(*) FROM jobq_claim('save');
                 ROLLBACK TO s; SELECT payload FROM jobq_claim('save')}), "\"mine\"\n0\n\"mine\"", 'or the same transaction claims it again');
$dba->query('ROLLBACK');
claims('save', ['mine'], 'and rolled back altogether, others');

# ---- claims rolled back

known_empty('back');
work(q{SELECT jobq_enqueue('back', '"one"')});
is($dba->query(q{BEGIN; SELECT payload FROM jobq_claim('back')}), '"one"', 'an open claim');
others_find_nothing('back', 'others claim past it');
is($dba->query(sprintf $nothing, 'back'), '0', 'the session itself as well');
$dba->query('ROLLBACK');
claims('back', ['one'], 'rolled back, it is claimed');

work(q{SELECT jobq_enqueue('back', '"done"')});
is($dba->query(q{BEGIN; SELECT jobq_complete(id, lease) FROM jobq_claim('back'); SELECT count(*) FROM jobq_claim('back')}), "t\n0", 'claimed and completed');
others_find_nothing('back', 'others claim past it');
$dba->query('ROLLBACK');
claims('back', ['done'], 'rolled back, it is claimed');

# More than a learner looks at, in the middle and at the end of others.
work(q{SELECT count(*) FROM jobq_enqueue_many('back', (SELECT array_agg(to_jsonb(n)) FROM generate_series(1, 300) n))});
is($dba->query(q{BEGIN; SELECT count(*) FROM jobq_claim('back', batch => 200)}), '200', 'two hundred open claims');
$worker->query(q{CALL drain('back')});
others_find_nothing('back', 'the hundred behind them are worked off');
$dba->query('ROLLBACK');
claims('back', [ 1 .. 200 ], 'the two hundred follow when they are rolled back');

work(q{SELECT jobq_enqueue('back', '"deleted"'), jobq_enqueue('back', '"moved"')});
$dba->query(q{BEGIN; DELETE FROM jobq.jobs WHERE queue = 'back' AND payload = '"deleted"';
              UPDATE jobq.jobs SET run_at = run_at + interval '1 hour' WHERE queue = 'back' AND payload = '"moved"'});
is($dba->query(sprintf $nothing, 'back'), '0', 'a session that has deleted and put off jobs looks for some');
others_find_nothing('back', 'as do others');
$dba->query('ROLLBACK');
claims('back', [ 'deleted', 'moved' ], 'rolled back, they are claimed');

# ---- a table that a transaction has made anew

work(q{SELECT jobq_enqueue('anew', '"kept"')});
is($dba->query(q{BEGIN; TRUNCATE jobq.jobs; SELECT count(*) FROM jobq_claim('anew'); SELECT count(*) FROM jobq_claim('anew')}), "0\n0", 'a table truncated');
$dba->query('ROLLBACK');
claims('anew', ['kept'], 'rolled back, its jobs are claimed');
work(q{SELECT jobq_enqueue('anew', '"rewritten"')});
$dba->query(q{BEGIN; ALTER TABLE jobq.jobs ADD COLUMN extra uuid DEFAULT gen_random_uuid(); SAVEPOINT s});
is($dba->query(q{SELECT payload FROM jobq_claim('anew'); SELECT count(*) FROM jobq_claim('anew')}), "\"rewritten\"\n0", 'a table rewritten');
$dba->query('ROLLBACK TO s; COMMIT');
claims('anew', ['rewritten'], 'the claim rolled back, the table kept: the job is claimed');
work('ALTER TABLE jobq.jobs DROP COLUMN extra');

# ---- two phases

known_empty('phases');
$dba->query(q{BEGIN; SELECT jobq_enqueue('phases', '"prepared"'); PREPARE TRANSACTION 'enqueue'});
others_find_nothing('phases', 'a prepared enqueue');
work(q{COMMIT PREPARED 'enqueue'});
claims('phases', ['prepared'], 'COMMIT PREPARED in another session');
$dba->query(q{BEGIN; SELECT jobq_enqueue('phases', '"never"'); PREPARE TRANSACTION 'no'});
work(q{ROLLBACK PREPARED 'no'});
others_find_nothing('phases', 'ROLLBACK PREPARED of an enqueue');

work(q{SELECT jobq_enqueue('phases', '"held"')});
$dba->query(q{BEGIN; SELECT id FROM jobq_claim('phases'); PREPARE TRANSACTION 'claim'});
others_find_nothing('phases', 'a prepared claim');
work(q{ROLLBACK PREPARED 'claim'});
claims('phases', ['held'], 'ROLLBACK PREPARED of a claim');
$dba->query(q{BEGIN; INSERT INTO jobq.jobs (queue, payload, run_at) VALUES ('phases', '"by hand"', '2001-01-01'); PREPARE TRANSACTION 'insert'});
others_find_nothing('phases', 'a prepared INSERT');
work(q{COMMIT PREPARED 'insert'});
claims('phases', ['by hand'], 'is claimed after COMMIT PREPARED');

# ---- rows that somebody holds

known_empty('held');
for my $strength ('FOR UPDATE', 'FOR NO KEY UPDATE', 'FOR SHARE')
{
    for my $end ('COMMIT', 'ROLLBACK')
    {
        work(q{SELECT jobq_enqueue('held', '"row"'), jobq_enqueue('held', '"next"')});
        $dba->query(qq{BEGIN; SELECT id FROM jobq.jobs WHERE queue = 'held' AND payload = '"row"' AND status = 'pending' $strength});
        is($worker->query(q{SELECT jobq_complete(c.id, c.lease), c.payload FROM jobq_claim('held') c}), 't|"next"', "$strength: claimed past it");
        others_find_nothing('held', "$strength: all others have been claimed");
        is(work(q{CALL drain('held'); SELECT count(*) FROM jobq_claim('held')}), '0', "$strength: again and again");
        $dba->query($end);
        claims('held', ['row'], "$strength: after $end it is claimed");
    }
}
work(q{SELECT jobq_enqueue('held', '"shared"')});
my $share = q{BEGIN; SELECT id FROM jobq.jobs WHERE queue = 'held' AND status = 'pending' FOR SHARE};
$dba->query($share);
$worker->query($share);
others_find_nothing('held', 'a row held by two');
$dba->query('COMMIT');
others_find_nothing('held', 'and by one of them still');
is($worker->query(sprintf $nothing, 'held'), '1', 'the last of them claims it');
$worker->query('ROLLBACK');
claims('held', ['shared'], 'and lets go');

# ---- by hand

known_empty('hand');
work(q{INSERT INTO jobq.jobs (queue, payload) VALUES ('hand', '"insert"')});
claims('hand', ['insert'], 'INSERT');
work(q{INSERT INTO jobq.jobs (queue, payload, run_at, priority) VALUES ('hand', '"old"', '2001-01-01', -3)});
claims('hand', ['old'], 'INSERT with a time long past');
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
is(work(q{SELECT count(*) FROM jobq_claim('hand', kinds => '{""}'); UPDATE jobq.jobs SET kind = '' WHERE kind = 'odd'}), '0', 'another kind');
claims('hand', ['of a kind'], 'UPDATE of the kind');

work(q{SELECT jobq_enqueue('hand', '"a"'), jobq_enqueue('hand', '"b"')});
is($worker->query(q{BEGIN; SELECT payload FROM jobq_claim('hand')}), '"a"', 'the first of two');
is($worker->query(q{SELECT jobq_complete(id) FROM jobq.jobs WHERE queue = 'hand' AND status = 'processing'; COMMIT}), 't', 'is completed');
is(work(q{BEGIN; SELECT count(*) FROM jobq_claim('hand', batch => 2); ROLLBACK; SELECT count(*) FROM jobq_claim('hand', kinds => '{nothing}')}), "1\n0", 'one is left');
$dba->query(q{BEGIN; SELECT id FROM jobq.jobs WHERE queue = 'hand' AND payload = '"b"' FOR UPDATE});
others_find_nothing('hand', 'learned up to the row that is held, and behind it');
$dba->query(q{UPDATE jobq.jobs SET priority = -5 WHERE queue = 'hand' AND payload = '"b"'; COMMIT});
claims('hand', ['b'], 'UPDATE of the priority alone');
work(q{SELECT jobq_enqueue('hand', '"c"')});
$dba->query(q{BEGIN; SELECT id FROM jobq.jobs WHERE queue = 'hand' AND payload = '"c"' FOR UPDATE});
others_find_nothing('hand', 'the same again');
$dba->query(q{UPDATE jobq.jobs SET id = -7 WHERE queue = 'hand' AND payload = '"c"'; COMMIT});
claims('hand', ['c'], 'UPDATE of the id');
is(work(q{SELECT count(*) FROM jobq.jobs WHERE queue = 'hand' AND status <> 'completed'}), '0', 'none is left');

# A trigger of the DBA's own that runs after jobq's changes the place of the job.
work(q{CREATE FUNCTION favour() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.priority := -100; RETURN NEW; END $$;
       CREATE TRIGGER zz_favour BEFORE INSERT ON jobq.jobs FOR EACH ROW WHEN (NEW.queue = 'favoured') EXECUTE FUNCTION favour()});
known_empty('favoured');
work(q{SELECT jobq_enqueue('favoured', '"call"')});
claims('favoured', ['call'], 'a trigger changes the priority of what jobq_enqueue inserts');
work(q{SELECT job_id FROM jobq_enqueue_many('favoured', '{"\"many\""}')});
claims('favoured', ['many'], 'or jobq_enqueue_many');
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
    # What the other triggers would tell.
    my $silently = $trigger eq 'count_job' ? '' : $applied;
    for my $how ("BEGIN; $off $silently %s $on COMMIT", "$off $silently %s $on")
    {
        known_empty('unseen');
        work(sprintf $how, unseen($trigger));
        claims('unseen', [$trigger], "$trigger off" . ($how =~ /BEGIN/ ? ', in one transaction' : ''));
        # ENABLE TRIGGER USER makes tell_job fire in the wrong role.
        work(q{SELECT count(*) FROM jobq_tick()});
        is(work(q{SELECT string_agg(tgenabled::text, '' ORDER BY tgname) FROM pg_trigger
                  WHERE tgrelid = 'jobq.jobs'::regclass AND tgname ~ '(count|follow|tell)_job'}), 'OOR', "$trigger: the triggers are as before");
    }
}

known_empty('unseen');
$worker->query('BEGIN; SELECT 1');
is($worker->query(sprintf $nothing, 'unseen'), '0', 'a transaction finds nothing');
work('ALTER TABLE jobq.jobs DISABLE TRIGGER count_job; ' . unseen('while off'));
is($worker->query(q{SELECT payload FROM jobq_claim('unseen')}), '"while off"', 'while the triggers are off it finds what comes');
$worker->query('ROLLBACK');
cmp_ok(work(q{BEGIN; SELECT index_reads('SELECT count(*) FROM jobq_claim(''unseen'', batch => 100)'); ROLLBACK}), '>=', 40, 'nobody uses empty ranges then');
work('ALTER TABLE jobq.jobs ENABLE TRIGGER count_job');
claims('unseen', ['while off'], 'and on again');

# From a database of the same server, which needs a slot made beforehand.
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
    becomes_true($node, 'work', q{SELECT EXISTS (SELECT FROM jobq.jobs WHERE queue = 'replicated' AND status = 'pending')}, "$way->[0] elsewhere");
    claims('replicated', ['far'], "$way->[0] elsewhere: the next claim has it");
}
work(q{ALTER SUBSCRIPTION jobs DISABLE; ALTER SUBSCRIPTION jobs SET (slot_name = NONE); DROP SUBSCRIPTION jobs});

# What a transaction learns that has switched them off and on itself is nobody else's business.
known_empty('unseen');
$dba->query('BEGIN; ALTER TABLE jobq.jobs DISABLE TRIGGER count_job; ' . unseen('own') . 'ALTER TABLE jobq.jobs ENABLE TRIGGER count_job');
is($dba->query(q{SAVEPOINT s; SELECT payload FROM jobq_claim('unseen'); SELECT count(*) FROM jobq_claim('unseen'); ROLLBACK TO s; COMMIT}),
    "\"own\"\n0", 'a transaction claims what it has inserted silently');
claims('unseen', ['own'], 'and others, when it has rolled that back');

# ---- back into the queue

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
    others_find_nothing('again', "$name: by nobody else");
    work($sql);
}
is(work(q{SELECT count(jobq_complete(id, lease)) FROM jobq_claim('again', batch => 1000)}), '41', 'all that was ever completed there');
work(q{SELECT jobq_enqueue('again', '"put off"', run_at => 'tomorrow')});
others_find_nothing('again', 'a job of tomorrow');
work(q{SELECT jobq_reschedule(id, '2001-01-01') FROM jobq.jobs WHERE queue = 'again' AND payload = '"put off"'});
claims('again', ['put off'], 'rescheduled into the past');
work(q{SELECT jobq_enqueue('again', '"put off again"', run_at => 'tomorrow')});
work(q{SELECT jobq_reschedule_jobs('again', '2001-01-01', statuses => '{scheduled}')});
claims('again', ['put off again'], 'or many of them');
work(q{SELECT jobq_pause_queue('again'), jobq_enqueue('again', '"paused"')});
others_find_nothing('again', 'a paused queue');
work(q{SELECT jobq_resume_queue('again')});
claims('again', ['paused'], 'resumed');
work(q{SELECT jobq_enqueue('again', '"finished"'); CALL drain('again'); SELECT jobq_purge_queue('again')});
work(q{SELECT jobq_enqueue('again', '"purged"')});
claims('again', ['purged'], 'enqueued after a purge');

# ---- older snapshots

known_empty('older');
for my $level ('REPEATABLE READ', 'SERIALIZABLE')
{
    $dba->query("BEGIN ISOLATION LEVEL $level; SELECT count(*) FROM jobq.jobs");
    work(q{SELECT jobq_enqueue('older', '"new"')});
    is($dba->query(join ';', (sprintf $nothing, 'older') x 3), "0\n0\n0", "$level: sees nothing, and learns nothing");
    claims('older', ['new'], "$level: others see it");
    $dba->query('ROLLBACK');
    work(q{SELECT jobq_enqueue('older', '"first"')});
    is($dba->query(qq{BEGIN ISOLATION LEVEL $level; SELECT payload FROM jobq_claim('older'); SELECT count(*) FROM jobq_claim('older')}),
        "\"first\"\n0", "$level: claims");
    others_find_nothing('older', "$level: others claim past it");
    $dba->query('ROLLBACK');
    claims('older', ['first'], "$level: rolled back");
}

# ---- what a claim reads stays the same behind thousands of jobs that an old snapshot keeps in the index

# The entries that the middle one of the next claims reads, and the most that one of them does. Each claims and completes.
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
cmp_ok($median_after, '<=', 150, 'a claim reads no more than what was claimed since somebody learned last');
cmp_ok($most_after, '<=', $most_before + 100, 'thousands of jobs later no more than before');
is(work(q{SELECT count(*) FROM jobq.jobs WHERE queue = 'long' AND status = 'pending'}), '500', 'five hundred are left');
cmp_ok(work(q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT index_reads('SELECT count(*) FROM jobq_claim(''long'')'); ROLLBACK}), '>=', 5000, 'which without empty ranges would cost this');
cmp_ok(index_reads($node, 'work', q{SELECT jobq.oldest_pending_age('long')}), '<=', 250, 'the age of the oldest job costs no more');
is(work(q{SELECT jobq.oldest_pending_age('long') - (now() - min(run_at)) BETWEEN '-1 s' AND '1 s' FROM jobq.jobs WHERE queue = 'long' AND status = 'pending'}), 't', 'and is right');
work(q{CALL drain('long', 100); SELECT count(*) FROM jobq_claim('long')});
is(index_reads($node, 'work', q{SELECT jobq.oldest_pending_age('long')}), '0', 'an empty queue costs nothing');
is(work(q{SELECT jobq.oldest_pending_age('long') IS NULL}), 't', 'and has none');
is(work(q{BEGIN; SELECT jobq_enqueue('long', run_at => '2001-01-01') > 0; SELECT jobq.oldest_pending_age('long') > '20 years';
          SELECT jobq_enqueue('long', run_at => '1999-01-01', priority => 7) > 0; SELECT jobq.oldest_pending_age('long') > '22 years'; COMMIT;
          SELECT jobq.oldest_pending_age('long') > '22 years'}), "t\nt\nt\nt\nt", 'what the transaction itself has enqueued counts, of any priority');
$dba->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
work(q{CALL drain('long', 100); SELECT count(*) FROM jobq_claim('long')});
is($dba->query(q{SELECT jobq.oldest_pending_age('long') > '22 years'; COMMIT; SELECT jobq.oldest_pending_age('long') IS NULL}), "t\nt", 'an older snapshot has the age it sees');

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
        is($got[-1], $got[0], "$mode, analysed with $rows jobs: no claim, completion, failure or release scans the table");
        is(join(' ', @got[ 1 .. 14 ]), join(' ', ('t') x 12, 'scheduled', 't'), 'and all work');
        end_sessions($session);
        work(qq{SELECT jobq_purge_queue('$queue')});
    }
}

is(work(q{SELECT count(*) FROM jobq.jobs WHERE status = 'pending'}), '0', 'no job is left pending');

# ---- the repair looks into the ranges all the same, a piece at a time

work(q{SELECT count(*) FROM jobq_enqueue_many('pieces', array_fill('{}'::jsonb, ARRAY[50000])); CALL drain('pieces', 1000)});
is(work(q{SELECT count(*) FROM jobq_claim('pieces'); SELECT known_empty FROM jobq.lanes WHERE queue = 'pieces'}), "0\nt", 'fifty thousand entries in an empty lane');
my @reads = map { index_reads($node, 'work', 'SELECT count(*) FROM jobq_tick()') } 1 .. 8;
diag("entries read by ticks: @reads");
my ($least, $most) = (sort { $a <=> $b } @reads)[ 0, -1 ];
cmp_ok($most, '<=', 22000, 'a tick reads no more than a piece');
cmp_ok($least, '<', 18000, 'and the next goes on behind it, in another session, until the last piece is what is left');

# ---- a key with places and a rate: a freed place takes one job out of what is passed over, not all that the rate has tokens for

work(q{SELECT jobq_set_limit('both', '*', max_running => 1, rate => 1000, per => '1 s');
    SELECT count(*) FROM jobq_enqueue_many('both', array_fill('{}'::jsonb, ARRAY[20000]), concurrency_keys => ARRAY(SELECT 'k' || n % 200 FROM generate_series(1, 20000) n))});
is(work(q{SELECT count(*) FROM jobq_claim('both', batch => 1000)}), '200', 'a job of each key runs');
others_find_nothing('both', 'and no other can');
my @both = map { work(q{SELECT jobq_complete(id, lease) FROM jobq.jobs WHERE queue = 'both' AND status = 'processing' ORDER BY id LIMIT 1});
    index_reads($node, 'work', q{SELECT count(*) FROM jobq_claim('both')}) } 1 .. 21;
diag("entries read by claims: @both");
cmp_ok((sort { $a <=> $b } @both)[10], '<=', 2000, 'a claim after a completion reads few of the 20,000');
end_sessions($holder, $dba, $worker);
done_testing();
