# Tests jobq_explain and jobq_explain_queue where the answer depends on other sessions: which jobs workers have asked for, which
# session has locked a row, when the next token becomes available, and whether a background worker serves the database.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use Test::More;

my $node = preloaded('explain', init => { allows_streaming => 1 }, conf => [ 'max_prepared_transactions = 5', "jobq.databases = 'work'" ]);
database($node, $_) for qw(work other);

sub reasons
{
    my ($database, $job) = @_;
    return value($node, $database, "SELECT string_agg(reason, ',') FROM jobq_explain($job)");
}

sub detail
{
    my ($reason, $job) = @_;
    return value($node, 'work', "SELECT detail FROM jobq_explain($job) WHERE reason = '$reason'");
}

# ---- a limit whose slots are taken by uncommitted claims

value($node, 'work', q{SELECT jobq_set_limit('open', max_running => 1), jobq_enqueue('open'), jobq_enqueue('open')});
is(sqlstate($node, 'work', q{BEGIN; SELECT id FROM jobq_claim('open'); PREPARE TRANSACTION 'open claim'}), '00000', 'a claim is prepared');
my $second = value($node, 'work', q{SELECT max(id) FROM jobq.jobs WHERE queue = 'open'});
is(value($node, 'work', q{SELECT count(*) FROM jobq_claim('open')}), '0', 'the limit is full');
like(detail('limit', $second), qr/0 running, max_running is 1, and uncommitted claims take the other slots/, 'jobq_explain reports the uncommitted claims');
like(value($node, 'work', q{SELECT string_agg(reason || ': ' || detail, chr(10)) FROM jobq_explain_queue('open')}),
    qr/\Alimit: [^\n]*uncommitted claims[^\n]*\nlocked: [^\n]*prepared transaction "open claim"\z/, 'jobq_explain_queue names the transaction that holds them');
value($node, 'work', q{ROLLBACK PREPARED 'open claim'});
value($node, 'work', q{SELECT jobq_set_limit('open'), jobq_drop_queue('open', force => true)});

# ---- when workers last asked for a claimable job

my $ago = qr/(?:less than 10|about \d+) (?:seconds|minutes) ago/;
value($node, 'work', q{SELECT FROM jobq_claim('abandoned', kinds => '{mail}')});
value($node, 'work', q{SELECT jobq_enqueue_many('abandoned', '{1,2}', kind => 'mail')});
my $first = value($node, 'work', q{SELECT min(id) FROM jobq.jobs WHERE queue = 'abandoned'});
like(detail('claimable', $first), qr/^the next claim that can take it gets it; a worker last asked for such a job $ago, and no session waits for jobs of this queue$/,
    'jobq_explain says when a worker last asked for a claimable job, and that no session waits');
like(detail('behind', $first + 1), qr/; a worker last asked for such a job $ago, and no session waits for jobs of this queue$/,
    'also for a job that comes after another claimable job');
like(value($node, 'work', q{SELECT detail FROM jobq_explain_queue('abandoned') WHERE reason = 'claimable'}),
    qr/^2 jobs pending, 0 jobs running; a worker last asked for such a job $ago, and no session waits for jobs of this queue$/, 'jobq_explain_queue says so, too');
my $waiter = session($node, 'work');
$waiter->query_until(qr/begun/, "\\echo begun\nCALL jobq_wait('abandoned', '1 hour', '{fax}', worker_id => 'fax');\n");
becomes_true($node, 'work', qq{SELECT detail ~ ' ago, and 1 session waits for jobs of this queue\$' FROM jobq_explain($first)}, 'a waiting session is counted');
becomes_true($node, 'work', qq{SELECT detail ~ 'such a job about [0-9]+ (seconds|minutes) ago, and 1 session' FROM jobq_explain($first)},
    'waits for jobs of another kind do not count as requests for this job');
my $waiter_for_several = session($node, 'work');
$waiter_for_several->query_until(qr/begun/, "\\echo begun\nCALL jobq_wait_any('{abandoned,elsewhere}', '1 hour', '{fax}', worker_id => 'fax 2');\n");
becomes_true($node, 'work', qq{SELECT detail ~ ' ago, and 2 sessions wait for jobs of this queue \\(1 of them for other queues, too\\)\$' FROM jobq_explain($first)},
    'so is a session that waits for several queues');
is(value($node, 'work', "SELECT jobq_wake('$_')"), '1', 'the session stops waiting') for 'fax', 'fax 2';
end_sessions($waiter, $waiter_for_several);
like(detail('claimable', $first), qr/ago, and no session waits for jobs of this queue$/, 'the session is no longer counted');
value($node, 'work', q{SELECT FROM jobq_claim('long names', kinds => ARRAY(SELECT 'kind ' || repeat('x', 200) || n FROM generate_series(1, 10) n))});
like(detail('claimable', value($node, 'work', q{SELECT jobq_enqueue('long names')})),
    qr/; a worker last asked for jobs of this queue \(with names too long to compare\) $ago, and no session/, 'a request with names that were too long to remember counts for all jobs of the queue');
value($node, 'work', q{SELECT jobq_drop_queue(q, force => true) FROM unnest('{abandoned,long names}'::text[]) q});

# ---- no worker asks for such jobs

# The reason "unasked" appears only after the server has observed the claims for some seconds.
value($node, 'work', q{SELECT jobq_enqueue('patience')});
becomes_true($node, 'work', q{SELECT EXISTS (SELECT FROM jobq_explain_queue('patience') WHERE reason = 'unasked')}, 'after some seconds, "unasked" is reported');
my $job = value($node, 'work', q{SELECT jobq_enqueue('render', kind => 'video', options => '{"version": 2, "requires": ["gpu"]}')});
like(detail('unasked', $job), qr/^kind "video", version 2, requires \{gpu\}: no worker has asked for jobs of the queue/,
    'no worker has asked for jobs of the queue');
value($node, 'work', q{SELECT FROM jobq_claim('render', kinds => '{audio}')});
like(detail('unasked', $job), qr/no worker has asked for this kind, only for kind "audio"/, 'a worker has asked for another kind only');
value($node, 'work', q{SELECT FROM jobq_claim('unnamed', kinds => '{audio}')});
like(detail('unasked', value($node, 'work', q{SELECT jobq_enqueue('unnamed')})), qr/^no kind: no worker has asked for this kind, only for kind "audio"/, 'a job without a kind is reported as such');
value($node, 'work', q{SELECT FROM jobq_claim('render', versions => '{1}', capabilities => '{gpu}')});
like(detail('unasked', $job), qr/but not for this version/, 'a worker has asked for another version only');
value($node, 'work', q{SELECT FROM jobq_claim('render', kinds => '{audio,video}', versions => '{1,2}', capabilities => '{tpu}')});
like(detail('unasked', $job), qr/with all of these capabilities/, 'a worker has asked without the capability only');
my $queue_says = q{SELECT string_agg(reason, ',') FROM jobq_explain_queue('render')};
is(value($node, 'work', $queue_says), 'unasked', 'the only reason of the queue is "unasked"');
like(value($node, 'work', q{SELECT detail FROM jobq_explain_queue('render')}), qr/^1 jobs? of kind "video"/, 'the detail for the queue counts the jobs');

# A claim in another queue or in another database does not count for this queue.
value($node, 'work', q{SELECT FROM jobq_claim('renderer', capabilities => '{gpu}')});
value($node, 'other', q{SELECT FROM jobq_claim('render', capabilities => '{gpu}')});
is(reasons('work', $job), 'unasked', 'claims in another queue or another database do not count');

# A waiting worker has asked, and so has a worker that finds the queue paused.
value($node, 'work', q{SELECT jobq_pause_queue('render')});
is(reasons('work', $job), 'paused', 'a paused queue needs no request');
value($node, 'work', q{CALL jobq_wait('render', '0 s', '{video}', '{2}', '{gpu,tpu}')});
value($node, 'work', q{SELECT jobq_resume_queue('render')});
is(reasons('work', $job), 'claimable', 'a worker that waited while the queue was paused has asked');
is(value($node, 'work', $queue_says), 'claimable', 'and the queue has no reason to be stuck');

# More kinds than jobq_explain_queue checks.
value($node, 'work', q{SELECT FROM jobq_claim('kinds', kinds => '{none}')});
value($node, 'work', q{SELECT count(jobq_enqueue('kinds', kind => 'k' || n)) FROM generate_series(1, 100) n});
my $of_kinds = q{SELECT count(*), count(*) FILTER (WHERE detail ~ 'were not checked') FROM jobq_explain_queue('kinds') WHERE reason = 'unasked'};
is(value($node, 'work', $of_kinds), '100|0', '100 kinds are checked');
value($node, 'work', q{SELECT jobq_enqueue('kinds', kind => 'more', priority => 9)});
is(value($node, 'work', $of_kinds), '101|1', 'jobq_explain_queue says that further kinds were not checked');
value($node, 'work', q{SELECT jobq_drop_queue('kinds', force => true)});

# A filter that is too long to remember may match the job.
$job = value($node, 'work', q{SELECT jobq_enqueue('long', kind => 'wanted')});
is(reasons('work', $job), 'unasked', 'no worker has asked');
value($node, 'work', q{SELECT FROM jobq_claim('long', kinds => ARRAY(SELECT 'kind ' || repeat('x', 200) || n FROM generate_series(1, 10) n))});
is(reasons('work', $job), 'claimable', '"unasked" is not reported if it is uncertain');

# ---- another session has locked the row

my $holder = session($node, 'work');
$holder->query(qq{SET application_name = 'the holder'; BEGIN; SELECT id FROM jobq.jobs WHERE id = $job FOR UPDATE});
my $pid = $holder->query('SELECT pg_backend_pid()');
is(value($node, 'work', qq{SELECT pids FROM jobq_explain($job) WHERE reason = 'locked'}), "{$pid}", 'the process that has locked the row is reported');
like(detail('locked', $job), qr/^its row is locked by process $pid \(the holder\), idle in transaction, in a transaction since \d/,
    'with its activity');
my $sharer = session($node, 'work');
$holder->query(qq{ROLLBACK; BEGIN; SELECT id FROM jobq.jobs WHERE id = $job FOR KEY SHARE});
$sharer->query(qq{BEGIN; SELECT id FROM jobq.jobs WHERE id = $job FOR NO KEY UPDATE});
my $other_pid = $sharer->query('SELECT pg_backend_pid()');
my $both = join ',', sort { $a <=> $b } $pid, $other_pid;
is(value($node, 'work', qq{SELECT array_to_string(array(SELECT unnest(pids) FROM jobq_explain($job) ORDER BY 1), ',')}), $both,
    'both processes are reported if two have locked the row');
is(value($node, 'work', q{SELECT string_agg(reason, ',') FROM jobq_explain_queue('long')}), 'locked', 'jobq_explain_queue reports the lock, too');
$sharer->query('ROLLBACK');
# FOR KEY SHARE, the lock of a foreign key check, does not prevent a claim.
is(reasons('work', $job), 'claimable', 'a key share lock is not reported');
value($node, 'work', q{SET statement_timeout = '60 s'; CALL jobq_wait('long', '1 hour')});
pass('and a waiting worker claims the job');
$holder->query(q{ROLLBACK; BEGIN; SELECT FROM jobq_claim('long', 'slow'); PREPARE TRANSACTION 'late claim'});
like(detail('locked', $job), qr/^its row is locked by prepared transaction "late claim"/, 'a prepared transaction that has locked the row is reported by its name');
$holder->query(q{ROLLBACK PREPARED 'late claim'});
is(reasons('work', $job), 'claimable', 'the job is claimable after ROLLBACK PREPARED');

# A session that has locked the first jobs does not hold up the jobs after them.
my $of_many = q{SELECT string_agg(reason, ',') FROM jobq_explain_queue('many')};
value($node, 'work', q{SELECT count(*) FROM jobq_enqueue_many('many', array_fill('{}'::jsonb, ARRAY[25]))});
value($node, 'work', q{CALL jobq_wait('many', '0 s')});
$holder->query(q{BEGIN; SELECT count(*) FROM (SELECT FROM jobq.jobs WHERE queue = 'many' ORDER BY id LIMIT 24 FOR UPDATE) l});
is(value($node, 'work', $of_many), 'locked,claimable', 'one job is not locked');
$holder->query(q{SELECT count(*) FROM (SELECT FROM jobq.jobs WHERE queue = 'many' FOR UPDATE) l});
is(value($node, 'work', $of_many), 'locked', 'all jobs are locked');
$holder->query('ROLLBACK');
is(value($node, 'work', "SET jobq.require_queues = on; $of_many"), 'refused', 'claims in a queue without settings are rejected');
end_sessions($holder, $sharer);

# ---- the table is locked: claims must wait, but jobq_explain does not

my $builder = session($node, 'work');
$builder->query(q{BEGIN; LOCK TABLE jobq.jobs IN SHARE MODE});
$pid = $builder->query('SELECT pg_backend_pid()');
like(value($node, 'work', q{SET lock_timeout = '60 s'; SELECT reason || ': ' || detail || pids::text FROM jobq_explain_queue('long')}),
    qr/^locked: every claim must wait: process $pid .*, holds ShareLock on jobq\.jobs.*\{$pid\}$/m, 'a lock that blocks every claim is reported');
like(detail('locked', $job), qr/every claim must wait/, 'jobq_explain reports the lock, too');

# ACCESS EXCLUSIVE blocks readers, too, so the reason must be found without reading the table.
my $impatient = q{SET statement_timeout = '60 s'; };
my $all_of = sub {
    my ($about) = @_;
    return value($node, 'work', qq{${impatient}SELECT reason || ': ' || detail || coalesce(pids::text, '') FROM $about});
};
my @about = ("jobq_explain_queue('long')", "jobq_explain($job)");
$builder->query(q{ROLLBACK; BEGIN; LOCK TABLE jobq.jobs IN ACCESS EXCLUSIVE MODE});
like($all_of->($_), qr/\Alocked: every claim must wait: process $pid .*, holds AccessExclusiveLock on jobq\.jobs.*\{$pid\}\z/,
    "a lock that blocks readers is reported: $_") for @about;
value($node, 'work', q{CREATE ROLE narrow; SELECT jobq_grant('narrow', 'operator', queues => '{long}')});
like(value($node, 'work', qq{${impatient}SET ROLE narrow; SELECT detail FROM jobq_explain($job)}), qr/every claim must wait/, 'an operator of one queue sees the lock');
$builder->query(q{ROLLBACK; BEGIN; LOCK TABLE jobq.jobs IN SHARE MODE; REINDEX INDEX jobq.jobs_pkey});
like($all_of->($_), qr/\Alocked: every claim must wait: process $pid [^;]*, holds ShareLock on jobq\.jobs\{$pid\}\z/, "REINDEX: $_")
    for @about;

# A statement that waits for an ACCESS EXCLUSIVE lock because of a reader blocks all later statements.
$builder->query(q{ROLLBACK; BEGIN; SELECT FROM jobq.jobs LIMIT 1});
my $changer = session($node, 'work');
my $changer_pid = $changer->query('SELECT pg_backend_pid()');
$changer->query_until(qr/begun/, "SET application_name = 'the changer';\nBEGIN;\n\\echo begun\nLOCK TABLE jobq.jobs;\n");
becomes_true($node, 'work', qq{SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $changer_pid AND NOT granted)}, 'a session waits for the table');
like($all_of->($_), qr/\Alocked: every claim must wait: process $changer_pid \(the changer\), active, in a transaction since [^;]*, waits for AccessExclusiveLock on jobq\.jobs, blocked by process $pid [^;]*\{$changer_pid,$pid\}\z/,
    "the waiting session and the session that blocks it are reported: $_") for @about;
$builder->query('COMMIT');
$changer->query('ROLLBACK');

# A prepared transaction has no process.
$builder->query(q{BEGIN; LOCK TABLE jobq.jobs; PREPARE TRANSACTION 'locks all'});
like($all_of->($_), qr/\Alocked: every claim must wait: prepared transaction "locks all" holds AccessExclusiveLock on jobq\.jobs\z/,
    "a prepared transaction: $_") for @about;
$builder->query(q{ROLLBACK PREPARED 'locks all'});

# The other tables that jobq_explain reads.
for my $table (qw(lane_directory queue_settings kind_settings limit_settings named_limit_settings edges steps identity))
{
    $builder->query("BEGIN; LOCK TABLE jobq.$table");
    like($all_of->($_), qr/\Alocked: the reason cannot be looked up: process $pid [^;]*, holds AccessExclusiveLock on jobq\.$table\{$pid\}\z/,
        "jobq.$table is locked: $_") for @about;
    $builder->query('ROLLBACK');
}
is(reasons('work', $job), 'claimable', 'the job is claimable after the locks are released');
end_sessions($builder, $changer);

# ---- an index is invalid: claims work without it unless a setting forbids that

value($node, 'work', q{SELECT jobq_set_limit('long', max_running => 5); UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'jobq.jobs_queue_slot_idx'::regclass});
is(reasons('work', $job), 'claimable', 'an invalid index on slots does not stop claims');
like(value($node, 'work', q{SET jobq.access = direct; SELECT reason || ': ' || detail FROM jobq_explain_queue('long')}),
    qr/^refused: every claim fails: "jobq.access" is "direct", .* index "jobq.jobs_queue_slot_idx" is invalid/m, 'claims fail if only direct access is allowed');
value($node, 'work', q{REINDEX INDEX jobq.jobs_queue_slot_idx; SELECT jobq_set_limit('long')});
is(reasons('work', $job), 'claimable', 'the index is valid again');

# ---- no token of a rate limit

value($node, 'work', q{SELECT jobq_set_limit('slow', rate => 1, per => '1 day')});
$job = value($node, 'work', q{SELECT jobq_enqueue('slow')});
value($node, 'work', q{SELECT FROM jobq_claim('slow')});
is(value($node, 'work', qq{SELECT reason || (until BETWEEN now() + interval '23 hours' AND now() + interval '24 hours') FROM jobq_explain($job)}),
    'ratetrue', 'the time of the next token is reported');
value($node, 'work', q{SELECT jobq_set_limit('slow keys', '*', rate => 1, per => '1 day'), jobq_enqueue('slow keys', concurrency_key => 'k')});
value($node, 'work', q{SELECT FROM jobq_claim('slow keys')});
is(value($node, 'work', q{SELECT string_agg(reason, ',') FROM jobq_explain_queue('slow keys')}), 'rate', 'jobq_explain_queue reports the rate limit of the keys at the head of the queue, too');

# ---- no background worker serves the database

$job = value($node, 'other', q{SELECT jobq_enqueue('later', run_at => clock_timestamp() + interval '1 ms')});
becomes_true($node, 'other', "SELECT run_at < clock_timestamp() FROM jobq.jobs WHERE id = $job", 'the job is due');
is(reasons('other', $job), 'scheduled,unserved', 'the job is due, and no worker promotes it');
is(value($node, 'other', "SELECT detail FROM jobq_explain($job) WHERE reason = 'scheduled'"), 'it is due', 'no detail promises that the job becomes claimable by itself');
value($node, 'other', 'SELECT FROM jobq_tick()');
unlike(reasons('other', $job), qr/scheduled/, 'after a tick, the job is no longer reported as scheduled');

# ---- on a standby

$job = value($node, 'work', q{SELECT jobq_enqueue('asked elsewhere')});
$node->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'copy', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby);
my $on_standby = qq{SELECT count(*) > 0 FROM jobq.jobs j, jobq_explain(j.id) UNION ALL SELECT count(*) > 0 FROM jobq_explain_queue('render')};
is(value($standby, 'work', $on_standby), "t\nt", 'both functions work on a standby');
becomes_true($standby, 'work', q{SELECT pg_postmaster_start_time() < clock_timestamp() - interval '11 s'}, 'the standby has been up for some seconds');
is(value($standby, 'work', qq{SELECT count(*) FROM jobq_explain($job) WHERE reason = 'unasked'}), '0', 'a standby does not report "unasked", because workers do not ask it for jobs');
is(value($standby, 'work', q{SELECT string_agg(reason, ',') FROM jobq_explain_queue('asked elsewhere')}), 'claimable', 'the queue is claimable on the standby');

done_testing();
