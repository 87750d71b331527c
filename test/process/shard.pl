# Tests that a restored dump and a promoted standby remain the same shard, and that new ids follow the existing ones, also after a
# crash.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/lib";

use JobqTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = preloaded('shard', init => { allows_streaming => 1 });
database($node, 'work');
is(value($node, 'work', q{SELECT jobq_set_shard(7), jobq_enqueue('kept')}), 't|1031', 'the first id of shard 7');
value($node, 'work', q{SELECT count(*) FROM jobq_enqueue_many('kept', array_fill('{}'::jsonb, ARRAY[5]))});
my $last = value($node, 'work', 'SELECT max(id) FROM jobq.jobs');
is($last, 6 * 1024 + 7, 'ids are 1024 apart');
# A job that came from a dump of another database, with an id of another shard.
value($node, 'work', <<'SQL');
CREATE TEMPORARY TABLE other AS SELECT * FROM jobq.jobs LIMIT 1;
UPDATE other SET id = 1;
SET check_function_bodies = off;
INSERT INTO jobq.jobs OVERRIDING SYSTEM VALUE SELECT * FROM other;
SQL

# Tests that the database is shard 7, that it has its jobs, and that the next id follows them.
sub goes_on
{
    my ($where, $database, $name, $jobs) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is(value($where, $database, 'SELECT jobq_shard_id()'), '7', "$name: the database is shard 7");
    is(value($where, $database, 'SELECT count(*), max(id) FROM jobq.jobs'), ($jobs // 7) . "|$last", "$name: the jobs are there");
    my $next = value($where, $database, q{SELECT jobq_enqueue('more')});
    cmp_ok($next, '>', $last, "$name: the next id is higher");
    is($next % 1024, 7, "$name: the next id belongs to the shard");
    return;
}

my $directory = PostgreSQL::Test::Utils::tempdir;
$node->command_ok([ 'pg_dump', '-f', "$directory/sql", $node->connstr('work') ], 'pg_dump');
$node->command_ok([ 'pg_dump', '-Fc', '-f', "$directory/archive", $node->connstr('work') ], 'pg_dump -Fc');
$node->command_ok([ 'pg_dump', '-a', '-Fc', '-f', "$directory/data", $node->connstr('work') ], 'pg_dump -a');

value($node, 'postgres', 'CREATE DATABASE text');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('text'), '-f', "$directory/sql" ], 'psql');
goes_on($node, 'text', 'psql');
value($node, 'postgres', 'CREATE DATABASE parallel');
$node->command_ok([ 'pg_restore', '-j2', '-d', $node->connstr('parallel'), "$directory/archive" ], 'pg_restore -j2');
goes_on($node, 'parallel', 'pg_restore -j2');
# Restores the data only, into a database that has the rows of a new extension.
for my $once ('-1', '--disable-triggers')
{
    (my $name = "data$once") =~ tr/-/_/;
    database($node, $name);
    value($node, $name, 'TRUNCATE jobq.identity');
    $node->command_ok([ 'pg_restore', '-a', $once, '-d', $node->connstr($name), "$directory/data" ], "pg_restore -a $once");
    next if $once eq '-1' && (goes_on($node, $name, 'data alone'), 1);
    is(value($node, $name, 'SELECT jobq_shard_id() IS NULL'), 't', 'without triggers, the database is not a shard');
    is(value($node, $name, 'SELECT jobq_delete(1), jobq_set_shard(7)'), 'pending|t', 'it becomes a shard after the job with an id of another shard is deleted');
    goes_on($node, $name, 'data only, without triggers', 6);
}

# ---- a promoted standby and a crash

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby);
is(value($standby, 'work', 'SELECT jobq_shard_id()'), '7', 'a standby is the same shard');
$standby->promote;
goes_on($standby, 'work', 'promoted');
$standby->stop('immediate');
$standby->start;
cmp_ok(value($standby, 'work', q{SELECT jobq_enqueue('more')}), '>', $last, 'new ids follow after a crash');
is(value($standby, 'work', 'SELECT count(*) FROM jobq.jobs WHERE id % 1024 <> 7'), '1', 'all ids except that one belong to the shard');

done_testing();
