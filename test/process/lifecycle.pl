# Tests that commands which need exclusive access to a database succeed without FORCE while a worker is connected, also if the owner
# of the database is not a superuser. JOBQ_LIFECYCLE_ROUNDS is the number of times each command is tried (default 20).
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use JobqTime;
use Test::More;
use Time::HiRes qw(time);

my $rounds = $ENV{JOBQ_LIFECYCLE_ROUNDS} // 20;
my $limit = 2;    # seconds for one command

# With a short tick interval the worker is back soon after each command and is found waiting as well as working. With jobq.adopt =
# auto, a copy of the database is adopted and has a worker, too.
my $node = preloaded('lifecycle', conf => [ 'allow_in_place_tablespaces = on', 'jobq.tick_interval = 100ms', 'jobq.adopt = auto' ]);
value($node, 'postgres', q{CREATE ROLE keeper LOGIN CREATEDB});
value($node, 'postgres', q{CREATE TABLESPACE elsewhere LOCATION ''});
value($node, 'postgres', q{GRANT CREATE ON TABLESPACE elsewhere TO keeper});

# Creates pending, running, and delayed jobs, so that the database is in use.
my $work = q{
    SELECT jobq_enqueue('q'), jobq_enqueue('q'), jobq_enqueue('q', run_at => clock_timestamp() + interval '1 h');
    SELECT id FROM jobq_claim('q', 'w')};

my %seconds;
my %failures;

# Runs a command as the owner of the database while a worker is connected to it.
sub in_spite_of_worker
{
    my ($name, $database, $sql) = @_;
    if (!await_worker($node, $database))
    {
        push @{ $failures{$name} }, "no worker came to $database";
        return;
    }
    my $begin = time;
    my ($out, $err, $ok) = run_sql($node, 'postgres', $sql, connect_as('keeper'));
    push @{ $seconds{$name} }, time - $begin;
    push @{ $failures{$name} }, $err unless $ok;
    return;
}

for my $round (1 .. $rounds)
{
    database($node, 'shop', owner => 'keeper');
    value($node, 'shop', $work);
    in_spite_of_worker('CREATE DATABASE ... TEMPLATE', 'shop', 'CREATE DATABASE copy TEMPLATE shop');
    in_spite_of_worker('ALTER DATABASE ... RENAME', 'shop', 'ALTER DATABASE shop RENAME TO store');
    in_spite_of_worker('ALTER DATABASE ... SET TABLESPACE', 'store', 'ALTER DATABASE store SET TABLESPACE elsewhere');
    in_spite_of_worker('DROP DATABASE', 'store', 'DROP DATABASE store');
    in_spite_of_worker('DROP DATABASE of a copy', 'copy', 'DROP DATABASE copy');
    run_sql($node, 'postgres', "DROP DATABASE IF EXISTS $_ WITH (FORCE)") for qw(shop store copy);
    last if keys %failures;
}

for my $name ('CREATE DATABASE ... TEMPLATE', 'ALTER DATABASE ... RENAME', 'ALTER DATABASE ... SET TABLESPACE',
    'DROP DATABASE', 'DROP DATABASE of a copy')
{
    my @tries = @{ $seconds{$name} // [] };
    is(scalar @tries, $rounds, "$name was tried $rounds times");
    is(join("\n", @{ $failures{$name} // [] }), '', "$name succeeds with a live worker");
    next unless @tries;
    in_time(report_spread($name, @tries), $limit, "$name takes less than $limit s", 60);
}

# ---- a renamed database has its jobs and a worker under its new name

database($node, 'before', owner => 'keeper');
value($node, 'before', $work);
await_worker($node, 'before');
value($node, 'postgres', 'ALTER DATABASE before RENAME TO after', connect_as('keeper'));
value($node, 'after', q{SELECT jobq_enqueue('soon', run_at => clock_timestamp() + interval '50 ms')});
becomes_true($node, 'after', q{SELECT status = 'pending' FROM jobq.jobs WHERE queue = 'soon'}, 'a renamed database is served');
is( value($node, 'after', q{SELECT count(*) FROM jobq.background_workers WHERE database IN ('after', 'before')}),
    '1', 'jobq.background_workers shows its new name');

# A command that fails or is canceled does not keep the workers away.
my $guest = session($node, 'after');
my ($out, $err) = run_sql($node, 'postgres', 'DROP DATABASE after', connect_as('keeper'));
like($err, qr/is being accessed by other users/, 'DROP DATABASE fails because of another session');
ok(await_worker($node, 'after'), 'the worker connects again');
$guest->quit;

# The command of a role that does not own the database does not disconnect the worker.
value($node, 'postgres', 'CREATE ROLE stranger LOGIN');
is(sqlstate($node, 'postgres', 'DROP DATABASE after', connect_as('stranger')), '42501', 'a role that does not own the database cannot drop it');

# ---- DROP EXTENSION, CREATE EXTENSION, DROP OWNED

my $position = log_size($node);
database($node, 'swap');
my @drops;
for my $round (1 .. 5)
{
    value($node, 'swap', $work);
    last unless await_worker($node, 'swap');
    my $begin = time;
    value($node, 'swap', 'DROP EXTENSION jobq');
    push @drops, time - $begin;
    value($node, 'swap', 'CREATE EXTENSION jobq');
}
is(scalar @drops, 5, 'DROP EXTENSION succeeds with a connected worker, and CREATE EXTENSION after it');
in_time(report_spread('DROP EXTENSION', @drops), $limit, "takes less than $limit s", 60) if @drops;
value($node, 'swap', q{SELECT jobq_enqueue('soon', run_at => clock_timestamp() + interval '50 ms')});
becomes_true($node, 'swap', q{SELECT status = 'pending' FROM jobq.jobs WHERE queue = 'soon'}, 'the new extension is served');

# In one transaction: the background worker waits or yields, and neither it nor the session waits long.
my $begin = time;
value($node, 'swap', 'BEGIN; DROP EXTENSION jobq; CREATE EXTENSION jobq; COMMIT');
in_time(time - $begin, $limit, 'DROP and CREATE EXTENSION in one transaction');
value($node, 'swap', $work);
ok(await_worker($node, 'swap'), 'the new extension is served');

value($node, 'swap', 'DROP EXTENSION jobq; CREATE ROLE boss SUPERUSER; SET ROLE boss; CREATE EXTENSION jobq');
value($node, 'swap', $work);
ok(await_worker($node, 'swap'), 'an extension of another owner is served');
$begin = time;
value($node, 'swap', 'DROP OWNED BY boss CASCADE');
in_time(time - $begin, $limit, 'DROP OWNED with a connected worker');
is(value($node, 'swap', q{SELECT count(*) FROM pg_namespace WHERE nspname = 'jobq'}), '0', 'the schema is gone');
becomes_true($node, 'postgres', q{SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = 'swap')},
    'the worker disconnects from a database without the extension');
is(value($node, 'after', q{SELECT count(*) FROM jobq.background_workers WHERE database = 'swap'}), '0', 'jobq.background_workers does not show it anymore');

unlike(log_since($node, $position), qr/jobq worker.*(?:ERROR|FATAL)/, 'no worker reported an error');
unlike(log_since($node), qr/(?:PANIC|TRAP|terminated by signal)/, 'no process crashed');

done_testing();
