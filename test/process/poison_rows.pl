# Tests that no row that SQL can write stops a duty for other jobs. Each column of jobq.jobs in turn gets the extreme values of its
# type, in jobs of every status, with INSERT, COPY, and UPDATE, as the owner and as a role with privileges on the table, in replica
# role, and with triggers disabled. The row is either rejected with an error that names the reason or accepted. Afterward, with a
# live worker, other jobs are rescued, promoted, unblocked, cancelled, pruned, repaired, and counted, jobq_tick() succeeds, all
# views can be read, and claims of all queues work.
#
# JOBQ_POISON_WAYS='insert,replica update' selects ways.
use strict;
use warnings FATAL => 'all';

BEGIN { $ENV{PG_TEST_TIMEOUT_DEFAULT} //= 60; }

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = preloaded('poison', conf => [ 'autovacuum = off', "jobq.cancel_grace = '500ms'", 'jobq.tick_interval = 200ms' ]);
my $file = PostgreSQL::Test::Utils::tempdir . '/row';

my $schema = <<'SQL';
CREATE TABLE refused (way text, status text, col text, value text, state text, message text);
GRANT INSERT ON refused TO PUBLIC;
-- What each type can hold at most, and what makes no sense in it.
CREATE FUNCTION extremes(type text) RETURNS SETOF text LANGUAGE sql STABLE AS $$
    SELECT unnest(CASE type
        WHEN 'bigint' THEN '{-9223372036854775808,9223372036854775807,0,-1}'
        WHEN 'integer' THEN '{-2147483648,2147483647,0,-1}'
        WHEN 'smallint' THEN '{-32768,32767}'
        WHEN 'boolean' THEN '{f,t}'
        WHEN 'xid8' THEN '{0,18446744073709551615}'
        WHEN 'jsonb' THEN '{null,[],"\"x\""}'
        WHEN 'text[]' THEN array_to_string(ARRAY['{"{{a},{b}}"', '"{NULL}"', '"{\"\"}"', '"[-5:-4]={a,b}"}'], ',')
        WHEN 'interval' THEN '{-178000000 years,178000000 years,"-2147483648 months -2147483648 days -2562047788 hours",0,-1 day,1 microsecond}'
        WHEN 'timestamp with time zone' THEN '{infinity,-infinity,294276-12-31 23:59:59.999999+00,4714-11-24 00:00:00+00 BC}'
        WHEN 'jobq.job_status' THEN enum_range(NULL::jobq.job_status)::text
        ELSE '{"",*,ü}' END::text[])
    UNION ALL SELECT NULL
    UNION ALL SELECT string_agg(md5(n::text), '') FROM generate_series(1, 400) n WHERE type = 'text'
    UNION ALL SELECT array_agg(md5(n::text))::text FROM generate_series(1, 400) n WHERE type = 'text[]' $$;
-- Of a job as jobq would have written it: columns and values.
CREATE FUNCTION good(status text, behind boolean, OUT cols text[], OUT vals text[]) LANGUAGE plpgsql AS $$
DECLARE
    now text := clock_timestamp();
BEGIN
    cols := '{queue,status,run_at,max_attempts,_lane,concurrency_key}';
    vals := ARRAY['poison', status, now, '5', jobq.lane_of('poison', '', 0, NULL)::text, 'k'];
    IF NOT behind THEN RETURN; END IF;
    IF status = 'processing' THEN
        cols := cols || '{lease,worker_id,started_at,last_heartbeat,_lease_timeout,attempts}';
        vals := vals || ARRAY[(random() * 1e12)::bigint::text, 'w', now, now, '100 ms', '1'];
        IF random() < 0.5 THEN cols := cols || '_rescue_indexed'::text; vals := vals || 't'::text; END IF;
    ELSIF status = 'pending' THEN cols := cols || '_ready'::text; vals := vals || 't'::text;
    ELSIF status = 'scheduled' THEN cols := cols || '_due'::text; vals := vals || 't'::text;
    ELSIF status <> 'blocked' THEN cols := cols || 'finished_at'::text; vals := vals || now;
    END IF;
END $$;
CREATE FUNCTION insert_row(how text, cols text[], vals text[], file text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    names text;
    list text;
BEGIN
    SELECT string_agg(quote_ident(c), ', '), string_agg(quote_nullable(v), ', ') INTO names, list FROM unnest(cols, vals) u(c, v);
    IF how = 'copy' THEN
        EXECUTE format('COPY (SELECT %s) TO %L', list, file);
        EXECUTE format('COPY jobq.jobs (%s) FROM %L', names, file);
    ELSE
        EXECUTE format('INSERT INTO jobq.jobs (%s) VALUES (%s)', names, list);
    END IF;
END $$;
CREATE PROCEDURE poison(way text, how text, behind boolean, file text) LANGUAGE plpgsql AS $$
DECLARE
    p record;
    g record;
    at int;
    new bigint;
    nothing text;
BEGIN
    FOR p IN SELECT a.attname::text AS col, x.value, s.status
             FROM pg_attribute a, LATERAL extremes(format_type(a.atttypid, NULL)) x(value), unnest(enum_range(NULL::jobq.job_status)::text[]) s(status)
             WHERE a.attrelid = 'jobq.jobs'::regclass AND a.attnum > 0 ORDER BY a.attnum, 2, 3 LOOP
        BEGIN
            g := good(p.status, behind);
            IF how = 'update' THEN
                SELECT insert_row('insert', b.cols, b.vals, NULL), currval('jobq.jobs_id_seq') FROM good('pending', behind) b INTO nothing, new;
                EXECUTE format('UPDATE jobq.jobs SET (%s) = ROW(%s) WHERE id = %s',
                               (SELECT string_agg(quote_ident(c), ', ') FROM unnest(g.cols) c), (SELECT string_agg(quote_nullable(v), ', ') FROM unnest(g.vals) v), new);
                EXECUTE format('UPDATE jobq.jobs SET %I = %L WHERE id = %s', p.col, p.value, new);
            ELSE
                at := array_position(g.cols, p.col);
                IF at IS NULL THEN g.cols := g.cols || p.col; g.vals := g.vals || ARRAY[p.value]; ELSE g.vals[at] := p.value; END IF;
                PERFORM insert_row(how, g.cols, g.vals, file);
            END IF;
        EXCEPTION WHEN OTHERS THEN
            INSERT INTO refused VALUES (way, p.status, p.col, left(p.value, 40), SQLSTATE, SQLERRM);
        END;
    END LOOP;
END $$;
SQL

# Creates jobs that each need one of the duties; %served has the expected result of each duty.
my $needy = <<'SQL';
SELECT jobq_create_queue('ok', heartbeat_timeout => '100 ms', max_lost => 1000), jobq_create_queue('short', keep_completed => '1 ms');
SELECT jobq_enqueue('ok', kind => 'rescue'), jobq_enqueue('ok', kind => 'cancel'), jobq_enqueue('ok', kind => 'first', group_key => 'g'), jobq_enqueue('ok', kind => 'second', group_key => 'g');
SELECT id FROM jobq_claim('ok', 'lost', kinds => '{rescue}');
SELECT jobq_cancel(id) FROM jobq_claim('ok', 'deaf', kinds => '{cancel}', heartbeat_timeout => '1 day');
SELECT jobq_enqueue('ok', kind => 'promote', run_at => clock_timestamp() + interval '100 ms');
SELECT jobq_enqueue('ok', kind => 'unblock', depends_on => ARRAY[jobq_enqueue('short')]);
SELECT jobq_complete(id, lease) FROM jobq_claim('short');
SELECT jobq_enqueue('short', kind => 'prune');
SELECT jobq_complete(id, lease) FROM jobq_claim('short', kinds => '{prune}');
BEGIN;
SET LOCAL session_replication_role = replica;
INSERT INTO jobq.jobs (queue, kind, run_at, _ready, max_attempts, status, _lane) VALUES ('lanes', 'repair', now(), true, 3, 'pending', jobq.lane_of('lanes', 'repair', 0, NULL));
COMMIT;
SQL
my %served = (
    rescue => q{EXISTS (SELECT FROM jobq.attempts WHERE worker_id = 'lost' AND outcome = 'lost')},
    cancel => q{EXISTS (SELECT FROM jobq.jobs WHERE queue = 'ok' AND kind = 'cancel' AND status = 'cancelled')},
    promote => q{EXISTS (SELECT FROM jobq.jobs WHERE queue = 'ok' AND kind = 'promote' AND status = 'pending')},
    'unblock a dependent' => q{EXISTS (SELECT FROM jobq.jobs WHERE queue = 'ok' AND kind = 'unblock' AND status = 'pending')},
    'unblock a group' => q{EXISTS (SELECT FROM jobq.jobs WHERE queue = 'ok' AND kind = 'first' AND status = 'pending')},
    prune => q{NOT EXISTS (SELECT FROM jobq.jobs WHERE queue = 'short' AND kind = 'prune')},
    repair => q{EXISTS (SELECT FROM jobq.lane_directory WHERE queue = 'lanes' AND kind = 'repair')},
    count => q{(SELECT pending = (SELECT count(*) FROM jobq.jobs WHERE queue = 'ok' AND status = 'pending') FROM jobq.queue_stats WHERE queue = 'ok')});

sub judge
{
    my ($database, $way) = @_;
    my @read;
    value($node, $database, $needy);
    becomes_true($node, $database, "SELECT $served{$_}", "$way: $_") for sort keys %served;
    for my $sql ('jobq_tick()', (map { "jobq_tick(clock_timestamp() + interval '$_')" } '1 hour', '1000 days'),
        (map { "jobq.$_" } qw(queues queue_stats lanes workers limits)), '(SELECT id FROM jobq.jobs) j, jobq_log(j.id)')
    {
        push @read, "SELECT count(*) FROM (SELECT * FROM $sql OFFSET 0) r;";
    }
    my (undef, $failed, $all) = run_sql($node, $database, join "\n", @read);
    ok($all, "$way: jobq_tick() succeeds, now and later, and all views can be read") or diag($failed);
    is(value($node, $database, q{SELECT count(*) FROM jobq_claim('ok', kinds => '{promote,first,unblock}', batch => 10)}), '3', "$way: claims of other queues work");
    my ($out, $err, $ok) = run_sql($node, $database, q{SELECT count(*) FROM jobq_claim('poison', batch => 10000)});
    ok($ok, "$way: claims of the poisoned queue, too") or diag($err);
    # Jobs that cannot be changed are left out of their batch and named, which is not a failure of the duty.
    my $error = value($node, $database, q{SELECT last_error FROM jobq.background_workers WHERE database = current_database()});
    ok($error eq '' || $error =~ /^\w+: job -?\d+: /, "$way: no duty failed") or diag($error);
    return;
}

my $behind = 'SET session_replication_role = replica;';
my ($off, $on) = map { "ALTER TABLE jobq.jobs $_ TRIGGER USER;" } qw(DISABLE ENABLE);
my @ways = (
    [ 'insert', q{CALL poison('insert', 'insert', false, NULL)} ],
    [ 'copy', qq{CALL poison('copy', 'copy', false, '$file')} ],
    [ 'update', q{CALL poison('update', 'update', false, NULL)} ],
    [ 'granted insert', q{SET ROLE granted; CALL poison('granted insert', 'insert', false, NULL)} ],
    [ 'granted update', q{SET ROLE granted; CALL poison('granted update', 'update', false, NULL)} ],
    [ 'replica insert', qq{$behind CALL poison('replica insert', 'insert', true, NULL)} ],
    [ 'replica update', qq{$behind CALL poison('replica update', 'update', true, NULL)} ],
    [ 'disabled', qq{$off CALL poison('disabled', 'insert', true, NULL); $on} ]);
my %wanted = map { $_ => 1 } split /,/, $ENV{JOBQ_POISON_WAYS} // join ',', map { $_->[0] } @ways;
value($node, 'postgres', 'CREATE ROLE granted');
for my $each (grep { $wanted{ $_->[0] } } @ways)
{
    my ($way, $sql) = @$each;
    my $database = $way =~ s/ /_/r;
    database($node, $database);
    value($node, $database, $schema . 'GRANT USAGE ON SCHEMA jobq TO granted; GRANT INSERT, UPDATE, SELECT ON jobq.jobs TO granted; GRANT USAGE ON SEQUENCE jobq.jobs_id_seq TO granted; GRANT EXECUTE ON FUNCTION jobq.lane_of TO granted');
    value($node, $database, $sql);
    my $tried = value($node, $database, q{SELECT (SELECT count(*) FROM jobq.jobs) + (SELECT count(*) FROM refused)});
    cmp_ok($tried, '>=', 1000, "$way: at least 1,000 rows were tried");
    my $refused = value($node, $database, 'SELECT count(*) FROM refused');
    cmp_ok($refused, '<', $tried / 2, "$way: most rows are accepted");
    diag("$way: $tried rows tried, $refused refused");
    is(value($node, $database, q{SELECT DISTINCT state, col, left(message, 120) FROM refused WHERE state !~ '^(22|23|42|54|55)'}), '', "$way: rows are rejected with a specific SQLSTATE");
    judge($database, $way);
}
unlike(log_since($node), qr/(?:PANIC|TRAP|terminated by signal|XX000|cache lookup failed)/, 'no crash, no internal error');
done_testing();
