# Tests handlers that try to harm their executor, their role, or their job. The next job, the next role, and the other handlers must
# not be affected.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = preloaded('main', conf => [ 'max_worker_processes = 16', 'jobq.max_executors = 8', 'jobq.superuser_handlers = on', 'jobq.max_payload = 255MB' ]);
database($node, 'work');
value($node, 'work', <<'SQL');
CREATE ROLE timed LOGIN; CREATE ROLE dropped LOGIN; CREATE ROLE swaps LOGIN; CREATE ROLE bob LOGIN; CREATE ROLE root LOGIN SUPERUSER;
CREATE ROLE poisoned LOGIN; CREATE ROLE beats LOGIN;
CREATE TABLE effects (job bigint, who text);
CREATE TABLE may_end (); CREATE TABLE may_become ();
GRANT ALL ON effects, may_end, may_become TO PUBLIC;
CREATE FUNCTION effect(job jsonb) RETURNS void LANGUAGE plpgsql AS $$ BEGIN INSERT INTO effects VALUES ((job->>'id')::bigint, current_user); END $$;
SELECT jobq_create_queue('work', max_attempts => 1000, backoff_base => '10 ms', backoff_max => '20 ms');
SQL

sub handler
{
    my ($kind, $role, $body, $settings) = @_;
    my $name = $body =~ /^\w+$/ ? $body : "does_$kind";
    value($node, 'work', "CREATE FUNCTION $name(job jsonb) RETURNS void LANGUAGE plpgsql AS \$\$ BEGIN $body END \$\$") unless $body =~ /^\w+$/;
    return value($node, 'work', "SELECT jobq_set_handler('work', '$kind', '$name(jsonb)', '$role'" . ($settings ? ", settings => '$settings')" : ')'));
}
sub enqueue { my ($kind, $more) = @_; return value($node, 'work', "SELECT jobq_enqueue('work', kind => '$kind'" . ($more ? ", $more)" : ')')); }
sub becomes
{
    my ($id, $condition, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return becomes_true($node, 'work', "SELECT $condition FROM jobq.jobs WHERE id = $id", $name) < 1e8
      || diag(value($node, 'work', "SELECT status, attempts, left(error, 500) FROM jobq.jobs WHERE id = $id"));
}
sub effects { my ($id) = @_; return value($node, 'work', "SELECT string_agg(who, ' ') FROM effects WHERE job = $id"); }

# ---- a statement_timeout that a handler switches off does not interrupt the next job

value($node, 'work', q{SELECT jobq_grant('timed', 'producer')});
handler('untimes', 'timed', q{PERFORM set_config('statement_timeout', '0', false), jobq_enqueue('work', kind => 'long');}, '{statement_timeout=1s}');
handler('long', 'timed', 'PERFORM effect(job), pg_sleep(2);');
my $first = enqueue('untimes');
becomes($first, q{status = 'completed'}, 'a handler switches off its statement_timeout');
becomes_true($node, 'work', q{SELECT status = 'completed' FROM jobq.jobs WHERE kind = 'long'}, 'the next job takes longer than the timeout');
is(value($node, 'work', q{SELECT attempts FROM jobq.jobs WHERE kind = 'long'}), '1', 'the next job is not interrupted');

# ---- a role is dropped while its job runs

handler('till', 'dropped', 'PERFORM effect(job); WHILE NOT EXISTS (SELECT FROM may_end) LOOP PERFORM pg_sleep(0.02); END LOOP;');
my $last = enqueue('till');
becomes($last, q{status = 'processing'}, 'the job is running');
my $behind = enqueue('till');
value($node, 'work', 'DROP ROLE dropped; INSERT INTO may_end DEFAULT VALUES');
becomes($last, q{status = 'completed' AND attempts = 1}, 'the job completes although its role was dropped');
is(effects($last), 'dropped', 'its effect occurred once');
becomes_true($node, 'work', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'jobq executor' AND query LIKE '%does_till%'}, 'the executor exits');
is(value($node, 'work', "SELECT status, attempts FROM jobq.jobs WHERE id = $behind"), 'pending|0', 'the next job of the role waits');

# ---- the role as which a handler runs

value($node, 'work', q{GRANT bob TO swaps; ALTER ROLE swaps SET role = 'bob'});
handler('who', 'swaps', 'effect');
is(effects($_), 'swaps', 'a role set with ALTER ROLE ... SET role is ignored') for map { my $id = enqueue('who'); becomes($id, q{status = 'completed'}, 'a job'); $id } 1, 2;
# The handler of a superuser becomes another role. The handlers of that role must still run as that role and not in this executor.
handler('bobs', 'bob', 'effect');
value($node, 'work', q{SELECT jobq_grant('bob', 'producer')});
handler('becomes', 'root', q{PERFORM jobq_enqueue('work', kind => 'bobs') FROM generate_series(1, 50); EXECUTE 'SET SESSION AUTHORIZATION bob';
    WHILE NOT EXISTS (SELECT FROM may_become) LOOP PERFORM pg_sleep(0.02); END LOOP;});
my $becomes = enqueue('becomes');
becomes($becomes, q{status = 'processing'}, 'a handler of a superuser becomes another role');
# The changed function makes the executor look up the handlers again.
value($node, 'work', 'ALTER FUNCTION effect(jsonb) COST 99');
value($node, 'work', 'INSERT INTO may_become DEFAULT VALUES');
becomes($becomes, q{status = 'completed'}, 'the handler returns');
becomes_true($node, 'work', q{SELECT count(*) = 50 FROM jobq.jobs WHERE kind = 'bobs' AND status = 'completed'}, 'the jobs of the other role are done');
is(value($node, 'work', q{SELECT DISTINCT who FROM effects e JOIN jobq.jobs j ON j.id = e.job WHERE j.kind = 'bobs'}), 'bob', 'the jobs of the other role ran as that role');

# ---- a job that cannot be claimed

value($node, 'work', <<'SQL');
CREATE TABLE poison AS SELECT 0::bigint AS job;
GRANT ALL ON poison TO PUBLIC;
CREATE FUNCTION poisons() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NEW.status = 'processing' AND OLD.status <> 'processing' AND EXISTS (SELECT FROM public.poison p WHERE p.job = NEW.id) THEN RAISE 'poison'; END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER poisons BEFORE UPDATE ON jobq.jobs FOR EACH ROW EXECUTE FUNCTION poisons();
CREATE PROCEDURE pieces(job jsonb) LANGUAGE plpgsql AS $$ BEGIN PERFORM effect(job); COMMIT; PERFORM effect(job); END $$;
SELECT jobq_set_handler('work', 'pieces', 'pieces(jsonb)', 'poisoned');
SQL
handler('well', 'poisoned', 'effect');
my ($pieces, $poison) = split /\|/, value($node, 'work', <<'SQL');
WITH one AS MATERIALIZED (SELECT jobq_enqueue('work', kind => 'pieces') AS id),
     two AS MATERIALIZED (SELECT jobq_enqueue('work', kind => 'pieces') AS id FROM one),
     put AS (INSERT INTO poison SELECT id FROM two RETURNING job)
SELECT one.id, put.job FROM one, put
SQL
becomes($pieces, q{status = 'completed' AND attempts = 1}, 'a procedure completes although the next job cannot be claimed');
is(effects($pieces), 'poisoned poisoned', 'each part that the procedure committed took effect once');
for (1 .. 3)
{
    my $well = enqueue('well');
    becomes($well, q{status = 'completed'}, 'the other handler of the role continues');
}
is(value($node, 'work', "SELECT status, attempts FROM jobq.jobs WHERE id = $poison"), 'pending|0', 'the job that cannot be claimed waits');
value($node, 'work', 'DROP TRIGGER poisons ON jobq.jobs');
becomes($poison, q{status = 'completed'}, 'the job runs when it can be claimed');
# The argument for this job would exceed the maximum size of jsonb. The job fails and does not block others.
my $huge = value($node, 'work', q{SELECT jobq_enqueue('work', to_jsonb(repeat('x', 135000000)), kind => 'well', max_attempts => 1, metadata => to_jsonb(ARRAY[repeat('y', 135000000)]))});
becomes($huge, q{status = 'failed' AND error LIKE '54000: %'}, 'a job whose argument is too large fails');
my $well = enqueue('well');
becomes($well, q{status = 'completed'}, 'the next job completes');

# ---- a handler that has locked its own job

handler('beats', 'beats', q{PERFORM jobq_heartbeat((job->>'id')::bigint, (job->>'lease')::bigint, '{"percent": 50}'); PERFORM pg_sleep(600);});
value($node, 'work', q{SELECT jobq_grant('beats', 'worker')});
my $beats = enqueue('beats', q{options => '{"max_runtime": "100 ms"}'});
becomes($beats, q{attempts >= 2 AND error LIKE 'ran longer than max_runtime%'}, 'max_runtime also ends a handler that has sent a heartbeat for its own job');
# Whether the handler reacts to the interrupt or its executor is terminated, the queue's on_max_runtime decides about the job.
settings($node, q{jobq.cancel_grace = '1s'});
$node->reload;
handler('beats_on', 'beats', q{PERFORM jobq_heartbeat((job->>'id')::bigint, (job->>'lease')::bigint);
    LOOP BEGIN PERFORM pg_sleep(600); EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP;});
handler('rephrases', 'beats', q{BEGIN PERFORM pg_sleep(600); EXCEPTION WHEN query_canceled THEN RAISE EXCEPTION 'an error of its own'; END;});
value($node, 'work', q{SELECT jobq_alter_queue('work', on_max_runtime => 'cancel')});
for my $id ($beats, map { enqueue($_, q{options => '{"max_runtime": "100 ms"}'}) } 'beats_on', 'rephrases')
{
    becomes($id, q{status = 'cancelled' AND lost_attempts = 0 AND error LIKE 'ran longer than max_runtime%'}, 'the job is cancelled if on_max_runtime is "cancel"');
}
value($node, 'work', q{SELECT jobq_drop_handler('work', k), jobq_drop_handler('work', 'beats') FROM unnest('{beats_on,rephrases}'::text[]) k; SELECT jobq_alter_queue('work', on_max_runtime => 'fail')});

# A job whose process ended before max_runtime is lost and has not overrun, even if this could be recorded only later.
handler('lost', 'beats', 'PERFORM pg_sleep(600);');
my $lost = enqueue('lost', q{options => '{"max_runtime": "5 s"}', max_attempts => 1});
my $of_lost = "backend_type = 'jobq executor' AND query LIKE '%job $lost of%'";
my $holder = session($node, 'work');
becomes_true($node, 'work', "SELECT count(*) = 1 FROM pg_stat_activity WHERE $of_lost", 'the handler sleeps');
$holder->query("BEGIN; SELECT FROM jobq.jobs WHERE id = $lost FOR UPDATE");
value($node, 'work', "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE $of_lost");
becomes($lost, '_must_end_at < clock_timestamp()', 'its process was terminated, and max_runtime has passed since');
end_sessions($holder);
becomes($lost, q{status = 'failed' AND lost_attempts = 1 AND error LIKE 'the process that ran its handler has ended%'}, 'the job is recorded as lost');
value($node, 'work', q{SELECT jobq_drop_handler('work', 'lost')});

# ---- a handler that fails after it has ended its job

value($node, 'work', <<'SQL');
CREATE PROCEDURE too_late(job jsonb) LANGUAGE plpgsql AS $$
BEGIN PERFORM jobq_complete((job->>'id')::bigint, (job->>'lease')::bigint); COMMIT; RAISE 'after its end'; END $$;
SELECT jobq_set_handler('work', 'late', 'too_late(jsonb)', 'beats');
SQL
my $late = enqueue('late');
becomes($late, q{status = 'completed'}, 'a procedure completes its job, commits, and fails');
ok($node->wait_for_log("handler of job $late failed after its lease was lost: .*after its end", 0), 'the log has the error');

# ---- procedures that change the mode of their transactions

value($node, 'work', <<'SQL');
CREATE PROCEDURE repeats(job jsonb) LANGUAGE plpgsql AS $$
BEGIN
    COMMIT; SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
    PERFORM count(*) FROM pg_class; PERFORM pg_sleep(3);
END $$;
CREATE PROCEDURE reads_only(job jsonb) LANGUAGE plpgsql AS $$ BEGIN SET default_transaction_read_only = on; COMMIT; END $$;
CREATE PROCEDURE reads_and_fails(job jsonb) LANGUAGE plpgsql AS $$
BEGIN
    SET default_transaction_read_only = on; SET jobq.access = 'direct'; COMMIT;
    RAISE 'the reason';
END $$;
SELECT jobq_set_handler('work', k, (k || '(jsonb)')::regprocedure, 'beats') FROM unnest('{repeats,reads_only,reads_and_fails}'::text[]) k;
SQL
my $repeats = enqueue('repeats');
becomes($repeats, q{status = 'completed' AND attempts = 1}, 'REPEATABLE READ for longer than a lease is young: no other session has updated the job in the meantime');
value($node, 'work', q{CREATE FUNCTION passes() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'});
for my $way ('directly', 'by SQL')
{
    value($node, 'work', q{CREATE TRIGGER passes BEFORE UPDATE ON jobq.jobs FOR EACH ROW EXECUTE FUNCTION passes()}) if $way eq 'by SQL';
    my $reads = enqueue('reads_only');
    becomes($reads, q{status = 'completed' AND attempts = 1}, "$way: a procedure that is read-only from its second transaction on completes");
    my $fails = enqueue('reads_and_fails', 'max_attempts => 1');
    becomes($fails, q{status = 'failed' AND lost_attempts = 0 AND error LIKE '%the reason%'}, "$way: the settings of a failed procedure do not hide its error");
}
value($node, 'work', q{DROP TRIGGER passes ON jobq.jobs});

# ---- the extension is dropped, and the owner of the database creates a schema of its name

value($node, 'postgres', 'CREATE ROLE landlord LOGIN');
database($node, 'let', owner => 'landlord');
value($node, 'let', <<'SQL');
CREATE TABLE ran (who text);
GRANT ALL ON ran TO PUBLIC;
CREATE FUNCTION idles(job jsonb) RETURNS void LANGUAGE plpgsql AS $$ BEGIN END $$;
CREATE FUNCTION spies() RETURNS text LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.ran VALUES (session_user); RETURN ''; END $$;
SELECT jobq_set_handler('work', '', 'idles(jsonb)', 'timed'), jobq_enqueue('work');
SQL
becomes_true($node, 'let', q{SELECT status = 'completed' FROM jobq.jobs}, 'an executor waits for the next job');
value($node, 'let', <<'SQL');
BEGIN;
DROP EXTENSION jobq;
SET LOCAL ROLE landlord;
CREATE SCHEMA jobq;
CREATE TABLE jobq.jobs ();
CREATE VIEW jobq.handler_settings AS
    SELECT 'work' AS queue, '' AS kind, 'public.idles' AS handler, r.run_as, 1 AS max_executors, NULL::integer[] AS versions,
           NULL::text[] AS capabilities, NULL::text[] AS settings
    FROM (VALUES ('timed')) r(run_as) WHERE public.spies() IS NULL;
COMMIT;
SQL
becomes_true($node, 'postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'jobq executor' AND datname = 'let'}, 'the executor exits');
is(value($node, 'let', 'SELECT count(*) FROM ran'), '0', 'the executor executes nothing in the new schema');

is(count_in_log($node, 'TRAP|PANIC|was terminated by signal', 0), 0, 'no process crashed');
$node->stop('fast');
done_testing();
