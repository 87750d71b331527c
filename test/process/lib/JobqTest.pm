# Functions for all process tests: servers with and without jobq preloaded, sessions, waiting for a condition, and printing
# measurements. Nothing here sleeps for a guessed time: every wait ends when its condition holds.
package JobqTest;

use strict;
use warnings FATAL => 'all';

# How long a query of a session may take. This is longer than any wait, because IPC::Run also counts the time in which a test waits.
BEGIN { $ENV{PG_TEST_TIMEOUT_DEFAULT} //= 300; }

use Exporter 'import';
use JobqSql;
use List::Util qw(max min);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

our @EXPORT = qw(server preloaded database value run_sql sqlstate session seconds_until becomes_true
  claim_when_ready end_sessions await_worker worker_pid launcher_pid report_seconds report_spread log_size log_since
  count_in_log settings connect_as keep_in_use kill_server starts_again counters_differ);

my $poll_pause = 0.02;    # seconds between two probes at the beginning; later a fifth of the time waited, up to $longest
my $longest    = 0.15;    # seconds; a probe is a psql process, which uses the processor for 20 ms
my $patience   = 90;      # seconds after which a wait, and its test, fails

# Starts a server. `conf`: lines for postgresql.conf, which override all others; `cluster`, `init`: options for
# PostgreSQL::Test::Cluster and its init.
sub server
{
    my ($name, %option) = @_;
    my $node = PostgreSQL::Test::Cluster->new($name, %{ $option{cluster} // {} });
    $node->init(%{ $option{init} // {} });
    settings($node, 'restart_after_crash = on', 'log_statement = none', @{ $option{conf} // [] });
    $node->start unless $option{stopped};
    return $node;
}

sub preloaded
{
    my ($name, %option) = @_;
    $option{conf} = [ "shared_preload_libraries = 'jobq'", @{ $option{conf} // [] } ];
    return server($name, %option);
}

# Adds lines to the configuration file of a server.
sub settings
{
    my ($node, @lines) = @_;
    $node->append_conf('postgresql.conf', join "\n", @lines, '');
    return;
}

# Creates a database with the extension. `owner`: its owner, by default the superuser.
sub database
{
    my ($node, $name, %option) = @_;
    my $owner = $option{owner} ? " OWNER $option{owner}" : '';
    $node->safe_psql('postgres', qq{CREATE DATABASE "$name"$owner});
    $node->safe_psql($name, 'CREATE EXTENSION jobq');
    return;
}

# Enqueues a job that is never claimed, so that the worker keeps running rounds.
sub keep_in_use
{
    my ($node, $name) = @_;
    return value($node, $name, q{SELECT jobq_enqueue('kept', run_at => clock_timestamp() + interval '1 day')});
}

# Returns options for psql to connect as another role.
sub connect_as { return (extra_params => [ '-U', shift ]); }

# Executes SQL that must succeed; returns the output of psql.
sub value
{
    my ($node, $database, $sql, %params) = @_;
    my ($out, $err, $ok) = run_sql($node, $database, $sql, %params);
    die "error running SQL: '$err'\nwith: $sql" unless $ok;
    print STDERR $err if $err ne '';
    return $out;
}

# Executes SQL that may fail; returns its output, its errors, and whether it succeeded.
sub run_sql
{
    my ($node, $database, $sql, %params) = @_;
    my ($out, $err, $ok) = ('', '');
    my @user = @{ $params{extra_params} // [] };
    if (JobqSql::needs_psql($sql) || grep({ $_ ne 'extra_params' } keys %params) || (@user && $user[0] ne '-U') || @user > 2)
    {
        $ok = $node->psql($database, $sql, stdout => \$out, stderr => \$err, %params) == 0;
    }
    else { ($out, $err, $ok) = run_here($node->connstr($database), $user[1], $sql); }
    chomp($out, $err);
    return ($out, $err, $ok);
}

# Returns the SQLSTATE with which SQL fails, or 00000 if it succeeds.
sub sqlstate
{
    my ($node, $database, $sql, %params) = @_;
    my ($out, $err, $ok) = run_sql($node, $database, "\\set VERBOSITY sqlstate\n$sql", %params);
    return '00000' if $ok;
    return $err =~ /ERROR:\s+(\w{5})/ ? $1 : "no SQLSTATE in: $err";
}

# Opens a session. Errors do not end it; each query may take as long as any wait.
sub session
{
    my ($node, $database, %option) = @_;
    my $session = $node->background_psql($database, on_error_stop => 0, %option);
    $session->set_query_timer_restart();
    return $session;
}

# Ends sessions in any state. They execute a statement first, because a session that has been idle for long would time out while it
# ends.
sub end_sessions
{
    for my $session (@_)
    {
        $session->query('ROLLBACK');
        $session->quit;
    }
    return;
}

# Calls $probe until it returns a true value. Returns the seconds that this took, or undef if it never did.
sub seconds_until
{
    my ($probe, $limit) = @_;
    $limit //= $patience;
    my $begin = time;
    for (;;)
    {
        my $holds = $probe->();
        my $took = time - $begin;
        return $took if $holds;
        return undef if $took > $limit;
        usleep(1e6 * max($poll_pause, min($took / 5, $longest)));
    }
}

# Kills a server and all its processes at once. The postmaster is stopped first, so that it starts no process that this does
# not see: such a process could wait forever for a lock that a killed process holds, and keep the shared memory in use.
sub kill_server
{
    my ($node) = @_;
    my ($postmaster) = split /\n/, slurp_file($node->data_dir . '/postmaster.pid');
    kill 'STOP', $postmaster;
    my @children = children($postmaster);
    $node->kill9;
    kill 'KILL', @children;
    return;
}

sub children
{
    my ($parent) = @_;
    my @found;
    for my $stat (glob '/proc/[0-9]*/stat')
    {
        open my $file, '<', $stat or next;
        my $line = <$file> // '';
        push @found, $1 if $line =~ /^(\d+) \(.*\) \S $parent /s;
    }
    return @found;
}

# Asserts that a server that was killed can be started. Its old shared memory is in use until all killed processes have ended.
sub starts_again
{
    my ($node) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $took = seconds_until(
        sub {
            return 1 if $node->start(fail_ok => 1);
            $node->stop('fast', fail_ok => 1);
            return 0;
        });
    my $started = ok(defined $took, 'the server starts again');
    diag('the end of its log: ', substr(slurp_file($node->logfile), -3000)) unless $started;
    return $started;
}

# Returns SQL that executes a query repeatedly for some seconds and returns `t` as soon as the query does. It uses one session,
# because starting psql for each try would use more CPU time than the process that the test waits for.
sub asked_again
{
    my ($sql) = @_;
    return qq{
    DO \$asked\$
    DECLARE
        holds boolean;
    BEGIN
        FOR look IN 1..40 LOOP
            EXECUTE \$look\$$sql\$look\$ INTO holds;
            PERFORM set_config('jobq_test.holds', coalesce(holds, false)::text, false);
            EXIT WHEN holds;
            COMMIT;
            PERFORM pg_sleep(least(0.02 * look, 0.1));
        END LOOP;
    END \$asked\$;
    SELECT current_setting('jobq_test.holds')::boolean};
}

# Asserts that a query returns `t` when it is executed repeatedly. Returns the seconds until it did. The server may be down for some
# time.
sub becomes_true
{
    my ($node, $database, $sql, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my ($out, $err);
    my $again = $sql;
    my $took = seconds_until(
        sub {
            ($out, $err) = run_sql($node, $database, $again);
            $again = asked_again($sql) unless $sql =~ /;/;
            return $err eq '' && $out eq 't';
        });
    ok(defined $took, $name) or diag("last answer of $sql: $out $err");
    return $took // 1e9;
}

# Claims from a queue repeatedly, in transactions of its own, until it gets a job. $more: further arguments of the claim. Returns a
# hash with id, lease, attempt, and `at`, the epoch of the claim, or undef if there was no job.
sub claim_when_ready
{
    my ($node, $database, $queue, $more) = @_;
    $more //= '';
    my $row = value(
        $node, $database, qq{
        CREATE TEMP TABLE got (id bigint, lease bigint, attempt int, at float);
        DO \$\$
        DECLARE
            give_up timestamptz := clock_timestamp() + interval '$patience s';
        BEGIN
            LOOP
                INSERT INTO got SELECT c.id, c.lease, c.attempt, extract(epoch FROM clock_timestamp())
                FROM jobq_claim('$queue', 'patient' $more) c;
                EXIT WHEN FOUND OR clock_timestamp() > give_up;
                COMMIT;
                PERFORM pg_sleep(0.005);
            END LOOP;
        END \$\$;
        SELECT * FROM got});
    return undef if $row eq '';
    my %job;
    @job{qw(id lease attempt at)} = split /\|/, $row;
    return \%job;
}

# Returns SQL that selects the differences between jobq.queue_stats and the rows; the result is empty if there are none.
sub counters_differ
{
    return q{
    SELECT string_agg(format('%s %s: %s counted, %s rows', coalesce(s.queue, j.queue), coalesce(s.status, j.status), s.shown, j.rows), ', ')
    FROM (SELECT q.queue, u.status, (to_jsonb(q) ->> u.status)::bigint AS shown
          FROM jobq.queue_stats q, unnest(enum_range(NULL::jobq.job_status)::text[]) u(status)) s
    FULL JOIN (SELECT queue, status::text, count(*) AS rows FROM jobq.jobs GROUP BY 1, 2) j
         ON j.queue = s.queue AND j.status = s.status
    WHERE coalesce(s.shown, 0) <> coalesce(j.rows, 0)};
}

sub worker_pid
{
    my ($node, $database) = @_;
    return value($node, 'postgres',
        "SELECT pid FROM pg_stat_activity WHERE backend_type = 'jobq worker' AND datname = '$database'");
}

sub launcher_pid
{
    my ($node) = @_;
    return value($node, 'postgres', "SELECT pid FROM pg_stat_activity WHERE backend_type = 'jobq launcher'");
}

# Waits until a background worker is connected to the database. Returns its pid, or undef if there is none.
sub await_worker
{
    my ($node, $database) = @_;
    my $pid = '';
    seconds_until(
        sub {
            ($pid) = run_sql($node, 'postgres',
                "SELECT pid FROM pg_stat_activity WHERE backend_type = 'jobq worker' AND datname = '$database'");
            return $pid =~ /^\d+$/;
        });
    return $pid =~ /^\d+$/ ? $pid : undef;
}

sub report_seconds
{
    my ($what, $seconds) = @_;
    diag(sprintf '%s: %.3f s', $what, $seconds);
    return;
}

# Prints the median and maximum of many measurements; returns the maximum.
sub report_spread
{
    my ($what, @seconds) = @_;
    my @sorted = sort { $a <=> $b } @seconds;
    diag(sprintf '%s: %d measured, median %.1f ms, max %.1f ms',
        $what, scalar @sorted, 1000 * $sorted[ @sorted / 2 ], 1000 * $sorted[-1]);
    return $sorted[-1];
}

sub log_size { return -s shift->logfile; }

# Returns the server's log from a position on, as returned by log_size().
sub log_since
{
    my ($node, $position) = @_;
    return slurp_file($node->logfile, $position // 0);
}

sub count_in_log
{
    my ($node, $pattern, $position) = @_;
    my $count = () = log_since($node, $position) =~ /$pattern/g;
    return $count;
}

1;
