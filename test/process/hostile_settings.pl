# Tests settings of the server, the database, and the role that would break other sessions: the workers override them. A schema of
# shadowed operators and functions is first in the search path; the workers and the functions of jobq must not call them.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use Test::More;
use Time::HiRes qw(time);

my %hostile = (
    'lock_timeout' => '1ms',
    'statement_timeout' => '1ms',
    'idle_in_transaction_session_timeout' => '1ms',
    'default_transaction_read_only' => 'on',
    'default_transaction_isolation' => 'serializable',
    'default_transaction_deferrable' => 'on',
    'search_path' => 'evil, pg_catalog, public',
    'synchronous_commit' => 'remote_apply',
    'synchronous_standby_names' => 'nobody',
);
my %sane = (
    'lock_timeout' => '0',
    'statement_timeout' => '0',
    'idle_in_transaction_session_timeout' => '0',
    'default_transaction_read_only' => 'off',
    'default_transaction_isolation' => 'read\ committed',
    'default_transaction_deferrable' => 'off',
    'search_path' => 'public',
    'synchronous_commit' => 'local',
);
# The options of the sessions of this test. The workers do not get them.
my $sane_options = join ' ', map { "-c $_=$sane{$_}" } sort keys %sane;

my $node = preloaded('hostile', init => { allows_streaming => 1 }, stopped => 1);
settings($node, map { "$_ = '$hostile{$_}'" } grep { $_ ne 'search_path' } sort keys %hostile);
settings($node, "search_path = '$hostile{search_path}'");
$node->start;
$ENV{PGOPTIONS} = $sane_options;
database($node, 'besieged');

# The settings are also set for the database and the role, because a worker's connection could get them from there.
my $user = value($node, 'besieged', 'SELECT current_user');
for my $name (grep { $_ ne 'synchronous_standby_names' } sort keys %hostile)
{
    my $setting = $name eq 'search_path' ? $hostile{$name} : "'$hostile{$name}'";
    value($node, 'besieged', "ALTER DATABASE besieged SET $name = $setting");
    value($node, 'besieged', qq{ALTER ROLE "$user" SET $name = $setting});
}

# Operators and functions that the duties might call, in another schema. Each of them writes to the log and fails.
value($node, 'besieged', <<'SQL');
CREATE SCHEMA evil;
DO $do$
DECLARE
    p record;
    o record;
    types text[] := '{int2,int4,int8,text,bool,timestamptz,interval,bytea,int8[],text[],jobq.job_status}';
    t text;
    name text;
BEGIN
    -- A copy of each built-in function of these names, whatever its arguments.
    FOR p IN SELECT proname, oidvectortypes(proargtypes) AS args FROM pg_proc
             WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind = 'f' AND provariadic = 0
               AND proname IN ('clock_timestamp', 'now', 'unnest', 'octet_length', 'isfinite', 'format', 'length',
                               'justify_hours', 'make_interval', 'random', 'hashtext', 'array_length', 'cardinality',
                               'jsonb_typeof', 'pg_sleep', 'quote_ident', 'text', 'timestamptz', 'int8', 'int4')
               AND 'internal'::regtype <> ALL (proargtypes)
    LOOP
        EXECUTE format('CREATE FUNCTION evil.%I(%s) RETURNS %s LANGUAGE plpgsql AS
            $f$ BEGIN RAISE LOG ''evil function %s was called''; RAISE EXCEPTION ''evil''; END $f$',
            p.proname, p.args, CASE WHEN p.args ~ 'any' THEN 'anyelement' ELSE 'int4' END, p.proname);
    END LOOP;
    FOREACH t IN ARRAY types LOOP
        FOREACH name IN ARRAY '{=,<>,<,<=,>,>=,+,-,*,||}'::text[] LOOP
            EXECUTE format('CREATE FUNCTION evil.%I(%s, %2$s) RETURNS bool LANGUAGE plpgsql AS
                $f$ BEGIN RAISE LOG ''evil operator %3$s was called''; RAISE EXCEPTION ''evil''; END $f$',
                'op' || md5(name), t, name);
            EXECUTE format('CREATE OPERATOR evil.%s (LEFTARG = %s, RIGHTARG = %2$s, FUNCTION = evil.%I)',
                name, t, 'op' || md5(name));
        END LOOP;
    END LOOP;
    CREATE FUNCTION evil.shift(timestamptz, interval) RETURNS timestamptz LANGUAGE plpgsql AS
        $f$ BEGIN RAISE LOG 'evil operator shift was called'; RAISE EXCEPTION 'evil'; END $f$;
    CREATE OPERATOR evil.+ (LEFTARG = timestamptz, RIGHTARG = interval, FUNCTION = evil.shift);
    CREATE OPERATOR evil.- (LEFTARG = timestamptz, RIGHTARG = interval, FUNCTION = evil.shift);
END $do$;
CREATE TABLE evil.jobs (trap int);
SQL

my ($out, $err) = run_sql($node, 'besieged',
    qq{SET search_path = $hostile{search_path}; SELECT 1 = 1});
like($err, qr/evil/, 'an unqualified comparison calls the shadowed operator');
like(log_since($node), qr/evil operator = was called/, 'the call is logged');
my $position = log_size($node);

# A session without options, like a worker when it connects.
{
    local $ENV{PGOPTIONS} = '-c synchronous_commit=local';
    # SHOW could take longer than a millisecond, too.
    ($out, $err) = run_sql($node, 'postgres', q{SELECT pg_sleep(20)});
    # If the timeout ends before the server has parsed the statement, the server calls it a user request. Nobody else
    # cancels the statement.
    like($err, qr/canceling statement due to (statement timeout|user request)/,
        'a session without options has the hostile settings');
}
$node->restart;

# ---- all duties

value($node, 'besieged', q{SELECT jobq_create_queue('q', heartbeat_timeout => '1 s', keep_completed => '100 ms')});
value($node, 'besieged', q{SELECT jobq_enqueue('q', kind => 'lost'), jobq_enqueue('q', kind => 'done')});
value($node, 'besieged', q{SELECT jobq_enqueue('later', run_at => clock_timestamp() + interval '100 ms')});
value($node, 'besieged', q{SELECT jobq_complete(id, lease) FROM jobq_claim('q', kinds => '{done}')});
value($node, 'besieged', q{SELECT id FROM jobq_claim('q', 'silent')});
value($node, 'besieged', q{
    SET session_replication_role = replica;
    INSERT INTO jobq.jobs (queue, kind, run_at, _ready, status, max_attempts, _lane)
    VALUES ('applied', 'x', now(), true, 'pending', 1, jobq.lane_of('applied', 'x', 0, NULL))});

becomes_true($node, 'besieged', q{SELECT status = 'pending' FROM jobq.jobs WHERE queue = 'later'}, 'promotion');
becomes_true($node, 'besieged', q{SELECT status = 'pending' AND lost_attempts = 1 FROM jobq.jobs WHERE kind = 'lost'}, 'rescue');
becomes_true($node, 'besieged', q{SELECT NOT EXISTS (SELECT FROM jobq.jobs WHERE kind = 'done')}, 'prune');
becomes_true($node, 'besieged', q{SELECT EXISTS (SELECT FROM jobq.lane_directory WHERE queue = 'applied')}, 'repair');

# ---- the settings become hostile while the worker runs

settings($node, "lock_timeout = '2ms'", "statement_timeout = '2ms'", "default_transaction_isolation = 'repeatable read'");
$node->reload;
value($node, 'besieged', q{SELECT jobq_enqueue('later', run_at => clock_timestamp() + interval '100 ms')});
becomes_true($node, 'besieged', q{SELECT NOT EXISTS (SELECT FROM jobq.jobs WHERE status = 'scheduled')},
    'jobs are promoted after the reload');

# ---- a worker waits for a lock that is held for longer than the server's lock_timeout

# On a slow machine a worker may exceed its own lock_timeout, so one round without an error suffices. With the lock_timeout of the
# server, 2 ms, every round would have an error.
my ($waited, $error) = (0, '');
for (1 .. 10)
{
    my $from = value($node, 'besieged', 'SELECT clock_timestamp()');
    my $holder = session($node, 'besieged');
    $holder->query('BEGIN; LOCK TABLE jobq.jobs IN ACCESS EXCLUSIVE MODE');
    seconds_until(
        sub {
            $waited = value($node, 'postgres', q{
                SELECT coalesce(max(1000 * extract(epoch FROM clock_timestamp() - l.waitstart)), 0)
                FROM pg_locks l JOIN pg_stat_activity a USING (pid)
                WHERE a.backend_type = 'jobq worker' AND NOT l.granted AND l.waitstart IS NOT NULL});
            return $waited > 20;
        });
    $holder->query('COMMIT');
    $holder->quit;
    $error = value($node, 'besieged', "SELECT last_error FROM jobq.background_workers WHERE database = 'besieged' AND last_error_at > '$from'");
    last if $waited > 20 && $error eq '';
}
cmp_ok($waited, '>', 20, 'a worker waits for the lock of a client');
is($error, '', 'for longer than lock_timeout, without an error');

# ---- the workers called nothing in the schema evil

value($node, 'besieged', q{SELECT jobq_enqueue('later', run_at => clock_timestamp() + interval '50 ms')});
becomes_true($node, 'besieged', q{SELECT NOT EXISTS (SELECT FROM jobq.jobs WHERE status = 'scheduled')}, 'the duties continue');
my $log = log_since($node, $position);
unlike($log, qr/evil (?:function|operator) \S+ was called/, 'no function or operator in the schema evil was called');
unlike($log, qr/jobq worker for.*(?:ERROR|FATAL)|CONTEXT:  jobq worker/, 'the worker reported no error');

# ---- the functions of jobq call nothing in it either, whatever the search path of the caller

my $calls = qq{
    SET search_path = $hostile{search_path};
    SELECT public.jobq_enqueue('e');
    SELECT id FROM public.jobq_claim('e', 'w');
    SELECT public.jobq_enqueue('e', run_at => 'tomorrow');
    SELECT * FROM public.jobq_heartbeat_worker('w');
    SELECT * FROM public.jobq_claim_any(ARRAY['e', 'f']);
    SELECT public.jobq_create_queue('e', max_attempts => 2);
    SELECT public.jobq_pause_queue('e');
    SELECT public.jobq_cancel_jobs('e');
    SELECT * FROM public.jobq_tick();
    SELECT * FROM jobq.queues;
    SELECT * FROM jobq.queue_stats;
    SELECT * FROM jobq.background_workers;
    SELECT public.jobq_drop_queue('e', force => true);
    INSERT INTO jobq.jobs (queue) VALUES ('plain')};
($out, $err) = run_sql($node, 'besieged', $calls);
is($err, '', 'calls with a hostile search path succeed');
unlike(log_since($node, $position), qr/evil (?:function|operator) \S+ was called/, 'and call nothing in the schema evil');

done_testing();
