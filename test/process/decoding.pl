# Tests logical decoding of a busy queue with test_decoding and wal2json: the decoded changes add up to the tables, and they contain
# each committed job exactly once and no other job. Wide payloads are stored in the TOAST table; later changes of their jobs do not
# repeat them.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use IPC::Run qw(start);
use JobqTest;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $node = preloaded('decoding', init => { allows_streaming => 'logical' }, conf => [ 'max_prepared_transactions = 20', 'jobq.tick_interval = 100ms' ]);
database($node, 'work');
my %tables = ('jobq.jobs' => ['id'], 'jobq.attempts' => [qw(job_id lease)]);

my %plugins = (test_decoding => { options => q{'skip-empty-xacts', 'on', 'include-xids', 'off'}, read => \&read_test_decoding });
my $libraries = `pg_config --pkglibdir`;
chomp $libraries;
if (-e "$libraries/wal2json.so")
{
    $plugins{wal2json} = { options => q{'format-version', '2', 'include-types', 'off', 'include-transaction', 'off', 'add-tables', 'jobq.jobs,jobq.attempts'}, read => \&read_wal2json };
}
else { diag('not installed, left out: wal2json'); }
# Servers of August 2026 and later load only output plugins that are listed in this setting.
if (value($node, 'work', q{SELECT count(*) FROM pg_settings WHERE name = 'output_plugin_libraries'}) eq '1')
{
    settings($node, 'output_plugin_libraries = ' . q{'} . join(', ', keys %plugins) . q{'});
    $node->restart;
}
value($node, 'work', "SELECT pg_create_logical_replication_slot('$_', '$_')") for sort keys %plugins;

# ---- a busy queue: calls of every kind, transactions that are rolled back partly or entirely, prepared transactions

value($node, 'work', q{
    SELECT jobq_create_queue('brief', keep_completed => '0', keep_failed => '0'), jobq_set_limit('busy 1', max_running => 5);
    CREATE TABLE committed (id bigint);
    CREATE FUNCTION wide() RETURNS jsonb LANGUAGE sql AS
        $$SELECT jsonb_build_object('text', (SELECT string_agg(md5(random()::text), '') FROM generate_series(1, (random() * 150)::int)))$$;
    CREATE FUNCTION enqueue() RETURNS void LANGUAGE sql AS $$
        INSERT INTO committed SELECT jobq_enqueue((ARRAY['busy 1', 'busy 2', 'brief'])[1 + floor(random() * 3)::int], wide(), group_key => CASE WHEN random() < 0.2 THEN 'g' END);
        INSERT INTO committed SELECT job_id FROM jobq_enqueue_many('busy 2', ARRAY[wide(), '{}', wide()]);
        WITH i AS (INSERT INTO jobq.jobs (queue, payload) VALUES ('busy 1', wide()) RETURNING id) INSERT INTO committed SELECT id FROM i$$;
    CREATE PROCEDURE be_busy(client int, rounds int) LANGUAGE plpgsql AS $$
    DECLARE
        queue text;
    BEGIN
        FOR round IN 1 .. rounds LOOP
            PERFORM enqueue();
            BEGIN
                PERFORM enqueue();
                PERFORM jobq_complete(id, lease) FROM jobq_claim('busy 2', batch => 3);
                RAISE EXCEPTION 'undone';
            EXCEPTION WHEN raise_exception THEN
            END;
            IF round % 5 = 0 THEN ROLLBACK; ELSE COMMIT; END IF;
            FOREACH queue IN ARRAY '{busy 1,busy 2,brief}'::text[] LOOP
                PERFORM CASE WHEN random() < 0.1 THEN jobq_fail(id, lease, repeat('e', 500), interval '0')::text WHEN random() < 0.1 THEN jobq_release(id, lease)::text
                             WHEN random() < 0.8 THEN jobq_complete(id, lease, wide())::text ELSE jobq_heartbeat(id, lease, wide()) END
                FROM jobq_claim(queue, 'w' || client, batch => 4, heartbeat_timeout => '200 ms');
                COMMIT;
            END LOOP;
            PERFORM jobq_cancel_jobs('busy 2', max_jobs => 1), jobq_delete_jobs('busy 1', statuses => '{completed}', max_jobs => 1);
            COMMIT;
        END LOOP;
    END $$});

my (@clients, @out);
for my $client (1 .. 3)
{
    my $prepared = join "\n", map { "BEGIN; SELECT enqueue(); PREPARE TRANSACTION '$client $_'; @{[ $_ % 2 ? 'COMMIT' : 'ROLLBACK' ]} PREPARED '$client $_';" } 1 .. 5;
    my $script = $node->basedir . "/client$client.sql";
    append_to_file($script, "CALL be_busy($client, 40);\n$prepared\n");
    $out[$client] = '';
    push @clients, start([ 'psql', '-XqAt', '-f', $script, $node->connstr('work') ], '>', '/dev/null', '2>', \$out[$client]);
}
# The slots are also read during the load.
my %decoded = map { $_ => {} } keys %plugins;
while (grep { $_->pumpable } @clients)
{
    $_->pump_nb for grep { $_->pumpable } @clients;
    decode($_) for keys %plugins;
    usleep(100_000);
}
$_->finish for @clients;
is(join('', @out[ 1 .. 3 ]), '', 'no client reports an error');

# Running jobs are rescued; after that nothing changes anymore.
becomes_true($node, 'work', q{SELECT NOT EXISTS (SELECT FROM jobq.jobs WHERE status = 'processing')}, 'running jobs are rescued');
settings($node, 'jobq.enabled = off');
$node->reload;
becomes_true($node, 'postgres', q{SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'jobq worker')}, 'the worker has exited');

my %committed = map { $_ => 1 } split /\n/, value($node, 'work', 'SELECT id FROM committed');
cmp_ok(scalar keys %committed, '>', 200, 'jobs: ' . keys %committed);
for my $plugin (sort keys %plugins)
{
    decode($plugin);
    my $seen = $decoded{$plugin};
    is_deeply([ sort grep { $seen->{inserted}{$_} != 1 } keys %{ $seen->{inserted} } ], [], "$plugin: each job is inserted once");
    is_deeply([ sort keys %{ $seen->{inserted} } ], [ sort keys %committed ], "$plugin: the inserted jobs are exactly the committed ones");
    cmp_ok($seen->{changes}{$_} // 0, '>', 50, "$plugin: many $_ changes") for qw(INSERT UPDATE DELETE);
    for my $table (sort keys %tables)
    {
        my %rows = rows_of($table);
        my $got = $seen->{rows}{$table} // {};
        is_deeply([ sort keys %$got ], [ sort keys %rows ], "$plugin: the decoded rows of $table are those of the table");
        is_deeply([ grep { !same($got->{$_}, $rows{$_}) } sort keys %rows ], [], "$plugin: the columns of each row are equal");
    }
}

# The comparison detects a lost change.
my ($plugin) = sort keys %plugins;
my %rows = rows_of('jobq.jobs');
my ($id) = sort keys %rows;
ok(!same({ %{ $decoded{$plugin}{rows}{'jobq.jobs'}{$id} }, status => 'lost' }, $rows{$id}), 'a row with another status is different');

value($node, 'work', "SELECT pg_drop_replication_slot('$_')") for sort keys %plugins;
unlike(log_since($node), qr/PANIC|TRAP|terminated by signal|XX000/, 'no crash, no internal error');
# ---- a handler that fails while it reads a slot releases the slot, as a session would

my $reader = q{
    CREATE ROLE reader LOGIN REPLICATION;
    CREATE FUNCTION read_slot(job jsonb) RETURNS void LANGUAGE sql AS
        $$SELECT FROM pg_logical_slot_get_changes(job #>> '{payload,slot}', NULL, NULL, 'no-such-option', 'x')$$;
    SELECT jobq_set_handler('slots', '', 'read_slot(jsonb)', 'reader');
    SELECT pg_create_logical_replication_slot(slot, 'test_decoding') FROM unnest('{first,second}'::text[]) AS slot};
value($node, 'work', $reader);
settings($node, 'jobq.enabled = on');
$node->reload;
value($node, 'work', qq{SELECT jobq_enqueue('slots', '{"slot": "$_"}', max_attempts => 1)}) for qw(first second);
becomes_true($node, 'work', q{SELECT count(*) = 2 FROM jobq.jobs WHERE queue = 'slots' AND status = 'failed' AND error ~ 'no-such-option'}, 'a handler fails while it reads a slot');
is(value($node, 'work', q{SELECT string_agg(slot_name || ' ' || active, ', ' ORDER BY slot_name) FROM pg_replication_slots}), 'first false, second false', 'its executor holds no slot afterward');
is(value($node, 'work', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'jobq executor'}), '1', 'the executor is still running');

$node->stop;
done_testing();

# Returns the rows of a table by key. Each row is a hash of texts without the columns that are NULL.
sub rows_of
{
    my ($table) = @_;
    my $object = value($node, 'work', qq{SELECT format('jsonb_object(ARRAY[%s], ARRAY[%s])', string_agg(quote_literal(attname), ', ' ORDER BY attnum),
            string_agg(format('t.%I::text', attname), ', ' ORDER BY attnum))
        FROM pg_attribute WHERE attrelid = '$table'::regclass AND attnum > 0 AND NOT attisdropped});
    my %rows;
    for my $line (split /\n/, value($node, 'work', "SELECT jsonb_strip_nulls($object) FROM $table t"))
    {
        my $row = JSON::PP->new->decode($line);
        $rows{ key_of($table, $row) } = $row;
    }
    return %rows;
}

sub key_of { my ($table, $row) = @_; return join ' ', map { $row->{$_} } @{ $tables{$table} }; }

sub same
{
    my ($got, $wanted) = @_;
    return 0 unless $got && keys %$got == keys %$wanted;
    return !grep { !defined $got->{$_} || $got->{$_} ne $wanted->{$_} } keys %$wanted;
}

# Reads the changes from a slot and applies them to the decoded rows.
sub decode
{
    my ($name) = @_;
    my $seen = $decoded{$name};
    for my $line (split /\n/, value($node, 'work', "SELECT data FROM pg_logical_slot_get_changes('$name', NULL, NULL, $plugins{$name}{options})"))
    {
        my ($table, $change, $row) = $plugins{$name}{read}->($line) or next;
        next unless $tables{$table};
        my $key = key_of($table, $row);
        my $rows = $seen->{rows}{$table} //= {};
        $seen->{changes}{$change}++;
        $seen->{inserted}{$key}++ if $change eq 'INSERT' && $table eq 'jobq.jobs';
        if ($change eq 'DELETE') { delete $rows->{$key}; next; }
        # An UPDATE leaves out a TOASTed value that it does not change.
        my %row = (%{ $change eq 'UPDATE' ? $rows->{$key} // {} : {} }, %$row);
        delete $row{$_} for grep { !defined $row{$_} } keys %row;
        $rows->{$key} = \%row;
    }
    return;
}

sub read_wal2json
{
    my ($line) = @_;
    my $change = JSON::PP->new->decode($line);
    my %names = (I => 'INSERT', U => 'UPDATE', D => 'DELETE');
    my $name = $names{ $change->{action} } or return;
    my %row = map { $_->{name} => text_of($_->{value}) } @{ $change->{columns} // $change->{identity} };
    return ("$change->{schema}.$change->{table}", $name, \%row);
}

sub text_of
{
    my ($value) = @_;
    return $value if !defined $value || !ref $value;
    return JSON::PP::is_bool($value) ? ($value ? 'true' : 'false') : "$value";
}

# table jobq.jobs: UPDATE: id[bigint]:1 queue[text]:'it''s' error[text]:null payload[jsonb]:unchanged-toast-datum
sub read_test_decoding
{
    my ($line) = @_;
    my ($table, $change, $columns) = $line =~ /^table (\S+): ([A-Z]+): (.*)$/ or return;
    $columns =~ s/^old-key: .* new-tuple: //;
    my %row;
    while ($columns =~ /\G"?(\w+)"?\[[^]:]+(?:\[\])?\]:('(?:[^']|'')*'|\S+)\s*/g)
    {
        my ($name, $value) = ($1, $2);
        next if $value eq 'unchanged-toast-datum';
        $row{$name} = $value eq 'null' ? undef : $value =~ s/^'(.*)'$/$1/sr =~ s/''/'/gr;
    }
    return ($table, $change, \%row);
}
